//! Whatever is wrong with the index files of a log, every offset and every time is found and nothing is deleted before its time: an index is
//! derived, and costs time at most.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::test_support::*;
use super::{Job, JobDone};
use crate::checkpoint::CLEAN_MARK;
use crate::disk::{Disk, Open, SimulatedDisk};
use crate::log::{LogConfig, Permit};
use crate::segment::{FileKind, file_path};
use crate::units::{Offset, Timestamp};

const DATA: &str = "/data";
const RECORDS: i64 = 60;
const KINDS: [FileKind; 2] = [FileKind::OffsetIndex, FileKind::TimeIndex];

/// Timestamps that go up in the long run, back and forth in the short, with runs of equal ones.
fn time_of(record: i64) -> i64 {
    1_000 + [0, 5, 5, 5, 2, 9, 9, 3, 9, 4][usize::try_from(record % 10).unwrap()] + record / 10 * 8
}

/// A log of several segments, each with several entries in its indexes, closed cleanly.
fn closed_log(seed: u64, first_time: i64) -> SimulatedDisk {
    let simulated = SimulatedDisk::new(seed);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let (store, _) = open(&disk, Path::new(DATA));
    let log = store.create_log(&name("t-0"), None, small_segments(1_600), now(0)).unwrap();
    for record in 0..RECORDS {
        let time = first_time + time_of(record);
        log.append(Permit::new(epoch(0)), produced(&[b"a value"], time), now(1)).unwrap();
        turn(&store);
    }
    assert_eq!(log.segment_count(), 3);
    store.close(serde_json::Map::new(), None).unwrap();
    simulated
}

fn bases(disk: &SimulatedDisk) -> Vec<Offset> {
    let files = disk.list(&Path::new(DATA).join("t-0")).unwrap();
    let named = files.iter().filter_map(|file| crate::segment::parse_file_name(&file.name));
    named.filter_map(|(base, kind)| (kind == FileKind::Log).then_some(base)).collect()
}

fn index_path(base: Offset, kind: FileKind) -> PathBuf {
    file_path(&Path::new(DATA).join("t-0"), base, kind)
}

fn replace(disk: &SimulatedDisk, path: &Path, bytes: &[u8]) {
    let file = disk.open(path, Open::Create).unwrap();
    file.set_size(0).unwrap();
    file.write_all_at(bytes, 0).unwrap();
}

/// What a log answers to everything that it can be asked of offsets and times.
#[derive(Debug, PartialEq, Eq)]
struct Answers {
    batches: Vec<Offset>,
    times: Vec<Option<(Offset, Timestamp)>>,
    latest: Option<(Offset, Timestamp)>,
    /// The log's start when what is older than the second segment's last record may go.
    start_after_retention: Offset,
}

fn answers(disk: &SimulatedDisk) -> Answers {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, report) = open(&shared, Path::new(DATA));
    assert!(report.logs[0].plan.damaged.is_empty() && report.logs[0].cut_bytes == 0, "{:?}", report.logs);
    let log = store.log(&name("t-0")).unwrap();
    let batches = (0..RECORDS).map(|offset| read(&store, &log, offset, 1).unwrap().first).collect();
    let time = |millis| log.offset_for_timestamp(Timestamp::from_millis(millis), Offset::MAX).unwrap();
    let times =
        (990..1_070).map(|millis| time(millis).map(|found| (found.offset, found.timestamp))).collect();
    let latest = log.max_timestamp(Offset::MAX).unwrap().map(|found| (found.offset, found.timestamp));
    let aged = LogConfig { retention_age: Some(Duration::from_millis(10)), ..small_segments(1_600) };
    store.set_config(log.id(), aged).unwrap();
    let second = bases(disk)[2].value();
    let youngest = (0..second).map(time_of).max().unwrap();
    let limit = now(u64::try_from(youngest).unwrap() + 10);
    let done = Job::Retention { log: log.id(), ceiling: Offset::MAX, now: limit }.run(&store);
    let JobDone::Retained { start, .. } = done else { panic!("{done:?}") };
    Answers { batches, times, latest, start_after_retention: start }
}

/// How the log was left, apart from its indexes.
#[derive(Clone, Copy, Debug)]
enum Left {
    Cleanly,
    /// By a Kafka: its mark knows nothing of the files.
    ByKafka,
    /// Opened and killed, everything synced.
    Killed,
}

const LEFT: [Left; 3] = [Left::Cleanly, Left::ByKafka, Left::Killed];

