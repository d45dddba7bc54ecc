//! The records of one batch, or of one message of the formats before magic 2, as one kind of thing.

use highwater_engine::batch::{DecompressLimits, LegacyMessage, RecordHeaders, StopReason, scan};
use highwater_engine::units::{Offset, Timestamp};

use super::CatError;

/// A record of any format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown<'a> {
    pub(super) offset: Offset,
    pub(super) timestamp: Option<Timestamp>,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    /// Absent in old formats.
    pub(super) headers: Option<RecordHeaders<'a>>,
}

/// What was at the beginning of bytes.
#[derive(Debug)]
pub(super) struct OneBatch {
    /// How many bytes it has.
    pub(super) bytes: usize,
    /// Why it is no whole batch, if it is none.
    pub(super) stopped: Option<String>,
}

/// Calls with each record of the first batch that has at least this offset. Of what controls transactions there are none.
pub(super) fn each_record(
    bytes: &[u8],
    from: Offset,
    mut show: impl FnMut(Shown<'_>) -> Result<(), CatError>,
) -> Result<OneBatch, CatError> {
    let mut scratch = Vec::new();
    let limits = DecompressLimits::default();
    match scan(bytes, 0).next() {
        None => Ok(OneBatch { bytes: 0, stopped: None }),
        Some(Ok((_, batch))) => {
            let header = batch.header();
            let failed = |why: &dyn std::fmt::Display| CatError::NoRecords {
                base: header.base_offset.value(),
                why: why.to_string(),
            };
            let size = OneBatch { bytes: header.size_bytes, stopped: None };
            if header.attributes.is_control() {
                return Ok(size);
            }
            for record in batch.records(&limits, &mut scratch).map_err(|why| failed(&why))? {
                let record = record.map_err(|why| failed(&why))?;
                if record.offset >= from {
                    show(Shown {
                        offset: record.offset,
                        timestamp: record.timestamp,
                        key: record.key,
                        value: record.value,
                        headers: Some(record.headers),
                    })?;
                }
            }
            Ok(size)
        }
        Some(Err(stop)) => {
            let StopReason::Legacy { size_bytes, .. } = stop.reason else {
                return Ok(OneBatch { bytes: 0, stopped: Some(stop.reason.to_string()) });
            };
            let message = match LegacyMessage::parse(bytes) {
                Ok(message) => message,
                Err(damage) => return Ok(OneBatch { bytes: 0, stopped: Some(damage.to_string()) }),
            };
            let failed = |why: &dyn std::fmt::Display| CatError::NoRecords {
                base: message.offset(),
                why: why.to_string(),
            };
            for record in message.records(&limits, &mut scratch).map_err(|why| failed(&why))? {
                if record.offset >= from {
                    let (offset, timestamp) = (record.offset, record.timestamp);
                    show(Shown { offset, timestamp, key: record.key, value: record.value, headers: None })?;
                }
            }
            Ok(OneBatch { bytes: size_bytes, stopped: None })
        }
    }
}
