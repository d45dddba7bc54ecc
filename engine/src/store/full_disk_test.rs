//! A full disk refuses, wherever it is found full: nothing is given up, and everything goes on when there is room again.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::test_support::*;
use super::*;
use crate::disk::simulated::{Call, CallKind, Fault, PAGE_BYTES};
use crate::disk::{Disk, Open, SimulatedDisk};
use crate::log::{
    AppendError, BeginEpochError, Closed, LogConfig, LogId, Permit, RESERVE_FILE, ReplicaAppendError,
    ReserveReport, Step, TicketError,
};
use crate::units::{Now, Offset};

const DATA: &str = "/data";

fn config(reserve_bytes: Option<u64>) -> StoreConfig {
    StoreConfig { log: small_segments(700), reserve_bytes, ..StoreConfig::default() }
}

/// What is refused for want of room or of a descriptor may be tried again at once; anything else is not expected.
fn again<T, E: std::fmt::Debug>(
    what: &str,
    mut work: impl FnMut() -> Result<T, E>,
    passes: fn(&E) -> bool,
) -> T {
    for _ in 0..3 {
        match work() {
            Ok(done) => return done,
            Err(error) => assert!(passes(&error), "{what}: {error:?}"),
        }
    }
    panic!("{what}: refused three times")
}

fn job_passes(error: &JobError) -> bool {
    let refused = matches!(error, JobError::OutOfSpace { .. } | JobError::OutOfDescriptors { .. });
    refused || matches!(error, JobError::NotRepaired(RepairRefusal::OutOfSpace { .. }))
}

/// The life of a store with everything in it that writes, each thing tried again where it is refused.
struct Life {
    store: Store,
    /// Truncations that ended half way, so that the log was opened again.
    reopened: u32,
    ms: u64,
}

impl Life {
    fn now(&mut self) -> Now {
        self.ms += 2_000;
        now(self.ms)
    }

    fn log(&self, text: &str) -> Log {
        self.store.log(&name(text)).unwrap()
    }

    fn run(&self, job: impl Fn() -> Job) -> JobDone {
        let run = || {
            let done = job().run(&self.store);
            if let JobDone::Failed { error, .. } = done { Err(error) } else { Ok(done) }
        };
        again(&format!("{:?}", job().kind()), run, job_passes)
    }

    /// A cut that found no room half way has closed the log, which is then opened again.
    fn cut(&mut self, text: &str, job: impl Fn(LogId) -> Job) -> JobDone {
        let done = job(self.log(text).id()).run(&self.store);
        let JobDone::Failed { error, .. } = done else { return done };
        assert!(job_passes(&error), "{error:?}");
        if let Some(why) = self.log(text).closed() {
            assert_eq!(why, Closed::CutFailed);
            self.reopened += 1;
            let now = self.now();
            again(
                "open again",
                || self.store.reopen_log(&name(text), now),
                |error| !error.to_string().is_empty(),
            );
        }
        self.run(|| job(self.log(text).id()))
    }

    fn append(&self, text: &str, leader: i32, records: usize) {
        let values = vec![b"a value of some bytes".as_slice(); records];
        let work = || self.log(text).append(Permit::new(epoch(leader)), produced(&values, 1), now(1));
        again("append", work, |error| {
            matches!(
                error,
                AppendError::OutOfSpace { missing_bytes: 1.., .. } | AppendError::OutOfDescriptors
            )
        });
        turn(&self.store);
    }

    fn replicate(&self, text: &str, leader: i32) {
        let first = self.log(text).accepted().value();
        let sets = [stamped(first, 2, leader, 5), stamped(first + 2, 3, leader + 1, 6)];
        let last = self.log(text).accepted().value() + 5;
        for _ in 0..4 {
            let end = self.log(text).accepted().value();
            let rest: Vec<_> = [(first, &sets[0]), (first + 2, &sets[1])]
                .into_iter()
                .filter(|(base, _)| *base >= end)
                .map(|(_, bytes)| bytes.clone())
                .collect();
            if rest.is_empty() {
                break;
            }
            if let Err(error) = self.log(text).append_replicated(&replicated(&rest), now(1)) {
                let is_refusal = matches!(
                    error,
                    ReplicaAppendError::OutOfSpace { missing_bytes: 1.., .. }
                        | ReplicaAppendError::OutOfDescriptors
                );
                assert!(is_refusal, "{error:?}");
            }
        }
        assert_eq!(self.log(text).accepted(), at(last));
        turn(&self.store);
    }

