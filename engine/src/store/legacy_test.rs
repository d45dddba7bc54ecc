//! Partitions with messages of the formats before magic 2, plain, compressed, and mixed with batches of magic 2, as a Kafka that was upgraded
//! through the years has them: they are opened, read byte for byte, found by time and verified, and nothing is written over them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::test_support::*;
use super::*;
use crate::disk::{Disk, PosixDisk, SyncThread};
use crate::log::{LogConfig, Read};
use crate::units::{Offset, Timestamp};

/// A set as a broker has stored it: producers leave the offset, and the time of a compressed message, to it. That checksum covers the time.
fn stored(mut batch: Vec<u8>, here: &[(i64, i64)]) -> Vec<u8> {
    let Some((last, _)) = here.last() else { return batch };
    let is_compressed = batch[17] & 7 != 0;
    match batch[16] {
        0 | 1 if is_compressed => {
            batch[..8].copy_from_slice(&last.to_be_bytes());
            if batch[16] == 1 {
                let latest = here.iter().map(|(_, time)| *time).max().unwrap();
                batch[18..26].copy_from_slice(&latest.to_be_bytes());
            }
            let crc = crc32fast::hash(&batch[16..]);
            batch[12..16].copy_from_slice(&crc.to_be_bytes());
        }
        _ => {}
    }
    batch
}

/// A record set, the bytes of its segments by their bases, and its records.
struct Set {
    name: String,
    segments: Vec<(i64, Vec<u8>)>,
    records: Vec<(i64, i64)>,
}

fn sets() -> Vec<Set> {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/record-sets");
    let mut sets = Vec::new();
    for name in
        ["v0-none", "v0-gzip", "v0-snappy", "v1-none", "v1-gzip", "v1-snappy", "v1-lz4", "mixed-upgrade"]
    {
        let bytes = std::fs::read(testdata.join(name).with_extension("log")).unwrap();
        let description = std::fs::read(testdata.join(name).with_extension("json")).unwrap();
        let description: Value = serde_json::from_slice(&description).unwrap();
        let record =
            |record: &Value| (record["offset"].as_i64().unwrap(), record["timestamp"].as_i64().unwrap());
        let records: Vec<_> = description["records"].as_array().unwrap().iter().map(record).collect();
        let (mut segments, mut rest, mut left) = (Vec::new(), bytes.as_slice(), records.as_slice());
        for batch in description["batches"].as_array().unwrap() {
            // What is of today is put behind it by the tests.
            if batch["magic"] == 2 {
                break;
            }
            let number = |name: &str| usize::try_from(batch[name].as_u64().unwrap()).unwrap();
            let (here, behind) = left.split_at(number("count"));
            let (batch, behind_it) = rest.split_at(number("size"));
            segments.push((here[0].0, stored(batch.to_vec(), here)));
            (rest, left) = (behind_it, behind);
        }
        let records = records[..records.len() - left.len()].to_vec();
        let whole = segments.iter().flat_map(|(_, bytes)| bytes).copied().collect();
        sets.push(Set { name: name.to_owned(), segments: vec![(0, whole)], records: records.clone() });
        // The same in a segment for each batch, or run of messages.
        sets.push(Set { name: format!("{name} in {} segments", segments.len()), segments, records });
    }
    sets
}

impl Set {
    fn bytes(&self) -> Vec<u8> {
        self.segments.iter().flat_map(|(_, bytes)| bytes).copied().collect()
    }

    fn end(&self) -> i64 {
        self.records.last().unwrap().0 + 1
    }

    fn write(&self, directory: &Path) {
        let partition = directory.join("legacy-0");
        std::fs::create_dir_all(&partition).unwrap();
        for (base, bytes) in &self.segments {
            std::fs::write(partition.join(format!("{base:020}.log")), bytes).unwrap();
        }
    }

    fn check(&self, store: &Store, log: &Log, who: &str) {
        assert!(log.damaged().is_empty(), "{who}: {:?}", log.damaged());
        assert_eq!((log.start(), log.written().value()), (at(0), self.end()), "{who}");
        assert_eq!(read_all(store, log, 0), self.bytes(), "{who}");
        for (offset, _) in &self.records {
            // Whatever holds the record comes first.
            let read = read(store, log, *offset, 1).unwrap();
            assert!(read.end.value() > *offset, "{who}: {offset} gives what ends at {}", read.end);
        }
        self.check_times(log, who);
    }

    fn check_times(&self, log: &Log, who: &str) {
        let mut times: Vec<i64> =
            self.records.iter().map(|(_, time)| *time).filter(|time| *time >= 0).collect();
        let greatest = times.iter().max().copied();
        times.extend(times.clone().iter().flat_map(|time| [time - 1, time + 1]));
        for time in times {
            let expected = self.records.iter().find(|(_, of)| *of >= time).copied();
            let found = log.offset_for_timestamp(Timestamp::from_millis(time), Offset::MAX).unwrap();
            let found = found.map(|found| (found.offset.value(), found.timestamp.millis()));
            assert_eq!(found, expected, "{who}: the first from {time} on");
        }
        let expected = self.records.iter().find(|(_, time)| Some(*time) == greatest).copied();
        let found = log.max_timestamp(Offset::MAX).unwrap();
        assert_eq!(found.map(|found| (found.offset.value(), found.timestamp.millis())), expected, "{who}");
    }
}

