//! Damage: looked for where something did not fit, kept in the log, written down in the data directory, and looked for again at the opening.
//!
//! ```text
//! a read, a walk, the note of the last process ──> suspect segment ──> every byte of it read ──> ranges ──> log, note, whoever asks
//! ```

use std::io;
use std::sync::Arc;

use super::checkpoints::Checkpoints;
use super::read_ahead::IdleHelpers;
use super::scan::{Place, scan_segment};
use super::{JobDone, JobError, Store};
use crate::checkpoint::{DAMAGE_NOTE, NotedDamage, write_damage};
use crate::log::{Cleanup, ColdRead, FileError, Inner, LogId, ReadError, Source, lock};
use crate::recovery::{Plan, SegmentContext, SuspectReason};
use crate::segment::{DamagedRange, FileKind, IndexSettings, Segment};
use crate::state::EpochHistory;
use crate::sync::MutexGuard;
use crate::units::{Offset, OffsetRange};

/// What lies between a segment's last batch and the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapBehind {
    /// Compaction may have left it, or nobody knows.
    Legal,
    /// Batches that are gone.
    Damage,
}

impl GapBehind {
    pub(super) const fn of(cleanup: Cleanup) -> Self {
        match cleanup {
            Cleanup::Delete => Self::Damage,
            Cleanup::Compact | Cleanup::CompactAndDelete => Self::Legal,
        }
    }
}

impl Store {
    /// Adds what the plan of an opening does not know of: damage in segments that it did not have to read, because the state of producers was
    /// made from them or because the last process wrote it down. From then on the log knows of all of it. No segment counts as examined by
    /// that: which gaps are legal is not known before the log has its settings.
    pub(super) fn add_damage(&self, plan: &mut Plan, log: &Inner, met: &[Arc<Segment>]) -> io::Result<()> {
        let name = log.name.to_string();
        let noted: Vec<NotedDamage> = {
            let checkpoints = self.checkpoints();
            let noted = checkpoints.damage.iter().flatten();
            noted.filter(|noted| noted.log == name).cloned().collect()
        };
        for segment in &log.view().segments {
            let base = segment.base();
            let mut noted = noted.iter().filter(|noted| noted.segment == base).peekable();
            let is_suspect = noted.peek().is_some() || met.iter().any(|met| met.base() == base);
            if is_suspect && !plan.damaged.iter().any(|known| known.segment == base) {
                // Whether the log is compacted is not known yet; whoever noted a gap knew.
                let is_gap = noted.any(|noted| noted.bytes.1 >= noted.file_bytes);
                let gap = if is_gap { GapBehind::Damage } else { GapBehind::Legal };
                let Some(bounds) = log.bounds_of(segment) else { continue };
                let found = self.look_for_damage(log, segment, bounds, gap)?;
                for range in found.iter().filter(|range| log.is_missed(range)) {
                    plan.suspect.push(SuspectReason::Damaged { offsets: range.offsets });
                    plan.damaged.push(range.clone());
                }
                log.set_damaged(segment, None, found);
            } else {
                let known = plan.damaged.iter().filter(|range| range.segment == base);
                log.set_damaged(segment, None, known.cloned().collect());
            }
        }
        Ok(())
    }

    /// Examines a segment and keeps what comes of it, in the log and in the note.
    pub(super) fn examine(&self, log: &Inner, segment: &Arc<Segment>) -> Result<(), JobError> {
        let unreadable = |source| ReadError::Io { path: segment.path(FileKind::Log), source };
        let gap = GapBehind::of(log.config().cleanup);
        let Some((size, next)) = log.bounds_of(segment) else { return Ok(()) };
        let found = self.look_for_damage(log, segment, (size, next), gap).map_err(unreadable)?;
        if log.set_damaged(segment, Some(size), found) {
            self.write_damage_note(&mut self.checkpoints())?;
        }
        Ok(())
    }

    pub(super) fn examine_segment(&self, id: LogId, base: Offset) -> Result<JobDone, JobError> {
        let log = self.any_log(id)?;
        if let Some(segment) = log.segment(base) {
            self.examine(&log, &segment)?;
        }
        let damaged = log.writer().damaged.iter().filter(|range| range.segment == base).cloned().collect();
        Ok(JobDone::Examined { log: id, segment: base, damaged })
    }