fn left(seed: u64, how: Left) -> SimulatedDisk {
    let disk = closed_log(seed, 0);
    let mark = Path::new(DATA).join(CLEAN_MARK);
    match how {
        Left::Cleanly => {}
        Left::ByKafka => replace(&disk, &mark, br#"{"version":0,"brokerEpoch":7}"#),
        Left::Killed => disk.remove_file(&mark).unwrap(),
    }
    disk
}

#[test]
fn no_flipped_byte_of_an_index_hides_a_record_or_deletes_one_early() {
    for how in LEFT {
        let whole = left(40, how);
        let truth = answers(&whole.fork(1));
        assert_eq!(truth.start_after_retention, bases(&whole)[1], "one segment is old enough");
        let mut flips = 0;
        for (base, kind) in bases(&whole).into_iter().flat_map(|base| KINDS.map(|kind| (base, kind))) {
            let path = index_path(base, kind);
            let bytes = whole.contents(&path).unwrap();
            for (at, byte) in bytes.iter().enumerate() {
                for flip in [0x01, 0x08, 0xff] {
                    let disk = whole.fork(2);
                    disk.damage(&path, at as u64, &[byte ^ flip]).unwrap();
                    assert_eq!(answers(&disk), truth, "{how:?}: byte {at} of {} xor {flip}", path.display());
                    flips += 1;
                }
            }
        }
        assert!(flips > 1_000, "{flips}");
    }
}

#[test]
fn an_index_that_is_cut_anywhere_or_goes_on_in_zeros_hides_nothing() {
    for how in LEFT {
        let whole = left(41, how);
        let truth = answers(&whole.fork(1));
        for (base, kind) in bases(&whole).into_iter().flat_map(|base| KINDS.map(|kind| (base, kind))) {
            let path = index_path(base, kind);
            let bytes = whole.contents(&path).unwrap();
            for length in 0..bytes.len() + 40 {
                let disk = whole.fork(2);
                disk.open(&path, Open::Write).unwrap().set_size(length as u64).unwrap();
                assert_eq!(answers(&disk), truth, "{how:?}: {} cut to {length}", path.display());
            }
        }
    }
}

#[test]
fn an_index_that_is_gone_or_garbage_or_that_of_others_hides_nothing() {
    let other = closed_log(50, 7);
    for how in LEFT {
        let whole = left(42, how);
        let truth = answers(&whole.fork(1));
        let bases = bases(&whole);
        for (number, base) in bases.iter().enumerate() {
            let neighbour = bases[(number + 1) % bases.len()];
            for kinds in [&KINDS[..1], &KINDS[1..], &KINDS[..]] {
                for replacement in ["gone", "empty", "two bytes", "garbage", "a neighbour's", "another log's"]
                {
                    let disk = whole.fork(2);
                    for kind in kinds {
                        let path = index_path(*base, *kind);
                        match replacement {
                            "gone" => disk.remove_file(&path).unwrap(),
                            "empty" => replace(&disk, &path, b""),
                            "two bytes" => replace(&disk, &path, b"ab"),
                            "garbage" => replace(&disk, &path, &[0x5a; 240]),
                            "a neighbour's" => {
                                let bytes = whole.contents(&index_path(neighbour, *kind)).unwrap();
                                replace(&disk, &path, &bytes);
                            }
                            _ => replace(&disk, &path, &other.contents(&path).unwrap()),
                        }
                    }
                    assert_eq!(answers(&disk), truth, "{how:?}: {kinds:?} of {base}: {replacement}");
                }
            }
        }
    }
}

#[test]
fn an_index_without_a_segment_goes_and_so_does_what_points_behind_the_log() {
    for how in LEFT {
        let disk = left(43, how);
        let truth = answers(&disk.fork(1));
        let last = *bases(&disk).last().unwrap();
        let beyond: Vec<u8> = [[0, 0, 0x10, 0], [0, 0, 0x40, 0]].concat();
        let offsets = [disk.contents(&index_path(last, FileKind::OffsetIndex)).unwrap(), beyond].concat();
        replace(&disk, &index_path(last, FileKind::OffsetIndex), &offsets);
        for kind in KINDS {
            replace(&disk, &index_path(at(7), kind), &[1; 24]);
        }
        assert_eq!(answers(&disk), truth, "{how:?}");
        for kind in KINDS {
            assert!(disk.contents(&index_path(at(7), kind)).is_err(), "{how:?}: an index of no segment");
        }
    }
}

#[test]
fn a_follower_has_an_index_entry_for_each_batch_of_what_it_appends_at_once() {
    let simulated = SimulatedDisk::new(44);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let (store, _) = open(&disk, Path::new(DATA));
    let config = LogConfig { index_interval_bytes: 0, ..LogConfig::default() };
    let log = store.create_log(&name("t-0"), None, config, now(0)).unwrap();
    let batches: Vec<_> = (0..20).map(|number| stamped(number * 2, 2, 1, 1_000 + number)).collect();
    log.append_replicated(&replicated(&batches), now(1)).unwrap();
    turn(&store);
    let found = log.offset_for_timestamp(Timestamp::from_millis(1_011), Offset::MAX).unwrap().unwrap();
    assert_eq!((found.offset, found.epoch), (at(22), Some(epoch(1))));
    store.close(serde_json::Map::new(), None).unwrap();
    // None for the first batch, and the time index has a last entry of its own.
    assert_eq!(simulated.contents(&index_path(at(0), FileKind::OffsetIndex)).unwrap().len(), 19 * 8);
    assert_eq!(simulated.contents(&index_path(at(0), FileKind::TimeIndex)).unwrap().len(), 19 * 12);
}

/// How the log was left whose segment has bytes that are no batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holed {
    Cleanly,
    /// And the segment's indexes are gone.
    WithoutIndexes,
    /// Killed in a write, so that the opening cuts.
    Torn,
}

