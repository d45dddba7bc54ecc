//! Logs at the end of what offsets can express, with gaps as wide as a segment, with segments that have nothing in them, and with times that
//! go backwards over all of them: what is read, found by time, opened again and verified.

use std::path::Path;
use std::sync::Arc;

use super::test_support::*;
use super::*;
use crate::batch::scan;
use crate::disk::{Disk, SimulatedDisk};
use crate::log::{AppendError, Cleanup, Permit, Read};
use crate::units::{Offset, Timestamp};

const DIRECTORY: &str = "/data";

fn config(cleanup: Cleanup) -> StoreConfig {
    let log = crate::log::LogConfig { cleanup, ..small_segments(400) };
    StoreConfig { log, tail_bytes_max: 0, ..StoreConfig::default() }
}

fn place(cleanup: Cleanup) -> (Arc<dyn Disk>, Store, Log) {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(3));
    let (store, _) = open_with(&disk, Path::new(DIRECTORY), config(cleanup));
    let log = store.create_log(&name("t-0"), None, config(cleanup).log, now(0)).unwrap();
    (disk, store, log)
}

/// First and last offset of each batch from here on.
fn places(store: &Store, log: &Log, from: i64) -> Vec<(i64, i64)> {
    let bytes = read_all(store, log, from);
    let headers = scan(&bytes, 0).map(|batch| *batch.unwrap().1.header());
    headers.map(|header| (header.base_offset.value(), header.last_offset().value())).collect()
}

