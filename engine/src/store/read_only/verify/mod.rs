//! Compares everything in a data directory with everything else, and changes nothing: batches, their order, their leader epochs, indexes,
//! aborted transactions, snapshots of producers, checkpoints.
//!
//! ```text
//!   .log ──────> every batch: CRC, place, epoch ──> producers, aborted transactions, greatest times
//!     │                                                    │
//!     ├── .index, .timeindex ── each entry names a batch   ├── .snapshot, at its offset
//!     └── leader-epoch-checkpoint ── each batch has it     └── .txnindex of its segment
//!   recovery point, high watermark, start, mark of the stop ──> the end of the log
//! ```
//!
//! Also while a broker writes: what is looked at is what was whole at one moment, and of files that are only written when a segment is sealed
//! nothing is expected before. What is found is looked for a second time, because a file may be exchanged while it is read.
//!
//! A snapshot that cannot be read is no fault where a later one can: a crash may tear one, and whoever needs it takes the next.
//!
//! A gap between two segments is a fault unless the log is compacted, which is known by `cleaner-offset-checkpoint`, by gaps inside of its
//! segments, by our note of gaps, or by [`crate::store::StoreConfig::log`].

mod files;
mod finding;
mod indexes;
mod log;
#[cfg(test)]
mod verify_test;
mod witness;

pub use finding::{Fault, Finding};

use crate::units::{Offset, TopicPartition};

/// How often a log is read again of which a file is gone.
const TRIES_MAX: usize = 64;

/// A log that was read as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogVerified {
    /// Its name.
    pub name: TopicPartition,
    /// Its first offset.
    pub start: Offset,
    /// Behind its last record.
    pub end: Offset,
    /// How many segments it has.
    pub segments: usize,
    /// Bytes of its segments.
    pub bytes: u64,
    /// Batches that are whole and in their place.
    pub batches: u64,
    /// What does not hold together.
    pub findings: Vec<Finding>,
}

impl LogVerified {
    fn refused(name: &TopicPartition, mut finding: Finding) -> Self {
        finding.log = Some(name.clone());
        let (start, end) = (Offset::ZERO, Offset::ZERO);
        Self { name: name.clone(), start, end, segments: 0, bytes: 0, batches: 0, findings: vec![finding] }
    }
}

/// A file that was looked at alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileVerified {
    /// Its bytes.
    pub bytes: u64,
    /// Batches, entries or lines.
    pub entries: u64,
    /// What does not hold together.
    pub findings: Vec<Finding>,
}
