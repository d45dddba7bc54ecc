//! What must be true after every event, each invariant by its number, each in a small function of its own.
//!
//! The ghost knows what no replica can: which batches clients ever sent (*attempted*), what every replica's log holds (*mirrors*), and what
//! is truly committed: the *true high watermark* is the highest that any leader ever came to, and none may come to one that is not
//! *possible*, which takes a set of replicas as large as `min.insync.replicas`, everybody whom the controller could elect among them, that
//! hold the same. It is told by the world, looks at shards and logs by `&self`, and changes nothing.
//!
//! | | checked in |
//! |---|---|
//! | I1 log matching, I9 no invented bytes, I10 dense offsets, I11 epochs ascend and have one leader | [`replica`](self), when a mirror grows |
//! | I6 high watermarks only rise, and none is above the true one; I7 order of marks; I12 epoch history | [`replica`](self), every look |
//! | I2 leader and I3 candidate completeness | [`replica`](self), every look |
//! | I15 never cut committed; I18 what was durable (or written, after a kill) is there again | [`replica`](self), at cuts and openings |
//! | I5 loss is recorded and never without need; I13 who joins has caught up; I14 suspects do not lead | `cluster`, when the controller decides |
//! | I8 consumers see only what is committed; I16 once and in order; I17 honest answers; I21 real-time order | `client`, when it is said |
//! | I22 checkpoints say less than is true | when a checkpoint was written, and when a log grows |
//! | I24 convergence | `rest`, when everything was healed |
//! | I25 what was changed at rest is told or repaired, never given out or passed over | `rot`, when a consumer reads and at rest |
//!
//! Not here: I4 is seen through I6 (a quorum that is not one shows as a high watermark above the true one); I19 and I20 are the
//! engine's and proved there; I23 needs limits that the world does not exercise; compaction is not in the world yet.

mod client;
mod cluster;
mod commit;
mod mirror;
mod replica;
mod rest;
mod rot;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use highwater_engine::units::{NodeId, TopicId, TopicPartition};
use highwater_replication::controller::PartitionState;

pub use client::{ProduceAnswer, Promise};
pub(crate) use cluster::Seen;
pub(crate) use mirror::BatchFact;
pub use mirror::Leaving;
use mirror::Mirror;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant's number.
    pub invariant: u8,
    /// What was seen.
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "I{}: {}", self.invariant, self.what)
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Ghost {
    attempted: BTreeSet<u32>,
    partitions: BTreeMap<TopicPartition, PartitionGhost>,
    violations: Vec<Violation>,
    /// Whose disk was exchanged for an empty one.
    disks_exchanged: BTreeSet<NodeId>,
    began_late: BTreeSet<i64>,
    topics: BTreeMap<TopicId, String>,
    /// The id of the topic that has a name now.
    ids: BTreeMap<String, TopicId>,
    /// Batches of which a bit was changed at rest, and that were not repaired since; as they were.
    struck: BTreeMap<(NodeId, TopicPartition), Vec<BatchFact>>,
}

/// Where a batch stood when it was first seen: what every other log with the same (offset, epoch) must have there and before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lineage {
    end: i64,
    crc: u32,
    before: Option<(i64, i32)>,
}

/// The ghost of one partition.
#[derive(Debug, Default)]
struct PartitionGhost {
    /// What could be committed, from offset 0: a set of replicas that is large enough holds it alike. What lies above the true high
    /// watermark may still be replaced by other records.
    possible: Vec<BatchFact>,
    /// Below it some leader has seen it, and it is committed for good.
    true_high: i64,
    /// What was committed and given up.
    given_up: BTreeSet<u32>,
    /// The highest true high watermark there ever was.
    high_ever: i64,
    losses: usize,
    lineage: HashMap<(i64, i32), Lineage>,
    mirrors: BTreeMap<NodeId, Mirror>,
    /// Whom the controller has taken the partition from, until their logs are gone.
    taken_from: BTreeSet<NodeId>,
    /// Who ever led in an epoch, and where its log ended then.
    leaderships: BTreeMap<i32, Leadership>,
    /// The controller's state when it was last looked at, with what it asks for.
    state: Option<PartitionState>,
    min_isr: usize,
    counts_durable: bool,
    /// The epoch that a follower named in its last Fetch to a leader.
    asked_in: BTreeMap<(NodeId, NodeId), i32>,
    sequences: BTreeMap<(i64, i16), i32>,
    /// The sessions that the controller has for the nodes.
    sessions: BTreeMap<NodeId, i64>,
    /// Behind the last record that was acknowledged to acks=all.
    acked_end: i64,
    latest_told: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Leadership {
    node: NodeId,
    life: u64,
    start: i64,
}

impl PartitionGhost {
    fn possible_end(&self) -> i64 {
        self.possible.last().map_or(0, |batch| batch.end)
    }

