//! The data directories of three brokers of Apache Kafka 4.3.1, killed all at one moment, and stopped cleanly later: every partition is
//! opened, and is what Kafka's own dump tool found in it.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::test_support::*;
use super::*;
use crate::batch::{BatchView, ControlRecord, DecompressLimits, TimestampType, TransactionEnd, scan};
use crate::checkpoint::HIGH_WATERMARKS;
use crate::disk::{Disk, PosixDisk, SyncThread};
use crate::index::decode_aborted;
use crate::log::Cleanup;
use crate::segment::{FileKind, file_path};
use crate::units::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

fn testdata(file: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/kafka-dirs").join(file);
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Unpacks plain files and directories of a tar archive.
fn unpack(archive: &[u8], into: &Path) {
    let mut at = 0;
    while let Some(header) = archive.get(at..at + 512).filter(|header| header[0] != 0) {
        let text = |range: std::ops::Range<usize>| {
            let field = &header[range];
            let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
            String::from_utf8(field[..end].to_vec()).unwrap()
        };
        let path = into.join(text(0..100));
        let size = usize::from_str_radix(text(124..136).trim(), 8).unwrap();
        at += 512;
        if header[156] == b'5' {
            std::fs::create_dir_all(path).unwrap();
        } else {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, &archive[at..at + size]).unwrap();
        }
        at += size.div_ceil(512) * 512;
    }
}

/// One of the directories, as it was archived.
pub(super) fn unpack_directory(which: &str, into: &Path) {
    unpack(&testdata(&format!("{which}.tar.gz")), into);
}

/// The offsets of a checkpoint of Kafka's, read here by other means than the engine's.
fn offsets_in(file: &Path) -> BTreeMap<String, i64> {
    let text = std::fs::read_to_string(file).unwrap();
    let mut entries = BTreeMap::new();
    for line in text.lines().skip(2) {
        let [topic, partition, offset] = *line.split(' ').collect::<Vec<_>>() else { panic!("{line}") };
        entries.insert(format!("{topic}-{partition}"), offset.parse().unwrap());
    }
    entries
}

fn size_of(field: Option<&[u8]>) -> i64 {
    field.map_or(-1, |bytes| i64::try_from(bytes.len()).unwrap())
}

/// A batch as the dump tool shows it, with its records.
fn shown(view: &BatchView<'_>, position: u64) -> Value {
    let (header, mut scratch) = (view.header(), Vec::new());
    let mut records = Vec::new();
    for record in view.records(&DecompressLimits::default(), &mut scratch).unwrap() {
        let record = record.unwrap();
        let names = record.headers.iter().map(|(name, _)| str::from_utf8(name).unwrap());
        let mut shown = json!({
            "offset": record.offset.value(),
            "timestamp": record.timestamp.map_or(-1, Timestamp::millis),
            "key_size": size_of(record.key),
            "value_size": size_of(record.value),
            "header_keys": names.collect::<Vec<_>>(),
        });
        if header.attributes.is_control() {
            let ControlRecord::Marker { end, coordinator_epoch } = ControlRecord::parse(&record).unwrap()
            else {
                panic!("only markers are in these logs")
            };
            shown["marker"] = if end == TransactionEnd::Abort { "ABORT" } else { "COMMIT" }.into();
            shown["coordinator_epoch"] = coordinator_epoch.into();
        } else {
            // The dump tool shows an empty key as it shows none, and an empty value as such.
            for (field, bytes) in [("key", record.key.filter(|key| !key.is_empty())), ("value", record.value)]
            {
                if let Some(bytes) = bytes {
                    shown[field] = str::from_utf8(bytes).unwrap().into();
                }
            }
        }
        records.push(shown);
    }
    json!({
        "base_offset": header.base_offset.value(),
        "last_offset": header.last_offset().value(),
        "position": position,
        "size": header.size_bytes,
        "count": header.record_count,
        "crc": header.crc,
        "valid": true,
        "codec": header.compression().name(),
        "leader_epoch": header.leader_epoch.map(LeaderEpoch::value),
        "max_timestamp": header.max_timestamp.map_or(-1, Timestamp::millis),
        "timestamp_type": match header.attributes.timestamp_type() {
            TimestampType::CreateTime => "CreateTime",
            TimestampType::LogAppendTime => "LogAppendTime",
        },
        "producer_id": header.producer_id.map_or(-1, ProducerId::value),
        "producer_epoch": header.producer_epoch.map_or(-1, ProducerEpoch::value),
        "base_sequence": header.base_sequence.map_or(-1, Sequence::value),
        "last_sequence": header.last_sequence().map_or(-1, Sequence::value),
        "transactional": header.attributes.is_transactional(),
        "control": header.attributes.is_control(),
        "records": records,
    })
}

fn number(value: &Value, field: &str) -> i64 {
    value[field].as_i64().unwrap()
}

