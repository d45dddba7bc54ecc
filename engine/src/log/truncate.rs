//! Cuts a log, or lets it begin anew elsewhere. Jobs, because files are changed; each may be repeated.
//!
//! ```text
//! appends refused -> what is in flight lands -> recovery point lowered, in its checkpoint, synced
//!   cut           -> marks, view, epochs, index -> later segments removed, newest first -> the last one cut, synced
//!                 -> producers made again -> appends taken
//!   begun anew    -> the old start written down -> all segments removed, newest first, synced -> an empty one made -> marks, view, epochs
//!                 -> the new start written down -> appends taken
//! ```
//! A crash on the way leaves some later segments gone and the rest longer than asked: the next comparison with the leader finds that
//! again. The recovery point goes down first, so that nothing above it is believed which may be half old and half new.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::aborted::AbortedIndexes;
use super::fetch::damaged;
use super::inner::Inner;
use super::producers::rebuild_producers;
use super::queue::WriteQueue;
use super::room::NoRoom;
use super::shared::lock;
use super::trouble::FileError;
use super::writer::{Active, Phase};
use super::{Closed, ReadError};
use crate::checkpoint::Certainty;
use crate::disk::is_passing;
use crate::rules::Rule;
use crate::segment::{FileKind, FirstBatch, LongAborted, Segment, WalkError, parse_file_name};
use crate::state::{EpochHistory, Producers};
use crate::units::{Now, Offset};

/// Why a log was not cut.
#[derive(Debug)]
pub(crate) enum CutError {
    /// Somebody else is at it.
    Truncating,
    Closed(Closed),
    /// Where to cut could not be found, because what is there is no batch.
    Damaged(ReadError),
    File(FileError),
}

/// The checkpoints that a cut writes, which all logs of a directory share.
pub(crate) trait CutCheckpoints {
    /// Lowers what they say is synced of a log, before its bytes above go.
    fn lower_point(&self, log: &Inner, point: Offset) -> Result<(), FileError>;

    /// Writes a log's start down as it is, before its segments go, and before anything is appended to a new one.
    fn write_start(&self, log: &Inner) -> Result<(), FileError>;
}

impl From<FileError> for CutError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl Inner {
    /// Removes everything at and above `to`, a batch that lies across included. Gives the new end.
    pub(crate) fn truncate(
        self: &Arc<Self>,
        to: Offset,
        checkpoints: &impl CutCheckpoints,
    ) -> Result<Offset, CutError> {
        let _maintenance = lock(&self.maintenance);
        self.begin_cut()?;
        let generation = self.marks.generation();
        let cut = self.truncate_held(to, checkpoints);
        self.end_cut(generation, cut.is_ok());
        cut
    }

    fn truncate_held(
        self: &Arc<Self>,
        to: Offset,
        checkpoints: &impl CutCheckpoints,
    ) -> Result<Offset, CutError> {
        let now = self.writer().clock;
        let log_end = self.marks.accepted.get();
        if to >= log_end {
            // Nothing is cut, but an epoch that began at the end without a record may go (KAFKA-10706).
            self.cut_epochs(to.min(log_end))?;
            return Ok(log_end);
        }
        let view = self.view();
        // What lies below the start was deleted, and may have holes: it must not come back by a start that is lowered into it.
        let start = self.marks.start.get();
        if to < start || view.segments.first().is_none_or(|first| to <= first.base()) {
            return self.restart_held(to, checkpoints);
        }
        let Cut { kept, size, end } = self.place_of_cut(&view.segments, to)?;
        let (stay, go) = view.segments.split_at(kept + 1);
        let Some(last) = stay.last().map(Arc::clone) else { return Ok(log_end) };
        // Opened before anything is changed, and kept open: from then on the segment's size is not that of its file, until that is cut.
        last.held_file().map_err(|error| walk_failed(&last, error.into()))?;
        self.lower_durable(end, checkpoints)?;
        let epochs_changed = self.publish_cut(stay.to_vec(), end);
        last.reactivate(end, size).map_err(|error| walk_failed(&last, error.into()))?;
        if self.holds(Rule::ProducersFollowTruncation) {
            self.remove_snapshots(|offset| offset > end)?;
        }
        self.cut_files(go, &last, size, end)?;
        {
            let mut writer = self.writer();
            (writer.uncut_epochs, writer.uncut_start) = (None, None);
            writer.aborted.cut(last.base());
        }
        if epochs_changed {
            self.withdraw_epochs(Certainty::Written)?;
        }
        if end < start {
            // The batch across the start is gone. Only now, because nothing of it is to be seen below the start by whom a crash comes before.
            checkpoints.write_start(self)?;
        }
        if self.holds(Rule::ProducersFollowTruncation) {
            let rebuilt = rebuild_producers(self, end, now.monotonic)?;
            self.writer().producers = rebuilt.producers;
        }
        let first = first_batch(&last)?;
        let age_max = self.shared.age_max(&self.config());
        let mut writer = self.writer();
        writer.queue = WriteQueue::new(size);
        writer.unsealed.retain(|unsealed| unsealed.segment.base() < last.base());
        writer.names.made += 1;
        // What is left of it was synced with the cut.
        last.release_file();
        writer.active = Active {
            index_is_full: last.index_is_full(),
            segment: last,
            size,
            reserved: size,
            reserve_step: 64 << 10,
            first,
            next_is_there: false,
            created: now.wall,
            age_max,
        };
        Ok(end)
    }