    fn make_durable(&self, text: &str) {
        let ticket = self.log(text).ticket();
        let refused =
            |error: &TicketError| matches!(error, TicketError::OutOfSpace | TicketError::OutOfDescriptors);
        again("wait", || self.store.wait(ticket, Step::Durable), refused);
    }

    fn create(&self, text: &str) {
        let work = || self.store.create_log(&name(text), None, small_segments(700), now(1));
        again("create", work, |error| {
            matches!(error, CreateLogError::OutOfSpace { .. } | CreateLogError::OutOfDescriptors { .. })
        });
    }

    fn begin(&self, text: &str, leader: i32) {
        let log = self.log(text);
        again(
            "begin an epoch",
            || log.begin_epoch(epoch(leader)),
            |error| matches!(error, BeginEpochError::OutOfSpace | BeginEpochError::OutOfDescriptors),
        );
    }

    /// What waits for room is done with the jobs that are due.
    fn due(&mut self) {
        for _ in 0..4 {
            let now = self.now();
            for job in self.store.due_jobs(now) {
                if let JobDone::Failed { error, .. } = job.run(&self.store) {
                    assert!(job_passes(&error), "{error:?}");
                }
            }
        }
    }

    fn live(&mut self) {
        self.create("t-0");
        self.begin("t-0", 1);
        for _ in 0..6 {
            self.append("t-0", 1, 8);
        }
        self.make_durable("t-0");
        let now = self.now();
        self.run(|| Job::Checkpoint { now });
        self.append("t-0", 2, 12);
        self.replicate("t-0", 3);
        self.due();
        self.create("u-0");
        self.append("u-0", 4, 3);
        self.run(|| Job::OffsetCheckpoint { name: "marks".to_owned(), entries: vec![(name("t-0"), at(3))] });
        self.cut("t-0", |log| Job::Truncate { log, to: at(50) });
        self.append("t-0", 6, 20);
        self.make_durable("t-0");
        self.run(|| Job::RaiseStart { log: self.log("t-0").id(), to: at(20) });
        self.run(|| Job::Checkpoint { now });
        self.run(|| Job::Retention { log: self.log("t-0").id(), ceiling: Offset::MAX, now });
        self.repair(at(24));
        self.cut("u-0", |log| Job::RestartAt { log, offset: at(100) });
        self.append("u-0", 7, 2);
        let mut gone = Some(self.store.delete_log(&name("u-0")).unwrap());
        let id = gone.as_ref().and_then(Job::log).unwrap();
        self.run(|| Job::DeleteLog { log: id });
        gone.take();
        self.create("u-0");
        self.append("u-0", 8, 2);
        self.due();
    }

    /// Replaces a batch by itself.
    fn repair(&self, base: Offset) {
        let log = self.log("t-0");
        let bytes = read(&self.store, &log, base.value(), 1).unwrap();
        let part = bytes.parts.concat();
        let batches = replicated(&[bytes::Bytes::from(part)]);
        let offsets =
            crate::units::OffsetRange::new(batches.first_offset().unwrap(), batches.next_offset().unwrap());
        self.run(|| Job::Repair {
            log: log.id(),
            offsets: offsets.unwrap(),
            batches: batches.clone(),
            now: now(9),
        });
    }

    fn contents(&self) -> Vec<Vec<u8>> {
        ["t-0", "u-0"]
            .map(|text| {
                let log = self.log(text);
                read_all(&self.store, &log, log.start().value())
            })
            .to_vec()
    }
}

fn start(disk: &SimulatedDisk, reserve_bytes: Option<u64>) -> Result<(Store, OpenReport), StoreOpenError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Store::open(disk, Path::new(DATA), config(reserve_bytes), now(0))
        .map(|opened| (opened.store, opened.report))
}

fn begin(disk: &SimulatedDisk, reserve_bytes: Option<u64>) -> Life {
    Life { store: start(disk, reserve_bytes).unwrap().0, reopened: 0, ms: 10_000 }
}

