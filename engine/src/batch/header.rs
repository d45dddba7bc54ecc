//! The 61 bytes in front of a batch's records: parsed, encoded, and patched in place.
//!
//! ```text
//!  0 base offset     8 length      12 leader epoch  16 magic   17 crc      <- outside the CRC
//! 21 attributes     23 last delta  27 base time     35 max time            <- CRC-32C from here to the batch's end
//! 43 producer id    51 epoch       53 sequence      57 count    61 records
//! ```
//!
//! Parsing says what is written there. Whether the bytes are whole is the CRC's business, so that recovery can tell one from the other.
//! Source: `org.apache.kafka.common.record.DefaultRecordBatch`.

use super::Compression;
use crate::units::{LeaderEpoch, Offset, OffsetRange, ProducerEpoch, ProducerId, Sequence, Timestamp};

/// The size of the header, and of the smallest batch, in bytes.
pub const HEADER_BYTES: usize = 61;
/// The bytes in front of those that the length field counts.
pub const LENGTH_OVERHEAD_BYTES: usize = 12;
/// The bytes up to and with the magic, in every version of the format; fewer than these say nothing.
pub const PREFIX_BYTES: usize = 17;
/// The smallest value of the length field that any version of the format allows (an empty message of magic 0).
pub const LENGTH_MIN: i32 = 14;
/// The version of the format that is written.
pub const MAGIC: i8 = 2;

pub(super) const AT_LENGTH: usize = 8;
pub(super) const AT_LEADER_EPOCH: usize = 12;
pub(super) const AT_MAGIC: usize = 16;
pub(super) const AT_CRC: usize = 17;
pub(super) const AT_ATTRIBUTES: usize = 21;
pub(super) const AT_MAX_TIMESTAMP: usize = 35;

const BIT_LOG_APPEND_TIME: i16 = 1 << 3;
const BIT_TRANSACTIONAL: i16 = 1 << 4;
const BIT_CONTROL: i16 = 1 << 5;
const BIT_DELETE_HORIZON: i16 = 1 << 6;

/// Whose clock a batch's timestamps come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum TimestampType {
    /// The producer's, one for each record.
    #[default]
    CreateTime,
    /// The leader's, when it appended; the batch's max timestamp holds for every record.
    LogAppendTime,
}

/// The attributes of a batch whose codec is known. Bits without a meaning are kept as they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Attributes {
    bits: i16,
    compression: Compression,
}

impl Attributes {
    /// The attributes in these bits, or `None` if their codec is 5, 6 or 7.
    pub const fn from_bits(bits: i16) -> Option<Self> {
        match Compression::from_number(codec_bits(bits)) {
            Some(compression) => Some(Self { bits, compression }),
            None => None,
        }
    }

    /// Attributes that say how the records are compressed and nothing else.
    pub const fn new(compression: Compression) -> Self {
        Self { bits: compression.number() as i16, compression }
    }

    /// The bits, as batches carry them.
    pub const fn bits(self) -> i16 {
        self.bits
    }

    /// How the records are compressed.
    pub const fn compression(self) -> Compression {
        self.compression
    }

