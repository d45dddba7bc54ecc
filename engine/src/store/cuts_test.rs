//! What a cut leaves, and what it does not; and gaps, which a follower may have.

use std::path::Path;
use std::sync::Arc;

use super::test_support::*;
use super::{Job, JobDone, JobError, Store};
use crate::batch::scan;
use crate::disk::simulated::{Fault, Unsynced};
use crate::disk::{Disk, Open, SimulatedDisk};
use crate::log::{Cleanup, Closed, Log, LogConfig, Permit, ReplicaAppendError, Step, TicketError};
use crate::segment::{FileKind, file_path, parse_file_name};
use crate::units::{Offset, Timestamp};

const DATA: &str = "/data";

fn new_log(seed: u64, config: LogConfig) -> (SimulatedDisk, Store, Log) {
    let simulated = SimulatedDisk::new(seed);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let (store, _) = open(&disk, Path::new(DATA));
    let log = store.create_log(&name("t-0"), None, config, now(0)).unwrap();
    (simulated, store, log)
}

fn reopened(disk: &SimulatedDisk) -> (Store, Log) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, _) = open(&disk, Path::new(DATA));
    let log = store.log(&name("t-0")).unwrap();
    (store, log)
}

fn firsts(store: &Store, log: &Log) -> Vec<i64> {
    let bytes = read_all(store, log, log.start().value());
    scan(&bytes, 0).map(|batch| batch.unwrap().1.header().base_offset.value()).collect()
}

fn values(store: &Store, log: &Log) -> Vec<Vec<u8>> {
    let bytes = read_all(store, log, 0);
    let mut scratch = Vec::new();
    let mut values = Vec::new();
    for batch in scan(&bytes, 0) {
        let limits = crate::batch::DecompressLimits::default();
        let (_, view) = batch.unwrap();
        for record in view.records(&limits, &mut scratch).unwrap() {
            values.push(record.unwrap().value.unwrap().to_vec());
        }
    }
    values
}

#[test]
fn cut_and_appended_again_thirty_times_the_new_is_there_and_nothing_of_the_old() {
    let (simulated, store, log) = new_log(70, LogConfig::default());
    let permit = Permit::new(epoch(0));
    log.append(permit, produced(&[b"first"], 1), now(1)).unwrap();
    for round in 0..30_u8 {
        // Longer and shorter by turns, so that something of an old one would be left.
        let value = vec![round; 500 - usize::from(round % 2) * 400];
        let appended = log.append(permit, produced(&[&value], 1), now(1)).unwrap();
        assert_eq!(appended.offsets.start(), at(1));
        turn(&store);
        assert_eq!(values(&store, &log), [b"first".to_vec(), value]);
        let done = Job::Truncate { log: log.id(), to: at(1) }.run(&store);
        assert!(matches!(done, JobDone::Truncated { end, .. } if end == at(1)), "{done:?}");
        assert_eq!(values(&store, &log), [b"first".to_vec()]);
    }
    drop((store, log));
    let (store, log) = reopened(&simulated.crash_kill(&mut fastrand::Rng::with_seed(70)));
    assert_eq!(values(&store, &log), [b"first".to_vec()]);
}

#[test]
fn a_cut_in_a_gap_takes_what_lies_behind_and_ends_at_the_last_batch() {
    for (to, end) in [(30, 22), (22, 22), (21, 12), (20, 12), (15, 12), (12, 12), (11, 2), (5, 2), (2, 2)] {
        let (simulated, store, log) = new_log(71, LogConfig::default());
        let batches = [stamped(0, 2, 0, 1), stamped(10, 2, 0, 1), stamped(20, 2, 0, 1)];
        log.append_replicated(&replicated(&batches), now(1)).unwrap();
        turn(&store);
        let done = Job::Truncate { log: log.id(), to: at(to) }.run(&store);
        assert!(matches!(done, JobDone::Truncated { end: e, .. } if e == at(end)), "to {to}: {done:?}");
        let left: Vec<i64> = [0, 10, 20].into_iter().filter(|first| *first < end).collect();
        assert_eq!(firsts(&store, &log), left, "to {to}");
        store.close(serde_json::Map::new(), None).unwrap();
        let (store, log) = reopened(&simulated);
        assert_eq!((firsts(&store, &log), log.written()), (left, at(end)), "to {to}, reopened");
    }
}

