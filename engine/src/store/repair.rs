//! The door for repair: a range of offsets is replaced by batches that somebody else has of it.
//!
//! ```text
//! segment sealed, examined -> place of the range -> the whole new segment and its indexes beside the old, synced, read back
//!   -> old indexes removed, synced -> new log renamed over the old, synced -> indexes renamed, synced -> readers, list, note
//! ```
//! The renaming of the log is the moment: a crash before it leaves the old segment, one behind it the new one. Of the indexes a crash may
//! leave none, and then they are made from the log. What is left under the names beside is removed by every recovery, Kafka's too.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::compact::write_synced;
use super::read_ahead::IdleHelpers;
use super::scan::{Place, scan_segment};
use super::{JobDone, JobError, Store};
use crate::batch::ReplicatedBatches;
use crate::checkpoint::Certainty;
use crate::disk::{File, Open, is_full};
use crate::log::{Cleanup, FileError, Inner, LogId, lock, walk_failed};
use crate::recovery::SegmentContext;
use crate::segment::{AtDamage, DamagedRange, FileKind, Segment, Walk, file_path};
use crate::state::{EpochHistory, EpochStart};
use crate::units::{LeaderEpoch, Now, Offset, OffsetRange};

/// How much is copied at once.
const COPY_BYTES: usize = 1 << 20;

/// Why a range was not replaced. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RepairRefusal {
    /// The range is empty, or does not lie in one segment.
    #[error("offsets {offsets} do not lie in one segment")]
    NotInOneSegment {
        /// The range.
        offsets: OffsetRange,
    },
    /// The batches do not begin and end where the range does; in a compacted log they lie outside of it.
    #[error("offsets {offsets} are to be replaced by {found:?}")]
    OtherOffsets {
        /// The range.
        offsets: OffsetRange,
        /// Those of the batches, if there are any.
        found: Option<OffsetRange>,
    },
    /// A batch, or a damaged range, lies across an end of the range.
    #[error("offsets {offsets} begin or end inside of {across}")]
    Across {
        /// The range.
        offsets: OffsetRange,
        /// What lies across.
        across: OffsetRange,
    },
    /// A batch has an epoch that cannot be there, by the history of the log.
    #[error("{epoch:?} of the batch at {offset} does not fit between its neighbours")]
    OtherEpoch {
        /// The batch's first offset.
        offset: Offset,
        /// Its epoch.
        epoch: LeaderEpoch,
    },
    /// No index could point into it.
    #[error("the segment would have {bytes} bytes")]
    TooLarge {
        /// How many it would have.
        bytes: u64,
    },
    /// The segment is written anew beside the old one, and there is no room. It may succeed when there is again.
    #[error("no space left on the device for {bytes} bytes beside the old segment")]
    OutOfSpace {
        /// How many it takes.
        bytes: u64,
    },
}

/// Which bytes of a segment go, and what is damaged in the rest.
struct Gap {
    from: u64,
    until: u64,
    log_bytes: u64,
    left: Vec<DamagedRange>,
}

/// The new files, beside the old ones.
struct Beside {
    log: PathBuf,
    offsets: PathBuf,
    times: PathBuf,
}

impl Beside {
    fn of(directory: &Path, base: Offset) -> Self {
        let beside = |kind| {
            let mut name = file_path(directory, base, kind).into_os_string();
            name.push(".cleaned");
            PathBuf::from(name)
        };
        Self {
            log: beside(FileKind::Log),
            offsets: beside(FileKind::OffsetIndex),
            times: beside(FileKind::TimeIndex),
        }
    }
}