    fn committed_at(&self, base: i64) -> Option<&BatchFact> {
        let at = self.possible.binary_search_by_key(&base, |batch| batch.base).ok()?;
        self.possible.get(at).filter(|batch| batch.end <= self.true_high)
    }
}

impl Ghost {
    /// A client is about to send a batch.
    pub(crate) fn attempted(&mut self, crc: u32) {
        self.attempted.insert(crc);
    }

    /// What was found since the last time.
    pub(crate) fn take_violations(&mut self) -> Vec<Violation> {
        std::mem::take(&mut self.violations)
    }

    pub(crate) fn has_violations(&self) -> bool {
        !self.violations.is_empty()
    }

    fn violate(&mut self, invariant: u8, what: String) {
        // One is enough to stop; a broken world would repeat it at every step.
        if self.violations.len() < 16 {
            self.violations.push(Violation { invariant, what });
        }
    }

    /// Everything below it is committed in truth.
    pub fn true_high_watermark(&self, partition: &TopicPartition) -> i64 {
        self.partitions.get(partition).map_or(0, |ghost| ghost.true_high)
    }

    /// How many elections gave records up that were committed.
    pub fn losses(&self, partition: &TopicPartition) -> usize {
        self.partitions.get(partition).map_or(0, |ghost| ghost.losses)
    }

    /// The batches of a node's log, as (base offset, epoch, CRC); also of a node that is down, as it was when it went down.
    pub fn log_of(&self, partition: &TopicPartition, node: NodeId) -> Vec<(i64, i32, u32)> {
        let mirror = self.partitions.get(partition).and_then(|ghost| ghost.mirrors.get(&node));
        let batches = mirror.map(|mirror| mirror.batches.as_slice()).unwrap_or_default();
        batches.iter().map(|batch| (batch.base, batch.epoch, batch.crc)).collect()
    }

    /// Where a node's log ends.
    pub fn end_of(&self, partition: &TopicPartition, node: NodeId) -> i64 {
        let mirror = self.partitions.get(partition).and_then(|ghost| ghost.mirrors.get(&node));
        mirror.map_or(0, Mirror::end)
    }

    /// Behind the last record that was acknowledged to acks=all.
    pub(crate) fn acked_end(&self, partition: &TopicPartition) -> i64 {
        self.partitions.get(partition).map_or(0, |ghost| ghost.acked_end)
    }

    pub(crate) fn latest_told(&self, partition: &TopicPartition) -> i64 {
        self.partitions.get(partition).map_or(0, |ghost| ghost.latest_told)
    }

    /// Where each replica has the batches of a producer, and with which sequence.
    pub(crate) fn sequences_of(&self, partition: &TopicPartition, producer: i64) -> String {
        let Some(ghost) = self.partitions.get(partition) else { return String::new() };
        let of_replica = |(node, mirror): (&NodeId, &Mirror)| {
            let batches = mirror.batches.iter().filter_map(|batch| {
                let (_, _, sequence) = batch.producer.filter(|(id, _, _)| *id == producer)?;
                Some((batch.base, sequence))
            });
            format!("{node}: {:?}", batches.collect::<Vec<_>>())
        };
        ghost.mirrors.iter().map(of_replica).collect::<Vec<_>>().join(", ")
    }

    /// Whether a replica has this batch.
    pub(crate) fn is_in_a_log(&self, partition: &TopicPartition, crc: u32) -> bool {
        let has = |mirror: &Mirror| mirror.batches.iter().any(|batch| batch.crc == crc);
        self.partitions.get(partition).is_some_and(|ghost| ghost.mirrors.values().any(has))
    }
}
