//! When a segment is full, too old, or has no room in its index, and what goes into the next one.

use std::sync::Arc;
use std::time::Duration;

use super::test_support::*;
use super::{Job, Store, StoreConfig};
use crate::batch::{BatchBuilder, BatchLimits, Compression, ProducedBatch};
use crate::disk::{Disk, SimulatedDisk};
use crate::log::{AppendError, Demand, Log, LogConfig, Need, Permit, ReplicaAppendError, Step};
use crate::segment::{FileKind, parse_file_name};
use crate::units::Timestamp;

fn simulated() -> (Arc<dyn Disk>, &'static std::path::Path) {
    (Arc::new(SimulatedDisk::new(60)), std::path::Path::new("/data"))
}

fn log_with(config: LogConfig) -> (Store, Log) {
    let (disk, directory) = simulated();
    let (store, _) = open(&disk, directory);
    let log = store.create_log(&name("t-0"), None, config, now(0)).unwrap();
    (store, log)
}

fn bases(store: &Store, log: &Log) -> Vec<i64> {
    let files = store.disk().list(log.directory()).unwrap();
    let named = files.iter().filter_map(|file| parse_file_name(&file.name));
    named.filter_map(|(base, kind)| (kind == FileKind::Log).then_some(base.value())).collect()
}

#[test]
fn a_segment_takes_what_fits_and_not_a_byte_more() {
    let (store, log) = log_with(LogConfig::default());
    append(&log, 1);
    turn(&store);
    let batch_bytes = u32::try_from(log.size_bytes()).unwrap();
    for (segment_bytes, expected) in [
        (5 * batch_bytes, vec![0, 5, 10]),
        (6 * batch_bytes - 1, vec![0, 5, 10]),
        (5 * batch_bytes - 1, vec![0, 4, 8]),
        (batch_bytes, (0..12).collect()),
    ] {
        let (store, log) = log_with(small_segments(segment_bytes));
        for _ in 0..12 {
            append(&log, 1);
        }
        turn(&store);
        assert_eq!(bases(&store, &log), expected, "segments of {segment_bytes} bytes");
    }
}

/// Of two threads that find a segment full one makes the next, and the other one asks for what the first has made. A second segment in the
/// same file would cut it when it is sealed.
#[test]
fn who_asks_for_a_segment_that_another_thread_has_made_gets_no_second_one() {
    let (store, log) = log_with(small_segments(1_000));
    for _ in 0..3 {
        log.append(Permit::new(epoch(0)), produced(&[&[7; 400]], 1), now(1)).unwrap();
    }
    assert_eq!(bases(&store, &log), [0, 2]);
    for last in [0, 1, 2, 3] {
        let of_before =
            Demand { bytes: 470, first: at(last), last: at(last), max_timestamp: None, now: now(1).wall };
        log.0.make_room(&of_before).unwrap();
    }
    assert_eq!(log.0.view().segments.len(), 2);
    log.append(Permit::new(epoch(0)), produced(&[&[7; 400]], 1), now(1)).unwrap();
    store.wait(log.ticket(), Step::Durable).unwrap();
    assert_eq!(read_all(&store, &log, 0).len() as u64, log.size_bytes());
}

#[test]
fn what_is_larger_than_a_segment_is_refused_from_a_producer_and_taken_from_a_leader() {
    let (store, log) = log_with(small_segments(1_000));
    let large = vec![7; 3_000];
    let refused = log.append(Permit::new(epoch(0)), produced(&[&large], 1), now(1));
    assert!(matches!(refused, Err(AppendError::TooLarge { bytes_max: 1_000, .. })), "{refused:?}");
    append(&log, 2);
    let mut builder = BatchBuilder::new(Compression::None).base_offset(at(2)).leader_epoch(epoch(0));
    builder.push(None, None, Some(&large), &[]).unwrap();
    let batches = [builder.finish().unwrap(), stamped(3, 1, 0, 1)];
    assert_eq!(log.append_replicated(&replicated(&batches), now(1)).unwrap().offsets.end(), at(4));
    turn(&store);
    assert_eq!(bases(&store, &log), [0, 2, 3]);
    assert_eq!(read(&store, &log, 2, 1).unwrap().end, at(3), "and given out whole");
}

