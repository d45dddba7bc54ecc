//! Making logs and changing their settings.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use super::gather::{LogSource, Trust};
use super::recover::LoadedLog;
use super::{LogReport, Machine, Stop, Store};
use crate::checkpoint::{OffsetCheckpoint, PARTITION_METADATA, Reading, write_partition_metadata};
use crate::log::{Closed, Log, LogConfig, LogId, lock, new_active};
use crate::state::{EpochHistory, Producers};
use crate::units::{Now, Offset, TopicId, TopicPartition};

/// Why a log was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateLogError {
    /// There is one of this name. Refuses this call.
    #[error("the log {name} exists")]
    Exists {
        /// The name.
        name: TopicPartition,
    },
    /// There is one of this name that could not be opened, and is left as it is. Refuses this call.
    #[error("the log {name} is there and could not be opened")]
    LeftAlone {
        /// The name.
        name: TopicPartition,
    },
    /// The device is full. Refuses this call.
    #[error("no space left on the device for the log {name}")]
    OutOfSpace {
        /// The name.
        name: TopicPartition,
    },
    /// The directory has failed, now or before.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Why a log's settings were not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetConfigError {
    /// There is no such log. Refuses this call.
    #[error("there is no such log")]
    UnknownLog,
}

impl Store {
    /// Makes an empty log. When it returns, the log is there after power loss too.
    pub fn create_log(
        &self,
        name: &TopicPartition,
        topic_id: Option<TopicId>,
        config: LogConfig,
        now: Now,
    ) -> Result<Log, CreateLogError> {
        let _making = lock(&self.inner.making);
        if self.names().contains_key(name) {
            return Err(CreateLogError::Exists { name: name.clone() });
        }
        if lock(&self.inner.left_alone).contains(name) {
            return Err(CreateLogError::LeftAlone { name: name.clone() });
        }
        let shared = self.shared();
        let directory = shared.directory.join(name.to_string());
        let fail = |source: io::Error| {
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
                CreateLogError::OutOfSpace { name: name.clone() }
            } else {
                CreateLogError::Io { path: directory.clone(), source }
            }
        };
        if let Some(failure) = shared.failure() {
            return Err(fail(io::Error::other(failure.clone())));
        }
        let disk = shared.disk.as_ref();
        disk.create_directory(&directory).map_err(fail)?;
        if let Some(id) = topic_id {
            write_partition_metadata(disk, &directory.join(PARTITION_METADATA), id).map_err(fail)?;
        }
        shared.make_way();
        let active = new_active(shared, &directory, Offset::ZERO, &config, now.wall).map_err(fail)?;
        for path in [&directory, &shared.directory] {
            disk.sync_directory(path).map_err(|error| {
                // Tried again it would succeed, and the log's name or its first segment's could be lost all the same.
                shared.fail(path, "sync a directory", &error);
                fail(error)
            })?;
        }
        let log = self.add_log(LoadedLog {
            name: name.clone(),
            directory: directory.clone().into(),
            topic_id,
            config,
            segments: vec![Arc::clone(&active.segment)],
            active,
            start: Offset::ZERO,
            end: Offset::ZERO,
            recovery_point: Offset::ZERO,
            epochs: EpochHistory::default(),
            epochs_unsynced: false,
            producers: Producers::new(shared.limits.producers),
            unsealed: Vec::new(),
            names_unsynced: false,
            is_dirty: false,
            now,
        });
        self.add_name(&log);
        Ok(log)
    }

    /// Opens a log again that a failed write or truncation, or the loss of its file, had closed, as recovery finds it; its owner then begins a new epoch, so that offsets which
    /// were given out and not written are not used again in theirs. The old handle stays closed. `None` if there is no closed log of
    /// this name.
    pub fn reopen_log(&self, name: &TopicPartition, now: Now) -> io::Result<Option<LogReport>> {
        let _making = lock(&self.inner.making);
        let can_open = |log: &Log| {
            matches!(log.closed(), Some(Closed::WriteFailed | Closed::CutFailed | Closed::FileExchanged))
        };
        let Some(log) = self.log(name).filter(can_open) else { return Ok(None) };
        let _maintenance = lock(&log.0.maintenance);
        if let Some(failure) = self.failure() {
            return Err(io::Error::other(failure.clone()));
        }
        let (points, starts) = {
            let checkpoints = lock(&self.inner.checkpoints);
            let known = |offsets: &Option<OffsetCheckpoint>| match offsets {
                Some(value) => Reading::Known { value: value.clone(), guarded: true },
                None => Reading::Missing,
            };
            (known(&checkpoints.recovery_points), known(&checkpoints.starts))
        };
        let trust = Trust {
            stop: Stop::Unclean,
            machine: Machine::Same,
            points: &points,
            starts: &starts,
            facts: None,
        };
        let source = LogSource { name: name.clone(), directory: log.directory().to_owned(), trust };
        let report = self.load_log(&source, now)?.map_err(io::Error::other)?;
        if let Some(reopened) = self.log(name) {
            self.set_config(reopened.id(), (*log.config()).clone()).map_err(io::Error::other)?;
        }
        let mut logs = self.shared().logs.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = usize::try_from(log.id().number()).ok().and_then(|at| logs.get_mut(at)) {
            *slot = None;
        }
        Ok(Some(report))
    }

    /// Remembers a log that could not be opened.
    pub(super) fn leave_alone(&self, name: TopicPartition) {
        lock(&self.inner.left_alone).insert(name);
    }

    pub(super) fn add_name(&self, log: &Log) {
        let mut names = self.inner.names.write().unwrap_or_else(PoisonError::into_inner);
        names.insert(log.name().clone(), log.clone());
    }

    /// Says of which topic a log is that does not say it: a crash came while it was made, or a Kafka made it that knew no ids. It is said
    /// for certain when the call returns; a crash meanwhile leaves it said or not.
    pub fn set_topic_id(&self, log: &Log, id: TopicId) -> io::Result<()> {
        write_partition_metadata(self.disk().as_ref(), &log.directory().join(PARTITION_METADATA), id)?;
        *lock(&log.0.topic_id) = Some(id);
        Ok(())
    }

    /// Gives a log other settings; they hold from the next append or job on.
    pub fn set_config(&self, log: LogId, config: LogConfig) -> Result<(), SetConfigError> {
        let log = self.shared().log(log).ok_or(SetConfigError::UnknownLog)?;
        *log.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        Ok(())
    }
}
