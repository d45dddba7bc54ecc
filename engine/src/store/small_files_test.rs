//! Small files that are missing, damaged, old or of another version: what they said is derived or unknown, and no record is lost by that.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::damage_test::{closed_log, read_beside};
use super::test_support::*;
use super::{Job, JobDone, JobKind, OpenReport, Stop, Store, StoreConfig};
use crate::checkpoint::{
    CLEAN_MARK, DAMAGE_NOTE, HIGH_WATERMARKS, LEADER_EPOCH_CHECKPOINT, LOG_STARTS, META_PROPERTIES,
    PARTITION_METADATA, RECOVERY_POINTS,
};
use crate::disk::simulated::Fault;
use crate::disk::{Disk, Open, SimulatedDisk};
use crate::log::{LogConfig, Permit};
use crate::recovery::SuspectReason;
use crate::units::{Offset, TopicId};

const DATA: &str = "/data";
const IN_THE_LOG: [&str; 2] = [LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA];
const IN_THE_DIRECTORY: [&str; 5] =
    [RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, DAMAGE_NOTE, META_PROPERTIES];

fn path(file: &str) -> PathBuf {
    let directory = Path::new(DATA);
    if IN_THE_LOG.contains(&file) { directory.join("t-0").join(file) } else { directory.join(file) }
}

/// A log of 30 records in epochs 1, 2, 5 and 7, in several segments, the last of which begins inside of one, with every small file there is.
fn filled(seed: u64) -> SimulatedDisk {
    let simulated = SimulatedDisk::new(seed);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let (store, _) = open(&disk, Path::new(DATA));
    let id = TopicId::new([7; 16]);
    let log = store.create_log(&name("t-0"), id, small_segments(500), now(0)).unwrap();
    for (number, leader) in (0..15).zip([1, 1, 1, 1, 2, 2, 2, 2, 2, 5, 5, 7, 7, 7, 7]) {
        log.append(Permit::new(epoch(leader)), numbered(1, number * 2, 2), now(1)).unwrap();
        turn(&store);
    }
    store.want_durable(&log);
    turn(&store);
    let entries = vec![(name("t-0"), at(30))];
    Job::OffsetCheckpoint { name: HIGH_WATERMARKS.to_owned(), entries }.run(&store);
    assert!(matches!(Job::Checkpoint { now: now(2) }.run(&store), JobDone::Checkpointed));
    store.close(serde_json::Map::new(), None).unwrap();
    simulated
}

fn replace(disk: &SimulatedDisk, file: &str, bytes: &[u8]) {
    let file = disk.open(&path(file), Open::Create).unwrap();
    file.set_size(0).unwrap();
    file.write_all_at(bytes, 0).unwrap();
}

/// Everything is there, in its epochs, and the log goes on.
fn judge(disk: &SimulatedDisk, what: &str) -> OpenReport {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, report) = open(&shared, Path::new(DATA));
    assert!(report.refused.is_empty(), "{what}: {report:?}");
    let [found] = &report.logs[..] else { panic!("{what}: {report:?}") };
    assert!(found.plan.damaged.is_empty() && found.cut_bytes == 0, "{what}: {}", found.plan);
    let log = store.log(&name("t-0")).unwrap();
    assert_eq!((log.start(), log.written()), (at(0), at(30)), "{what}: {}", found.plan);
    let mut next = 0;
    for batch in crate::batch::scan(&read_all(&store, &log, 0), 0) {
        let header = *batch.unwrap().1.header();
        assert_eq!(header.base_offset, at(next), "{what}");
        assert_eq!(log.epoch_at(at(next)), header.leader_epoch, "{what}, offset {next}: {}", found.plan);
        next = header.next_offset().value();
    }
    assert_eq!(next, 30, "{what}");
    let again = log.append(Permit::new(epoch(7)), numbered(1, 28, 2), now(3)).unwrap();
    assert!(again.duplicate, "{what}");
    log.append(Permit::new(epoch(8)), numbered(1, 30, 2), now(3)).unwrap();
    let ticket = log.ticket();
    store.wait(ticket, crate::log::Step::Durable).unwrap();
    report
}

