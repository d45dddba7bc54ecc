//! What is shown is what was written, by us and by Kafka, and nothing of what is damaged.

use highwater_engine::batch::{BatchBuilder, BatchLimits, Compression, ProducedBatch, scan};
use highwater_engine::disk::{IoMode, open_disk};
use highwater_engine::log::{Log, Permit, Step};
use highwater_engine::store::Store;
use highwater_engine::units::{LeaderEpoch, Monotonic, Now};
use serde_json::Value;

use super::*;

fn now() -> Now {
    Now { monotonic: Monotonic::from_duration(Duration::ZERO), wall: Timestamp::from_millis(1) }
}

fn open(directory: &Path) -> Store {
    let disk = open_disk(IoMode::Auto, SyncThread::WhenNeeded).unwrap().disk;
    Store::open(disk, directory, StoreConfig::default(), now()).unwrap().store
}

/// Batches of two records: keys `k0`, `k1`, values `value N`, timestamps 100 apart, which every fourth batch turns back.
fn append(store: &Store, log: &Log, batches: std::ops::Range<i64>) {
    for batch in batches {
        let mut builder = BatchBuilder::new(Compression::None);
        for record in [2 * batch, 2 * batch + 1] {
            let time = Timestamp::from_millis(if batch % 4 == 3 { 50 } else { 100 * record });
            let (key, value) = (format!("k{}", record % 2), format!("value {record}"));
            builder.push(Some(time), Some(key.as_bytes()), Some(value.as_bytes()), &[]).unwrap();
        }
        let batch = ProducedBatch::check(builder.finish().unwrap(), &BatchLimits::default(), now().wall);
        log.append(Permit::new(LeaderEpoch::ZERO), batch.unwrap(), now()).unwrap();
    }
    store.wait(log.ticket(), Step::Written).unwrap();
}

struct Place {
    directory: tempfile::TempDir,
    store: Store,
    log: Log,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let name = TopicPartition::new("topic", 0).unwrap();
    let log = store.create_log(&name, None, highwater_engine::log::LogConfig::default(), now()).unwrap();
    append(&store, &log, 0..10);
    Place { directory, store, log }
}

fn shown(what: &Cat) -> Vec<String> {
    let (mut out, mut aside) = (Vec::new(), Vec::new());
    cat(what, &mut out, &mut aside).unwrap();
    assert!(aside.is_empty(), "{}", String::from_utf8_lossy(&aside));
    String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
}

fn offsets(what: &Cat) -> Vec<i64> {
    let offset = |line: &String| line.split('\t').next().unwrap().parse().unwrap();
    shown(what).iter().map(offset).collect()
}

fn of(path: PathBuf) -> Cat {
    Cat { path, ..Cat::default() }
}

#[test]
fn records_are_lines_beside_the_process_that_writes_them() {
    let place = place();
    let what = of(place.directory.path().join("topic-0"));
    assert_eq!(shown(&what)[3], "3\t300\tk1\tvalue 3");
    assert_eq!(offsets(&what), (0..20).collect::<Vec<_>>());
    append(&place.store, &place.log, 10..11);
    assert_eq!(offsets(&what), (0..22).collect::<Vec<_>>());
    let of_file = of(what.path.join("00000000000000000000.log"));
    assert_eq!(shown(&of_file), shown(&what));
}

#[test]
fn what_is_wanted_is_shown_and_no_more() {
    let place = place();
    let all = of(place.directory.path().join("topic-0"));
    for path in [all.path.clone(), all.path.join("00000000000000000000.log")] {
        let all = of(path);
        let from = |offset| Cat { from: Offset::new(offset), ..all.clone() };
        assert_eq!(offsets(&from(17)), [17, 18, 19], "in the middle of a batch");
        assert_eq!(offsets(&Cat { count: Some(2), ..from(3) }), [3, 4]);
        assert_eq!(offsets(&Cat { key: Some("k0".to_owned()), ..from(15) }), [16, 18]);
        assert_eq!(offsets(&Cat { contains: Some("ue 1".to_owned()), ..all.clone() })[..2], [1, 10]);
        // Offsets 6 and 7 have an older time than those before them, and come behind the first that is young enough.
        let since = Cat { since: Some(Timestamp::from_millis(450)), ..all.clone() };
        assert_eq!(offsets(&since), (5..20).collect::<Vec<_>>());
        let none = Cat { since: Some(Timestamp::from_millis(9_999)), ..all.clone() };
        assert!(offsets(&none).is_empty());
        let json = Cat { json: true, count: Some(1), ..from(4) };
        let line: Value = serde_json::from_str(&shown(&json)[0]).unwrap();
        assert_eq!(
            line,
            serde_json::json!({"offset": 4, "timestamp": 400, "key": "k0", "value": "value 4", "headers": []})
        );
    }
}

#[test]
fn what_is_no_text_is_escaped_so_that_a_record_is_a_line() {
    let place = place();
    let mut builder = BatchBuilder::new(Compression::None);
    let headers: [(&str, Option<&[u8]>); 2] = [("h", Some(b"\xff")), ("n", None)];
    builder
        .push(Some(Timestamp::from_millis(1)), None, Some("a\tb\n\\ \u{fc}".as_bytes()), &headers)
        .unwrap();
    builder.push(Some(Timestamp::from_millis(1)), Some(b"\xfe"), None, &[]).unwrap();
    let batch = ProducedBatch::check(builder.finish().unwrap(), &BatchLimits::default(), now().wall).unwrap();
    place.log.append(Permit::new(LeaderEpoch::ZERO), batch, now()).unwrap();
    place.store.wait(place.log.ticket(), Step::Written).unwrap();
    let what = Cat { from: Offset::new(20), ..of(place.directory.path().join("topic-0")) };
    assert_eq!(shown(&what), ["20\t1\t-\ta\\tb\\n\\\\ \u{fc}", "21\t1\t\\xfe\t-"]);
    let lines = shown(&Cat { json: true, ..what });
    let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let headers = serde_json::json!([{"key": "h", "value_hex": "ff"}, {"key": "n", "value": null}]);
    assert_eq!(lines[0]["headers"], headers);
    assert_eq!(lines[1]["key_hex"], "fe");
}