    pub(super) fn read_cold(&self, log: &Inner, asked: &ColdRead) -> Result<crate::log::Read, ReadError> {
        let examine = |segment: &Arc<Segment>| {
            if let Err(JobError::Damaged(error)) = self.examine(log, segment) {
                return Err(error);
            }
            // It is known, if perhaps not written down; then the directory has failed, which is told elsewhere.
            Ok(())
        };
        log.read(asked, Source::Device { examine: &examine })
    }

    fn look_for_damage(
        &self,
        log: &Inner,
        segment: &Segment,
        bounds: (u64, Offset),
        gap: GapBehind,
    ) -> io::Result<Vec<DamagedRange>> {
        let epochs = log.writer().epochs.clone();
        look_for_damage(segment, bounds, gap, epochs, self.inner.config.batch_bytes_max)
    }

    /// What the next opening has to look at again, if it is not what the file says.
    pub(super) fn write_damage_note(
        &self,
        checkpoints: &mut MutexGuard<'_, Checkpoints>,
    ) -> Result<(), FileError> {
        let mut noted = Vec::new();
        for log in self.logs() {
            let damaged = log.damaged();
            noted.extend(damaged.iter().map(|range| note(&log.0, range)));
        }
        let left_alone: Vec<String> = lock(&self.inner.left_alone).keys().map(ToString::to_string).collect();
        noted.extend(
            checkpoints.damage.iter().flatten().filter(|known| left_alone.contains(&known.log)).cloned(),
        );
        if checkpoints.damage.as_ref() == Some(&noted) {
            return Ok(());
        }
        let shared = self.shared();
        let path = shared.directory.join(DAMAGE_NOTE);
        let written = shared.with_reserve(|| write_damage(shared.disk.as_ref(), &path, &noted));
        written.map_err(|source| shared.failed("write the note of damage", path, source))?;
        checkpoints.damage = Some(noted);
        Ok(())
    }

    /// Writes down what the opening has found. Where the last note could not be believed, everything is to be examined.
    pub(super) fn renew_damage_note(&self) -> Result<(), FileError> {
        let mut checkpoints = self.checkpoints();
        if checkpoints.damage.is_none() {
            let mut suspect = lock(&self.shared().suspect);
            for log in self.logs() {
                suspect.extend(log.0.view().segments.iter().map(|segment| (log.id(), segment.base())));
            }
        }
        self.write_damage_note(&mut checkpoints)
    }
}

fn note(log: &Inner, range: &DamagedRange) -> NotedDamage {
    let segment = log.segment(range.segment);
    let file = segment.as_ref().and_then(|segment| segment.file().ok());
    NotedDamage {
        log: log.name.to_string(),
        segment: range.segment,
        offsets: (range.offsets.start(), range.offsets.end()),
        bytes: range.bytes,
        file_bytes: segment.map_or(0, |segment| segment.size()),
        file: file.and_then(|file| file.identity().ok()),
    }
}

/// Everything that is damaged in a segment of `size` bytes behind which the log, with this history of epochs, goes on at `next`.
pub(super) fn look_for_damage(
    segment: &Segment,
    (size, next): (u64, Offset),
    gap: GapBehind,
    epochs: EpochHistory,
    batch_bytes_max: usize,
) -> io::Result<Vec<DamagedRange>> {
    let (base, file) = (segment.base(), segment.file()?);
    let log_bytes = size.min(file.size()?);
    let place = Place { base, log_bytes, from: 0, expected: base };
    let context = SegmentContext::examined(next, epochs);
    // Its index is of no use here, and stays empty.
    let index = IndexSettings { interval_bytes: u64::MAX, bytes_max: 0 }.empty(base);
    let scan = scan_segment(&file, place, context, index, batch_bytes_max, &IdleHelpers::default())?.scan;
    let mut ranges = Vec::new();
    let mut add = |from: Offset, until: Offset, bytes| {
        let offsets = OffsetRange::new(from, until.max(from));
        ranges.extend(offsets.map(|offsets| DamagedRange { segment: base, offsets, bytes }));
    };
    let mut end = scan.end;
    for bad in &scan.bad {
        let until = bad.next.unwrap_or(next);
        add(bad.expected, until, (bad.position, bad.until));
        end = end.max(until);
    }
    // Single batches whose epoch is not the one that the log's history has there: headers that are damaged outside of their CRC.
    for run in
        scan.runs.iter().filter(|run| run.batches == 1 && run.known.is_some() && run.known != run.epoch)
    {
        add(run.offsets.start(), run.offsets.end(), run.position);
    }
    if end < next && (gap == GapBehind::Damage || log_bytes < size) {
        add(end, next, (log_bytes, size));
    }
    Ok(ranges)
}
