//! A log against a model of it, on a disk that crashes at any call: by a kill or by a power loss, again and again.
//!
//! What has to hold: a kill loses nothing that was written, a power loss nothing that was durable; what is left is a prefix of what was
//! accepted, byte for byte; nothing is damaged; epochs and duplicates are those of the prefix; and only a power loss makes suspect.

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;

use super::test_support::*;
use super::*;
use crate::disk::simulated::{Completing, Fault, Unsynced};
use crate::disk::{Disk, Patience, SimulatedDisk, Wait};
use crate::log::{LogConfig, Permit};
use crate::units::Offset;

const DIRECTORY: &str = "/data";

#[derive(Clone, Debug)]
struct Batch {
    base: i64,
    end: i64,
    epoch: i32,
    tag: u64,
}

/// What the log must and may hold.
#[derive(Debug, Default)]
struct Model {
    accepted: Vec<Batch>,
    written: i64,
    durable: i64,
    epoch: i32,
    tags: u64,
    /// The lowest end that a truncation which is under way may leave.
    cut: Option<i64>,
    /// What a truncation that was killed before its sync had cut: a power loss may bring it back, until something behind the cut is
    /// durable. The leader's answer to the next fetch cuts it again.
    ghosts: Option<(i64, Vec<Batch>)>,
}

impl Model {
    fn end(&self) -> i64 {
        self.accepted.last().map_or(0, |batch| batch.end)
    }

    fn look(&mut self, log: &crate::log::Log) {
        self.written = log.written().value();
        self.durable = log.durable().value();
        self.ghosts.take_if(|(cut, _)| self.durable > *cut);
    }
}

struct World {
    disk: SimulatedDisk,
    rng: Rng,
    model: Model,
    seed: u64,
    now: u64,
    rules: crate::Rules,
}

impl World {
    fn now(&mut self) -> crate::units::Now {
        self.now += self.rng.u64(0..2_000);
        now(self.now)
    }

    /// One life of the process: recovery is judged, then work until the disk is down or the life is over.
    fn live(&mut self, lives: usize) {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let config = StoreConfig { log: config(), rules: self.rules, ..StoreConfig::default() };
        let now = self.now();
        let Ok(Opened { store, report }) = Store::open(disk, Path::new(DIRECTORY), config, now) else {
            assert!(self.disk.is_down(), "seed {}: opening failed without a crash", self.seed);
            return;
        };
        let log = match store.log(&name("t-0")) {
            Some(log) => log,
            None => match store.create_log(&name("t-0"), None, config_of_log(), now) {
                Ok(log) => log,
                Err(error) => {
                    assert!(self.disk.is_down(), "seed {}: {error}", self.seed);
                    return;
                }
            },
        };
        self.judge(&store, &log, &report, lives);
        store.confirm_incarnation().ok();
        if self.rng.u8(0..4) > 0 {
            self.disk.crash_at(self.disk.next_call() + self.rng.u64(1..200));
        }
        if self.rng.bool() {
            self.disk.set_completing(Completing::WhenTold);
        }
        for _ in 0..self.rng.usize(1..80) {
            self.act(&store, &log);
            if self.disk.is_down() || store.failure().is_some() {
                break;
            }
        }
        if !self.disk.is_down() && self.rng.u8(0..4) == 0 {
            self.model.durable = self.model.durable.max(0);
            if store.close(serde_json::Map::new(), None).is_ok() {
                self.model.written = self.model.end();
                self.model.durable = self.model.end();
            }
        }
    }

