//! Settings, as the parts below ask for them. Decides no value: those are the settings' own.

use std::collections::BTreeMap;
use std::time::Duration;

use highwater_engine::batch::{BatchLimits, TimestampRule, ValidateCompressed as EngineCompressed};
use highwater_engine::disk::IoMode;
use highwater_engine::log::{Cleanup, LogConfig, TimestampSource};
use highwater_engine::store::StoreConfig;
use highwater_engine::units::{Monotonic, NodeId};
use highwater_replication::controller::{ControllerConfig, DURABILITY, MIN_ISR, TRUNCATION};
use highwater_replication::ids::BrokerEpoch;
use highwater_replication::partition::PartitionConfig;
use highwater_replication::shard::ShardConfig;

use super::groups::Groups;
use super::sockets::SocketLimits;
use crate::groups::GroupConfig;
use crate::settings::{
    self, AnySetting, DiskIo, HostPort, Integer, Setting, Settings, TimestampType, ValidateCompressed,
};

/// A client that owes reading and does not read for so long is closed.
const STALL_MAX: Duration = Duration::from_secs(30);
/// A Fetch or a call that is not answered for so long is given up (Kafka's `replica.socket.timeout.ms`).
const PEER_TIMEOUT: Duration = Duration::from_secs(30);
/// What one turn gives to replicas that are out of sync, so that those in sync do not wait for them.
const CATCH_UP_BYTES_PER_TURN: usize = 8 << 20;

/// A number that fits where it goes; the settings' own bounds see to that, and what does not is cut to what fits.
fn narrow<T: TryFrom<i64>>(settings: &Settings, setting: &Setting<Integer>, otherwise: T) -> T {
    T::try_from(settings.value(setting)).unwrap_or(otherwise)
}

/// `None` for -1, which is no bound.
fn bound(settings: &Settings, setting: &Setting<Integer>) -> Option<u64> {
    u64::try_from(settings.value(setting)).ok()
}

/// How operations reach the disk.
pub(super) fn io_mode(settings: &Settings) -> IoMode {
    match settings.value(&settings::DISK_IO) {
        DiskIo::Auto => IoMode::Auto,
        DiskIo::Uring => IoMode::Uring,
        DiskIo::Posix => IoMode::Posix,
    }
}

pub(super) fn log_config(settings: &Settings) -> LogConfig {
    let mut config = LogConfig::default();
    config.segment_bytes_max = narrow(settings, &settings::SEGMENT_BYTES, u32::MAX);
    config.segment_age_max = settings.duration_ms(&settings::SEGMENT_MS);
    config.segment_jitter_max = settings.duration_ms(&settings::SEGMENT_JITTER_MS);
    config.index_interval_bytes = narrow(settings, &settings::INDEX_INTERVAL_BYTES, u32::MAX);
    config.index_bytes_max = narrow(settings, &settings::SEGMENT_INDEX_BYTES, u32::MAX);
    config.retention_bytes = bound(settings, &settings::RETENTION_BYTES);
    config.retention_age = bound(settings, &settings::RETENTION_MS).map(Duration::from_millis);
    config.cleanup = match settings.value(&settings::CLEANUP_POLICY) {
        settings::CleanupPolicy::Delete => Cleanup::Delete,
        settings::CleanupPolicy::Compact => Cleanup::Compact,
        settings::CleanupPolicy::CompactAndDelete => Cleanup::CompactAndDelete,
    };
    config.dirty_ppm_min =
        u32::try_from(whole(settings.value(&settings::MIN_CLEANABLE_RATIO) * 1e6)).unwrap_or(u32::MAX);
    config.compaction_lag_min = settings.duration_ms(&settings::MIN_COMPACTION_LAG_MS);
    config.compaction_lag_max = Some(settings.duration_ms(&settings::MAX_COMPACTION_LAG_MS))
        .filter(|lag| lag.as_millis() < i64::MAX.unsigned_abs().into());
    config.delete_retention = settings.duration_ms(&settings::DELETE_RETENTION_MS);
    config.timestamps = match settings.value(&settings::MESSAGE_TIMESTAMP_TYPE) {
        TimestampType::CreateTime => TimestampSource::Create,
        TimestampType::LogAppendTime => TimestampSource::Append,
    };
    config
}

