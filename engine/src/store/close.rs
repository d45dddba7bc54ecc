//! A clean stop: drained, synced, indexed, trimmed; then the checkpoints; then the mark, last.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use super::Store;
use crate::checkpoint::{CLEAN_MARK, Certainty, CleanFacts, CleanMark, CleanPartition, write_clean_mark};
use crate::log::{Closed, CutError, FileError, Inner, ReadError, StoreFailure, lock, walk_failed};
use crate::segment::FileKind;
use std::sync::Arc;

/// Why a store could not be stopped cleanly. There is no mark; the next opening recovers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// The directory had failed.
    #[error(transparent)]
    Failed(#[from] StoreFailure),
    /// It was closed already.
    #[error("the store is closed")]
    Closed,
    /// A log was closed by a failed write, so that what was accepted is not all there.
    #[error("the log in {path} was closed: {why}")]
    LogClosed {
        /// The log's directory.
        path: PathBuf,
        /// Why.
        why: Closed,
    },
    /// The end of a log could not be read back.
    #[error(transparent)]
    Damaged(#[from] ReadError),
    /// The device is full, also without the space in reserve. Nothing is lost.
    #[error("no space left on the device for {path}")]
    OutOfSpace {
        /// The file.
        path: PathBuf,
    },
    /// No more files can be opened. Nothing is lost.
    #[error("no descriptor is left for {path}")]
    OutOfDescriptors {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be written. The directory has failed.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl From<FileError> for CloseError {
    fn from(error: FileError) -> Self {
        error.told(
            |path| Self::OutOfSpace { path },
            |path| Self::OutOfDescriptors { path },
            |path, source| Self::Io { path, source },
        )
    }
}

impl From<CutError> for CloseError {
    fn from(error: CutError) -> Self {
        match error {
            CutError::Damaged(damage) => damage.into(),
            CutError::File(error) => error.into(),
            CutError::Closed(_) | CutError::Truncating => Self::Closed,
        }
    }
}

/// So much of what an opening has found, and no job has come to, is looked through for aborted transactions by the stop; of the rest the mark
/// says nothing, and the next opening goes on with it.
const UNSURE_BYTES_MAX: u64 = 1 << 30;

impl Store {
    /// Stops cleanly. Appends are refused from now on; what was accepted is written and synced; the mark is written last, with the facts
    /// that `extra` adds and the session in which the broker stopped. The lock on the directory is given up in any case.
    ///
    /// A crash at any moment leaves no mark, and the next opening recovers.
    pub fn close(
        self,
        extra: serde_json::Map<String, serde_json::Value>,
        broker_epoch: Option<i64>,
    ) -> Result<(), CloseError> {
        let _watch = self.shared().watch();
        let directory_lock = lock(&self.shared().directory_lock).take().ok_or(CloseError::Closed)?;
        let closed = self.close_logs(extra, broker_epoch);
        for log in self.shared().all_logs() {
            log.close(Closed::StoreClosed);
        }
        self.shared().drive().finish();
        drop(directory_lock);
        closed
    }

    fn close_logs(
        &self,
        extra: serde_json::Map<String, serde_json::Value>,
        broker_epoch: Option<i64>,
    ) -> Result<(), CloseError> {
        let (mut partitions, mut unsure_bytes_max) = (BTreeMap::new(), UNSURE_BYTES_MAX);
        let logs = self.logs();
        for log in &logs {
            log.0.refuse_appends();
        }
        for log in &logs {
            partitions.insert(log.name().to_string(), self.close_log(&log.0, &mut unsure_bytes_max)?);
        }
        self.write_checkpoints()?;
        if let Some(failure) = self.failure() {
            return Err(failure.clone().into());
        }
        let shared = self.shared();
        let path = shared.directory.join(CLEAN_MARK);
        let mark = CleanMark { broker_epoch, facts: Some(CleanFacts { partitions, extra }) };
        let written = shared.with_reserve(|| write_clean_mark(shared.disk.as_ref(), &path, &mark));
        written.map_err(|source| FileError { path, source }.into())
    }

    fn close_log(&self, log: &Arc<Inner>, unsure_bytes_max: &mut u64) -> Result<CleanPartition, CloseError> {
        let _maintenance = lock(&log.maintenance);
        log.drain().map_err(|why| match self.failure() {
            Some(failure) => CloseError::Failed(failure.clone()),
            None => CloseError::LogClosed { path: log.directory.to_path_buf(), why },
        })?;
        log.seal_rolled_held()?;
        let end = log.marks.written.get();
        let segment = Arc::clone(&log.writer().active.segment);
        let path = segment.path(FileKind::Log);
        let finish = || -> io::Result<Option<u32>> {
            let file = segment.file()?;
            file.set_size(segment.size())?;
            let index_crc = segment.write_active_indexes()?;
            file.sync()?;
            Ok(index_crc)
        };
        let index_crc =
            self.shared().with_reserve(finish).map_err(|error| log.failed("close a log", path, error))?;
        let producers = log.writer().producers.clone();
        // Kafka never has one at offset 0, where there is nothing to say.
        if end > crate::units::Offset::ZERO && !producers.lacks_something() {
            log.write_snapshot(end, &producers.encode_snapshot())?;
        }
        log.marks.durable.raise(end);
        log.settle_all_aborted(unsure_bytes_max)?;
        let aborted_crc = log.writer().aborted.crc();
        log.write_epochs(Certainty::Durable)?;
        log.sync_directory()?;
        let last_batch_crc = last_crc(log)?;
        Ok(CleanPartition { end, last_batch_crc, log_bytes: segment.size(), index_crc, aborted_crc })
    }
}

/// The CRC of the last batch of the last segment.
fn last_crc(log: &Arc<Inner>) -> Result<Option<u32>, CloseError> {
    let segment = Arc::clone(&log.writer().active.segment);
    let crc = segment.last_crc(log.marks.written.get());
    crc.map_err(|error| walk_failed(&segment, error).into())
}