#[test]
fn bytes_below_the_start_that_are_no_batch_hide_no_time_above_it() {
    for (number, behind) in [1, 2].into_iter().flat_map(|number| (2..12).map(move |behind| (number, behind)))
    {
        let whole = closed_log(45, 0);
        let base = bases(&whole)[number];
        let next = bases(&whole).get(number + 1).map_or(RECORDS, |next| next.value());
        let start = at(base.value() + behind);
        let (store, _) = open(&(Arc::new(whole.clone()) as Arc<dyn Disk>), Path::new(DATA));
        Job::RaiseStart { log: store.log(&name("t-0")).unwrap().id(), to: start }.run(&store);
        store.close(serde_json::Map::new(), None).unwrap();
        let path = index_path(base, FileKind::Log);
        let bytes = whole.contents(&path).unwrap();
        let batch = bytes.len() / usize::try_from(next - base.value()).unwrap();
        let hole = usize::try_from(behind - 1).unwrap() * batch;
        let field = |at: usize, value: usize| (hole + at, vec![u8::try_from(value).unwrap()]);
        let faults = [
            ("zeros", (hole, vec![0; batch])),
            ("a length that reaches farther", field(11, 3 * batch - 12)),
            ("a greater offset", field(7, hole / batch + 100 + usize::try_from(base.value()).unwrap())),
            ("a wrong byte", field(batch - 1, 0xff)),
        ];
        for (what, (position, wrong)) in faults {
            for left in [Holed::Cleanly, Holed::WithoutIndexes, Holed::Torn] {
                let disk = whole.fork(3);
                disk.damage(&path, position as u64, &wrong).unwrap();
                if left == Holed::WithoutIndexes {
                    for kind in KINDS {
                        disk.remove_file(&index_path(base, kind)).unwrap();
                    }
                }
                if left == Holed::Torn {
                    disk.remove_file(&Path::new(DATA).join(CLEAN_MARK)).unwrap();
                    let last = index_path(*bases(&disk).last().unwrap(), FileKind::Log);
                    let size = disk.contents(&last).unwrap().len() as u64;
                    disk.open(&last, Open::Write).unwrap().write_all_at(&bytes[..70], size).unwrap();
                }
                let (store, report) = open(&(Arc::new(disk) as Arc<dyn Disk>), Path::new(DATA));
                assert_eq!(report.logs[0].cut_bytes > 0, left == Holed::Torn);
                let log = store.log(&name("t-0")).unwrap();
                assert_eq!((log.start(), log.written()), (start, at(RECORDS)), "{what}");
                // What is met is examined, so that from then on it is known.
                assert!((start.value()..RECORDS).all(|offset| read(&store, &log, offset, 1).is_some()));
                for millis in 990..1_070 {
                    let found =
                        log.offset_for_timestamp(Timestamp::from_millis(millis), Offset::MAX).unwrap();
                    let found = found.map(|found| found.offset.value());
                    let truth = (start.value()..RECORDS).find(|record| time_of(*record) >= millis);
                    assert_eq!(found, truth, "{what} before {start}, {left:?}: {millis} ms");
                }
            }
        }
    }
}