/// What the batches say of their producers, worked out here: by id, its epoch, its last batch, the time of that or of a later marker,
/// the coordinator's epoch, and where an open transaction begins; and the aborted transactions.
#[derive(Default)]
struct Told {
    producers: BTreeMap<i64, Value>,
    aborted: Vec<[i64; 4]>,
}

fn told_by<'a>(batches: impl Iterator<Item = &'a Value>) -> Told {
    let mut told = Told::default();
    for batch in batches.filter(|batch| number(batch, "producer_id") >= 0) {
        let id = number(batch, "producer_id");
        let producer = told
            .producers
            .entry(id)
            .or_insert_with(|| json!({"coordinator": -1, "open": null, "last": null}));
        producer["epoch"] = batch["producer_epoch"].clone();
        producer["timestamp"] = batch["max_timestamp"].clone();
        if batch["control"] == false {
            let fields = ["base_sequence", "last_sequence", "base_offset", "last_offset"];
            producer["last"] = fields.map(|field| batch[field].clone()).to_vec().into();
            if batch["transactional"] == true && producer["open"].is_null() {
                producer["open"] = batch["base_offset"].clone();
            }
            continue;
        }
        let marker = &batch["records"][0];
        producer["coordinator"] = marker["coordinator_epoch"].clone();
        let opened = producer["open"].take();
        if let Some(first) = opened.as_i64().filter(|_| marker["marker"] == "ABORT") {
            let still_open = told.producers.values().filter_map(|producer| producer["open"].as_i64()).min();
            let at = number(marker, "offset");
            told.aborted.push([id, first, at, still_open.unwrap_or(at + 1)]);
        }
    }
    told
}

/// What the log knows of its producers, in the same form.
fn known_producers(log: &Log) -> BTreeMap<i64, Value> {
    log.with_producers(|producers| {
        let each = producers.summaries().map(|producer| {
            let last = producer.last_batch.map(|(first_sequence, last_sequence, first, last)| {
                json!([first_sequence.value(), last_sequence.value(), first.value(), last.value()])
            });
            let known = json!({
                "epoch": producer.epoch.map(ProducerEpoch::value),
                "timestamp": producer.timestamp.millis(),
                "coordinator": producer.coordinator_epoch.unwrap_or(-1),
                "open": producer.transaction_first.map(Offset::value),
                "last": last,
            });
            (producer.id.value(), known)
        });
        each.collect()
    })
}

/// A line of a snapshot as the dump tool shows it.
fn snapshot_line(id: i64, producer: &Value) -> String {
    let open = match producer["open"].as_i64() {
        Some(first) => format!("OptionalLong[{first}]"),
        None => "OptionalLong.empty".to_owned(),
    };
    let last = |at: usize| producer["last"][at].as_i64().unwrap();
    format!(
        "producerId: {id} producerEpoch: {} coordinatorEpoch: {} currentTxnFirstOffset: {open} lastTimestamp: {time} \
         firstSequence: {} lastSequence: {} lastOffset: {} offsetDelta: {} timestamp: {time}",
        producer["epoch"],
        producer["coordinator"],
        last(0),
        last(1),
        last(3),
        last(3) - last(2),
        time = producer["timestamp"],
    )
}

/// The batches of one segment, as they are read from the log, each at its place.
fn read_segment(store: &Store, log: &Log, from: i64, until: i64) -> Vec<Value> {
    let mut position = 0;
    let mut batches = Vec::new();
    for item in scan(&read_all(store, log, from), 0) {
        let (_, view) = item.unwrap();
        if view.header().base_offset.value() >= until {
            break;
        }
        batches.push(shown(&view, position));
        position += view.bytes().len() as u64;
    }
    batches
}

