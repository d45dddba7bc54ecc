//! The messages of magic 0 and 1 in a `.log` file, which Kafka wrote before its version 0.11: plain ones, and wrappers of compressed ones.

use highwater_engine::batch::{DecompressLimits, LegacyMessage, LegacyRecord, TimestampType};
use highwater_engine::units::Timestamp;
use serde_json::{Value, json};

use super::lines::{Fields, fields, hex, size};

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
