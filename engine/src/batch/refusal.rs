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

/// Why a topic does not take a record that is sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordRefusal {
    /// A compacted topic needs a key in every record.
    #[error("it has no key")]
    KeyMissing,
    /// Too far from the broker's clock.
    #[error("it has the timestamp {}, the broker's clock says {}", timestamp.millis(), now.millis())]
    TimestampOutOfRange {
        /// Its timestamp.
        timestamp: Timestamp,
        /// The broker's clock.
        now: Timestamp,
    },
    /// Its batch claims a leader's timestamp on a topic where leaders give them.
    #[error("it claims to have its timestamp from the leader")]
    LogAppendTimeClaimed,
}

/// The records of a sound batch that a topic does not take. All of the batch is refused for them; a producer that is told which they are can
/// send the others again (KIP-467).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedRecords {
    named: Vec<(i32, RecordRefusal)>,
    count: u32,
    are_of_time: bool,
}

impl RefusedRecords {
    /// So many are named, whatever a batch may be made of; the others are counted.
    pub const NAMED_MAX: usize = 1_000;

    /// One more, by its index in the batch.
    #[cold]
    pub(super) fn note(&mut self, record: i32, why: RecordRefusal) {
        self.count += 1;
        self.are_of_time |= why != RecordRefusal::KeyMissing;
        if self.named.len() < Self::NAMED_MAX {
            self.named.push((record, why));
        }
    }

    /// How many there are.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The first of them, by their indexes in the batch.
    pub fn named(&self) -> &[(i32, RecordRefusal)] {
        &self.named
    }
}

impl std::fmt::Display for RefusedRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of the batch's records are refused", self.count)?;
        self.named.first().map_or(Ok(()), |(record, why)| write!(f, "; record {record}: {why}"))
    }
}

/// Why a leader refuses a batch. Nothing was appended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
    /// Some of its records are not for this topic.
    #[error("{0}")]
    Records(Box<RefusedRecords>),
}

impl BatchRefusal {
    /// What the producer is told, as Kafka 4.3 does.
    ///
    /// Kafka has no limit on what comes out of a compressed batch; here it is a corrupt message, like a stream that cannot be read.
    /// Where records are refused for their time and others for their keys, it is the time that counts.
    pub fn kind(&self) -> RefusalKind {
        match self {
            Self::Length { .. }
            | Self::Magic { .. }
            | Self::Crc { .. }
            | Self::Record { damage: RecordDamage::Codec(_), .. } => RefusalKind::CorruptMessage,
            Self::Records(refused) if refused.are_of_time => RefusalKind::InvalidTimestamp,
            Self::NoWholeBatch { .. }
            | Self::SeveralBatches
            | Self::Legacy { .. }
            | Self::BaseOffset { .. }
            | Self::Count { .. }
            | Self::Control
            | Self::ProducerIncomplete
            | Self::Record { .. }
            | Self::Records(_) => RefusalKind::InvalidRecord,
            Self::TooLarge { .. } => RefusalKind::MessageTooLarge,
            Self::Codec { .. } | Self::InnerOffset { .. } => RefusalKind::UnknownServerError,
        }
    }

    /// The records that are refused, by their indexes in the batch, where it is they that are to blame.
    pub fn records(&self) -> &[(i32, RecordRefusal)] {
        if let Self::Records(refused) = self { refused.named() } else { &[] }
    }
}
