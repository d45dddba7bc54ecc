//! Want of room or of descriptors is a refusal, and passes by itself.

use std::path::Path;
use std::sync::Arc;

use super::test_support::*;
use super::{CreateLogError, Job, JobDone, StoreConfig};
use crate::disk::simulated::Fault;
use crate::disk::{Disk, SimulatedDisk};
use crate::log::{AppendError, Permit};
use crate::segment::{FileKind, parse_file_name};

#[test]
fn a_roll_without_descriptors_is_a_refusal_and_leaves_no_segment() {
    let mut refused = 0;
    for call in 0..40 {
        let simulated = SimulatedDisk::new(30);
        let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
        let (store, _) = open(&disk, Path::new("/data"));
        let log = store.create_log(&name("t-0"), None, small_segments(150), now(0)).unwrap();
        append(&log, 2);
        turn(&store);
        let before = simulated.next_call();
        simulated.fail_call(simulated.next_call() + call, Fault::NoDescriptors);
        let batch = || produced(&[b"one", b"two"], 1);
        let result = log.append(Permit::new(epoch(0)), batch(), now(1));
        match result {
            // The call is one of the next append's.
            Ok(_) if simulated.next_call() <= before + call => break,
            Err(AppendError::OutOfDescriptors) => {
                refused += 1;
                assert!(store.failure().is_none() && log.segment_count() == 1, "call {call}");
                let files = disk.list(log.directory()).unwrap();
                let names = files.iter().filter_map(|file| parse_file_name(&file.name));
                assert_eq!(names.filter(|(_, kind)| *kind == FileKind::Log).count(), 1, "{files:?}");
                assert_eq!(
                    log.append(Permit::new(epoch(0)), batch(), now(1)).unwrap().offsets.start(),
                    at(2)
                );
            }
            other => panic!("call {call}: {other:?}"),
        }
        turn(&store);
        assert_eq!((log.written(), log.segment_count()), (at(4), 2), "call {call}");
    }
    assert!(refused > 0);
}

#[test]
fn a_checkpoint_that_finds_no_room_is_written_when_there_is() {
    for fault in [Fault::NoSpace, Fault::NoDescriptors] {
        let mut failed = 0;
        for call in 0..3 {
            let simulated = SimulatedDisk::new(31);
            let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
            let config = StoreConfig { reserve_bytes: None, ..StoreConfig::default() };
            let (store, _) = open_with(&disk, Path::new("/data"), config);
            let log = store.create_log(&name("t-0"), None, small_segments(4_000), now(0)).unwrap();
            append(&log, 2);
            store.want_durable(&log);
            turn(&store);
            simulated.fail_call(simulated.next_call() + call, fault);
            let done = Job::Checkpoint { now: now(2) }.run(&store);
            failed += u32::from(matches!(done, JobDone::Failed { .. }));
            assert!(store.failure().is_none(), "{fault:?} at call {call}");
            append(&log, 2);
            turn(&store);
            assert_eq!(read_all(&store, &log, 0).len(), usize::try_from(log.size_bytes()).unwrap());
            assert!(matches!(Job::Checkpoint { now: now(3) }.run(&store), JobDone::Checkpointed));
        }
        assert!(failed > 0, "{fault:?}");
    }
}

#[test]
fn a_name_is_free_when_the_job_is_done() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(32));
    let (store, _) = open(&disk, Path::new("/data"));
    let make = || store.create_log(&name("t-0"), None, small_segments(4_000), now(0));
    append(&make().unwrap(), 2);
    turn(&store);
    let job = store.delete_log(&name("t-0")).unwrap();
    let refused = make();
    assert!(matches!(refused, Err(CreateLogError::Deleting { .. })), "{refused:?}");
    assert!(matches!(job.run(&store), JobDone::Deleted { .. }));
    let log = make().unwrap();
    append(&log, 3);
    turn(&store);
    assert_eq!((log.start(), log.written()), (at(0), at(3)));
}
