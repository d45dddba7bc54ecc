//! The batches of a `.log` file and the records in them, read one batch at a time.
//!
//! What is not whole is shown as such, with its reason; behind a wrong CRC the walk goes on, behind anything else there is nothing to go on.
//! Messages of the formats before magic 2 are shown by `legacy`.

use std::fs::File;
use std::io;
use std::path::Path;

use highwater_engine::batch::{
    BatchHeader, BatchView, DecompressLimits, RecordView, StopReason, TimestampType, scan,
};
use highwater_engine::units::{LeaderEpoch, ProducerEpoch, ProducerId, Sequence, Timestamp};
use serde_json::{Value, json};

use super::legacy;
use super::lines::{Fields, Lines, fields, hex, size};
use crate::tools::segment_file::{legacy_bytes, read_batch};

pub(super) fn dump(path: &Path, lines: &mut Lines<'_>) -> io::Result<()> {
    let file = File::open(path)?;
    let end = file.metadata()?.len();
    let mut position = 0;
    let mut batch = Vec::new();
    while position < end {
        read_batch(&file, position, end, &mut batch)?;
        match scan(&batch, position).next() {
            Some(Ok((_, view))) => {
                lines.put(whole(position, &view))?;
                position += view.bytes().len() as u64;
            }
            Some(Err(_)) if legacy_bytes(&batch) == Some(batch.len()) => {
                lines.put(legacy::message(position, &batch))?;
                position += batch.len() as u64;
            }
            Some(Err(stop)) => {
                let crc_is_wrong = matches!(stop.reason, StopReason::Crc { .. });
                let damaged = BatchHeader::parse(&batch).ok().filter(|_| crc_is_wrong);
                lines.put(not_whole(position, damaged.as_ref(), &stop.reason, end - position))?;
                let Some(header) = damaged else { return Ok(()) };
                position += header.size_bytes as u64;
            }
            None => return Ok(()),
        }
    }
    Ok(())
}

fn whole(position: u64, view: &BatchView<'_>) -> Fields {
    let mut line = header_fields(position, view.header());
    line.insert("valid".to_owned(), Value::Bool(true));
    let mut scratch = Vec::new();
    match view.records(&DecompressLimits::default(), &mut scratch) {
        Ok(records) => {
            let mut shown = Vec::new();
            for record in records {
                match record {
                    Ok(record) => shown.push(Value::Object(record_fields(view.header(), &record))),
                    Err(damage) => {
                        line.insert("records_damage".to_owned(), Value::from(damage.to_string()));
                    }
                }
            }
            line.insert("records".to_owned(), Value::Array(shown));
        }
        Err(damage) => {
            line.insert("records_damage".to_owned(), Value::from(damage.to_string()));
        }
    }
    line
}

fn not_whole(position: u64, header: Option<&BatchHeader>, reason: &StopReason, left: u64) -> Fields {
    let mut line = match header {
        Some(header) => header_fields(position, header),
        None => fields([("position", json!(position)), ("bytes_left", json!(left))]),
    };
    line.insert("valid".to_owned(), Value::Bool(false));
    line.insert("reason".to_owned(), Value::from(reason.to_string()));
    line
}

/// A header with the names and the -1 of Kafka's own dump.
fn header_fields(position: u64, header: &BatchHeader) -> Fields {
    let attributes = header.attributes;
    let timestamp_type = match attributes.timestamp_type() {
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    };
    fields([
        ("position", json!(position)),
        ("size", json!(header.size_bytes)),
        ("magic", json!(highwater_engine::batch::MAGIC)),
        ("base_offset", json!(header.base_offset.value())),
        ("last_offset", json!(header.last_offset().value())),
        ("count", json!(header.record_count)),
        ("codec", json!(header.compression().name())),
        ("crc", json!(header.crc)),
        ("leader_epoch", json!(header.leader_epoch.map_or(-1, LeaderEpoch::value))),
        ("timestamp_type", json!(timestamp_type)),
        ("max_timestamp", json!(header.max_timestamp.map_or(-1, Timestamp::millis))),
        ("producer_id", json!(header.producer_id.map_or(-1, ProducerId::value))),
        ("producer_epoch", json!(header.producer_epoch.map_or(-1, ProducerEpoch::value))),
        ("base_sequence", json!(header.base_sequence.map_or(-1, Sequence::value))),
        ("last_sequence", json!(header.last_sequence().map_or(-1, Sequence::value))),
        ("transactional", json!(attributes.is_transactional())),
        ("control", json!(attributes.is_control())),
    ])
}

fn record_fields(header: &BatchHeader, record: &RecordView<'_>) -> Fields {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers: Vec<_> = record.headers.iter().map(|(key, value)| json!([text(key), hex(value)])).collect();
    let header_keys: Vec<_> = record.headers.iter().map(|(key, _)| text(key)).collect();
    let mut line = fields([
        ("offset", json!(record.offset.value())),
        ("timestamp", json!(record.timestamp.map_or(-1, Timestamp::millis))),
        ("key", hex(record.key)),
        ("key_size", size(record.key)),
        ("value", hex(record.value)),
        ("value_size", size(record.value)),
        ("headers", json!(headers)),
        ("header_keys", json!(header_keys)),
    ]);
    if header.attributes.is_control()
        && let Some((marker, coordinator_epoch)) = marker(record)
    {
        line.insert("marker".to_owned(), Value::from(marker));
        line.insert("coordinator_epoch".to_owned(), Value::from(coordinator_epoch));
    }
    line
}

/// What a control record says: key `version i16 | type i16`, value `version i16 | coordinator epoch i32`.
fn marker(record: &RecordView<'_>) -> Option<(&'static str, i32)> {
    let kind = match record.key?.get(2..4)? {
        [0, 0] => "ABORT",
        [0, 1] => "COMMIT",
        _ => return None,
    };
    let epoch = record.value?.get(2..6)?.first_chunk::<4>()?;
    Some((kind, i32::from_be_bytes(*epoch)))
}
