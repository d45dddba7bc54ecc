//! `highwater status`: which brokers there are, who leads what, who is in sync, and why somebody is not.
//!
//! One broker tells what it has heard from the controller; how far a partition is, is asked of its leader.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use highwater_engine::units::{LeaderEpoch, NodeId, Offset, Timestamp, TopicPartition};
use highwater_replication::controller::{BrokerStatus, ClusterState, PartitionState, ReplicaReport};
use serde::{Deserialize, Serialize};

use super::{AskError, Connection, PartitionMarks, ToolReply, ToolRequest};
use crate::settings::HostPort;

/// A cluster at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// All brokers that ever were in it.
    pub brokers: Vec<BrokerLine>,
    /// All partitions, by topic and number.
    pub partitions: Vec<PartitionLine>,
}

/// One broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerLine {
    /// Its id.
    pub id: i32,
    /// Where clients reach it.
    pub host: String,
    /// The port there.
    pub port: u16,
    /// Its process, if it told it.
    pub pid: Option<u32>,
    /// Whether the controller counts on it.
    pub alive: bool,
}

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionLine {
    /// The topic.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
    /// Who leads, if anybody can.
    pub leader: Option<i32>,
    /// The epoch of its leadership.
    pub leader_epoch: i32,
    /// Who holds it; the first is the preferred leader.
    pub replicas: Vec<i32>,
    /// Who of them is being added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adding: Vec<i32>,
    /// Who of them goes when those have everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removing: Vec<i32>,
    /// Who is in sync.
    pub isr: Vec<i32>,
    /// Who is not, and why.
    pub out_of_sync: Vec<OutOfSyncLine>,
    /// Below it everything is committed; absent if its leader could not be asked.
    pub high_watermark: Option<i64>,
    /// The end of the leader's log; absent if the leader could not be asked.
    pub log_end: Option<i64>,
    /// Committed records that elections have lost: from where up to where, if that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<(i64, Option<i64>)>,
    /// Ends from which on records may be lost, though nobody knows of any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub possibly_lost_from: Vec<i64>,
    /// While nobody leads: what the replicas have, as far as they have said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<ReportLine>,
    /// Who has a range of offsets that cannot be read, until it is fetched from another replica.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<i32>,
}

/// What a replica has said of itself while nobody leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportLine {
    /// The broker.
    pub id: i32,
    /// The leader epoch of its last batch, if it has any.
    pub last_epoch: Option<i32>,
    /// Where its log ends.
    pub end: i64,
    /// Below it everything is committed, as far as it has heard.
    pub known_committed: Option<i64>,
}

/// A replica that is not in sync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutOfSyncLine {
    /// The broker.
    pub id: i32,
    /// Since when, in milliseconds since 1970; absent if the controller does not know.
    pub since_ms: Option<i64>,
    /// Why, in words.
    pub reason: String,
}

fn ids(nodes: &[NodeId]) -> Vec<i32> {
    nodes.iter().map(|node| node.value()).collect()
}

impl ClusterStatus {
    /// The status of a cluster in this state; how far the partitions are is not in it.
    pub fn of(state: &ClusterState) -> Self {
        let broker = |(id, broker): (&NodeId, &highwater_replication::controller::Broker)| BrokerLine {
            id: id.value(),
            host: broker.host.clone(),
            port: broker.port,
            pid: broker.process,
            alive: broker.status != BrokerStatus::Fenced,
        };
        Self {
            brokers: state.brokers.iter().map(broker).collect(),
            partitions: state.partitions().map(|(name, _, partition)| line(&name, partition)).collect(),
        }
    }

    /// Takes in what a leader says about its partitions. An answer of another leadership is left out.
    pub fn put_marks(&mut self, marks: &[PartitionMarks]) {
        let marks: BTreeMap<_, _> = marks.iter().map(|marks| (&marks.partition, marks)).collect();
        for line in &mut self.partitions {
            let Ok(name) = TopicPartition::new(&line.topic, line.partition) else { continue };
            if let Some(marks) = marks.get(&name).filter(|marks| marks.leader_epoch == line.leader_epoch) {
                line.high_watermark = marks.high_watermark;
                line.log_end = Some(marks.log_end);
            }
        }
    }

    /// The status as a table.
    pub fn for_people(&self, now: Timestamp) -> String {
        let mut text = String::from("BROKER  ADDRESS               PROCESS  STATE\n");
        for broker in &self.brokers {
            let address = HostPort { host: broker.host.clone(), port: broker.port }.to_string();
            let process = broker.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
            let state = if broker.alive { "alive" } else { "down" };
            let _infallible = writeln!(text, "{:<7} {address:<21} {process:<8} {state}", broker.id);
        }
        if self.partitions.is_empty() {
            text.push_str("\nno topics yet\n");
            return text;
        }
        let width = self.partitions.iter().map(|p| p.topic.len()).max().unwrap_or(0).max(5) + 6;
        let _infallible = writeln!(
            text,
            "\n{:<width$} LEADER  EPOCH  REPLICAS    IN SYNC     HIGH WATERMARK  LOG END",
            "PARTITION"
        );
        for partition in &self.partitions {
            partition.write(&mut text, width, now);
        }
        text
    }
}

