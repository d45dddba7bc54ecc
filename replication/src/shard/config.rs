//! The settings of a shard.

use std::time::Duration;

use highwater_engine::batch::BatchLimits;
use highwater_engine::log::LogConfig;
use highwater_engine::units::NodeId;

use crate::partition::PartitionConfig;

/// The settings of a shard.
#[derive(Clone, Debug)]
pub struct ShardConfig {
    /// This node.
    pub node: NodeId,
    /// The cluster that the data directory belongs to (`meta.properties`); `None` if it is new.
    pub cluster_id: Option<String>,
    /// The last session that the data directory names, if the host writes it down.
    pub last_session: Option<crate::ids::BrokerEpoch>,
    /// The id of the data directory (`meta.properties`).
    pub directory_id: Option<String>,
    /// Where clients and followers reach it.
    pub host: String,
    /// The port beside `host`.
    pub port: u16,
    /// The process, to be shown.
    pub process: Option<u32>,
    /// For logs whose topic does not say otherwise.
    pub log: LogConfig,
    /// For each replica's machine.
    pub partition: PartitionConfig,
    /// What is asked of producers' batches (`message.max.bytes`, `validate.compressed`, ...).
    pub batch: BatchLimits,
    /// Bytes of one partition in a follower's Fetch (`replica.fetch.max.bytes`).
    pub fetch_partition_bytes_max: i32,
    /// Bytes of a follower's whole Fetch (`replica.fetch.response.max.bytes`).
    pub fetch_bytes_max: i32,
    /// How long a leader may hold a follower's Fetch back (`replica.fetch.wait.max.ms`).
    pub fetch_wait_max: Duration,
    /// Bytes that one Fetch of anybody is given at most (`fetch.max.bytes`).
    pub response_bytes_max: usize,
    /// Bytes that one turn gives to replicas that are out of sync.
    pub catch_up_bytes_per_turn: usize,
    /// How often the high watermarks are written down (`replica.high.watermark.checkpoint.interval.ms`).
    pub high_watermark_interval: Duration,
    /// How often old segments are looked for (`log.retention.check.interval.ms`).
    pub retention_interval: Duration,
    /// How often a compacted log is looked for that is due (`log.cleaner.backoff.ms`).
    pub compaction_interval: Duration,
    /// What compaction reads and writes in a second at most, in bytes (`log.cleaner.io.max.bytes.per.second`); `None` for no bound.
    pub compaction_bytes_per_second: Option<u64>,
    /// How long a call to the controller or a Fetch may take before it is given up.
    pub peer_timeout: Duration,
}

impl ShardConfig {
    /// A node with the settings that a broker has by itself; nobody reaches it over a network yet.
    pub fn new(node: NodeId) -> Self {
        Self {
            node,
            cluster_id: None,
            last_session: None,
            directory_id: None,
            host: "127.0.0.1".to_owned(),
            port: 0,
            process: None,
            log: LogConfig::default(),
            partition: PartitionConfig::default(),
            batch: BatchLimits::default(),
            fetch_partition_bytes_max: 1 << 20,
            fetch_bytes_max: 10 << 20,
            fetch_wait_max: Duration::from_millis(500),
            response_bytes_max: 55 << 20,
            catch_up_bytes_per_turn: 4 << 20,
            high_watermark_interval: Duration::from_secs(5),
            retention_interval: Duration::from_secs(300),
            compaction_interval: Duration::from_secs(15),
            compaction_bytes_per_second: None,
            peer_timeout: Duration::from_secs(5),
        }
    }
}
