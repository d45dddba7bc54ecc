//! The binary files beside a `.log`: indexes and producer snapshots. Small enough to be read whole; a larger one is refused.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use highwater_engine::index;
use highwater_engine::state::{ProducerSummary, Producers, ProducersConfig};
use highwater_engine::units::{Monotonic, Offset, ProducerEpoch};
use serde_json::{Value, json};

use super::lines::{Lines, fields};

/// No file of these kinds is larger.
const FILE_BYTES_MAX: u64 = 256 << 20;

pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than any file of its kind"));
    }
    Ok(bytes)
}

pub(super) fn damage(lines: &mut Lines<'_>, why: &str) -> io::Result<()> {
    lines.put(fields([("valid", Value::Bool(false)), ("reason", Value::from(why))]))
}

/// `.index`
pub(super) fn offset_index(path: &Path, base: Offset, lines: &mut Lines<'_>) -> io::Result<()> {
    let bytes = read(path)?;
    for entry in index::offset_entries(&bytes, base).filter(|entry| entry.position > 0) {
        let offset = json!(entry.last_offset.value());
        lines.put(fields([("offset", offset), ("position", json!(entry.position))]))?;
    }
    let log_bytes = fs::metadata(path.with_extension("log")).map_or(u64::MAX, |log| log.len());
    match index::check_offset_index(&bytes, base, log_bytes) {
        Ok(()) => Ok(()),
        Err(why) => damage(lines, &why.to_string()),
    }
}

/// `.timeindex`
pub(super) fn time_index(path: &Path, base: Offset, lines: &mut Lines<'_>) -> io::Result<()> {
    let bytes = read(path)?;
    for entry in index::time_entries(&bytes, base).filter(|entry| entry.timestamp.millis() != 0) {
        let timestamp = json!(entry.timestamp.millis());
        lines.put(fields([("timestamp", timestamp), ("offset", json!(entry.last_offset.value()))]))?;
    }
    match index::check_time_index(&bytes, base) {
        Ok(()) => Ok(()),
        Err(why) => damage(lines, &why.to_string()),
    }
}

/// `.txnindex`
pub(super) fn aborted_index(path: &Path, base: Offset, lines: &mut Lines<'_>) -> io::Result<()> {
    match index::decode_aborted(&read(path)?, base) {
        Ok(aborted) => aborted.iter().try_for_each(|aborted| {
            lines.put(fields([
                ("producer_id", json!(aborted.producer.value())),
                ("first_offset", json!(aborted.first.value())),
                ("last_offset", json!(aborted.marker.value())),
                ("last_stable_offset", json!(aborted.last_stable.value())),
            ]))
        }),
        Err(why) => damage(lines, &why.to_string()),
    }
}

/// `.snapshot`
pub(super) fn snapshot(path: &Path, lines: &mut Lines<'_>) -> io::Result<()> {
    let bytes = read(path)?;
    match Producers::decode_snapshot(&bytes, ProducersConfig::default(), Monotonic::default()) {
        Ok(producers) => producers.summaries().try_for_each(|producer| lines.put(producer_fields(&producer))),
        Err(why) => damage(lines, &why.to_string()),
    }
}

fn producer_fields(producer: &ProducerSummary) -> super::lines::Fields {
    let (sequences, offsets) = match producer.last_batch {
        Some((first_sequence, last_sequence, first, last)) => {
            ((first_sequence.value(), last_sequence.value()), (first.value(), last.value()))
        }
        None => ((-1, -1), (-1, -1)),
    };
    fields([
        ("producer_id", json!(producer.id.value())),
        ("producer_epoch", json!(producer.epoch.map_or(-1, ProducerEpoch::value))),
        ("coordinator_epoch", json!(producer.coordinator_epoch.unwrap_or(-1))),
        ("current_transaction_first_offset", json!(producer.transaction_first.map(Offset::value))),
        ("last_timestamp", json!(producer.timestamp.millis())),
        ("first_sequence", json!(sequences.0)),
        ("last_sequence", json!(sequences.1)),
        ("first_offset", json!(offsets.0)),
        ("last_offset", json!(offsets.1)),
    ])
}