impl Store {
    pub(super) fn repair(
        &self,
        id: LogId,
        offsets: OffsetRange,
        batches: &ReplicatedBatches,
        now: Now,
    ) -> Result<JobDone, JobError> {
        let log = self.open_log(id)?;
        let _maintenance = lock(&log.maintenance);
        log.refuse_if_closed()?;
        let segment = sealed_segment(&log, offsets, now)?;
        check_offsets(&log, offsets, batches)?;
        check_epochs(&log, offsets, batches)?;
        self.examine(&log, &segment)?;
        let gap = place(&segment, offsets)?;
        let bytes = gap.from + batches.bytes().len() as u64 + (gap.log_bytes - gap.until);
        if bytes > u64::from(i32::MAX.unsigned_abs()) {
            return Err(RepairRefusal::TooLarge { bytes }.into());
        }
        let beside = Beside::of(&log.directory, segment.base());
        let written = self.write_beside(&log, &segment, &gap, batches, &beside);
        let written = written.map_err(|error| log.failed("write a segment anew", beside.log.clone(), error));
        let exchanged = written
            .and_then(
                |()| if add_epochs(&log, batches) { log.write_epochs(Certainty::Durable) } else { Ok(()) },
            )
            .and_then(|()| exchange_logs(&log, segment.base(), &beside));
        if let Err(error) = exchanged {
            return Err(self.not_repaired(&beside, bytes, error));
        }
        let indexed = exchange_indexes(&log, segment.base(), &beside);
        let behind = gap.from + batches.bytes().len() as u64;
        let moved = |at: u64| if at < gap.until { at } else { (at - gap.until + behind).min(bytes) };
        let left = gap.left.into_iter().map(|range| {
            let bytes = (moved(range.bytes.0), moved(range.bytes.1));
            DamagedRange { bytes, ..range }
        });
        self.show(&log, &segment, bytes, left.collect());
        log.recall_lost_producers(now)?;
        // It is repaired, and only not for certain.
        indexed.map_err(|error| self.not_repaired(&beside, bytes, error))?;
        self.doubt_cleaned(&log)?;
        self.write_damage_note(&mut self.checkpoints())?;
        let damaged = log.writer().damaged.clone();
        Ok(JobDone::Repaired { log: id, offsets, damaged })
    }

    /// What a peer has of a compacted log may not be as clean as it was here: counting begins anew when nothing is damaged any more, and not
    /// before, so that until then it is known up to where the log has to be replaced.
    fn doubt_cleaned(&self, log: &Inner) -> Result<(), FileError> {
        let start = log.marks.start.get();
        if log.config().cleanup == Cleanup::Delete || !log.writer().damaged.is_empty() {
            return Ok(());
        }
        self.lower_cleaned(&mut self.checkpoints(), &log.name, Some(start))?;
        log.marks.cleaned.lower(start);
        Ok(())
    }

    /// Takes away what is beside the segment, unless the directory has failed: there nothing is touched any more.
    fn not_repaired(&self, beside: &Beside, bytes: u64, error: FileError) -> JobError {
        if error.passes() {
            for path in [&beside.log, &beside.offsets, &beside.times] {
                drop(self.disk().remove_file(path));
            }
        }
        if is_full(&error.source) { RepairRefusal::OutOfSpace { bytes }.into() } else { error.into() }
    }

    /// The segment as it will be, with its indexes, under other names, synced and read back.
    fn write_beside(
        &self,
        log: &Inner,
        segment: &Segment,
        gap: &Gap,
        batches: &ReplicatedBatches,
        beside: &Beside,
    ) -> io::Result<()> {
        let (disk, old) = (self.disk().as_ref(), segment.file()?);
        let file = disk.open(&beside.log, Open::Create)?;
        file.set_size(0)?;
        copy(&old, (0, gap.from), &file, 0)?;
        file.write_all_at(batches.bytes(), gap.from)?;
        let behind = gap.from + batches.bytes().len() as u64;
        copy(&old, (gap.until, gap.log_bytes), &file, behind)?;
        file.sync()?;
        let base = segment.base();
        let place = Place { base, log_bytes: file.size()?, from: 0, expected: base };
        let index = log.config().index_settings().empty(base);
        let context = SegmentContext::default();
        let (bytes_max, idle) = (self.inner.config.batch_bytes_max, IdleHelpers::default());
        let mut found = scan_segment(&file, place, context, index, bytes_max, &idle)?;
        if found.scan.bad.iter().any(|bad| bad.position < behind && bad.until > gap.from) {
            return Err(io::Error::other("what was written reads otherwise"));
        }
        found.index.seal();
        write_synced(disk, &beside.offsets, found.index.offset_bytes())?;
        write_synced(disk, &beside.times, found.index.time_bytes())
    }

