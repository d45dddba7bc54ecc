//! Running jobs, and the jobs that the engine itself wants run.

use std::sync::Arc;

use super::{Job, JobDone, JobError, JobKind, Store};
use crate::disk::{Operation, OperationKind, Patience, Wait};
use crate::log::{Closed, CutError, FileError, Inner, LogId, Phase, Step, SyncedBy, lock};
use crate::segment::FileKind;
use crate::units::{Now, Offset};

impl From<FileError> for JobError {
    fn from(error: FileError) -> Self {
        Self::Io { path: error.path, source: error.source }
    }
}

impl From<CutError> for JobError {
    fn from(error: CutError) -> Self {
        match error {
            CutError::Truncating => Self::Truncating,
            CutError::Closed(why) => Self::Closed(why),
            CutError::Damaged(damage) => Self::Damaged(damage),
            CutError::File(error) => error.into(),
        }
    }
}

impl Job {
    /// Which kind it is.
    pub const fn kind(&self) -> JobKind {
        match self {
            Self::Truncate { .. } => JobKind::Truncate,
            Self::RestartAt { .. } => JobKind::RestartAt,
            Self::RaiseStart { .. } => JobKind::RaiseStart,
            Self::Retention { .. } => JobKind::Retention,
            Self::Seal { .. } => JobKind::Seal,
            Self::Sync { .. } => JobKind::Sync,
            Self::Checkpoint { .. } => JobKind::Checkpoint,
            Self::OffsetCheckpoint { .. } => JobKind::OffsetCheckpoint,
            Self::ColdRead(_) => JobKind::ColdRead,
            Self::Examine { .. } => JobKind::Examine,
            Self::Repair { .. } => JobKind::Repair,
            Self::DeleteLog { .. } => JobKind::DeleteLog,
            Self::Reopen { .. } => JobKind::Reopen,
        }
    }

    /// The log it is about, if it is about one.
    pub const fn log(&self) -> Option<LogId> {
        match self {
            Self::Truncate { log, .. }
            | Self::RestartAt { log, .. }
            | Self::RaiseStart { log, .. }
            | Self::Retention { log, .. }
            | Self::Seal { log }
            | Self::Examine { log, .. }
            | Self::Repair { log, .. }
            | Self::DeleteLog { log }
            | Self::Reopen { log, .. } => Some(*log),
            Self::ColdRead(read) => Some(read.log),
            Self::Sync { .. } | Self::Checkpoint { .. } | Self::OffsetCheckpoint { .. } => None,
        }
    }

    /// Does it, here and now. Blocks.
    pub fn run(self, store: &Store) -> JobDone {
        let (kind, log) = (self.kind(), self.log());
        let done = store.run(self);
        if let (Err(JobError::Damaged(error)), Some(log)) =
            (&done, log.and_then(|log| store.shared().log(log)))
        {
            log.note_suspect(error);
        }
        done.unwrap_or_else(|error| JobDone::Failed { kind, log, error })
    }
}

impl Store {
    /// What the engine itself wants done: seals, background syncs, checkpoints. Each is given once.
    pub fn due_jobs(&self, now: Now) -> Vec<Job> {
        let shared = self.shared();
        let mut jobs = Vec::new();
        if shared.has_failed() {
            return jobs;
        }
        let mut sealing = std::mem::take(&mut *lock(&shared.sealing));
        sealing.sort_unstable();
        sealing.dedup();
        jobs.extend(sealing.into_iter().map(|log| Job::Seal { log }));
        let mut suspect = std::mem::take(&mut *lock(&shared.suspect));
        suspect.sort_unstable();
        suspect.dedup();
        jobs.extend(suspect.into_iter().map(|(log, segment)| Job::Examine { log, segment }));
        let logs = self.take_dirty(now);
        if !logs.is_empty() {
            jobs.push(Job::Sync { logs });
        }
        let mut next = lock(&self.inner.next_checkpoint);
        if next.is_none_or(|at| at <= now.monotonic) {
            let first = next.replace(now.monotonic.after(self.inner.config.checkpoint_interval)).is_none();
            if !first {
                jobs.push(Job::Checkpoint { now });
            }
        }
        jobs
    }

