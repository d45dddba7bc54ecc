//! The dump says what Kafka's own dump tool says of the same files, and shows damage as such.

use std::collections::BTreeMap;

use highwater_engine::checkpoint::{OffsetCheckpoint, encode_offsets};
use serde_json::Value;

use super::*;

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/dump")
}

fn json_lines(path: &Path) -> Vec<Value> {
    let mut out = Vec::new();
    dump(path, Format::Json, &mut out).unwrap();
    String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Every field that the expected object has is there and the same.
fn assert_has(have: &Value, expected: &Value, leave_out: &[&str]) {
    for (name, value) in expected.as_object().unwrap() {
        if !leave_out.contains(&name.as_str()) {
            assert_eq!(have.get(name), Some(value), "{name} of {have}");
        }
    }
}

#[test]
fn record_sets_are_shown_with_the_fields_of_their_descriptions() {
    for name in ["v2-idempotent", "v2-transactional", "v2-zstd"] {
        let path = testdata().join("records").join(name);
        let expected = read_json(&path.with_extension("json"));
        let batches = json_lines(&path.with_extension("log"));
        let expected_batches = expected["batches"].as_array().unwrap();
        assert_eq!(batches.len(), expected_batches.len(), "{name}");
        let records: Vec<&Value> = batches.iter().flat_map(|b| b["records"].as_array().unwrap()).collect();
        let expected_records = expected["records"].as_array().unwrap();
        for (have, expected) in batches.iter().zip(expected_batches) {
            // These batches all begin at 0 and have gaps; their description has the offset of the first record.
            // The codec there is the one that was asked for; what does not get smaller is not compressed.
            assert_has(have, expected, &["base_offset", "codec"]);
            assert_eq!(have["records"][0]["offset"], expected["base_offset"]);
        }
        let codecs: Vec<_> = batches.iter().map(|batch| batch["codec"].as_str().unwrap()).collect();
        assert_eq!(codecs.contains(&"zstd"), name == "v2-zstd", "{codecs:?}");
        assert_eq!(records.len(), expected_records.len(), "{name}");
        for (have, expected) in records.iter().zip(expected_records) {
            assert_has(have, expected, &[]);
        }
    }
}

#[test]
fn a_directory_that_kafka_wrote_is_shown_as_kafkas_tool_shows_it() {
    let expected = read_json(&testdata().join("directory.json"));
    let mut by_file: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in json_lines(&testdata().join("directory")) {
        by_file.entry(line["file"].as_str().unwrap().to_owned()).or_default().push(line);
    }
    for (partition, expected) in expected["partitions"].as_object().unwrap() {
        for (segment, expected) in expected["segments"].as_object().unwrap() {
            let batches = &by_file[&format!("{partition}/{segment}")];
            let expected = expected.as_array().unwrap();
            assert_eq!(batches.len(), expected.len());
            for (have, expected) in batches.iter().zip(expected) {
                assert_has(have, expected, &["records"]);
                let records = have["records"].as_array().unwrap().iter();
                for (have, expected) in records.zip(expected["records"].as_array().unwrap()) {
                    // Kafka shows keys and values as text.
                    assert_has(have, expected, &["key", "value"]);
                }
            }
        }
        let epochs = by_file[&format!("{partition}/leader-epoch-checkpoint")].iter();
        let epochs: Vec<_> =
            epochs.map(|line| [line["epoch"].clone(), line["start_offset"].clone()]).collect();
        assert_eq!(serde_json::to_value(epochs).unwrap(), expected["leader_epochs"]);
    }
    let aborted = &by_file["transactions-0/00000000000000000000.txnindex"];
    assert_eq!(aborted.len(), 3);
    assert_eq!(
        (&aborted[1]["first_offset"], &aborted[1]["last_offset"]),
        (&Value::from(15), &Value::from(19))
    );
    let producers = &by_file["transactions-0/00000000000000000033.snapshot"];
    let open = producers.iter().find(|line| line["producer_id"] == 2000).unwrap();
    assert_eq!(open["current_transaction_first_offset"], Value::from(28));
    let index = &by_file["codecs-0/00000000000000000000.index"];
    assert_eq!((&index[1]["offset"], &index[1]["position"]), (&Value::from(279), &Value::from(8672)));
    assert_eq!(by_file["codecs-0/00000000000000000000.timeindex"].len(), 3);
    let start = &by_file["log-start-offset-checkpoint"][0];
    assert_eq!((&start["topic"], &start["offset"]), (&Value::from("raised"), &Value::from(23)));
}

#[test]
fn damage_is_shown_with_its_reason_and_what_follows_a_wrong_crc_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("00000000000000000000.log");
    let mut bytes = std::fs::read(testdata().join("records/v2-idempotent.log")).unwrap();
    bytes[100] ^= 1;
    bytes.extend([0; 200]);
    std::fs::write(&path, &bytes).unwrap();
    let lines = json_lines(&path);
    let valid: Vec<_> = lines.iter().map(|line| line["valid"].as_bool().unwrap()).collect();
    assert_eq!(valid, [false, true, false]);
    assert!(lines[0]["reason"].as_str().unwrap().starts_with("CRC "), "{}", lines[0]);
    assert_eq!(lines[2]["reason"], "nothing but 200 zeros is left");
    assert_eq!(lines[2]["bytes_left"], 200);
}

