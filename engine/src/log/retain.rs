//! Deletes old segments: facts of each, the plan of [`crate::retention`], then from the oldest on. Also forgets producers that have been idle for too long.

use std::sync::Arc;

use super::inner::Inner;
use super::shared::lock;
use super::trouble::{FileError, or_later};
use super::truncate::{CutError, no_room_for, walk_failed};
use super::writer::{Demand, Phase};
use super::{Cleanup, Closed, LogConfig};
use crate::checkpoint::Certainty;
use crate::retention::{RetentionRules, SegmentFacts, plan_retention};
use crate::segment::{FileKind, Segment, WalkError};
use crate::units::{Now, Offset, Timestamp};

/// What retention did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retained {
    pub(crate) segments: usize,
    pub(crate) bytes: u64,
}

impl Inner {
    /// Deletes what may go. `persist` writes the new start down, before anything goes: of the names that are removed a power loss may
    /// bring some back and not others, and what lies below the start is then no part of the log.
    pub(crate) fn retain(
        self: &Arc<Self>,
        ceiling: Offset,
        now: Now,
        persist: impl FnOnce() -> Result<(), FileError>,
    ) -> Result<Retained, CutError> {
        let _maintenance = lock(&self.maintenance);
        self.refuse_if_closed().map_err(CutError::Closed)?;
        self.writer().producers.expire(now.monotonic);
        let config = self.config();
        let ceiling = ceiling.min(self.marks.written.get());
        let mut view = self.view();
        let facts = segment_facts(&view.segments)?;
        let range = (self.marks.start.get(), self.marks.written.get());
        let plan = plan_retention(&facts, range, ceiling, rules(&config), now.wall);
        let going = plan.remove.len();
        if going == 0 {
            return Ok(Retained::default());
        }
        if plan.roll {
            // One always remains: an empty one at the end. Where there is no room for it, the last one stays for now.
            match self.roll_now(now) {
                Err(CutError::File(error)) if error.passes() => {}
                rolled => rolled?,
            }
            view = self.view();
        }
        let going = going.min(view.segments.len().saturating_sub(1));
        if going == 0 {
            return Ok(Retained::default());
        }
        let (gone, kept) = view.segments.split_at(going);
        let Some(start) = kept.first().map(|segment| segment.base()) else { return Ok(Retained::default()) };
        // The start is raised before anything goes, so that nobody begins to read what is about to.
        self.marks.start.raise(start.max(self.marks.start.get()));
        persist()?;
        let (retained, removed) = self.remove_oldest(gone);
        let epochs_changed = {
            let mut writer = self.writer();
            // Taken again: a roll may have added one meanwhile. What could not be removed goes another time.
            let segments = self.view().segments.iter().skip(retained.segments).map(Arc::clone).collect();
            self.set_segments(segments);
            writer.unsealed.retain(|unsealed| unsealed.segment.base() >= start);
            writer.damaged.retain(|range| range.segment >= start && self.is_missed(range));
            writer.producers.note_start(start);
            writer.aborted.begin_at(start);
            let changed = writer.epochs.truncate_from_start(start);
            writer.epochs_unsynced |= changed;
            changed
        };
        removed?;
        if epochs_changed {
            self.withdraw_epochs(Certainty::Written)?;
        }
        self.note_moved();
        or_later(self.remove_snapshots(|offset| offset < start))?;
        Ok(retained)
    }

    /// Removes the files of segments, the oldest first; what was removed before an error is.
    fn remove_oldest(&self, segments: &[Arc<Segment>]) -> (Retained, Result<(), FileError>) {
        let mut retained = Retained::default();
        for segment in segments {
            if let Err(error) = segment.remove() {
                let failed = self.failed("remove a segment", segment.path(FileKind::Log), error);
                return (retained, Err(failed));
            }
            retained.segments += 1;
            retained.bytes += segment.size();
        }
        (retained, Ok(()))
    }

    /// Rolls although the active segment is neither full nor old.
    pub(crate) fn roll_now(self: &Arc<Self>, now: Now) -> Result<(), CutError> {
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
        rolled.map_err(|no_room| no_room_for(no_room, &self.directory))
    }
}

fn rules(config: &LogConfig) -> RetentionRules {
    if config.cleanup == Cleanup::Compact {
        return RetentionRules::default();
    }
    RetentionRules {
        bytes_min: config.retention_bytes,
        age_ms: config.retention_age.map(|age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX)),
    }
}

fn segment_facts(segments: &[Arc<Segment>]) -> Result<Vec<SegmentFacts>, CutError> {
    let mut facts = Vec::with_capacity(segments.len());
    for segment in segments {
        let fail = |error| walk_failed(segment, WalkError::Io(error));
        let latest = if let Some(latest) = segment.latest_timestamp().map_err(fail)? {
            latest.timestamp
        } else {
            // Without timestamps the file's own age counts.
            let identity = segment.file().and_then(|file| file.identity()).map_err(fail)?;
            Timestamp::from_millis(identity.modified_ms)
        };
        facts.push(SegmentFacts { base: segment.base(), bytes: segment.size(), latest: Some(latest) });
    }
    Ok(facts)
}
