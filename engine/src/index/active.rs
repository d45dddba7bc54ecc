//! Both indexes of the segment that is being written, in memory, in the bytes of their files.
//!
//! Written to disk by their owner when the log is synced, sealed or closed; lost by any crash, and then made again by recovery, which
//! shows the segment's batches to [`ActiveIndex::note`] as the writer did.

use super::entry::{
    IndexDamage, OFFSET_ENTRY_BYTES, OffsetEntry, Span, TIME_ENTRY_BYTES, TimeEntry, check_offset_index,
    check_time_index, count_while, offset_entry, offset_span, raw_offset_entry, raw_time_entry, time_entry,
    time_floor,
};
use crate::units::{Offset, Timestamp};

/// The offset and time index of a growing segment.
#[derive(Clone, Debug)]
pub struct ActiveIndex {
    base: Offset,
    interval_bytes: u64,
    index_bytes_max: usize,
    offsets: Vec<u8>,
    times: Vec<u8>,
    /// Bytes of batches since the one that has the last entry, that one included.
    since_entry_bytes: u64,
    latest: Option<TimeEntry>,
}

impl ActiveIndex {
    /// The indexes of an empty segment. An entry is made when more than `interval_bytes` have passed; neither index grows
    /// beyond `index_bytes_max` (`index.interval.bytes`, `segment.index.bytes`).
    pub const fn new(base: Offset, interval_bytes: u64, index_bytes_max: usize) -> Self {
        Self {
            base,
            interval_bytes,
            index_bytes_max,
            offsets: Vec::new(),
            times: Vec::new(),
            since_entry_bytes: 0,
            latest: None,
        }
    }

    /// Goes on with the files of a segment that is written again after a clean stop.
    ///
    /// Gives the position from which the owner now shows every batch to [`ActiveIndex::note`], so that the greatest timestamp and the
    /// distance to the last entry are as they were.
    pub fn reopen(
        base: Offset,
        interval_bytes: u64,
        index_bytes_max: usize,
        files: (Vec<u8>, Vec<u8>),
        log_bytes: u64,
    ) -> Result<(Self, u64), IndexDamage> {
        check_offset_index(&files.0, base, log_bytes)?;
        check_time_index(&files.1, base)?;
        let mut index = Self::new(base, interval_bytes, index_bytes_max);
        (index.offsets, index.times) = files;
        let from = index.look_again();
        Ok((index, from))
    }

    /// Whether an index has no room for another entry, so that the segment has to be closed. One entry of the time index is kept free
    /// for [`ActiveIndex::seal`].
    #[inline]
    pub fn is_full(&self) -> bool {
        self.offsets.len() + OFFSET_ENTRY_BYTES > self.index_bytes_max
            || self.times.len() + 2 * TIME_ENTRY_BYTES > self.index_bytes_max
    }

    /// Takes in the next batch of the segment: its last offset, where it begins, its size and its greatest timestamp.
    ///
    /// An entry that has no room or cannot be expressed is left out, which costs time in lookups and nothing else.
    #[inline]
    pub fn note(
        &mut self,
        last_offset: Offset,
        position: u64,
        size_bytes: u64,
        timestamp: Option<Timestamp>,
    ) {
        if let Some(timestamp) =
            timestamp.filter(|time| self.latest.is_none_or(|latest| *time > latest.timestamp))
        {
            self.latest = Some(TimeEntry { timestamp, last_offset });
        }
        if self.since_entry_bytes > self.interval_bytes && !self.is_full() {
            self.push_offset(last_offset, position);
            self.push_latest();
            self.since_entry_bytes = 0;
        }
        self.since_entry_bytes = self.since_entry_bytes.saturating_add(size_bytes);
    }

    /// Makes the last entry of the time index, which has the greatest timestamp of the segment; called before the files of a segment
    /// that is closed are written.
    pub fn seal(&mut self) {
        self.push_latest();
    }

