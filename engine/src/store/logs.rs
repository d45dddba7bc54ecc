//! Making logs and changing their settings.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use super::Store;
use super::recover::LoadedLog;
use crate::checkpoint::{PARTITION_METADATA, write_partition_metadata};
use crate::disk::{is_full, is_passing};
use crate::log::{AbortedIndexes, Active, Log, LogConfig, LogId, StoreFailure, lock, new_active};
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
    /// The log of this name is being deleted. Refuses this call; the name is free when the job is done.
    #[error("the log {name} is being deleted")]
    Deleting {
        /// The name.
        name: TopicPartition,
    },
    /// The device is full. Refuses this call; it may succeed when there is room again.
    #[error("no space left on the device for the log {name}")]
    OutOfSpace {
        /// The name.
        name: TopicPartition,
    },
    /// No more files can be opened. Refuses this call; it may succeed when others are closed.
    #[error("no descriptor is left for the log {name}")]
    OutOfDescriptors {
        /// The name.
        name: TopicPartition,
    },
    /// The directory has failed, now or before.
    #[error(transparent)]
    Failed(#[from] StoreFailure),
    /// Its directory or a file in it could not be made. Refuses this call; what is there of it is no log before a call has succeeded.
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
        if lock(&self.inner.left_alone).contains_key(name) {
            return Err(CreateLogError::LeftAlone { name: name.clone() });
        }
        if lock(&self.inner.deleting).contains(name) {
            return Err(CreateLogError::Deleting { name: name.clone() });
        }
        let shared = self.shared();
        let directory = shared.directory.join(name.to_string());
        if let Some(failure) = shared.failure() {
            return Err(failure.clone().into());
        }
        let disk = shared.disk.as_ref();
        if shared.reserve.allow(disk, 1).is_err() {
            return Err(CreateLogError::OutOfSpace { name: name.clone() });
        }
        // What was promised of a log of this name that was deleted holds for nothing of the new one.
        let forgotten = self.forget_checkpoints(name).map_err(|error| error.source);
        let made = forgotten.and_then(|()| self.make_files(&directory, topic_id, &config, now));
        let active = made.map_err(|source| {
            // Nothing of it stays, so that the next opening does not find a log that nobody has heard of.
            if shared.failure().is_none() && disk.remove_directory(&directory).is_ok() {
                drop(disk.sync_directory(&shared.directory));
            }
            if is_full(&source) {
                CreateLogError::OutOfSpace { name: name.clone() }
            } else if is_passing(&source) {
                CreateLogError::OutOfDescriptors { name: name.clone() }
            } else {
                shared
                    .failure()
                    .cloned()
                    .map_or(CreateLogError::Io { path: directory.clone(), source }, Into::into)
            }
        })?;
        let log = self.make_log(LoadedLog {
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
            producers: Producers::new(shared.limits.producers),
            unsealed: Vec::new(),
            aborted: AbortedIndexes::default(),
            names_unsynced: false,
            gaps_noted: false,
            is_dirty: false,
            now,
        });
        self.run_log(&log, now);
        Ok(log)
    }

    /// The directory of a new log and the files in it, all of them certain.
    fn make_files(
        &self,
        directory: &Path,
        topic_id: Option<TopicId>,
        config: &LogConfig,
        now: Now,
    ) -> io::Result<Active> {
        let shared = self.shared();
        let disk = shared.disk.as_ref();
        disk.create_directory(directory)?;
        if let Some(id) = topic_id {
            write_partition_metadata(disk, &directory.join(PARTITION_METADATA), id)?;
        }
        shared.make_way();
        let active = new_active(shared, directory, Offset::ZERO, config, now.wall)?;
        for path in [directory, &shared.directory] {
            // Tried again it would succeed, and the log's name or its first segment's could be lost all the same.
            disk.sync_directory(path)
                .map_err(|error| shared.failed("sync a directory", path.to_owned(), error).source)?;
        }
        Ok(active)
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
        log.set_config(config);
        Ok(())
    }
}
