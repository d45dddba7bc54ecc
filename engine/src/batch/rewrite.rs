//! A batch with fewer records, as compaction leaves it. Source: `MemoryRecords.filterTo`, `MemoryRecordsBuilder`.
//!
//! What places it stays: base offset, last offset, leader epoch, producer, epoch and first sequence, so that the last sequence is known as long
//! as the batch is there. Its records keep offsets, times, keys, values and headers; their attributes, which Kafka does not use, become 0. The
//! greatest timestamp is that of the records that stay, unless the leader's clock counts. A delete horizon takes the place of the base
//! timestamp, and deltas are counted from it.

use bytes::{Bytes, BytesMut};

use super::header::{AT_CRC, HEADER_BYTES, put};
use super::varint::{INT_BYTES_MAX, LONG_BYTES_MAX, Spelling, varint_bytes};
use super::view::crc_of;
use super::{Attributes, BatchHeader, BuildError, Compression, RecordView, TimestampType, codec};
use crate::units::Timestamp;

/// Length, attributes, both deltas, and the length of the key.
const FRONT_BYTES_MAX: usize = INT_BYTES_MAX + 1 + LONG_BYTES_MAX + 2 * INT_BYTES_MAX;

impl BatchHeader {
    /// The batch with these of its records, in their order; at least one. `delete_horizon` is the one that it has or is given.
    pub(crate) fn with_records(
        &self,
        records: &[RecordView<'_>],
        delete_horizon: Option<Timestamp>,
    ) -> Result<Bytes, BuildError> {
        let millis = |record: &RecordView<'_>| record.timestamp.map_or(-1, Timestamp::millis);
        let first = records.first().map_or(-1, millis);
        let base_timestamp = delete_horizon.map_or(first, Timestamp::millis);
        let mut plain = BytesMut::new();
        for record in records {
            let offset_delta = record.offset.distance_from(self.base_offset).unwrap_or_default();
            put_record(&mut plain, record, millis(record).wrapping_sub(base_timestamp), offset_delta)?;
        }
        let compression = self.compression();
        let mut batch = BytesMut::zeroed(HEADER_BYTES);
        match compression {
            Compression::None => batch.extend_from_slice(&plain),
            Compression::Gzip | Compression::Snappy | Compression::Lz4 | Compression::Zstd => {
                codec::compress(compression, &plain, &mut batch)?;
            }
        }
        if i32::try_from(batch.len()).is_err() {
            return Err(BuildError::TooLarge { bytes: batch.len() });
        }
        let max_timestamp = match self.attributes.timestamp_type() {
            TimestampType::LogAppendTime => self.max_timestamp,
            TimestampType::CreateTime => records.iter().filter_map(|record| record.timestamp).max(),
        };
        let header = BatchHeader {
            size_bytes: batch.len(),
            attributes: self.kept_attributes(compression, delete_horizon.is_some()),
            base_timestamp: Timestamp::from_millis(base_timestamp),
            max_timestamp,
            record_count: i32::try_from(records.len()).unwrap_or(i32::MAX),
            ..*self
        };
        Ok(sealed(batch, &header))
    }

    /// The batch without records: 61 bytes that say where it was and whose.
    pub(crate) fn without_records(&self) -> Bytes {
        let header = BatchHeader {
            size_bytes: HEADER_BYTES,
            attributes: self.kept_attributes(Compression::None, false),
            base_timestamp: Timestamp::from_millis(-1),
            record_count: 0,
            ..*self
        };
        sealed(BytesMut::zeroed(HEADER_BYTES), &header)
    }

    fn kept_attributes(&self, compression: Compression, has_delete_horizon: bool) -> Attributes {
        let mut attributes =
            Attributes::new(compression).with_timestamp_type(self.attributes.timestamp_type());
        if self.attributes.is_transactional() {
            attributes = attributes.with_transactional();
        }
        if self.attributes.is_control() {
            attributes = attributes.with_control();
        }
        if has_delete_horizon { attributes.with_delete_horizon() } else { attributes }
    }
}

fn sealed(mut batch: BytesMut, header: &BatchHeader) -> Bytes {
    put(&mut batch, 0, header.encode());
    let crc = crc_of(&batch);
    put(&mut batch, AT_CRC, crc.to_be_bytes());
    batch.freeze()
}

fn put_record(
    out: &mut BytesMut,
    record: &RecordView<'_>,
    timestamp_delta: i64,
    offset_delta: i64,
) -> Result<(), BuildError> {
    let (header_count, headers) = record.headers.raw();
    let (key, value) = (length(record.key)?, length(record.value)?);
    let body = 1
        + varint_bytes(timestamp_delta)
        + varint_bytes(offset_delta)
        + varint_bytes(key)
        + record.key.map_or(0, <[u8]>::len)
        + varint_bytes(value)
        + record.value.map_or(0, <[u8]>::len)
        + varint_bytes(i64::from(header_count))
        + headers.len();
    let body = i32::try_from(body).map_err(|_| BuildError::TooLarge { bytes: body })?;
    let mut front = Spelling::<FRONT_BYTES_MAX>::zeros(0);
    front.varint(i64::from(body));
    front.byte(0);
    front.varint(timestamp_delta);
    front.varint(offset_delta);
    front.varint(key);
    out.extend_from_slice(front.bytes());
    out.extend_from_slice(record.key.unwrap_or_default());
    let mut middle = Spelling::<INT_BYTES_MAX>::zeros(0);
    middle.varint(value);
    out.extend_from_slice(middle.bytes());
    out.extend_from_slice(record.value.unwrap_or_default());
    let mut behind = Spelling::<INT_BYTES_MAX>::zeros(0);
    behind.varint(i64::from(header_count));
    out.extend_from_slice(behind.bytes());
    out.extend_from_slice(headers);
    Ok(())
}

/// As the format has it: -1 where there is none.
fn length(field: Option<&[u8]>) -> Result<i64, BuildError> {
    let Some(field) = field else { return Ok(-1) };
    i32::try_from(field.len()).map(i64::from).map_err(|_| BuildError::TooLarge { bytes: field.len() })
}