    /// Forgets all batches with offsets at `target` or behind it, and gives the position from which the owner shows the batches
    /// that remain to [`ActiveIndex::note`] again.
    pub fn truncate(&mut self, target: Offset) -> u64 {
        let relative = target.distance_from(self.base).unwrap_or(0);
        let offsets = count_while(self.offsets.len() / OFFSET_ENTRY_BYTES, |entry| {
            raw_offset_entry(&self.offsets, entry).is_some_and(|raw| i64::from(raw.relative) < relative)
        });
        let times = count_while(self.times.len() / TIME_ENTRY_BYTES, |entry| {
            raw_time_entry(&self.times, entry).is_some_and(|raw| i64::from(raw.relative) < relative)
        });
        self.offsets.truncate(offsets * OFFSET_ENTRY_BYTES);
        self.times.truncate(times * TIME_ENTRY_BYTES);
        self.look_again()
    }

    /// A position at or before the batch that holds `target`; 0, the segment's beginning, if no entry lies before it.
    pub fn floor(&self, target: Offset) -> u64 {
        self.span(target).floor.map_or(0, |entry| entry.position)
    }

    /// The entries between which the batch that holds `target` begins.
    pub fn span(&self, target: Offset) -> Span {
        offset_span(&self.offsets, self.base, target)
    }

    /// The last entry whose timestamp is not above `target`. No batch up to its offset has a greater timestamp than the entry, so the
    /// first record with a timestamp of `target` or later lies in its batch or behind it.
    pub fn time_floor(&self, target: Timestamp) -> Option<TimeEntry> {
        time_floor(&self.times, self.base, target)
    }

    /// The greatest timestamp of the segment and the last offset of the first batch that has it.
    pub const fn latest(&self) -> Option<TimeEntry> {
        self.latest
    }

    /// The last entry of the offset index.
    pub fn last_entry(&self) -> Option<OffsetEntry> {
        offset_entry(&self.offsets, self.base, (self.offsets.len() / OFFSET_ENTRY_BYTES).checked_sub(1)?)
    }

    /// The bytes of the offset index's file.
    pub fn offset_bytes(&self) -> &[u8] {
        &self.offsets
    }

    /// The bytes of the time index's file.
    pub fn time_bytes(&self) -> &[u8] {
        &self.times
    }

    /// Falls back to what the entries say, and gives the position of the batch that has the last one.
    fn look_again(&mut self) -> u64 {
        self.since_entry_bytes = 0;
        self.latest = self.last_time();
        self.last_entry().map_or(0, |entry| entry.position)
    }

    fn last_time(&self) -> Option<TimeEntry> {
        time_entry(&self.times, self.base, (self.times.len() / TIME_ENTRY_BYTES).checked_sub(1)?)
    }

    fn push_offset(&mut self, last_offset: Offset, position: u64) {
        let Some(relative) = self.relative(last_offset) else { return };
        let Some(position_field) = i32::try_from(position).ok().filter(|position| *position > 0) else {
            return;
        };
        if self.last_entry().is_some_and(|last| last_offset <= last.last_offset || position <= last.position)
        {
            return;
        }
        self.offsets.extend(relative.to_be_bytes());
        self.offsets.extend(position_field.to_be_bytes());
    }

    fn push_latest(&mut self) {
        let Some(latest) = self.latest else { return };
        let Some(relative) = self.relative(latest.last_offset) else { return };
        let behind_the_last = self
            .last_time()
            .is_none_or(|last| latest.timestamp > last.timestamp && latest.last_offset >= last.last_offset);
        if behind_the_last && self.times.len() + TIME_ENTRY_BYTES <= self.index_bytes_max {
            self.times.extend(latest.timestamp.millis().to_be_bytes());
            self.times.extend(relative.to_be_bytes());
        }
    }

    fn relative(&self, offset: Offset) -> Option<i32> {
        offset.distance_from(self.base).and_then(|distance| i32::try_from(distance).ok())
    }
}
