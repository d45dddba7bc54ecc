//! What a follower does with what it hears.

use highwater_engine::log::LogFacts;
use highwater_engine::units::{LeaderEpoch, Monotonic, Offset};

use super::effect::{Effect, FetchProblem, PartitionEvent, TruncationReason};
use super::follower::{Follower, Phase, divergence_point};
use super::input::{FetchAnswer, FetchFailure, FetchOutcome};
use super::machine::{Partition, Role};

impl Partition {
    pub(super) fn follower(&mut self) -> Option<&mut Follower> {
        match &mut self.role {
            Role::Follower(follower) => Some(follower),
            Role::Unassigned | Role::Leader(_) | Role::Offline => None,
        }
    }

    fn set_phase(&mut self, phase: Phase) {
        if let Some(follower) = self.follower() {
            follower.phase = phase;
        }
    }

    /// Goes on fetching at the log's end, if somebody leads. Whether that leader has what this log lacks is not known.
    pub(super) fn fetch_on(&mut self, log: &LogFacts<'_>) {
        let epoch = self.leader_epoch();
        let Some(follower) = self.follower() else { return };
        let (Some(leader), Some(epoch)) = (follower.leader, epoch) else {
            follower.phase = Phase::Leaderless;
            return;
        };
        follower.phase = Phase::Fetching { from: log.accepted };
        if self.watermark.known_beyond(log).is_some() {
            self.watermark.lose_from(log.accepted);
        }
        self.effect(Effect::FetchFrom { leader, epoch });
    }

    /// Takes the leader's answer, if leadership, phase and offset are still those of the request.
    pub(super) fn fetch_answered(&mut self, now: Monotonic, answer: &FetchAnswer, log: &LogFacts<'_>) {
        let this_leadership = self.leader_epoch() == Some(answer.epoch);
        let Some(follower) = self.follower().filter(|_| this_leadership) else { return };
        let fetching = follower.phase == Phase::Fetching { from: answer.from };
        let asking = follower.phase == Phase::AskingRange;
        let goes_on =
            matches!(follower.phase, Phase::Fetching { .. } | Phase::BackingOff { uncut: None, .. });
        if let FetchOutcome::Records { high_watermark: Some(high_watermark), .. } = answer.outcome
            && goes_on
        {
            // Also if the log has grown since it asked: it is a beginning of the leader's, and within a fetch session that says it only once.
            self.watermark.hear(high_watermark);
        }
        let Some(follower) = self.follower() else { return };
        match answer.outcome {
            FetchOutcome::Records { log_start, .. } if fetching => {
                follower.note_success();
                follower.phase = Phase::Fetching { from: log.accepted };
                self.watermark.count_heard(log);
                self.raise_start(log_start, log);
            }
            // Neither the answer's high watermark nor its start count: this log is not a prefix of the leader's yet (KAFKA-14704).
            FetchOutcome::Diverging { epoch, end } if fetching => {
                if follower.note_divergence(log) {
                    self.cut(divergence_point(epoch, end, log), TruncationReason::Diverged, log);
                } else {
                    self.pause(now, FetchProblem::DivergenceWithoutEnd);
                }
            }
            FetchOutcome::StraddlesStart { base, end } if fetching => {
                let fits = log.start == log.accepted && base < log.accepted && log.accepted < end;
                if fits {
                    self.restart(base, log);
                } else {
                    self.pause(now, FetchProblem::Failed(FetchFailure::Corrupt));
                }
            }
            FetchOutcome::Failed(failure) if fetching || asking => self.fetch_failed(now, failure, fetching),
            FetchOutcome::Records { .. }
            | FetchOutcome::Diverging { .. }
            | FetchOutcome::StraddlesStart { .. }
            | FetchOutcome::Failed(_) => {}
        }
    }

    fn fetch_failed(&mut self, now: Monotonic, failure: FetchFailure, fetching: bool) {
        let epoch = self.leader_epoch();
        match failure {
            FetchFailure::FencedEpoch => {
                self.set_phase(Phase::Fenced);
                self.effect(Effect::StopFetching);
            }
            FetchFailure::OutOfRange if fetching => {
                let Some(follower) = self.follower() else { return };
                let Some(leader) = follower.leader else { return };
                follower.phase = Phase::AskingRange;
                self.effect(Effect::StopFetching);
                if let Some(epoch) = epoch {
                    self.effect(Effect::AskRange { leader, epoch });
                }
            }
            FetchFailure::OutOfRange
            | FetchFailure::UnknownEpoch
            | FetchFailure::NotLeader
            | FetchFailure::Corrupt
            | FetchFailure::LeaderFailed
            | FetchFailure::Unreachable
            | FetchFailure::NotAppended
            | FetchFailure::NotCommitted => self.pause(now, FetchProblem::Failed(failure)),
        }
    }

    fn pause(&mut self, now: Monotonic, failure: FetchProblem) {
        let config = self.settings.config;
        let Some(follower) = self.follower() else { return };
        let was_fetching = matches!(follower.phase, Phase::Fetching { .. });
        let pause = follower.back_off(now, &config);
        if was_fetching {
            self.effect(Effect::StopFetching);
        }
        self.event(PartitionEvent::FetchFailed { failure, pause });
    }

