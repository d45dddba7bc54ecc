//! One directory of several fails, and one log of a directory cannot be read: the others go on.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use super::test_support::*;
use super::*;
use crate::checkpoint::{CLEAN_MARK, DAMAGE_NOTE, LOG_STARTS, RECOVERY_POINTS};
use crate::disk::simulated::{CallKind, Fault};
use crate::disk::{Disk, LockError, SimulatedDisk};
use crate::errors::Fate;
use crate::log::{AppendError, Closed, Permit, Step};

const GOOD: &str = "/good";
const BAD: &str = "/bad";

fn config() -> StoreConfig {
    StoreConfig { log: small_segments(700), reserve_bytes: None, ..StoreConfig::default() }
}

fn open_at(disk: &SimulatedDisk, directory: &str) -> Result<(Store, OpenReport), StoreOpenError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Store::open(disk, Path::new(directory), config(), now(0)).map(|opened| (opened.store, opened.report))
}

fn work(store: &Store, log: &Log, rounds: u32) {
    for _ in 0..rounds {
        append(log, 4);
        store.wait(log.ticket(), Step::Durable).unwrap();
    }
    for job in store.due_jobs(now(1_000_000)) {
        let done = job.run(store);
        assert!(!matches!(done, JobDone::Failed { .. }), "{done:?}");
    }
}

type Failing = fn(&SimulatedDisk);

