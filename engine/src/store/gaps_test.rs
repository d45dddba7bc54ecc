//! A gap of offsets in front of the last batch: what a follower of a compacted log has, and what a damaged header looks like.

use std::path::Path;
use std::sync::Arc;

use super::test_support::*;
use super::{Job, JobDone, Opened, Store};
use crate::checkpoint::GAPS_NOTE;
use crate::disk::simulated::Unsynced;
use crate::disk::{Disk, SimulatedDisk};
use crate::log::{Log, LogConfig, Permit};
use crate::recovery::SuspectReason;
use crate::units::Now;

const LOG: &str = "/data/t-0/00000000000000000000.log";

fn opened(disk: &SimulatedDisk) -> (Store, Log, super::LogReport) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let opened = Store::open(disk, Path::new("/data"), super::StoreConfig::default(), Now::default());
    let Opened { store, report } = opened.unwrap();
    let log = store.log(&name("t-0")).unwrap();
    let [found] = &report.logs[..] else { panic!("{report:?}") };
    let found = found.clone();
    (store, log, found)
}

fn new_log(simulated: &SimulatedDisk) -> (Store, Log) {
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let (store, _) = open(&disk, Path::new("/data"));
    let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
    (store, log)
}

fn sync(store: &Store, log: &Log) {
    store.want_durable(log);
    turn(store);
    Job::Seal { log: log.id() }.run(store);
    turn(store);
}

fn checkpoint(store: &Store) {
    let done = Job::Checkpoint { now: now(2) }.run(store);
    assert!(matches!(done, JobDone::Checkpointed), "{done:?}");
}

#[test]
fn a_gap_at_the_end_is_noted_before_it_is_written_and_believed_after_kills_and_power_losses() {
    for seed in 0..40 {
        let simulated = SimulatedDisk::new(seed);
        let (store, log) = new_log(&simulated);
        sync(&store, &log);
        checkpoint(&store);
        let note = Path::new("/data/t-0").join(GAPS_NOTE);
        log.append_replicated(&replicated(&[stamped(0, 2, 0, 1), stamped(2, 2, 0, 1)]), now(1)).unwrap();
        assert!(simulated.contents(&note).is_err(), "there is no gap yet");
        log.append_replicated(&replicated(&[stamped(10, 2, 0, 1), stamped(20, 2, 0, 1)]), now(1)).unwrap();
        simulated.contents(&note).unwrap();
        turn(&store);
        let mut chance = fastrand::Rng::with_seed(seed);
        let (_, log_after, found) = opened(&simulated.fork(1).crash_kill(&mut chance));
        assert_eq!((log_after.written(), found.suspect), (at(22), false), "{}", found.plan);
        // Its name is certain when what lies behind the gap is.
        sync(&store, &log);
        assert_eq!(log.durable(), log.written());
        let (_, log_after, found) = opened(&simulated.fork(2).crash_power(Unsynced::Chosen, &mut chance));
        assert_eq!(log_after.written(), at(22), "{}", found.plan);
    }
}

#[test]
fn a_leader_leaves_no_gap_so_that_one_at_the_end_of_a_killed_log_is_damage() {
    let simulated = SimulatedDisk::new(1);
    let (store, log) = new_log(&simulated);
    for number in 0..3 {
        log.append(Permit::new(epoch(0)), numbered(1, number * 2, 2), now(1)).unwrap();
    }
    turn(&store);
    // Before the first recovery point is written nobody knows who else has written the log.
    checkpoint(&store);
    let killed = simulated.crash_kill(&mut fastrand::Rng::with_seed(1));
    let bytes = killed.contents(Path::new(LOG)).unwrap();
    let last = bytes.len() / 3 * 2;
    assert_eq!(bytes[last..last + 8], 4_i64.to_be_bytes());
    killed.damage(Path::new(LOG), last as u64 + 5, &[1]).unwrap();
    let (_, log, found) = opened(&killed);
    assert_eq!(log.written(), at(4), "{}", found.plan);
    assert!(found.plan.suspect.iter().any(|why| matches!(why, SuspectReason::LastBatchLost { .. })));
    let aside = format!("/data/t-0/00000000000000000000-{last}.lost");
    assert_eq!(killed.contents(Path::new(&aside)).unwrap()[8..], bytes[last + 8..], "it is kept");
}
