//! Everything that can happen to a replica. Facts only, never record bytes.

use highwater_engine::units::{LeaderEpoch, Monotonic, NodeId, Offset, OffsetRange};

use super::assignment::{Assignment, Member};
use crate::ids::{BrokerEpoch, PartitionEpoch};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// The controller's word on this partition, at first and after each change. An older one than the known is ignored.
    Assigned(Assignment),
    /// Brokers began or ended sessions; the partition's own state is as before.
    MembersChanged(Vec<Member>),
    /// The log's `accepted`, `written`, `durable` or `start` moved.
    LogMoved,
    /// A follower's Fetch was judged [`super::FetchVerdict::Read`] and its read succeeded, or it was parked; told once for each Fetch
    /// and partition of its session, and not again when a parked one is answered. Ends that the leader has now are the ones it is measured against,
    /// so tell it before anything else is appended.
    FollowerFetched(FetchClaim),
    /// The leader's answer to this follower's Fetch; what it carried was appended before this is told.
    FetchAnswered(FetchAnswer),
    /// The answer to [`super::Effect::AskRange`].
    RangeAnswered {
        /// The epoch that the question was asked in.
        epoch: LeaderEpoch,
        /// The leader's log start.
        start: Offset,
        /// The leader's log end.
        end: Offset,
    },
    /// [`super::Effect::Truncate`] is done.
    Truncated {
        /// The log's end now.
        end: Offset,
    },
    /// [`super::Effect::RestartAt`] is done.
    RestartedAt {
        /// The log's start and end now.
        offset: Offset,
    },
    /// [`super::Effect::Truncate`] or [`super::Effect::RestartAt`] could not be done, and the log is open and as it was.
    NotCut,
    /// The controller's answer to [`super::Effect::ProposeIsr`], or the lack of one.
    IsrAnswered {
        /// The proposal, as it was made.
        proposal: IsrProposal,
        /// What became of it.
        answer: IsrAnswer,
    },
    /// A produced batch was appended and its sender waits; duplicates wait as well.
    Wait(AckWait),
    /// Nobody waits for this acknowledgement any more.
    Forget(WaitId),
    /// Time passed; to be told when [`super::Partition::next_deadline`] is due.
    Tick,
    /// The log failed and is closed. The replica is of no use any more: a log that was opened again gets a new machine.
    LogFailed,
    /// Something is known to be damaged in the log that was not known to be, or the other way round: the log's facts say what.
    LogDamaged,
    /// The answer to [`super::Effect::FetchRange`].
    RangeFetched {
        /// The range, as it was asked for.
        offsets: OffsetRange,
        /// The epoch that it was asked in.
        epoch: LeaderEpoch,
        /// Whether all of it is here, checked, or why not.
        outcome: Result<(), FetchFailure>,
    },
    /// [`super::Effect::Repair`] is done.
    Repaired {
        /// The range, as it was asked for.
        offsets: OffsetRange,
    },
    /// [`super::Effect::Repair`] could not be done, and the log is as it was.
    NotRepaired {
        /// The range, as it was asked for.
        offsets: OffsetRange,
    },
}

/// What a Fetch says of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FetchClaim {
    /// Who asks.
    pub fetcher: Fetcher,
    /// The leader epoch that the fetcher believes in.
    pub current_epoch: Option<LeaderEpoch>,
    /// Where it wants to read. A follower has everything below.
    pub offset: Offset,
    /// The epoch of the fetcher's last record.
    pub last_fetched_epoch: Option<LeaderEpoch>,
    /// A follower's own log start.
    pub log_start: Option<Offset>,
}

/// Who sends a Fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fetcher {
    /// A client; it is given records below the high watermark.
    Consumer,
    /// A replica, in the name of a session of its broker.
    Follower {
        /// The replica's node.
        node: NodeId,
        /// The session of its broker; a replica's Fetch without one is refused.
        session: Option<BrokerEpoch>,
    },
}