    /// Whose clock the timestamps come from.
    pub const fn timestamp_type(self) -> TimestampType {
        if self.bits & BIT_LOG_APPEND_TIME == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Whether the batch is part of a transaction.
    pub const fn is_transactional(self) -> bool {
        self.bits & BIT_TRANSACTIONAL != 0
    }

    /// Whether the records are control records, which no consumer is shown.
    pub const fn is_control(self) -> bool {
        self.bits & BIT_CONTROL != 0
    }

    /// Whether the base timestamp is a delete horizon (KIP-534) instead.
    pub const fn has_delete_horizon(self) -> bool {
        self.bits & BIT_DELETE_HORIZON != 0
    }

    /// The same with the other kind of timestamps.
    #[must_use]
    pub const fn with_timestamp_type(self, kind: TimestampType) -> Self {
        let bits = match kind {
            TimestampType::CreateTime => self.bits & !BIT_LOG_APPEND_TIME,
            TimestampType::LogAppendTime => self.bits | BIT_LOG_APPEND_TIME,
        };
        Self { bits, ..self }
    }

    /// The same, part of a transaction.
    #[must_use]
    pub const fn with_transactional(self) -> Self {
        Self { bits: self.bits | BIT_TRANSACTIONAL, ..self }
    }

    /// The same, with a delete horizon in the place of the base timestamp.
    #[must_use]
    pub(super) const fn with_delete_horizon(self) -> Self {
        Self { bits: self.bits | BIT_DELETE_HORIZON, ..self }
    }

    /// The same, of control records.
    #[must_use]
    pub const fn with_control(self) -> Self {
        Self { bits: self.bits | BIT_CONTROL, ..self }
    }
}

/// What the header of a batch says. Its numbers agree with one another; that its bytes are whole is known only of a
/// [`BatchView`](super::BatchView).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The offset of the batch; the first record's, unless compaction has removed that one.
    pub base_offset: Offset,
    /// The size of the whole batch, header included, in bytes: at least [`HEADER_BYTES`], at most `i32::MAX` + 12.
    pub size_bytes: usize,
    /// The leadership in which it was appended; absent before a leader has stamped it. Not covered by the CRC.
    pub leader_epoch: Option<LeaderEpoch>,
    /// CRC-32C of everything from the attributes on.
    pub crc: u32,
    /// Codec, kind of timestamps, transactional, control.
    pub attributes: Attributes,
    /// Last offset minus base offset, not negative.
    pub last_offset_delta: i32,
    /// What the records' timestamp deltas are counted from; a delete horizon if the attributes say so; without meaning
    /// in a batch without records.
    pub base_timestamp: Timestamp,
    /// The greatest timestamp of its records; absent if none has one.
    pub max_timestamp: Option<Timestamp>,
    /// The idempotent producer, if it is one.
    pub producer_id: Option<ProducerId>,
    /// The producer's epoch.
    pub producer_epoch: Option<ProducerEpoch>,
    /// The sequence of the first record; absent in transaction markers.
    pub base_sequence: Option<Sequence>,
    /// How many records there are, not negative; 0 only after compaction.
    pub record_count: i32,
}

/// Why bytes are not the header of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderDamage {
    /// The bytes end before the header does.
    #[error("{have} bytes are too few for a batch header of {HEADER_BYTES}")]
    Short {
        /// How many bytes there are.
        have: usize,
    },
    /// The length field is below what any batch of this version has.
    #[error("the length field says {length}")]
    Length {
        /// The field's value.
        length: i32,
    },
    /// Another version of the format: 0 and 1 are the legacy ones, anything else is none.
    #[error("magic {magic} instead of {MAGIC}")]
    Magic {
        /// The field's value.
        magic: i8,
    },
    /// The base offset is negative, or no offset is left behind the batch's last one.
    #[error("base offset {base_offset} and last offset delta {last_offset_delta} are not offsets")]
    Offsets {
        /// The base offset.
        base_offset: i64,
        /// The last offset delta.
        last_offset_delta: i32,
    },
    /// Codec 5, 6 or 7.
    #[error("there is no codec {codec}")]
    Codec {
        /// The codec's number.
        codec: u8,
    },
    /// The number of records is negative.
    #[error("a batch cannot have {count} records")]
    Count {
        /// The field's value.
        count: i32,
    },
}

