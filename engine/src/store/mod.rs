//! One data directory: its lock, its logs, the driver, jobs, opening and shutdown.
//!
//! A store starts no thread and reads no clock. Its owner calls [`Store::turn`] (or threads call [`Store::wait`], which do it themselves),
//! runs the jobs of [`Store::due_jobs`], and closes it.

#[cfg(test)]
mod aborted_test;
#[cfg(test)]
#[cfg(feature = "codecs")]
mod aborted_written_test;
mod checkpoints;
mod close;
#[cfg(test)]
#[cfg(feature = "codecs")]
mod committed_test;
mod compact;
#[cfg(test)]
mod compact_test;
#[cfg(test)]
mod compact_trouble_test;
mod config;
#[cfg(test)]
mod crash_test;
#[cfg(test)]
mod cuts_test;
mod damage;
#[cfg(test)]
mod damage_test;
#[cfg(test)]
mod deletion_test;
mod drive;
#[cfg(test)]
mod failed_sync_test;
#[cfg(test)]
mod failing_directory_test;
#[cfg(test)]
mod files_test;
mod found;
#[cfg(test)]
mod full_disk_test;
#[cfg(test)]
mod gaps_test;
mod gather;
mod half_done;
mod index_aborted;
#[cfg(test)]
mod index_damage_test;
mod job;
mod job_files;
mod job_run;
#[cfg(test)]
#[cfg(feature = "codecs")]
mod kafka_test;
mod layout;
#[cfg(test)]
mod legacy_test;
mod load;
mod logs;
#[cfg(test)]
#[cfg(unix)]
mod mapped_index_test;
#[cfg(test)]
mod odd_offsets_test;
mod open;
mod opening;
#[cfg(test)]
mod opening_test;
#[cfg(test)]
mod panic_test;
mod read_ahead;
#[cfg(test)]
mod read_ahead_test;
mod read_only;
#[cfg(test)]
mod read_test;
mod recover;
mod refusal;
mod reopen;
mod repair;
#[cfg(test)]
mod repair_test;
mod report;
#[cfg(test)]
mod retention_test;
#[cfg(test)]
mod rolls_test;
mod scan;
#[cfg(test)]
mod segments_test;
#[cfg(test)]
mod small_files_test;
#[cfg(test)]
mod snapshots_test;
#[cfg(test)]
mod start_test;
#[cfg(test)]
mod store_test;
#[cfg(test)]
pub(crate) mod test_support;
#[cfg(test)]
mod threads_test;
#[cfg(test)]
mod trouble_test;
#[cfg(test)]
mod windows_test;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

pub use crate::log::StoreFailure;
pub use close::CloseError;
pub use compact::{Compaction, CompactionRefusal, CompactionReport, Dirt};
pub use config::StoreConfig;
pub use drive::TicketFuture;
pub use job::{Job, JobDone, JobError, JobKind};
pub use logs::{CreateLogError, SetConfigError};
pub use open::{Opened, StoreOpenError};
pub use opening::{OpeningProgress, OpeningWatch};
pub use read_only::{
    Fault, FileVerified, Finding, LogVerified, ReadOnlyError, ReadOnlyLog, ReadOnlyReadError, ReadOnlyStore,
    Refreshed,
};
pub use refusal::{LogRefusal, ReopenLogError};
pub use repair::RepairRefusal;
pub use report::{LogReport, Machine, OpenReport, OpeningPlan, Stop, TurnReport};

use crate::disk::Disk;
use crate::log::{Log, Shared, lock};
use crate::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use crate::units::{Monotonic, TopicPartition};
use checkpoints::Checkpoints;
use compact::Round;
use reopen::LeftAlone;

/// An open data directory. Cheap to clone; all clones are the same store.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<StoreInner>,
}

#[derive(Debug)]
struct StoreInner {
    shared: Arc<Shared>,
    config: StoreConfig,
    names: RwLock<BTreeMap<TopicPartition, Log>>,
    /// Logs that are in the directory and could not be opened: nothing of theirs is changed.
    left_alone: Mutex<BTreeMap<TopicPartition, LeftAlone>>,
    /// Logs whose files are still to be removed, and whose names are not free until then.
    deleting: Mutex<BTreeSet<TopicPartition>>,
    /// Directories of deleted logs, under other names, that could not be removed yet.
    leftovers: Mutex<Vec<PathBuf>>,
    /// Held while a log is made, so that two of one name are not.
    making: Mutex<()>,
    checkpoints: Mutex<Checkpoints>,
    next_checkpoint: Mutex<Option<Monotonic>>,
    /// The compaction that is under way.
    compaction: Mutex<Option<Box<Round>>>,
}

impl Store {
    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.inner.shared.directory
    }

    /// The disk it is on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.inner.shared.disk
    }

    /// Its settings.
    pub fn config(&self) -> &StoreConfig {
        &self.inner.config
    }

    /// Why the directory was given up, if it was.
    pub fn failure(&self) -> Option<&StoreFailure> {
        self.inner.shared.failure()
    }

    /// The log of this name.
    pub fn log(&self, name: &TopicPartition) -> Option<Log> {
        self.names().get(name).cloned()
    }

    /// All logs, sorted by name.
    pub fn logs(&self) -> Vec<Log> {
        self.names().values().cloned().collect()
    }

    fn names(&self) -> RwLockReadGuard<'_, BTreeMap<TopicPartition, Log>> {
        self.inner.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the small files say. A panic between writing one and noting that leaves nobody who knows.
    fn checkpoints(&self) -> MutexGuard<'_, Checkpoints> {
        self.inner.checkpoints.lock().unwrap_or_else(|poisoned| {
            self.shared().fail_for_panic();
            poisoned.into_inner()
        })
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }
}

impl Drop for StoreInner {
    /// A store that is dropped without being closed leaves what a kill leaves. The logs' handles point to what they share, and that
    /// points back, so the circle is opened here.
    fn drop(&mut self) {
        for log in self.shared.all_logs() {
            log.close(crate::log::Closed::StoreClosed);
        }
        // Before the lock on the directory goes.
        self.shared.drive().finish();
        // Logs' handles may live on.
        drop(lock(&self.shared.directory_lock).take());
        self.shared.logs.write().unwrap_or_else(PoisonError::into_inner).clear();
        lock(&self.shared.ready).clear();
    }
}
