//! What an opening makes of a log whose start lies above what a crash has left, or of what lies below it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;

use super::test_support::*;
use super::{Job, JobDone, Store, StoreConfig};
use crate::disk::simulated::{Fault, Interruption, Unsynced};
use crate::disk::{Disk, Open, SimulatedDisk};
use crate::log::{Log, LogConfig, Permit};
use crate::segment::{FileKind, file_path, parse_file_name};
use crate::units::Offset;

const DATA: &str = "/data";

fn opened(disk: &SimulatedDisk) -> (Store, Log) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, _) = open(&disk, Path::new(DATA));
    let log = store.log(&name("t-0")).unwrap();
    (store, log)
}

fn new_log(seed: u64, config: LogConfig) -> (SimulatedDisk, Store, Log) {
    let simulated = SimulatedDisk::new(seed);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let (store, _) = open(&disk, Path::new(DATA));
    let log = store.create_log(&name("t-0"), None, config, now(0)).unwrap();
    (simulated, store, log)
}

fn segments(disk: &SimulatedDisk) -> Vec<(Offset, u64)> {
    let directory = Path::new(DATA).join("t-0");
    let files = disk.list(&directory).unwrap();
    let named = files.iter().filter_map(|file| parse_file_name(&file.name));
    let bases = named.filter_map(|(base, kind)| (kind == FileKind::Log).then_some(base));
    let bytes =
        |base| disk.open(&file_path(&directory, base, FileKind::Log), Open::Read).unwrap().size().unwrap();
    bases.map(|base| (base, bytes(base))).collect()
}

fn raise_start(store: &Store, log: &Log, to: i64) {
    let done = Job::RaiseStart { log: log.id(), to: at(to) }.run(store);
    assert!(matches!(done, JobDone::StartRaised { start, .. } if start == at(to)), "{done:?}");
    assert!(matches!(Job::Checkpoint { now: now(2) }.run(store), JobDone::Checkpointed));
}

/// All that is left lies below the start, so that recovery removes it and begins anew at the start. A power loss in the middle of that must
/// not bring an old segment back beside the new one, where nobody would remove it again.
#[test]
fn an_opening_that_loses_the_power_leaves_nothing_beside_the_segment_that_it_makes() {
    let (simulated, store, log) = new_log(120, small_segments(300));
    for number in 0..14 {
        log.append(Permit::new(epoch(0)), numbered(1, number * 2, 2), now(1)).unwrap();
    }
    turn(&store);
    Job::Seal { log: log.id() }.run(&store);
    log.append(Permit::new(epoch(0)), numbered(1, 28, 2), now(1)).unwrap();
    turn(&store);
    raise_start(&store, &log, 30);
    let crashed = simulated.crash_power(Unsynced::Lost, &mut Rng::with_seed(120));
    drop((store, log));
    let old: Vec<_> = segments(&crashed).into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    assert!(old.len() > 2, "{old:?}");
    let mut interrupted = 0;
    for call in 0.. {
        let mut is_whole = true;
        for seed in 0..40 {
            let disk = crashed.fork(seed);
            disk.crash_in(disk.next_call() + call, Interruption::Done);
            drop(Store::open(Arc::new(disk.clone()), Path::new(DATA), StoreConfig::default(), now(0)));
            is_whole = !disk.is_down();
            if is_whole {
                break;
            }
            interrupted += 1;
            let disk = disk.crash_power(Unsynced::Chosen, &mut Rng::with_seed(seed));
            let (_, log) = opened(&disk);
            assert_eq!((log.start(), log.written()), (at(30), at(30)), "call {call}, seed {seed}");
            assert_eq!(segments(&disk), [(at(30), 0)], "call {call}, seed {seed}");
        }
        if is_whole {
            break;
        }
    }
    assert!(interrupted > 400, "only {interrupted} openings were interrupted");
}

