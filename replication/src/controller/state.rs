//! What the controller knows: one versioned value, kept as the sum of its changes. Nothing is decided here.

use std::collections::{BTreeMap, BTreeSet};

use highwater_engine::units::{LeaderEpoch, NodeId, Offset, TopicId, TopicPartition};
use serde::{Deserialize, Serialize};

use super::protocol::LastStop;
use crate::ids::{BrokerEpoch, PartitionEpoch};
use crate::partition::LossRecord;

/// The version of the state's format that this program writes, and the newest that it reads.
///
/// | format | what came with it |
/// |---|---|
/// | 1 | the first |
/// | 2 | `damaged`, `adding` and `removing` of a partition, `registered_as` of a broker, `rebuilt` |
///
/// A state of an older format is read, and raised before the first change is made to it.
pub const FORMAT_VERSION: u32 = 2;

/// The state of a cluster. Its `version` counts the changes that made it, so that "changes since" has a meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterState {
    /// The format, [`FORMAT_VERSION`]; a newer one is refused.
    pub format: u32,
    /// How many changes made this state.
    pub version: u64,
    /// The cluster's id: 22 characters, as in `meta.properties`. Empty before the cluster was created.
    pub cluster_id: String,
    /// All brokers that ever registered.
    pub brokers: BTreeMap<NodeId, Broker>,
    /// All topics by name.
    pub topics: BTreeMap<String, Topic>,
    /// How many sessions have begun; the upper half of the next broker epoch.
    pub sessions: u32,
    /// The first producer id that was never granted.
    pub next_producer_id: i64,
}

/// One broker as it last registered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Broker {
    /// Its session.
    pub session: BrokerEpoch,
    /// Where clients reach it.
    pub host: String,
    /// The port beside `host`.
    pub port: u16,
    /// The id of its data directory (`directory.id`), if it has one.
    pub directory: Option<String>,
    /// Its process, where it told it.
    pub process: Option<u32>,
    /// Whether it takes part.
    pub status: BrokerStatus,
    /// What its registration said, to know it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered_as: Option<RegisteredAs>,
}

/// What a registration said of the sessions before it.
///
/// If its answer is lost the broker says the same again and does not know the session that it has begun; it is then judged as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisteredAs {
    /// The process, by the number that it drew.
    pub run: u64,
    /// How its last session ended.
    pub last_stop: LastStop,
    /// The session by which that was judged.
    pub judged_by: Option<BrokerEpoch>,
}

/// Whether a broker takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BrokerStatus {
    /// It is heard of: it may lead and join.
    Alive,
    /// It stops by order: it hands its leaderships over, and does not join (KIP-841).
    Stopping,
    /// Its session is over; it has to register again.
    Fenced,
}

/// One topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topic {
    /// Its id, random.
    pub id: TopicId,
    /// Its settings. Those that replicas have to agree on (`min.insync.replicas`, `durability`, `truncation`) are always there.
    pub configs: BTreeMap<String, String>,
    /// Its partitions; the index is the partition's number.
    pub partitions: Vec<PartitionState>,
}

/// The name of the setting for the smallest ISR that acks=all accepts.
pub const MIN_ISR: &str = "min.insync.replicas";
/// The name of the setting for what a replica's contribution is: `written` or `fsync`.
pub const DURABILITY: &str = "durability";
/// The name of the setting for the truncation rule: `leader-epoch` or `high-watermark`.
pub const TRUNCATION: &str = "truncation";

impl Topic {
    /// The effective `min.insync.replicas` for a partition of so many replicas: 1 at least, the number of replicas at most.
    pub fn min_isr(&self, replicas: usize) -> usize {
        let wanted = self.configs.get(MIN_ISR).and_then(|value| value.parse().ok()).unwrap_or(1);
        usize::clamp(wanted, 1, replicas.max(1))
    }

    /// Whether contributions are `durable`: what counted was fsynced.
    pub fn contributions_are_durable(&self) -> bool {
        self.configs.get(DURABILITY).is_some_and(|value| value == "fsync")
    }
}

/// One partition: who holds it, who leads it, who counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionState {
    /// The assigned replicas (AR), with those of a reassignment; the first is the preferred leader.
    pub replicas: Vec<NodeId>,
    /// Those of them that a reassignment adds: they count when they are in the ISR.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adding: Vec<NodeId>,
    /// Those of them that go when all that are added are in the ISR.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removing: Vec<NodeId>,
    /// The in-sync replicas, in assignment order. Empty when the last of them was fenced; then `eligible` says who may lead.
    pub isr: Vec<NodeId>,
    /// The ISR and those who left it when it fell below the minimum, until it has the minimum again (KIP-966). Never empty.
    pub eligible: Vec<NodeId>,
    /// Who leads, if anybody can.
    pub leader: Option<NodeId>,
    /// Grows with each leadership, and when one ends without a successor.
    pub leader_epoch: LeaderEpoch,
    /// Grows with each change of this value.
    pub partition_epoch: PartitionEpoch,
    /// Since when, and why, each assigned replica that is not in the ISR is out of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub out_of_sync: BTreeMap<NodeId, OutOfSync>,
    /// Replicas that may have lost records they once counted for, until they are back in the ISR.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub suspects: BTreeMap<NodeId, Suspicion>,
    /// Replicas with a range of offsets that fails its checks. They count and may be in the ISR, and do not lead while a complete one is
    /// eligible.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub damaged: BTreeSet<NodeId>,
    /// While nobody leads: what the replicas have, each as of the present leader epoch.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reports: BTreeMap<NodeId, ReplicaReport>,
    /// What elections have lost, oldest first. Each permits followers to cut below what they know to be committed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<LossRecord>,
    /// Where a suspect leader took over; records from there on may be lost, but nobody knows of any. Permits no cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub possible_losses: Vec<PossibleLoss>,
}

