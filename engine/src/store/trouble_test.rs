//! Want of room or of descriptors is a refusal, and passes by itself.

use std::path::Path;
use std::sync::Arc;

use super::test_support::*;
use super::{CreateLogError, Job, JobDone, JobError, StoreConfig};
use crate::disk::simulated::{CallKind, Fault};
use crate::disk::{Disk, SimulatedDisk};
use crate::log::{AppendError, Closed, Permit, Step};
use crate::segment::{FileKind, parse_file_name};
use crate::units::TopicId;

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
fn a_log_that_could_not_be_made_leaves_nothing_of_it() {
    for fault in [Fault::NoSpace, Fault::NoDescriptors, Fault::Io] {
        let mut refused = 0;
        for call in 0.. {
            let simulated = SimulatedDisk::new(32);
            let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
            let (store, _) = open(&disk, Path::new("/data"));
            let planned = simulated.next_call() + call;
            simulated.fail_call(planned, fault);
            let topic = TopicId::new([7; 16]);
            let made = store.create_log(&name("t-0"), topic, small_segments(150), now(0));
            if simulated.next_call() <= planned {
                break;
            }
            if made.is_err() && store.failure().is_none() {
                refused += 1;
                let left = disk.list(Path::new("/data")).unwrap();
                assert!(left.iter().all(|entry| entry.name != "t-0"), "{fault:?} of call {call}: {left:?}");
            }
        }
        assert!(refused > 0, "{fault:?}");
    }
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

/// Whoever was about to seal a log when a failed write closed it comes too late: it was opened again, cut, and has grown in the same file.
#[test]
fn a_seal_that_comes_after_its_log_was_opened_again_cuts_nothing() {
    let disk = SimulatedDisk::new(9);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, _) = open(&shared, Path::new("/data"));
    let log = store.create_log(&name("t-0"), None, small_segments(2_000), now(0)).unwrap();
    let add = |leader, bytes: usize| {
        let log = store.log(&name("t-0")).unwrap();
        log.append(Permit::new(epoch(leader)), produced(&[&vec![7; bytes]], 1), now(1)).unwrap();
    };
    add(0, 900);
    add(0, 600);
    turn(&store);
    add(0, 900);
    assert_eq!(log.segment_count(), 2, "the first one is not sealed yet");
    disk.fail_next(CallKind::Write, Fault::Io);
    turn(&store);
    let told = Job::Seal { log: log.id() }.run(&store);
    let is_told =
        |done: &JobDone| matches!(done, JobDone::Failed { error: JobError::Closed(Closed::WriteFailed), .. });
    assert!(is_told(&told), "{told:?}");
    assert!(store.reopen_log(&name("t-0"), now(2)).unwrap().is_some());
    let again = store.log(&name("t-0")).unwrap();
    Job::Truncate { log: again.id(), to: at(1) }.run(&store);
    add(1, 900);
    store.wait(again.ticket(), Step::Durable).unwrap();
    let bytes = read_all(&store, &again, 0);
    assert!(log.0.seal_rolled().is_err());
    drop((log, again, store));
    let next: Arc<dyn Disk> = Arc::new(disk.crash_kill(&mut fastrand::Rng::with_seed(1)));
    let (store, _) = open(&next, Path::new("/data"));
    let log = store.log(&name("t-0")).unwrap();
    assert_eq!((log.written(), read_all(&store, &log, 0)), (at(2), bytes));
}
