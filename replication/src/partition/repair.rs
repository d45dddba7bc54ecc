//! What a replica does about damage in its log: it tells the controller, and a follower fetches what is damaged from its leader.
//!
//! ```text
//!   Idle --damaged, and this log is a beginning of the leader's--> Fetching --all of it is here--> Writing --done--> Idle
//!     ^                                                               |                              |
//!     +----------------------------- Pausing <--failed----------------+------------------------------+
//! ```
//! A leader repairs nothing: the controller gives its leadership to a replica that is complete, and then it is a follower. Two that are
//! damaged in different places heal one another that way: first the follower, then the leader that was.
//!
//! Of a compacted log all that was compacted is replaced, segment by segment in one leadership, and the segments with damage last, so that the
//! log counts as damaged until then: the leader's log may have been compacted to another point, and what it has of one range alone may lack
//! the tombstone of a key that is older here, or bring a key back whose tombstone has gone here. As for whoever reads a compacted log from its
//! start, that has to be done within `delete.retention.ms`. What the leader itself cannot give stays as it is here: a record that can be read
//! counts for more.
//!
//! The range is asked for as a consumer does. A follower's Fetch would say that this replica has nothing behind it; and what is committed is
//! the same in every log that holds it, whoever leads by the time it arrives.

use std::time::Duration;

use highwater_engine::log::LogFacts;
use highwater_engine::segment::DamagedRange;
use highwater_engine::units::{LeaderEpoch, Monotonic, Offset, OffsetRange};

use super::assignment::Integrity;
use super::config::PartitionConfig;
use super::effect::{Effect, PartitionEvent, RepairProblem};
use super::follower::Phase;
use super::input::FetchFailure;
use super::machine::{Partition, Role};
use crate::rules::Rule;

/// Where a follower is with the repair of its log; one range at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Repair {
    state: State,
    /// Failures in a row.
    failures: u32,
    /// The last range that was tried: the next one has its turn before it has another.
    tried: Option<OffsetRange>,
    /// Of a compacted log everything below it is the leader's, as far as it has no damage.
    replaced_to: Offset,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum State {
    #[default]
    Idle,
    Fetching(OffsetRange),
    Writing(OffsetRange),
    Pausing(Monotonic),
}

impl Repair {
    pub(super) const fn next_deadline(&self) -> Option<Monotonic> {
        match self.state {
            State::Pausing(until) => Some(until),
            State::Idle | State::Fetching(_) | State::Writing(_) => None,
        }
    }

    /// The damaged range whose turn it is, as it is asked for.
    fn next(&self, log: &LogFacts<'_>) -> Option<OffsetRange> {
        let tried = self.tried.map(OffsetRange::start);
        let (hurt, whole): (Vec<OffsetRange>, Vec<OffsetRange>) =
            log.replaced_by_repair.iter().partition(|part| is_hurt(**part, log));
        if !hurt.is_empty() {
            let before = whole.into_iter().find(|part| part.start() >= self.replaced_to);
            let next = || hurt.iter().find(|part| Some(part.start()) > tried).or(hurt.first()).copied();
            return before.or_else(next);
        }
        let is_next = |range: &&DamagedRange| Some(range.offsets.start()) > tried;
        let next = log.damaged.iter().find(is_next).or_else(|| log.damaged.first())?;
        wanted(next)
    }

    fn back_off(&mut self, now: Monotonic, config: &PartitionConfig) -> Duration {
        let doubled = 1u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let pause = config
            .fetch_backoff_min
            .saturating_mul(doubled)
            .clamp(config.fetch_backoff_min, config.fetch_backoff_max);
        self.failures = self.failures.saturating_add(1);
        self.state = State::Pausing(now.after(pause));
        pause
    }
}

/// Whether something of this part of a compacted log is damaged.
fn is_hurt(part: OffsetRange, log: &LogFacts<'_>) -> bool {
    log.damaged
        .iter()
        .filter_map(wanted)
        .any(|range| range.start() < part.end() && range.end() > part.start())
}

/// Whether this is still to be replaced.
fn is_wanted(offsets: OffsetRange, log: &LogFacts<'_>) -> bool {
    if log.replaced_by_repair.is_empty() {
        log.damaged.iter().any(|range| wanted(range) == Some(offsets))
    } else {
        log.replaced_by_repair.contains(&offsets)
    }
}

/// What has to be fetched to replace a damaged range: its offsets. Bytes without offsets of their own are replaced together with the batch
/// before them, or behind them if they are the first of their segment.
fn wanted(range: &DamagedRange) -> Option<OffsetRange> {
    let (start, end) = (range.offsets.start(), range.offsets.end());
    if !range.offsets.is_empty() {
        return Some(range.offsets);
    }
    if start > range.segment {
        OffsetRange::new(start.checked_add(-1)?, end)
    } else {
        OffsetRange::new(start, end.checked_add(1)?)
    }
}

