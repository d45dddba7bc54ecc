//! A damaged range is replaced as a whole or not at all, at whatever call the repair is interrupted.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fastrand::Rng;

use super::damage_test::{Beside, DATA, SEALED, closed_log, pair, read_beside};
use super::test_support::*;
use super::{Job, JobDone, JobError, RepairRefusal, Store};
use crate::batch::ReplicatedBatches;
use crate::checkpoint::{DAMAGE_NOTE, read_damage};
use crate::disk::simulated::{Fault, Unsynced};
use crate::disk::{Disk, SimulatedDisk};
use crate::log::{Log, Permit};
use crate::segment::{FileKind, file_path};
use crate::units::{LeaderEpoch, OffsetRange};

/// How a segment is damaged, and which offsets that makes unreadable.
type Damaging = (fn(&SimulatedDisk), (i64, i64));

const IN_THE_MIDDLE: Damaging = (zero_two_batches, (2, 6));
const AT_THE_END: Damaging = (cut_in_half, (8, 16));

fn zero_two_batches(disk: &SimulatedDisk) {
    disk.damage(Path::new(SEALED), 90, &[0; 100]).unwrap();
}

fn cut_in_half(disk: &SimulatedDisk) {
    let bytes = disk.contents(Path::new(SEALED)).unwrap();
    let (half, _) = crate::batch::scan(&bytes, 0).nth(4).unwrap().unwrap();
    let file = disk.open(Path::new(SEALED), crate::disk::Open::Write).unwrap();
    file.set_size(half).unwrap();
    // A power loss must not take back the damage itself.
    file.sync().unwrap();
}

fn range((from, until): (i64, i64)) -> OffsetRange {
    OffsetRange::new(at(from), at(until)).unwrap()
}

/// The batches of a range, as a peer has them.
fn batches_of(whole: &Beside, (from, until): (i64, i64)) -> ReplicatedBatches {
    let bytes: Vec<u8> = whole.0.range(from..until).flat_map(|(_, bytes)| bytes.clone()).collect();
    ReplicatedBatches::check(Bytes::from(bytes), LeaderEpoch::new(i32::MAX).unwrap()).unwrap()
}

fn opened(disk: &SimulatedDisk) -> Option<(Store, Log)> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let config = super::StoreConfig { log: small_segments(700), ..super::StoreConfig::default() };
    let opened = Store::open(shared, Path::new(DATA), config, now(0)).ok()?;
    let log = opened.store.log(&name("t-0"))?;
    Some((opened.store, log))
}

fn contents(disk: &SimulatedDisk) -> Beside {
    let (store, log) = opened(disk).unwrap();
    read_beside(&store, &log, "contents")
}

fn repair(log: &Log, offsets: (i64, i64), batches: ReplicatedBatches) -> Job {
    Job::Repair { log: log.id(), offsets: range(offsets), batches, now: now(5) }
}

#[test]
fn a_repaired_range_is_whole_and_forgotten_and_its_indexes_are_right() {
    for (damage, offsets) in [IN_THE_MIDDLE, AT_THE_END] {
        let disk = closed_log(20);
        let (whole, bytes) = (contents(&disk.fork(1)), disk.contents(Path::new(SEALED)).unwrap());
        damage(&disk);
        let (store, log) = opened(&disk).unwrap();
        let reader = log.clone();
        assert_eq!(read_beside(&store, &log, "damaged").1, [offsets]);
        let done = repair(&log, offsets, batches_of(&whole, offsets)).run(&store);
        assert!(matches!(&done, JobDone::Repaired { damaged, .. } if damaged.is_empty()), "{done:?}");
        assert_eq!(disk.contents(Path::new(SEALED)).unwrap(), bytes);
        assert_eq!(read_beside(&store, &reader, "repaired"), whole);
        assert!(log.damaged().is_empty());
        assert_eq!(read_damage(&disk, &Path::new(DATA).join(DAMAGE_NOTE)).unwrap().known(), Some(vec![]));
        for (kind, entries) in [(FileKind::OffsetIndex, 8), (FileKind::TimeIndex, 12)] {
            let index = disk.contents(&file_path(log.directory(), at(0), kind)).unwrap();
            assert!(
                !index.is_empty() && index.len().is_multiple_of(entries),
                "{kind:?}: {} bytes",
                index.len()
            );
        }
        log.append(Permit::new(epoch(3)), produced(&[b"on"], 1), now(1)).unwrap();
        turn(&store);
        drop((log, reader, store));
        let (store, log) = opened(&disk).unwrap();
        assert!(log.damaged().is_empty());
        assert_eq!(read_beside(&store, &log, "reopened").1, []);
    }
}

