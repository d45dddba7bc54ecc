//! The jobs that remove files: retention, and the end of a log.

use std::sync::PoisonError;

use super::layout::deleted_path;
use super::{JobDone, JobError, Store};
use crate::log::{Closed, LogId, lock};
use crate::units::{Now, Offset, TopicPartition};

impl Store {
    /// The job that removes a log and its files.
    pub fn delete_log(&self, name: &TopicPartition) -> Option<super::Job> {
        let log = self.inner.names.write().unwrap_or_else(PoisonError::into_inner).remove(name)?;
        log.0.close(Closed::Deleted);
        Some(super::Job::DeleteLog { log: log.id() })
    }

    pub(super) fn retain(&self, id: LogId, ceiling: Offset, now: Now) -> Result<JobDone, JobError> {
        let log = self.open_log(id)?;
        let retained = log.retain(ceiling, now, || self.raise_checkpoint(&log))?;
        let start = log.marks.start.get();
        Ok(JobDone::Retained { log: id, start, segments: retained.segments, bytes: retained.bytes })
    }

    /// Renames the directory, so that the name is free, and then removes it. A crash leaves a directory that the next opening removes.
    pub(super) fn delete_files(&self, id: LogId) -> Result<JobDone, JobError> {
        let log = self.any_log(id)?;
        let shared = self.shared();
        self.inner.names.write().unwrap_or_else(PoisonError::into_inner).retain(|_, known| known.id() != id);
        log.close(Closed::Deleted);
        log.note_moved();
        let _maintenance = lock(&log.maintenance);
        let to = deleted_path(&shared.directory, &log.name, lock(&shared.random).u128(..));
        let fail = |what, source| log.failed(what, log.directory.to_path_buf(), source);
        shared.disk.rename(&log.directory, &to).map_err(|error| fail("rename a log's directory", error))?;
        shared.disk.sync_directory(&shared.directory).map_err(|error| fail("sync a directory", error))?;
        shared.disk.remove_directory(&to).map_err(|error| fail("remove a log's directory", error))?;
        let mut logs = shared.logs.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = usize::try_from(id.number()).ok().and_then(|at| logs.get_mut(at)) {
            *slot = None;
        }
        Ok(JobDone::Deleted { log: id })
    }
}
