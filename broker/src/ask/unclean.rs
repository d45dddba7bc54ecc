//! What an unclean election may lose, in words, before it is ordered.

use std::fmt::Write;

use super::{ClusterStatus, PartitionLine, ReportLine};

/// Why there is nothing to be ordered.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UncleanRefusal {
    /// No such partition.
    #[error("there is no partition {topic}-{partition}; `highwater topics list` shows what there is")]
    UnknownPartition {
        /// The topic.
        topic: String,
        /// The partition's number.
        partition: i32,
    },
    /// Somebody leads.
    #[error("broker {leader} leads {topic}-{partition}: nothing has to be given up; leave --unclean away")]
    NotNeeded {
        /// The topic.
        topic: String,
        /// The partition's number.
        partition: i32,
        /// Who leads.
        leader: i32,
    },
    /// Nobody knows where its log ends, so that the loss could not be recorded.
    #[error("broker {to} has not said what it has of {topic}-{partition}; start it")]
    Unknown {
        /// The topic.
        topic: String,
        /// The partition's number.
        partition: i32,
        /// Who is to lead.
        to: i32,
    },
}

/// What is given up if this broker leads a partition whatever it lacks.
pub fn what_may_be_lost(
    status: &ClusterStatus,
    topic: &str,
    partition: i32,
    to: i32,
) -> Result<String, UncleanRefusal> {
    let named = |line: &&PartitionLine| line.topic == topic && line.partition == partition;
    let topic = topic.to_owned();
    let Some(line) = status.partitions.iter().find(named) else {
        return Err(UncleanRefusal::UnknownPartition { topic, partition });
    };
    if let Some(leader) = line.leader {
        return Err(UncleanRefusal::NotNeeded { topic, partition, leader });
    }
    let Some(chosen) = line.reports.iter().find(|report| report.id == to) else {
        return Err(UncleanRefusal::Unknown { topic, partition, to });
    };
    let mut text = format!("{topic}-{partition}: broker {to} has everything below {}\n", chosen.end);
    for other in line.reports.iter().filter(|other| other.id != to) {
        describe(&mut text, other);
    }
    for id in line.replicas.iter().filter(|id| line.reports.iter().all(|report| report.id != **id)) {
        let _infallible = writeln!(text, "  broker {id} is away: what it has is not known");
    }
    let committed = line.reports.iter().filter_map(|report| report.known_committed).max();
    let _infallible = match committed.filter(|committed| *committed > chosen.end) {
        Some(to) => writeln!(text, "  LOST FOR CERTAIN: committed records from {} up to {to}", chosen.end),
        None => writeln!(text, "  of no committed record it is known that it would be lost"),
    };
    let _infallible = writeln!(
        text,
        "  every replica gives up what it has from {} on and broker {to} has not, acknowledged or not; `highwater status` shows it as lost",
        chosen.end
    );
    Ok(text)
}

fn describe(text: &mut String, report: &ReportLine) {
    let ReportLine { id, end, .. } = report;
    let knows = report.known_committed.map_or_else(
        || "does not know how far they are committed".to_owned(),
        |committed| format!("knows that those below {committed} are committed"),
    );
    let _infallible = writeln!(text, "  broker {id} has records below {end}, and {knows}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(leader: Option<i32>) -> PartitionLine {
        let report = |id, end, known_committed| ReportLine { id, last_epoch: Some(3), end, known_committed };
        PartitionLine {
            topic: "t".to_owned(),
            partition: 0,
            leader,
            leader_epoch: 4,
            replicas: vec![1, 2, 3],
            adding: Vec::new(),
            removing: Vec::new(),
            isr: Vec::new(),
            out_of_sync: Vec::new(),
            high_watermark: None,
            log_end: None,
            lost: Vec::new(),
            possibly_lost_from: Vec::new(),
            reports: vec![report(1, 10, Some(8)), report(2, 14, Some(12))],
            damaged: Vec::new(),
        }
    }

    #[test]
    fn what_is_known_to_be_lost_is_said_and_what_is_not_known() {
        let status = ClusterStatus { brokers: Vec::new(), partitions: vec![line(None)] };
        let text = what_may_be_lost(&status, "t", 0, 1).unwrap();
        for words in [
            "t-0: broker 1 has everything below 10\n",
            "broker 2 has records below 14, and knows that those below 12 are committed\n",
            "broker 3 is away",
            "LOST FOR CERTAIN: committed records from 10 up to 12\n",
        ] {
            assert!(text.contains(words), "{text}");
        }
        assert!(what_may_be_lost(&status, "t", 0, 2).unwrap().contains("of no committed record"));
        let unknown = UncleanRefusal::Unknown { topic: "t".to_owned(), partition: 0, to: 3 };
        assert_eq!(what_may_be_lost(&status, "t", 0, 3), Err(unknown));
        let led = ClusterStatus { brokers: Vec::new(), partitions: vec![line(Some(2))] };
        assert!(matches!(
            what_may_be_lost(&led, "t", 0, 1),
            Err(UncleanRefusal::NotNeeded { leader: 2, .. })
        ));
    }
}