fn opened(directory: &Path) -> (Store, Log, OpenReport) {
    let disk: Arc<dyn Disk> = Arc::new(PosixDisk::new(SyncThread::Never));
    let (store, report) = open(&disk, directory);
    assert!(report.refused.is_empty(), "{:?}", report.refused);
    let log = store.log(&name("legacy-0")).unwrap();
    (store, log, report)
}

fn verify(directory: &Path, who: &str) {
    let disk: Arc<dyn Disk> = Arc::new(PosixDisk::new(SyncThread::Never));
    let looker = ReadOnlyStore::open(&disk, directory, StoreConfig::default()).unwrap();
    let verified = looker.verify_log(&name("legacy-0"), &|_| {}).unwrap();
    assert!(verified.findings.is_empty(), "{who}: {:?}", verified.findings);
    for path in segment_files(directory) {
        let alone = ReadOnlyStore::verify_file(&disk, &path, 1 << 20, &|_| {}).unwrap().unwrap();
        assert!(alone.findings.is_empty(), "{who}: {:?}", alone.findings);
    }
}

fn segment_files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory.join("legacy-0")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|kind| kind == "log")).collect()
}

#[test]
fn partitions_of_old_formats_are_opened_read_and_verified_after_each_kind_of_stop() {
    for set in sets() {
        for is_clean in [true, false] {
            let kept = tempfile::tempdir().unwrap();
            let (directory, who) = (kept.path(), format!("{}, clean {is_clean}", set.name));
            set.write(directory);
            if is_clean {
                let end = set.end();
                std::fs::write(directory.join(".kafka_cleanshutdown"), r#"{"version":0,"brokerEpoch":7}"#)
                    .unwrap();
                std::fs::write(
                    directory.join("recovery-point-offset-checkpoint"),
                    format!("0\n1\nlegacy 0 {end}\n"),
                )
                .unwrap();
            }
            let (store, log, _) = opened(directory);
            set.check(&store, &log, &who);
            store.close(serde_json::Map::new(), None).unwrap();
            verify(directory, &who);
            // Behind our own stop, and behind a kill.
            for stop in ["our stop", "a kill"] {
                let (store, log, report) = opened(directory);
                let who = format!("{who}, behind {stop}");
                assert!(!report.logs[0].suspect, "{who}: {}", report.logs[0].plan);
                set.check(&store, &log, &who);
                drop(store);
            }
        }
    }
}

#[test]
fn records_of_today_go_behind_messages_of_old_formats() {
    for set in sets() {
        let kept = tempfile::tempdir().unwrap();
        set.write(kept.path());
        let (store, log, _) = opened(kept.path());
        let who = &set.name;
        append(&log, 3);
        turn(&store);
        assert_eq!(log.written().value(), set.end() + 3, "{who}");
        store.close(serde_json::Map::new(), None).unwrap();
        verify(kept.path(), who);
        let (store, log, _) = opened(kept.path());
        let all = read_all(&store, &log, 0);
        assert!(all.starts_with(&set.bytes()) && all.len() > set.bytes().len(), "{who}");
        // Cut back to them, and inside of the last one, which goes as a whole.
        for to in [set.end(), set.end() - 1] {
            let done = Job::Truncate { log: log.id(), to: at(to) }.run(&store);
            let JobDone::Truncated { end, .. } = done else { panic!("{who}: {done:?}") };
            assert!(end <= at(to), "{who}");
        }
        append(&log, 1);
        turn(&store);
        store.close(serde_json::Map::new(), None).unwrap();
        verify(kept.path(), who);
    }
}

#[test]
fn retention_goes_by_the_times_of_old_messages_and_messages_without_time_by_their_files() {
    for set in sets().into_iter().filter(|set| set.segments.len() > 1) {
        let kept = tempfile::tempdir().unwrap();
        set.write(kept.path());
        let (store, log, _) = opened(kept.path());
        let config =
            LogConfig { retention_age: Some(std::time::Duration::from_hours(1)), ..LogConfig::default() };
        store.set_config(log.id(), config).unwrap();
        let late = crate::units::Now {
            wall: Timestamp::from_millis(1_600_000_000_000 + 3 * 3_600_000),
            ..crate::units::Now::default()
        };
        let done = Job::Retention { log: log.id(), ceiling: Offset::MAX, now: late }.run(&store);
        let JobDone::Retained { start, .. } = done else { panic!("{}: {done:?}", set.name) };
        // What has a time is old; the files are of today.
        let expected = if set.records[0].1 >= 0 { set.end() } else { 0 };
        assert_eq!(start.value(), expected, "{}", set.name);
        assert!(matches!(
            log.read(start, Offset::MAX, 1, true),
            Ok(Read::Empty | Read::Records(_) | Read::Cold(_))
        ));
    }
}