/// What no opening would take for a batch is not taken before either: a kill would have it cut off as a torn end.
#[test]
fn what_is_larger_than_a_batch_on_disk_may_be_is_refused_from_whoever_brings_it() {
    let (disk, directory) = simulated();
    let with = |batch_bytes_max| StoreConfig { batch_bytes_max, ..StoreConfig::default() };
    let (store, _) = open_with(&disk, directory, with(400 << 10));
    let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
    let value = |bytes: usize| vec![7; bytes];
    let permit = Permit::new(epoch(0));
    log.append(permit, produced(&[&value(390 << 10)], 1), now(1)).unwrap();
    let refused = log.append(permit, produced(&[&value(400 << 10)], 1), now(1));
    assert!(matches!(refused, Err(AppendError::TooLarge { bytes_max: 409_600, .. })), "{refused:?}");
    let mut builder = BatchBuilder::new(Compression::None).base_offset(at(1)).leader_epoch(epoch(0));
    builder.push(None, None, Some(&value(400 << 10)), &[]).unwrap();
    let refused = log.append_replicated(&replicated(&[builder.finish().unwrap()]), now(1));
    assert!(matches!(refused, Err(ReplicaAppendError::TooLarge { bytes_max: 409_600, .. })), "{refused:?}");
    turn(&store);
    let batches = read_all(&store, &log, 0);
    drop((log, store));
    let (store, report) = open_with(&disk, directory, with(400 << 10));
    assert_eq!(report.logs[0].cut_bytes, 0, "{report:?}");
    assert_eq!(read_all(&store, &store.log(&name("t-0")).unwrap(), 0), batches);
    drop(store);
    let (store, report) = open_with(&disk, directory, with(300 << 10));
    assert!(report.logs[0].cut_bytes > 0 && report.logs[0].suspect, "no torn end: {report:?}");
    let files = disk.list(store.log(&name("t-0")).unwrap().directory()).unwrap();
    assert!(
        files.iter().any(|file| file.name == "00000000000000000000-0.lost"),
        "its bytes are kept: {files:?}"
    );
}

fn without_time() -> ProducedBatch {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(None, None, Some(b"x"), &[]).unwrap();
    let bytes = builder.finish().unwrap();
    ProducedBatch::check(bytes, &BatchLimits::default(), Timestamp::from_millis(0)).unwrap()
}

fn one_second() -> LogConfig {
    LogConfig { segment_age_max: Duration::from_secs(1), ..LogConfig::default() }
}

#[test]
fn age_is_reckoned_from_the_first_batchs_greatest_time_and_without_one_by_the_clock() {
    let permit = Permit::new(epoch(0));
    let (_store, log) = log_with(one_second());
    for (now_ms, segments) in [(50_000, 1), (50_900, 1), (51_000, 1), (51_001, 2), (52_001, 2), (52_002, 3)] {
        log.append(permit, without_time(), now(now_ms)).unwrap();
        assert_eq!(log.segment_count(), segments, "at {now_ms}");
    }
    // Where the first batch has a time, a batch without one, and one that is dated back, never are too young.
    let (_store, log) = log_with(one_second());
    log.append(permit, produced(&[b"x"], 5_000), now(5_000)).unwrap();
    log.append(permit, without_time(), now(99_000)).unwrap();
    log.append(permit, produced(&[b"x"], 10), now(99_000)).unwrap();
    assert_eq!(log.segment_count(), 1);
    log.append(permit, produced(&[b"x"], 6_001), now(99_000)).unwrap();
    assert_eq!(log.segment_count(), 2);
}

#[test]
fn the_age_of_a_segment_that_was_cut_to_nothing_begins_anew() {
    let (store, log) = log_with(one_second());
    let permit = Permit::new(epoch(0));
    log.append(permit, without_time(), now(10)).unwrap();
    turn(&store);
    Job::Truncate { log: log.id(), to: at(0) }.run(&store);
    for now_ms in [20_000, 20_500, 21_000] {
        log.append(permit, without_time(), now(now_ms)).unwrap();
    }
    assert_eq!(log.segment_count(), 1, "what was cut long ago made nothing old");
    log.append(permit, without_time(), now(21_001)).unwrap();
    assert_eq!(log.segment_count(), 2);
}

