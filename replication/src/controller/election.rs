//! Who leads, and what follows from it for the partition's state. Pure: a state in, the next state out.
//!
//! ```text
//! in the ISR, alive, not suspect       in assignment order: leads, nothing is lost
//! eligible, alive, not suspect         the same: the high watermark stood still since it left the ISR
//! all eligible alive, all suspect      the highest (epoch, end) leads; what that loses is recorded
//! otherwise                            nobody leads: wait
//!
//! Who has a damaged range comes behind those who have none, and waits for one of them who is away.
//! ```

use highwater_engine::units::{LeaderEpoch, NodeId, Offset};

use super::state::{ClusterState, OutOfSync, OutReason, PartitionState, PossibleLoss, ReplicaReport};
use crate::partition::{LossCause, LossRecord};

/// Whether a suspect replica may lead like any other; [`Trust::Everybody`] is a rule switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Suspects wait.
    NotSuspects,
    /// Suspects lead as if nothing had happened: loses records, for tests that have to notice it.
    Everybody,
}

/// Who may lead, and what that means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// It has everything that is committed.
    Safe(NodeId),
    /// It has the most of all that are left.
    BestOfAll(NodeId, ReplicaReport),
}

/// Chooses a leader for a partition whose leader is gone.
pub(super) fn choose(cluster: &ClusterState, partition: &PartitionState, trust: Trust) -> Option<Choice> {
    let trusted = |node: &NodeId| trust == Trust::Everybody || !partition.suspects.contains_key(node);
    let is_complete = |node: &NodeId| trusted(node) && !partition.damaged.contains(node);
    let there = || {
        let in_order = partition.replicas.iter().copied().filter(|node| cluster.takes_part(*node));
        let in_sync = in_order.clone().filter(|node| partition.in_sync(*node));
        in_sync.chain(in_order.filter(|node| partition.eligible.contains(node)))
    };
    if let Some(node) = there().find(is_complete) {
        return Some(Choice::Safe(node));
    }
    if partition.eligible.iter().any(is_complete) {
        // It is away, and has what is damaged here.
        return None;
    }
    if let Some(node) = there().find(trusted) {
        return Some(Choice::Safe(node));
    }
    let all_are_there = partition
        .eligible
        .iter()
        .all(|node| cluster.takes_part(*node) && partition.reports.contains_key(node));
    if !all_are_there {
        return None;
    }
    best_reported(partition, |node| partition.eligible.contains(&node))
        .map(|(node, report)| Choice::BestOfAll(node, report))
}

/// A leader with a damaged range gives way to a member of the ISR that has none: nothing is lost, and the range is fetched from that one.
/// Says whether it does.
pub(super) fn give_way(cluster: &ClusterState, partition: &mut PartitionState) -> bool {
    let is_damaged = partition.leader.is_some_and(|leader| partition.damaged.contains(&leader));
    let heir = partition.replicas.iter().copied().find(|node| is_complete_heir(cluster, partition, *node));
    if let Some(heir) = heir.filter(|_| is_damaged) {
        partition.leader = Some(heir);
        return true;
    }
    false
}

/// Whether this member of the ISR is there and lacks nothing.
pub(super) fn is_complete_heir(cluster: &ClusterState, partition: &PartitionState, node: NodeId) -> bool {
    partition.in_sync(node) && cluster.takes_part(node) && !partition.damaged.contains(&node)
}

/// The replica with the highest (epoch, end) among the reports of `candidates`; of equal ones one without damage, and the first assigned.
pub(super) fn best_reported(
    partition: &PartitionState,
    candidates: impl Fn(NodeId) -> bool,
) -> Option<(NodeId, ReplicaReport)> {
    let mut best: Option<(NodeId, ReplicaReport)> = None;
    for node in partition.replicas.iter().copied().filter(|node| candidates(*node)) {
        let Some(report) = partition.reports.get(&node) else { continue };
        let rank = |node: &NodeId, report: &ReplicaReport| {
            (report.last_epoch, report.end, !partition.damaged.contains(node))
        };
        if best.is_none_or(|(other, so_far)| rank(&node, report) > rank(&other, &so_far)) {
            best = Some((node, *report));
        }
    }
    best
}

/// Makes a choice the partition's leader. Epochs are [`settle`]'s.
pub(super) fn lead(partition: &mut PartitionState, choice: Choice) {
    let epoch = partition.leader_epoch.next().unwrap_or(partition.leader_epoch);
    let node = match choice {
        Choice::Safe(node) => node,
        Choice::BestOfAll(node, report) => {
            record_loss(partition, epoch, &report);
            node
        }
    };
    partition.leader = Some(node);
    if !partition.in_sync(node) {
        partition.isr = vec![node];
    }
}