/// The calls of a whole life without trouble, from the opened store to its clean stop.
fn calls_of_a_life(contents: &mut Vec<Vec<u8>>) -> Vec<Call> {
    let disk = SimulatedDisk::new(40);
    let mut life = begin(&disk, None);
    disk.take_calls();
    life.live();
    let mut calls = disk.take_calls();
    *contents = life.contents();
    disk.take_calls();
    life.store.close(serde_json::Map::new(), None).unwrap();
    calls.extend(disk.take_calls());
    calls
}

/// A sync that finds no room is final, and so is a write of records, for which room was reserved.
fn is_refusal(call: &Call, fault: Fault) -> bool {
    let (needs_room, needs_descriptor) = match call.kind {
        CallKind::Write => (call.path.extension().is_none_or(|extension| extension != "log"), false),
        CallKind::CreateFile | CallKind::RemoveDirectory => (true, true),
        CallKind::CreateDirectory
        | CallKind::Rename
        | CallKind::RemoveFile
        | CallKind::SetSize
        | CallKind::Reserve
        | CallKind::WriteLock => (true, false),
        CallKind::Open | CallKind::List | CallKind::SyncDirectory | CallKind::Lock => (false, true),
        CallKind::Look | CallKind::Read | CallKind::Sync => (false, false),
    };
    if fault == Fault::NoSpace { needs_room } else { needs_descriptor }
}

/// Everything that a store does, and each of its calls finds no room, or no descriptor, once.
#[test]
fn whichever_call_finds_no_room_once_nothing_is_given_up() {
    let mut expected = Vec::new();
    let calls = calls_of_a_life(&mut expected);
    let first = calls[0].number;
    let (mut failed, mut kinds, mut reopened, mut unclean) = (0, BTreeSet::new(), 0, 0);
    for fault in [Fault::NoSpace, Fault::NoDescriptors] {
        for call in calls.iter().filter(|call| is_refusal(call, fault)) {
            let disk = SimulatedDisk::new(40);
            let mut life = begin(&disk, None);
            assert_eq!(disk.next_call(), first);
            disk.fail_call(call.number, fault);
            life.live();
            let failure = life.store.failure().cloned();
            assert!(failure.is_none(), "{fault:?} at {call:?}: {failure:?}");
            assert_eq!(life.contents(), expected, "{fault:?} at {call:?}");
            failed += 1;
            reopened += life.reopened;
            kinds.insert(call.kind);
            let closed = life.store.close(serde_json::Map::new(), None);
            let stop = match closed {
                Ok(()) => Stop::Clean,
                Err(CloseError::OutOfSpace { .. } | CloseError::OutOfDescriptors { .. }) => Stop::Unclean,
                Err(error) => panic!("{fault:?} at {call:?}: {error}"),
            };
            unclean += u32::from(stop == Stop::Unclean);
            let (store, report) = start(&disk, None).unwrap();
            // The mark may be there although its name was not made certain.
            let is_known = report.stop == stop || call.kind == CallKind::SyncDirectory;
            assert!(is_known && report.refused.is_empty(), "{fault:?} at {call:?}: {report:?}");
            let life = Life { store, reopened: 0, ms: 0 };
            assert_eq!(life.contents(), expected, "{fault:?} at {call:?}, after the stop");
        }
    }
    println!("{failed} calls, {reopened} logs opened again, {unclean} stops without a mark, kinds {kinds:?}");
    assert!(failed > 300 && kinds.len() >= 10 && unclean > 10, "{failed}, {kinds:?}");
}

const RESERVE: u64 = 40 * PAGE_BYTES as u64;
const SEGMENT_BYTES: u32 = 100_000;

/// Somebody else's file that takes all that is free.
fn fill(disk: &SimulatedDisk) {
    let free = disk.free_bytes(Path::new("/")).unwrap();
    let file = disk.open(Path::new("/other"), Open::Create).unwrap();
    let size = file.size().unwrap();
    file.write_all_at(&vec![1; usize::try_from(free).unwrap()], size).unwrap();
    assert_eq!(disk.free_bytes(Path::new("/")).unwrap(), 0);
}

fn has_reserve(disk: &SimulatedDisk) -> bool {
    disk.open(&Path::new(DATA).join(RESERVE_FILE), Open::Read).is_ok()
}

