//! Snapshots of producers: a damaged, missing, misnamed one makes no repetition a new record, and no new record a repetition.

use std::path::Path;
use std::sync::Arc;

use super::test_support::*;
use super::{Job, JobDone, Store};
use crate::disk::{Disk, Open, SimulatedDisk};
use crate::log::{AppendError, Log, Permit};
use crate::segment::{FileKind, file_path, parse_file_name};
use crate::units::Offset;

const DATA: &str = "/data";
const BATCHES: i32 = 12;

/// Twelve batches of one producer in several segments, closed cleanly.
fn closed(seed: u64) -> SimulatedDisk {
    let simulated = SimulatedDisk::new(seed);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let (store, _) = open(&disk, Path::new(DATA));
    let log = store.create_log(&name("t-0"), None, small_segments(300), now(0)).unwrap();
    for number in 0..BATCHES {
        log.append(Permit::new(epoch(0)), numbered(1, number * 2, 2), now(1)).unwrap();
        turn(&store);
    }
    store.close(serde_json::Map::new(), None).unwrap();
    simulated
}

fn snapshots(disk: &SimulatedDisk) -> Vec<Offset> {
    let files = disk.list(&Path::new(DATA).join("t-0")).unwrap();
    let named = files.iter().filter_map(|file| parse_file_name(&file.name));
    named.filter_map(|(offset, kind)| (kind == FileKind::Snapshot).then_some(offset)).collect()
}

fn path(offset: Offset) -> std::path::PathBuf {
    file_path(&Path::new(DATA).join("t-0"), offset, FileKind::Snapshot)
}

fn write(disk: &SimulatedDisk, offset: Offset, bytes: &[u8]) {
    let file = disk.open(&path(offset), Open::Create).unwrap();
    file.set_size(0).unwrap();
    file.write_all_at(bytes, 0).unwrap();
}

/// The last five batches are repetitions, an older one is refused, and the next one is new.
fn judge(disk: &SimulatedDisk, what: &str) -> (Store, Log) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, report) = open(&disk, Path::new(DATA));
    assert!(report.logs[0].plan.damaged.is_empty() && report.logs[0].cut_bytes == 0, "{what}: {report:?}");
    let log = store.log(&name("t-0")).unwrap();
    let permit = Permit::new(epoch(0));
    for number in BATCHES - 5..BATCHES {
        let again = log.append(permit, numbered(1, number * 2, 2), now(2)).unwrap();
        assert!(again.duplicate && again.offsets.start() == at(i64::from(number) * 2), "{what}: {number}");
    }
    let older = log.append(permit, numbered(1, 0, 2), now(2));
    assert!(matches!(older, Err(AppendError::Producer(_))), "{what}: {older:?}");
    let skipped = log.append(permit, numbered(1, BATCHES * 2 + 1, 2), now(2));
    assert!(matches!(skipped, Err(AppendError::Producer(_))), "{what}: {skipped:?}");
    assert_eq!(log.accepted(), at(i64::from(BATCHES) * 2), "{what}");
    (store, log)
}

#[test]
fn a_damaged_snapshot_is_passed_over_and_older_ones_and_the_log_say_the_same() {
    let whole = closed(90);
    let all = snapshots(&whole);
    assert!(all.len() > 3);
    let newest = *all.last().unwrap();
    let bytes = whole.contents(&path(newest)).unwrap();
    for (at, byte) in bytes.iter().enumerate() {
        let disk = whole.fork(1);
        disk.damage(&path(newest), at as u64, &[byte ^ 0x11]).unwrap();
        judge(&disk, &format!("byte {at}"));
        let disk = whole.fork(1);
        disk.open(&path(newest), Open::Write).unwrap().set_size(at as u64).unwrap();
        judge(&disk, &format!("cut to {at}"));
    }
    let cases: [(&str, &[u8]); 3] = [("empty", b""), ("zeros", &[0; 300]), ("garbage", &[0x5a; 56])];
    for (what, replacement) in cases {
        for count in 1..=all.len() {
            let disk = whole.fork(1);
            for offset in all.iter().rev().take(count) {
                write(&disk, *offset, replacement);
            }
            judge(&disk, &format!("the newest {count} {what}"));
        }
    }
}