    /// Makes the state of producers again, if damage has hidden some of it, now that the damage is repaired. Appends are refused meanwhile, as
    /// during a cut. The caller holds `maintenance`.
    pub(crate) fn recall_lost_producers(self: &Arc<Self>, now: Now) -> Result<(), CutError> {
        if !self.writer().producers.lacks_something() {
            return Ok(());
        }
        self.begin_cut()?;
        let rebuilt = rebuild_producers(self, self.marks.accepted.get(), now.monotonic);
        let done = rebuilt.map(|rebuilt| self.writer().producers = rebuilt.producers);
        // Nothing was cut, whatever came of it.
        self.end_cut(self.marks.generation(), true);
        done
    }

    /// Removes everything; the log goes on, empty, at `offset`.
    pub(crate) fn restart_at(
        self: &Arc<Self>,
        offset: Offset,
        checkpoints: &impl CutCheckpoints,
    ) -> Result<Offset, CutError> {
        let _maintenance = lock(&self.maintenance);
        self.begin_cut()?;
        let generation = self.marks.generation();
        let cut = self.restart_held(offset, checkpoints);
        self.end_cut(generation, cut.is_ok());
        cut
    }

    fn restart_held(
        self: &Arc<Self>,
        offset: Offset,
        checkpoints: &impl CutCheckpoints,
    ) -> Result<Offset, CutError> {
        let now = self.writer().clock;
        let old = self.view();
        // Where a crash leaves no segment, the log begins where it did.
        checkpoints.write_start(self)?;
        // All of the old log is uncertain from now on: where a power loss brings some of it back and some not, recovery cuts at the gap.
        let first = old.segments.first().map_or(offset, |first| first.base());
        self.lower_durable(offset.min(first), checkpoints)?;
        let active =
            self.exchange_segments(&old.segments, offset, now).inspect_err(|_| self.close_half_cut())?;
        let segments = vec![Arc::clone(&active.segment)];
        {
            let mut writer = self.writer();
            writer.active = active;
            writer.queue = WriteQueue::new(0);
            writer.unsealed.clear();
            writer.names.made += 1;
            writer.producers = Producers::new(self.shared.limits.producers);
            writer.epochs = EpochHistory::default();
            writer.aborted = AbortedIndexes::default();
        }
        self.publish_cut(segments, offset);
        self.marks.start.set(offset);
        self.withdraw_epochs(Certainty::Durable)?;
        self.sync_directory()?;
        // A first segment above the start as it is written down is one whose predecessors a power loss took. One below it is removed by
        // recovery: until here a crash leaves the log at its old start, with some of its records or none.
        self.writer().uncut_start = None;
        checkpoints.write_start(self)?;
        self.marks.durable.set(offset);
        Ok(offset)
    }

    /// Removes all segments, and makes the one that the log goes on with.
    fn exchange_segments(&self, old: &[Arc<Segment>], offset: Offset, now: Now) -> Result<Active, CutError> {
        // Newest first, and the oldest only when the others are gone for certain, so that what a crash leaves is a beginning of the log.
        let (oldest, later) = old.split_at(1);
        self.remove_segments(later)?;
        if !later.is_empty() {
            self.sync_directory()?;
        }
        self.remove_segments(oldest)?;
        self.remove_snapshots(|_| true)?;
        // Nothing of the old log may come back beside the new one.
        self.sync_directory()?;
        let made = self.make_segment(offset, 0, &self.config(), now.wall);
        made.map_err(|no_room| no_room_for(no_room, &self.directory))
    }

