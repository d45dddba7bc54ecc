//! More logs than files that may be open: files are closed and opened again, and nothing of what was promised is lost by that.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;

use super::test_support::*;
use super::{Job, JobDone, Opened, Store, StoreConfig};
use crate::disk::simulated::Unsynced;
use crate::disk::{Disk, Open, SimulatedDisk};
use crate::log::{AppendError, Closed, Log, LogConfig, Permit, Step};
use crate::units::{LeaderEpoch, TopicPartition};

const DIRECTORY: &str = "/data";
/// What a job or an opening needs beside the files of segments.
const OTHER_FILES: usize = 6;

fn config(open_files_max: usize) -> StoreConfig {
    StoreConfig {
        log: small_segments(700),
        open_files_max: Some(open_files_max),
        mapped_indexes_max: 2,
        // So that readers are sent to the files.
        tail_bytes_max: 500,
        ..StoreConfig::default()
    }
}

fn names(count: usize) -> impl Iterator<Item = TopicPartition> {
    (0..count).map(|number| name(&format!("t-{number}")))
}

fn logs(store: &Store, count: usize) -> Vec<Log> {
    let log = |name: TopicPartition| match store.log(&name) {
        Some(log) => log,
        None => store.create_log(&name, None, small_segments(700), now(0)).unwrap(),
    };
    names(count).map(log).collect()
}

#[test]
fn more_logs_than_open_files_are_written_read_rolled_and_opened_again() {
    for place in places() {
        let (store, _) = open_with(&place.disk, &place.directory, config(3));
        let logs = logs(&store, 12);
        for round in 0..30 {
            for log in &logs {
                append(log, 2);
                turn(&store);
                let open = store.shared().files.open();
                assert!(open <= 4, "{open} files and more are open in round {round}");
            }
        }
        for log in &logs {
            assert!(log.segment_count() > 2);
            assert_eq!(read_all(&store, log, 0).len(), usize::try_from(log.size_bytes()).unwrap());
        }
        let sizes: BTreeMap<_, _> = logs.iter().map(|log| (log.name().clone(), log.size_bytes())).collect();
        store.close(serde_json::Map::new(), None).unwrap();
        let (store, report) = open_with(&place.disk, &place.directory, config(3));
        assert_eq!(report.logs.len(), 12);
        for (name, size) in sizes {
            let log = store.log(&name).unwrap();
            assert_eq!((log.written(), log.size_bytes()), (at(60), size));
            assert_eq!(read_all(&store, &log, 0).len(), usize::try_from(size).unwrap());
        }
        assert!(store.shared().files.open() <= 4);
    }
}

/// Logs beside each other on a disk with few descriptors, which loses what is closed before it is synced.
struct World {
    disk: SimulatedDisk,
    rng: Rng,
    accepted: BTreeMap<TopicPartition, i64>,
    durable: BTreeMap<TopicPartition, i64>,
    /// Where logs ended whose cut a crash interrupted: they may end there still.
    half_cut: BTreeMap<TopicPartition, i64>,
}

impl World {
    fn live(&mut self, open_files_max: usize) {
        self.disk.set_open_files_max(Some(open_files_max + OTHER_FILES));
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let opened = Store::open(disk, Path::new(DIRECTORY), config(open_files_max), now(0));
        let Opened { store, report } = opened.unwrap();
        for log in &report.logs {
            assert!(log.plan.damaged.is_empty(), "{:?}", log.plan);
        }
        let logs = logs(&store, 8);
        for log in &logs {
            let durable = self.durable.get(log.name()).copied().unwrap_or(0);
            let accepted = self.accepted.get(log.name()).copied().unwrap_or(0);
            assert!((durable..=accepted).contains(&log.written().value()), "{:?}: {durable}", log.written());
            assert_eq!(read_all(&store, log, 0).len(), usize::try_from(log.size_bytes()).unwrap());
            self.durable.insert(log.name().clone(), 0);
            self.accepted.insert(log.name().clone(), log.accepted().value());
        }
        store.confirm_incarnation().unwrap();
        if self.rng.u8(..4) > 0 {
            self.disk.crash_at(self.disk.next_call() + self.rng.u64(50..600));
        }
        for _ in 0..self.rng.usize(20..120) {
            let log = &logs[self.rng.usize(..logs.len())];
            self.act(&store, log);
            if self.disk.is_down() {
                break;
            }
            assert!(store.failure().is_none(), "{:?}", store.failure());
        }
        for log in &logs {
            let before_the_cut = self.half_cut.remove(log.name()).unwrap_or(0);
            self.accepted.insert(log.name().clone(), log.accepted().value().max(before_the_cut));
            self.durable.insert(log.name().clone(), log.durable().value());
        }
    }

    fn act(&mut self, store: &Store, log: &Log) {
        match self.rng.u8(..16) {
            0..=7 => {
                let batch = produced(&[&[7; 60], &[8; 30]], 1);
                let appended = log.append(Permit::new(epoch(0)), batch, now(1));
                let is_right = appended.is_ok() || self.disk.is_down();
                assert!(is_right, "{appended:?} {:?}", store.failure());
                if self.rng.bool() {
                    turn(store);
                }
            }
            8 | 9 => {
                let _down = store.wait(log.ticket(), Step::Durable);
            }
            10 => drop(log.read(log.start(), log.written(), 300, true)),
            11 => drop(Job::Seal { log: log.id() }.run(store)),
            12 => drop(Job::Checkpoint { now: now(2) }.run(store)),
            13 if self.rng.u8(..4) == 0 => {
                let (to, end) = (at(self.rng.i64(0..=log.written().value())), log.accepted().value());
                if !matches!((Job::Truncate { log: log.id(), to }).run(store), JobDone::Truncated { .. }) {
                    self.half_cut.insert(log.name().clone(), end);
                }
            }
            14 => drop(Job::Sync { logs: vec![log.id()] }.run(store)),
            _ => drop(turn(store)),
        }
    }
}

