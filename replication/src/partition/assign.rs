//! What the controller's word makes of a replica.

use highwater_engine::log::LogFacts;
use highwater_engine::units::{Monotonic, NodeId};

use super::assignment::{Assignment, Durability, Member, TruncationRule};
use super::effect::{
    Effect, IgnoredReason, PartitionEvent, ResignReason, TruncationReason, WaitOutcome, Wake,
};
use super::follower::{Follower, Matching, Phase};
use super::leader::Leader;
use super::machine::{Partition, Role};

impl Partition {
    /// Takes the controller's word, unless it is old (S53), for another topic (P-12), or of an epoch that cannot be (P-13).
    pub(super) fn assigned(&mut self, now: Monotonic, new: Assignment, log: &LogFacts<'_>) {
        let newest = self.deferred.as_ref().or(self.assignment.as_ref());
        let old_news = newest.is_some_and(|known| {
            new.leader_epoch < known.leader_epoch || new.partition_epoch < known.partition_epoch
        });
        if matches!(self.role, Role::Offline) || old_news {
            return;
        }
        if let Some(why) = self.ignored(&new, log) {
            self.event(PartitionEvent::AssignmentIgnored { why });
            return;
        }
        let same_leadership = self.assignment.as_ref().is_some_and(|known| {
            known.leader_epoch == new.leader_epoch
                && known.member(self.node).is_some() == new.member(self.node).is_some()
        });
        let cutting = matches!(&self.role, Role::Follower(follower) if follower.is_cutting());
        match &self.role {
            Role::Leader(_) if same_leadership => self.update_leader(now, new, log),
            Role::Follower(_) if same_leadership && self.deferred.is_none() => self.update_follower(new, log),
            Role::Unassigned if same_leadership => self.assignment = Some(new),
            Role::Leader(_) | Role::Follower(_) | Role::Unassigned | Role::Offline if cutting => {
                self.deferred = Some(new);
            }
            Role::Leader(_) | Role::Follower(_) | Role::Unassigned | Role::Offline => {
                self.begin(now, new, log);
            }
        }
    }

    fn ignored(&self, new: &Assignment, log: &LogFacts<'_>) -> Option<IgnoredReason> {
        if new.topic_id != self.topic_id {
            return Some(IgnoredReason::OtherTopic);
        }
        let known = self.assignment.as_ref();
        if known.is_some_and(|known| known.leader_epoch == new.leader_epoch && known.leader != new.leader) {
            return Some(IgnoredReason::TwoLeadersInOneEpoch { epoch: new.leader_epoch });
        }
        let newest_in_log = log.epochs.latest().map(|entry| entry.epoch);
        newest_in_log
            .filter(|log| *log > new.leader_epoch)
            .map(|log| IgnoredReason::EpochBelowLog { log, assigned: new.leader_epoch })
    }

    /// Begins a leadership as what the assignment says. Every new epoch is one, also under the same leader (S06).
    pub(super) fn begin(&mut self, now: Monotonic, new: Assignment, log: &LogFacts<'_>) {
        let first_word = self.assignment.is_none();
        let was_follower = matches!(self.role, Role::Follower(_));
        let (leader, epoch) = (new.leader, new.leader_epoch);
        let assigned = new.member(self.node).is_some();
        self.assignment = Some(new);
        self.watermark.forget_heard();
        self.end_waits(WaitOutcome::LeadershipChanged);
        if was_follower {
            self.effect(Effect::StopFetching);
        }
        self.effect(Effect::Wake(Wake::Everything));
        if !assigned {
            self.role = Role::Unassigned;
        } else if leader != Some(self.node) {
            self.become_follower(leader, log);
        } else if first_word && log.epochs.latest().is_some_and(|entry| entry.epoch == epoch) {
            // The log has this epoch already, so an earlier incarnation of this process led it. An epoch belongs to one incarnation.
            self.role = Role::Follower(Follower::new(None, Matching::ByEpochs));
            self.effect(Effect::Resign { epoch, why: ResignReason::SecondIncarnation });
        } else {
            self.become_leader(now, log);
        }
    }

