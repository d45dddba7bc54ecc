//! Every setting there is: its names, meaning, unit, default and what it allows. The only list; the rest reads it.

use super::Setting;
use super::kind::{Choice, Decimal, Flag, Integer, Listener};

/// When a record counts for a replica (`durability`); chosen when a topic is made, and fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When the operating system has it: it survives `kill -9`.
    Written,
    /// When it is synced: it survives power loss.
    Fsync,
}

/// How a follower finds what to cut from its log (`truncation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncation {
    /// By comparing epochs with the leader.
    LeaderEpoch,
    /// Down to the high watermark it knows: simple, and loses or forks data in two cases.
    HighWatermark,
}

/// How a leader looks into compressed batches (`validate.compressed`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidateCompressed {
    /// Walks every record.
    Full,
    /// Believes the header.
    Header,
}

/// How operations reach the disk (`disk.io`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskIo {
    /// Writes that are not large, and what stands alone, inline; the rest through the ring, where there is one.
    Auto,
    /// Everything through `io_uring`.
    Uring,
    /// Calls of the thread alone.
    Posix,
}

/// Whose clock stamps records (`message.timestamp.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer's.
    CreateTime,
    /// The leader's, at the append.
    LogAppendTime,
}

/// What happens to old segments (`cleanup.policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanupPolicy {
    /// They are deleted by age and size.
    Delete,
    /// The newest record of each key stays.
    Compact,
    /// Both.
    CompactAndDelete,
}

/// Who may compress (`compression.type`). Batches are never encoded again, so it is always the producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionType {
    /// The producer chooses.
    Producer,
}

const fn from(min: i64) -> Integer {
    Integer { min, max: i64::MAX }
}

const fn within(min: i64, max: i64) -> Integer {
    Integer { min, max }
}

/// The largest 32-bit number, which is where Kafka's `int` settings end.
const INT_MAX: i64 = i32::MAX as i64;
/// The largest batch that any topic may let in: a log takes no larger one, nor reads one.
pub const BATCH_BYTES_MAX: i64 = 128 << 20;

