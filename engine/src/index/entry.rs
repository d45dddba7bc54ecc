//! The entries of the offset and the time index, the search for one, and the check of all.
//!
//! Works on a file's bytes as they are, so that a sealed index needs no copy of them.

use crate::units::{Offset, Timestamp};

/// The size of an entry of the offset index, in bytes.
pub(crate) const OFFSET_ENTRY_BYTES: usize = 8;
/// The size of an entry of the time index, in bytes.
pub(crate) const TIME_ENTRY_BYTES: usize = 12;

/// An entry of the offset index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetEntry {
    /// The last offset of a batch.
    pub last_offset: Offset,
    /// Where in the segment that batch begins, in bytes.
    pub position: u64,
}

/// An entry of the time index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeEntry {
    /// The greatest timestamp in the segment up to some batch.
    pub timestamp: Timestamp,
    /// The last offset of the first batch that has it.
    pub last_offset: Offset,
}

/// Why an index has to be made again from its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexDamage {
    /// The file does not consist of whole entries.
    #[error("{bytes} bytes are not whole index entries")]
    Length {
        /// The file's size.
        bytes: usize,
    },
    /// An entry's offset or timestamp does not lie behind that of the entry before.
    #[error("index entry {entry} does not lie behind the one before")]
    Order {
        /// The entry's number, from 0.
        entry: usize,
    },
    /// An entry names an offset below the segment's base, or beyond the greatest offset.
    #[error("index entry {entry} names an impossible offset")]
    Offset {
        /// The entry's number, from 0.
        entry: usize,
    },
    /// An entry names a position that cannot be the beginning of a later batch of the segment.
    #[error("index entry {entry} names position {position} of a segment of {log_bytes} bytes")]
    Position {
        /// The entry's number, from 0.
        entry: usize,
        /// What it names.
        position: i32,
        /// The segment's size.
        log_bytes: u64,
    },
}

/// One entry as it is in the file; offsets relative to the segment's base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawOffsetEntry {
    pub(super) relative: i32,
    pub(super) position: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawTimeEntry {
    pub(super) timestamp: i64,
    pub(super) relative: i32,
}

pub(super) fn raw_offset_entry(bytes: &[u8], entry: usize) -> Option<RawOffsetEntry> {
    let entry = bytes.get(entry.checked_mul(OFFSET_ENTRY_BYTES)?..)?;
    let (relative, rest) = entry.split_first_chunk()?;
    let position = rest.first_chunk()?;
    Some(RawOffsetEntry { relative: i32::from_be_bytes(*relative), position: i32::from_be_bytes(*position) })
}

pub(super) fn raw_time_entry(bytes: &[u8], entry: usize) -> Option<RawTimeEntry> {
    let entry = bytes.get(entry.checked_mul(TIME_ENTRY_BYTES)?..)?;
    let (timestamp, rest) = entry.split_first_chunk()?;
    let relative = rest.first_chunk()?;
    Some(RawTimeEntry { timestamp: i64::from_be_bytes(*timestamp), relative: i32::from_be_bytes(*relative) })
}

pub(super) fn offset_entry(bytes: &[u8], base: Offset, entry: usize) -> Option<OffsetEntry> {
    let raw = raw_offset_entry(bytes, entry)?;
    Some(OffsetEntry {
        last_offset: base.checked_add(i64::from(raw.relative))?,
        position: u64::try_from(raw.position).ok()?,
    })
}

pub(super) fn time_entry(bytes: &[u8], base: Offset, entry: usize) -> Option<TimeEntry> {
    let raw = raw_time_entry(bytes, entry)?;
    Some(TimeEntry {
        timestamp: Timestamp::from_millis(raw.timestamp),
        last_offset: base.checked_add(i64::from(raw.relative))?,
    })
}

/// The entries in a file of the offset index of a segment with this base; ends at the first that names an impossible offset.
pub fn offset_entries(bytes: &[u8], base: Offset) -> impl Iterator<Item = OffsetEntry> {
    (0..bytes.len() / OFFSET_ENTRY_BYTES).map_while(move |entry| offset_entry(bytes, base, entry))
}

