//! Single crashes and failures that once were wrong. All of them, enumerated and by chance, are in the crate of the proofs (`recover`).

use std::path::Path;
use std::sync::Arc;

use super::test_support::*;
use super::*;
use crate::disk::simulated::Fault;
use crate::disk::{Disk, Patience, SimulatedDisk, Wait};
use crate::log::{LogConfig, Permit};

/// Each call of a cut fails in turn. What is said of the log fits together all the same: no epoch begins beyond its end.
#[test]
fn a_cut_that_fails_half_way_leaves_no_epoch_beyond_the_end() {
    let mut half_done = 0;
    for call in 0..100 {
        let simulated = SimulatedDisk::new(1035);
        let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
        let (store, _) = open(&disk, Path::new("/data"));
        let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
        for number in 0..2 {
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
        // What was not cut is still there, and its epochs are in the file whatever is written meanwhile.
        Job::Checkpoint { now: now(2) }.run(&store);
        let killed: Arc<dyn Disk> = Arc::new(simulated.crash_kill(&mut fastrand::Rng::with_seed(1)));
        let (_, report) = open(&killed, Path::new("/data"));
        assert!(report.logs[0].plan.damaged.is_empty(), "call {call}: {}", report.logs[0].plan);
    }
    panic!("a cut needs no hundred calls");
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

#[test]
fn a_log_made_where_one_was_deleted_has_nothing_of_its_promises() {
    let simulated = SimulatedDisk::new(23);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let (store, _) = open(&disk, Path::new("/data"));
    for number in 0..2 {
        let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
        for _ in 0..4 - number * 2 {
            append(&log, 1);
        }
        store.want_durable(&log);
        turn(&store);
        if number == 0 {
            Job::RaiseStart { log: log.id(), to: at(3) }.run(&store);
            assert!(matches!(Job::Checkpoint { now: now(1) }.run(&store), JobDone::Checkpointed));
            store.delete_log(&name("t-0")).unwrap().run(&store);
        }
    }
    drop(store);
    let next: Arc<dyn Disk> = Arc::new(simulated.crash_kill(&mut fastrand::Rng::with_seed(1)));
    let (_, report) = open(&next, Path::new("/data"));
    assert_eq!((report.logs[0].start, report.logs[0].end), (at(0), at(2)));
}