fn fill_with_appends(store: &Store, log: &Log) -> (u64, usize) {
    for batches in 0.. {
        match log.append(Permit::new(epoch(1)), produced(&[&[7; 500]], 1), now(1)) {
            Ok(_) => drop(turn(store)),
            Err(AppendError::OutOfSpace { missing_bytes, .. }) => return (missing_bytes, batches),
            Err(error) => panic!("{error:?}"),
        }
    }
    unreachable!("the disk has an end")
}

#[test]
fn on_a_full_disk_all_but_appends_goes_through_and_they_go_on_when_there_is_room() {
    let disk = SimulatedDisk::new(41);
    disk.set_capacity(Some(190 * PAGE_BYTES as u64));
    let (store, report) = start(&disk, Some(RESERVE)).unwrap();
    assert_eq!(report.reserve, ReserveReport::Held { bytes: RESERVE });
    let log = store.create_log(&name("t-0"), None, small_segments(SEGMENT_BYTES), now(1)).unwrap();
    let (missing, batches) = fill_with_appends(&store, &log);
    assert!(missing > 0 && batches > 200 && has_reserve(&disk), "appends do not take what is in reserve");
    fill(&disk);

    let end = log.written();
    store.wait(log.ticket(), Step::Durable).unwrap();
    assert!(matches!(Job::Checkpoint { now: now(2) }.run(&store), JobDone::Checkpointed));
    assert!(!has_reserve(&disk), "it was needed");
    // Appends do not get it now either, although it is free.
    assert!(disk.free_bytes(Path::new("/")).unwrap() > 4 * PAGE_BYTES as u64);
    let (missing, batches) = fill_with_appends(&store, &log);
    assert!(batches <= 8 && missing > PAGE_BYTES as u64, "{batches} more, {missing} bytes are missing");
    let refused = store.create_log(&name("u-0"), None, small_segments(4_000), now(1));
    assert!(matches!(refused, Err(CreateLogError::OutOfSpace { .. })), "{refused:?}");
    assert_eq!(read_all(&store, &log, 0).len() as u64, log.size_bytes());
    assert!(log.written() >= end && store.failure().is_none() && log.closed().is_none());

    // A clean stop goes through, and so does the opening behind it.
    drop(log);
    store.close(serde_json::Map::new(), None).unwrap();
    let (store, report) = start(&disk, Some(RESERVE)).unwrap();
    assert_eq!(report.stop, Stop::Clean);
    assert!(matches!(report.reserve, ReserveReport::NoRoom { .. }), "{:?}", report.reserve);
    let log = store.log(&name("t-0")).unwrap();
    store
        .set_config(log.id(), LogConfig { retention_bytes: Some(150_000), ..small_segments(SEGMENT_BYTES) })
        .unwrap();
    let done = Job::Retention { log: log.id(), ceiling: Offset::MAX, now: now(3) }.run(&store);
    assert!(matches!(done, JobDone::Retained { segments: 2.., .. }), "{done:?}");
    assert!(matches!(Job::Checkpoint { now: now(4) }.run(&store), JobDone::Checkpointed));
    assert!(has_reserve(&disk), "there is room for it again");
    append_in(&log, 1);
    turn(&store);
    assert_eq!(log.written(), log.accepted());
}

#[test]
fn what_is_in_reserve_is_taken_again_only_when_more_than_it_is_free() {
    let disk = SimulatedDisk::new(42);
    disk.set_capacity(Some(200 * PAGE_BYTES as u64));
    let (store, _) = start(&disk, Some(RESERVE)).unwrap();
    let log = store.create_log(&name("t-0"), None, small_segments(4_000), now(1)).unwrap();
    append(&log, 1);
    turn(&store);
    fill(&disk);
    log.begin_epoch(epoch(2)).unwrap();
    assert!(!has_reserve(&disk));
    let other = disk.open(Path::new("/other"), Open::Write).unwrap();
    // As much as is in reserve is free, and a little more: not yet.
    for (freed_pages, is_taken) in [(1, false), (4, false), (20, true)] {
        other.set_size(other.size().unwrap() - freed_pages * PAGE_BYTES as u64).unwrap();
        assert!(matches!(Job::Checkpoint { now: now(2) }.run(&store), JobDone::Checkpointed));
        assert_eq!(has_reserve(&disk), is_taken, "{freed_pages} pages");
    }
    append_in(&log, 2);
    fill(&disk);
    log.begin_epoch(epoch(3)).unwrap();
    assert!(!has_reserve(&disk), "once more");
    // An append asks as well, when it needs room; then it is an append that goes on.
    other.set_size(0).unwrap();
    for _ in 0..20 {
        append_in(&log, 3);
    }
    turn(&store);
    assert!(has_reserve(&disk));
}

