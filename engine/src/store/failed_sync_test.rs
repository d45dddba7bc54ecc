//! A sync that failed proves nothing, and neither does the one after it: not in the same process, and not in the next.

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;

use super::test_support::*;
use super::*;
use crate::disk::simulated::{Call, CallKind, Completing, Fault, Unsynced};
use crate::disk::{Disk, Patience, SimulatedDisk, Wait};
use crate::log::LogConfig;
use crate::units::Offset;

const DIRECTORY: &str = "/data";

fn start(disk: &SimulatedDisk) -> (Store, OpenReport) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let config = StoreConfig { log: small_segments(2_000), ..StoreConfig::default() };
    open_with(&disk, Path::new(DIRECTORY), config)
}

fn first_life(disk: &SimulatedDisk) -> (Store, Log) {
    let (store, _) = start(disk);
    store.confirm_incarnation().unwrap();
    let log = store.create_log(&name("t-0"), None, small_segments(2_000), now(0)).unwrap();
    (store, log)
}

/// Whether the failing process could withdraw the proof of its boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note {
    Taken,
    Lost,
}

#[test]
fn what_a_failed_sync_left_behind_is_durable_when_the_next_process_says_so() {
    let mut left_behind = 0;
    for (seed, note) in (0..40).zip([Note::Taken, Note::Lost].into_iter().cycle()) {
        let disk = SimulatedDisk::new(seed);
        let (store, log) = first_life(&disk);
        for _ in 0..30 {
            append(&log, 3);
            turn(&store);
        }
        assert!(log.segment_count() > 2, "segments to be sealed, too");
        store.want_durable(&log);
        // Every sync fails from some call on, and so does everything else where the note is not to be taken.
        let first = disk.next_call() + seed / 2;
        for call in first..first + 200 {
            disk.fail_call(call, Fault::Io);
            if note == Note::Taken {
                break;
            }
        }
        turn(&store);
        let failed = store.failure().is_some();
        drop((store, log));

        let mut rng = Rng::with_seed(seed);
        let disk = disk.crash_kill(&mut rng);
        let (store, report) = start(&disk);
        let doubted = report.machine == Machine::OtherOrUnknown;
        assert_eq!((report.stop, doubted), (Stop::Unclean, failed && note == Note::Taken), "seed {seed}");
        let log = store.log(&name("t-0")).unwrap();
        assert_eq!(log.written(), at(90), "seed {seed}: a kill loses nothing that was written");
        left_behind += u32::from(log.durable() < at(90));
        store.want_durable(&log);
        turn(&store);
        assert_eq!(log.durable(), at(90));
        Job::Checkpoint { now: now(2) }.run(&store);
        drop((store, log));

        let disk = disk.crash_power(Unsynced::Lost, &mut rng);
        let (store, report) = start(&disk);
        let [found] = &report.logs[..] else { panic!("seed {seed}: {report:?}") };
        assert_eq!((found.end, found.recovery_point), (at(90), Some(at(90))), "seed {seed}: {}", found.plan);
        assert!(found.plan.damaged.is_empty(), "seed {seed}: {}", found.plan);
        let log = store.log(&name("t-0")).unwrap();
        assert!(!read_all(&store, &log, 0).is_empty());
    }
    assert!(left_behind > 10, "{left_behind}");
}

fn changes_of_segments(calls: &[Call], kind: CallKind) -> usize {
    let is_segment = |call: &&Call| call.path.extension().is_some_and(|extension| extension == "log");
    calls.iter().filter(is_segment).filter(|call| call.kind == kind).count()
}

#[test]
fn what_recovery_found_is_served_first_and_written_again_before_the_first_sync() {
    let disk = SimulatedDisk::new(3);
    let (store, log) = first_life(&disk);
    for _ in 0..30 {
        append(&log, 3);
        turn(&store);
    }
    drop((store, log));

    // Killed before it is written again, once more, the same is found.
    let mut disk = disk;
    for _ in 0..3 {
        disk = disk.crash_kill(&mut Rng::with_seed(3));
        disk.take_calls();
        let (store, report) = start(&disk);
        assert_eq!(changes_of_segments(&disk.take_calls(), CallKind::Write), 0);
        let [found] = &report.logs[..] else { panic!("{report:?}") };
        assert_eq!((found.recovery_point, found.end), (Some(Offset::ZERO), at(90)));
        let log = store.log(&name("t-0")).unwrap();
        assert!(!read_all(&store, &log, 0).is_empty());
        assert_eq!(log.durable(), Offset::ZERO);
    }
    let (store, _) = start(&disk.crash_kill(&mut Rng::with_seed(3)));
    let log = store.log(&name("t-0")).unwrap();
    // Taken beside it.
    append(&log, 3);
    store.turn(Wait::ForOne, Patience::MustNotBlock);
    store.want_durable(&log);
    store.turn(Wait::ForOne, Patience::MustNotBlock);
    assert_eq!(
        log.durable(),
        Offset::ZERO,
        "an event loop writes nothing again, and believes no sync before"
    );
    for job in store.due_jobs(now(0)) {
        job.run(&store);
    }
    store.turn(Wait::ForOne, Patience::MustNotBlock);
    assert_eq!(log.durable(), at(93));
}

