//! The small files that all logs of a directory share. What was written last is remembered, so that nothing is written twice and a
//! truncation writes only when it goes below what the file says.

use super::Store;
use crate::checkpoint::{
    CLEANER_OFFSETS, LOG_STARTS, NotedDamage, OffsetCheckpoint, RECOVERY_POINTS, write_offsets,
};
use crate::log::{CutCheckpoints, FileError, Inner, lock};
use crate::rules::Rule;
use crate::sync::MutexGuard;
use crate::units::{Offset, TopicPartition};

/// What the files say; `None` if that is not known.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    pub(super) recovery_points: Option<OffsetCheckpoint>,
    pub(super) starts: Option<OffsetCheckpoint>,
    /// How far compaction has come. What is not known is nowhere.
    pub(super) cleaned: OffsetCheckpoint,
    pub(super) damage: Option<Vec<NotedDamage>>,
}

impl Store {
    /// Writes recovery points and log starts, if they are not what the files say. Epochs become certain before a recovery point passes
    /// what was appended in them.
    pub(super) fn write_checkpoints(&self) -> Result<(), FileError> {
        let mut points = OffsetCheckpoint::new();
        let mut starts = OffsetCheckpoint::new();
        let mut checkpoints = self.checkpoints();
        for log in self.logs() {
            let inner = &log.0;
            let point = recovery_point(inner);
            inner.sync_epochs()?;
            points.insert(inner.name.clone(), point);
            // Also where the first segment begins there, and where all logs begin: the names of those before it may come back, and its own
            // may be taken away.
            starts.insert(inner.name.clone(), inner.start_to_note());
        }
        // What could not be opened may be read another day, and then by what was promised of it.
        for name in lock(&self.inner.left_alone).keys() {
            let keep = |known: &Option<OffsetCheckpoint>, new: &mut OffsetCheckpoint| {
                let offset = known.as_ref().and_then(|known| known.get(name));
                new.extend(offset.map(|offset| (name.clone(), *offset)));
            };
            keep(&checkpoints.recovery_points, &mut points);
            keep(&checkpoints.starts, &mut starts);
        }
        self.write_points(&mut checkpoints, points)?;
        self.write_starts(&mut checkpoints, starts)?;
        self.write_damage_note(&mut checkpoints)
    }

    /// Writes one log's start down as it is, before segments below it go, or before anything is appended to a first segment there.
    pub(super) fn write_start(&self, log: &Inner) -> Result<(), FileError> {
        let mut checkpoints = self.checkpoints();
        let start = log.start_to_note();
        let known = checkpoints.starts.as_ref();
        if known.is_some_and(|known| known.get(&log.name).copied().unwrap_or_default() == start) {
            return Ok(());
        }
        let mut starts = checkpoints.starts.clone().unwrap_or_default();
        starts.insert(log.name.clone(), start);
        self.write_starts(&mut checkpoints, starts)
    }

    /// Takes a log's name out of the files, if it is there.
    pub(super) fn forget_checkpoints(&self, name: &TopicPartition) -> Result<(), FileError> {
        let mut checkpoints = self.checkpoints();
        let without = |known: &Option<OffsetCheckpoint>| {
            let mut known = known.clone()?;
            known.remove(name).map(|_| known)
        };
        if let Some(points) = without(&checkpoints.recovery_points) {
            self.write_points(&mut checkpoints, points)?;
        }
        if let Some(starts) = without(&checkpoints.starts) {
            self.write_starts(&mut checkpoints, starts)?;
        }
        self.lower_cleaned(&mut checkpoints, name, None)
    }

    /// A round of compaction is over.
    pub(super) fn note_cleaned(&self, log: &Inner, cleaned_to: Offset) -> Result<(), FileError> {
        let mut checkpoints = self.checkpoints();
        let mut cleaned = checkpoints.cleaned.clone();
        cleaned.insert(log.name.clone(), cleaned_to);
        self.write_cleaned(&mut checkpoints, cleaned)?;
        log.marks.cleaned.set(cleaned_to);
        Ok(())
    }

