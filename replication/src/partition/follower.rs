//! A replica that follows: where it is in the cycle of asking, cutting and pausing.
//!
//! ```text
//!             FetchAnswered: records            Tick
//!            +------------------+     +----------------------+
//!            v                  |     v                      |
//!        Fetching --------------+     |  failed        BackingOff
//!         |  |  \---------------------+----------------------^
//!         |  |  diverged                    out of range
//!         |  +----------> Cutting --Truncated--> Fetching
//!         |                  | \--not cut--> BackingOff --> Cutting
//!         |                  \--below what is known to be committed--> Refusing
//!         +--> AskingRange --> Cutting | Restarting | Fetching
//!         +--> Fenced (until the controller speaks)
//! ```

use std::time::Duration;

use highwater_engine::log::LogFacts;
use highwater_engine::units::{LeaderEpoch, Monotonic, NodeId, Offset};

use super::config::PartitionConfig;
use super::effect::TruncationReason;
use super::repair::Repair;

/// What a follower knows besides the assignment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Follower {
    pub(super) leader: Option<NodeId>,
    pub(super) phase: Phase,
    pub(super) matching: Matching,
    /// Failed Fetches in a row.
    failures: u32,
    /// Where this log stood at the last divergence: to stand there again means that cutting did not cure it.
    diverged_at: Option<(Option<LeaderEpoch>, Offset)>,
    /// The start that the log was last asked to be raised to.
    pub(super) start_asked: Offset,
    /// Whether this log was seen, in this leadership, to be a beginning of the leader's.
    pub(super) agrees: bool,
    pub(super) repair: Repair,
}

/// Where a follower is in its cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// Nobody leads.
    Leaderless,
    /// The next Fetch names `from`, or one that did is on its way.
    Fetching { from: Offset },
    /// The log is being cut.
    Cutting { to: Offset, why: TruncationReason },
    /// The log is being begun again at another offset.
    Restarting,
    /// The leader is asked where its log starts and ends.
    AskingRange,
    BackingOff {
        until: Monotonic,
        /// The cut that could not be made and is asked for again then.
        uncut: Option<(Offset, TruncationReason)>,
    },
    /// The leader's epoch is a later one: the controller will say which.
    Fenced,
    /// The leader lacks committed records: nothing is cut, until an election is recorded to have lost them.
    Refusing,
}

/// How a follower makes sure that its log agrees with the leader's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Matching {
    /// Each Fetch names the epoch of its last record.
    ByEpochs,
    /// It has cut its log to the high watermark and believes the rest.
    ByHighWatermark,
}

impl Follower {
    pub(super) fn new(leader: Option<NodeId>, matching: Matching) -> Self {
        Self {
            leader,
            phase: Phase::Leaderless,
            matching,
            failures: 0,
            diverged_at: None,
            start_asked: Offset::ZERO,
            agrees: false,
            repair: Repair::default(),
        }
    }

    /// Whether a job on the log is under way, which has to end before anything else begins.
    pub(super) fn is_cutting(&self) -> bool {
        matches!(self.phase, Phase::Cutting { .. } | Phase::Restarting)
    }

    /// A Fetch went well.
    pub(super) fn note_success(&mut self) {
        self.failures = 0;
        self.diverged_at = None;
        self.agrees = true;
    }

    /// The histories part. `false` if cutting has been tried from here and did not help.
    pub(super) fn note_divergence(&mut self, log: &LogFacts<'_>) -> bool {
        let here = (log.epochs.latest().map(|entry| entry.epoch), log.accepted);
        self.diverged_at.replace(here) != Some(here)
    }

    /// Cuts nothing. The same divergence is looked at again when the controller has spoken.
    pub(super) fn refuse(&mut self) {
        self.phase = Phase::Refusing;
        self.diverged_at = None;
    }

    /// Begins a pause, longer with each failure in a row; says how long.
    pub(super) fn back_off(&mut self, now: Monotonic, config: &PartitionConfig) -> Duration {
        let doubled = 1u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let pause = config
            .fetch_backoff_min
            .saturating_mul(doubled)
            .clamp(config.fetch_backoff_min, config.fetch_backoff_max);
        // Beyond the longest pause one failure more says nothing.
        if pause < config.fetch_backoff_max {
            self.failures = self.failures.saturating_add(1);
        }
        let uncut = if let Phase::Cutting { to, why } = self.phase { Some((to, why)) } else { None };
        self.phase = Phase::BackingOff { until: now.after(pause), uncut };
        pause
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        let fetches = match self.phase {
            Phase::BackingOff { until, .. } => Some(until),
            Phase::Leaderless
            | Phase::Fetching { .. }
            | Phase::Cutting { .. }
            | Phase::Restarting
            | Phase::AskingRange
            | Phase::Fenced
            | Phase::Refusing => None,
        };
        fetches.into_iter().chain(self.repair.next_deadline()).min()
    }
}

/// Where to cut a log whose history parts from the leader's, which shares `epoch` at most up to `end` (KIP-101, KIP-279).
///
/// If this log has no records of that epoch, it is cut where its largest lower epoch ends, and the next Fetch goes on from there: each round
/// drops at least one epoch.
pub(super) fn divergence_point(epoch: LeaderEpoch, end: Offset, log: &LogFacts<'_>) -> Offset {
    match log.epochs.end_of(epoch, log.accepted) {
        None => end.min(log.accepted),
        Some(own) if own.epoch != epoch => own.end.min(log.accepted),
        Some(own) => own.end.min(end).min(log.accepted),
    }
}