    /// The offset was outside the leader's log: it ends below (cut there), starts above (begin again there), or has changed meanwhile.
    pub(super) fn range_answered(
        &mut self,
        now: Monotonic,
        epoch: LeaderEpoch,
        start: Offset,
        end: Offset,
        log: &LogFacts<'_>,
    ) {
        let this_leadership = self.leader_epoch() == Some(epoch);
        let asking = self.follower().is_some_and(|follower| follower.phase == Phase::AskingRange);
        if !this_leadership || !asking {
            return;
        }
        if start > end {
            self.pause(now, FetchProblem::Failed(FetchFailure::Corrupt));
        } else if end < log.accepted {
            self.cut(end, TruncationReason::BeyondLeaderEnd, log);
        } else if start > log.accepted {
            self.restart(start, log);
        } else if self.follower().is_some_and(|follower| follower.note_divergence(log)) {
            self.fetch_on(log);
        } else {
            // In range, and yet refused twice: its epoch is one that the leader does not know.
            self.pause(now, FetchProblem::Failed(FetchFailure::OutOfRange));
        }
    }

    fn restart(&mut self, at: Offset, log: &LogFacts<'_>) {
        self.set_phase(Phase::Restarting);
        self.effect(Effect::StopFetching);
        self.event(PartitionEvent::Restarting { from: log.accepted, at });
        self.effect(Effect::RestartAt { offset: at });
    }

    /// Cuts the log, unless that would destroy records that are known to be committed (S26). Cutting where the log ends anyway is done
    /// all the same: its epoch history may name an epoch beyond (KAFKA-10706). A compacted log that would be cut below what is cleaned begins
    /// again at its start.
    pub(super) fn cut(&mut self, to: Offset, why: TruncationReason, log: &LogFacts<'_>) {
        let Some(assignment) = &self.assignment else { return };
        let latest = log.epochs.latest().map(|entry| entry.epoch);
        let known = self.watermark.known_committed();
        if let Some(known) = known.filter(|known| to < *known && to < log.accepted) {
            if !assignment.permits_loss(latest, to) {
                let (epoch, leader) = (assignment.leader_epoch, assignment.leader);
                if let Some(follower) = self.follower() {
                    follower.refuse();
                }
                self.effect(Effect::StopFetching);
                if let Some(leader) = leader {
                    let known_committed = known;
                    self.event(PartitionEvent::TruncationRefused {
                        target: to,
                        known_committed,
                        leader,
                        epoch,
                    });
                }
                return;
            }
            self.watermark.lose_from(to);
            self.event(PartitionEvent::LossAccepted { from: to, to: known });
        }
        // Older records of keys have gone here for newer ones that are cut now, and the leader still has them.
        if to < log.cleaned_to && why != TruncationReason::HighWatermark {
            return self.restart(log.start, log);
        }
        self.set_phase(Phase::Cutting { to, why });
        self.effect(Effect::StopFetching);
        self.event(PartitionEvent::Truncating { from: log.accepted, to, why });
        self.effect(Effect::Truncate { to, why });
    }

    /// The job on the log is over: on with the controller's next word, if there is one, or with fetching.
    pub(super) fn cut_done(&mut self, now: Monotonic, log: &LogFacts<'_>) {
        if !self.follower().is_some_and(|follower| follower.is_cutting()) {
            return;
        }
        match self.deferred.take() {
            Some(assignment) => self.begin(now, assignment, log),
            None => self.fetch_on(log),
        }
    }

    /// The job on the log could not be done, and left the log as it was: again after a pause.
    pub(super) fn cut_failed(&mut self, now: Monotonic, log: &LogFacts<'_>) {
        if !self.follower().is_some_and(|follower| follower.is_cutting()) {
            return;
        }
        match self.deferred.take() {
            Some(assignment) => self.begin(now, assignment, log),
            None => self.pause(now, FetchProblem::NotCut),
        }
    }

    /// Records that the leader has deleted are deleted here too, as far as they are committed.
    fn raise_start(&mut self, leader_start: Option<Offset>, log: &LogFacts<'_>) {
        let Some(to) = leader_start.map(|start| start.min(self.watermark.high())) else { return };
        let Some(follower) = self.follower() else { return };
        if to > log.start && to > follower.start_asked {
            follower.start_asked = to;
            self.effect(Effect::RaiseStart { to });
        }
    }

    /// What follows from the state as it is now: what the leader said counts as far as it is written, and a pause ends.
    pub(super) fn settle_follower(&mut self, now: Monotonic, log: &LogFacts<'_>) {
        let Some(follower) = self.follower() else { return };
        let fetching = matches!(follower.phase, Phase::Fetching { .. });
        let paused = if let Phase::BackingOff { until, uncut } = follower.phase
            && until <= now
        {
            Some(uncut)
        } else {
            None
        };
        if fetching {
            self.watermark.count_heard(log);
        }
        match paused {
            Some(Some((to, why))) => self.cut(to, why, log),
            Some(None) => self.fetch_on(log),
            None => {}
        }
        self.settle_repair(now, log);
    }
}