    /// From now on readers have the new segment, and nobody is told of what was repaired.
    fn show(&self, log: &Arc<Inner>, old: &Arc<Segment>, bytes: u64, left: Vec<DamagedRange>) {
        let home = self.shared().home(Arc::clone(&log.directory), &log.config());
        let new = Arc::new(Segment::sealed(home, old.base(), bytes));
        {
            let mut writer = log.writer();
            writer.aborted.change(old.base());
            let mut segments = log.view().segments.clone();
            for segment in segments.iter_mut().filter(|segment| Arc::ptr_eq(segment, old)) {
                *segment = Arc::clone(&new);
            }
            lock(&log.tail).clear();
            log.set_segments(segments);
        }
        log.list_unsure(&new);
        log.doubt_aborted_behind(&new);
        log.set_damaged(&new, Some(bytes), left);
    }
}

/// The segment that holds the range, when it grows no more.
fn sealed_segment(log: &Arc<Inner>, offsets: OffsetRange, now: Now) -> Result<Arc<Segment>, JobError> {
    if let Some(why) = log.closed() {
        return Err(why.into());
    }
    let view = log.view();
    let number = view.floor(offsets.start());
    let outside = || RepairRefusal::NotInOneSegment { offsets };
    let segment = view.segments.get(number).ok_or_else(outside)?;
    let end = view.segments.get(number + 1).map_or(log.marks.written.get(), |next| next.base());
    if offsets.is_empty() || offsets.start() < segment.base() || offsets.end() > end {
        return Err(outside().into());
    }
    if number + 1 == view.segments.len() {
        log.roll_now(now)?;
    }
    log.seal_rolled_held()?;
    Ok(Arc::clone(segment))
}

/// Exactly the range: fewer offsets would be a gap, more of them are not there to be replaced. What a peer's compaction has removed need
/// not be there.
fn check_offsets(
    log: &Inner,
    offsets: OffsetRange,
    batches: &ReplicatedBatches,
) -> Result<(), RepairRefusal> {
    let found = batches.first_offset().zip(batches.next_offset());
    let found = found.and_then(|(first, end)| OffsetRange::new(first, end));
    let fits = match log.config().cleanup {
        Cleanup::Delete => found == Some(offsets),
        Cleanup::Compact | Cleanup::CompactAndDelete => {
            found.is_none_or(|found| found.start() >= offsets.start() && found.end() <= offsets.end())
        }
    };
    if fits { Ok(()) } else { Err(RepairRefusal::OtherOffsets { offsets, found }) }
}

/// Epochs ascend from what lies before to what lies behind.
fn check_epochs(log: &Inner, offsets: OffsetRange, batches: &ReplicatedBatches) -> Result<(), RepairRefusal> {
    let writer = log.writer();
    let before = offsets.start().checked_add(-1).and_then(|before| writer.epochs.epoch_at(before));
    let behind = writer.epochs.epoch_at(offsets.end());
    for (_, header) in batches.batches() {
        let (offset, Some(epoch)) = (header.base_offset, header.leader_epoch) else { continue };
        if before.is_some_and(|before| epoch < before) || behind.is_some_and(|behind| epoch > behind) {
            return Err(RepairRefusal::OtherEpoch { offset, epoch });
        }
    }
    Ok(())
}

/// An epoch may have begun in what was damaged. Says whether the history is another one now.
fn add_epochs(log: &Inner, batches: &ReplicatedBatches) -> bool {
    let mut writer = log.writer();
    let mut entries = writer.epochs.starts().to_vec();
    for (_, header) in batches.batches() {
        entries.extend(header.leader_epoch.map(|epoch| EpochStart { epoch, start: header.base_offset }));
    }
    entries.sort_unstable_by_key(|entry| (entry.start, entry.epoch));
    let history = EpochHistory::from_starts(entries);
    let is_another = history != writer.epochs;
    writer.epochs = history;
    is_another
}

