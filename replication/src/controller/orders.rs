//! Leaders by order, and the preferred ones that get theirs back.

use highwater_engine::units::{NodeId, TopicPartition};

use super::election::{self, EpochsUsedUp};
use super::event::LeaderReason;
use super::machine::Controller;
use super::protocol::Election;
use super::refusal::ElectionRefusal;
use super::state::{OutReason, PartitionState};

impl Controller {
    pub(super) fn elect(
        &mut self,
        name: &TopicPartition,
        election: Election,
    ) -> Result<NodeId, ElectionRefusal> {
        let partition = self.state.partition(name).ok_or(ElectionRefusal::UnknownPartition)?;
        let (next, node, why) = match election {
            Election::Preferred => {
                let node = partition.replicas.first().copied().ok_or(ElectionRefusal::NobodyAvailable)?;
                (self.hand_over(partition, node)?, node, LeaderReason::Preferred)
            }
            Election::To(node) if partition.leader.is_none() => {
                (self.take_up(partition, node)?, node, LeaderReason::Order)
            }
            Election::To(node) => (self.hand_over(partition, node)?, node, LeaderReason::Order),
            Election::Unclean(node) => self.plan_unclean(partition, |other| other == node)?,
            Election::UncleanAny => self.plan_unclean(partition, |_| true)?,
        };
        self.change_partition(name, next, OutReason::NotElected, why)
            .map_err(|EpochsUsedUp| ElectionRefusal::EpochsUsedUp)?;
        Ok(node)
    }

    /// Another member of the ISR leads: nothing is lost.
    fn hand_over(&self, partition: &PartitionState, node: NodeId) -> Result<PartitionState, ElectionRefusal> {
        if partition.leader == Some(node) {
            return Err(ElectionRefusal::NotNeeded { leader: node });
        }
        if !partition.in_sync(node) || !self.state.takes_part(node) {
            return Err(ElectionRefusal::NotInSync { node });
        }
        let leader_is_damaged = partition.leader.is_some_and(|leader| partition.damaged.contains(&leader));
        if partition.damaged.contains(&node) && !leader_is_damaged {
            return Err(ElectionRefusal::Damaged { node });
        }
        let mut next = partition.clone();
        next.leader = Some(node);
        Ok(next)
    }

    /// While nobody leads, whoever has everything that is committed may by order, also with a damaged range for which a complete replica that
    /// is away was waited for. Nothing is lost: the range is fetched from that one when it is back.
    fn take_up(&self, partition: &PartitionState, node: NodeId) -> Result<PartitionState, ElectionRefusal> {
        let has_all = partition.eligible.contains(&node) && !partition.suspects.contains_key(&node);
        if !has_all || !self.state.takes_part(node) {
            return Err(ElectionRefusal::NotInSync { node });
        }
        let mut next = partition.clone();
        election::lead(&mut next, election::Choice::Safe(node));
        Ok(next)
    }

    fn plan_unclean(
        &self,
        partition: &PartitionState,
        wanted: impl Fn(NodeId) -> bool,
    ) -> Result<(PartitionState, NodeId, LeaderReason), ElectionRefusal> {
        if let Some(leader) = partition.leader {
            return Err(ElectionRefusal::NotNeeded { leader });
        }
        // Without its report nobody knows where its log ends, and the loss could not be recorded.
        let (node, report) =
            election::best_reported(partition, |node| wanted(node) && self.state.takes_part(node))
                .ok_or(ElectionRefusal::NobodyAvailable)?;
        let mut next = partition.clone();
        election::lead_unclean(&mut next, node, &report);
        Ok((next, node, LeaderReason::UncleanOrder))
    }

    /// When it is time, preferred leaders that are in the ISR lead again.
    pub(super) fn give_preferred_leaders_theirs(&mut self) {
        if self.now.monotonic < self.balance_at {
            return;
        }
        self.balance_at = self.now.monotonic.after(self.config.imbalance_check_interval);
        let away: Vec<TopicPartition> = (self.state.partitions())
            .filter(|(_, _, partition)| {
                partition.leader.is_some() && partition.leader != partition.replicas.first().copied()
            })
            .map(|(name, _, _)| name)
            .collect();
        for name in away {
            // Whoever cannot lead now is asked again at the next check.
            let _refused: Result<NodeId, ElectionRefusal> = self.elect(&name, Election::Preferred);
        }
    }
}