#[test]
fn jitter_lets_a_segment_roll_earlier_and_never_by_more_than_it_says_or_later() {
    let config = LogConfig { segment_jitter_max: Duration::from_millis(500), ..one_second() };
    let (mut early, mut late) = (0, 0);
    let (disk, directory) = simulated();
    let (store, _) = open(&disk, directory);
    let permit = Permit::new(epoch(0));
    for number in 0..40 {
        let log = store.create_log(&name(&format!("t-{number}")), None, config.clone(), now(0)).unwrap();
        let counts = [0, 500, 750, 1_001].map(|ms| {
            log.append(permit, produced(&[b"x"], ms), now(1)).unwrap();
            log.segment_count()
        });
        assert_eq!((counts[1], counts[3]), (1, 2), "{counts:?}");
        if counts[2] == 2 { early += 1 } else { late += 1 }
    }
    assert!(early > 5 && late > 5, "{early} early, {late} late");
}

#[test]
fn a_segment_without_room_in_its_index_rolls_and_everything_is_found() {
    for (index_bytes_max, batches_max) in [(0, 1), (36, 4), (100, 9)] {
        let config = LogConfig { index_bytes_max, index_interval_bytes: 0, ..LogConfig::default() };
        let (store, log) = log_with(config);
        for ms in 0..40 {
            log.append(Permit::new(epoch(0)), produced(&[b"x"], ms), now(1)).unwrap();
        }
        turn(&store);
        let bases = bases(&store, &log);
        assert!(bases.len() > 4, "{index_bytes_max}: {bases:?}");
        assert!(bases.windows(2).all(|two| two[1] - two[0] <= batches_max), "{index_bytes_max}: {bases:?}");
        for offset in 0..40 {
            assert_eq!(read(&store, &log, offset, 1).unwrap().first, at(offset));
            let found = log.offset_for_timestamp(Timestamp::from_millis(offset), crate::units::Offset::MAX);
            assert_eq!(found.unwrap().unwrap().offset, at(offset));
        }
    }
}

#[test]
fn recovery_needs_no_more_room_in_an_index_than_there_is() {
    let simulated = SimulatedDisk::new(61);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let directory = std::path::Path::new("/data");
    let config = LogConfig { index_interval_bytes: 0, ..LogConfig::default() };
    let (store, _) = open(&disk, directory);
    let log = store.create_log(&name("t-0"), None, config, now(0)).unwrap();
    for _ in 0..40 {
        append(&log, 1);
    }
    turn(&store);
    let next: Arc<dyn Disk> = Arc::new(simulated.crash_kill(&mut fastrand::Rng::with_seed(61)));
    let lowered = LogConfig { index_bytes_max: 24, index_interval_bytes: 0, ..LogConfig::default() };
    let (store, report) = open_with(&next, directory, StoreConfig { log: lowered, ..StoreConfig::default() });
    assert_eq!(report.logs[0].end, at(40), "{}", report.logs[0].plan);
    let log = store.log(&name("t-0")).unwrap();
    for offset in 0..40 {
        assert_eq!(read(&store, &log, offset, 1).unwrap().first, at(offset));
    }
    assert_eq!(append(&log, 1).offsets.start(), at(40));
    assert_eq!(log.segment_count(), 2, "the old one is full");
}

#[test]
fn a_segment_near_the_greatest_size_rolls_before_its_positions_overflow() {
    let greatest = LogConfig { segment_bytes_max: u32::MAX, ..LogConfig::default() };
    let (store, log) = log_with(greatest.clone());
    append(&log, 1);
    turn(&store);
    let mut writer = log.0.writer();
    let end = at(1);
    let demand = Demand { bytes: 100, first: end, last: end, max_timestamp: None, now: Timestamp::default() };
    let position_max = u64::from(i32::MAX.unsigned_abs());
    for (size, need) in [
        (position_max - 100, None),
        (position_max - 99, Some(Need::Roll)),
        (position_max, Some(Need::Roll)),
        (u64::from(u32::MAX) - 100, Some(Need::Roll)),
    ] {
        (writer.active.size, writer.active.reserved) = (size, u64::MAX);
        assert_eq!(writer.active.need(&demand, &greatest), need, "of {size} bytes");
    }
}