/// The same after a kill and after a clean stop, with nothing to be found by one who looks.
fn check_lives(disk: &Arc<dyn Disk>, store: Store, from: i64, expected: &[(i64, i64)]) {
    let config = store.config().clone();
    drop(store);
    for is_last in [false, true] {
        let (store, report) = open_with(disk, Path::new(DIRECTORY), config.clone());
        assert!(
            report.logs.iter().all(|log| log.plan.damaged.is_empty() && log.cut_bytes == 0),
            "{report:?}"
        );
        let log = store.log(&name("t-0")).unwrap();
        assert_eq!(places(&store, &log, from), expected, "last: {is_last}");
        store.close(serde_json::Map::new(), None).unwrap();
        let looker = ReadOnlyStore::open(disk, Path::new(DIRECTORY), config.clone()).unwrap();
        let found = looker.verify_log(&name("t-0"), &|_| {}).unwrap().findings;
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn a_log_ends_with_the_greatest_offset_and_says_so() {
    let (disk, store, log) = place(Cleanup::Delete);
    let start = i64::MAX - 11;
    Job::RestartAt { log: log.id(), offset: at(start) }.run(&store);
    let mut refused = None;
    for number in 0..5 {
        match log.append(Permit::new(epoch(0)), produced(&[b"a", b"b", b"c"], number), now(1)) {
            Ok(_) => drop(turn(&store)),
            Err(error) => refused = Some(error),
        }
    }
    assert!(matches!(refused, Some(AppendError::OffsetsExhausted { .. })), "{refused:?}");
    let expected: Vec<_> = (0..3).map(|number| (start + 3 * number, start + 3 * number + 2)).collect();
    assert_eq!(places(&store, &log, start), expected);
    let found = log.offset_for_timestamp(Timestamp::from_millis(2), Offset::MAX).unwrap().unwrap();
    assert_eq!(found.offset, at(start + 6));
    check_lives(&disk, store, start, &expected);
}

#[test]
fn gaps_as_wide_as_a_segment_can_be_and_wider_are_read_over() {
    // What a follower of a compacted log is sent.
    let (disk, store, log) = place(Cleanup::Compact);
    let wide = i64::from(i32::MAX);
    let mut expected = Vec::new();
    // Within a segment, to its last offset, behind it, and far away.
    for base in [0, 1, wide - 1, wide + 1, 3 * wide, i64::MAX - 4] {
        log.append_replicated(&replicated(&[stamped(base, 1, 0, 7)]), now(1)).unwrap();
        turn(&store);
        expected.push((base, base));
    }
    assert_eq!(places(&store, &log, 0), expected);
    for (base, _) in &expected {
        let before = base.saturating_sub(1).max(0);
        let first = read(&store, &log, before, 1).unwrap().first;
        assert!(first == at(*base) || first == at(before), "{base}: {first}");
    }
    assert_eq!(log.max_timestamp(Offset::MAX).unwrap().unwrap().offset, at(0));
    check_lives(&disk, store, 0, &expected);
}

#[test]
fn times_that_go_backwards_are_found_across_all_segments() {
    let seed = std::env::var("HIGHWATER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let mut rng = fastrand::Rng::with_seed(seed);
    let (disk, store, log) = place(Cleanup::Delete);
    let mut times = Vec::new();
    for _ in 0..60 {
        let time = rng.i64(0..40);
        log.append(Permit::new(epoch(0)), produced(&[b"some value", b"another"], time), now(1)).unwrap();
        turn(&store);
        times.extend([time, time]);
        if rng.u8(..10) == 0 {
            // An empty last segment, and later perhaps a first one below the start.
            Job::RaiseStart { log: log.id(), to: at(rng.i64(log.start().value()..=log.written().value())) }
                .run(&store);
        }
    }
    assert!(log.segment_count() > 10);
    let check = |log: &Log, why: &str| {
        for ceiling in [times.len(), 71, 40] {
            let inside = || {
                let offsets = (0_i64..).zip(times.iter().copied()).take(ceiling);
                offsets.filter(|(offset, _)| *offset >= log.start().value())
            };
            for time in -1..42 {
                let expected = inside().find(|(_, at)| *at >= time);
                let ceiling = at(i64::try_from(ceiling).unwrap());
                let found = log.offset_for_timestamp(Timestamp::from_millis(time), ceiling).unwrap();
                let found = found.map(|found| (found.offset.value(), found.timestamp.millis()));
                assert_eq!(found, expected, "seed {seed}, {why}, time {time} below {ceiling}");
            }
            let greatest = inside().map(|(_, at)| at).max();
            let expected = inside().find(|(_, at)| Some(*at) == greatest);
            let found = log.max_timestamp(at(i64::try_from(ceiling).unwrap())).unwrap();
            let found = found.map(|found| (found.offset.value(), found.timestamp.millis()));
            assert_eq!(found, expected, "seed {seed}, {why}, the greatest below {ceiling}");
        }
    };
    check(&log, "as it was written");
    Job::Seal { log: log.id() }.run(&store);
    check(&log, "sealed");
    drop((log, store));
    let (store, _) = open_with(&disk, Path::new(DIRECTORY), config(Cleanup::Delete));
    check(&store.log(&name("t-0")).unwrap(), "opened again");
}

#[test]
fn a_first_batch_that_is_larger_than_every_limit_is_read_whole() {
    let (_, store, log) = place(Cleanup::Delete);
    let large = vec![7_u8; 300];
    log.append(Permit::new(epoch(0)), produced(&[&large], 1), now(1)).unwrap();
    log.append(Permit::new(epoch(0)), produced(&[b"small"], 2), now(1)).unwrap();
    turn(&store);
    for bytes_max in [0, 1, 100] {
        let records = read(&store, &log, 0, bytes_max).unwrap();
        assert_eq!((records.first, records.end), (at(0), at(1)), "{bytes_max}");
        let mut none = log.read(at(0), Offset::MAX, bytes_max, false).unwrap();
        if let Read::Cold(asked) = none {
            let JobDone::Read { result, .. } = Job::ColdRead(asked).run(&store) else {
                panic!("a cold read")
            };
            none = result.unwrap();
        }
        assert!(matches!(none, Read::Empty), "{bytes_max}: {none:?}");
    }
}
