//! Why a leader does not take a batch, and which of Kafka's errors the producer is told.

use super::RecordDamage;
use crate::units::Timestamp;

/// The error of Kafka's protocol that a producer is told. Its number is chosen where messages are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// `CORRUPT_MESSAGE`: damaged on the way; the producer sends it again.
    CorruptMessage,
    /// `INVALID_RECORD`: it will not be better the next time.
    InvalidRecord,
    /// `INVALID_TIMESTAMP`.
    InvalidTimestamp,
    /// `MESSAGE_TOO_LARGE`.
    MessageTooLarge,
    /// `UNKNOWN_SERVER_ERROR`, where Kafka has no better one.
    UnknownServerError,
}

/// Why a leader refuses a batch. Nothing was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchRefusal {
    /// The bytes hold no whole batch.
    #[error("{have} bytes are no whole batch")]
    NoWholeBatch {
        /// How many bytes there are.
        have: usize,
    },
    /// The bytes hold more than one batch.
    #[error("more than one batch for one partition")]
    SeveralBatches,
    /// A length that no batch can have.
    #[error("the length field says {length}")]
    Length {
        /// The field's value.
        length: i32,
    },
    /// A message of the formats before magic 2.
    #[error("a message of the legacy format {magic}")]
    Legacy {
        /// 0 or 1.
        magic: i8,
    },
    /// No version of the format.
    #[error("magic {magic}")]
    Magic {
        /// The field's value.
        magic: i8,
    },
    /// A producer's batch begins at offset 0.
    #[error("a producer's batch has the base offset {base_offset}")]
    BaseOffset {
        /// The field's value.
        base_offset: i64,
    },
    /// Larger than `max.message.bytes`.
    #[error("the batch has {size_bytes} bytes, {batch_bytes_max} are allowed")]
    TooLarge {
        /// Its size.
        size_bytes: usize,
        /// The limit.
        batch_bytes_max: usize,
    },
    /// The CRC is another one.
    #[error("CRC {computed:08x} instead of {stored:08x}")]
    Crc {
        /// The one in the header.
        stored: u32,
        /// The one of the bytes.
        computed: u32,
    },
    /// Codec 5, 6 or 7.
    #[error("there is no codec {codec}")]
    Codec {
        /// The codec's number.
        codec: u8,
    },
    /// No records, or a number of them that does not agree with the last offset delta.
    #[error("{record_count} records and the last offset delta {last_offset_delta}")]
    Count {
        /// The number of records in the header.
        record_count: i32,
        /// The last offset delta in the header.
        last_offset_delta: i32,
    },
    /// Control records are written by brokers only.
    #[error("a producer does not write control records")]
    Control,
    /// A producer id without an epoch or a sequence.
    #[error("a producer id without epoch or sequence")]
    ProducerIncomplete,
    /// The batch claims a leader's timestamp on a topic where leaders give them.
    #[error("a producer's batch claims to have its timestamp from the leader")]
    LogAppendTimeClaimed,
    /// A record is damaged, or the compressed stream of them.
    #[error("record {record}: {damage}")]
    Record {
        /// Its index in the batch.
        record: i32,
        /// What is wrong with it.
        damage: RecordDamage,
    },
    /// The offsets within a compressed batch are not 0, 1, 2, ...
    #[error("record {record} of a compressed batch has the offset delta {delta}")]
    InnerOffset {
        /// Its index in the batch.
        record: i32,
        /// Its offset delta.
        delta: i32,
    },
    /// A compacted topic needs a key in every record.
    #[error("record {record} has no key")]
    KeyMissing {
        /// Its index in the batch.
        record: i32,
    },
    /// Too far from the broker's clock.
    #[error("record {record} has the timestamp {}, the broker's clock says {}", timestamp.millis(), now.millis())]
    TimestampOutOfRange {
        /// Its index in the batch.
        record: i32,
        /// Its timestamp.
        timestamp: Timestamp,
        /// The broker's clock.
        now: Timestamp,
    },
}

impl BatchRefusal {
    /// What the producer is told, as Kafka 4.3 does.
    ///
    /// Kafka has no limit on what comes out of a compressed batch; here it is a corrupt message, like a stream that cannot be read.
    pub const fn kind(&self) -> RefusalKind {
        match self {
            Self::Length { .. }
            | Self::Magic { .. }
            | Self::Crc { .. }
            | Self::Record { damage: RecordDamage::Codec(_), .. } => RefusalKind::CorruptMessage,
            Self::NoWholeBatch { .. }
            | Self::SeveralBatches
            | Self::Legacy { .. }
            | Self::BaseOffset { .. }
            | Self::Count { .. }
            | Self::Control
            | Self::ProducerIncomplete
            | Self::Record { .. }
            | Self::KeyMissing { .. } => RefusalKind::InvalidRecord,
            Self::LogAppendTimeClaimed | Self::TimestampOutOfRange { .. } => RefusalKind::InvalidTimestamp,
            Self::TooLarge { .. } => RefusalKind::MessageTooLarge,
            Self::Codec { .. } | Self::InnerOffset { .. } => RefusalKind::UnknownServerError,
        }
    }

    /// The index of the record that is to blame, where it is one.
    pub const fn record(&self) -> Option<i32> {
        if let Self::Record { record, .. }
        | Self::InnerOffset { record, .. }
        | Self::KeyMissing { record }
        | Self::TimestampOutOfRange { record, .. } = self
        {
            Some(*record)
        } else {
            None
        }
    }
}