/// A power loss may leave a hole below the start, which costs nothing above it, nor what is known of the producers there.
#[test]
fn a_hole_below_the_start_loses_no_producer_above_it() {
    // All of a batch, or what lies behind the first half of its header, so that it begins like one, of the producer 0.
    for (hole, start, kept) in
        [(0, 3, 0), (1, 4, 0), (2, 7, 0), (3, 9, 0), (1, 4, 43), (2, 7, 43), (3, 9, 43)]
    {
        let (simulated, store, log) = new_log(121, LogConfig::default());
        for number in 0..5 {
            log.append(Permit::new(epoch(0)), numbered(i64::from(number), 0, 2), now(1)).unwrap();
        }
        turn(&store);
        raise_start(&store, &log, start);
        drop((store, log));
        let disk = simulated.crash_kill(&mut Rng::with_seed(121));
        let path: PathBuf = file_path(&Path::new(DATA).join("t-0"), Offset::ZERO, FileKind::Log);
        let file = disk.open(&path, Open::Write).unwrap();
        let batch = file.size().unwrap() / 5;
        let zeros = vec![0; usize::try_from(batch - kept).unwrap()];
        file.write_all_at(&zeros, hole * batch + kept).unwrap();
        drop(file);
        let (store, log) = opened(&disk);
        assert!(log.damaged().is_empty());
        let known: Vec<i64> =
            log.with_producers(|producers| producers.summaries().map(|known| known.id.value()).collect());
        let behind: Vec<i64> = (i64::try_from(hole).unwrap() + 1..5).collect();
        assert_eq!(known, behind, "a hole at batch {hole}, behind {kept} bytes, the start at {start}");
        let again = log.append(Permit::new(epoch(0)), numbered(4, 0, 2), now(3)).unwrap();
        assert!(again.duplicate, "the last one is known");
        let unknown = log.append(Permit::new(epoch(0)), numbered(0, 7, 2), now(3));
        assert!(unknown.is_ok(), "what lay below the start was deleted, not lost: {unknown:?}");
        drop(store);
    }
}

/// What lies below the start was deleted, and may have holes. A cut below the start that is interrupted leaves the old log, or the new one,
/// and shows nothing of that.
#[test]
fn a_cut_below_the_start_that_is_killed_shows_nothing_of_what_was_deleted() {
    let (simulated, store, log) = new_log(122, small_segments(300));
    for number in 0..10 {
        log.append(Permit::new(epoch(0)), numbered(1, number * 2, 2), now(1)).unwrap();
    }
    turn(&store);
    raise_start(&store, &log, 11);
    drop((store, log));
    let simulated = simulated.crash_kill(&mut Rng::with_seed(122));
    for to in [5, 6, 8] {
        for restart in [true, false] {
            let mut starts = Vec::new();
            for call in 0.. {
                let disk = simulated.fork(call);
                let (store, log) = opened(&disk);
                disk.crash_in(disk.next_call() + call, Interruption::Done);
                let job = if restart {
                    Job::RestartAt { log: log.id(), offset: at(to) }
                } else {
                    Job::Truncate { log: log.id(), to: at(to) }
                };
                job.run(&store);
                let is_whole = !disk.is_down();
                drop((store, log));
                let (_, log) = opened(&disk.crash_kill(&mut Rng::with_seed(call)));
                let what = format!("to {to}, restart {restart}, call {call}");
                assert!(log.damaged().is_empty(), "{what}");
                let start = log.start();
                assert!(start == at(11) || (start == at(to) && log.written() == start), "{what}: {start}");
                starts.push(start);
                if is_whole {
                    break;
                }
            }
            starts.dedup();
            assert_eq!(starts, [at(11), at(to)], "to {to}, restart {restart}");
        }
    }
}

/// The same where the batch across the start goes, the cut fails half way, and checkpoints are written all the same.
#[test]
fn a_cut_across_the_start_that_fails_half_way_shows_nothing_of_what_was_deleted() {
    let (simulated, store, log) = new_log(123, small_segments(300));
    for number in 0..10 {
        log.append(Permit::new(epoch(0)), numbered(1, number * 2, 2), now(1)).unwrap();
    }
    turn(&store);
    raise_start(&store, &log, 11);
    drop((store, log));
    let simulated = simulated.crash_kill(&mut Rng::with_seed(123));
    let mut starts = Vec::new();
    for call in 0..100 {
        let disk = simulated.fork(call);
        let (store, log) = opened(&disk);
        disk.fail_call(disk.next_call() + call, Fault::NoDescriptors);
        let cut = Job::Truncate { log: log.id(), to: at(11) }.run(&store);
        disk.fail_no_more();
        Job::Checkpoint { now: now(3) }.run(&store);
        drop((store, log));
        let (_, log) = opened(&disk.crash_kill(&mut Rng::with_seed(call)));
        let (start, end) = (log.start(), log.written());
        let is_right = (start == at(11) && end >= start) || (start == at(10) && end == start);
        assert!(is_right, "call {call}, {cut:?}: {start}..{end}");
        starts.push(start);
    }
    assert!(starts.contains(&at(11)) && starts.contains(&at(10)), "{starts:?}");
}
