//! Record sets that `kafka-python` wrote, in every format and codec, decode exactly to the JSON beside them.

use serde_json::{Value, json};
use std::path::Path;

use super::{BatchView, Compression, DecompressLimits, HEADER_BYTES, LegacyMessage, MAGIC, StopReason, scan};
use crate::units::{LeaderEpoch, ProducerEpoch, ProducerId, Sequence, Timestamp};

const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];

fn hex(bytes: Option<&[u8]>) -> Value {
    match bytes {
        None => Value::Null,
        Some(bytes) => bytes
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|digit| DIGITS[usize::from(digit)])
            .collect::<String>()
            .into(),
    }
}

/// A record and the size of the batch or message that it came in.
struct Read {
    batch: Value,
    records: Vec<Value>,
}

fn record(
    offset: i64,
    timestamp: Option<Timestamp>,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &Value,
) -> Value {
    let timestamp = timestamp.map_or(-1, Timestamp::millis);
    json!({"offset": offset, "timestamp": timestamp, "key": hex(key), "value": hex(value), "headers": headers})
}

fn read_batch(view: &BatchView<'_>) -> Read {
    let mut scratch = Vec::new();
    let records: Vec<Value> = view
        .records(&DecompressLimits::default(), &mut scratch)
        .unwrap()
        .map(|read| {
            let read = read.unwrap();
            assert_eq!(read.headers.iter().count(), read.headers.len());
            let headers =
                read.headers.iter().map(|(key, value)| json!([str::from_utf8(key).unwrap(), hex(value)]));
            record(read.offset.value(), read.timestamp, read.key, read.value, &headers.collect())
        })
        .collect();
    let header = view.header();
    // The writer left base offset 0 in every header and let the deltas begin above it, as compaction may too.
    assert_eq!(header.base_offset.value(), 0);
    assert_eq!(records.last().unwrap()["offset"], header.last_offset().value());
    let mut batch = json!({
        "base_offset": records[0]["offset"],
        "count": header.record_count,
        "magic": MAGIC,
        "codec": header.compression().name(),
        "size": header.size_bytes,
        "leader_epoch": header.leader_epoch.map(LeaderEpoch::value),
    });
    if let Some(id) = header.producer_id {
        batch["producer_id"] = ProducerId::value(id).into();
        batch["producer_epoch"] = header.producer_epoch.map(ProducerEpoch::value).into();
        batch["base_sequence"] = header.base_sequence.map(Sequence::value).into();
    }
    if header.attributes.is_transactional() {
        batch["transactional"] = true.into();
    }
    assert_eq!(
        header.encode(),
        view.bytes()[..HEADER_BYTES],
        "an encoded header has the bytes it was read from"
    );
    Read { batch, records }
}

fn read_message(message: &LegacyMessage<'_>) -> Read {
    let mut scratch = Vec::new();
    let records: Vec<Value> = message
        .records(&DecompressLimits::default(), &mut scratch)
        .unwrap()
        .map(|read| record(read.offset.value(), read.timestamp, read.key, read.value, &json!([])))
        .collect();
    let batch = json!({
        "base_offset": records[0]["offset"],
        "count": records.len(),
        "magic": message.magic(),
        "codec": message.compression().name(),
        "size": message.size_bytes(),
    });
    Read { batch, records }
}

/// Everything in a segment of mixed formats.
fn read_all(bytes: &[u8]) -> Vec<Read> {
    let mut read = Vec::new();
    let mut position = 0;
    while position < bytes.len() {
        let mut batches = scan(&bytes[position..], 0);
        match batches.next().unwrap() {
            Ok((_, view)) => {
                read.push(read_batch(&view));
                position += view.bytes().len();
            }
            Err(stop) => {
                assert!(matches!(stop.reason, StopReason::Legacy { .. }), "{stop}");
                let message = LegacyMessage::parse(&bytes[position..]).unwrap();
                read.push(read_message(&message));
                position += message.size_bytes();
            }
        }
    }
    read
}

/// The files group plain messages, as their writer did when it wrote them.
fn grouped(read: &[Read], batches: &[Value]) -> Vec<Value> {
    let mut read = read.iter();
    let mut grouped = Vec::new();
    for batch in batches {
        let mut whole = read.next().unwrap().batch.clone();
        while whole["count"].as_i64() < batch["count"].as_i64() {
            let next = &read.next().unwrap().batch;
            assert_eq!((&next["magic"], &next["codec"]), (&whole["magic"], &json!("none")));
            whole["count"] = (whole["count"].as_i64().unwrap() + next["count"].as_i64().unwrap()).into();
            whole["size"] = (whole["size"].as_i64().unwrap() + next["size"].as_i64().unwrap()).into();
        }
        // This writer leaves a batch plain where compressing makes it larger; the files name the codec that was asked for.
        if whole["magic"] == 2 && whole["codec"] == "none" {
            assert!(batch["codec"] == "none" || batch["count"].as_i64() < Some(5), "{batch}");
            whole["codec"] = batch["codec"].clone();
        }
        grouped.push(whole);
    }
    assert!(read.next().is_none(), "more batches than the file says");
    grouped
}

#[test]
fn golden_record_sets_decode_to_their_json() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/record-sets");
    let mut files = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        files += 1;
        let name = path.display();
        let bytes = std::fs::read(&path).unwrap();
        let expected: Value =
            serde_json::from_slice(&std::fs::read(path.with_extension("json")).unwrap()).unwrap();
        assert_eq!(expected["bytes"], bytes.len(), "{name}");
        let read = read_all(&bytes);
        let batches = expected["batches"].as_array().unwrap();
        assert_eq!(grouped(&read, batches), *batches, "{name}");
        let records: Vec<&Value> = read.iter().flat_map(|read| &read.records).collect();
        assert_eq!(records, expected["records"].as_array().unwrap().iter().collect::<Vec<_>>(), "{name}");
    }
    assert_eq!(files, 15);
}

#[test]
fn every_codec_is_among_the_golden_sets() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/record-sets");
    for compression in Compression::ALL {
        let bytes = std::fs::read(directory.join(format!("v2-{compression}.log"))).unwrap();
        let seen = scan(&bytes, 0).any(|batch| batch.unwrap().1.header().compression() == compression);
        assert!(seen, "{compression}");
    }
}

/// Any byte of a legacy message damaged is noticed, except its offset, which its CRC does not cover either.
#[test]
fn flipped_bits_of_legacy_messages_are_noticed() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/record-sets");
    for name in ["v0-none.log", "v1-none.log", "v1-gzip.log"] {
        let bytes = std::fs::read(directory.join(name)).unwrap();
        let size = LegacyMessage::parse(&bytes).unwrap().size_bytes();
        for at in 8..size {
            for bit in 0..8 {
                let mut damaged = bytes[..size].to_vec();
                damaged[at] ^= 1 << bit;
                assert!(LegacyMessage::parse(&damaged).is_err(), "{name}: byte {at}, bit {bit}");
            }
        }
    }
}