    /// Lowers the mark first, so that no other checkpoint brings the old one back. Where the file cannot be written nothing is cut, and what
    /// was durable still is.
    fn lower_durable(&self, to: Offset, checkpoints: &impl CutCheckpoints) -> Result<(), FileError> {
        let before = self.marks.durable.get();
        self.marks.durable.lower(to);
        self.marks.cleaned.lower(to);
        checkpoints.lower_point(self, to).inspect_err(|_| {
            self.marks.durable.raise(before);
        })
    }

    /// Refuses appends from now on, and waits for what is in flight.
    fn begin_cut(self: &Arc<Self>) -> Result<(), CutError> {
        let _room = lock(&self.room);
        {
            let mut writer = self.writer();
            match writer.phase {
                Phase::Open | Phase::Rolling => writer.phase = Phase::Truncating,
                Phase::Truncating => return Err(CutError::Truncating),
                Phase::Closing => return Err(CutError::Closed(Closed::StoreClosed)),
                Phase::Closed(why) => return Err(CutError::Closed(why)),
            }
        }
        self.drain().map_err(CutError::Closed)
    }

    /// Takes appends again, unless the cut has begun and not ended: then nobody knows where the next byte would go.
    fn end_cut(self: &Arc<Self>, generation: u64, is_cut: bool) {
        self.note_moved();
        if !is_cut && generation != self.marks.generation() {
            self.close_half_cut();
        }
        let mut writer = self.writer();
        if writer.phase == Phase::Truncating {
            writer.phase = Phase::Open;
        }
        let is_sync_wanted = writer.sync.is_wanted();
        drop(writer);
        if is_sync_wanted {
            // The driver has put it off.
            self.tell_ready();
        }
        self.wake_reached();
    }

    /// A cut has begun and cannot be ended: the log is to be opened again.
    fn close_half_cut(&self) {
        let mut writer = self.writer();
        if writer.phase == Phase::Truncating {
            writer.phase = Phase::Closed(Closed::CutFailed);
            lock(&self.shared.news).failed.push(self.id);
        }
    }

    /// The segment that stays the last one, and where it is cut.
    fn place_of_cut(&self, segments: &[Arc<Segment>], to: Offset) -> Result<Cut, CutError> {
        let mut kept = segments.partition_point(|segment| segment.base() < to).saturating_sub(1);
        loop {
            let Some(segment) = segments.get(kept) else {
                return Ok(Cut { kept: 0, size: 0, end: self.marks.start.get() });
            };
            let found = segment.find(to).map_err(|error| walk_failed(segment, error))?;
            let mut size = found.map_or(segment.size(), |(position, _)| position);
            let mut end = end_below(segment, to, size)?;
            // Offsets that cannot be read count as they stand; where the cut lies among them, nobody knows where a batch begins.
            let damaged = segment.damaged();
            let ranges = damaged.iter().flat_map(|ranges| ranges.iter());
            for range in ranges.filter(|range| range.bytes.0 < size || range.bytes.0 == segment.size()) {
                if range.offsets.end() <= to {
                    end = end.max(range.offsets.end());
                } else if range.offsets.start() < to || range.bytes.0 < size {
                    size = size.min(range.bytes.0);
                    end = range.offsets.start();
                    break;
                }
            }
            // A segment of which nothing stays is no end: the batch before it is, in the segment before. Below the start there is none, and
            // what is left there may not be whole.
            if size > 0 || kept == 0 || segment.base() <= self.marks.start.get() {
                return Ok(Cut { kept, size, end });
            }
            kept -= 1;
        }
    }

    /// From here on nobody sees or waits for anything above `end`, nor an epoch that began there, also if the files cannot be cut. The tail
    /// goes as a whole: it is soon there again. Gives whether the epochs have changed.
    fn publish_cut(&self, segments: Vec<Arc<Segment>>, end: Offset) -> bool {
        let mut writer = self.writer();
        writer.sync.cut(end);
        let is_left = |segment: Offset| segments.iter().any(|left| left.base() == segment);
        writer.damaged.retain(|range| is_left(range.segment) && range.offsets.start() < end);
        let start = self.marks.start.get();
        if end < start {
            writer.uncut_start.get_or_insert(start);
        }
        self.marks.cut(end);
        let before = writer.epochs.clone();
        let epochs_changed = self.holds(Rule::EpochsFollowTruncation) && writer.epochs.truncate_from_end(end);
        if epochs_changed {
            writer.uncut_epochs = Some(before);
        }
        self.set_segments(segments);
        lock(&self.tail).clear();
        epochs_changed
    }

