//! One record, and the walk over the records of a batch.
//!
//! ```text
//! length | attributes i8 | timestamp delta | offset delta | key length, key | value length, value | count, {key length, key, value length, value}
//! ```
//!
//! All numbers but the attributes are zigzag varints. Source: `org.apache.kafka.common.record.DefaultRecord`. Header keys are not asked to
//! be UTF-8, because Kafka's broker does not either.

use super::header::{TimestampType, timestamp_from_field};
use super::varint::{SliceSource, Source};
use super::{BatchHeader, CodecError};
use crate::units::{Offset, Timestamp};

/// Why the records of a batch are not what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordDamage {
    /// The bytes end within a record, or before all records were there.
    #[error("the records end early")]
    EndsEarly,
    /// A number that takes more bytes than its kind can.
    #[error("a number takes too many bytes")]
    VarintTooLong,
    /// The record's length is negative or beyond the end.
    #[error("a record cannot be {length} bytes long here")]
    Length {
        /// The length that it claims.
        length: i32,
    },
    /// A key, value or header is below -1 bytes long, or longer than its record; or a header has no key.
    #[error("a key or value cannot be {length} bytes long here")]
    FieldLength {
        /// The length that it claims.
        length: i32,
    },
    /// A negative number of headers, or more than there are bytes.
    #[error("a record cannot have {count} headers here")]
    HeaderCount {
        /// The number that it claims.
        count: i32,
    },
    /// What is in the record is not as long as the record.
    #[error("the record claims {claimed} bytes and uses {used}")]
    LengthMismatch {
        /// The length that it claims.
        claimed: i32,
        /// How many bytes its fields take.
        used: u64,
    },
    /// The record's offset is not one of its batch's.
    #[error("offset delta {delta} lies outside the batch")]
    OffsetDelta {
        /// The delta.
        delta: i32,
    },
    /// There is more behind the last record.
    #[error("there are bytes behind the last record")]
    Leftover,
    /// The records cannot be decompressed.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// The fields of a record as they are written; `T` is a slice, or nothing when the bytes are only walked over.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawRecord<T> {
    pub(super) attributes: i8,
    pub(super) timestamp_delta: i64,
    pub(super) offset_delta: i32,
    pub(super) key: Option<T>,
    pub(super) value: Option<T>,
    pub(super) header_count: i32,
    /// The position in the source at which the headers begin.
    pub(super) headers_at: u64,
}

/// Reads one record, with every check that its own bytes allow.
#[inline]
pub(super) fn read_record<S: Source>(source: &mut S) -> Result<RawRecord<S::Taken>, RecordDamage> {
    let length = source.varint()?;
    let bad_length = RecordDamage::Length { length };
    let body = usize::try_from(length).map_err(|_| bad_length)?;
    if source.remaining().is_some_and(|remaining| body > remaining) {
        return Err(bad_length);
    }
    let start = source.position();
    let end = start + body as u64;
    let attributes = i8::from_be_bytes([source.byte()?]);
    let timestamp_delta = source.varlong()?;
    let offset_delta = source.varint()?;
    let key = take_field(source, end)?;
    let value = take_field(source, end)?;
    let header_count = source.varint()?;
    // A header takes two bytes at least.
    if header_count < 0
        || i64::from(header_count) * 2 > i64::try_from(end.saturating_sub(source.position())).unwrap_or(0)
    {
        return Err(RecordDamage::HeaderCount { count: header_count });
    }
    let headers_at = source.position();
    for _ in 0..header_count {
        if take_field(source, end)?.is_none() {
            return Err(RecordDamage::FieldLength { length: -1 });
        }
        take_field(source, end)?;
    }
    if source.position() != end {
        return Err(RecordDamage::LengthMismatch { claimed: length, used: source.position() - start });
    }
    Ok(RawRecord { attributes, timestamp_delta, offset_delta, key, value, header_count, headers_at })
}

