//! Writes batches: for clients of ours, tools, tests, and the controller's own log. A broker stores what it was sent and needs none of this.

use bytes::{Bytes, BytesMut};

use super::header::{AT_CRC, HEADER_BYTES, end_of, put};
use super::varint::{INT_BYTES_MAX, LONG_BYTES_MAX, Spelling, varint_bytes};
use super::view::crc_of;
use super::{Attributes, BatchHeader, CodecError, Compression, TimestampType, codec};
use crate::units::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

/// Gathers records and writes them as one batch of magic 2.
///
/// ```
/// use highwater_engine::batch::{BatchBuilder, BatchView, Compression};
/// use highwater_engine::units::Timestamp;
///
/// let mut builder = BatchBuilder::new(Compression::None);
/// builder.push(Some(Timestamp::from_millis(1)), Some(b"key"), Some(b"value"), &[])?;
/// let bytes = builder.finish()?;
/// assert_eq!(BatchView::parse(&bytes).unwrap().header().record_count, 1);
/// # Ok::<(), highwater_engine::batch::BuildError>(())
/// ```
#[derive(Debug)]
pub struct BatchBuilder {
    attributes: Attributes,
    base_offset: Offset,
    leader_epoch: Option<LeaderEpoch>,
    producer: Option<Producer>,
    /// Room for the header, then the records, not compressed.
    buffer: BytesMut,
    base_timestamp: Option<i64>,
    max_timestamp: Option<Timestamp>,
    last_offset_delta: i32,
    record_count: i32,
}

#[derive(Clone, Copy, Debug)]
struct Producer {
    id: ProducerId,
    epoch: ProducerEpoch,
    base_sequence: Option<Sequence>,
}

/// Why records cannot be one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// More bytes than a length field can express.
    #[error("a batch or record of {bytes} bytes is too large for the format")]
    TooLarge {
        /// The size that it would have.
        bytes: usize,
    },
    /// More records, or greater offset deltas, than the format can express; or deltas that do not ascend.
    #[error("offset delta {delta} cannot follow {last}")]
    OffsetDelta {
        /// The delta of the record.
        delta: i32,
        /// The last record's.
        last: i32,
    },
    /// No offset is left behind the batch.
    #[error(
        "a batch at {base_offset} with last offset delta {last_offset_delta} goes beyond the last offset"
    )]
    OffsetsExhausted {
        /// The base offset that was asked for.
        base_offset: Offset,
        /// The last record's delta.
        last_offset_delta: i32,
    },
    /// The records cannot be compressed.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

const CAPACITY_BYTES: usize = 64 << 10;
/// The header of a batch, and of a record its length, attributes, both deltas, and the lengths of key and value.
const FRONT_BYTES_MAX: usize =
    HEADER_BYTES + INT_BYTES_MAX + 1 + LONG_BYTES_MAX + INT_BYTES_MAX + 2 * INT_BYTES_MAX;

impl BatchBuilder {
    /// A builder of batches at offset 0, without producer and leader epoch.
    pub fn new(compression: Compression) -> Self {
        Self {
            attributes: Attributes::new(compression),
            base_offset: Offset::ZERO,
            leader_epoch: None,
            producer: None,
            buffer: BytesMut::with_capacity(CAPACITY_BYTES),
            base_timestamp: None,
            max_timestamp: None,
            last_offset_delta: -1,
            record_count: 0,
        }
    }

    /// The batches begin at this offset, as if a leader had stamped them.
    #[must_use]
    pub fn base_offset(mut self, offset: Offset) -> Self {
        self.base_offset = offset;
        self
    }

    /// The batches are of this leadership, as if a leader had stamped them.
    #[must_use]
    pub fn leader_epoch(mut self, epoch: LeaderEpoch) -> Self {
        self.leader_epoch = Some(epoch);
        self
    }

    /// The batches are an idempotent producer's; the sequence is the first record's.
    #[must_use]
    pub fn producer(mut self, id: ProducerId, epoch: ProducerEpoch, base_sequence: Sequence) -> Self {
        self.producer = Some(Producer { id, epoch, base_sequence: Some(base_sequence) });
        self
    }

    /// The batches belong to a producer's transaction without being numbered, as markers do.
    #[must_use]
    pub fn producer_without_sequence(mut self, id: ProducerId, epoch: ProducerEpoch) -> Self {
        self.producer = Some(Producer { id, epoch, base_sequence: None });
        self
    }

    /// The batches are part of a transaction.
    #[must_use]
    pub fn transactional(mut self) -> Self {
        self.attributes = self.attributes.with_transactional();
        self
    }

    /// The batches hold control records.
    #[must_use]
    pub fn control(mut self) -> Self {
        self.attributes = self.attributes.with_control();
        self
    }

    /// The batches say that their timestamps are the leader's.
    #[must_use]
    pub fn log_append_time(mut self) -> Self {
        self.attributes = self.attributes.with_timestamp_type(TimestampType::LogAppendTime);
        self
    }

    /// How many records there are since the last batch was finished.
    pub fn record_count(&self) -> usize {
        usize::try_from(self.record_count).unwrap_or(0)
    }

    /// How large the batch would be without compression, in bytes.
    pub fn size_bytes(&self) -> usize {
        self.buffer.len().max(HEADER_BYTES)
    }

    /// Adds a record behind the last one.
    #[inline]
    pub fn push(
        &mut self,
        timestamp: Option<Timestamp>,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) -> Result<(), BuildError> {
        let delta = self.last_offset_delta.checked_add(1);
        let delta = delta.ok_or(BuildError::OffsetDelta { delta: i32::MAX, last: self.last_offset_delta })?;
        self.push_at(delta, timestamp, key, value, headers)
    }