/// The nearest whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is cut to what there is")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

pub(super) fn store_config(settings: &Settings, seed: u64) -> StoreConfig {
    let mut config = StoreConfig::default();
    config.log = log_config(settings);
    config.batch_bytes_max = usize::try_from(settings::BATCH_BYTES_MAX).unwrap_or(usize::MAX);
    config.dirty_age_max = settings.duration_ms(&settings::FLUSH_MS);
    config.checkpoint_interval = settings.duration_ms(&settings::FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS);
    config.key_map_bytes_max = settings.count(&settings::CLEANER_DEDUPE_BUFFER_SIZE);
    config.producer_age_max = settings.duration_ms(&settings::PRODUCER_ID_EXPIRATION_MS);
    // One of them is the broker's own.
    config.opening_threads = settings.count(&settings::RECOVERY_THREADS).saturating_sub(1);
    config.seed = seed;
    config
}

fn batch_limits(settings: &Settings) -> BatchLimits {
    let mut limits = BatchLimits::default();
    limits.batch_bytes_max = settings.count(&settings::MESSAGE_MAX_BYTES);
    // Whose time it is, a log's settings say.
    limits.timestamps = TimestampRule::CreateTime {
        before_ms_max: settings.value(&settings::MESSAGE_TIMESTAMP_BEFORE_MAX_MS),
        after_ms_max: settings.value(&settings::MESSAGE_TIMESTAMP_AFTER_MAX_MS),
    };
    limits.compressed = match settings.value(&settings::VALIDATE_COMPRESSED) {
        ValidateCompressed::Full => EngineCompressed::Full,
        ValidateCompressed::Header => EngineCompressed::Header,
    };
    limits
}

/// Who a shard is.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) node: NodeId,
    pub(super) cluster_id: Option<String>,
    pub(super) last_session: Option<BrokerEpoch>,
    pub(super) directory_id: String,
    pub(super) advertised: HostPort,
}

pub(super) fn shard_config(settings: &Settings, identity: Identity) -> ShardConfig {
    ShardConfig {
        node: identity.node,
        cluster_id: identity.cluster_id,
        last_session: identity.last_session,
        directory_id: Some(identity.directory_id),
        host: identity.advertised.host,
        port: identity.advertised.port,
        process: Some(std::process::id()),
        log: log_config(settings),
        partition: PartitionConfig {
            lag_max: settings.duration_ms(&settings::REPLICA_LAG_TIME_MAX_MS),
            fetch_backoff_max: settings.duration_ms(&settings::REPLICA_FETCH_BACKOFF_MS),
            ..PartitionConfig::default()
        },
        batch: batch_limits(settings),
        fetch_partition_bytes_max: narrow(settings, &settings::REPLICA_FETCH_MAX_BYTES, i32::MAX),
        fetch_bytes_max: narrow(settings, &settings::REPLICA_FETCH_RESPONSE_MAX_BYTES, i32::MAX),
        fetch_wait_max: settings.duration_ms(&settings::REPLICA_FETCH_WAIT_MAX_MS),
        response_bytes_max: settings.count(&settings::FETCH_MAX_BYTES),
        catch_up_bytes_per_turn: CATCH_UP_BYTES_PER_TURN,
        high_watermark_interval: settings.duration_ms(&settings::HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS),
        retention_interval: settings.duration_ms(&settings::RETENTION_CHECK_INTERVAL_MS),
        compaction_interval: settings.duration_ms(&settings::CLEANER_BACKOFF_MS),
        compaction_bytes_per_second: Some(whole(settings.value(&settings::CLEANER_IO_MAX_BYTES_PER_SECOND)))
            .filter(|rate| *rate < u64::MAX),
        peer_timeout: PEER_TIMEOUT,
    }
}

