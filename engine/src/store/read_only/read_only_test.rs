//! A looker beside a writer, on the simulated disk: what it sees is what the log has, and it changes nothing.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::batch::{ReplicatedBatches, scan};
use crate::disk::SimulatedDisk;
use crate::disk::simulated::{Call, CallKind, Unsynced};
use crate::log::{Log, LogConfig, Permit, Step};
use crate::store::test_support::*;
use crate::store::{Job, JobDone, Store};
use crate::units::{Offset, OffsetRange};

/// The one that is asked for, or several.
fn seeds() -> std::ops::RangeInclusive<u64> {
    match std::env::var("HIGHWATER_SEED").ok().and_then(|text| text.parse().ok()) {
        Some(seed) => seed..=seed,
        None => 1..=12,
    }
}

pub(super) const DIRECTORY: &str = "/data";

pub(super) fn config() -> StoreConfig {
    StoreConfig {
        log: LogConfig { retention_bytes: Some(2_000), ..small_segments(700) },
        tail_bytes_max: 1_000,
        ..StoreConfig::default()
    }
}

pub(super) fn looker(disk: &(impl Disk + Clone + 'static)) -> ReadOnlyStore {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    ReadOnlyStore::open(&disk, Path::new(DIRECTORY), config()).unwrap()
}

pub(super) fn seen(log: &ReadOnlyLog) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut next = log.start();
    while let Some(records) = log.read(next, 1_000).unwrap() {
        bytes.extend(records.parts.concat());
        assert!(records.end > next, "a read makes progress");
        next = records.end;
    }
    assert_eq!(next, log.end());
    bytes
}

/// Fails if a call since the last time was one that changes something, or that takes a lock.
fn check_nothing_changed(disk: &SimulatedDisk) {
    let calls = disk.take_calls();
    let changes = |call: &&Call| call.kind.is_change() || call.kind == CallKind::Lock;
    assert!(!calls.is_empty());
    assert_eq!(calls.iter().filter(changes).collect::<Vec<_>>(), Vec::<&Call>::new());
}

/// One log and who writes it.
pub(super) struct Writing {
    pub(super) store: Store,
    pub(super) log: Log,
    pub(super) epoch: i32,
}

impl Writing {
    pub(super) fn begin(disk: &SimulatedDisk) -> Self {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let (store, _) = open_with(&disk, Path::new(DIRECTORY), config());
        let log = store.log(&name("t-0"));
        let log = log.unwrap_or_else(|| store.create_log(&name("t-0"), None, config().log, now(0)).unwrap());
        let epoch =
            log.with_facts(|facts| facts.epochs.latest().map_or(0, |latest| latest.epoch.value() + 1));
        Self { store, log, epoch }
    }

    /// Changes the log in some way; an error is a crash that the disk was told to have.
    pub(super) fn act(&mut self, action: u32, rng: &mut fastrand::Rng) {
        match action {
            0..=4 => {
                let value = vec![rng.u8(..); rng.usize(1..200)];
                let batch = produced(&vec![value.as_slice(); rng.usize(1..4)], 1);
                if self.log.append(Permit::new(epoch(self.epoch)), batch, now(1)).is_ok() {
                    turn(&self.store);
                }
            }
            5 => {
                let to = at(rng.i64(self.log.start().value()..=self.log.written().value()));
                Job::Truncate { log: self.log.id(), to }.run(&self.store);
                self.epoch += 1;
            }
            6 => {
                let to = at(rng.i64(self.log.start().value()..=self.log.written().value()));
                Job::RaiseStart { log: self.log.id(), to }.run(&self.store);
                Job::Checkpoint { now: now(1) }.run(&self.store);
            }
            7 => {
                Job::Retention { log: self.log.id(), ceiling: self.log.written(), now: now(1) }
                    .run(&self.store);
            }
            8 => {
                Job::Seal { log: self.log.id() }.run(&self.store);
            }
            9 => {
                let offset = at(self.log.written().value() + rng.i64(0..20));
                Job::RestartAt { log: self.log.id(), offset }.run(&self.store);
                self.epoch += 1;
            }
            _ => {
                let _durable = self.store.wait(self.log.ticket(), Step::Durable);
                Job::Checkpoint { now: now(1) }.run(&self.store);
            }
        }
    }
}

