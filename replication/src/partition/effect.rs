//! Everything a replica wants done.

use std::time::Duration;

use highwater_engine::units::{LeaderEpoch, NodeId, Offset, OffsetRange};

use super::input::{IsrProposal, WaitId};

/// Something to be done, in the order in which they were taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// Note in the log that a leadership begins at its end (`Log::begin_epoch`), before anything is appended.
    BeginEpoch {
        /// The leadership.
        epoch: LeaderEpoch,
    },
    /// Sync what the log has accepted: the topic counts only what is durable.
    WantDurable,
    /// The high watermark moved: consumers that wait for it can be looked at, and the checkpoint has news.
    HighWatermark(Offset),
    /// Ask the controller for another ISR.
    ProposeIsr(IsrProposal),
    /// Fetch this partition from the leader, with [`super::Partition::fetch_request`], until [`Effect::StopFetching`] or another
    /// [`Effect::FetchFrom`]. Said again when the request has changed other than by appending.
    FetchFrom {
        /// Whom to ask.
        leader: NodeId,
        /// The epoch to ask in.
        epoch: LeaderEpoch,
    },
    /// Leave this partition out of Fetches.
    StopFetching,
    /// Ask the leader where its log starts and ends (`ListOffsets` as a replica); answer with [`super::Input::RangeAnswered`], or with a failed [`super::Input::FetchAnswered`].
    AskRange {
        /// Whom to ask.
        leader: NodeId,
        /// The epoch to ask in.
        epoch: LeaderEpoch,
    },
    /// Cut the log; also when it ends there already, because its epoch history may reach farther (KAFKA-10706).
    Truncate {
        /// The end to be.
        to: Offset,
        /// What asks for it.
        why: TruncationReason,
    },
    /// Empty the log and start it again at this offset.
    RestartAt {
        /// The start and end to be.
        offset: Offset,
    },
    /// Fetch a range of committed records from the leader, as a consumer does, so that it counts as no claim of what this replica has; check
    /// it like all that a leader sends, and keep it. Answer with [`super::Input::RangeFetched`].
    FetchRange {
        /// Whom to ask.
        leader: NodeId,
        /// The epoch to ask in.
        epoch: LeaderEpoch,
        /// All of it, or nothing.
        offsets: OffsetRange,
    },
    /// Put what was fetched of this range in the place of what is damaged; answer with [`super::Input::Repaired`] or
    /// [`super::Input::NotRepaired`].
    Repair {
        /// The range, as it was asked for.
        offsets: OffsetRange,
    },
    /// What the controller knows of this log's damage is not what is so: tell it ([`super::Partition::integrity_to_report`]).
    ReportIntegrity,
    /// Raise the log's start.
    RaiseStart {
        /// The start to be.
        to: Offset,
    },
    /// A wait is over.
    Acknowledge {
        /// Which.
        wait: WaitId,
        /// How it ended.
        outcome: WaitOutcome,
    },
    /// Requests that are parked at this partition have to be looked at.
    Wake(Wake),
    /// Ask the controller for another leader, or at least for another epoch.
    Resign {
        /// The leadership that is given up.
        epoch: LeaderEpoch,
        /// Why.
        why: ResignReason,
    },
    /// Something that people should hear of.
    Event(PartitionEvent),
}

/// What a truncation follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TruncationReason {
    /// The leader's history parts from this log's.
    Diverged,
    /// The rule `high-watermark`: everything above it is given up.
    HighWatermark,
    /// The leader's log ends before this one.
    BeyondLeaderEnd,
}

/// How a wait for an acknowledgement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitOutcome {
    /// The record is where it has to be.
    Acknowledged,
    /// It is in the log, but fewer replicas than `min.insync.replicas` are in sync.
    NotEnoughReplicasAfterAppend,
    /// The deadline passed; the record may still be committed later.
    TimedOut,
    /// The leadership that it was appended in is over; it may be committed or lost. To be tried again.
    LeadershipChanged,
    /// The log failed.
    LogFailed,
}

/// Which parked requests have to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wake {
    /// Those of followers that wait for this to be written.
    Written(Offset),
    /// All: leadership or log changed so that even their errors may have.
    Everything,
}

