//! How a replica looks from outside.

use std::time::Duration;

use highwater_engine::units::{LeaderEpoch, NodeId, Offset, OffsetRange, TopicId, TopicPartition};

use super::effect::OutOfSyncReason;
use crate::ids::PartitionEpoch;

/// How a replica looks from outside, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The partition.
    pub name: TopicPartition,
    /// The topic's id.
    pub topic_id: TopicId,
    /// What this replica is.
    pub role: RoleName,
    /// Who leads, as this replica knows.
    pub leader: Option<NodeId>,
    /// The leadership; `None` before the controller's first word.
    pub leader_epoch: Option<LeaderEpoch>,
    /// The version of the partition's state.
    pub partition_epoch: Option<PartitionEpoch>,
    /// The assigned replicas in order.
    pub replicas: Vec<NodeId>,
    /// The committed in-sync replicas.
    pub isr: Vec<NodeId>,
    /// The in-sync replicas that the leader has asked the controller for, while it waits for the answer; the high watermark waits for them too.
    pub isr_proposed: Vec<NodeId>,
    /// Who may lead besides them.
    pub eligible: Vec<NodeId>,
    /// Who is assigned and not in sync. Since when and why is known to the leader only; a follower's list is empty.
    pub out_of_sync: Vec<OutOfSync>,
    /// The high watermark here.
    pub high_watermark: Offset,
    /// The greatest high watermark ever heard of here; `None` if that is not known.
    pub known_committed: Option<Offset>,
    /// The log's start.
    pub log_start: Offset,
    /// The log's end: what is written.
    pub log_end: Offset,
    /// Offsets of the log that cannot be read here, until they are fetched from another replica.
    pub damaged: Vec<OffsetRange>,
}

/// A replica that is not in sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfSync {
    /// Which.
    pub node: NodeId,
    /// For how long already.
    pub since: Duration,
    /// Why.
    pub reason: OutOfSyncReason,
    /// Its log's end, if it has said so in this epoch and session.
    pub end: Option<Offset>,
}

/// What a replica is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoleName {
    /// The controller has not spoken, or this node is not assigned.
    Unassigned,
    /// It leads.
    Leader,
    /// It follows; also while nobody leads.
    Follower,
    /// Its log failed.
    Offline,
}