#[test]
fn what_was_durable_stays_though_files_are_closed_and_opened_all_the_time() {
    for seed in 0..60_u64 {
        let mut world = World {
            disk: SimulatedDisk::new(seed),
            rng: Rng::with_seed(seed),
            accepted: BTreeMap::new(),
            durable: BTreeMap::new(),
            half_cut: BTreeMap::new(),
        };
        for life in 0..4_u64 {
            world.live(usize::try_from(1 + (seed + life) % 3).unwrap());
            let mut rng = world.rng.fork();
            world.disk = if rng.bool() {
                world.disk.crash_power(Unsynced::Chosen, &mut rng)
            } else {
                world.disk.crash_kill(&mut rng)
            };
            world.disk.crash_at(u64::MAX);
        }
        let closed = world.disk.closed_unsynced();
        let logs = closed.iter().filter(|path| path.extension().is_some_and(|kind| kind == "log"));
        assert_eq!(logs.count(), 0, "seed {seed}: {closed:?}");
    }
}

#[test]
fn a_file_that_was_exchanged_while_it_was_closed_is_not_written_to() {
    for place in places() {
        for how in ["replaced", "cut", "removed"] {
            let directory = place.directory.join(how);
            let (store, _) = open_with(&place.disk, &directory, config(1));
            let logs = logs(&store, 2);
            for log in &logs {
                append(log, 2);
                store.wait(log.ticket(), Step::Durable).unwrap();
            }
            // Only one file is open, the other log's.
            let path = logs[0].directory().join("00000000000000000000.log");
            match how {
                "replaced" => {
                    let bytes = vec![0; usize::try_from(logs[0].size_bytes()).unwrap()];
                    place.disk.rename(&path, &path.with_extension("old")).unwrap();
                    place.disk.open(&path, Open::Create).unwrap().write_all_at(&bytes, 0).unwrap();
                }
                "cut" => place.disk.open(&path, Open::Write).unwrap().set_size(10).unwrap(),
                _ => place.disk.remove_file(&path).unwrap(),
            }
            let permit = Permit::new(LeaderEpoch::ZERO);
            let refused = logs[0].append(permit, produced(&[b"x"], 1), now(1));
            let is_closed = matches!(refused, Err(AppendError::Closed(Closed::FileExchanged)));
            assert!(is_closed, "{how}: {refused:?}");
            assert_eq!(logs[0].accepted(), at(2));
            assert!(store.failure().is_none());
            let report = turn_report(&store);
            assert_eq!(report, vec![logs[0].id()], "its owner is told");
            append(&logs[1], 2);
            if how != "removed" {
                // Recovery looks at what is there now.
                assert!(store.reopen_log(logs[0].name(), now(2)).unwrap().is_some());
                append(&store.log(logs[0].name()).unwrap(), 1);
            }
            turn(&store);
        }
    }
}

fn turn_report(store: &Store) -> Vec<crate::log::LogId> {
    store.turn(crate::disk::Wait::Not, crate::disk::Patience::MayBlock).failed
}

#[test]
fn maps_of_indexes_are_given_up_and_made_again() {
    for place in places() {
        let (store, _) = open_with(&place.disk, &place.directory, config(4));
        let logs = logs(&store, 6);
        for log in &logs {
            for _ in 0..20 {
                append(log, 2);
            }
            turn(&store);
            assert!(matches!(Job::Seal { log: log.id() }.run(&store), JobDone::Sealed { .. }));
        }
        for _ in 0..2 {
            for log in &logs {
                for offset in (0..40).step_by(3) {
                    let records = read(&store, log, offset, 1).unwrap();
                    assert!(records.first <= at(offset) && records.end > at(offset));
                    assert!(store.shared().files.mapped() <= 2);
                }
            }
        }
        assert!(store.shared().files.mapped() > 0, "sealed segments are mapped");
    }
}

#[test]
fn a_store_whose_logs_are_idle_has_no_deadline() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let (store, _) = open_with(&disk, Path::new(DIRECTORY), StoreConfig::default());
    let config = StoreConfig::default();
    // The first checkpoint is one interval behind the opening.
    assert!(store.due_jobs(now(0)).is_empty());
    let logs: Vec<_> =
        names(100).map(|name| store.create_log(&name, None, LogConfig::default(), now(0)).unwrap()).collect();
    assert_eq!(store.next_deadline(), None);
    for log in &logs {
        append(log, 1);
    }
    turn(&store);
    let dirty = now(1).monotonic.after(config.dirty_age_max);
    assert_eq!(store.next_deadline(), Some(dirty), "a background sync");
    assert!(store.due_jobs(now(30_000)).is_empty(), "a moment too early");
    for job in store.due_jobs(now(30_001)) {
        assert!(matches!(job.run(&store), JobDone::Synced { .. }));
    }
    let checkpoint = now(0).monotonic.after(config.checkpoint_interval);
    assert_eq!(store.next_deadline(), Some(checkpoint), "recovery points have moved");
    for job in store.due_jobs(now(60_000)) {
        assert!(matches!(job.run(&store), JobDone::Checkpointed));
    }
    assert_eq!(store.next_deadline(), None);
    assert!(store.due_jobs(now(1_000_000)).is_empty(), "nothing has changed since");
}
