//! What all logs of a data directory share: the disk, the driver's lists, and whether the directory has failed.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError, TryLockError};

use super::buffers::Buffers;
use super::driver::Driver;
use super::inner::Inner;
use super::news::News;
use super::progress::Progress;
use super::reserve::Reserve;
use super::trouble::PutOff;
use super::{LogId, StoreFailure};
use crate::disk::{DirectoryLock, Disk, Queue};
use crate::rules::Rules;
use crate::segment::OpenFiles;
use crate::state::ProducersConfig;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::{Mutex, MutexGuard, RwLock};
use crate::units::{Monotonic, Offset};

/// Buffers of small batches that are kept beyond what the tail holds: they are never quite full, and one is being filled.
const SPARE_BYTES: usize = 4 << 20;

/// The bounds that hold for every log of a directory.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) batch_bytes_max: usize,
    pub(crate) pending_bytes_max: usize,
    pub(crate) tail_bytes_max: usize,
    pub(crate) open_files_max: usize,
    pub(crate) mapped_indexes_max: usize,
    pub(crate) reserve_bytes: Option<u64>,
    pub(crate) producers: ProducersConfig,
    pub(crate) rules: Rules,
}

/// Segments whose indexes of aborted transactions may not be right, each to be looked through by a job, and whether one is.
#[derive(Debug, Default)]
struct UnsureAborted {
    segments: BTreeSet<(LogId, Offset)>,
    is_under_way: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) directory: PathBuf,
    pub(crate) limits: Limits,
    pub(crate) files: Arc<OpenFiles>,
    pub(crate) logs: RwLock<Vec<Option<Arc<Inner>>>>,
    pub(crate) driver: Mutex<Driver>,
    /// Logs that have something for the driver; each at most once.
    pub(crate) ready: Mutex<Vec<Arc<Inner>>>,
    pub(crate) news: Mutex<News>,
    /// Logs with segments to seal.
    pub(crate) sealing: Mutex<Vec<LogId>>,
    /// Logs with something that waits for room.
    pub(crate) put_off: Mutex<PutOff>,
    pub(crate) reserve: Reserve,
    /// Segments in which something did not fit; each is to be examined.
    pub(crate) suspect: Mutex<Vec<(LogId, Offset)>>,
    unsure_aborted: Mutex<UnsureAborted>,
    /// Logs with bytes that are not durable, and since when; each at most once.
    pub(crate) dirty: Mutex<VecDeque<(Monotonic, LogId)>>,
    pub(crate) progress: Progress,
    /// For syncs of several logs at once that the driver has no part in; made when it is first needed.
    pub(crate) group_queue: Mutex<Option<Box<dyn Queue>>>,
    /// For the queues of small batches.
    pub(crate) buffers: Mutex<Buffers>,
    pub(crate) random: Mutex<fastrand::Rng>,
    /// `None` once the store is closed.
    pub(crate) directory_lock: Mutex<Option<Box<dyn DirectoryLock>>>,
    /// Whether anything that checkpoints say has changed since they were last due.
    pub(crate) has_moved: AtomicBool,
    waiters: AtomicU64,
    failed: AtomicBool,
    failure: OnceLock<StoreFailure>,
}

impl Shared {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        directory: &Path,
        directory_lock: Box<dyn DirectoryLock>,
        limits: Limits,
        seed: u64,
    ) -> std::io::Result<Arc<Self>> {
        let tail_bytes_max = limits.tail_bytes_max;
        let driver = Driver::new(disk.queue()?, tail_bytes_max);
        Ok(Arc::new(Self {
            disk,
            directory: directory.to_owned(),
            files: Arc::new(OpenFiles::new(limits.open_files_max, limits.mapped_indexes_max)),
            reserve: Reserve::new(directory, limits.reserve_bytes),
            limits,
            logs: RwLock::default(),
            driver: Mutex::new(driver),
            ready: Mutex::default(),
            news: Mutex::default(),
            sealing: Mutex::default(),
            put_off: Mutex::default(),
            suspect: Mutex::default(),
            unsure_aborted: Mutex::default(),
            dirty: Mutex::default(),
            progress: Progress::default(),
            group_queue: Mutex::default(),
            buffers: Mutex::new(Buffers::new(tail_bytes_max + SPARE_BYTES)),
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
            directory_lock: Mutex::new(Some(directory_lock)),
            has_moved: AtomicBool::new(false),
            waiters: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            failure: OnceLock::new(),
        }))
    }

    /// A segment that grows no more has an index of aborted transactions that may not be right.
    pub(crate) fn unsure_aborted(&self, log: LogId, segment: Offset) {
        lock(&self.unsure_aborted).segments.insert((log, segment));
    }

    /// One of these segments, for a job. The next one is given when it is done: there may be many, and others are not to wait for all of them.
    pub(crate) fn take_unsure_aborted(&self) -> Option<(LogId, Offset)> {
        let mut unsure = lock(&self.unsure_aborted);
        if unsure.is_under_way {
            return None;
        }
        let next = unsure.segments.pop_first();
        unsure.is_under_way = next.is_some();
        next
    }

    /// The job is done.
    pub(crate) fn end_unsure_aborted(&self) {
        lock(&self.unsure_aborted).is_under_way = false;
    }

    /// A key for a task that waits.
    pub(crate) fn next_waiter(&self) -> u64 {
        self.waiters.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether the directory was given up.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(crate) fn failure(&self) -> Option<&StoreFailure> {
        self.failure.get()
    }

    /// Gives the directory up, for good. The first reason stays.
    ///
    /// The proof that this boot's page cache has all that was written is withdrawn, so that the next process takes what is not durable for
    /// possibly lost. The page cache alone has to take that, and not the disk that fails; a note that did not get there is not missed
    /// either, because what is not durable is written again at every opening without a mark.
    pub(crate) fn fail(&self, path: &Path, what: &'static str, error: &std::io::Error) {
        let failure = StoreFailure { path: path.to_owned(), what, error: error.to_string() };
        if self.failure.set(failure).is_err() {
            return;
        }
        self.failed.store(true, Ordering::Release);
        if let Some(directory_lock) = &*lock(&self.directory_lock) {
            drop(directory_lock.write(b""));
        }
        let logs: Vec<_> = self.all_logs();
        for log in &logs {
            log.wake_all_tasks();
        }
        lock(&self.news).failed.extend(logs.iter().map(|log| log.id));
        self.wake_sleepers();
    }

    pub(crate) fn log(&self, id: LogId) -> Option<Arc<Inner>> {
        let logs = self.logs.read().unwrap_or_else(PoisonError::into_inner);
        logs.get(usize::try_from(id.0).ok()?)?.clone()
    }

    pub(crate) fn all_logs(&self) -> Vec<Arc<Inner>> {
        let logs = self.logs.read().unwrap_or_else(PoisonError::into_inner);
        logs.iter().flatten().cloned().collect()
    }
}

/// A lock. Where a panic may have left what it guards half changed, the log or the directory is offline by now; see [`super::watch`].
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same for one who does not wait; `None` if somebody has it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(left)) => Some(left.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
