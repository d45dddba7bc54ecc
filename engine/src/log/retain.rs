//! Deletes old segments: facts of each, a plan, then from the oldest on. Also forgets producers that have been idle for too long.

use std::sync::Arc;
use std::time::Duration;

use super::inner::Inner;
use super::room::NoRoom;
use super::seal::FileError;
use super::shared::lock;
use super::truncate::{CutError, walk_failed};
use super::writer::{Demand, Phase};
use super::{Cleanup, Closed, LogConfig};
use crate::segment::{FileKind, Segment, WalkError};
use crate::units::{Now, Offset};

/// What retention did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retained {
    pub(crate) segments: usize,
    pub(crate) bytes: u64,
}

/// What retention knows of one segment.
#[derive(Clone, Copy, Debug)]
struct SegmentFacts {
    /// Behind its last record: the base of the next, or the log's end.
    end: Offset,
    bytes: u64,
    /// How old its newest record is.
    age: Duration,
}

impl Inner {
    pub(crate) fn retain(self: &Arc<Self>, ceiling: Offset, now: Now) -> Result<Retained, CutError> {
        let _maintenance = lock(&self.maintenance);
        self.writer().producers.expire(now.monotonic);
        let config = self.config();
        let ceiling = ceiling.min(self.marks.written.get());
        let mut view = self.view();
        let facts = self.segment_facts(&view.segments, now)?;
        let going = plan_retention(&facts, self.marks.start.get(), ceiling, &config);
        if going == 0 {
            return Ok(Retained::default());
        }
        if going == view.segments.len() {
            // One always remains: an empty one at the end.
            self.roll_now(now)?;
            view = self.view();
        }
        let going = going.min(view.segments.len().saturating_sub(1));
        let (gone, kept) = view.segments.split_at(going);
        let Some(start) = kept.first().map(|segment| segment.base()) else { return Ok(Retained::default()) };
        // The start is raised before anything goes, so that nobody begins to read what is about to.
        self.marks.start.raise(start.max(self.marks.start.get()));
        let epochs_changed = {
            let mut writer = self.writer();
            // Taken again: a roll may have added one meanwhile.
            let segments: Vec<_> = self.view().segments.iter().skip(going).map(Arc::clone).collect();
            self.set_segments(segments);
            writer.unsealed.retain(|unsealed| unsealed.segment.base() >= start);
            writer.producers.note_start(start);
            let changed = writer.epochs.truncate_from_start(start);
            writer.epochs_unsynced |= changed;
            changed
        };
        if epochs_changed {
            self.write_epochs(crate::checkpoint::Certainty::Written)?;
        }
        let mut retained = Retained::default();
        for segment in gone {
            retained.segments += 1;
            retained.bytes += segment.size();
            self.remove_segment(segment)?;
        }
        self.remove_snapshots(|offset| offset < start)?;
        Ok(retained)
    }

    fn remove_segment(&self, segment: &Segment) -> Result<(), FileError> {
        let removed = segment.remove();
        removed.map_err(|error| self.failed("remove a segment", segment.path(FileKind::Log), error))
    }

    fn segment_facts(&self, segments: &[Arc<Segment>], now: Now) -> Result<Vec<SegmentFacts>, CutError> {
        let mut facts = Vec::with_capacity(segments.len());
        for (number, segment) in segments.iter().enumerate() {
            let fail = |error| walk_failed(segment, segment.base(), WalkError::Io(error));
            // Without timestamps the file's own age counts.
            let newest_ms = match segment.latest_timestamp().map_err(fail)? {
                Some(latest) => latest.timestamp.millis(),
                None => segment.file().and_then(|file| file.identity()).map_err(fail)?.modified_ms,
            };
            let age_ms = now.wall.millis().saturating_sub(newest_ms);
            facts.push(SegmentFacts {
                end: segments.get(number + 1).map_or(self.marks.written.get(), |next| next.base()),
                bytes: segment.size(),
                age: Duration::from_millis(u64::try_from(age_ms).unwrap_or(0)),
            });
        }
        Ok(facts)
    }

    /// Rolls although the active segment is neither full nor old.
    fn roll_now(self: &Arc<Self>, now: Now) -> Result<(), CutError> {
        let _room = lock(&self.room);
        {
            let mut writer = self.writer();
            match writer.phase {
                Phase::Open => writer.phase = Phase::Rolling,
                Phase::Rolling | Phase::Truncating => return Err(CutError::Truncating),
                Phase::Closing => return Err(CutError::Closed(Closed::StoreClosed)),
                Phase::Closed(why) => return Err(CutError::Closed(why)),
            }
        }
        let end = self.marks.accepted.get();
        let demand = Demand { bytes: 0, first: end, last: end, max_timestamp: None, now: now.wall };
        let rolled = self.roll(&demand, &self.config());
        let mut writer = self.writer();
        if writer.phase == Phase::Rolling {
            writer.phase = Phase::Open;
        }
        drop(writer);
        rolled.map_err(|no_room| match no_room {
            NoRoom::Closed(why) => CutError::Closed(why),
            NoRoom::OutOfSpace | NoRoom::Truncating => CutError::Truncating,
        })
    }
}

/// How many segments go, from the oldest on (`UnifiedLog.deleteOldSegments`): what lies below the log's start, then by size, then by age.
/// None goes that reaches above `ceiling`, and an empty last one never.
fn plan_retention(facts: &[SegmentFacts], start: Offset, ceiling: Offset, config: &LogConfig) -> usize {
    let may_go = |number: usize| {
        facts
            .get(number)
            .is_some_and(|segment| segment.end <= ceiling && (number + 1 < facts.len() || segment.bytes > 0))
    };
    let prefix = |from: usize, goes: &mut dyn FnMut(&SegmentFacts) -> bool| {
        let mut count = from;
        while may_go(count) && facts.get(count).is_some_and(&mut *goes) {
            count += 1;
        }
        count
    };
    // The last segment is not below the start, even when all its records are.
    let below_start = facts.iter().take(facts.len().saturating_sub(1)).take_while(|f| f.end <= start).count();
    let mut going = prefix(0, &mut |segment| segment.end <= start).min(below_start);
    if config.cleanup == Cleanup::Compact {
        return going;
    }
    if let Some(bytes_min) = config.retention_bytes {
        let mut left: u64 = facts.iter().skip(going).map(|segment| segment.bytes).sum();
        going = prefix(going, &mut |segment| {
            let goes = left >= bytes_min.saturating_add(segment.bytes);
            left = left.saturating_sub(segment.bytes);
            goes
        });
    }
    if let Some(age_max) = config.retention_age {
        going = prefix(going, &mut |segment| segment.age > age_max);
    }
    going
}