#[test]
fn a_snapshot_that_a_crash_has_torn_goes_at_the_next_opening() {
    let disk = closed(92);
    let newest = *snapshots(&disk).last().unwrap();
    write(&disk, newest, b"");
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (_store, _) = open(&shared, Path::new("/data"));
    assert!(!snapshots(&disk).contains(&newest));
}

#[test]
fn missing_snapshots_and_those_of_a_future_that_never_was_change_nothing() {
    let whole = closed(91);
    let all = snapshots(&whole);
    for count in 1..=all.len() {
        let disk = whole.fork(1);
        for offset in all.iter().rev().take(count) {
            disk.remove_file(&path(*offset)).unwrap();
        }
        judge(&disk, &format!("without the newest {count}"));
    }
    // Of a log that went on and was cut, with other producers in it.
    let other = {
        let simulated = SimulatedDisk::new(92);
        let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
        let (store, _) = open(&disk, Path::new(DATA));
        let log = store.create_log(&name("t-0"), None, small_segments(10_000), now(0)).unwrap();
        for number in 0..40 {
            log.append(Permit::new(epoch(0)), numbered(1, number * 2, 2), now(1)).unwrap();
        }
        turn(&store);
        store.close(serde_json::Map::new(), None).unwrap();
        simulated.contents(&path(at(80))).unwrap()
    };
    let disk = whole.fork(1);
    write(&disk, at(80), &other);
    judge(&disk, "a snapshot behind the end");
    assert!(disk.contents(&path(at(80))).is_err(), "it is removed");
}

#[test]
fn a_cut_takes_the_snapshots_of_what_is_cut() {
    let disk = closed(93);
    let (store, log) = judge(&disk, "whole");
    let done = Job::Truncate { log: log.id(), to: at(10) }.run(&store);
    assert!(matches!(done, JobDone::Truncated { .. }), "{done:?}");
    assert!(snapshots(&disk).iter().all(|offset| *offset <= at(10)), "{:?}", snapshots(&disk));
    let permit = Permit::new(epoch(0));
    assert!(log.append(permit, numbered(1, 8, 2), now(2)).unwrap().duplicate);
    assert!(!log.append(permit, numbered(1, 10, 2), now(2)).unwrap().duplicate, "it was cut");
}

#[test]
fn producers_of_batches_below_a_raised_start_stay_known() {
    for clean in [true, false] {
        let simulated = SimulatedDisk::new(94);
        let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
        let (store, _) = open(&disk, Path::new(DATA));
        let log = store.create_log(&name("t-0"), None, small_segments(10_000), now(0)).unwrap();
        let permit = Permit::new(epoch(0));
        log.append(permit, numbered(1, 0, 2), now(1)).unwrap();
        log.append(permit, numbered(2, 0, 2), now(1)).unwrap();
        turn(&store);
        Job::RaiseStart { log: log.id(), to: at(3) }.run(&store);
        assert!(matches!(Job::Checkpoint { now: now(2) }.run(&store), JobDone::Checkpointed));
        let next = if clean {
            store.close(serde_json::Map::new(), None).unwrap();
            simulated
        } else {
            simulated.crash_kill(&mut fastrand::Rng::with_seed(94))
        };
        let next: Arc<dyn Disk> = Arc::new(next);
        let (store, _) = open(&next, Path::new(DATA));
        let log = store.log(&name("t-0")).unwrap();
        assert_eq!(log.start(), at(3));
        for producer in [1, 2] {
            let again = log.append(permit, numbered(producer, 0, 2), now(2)).unwrap();
            assert!(again.duplicate, "producer {producer}, clean: {clean}");
        }
    }
}

#[test]
fn a_second_appending_of_what_a_follower_has_is_a_new_batch_to_it() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(95));
    let (store, _) = open(&disk, Path::new(DATA));
    let log = store.create_log(&name("t-0"), None, small_segments(10_000), now(0)).unwrap();
    let numbered_at = |base: i64| {
        let batch = numbered(1, 0, 2);
        batch.stamp(at(base), epoch(0), None).unwrap().bytes
    };
    // A leader has had its reasons.
    log.append_replicated(&replicated(&[numbered_at(0), numbered_at(2)]), now(1)).unwrap();
    assert_eq!(log.accepted(), at(4));
}