/// The coordinator of groups, which leads nothing yet.
pub(super) fn groups<T: Copy>(settings: &Settings, node: NodeId, seed: u64, now: Monotonic) -> Groups<T> {
    let minutes = u64::try_from(settings.value(&settings::OFFSETS_RETENTION_MINUTES)).unwrap_or(u64::MAX);
    let config = GroupConfig {
        session_min: settings.duration_ms(&settings::GROUP_MIN_SESSION_TIMEOUT_MS),
        session_max: settings.duration_ms(&settings::GROUP_MAX_SESSION_TIMEOUT_MS),
        initial_delay: settings.duration_ms(&settings::GROUP_INITIAL_REBALANCE_DELAY_MS),
        members_max: settings.count(&settings::GROUP_MAX_SIZE),
        metadata_bytes_max: settings.count(&settings::OFFSET_METADATA_MAX_BYTES),
        retention: Duration::from_secs(minutes.saturating_mul(60)),
        retention_check: settings.duration_ms(&settings::OFFSETS_RETENTION_CHECK_INTERVAL_MS),
    };
    let write_wait_ms = narrow(settings, &settings::OFFSETS_COMMIT_TIMEOUT_MS, i32::MAX);
    Groups::new(node, config, write_wait_ms, seed, now)
}

pub(super) fn socket_limits(settings: &Settings) -> SocketLimits {
    SocketLimits {
        accepted_max: settings.count(&settings::MAX_CONNECTIONS),
        accepted_per_address_max: settings.count(&settings::MAX_CONNECTIONS_PER_IP),
        requests_max: settings.count(&settings::QUEUED_MAX_REQUESTS),
        frame_bytes_max: settings.count(&settings::SOCKET_REQUEST_MAX_BYTES),
        idle_max: settings.duration_ms(&settings::CONNECTIONS_MAX_IDLE_MS),
        stall_max: STALL_MAX,
    }
}

/// The controller's settings; `brokers` is how many are configured, if somebody said so.
pub(super) fn controller_config(settings: &Settings, brokers: Option<usize>) -> ControllerConfig {
    let seconds = settings.value(&settings::LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS);
    ControllerConfig {
        session_timeout: settings.duration_ms(&settings::BROKER_SESSION_TIMEOUT_MS),
        imbalance_check_interval: Duration::from_secs(u64::try_from(seconds).unwrap_or(u64::MAX)),
        brokers_configured: brokers,
        partitions_default: narrow(settings, &settings::NUM_PARTITIONS, 1),
        replication_factor_default: narrow(settings, &settings::DEFAULT_REPLICATION_FACTOR, u16::MAX),
        topic_defaults: topic_defaults(settings),
        ..ControllerConfig::default()
    }
}

/// What topics have that say nothing else, of the settings that replicas have to agree on.
pub(crate) fn topic_defaults(settings: &Settings) -> BTreeMap<String, String> {
    let text = |setting: &dyn AnySetting| settings.text(setting).to_owned();
    BTreeMap::from([
        (MIN_ISR.to_owned(), text(&settings::MIN_INSYNC_REPLICAS)),
        (DURABILITY.to_owned(), text(&settings::DURABILITY)),
        (TRUNCATION.to_owned(), text(&settings::TRUNCATION)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bound_is_none_and_what_was_set_arrives() {
        let settings = Settings::from_pairs([
            "log.retention.ms=-1",
            "log.segment.bytes=2097152",
            "min.insync.replicas=1",
            "disk.io=posix",
        ])
        .unwrap();
        let log = log_config(&settings);
        assert_eq!((log.retention_age, log.retention_bytes), (None, None));
        assert_eq!(log.segment_bytes_max, 2 << 20);
        assert_eq!(io_mode(&settings), IoMode::Posix);
        let controller = controller_config(&settings, Some(3));
        assert_eq!(controller.topic_defaults.get(MIN_ISR).map(String::as_str), Some("1"));
        assert_eq!(controller.brokers_configured, Some(3));
    }
}
