//! The settings of one data directory. Every queue and cache has its bound here.

use std::time::Duration;

use crate::disk::Disk;
use crate::log::LogConfig;
use crate::rules::Rules;

/// The settings of one data directory. Settings will be added: take the default, and set fields.
///
/// ```
/// let mut config = highwater_engine::store::StoreConfig::default();
/// config.opening_threads = 3;
/// config.log.segment_bytes_max = 64 << 20;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreConfig {
    /// For logs that are found at opening, until their owner sets others.
    pub log: LogConfig,
    /// Bytes of one log that may wait to be written; behind it appends are refused.
    pub pending_bytes_max: usize,
    /// Bytes of recently written batches that are kept for readers, of all logs together, charged by allocation.
    pub tail_bytes_max: usize,
    /// Files of segments that may be open at once; the others are opened when somebody appends or reads. Those with bytes that are not
    /// synced are synced before they are closed. `None`: three quarters of what the process may have open when the directory is opened.
    pub open_files_max: Option<usize>,
    /// Segments that grow no more whose indexes may be mapped at once, two maps each; the others are mapped when somebody reads.
    pub mapped_indexes_max: usize,
    /// How long a log may be dirty before it is synced in the background.
    pub dirty_age_max: Duration,
    /// How often the recovery points and log starts are written down.
    pub checkpoint_interval: Duration,
    /// Bytes that a file in the directory keeps in reserve, so that checkpoints, deletion and a clean stop go through when the device is full;
    /// `None` for none. For embedders with many small directories on one device less may be enough: it takes a few blocks for each log.
    pub reserve_bytes: Option<u64>,
    /// Bytes that the map of keys of a compaction may take (`log.cleaner.dedupe.buffer.size`); one is under way at a time. A round goes as far
    /// as its map does.
    pub key_map_bytes_max: usize,
    /// How long an idempotent producer is remembered (`producer.id.expiration.ms`).
    pub producer_age_max: Duration,
    /// Bytes that the largest batch may have: a larger one is refused, and on disk a greater length field is damage.
    pub batch_bytes_max: usize,
    /// Threads beside the caller's that open logs, or read ahead for one that is long, and end with the opening. 0: none.
    pub opening_threads: usize,
    /// Seeds what is chosen at random (jitter of rolls).
    pub seed: u64,
    /// All, except in tests of the tests.
    pub rules: Rules,
}

impl StoreConfig {
    /// How many files of segments may be open. What is left is for small files, for jobs, and for the rest of the process.
    pub(super) fn open_files_max_on(&self, disk: &dyn Disk) -> usize {
        const WITHOUT_LIMIT: usize = 4096;
        let of_the_process = || disk.open_files_max().map_or(WITHOUT_LIMIT, |limit| limit / 4 * 3);
        self.open_files_max.unwrap_or_else(of_the_process).max(1)
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            log: LogConfig::default(),
            pending_bytes_max: 64 << 20,
            tail_bytes_max: 64 << 20,
            open_files_max: None,
            mapped_indexes_max: 2048,
            dirty_age_max: Duration::from_secs(30),
            checkpoint_interval: Duration::from_secs(60),
            reserve_bytes: Some(16 << 20),
            key_map_bytes_max: 128 << 20,
            producer_age_max: Duration::from_secs(24 * 60 * 60),
            batch_bytes_max: 128 << 20,
            opening_threads: 0,
            seed: 0,
            rules: Rules::default(),
        }
    }
}
