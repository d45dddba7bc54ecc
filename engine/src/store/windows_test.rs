//! Repetitions of a producer's last five batches are recognized whatever happened to the process, and no others.

use std::path::Path;

use super::test_support::*;
use super::*;
use crate::disk::SimulatedDisk;
use crate::log::{Log, Permit};

const DIRECTORY: &str = "/data";
const BATCHES: i64 = 9;

/// Batches of two producers by turns, two records each.
fn fill(log: &Log) {
    for number in 0..i32::try_from(BATCHES).unwrap() {
        for producer in [1, 2] {
            log.append(Permit::new(epoch(0)), numbered(producer, number * 2, 2), now(1)).unwrap();
        }
    }
}

/// Each of the last five batches, sent again, is where it was; nothing is appended.
fn check_last_five(log: &Log, how: &str) {
    let end = log.written();
    for producer in [1, 2] {
        for number in BATCHES - 5..BATCHES {
            let sequence = i32::try_from(number * 2).unwrap();
            let again = log.append(Permit::new(epoch(0)), numbered(producer, sequence, 2), now(2));
            let again = again.unwrap_or_else(|error| panic!("{how}: batch {number} of {producer}: {error}"));
            assert!(again.duplicate, "{how}: batch {number} of {producer}");
            assert_eq!(again.offsets.start(), at(number * 4 + (producer - 1) * 2), "{how}");
        }
        let older = log.append(Permit::new(epoch(0)), numbered(producer, 0, 2), now(2));
        assert!(older.is_err(), "{how}: the first batch of {producer} is out of the window");
    }
    assert_eq!(log.with_facts(|facts| facts.accepted), end, "{how}");
}

fn run_jobs(store: &Store) {
    for job in store.due_jobs(now(5)) {
        let done = job.run(store);
        assert!(!matches!(done, JobDone::Failed { .. }), "{done:?}");
    }
}

#[test]
fn after_a_clean_stop_and_after_a_kill_the_last_five_batches_are_known() {
    // One segment; a few batches each; one batch each, so that the roll comes right before the end.
    for segment_bytes in [1 << 20, 600, 200] {
        for clean in [true, false] {
            let disk = SimulatedDisk::new(7);
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let (store, _) = open(&shared, Path::new(DIRECTORY));
            let log = store.create_log(&name("t-0"), None, small_segments(segment_bytes), now(0)).unwrap();
            fill(&log);
            turn(&store);
            run_jobs(&store);
            let next: Arc<dyn Disk> = if clean {
                store.close(serde_json::Map::new(), None).unwrap();
                shared
            } else {
                Arc::new(disk.crash_kill(&mut fastrand::Rng::with_seed(7)))
            };
            let (store, _) = open(&next, Path::new(DIRECTORY));
            let how = format!("segments of {segment_bytes}, clean: {clean}");
            check_last_five(&store.log(&name("t-0")).unwrap(), &how);
        }
    }
}

#[test]
fn after_a_truncation_the_last_five_batches_are_known() {
    for segment_bytes in [600, 200] {
        let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(7));
        let (store, _) = open(&disk, Path::new(DIRECTORY));
        let log = store.create_log(&name("t-0"), None, small_segments(segment_bytes), now(0)).unwrap();
        fill(&log);
        for _ in 0..3 {
            append(&log, 2);
        }
        turn(&store);
        run_jobs(&store);
        let to = at(BATCHES * 4);
        let done = Job::Truncate { log: log.id(), to }.run(&store);
        assert!(matches!(done, JobDone::Truncated { end, .. } if end == to), "{done:?}");
        check_last_five(&log, &format!("segments of {segment_bytes}, cut"));
    }
}
