//! What becomes of a log and its directory when a file cannot be changed.
//!
//! | what the error says | what follows |
//! |---|---|
//! | no room, in what has to go through | the space in reserve is given back, and it is done once more |
//! | no room, or no descriptor | it is refused, nothing is given up, and it is tried again later |
//! | anything else, and whatever a sync says | the directory has failed |

use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use super::LogId;
use super::inner::Inner;
use super::shared::{Shared, lock};
use crate::disk::{is_full, is_out_of_descriptors, is_passing};
use crate::units::{Monotonic, Now};

/// Between two tries of what found no room.
const TRY_AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

/// A file that could not be changed. The directory has failed, unless [`FileError::passes`].
#[derive(Debug)]
pub(crate) struct FileError {
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

impl FileError {
    /// Whether there was only no room, or no descriptor: then it may succeed another time.
    pub(crate) fn passes(&self) -> bool {
        is_passing(&self.source)
    }

    /// What a caller is told of it: one of the two that pass, or anything else.
    pub(crate) fn told<T>(
        self,
        no_room: impl FnOnce(PathBuf) -> T,
        no_descriptor: impl FnOnce(PathBuf) -> T,
        other: impl FnOnce(PathBuf, io::Error) -> T,
    ) -> T {
        if is_full(&self.source) {
            no_room(self.path)
        } else if is_out_of_descriptors(&self.source) {
            no_descriptor(self.path)
        } else {
            other(self.path, self.source)
        }
    }
}

/// Logs of which something waits for room, and since when.
#[derive(Debug, Default)]
pub(crate) struct PutOff {
    logs: Vec<LogId>,
    since: Option<Monotonic>,
}

impl Shared {
    /// A change of a file has failed: gives the directory up, if it is for anything else than want of room or of a descriptor.
    pub(crate) fn failed(&self, what: &'static str, path: PathBuf, source: io::Error) -> FileError {
        if !is_passing(&source) {
            self.fail(&path, what, &source);
        }
        FileError { path, source }
    }

    /// Does what has to go through on a full disk as well. `work` may be done twice.
    pub(crate) fn with_reserve<T>(&self, mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        match work() {
            Err(error) if is_full(&error) && self.reserve.give_back(self.disk.as_ref()) => {
                // The next checkpoint takes it again.
                self.has_moved.store(true, Ordering::Release);
                work()
            }
            done => done,
        }
    }

    /// What was to be finished of a log has found no room.
    pub(crate) fn put_off(&self, log: LogId) {
        lock(&self.put_off).logs.push(log);
    }

    /// When [`Shared::take_put_off`] has something to give.
    pub(crate) fn put_off_deadline(&self) -> Option<Monotonic> {
        let put_off = lock(&self.put_off);
        let is_waiting = !put_off.logs.is_empty();
        is_waiting.then(|| put_off.since.map_or(Monotonic::default(), |since| since.after(TRY_AGAIN)))
    }

    /// The logs of which something has waited for room for long enough, to be tried again.
    pub(crate) fn take_put_off(&self, now: Now) -> Vec<LogId> {
        let mut put_off = lock(&self.put_off);
        if put_off.logs.is_empty() {
            return Vec::new();
        }
        let since = *put_off.since.get_or_insert(now.monotonic);
        if now.monotonic.since(since) < TRY_AGAIN {
            return Vec::new();
        }
        put_off.since = None;
        let mut logs = std::mem::take(&mut put_off.logs);
        logs.sort_unstable();
        logs.dedup();
        logs
    }
}

impl Inner {
    /// As [`Shared::failed`].
    pub(crate) fn failed(&self, what: &'static str, path: PathBuf, source: io::Error) -> FileError {
        self.shared.failed(what, path, source)
    }
}

/// What lags behind does no harm and is written later: only a failed disk is an error.
pub(crate) fn or_later(result: Result<(), FileError>) -> Result<(), FileError> {
    result.or_else(|error| if error.passes() { Ok(()) } else { Err(error) })
}
