//! Reads: an immutable view, never a lock that the writer holds, never a byte above `written`.

use bytes::Bytes;

use crate::index::AbortedTransaction;
use crate::log::LogId;
use crate::units::{LeaderEpoch, Offset};

/// What a read found.
#[derive(Debug)]
pub enum Read {
    /// Whole batches.
    Records(Records),
    /// Nothing between the offset and the ceiling.
    Empty,
    /// The bytes are not in memory: to be run as a [`crate::store::Job::ColdRead`] where blocking is allowed.
    Cold(ColdRead),
}

/// A read that has to go to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColdRead {
    /// The log.
    pub log: LogId,
    /// The first offset that is wanted.
    pub from: Offset,
    /// Nothing at or above it.
    pub ceiling: Offset,
    /// The most bytes.
    pub bytes_max: usize,
    /// Whether the first batch comes whole, however large.
    pub at_least_one: bool,
    /// Whose records are wanted.
    pub isolation: Isolation,
}

/// Whose records a reader wants (`isolation.level`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// All.
    #[default]
    Uncommitted,
    /// Not those of aborted transactions: which these are comes with the batches.
    Committed,
}

/// Whole batches, one behind the other. The first may begin below the offset that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Records {
    /// The bytes as they are in the file, cut at batches or anywhere between.
    pub parts: Vec<Bytes>,
    /// How many bytes that is.
    pub size: usize,
    /// The base offset of the first batch.
    pub first: Offset,
    /// Behind the last offset of the last batch.
    pub end: Offset,
    /// The epoch of the first batch; old formats have none.
    pub first_epoch: Option<LeaderEpoch>,
    /// The aborted transactions that have records here, ordered by their markers within each segment; none unless they were asked for.
    pub aborted: Vec<AbortedTransaction>,
}

/// A record found by its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimestampedOffset {
    /// The record's offset.
    pub offset: Offset,
    /// Its timestamp.
    pub timestamp: crate::units::Timestamp,
    /// The epoch it was appended in, where known.
    pub epoch: Option<LeaderEpoch>,
}