#[test]
fn a_looker_sees_what_the_writer_has_written_and_changes_nothing() {
    let seed = *seeds().start();
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut moved, mut cut) = (0, 0);
    for run in 0..12 {
        let disk = SimulatedDisk::new(seed + run);
        let mut writing = Writing::begin(&disk);
        let mut log = looker(&disk).log(&name("t-0")).unwrap();
        for step in 0..120 {
            let before = seen(&log);
            let (start, end) = (log.start(), log.end());
            for _ in 0..rng.usize(1..4) {
                let action =
                    if rng.u32(..40) == 0 { 9 } else { [rng.u32(0..9), 10][usize::from(rng.bool())] };
                writing.act(action, &mut rng);
            }
            let why = format!("seed {seed} run {run} step {step}");
            disk.take_calls();
            let refreshed = log.refresh().unwrap_or_else(|error| panic!("{why}: {error}"));
            let bytes = seen(&log);
            check_nothing_changed(&disk);
            // The start is told by the checkpoint, which may not have been written since it rose.
            assert!(
                log.start() <= writing.log.start() && log.end() == writing.log.written(),
                "{why}: {log:?}"
            );
            let wanted = read_all(&writing.store, &writing.log, writing.log.start().value());
            assert!(bytes.ends_with(&wanted), "{why}");
            match refreshed {
                Refreshed::Same => {
                    assert_eq!((log.start(), log.end(), &bytes), (start, end, &before), "{why}");
                }
                Refreshed::Moved => {
                    moved += 1;
                    assert!(log.start() >= start && log.end() >= end, "{why}");
                    let kept = between(&before, log.start(), end);
                    assert!(
                        between(&bytes, log.start(), end) == kept,
                        "{why}: it was cut and did not say so"
                    );
                }
                Refreshed::Cut { to } => {
                    cut += 1;
                    assert!(to <= end, "{why}");
                    let from = log.start().max(start);
                    assert_eq!(between(&bytes, from, to), between(&before, from, to), "{why}");
                }
            }
        }
        assert!(log.generation() > 0);
        writing.store.close(serde_json::Map::new(), None).unwrap();
        assert_eq!(log.refresh().unwrap(), Refreshed::Same, "seed {seed} run {run}");
    }
    assert!(moved > 100 && cut > 50, "{moved} {cut}");
}

/// The batches that lie in this range as a whole.
fn between(bytes: &[u8], from: Offset, to: Offset) -> Vec<u8> {
    let batches = scan(bytes, 0).map(|batch| batch.unwrap().1);
    batches
        .filter(|batch| batch.header().base_offset >= from && batch.header().next_offset() <= to)
        .flat_map(|batch| batch.bytes().to_vec())
        .collect()
}

#[test]
fn what_is_seen_at_every_crash_point_is_what_recovery_keeps() {
    for seed in seeds() {
        look_at_every_crash_point(seed);
    }
}

fn look_at_every_crash_point(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let base = SimulatedDisk::new(seed);
    let mut writing = Writing::begin(&base);
    for _ in 0..30 {
        writing.act(rng.u32(0..5), &mut rng);
    }
    drop(writing);
    let mut looked = 0;
    for action in 0..=10 {
        for call in base.next_call().. {
            let disk = base.fork(call);
            let mut writing = Writing::begin(&disk);
            disk.crash_at(disk.next_call() + (call - base.next_call()));
            writing.act(action, &mut fastrand::Rng::with_seed(call));
            let is_over = !disk.is_down();
            let kill = call % 2 == 0;
            let after =
                if kill { disk.crash_kill(&mut rng) } else { disk.crash_power(Unsynced::Chosen, &mut rng) };
            drop(writing);
            let why = format!("seed {seed} action {action} call {call}");
            after.take_calls();
            let log = looker(&after).log(&name("t-0")).unwrap_or_else(|error| panic!("{why}: {error}"));
            let bytes = seen(&log);
            check_nothing_changed(&after);
            let opened = Writing::begin(&after);
            assert_eq!((log.start(), log.end()), (opened.log.start(), opened.log.written()), "{why}");
            assert!(bytes == read_all(&opened.store, &opened.log, log.start().value()), "{why}");
            looked += 1;
            if is_over {
                break;
            }
        }
    }
    assert!(looked > 100, "{looked}");
}

#[test]
fn a_read_that_comes_too_late_is_told_so() {
    let disk = SimulatedDisk::new(1);
    let mut writing = Writing::begin(&disk);
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..30 {
        writing.act(0, &mut rng);
    }
    let store = looker(&disk);
    assert_eq!(store.names().unwrap(), [name("t-0")]);
    let mut log = store.log(&name("t-0")).unwrap();
    let (start, end) = (log.start(), log.end());
    // The oldest segments go before their files were opened.
    writing.act(7, &mut rng);
    assert!(writing.log.start() > start);
    assert!(matches!(log.read(start, 100), Err(ReadOnlyReadError::Changed)));
    assert_eq!(log.refresh().unwrap(), Refreshed::Moved);
    assert_eq!((log.start(), log.end(), log.generation()), (writing.log.start(), end, 0));
    // A batch under a new epoch, of the same size and in the place of another one, in a segment that is open.
    let append = |writing: &Writing, value: &[u8]| {
        let batch = produced(&[value], 1);
        let appended = writing.log.append(Permit::new(epoch(writing.epoch)), batch, now(1)).unwrap();
        turn(&writing.store);
        appended.offsets.start()
    };
    let last = loop {
        let segments = writing.log.segment_count();
        let last = append(&writing, b"old");
        if writing.log.segment_count() == segments {
            break last;
        }
    };
    assert_eq!(log.refresh().unwrap(), Refreshed::Moved);
    assert!(log.read(last, 100).unwrap().is_some());
    Job::Truncate { log: writing.log.id(), to: last }.run(&writing.store);
    writing.epoch += 1;
    assert_eq!(append(&writing, b"new"), last);
    assert!(matches!(log.read(last, 100), Err(ReadOnlyReadError::Changed)));
    assert_eq!(log.refresh().unwrap(), Refreshed::Cut { to: last });
    assert_eq!((log.end(), log.generation()), (writing.log.written(), 1));
    assert_eq!(log.epochs().latest().map(|latest| latest.epoch), Some(epoch(writing.epoch)));
    assert!(log.read(last, 100).unwrap().is_some());
    assert!(matches!(
        log.read(log.end().next().unwrap(), 1),
        Err(ReadOnlyReadError::Read(crate::log::ReadError::OutOfRange { .. }))
    ));
    assert!(matches!(store.log(&name("u-0")), Err(ReadOnlyError::NoSuchLog { .. })));
}

