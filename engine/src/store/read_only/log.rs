//! One log that is looked at: what was seen of it, reads of that, and another look.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::look::Since;
use super::sight::{Sight, Still, bases_in, epochs_in};
use super::{ReadOnlyError, ReadOnlyStore};
use crate::log::{
    Cleanup, ColdRead, Isolation, Known, LogId, Read, ReadError, Records, Source, read_segments,
};
use crate::segment::{DamagedRange, Exchanged, FileKind, Segment, file_path, frame_at};
use crate::state::EpochHistory;
use crate::store::damage::{GapBehind, look_for_damage};
use crate::units::{LeaderEpoch, Offset, OffsetRange, TopicPartition};

/// How often another look is begun that meets a change.
const TRIES_MAX: usize = 64;

/// Why a read gave nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadOnlyReadError {
    /// The writer has cut the log, deleted from it or repaired it since it was looked at. Refuses this call; [`ReadOnlyLog::refresh`] and go on.
    #[error("the log was changed since it was looked at")]
    Changed,
    /// As for a log that is open. Refuses this call.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// What another look has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Refreshed {
    /// Nothing new.
    Same,
    /// The log goes on, or begins later; what was seen and is still there is as it was.
    Moved,
    /// The writer cut the log, and perhaps it goes on again; or everything that was seen is deleted, so that nothing says that it was not cut.
    Cut {
        /// Below it everything is as it was seen.
        to: Offset,
    },
}

/// A log that is looked at: a prefix of it that was whole at one moment, until the next [`ReadOnlyLog::refresh`].
///
/// Whoever follows a log refreshes and reads by turns, at a pace of their own: a refresh that finds nothing costs a listing of the log's
/// directory and three small files. No thread and no clock is in here. Memory: the offsets of its segments, and 8 bytes of index for
/// each `index_interval_bytes` of the last one. Descriptors: one for each segment that is read, at most `open_files_max` of the
/// store.
#[derive(Debug)]
pub struct ReadOnlyLog {
    store: ReadOnlyStore,
    name: TopicPartition,
    sight: Sight,
    generation: u64,
    /// A read has met a segment that is another file by now: the writer has repaired it, say.
    has_met_another_file: AtomicBool,
}

/// What is known while a log is read that somebody may be changing. Epochs are judged when it is certain that nobody has.
struct Seen {
    cleanup: Cleanup,
}

impl Known for Seen {
    fn cleanup(&self) -> Cleanup {
        self.cleanup
    }

    fn epoch_at(&self, _offset: Offset) -> Option<LeaderEpoch> {
        None
    }
}

impl ReadOnlyLog {
    pub(super) fn open(store: ReadOnlyStore, name: &TopicPartition) -> Result<Self, ReadOnlyError> {
        let sight = store.look(name)?;
        Ok(Self {
            store,
            name: name.clone(),
            sight,
            generation: 0,
            has_met_another_file: AtomicBool::new(false),
        })
    }

    /// Its name.
    pub fn name(&self) -> &TopicPartition {
        &self.name
    }

    /// The first offset that can be read.
    pub fn start(&self) -> Offset {
        self.sight.start
    }

    /// Behind the last record that was seen.
    pub fn end(&self) -> Offset {
        self.sight.end
    }

    /// Which leader epoch begins where, as it was seen.
    pub fn epochs(&self) -> &EpochHistory {
        &self.sight.epochs
    }

    /// Counts how often the log was cut between two looks.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Offsets that are in the log and cannot be read, as far as anybody has looked.
    pub fn damaged(&self) -> &[DamagedRange] {
        &self.sight.damaged
    }

    /// Reads every byte that was seen, and gives all that is damaged, by segment and place. Blocks meanwhile.
    pub fn examine(&self) -> Result<Vec<DamagedRange>, ReadOnlyReadError> {
        let first = self.sight.segments.first().map_or(self.sight.end, |first| first.base());
        // In front of the first segment there is nothing to be read.
        let mut damaged: Vec<_> =
            self.sight.damaged.iter().filter(|range| range.segment < first).cloned().collect();
        for segment in &self.sight.segments {
            self.examine_segment(segment).map_err(|error| self.seen_by(error))?;
            let found = segment.damaged();
            let found = found.iter().flat_map(|ranges| ranges.iter());
            damaged.extend(found.filter(|range| range.offsets.end() > self.sight.start).cloned());
        }
        if self.is_there(&self.sight, Still::Whole) { Ok(damaged) } else { Err(ReadOnlyReadError::Changed) }
    }

    /// Looks again. After an error what was seen before is still there to be read.
    pub fn refresh(&mut self) -> Result<Refreshed, ReadOnlyError> {
        if *self.has_met_another_file.get_mut() {
            let refreshed = self.look_anew()?;
            *self.has_met_another_file.get_mut() = false;
            return Ok(refreshed);
        }
        for _ in 0..TRIES_MAX {
            match self.store.look_on(&self.name, &self.sight)? {
                Since::Nothing => return Ok(Refreshed::Same),
                Since::More(sight) => {
                    self.sight = sight;
                    return Ok(Refreshed::Moved);
                }
                Since::Unknown => return self.look_anew(),
                Since::Changed => std::thread::yield_now(),
            }
        }
        Err(ReadOnlyError::Unsettled { name: self.name.clone() })
    }

