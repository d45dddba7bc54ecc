//! The indexes of a segment that no longer grows: files that are mapped and searched where they are.

use super::entry::{
    IndexDamage, Span, TIME_ENTRY_BYTES, TimeEntry, check_offset_index, check_time_index, offset_span,
    time_entry, time_floor,
};
use crate::disk::Map;
use crate::units::{Offset, Timestamp};

/// The offset index of a sealed segment.
#[derive(Debug)]
pub(crate) struct SealedOffsetIndex {
    base: Offset,
    bytes: Map,
}

impl SealedOffsetIndex {
    /// Takes the file's bytes after a check of every entry; see [`check_offset_index`].
    pub(crate) fn open(base: Offset, bytes: Map, log_bytes: u64) -> Result<Self, IndexDamage> {
        check_offset_index(&bytes, base, log_bytes)?;
        Ok(Self { base, bytes })
    }

    /// The entries between which the batch that holds `target` begins.
    pub(crate) fn span(&self, target: Offset) -> Span {
        offset_span(&self.bytes, self.base, target)
    }
}

/// The time index of a sealed segment.
#[derive(Debug)]
pub(crate) struct SealedTimeIndex {
    base: Offset,
    bytes: Map,
}

impl SealedTimeIndex {
    /// Takes the file's bytes after a check of every entry; see [`check_time_index`].
    pub(crate) fn open(base: Offset, bytes: Map) -> Result<Self, IndexDamage> {
        check_time_index(&bytes, base)?;
        Ok(Self { base, bytes })
    }

    /// How many entries it has.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() / TIME_ENTRY_BYTES
    }

    /// Whether it has no entry. Then the segment's timestamps are unknown, unless no record has any.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry with this number, from 0.
    pub(crate) fn entry(&self, number: usize) -> Option<TimeEntry> {
        time_entry(&self.bytes, self.base, number)
    }

    /// The greatest timestamp of the segment and the last offset of the first batch that has it.
    pub(crate) fn latest(&self) -> Option<TimeEntry> {
        self.entry(self.len().checked_sub(1)?)
    }

    /// As [`super::ActiveIndex::time_floor`].
    pub(crate) fn floor(&self, target: Timestamp) -> Option<TimeEntry> {
        time_floor(&self.bytes, self.base, target)
    }
}

/// What tests compare: the entries one by one.
#[cfg(test)]
impl SealedOffsetIndex {
    pub(super) fn len(&self) -> usize {
        self.bytes.len() / super::OFFSET_ENTRY_BYTES
    }

    pub(super) fn entry(&self, number: usize) -> Option<super::OffsetEntry> {
        super::entry::offset_entry(&self.bytes, self.base, number)
    }

    pub(super) fn floor(&self, target: Offset) -> u64 {
        self.span(target).floor.map_or(0, |entry| entry.position)
    }
}
