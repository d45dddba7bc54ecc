//! What the tests of batches share.

use bytes::Bytes;

use super::header::{AT_CRC, HEADER_BYTES, put};
use super::view::crc_of;
use super::{Attributes, BatchBuilder, BatchHeader, Compression};
use crate::units::{LeaderEpoch, Offset, Timestamp};

pub(super) const NOW: Timestamp = Timestamp::from_millis(1_600_000_000_000);

pub(super) fn offset(value: i64) -> Offset {
    Offset::new(value).unwrap()
}

pub(super) fn epoch(value: i32) -> LeaderEpoch {
    LeaderEpoch::new(value).unwrap()
}

/// A batch of small records as a producer sends it.
pub(super) fn produced(compression: Compression, records: i32) -> Bytes {
    stamped(compression, records, 0, None)
}

/// A batch of small records as it lies in a log.
pub(super) fn stamped(
    compression: Compression,
    records: i32,
    base: i64,
    epoch: Option<LeaderEpoch>,
) -> Bytes {
    let mut builder = BatchBuilder::new(compression).base_offset(offset(base));
    if let Some(epoch) = epoch {
        builder = builder.leader_epoch(epoch);
    }
    for record in 0..records {
        let value = format!("value {record}");
        let timestamp = Timestamp::from_millis(NOW.millis() + i64::from(record % 3));
        builder.push(Some(timestamp), Some(b"key"), Some(value.as_bytes()), &[("h", None)]).unwrap();
    }
    builder.finish().unwrap()
}

/// The header that `records` bytes of an otherwise ordinary produced batch would have.
pub(super) fn header(compression: Compression, record_count: i32) -> BatchHeader {
    BatchHeader {
        base_offset: Offset::ZERO,
        size_bytes: HEADER_BYTES,
        leader_epoch: None,
        crc: 0,
        attributes: Attributes::new(compression),
        last_offset_delta: (record_count - 1).max(0),
        base_timestamp: NOW,
        max_timestamp: Some(NOW),
        producer_id: None,
        producer_epoch: None,
        base_sequence: None,
        record_count,
    }
}

/// A batch of just these bytes, with a right length and CRC.
pub(super) fn batch(mut header: BatchHeader, records: &[u8]) -> Vec<u8> {
    header.size_bytes = HEADER_BYTES + records.len();
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(records);
    sealed(bytes)
}

/// The same bytes with a right CRC.
pub(super) fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc_of(&bytes);
    put(&mut bytes, AT_CRC, crc.to_be_bytes());
    bytes
}