/// A length, -1 for null, and as many bytes, which end at `end` at the latest.
#[inline]
fn take_field<S: Source>(source: &mut S, end: u64) -> Result<Option<S::Taken>, RecordDamage> {
    let length = source.varint()?;
    if length == -1 {
        return Ok(None);
    }
    let bad = RecordDamage::FieldLength { length };
    let count = usize::try_from(length).map_err(|_| bad)?;
    if count as u64 > end.saturating_sub(source.position()) {
        return Err(bad);
    }
    source.take(count).map(Some)
}

/// One record, its bytes borrowed from the batch or from the buffer into which that was decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordView<'a> {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp: its own, or its batch's if the leader's clock counts. `None` if the producer gave none.
    pub timestamp: Option<Timestamp>,
    /// Unused by Kafka, kept as it came.
    pub attributes: i8,
    /// The key, if there is one.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone in a compacted topic.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: RecordHeaders<'a>,
}

/// The headers of a record: key (UTF-8, if its producer keeps Kafka's rules) and value, in the order in which they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeaders<'a> {
    count: i32,
    bytes: &'a [u8],
}

impl<'a> RecordHeaders<'a> {
    /// No headers.
    pub const NONE: RecordHeaders<'static> = RecordHeaders { count: 0, bytes: &[] };

    /// How many there are, and their bytes as they came.
    pub(super) const fn raw(&self) -> (i32, &'a [u8]) {
        (self.count, self.bytes)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0)
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Each key with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        let mut source = SliceSource::new(self.bytes);
        let end = self.bytes.len() as u64;
        // They were read once already, by `read_record`.
        (0..self.count).map_while(move |_| {
            let key = take_field(&mut source, end).ok()??;
            Some((key, take_field(&mut source, end).ok()?))
        })
    }
}

/// The records of one batch, in order; ends behind the first that is damaged.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    source: SliceSource<'a>,
    header: BatchHeader,
    left: i32,
}

impl<'a> Records<'a> {
    /// The records in `bytes`, which are not compressed.
    pub(super) const fn new(header: BatchHeader, bytes: &'a [u8]) -> Self {
        Self { source: SliceSource::new(bytes), header, left: header.record_count }
    }

    fn read(&mut self) -> Result<RecordView<'a>, RecordDamage> {
        let raw = read_record(&mut self.source)?;
        let delta = raw.offset_delta;
        let offset = offset_of(&self.header, delta).ok_or(RecordDamage::OffsetDelta { delta })?;
        Ok(RecordView {
            offset,
            timestamp: timestamp_of(&self.header, raw.timestamp_delta),
            attributes: raw.attributes,
            key: raw.key,
            value: raw.value,
            headers: RecordHeaders { count: raw.header_count, bytes: self.source.since(raw.headers_at) },
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordView<'a>, RecordDamage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left <= 0 {
            return None;
        }
        self.left -= 1;
        let mut record = self.read();
        if self.left == 0 && record.is_ok() && self.source.remaining() != Some(0) {
            record = Err(RecordDamage::Leftover);
        }
        if record.is_err() {
            self.left = 0;
        }
        Some(record)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, usize::try_from(self.left).ok())
    }
}

/// The offset of a record, if it lies within its batch. Kafka stores any delta (it compares only the last one with the count), but a
/// record outside its batch could not be found again.
#[inline]
pub(super) fn offset_of(header: &BatchHeader, delta: i32) -> Option<Offset> {
    if delta < 0 || delta > header.last_offset_delta {
        return None;
    }
    header.base_offset.checked_add(i64::from(delta))
}

/// The timestamp of a record. Java's arithmetic wraps, and so does this.
#[inline]
pub(super) fn timestamp_of(header: &BatchHeader, delta: i64) -> Option<Timestamp> {
    match header.attributes.timestamp_type() {
        TimestampType::LogAppendTime => header.max_timestamp,
        TimestampType::CreateTime => timestamp_from_field(header.base_timestamp.millis().wrapping_add(delta)),
    }
}