#[test]
fn messages_of_the_formats_before_magic_2_are_shown_with_their_records() {
    let sets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/testdata/record-sets");
    for name in ["v0-none", "v0-gzip", "v1-lz4", "v1-snappy", "mixed-upgrade"] {
        let path = sets.join(name);
        let expected = read_json(&path.with_extension("json"));
        let messages = json_lines(&path.with_extension("log"));
        let records: Vec<&Value> = messages.iter().flat_map(|m| m["records"].as_array().unwrap()).collect();
        let expected_records = expected["records"].as_array().unwrap();
        assert_eq!(records.len(), expected_records.len(), "{name}");
        for (have, expected) in records.iter().zip(expected_records) {
            assert_has(have, expected, &[]);
        }
        if !matches!(name, "v0-none" | "mixed-upgrade") {
            // A compressed set is one message; a plain one is as many as it has records.
            for (have, expected) in messages.iter().zip(expected["batches"].as_array().unwrap()) {
                assert_has(have, expected, &["codec"]);
            }
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("00000000000000000000.log");
    let mut bytes = std::fs::read(sets.join("v1-none.log")).unwrap();
    bytes[30] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let lines = json_lines(&path);
    assert_eq!((&lines[0]["valid"], &lines[1]["valid"]), (&Value::from(false), &Value::from(true)));
    assert!(lines[0]["reason"].as_str().unwrap().starts_with("CRC "), "{}", lines[0]);
}

#[test]
fn a_checkpoint_says_whether_its_guard_is_right() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("recovery-point-offset-checkpoint");
    let name = TopicPartition::new("orders", 1).unwrap();
    let text = encode_offsets(&OffsetCheckpoint::from([(name, Offset::new(120).unwrap())]));
    let entry = serde_json::json!({"topic": "orders", "partition": 1, "offset": 120});
    std::fs::write(&path, &text).unwrap();
    assert_eq!(json_lines(&path), [entry.clone(), serde_json::json!({"guard": "right"})]);
    std::fs::write(&path, text.replace(" 120", " 121")).unwrap();
    let lines = json_lines(&path);
    assert_eq!(lines[1], serde_json::json!({"guard": "wrong"}));
    assert_eq!(lines[2]["valid"], false);
    std::fs::write(&path, "0\n1\norders 1 120\n").unwrap();
    assert_eq!(json_lines(&path), [entry, serde_json::json!({"guard": "missing"})]);
    std::fs::write(&path, "0\n2\norders 1 120\n").unwrap();
    assert_eq!(json_lines(&path)[1]["valid"], false);
}

#[test]
fn people_get_one_line_a_record() {
    let mut out = Vec::new();
    dump(&testdata().join("records/v2-transactional.log"), Format::People, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("  base_offset "), "{text}");
    assert!(text.lines().any(|line| line.starts_with("    ") && line.contains("  offset ")), "{text}");
}

#[test]
fn what_is_not_kafkas_is_refused_in_a_sentence() {
    let error = dump(&testdata().join("records/v2-zstd.json"), Format::Json, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, DumpError::Unknown { .. }), "{error}");
    let error = dump(Path::new("/nowhere/x.log"), Format::Json, &mut Vec::new()).unwrap_err();
    assert!(error.to_string().starts_with("/nowhere/x.log cannot be read: "), "{error}");
}