#[test]
fn what_is_appended_is_followed() {
    let place = place();
    let what = Cat { follow: true, count: Some(26), ..of(place.directory.path().join("topic-0")) };
    let lines = std::thread::scope(|scope| {
        let shown = scope.spawn(|| offsets(&what));
        append(&place.store, &place.log, 10..13);
        shown.join().unwrap()
    });
    assert_eq!(lines, (0..26).collect::<Vec<_>>());
}

#[test]
fn damage_ends_it_and_says_where_it_goes_on() {
    let place = place();
    let path = place.directory.path().join("topic-0");
    let file = path.join("00000000000000000000.log");
    place.store.close(serde_json::Map::new(), None).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let batch = bytes.len() / 10;
    bytes[3 * batch + batch / 2] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let (mut out, mut aside) = (Vec::new(), Vec::new());
    let error = cat(&of(path.clone()), &mut out, &mut aside).unwrap_err();
    assert!(error.to_string().ends_with("--from 8 goes on behind it"), "{error}");
    assert_eq!(String::from_utf8(out).unwrap().lines().count(), 6, "what lies before it is shown");
    assert_eq!(offsets(&Cat { from: Offset::new(8), ..of(path) }), (8..20).collect::<Vec<_>>());
    let error = cat(&of(file), &mut Vec::new(), &mut aside).unwrap_err();
    assert!(matches!(error, CatError::NoBatch { position, .. } if position == 3 * batch as u64), "{error}");
}

#[test]
fn a_gap_between_segments_is_told_from_damage_and_passed_over_where_the_topic_is_compacted() {
    let place = place();
    let path = place.directory.path().join("topic-0");
    let file = path.join("00000000000000000000.log");
    place.store.close(serde_json::Map::new(), None).unwrap();
    // A segment of one batch, then one that begins three batches behind it.
    let bytes = std::fs::read(&file).unwrap();
    let position = |number| usize::try_from(scan(&bytes, 0).nth(number).unwrap().unwrap().0).unwrap();
    std::fs::write(&file, &bytes[..position(1)]).unwrap();
    std::fs::write(path.join("00000000000000000008.log"), &bytes[position(4)..]).unwrap();
    for name in [".kafka_cleanshutdown", "recovery-point-offset-checkpoint"] {
        std::fs::remove_file(place.directory.path().join(name)).unwrap();
    }
    let error = cat(&of(path.clone()), &mut Vec::new(), &mut Vec::new()).unwrap_err();
    assert!(matches!(error, CatError::Gap { .. }), "{error}");
    assert!(error.to_string().contains("2 to 8 lie in no segment"), "{error}");
    let compacted = Cat { compacted: true, ..of(path) };
    assert_eq!(offsets(&compacted), [0, 1].into_iter().chain(8..20).collect::<Vec<_>>());
}

#[test]
fn what_cannot_be_shown_is_refused_with_the_reason() {
    let place = place();
    let path = place.directory.path().join("topic-0");
    let refused = |what: &Cat| cat(what, &mut Vec::new(), &mut Vec::new()).unwrap_err().to_string();
    let beyond = refused(&Cat { from: Offset::new(21), ..of(path.clone()) });
    assert_eq!(beyond, "offset 21 is outside of the log, which has 0 up to but not including 20");
    let whole = refused(&of(place.directory.path().to_owned()));
    assert!(
        whole.ends_with("is neither the directory of a partition, as topic-0, nor a .log file"),
        "{whole}"
    );
    let index = refused(&of(path.join("leader-epoch-checkpoint")));
    assert!(index.contains("nor a .log file"), "{index}");
    let file = path.join("00000000000000000000.log");
    assert!(refused(&Cat { follow: true, ..of(file) }).contains("can be followed"));
    assert!(refused(&of(path.join("no"))).contains("cannot be read"));
}

#[test]
fn what_kafka_wrote_is_shown() {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/dump/records");
    for name in ["v2-idempotent", "v2-transactional", "v2-zstd"] {
        let path = testdata.join(name);
        let expected: Value =
            serde_json::from_slice(&std::fs::read(path.with_extension("json")).unwrap()).unwrap();
        let is_marker = |record: &&Value| record.get("marker").is_none();
        let expected: Vec<_> = expected["records"].as_array().unwrap().iter().filter(is_marker).collect();
        let lines = shown(&Cat { json: true, ..of(path.with_extension("log")) });
        assert_eq!(lines.len(), expected.len(), "{name}");
        for (line, expected) in lines.iter().zip(expected) {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["offset"], expected["offset"], "{name}");
            assert_eq!(line["timestamp"], expected["timestamp"], "{name}");
            let hex = |field: &str| line[field].as_str().map(|text| crate::tools::hex(text.as_bytes()));
            let key = hex("key").or_else(|| line["key_hex"].as_str().map(str::to_owned));
            let value = hex("value").or_else(|| line["value_hex"].as_str().map(str::to_owned));
            assert_eq!(
                (key.as_deref(), value.as_deref()),
                (expected["key"].as_str(), expected["value"].as_str())
            );
        }
    }
}