#[test]
fn whatever_is_wrong_with_a_small_file_every_record_is_there_in_its_epoch() {
    for clean in [true, false] {
        let whole = filled(110);
        if !clean {
            whole.remove_file(&path(CLEAN_MARK)).unwrap();
        }
        judge(&whole.fork(1), "whole");
        let mut cases = 0;
        for file in IN_THE_LOG.into_iter().chain(IN_THE_DIRECTORY).chain([CLEAN_MARK]) {
            let Ok(bytes) = whole.contents(&path(file)) else { continue };
            let half = &bytes[..bytes.len() / 2];
            let newer = bytes.strip_prefix(b"0\n").map(|rest| [b"1\n", rest].concat()).unwrap_or_default();
            for (how, replacement) in [
                ("gone", None),
                ("empty", Some(&b""[..])),
                ("zeros", Some(&[0; 50][..])),
                ("garbage", Some(&b"\xff\xfegarbage\nof several lines\n"[..])),
                ("half of it", Some(half)),
                ("no entries", Some(&b"0\n0\n"[..])),
                ("a newer version", Some(&newer[..])),
            ] {
                let disk = whole.fork(2);
                match replacement {
                    Some(replacement) => replace(&disk, file, replacement),
                    None => disk.remove_file(&path(file)).unwrap(),
                }
                let what = format!("{file}: {how}, clean: {clean}");
                let report = judge(&disk, &what);
                let is_mark = file == CLEAN_MARK;
                assert_eq!(report.stop == Stop::Clean, clean && !is_mark, "{what}");
                cases += 1;
            }
        }
        assert!(cases >= 35, "{cases}");
    }
}

#[test]
fn an_old_small_file_promises_less_and_takes_nothing() {
    let old = filled(111);
    for (file, text) in [
        (RECOVERY_POINTS, "0\n1\nt 0 4\n"),
        (RECOVERY_POINTS, "0\n1\nanother 3 17\n"),
        (LOG_STARTS, "0\n1\nanother 3 17\n"),
        (LEADER_EPOCH_CHECKPOINT, "0\n1\n1 0\n"),
        (LEADER_EPOCH_CHECKPOINT, "0\n2\n1 0\n5 18\n"),
        (LEADER_EPOCH_CHECKPOINT, "0\n2\n2 8\n5 18\n"),
        (LEADER_EPOCH_CHECKPOINT, "0\n2\n1 0\n2 8\n"),
        // Epochs that are not in the log, that begin behind its end, and that begin elsewhere.
        (LEADER_EPOCH_CHECKPOINT, "0\n4\n1 0\n3 8\n5 18\n9 31\n"),
        (LEADER_EPOCH_CHECKPOINT, "0\n3\n1 0\n2 6\n5 18\n"),
    ] {
        for clean in [true, false] {
            let disk = old.fork(1);
            if !clean {
                disk.remove_file(&path(CLEAN_MARK)).unwrap();
            }
            replace(&disk, file, text.as_bytes());
            judge(&disk, &format!("{file} {text:?}, clean: {clean}"));
        }
    }
}

#[test]
fn a_promise_that_the_log_does_not_keep_is_told() {
    let disk = filled(112);
    disk.remove_file(&path(CLEAN_MARK)).unwrap();
    replace(&disk, RECOVERY_POINTS, b"0\n1\nt 0 44\n");
    let report = judge(&disk, "a recovery point above the end");
    assert!(report.logs[0].suspect, "{}", report.logs[0].plan);
    assert_eq!(report.logs[0].recovery_point, Some(at(44)), "what was promised");
}