    fn judge(&mut self, store: &Store, log: &crate::log::Log, report: &OpenReport, lives: usize) {
        let context =
            format!("HIGHWATER_SEED={} life {lives} {:?}\n{:?}", self.seed, report.logs, self.model);
        let bytes = read_all(store, log, log.start().value());
        let mut held = Vec::new();
        for item in crate::batch::scan(&bytes, 0) {
            let (_, batch) = item.unwrap_or_else(|stop| panic!("{stop} {context}"));
            let header = *batch.header();
            let mut scratch = Vec::new();
            let limits = crate::batch::DecompressLimits::default();
            let record = batch.records(&limits, &mut scratch).unwrap().next().unwrap().unwrap();
            let tag = u64::from_be_bytes(record.value.unwrap()[..8].try_into().unwrap());
            let epoch = header.leader_epoch.map_or(-1, crate::units::LeaderEpoch::value);
            held.push((header.base_offset.value(), header.next_offset().value(), epoch, tag));
        }
        let is_prefix_of = |batches: &[Batch]| {
            held.len() <= batches.len()
                && held.iter().zip(batches).all(|(is, was)| *is == (was.base, was.end, was.epoch, was.tag))
        };
        if !is_prefix_of(&self.model.accepted)
            && let Some((_, ghosts)) = self.model.ghosts.take_if(|(_, ghosts)| is_prefix_of(ghosts))
        {
            self.model.accepted = ghosts;
        }
        assert!(held.len() <= self.model.accepted.len(), "more than was accepted: {held:?} {context}");
        for (is, was) in held.iter().zip(&self.model.accepted) {
            assert_eq!(*is, (was.base, was.end, was.epoch, was.tag), "{context}");
        }
        let end = held.last().map_or(0, |batch| batch.1);
        assert_eq!(log.accepted().value(), end, "the end is that of the last batch: {context}");
        let must = self.model.cut.map_or(self.model.written, |cut| cut.min(self.model.written));
        assert!(end >= must, "{end} of {must} is left: {context}");
        if self.model.cut.is_some() && held.len() < self.model.accepted.len() {
            self.model.ghosts = Some((end, self.model.accepted.clone()));
        }
        self.model.accepted.truncate(held.len());
        self.model.cut = None;
        for batch in &self.model.accepted {
            assert_eq!(log.epoch_at(at(batch.base)), Some(epoch(batch.epoch)), "{context}");
        }
        for found in &report.logs {
            assert!(found.plan.damaged.is_empty(), "{context}");
            if report.machine == Machine::Same {
                assert!(!found.suspect, "a kill makes nobody suspect: {context}");
            }
        }
        self.model.look(log);
    }

    fn act(&mut self, store: &Store, log: &crate::log::Log) {
        let now = self.now();
        match self.rng.u8(0..20) {
            0..=8 => self.append(log, now),
            9..=11 => {
                store.turn(Wait::Not, Patience::MustNotBlock);
            }
            12 => {
                store.turn(Wait::ForOne, Patience::MustNotBlock);
            }
            13 | 14 => {
                store.want_durable(log);
                store.turn(
                    Wait::Not,
                    if self.rng.bool() { Patience::MayBlock } else { Patience::MustNotBlock },
                );
            }
            15 => {
                self.disk.complete_next(&mut self.rng);
            }
            16 => {
                for job in store.due_jobs(now) {
                    job.run(store);
                }
            }
            17 => {
                Job::Checkpoint { now }.run(store);
            }
            18 => self.model.epoch += 1,
            _ if self.rng.u8(0..3) == 0 => self.truncate(store, log),
            _ => {}
        }
        if self.model.cut.is_none() {
            self.model.look(log);
        }
    }

    fn append(&mut self, log: &crate::log::Log, now: crate::units::Now) {
        self.model.tags += 1;
        let mut value = self.model.tags.to_be_bytes().to_vec();
        value.resize(8 + self.rng.usize(0..400), b'v');
        if self.rng.u8(0..10) == 0 {
            value.resize(9_000, b'w');
        }
        let count = self.rng.usize(1..4);
        let mut values = vec![value.as_slice()];
        values.resize(count, b"more");
        let ms = now.wall.millis();
        let Ok(appended) = log.append(Permit::new(epoch(self.model.epoch)), produced(&values, ms), now)
        else {
            return;
        };
        self.model.accepted.push(Batch {
            base: appended.offsets.start().value(),
            end: appended.offsets.end().value(),
            epoch: self.model.epoch,
            tag: self.model.tags,
        });
    }

