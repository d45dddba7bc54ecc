//! Cold work as values: run by a small pool in production, in seeded order by the simulator.

use std::io;
use std::path::PathBuf;

use super::{Compaction, CompactionRefusal, LogReport, ReopenLogError, RepairRefusal};
use crate::batch::ReplicatedBatches;
use crate::log::{Closed, ColdRead, LogId, Read, ReadError};
use crate::segment::DamagedRange;
use crate::units::{Now, Offset, OffsetRange, TopicPartition};

/// Something to be done where blocking is allowed. Any order is right; jobs of one log exclude each other on their own.
#[derive(Debug)]
#[non_exhaustive]
pub enum Job {
    /// Cut everything at and above `to`. A batch that lies across is cut whole.
    Truncate {
        /// The log.
        log: LogId,
        /// The first offset that goes.
        to: Offset,
    },
    /// Drop everything and go on at `offset`.
    RestartAt {
        /// The log.
        log: LogId,
        /// The new start and end.
        offset: Offset,
    },
    /// Move the start up; whole segments below it go with the next retention.
    RaiseStart {
        /// The log.
        log: LogId,
        /// The new start, at most the written end.
        to: Offset,
    },
    /// Delete old segments.
    Retention {
        /// The log.
        log: LogId,
        /// Nothing at or above it is deleted: the high watermark, where there are replicas.
        ceiling: Offset,
        /// The time.
        now: Now,
    },
    /// Compact, a piece of a round at a time: whoever runs them one behind the other decides how fast it goes. A round that is under way is
    /// carried on; otherwise one begins if it is due. A round of another log that is under way is given up. A crash leaves the log with the
    /// groups of segments that were exchanged by then, each of them old or new.
    Compact {
        /// The log.
        log: LogId,
        /// Nothing at or above it is touched: the last stable offset, which is at most the high watermark.
        ceiling: Offset,
        /// The time.
        now: Now,
        /// About so many bytes are read and written by this job.
        bytes_max: u64,
    },
    /// Finish segments that were rolled: trim, indexes, snapshot, sync.
    Seal {
        /// The log.
        log: LogId,
    },
    /// Sync logs that nobody waits for.
    Sync {
        /// The logs.
        logs: Vec<LogId>,
    },
    /// Write the recovery points and log starts down.
    Checkpoint {
        /// The time, for the next one.
        now: Now,
    },
    /// Write a named offset checkpoint (the high watermarks).
    OffsetCheckpoint {
        /// The file's name, without a directory.
        name: String,
        /// One offset for each partition.
        entries: Vec<(TopicPartition, Offset)>,
    },
    /// Read what is not in memory.
    ColdRead(ColdRead),
    /// Read every byte of a segment in which something did not fit, and keep what is damaged.
    Examine {
        /// The log.
        log: LogId,
        /// The segment's base offset.
        segment: Offset,
    },
    /// Look through the batches of a segment that grows no more, or of a piece of it, and have its index of aborted transactions (`.txnindex`)
    /// say what they say: for a Kafka that is given the directory. A crash leaves the old file or the new one.
    IndexAborted {
        /// The log.
        log: LogId,
        /// The segment's base offset.
        segment: Offset,
    },
    /// Replace a range of offsets, in one segment, by what somebody else has of it; what was damaged there is whole again. The log neither
    /// grows nor shrinks. A crash leaves the old or the new. What the log knows of producers stays as it was until the next opening.
    Repair {
        /// The log.
        log: LogId,
        /// The range: that of a damaged one, say, or of a whole segment.
        offsets: OffsetRange,
        /// What belongs there, from its first offset to its last.
        batches: ReplicatedBatches,
        /// The time, for a segment that has to be rolled first.
        now: Now,
    },
    /// Remove a log and its files.
    DeleteLog {
        /// The log.
        log: LogId,
    },
    /// Open a log again that a failed write closed ([`super::Store::reopen_log`]).
    Reopen {
        /// The closed log.
        log: LogId,
        /// The time.
        now: Now,
    },
}

