//! What every measurement stands on: directories, stores, batches, rates.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use highwater_engine::batch::{BatchBuilder, BatchLimits, Compression, ProducedBatch};
use highwater_engine::disk::{IoMode, Patience, SyncThread, Wait, open_disk};
use highwater_engine::log::{Appended, Log, LogConfig, Permit};
use highwater_engine::store::{Store, StoreConfig};
use highwater_engine::units::{LeaderEpoch, Monotonic, Now, TopicPartition};

use crate::clock;
use crate::error::{BenchError, Result};

pub(super) const MIB: usize = 1 << 20;

/// Where a run takes place.
#[derive(Debug)]
pub(super) struct Ground {
    directory: PathBuf,
    pub(super) rounds: u32,
    next: AtomicU32,
    begun: Instant,
}

impl Ground {
    pub(super) fn new(directory: &Path, rounds: u32) -> Self {
        Self { directory: directory.to_owned(), rounds, next: AtomicU32::new(0), begun: clock::now() }
    }

    /// A directory of its own, removed when it is dropped, so that a measurement leaves no dirty pages to the next one.
    pub(super) fn room(&self) -> Result<Room> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(number.to_string());
        fs::create_dir(&path).map_err(BenchError::io(path.display().to_string()))?;
        Ok(Room { path })
    }

    pub(super) fn now(&self) -> Now {
        Now {
            monotonic: Monotonic::from_duration(clock::now().duration_since(self.begun)),
            wall: clock::timestamp(),
        }
    }

    /// A store in a directory, new or opened again.
    pub(super) fn store(&self, directory: &Path) -> Result<Store> {
        self.store_with(directory, StoreConfig::default())
    }

    /// As [`Ground::store`], with other settings.
    pub(super) fn store_with(&self, directory: &Path, config: StoreConfig) -> Result<Store> {
        let disk = open_disk(IoMode::Auto, SyncThread::WhenNeeded).map_err(BenchError::engine)?.disk;
        let opened = Store::open(disk, directory, config, self.now());
        Ok(opened.map_err(BenchError::engine)?.store)
    }

    /// A new log.
    pub(super) fn log(&self, store: &Store, number: i32) -> Result<Log> {
        let name = TopicPartition::new("bench", number).map_err(BenchError::engine)?;
        store.create_log(&name, None, LogConfig::default(), self.now()).map_err(BenchError::engine)
    }
}

/// Checks and appends as a leader does.
pub(super) fn append(log: &Log, batch: Bytes, now: Now) -> Result<Appended> {
    let batch = ProducedBatch::check(batch, &BatchLimits::default(), now.wall).map_err(BenchError::engine)?;
    log.append(Permit::new(LeaderEpoch::ZERO), batch, now).map_err(BenchError::engine)
}

/// See [`Ground::room`].
#[derive(Debug)]
pub(super) struct Room {
    path: PathBuf,
}

impl Room {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A new file in it.
    pub(super) fn file(&self) -> Result<File> {
        let path = self.path.join("limit");
        File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(BenchError::io(path.display().to_string()))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("{}: {error}", self.path.display());
        }
    }
}

/// One batch of so many records of so many bytes that cannot be compressed; its memory is its own, as a frame's from a socket is.
pub(super) fn batch(records: usize, record_bytes: usize) -> Result<Bytes> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut builder = BatchBuilder::new(Compression::None);
    for _ in 0..records {
        let value: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(record_bytes).collect();
        builder.push(Some(clock::timestamp()), None, Some(&value), &[])?;
    }
    Ok(builder.finish()?)
}

/// So many copies of a batch, each in memory of its own.
pub(super) fn copies(batch: &Bytes, count: usize) -> Vec<Bytes> {
    (0..count).map(|_| Bytes::from(batch.to_vec())).collect()
}

/// Writes what was accepted.
pub(super) fn write(store: &Store) {
    store.turn(Wait::Not, Patience::MayBlock);
}

/// Calls, and says how long it took.
pub(super) fn timed<T>(call: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let begun = clock::now();
    let done = call()?;
    Ok((done, clock::now().duration_since(begun)))
}

/// How many a second.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(super) fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// Bytes a second, in MB of 1,048,576 bytes.
pub(super) fn mb_rate(bytes: usize, took: Duration) -> f64 {
    rate(bytes, took) / 1_048_576.0
}