    fn truncate(&mut self, store: &Store, log: &crate::log::Log) {
        let to = self.rng.i64(0..=self.model.end());
        let kept = self.model.accepted.iter().take_while(|batch| batch.end <= to).count();
        let end = kept.checked_sub(1).map_or(0, |last| self.model.accepted[last].end);
        self.model.cut = Some(end);
        let done = Job::Truncate { log: log.id(), to: at(to) }.run(store);
        if matches!(done, JobDone::Truncated { .. } | JobDone::RestartedAt { .. }) {
            self.model.cut = None;
            self.model.accepted.truncate(kept);
            assert_eq!(log.accepted(), at(end), "HIGHWATER_SEED={}: truncated to {to}", self.seed);
            let latest = log.with_facts(|facts| facts.epochs.latest());
            assert!(
                latest.is_none_or(|latest| latest.start < at(end)),
                "HIGHWATER_SEED={}: {latest:?} was cut off at {end}",
                self.seed
            );
        } else {
            assert!(self.disk.is_down(), "HIGHWATER_SEED={}: {done:?}", self.seed);
        }
    }

    fn crash(&mut self) {
        if self.rng.bool() {
            self.disk = self.disk.crash_kill(&mut self.rng);
        } else {
            let unsynced = [Unsynced::Lost, Unsynced::Kept, Unsynced::Chosen, Unsynced::Chosen];
            let unsynced = unsynced[self.rng.usize(0..4)];
            self.disk = self.disk.crash_power(unsynced, &mut self.rng);
            self.model.written = self.model.written.min(self.model.durable);
        }
        self.disk.set_completing(Completing::AtOnce);
    }
}

fn config() -> LogConfig {
    LogConfig {
        segment_bytes_max: 20_000,
        index_interval_bytes: 500,
        retention_age: None,
        ..LogConfig::default()
    }
}

fn config_of_log() -> LogConfig {
    config()
}

fn run(seed: u64) {
    run_with(seed, crate::Rules::default());
}

fn run_with(seed: u64, rules: crate::Rules) {
    let mut world = World {
        disk: SimulatedDisk::new(seed),
        rng: Rng::with_seed(seed),
        model: Model::default(),
        seed,
        now: 0,
        rules,
    };
    for lives in 0..6 {
        world.live(lives);
        world.crash();
    }
}

#[test]
fn crashes_lose_only_what_they_may() {
    if let Some(seed) = std::env::var("HIGHWATER_SEED").ok().and_then(|text| text.parse().ok()) {
        return run(seed);
    }
    let seeds = std::env::var("HIGHWATER_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    for seed in 0..seeds {
        run(seed);
    }
}

/// Every call of a short life fails once, by a crash of either kind, in turn.
#[test]
fn a_crash_at_every_call_of_a_short_life() {
    let mut calls = 0;
    for crash_at in 1.. {
        let mut down = false;
        for power in [false, true] {
            let disk = SimulatedDisk::new(11);
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            disk.crash_at(disk.next_call() + crash_at);
            let durable = short_life(&shared);
            down |= disk.is_down();
            let mut rng = Rng::with_seed(crash_at);
            let next =
                if power { disk.crash_power(Unsynced::Chosen, &mut rng) } else { disk.crash_kill(&mut rng) };
            let next: Arc<dyn Disk> = Arc::new(next);
            let (store, report) = open_with(
                &next,
                Path::new(DIRECTORY),
                StoreConfig { log: config(), ..StoreConfig::default() },
            );
            let Some(log) = store.log(&name("t-0")) else {
                assert_eq!(durable, Offset::ZERO, "call {crash_at}");
                continue;
            };
            assert!(
                log.written() >= durable,
                "call {crash_at}, power {power}: {} of {durable}: {report:?}",
                log.written()
            );
            read_all(&store, &log, 0);
            log.append(Permit::new(epoch(3)), produced(&[b"on"], 1), now(1)).unwrap();
            turn(&store);
        }
        if !down {
            calls = crash_at;
            break;
        }
    }
    assert!(calls > 60, "the life was long enough: {calls}");
}

