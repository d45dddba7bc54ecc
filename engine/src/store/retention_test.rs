//! What retention deletes of a log on a disk, with everything that belongs to it, and what it leaves when a call fails.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::test_support::*;
use super::{Job, JobDone, JobError, Store};
use crate::disk::simulated::Fault;
use crate::disk::{Disk, SimulatedDisk};
use crate::log::{Cleanup, Log, LogConfig, Permit};
use crate::segment::{FileKind, parse_file_name};
use crate::units::Offset;

const DATA: &str = "/data";

/// Sixteen batches of two records, an epoch for each four of them, one producer.
fn filled(seed: u64) -> (SimulatedDisk, Store, Log) {
    let simulated = SimulatedDisk::new(seed);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let (store, _) = open(&disk, Path::new(DATA));
    let log = store.create_log(&name("t-0"), None, small_segments(300), now(0)).unwrap();
    for number in 0..16 {
        log.append(Permit::new(epoch(number / 4)), numbered(1, number * 2, 2), now(1)).unwrap();
    }
    turn(&store);
    for job in store.due_jobs(now(1)) {
        job.run(&store);
    }
    (simulated, store, log)
}

fn offsets_of(disk: &SimulatedDisk, log: &Log, wanted: FileKind) -> Vec<Offset> {
    let files = disk.list(log.directory()).unwrap();
    let named = files.iter().filter_map(|file| parse_file_name(&file.name));
    named.filter_map(|(offset, kind)| (kind == wanted).then_some(offset)).collect()
}

fn retain(store: &Store, log: &Log) -> JobDone {
    Job::Retention { log: log.id(), ceiling: Offset::MAX, now: now(1_000_000) }.run(store)
}

#[test]
fn a_compacted_log_is_deleted_below_its_start_only_and_one_with_both_policies_by_age_too() {
    for (cleanup, goes) in
        [(Cleanup::Compact, false), (Cleanup::CompactAndDelete, true), (Cleanup::Delete, true)]
    {
        let (_, store, log) = filled(80);
        let aged = LogConfig {
            cleanup,
            retention_age: Some(Duration::from_secs(1)),
            retention_bytes: Some(0),
            ..small_segments(300)
        };
        store.set_config(log.id(), aged).unwrap();
        let JobDone::Retained { segments, .. } = retain(&store, &log) else { panic!("it is retained") };
        assert_eq!(segments > 0, goes, "{cleanup:?}");
        if goes {
            continue;
        }
        let second = offsets_of_log(&store, &log)[1];
        Job::RaiseStart { log: log.id(), to: second }.run(&store);
        let JobDone::Retained { segments, start, .. } = retain(&store, &log) else {
            panic!("it is retained")
        };
        assert_eq!((segments, start), (1, second), "what lies below the start goes");
    }
}

fn offsets_of_log(store: &Store, log: &Log) -> Vec<Offset> {
    let files = store.disk().list(log.directory()).unwrap();
    let named = files.iter().filter_map(|file| parse_file_name(&file.name));
    named.filter_map(|(offset, kind)| (kind == FileKind::Log).then_some(offset)).collect()
}

#[test]
fn epochs_and_snapshots_go_with_the_segments_and_the_first_epoch_begins_at_the_start() {
    let (simulated, store, log) = filled(81);
    let bases = offsets_of(&simulated, &log, FileKind::Log);
    assert_eq!(offsets_of(&simulated, &log, FileKind::Snapshot), bases[1..], "one at each roll");
    // Three batches lie before it in its epoch.
    let start = *bases.iter().find(|base| base.value() > 8 && base.value() % 8 != 0).unwrap();
    Job::RaiseStart { log: log.id(), to: start }.run(&store);
    retain(&store, &log);
    let history = || log.with_facts(|facts| facts.epochs.starts().to_vec());
    let before = history();
    let first = i32::try_from(start.value() / 8).unwrap();
    assert_eq!((before[0].epoch, before[0].start), (epoch(first), start));
    assert_eq!(before.len(), 4 - usize::try_from(first).unwrap());
    let left = |offset: &Offset| *offset >= start;
    assert!(offsets_of(&simulated, &log, FileKind::Snapshot).iter().all(left));
    let older = log.append(Permit::new(epoch(3)), numbered(1, 30, 2), now(2)).unwrap();
    assert!(older.duplicate, "what is known of producers stays");
    store.close(serde_json::Map::new(), None).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(simulated);
    let (store, _) = open(&disk, Path::new(DATA));
    let log = store.log(&name("t-0")).unwrap();
    assert_eq!(log.with_facts(|facts| facts.epochs.starts().to_vec()), before);
}

#[test]
fn when_all_segments_go_the_last_epoch_begins_at_the_end() {
    let (simulated, store, log) = filled(82);
    let aged = LogConfig { retention_age: Some(Duration::from_secs(1)), ..small_segments(300) };
    store.set_config(log.id(), aged).unwrap();
    retain(&store, &log);
    assert_eq!((log.start(), log.written(), log.segment_count()), (at(32), at(32), 1));
    let latest = log.with_facts(|facts| facts.epochs.starts().to_vec());
    assert_eq!(
        latest.iter().map(|entry| (entry.epoch, entry.start)).collect::<Vec<_>>(),
        [(epoch(3), at(32))]
    );
    assert_eq!(offsets_of(&simulated, &log, FileKind::Log), [at(32)]);
}

/// Each call of a retention fails once.
#[test]
fn a_retention_whose_call_fails_gives_the_directory_up_and_never_goes_back() {
    let mut failed = 0;
    for call in 0..80 {
        let (simulated, store, log) = filled(83);
        let bases = offsets_of(&simulated, &log, FileKind::Log);
        let start = bases[3];
        Job::RaiseStart { log: log.id(), to: start }.run(&store);
        let everything = read_all(&store, &log, start.value());
        simulated.fail_call(simulated.next_call() + call, Fault::Io);
        let before = simulated.next_call();
        let done = retain(&store, &log);
        let is_over = simulated.next_call() <= before + call;
        if let JobDone::Failed { error, .. } = &done {
            // What could not be read is left, and everything goes on.
            let was_read = matches!(error, JobError::Damaged(_));
            failed += u32::from(!was_read);
            assert_eq!(store.failure().is_none(), was_read, "call {call}: {done:?}");
        }
        drop((log, store));
        let disk: Arc<dyn Disk> = Arc::new(simulated.crash_kill(&mut fastrand::Rng::with_seed(call)));
        let (store, report) = open(&disk, Path::new(DATA));
        let log = store.log(&name("t-0")).unwrap();
        assert!(report.logs[0].plan.damaged.is_empty(), "call {call}: {}", report.logs[0].plan);
        assert!(log.start() <= start && log.written() == at(32), "call {call}: {}..", log.start());
        assert_eq!(read_all(&store, &log, start.value()), everything, "call {call}");
        if is_over {
            assert!(failed > 5, "{failed}");
            return;
        }
    }
    panic!("a retention needs no eighty calls");
}
