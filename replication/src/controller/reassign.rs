//! Partitions move to other brokers (KIP-455): they grow by those who are to hold them, and when these have everything, they shrink.
//!
//! ```text
//! [1 2 3] to [4 2]     replicas 4 2 1 3, adding 4, removing 1 3
//! 4 is in the ISR      replicas 4 2; who led and goes has handed over, under another epoch
//! cancelled before     replicas 2 1 3
//! ```
//! Nobody goes who is needed: before it shrinks, a partition has enough in sync without those who go, one of them without damage, and
//! somebody of them who can lead. Kafka asks for one in sync only.

use highwater_engine::units::{NodeId, TopicPartition};

use super::election::{self, EpochsUsedUp};
use super::event::LeaderReason;
use super::machine::Controller;
use super::protocol::FactorRule;
use super::refusal::ReassignRefusal;
use super::state::{ClusterState, OutReason, PartitionState};

impl Controller {
    /// Puts a partition on other brokers, or, with `None`, cancels that.
    pub(super) fn reassign(
        &mut self,
        name: &TopicPartition,
        target: Option<Vec<NodeId>>,
        factor: FactorRule,
    ) -> Result<(), ReassignRefusal> {
        let partition = self.state.partition(name).ok_or(ReassignRefusal::UnknownPartition)?;
        let next = match target {
            None => cancel(&self.state, partition)?,
            Some(target) => {
                check_target(&self.state, &target)?;
                check_factor(partition, &target, factor)?;
                begin(&self.state, partition, target)?
            }
        };
        self.change_partition(name, next, OutReason::BeingAdded, LeaderReason::Reassigned)
            .map_err(|EpochsUsedUp| ReassignRefusal::EpochsUsedUp)
    }
}

/// Some brokers, each once, all known. Who is away is waited for.
fn check_target(cluster: &ClusterState, target: &[NodeId]) -> Result<(), ReassignRefusal> {
    let invalid = |why: String| ReassignRefusal::InvalidAssignment { why };
    if target.is_empty() {
        return Err(invalid("it names no broker".to_owned()));
    }
    for (at, node) in target.iter().enumerate() {
        if target.iter().take(at).any(|other| other == node) {
            return Err(invalid(format!("it names broker {node} twice")));
        }
        if !cluster.brokers.contains_key(node) {
            return Err(invalid(format!("it names broker {node}, and no such broker has registered")));
        }
    }
    Ok(())
}

fn check_factor(
    partition: &PartitionState,
    target: &[NodeId],
    factor: FactorRule,
) -> Result<(), ReassignRefusal> {
    let (from, to) = (partition.replicas_held(), target.len());
    match factor {
        FactorRule::Stays if from != to => Err(ReassignRefusal::FactorChanges { from, to }),
        FactorRule::Stays | FactorRule::MayChange => Ok(()),
    }
}

/// Who held the partition before anything was under way, in the order of now.
fn held_before(partition: &PartitionState) -> Vec<NodeId> {
    let stays = |node: &&NodeId| !partition.adding.contains(node);
    partition.replicas.iter().filter(stays).copied().collect()
}

fn begin(
    cluster: &ClusterState,
    partition: &PartitionState,
    target: Vec<NodeId>,
) -> Result<PartitionState, ReassignRefusal> {
    let before = held_before(partition);
    // Who was to be added, and is not wanted any more, goes at once: it must not be left behind by a cancellation.
    let abandoned: Vec<NodeId> =
        partition.adding.iter().filter(|node| !target.contains(node)).copied().collect();
    let mut next = without(cluster, partition, &abandoned).ok_or(ReassignRefusal::NobodyWouldBeLeft)?;
    next.removing = before.iter().filter(|node| !target.contains(node)).copied().collect();
    next.adding = target.iter().filter(|node| !before.contains(node)).copied().collect();
    next.replicas = target;
    next.replicas.extend(&next.removing);
    Ok(next)
}

fn cancel(cluster: &ClusterState, partition: &PartitionState) -> Result<PartitionState, ReassignRefusal> {
    if !partition.is_moving() {
        return Err(ReassignRefusal::NotUnderWay);
    }
    let mut next =
        without(cluster, partition, &partition.adding).ok_or(ReassignRefusal::NobodyWouldBeLeft)?;
    next.adding.clear();
    next.removing.clear();
    Ok(next)
}

/// Ends a reassignment whose new replicas are all in sync. Says whether it did.
pub(super) fn complete_if_ready(
    cluster: &ClusterState,
    partition: &mut PartitionState,
    min_isr: impl Fn(usize) -> usize,
) -> bool {
    if !partition.is_moving() || !partition.adding.iter().all(|node| partition.in_sync(*node)) {
        return false;
    }
    let Some(mut next) = without(cluster, partition, &partition.removing) else { return false };
    if next.isr.len() < min_isr(next.replicas.len()) && next.isr.len() < partition.isr.len() {
        return false;
    }
    next.adding.clear();
    next.removing.clear();
    *partition = next;
    true
}

/// The partition without some of its replicas; `None` if something would be lost with them, or nobody could go on leading.
fn without(cluster: &ClusterState, partition: &PartitionState, gone: &[NodeId]) -> Option<PartitionState> {
    let stays = |node: &NodeId| !gone.contains(node);
    let mut next = partition.clone();
    next.replicas.retain(stays);
    next.isr.retain(stays);
    next.eligible.retain(stays);
    next.out_of_sync.retain(|node, _| stays(node));
    next.suspects.retain(|node, _| stays(node));
    next.damaged.retain(stays);
    next.reports.retain(|node, _| stays(node));
    let whole_is_left = next.isr.iter().any(|node| !next.damaged.contains(node));
    let lost_with_them = if partition.isr.is_empty() {
        next.eligible.len() < partition.eligible.len()
    } else {
        next.isr.is_empty() || (next.isr.len() < partition.isr.len() && !whole_is_left)
    };
    if lost_with_them {
        return None;
    }
    if next.leader.is_some_and(|leader| gone.contains(&leader)) {
        let heir = |node: &&NodeId| election::is_complete_heir(cluster, &next, **node);
        next.leader = Some(*next.replicas.iter().find(heir)?);
    }
    Some(next)
}