macro_rules! settings {
    ($($(#[$doc:meta])* $constant:ident: $kind:ty = $name:literal $(topic $topic:literal)?, $value:expr, $unit:literal, $default:literal, $meaning:literal;)*) => {
        $(
            #[doc = $meaning]
            pub const $constant: Setting<$kind> =
                Setting { name: $name, topic: settings!(@topic $($topic)?), kind: $value, unit: $unit, default: $default, meaning: $meaning };
        )*
        /// All settings, in the order in which people are shown them.
        pub static ALL: &[&dyn super::AnySetting] = &[$(&$constant),*];
    };
    (@topic) => { None };
    (@topic $topic:literal) => { Some($topic) };
}

settings! {
    LISTENERS: Listener = "listeners", Listener, "host:port", "",
        "Where this broker listens; nothing means 127.0.0.1 and its port";
    ADVERTISED_LISTENERS: Listener = "advertised.listeners", Listener, "host:port", "",
        "What clients and other brokers are told to connect to; nothing means where it listens";
    INSECURE: Flag = "insecure", Flag, "", "false",
        "Allow listeners that other machines can reach, though nobody has to say who he is";
    AUTO_CREATE_TOPICS: Flag = "auto.create.topics.enable", Flag, "", "true",
        "Make a topic when a client first asks for it";
    NUM_PARTITIONS: Integer = "num.partitions", within(1, 10_000), "partitions", "1",
        "Partitions of a topic that is made without saying how many";
    DEFAULT_REPLICATION_FACTOR: Integer = "default.replication.factor", within(1, 1_000), "replicas", "3",
        "Replicas of a topic that is made without saying how many; at most the configured brokers";
    MIN_INSYNC_REPLICAS: Integer = "min.insync.replicas" topic "min.insync.replicas",
        within(1, INT_MAX), "replicas", "2",
        "In-sync replicas without which acks=all is refused and the high watermark stands still; at most the replication factor";
    DURABILITY: Choice<Durability> = "durability" topic "durability",
        Choice(&[("written", Durability::Written), ("fsync", Durability::Fsync)]), "", "written",
        "When a record counts for a replica: written survives kill -9, fsync survives power loss; fixed when a topic is made";
    TRUNCATION: Choice<Truncation> = "truncation",
        Choice(&[("leader-epoch", Truncation::LeaderEpoch), ("high-watermark", Truncation::HighWatermark)]), "", "leader-epoch",
        "How a follower finds what to cut; high-watermark can lose and fork data, and is kept to show it";
    REPLICA_LAG_TIME_MAX_MS: Integer = "replica.lag.time.max.ms", within(1, INT_MAX), "ms", "10000",
        "A replica that has not caught up for so long leaves the ISR";
    BROKER_SESSION_TIMEOUT_MS: Integer = "broker.session.timeout.ms", within(100, INT_MAX), "ms", "9000",
        "A broker that has not been heard of for so long is fenced; 3000 for a cluster on one machine";
    BROKER_HEARTBEAT_INTERVAL_MS: Integer = "broker.heartbeat.interval.ms",
        within(10, INT_MAX), "ms", "500",
        "How often a broker tells the controller that it lives";
    LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS: Integer = "leader.imbalance.check.interval.seconds",
        within(1, INT_MAX), "s", "300",
        "How often preferred leaders get their partitions back";
    HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS: Integer = "replica.high.watermark.checkpoint.interval.ms",
        within(1, INT_MAX), "ms", "5000",
        "How often high watermarks are written down";
    REPLICA_FETCH_MAX_BYTES: Integer = "replica.fetch.max.bytes", within(1, INT_MAX), "bytes", "1048576",
        "What a follower asks for of one partition; a larger first batch comes whole";
    REPLICA_FETCH_RESPONSE_MAX_BYTES: Integer = "replica.fetch.response.max.bytes",
        within(1, INT_MAX), "bytes", "10485760",
        "What a follower asks for in one answer";
    REPLICA_FETCH_WAIT_MAX_MS: Integer = "replica.fetch.wait.max.ms", within(1, INT_MAX), "ms", "500",
        "How long a leader may hold a follower's fetch while there is nothing new";
    REPLICA_FETCH_MIN_BYTES: Integer = "replica.fetch.min.bytes", within(1, INT_MAX), "bytes", "1",
        "What has to be there before a follower's fetch is answered early";
    REPLICA_FETCH_BACKOFF_MS: Integer = "replica.fetch.backoff.ms", within(0, INT_MAX), "ms", "1000",
        "How long a follower leaves one partition alone after an error";
    SEGMENT_BYTES: Integer = "log.segment.bytes" topic "segment.bytes",
        within(1 << 20, INT_MAX), "bytes", "1073741824",
        "A log file is closed and a new one begun before it grows beyond this";
    SEGMENT_MS: Integer = "log.roll.ms" topic "segment.ms", from(1), "ms", "604800000",
        "A log file is closed when its records span more time than this";
    SEGMENT_JITTER_MS: Integer = "log.roll.jitter.ms" topic "segment.jitter.ms", from(0), "ms", "0",
        "Taken off segment.ms at random, so that logs do not roll together";
    SEGMENT_INDEX_BYTES: Integer = "log.index.size.max.bytes" topic "segment.index.bytes",
        within(4, INT_MAX), "bytes", "10485760",
        "The largest index of a log file; a new file is begun when it is full";
    INDEX_INTERVAL_BYTES: Integer = "log.index.interval.bytes" topic "index.interval.bytes",
        within(0, INT_MAX), "bytes", "4096",
        "Bytes of log between two entries of its index";
    MESSAGE_MAX_BYTES: Integer = "message.max.bytes" topic "max.message.bytes",
        within(0, BATCH_BYTES_MAX), "bytes", "1048588",
        "The largest batch that is accepted, as it comes";
    MESSAGE_TIMESTAMP_TYPE: Choice<TimestampType> = "log.message.timestamp.type" topic "message.timestamp.type",
        Choice(&[("CreateTime", TimestampType::CreateTime), ("LogAppendTime", TimestampType::LogAppendTime)]), "", "CreateTime",
        "Whose time records carry";
    MESSAGE_TIMESTAMP_BEFORE_MAX_MS: Integer = "log.message.timestamp.before.max.ms" topic "message.timestamp.before.max.ms",
        from(0), "ms", "9223372036854775807",
        "How far in the past a record's time may lie";
    MESSAGE_TIMESTAMP_AFTER_MAX_MS: Integer = "log.message.timestamp.after.max.ms" topic "message.timestamp.after.max.ms",
        from(0), "ms", "3600000",
        "How far in the future a record's time may lie";
    COMPRESSION_TYPE: Choice<CompressionType> = "compression.type" topic "compression.type",
        Choice(&[("producer", CompressionType::Producer)]), "", "producer",
        "Batches are kept as they were sent";
    VALIDATE_COMPRESSED: Choice<ValidateCompressed> = "validate.compressed",
        Choice(&[("full", ValidateCompressed::Full), ("header", ValidateCompressed::Header)]), "", "full",
        "Whether every record of a compressed batch is looked at before it is accepted";
    CLEANUP_POLICY: Choice<CleanupPolicy> = "log.cleanup.policy" topic "cleanup.policy",
        Choice(&[
            ("delete", CleanupPolicy::Delete),
            ("compact", CleanupPolicy::Compact),
            ("compact,delete", CleanupPolicy::CompactAndDelete),
            ("delete,compact", CleanupPolicy::CompactAndDelete),
        ]), "", "delete",
        "What happens to old log files: they are deleted, or the newest record of each key is kept";
    MIN_CLEANABLE_RATIO: Decimal = "log.cleaner.min.cleanable.ratio" topic "min.cleanable.dirty.ratio",
        Decimal { min: 0.0, max: 1.0 }, "", "0.5",
        "A compacted partition is cleaned when more than this part of its bytes is not";
    MIN_COMPACTION_LAG_MS: Integer = "log.cleaner.min.compaction.lag.ms" topic "min.compaction.lag.ms",
        from(0), "ms", "0",
        "How long a record stays in a compacted partition, whatever its key";
    MAX_COMPACTION_LAG_MS: Integer = "log.cleaner.max.compaction.lag.ms" topic "max.compaction.lag.ms",
        from(1), "ms", "9223372036854775807",
        "Behind it a record is compacted, however little there is to clean";
    DELETE_RETENTION_MS: Integer = "log.cleaner.delete.retention.ms" topic "delete.retention.ms",
        from(0), "ms", "86400000",
        "How long a tombstone stays behind the first cleaning that meets it";
    CLEANER_DEDUPE_BUFFER_SIZE: Integer = "log.cleaner.dedupe.buffer.size", from(1 << 20), "bytes", "134217728",
        "What the map of keys of a cleaning may take; one is under way at a time";
    CLEANER_IO_MAX_BYTES_PER_SECOND: Decimal = "log.cleaner.io.max.bytes.per.second",
        Decimal { min: 1.0, max: f64::MAX }, "bytes/s", "1.7976931348623157E308",
        "What cleaning reads and writes in a second at most";
    CLEANER_BACKOFF_MS: Integer = "log.cleaner.backoff.ms", from(1), "ms", "15000",
        "How often a partition is looked for that is to be cleaned";
    RETENTION_BYTES: Integer = "log.retention.bytes" topic "retention.bytes", from(-1), "bytes", "-1",
        "A partition larger than this loses its oldest log files; -1 for no limit";
    RETENTION_MS: Integer = "log.retention.ms" topic "retention.ms", from(-1), "ms", "604800000",
        "Log files whose newest record is older than this are deleted; -1 for never";
    RETENTION_CHECK_INTERVAL_MS: Integer = "log.retention.check.interval.ms", from(1), "ms", "300000",
        "How often old log files are looked for";
    FILE_DELETE_DELAY_MS: Integer = "log.segment.delete.delay.ms" topic "file.delete.delay.ms",
        from(0), "ms", "60000",
        "How long a deleted log file is kept for those who still read it";
    FLUSH_MS: Integer = "log.flush.interval.ms" topic "flush.ms", from(0), "ms", "30000",
        "A log that has been dirty for so long is synced in the background";
    FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS: Integer = "log.flush.offset.checkpoint.interval.ms",
        from(1), "ms", "60000",
        "How often recovery points are written down";
    PRODUCER_ID_EXPIRATION_MS: Integer = "producer.id.expiration.ms", within(1, INT_MAX), "ms", "86400000",
        "How long an idle idempotent producer is remembered";
    RECOVERY_THREADS: Integer = "num.recovery.threads.per.data.dir", within(1, 1_000), "threads", "2",
        "Threads that open the logs when the broker starts; they end with it";
    DISK_IO: Choice<DiskIo> = "disk.io",
        Choice(&[("auto", DiskIo::Auto), ("uring", DiskIo::Uring), ("posix", DiskIo::Posix)]), "", "auto",
        "How operations reach the disk";
    GROUP_MIN_SESSION_TIMEOUT_MS: Integer = "group.min.session.timeout.ms", within(1, INT_MAX), "ms", "6000",
        "The shortest session that a member of a group may ask for";
    GROUP_MAX_SESSION_TIMEOUT_MS: Integer = "group.max.session.timeout.ms", within(1, INT_MAX), "ms", "1800000",
        "The longest session that a member of a group may ask for";
    GROUP_INITIAL_REBALANCE_DELAY_MS: Integer = "group.initial.rebalance.delay.ms", within(0, INT_MAX), "ms", "3000",
        "How long the first member of a group waits for others";
    GROUP_MAX_SIZE: Integer = "group.max.size", within(1, INT_MAX), "members", "10000",
        "Members of one group; further ones are refused";
    OFFSET_METADATA_MAX_BYTES: Integer = "offset.metadata.max.bytes", within(0, INT_MAX), "bytes", "4096",
        "What a group may remember with an offset";
    OFFSETS_TOPIC_NUM_PARTITIONS: Integer = "offsets.topic.num.partitions", within(1, 10_000), "partitions", "50",
        "Partitions of the topic of groups and their offsets, when it is made";
    OFFSETS_TOPIC_SEGMENT_BYTES: Integer = "offsets.topic.segment.bytes", within(1 << 20, INT_MAX), "bytes", "104857600",
        "segment.bytes of the topic of groups, when it is made";
    OFFSETS_COMMIT_TIMEOUT_MS: Integer = "offsets.commit.timeout.ms", within(1, INT_MAX), "ms", "5000",
        "How long a commit of offsets waits for the in-sync replicas";
    OFFSETS_RETENTION_MINUTES: Integer = "offsets.retention.minutes", within(1, INT_MAX), "min", "10080",
        "How long offsets of a group without members are kept";
    OFFSETS_RETENTION_CHECK_INTERVAL_MS: Integer = "offsets.retention.check.interval.ms", within(1, INT_MAX), "ms", "600000",
        "How often such offsets are looked for";
    SOCKET_REQUEST_MAX_BYTES: Integer = "socket.request.max.bytes",
        within(1_024, INT_MAX), "bytes", "104857600",
        "A request larger than this costs its sender the connection";
    MAX_CONNECTIONS: Integer = "max.connections", within(1, INT_MAX), "connections", "4096",
        "Connections at a time; further ones are closed at once";
    MAX_CONNECTIONS_PER_IP: Integer = "max.connections.per.ip", within(1, INT_MAX), "connections", "2147483647",
        "Connections at a time from one address; further ones are closed at once";
    CONNECTIONS_MAX_IDLE_MS: Integer = "connections.max.idle.ms", from(1), "ms", "600000",
        "A connection that has been silent for so long is closed";
    QUEUED_MAX_REQUESTS: Integer = "queued.max.requests", within(1, INT_MAX), "requests", "500",
        "Requests of one connection that are under way; reading from it stops until one is answered";
    QUEUED_MAX_REQUEST_BYTES: Integer = "queued.max.request.bytes",
        within(1 << 20, i64::MAX), "bytes", "268435456",
        "Bytes of requests and answers that are under way on all connections; reading stops until some are done";
    FETCH_MAX_BYTES: Integer = "fetch.max.bytes", within(1_024, INT_MAX), "bytes", "57671680",
        "What one fetch may bring, whatever the client asks for";
}
