//! Batches, records and logs as JSON.

use highwater_engine::batch::{BatchView, DecompressLimits};
use highwater_engine::log::Log;
use highwater_engine::units::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};
use serde_json::{Value, json};

use crate::work::Failure;

fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// A batch with its records; of a control batch the header alone.
pub(crate) fn batch(view: &BatchView<'_>) -> Result<Value, Failure> {
    let header = view.header();
    let (mut records, mut scratch) = (Vec::new(), Vec::new());
    if !header.attributes.is_control() {
        for record in view.records(&DecompressLimits::default(), &mut scratch)? {
            let record = record?;
            let headers = record.headers.iter();
            records.push(json!({
                "offset": record.offset.value(),
                "timestamp": record.timestamp.map_or(-1, Timestamp::millis),
                "key": text(record.key),
                "value": text(record.value),
                "headers": headers.map(|(name, value)| json!([text(Some(name)), text(value)])).collect::<Vec<_>>(),
            }));
        }
    }
    Ok(json!({
        "base": header.base_offset.value(),
        "last": header.last_offset().value(),
        "crc": header.crc,
        "codec": header.compression().name(),
        "epoch": header.leader_epoch.map(LeaderEpoch::value),
        "producer": header.producer_id.map_or(-1, ProducerId::value),
        "producer_epoch": header.producer_epoch.map_or(-1, ProducerEpoch::value),
        "sequence": header.base_sequence.map_or(-1, Sequence::value),
        "transactional": header.attributes.is_transactional(),
        "control": header.attributes.is_control(),
        "records": records,
    }))
}

/// What is known of a log apart from its batches.
pub(crate) fn log(log: &Log) -> Value {
    let epochs: Vec<[i64; 2]> = log.with_facts(|facts| {
        let starts = facts.epochs.starts().iter();
        starts.map(|entry| [i64::from(entry.epoch.value()), entry.start.value()]).collect()
    });
    let producers: Vec<Value> = log.with_producers(|producers| {
        let shown = producers.summaries().map(|producer| {
            json!({
                "id": producer.id.value(),
                "epoch": producer.epoch.map_or(-1, ProducerEpoch::value),
                "last_sequence": producer.last_batch.map_or(-1, |(_, last, _, _)| last.value()),
                "last_offset": producer.last_batch.map_or(-1, |(_, _, _, last)| last.value()),
                "open_from": producer.transaction_first.map(Offset::value),
            })
        });
        shown.collect()
    });
    json!({
        "start": log.start().value(),
        "end": log.written().value(),
        "segments": log.segment_count(),
        "epochs": epochs,
        "producers": producers,
        "damaged": log.damaged().len(),
    })
}