#[test]
fn gaps_are_read_over_from_files_too_where_they_may_be() {
    let far = 30 + i64::from(i32::MAX);
    let batches = [stamped(3, 2, 0, 1), stamped(10, 2, 0, 1), stamped(far, 1, 0, 1)];
    let (simulated, store, log) = new_log(72, LogConfig::default());
    log.append_replicated(&replicated(&batches), now(1)).unwrap();
    turn(&store);
    store.close(serde_json::Map::new(), None).unwrap();
    let (store, log) = reopened(&simulated);
    // Between two segments only in a compacted log: elsewhere it is one that was cut off.
    store.set_config(log.id(), LogConfig { cleanup: Cleanup::Compact, ..LogConfig::default() }).unwrap();
    for (from, first) in [(0, 3), (3, 3), (4, 3), (5, 10), (9, 10), (11, 10), (12, far), (far - 1, far)] {
        assert_eq!(read(&store, &log, from, 1).unwrap().first, at(first), "from {from}");
    }
    let files = store.disk().list(log.directory()).unwrap();
    let named = files.iter().filter_map(|file| parse_file_name(&file.name));
    let bases: Vec<i64> =
        named.filter_map(|(base, kind)| (kind == FileKind::Log).then_some(base.value())).collect();
    assert_eq!(bases, [0, far], "a segment is named after its first batch where offsets leap");
    assert!(log.damaged().is_empty());
}

#[test]
fn a_follower_is_told_what_it_was_given_and_where_its_log_ends() {
    let (_, store, log) = new_log(73, LogConfig::default());
    log.append_replicated(&replicated(&[stamped(0, 7, 0, 1)]), now(1)).unwrap();
    let refused = log.append_replicated(&replicated(&[stamped(3, 2, 0, 1), stamped(5, 4, 0, 1)]), now(1));
    let Err(ReplicaAppendError::BelowEnd { first, end, log_end }) = refused else { panic!("{refused:?}") };
    assert_eq!((first, end, log_end), (at(3), at(9), at(7)));
    turn(&store);
    Job::RestartAt { log: log.id(), offset: at(1_000) }.run(&store);
    let refused = log.append_replicated(&replicated(&[stamped(4, 3, 0, 1)]), now(1));
    let Err(ReplicaAppendError::BelowEnd { first, end, log_end }) = refused else { panic!("{refused:?}") };
    assert_eq!((first, end, log_end), (at(4), at(7), at(1_000)), "also below the start of an empty log");
    assert_eq!(log.accepted(), at(1_000));
}

#[test]
fn after_a_cut_the_greatest_time_is_that_of_what_is_left() {
    for clean in [true, false] {
        let (simulated, store, log) = new_log(74, small_segments(700));
        for ms in [10, 90, 20, 30, 80, 95, 40, 99, 50, 60, 70, 98] {
            let value = [7; 100];
            log.append(Permit::new(epoch(0)), produced(&[&value], ms), now(1)).unwrap();
        }
        turn(&store);
        assert!(log.segment_count() > 2);
        for job in store.due_jobs(now(1)) {
            job.run(&store);
        }
        Job::Truncate { log: log.id(), to: at(7) }.run(&store);
        let check = |log: &Log, how: &str| {
            let latest = log.max_timestamp(Offset::MAX).unwrap().unwrap();
            assert_eq!((latest.offset, latest.timestamp.millis()), (at(5), 95), "{how}, clean: {clean}");
            let find = |ms| log.offset_for_timestamp(Timestamp::from_millis(ms), Offset::MAX).unwrap();
            assert_eq!(find(91).map(|found| found.offset), Some(at(5)), "{how}, clean: {clean}");
            assert!(find(96).is_none(), "{how}, clean: {clean}");
            assert_eq!(log.written(), at(7));
        };
        check(&log, "cut");
        let next = if clean {
            store.close(serde_json::Map::new(), None).unwrap();
            simulated
        } else {
            simulated.crash_kill(&mut fastrand::Rng::with_seed(74))
        };
        check(&reopened(&next).1, "reopened");
    }
}

#[test]
fn an_epoch_that_began_at_the_end_without_a_record_goes_with_a_cut_that_cuts_nothing() {
    for to in [3, 4, 100] {
        let (simulated, store, log) = new_log(75, LogConfig::default());
        append(&log, 3);
        turn(&store);
        log.begin_epoch(epoch(1)).unwrap();
        let latest = |log: &Log| log.with_facts(|facts| facts.epochs.latest().map(|latest| latest.epoch));
        assert_eq!(latest(&log), Some(epoch(1)));
        let done = Job::Truncate { log: log.id(), to: at(to) }.run(&store);
        assert!(matches!(done, JobDone::Truncated { end, .. } if end == at(3)), "{done:?}");
        assert_eq!(latest(&log), Some(epoch(0)), "to {to}");
        store.close(serde_json::Map::new(), None).unwrap();
        assert_eq!(latest(&reopened(&simulated).1), Some(epoch(0)), "to {to}, reopened");
    }
}

