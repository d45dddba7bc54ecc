//! The messages of magic 0 and 1 in a `.log` file, which Kafka wrote before its version 0.11: plain ones, and wrappers of compressed ones.

use highwater_engine::batch::{DecompressLimits, LegacyMessage, LegacyRecord, TimestampType};
use highwater_engine::units::Timestamp;
use serde_json::{Value, json};

use super::lines::{Fields, fields, hex, size};

/// `offset i64 | size i32 | crc u32 | magic i8`
const PREFIX_BYTES: usize = 17;
const LENGTH_OVERHEAD_BYTES: usize = 12;
/// The CRC, magic, attributes and two lengths; zeros, which look like magic 0, claim less.
const LENGTH_MIN: usize = 14;

/// How large the message claims to be whose first bytes these are; `None` if they are not one of magic 0 or 1.
pub(super) fn size_bytes(head: &[u8]) -> Option<usize> {
    let prefix: &[u8; PREFIX_BYTES] = head.first_chunk()?;
    let [.., a, b, c, d, _, _, _, _, magic] = prefix;
    let length = usize::try_from(i32::from_be_bytes([*a, *b, *c, *d])).ok()?;
    let is_message = matches!(magic, 0 | 1) && length >= LENGTH_MIN;
    is_message.then(|| length.saturating_add(LENGTH_OVERHEAD_BYTES))
}

/// The message that lies at this position and takes exactly these bytes.
pub(super) fn message(position: u64, bytes: &[u8]) -> Fields {
    let mut line = fields([("position", json!(position)), ("size", json!(bytes.len()))]);
    let message = match LegacyMessage::parse(bytes) {
        Ok(message) => message,
        Err(damage) => {
            line.insert("valid".to_owned(), Value::Bool(false));
            line.insert("reason".to_owned(), Value::from(damage.to_string()));
            return line;
        }
    };
    let timestamp_type = match message.timestamp_type() {
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    };
    line.extend(fields([
        ("magic", json!(message.magic())),
        ("codec", json!(message.compression().name())),
        ("timestamp_type", json!(timestamp_type)),
        ("valid", Value::Bool(true)),
    ]));
    let mut scratch = Vec::new();
    match message.records(&DecompressLimits::default(), &mut scratch) {
        Ok(records) => {
            let records: Vec<LegacyRecord<'_>> = records.collect();
            let offset =
                |record: Option<&LegacyRecord<'_>>| json!(record.map(|record| record.offset.value()));
            line.insert("base_offset".to_owned(), offset(records.first()));
            line.insert("last_offset".to_owned(), offset(records.last()));
            line.insert("count".to_owned(), json!(records.len()));
            line.insert("records".to_owned(), records.iter().map(record_fields).map(Value::Object).collect());
        }
        Err(damage) => {
            line.insert("records_damage".to_owned(), Value::from(damage.to_string()));
        }
    }
    line
}

fn record_fields(record: &LegacyRecord<'_>) -> Fields {
    fields([
        ("offset", json!(record.offset.value())),
        ("timestamp", json!(record.timestamp.map_or(-1, Timestamp::millis))),
        ("key", hex(record.key)),
        ("key_size", size(record.key)),
        ("value", hex(record.value)),
        ("value_size", size(record.value)),
        ("headers", json!([])),
        ("header_keys", json!([])),
    ])
}