#[test]
fn a_start_above_the_end_that_nobody_guards_takes_nothing() {
    for clean in [true, false] {
        let disk = filled(117);
        if !clean {
            disk.remove_file(&path(CLEAN_MARK)).unwrap();
        }
        replace(&disk, LOG_STARTS, b"0\n1\nt 0 83\n");
        let report = judge(&disk, &format!("clean: {clean}"));
        let [found] = &report.logs[..] else { panic!("{report:?}") };
        let reason = SuspectReason::StartAboveEnd { start: at(83), end: at(30) };
        assert!(found.plan.suspect.contains(&reason) && found.suspect, "clean: {clean}: {}", found.plan);
        // One inside of the log is a start like any other.
        let disk = filled(118);
        replace(&disk, LOG_STARTS, b"0\n1\nt 0 7\n");
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let (store, _) = open(&disk, Path::new(DATA));
        assert_eq!(store.log(&name("t-0")).unwrap().start(), at(7));
    }
}

#[test]
fn the_recovery_point_is_written_down_every_minute() {
    let mut simulated = filled(119);
    for (life, end) in [(1, 32), (2, 34)] {
        let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
        let (store, _) = open(&disk, Path::new(DATA));
        let log = store.log(&name("t-0")).unwrap();
        let run_due = |ms| {
            let jobs = store.due_jobs(now(ms));
            let is_due = jobs.iter().any(|job| job.kind() == JobKind::Checkpoint);
            for job in jobs {
                let done = job.run(&store);
                assert!(!matches!(done, JobDone::Failed { .. }), "{done:?}");
            }
            is_due
        };
        assert!(!run_due(0));
        log.append(Permit::new(epoch(7)), produced(&[b"x", b"y"], 1), now(3)).unwrap();
        store.wait(log.ticket(), crate::log::Step::Durable).unwrap();
        assert!(!run_due(59_999) && run_due(60_000), "life {life}");
        drop((log, store));
        simulated = simulated.crash_kill(&mut fastrand::Rng::with_seed(life));
        let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
        let (_, report) = open(&disk, Path::new(DATA));
        assert_eq!(report.logs[0].recovery_point, Some(at(end)), "life {life}");
    }
}

#[test]
fn a_directory_that_was_being_deleted_goes_at_the_opening() {
    let disk = filled(120);
    let gone = Path::new(DATA).join("u-0.0123456789abcdef0123456789abcdef-delete");
    disk.create_directory(&gone).unwrap();
    disk.open(&gone.join("leader-epoch-checkpoint"), Open::Create).unwrap();
    let report = judge(&disk, "beside a directory without segments");
    assert_eq!(report.deleted, ["u-0.0123456789abcdef0123456789abcdef-delete"]);
    assert!(disk.list(&gone).is_err());
}

#[test]
fn the_mark_is_gone_before_anything_is_written_and_comes_back_with_a_clean_stop_only() {
    let disk = filled(113);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, report) = open(&shared, Path::new(DATA));
    assert_eq!(report.stop, Stop::Clean);
    assert!(disk.contents(&path(CLEAN_MARK)).is_err());
    drop(store);
    let after = disk.crash_power(crate::disk::simulated::Unsynced::Lost, &mut fastrand::Rng::with_seed(1));
    assert!(after.contents(&path(CLEAN_MARK)).is_err(), "nor does a power loss bring it back");
    assert_eq!(judge(&after, "killed while it ran").stop, Stop::Unclean);
}

/// Each call of an opening fails once: it is refused, leaves no mark, and the next one finds everything.
#[test]
fn an_opening_that_fails_leaves_no_mark_and_the_next_one_finds_everything() {
    let whole = filled(114);
    let mut refused = 0;
    for call in 0..400 {
        let disk = whole.fork(call);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let first = disk.next_call();
        disk.fail_call(first + call, Fault::Io);
        let opened = Store::open(Arc::clone(&shared), Path::new(DATA), StoreConfig::default(), now(0));
        if disk.next_call() <= first + call {
            assert!(opened.is_ok() && refused > 5, "{refused}");
            return;
        }
        let is_refused = opened.is_err();
        refused += u32::from(is_refused);
        drop(opened);
        let report = judge(&disk, &format!("call {call}"));
        // A mark that could not be taken away is still right: nothing was written.
        if !is_refused {
            assert_eq!(report.stop, Stop::Unclean, "call {call}");
        }
    }
    panic!("an opening needs no four hundred calls");
}

