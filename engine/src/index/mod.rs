//! Where in a segment an offset or a timestamp is found: Kafka's `.index`, `.timeindex` and `.txnindex`.
//!
//! ```text
//! .index      relative offset i32 | position i32              of a batch: its LAST offset, and where it begins
//! .timeindex  timestamp i64 | relative offset i32             the greatest timestamp so far, and the last offset of its batch
//! .txnindex   version i16 = 0 | producer i64 | first i64 | last i64 | last stable i64
//! ```
//!
//! All are derived from the segment and can be made again at any time, so a damaged one is never an error, only work. The first two are
//! *sparse*: an entry when more than an interval of bytes has passed, none for a segment's first batch.
//!
//! What a lookup gives is a place to start looking from, nothing more. Whoever uses it reads batches from there on and compares
//! offsets: an answer that turns out to lie behind what was looked for, or not to be the beginning of a batch, means that the index is
//! wrong, and the search goes on from the segment's beginning. So a wrong index costs time and never gives a wrong record. A time that is
//! not found, and the age of a segment, show nothing by themselves: before a time index from a file is asked, its last entry is compared with
//! the log, and a search by time begins one entry early.
//!
//! An index refuses to know what is in the batches.

mod aborted;
mod active;
mod entry;
#[cfg(test)]
mod index_test;
mod sealed;

pub(crate) use aborted::aborted_bytes_below;
pub use aborted::{
    AbortedDamage, AbortedQuery, AbortedTransaction, aborted_in, append_aborted, decode_aborted,
};
pub use active::ActiveIndex;
pub use entry::{
    IndexDamage, OffsetEntry, Span, TimeEntry, check_offset_index, check_time_index, offset_entries,
    time_entries,
};
pub(crate) use entry::{OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES};
pub(crate) use sealed::{SealedOffsetIndex, SealedTimeIndex};