#[test]
fn damage_is_told_from_a_change() {
    let disk = SimulatedDisk::new(1);
    let mut writing = Writing::begin(&disk);
    let mut rng = fastrand::Rng::with_seed(3);
    for _ in 0..30 {
        writing.act(0, &mut rng);
    }
    let mut log = looker(&disk).log(&name("t-0")).unwrap();
    let segment =
        crate::segment::file_path(Path::new("/data/t-0"), Offset::ZERO, crate::segment::FileKind::Log);
    disk.damage(&segment, 80, b"other").unwrap();
    for _ in 0..2 {
        let Err(ReadOnlyReadError::Read(crate::log::ReadError::Damaged { offsets, .. })) =
            log.read(at(0), 100)
        else {
            panic!("it is damaged")
        };
        let behind = offsets.expect("it was examined").end();
        let records = log.read(behind, 100).unwrap().expect("the log goes on behind it");
        assert_eq!(records.first, behind);
        // Nobody has cut anything.
        assert!(!matches!(log.refresh().unwrap(), Refreshed::Cut { .. }));
    }
}

#[test]
fn a_segment_that_the_writer_has_repaired_is_read_after_another_look() {
    let disk = SimulatedDisk::new(1);
    let mut writing = Writing::begin(&disk);
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..12 {
        writing.act(0, &mut rng);
    }
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let one_file = StoreConfig { open_files_max: Some(1), ..config() };
    let store = ReadOnlyStore::open(&shared, Path::new(DIRECTORY), one_file).unwrap();
    let mut log = store.log(&name("t-0")).unwrap();
    let before = seen(&log);
    let first = log.read(log.start(), 1).unwrap().unwrap();
    let batches = ReplicatedBatches::check(first.parts.concat().into(), epoch(i32::MAX)).unwrap();
    let offsets = OffsetRange::new(first.first, first.end).unwrap();
    let repair = Job::Repair { log: writing.log.id(), offsets, batches, now: now(2) };
    assert!(matches!(repair.run(&writing.store), JobDone::Repaired { .. }));
    // Another segment is read, so that the first one's file is closed.
    log.read(log.end().checked_add(-1).unwrap(), 1).unwrap();

    assert_eq!(log.refresh().unwrap(), Refreshed::Same);
    assert!(matches!(log.examine(), Err(ReadOnlyReadError::Changed)));
    assert!(matches!(log.read(log.start(), 1), Err(ReadOnlyReadError::Changed)));
    assert_eq!(log.refresh().unwrap(), Refreshed::Same);
    assert_eq!(seen(&log), before);
    assert!(log.examine().unwrap().is_empty());
    assert_eq!(log.generation(), 0);
}

#[test]
fn an_epoch_that_began_between_what_was_seen_and_a_raised_start_is_no_damage() {
    let disk = SimulatedDisk::new(1);
    let writing = Writing::begin(&disk);
    let append = |number| {
        let batch = produced(&[b"one", b"two", b"three"], 1);
        writing.log.append(Permit::new(epoch(number)), batch, now(1)).unwrap();
        turn(&writing.store);
    };
    append(0);
    let mut log = looker(&disk).log(&name("t-0")).unwrap();
    assert_eq!(log.end(), at(3));
    append(1);
    append(1);
    Job::RaiseStart { log: writing.log.id(), to: at(5) }.run(&writing.store);
    assert_eq!(log.refresh().unwrap(), Refreshed::Moved);
    assert_eq!(log.read(at(5), 1).unwrap().unwrap().first, at(3));

    // Also where the start that is written down lies between.
    Job::Checkpoint { now: now(2) }.run(&writing.store);
    assert_eq!(log.refresh().unwrap(), Refreshed::Moved);
    append(1);
    Job::RaiseStart { log: writing.log.id(), to: at(11) }.run(&writing.store);
    assert_eq!(log.refresh().unwrap(), Refreshed::Moved);
    assert_eq!((log.end(), log.generation()), (at(12), 0));
}