    /// Logs that have been dirty for long enough.
    fn take_dirty(&self, now: Now) -> Vec<LogId> {
        let shared = self.shared();
        let mut due = Vec::new();
        let mut dirty = lock(&shared.dirty);
        while let Some((since, log)) = dirty.front().copied() {
            if now.monotonic.since(since) < self.inner.config.dirty_age_max {
                break;
            }
            dirty.pop_front();
            due.push(log);
        }
        drop(dirty);
        due.retain(|id| {
            let Some(log) = shared.log(*id) else { return false };
            let mut writer = log.writer();
            // What is appended from now on lists the log again.
            writer.listed_dirty = false;
            log.marks.durable.get() < log.marks.accepted.get() || writer.has_older_unsynced()
        });
        due.sort_unstable();
        due
    }

    fn run(&self, job: Job) -> Result<JobDone, JobError> {
        let writes_checkpoints = matches!(job, Job::Checkpoint { .. } | Job::OffsetCheckpoint { .. });
        if writes_checkpoints && self.shared().has_failed() {
            // What is in memory is no longer what is on the disk.
            return Err(Closed::StoreFailed.into());
        }
        match job {
            Job::Truncate { log, to } => {
                let inner = self.open_log(log)?;
                let end = inner.truncate(to, |point, start| self.lower_checkpoints(&inner, point, start))?;
                Ok(JobDone::Truncated { log, end })
            }
            Job::RestartAt { log, offset } => {
                let inner = self.open_log(log)?;
                let offset =
                    inner.restart_at(offset, |point, start| self.lower_checkpoints(&inner, point, start))?;
                Ok(JobDone::RestartedAt { log, offset })
            }
            Job::RaiseStart { log, to } => self.raise_start(log, to),
            Job::Retention { log, ceiling, now } => self.retain(log, ceiling, now),
            Job::Seal { log } => {
                self.open_log(log)?.seal_rolled()?;
                Ok(JobDone::Sealed { log })
            }
            Job::Sync { logs } => self.sync_logs(logs),
            Job::Checkpoint { .. } => {
                self.write_checkpoints()?;
                Ok(JobDone::Checkpointed)
            }
            Job::OffsetCheckpoint { name, entries } => {
                self.write_offset_file(&name, &entries.into_iter().collect())?;
                Ok(JobDone::OffsetCheckpointed { name })
            }
            Job::ColdRead(asked) => {
                let inner = self.any_log(asked.log)?;
                Ok(JobDone::Read { asked, result: self.read_cold(&inner, &asked) })
            }
            Job::Examine { log, segment } => self.examine_segment(log, segment),
            Job::Repair { log, offsets, batches, now } => self.repair(log, offsets, &batches, now),
            Job::DeleteLog { log } => self.delete_files(log),
            Job::Reopen { log, now } => {
                let name = self.open_log(log)?.name.clone();
                let report =
                    self.reopen_log(&name, now).map_err(|source| JobError::NotReopened { source })?;
                Ok(JobDone::Reopened { log, report: report.map(Box::new) })
            }
        }
    }

    pub(super) fn any_log(&self, id: LogId) -> Result<Arc<Inner>, JobError> {
        self.shared().log(id).ok_or(JobError::UnknownLog)
    }

    /// A log whose files may be changed.
    pub(super) fn open_log(&self, id: LogId) -> Result<Arc<Inner>, JobError> {
        if self.shared().has_failed() {
            return Err(Closed::StoreFailed.into());
        }
        self.any_log(id)
    }

