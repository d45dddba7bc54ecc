//! Compares the entries of a segment's indexes with its batches, as those pass by. No more than one fault of each file is told: what follows
//! from it would be a list.

use crate::index::{
    OffsetEntry, TimeEntry, check_offset_index, check_time_index, offset_entries, time_entries,
};
use crate::segment::Frame;
use crate::units::{Offset, OffsetRange, Timestamp};

use super::finding::Fault;

/// An offset index: at each position a batch begins whose offsets do not lie behind the entry's, and at each offset a batch ends. A Kafka
/// before 4.0 has entries for several batches at once: where the first begins, where the last ends.
#[derive(Debug)]
pub(super) struct OffsetCheck {
    entries: Vec<OffsetEntry>,
    by_position: usize,
    by_offset: usize,
    fault: Option<Fault>,
}

impl OffsetCheck {
    pub(super) fn new(bytes: &[u8], base: Offset, log_bytes: u64) -> Self {
        let fault = check_offset_index(bytes, base, log_bytes).err().map(Fault::from);
        let entries = if fault.is_none() { offset_entries(bytes, base).collect() } else { Vec::new() };
        Self { entries, by_position: 0, by_offset: 0, fault }
    }

    pub(super) fn batch(&mut self, position: u64, frame: &Frame) {
        while let Some(named) = self.entries.get(self.by_position).filter(|named| named.position <= position)
        {
            let found =
                (named.position == position).then(|| OffsetRange::new(frame.base, frame.end())).flatten();
            if found.is_none() || named.last_offset < frame.base {
                let (entry, named) = (self.by_position, *named);
                self.fault.get_or_insert(Fault::OffsetEntry { entry, named, found });
            }
            self.by_position += 1;
        }
        while let Some(named) =
            self.entries.get(self.by_offset).filter(|named| named.last_offset <= frame.last)
        {
            if named.last_offset < frame.last {
                let (entry, named) = (self.by_offset, *named);
                self.fault.get_or_insert(Fault::OffsetEntry { entry, named, found: None });
            }
            self.by_offset += 1;
        }
    }

    /// What is wrong with it, at the end of the segment.
    pub(super) fn finish(self) -> Option<Fault> {
        let Self { entries, by_position, by_offset, fault } = self;
        let entry = by_position.min(by_offset);
        let left = entries.get(entry).map(|named| Fault::OffsetEntry { entry, named: *named, found: None });
        fault.or(left)
    }
}

/// A time index: each entry has the greatest timestamp up to the batch that it names, and that batch has it; the last one has the greatest
/// of the segment.
#[derive(Debug)]
pub(super) struct TimeCheck {
    entries: Vec<TimeEntry>,
    at: usize,
    greatest: Option<Timestamp>,
    fault: Option<Fault>,
}

impl TimeCheck {
    pub(super) fn new(bytes: &[u8], base: Offset) -> Self {
        let fault = check_time_index(bytes, base).err().map(Fault::from);
        let entries = if fault.is_none() { time_entries(bytes, base).collect() } else { Vec::new() };
        Self { entries, at: 0, greatest: None, fault }
    }

    pub(super) fn batch(&mut self, frame: &Frame) {
        while let Some(named) = self.entries.get(self.at).filter(|named| named.last_offset <= frame.last) {
            let is_greatest = self.greatest <= Some(named.timestamp);
            if named.last_offset < frame.base || frame.max_timestamp != Some(named.timestamp) || !is_greatest
            {
                let (entry, found) = (self.at, self.greatest.max(frame.max_timestamp));
                self.fault.get_or_insert(Fault::TimeEntry { entry, named: *named, found });
            }
            self.at += 1;
        }
        self.greatest = self.greatest.max(frame.max_timestamp);
    }

    /// What is wrong with it, at the end of the segment.
    pub(super) fn finish(self) -> Option<Fault> {
        let Self { entries, at, greatest, fault } = self;
        let left = || entries.get(at).map(|named| Fault::TimeEntry { entry: at, named: *named, found: None });
        let found = entries.last().map(|last| last.timestamp);
        let ends_early = || {
            let expected = greatest.filter(|greatest| found != Some(*greatest))?;
            Some(Fault::TimeEnd { expected, found })
        };
        fault.or_else(left).or_else(ends_early)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::ActiveIndex;

    fn at(offset: i64) -> Offset {
        Offset::new(offset).unwrap()
    }

    /// Batches of two offsets and 100 bytes, with these times.
    fn batches(times: &[i64]) -> Vec<(u64, Frame)> {
        let frame = |(number, time): (i64, &i64)| Frame {
            base: at(10 + 2 * number),
            last: at(11 + 2 * number),
            size: 100,
            epoch: None,
            max_timestamp: Some(Timestamp::from_millis(*time)),
        };
        (0..).zip(times).map(frame).enumerate().map(|(number, frame)| (100 * number as u64, frame)).collect()
    }

    fn index_of(batches: &[(u64, Frame)]) -> ActiveIndex {
        let mut index = ActiveIndex::new(at(10), 1, 1 << 20);
        for (position, frame) in batches {
            index.note(frame.last, *position, frame.size as u64, frame.max_timestamp);
        }
        index.seal();
        index
    }

    fn check(offsets: &[u8], times: &[u8], batches: &[(u64, Frame)]) -> [Option<Fault>; 2] {
        let log_bytes = 100 * batches.len() as u64;
        let mut offset_check = OffsetCheck::new(offsets, at(10), log_bytes);
        let mut time_check = TimeCheck::new(times, at(10));
        for (position, frame) in batches {
            offset_check.batch(*position, frame);
            time_check.batch(frame);
        }
        [offset_check.finish(), time_check.finish()]
    }

    #[test]
    fn what_the_engine_writes_is_right_also_where_times_go_backwards() {
        let batches = batches(&[5, 9, 3, 9, 12, 1]);
        let index = index_of(&batches);
        assert_eq!(check(index.offset_bytes(), index.time_bytes(), &batches), [None, None]);
    }

    #[test]
    fn every_byte_of_an_index_that_leads_astray_is_found() {
        let batches = batches(&[5, 9, 3, 9, 12, 1]);
        let index = index_of(&batches);
        for number in 0..index.offset_bytes().len() {
            let mut bytes = index.offset_bytes().to_vec();
            bytes[number] ^= 1;
            let [found, _] = check(&bytes, index.time_bytes(), &batches);
            assert!(found.is_some(), "byte {number} of the offset index");
        }
        for number in 0..index.time_bytes().len() {
            let mut bytes = index.time_bytes().to_vec();
            // Any offset of its batch leads to it.
            bytes[number] ^= 2;
            let [_, found] = check(index.offset_bytes(), &bytes, &batches);
            assert!(found.is_some(), "byte {number} of the time index");
        }
    }

    #[test]
    fn a_time_index_that_lacks_its_end_is_found() {
        let batches = batches(&[5, 9, 12]);
        let index = index_of(&batches);
        let cut = index.time_bytes().len() - 12;
        let [_, found] = check(index.offset_bytes(), &index.time_bytes()[..cut], &batches);
        assert!(matches!(found, Some(Fault::TimeEnd { .. })), "{found:?}");
    }

    #[test]
    fn an_entry_for_several_batches_is_right() {
        let batches = batches(&[1, 1, 1, 1]);
        // Where the second batch begins and the third ends, as a Kafka before 4.0 has it.
        let bytes: Vec<u8> = [5_i32, 100].iter().flat_map(|number| number.to_be_bytes()).collect();
        let [found, _] = check(&bytes, &[], &batches);
        assert_eq!(found, None);
    }
}