fn check_partition(store: &Store, log: &Log, said: &Value) {
    let (start, end) = (log.start().value(), log.written().value());
    let segments: Vec<(i64, &Vec<Value>)> = (said["segments"].as_object().unwrap().iter())
        .map(|(file, batches)| (file[..20].parse().unwrap(), batches.as_array().unwrap()))
        .collect();
    assert_eq!(log.segment_count(), segments.len());
    for (number, (base, batches)) in segments.iter().enumerate() {
        let until = segments.get(number + 1).map_or(end, |(next, _)| *next);
        assert_eq!(&read_segment(store, log, start.max(*base), until), *batches, "segment {base}");
    }
    let all = || segments.iter().flat_map(|(_, batches)| *batches);
    assert_eq!(end, all().map(|batch| number(batch, "last_offset") + 1).max().unwrap());

    // An epoch without a record is dropped at the opening, as Kafka does.
    let epochs: Vec<[i64; 2]> = serde_json::from_value(said["leader_epochs"].clone()).unwrap();
    let expected: Vec<[i64; 2]> = epochs.into_iter().filter(|[_, first]| *first < end).collect();
    let known: Vec<[i64; 2]> = log.with_facts(|facts| {
        let starts = facts.epochs.starts().iter();
        starts.map(|entry| [i64::from(entry.epoch.value()), entry.start.value()]).collect()
    });
    assert_eq!(known, expected);

    let told = told_by(all());
    assert_eq!(known_producers(log), told.producers);
    if let Some(lines) = said["dump"].get(format!("{end:020}.snapshot")) {
        let mut ours: Vec<String> =
            told.producers.iter().map(|(id, known)| snapshot_line(*id, known)).collect();
        let mut lines: Vec<String> = serde_json::from_value(lines.clone()).unwrap();
        ours.sort();
        lines.sort();
        assert_eq!(ours, lines);
    }
    let mut aborted = Vec::new();
    for (base, _) in &segments {
        let path = file_path(log.directory(), at(*base), FileKind::AbortedIndex);
        let Ok(bytes) = std::fs::read(path) else { continue };
        for entry in decode_aborted(&bytes, at(*base)).unwrap() {
            let offsets = [entry.first, entry.marker, entry.last_stable].map(Offset::value);
            aborted.push([entry.producer.value(), offsets[0], offsets[1], offsets[2]]);
        }
    }
    assert_eq!(aborted, told.aborted);
    let open = told.producers.values().filter_map(|producer| producer["open"].as_i64()).min();
    assert_eq!(log.first_unstable(log.written()).map(Offset::value), open);
}

fn check(which: &str, stop: Stop) {
    let kept = tempfile::tempdir().unwrap();
    unpack_directory(which, kept.path());
    let found: Value = serde_json::from_slice(&testdata(&format!("{which}.json.gz"))).unwrap();
    let starts = offsets_in(&kept.path().join("log-start-offset-checkpoint"));
    let high_watermarks = offsets_in(&kept.path().join("replication-offset-checkpoint"));
    let disk: Arc<dyn Disk> = Arc::new(PosixDisk::new(SyncThread::Never));
    let (store, report) = open(&disk, kept.path());
    assert_eq!(report.stop, stop);
    assert!(report.refused.is_empty(), "{:?}", report.refused);
    let names: Vec<String> = store.logs().iter().map(|log| log.name().to_string()).collect();
    let partitions = found["partitions"].as_object().unwrap();
    for partition in partitions.keys() {
        assert!(names.contains(partition), "{which} has no {partition}");
    }
    assert_eq!(high_watermarks.keys().collect::<Vec<_>>(), names.iter().collect::<Vec<_>>());
    let read = store.read_offset_checkpoint(HIGH_WATERMARKS).unwrap().known().unwrap();
    let read = read.iter().map(|(name, offset)| (name.to_string(), offset.value()));
    assert_eq!(read.collect::<BTreeMap<_, _>>(), high_watermarks);
    for log in store.logs() {
        let partition = log.name().to_string();
        let report = report.logs.iter().find(|report| report.name == *log.name()).unwrap();
        assert!(report.plan.damaged.is_empty() && report.cut_bytes == 0, "{partition}: {}", report.plan);
        assert!(log.topic_id().is_some());
        assert_eq!(log.start().value(), starts.get(&partition).copied().unwrap_or(0), "{partition}");
        assert!(high_watermarks[&partition] <= log.written().value(), "{partition}");
        let mut config = (*log.config()).clone();
        config.cleanup = if partition.starts_with("compacted") { Cleanup::Compact } else { Cleanup::Delete };
        store.set_config(log.id(), config).unwrap();
        // The tool that wrote the files looked at no internal topics.
        if let Some(said) = partitions.get(&partition) {
            check_partition(&store, &log, said);
        }
    }
    assert_eq!(starts, BTreeMap::from([("raised-0".to_owned(), 23)]));
    let torn = store.log(&name("torn-0")).unwrap();
    assert!(torn.written().value() >= number(&found, "acknowledged_end_of_torn-0"));
    goes_on(store, &disk, kept.path());
}

/// Each log takes more, stops, and opens again as our own.
fn goes_on(store: Store, disk: &Arc<dyn Disk>, directory: &Path) {
    for log in store.logs() {
        let end = log.accepted().value();
        // Above any epoch that these brokers were in.
        log.append_replicated(&replicated(&[stamped(end, 2, 100, 1)]), now(1)).unwrap();
    }
    turn(&store);
    store.close(serde_json::Map::new(), None).unwrap();
    let (_, report) = open(disk, directory);
    assert!(report.logs.iter().all(|log| !log.suspect), "our own clean stop");
}

#[test]
fn directories_of_killed_kafka_brokers_are_what_kafka_says() {
    for which in ["killed-1", "killed-2", "killed-3"] {
        check(which, Stop::Unclean);
    }
}

#[test]
fn directories_of_kafka_brokers_that_stopped_cleanly_are_what_kafka_says() {
    for which in ["clean-1", "clean-2", "clean-3"] {
        check(which, Stop::Clean);
    }
}