#[test]
fn a_log_that_has_just_rolled_stops_cleanly_and_is_believed() {
    let simulated = SimulatedDisk::new(115);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let (store, _) = open(&disk, Path::new(DATA));
    let config = LogConfig { retention_age: Some(std::time::Duration::ZERO), ..small_segments(500) };
    let log = store.create_log(&name("t-0"), None, config, now(0)).unwrap();
    for _ in 0..5 {
        append(&log, 2);
    }
    turn(&store);
    // Everything is deleted, so that an empty segment is left.
    Job::Retention { log: log.id(), ceiling: Offset::MAX, now: now(1_000_000) }.run(&store);
    assert_eq!((log.start(), log.written(), log.size_bytes()), (at(10), at(10), 0));
    store.close(serde_json::Map::new(), None).unwrap();
    for clean in [true, false] {
        let next = simulated.fork(1);
        if !clean {
            next.remove_file(&path(CLEAN_MARK)).unwrap();
            for file in next.list(&path("t-0")).unwrap() {
                if file.name.ends_with("index") {
                    next.remove_file(&path("t-0").join(&file.name)).unwrap();
                }
            }
        }
        let next: Arc<dyn Disk> = Arc::new(next);
        let (store, report) = open(&next, Path::new(DATA));
        let [found] = &report.logs[..] else { panic!("{report:?}") };
        assert!(!found.suspect && found.end == at(10) && found.start == at(10), "{}", found.plan);
        let log = store.log(&name("t-0")).unwrap();
        assert_eq!(append(&log, 1).offsets.start(), at(10));
    }
}

#[test]
fn a_closed_store_takes_nothing_more_and_says_so() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(116));
    let (store, _) = open(&disk, Path::new(DATA));
    let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
    let waiting = append(&log, 1).ticket;
    let again = store.clone();
    store.close(serde_json::Map::new(), None).unwrap();
    let refused = log.append(Permit::new(epoch(0)), produced(&[b"x"], 1), now(1));
    let closed = crate::log::Closed::StoreClosed;
    assert!(matches!(refused, Err(crate::log::AppendError::Closed(why)) if why == closed), "{refused:?}");
    assert!(matches!(again.close(serde_json::Map::new(), None), Err(super::CloseError::Closed)), "twice");
    assert!(waiting.end() <= log.written(), "what was accepted is written");
    assert!(log.read(at(0), Offset::MAX, 1, true).is_ok() || log.closed().is_some());
}

#[test]
fn an_epoch_that_the_file_lets_begin_later_begins_where_its_first_batch_is() {
    let path = Path::new("/data/t-0").join(LEADER_EPOCH_CHECKPOINT);
    // Epoch 1 begins at 16, in one of the older segments; by the file it has begun before, or a batch later.
    for moved in ["1 14\n", "1 18\n", "1 20\n"] {
        let simulated = closed_log(9);
        let text = String::from_utf8(simulated.contents(&path).unwrap()).unwrap();
        assert!(text.contains("1 16\n"), "{text}");
        simulated.damage(&path, 0, text.replace("1 16\n", moved).as_bytes()).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(simulated);
        let (store, report) = open(&disk, Path::new("/data"));
        let starts: Vec<(i32, i64)> =
            report.logs[0].plan.epochs.starts().iter().map(|e| (e.epoch.value(), e.start.value())).collect();
        assert_eq!(starts, [(0, 0), (1, 16), (2, 32)], "{moved}: {}", report.logs[0].plan);
        assert!(report.logs[0].plan.damaged.is_empty());
        let log = store.log(&name("t-0")).unwrap();
        assert!(read_beside(&store, &log, moved).1.is_empty(), "all of it is served");
    }
}