    fn become_leader(&mut self, now: Monotonic, log: &LogFacts<'_>) {
        let Some(view) = self.view(now, log) else { return };
        let epoch = view.assignment.leader_epoch;
        let recorded = view.assignment.losses.iter().any(|loss| loss.epoch == epoch);
        let leader = Leader::begin(&view);
        self.role = Role::Leader(leader);
        self.effect(Effect::BeginEpoch { epoch });
        self.event(PartitionEvent::Leads { epoch, end: log.accepted });
        if let Some(to) = self.watermark.known_beyond(log) {
            let from = log.accepted;
            self.watermark.lose_from(from);
            self.event(if recorded {
                PartitionEvent::LossAccepted { from, to }
            } else {
                PartitionEvent::PossibleLoss { from, to }
            });
        }
    }

    /// Follows, and finds where to go on: by epochs in the first Fetch, or by cutting to the high watermark first. Nothing is cut while
    /// nobody leads.
    fn become_follower(&mut self, leader: Option<NodeId>, log: &LogFacts<'_>) {
        let Some(assignment) = &self.assignment else { return };
        let (epoch, rule, durability) =
            (assignment.leader_epoch, assignment.truncation, assignment.durability);
        self.event(PartitionEvent::Follows { leader, epoch });
        self.accept_losses(log);
        let mut matching = Matching::ByEpochs;
        // The two together would lose what was promised to survive everything.
        if rule == TruncationRule::HighWatermark && durability == Durability::Written && leader.is_some() {
            if self.watermark.known_committed().is_some() {
                matching = Matching::ByHighWatermark;
            } else {
                self.event(PartitionEvent::HighWatermarkUnknown);
            }
        }
        self.role = Role::Follower(Follower::new(leader, matching));
        // A log without any epoch has nothing to compare with: what is not known to be committed goes (KIP-101's fallback).
        let no_epochs = log.epochs.latest().is_none() && self.watermark.known_committed().is_some();
        let to = self.watermark.high();
        if leader.is_some() && to < log.accepted && (matching == Matching::ByHighWatermark || no_epochs) {
            self.cut(to, TruncationReason::HighWatermark, log);
        } else {
            self.fetch_on(log);
        }
    }

    /// What an election gave up and this log does not have is known to be committed no more: other records will stand there. What it does
    /// have of it goes with the cut.
    fn accept_losses(&mut self, log: &LogFacts<'_>) {
        let latest = log.epochs.latest().map(|entry| entry.epoch);
        let given_up = self.assignment.as_ref().and_then(|assignment| assignment.gives_up_from(latest));
        let (Some(given_up), Some(to)) = (given_up, self.watermark.known_committed()) else { return };
        let from = given_up.max(log.accepted);
        if from < to {
            self.watermark.lose_from(from);
            self.event(PartitionEvent::LossAccepted { from, to });
        }
    }

    /// The same leadership goes on, with another ISR or other sessions.
    pub(super) fn update_leader(&mut self, now: Monotonic, new: Assignment, log: &LogFacts<'_>) {
        let Some(old) = self.assignment.replace(new) else { return };
        let events = self.as_leader(now, log, |leader, view| {
            let left = old.isr.iter().filter(|node| !view.assignment.isr.contains(node));
            let left = left
                .map(|node| PartitionEvent::LeftIsr { node: *node, reason: leader.why_left(view, *node) });
            let joined = view.assignment.isr.iter().filter(|node| !old.isr.contains(node));
            let joined = joined.map(|node| PartitionEvent::JoinedIsr { node: *node });
            let events: Vec<_> = left.chain(joined).collect();
            let missed = Some(view.assignment.partition_epoch) > old.partition_epoch.next();
            if missed {
                leader.forget_outsiders(view);
            }
            leader.forget_removed(view, &old.isr);
            leader.note_members(view);
            leader.settle_proposal(view);
            events
        });
        for event in events.unwrap_or_default() {
            self.event(event);
        }
    }

    fn update_follower(&mut self, new: Assignment, log: &LogFacts<'_>) {
        self.assignment = Some(new);
        if matches!(&self.role, Role::Follower(follower) if follower.phase == Phase::Refusing) {
            // There may be a loss record now.
            self.fetch_on(log);
        }
    }

    /// Brokers began or ended sessions. Nodes that are not assigned are of no interest.
    pub(super) fn members_changed(&mut self, now: Monotonic, members: &[Member], log: &LogFacts<'_>) {
        for assignment in self.assignment.iter_mut().chain(self.deferred.iter_mut()) {
            for known in &mut assignment.replicas {
                if let Some(changed) = members.iter().find(|changed| changed.node == known.node) {
                    *known = *changed;
                }
            }
        }
        self.as_leader(now, log, Leader::note_members);
    }
}
