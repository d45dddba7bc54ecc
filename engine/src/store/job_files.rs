//! The jobs that remove files: retention, and the end of a log.

use std::io;
use std::path::PathBuf;
use std::sync::PoisonError;

use super::layout::deleted_path;
use super::{JobDone, JobError, Store};
use crate::disk::is_passing;
use crate::log::{Closed, FileError, LogId, lock};
use crate::units::{Now, Offset, TopicPartition};

impl Store {
    /// The job that removes a log and its files. Its name is free when the job is done.
    pub fn delete_log(&self, name: &TopicPartition) -> Option<super::Job> {
        let log = {
            let mut names = self.inner.names.write().unwrap_or_else(PoisonError::into_inner);
            let log = names.remove(name)?;
            lock(&self.inner.deleting).insert(name.clone());
            log
        };
        log.0.close(Closed::Deleted);
        Some(super::Job::DeleteLog { log: log.id() })
    }

    pub(super) fn retain(&self, id: LogId, ceiling: Offset, now: Now) -> Result<JobDone, JobError> {
        let log = self.open_log(id)?;
        let retained = log.retain(ceiling, now, || self.write_start(&log))?;
        let start = log.marks.start.get();
        Ok(JobDone::Retained { log: id, start, segments: retained.segments, bytes: retained.bytes })
    }

    /// Renames the directory, so that the name is free, and then removes it. A crash leaves a directory that the next opening removes. What
    /// finds no room may be done again, and what is left of the files then goes with the next checkpoint.
    pub(super) fn delete_files(&self, id: LogId) -> Result<JobDone, JobError> {
        let log = self.any_log(id)?;
        let shared = self.shared();
        {
            let mut names = self.inner.names.write().unwrap_or_else(PoisonError::into_inner);
            if names.get(&log.name).is_some_and(|known| known.id() == id) {
                names.remove(&log.name);
                lock(&self.inner.deleting).insert(log.name.clone());
            }
        }
        log.close(Closed::Deleted);
        log.note_moved();
        let _maintenance = lock(&log.maintenance);
        if self.any_log(id).is_err() {
            return Err(JobError::UnknownLog);
        }
        lock(&self.inner.compaction).take_if(|round| round.log() == id);
        let to = deleted_path(&shared.directory, &log.name, lock(&shared.random).u128(..));
        let fail = |what, source| shared.failed(what, log.directory.to_path_buf(), source);
        let disk = shared.disk.as_ref();
        let renamed = {
            // Who makes the next segment, or writes epochs down, does it before, or finds the log closed: for want of the directory he would
            // give the whole store up.
            let (_room, _epochs) = (lock(&log.room), lock(&log.epoch_file));
            shared.with_reserve(|| disk.rename(&log.directory, &to))
        };
        match renamed {
            Ok(()) => lock(&self.inner.leftovers).push(to),
            // It was renamed when the job was done before, and only the directory could not be synced.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(fail("rename a log's directory", error).into()),
        }
        disk.sync_directory(&shared.directory).map_err(|error| fail("sync a directory", error))?;
        let mut logs = shared.logs.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = usize::try_from(id.number()).ok().and_then(|at| logs.get_mut(at)) {
            *slot = None;
        }
        drop(logs);
        lock(&self.inner.deleting).remove(&log.name);
        self.remove_leftovers()?;
        Ok(JobDone::Deleted { log: id })
    }

    /// Removes what is left of deleted logs; for want of room or of a descriptor another time.
    pub(super) fn remove_leftovers(&self) -> Result<(), FileError> {
        let mut leftovers = lock(&self.inner.leftovers);
        let mut left: Vec<PathBuf> = Vec::new();
        for path in leftovers.drain(..) {
            match self.disk().remove_directory(&path) {
                Ok(()) => {}
                Err(error) if is_passing(&error) => left.push(path),
                Err(error) => return Err(self.shared().failed("remove a log's directory", path, error)),
            }
        }
        *leftovers = left;
        Ok(())
    }
}