/// Makes a replica the only truth by an operator's order, whatever others have.
pub(super) fn lead_unclean(partition: &mut PartitionState, node: NodeId, report: &ReplicaReport) {
    let epoch = partition.leader_epoch.next().unwrap_or(partition.leader_epoch);
    push_loss(partition, LossRecord { epoch, from: report.end, to: None, by: LossCause::Order });
    partition.leader = Some(node);
    partition.isr = vec![node];
    partition.eligible = vec![node];
}

fn record_loss(partition: &mut PartitionState, epoch: LeaderEpoch, report: &ReplicaReport) {
    let known: Option<Offset> = partition.reports.values().filter_map(|report| report.known_committed).max();
    match known {
        Some(to) if to > report.end => {
            push_loss(
                partition,
                LossRecord { epoch, from: report.end, to: Some(to), by: LossCause::BestOfAll },
            );
        }
        Some(_) | None => {
            if partition.possible_losses.len() >= PartitionState::LOSSES_MAX {
                let second = partition.possible_losses.remove(1);
                if let Some(first) = partition.possible_losses.first_mut() {
                    *first = PossibleLoss { epoch: second.epoch, from: first.from.min(second.from) };
                }
            }
            partition.possible_losses.push(PossibleLoss { epoch, from: report.end });
        }
    }
}

/// Turns possible losses into recorded ones that a replica proves: it has records where a suspect's leadership began, of an older epoch,
/// and knows that some of them were committed. So those were lost, and it may cut them; without a record it would refuse for ever.
///
/// A replica that has records of that leadership, or ends where it began, has nothing of what may have been lost.
pub(super) fn confirm_losses(partition: &mut PartitionState, report: &ReplicaReport) {
    let Some(known) = report.known_committed else { return };
    let shown = |loss: &PossibleLoss| {
        loss.from < known && loss.from < report.end && report.last_epoch < Some(loss.epoch)
    };
    let (proven, unproven): (Vec<PossibleLoss>, Vec<PossibleLoss>) =
        partition.possible_losses.iter().partition(|loss| shown(loss));
    if proven.is_empty() {
        return;
    }
    partition.possible_losses = unproven;
    for PossibleLoss { epoch, from } in proven {
        push_loss(partition, LossRecord { epoch, from, to: Some(known), by: LossCause::BestOfAll });
    }
    partition.losses.sort_by_key(|loss| loss.epoch);
}

fn push_loss(partition: &mut PartitionState, loss: LossRecord) {
    if partition.losses.len() >= PartitionState::LOSSES_MAX {
        let second = partition.losses.remove(1);
        if let Some(first) = partition.losses.first_mut() {
            *first = LossRecord {
                epoch: second.epoch,
                from: first.from.min(second.from),
                to: first.to.zip(second.to).map(|(one, other)| one.max(other)),
                by: second.by,
            };
        }
    }
    partition.losses.push(loss);
}

/// The epochs of a partition are used up; it can never change again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EpochsUsedUp;

/// Completes `next`, made out of `old` by changing leader, ISR, suspects or reports: who is eligible, who is out since when, who
/// is no suspect any more, and both epochs. `None` if nothing changed.
pub(super) fn settle(
    old: &PartitionState,
    mut next: PartitionState,
    min_isr: usize,
    wall_ms: i64,
    out: OutReason,
) -> Result<Option<PartitionState>, EpochsUsedUp> {
    if next == *old {
        return Ok(None);
    }
    let in_order = |nodes: &[NodeId]| -> Vec<NodeId> {
        next.replicas.iter().copied().filter(|node| nodes.contains(node)).collect()
    };
    next.isr = in_order(&next.isr);
    next.eligible = if next.isr.len() >= min_isr {
        next.isr.clone()
    } else {
        // Below the minimum nothing new is committed, so whoever could lead before still can.
        let both: Vec<NodeId> = next.eligible.iter().chain(&next.isr).copied().collect();
        in_order(&both)
    };
    for node in &next.replicas {
        if next.isr.contains(node) {
            next.out_of_sync.remove(node);
            next.suspects.remove(node);
        } else if old.isr.contains(node) || !next.out_of_sync.contains_key(node) {
            next.out_of_sync.insert(*node, OutOfSync { since_ms: wall_ms, reason: out });
        }
    }
    if next.leader != old.leader {
        next.leader_epoch = old.leader_epoch.next().ok_or(EpochsUsedUp)?;
        next.reports.clear();
    }
    next.partition_epoch = old.partition_epoch.next().ok_or(EpochsUsedUp)?;
    Ok(Some(next))
}
