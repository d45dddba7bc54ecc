//! Why one log of a directory is not open, while the others are.

use std::io;
use std::path::PathBuf;

use crate::log::{FileError, StoreFailure};
use crate::recovery::Refusal;

/// Why a log was left alone at the opening, or could not be opened again. Closes this log: nothing of it is changed, what is known of it is
/// kept, and [`super::Store::reopen_log`] tries it again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogRefusal {
    /// Its files are not to be understood.
    #[error(transparent)]
    NotUnderstood(#[from] Refusal),
    /// A file or directory of it cannot be read.
    #[error("{path} cannot be read: {source}")]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The device is full, and recovery had to write.
    #[error("no space left on the device for {path}")]
    OutOfSpace {
        /// The file or directory.
        path: PathBuf,
    },
    /// No more files can be opened.
    #[error("no descriptor is left for {path}")]
    OutOfDescriptors {
        /// The file or directory.
        path: PathBuf,
    },
}

/// Why a log was not opened again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReopenLogError {
    /// It still cannot be opened. It stays closed, or left alone, and may be tried again.
    #[error("the log cannot be opened: {0}")]
    Refused(#[from] LogRefusal),
    /// The directory has failed, now or before.
    #[error(transparent)]
    Failed(#[from] StoreFailure),
}

/// Why a log does not run.
#[derive(Debug)]
pub(super) enum LoadError {
    /// This log cannot be opened.
    Log(LogRefusal),
    /// What recovery had to change could not be changed: nothing more is to be believed of the directory.
    Directory(FileError),
}

impl From<LogRefusal> for LoadError {
    fn from(refusal: LogRefusal) -> Self {
        Self::Log(refusal)
    }
}

impl From<Refusal> for LoadError {
    fn from(refusal: Refusal) -> Self {
        Self::Log(refusal.into())
    }
}

impl LogRefusal {
    /// A file of the log could not be looked at.
    pub(super) fn unread(path: PathBuf, source: io::Error) -> Self {
        FileError { path, source }.told(
            |path| Self::OutOfSpace { path },
            |path| Self::OutOfDescriptors { path },
            |path, source| Self::Unreadable { path, source },
        )
    }
}

impl LoadError {
    /// A file of the log could not be changed.
    pub(super) fn unchanged(path: PathBuf, source: io::Error) -> Self {
        let error = FileError { path, source };
        if error.passes() {
            LogRefusal::unread(error.path, error.source).into()
        } else {
            Self::Directory(error)
        }
    }
}
