//! Running jobs, and the jobs that the engine itself wants run.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Job, JobDone, JobError, JobKind, Store};
use crate::disk::Patience;
use crate::log::{Closed, CutError, FileError, Inner, LogId, Step, lock};
use crate::units::{Monotonic, Now, Offset};

impl From<FileError> for JobError {
    fn from(error: FileError) -> Self {
        // Nothing was tried, because the log is closed.
        if let Some(why) = error.source.get_ref().and_then(|source| source.downcast_ref::<Closed>()) {
            return Self::Closed(*why);
        }
        error.told(
            |path| Self::OutOfSpace { path },
            |path| Self::OutOfDescriptors { path },
            |path, source| Self::Io { path, source },
        )
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
            Self::Compact { .. } => JobKind::Compact,
            Self::Seal { .. } => JobKind::Seal,
            Self::Sync { .. } => JobKind::Sync,
            Self::Checkpoint { .. } => JobKind::Checkpoint,
            Self::OffsetCheckpoint { .. } => JobKind::OffsetCheckpoint,
            Self::ColdRead(_) => JobKind::ColdRead,
            Self::Examine { .. } => JobKind::Examine,
            Self::IndexAborted { .. } => JobKind::IndexAborted,
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
            | Self::Compact { log, .. }
            | Self::Seal { log }
            | Self::Examine { log, .. }
            | Self::IndexAborted { log, .. }
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
        let changed = log.and_then(|log| store.shared().log(log));
        let _watch = changed.as_ref().map_or_else(|| store.shared().watch(), |log| log.watch());
        let done = store.run(self);
        if let (Err(JobError::Damaged(error)), Some(log)) =
            (&done, log.and_then(|log| store.shared().log(log)))
        {
            log.note_suspect(error);
        }
        done.unwrap_or_else(|error| JobDone::Failed { kind, log, error })
    }
}

fn sync(logs: Vec<LogId>) -> Job {
    Job::Sync { logs }
}

impl Store {
    /// What the engine itself wants done: seals, background syncs, checkpoints. Each is given once.
    pub fn due_jobs(&self, now: Now) -> Vec<Job> {
        let shared = self.shared();
        let _watch = shared.watch();
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
        let unsure = shared.take_unsure_aborted();
        jobs.extend(unsure.map(|(log, segment)| Job::IndexAborted { log, segment }));
        let logs = self.take_dirty(now);
        let lists = [logs, shared.take_holders(), shared.take_put_off(now)];
        jobs.extend(lists.into_iter().filter(|logs| !logs.is_empty()).map(sync));
        let mut next = lock(&self.inner.next_checkpoint);
        let behind = now.monotonic.after(self.inner.config.checkpoint_interval);
        if *next.get_or_insert(behind) <= now.monotonic {
            *next = Some(behind);
            if shared.has_moved.swap(false, Ordering::AcqRel) {
                jobs.push(Job::Checkpoint { now });
            }
        }
        jobs
    }

    /// When [`Store::due_jobs`] has something that is due by time: a background sync, or a checkpoint of what has moved since the last one.
    /// `None` where all logs are synced and idle. What is due at once (a seal, say) comes with a turn or another job, after which the owner
    /// asks for jobs anyway.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let shared = self.shared();
        if shared.has_failed() {
            return None;
        }
        let dirty_since = lock(&shared.dirty).front().map(|(since, _)| *since);
        let sync = dirty_since.map(|since| since.after(self.inner.config.dirty_age_max));
        let checkpoint = *lock(&self.inner.next_checkpoint);
        let checkpoint = checkpoint.filter(|_| shared.has_moved.load(Ordering::Acquire));
        sync.into_iter().chain(checkpoint).chain(shared.put_off_deadline()).min()
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
                let end = self.open_log(log)?.truncate(to, self)?;
                Ok(JobDone::Truncated { log, end })
            }
            Job::RestartAt { log, offset } => {
                let offset = self.open_log(log)?.restart_at(offset, self)?;
                Ok(JobDone::RestartedAt { log, offset })
            }
            Job::RaiseStart { log, to } => self.raise_start(log, to),
            Job::Retention { log, ceiling, now } => self.retain(log, ceiling, now),
            Job::Compact { log, ceiling, now, bytes_max } => self.compact(log, ceiling, now, bytes_max),
            Job::Seal { log } => {
                self.open_log(log)?.seal_rolled()?;
                Ok(JobDone::Sealed { log })
            }
            Job::Sync { logs } => self.sync_logs(logs),
            Job::Checkpoint { .. } => {
                self.write_checkpoints()
                    .and_then(|()| self.remove_leftovers())
                    .inspect_err(|_| self.shared().has_moved.store(true, Ordering::Release))?;
                if !self.shared().reserve.take_again(self.disk().as_ref()) {
                    self.shared().has_moved.store(true, Ordering::Release);
                }
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
            Job::IndexAborted { log, segment } => {
                let indexed = self.index_aborted(log, segment);
                self.shared().end_unsure_aborted();
                indexed
            }
            Job::Repair { log, offsets, batches, now } => self.repair(log, offsets, &batches, now),
            Job::DeleteLog { log } => self.delete_files(log),
            Job::Reopen { log, now } => {
                let name = self.open_log(log)?.name.clone();
                let report = self.reopen_log(&name, now)?;
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
        log.refuse_if_closed()?;
        let end = log.marks.written.get();
        if to > end {
            return Err(JobError::AboveEnd { offset: to, end });
        }
        if log.marks.start.raise(to) {
            log.note_moved();
            let changed = {
                let mut writer = log.writer();
                writer.producers.note_start(to);
                writer.damaged.retain(|range| log.is_missed(range));
                writer.epochs_unsynced |= writer.epochs.truncate_from_start(to);
                writer.epochs_unsynced
            };
            if changed {
                log.withdraw_epochs(crate::checkpoint::Certainty::Written)?;
            }
        }
        Ok(JobDone::StartRaised { log: id, start: log.marks.start.get() })
    }

    /// Syncs what is accepted now, several files in one submission.
    fn sync_logs(&self, logs: Vec<LogId>) -> Result<JobDone, JobError> {
        let open: Vec<_> = logs.iter().filter_map(|id| self.shared().log(*id)).collect();
        let open = open.into_iter().filter(|log| log.closed().is_none());
        let (mut written, mut failure) = (Vec::new(), None);
        for log in open {
            let end = log.ticket(log.marks.accepted.get());
            if self.wait_with(end, Step::Written, Patience::MustNotBlock).is_err() {
                // It was cut or closed meanwhile; what is left of it is synced another time.
                continue;
            }
            if log.writer().needs_seal()
                && let Err(error) = log.seal_rolled()
            {
                failure.get_or_insert(error);
                continue;
            }
            written.push(log);
        }
        let mut claims = Vec::new();
        // Only now, because others wait for those who have claimed a sync.
        for log in written {
            if self.shared().has_failed() {
                // Perhaps with a sync of this very file, after which another proves nothing.
                break;
            }
            match log.claim_sync() {
                Some(claim) => claims.push(claim),
                // Somebody syncs it already, or cuts or rolls it; what that does not cover the driver syncs next.
                None => log.want_durable(log.marks.written.get()),
            }
        }
        self.shared().sync_claimed(claims)?;
        match failure {
            Some(failure) => Err(failure.into()),
            None if self.shared().has_failed() => Err(Closed::StoreFailed.into()),
            None => Ok(JobDone::Synced { logs }),
        }
    }
}