impl PartitionLine {
    fn write(&self, text: &mut String, width: usize, now: Timestamp) {
        let list = |ids: &[i32]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let number = |value: Option<i64>| value.map_or_else(|| "?".to_owned(), |value| value.to_string());
        let leader = self.leader.map_or_else(|| "nobody".to_owned(), |leader| leader.to_string());
        let _infallible = writeln!(
            text,
            "{:<width$} {leader:<7} {:<6} {:<11} {:<11} {:<15} {}",
            format!("{}-{}", self.topic, self.partition),
            self.leader_epoch,
            list(&self.replicas),
            list(&self.isr),
            number(self.high_watermark),
            number(self.log_end),
        );
        for out in &self.out_of_sync {
            let since = out.since_ms.map_or_else(String::new, |since| format!(" for {}", ago(since, now)));
            let _infallible = writeln!(text, "    broker {} is out of sync{since}: {}", out.id, out.reason);
        }
        for id in &self.removing {
            let _infallible =
                writeln!(text, "    broker {id} goes when those that are added have everything");
        }
        for id in &self.damaged {
            let _infallible = writeln!(
                text,
                "    broker {id} cannot read a range of its log; it is repaired from a replica that is whole"
            );
        }
        for (from, to) in &self.lost {
            let to = to.map_or_else(String::new, |to| format!(" up to {to}"));
            let _infallible = writeln!(text, "    LOST: the committed records from {from} on{to}");
        }
        for from in &self.possibly_lost_from {
            let _infallible =
                writeln!(text, "    records from {from} on may have been lost; nobody knows of any");
        }
    }
}

/// A span of time for people.
fn ago(since_ms: i64, now: Timestamp) -> String {
    let span = Duration::from_millis(u64::try_from(now.millis().saturating_sub(since_ms)).unwrap_or(0));
    match span.as_secs() {
        0 => format!("{} ms", span.as_millis()),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

fn line(name: &TopicPartition, state: &PartitionState) -> PartitionLine {
    let out = |node: &&NodeId| !state.in_sync(**node);
    let out_line = |node: &NodeId| {
        let known = state.out_of_sync.get(node);
        let suspicion = state.suspects.get(node).map(|why| format!("; it may lack committed records: {why}"));
        let reason = known.map_or_else(|| "not known".to_owned(), |out| out.reason.to_string());
        OutOfSyncLine {
            id: node.value(),
            since_ms: known.map(|out| out.since_ms),
            reason: reason + suspicion.as_deref().unwrap_or_default(),
        }
    };
    PartitionLine {
        topic: name.topic().to_owned(),
        partition: name.partition(),
        leader: state.leader.map(NodeId::value),
        leader_epoch: state.leader_epoch.value(),
        replicas: ids(&state.replicas),
        adding: ids(&state.adding),
        removing: ids(&state.removing),
        isr: ids(&state.isr),
        out_of_sync: state.replicas.iter().filter(out).map(out_line).collect(),
        high_watermark: None,
        log_end: None,
        lost: state.losses.iter().map(|loss| (loss.from.value(), loss.to.map(Offset::value))).collect(),
        possibly_lost_from: state.possible_losses.iter().map(|loss| loss.from.value()).collect(),
        reports: state.reports.iter().map(report_line).collect(),
        damaged: state.damaged.iter().map(|node| node.value()).collect(),
    }
}

fn report_line((node, report): (&NodeId, &ReplicaReport)) -> ReportLine {
    ReportLine {
        id: node.value(),
        last_epoch: report.last_epoch.map(LeaderEpoch::value),
        end: report.end.value(),
        known_committed: report.known_committed.map(Offset::value),
    }
}

/// Asks a broker for the cluster and each leader for its marks. A leader that does not answer leaves gaps, and no error.
pub fn gather(broker: &mut Connection) -> Result<ClusterStatus, AskError> {
    let ToolReply::Status(mut status) = broker.ask(&ToolRequest::Status)? else {
        return Err(broker.something_else());
    };
    let leads = |id: i32| status.partitions.iter().any(|partition| partition.leader == Some(id));
    let leaders: Vec<_> = status.brokers.iter().filter(|b| b.alive && leads(b.id)).collect();
    let mut answers = Vec::new();
    for leader in leaders {
        let address = HostPort { host: leader.host.clone(), port: leader.port };
        let answer = if address == *broker.address() {
            broker.ask(&ToolRequest::Marks)
        } else {
            match Connection::open_impatient(&address) {
                Ok(mut connection) => connection.ask(&ToolRequest::Marks),
                Err(_) => continue,
            }
        };
        if let Ok(ToolReply::Marks(marks)) = answer {
            answers.push(marks);
        }
    }
    for marks in &answers {
        status.put_marks(marks);
    }
    Ok(status)
}

#[cfg(test)]
mod status_test;