    fn look_anew(&mut self) -> Result<Refreshed, ReadOnlyError> {
        let sight = self.store.look(&self.name)?;
        let before = std::mem::replace(&mut self.sight, sight);
        let to = before.common_end(&self.sight);
        // The last batch may have been exchanged for another one under the same epoch.
        let is_kept = || before.is_kept_in(&self.sight).unwrap_or(false);
        if to >= before.end && (self.is_there(&before, Still::ButTheOldest) || is_kept()) {
            let is_same = before.start == self.sight.start && before.end == self.sight.end;
            return Ok(if is_same { Refreshed::Same } else { Refreshed::Moved });
        }
        self.generation += 1;
        Ok(Refreshed::Cut { to })
    }

    /// Whole batches from `from` on, the first of which may begin below it: as many as fit into `bytes_max`, one at least. `None` at the end
    /// of what was seen. Reads from the page cache or the device, and blocks.
    pub fn read(&self, from: Offset, bytes_max: usize) -> Result<Option<Records>, ReadOnlyReadError> {
        let Sight { start, end, .. } = self.sight;
        if from < start || from > end {
            return Err(ReadError::OutOfRange { from, start, end }.into());
        }
        if from == end {
            return Ok(None);
        }
        self.refuse_below_the_first(from)?;
        match self.read_seen(from, bytes_max) {
            Ok(records) if records.as_ref().is_none_or(|records| self.bears_its_epochs(records)) => {
                Ok(records)
            }
            Ok(_) if self.is_there(&self.sight, Still::Whole) => {
                self.examine_and_read(from, bytes_max).map_err(|error| self.seen_by(error))
            }
            Ok(_) => Err(ReadOnlyReadError::Changed),
            Err(error) => Err(self.seen_by(error)),
        }
    }

    /// What an error is worth to somebody who looks: nothing, where the log has changed.
    fn seen_by(&self, error: ReadError) -> ReadOnlyReadError {
        let is_exchanged = matches!(&error, ReadError::Io { source, .. } if Exchanged::is_in(source));
        if is_exchanged {
            self.has_met_another_file.store(true, Ordering::Relaxed);
        }
        if !is_exchanged && self.is_there(&self.sight, Still::Whole) {
            error.into()
        } else {
            ReadOnlyReadError::Changed
        }
    }

    /// A first segment that somebody has taken away is no segment of the sight, and its offsets are damaged.
    fn refuse_below_the_first(&self, from: Offset) -> Result<(), ReadError> {
        let Some(first) = self.sight.segments.first().filter(|first| from < first.base()) else {
            return Ok(());
        };
        let path = file_path(&self.store.home(&self.name).directory, self.sight.start, FileKind::Log);
        let offsets = OffsetRange::new(self.sight.start, first.base());
        Err(ReadError::Damaged { path, position: 0, offsets })
    }

    fn read_seen(&self, from: Offset, bytes_max: usize) -> Result<Option<Records>, ReadError> {
        // The log's number within a store, by which a job would be asked for: the device is read here at once.
        let log = LogId(0);
        let isolation = Isolation::Uncommitted;
        let (ceiling, at_least_one) = (self.sight.end, true);
        let asked = ColdRead { log, from, ceiling, bytes_max, at_least_one, isolation };
        let segments = self.sight.segments.get(self.sight.floor(from)..).unwrap_or_default();
        let examine = |segment: &Arc<Segment>| self.examine_segment(segment);
        let known = Seen { cleanup: self.store.config.log.cleanup };
        let read =
            read_segments(segments, &asked, self.sight.end, &known, Source::Device { examine: &examine })?;
        Ok(match read {
            Read::Records(records) => Some(records),
            Read::Empty | Read::Cold(_) => None,
        })
    }

    /// The epoch in a header lies outside of its CRC: one that is wrong in a log that nobody has changed is damage.
    fn examine_and_read(&self, from: Offset, bytes_max: usize) -> Result<Option<Records>, ReadError> {
        if let Some(segment) = self.sight.segments.get(self.sight.floor(from)) {
            self.examine_segment(segment)?;
        }
        self.read_seen(from, bytes_max)
    }

    fn examine_segment(&self, segment: &Arc<Segment>) -> Result<(), ReadError> {
        let later = self.sight.segments.iter().find(|later| later.base() > segment.base());
        let next = later.map_or(self.sight.end, |later| later.base());
        let config = &self.store.config;
        let epochs = self.sight.epochs.clone();
        let gap = GapBehind::of(config.log.cleanup);
        let size = segment.size();
        let found = look_for_damage(segment, (size, next), gap, epochs, config.batch_bytes_max)
            .map_err(|source| ReadError::Io { path: segment.path(FileKind::Log), source })?;
        segment.set_examined(Some(size), found);
        Ok(())
    }

    /// Whether each batch has the epoch that the log has there, so that it was there when the log was looked at.
    fn bears_its_epochs(&self, records: &Records) -> bool {
        records.parts.iter().all(|part| {
            let mut rest: &[u8] = part;
            while let Some(frame) = frame_at(rest) {
                // Of a batch that lies across the start the rest is known.
                let known = self.sight.epochs.epoch_at(frame.base.max(self.sight.start));
                if known.is_some() && known != frame.epoch {
                    return false;
                }
                rest = rest.get(frame.size..).unwrap_or_default();
            }
            true
        })
    }

    fn is_there(&self, sight: &Sight, still: Still) -> bool {
        let home = self.store.home(&self.name);
        let look = || {
            let bases = bases_in(&home)?;
            let epochs = epochs_in(&home)?;
            sight.is_there(&home, &bases, epochs.as_ref(), still)
        };
        look().unwrap_or(false)
    }
}