/// What became of a follower's Fetch, for one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FetchAnswer {
    /// The leader epoch of the request.
    pub epoch: LeaderEpoch,
    /// The offset of the request.
    pub from: Offset,
    /// What came back.
    pub outcome: FetchOutcome,
}

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FetchOutcome {
    /// Records, already appended, or none.
    Records {
        /// The leader's high watermark; `None` if it named none or a negative one.
        high_watermark: Option<Offset>,
        /// The leader's log start, likewise.
        log_start: Option<Offset>,
    },
    /// The histories part: the largest epoch that the leader shares, as far as it can tell, and where it ends there.
    Diverging {
        /// The epoch.
        epoch: LeaderEpoch,
        /// Its end in the leader's log.
        end: Offset,
    },
    /// Nothing was appended to the empty log, because the leader's start lies inside its first batch (KAFKA-6975): the log begins again
    /// at that batch.
    StraddlesStart {
        /// The batch's first offset.
        base: Offset,
        /// The first offset behind it.
        end: Offset,
    },
    /// No records.
    Failed(FetchFailure),
}

/// Why a Fetch of a follower brought nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FetchFailure {
    /// The follower's epoch is old: it waits for the controller's word.
    FencedEpoch,
    /// The leader has not heard of the epoch yet.
    UnknownEpoch,
    /// The node does not lead, or not yet, or does not know the replica or its session.
    NotLeader,
    /// The offset is outside the leader's log.
    OutOfRange,
    /// The answer's bytes failed their check (CRC, offsets, epochs), or the leader says that its own are damaged.
    Corrupt,
    /// The leader's disk failed, or another error that time may cure.
    LeaderFailed,
    /// No answer: the connection broke or timed out.
    Unreachable,
    /// The follower's own log refused what came, but is not closed.
    NotAppended,
    /// The leader does not count all that was asked for as committed yet.
    NotCommitted,
}

/// A change of the ISR that a leader asks the controller for (KIP-497). Its identity is all of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IsrProposal {
    /// The leadership that asks.
    pub leader_epoch: LeaderEpoch,
    /// The version of the partition's state that it builds on.
    pub partition_epoch: PartitionEpoch,
    /// The in-sync replicas to be, in assignment order, each with the session from which it was caught up; the leader is one of them.
    /// `None` for one that was in the ISR before and has not fetched in this epoch yet.
    pub isr: Vec<(NodeId, Option<BrokerEpoch>)>,
}

/// What became of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IsrAnswer {
    /// It holds, as this version of the partition's state.
    Granted {
        /// The committed in-sync replicas now.
        isr: Vec<NodeId>,
        /// Who may lead besides them.
        eligible: Vec<NodeId>,
        /// The new version.
        partition_epoch: PartitionEpoch,
    },
    /// A member may not join (fenced, stopping, another session): the committed ISR stays (`INELIGIBLE_REPLICA`, `OPERATION_NOT_ATTEMPTED`).
    Refused,
    /// It builds on a state that is over: a new assignment is on its way (`FENCED_LEADER_EPOCH`, `INVALID_UPDATE_VERSION`, ...).
    Outdated,
    /// No answer, or one that time may change: the same is proposed again.
    Unanswered,
}

/// Names a wait for an acknowledgement; chosen by who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitId {
    /// The request.
    pub request: u64,
    /// Its part that is about this partition.
    pub part: u32,
}

/// A wait for an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AckWait {
    /// Its name.
    pub id: WaitId,
    /// The epoch of the permit that the append was made with.
    pub epoch: LeaderEpoch,
    /// Everything below is waited for: the end of the batch, or of the original of a duplicate.
    pub end: Offset,
    /// Who has to have it: [`Acks::Leader`] or [`Acks::All`]; [`Acks::None`] is acknowledged at once.
    pub acks: Acks,
    /// When the sender gives up.
    pub deadline: Monotonic,
}

/// Who has to have a record before its sender is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Acks {
    /// Nobody: there is no answer.
    None,
    /// The leader.
    Leader,
    /// All in-sync replicas, and at least `min.insync.replicas`.
    All,
}

impl Acks {
    /// Reads Kafka's number; `None` for one that Kafka does not know either.
    pub const fn from_number(number: i16) -> Option<Self> {
        match number {
            0 => Some(Self::None),
            1 => Some(Self::Leader),
            -1 => Some(Self::All),
            _ => None,
        }
    }
}