    /// What lies at and above `to` will be other records, of which none was compared with those below: for certain, before the first of them
    /// is appended. `None`: nothing of the log was.
    pub(super) fn lower_cleaned(
        &self,
        checkpoints: &mut MutexGuard<'_, Checkpoints>,
        name: &TopicPartition,
        to: Option<Offset>,
    ) -> Result<(), FileError> {
        let Some(known) = checkpoints.cleaned.get(name) else { return Ok(()) };
        if to.is_some_and(|to| *known <= to) {
            return Ok(());
        }
        let mut cleaned = checkpoints.cleaned.clone();
        match to {
            Some(to) => cleaned.insert(name.clone(), to),
            None => cleaned.remove(name),
        };
        self.write_cleaned(checkpoints, cleaned)
    }

    fn write_cleaned(
        &self,
        checkpoints: &mut MutexGuard<'_, Checkpoints>,
        cleaned: OffsetCheckpoint,
    ) -> Result<(), FileError> {
        if checkpoints.cleaned != cleaned {
            self.write_offset_file(CLEANER_OFFSETS, &cleaned)?;
            checkpoints.cleaned = cleaned;
        }
        Ok(())
    }

    fn write_points(
        &self,
        checkpoints: &mut MutexGuard<'_, Checkpoints>,
        points: OffsetCheckpoint,
    ) -> Result<(), FileError> {
        if checkpoints.recovery_points.as_ref() != Some(&points) {
            self.write_offset_file(RECOVERY_POINTS, &points)?;
            checkpoints.recovery_points = Some(points);
        }
        Ok(())
    }

    fn write_starts(
        &self,
        checkpoints: &mut MutexGuard<'_, Checkpoints>,
        starts: OffsetCheckpoint,
    ) -> Result<(), FileError> {
        if checkpoints.starts.as_ref() != Some(&starts) {
            self.write_offset_file(LOG_STARTS, &starts)?;
            checkpoints.starts = Some(starts);
        }
        Ok(())
    }

    pub(super) fn write_offset_file(&self, name: &str, offsets: &OffsetCheckpoint) -> Result<(), FileError> {
        let shared = self.shared();
        let path = shared.directory.join(name);
        let written = shared.with_reserve(|| write_offsets(shared.disk.as_ref(), &path, offsets));
        // For want of room or of a descriptor the old file stays, and is safe; the job is for another time.
        written.map_err(|source| shared.failed("write a checkpoint", path, source))
    }
}

impl CutCheckpoints for Store {
    fn lower_point(&self, log: &Inner, point: Offset) -> Result<(), FileError> {
        let mut checkpoints = self.checkpoints();
        self.lower_cleaned(&mut checkpoints, &log.name, Some(point))?;
        let known = checkpoints.recovery_points.as_ref();
        let Some(known) = known.filter(|known| known.get(&log.name).is_some_and(|known| *known > point))
        else {
            return Ok(());
        };
        let mut lowered = known.clone();
        lowered.insert(log.name.clone(), point);
        self.write_points(&mut checkpoints, lowered)
    }

    fn write_start(&self, log: &Inner) -> Result<(), FileError> {
        Self::write_start(self, log)
    }
}

/// Everything below it is synced, and so are the seals, indexes and snapshots there: it does not pass the beginning of a segment whose
/// files are not yet as they will stay, even where its records are synced.
pub(super) fn recovery_point(log: &Inner) -> Offset {
    if !log.holds(Rule::RecoveryPointBelowUnsynced) {
        return log.marks.written.get();
    }
    let writer = log.writer();
    let durable = log.marks.durable.get();
    writer.unsealed.front().map_or(durable, |unsealed| durable.min(unsealed.segment.base()))
}