/// Where the range lies in the file of a segment that was examined.
fn place(segment: &Segment, offsets: OffsetRange) -> Result<Gap, JobError> {
    let log_bytes = segment.file().and_then(|file| file.size());
    let log_bytes = log_bytes.map_err(|error| walk_failed(segment, error.into()))?.min(segment.size());
    let (mut from, mut until) = (0, log_bytes);
    let mut sort = |here: OffsetRange, bytes: (u64, u64)| {
        if here.end() <= offsets.start() && here != offsets_at(offsets.start()) {
            from = from.max(bytes.1);
            Ok(true)
        } else if here.start() >= offsets.end() && here != offsets_at(offsets.end()) {
            until = until.min(bytes.0);
            Ok(true)
        } else if here.start() >= offsets.start() && here.end() <= offsets.end() {
            Ok(false)
        } else {
            Err(RepairRefusal::Across { offsets, across: here })
        }
    };
    let mut left = Vec::new();
    for range in segment.damaged().iter().flat_map(|ranges| ranges.iter()) {
        if sort(range.offsets, range.bytes)? {
            left.push(range.clone());
        }
    }
    let fail = |error| JobError::from(walk_failed(segment, error));
    let mut walk = Walk::new(segment, 0, AtDamage::PassOver).map_err(|error| fail(error.into()))?;
    while let Some((position, frame)) = walk.next().map_err(fail)? {
        let here = OffsetRange::new(frame.base, frame.end()).unwrap_or(offsets);
        sort(here, (position, position + frame.size as u64))?;
    }
    if from > until {
        return Err(RepairRefusal::Across { offsets, across: offsets }.into());
    }
    Ok(Gap { from, until, log_bytes, left })
}

/// What has no offsets of its own is replaced with its neighbour.
fn offsets_at(offset: Offset) -> OffsetRange {
    OffsetRange::new(offset, offset).expect("an empty range is one")
}

fn copy(from: &File, (start, end): (u64, u64), to: &File, at: u64) -> io::Result<()> {
    let mut buffer = vec![0; usize::try_from(end - start).unwrap_or(COPY_BYTES).min(COPY_BYTES)];
    let mut done = 0;
    while start + done < end {
        let wanted = usize::try_from(end - start - done).unwrap_or(COPY_BYTES).min(COPY_BYTES);
        let part = buffer.get_mut(..wanted).unwrap_or_default();
        if from.read_at(part, start + done)? != wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        to.write_all_at(part, at + done)?;
        done += wanted as u64;
    }
    Ok(())
}

/// Old indexes away, and then the log exchanged: each for certain before the next.
fn exchange_logs(log: &Inner, base: Offset, beside: &Beside) -> Result<(), FileError> {
    let disk = &log.shared.disk;
    let path = |kind| file_path(&log.directory, base, kind);
    let exchange = || -> io::Result<()> {
        for kind in [FileKind::OffsetIndex, FileKind::TimeIndex] {
            match disk.remove_file(&path(kind)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        disk.sync_directory(&log.directory)?;
        disk.rename(&beside.log, &path(FileKind::Log))
    };
    exchange().map_err(|error| log.failed("exchange a segment", path(FileKind::Log), error))
}

/// The log's name made certain, and then the new indexes in their place.
fn exchange_indexes(log: &Inner, base: Offset, beside: &Beside) -> Result<(), FileError> {
    let disk = &log.shared.disk;
    let path = |kind| file_path(&log.directory, base, kind);
    let exchange = || -> io::Result<()> {
        disk.sync_directory(&log.directory)?;
        disk.rename(&beside.offsets, &path(FileKind::OffsetIndex))?;
        disk.rename(&beside.times, &path(FileKind::TimeIndex))?;
        disk.sync_directory(&log.directory)
    };
    exchange().map_err(|error| log.failed("exchange the indexes of a segment", path(FileKind::Log), error))
}