/// Every file of a segment, however it goes, and also where some of them are not there.
#[test]
fn a_removed_segment_leaves_no_file_of_any_kind() {
    for missing in
        [None, Some(FileKind::OffsetIndex), Some(FileKind::TimeIndex), Some(FileKind::AbortedIndex)]
    {
        for how in ["cut", "retained", "restarted", "deleted"] {
            let (simulated, store, log) = new_log(76, small_segments(300));
            for number in 0..16 {
                log.append(Permit::new(epoch(number / 4)), numbered(1, number * 2, 2), now(1)).unwrap();
            }
            turn(&store);
            for job in store.due_jobs(now(1)) {
                job.run(&store);
            }
            let directory = log.directory().to_path_buf();
            let segments: Vec<Offset> = {
                let files = simulated.list(&directory).unwrap();
                let named = files.iter().filter_map(|file| parse_file_name(&file.name));
                named.filter_map(|(base, kind)| (kind == FileKind::Log).then_some(base)).collect()
            };
            assert!(segments.len() > 4);
            for base in &segments {
                simulated.open(&file_path(&directory, *base, FileKind::AbortedIndex), Open::Create).unwrap();
                if let Some(kind) = missing {
                    drop(simulated.remove_file(&file_path(&directory, *base, kind)));
                }
            }
            let (gone, done) = match how {
                "cut" => {
                    (segments[2]..Offset::MAX, Job::Truncate { log: log.id(), to: segments[2] }.run(&store))
                }
                "retained" => {
                    let to = segments[2];
                    Job::RaiseStart { log: log.id(), to }.run(&store);
                    let done =
                        Job::Retention { log: log.id(), ceiling: Offset::MAX, now: now(2) }.run(&store);
                    (Offset::ZERO..to, done)
                }
                "restarted" => (
                    Offset::ZERO..at(9_999),
                    Job::RestartAt { log: log.id(), offset: at(10_000) }.run(&store),
                ),
                _ => (Offset::ZERO..Offset::MAX, store.delete_log(&name("t-0")).unwrap().run(&store)),
            };
            assert!(!matches!(done, JobDone::Failed { .. }), "{how}, without {missing:?}: {done:?}");
            let Ok(left) = simulated.list(&directory) else { continue };
            for (offset, kind) in left.iter().filter_map(|file| parse_file_name(&file.name)) {
                // A snapshot at the new end is that of what is left.
                let is_gone = gone.contains(&offset) && !(kind == FileKind::Snapshot && offset == gone.start);
                assert!(!is_gone, "{how}, without {missing:?}: {offset} {kind:?} is left of {segments:?}");
            }
        }
    }
}

#[test]
fn who_waits_for_a_log_that_is_deleted_is_told() {
    let (_, store, log) = new_log(77, LogConfig::default());
    let ticket = append(&log, 2).ticket;
    store.want_durable(&log);
    let job = store.delete_log(&name("t-0")).unwrap();
    assert!(matches!(job.run(&store), JobDone::Deleted { .. }));
    assert!(store.wait(ticket, Step::Durable).is_err());
    store.want_durable(&log);
    turn(&store);
    assert!(matches!(Job::Sync { logs: vec![log.id()] }.run(&store), JobDone::Synced { .. }));
    assert!(store.failure().is_none());
}

#[test]
fn who_waits_for_what_a_cut_took_keeps_nobody_busy() {
    let (_, store, log) = new_log(78, LogConfig::default());
    append(&log, 2);
    let gone = append(&log, 2).ticket;
    turn(&store);
    Job::Truncate { log: log.id(), to: at(2) }.run(&store);
    assert_eq!(store.wait(gone, Step::Durable), Err(TicketError::Truncated));
    append(&log, 1);
    store.want_durable(&log);
    turn(&store);
    assert_eq!(log.durable(), at(3));
    assert!(!log.0.writer().sync.is_wanted(), "nobody wants anything any more");
}

/// What a cut that failed in the middle has left only recovery knows: a start that is raised then would be one of a log that is half gone.
#[test]
fn a_log_whose_restart_ended_halfway_is_changed_no_more_before_it_is_opened_again() {
    let mut halves = 0;
    for call in 0.. {
        let (simulated, store, log) = new_log(79, small_segments(300));
        for _ in 0..8 {
            append(&log, 2);
        }
        turn(&store);
        simulated.fail_call(simulated.next_call() + call, Fault::NoDescriptors);
        let done = Job::RestartAt { log: log.id(), offset: at(55) }.run(&store);
        if !matches!(done, JobDone::Failed { .. }) {
            break;
        }
        if log.closed() != Some(Closed::CutFailed) {
            continue;
        }
        halves += 1;
        let jobs = [
            Job::RaiseStart { log: log.id(), to: at(9) },
            Job::Retention { log: log.id(), ceiling: Offset::MAX, now: now(2) },
        ];
        for job in jobs {
            let done = job.run(&store);
            let is_refused =
                matches!(done, JobDone::Failed { error: JobError::Closed(Closed::CutFailed), .. });
            assert!(is_refused, "call {call}: {done:?}");
        }
        Job::Checkpoint { now: now(3) }.run(&store);
        drop((store, log));
        let (_, log) = reopened(&simulated.crash_power(Unsynced::Kept, &mut fastrand::Rng::with_seed(79)));
        assert!([at(0), at(55)].contains(&log.start()), "call {call}: the start is {}", log.start());
    }
    assert!(halves > 2, "only {halves} calls leave a half");
}