    fn raise_start(&self, id: LogId, to: Offset) -> Result<JobDone, JobError> {
        let log = self.open_log(id)?;
        let _maintenance = lock(&log.maintenance);
        let end = log.marks.written.get();
        if to > end {
            return Err(JobError::AboveEnd { offset: to, end });
        }
        if log.marks.start.raise(to) {
            let changed = {
                let mut writer = log.writer();
                writer.producers.note_start(to);
                writer.damaged.retain(|range| log.is_missed(range));
                writer.epochs_unsynced |= writer.epochs.truncate_from_start(to);
                writer.epochs_unsynced
            };
            if changed {
                log.write_epochs(crate::checkpoint::Certainty::Written)?;
            }
        }
        Ok(JobDone::StartRaised { log: id, start: log.marks.start.get() })
    }

    /// Syncs what is accepted now, several files in one submission.
    fn sync_logs(&self, logs: Vec<LogId>) -> Result<JobDone, JobError> {
        let mut syncs = Vec::new();
        for id in &logs {
            let Some(log) = self.shared().log(*id) else { continue };
            if log.closed().is_some() {
                continue;
            }
            if self
                .wait_with(log.ticket(log.marks.accepted.get()), Step::Written, Patience::MustNotBlock)
                .is_err()
            {
                // It was cut or closed meanwhile; what is left of it is synced another time.
                continue;
            }
            if log.writer().has_older_unsynced() {
                log.seal_rolled()?;
            }
            let mut writer = log.writer();
            if self.shared().has_failed() {
                // Perhaps with a sync of this very file, after which another proves nothing.
                break;
            }
            let covers = log.marks.written.get();
            let is_taken = writer.sync.under_way.is_some() || writer.phase != Phase::Open;
            if is_taken || writer.has_older_unsynced() {
                // Somebody syncs it already, or cuts or rolls it; what that does not cover the driver syncs next.
                drop(writer);
                log.want_durable(covers);
                continue;
            }
            writer.sync.under_way = Some(SyncedBy::Job);
            writer.sync.covers(covers);
            let segment = Arc::clone(&writer.active.segment);
            drop(writer);
            syncs.push((log, segment, covers));
        }
        let results = self.sync_files(syncs.iter().map(|(_, segment, _)| segment.file()).collect());
        let mut failure = None;
        for ((log, segment, covers), result) in syncs.into_iter().zip(results) {
            let is_synced = match result {
                Ok(()) => true,
                Err(source) => {
                    failure.get_or_insert(log.failed("sync", segment.path(FileKind::Log), source));
                    false
                }
            };
            let mut writer = log.writer();
            writer.sync.under_way = None;
            // Nothing was rolled or cut meanwhile, which waits for the sync.
            if is_synced {
                log.marks.durable.raise(covers);
            }
            let more = writer.sync.is_wanted();
            drop(writer);
            if more {
                log.make_ready();
            }
            log.wake_reached();
        }
        self.shared().progress.tell();
        match failure {
            Some(failure) => Err(failure.into()),
            None if self.shared().has_failed() => Err(Closed::StoreFailed.into()),
            None => Ok(JobDone::Synced { logs }),
        }
    }

    fn sync_files(&self, files: Vec<std::io::Result<crate::disk::File>>) -> Vec<std::io::Result<()>> {
        if files.len() < 2 {
            return files.into_iter().map(|file| file?.sync()).collect();
        }
        let Ok(mut queue) = self.shared().disk.queue() else {
            return files.into_iter().map(|file| file?.sync()).collect();
        };
        let mut results = Vec::with_capacity(files.len());
        let mut operations = Vec::with_capacity(files.len());
        for (token, file) in (0..).zip(files) {
            results.push(file.map(|file| {
                let kind = OperationKind::Sync { patience: Patience::MayBlock };
                operations.push(Operation { token, file, kind });
            }));
        }
        queue.submit(operations);
        let mut completed = Vec::new();
        while queue.in_flight() > 0 {
            queue.reap(Wait::ForOne, &mut completed);
        }
        for done in completed {
            if let Some(slot) = usize::try_from(done.token).ok().and_then(|at| results.get_mut(at)) {
                *slot = done.result.map(|_| ());
            }
        }
        results
    }
}
