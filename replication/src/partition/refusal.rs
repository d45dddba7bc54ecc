//! What a replica answers when asked, and why it refuses.

use highwater_engine::units::{LeaderEpoch, NodeId, Offset};

/// What a Fetch is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchVerdict {
    /// Records from its offset up to, and without, `ceiling`; none if the offset has reached it.
    Read {
        /// Where reading ends: `written` for followers, the high watermark for consumers.
        ceiling: Offset,
    },
    /// No records: the histories part.
    Diverging {
        /// The largest epoch not above the fetcher's that this log has.
        epoch: LeaderEpoch,
        /// Where it ends here.
        end: Offset,
    },
}

/// Why a Fetch is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchRefusal {
    /// The wrong epoch or the wrong node.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// The offset is below the start, behind the end, or of an epoch that this log has never seen.
    #[error("offset {offset} is not in {start}..={end}")]
    OutOfRange {
        /// The Fetch's offset.
        offset: Offset,
        /// The log's start.
        start: Offset,
        /// The log's end.
        end: Offset,
    },
    /// No such replica is assigned (`UNKNOWN_LEADER_EPOCH` if the Fetch names an epoch, else `NOT_LEADER_OR_FOLLOWER`).
    #[error("{node:?} is not a replica of this partition")]
    UnknownReplica {
        /// Who asked.
        node: NodeId,
    },
    /// The Fetch is of another session of that broker than the present one.
    #[error("the fetch of {node:?} is not of its present session")]
    OtherSession {
        /// Who asked.
        node: NodeId,
    },
}

/// The wrong epoch or the wrong node; common to Fetch, `ListOffsets` and `OffsetForLeaderEpoch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fenced {
    /// The asker's leader epoch is over (`FENCED_LEADER_EPOCH`).
    #[error("leader epoch {asked} is over, {current} is now")]
    OldEpoch {
        /// The asker's.
        asked: LeaderEpoch,
        /// This replica's.
        current: LeaderEpoch,
    },
    /// The asker knows of a later leader epoch than this replica (`UNKNOWN_LEADER_EPOCH`).
    #[error("leader epoch {asked} is not known here yet, {current} is")]
    UnknownEpoch {
        /// The asker's.
        asked: LeaderEpoch,
        /// This replica's.
        current: LeaderEpoch,
    },
    /// This replica does not lead (`NOT_LEADER_OR_FOLLOWER`).
    #[error("this replica does not lead")]
    NotLeader,
    /// This replica's log failed (`KAFKA_STORAGE_ERROR`).
    #[error("the log of this replica failed")]
    Offline,
}

/// Why an append is refused, before anything is appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProduceRefusal {
    /// This replica does not lead (`NOT_LEADER_OR_FOLLOWER`).
    #[error("this replica does not lead")]
    NotLeader,
    /// This replica's log failed (`KAFKA_STORAGE_ERROR`).
    #[error("the log of this replica failed")]
    Offline,
    /// The log has not noted the leadership yet: [`super::Effect::BeginEpoch`] is still to be carried out (`NOT_LEADER_OR_FOLLOWER`).
    #[error("the leadership has not begun in the log yet")]
    EpochNotBegun,
    /// Too few replicas are in sync for acks=all (`NOT_ENOUGH_REPLICAS`).
    #[error("{in_sync} replicas are in sync, {needed} are needed")]
    NotEnoughReplicas {
        /// How many are in sync.
        in_sync: usize,
        /// How many acks=all needs.
        needed: usize,
    },
    /// Too many acknowledgements are being waited for (to be tried again).
    #[error("{waiting} acknowledgements are being waited for already")]
    TooManyWaits {
        /// How many.
        waiting: usize,
    },
}

/// Up to where `ListOffsets` may speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListBound {
    /// The high watermark holds for this leadership.
    Settled(Offset),
    /// The high watermark has not reached the leadership's start yet. "Latest", "max timestamp" and whatever is not found below it are
    /// `OFFSET_NOT_AVAILABLE`, so that offsets do not seem to go back (KIP-207).
    Unsettled(Offset),
}

/// Who asks for offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A client.
    Client,
    /// A replica: it is told the end of the log.
    Replica,
    /// Kafka's debugging consumer (replica id -2): it is told the end of the log, also by a follower.
    Debugger,
}

/// What a follower's next Fetch says of this partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    /// Whom to ask.
    pub leader: NodeId,
    /// The epoch to ask in.
    pub epoch: LeaderEpoch,
    /// Where to go on: the end of this log.
    pub offset: Offset,
    /// The epoch of the last record here.
    pub last_fetched_epoch: Option<LeaderEpoch>,
    /// The start of this log.
    pub log_start: Offset,
}