#[test]
fn one_of_two_ranges_is_repaired_and_the_other_stays_where_it_is() {
    let disk = closed_log(21);
    let whole = contents(&disk.fork(1));
    zero_two_batches(&disk);
    let size = disk.contents(Path::new(SEALED)).unwrap().len() as u64;
    disk.damage(Path::new(SEALED), size - 20, &[9; 4]).unwrap();
    let (store, log) = opened(&disk).unwrap();
    let (_, ranges) = read_beside(&store, &log, "damaged");
    let [first, last] = ranges[..] else { panic!("{ranges:?}") };
    // A peer's batches need not have the size of those that were there.
    let mut values = crate::batch::BatchBuilder::new(crate::batch::Compression::None)
        .base_offset(at(first.0))
        .leader_epoch(epoch(0));
    for _ in first.0..first.1 {
        values.push(Some(crate::units::Timestamp::from_millis(1)), None, Some(&[7; 90]), &[]).unwrap();
    }
    let other = values.finish().unwrap();
    let checked = ReplicatedBatches::check(other.clone(), epoch(0)).unwrap();
    let done = repair(&log, first, checked).run(&store);
    let JobDone::Repaired { damaged, .. } = done else { panic!("{done:?}") };
    assert_eq!(damaged.iter().map(pair).collect::<Vec<_>>(), [last]);
    for store_of_log in 0..2 {
        let (batches, ranges) = read_beside(&store, &log, "half repaired");
        assert_eq!((batches.get(&first.0), ranges), (Some(&other.to_vec()), vec![last]), "{store_of_log}");
        let base = log.damaged()[0].segment;
        Job::Examine { log: log.id(), segment: base }.run(&store);
        assert_eq!(log.damaged(), damaged, "examined again it is the same");
    }
    let done = repair(&log, last, batches_of(&whole, last)).run(&store);
    assert!(matches!(&done, JobDone::Repaired { damaged, .. } if damaged.is_empty()), "{done:?}");
}

#[test]
fn the_segment_that_grows_is_rolled_and_repaired_while_appends_go_on() {
    let disk = SimulatedDisk::new(22);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, _) = open(&shared, Path::new(DATA));
    let log = store.create_log(&name("t-0"), None, small_segments(4_000), now(0)).unwrap();
    for _ in 0..6 {
        append(&log, 2);
        turn(&store);
    }
    store.close(serde_json::Map::new(), None).unwrap();
    let whole = contents(&disk.fork(1));
    zero_two_batches(&disk);
    let (store, log) = opened(&disk).unwrap();
    let ranges = read_beside(&store, &log, "damaged").1;
    log.append(Permit::new(epoch(1)), produced(&[b"on"], 1), now(1)).unwrap();
    let done = repair(&log, ranges[0], batches_of(&whole, ranges[0])).run(&store);
    assert!(matches!(&done, JobDone::Repaired { damaged, .. } if damaged.is_empty()), "{done:?}");
    log.append(Permit::new(epoch(1)), produced(&[b"on"], 1), now(1)).unwrap();
    turn(&store);
    let (batches, none) = read_beside(&store, &log, "repaired");
    assert!(none.is_empty() && batches.len() == 8 && log.segment_count() == 2);
    assert!(whole.0.iter().all(|(base, bytes)| batches.get(base) == Some(bytes)));
}

#[test]
fn what_does_not_belong_there_is_refused_and_nothing_changes() {
    let disk = closed_log(23);
    let whole = contents(&disk.fork(1));
    zero_two_batches(&disk);
    let (store, log) = opened(&disk).unwrap();
    let before = read_beside(&store, &log, "damaged");
    let refused = |offsets, batches: ReplicatedBatches| {
        let done = repair(&log, offsets, batches).run(&store);
        let JobDone::Failed { error: JobError::NotRepaired(why), .. } = done else { panic!("{done:?}") };
        why
    };
    let why = refused((2, 6), batches_of(&whole, (2, 4)));
    assert!(matches!(why, RepairRefusal::OtherOffsets { .. }), "shorter: {why}");
    let why = refused((2, 6), batches_of(&whole, (2, 8)));
    assert!(matches!(why, RepairRefusal::OtherOffsets { .. }), "longer: {why}");
    let why = refused((2, 4), batches_of(&whole, (2, 4)));
    assert!(matches!(why, RepairRefusal::Across { .. }), "half of it: {why}");
    let end = log.written().value();
    let why = refused((0, end), batches_of(&whole, (0, end)));
    assert!(matches!(why, RepairRefusal::NotInOneSegment { .. }), "all of the log: {why}");
    let why = refused((2, 6), replicated(&[stamped(2, 4, 7, 1)]));
    assert!(matches!(why, RepairRefusal::OtherEpoch { .. }), "another epoch: {why}");
    assert_eq!(read_beside(&store, &log, "still damaged"), before);
}

