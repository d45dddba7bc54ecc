//! The indexes of a segment that no longer grows: files that are mapped and searched where they are.

use super::entry::{
    IndexDamage, OFFSET_ENTRY_BYTES, OffsetEntry, Span, TIME_ENTRY_BYTES, TimeEntry, check_offset_index,
    check_time_index, offset_ceiling, offset_entry, offset_span, time_entry, time_floor,
};
use crate::disk::Map;
use crate::units::{Offset, Timestamp};

/// The offset index of a sealed segment.
#[derive(Debug)]
pub struct SealedOffsetIndex {
    base: Offset,
    bytes: Map,
}

impl SealedOffsetIndex {
    /// Takes the file's bytes after a check of every entry; see [`check_offset_index`].
    pub fn open(base: Offset, bytes: Map, log_bytes: u64) -> Result<Self, IndexDamage> {
        check_offset_index(&bytes, base, log_bytes)?;
        Ok(Self { base, bytes })
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.bytes.len() / OFFSET_ENTRY_BYTES
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry with this number, from 0.
    pub fn entry(&self, number: usize) -> Option<OffsetEntry> {
        offset_entry(&self.bytes, self.base, number)
    }

    /// A position at or before the batch that holds `target`; 0, the segment's beginning, if no entry lies before it.
    pub fn floor(&self, target: Offset) -> u64 {
        self.span(target).floor.map_or(0, |entry| entry.position)
    }

    /// The entries between which the batch that holds `target` begins.
    pub fn span(&self, target: Offset) -> Span {
        offset_span(&self.bytes, self.base, target)
    }

    /// The first entry whose batch begins at `position` or behind it: a bound for a read that ends there.
    pub fn first_from(&self, position: u64) -> Option<OffsetEntry> {
        offset_ceiling(&self.bytes, self.base, position)
    }
}

/// The time index of a sealed segment.
#[derive(Debug)]
pub struct SealedTimeIndex {
    base: Offset,
    bytes: Map,
}

impl SealedTimeIndex {
    /// Takes the file's bytes after a check of every entry; see [`check_time_index`].
    pub fn open(base: Offset, bytes: Map) -> Result<Self, IndexDamage> {
        check_time_index(&bytes, base)?;
        Ok(Self { base, bytes })
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.bytes.len() / TIME_ENTRY_BYTES
    }

    /// Whether it has no entry. Then the segment's timestamps are unknown, unless no record has any.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry with this number, from 0.
    pub fn entry(&self, number: usize) -> Option<TimeEntry> {
        time_entry(&self.bytes, self.base, number)
    }

    /// The greatest timestamp of the segment and the last offset of the first batch that has it.
    pub fn latest(&self) -> Option<TimeEntry> {
        self.entry(self.len().checked_sub(1)?)
    }

    /// The last entry whose timestamp is not above `target`. No batch up to its offset has a greater timestamp than the entry, so the
    /// first record with a timestamp of `target` or later lies in its batch or behind it.
    pub fn floor(&self, target: Timestamp) -> Option<TimeEntry> {
        time_floor(&self.bytes, self.base, target)
    }
}
