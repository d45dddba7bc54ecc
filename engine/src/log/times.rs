//! Offsets by time, as clients ask for them (Kafka's `ListOffsets`). Blocks on the disk where the batches are not in memory.

use super::ReadError;
use super::fetch::damaged;
use super::inner::{Inner, View};
use super::read::TimestampedOffset;
use crate::batch::{BatchView, DecompressLimits, LegacyMessage, RecordView, TimestampType};
use crate::segment::{AtDamage, Frame, Segment, Walk, WalkError};
use crate::units::{Offset, Timestamp};

impl Inner {
    /// The first record, in order of offsets from the log's start on and below `ceiling`, that is not older than `timestamp`.
    pub(crate) fn offset_for_timestamp(
        &self,
        timestamp: Timestamp,
        ceiling: Offset,
    ) -> Result<Option<TimestampedOffset>, ReadError> {
        self.look(|view, start| {
            let ceiling = ceiling.min(self.marks.written.get());
            for segment in view.segments.iter().skip(view.floor(start)) {
                let io = |error| damaged(segment, WalkError::Io(error));
                let latest = segment.latest_timestamp().map_err(io)?;
                if latest.is_none_or(|latest| latest.timestamp < timestamp) {
                    continue;
                }
                let from = segment.time_floor(timestamp).map_err(io)?.max(start);
                let found = first_record(segment, from, start, ceiling, timestamp)?;
                if let Some((offset, timestamp)) = found {
                    return Ok(Some(self.timestamped(offset, timestamp)));
                }
            }
            Ok(None)
        })
    }

    /// The first record with the greatest timestamp, from the log's start on and below `ceiling`.
    pub(crate) fn max_timestamp(&self, ceiling: Offset) -> Result<Option<TimestampedOffset>, ReadError> {
        self.look(|view, start| {
            let ceiling = ceiling.min(self.marks.written.get());
            let mut best: Option<(Offset, Timestamp)> = None;
            for segment in view.segments.iter().skip(view.floor(start)) {
                let io = |error| damaged(segment, WalkError::Io(error));
                let Some(latest) = segment.latest_timestamp().map_err(io)? else { continue };
                if best.is_some_and(|(_, timestamp)| timestamp >= latest.timestamp) {
                    continue;
                }
                // The index knows of the whole segment; where part of it lies outside the range, that part's greatest may not count.
                let inside = segment.base() >= start && latest.last_offset < ceiling;
                let found = if inside {
                    first_record(segment, latest.last_offset, start, ceiling, latest.timestamp)?
                } else {
                    greatest_record(segment, start, ceiling)?
                };
                best = match (best, found) {
                    (Some(old), Some(new)) if new.1 > old.1 => Some(new),
                    (old, new) => old.or(new),
                };
            }
            Ok(best.map(|(offset, timestamp)| self.timestamped(offset, timestamp)))
        })
    }

    /// Looks through the segments from the start on; again, if the log was cut meanwhile, or what is missing was removed.
    fn look<T>(&self, find: impl Fn(&View, Offset) -> Result<T, ReadError>) -> Result<T, ReadError> {
        loop {
            let (view, start) = (self.view(), self.marks.start.get());
            let found = find(&view, start);
            if self.is_told(&found, &view, start) && self.marks.generation() == view.generation {
                return found;
            }
            crate::sync::yield_now();
        }
    }

    fn timestamped(&self, offset: Offset, timestamp: Timestamp) -> TimestampedOffset {
        TimestampedOffset { offset, timestamp, epoch: self.writer().epochs.epoch_at(offset) }
    }
}

/// The first record from the batch that holds `from` on, with an offset in `start..ceiling`, that is not older than `timestamp`.
fn first_record(
    segment: &Segment,
    from: Offset,
    start: Offset,
    ceiling: Offset,
    timestamp: Timestamp,
) -> Result<Option<(Offset, Timestamp)>, ReadError> {
    let mut found = None;
    each_batch(segment, from, ceiling, |frame, batch| {
        if frame.max_timestamp.is_none_or(|latest| latest < timestamp) {
            return Ok(true);
        }
        found = records_of(frame, &batch()?)
            .into_iter()
            .find(|(offset, time)| *time >= timestamp && *offset >= start && *offset < ceiling);
        Ok(found.is_none())
    })?;
    Ok(found)
}

fn greatest_record(
    segment: &Segment,
    start: Offset,
    ceiling: Offset,
) -> Result<Option<(Offset, Timestamp)>, ReadError> {
    let mut best: Option<(Offset, Timestamp)> = None;
    each_batch(segment, start, ceiling, |frame, batch| {
        if frame.max_timestamp.is_some_and(|latest| best.is_none_or(|(_, time)| latest > time)) {
            for (offset, time) in records_of(frame, &batch()?) {
                if offset >= start && offset < ceiling && best.is_none_or(|(_, best)| time > best) {
                    best = Some((offset, time));
                }
            }
        }
        Ok(true)
    })?;
    Ok(best)
}

/// Shows each batch from the one that holds `from` on, below `ceiling`, until the visitor has enough.
fn each_batch(
    segment: &Segment,
    from: Offset,
    ceiling: Offset,
    mut visit: impl FnMut(&Frame, &dyn Fn() -> Result<Vec<u8>, ReadError>) -> Result<bool, ReadError>,
) -> Result<(), ReadError> {
    let fail = |error| damaged(segment, error);
    let from = from.max(segment.base());
    let Some((position, _)) = segment.find_unbroken(from).map_err(fail)? else { return Ok(()) };
    let mut walk =
        Walk::new(segment, position, AtDamage::Stop).map_err(|error| fail(WalkError::Io(error)))?;
    while let Some((position, frame)) = walk.next().map_err(fail)? {
        if frame.base >= ceiling {
            break;
        }
        let bytes = || {
            let bytes = walk.batch_bytes(position, frame.size).map_err(|error| fail(WalkError::Io(error)))?;
            if bytes.get(16).is_some_and(|magic| *magic >= 2) && BatchView::parse(&bytes).is_err() {
                return Err(fail(WalkError::Damaged(position)));
            }
            Ok(bytes)
        };
        if !visit(&frame, &bytes)? {
            break;
        }
    }
    Ok(())
}

/// Offset and timestamp of each record that has one. A batch that cannot be decompressed counts as a whole, by its last offset.
fn records_of(frame: &Frame, bytes: &[u8]) -> Vec<(Offset, Timestamp)> {
    let whole = || frame.max_timestamp.map(|time| (frame.last, time)).into_iter().collect();
    let mut scratch = Vec::new();
    let Ok(view) = BatchView::parse(bytes) else {
        let legacy = LegacyMessage::parse(bytes);
        let records = legacy.and_then(|message| message.records(&DecompressLimits::default(), &mut scratch));
        let Ok(records) = records else { return whole() };
        return records.filter_map(|record| Some((record.offset, record.timestamp?))).collect();
    };
    let Ok(records) = view.records(&DecompressLimits::default(), &mut scratch) else { return whole() };
    let append_time = match view.header().attributes.timestamp_type() {
        TimestampType::LogAppendTime => view.header().max_timestamp,
        TimestampType::CreateTime => None,
    };
    records
        .map_while(Result::ok)
        .filter_map(|RecordView { offset, timestamp, .. }| Some((offset, append_time.or(timestamp)?)))
        .collect()
}