#[test]
fn what_is_cut_before_it_was_written_again_is_not() {
    let disk = SimulatedDisk::new(4);
    let (store, log) = first_life(&disk);
    for _ in 0..30 {
        append(&log, 3);
        turn(&store);
    }
    drop((store, log));
    let disk = disk.crash_kill(&mut Rng::with_seed(4));
    let (store, _) = start(&disk);
    let log = store.log(&name("t-0")).unwrap();
    let JobDone::Truncated { end, .. } = (Job::Truncate { log: log.id(), to: at(31) }).run(&store) else {
        panic!("it can be cut")
    };
    store.want_durable(&log);
    turn(&store);
    assert_eq!((store.failure(), log.durable()), (None, end));
    append(&log, 3);
    store.want_durable(&log);
    turn(&store);
    let before = read_all(&store, &log, 0);
    drop((store, log));
    let (store, _) = start(&disk.crash_power(Unsynced::Lost, &mut Rng::with_seed(4)));
    let log = store.log(&name("t-0")).unwrap();
    assert_eq!(read_all(&store, &log, 0), before);
}

/// Of two syncs that cover the same bytes and fail the system tells one alone.
#[test]
fn a_background_sync_does_not_run_beside_the_drivers() {
    let disk = SimulatedDisk::new(1);
    let (store, log) = first_life(&disk);
    append(&log, 1);
    turn(&store);
    disk.set_completing(Completing::WhenTold);
    store.want_durable(&log);
    disk.fail_call(disk.next_call(), Fault::Io);
    store.turn(Wait::Not, Patience::MustNotBlock);
    assert_eq!(disk.uncompleted(), 1, "the driver's sync is under way");

    disk.take_calls();
    Job::Sync { logs: vec![log.id()] }.run(&store);
    assert_eq!(log.durable(), Offset::ZERO);
    assert!(!disk.take_calls().iter().any(|call| call.kind == CallKind::Sync));
    turn(&store);
    assert!(store.failure().is_some());
    assert_eq!(log.durable(), Offset::ZERO, "nothing is durable of which a sync has failed");
    assert!(matches!(Job::Sync { logs: vec![log.id()] }.run(&store), JobDone::Failed { .. }));
    assert_eq!(log.durable(), Offset::ZERO);
}

#[test]
fn a_directory_whose_sync_failed_when_a_log_was_made_is_given_up() {
    let base = SimulatedDisk::new(2);
    let mut given_up = 0;
    for call in 0..60 {
        let disk = base.fork(call);
        let (store, _) = start(&disk);
        disk.take_calls();
        let first = disk.next_call();
        disk.fail_call(first + call, Fault::Io);
        let made = store.create_log(&name("t-0"), None, LogConfig::default(), now(0));
        let failing = disk.take_calls().into_iter().find(|made| made.number == first + call);
        let Some(failing) = failing else {
            assert!(made.is_ok() && given_up == 2, "{given_up}");
            return;
        };
        assert_eq!(made.is_err() && store.failure().is_some(), failing.kind == CallKind::SyncDirectory);
        given_up += u32::from(store.failure().is_some());
    }
    panic!("making a log needs no sixty calls");
}

/// What the process after it finds of a log that was being made, it can rely on.
#[test]
fn a_log_whose_making_failed_is_there_with_its_id_or_not_at_all() {
    let id = crate::units::TopicId::new([7; 16]).unwrap();
    let mut found = 0;
    for (call, seed) in (0..24).flat_map(|call| (0..8).map(move |seed| (call, seed))) {
        let disk = SimulatedDisk::new(seed);
        let (store, _) = start(&disk);
        disk.fail_call(disk.next_call() + call, Fault::Io);
        drop(store.create_log(&name("t-0"), Some(id), LogConfig::default(), now(0)));
        drop(store);
        let mut rng = Rng::with_seed(seed);
        let disk = disk.crash_kill(&mut rng);
        let (store, _) = start(&disk);
        let Some(log) = store.log(&name("t-0")).filter(|log| log.topic_id().is_some()) else { continue };
        append(&log, 3);
        store.want_durable(&log);
        turn(&store);
        assert_eq!(log.durable(), at(3));
        drop((store, log));
        let (store, _) = start(&disk.crash_power(Unsynced::Lost, &mut rng));
        let log = store.log(&name("t-0")).unwrap();
        assert_eq!((log.topic_id(), log.written()), (Some(id), at(3)), "call {call} failed, seed {seed}");
        found += 1;
    }
    assert!(found > 30, "{found}");
}