impl BatchHeader {
    /// Reads the header at the beginning of `bytes`. The CRC is not looked at, and the batch need not be there in full.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderDamage> {
        let Some(h) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(HeaderDamage::Short { have: bytes.len() });
        };
        let magic = i8::from_be_bytes(field(h, AT_MAGIC));
        if magic != MAGIC {
            return Err(HeaderDamage::Magic { magic });
        }
        let length = i32::from_be_bytes(field(h, AT_LENGTH));
        let size_bytes = size_of_length(length)
            .filter(|size| *size >= HEADER_BYTES)
            .ok_or(HeaderDamage::Length { length })?;
        let last_offset_delta = i32::from_be_bytes(field(h, 23));
        let base_offset = i64::from_be_bytes(field(h, 0));
        let damaged_offsets = HeaderDamage::Offsets { base_offset, last_offset_delta };
        let base_offset = Offset::new(base_offset).ok_or(damaged_offsets)?;
        if last_offset_delta < 0 || end_of(base_offset, last_offset_delta).is_none() {
            return Err(damaged_offsets);
        }
        let bits = i16::from_be_bytes(field(h, AT_ATTRIBUTES));
        let attributes =
            Attributes::from_bits(bits).ok_or(HeaderDamage::Codec { codec: codec_bits(bits) })?;
        let record_count = i32::from_be_bytes(field(h, 57));
        if record_count < 0 {
            return Err(HeaderDamage::Count { count: record_count });
        }
        Ok(Self {
            base_offset,
            size_bytes,
            leader_epoch: LeaderEpoch::new(i32::from_be_bytes(field(h, AT_LEADER_EPOCH))),
            crc: u32::from_be_bytes(field(h, AT_CRC)),
            attributes,
            last_offset_delta,
            base_timestamp: Timestamp::from_millis(i64::from_be_bytes(field(h, 27))),
            max_timestamp: timestamp_from_field(i64::from_be_bytes(field(h, AT_MAX_TIMESTAMP))),
            producer_id: ProducerId::new(i64::from_be_bytes(field(h, 43))),
            producer_epoch: ProducerEpoch::new(i16::from_be_bytes(field(h, 51))),
            base_sequence: Sequence::new(i32::from_be_bytes(field(h, 53))),
            record_count,
        })
    }

    /// The header's bytes, its CRC as it is in the field.
    #[inline]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut h = [0; HEADER_BYTES];
        put(&mut h, 0, self.base_offset.value().to_be_bytes());
        put(&mut h, AT_LENGTH, length_of_size(self.size_bytes).to_be_bytes());
        put(&mut h, AT_LEADER_EPOCH, self.leader_epoch.map_or(-1, LeaderEpoch::value).to_be_bytes());
        put(&mut h, AT_MAGIC, MAGIC.to_be_bytes());
        put(&mut h, AT_CRC, self.crc.to_be_bytes());
        put(&mut h, AT_ATTRIBUTES, self.attributes.bits().to_be_bytes());
        put(&mut h, 23, self.last_offset_delta.to_be_bytes());
        put(&mut h, 27, self.base_timestamp.millis().to_be_bytes());
        put(&mut h, AT_MAX_TIMESTAMP, self.max_timestamp.map_or(-1, Timestamp::millis).to_be_bytes());
        put(&mut h, 43, self.producer_id.map_or(-1, ProducerId::value).to_be_bytes());
        put(&mut h, 51, self.producer_epoch.map_or(-1, ProducerEpoch::value).to_be_bytes());
        put(&mut h, 53, self.base_sequence.map_or(-1, Sequence::value).to_be_bytes());
        put(&mut h, 57, self.record_count.to_be_bytes());
        h
    }

    /// The offset of its last record, whether or not compaction has left that one.
    #[inline]
    pub fn last_offset(&self) -> Offset {
        self.base_offset
            .checked_add(i64::from(self.last_offset_delta))
            .expect("a header's offsets do not overflow")
    }

    /// The first offset behind the batch.
    #[inline]
    pub fn next_offset(&self) -> Offset {
        end_of(self.base_offset, self.last_offset_delta).expect("a header's offsets do not overflow")
    }

    /// All its offsets.
    #[inline]
    pub fn offsets(&self) -> OffsetRange {
        OffsetRange::new(self.base_offset, self.next_offset()).expect("a header's offsets do not overflow")
    }

    /// How the records are compressed.
    pub const fn compression(&self) -> Compression {
        self.attributes.compression()
    }

    /// The sequence of its last record, if the producer numbers them.
    pub fn last_sequence(&self) -> Option<Sequence> {
        self.base_sequence.map(|first| first.wrapping_add(self.last_offset_delta))
    }

    /// When tombstones and markers in it may go (KIP-534), if compaction has said so.
    pub fn delete_horizon(&self) -> Option<Timestamp> {
        self.attributes.has_delete_horizon().then_some(self.base_timestamp)
    }
}

/// The number of a codec in the attributes' bits.
pub(super) const fn codec_bits(bits: i16) -> u8 {
    bits.to_be_bytes()[1] & 7
}

/// The first offset behind a batch.
#[inline]
pub(super) fn end_of(base: Offset, last_offset_delta: i32) -> Option<Offset> {
    base.checked_add(i64::from(last_offset_delta))?.next()
}

/// The size of a batch in bytes, from its length field; `None` if the field is negative.
#[inline]
pub(super) fn size_of_length(length: i32) -> Option<usize> {
    usize::try_from(length).ok().map(|length| length + LENGTH_OVERHEAD_BYTES)
}

/// The length field of a batch of this size.
#[inline]
pub(super) fn length_of_size(size_bytes: usize) -> i32 {
    size_bytes
        .checked_sub(LENGTH_OVERHEAD_BYTES)
        .and_then(|length| i32::try_from(length).ok())
        .expect("a batch's size fits its length field")
}

/// `-1` stands for "no timestamp" in every field that holds one.
pub(super) const fn timestamp_from_field(millis: i64) -> Option<Timestamp> {
    if millis == -1 { None } else { Some(Timestamp::from_millis(millis)) }
}

/// The `N` bytes at a constant place of a header.
#[inline]
pub(super) fn field<const N: usize>(header: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&header[at..at + N]);
    out
}

/// Writes the `N` bytes at a constant place of a batch that has at least a header.
#[inline]
pub(super) fn put<const N: usize>(batch: &mut [u8], at: usize, bytes: [u8; N]) {
    batch[at..at + N].copy_from_slice(&bytes);
}