/// What happens to a directory while its store runs.
fn failures() -> [(&'static str, Failing); 3] {
    [
        ("EIO", |disk| disk.fail_below(Path::new(BAD), Some(Fault::Io))),
        ("read-only", |disk| disk.fail_below(Path::new(BAD), Some(Fault::ReadOnly))),
        ("gone", |disk| disk.remove_directory(Path::new(BAD)).unwrap()),
    ]
}

#[test]
fn a_directory_that_fails_is_given_up_and_another_goes_on() {
    for (what, fail) in failures() {
        let disk = SimulatedDisk::new(60);
        let (good, bad) = (open_at(&disk, GOOD).unwrap().0, open_at(&disk, BAD).unwrap().0);
        let make = |store: &Store| store.create_log(&name("t-0"), None, small_segments(700), now(1)).unwrap();
        let (good_log, bad_log) = (make(&good), make(&bad));
        work(&good, &good_log, 3);
        work(&bad, &bad_log, 3);
        let durable = bad_log.durable();
        fail(&disk);
        // Both at once, each by threads of its own, which wait for nothing of the other's.
        let beside = thread::spawn({
            let (good, good_log) = (good.clone(), good_log.clone());
            move || work(&good, &good_log, 20)
        });
        let mut refused = None;
        for _ in 0..20 {
            match bad_log.append(Permit::new(epoch(0)), produced(&[&[1; 200]], 1), now(1)) {
                Ok(appended) => drop(bad.wait(appended.ticket, Step::Durable)),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        beside.join().unwrap();
        // A segment that is gone is found by the next roll at the latest.
        let refused = refused.unwrap_or_else(|| panic!("{what}: nothing was refused"));
        assert!(matches!(refused, AppendError::Closed(_)), "{what}: {refused:?}");
        if refused.fate() == Fate::Log {
            let opened = bad.reopen_log(&name("t-0"), now(5));
            assert!(opened.is_err(), "{what}: {opened:?}");
        } else {
            assert_eq!(bad_log.closed(), Some(Closed::StoreFailed));
            assert!(bad.failure().is_some(), "{what}");
        }
        assert!(bad_log.durable() >= durable, "{what}");
        assert!(bad.due_jobs(now(2_000_000)).is_empty() || bad.failure().is_none(), "{what}");
        assert!(bad.close(serde_json::Map::new(), None).is_err(), "{what}");
        work(&good, &good_log, 5);
        assert!(good.failure().is_none());
        drop(good_log);
        good.close(serde_json::Map::new(), None).unwrap();
        let (good, report) = open_at(&disk, GOOD).unwrap();
        assert_eq!((report.stop, report.logs[0].end), (Stop::Clean, at(28 * 4)), "{what}");
        drop(good);
    }
}

/// A directory with three logs, closed in this way, and what each log has.
fn three_logs(disk: &SimulatedDisk, is_closed: bool) -> BTreeMap<String, Vec<u8>> {
    let (store, _) = open_at(disk, BAD).unwrap();
    let mut contents = BTreeMap::new();
    for text in ["a-0", "b-0", "c-0"] {
        let log = store.create_log(&name(text), None, small_segments(700), now(1)).unwrap();
        for _ in 0..5 {
            append(&log, 5);
            log.append(
                Permit::new(epoch(0)),
                numbered(3, i32::try_from(log.accepted().value() / 6).unwrap(), 1),
                now(1),
            )
            .unwrap();
            turn(&store);
        }
        contents.insert(text.to_owned(), read_all(&store, &log, 0));
    }
    for job in store.due_jobs(now(2)) {
        assert!(!matches!(job.run(&store), JobDone::Failed { .. }));
    }
    Job::Checkpoint { now: now(2) }.run(&store);
    if is_closed {
        store.close(serde_json::Map::new(), None).unwrap();
    }
    contents
}

fn check_all_but_b(disk: &SimulatedDisk, contents: &BTreeMap<String, Vec<u8>>, what: &str) {
    let (store, report) = open_at(disk, BAD).unwrap();
    let left_alone = store.left_alone();
    for (text, bytes) in contents.iter().filter(|(text, _)| *text != "b-0" || left_alone.is_empty()) {
        let log = store.log(&name(text)).unwrap_or_else(|| panic!("{what}: {text}"));
        assert_eq!(&read_all(&store, &log, 0), bytes, "{what}: {text}");
        append(&log, 1);
        turn(&store);
        assert_eq!(log.written(), log.accepted(), "{what}");
    }
    let refused: Vec<_> = report.refused.iter().collect();
    if left_alone.is_empty() {
        assert!(refused.is_empty(), "{what}: {refused:?}");
        return;
    }
    assert_eq!(left_alone.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>(), ["b-0"], "{what}");
    let [(path, why)] = refused[..] else { panic!("{what}: {refused:?}") };
    assert!(path.ends_with("b-0") && matches!(why, LogRefusal::Unreadable { .. }), "{what}: {why:?}");
    assert_eq!(why.fate(), Fate::Log);
    let refused = store.create_log(&name("b-0"), None, small_segments(700), now(1));
    assert!(matches!(refused, Err(CreateLogError::LeftAlone { .. })), "{what}");
    // Not while it cannot be read; and what was promised of it stays written down.
    assert!(matches!(store.reopen_log(&name("b-0"), now(3)), Err(ReopenLogError::Refused(_))), "{what}");
    assert!(matches!(Job::Checkpoint { now: now(4) }.run(&store), JobDone::Checkpointed));
    disk.fail_below(&Path::new(BAD).join("b-0"), None);
    for entry in disk.list(&Path::new(BAD).join("b-0")).unwrap() {
        disk.fail_below(&Path::new(BAD).join("b-0").join(entry.name), None);
    }
    let report = store.reopen_log(&name("b-0"), now(5)).unwrap().unwrap();
    assert_eq!(report.name, name("b-0"));
    let log = store.log(&name("b-0")).unwrap();
    assert_eq!(read_all(&store, &log, 0), contents["b-0"], "{what}");
    assert!(store.left_alone().is_empty() && store.reopen_log(&name("b-0"), now(6)).unwrap().is_none());
    append(&log, 2);
    store.wait(log.ticket(), Step::Durable).unwrap();
    assert!(store.failure().is_none(), "{what}");
}

/// Each file of one log, and its directory, and each call of its opening that reads.
#[test]
fn a_log_that_cannot_be_read_is_left_alone_and_opened_when_it_can_be() {
    let mut left_alone = 0;
    for is_closed in [true, false] {
        let first = SimulatedDisk::new(61);
        let contents = three_logs(&first, is_closed);
        let first = first.crash_kill(&mut fastrand::Rng::with_seed(1));
        let directory = Path::new(BAD).join("b-0");
        let mut paths: Vec<_> =
            first.list(&directory).unwrap().into_iter().map(|entry| directory.join(entry.name)).collect();
        paths.push(directory.clone());
        assert!(paths.len() > 9, "{paths:?}");
        for path in paths {
            let disk = first.fork(2);
            disk.fail_below(&path, Some(Fault::Io));
            let what = format!("{}, closed: {is_closed}", path.display());
            let is_refused = !open_at(&disk.fork(3), BAD).unwrap().1.refused.is_empty();
            left_alone += u32::from(is_refused);
            assert!(is_refused || !path.ends_with("00000000000000000000.log"), "{what}");
            check_all_but_b(&disk, &contents, &what);
        }
        // And each call once.
        let disk = first.fork(4);
        disk.take_calls();
        drop(open_at(&disk, BAD).unwrap());
        let calls = disk.take_calls();
        for call in calls.iter().filter(|call| call.path.starts_with(&directory) && !call.kind.is_change()) {
            let disk = first.fork(4);
            disk.fail_call(call.number, Fault::Io);
            check_all_but_b_once(&disk, &contents, &format!("{call:?}, closed: {is_closed}"));
        }
    }
    assert!(left_alone > 4, "{left_alone}");
}

fn check_all_but_b_once(disk: &SimulatedDisk, contents: &BTreeMap<String, Vec<u8>>, what: &str) {
    let (store, report) = open_at(disk, BAD).unwrap_or_else(|error| panic!("{what}: {error}"));
    for (name, _) in store.left_alone() {
        assert_eq!(name.to_string(), "b-0", "{what}: {:?}", report.refused);
        store.reopen_log(&name, now(3)).unwrap().unwrap();
    }
    for (text, bytes) in contents {
        assert_eq!(&read_all(&store, &store.log(&name(text)).unwrap(), 0), bytes, "{what}: {text}");
    }
}

#[test]
fn a_small_file_of_the_directory_that_cannot_be_read_says_nothing_and_is_written_anew() {
    for is_closed in [true, false] {
        let first = SimulatedDisk::new(62);
        let contents = three_logs(&first, is_closed);
        let first = first.crash_kill(&mut fastrand::Rng::with_seed(1));
        for file in [CLEAN_MARK, DAMAGE_NOTE] {
            let disk = first.fork(5);
            let path = Path::new(BAD).join(file);
            if disk.contents(&path).is_err() {
                continue;
            }
            disk.take_calls();
            drop(open_at(&disk.fork(6), BAD).unwrap());
            let probe = disk.fork(6);
            probe.take_calls();
            drop(open_at(&probe, BAD).unwrap());
            let reads: Vec<_> = probe
                .take_calls()
                .into_iter()
                .filter(|call| {
                    call.path == path && matches!(call.kind, CallKind::Open | CallKind::Read | CallKind::Look)
                })
                .collect();
            assert!(!reads.is_empty(), "{file}");
            for call in reads {
                let disk = first.fork(6);
                disk.fail_call(call.number, Fault::Io);
                let (store, report) = open_at(&disk, BAD).unwrap_or_else(|error| panic!("{call:?}: {error}"));
                assert!(report.refused.is_empty(), "{call:?}");
                if file == CLEAN_MARK {
                    assert_eq!(report.stop, Stop::Unclean);
                }
                for (text, bytes) in &contents {
                    let log = store.log(&name(text)).unwrap();
                    assert_eq!(&read_all(&store, &log, 0), bytes, "{call:?}: {text}");
                }
                work(&store, &store.log(&name("a-0")).unwrap(), 2);
                assert!(matches!(Job::Checkpoint { now: now(9) }.run(&store), JobDone::Checkpointed));
            }
        }
        // Without a descriptor nothing is known of the file, and it may be whole.
        let disk = first.fork(7);
        disk.fail_below(&Path::new(BAD).join(RECOVERY_POINTS), Some(Fault::NoDescriptors));
        let refused = open_at(&disk, BAD).unwrap_err();
        assert!(matches!(refused, StoreOpenError::OutOfDescriptors { .. }), "{refused:?}");
        disk.fail_below(&Path::new(BAD).join(RECOVERY_POINTS), None);
        assert!(open_at(&disk, BAD).is_ok());
        // Nothing else says what was synced, and what was deleted.
        for file in [RECOVERY_POINTS, LOG_STARTS] {
            let disk = first.fork(9);
            drop(disk.open(&Path::new(BAD).join(file), crate::disk::Open::Create).unwrap());
            disk.fail_below(&Path::new(BAD).join(file), Some(Fault::Io));
            let refused = open_at(&disk, BAD).unwrap_err();
            assert!(matches!(refused, StoreOpenError::Io { .. }), "{refused:?}");
        }
        // The lock is no such file: without it nobody may write.
        let disk = first.fork(8);
        disk.fail_below(&Path::new(BAD).join(".lock"), Some(Fault::Io));
        let refused = open_at(&disk, BAD).unwrap_err();
        assert!(matches!(refused, StoreOpenError::Lock(LockError::Io { .. })), "{refused:?}");
    }
}

/// What could not be opened again is not there in secret: its jobs would change files that another has by then.
#[test]
fn a_log_that_could_not_be_opened_again_leaves_no_other_behind() {
    let disk = SimulatedDisk::new(63);
    let contents = three_logs(&disk, false);
    let disk = disk.crash_kill(&mut fastrand::Rng::with_seed(1));
    let last = 20;
    disk.fail_below(&Path::new(BAD).join(format!("b-0/{last:020}.log")), Some(Fault::Io));
    let (store, _) = open_at(&disk, BAD).unwrap();
    if store.left_alone().is_empty() {
        disk.fail_below(&Path::new(BAD).join("b-0"), Some(Fault::Io));
    }
    assert!(store.reopen_log(&name("b-0"), now(3)).is_err() || store.left_alone().is_empty());
    disk.fail_below(&Path::new(BAD).join(format!("b-0/{last:020}.log")), None);
    disk.fail_below(&Path::new(BAD).join("b-0"), None);
    drop(store.reopen_log(&name("b-0"), now(4)));
    let log = store.log(&name("b-0")).unwrap();
    append(&log, 4);
    turn(&store);
    let bytes = read_all(&store, &log, 0);
    assert!(bytes.starts_with(&contents["b-0"]));
    for job in store.due_jobs(now(1_000_000)) {
        job.run(&store);
    }
    assert_eq!(read_all(&store, &log, 0), bytes);
    assert_eq!(store.logs().len(), 3);
}

#[test]
fn a_deleted_log_that_somebody_wants_durable_gives_nothing_up() {
    for is_wanted_before in [true, false] {
        let simulated = SimulatedDisk::new(8);
        let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
        let (store, _) = open(&disk, Path::new("/data"));
        let log = store.create_log(&name("t-0"), None, small_segments(400), now(0)).unwrap();
        for _ in 0..8 {
            append(&log, 2);
            turn(&store);
        }
        assert!(log.segment_count() > 2, "something was rolled, and is not sealed");
        if is_wanted_before {
            store.want_durable(&log);
        }
        let deleted = store.delete_log(&name("t-0")).unwrap().run(&store);
        assert!(matches!(deleted, JobDone::Deleted { .. }), "{deleted:?}");
        store.want_durable(&log);
        turn(&store);
        assert!(store.failure().is_none(), "{:?}", store.failure());
        append(&store.create_log(&name("t-1"), None, small_segments(400), now(0)).unwrap(), 1);
    }
}