/// The entries in a file of the time index of a segment with this base; ends at the first that names an impossible offset.
pub fn time_entries(bytes: &[u8], base: Offset) -> impl Iterator<Item = TimeEntry> {
    (0..bytes.len() / TIME_ENTRY_BYTES).map_while(move |entry| time_entry(bytes, base, entry))
}

/// How many of `entries` ascending entries satisfy a condition that holds for the first ones only.
pub(super) fn count_while(entries: usize, mut holds: impl FnMut(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, entries);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// What an offset index says of where a batch begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The last entry at or before the batch.
    pub floor: Option<OffsetEntry>,
    /// The next one: the batch begins at its position at the latest.
    pub ceiling: Option<OffsetEntry>,
}

/// The entry with the greatest last offset that is not above `target`, and the next.
pub(super) fn offset_span(bytes: &[u8], base: Offset, target: Offset) -> Span {
    let Some(relative) = target.distance_from(base) else { return Span::default() };
    let behind = count_while(bytes.len() / OFFSET_ENTRY_BYTES, |entry| {
        raw_offset_entry(bytes, entry).is_some_and(|raw| i64::from(raw.relative) <= relative)
    });
    let floor = behind.checked_sub(1).and_then(|entry| offset_entry(bytes, base, entry));
    Span { floor, ceiling: offset_entry(bytes, base, behind) }
}

/// The entry with the greatest timestamp that is not above `target`.
pub(super) fn time_floor(bytes: &[u8], base: Offset, target: Timestamp) -> Option<TimeEntry> {
    let behind = count_while(bytes.len() / TIME_ENTRY_BYTES, |entry| {
        raw_time_entry(bytes, entry).is_some_and(|raw| raw.timestamp <= target.millis())
    });
    time_entry(bytes, base, behind.checked_sub(1)?)
}

/// Checks that the bytes can be the offset index of a segment with this base and size: whole entries, offsets and positions strictly
/// ascending, no position at 0 (the first batch has no entry) or beyond the segment. An index that is preallocated or was not
/// trimmed fails here.
pub fn check_offset_index(bytes: &[u8], base: Offset, log_bytes: u64) -> Result<(), IndexDamage> {
    if !bytes.len().is_multiple_of(OFFSET_ENTRY_BYTES) {
        return Err(IndexDamage::Length { bytes: bytes.len() });
    }
    let mut before: Option<RawOffsetEntry> = None;
    for entry in 0..bytes.len() / OFFSET_ENTRY_BYTES {
        let Some(raw) = raw_offset_entry(bytes, entry) else {
            return Err(IndexDamage::Length { bytes: bytes.len() });
        };
        let position = raw.position;
        if u64::try_from(position).is_ok_and(|at| at >= log_bytes) || position <= 0 {
            return Err(IndexDamage::Position { entry, position, log_bytes });
        }
        if raw.relative < 0 || base.checked_add(i64::from(raw.relative)).is_none() {
            return Err(IndexDamage::Offset { entry });
        }
        if before.is_some_and(|last| raw.relative <= last.relative || position <= last.position) {
            return Err(IndexDamage::Order { entry });
        }
        before = Some(raw);
    }
    Ok(())
}

/// Checks that the bytes can be the time index of a segment with this base: whole entries, timestamps strictly ascending, offsets not
/// descending.
pub fn check_time_index(bytes: &[u8], base: Offset) -> Result<(), IndexDamage> {
    if !bytes.len().is_multiple_of(TIME_ENTRY_BYTES) {
        return Err(IndexDamage::Length { bytes: bytes.len() });
    }
    let mut before: Option<RawTimeEntry> = None;
    for entry in 0..bytes.len() / TIME_ENTRY_BYTES {
        let Some(raw) = raw_time_entry(bytes, entry) else {
            return Err(IndexDamage::Length { bytes: bytes.len() });
        };
        if raw.relative < 0 || base.checked_add(i64::from(raw.relative)).is_none() {
            return Err(IndexDamage::Offset { entry });
        }
        if before.is_some_and(|last| raw.timestamp <= last.timestamp || raw.relative < last.relative) {
            return Err(IndexDamage::Order { entry });
        }
        before = Some(raw);
    }
    Ok(())
}