    /// Adds a record at a distance from the base offset, greater than the last one's: batches have gaps after compaction.
    #[inline]
    pub fn push_at(
        &mut self,
        delta: i32,
        timestamp: Option<Timestamp>,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) -> Result<(), BuildError> {
        if delta <= self.last_offset_delta {
            return Err(BuildError::OffsetDelta { delta, last: self.last_offset_delta });
        }
        let millis = timestamp.map_or(-1, Timestamp::millis);
        let base = *self.base_timestamp.get_or_insert(millis);
        let timestamp_delta = millis.wrapping_sub(base);
        let mut body = 1 + varint_bytes(timestamp_delta) + varint_bytes(i64::from(delta));
        body += field_bytes(key)? + field_bytes(value)? + varint_bytes(length(headers.len())?);
        for (key, value) in headers {
            body += field_bytes(Some(key.as_bytes()))? + field_bytes(*value)?;
        }
        let size = length(body).map_or(10, varint_bytes) + body + self.size_bytes();
        if i32::try_from(size).is_err() {
            return Err(BuildError::TooLarge { bytes: size });
        }
        // Everything in front of the key, and where there is no key in front of the value, is appended at once.
        let mut front =
            Spelling::<FRONT_BYTES_MAX>::zeros(if self.buffer.is_empty() { HEADER_BYTES } else { 0 });
        front.varint(length(body)?);
        front.byte(0);
        front.varint(timestamp_delta);
        front.varint(i64::from(delta));
        front.varint(field_length(key)?);
        let out = &mut self.buffer;
        if let Some(key) = key {
            out.extend_from_slice(front.bytes());
            out.extend_from_slice(key);
            front = Spelling::zeros(0);
        }
        front.varint(field_length(value)?);
        out.extend_from_slice(front.bytes());
        out.extend_from_slice(value.unwrap_or_default());
        let mut behind = Spelling::<INT_BYTES_MAX>::zeros(0);
        behind.varint(length(headers.len())?);
        out.extend_from_slice(behind.bytes());
        for (key, value) in headers {
            put_field(out, Some(key.as_bytes()))?;
            put_field(out, *value)?;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.last_offset_delta = delta;
        self.record_count += 1;
        Ok(())
    }

    /// The batch reaches to this distance from the base offset, or to its last record, if that lies behind: what compaction removes at the end
    /// of a batch leaves its last offset as it was.
    pub fn reach(&mut self, delta: i32) {
        self.last_offset_delta = self.last_offset_delta.max(delta);
    }

    /// The records so far as one batch; the builder is then empty and has the same settings. Without a record it is an empty batch, of one
    /// offset unless it was to reach farther, as compaction leaves them.
    pub fn finish(&mut self) -> Result<Bytes, BuildError> {
        let compression = self.attributes.compression();
        let mut batch = if self.buffer.is_empty() {
            BytesMut::zeroed(HEADER_BYTES)
        } else if compression == Compression::None {
            self.buffer.split()
        } else {
            let mut out = BytesMut::zeroed(HEADER_BYTES);
            codec::compress(compression, self.buffer.get(HEADER_BYTES..).unwrap_or_default(), &mut out)?;
            self.buffer.clear();
            out
        };
        let last_offset_delta = self.last_offset_delta.max(0);
        let base_offset = self.base_offset;
        if end_of(base_offset, last_offset_delta).is_none() {
            return Err(BuildError::OffsetsExhausted { base_offset, last_offset_delta });
        }
        let header = BatchHeader {
            base_offset,
            size_bytes: batch.len(),
            leader_epoch: self.leader_epoch,
            crc: 0,
            attributes: self.attributes,
            last_offset_delta,
            base_timestamp: Timestamp::from_millis(self.base_timestamp.unwrap_or(-1)),
            max_timestamp: self.max_timestamp,
            producer_id: self.producer.map(|producer| producer.id),
            producer_epoch: self.producer.map(|producer| producer.epoch),
            base_sequence: self.producer.and_then(|producer| producer.base_sequence),
            record_count: self.record_count,
        };
        put(&mut batch, 0, header.encode());
        let crc = crc_of(&batch);
        put(&mut batch, AT_CRC, crc.to_be_bytes());
        self.base_timestamp = None;
        self.max_timestamp = None;
        self.last_offset_delta = -1;
        self.record_count = 0;
        Ok(batch.freeze())
    }
}

/// A length as the format counts it.
fn length(bytes: usize) -> Result<i64, BuildError> {
    i32::try_from(bytes).map(i64::from).map_err(|_| BuildError::TooLarge { bytes })
}

/// The length of a key or value as the format has it.
fn field_length(field: Option<&[u8]>) -> Result<i64, BuildError> {
    field.map_or(Ok(-1), |field| length(field.len()))
}

fn field_bytes(field: Option<&[u8]>) -> Result<usize, BuildError> {
    field.map_or(Ok(1), |field| Ok(varint_bytes(length(field.len())?) + field.len()))
}

fn put_field(out: &mut BytesMut, field: Option<&[u8]>) -> Result<(), BuildError> {
    let mut spelled = Spelling::<INT_BYTES_MAX>::zeros(0);
    spelled.varint(field_length(field)?);
    out.extend_from_slice(spelled.bytes());
    out.extend_from_slice(field.unwrap_or_default());
    Ok(())
}
