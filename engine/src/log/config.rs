//! The settings of one log.

use std::time::Duration;

/// The settings of one log; the defaults are Kafka's. Settings will be added: take the default, and set fields, as for
/// [`crate::store::StoreConfig`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LogConfig {
    /// Size in bytes that no segment exceeds (`segment.bytes`); also the bound of one append.
    pub segment_bytes_max: u32,
    /// Age, by the timestamps of records, at which a segment is closed (`segment.ms`).
    pub segment_age_max: Duration,
    /// Up to so much earlier, chosen at random for each segment (`segment.jitter.ms`).
    pub segment_jitter_max: Duration,
    /// Bytes between two index entries (`index.interval.bytes`).
    pub index_interval_bytes: u32,
    /// Size in bytes that an index does not exceed (`segment.index.bytes`).
    pub index_bytes_max: u32,
    /// Bytes that are kept at least (`retention.bytes`); `None` for no bound.
    pub retention_bytes: Option<u64>,
    /// Time that records are kept at least (`retention.ms`); `None` for no bound.
    pub retention_age: Option<Duration>,
    /// What happens to old segments (`cleanup.policy`).
    pub cleanup: Cleanup,
    /// A compacted log is cleaned when more than this part of its bytes is not (`min.cleanable.dirty.ratio`), in millionths.
    pub dirty_ppm_min: u32,
    /// Time that a record stays in a compacted log, whatever its key (`min.compaction.lag.ms`).
    pub compaction_lag_min: Duration,
    /// Time behind which a record is due to be compacted, however little is dirty (`max.compaction.lag.ms`); `None` for never.
    pub compaction_lag_max: Option<Duration>,
    /// Time that a tombstone, and a marker without a transaction, stay behind the first round that meets them (`delete.retention.ms`).
    pub delete_retention: Duration,
    /// Whose time a record carries (`message.timestamp.type`).
    pub timestamps: TimestampSource,
}

impl Default for LogConfig {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            segment_bytes_max: 1 << 30,
            segment_age_max: DAY.saturating_mul(7),
            segment_jitter_max: Duration::ZERO,
            index_interval_bytes: 4096,
            index_bytes_max: 10 << 20,
            retention_bytes: None,
            retention_age: Some(DAY.saturating_mul(7)),
            cleanup: Cleanup::Delete,
            dirty_ppm_min: 500_000,
            compaction_lag_min: Duration::ZERO,
            compaction_lag_max: None,
            delete_retention: DAY,
            timestamps: TimestampSource::Create,
        }
    }
}

/// What happens to old segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cleanup {
    /// They are deleted by size and age.
    Delete,
    /// The newest record of each key is kept; only what lies below the log's start is deleted.
    Compact,
    /// Both.
    CompactAndDelete,
}

/// Whose time a record carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimestampSource {
    /// The producer's.
    Create,
    /// The leader's, at the append.
    Append,
}