/// Every call of a repair is the last one, by a kill or by a power loss with any part of what was not synced; and every call fails once.
#[test]
fn a_repair_that_is_interrupted_at_any_call_leaves_the_old_or_the_new() {
    let (mut old, mut new, mut failed) = (0, 0, 0);
    for (damage, offsets) in [IN_THE_MIDDLE, AT_THE_END] {
        let first = closed_log(24);
        let whole = contents(&first.fork(1));
        damage(&first);
        let damaged = contents(&first);
        let mut judge = |disk: &SimulatedDisk, is_repaired: bool, what: &str| {
            let (store, log) = opened(disk).unwrap();
            let now = read_beside(&store, &log, what);
            assert!(now == whole || (now == damaged && !is_repaired), "{what}: {:?}", now.1);
            *(if now == whole { &mut new } else { &mut old }) += 1;
            let beside = disk.list(log.directory()).unwrap();
            assert!(beside.iter().all(|entry| !entry.name.ends_with(".cleaned")), "{what}: {beside:?}");
            drop((log, store));
            // And once more, after a stop without a mark.
            assert_eq!(contents(disk), now, "{what}");
        };
        for call in 0.. {
            let what = format!("call {call} of the repair of {offsets:?}");
            let mut is_over = true;
            for crash in [None, Some(Unsynced::Lost), Some(Unsynced::Kept), Some(Unsynced::Chosen)] {
                let disk = first.fork(call);
                let (store, log) = opened(&disk).unwrap();
                disk.crash_at(disk.next_call() + call);
                let done = repair(&log, offsets, batches_of(&whole, offsets)).run(&store);
                is_over &= !disk.is_down();
                drop((log, store));
                let mut rng = Rng::with_seed(call);
                let next = match crash {
                    None => disk.crash_kill(&mut rng),
                    Some(unsynced) => disk.crash_power(unsynced, &mut rng),
                };
                judge(&next, matches!(done, JobDone::Repaired { .. }), &format!("{what}, {crash:?}"));
            }
            for fault in [Fault::NoSpace, Fault::Io] {
                let disk = first.fork(call);
                let (store, log) = opened(&disk).unwrap();
                disk.fail_call(disk.next_call() + call, fault);
                let done = repair(&log, offsets, batches_of(&whole, offsets)).run(&store);
                failed += u32::from(!matches!(done, JobDone::Repaired { .. }));
                drop((log, store));
                let is_repaired = matches!(done, JobDone::Repaired { .. });
                judge(
                    &disk.crash_kill(&mut Rng::with_seed(call)),
                    is_repaired,
                    &format!("{what}, {fault:?}"),
                );
            }
            if is_over {
                assert!(call > 30, "{call}");
                break;
            }
        }
    }
    println!("{old} times the old, {new} times the new, {failed} repairs failed");
    assert!(old > 50 && new > 50 && failed > 50);
}

#[test]
fn what_damage_hid_of_producers_is_known_again_and_no_snapshot_made_its_loss_certain() {
    let disk = SimulatedDisk::new(25);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, _) = open_with(&shared, Path::new(DATA), super::StoreConfig::default());
    let log = store.create_log(&name("t-0"), None, small_segments(700), now(0)).unwrap();
    let permit = Permit::new(epoch(0));
    for number in 0..20 {
        log.append(permit, numbered(7, number * 2, 2), now(1)).unwrap();
        turn(&store);
    }
    Job::Seal { log: log.id() }.run(&store);
    drop(log);
    store.close(serde_json::Map::new(), None).unwrap();
    let whole = contents(&disk.fork(1));
    zero_two_batches(&disk);
    // Nobody knows of producers but the batches.
    for entry in disk.list(&Path::new(DATA).join("t-0")).unwrap() {
        if entry.name.ends_with(".snapshot") {
            disk.remove_file(&Path::new(DATA).join("t-0").join(entry.name)).unwrap();
        }
    }
    let (store, log) = opened(&disk).unwrap();
    let (_, ranges) = read_beside(&store, &log, "damaged");
    let [range] = ranges[..] else { panic!("{ranges:?}") };
    assert!(log.append(permit, numbered(8, 2, 2), now(1)).is_err(), "what is known of it may be lost");
    for _ in 0..12 {
        log.append(permit, produced(&[b"somebody else".as_slice(); 3], 1), now(1)).unwrap();
        turn(&store);
    }
    Job::Seal { log: log.id() }.run(&store);
    let snapshots = disk.list(&Path::new(DATA).join("t-0")).unwrap();
    assert!(snapshots.iter().all(|entry| !entry.name.ends_with(".snapshot")), "{snapshots:?}");

    let done = repair(&log, range, batches_of(&whole, range)).run(&store);
    assert!(matches!(&done, JobDone::Repaired { damaged, .. } if damaged.is_empty()), "{done:?}");
    assert!(log.append(permit, numbered(7, 38, 2), now(1)).unwrap().duplicate);
    assert!(!log.append(permit, numbered(7, 40, 2), now(1)).unwrap().duplicate);
    assert!(log.append(permit, numbered(8, 2, 2), now(1)).is_ok(), "nothing is lost any more");
}