fn append_in(log: &Log, leader: i32) {
    log.append(Permit::new(epoch(leader)), produced(&[&[7; 500]], 1), now(1)).unwrap();
}

#[test]
fn without_space_in_reserve_a_stop_on_a_full_disk_is_unclean_and_loses_nothing() {
    let disk = SimulatedDisk::new(43);
    disk.set_capacity(Some(60 * PAGE_BYTES as u64));
    let (store, report) = start(&disk, None).unwrap();
    assert_eq!(report.reserve, ReserveReport::SwitchedOff);
    let log = store.create_log(&name("t-0"), None, small_segments(4_000), now(1)).unwrap();
    fill_with_appends(&store, &log);
    fill(&disk);
    let (end, bytes) = (log.written(), read_all(&store, &log, 0));
    let done = Job::Checkpoint { now: now(2) }.run(&store);
    assert!(matches!(done, JobDone::Failed { error: JobError::OutOfSpace { .. }, .. }), "{done:?}");
    drop(log);
    let closed = store.close(serde_json::Map::new(), None).unwrap_err();
    assert!(matches!(closed, CloseError::OutOfSpace { .. }), "{closed:?}");
    // The opening has something to write.
    let opened = start(&disk, None).unwrap_err();
    assert!(matches!(opened, StoreOpenError::OutOfSpace { .. }), "{opened:?}");
    disk.set_capacity(None);
    let (store, report) = start(&disk, None).unwrap();
    assert_eq!((report.stop, report.logs[0].end), (Stop::Unclean, end));
    assert_eq!(read_all(&store, &store.log(&name("t-0")).unwrap(), 0), bytes);
}

/// The process is killed on a full disk: what it had in reserve is what the next opening writes with.
#[test]
fn what_the_last_process_had_in_reserve_lets_the_next_opening_through() {
    let disk = SimulatedDisk::new(44);
    disk.set_capacity(Some(200 * PAGE_BYTES as u64));
    let (store, _) = start(&disk, Some(RESERVE)).unwrap();
    let log = store.create_log(&name("t-0"), None, small_segments(4_000), now(1)).unwrap();
    fill_with_appends(&store, &log);
    fill(&disk);
    let bytes = read_all(&store, &log, 0);
    drop((log, store));
    assert!(has_reserve(&disk));
    let disk = disk.crash_kill(&mut fastrand::Rng::with_seed(1));
    let without = disk.fork(9);
    without.remove_file(&Path::new(DATA).join(RESERVE_FILE)).unwrap();
    fill(&without);
    let refused = start(&without, Some(RESERVE)).unwrap_err();
    assert!(matches!(refused, StoreOpenError::OutOfSpace { .. }), "{refused:?}");
    let (store, report) = start(&disk, Some(RESERVE)).unwrap();
    assert!(report.refused.is_empty(), "{:?}", report.refused);
    assert_eq!(read_all(&store, &store.log(&name("t-0")).unwrap(), 0), bytes);
}

#[test]
fn a_sync_that_finds_no_room_is_final() {
    let mut expected = Vec::new();
    let calls = calls_of_a_life(&mut expected);
    let syncs = |kind| calls.iter().filter(move |call| call.kind == kind).map(|call| call.number);
    let directory = syncs(CallKind::SyncDirectory).nth(3).unwrap();
    for number in [syncs(CallKind::Sync).nth(2).unwrap(), directory] {
        let disk = SimulatedDisk::new(40);
        let life = begin(&disk, None);
        let store = life.store.clone();
        disk.fail_call(number, Fault::NoSpace);
        let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let mut life = life;
            life.live();
        }));
        assert!(lived.is_err() && store.failure().is_some(), "call {number}: {:?}", store.failure());
    }
}
