//! Data directories that Apache Kafka 4.3.1 wrote, one of a broker that was killed and one of a broker that stopped cleanly, are opened,
//! and every batch is found where Kafka's own dump tool found it.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::test_support::*;
use super::*;
use crate::batch::scan;
use crate::disk::{Disk, PosixDisk, SyncThread};

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

fn numbers(batch: &Value) -> [i64; 4] {
    ["base_offset", "last_offset", "crc", "leader_epoch"].map(|field| batch[field].as_i64().unwrap())
}

fn check(which: &str, stop: Stop) {
    let kept = tempfile::tempdir().unwrap();
    unpack(&testdata(&format!("{which}.tar.gz")), kept.path());
    let found: Value = serde_json::from_slice(&testdata(&format!("{which}.json.gz"))).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(PosixDisk::new(SyncThread::Never));
    let (store, report) = open(&disk, kept.path());
    assert_eq!(report.stop, stop);
    assert!(report.refused.is_empty(), "{:?}", report.refused);
    let partitions = found["partitions"].as_object().unwrap();
    for (partition, said) in partitions {
        let log = store.log(&name(partition)).unwrap_or_else(|| panic!("{which} {partition}"));
        let report = report.logs.iter().find(|log| log.name == name(partition)).unwrap();
        assert!(report.plan.damaged.is_empty() && report.cut_bytes == 0, "{partition}: {}", report.plan);
        assert!(log.topic_id().is_some());
        let mut expected = Vec::new();
        for batches in said["segments"].as_object().unwrap().values() {
            expected.extend(batches.as_array().unwrap().iter().map(numbers));
        }
        expected.retain(|batch| batch[1] >= log.start().value());
        let bytes = read_all(&store, &log, log.start().value());
        let ours: Vec<[i64; 4]> = scan(&bytes, 0)
            .map(|batch| {
                let header = *batch.unwrap().1.header();
                [
                    header.base_offset.value(),
                    header.last_offset().value(),
                    i64::from(header.crc),
                    i64::from(header.leader_epoch.unwrap().value()),
                ]
            })
            .collect();
        assert_eq!(ours, expected, "{which} {partition}");
        for batch in &expected {
            let epoch =
                log.epoch_at(at(batch[0].max(log.start().value()))).map(|epoch| i64::from(epoch.value()));
            assert_eq!(epoch, Some(batch[3]), "{which} {partition} at {}", batch[0]);
        }
    }
    let raised = store.log(&name("raised-0")).unwrap();
    assert_eq!(raised.start(), at(23), "the log start is in its checkpoint");
    let rolled = store.log(&name("rolled-0")).unwrap();
    assert_eq!(rolled.segment_count(), 4);
    for log in store.logs() {
        append_replicated_at_end(&log);
    }
    turn(&store);
    store.close(serde_json::Map::new(), None).unwrap();
    let (_, report) = open(&disk, kept.path());
    assert!(report.logs.iter().all(|log| !log.suspect), "our own clean stop");
}

fn append_replicated_at_end(log: &crate::log::Log) {
    let end = log.accepted().value();
    let batches = replicated(&[stamped(end, 2, 1_000, 1)]);
    log.append_replicated(&batches, now(1)).unwrap();
}

#[test]
fn a_directory_of_a_killed_kafka_broker() {
    check("killed-1", Stop::Unclean);
}

#[test]
fn a_directory_of_a_kafka_broker_that_stopped_cleanly() {
    check("clean-1", Stop::Clean);
}