/// What came of a job.
#[derive(Debug)]
#[non_exhaustive]
pub enum JobDone {
    /// The log was cut.
    Truncated {
        /// The log.
        log: LogId,
        /// Its end now: the end of its last whole batch, at most what was asked for.
        end: Offset,
    },
    /// The log is empty.
    RestartedAt {
        /// The log.
        log: LogId,
        /// Its start and end now.
        offset: Offset,
    },
    /// The start was moved, or was there already.
    StartRaised {
        /// The log.
        log: LogId,
        /// Its start now.
        start: Offset,
    },
    /// Old segments were deleted, or there were none.
    Retained {
        /// The log.
        log: LogId,
        /// Its start now.
        start: Offset,
        /// How many segments went.
        segments: usize,
        /// How many bytes they had.
        bytes: u64,
    },
    /// A piece of a compaction is done, or none was due.
    Compacted {
        /// The log.
        log: LogId,
        /// How far it has come.
        step: Compaction,
    },
    /// Rolled segments are finished and synced.
    Sealed {
        /// The log.
        log: LogId,
    },
    /// Logs are synced.
    Synced {
        /// The logs.
        logs: Vec<LogId>,
    },
    /// Recovery points and log starts are written down.
    Checkpointed,
    /// The named checkpoint is written.
    OffsetCheckpointed {
        /// The file's name.
        name: String,
    },
    /// A cold read.
    Read {
        /// What was asked for.
        asked: ColdRead,
        /// What was found; never [`Read::Cold`].
        result: Result<Read, ReadError>,
    },
    /// A segment was examined, or is there no more.
    Examined {
        /// The log.
        log: LogId,
        /// The segment's base offset.
        segment: Offset,
        /// All that is damaged in it.
        damaged: Vec<DamagedRange>,
    },
    /// A segment's index of aborted transactions says what its batches say, unless more of them is to be looked through, they are damaged, or
    /// the segment is no more.
    AbortedIndexed {
        /// The log.
        log: LogId,
        /// The segment's base offset.
        segment: Offset,
        /// Whether the index said something else, and was written anew.
        rewritten: bool,
    },
    /// A range was replaced, for certain.
    Repaired {
        /// The log.
        log: LogId,
        /// The range.
        offsets: OffsetRange,
        /// All that is still damaged in the log.
        damaged: Vec<DamagedRange>,
    },
    /// The log and its files are gone.
    Deleted {
        /// The log.
        log: LogId,
    },
    /// The log is open again, under a new id, or was none that a failed write had closed.
    Reopened {
        /// The log that was closed.
        log: LogId,
        /// What recovery found; `None` if there was nothing to open again.
        report: Option<Box<LogReport>>,
    },
    /// It could not be done.
    Failed {
        /// Which.
        kind: JobKind,
        /// Of which log.
        log: Option<LogId>,
        /// Why.
        error: JobError,
    },
}

/// The kinds of [`Job`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum JobKind {
    /// [`Job::Truncate`].
    Truncate,
    /// [`Job::RestartAt`].
    RestartAt,
    /// [`Job::RaiseStart`].
    RaiseStart,
    /// [`Job::Retention`].
    Retention,
    /// [`Job::Compact`].
    Compact,
    /// [`Job::Seal`].
    Seal,
    /// [`Job::Sync`].
    Sync,
    /// [`Job::Checkpoint`].
    Checkpoint,
    /// [`Job::OffsetCheckpoint`].
    OffsetCheckpoint,
    /// [`Job::ColdRead`].
    ColdRead,
    /// [`Job::Examine`].
    Examine,
    /// [`Job::IndexAborted`].
    IndexAborted,
    /// [`Job::Repair`].
    Repair,
    /// [`Job::DeleteLog`].
    DeleteLog,
    /// [`Job::Reopen`].
    Reopen,
}

/// Why a job could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// There is no such log (any more). Refuses the job.
    #[error("there is no such log")]
    UnknownLog,
    /// Another truncation of the log is under way. Refuses the job.
    #[error("the log is being truncated")]
    Truncating,
    /// The log is closed. Refuses the job.
    #[error("the log is closed: {0}")]
    Closed(#[from] Closed),
    /// The offset lies above the end. Refuses the job.
    #[error("{offset:?} lies above the end {end:?}")]
    AboveEnd {
        /// The offset.
        offset: Offset,
        /// The log's written end.
        end: Offset,
    },
    /// The bytes around the place could not be understood. Refuses the job.
    #[error(transparent)]
    Damaged(#[from] ReadError),
    /// The range cannot be replaced by this. Refuses the job.
    #[error(transparent)]
    NotRepaired(#[from] RepairRefusal),
    /// The log cannot be compacted. Refuses the job.
    #[error(transparent)]
    NotCompacted(#[from] CompactionRefusal),
    /// The log could not be opened again. It stays closed.
    #[error(transparent)]
    NotReopened(#[from] ReopenLogError),
    /// The device is full, also without the space in reserve. Refuses the job, which may succeed when there is room again; what it has done
    /// by then is done, and [`Closed::CutFailed`] says so where that matters.
    #[error("no space left on the device for {path}")]
    OutOfSpace {
        /// The file or directory.
        path: PathBuf,
    },
    /// No more files can be opened. As for [`JobError::OutOfSpace`].
    #[error("no descriptor is left for {path}")]
    OutOfDescriptors {
        /// The file or directory.
        path: PathBuf,
    },
    /// A file could not be changed. The directory has failed.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}