impl PartitionState {
    /// How many loss records, and how many possible ones, a partition keeps; beyond it the two oldest become one that covers both.
    pub const LOSSES_MAX: usize = 32;

    /// Whether this replica is in the ISR.
    pub fn in_sync(&self, node: NodeId) -> bool {
        self.isr.contains(&node)
    }

    /// Whether a reassignment is under way.
    pub fn is_moving(&self) -> bool {
        !self.adding.is_empty() || !self.removing.is_empty()
    }

    /// How many replicas there are without those that are being added: so many can be asked to be in sync.
    pub fn replicas_held(&self) -> usize {
        self.replicas.len().saturating_sub(self.adding.len())
    }
}

/// Why a replica is not in the ISR, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutOfSync {
    /// Milliseconds since 1970, by the controller's clock.
    pub since_ms: i64,
    /// The reason of the last removal.
    pub reason: OutReason,
}

/// Why a replica left the ISR, or never was in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutReason {
    /// It did not reach the leader's end for `replica.lag.time.max.ms`.
    Lagging,
    /// Its leader asked for the removal without saying why.
    Asked,
    /// Its session ended: it was not heard of in time, its process ended, or it registered again.
    SessionEnded,
    /// It stops by order.
    Stopping,
    /// An election made another replica the only member.
    NotElected,
    /// It was not there when the topic was created.
    NotThereYet,
    /// It gave up because its log failed or is damaged.
    Resigned,
    /// A reassignment adds it, and it has not everything yet.
    BeingAdded,
}

impl std::fmt::Display for OutReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Lagging => "it did not keep up with the leader",
            Self::Asked => "its leader asked for it",
            Self::SessionEnded => "its session ended",
            Self::Stopping => "it stops by order",
            Self::NotElected => "another replica was elected alone",
            Self::NotThereYet => "it was not there when the topic was created",
            Self::Resigned => "its log failed or is damaged",
            Self::BeingAdded => "it is being added, and has not everything yet",
        })
    }
}

/// Why a replica may have lost records it once counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Suspicion {
    /// The machine crashed, or may have, and what was not fsynced counted.
    MachineCrash,
    /// A clean stop left a mark that does not fit the files, or is of another session.
    MarkDoesNotFit,
    /// The known high watermark or the recovery point could not be read.
    CheckpointsUnreadable,
    /// The log ends below what it is known to have held.
    TooShort,
    /// Some of it fails its checks.
    Damaged,
    /// The broker has no such log, or one of another topic id.
    Missing,
    /// A write or a sync of it failed.
    LogFailed,
    /// The controller's state was lost, and with it who was in sync.
    StateLost,
}

impl std::fmt::Display for Suspicion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::MachineCrash => "its machine may have crashed before what counted was synced",
            Self::MarkDoesNotFit => "the mark of its clean stop does not fit its files",
            Self::CheckpointsUnreadable => "its checkpoints cannot be read",
            Self::TooShort => "its log ends below what it once held",
            Self::Damaged => "some of its log is damaged",
            Self::Missing => "its log is missing",
            Self::LogFailed => "its log failed",
            Self::StateLost => "the controller's state was lost, and with it who was in sync",
        })
    }
}

/// What a replica has while nobody leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaReport {
    /// The leader epoch of its last batch.
    pub last_epoch: Option<LeaderEpoch>,
    /// The end of its log.
    pub end: Offset,
    /// The highest high watermark that it has heard of.
    pub known_committed: Option<Offset>,
}

/// From where on records may be lost without anybody knowing of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PossibleLoss {
    /// The leader epoch that began there.
    pub epoch: LeaderEpoch,
    /// The end of the suspect's log when it was elected.
    pub from: Offset,
}

impl ClusterState {
    /// The state before the first change.
    pub fn empty() -> Self {
        Self {
            format: FORMAT_VERSION,
            version: 0,
            cluster_id: String::new(),
            brokers: BTreeMap::new(),
            topics: BTreeMap::new(),
            sessions: 0,
            next_producer_id: 0,
        }
    }

    /// A partition's state.
    pub fn partition(&self, name: &TopicPartition) -> Option<&PartitionState> {
        let number = usize::try_from(name.partition()).ok()?;
        self.topics.get(name.topic())?.partitions.get(number)
    }

    /// A partition's state, if its topic is this one: a topic that is made again has the name of another.
    pub fn partition_of(&self, topic: TopicId, name: &TopicPartition) -> Option<&PartitionState> {
        let is_it = self.topics.get(name.topic()).is_some_and(|found| found.id == topic);
        self.partition(name).filter(|_| is_it)
    }

    /// All partitions, in order of topic and number.
    pub fn partitions(&self) -> impl Iterator<Item = (TopicPartition, &Topic, &PartitionState)> {
        self.topics.iter().flat_map(|(name, topic)| {
            topic.partitions.iter().enumerate().filter_map(move |(number, partition)| {
                let name = TopicPartition::new(name, i32::try_from(number).ok()?).ok()?;
                Some((name, topic, partition))
            })
        })
    }

    /// Whether a broker may lead and join: alive and not stopping.
    pub fn takes_part(&self, node: NodeId) -> bool {
        self.brokers.get(&node).is_some_and(|broker| broker.status == BrokerStatus::Alive)
    }

    /// Whether a broker's session lasts, stopping or not.
    pub fn is_registered(&self, node: NodeId) -> bool {
        self.brokers.get(&node).is_some_and(|broker| broker.status != BrokerStatus::Fenced)
    }
}