impl Partition {
    /// What the controller should be told of this log, if it knows otherwise.
    pub fn integrity_to_report(&self, log: &LogFacts<'_>) -> Option<Integrity> {
        let assignment = self.assignment.as_ref().filter(|known| known.member(self.node).is_some())?;
        let is_damaged = !log.damaged.is_empty();
        let is_told = assignment.damaged.contains(&self.node);
        let integrity = if is_damaged { Integrity::Damaged } else { Integrity::Whole };
        (is_damaged != is_told).then_some(integrity)
    }

    pub(super) fn settle_integrity(&mut self, log: &LogFacts<'_>) {
        let is_misjudged = self.integrity_to_report(log).is_some();
        if is_misjudged && !std::mem::replace(&mut self.is_misjudged, is_misjudged) {
            self.effect(Effect::ReportIntegrity);
        }
        self.is_misjudged = is_misjudged;
    }

    pub(super) fn damage_found(&mut self, log: &LogFacts<'_>) {
        if let Some(first) = log.damaged.first() {
            self.event(PartitionEvent::Damaged { first: first.offsets, ranges: log.damaged.len() });
        }
    }

    /// Begins with a damaged range, if there is one and this log is known to be a beginning of the leader's.
    pub(super) fn settle_repair(&mut self, now: Monotonic, log: &LogFacts<'_>) {
        let (epoch, rules) = (self.leader_epoch(), self.rules());
        let Role::Follower(follower) = &mut self.role else { return };
        let is_idle = match follower.repair.state {
            State::Idle => true,
            State::Pausing(until) => until <= now,
            State::Fetching(_) | State::Writing(_) => false,
        };
        let agrees = follower.agrees || !rules.holds(Rule::RepairWhereLogsAgree);
        let (Some(leader), Some(epoch), true) = (follower.leader, epoch, is_idle && agrees) else { return };
        let next = follower.repair.next(log);
        follower.repair.state = next.map_or(State::Idle, State::Fetching);
        if next.is_none() {
            follower.repair.replaced_to = Offset::ZERO;
        }
        if let Some(offsets) = next {
            if log.replaced_by_repair.is_empty() || is_hurt(offsets, log) {
                follower.repair.tried = Some(offsets);
            }
            self.effect(Effect::FetchRange { leader, epoch, offsets });
        }
    }

    /// A range is here, or could not be had. It is written only if this log is still the one that it was fetched for.
    pub(super) fn range_fetched(
        &mut self,
        now: Monotonic,
        offsets: OffsetRange,
        epoch: LeaderEpoch,
        outcome: Result<(), FetchFailure>,
        log: &LogFacts<'_>,
    ) {
        let this_leadership = self.leader_epoch() == Some(epoch);
        let Role::Follower(follower) = &mut self.role else { return };
        if !this_leadership || follower.repair.state != State::Fetching(offsets) {
            return;
        }
        let is_wanted = is_wanted(offsets, log);
        let is_left_alone =
            matches!(follower.phase, Phase::Fetching { .. } | Phase::BackingOff { uncut: None, .. });
        match outcome {
            Err(FetchFailure::Corrupt) if is_wanted && !is_hurt(offsets, log) => {
                follower.repair.replaced_to = offsets.end();
                self.repair_fails(now, offsets, RepairProblem::Fetch(FetchFailure::Corrupt));
            }
            Err(failure) => self.repair_fails(now, offsets, RepairProblem::Fetch(failure)),
            Ok(()) if is_wanted && is_left_alone => {
                follower.repair.state = State::Writing(offsets);
                self.effect(Effect::Repair { offsets });
            }
            // Cut, begun again or deleted meanwhile: what is still damaged is looked at anew.
            Ok(()) => follower.repair.state = State::Idle,
        }
    }

    /// It is in its place.
    pub(super) fn repaired(&mut self, offsets: OffsetRange) {
        let Role::Follower(follower) = &mut self.role else { return };
        if follower.repair.state == State::Writing(offsets) {
            let replaced_to = follower.repair.replaced_to.max(offsets.end());
            follower.repair = Repair { tried: Some(offsets), replaced_to, ..Repair::default() };
        }
        self.event(PartitionEvent::Repaired { offsets });
    }

    /// The log did not take it.
    pub(super) fn not_repaired(&mut self, now: Monotonic, offsets: OffsetRange, why: RepairProblem) {
        let Role::Follower(follower) = &self.role else { return };
        if follower.repair.state == State::Writing(offsets) {
            self.repair_fails(now, offsets, why);
        }
    }

    fn repair_fails(&mut self, now: Monotonic, offsets: OffsetRange, why: RepairProblem) {
        let config = self.settings.config;
        let Role::Follower(follower) = &mut self.role else { return };
        let pause = follower.repair.back_off(now, &config);
        self.event(PartitionEvent::RepairFailed { offsets, why, pause });
    }
}