/// Why a leader gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResignReason {
    /// Its log failed.
    LogFailed,
    /// Its process was started again within one epoch: an epoch belongs to one incarnation (S34).
    SecondIncarnation,
}

/// Something that people should hear of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PartitionEvent {
    /// This replica leads.
    Leads {
        /// The leadership.
        epoch: LeaderEpoch,
        /// The end of its log then.
        end: Offset,
    },
    /// This replica follows.
    Follows {
        /// The leader, if there is one.
        leader: Option<NodeId>,
        /// The leadership.
        epoch: LeaderEpoch,
    },
    /// A replica left the ISR.
    LeftIsr {
        /// Which.
        node: NodeId,
        /// Why, as the leader sees it.
        reason: OutOfSyncReason,
    },
    /// A replica joined the ISR.
    JoinedIsr {
        /// Which.
        node: NodeId,
    },
    /// The log is being cut.
    Truncating {
        /// Its end until now.
        from: Offset,
        /// Its end to be.
        to: Offset,
        /// What asks for it.
        why: TruncationReason,
    },
    /// The leader's log lacks records that are known to be committed, and no loss record permits to cut them here: refused (S26).
    TruncationRefused {
        /// Where the log would have been cut.
        target: Offset,
        /// What is known to be committed.
        known_committed: Offset,
        /// The leader that lacks them.
        leader: NodeId,
        /// Its epoch.
        epoch: LeaderEpoch,
    },
    /// Committed records are cut, because a loss record or an operator's order permits it.
    LossAccepted {
        /// The first record that is given up.
        from: Offset,
        /// What was known to be committed.
        to: Offset,
    },
    /// This replica leads although it knew of committed records behind its end (S32).
    PossibleLoss {
        /// The end of its log.
        from: Offset,
        /// What was known to be committed.
        to: Offset,
    },
    /// The leader's log starts behind this one's end: begun again there.
    Restarting {
        /// The log's end until now.
        from: Offset,
        /// Its start and end to be.
        at: Offset,
    },
    /// So many ranges of the log are damaged; it begins with the first.
    Damaged {
        /// The first.
        first: OffsetRange,
        /// How many.
        ranges: usize,
    },
    /// A damaged range was replaced by what the leader has of it.
    Repaired {
        /// The range.
        offsets: OffsetRange,
    },
    /// A damaged range was not replaced; it is tried again.
    RepairFailed {
        /// The range.
        offsets: OffsetRange,
        /// What happened.
        why: RepairProblem,
        /// After how long.
        pause: Duration,
    },
    /// The rule `high-watermark` applies, but none is known: leader epochs are used.
    HighWatermarkUnknown,
    /// Fetching pauses.
    FetchFailed {
        /// What happened.
        failure: FetchProblem,
        /// For how long.
        pause: Duration,
    },
    /// The controller's word was not taken.
    AssignmentIgnored {
        /// Why.
        why: IgnoredReason,
    },
}

/// Why fetching pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FetchProblem {
    /// The Fetch failed.
    Failed(super::input::FetchFailure),
    /// The leader repeats a divergence that cutting did not cure.
    DivergenceWithoutEnd,
    /// The log could not be cut, and is as it was.
    NotCut,
}

/// Why a damaged range was not replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RepairProblem {
    /// It could not be had from the leader.
    Fetch(super::input::FetchFailure),
    /// The log did not take what came.
    NotTaken,
}

/// Why an assignment was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IgnoredReason {
    /// It is for another topic of the same name.
    OtherTopic,
    /// The log has records of a later epoch: the controller's state went back.
    EpochBelowLog {
        /// The log's newest epoch.
        log: LeaderEpoch,
        /// The assignment's.
        assigned: LeaderEpoch,
    },
    /// The same epoch with another leader.
    TwoLeadersInOneEpoch {
        /// The epoch.
        epoch: LeaderEpoch,
    },
}

/// Why a replica is not in sync, as its leader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutOfSyncReason {
    /// Its broker has no session.
    BrokerDown,
    /// Its broker is about to stop.
    Stopping,
    /// No Fetch in this leader epoch and session yet.
    NotFetching,
    /// It fetches, but did not keep up.
    Lagging,
    /// It is catching up, or waits for the controller's grant.
    CatchingUp,
}
