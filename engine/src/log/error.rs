//! Why a log refused. Each error says its fate: this call, this log, or this directory.

use std::io;
use std::path::PathBuf;

use crate::state::ProducerRefusal;
use crate::units::{LeaderEpoch, Offset, OffsetRange};

/// Why a log takes no more appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Closed {
    /// A write failed after offsets had been given out. The log opens again with the store, under a new epoch.
    #[error("a write failed")]
    WriteFailed,
    /// A truncation had begun and could not be ended. The log opens again as after a failed write.
    #[error("a truncation ended halfway")]
    CutFailed,
    /// The file that grows was closed while nobody used it, and then it was gone or another one: somebody else has removed, replaced or cut it.
    /// Nothing is lost that was not lost by that. The log opens again as after a failed write.
    #[error("the log's file was exchanged by somebody else")]
    FileExchanged,
    /// A thread panicked in the middle of a change, so that what is in memory is not to be believed. The log opens again as after a failed
    /// write.
    #[error("a thread panicked")]
    Panicked,
    /// The whole directory was given up.
    #[error("the directory has failed")]
    StoreFailed,
    /// The log was deleted.
    #[error("the log was deleted")]
    Deleted,
    /// The store was closed.
    #[error("the store was closed")]
    StoreClosed,
}

/// Why a leader's append was refused. Nothing was appended, no offset was used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The log has a later leadership. Refuses this call.
    #[error("{permit:?} has ended; the log is in {latest:?}")]
    StaleEpoch {
        /// The epoch of the permit.
        permit: LeaderEpoch,
        /// The log's latest epoch.
        latest: LeaderEpoch,
    },
    /// No segment could hold it, or it is larger than a batch of this store may be ([`crate::store::StoreConfig::batch_bytes_max`]). Refuses
    /// this call.
    #[error("{bytes} bytes are more than a batch of this log may have ({bytes_max})")]
    TooLarge {
        /// The size of the batch.
        bytes: usize,
        /// The greatest size of a batch.
        bytes_max: u32,
    },
    /// The device is full. Refuses this call; it may succeed when there is room again.
    #[error("no space left on the device for {bytes} more bytes; {missing_bytes} are missing")]
    OutOfSpace {
        /// The size of the append.
        bytes: usize,
        /// How much more the device would have to have free.
        missing_bytes: u64,
    },
    /// No more files can be opened, and the next segment is one. Refuses this call; it may succeed when others are closed.
    #[error("no descriptor is left for the next segment")]
    OutOfDescriptors,
    /// The producer's state does not allow it (KIP-98). Refuses this call.
    #[error(transparent)]
    Producer(#[from] ProducerRefusal),
    /// Too much is waiting to be written. Refuses this call; a turn of the driver makes room.
    #[error("{pending_bytes} bytes wait to be written; at most {pending_bytes_max} may")]
    Busy {
        /// What waits already.
        pending_bytes: usize,
        /// The bound.
        pending_bytes_max: usize,
    },
    /// A truncation is under way. Refuses this call.
    #[error("the log is being truncated")]
    Truncating,
    /// Offsets end at `i64::MAX`. Refuses this call.
    #[error("no offsets are left behind {end:?}")]
    OffsetsExhausted {
        /// The log's end.
        end: Offset,
    },
    /// The log is closed.
    #[error("the log is closed: {0}")]
    Closed(#[from] Closed),
}

/// Why a follower's append was refused. Nothing was appended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicaAppendError {
    /// The batches begin below the end. Refuses this call.
    #[error("{first:?}..{end:?} begins below the log's end {log_end:?}")]
    BelowEnd {
        /// The first offset of the batches.
        first: Offset,
        /// Their end.
        end: Offset,
        /// The log's end.
        log_end: Offset,
    },
    /// A batch is larger than one of this store may be ([`crate::store::StoreConfig::batch_bytes_max`]). Refuses this call. A segment is as
    /// large as a leader's batch has to be.
    #[error("{bytes} bytes are more than a batch of this store may have ({bytes_max})")]
    TooLarge {
        /// The size of the batch.
        bytes: usize,
        /// The greatest size of a batch.
        bytes_max: u32,
    },
    /// As for [`AppendError::OutOfSpace`].
    #[error("no space left on the device for {bytes} more bytes; {missing_bytes} are missing")]
    OutOfSpace {
        /// The size of the append.
        bytes: usize,
        /// How much more the device would have to have free.
        missing_bytes: u64,
    },
    /// As for [`AppendError::OutOfDescriptors`].
    #[error("no descriptor is left for the next segment")]
    OutOfDescriptors,
    /// As for [`AppendError::Busy`].
    #[error("{pending_bytes} bytes wait to be written; at most {pending_bytes_max} may")]
    Busy {
        /// What waits already.
        pending_bytes: usize,
        /// The bound.
        pending_bytes_max: usize,
    },
    /// A truncation is under way. Refuses this call.
    #[error("the log is being truncated")]
    Truncating,
    /// The log is closed.
    #[error("the log is closed: {0}")]
    Closed(#[from] Closed),
}

/// Why a leadership could not be written down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BeginEpochError {
    /// The log knows a later one. Refuses this call.
    #[error("{asked:?} is older than {latest:?}, which the log has")]
    Stale {
        /// The epoch that was to begin.
        asked: LeaderEpoch,
        /// The log's latest epoch.
        latest: LeaderEpoch,
    },
    /// The device is full, and the file of epochs could not be written. Refuses this call; it may succeed when there is room again.
    #[error("no space left on the device for the file of leader epochs")]
    OutOfSpace,
    /// No more files can be opened, and the new file of epochs is one. Refuses this call; it may succeed when others are closed.
    #[error("no descriptor is left for the file of leader epochs")]
    OutOfDescriptors,
    /// A truncation is under way. Refuses this call.
    #[error("the log is being truncated")]
    Truncating,
    /// The log is closed, or the whole directory has just failed: the file of epochs could not be written.
    #[error("the log is closed: {0}")]
    Closed(#[from] Closed),
}

/// Why a ticket's step will not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TicketError {
    /// The log was truncated since.
    #[error("the log was truncated")]
    Truncated,
    /// The log is closed.
    #[error("the log is closed: {0}")]
    Closed(#[from] Closed),
    /// The device is full, and an older segment has to be finished before what is waited for can be synced. Refuses this call; it may be
    /// waited for again when there is room.
    #[error("no space left on the device for what has to be synced before")]
    OutOfSpace,
    /// As for [`TicketError::OutOfSpace`], for want of a descriptor.
    #[error("no descriptor is left for what has to be synced before")]
    OutOfDescriptors,
    /// The store has no such log (any more).
    #[error("there is no such log")]
    UnknownLog,
}

/// Why a read gave nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The offset lies below the start or above the end.
    #[error("{from:?} is outside {start:?}..{end:?}")]
    OutOfRange {
        /// The offset that was asked for.
        from: Offset,
        /// The log's start.
        start: Offset,
        /// The log's written end.
        end: Offset,
    },
    /// The bytes in the file are not a batch, fail their CRC, or are not in their place. Never skipped in silence; a read that begins at
    /// the end of the range goes on behind it.
    #[error("{path} is damaged at byte {position}, offsets {}", match .offsets { Some(offsets) => offsets.to_string(), None => "unknown".to_owned() })]
    Damaged {
        /// The segment's file.
        path: PathBuf,
        /// Where in the file.
        position: u64,
        /// The damaged range; `None` until the segment was examined, as [`crate::store::Job::Examine`] does it.
        offsets: Option<OffsetRange>,
    },
    /// The file could not be read.
    #[error("{path} cannot be read: {source}")]
    Io {
        /// The segment's file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The log was deleted, or its store closed.
    #[error("the log is closed: {0}")]
    Closed(#[from] Closed),
}

/// Why a directory was given up. Final: everything in it that is not durable may be lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} has failed: {what}: {error}")]
#[non_exhaustive]
pub struct StoreFailure {
    /// The directory.
    pub path: PathBuf,
    /// What was tried.
    pub what: &'static str,
    /// The system's error, as text, because it is told many times.
    pub error: String,
}