/// Each call of a cut fails in turn. What is said of the log fits together all the same: no epoch begins beyond its end.
#[test]
fn a_cut_that_fails_half_way_leaves_no_epoch_beyond_the_end() {
    let mut half_done = 0;
    for call in 0..100 {
        let simulated = SimulatedDisk::new(1035);
        let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
        let (store, _) = open(&disk, Path::new(DIRECTORY));
        let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
        for number in 0..3 {
            log.append(Permit::new(epoch(number)), produced(&[b"x"], 1), now(1)).unwrap();
        }
        turn(&store);
        simulated.fail_call(simulated.next_call() + call, Fault::NoSpace);
        let done = Job::Truncate { log: log.id(), to: at(1) }.run(&store);
        let (end, latest) = log.with_facts(|facts| (facts.accepted, facts.epochs.latest()));
        assert!(latest.is_some_and(|latest| latest.start < end), "call {call}: {latest:?} in ..{end}");
        if matches!(done, JobDone::Truncated { .. }) {
            assert!(half_done > 0, "a call failed behind the point of no return");
            return;
        }
        half_done += u32::from(end == at(1));
    }
    panic!("a cut needs no hundred calls");
}

/// Opens, appends across a roll, syncs, truncates, closes. Gives what was durable at the end, as far as it came.
fn short_life(disk: &Arc<dyn Disk>) -> Offset {
    let mut durable = Offset::ZERO;
    let config_of_store = StoreConfig { log: config(), ..StoreConfig::default() };
    let Ok(Opened { store, .. }) =
        Store::open(Arc::clone(disk), Path::new(DIRECTORY), config_of_store, now(0))
    else {
        return durable;
    };
    let Ok(log) = store.create_log(&name("t-0"), None, config(), now(0)) else { return durable };
    for _ in 0..3 {
        let large = vec![b'x'; 9_000];
        if log.append(Permit::new(epoch(1)), produced(&[&large], 1), now(1)).is_err() {
            return durable;
        }
        store.want_durable(&log);
        turn(&store);
        durable = log.durable();
    }
    // From here on the log may end at 2.
    durable = durable.min(at(2));
    Job::Truncate { log: log.id(), to: at(2) }.run(&store);
    append_if_possible(&log);
    turn(&store);
    drop(store.close(serde_json::Map::new(), None));
    durable
}

fn append_if_possible(log: &crate::log::Log) {
    drop(log.append(Permit::new(epoch(2)), produced(&[b"last"], 1), now(1)));
}

/// Each rule that is switched off is noticed, or this model proves nothing.
#[cfg(feature = "planted-faults")]
#[test]
fn a_missing_rule_is_noticed() {
    use crate::{Rule, Rules};
    for rule in [
        Rule::NobodySeesAboveWritten,
        Rule::SyncOnlyAfterItsWrites,
        Rule::RecoveryPointBelowUnsynced,
        Rule::EpochsFollowTruncation,
    ] {
        let rules = Rules::default().without(rule);
        let noticed = (0..2_000).find(|seed| std::panic::catch_unwind(|| run_with(*seed, rules)).is_err());
        assert!(noticed.is_some(), "{rule:?}");
    }
}

#[test]
fn what_recovery_found_is_synced_as_soon_as_somebody_wants_it() {
    for place in places() {
        let (store, _) = open(&place.disk, &place.directory);
        let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
        append(&log, 3);
        turn(&store);
        drop((log, store));
        let (store, report) = open(&place.disk, &place.directory);
        assert_eq!(report.stop, Stop::Unclean);
        let log = store.log(&name("t-0")).unwrap();
        assert_eq!((log.written(), log.durable()), (at(3), at(0)));
        // As an event loop does it, which must not block; no time passes.
        store.want_durable(&log);
        for _ in 0..3 {
            while store.turn(Wait::ForOne, Patience::MustNotBlock).in_flight > 0 {}
            for job in store.due_jobs(now(0)) {
                job.run(&store);
            }
        }
        assert_eq!(log.durable(), at(3));
    }
}