    fn cut_files(
        &self,
        go: &[Arc<Segment>],
        last: &Arc<Segment>,
        size: u64,
        end: Offset,
    ) -> Result<(), FileError> {
        self.remove_segments(go)?;
        let cut = || {
            let file = last.file()?;
            file.set_size(size)?;
            // A power loss must not bring the old end back behind, or between, what is appended from now on.
            file.sync()
        };
        cut().map_err(|error| self.failed("cut a segment", last.path(FileKind::Log), error))?;
        // Behind the log: a transaction that is in the log and not in its index would count as committed.
        let aborted = last.aborted_above(end).and_then(|long| long.map_or(Ok(()), LongAborted::cut));
        aborted.map_err(|error| self.failed("cut an index", last.path(FileKind::AbortedIndex), error))?;
        // Nor a later segment, nor a snapshot of producers whose batches are gone.
        self.sync_directory()
    }

    /// Removes segments, the newest first.
    fn remove_segments(&self, segments: &[Arc<Segment>]) -> Result<(), FileError> {
        for segment in segments.iter().rev() {
            let removed = segment.remove();
            removed.map_err(|error| self.failed("remove a segment", segment.path(FileKind::Log), error))?;
        }
        Ok(())
    }

    fn cut_epochs(&self, end: Offset) -> Result<(), FileError> {
        if !self.holds(Rule::EpochsFollowTruncation) {
            return Ok(());
        }
        let changed = self.writer().epochs.truncate_from_end(end);
        if changed { self.write_epochs(Certainty::Written) } else { Ok(()) }
    }

    pub(crate) fn remove_snapshots(&self, goes: impl Fn(Offset) -> bool) -> Result<(), FileError> {
        let disk = &self.shared.disk;
        let fail = |error| self.failed("remove a snapshot", self.directory.to_path_buf(), error);
        for entry in disk.list(&self.directory).map_err(fail)? {
            if let Some((offset, FileKind::Snapshot)) = parse_file_name(&entry.name)
                && goes(offset)
            {
                disk.remove_file(&self.directory.join(&entry.name)).map_err(fail)?;
            }
        }
        Ok(())
    }
}

/// The end of the last whole batch that begins below `size`; the base, if there is none.
fn end_below(segment: &Arc<Segment>, to: Offset, size: u64) -> Result<Offset, CutError> {
    if size == 0 {
        return Ok(segment.base());
    }
    let last = segment.last_frame_below(to, size);
    let last = last.map_err(|error| walk_failed(segment, error))?;
    Ok(last.map_or(segment.base(), |frame| frame.end()))
}

fn first_batch(segment: &Arc<Segment>) -> Result<Option<FirstBatch>, CutError> {
    let first = segment.find(segment.base()).map_err(|error| walk_failed(segment, error))?;
    Ok(first.map(|(_, frame)| FirstBatch { max_timestamp: frame.max_timestamp }))
}

/// What a walk over a segment failed for.
pub(crate) fn walk_failed(segment: &Segment, error: WalkError) -> CutError {
    match error {
        WalkError::Io(error) => unread(segment.path(FileKind::Log), error),
        WalkError::Damaged(_) => CutError::Damaged(damaged(segment, error)),
    }
}

/// A file could not be read, or for want of a descriptor not yet.
pub(super) fn unread(path: PathBuf, source: io::Error) -> CutError {
    if is_passing(&source) {
        CutError::File(FileError { path, source })
    } else {
        CutError::Damaged(ReadError::Io { path, source })
    }
}

/// A segment that a log needs could not be made.
pub(super) fn no_room_for(no_room: NoRoom, directory: &Path) -> CutError {
    let refused = |source| CutError::File(FileError { path: directory.to_owned(), source });
    match no_room {
        NoRoom::Closed(why) => CutError::Closed(why),
        NoRoom::Truncating => CutError::Truncating,
        NoRoom::OutOfSpace => refused(io::ErrorKind::StorageFull.into()),
        NoRoom::OutOfDescriptors => refused(io::Error::from_raw_os_error(libc::EMFILE)),
    }
}

/// What stays.
struct Cut {
    /// The number of the segment that is the last one afterwards.
    kept: usize,
    /// Its size afterwards.
    size: u64,
    end: Offset,
}
