//! What a log's owner decides by.

use crate::segment::DamagedRange;
use crate::state::EpochHistory;
use crate::units::{Offset, OffsetRange};

/// The facts of a log at one moment, borrowed from it. A plain value, and not `#[non_exhaustive]`, so that tests of the protocol can make
/// one.
///
/// `start <= durable <= written <= accepted`, and `recovery_point <= durable`, except that a start that was raised above
/// `durable` stays above it until the next sync.
#[derive(Clone, Copy, Debug)]
pub struct LogFacts<'a> {
    /// The first offset that readers are given.
    pub start: Offset,
    /// The next offset that an append gets: the end of the last whole batch.
    pub accepted: Offset,
    /// Everything below it is in the operating system; readers see nothing above it.
    pub written: Offset,
    /// Everything below it is synced.
    pub durable: Offset,
    /// Where recovery would begin to scan, as it is now in memory; the checkpoint may say less.
    pub recovery_point: Offset,
    /// How far compaction has come: below it a record may have gone for a newer one of its key, which lies below it too.
    pub cleaned_to: Offset,
    /// Offsets that are in the log and cannot be read, as far as anybody has looked.
    pub damaged: &'a [DamagedRange],
    /// What a repair of a compacted log replaces, ascending, a part in each segment: all that was compacted, and all that is damaged. Two
    /// replicas compact alone, and what a peer has of the damaged range alone may lack the tombstone of a key that is older here, or bring a
    /// key back whose tombstone has gone here. Empty where nothing is damaged, and in a log that is not compacted.
    pub replaced_by_repair: &'a [OffsetRange],
    /// Which leader epoch begins where.
    pub epochs: &'a EpochHistory,
}
