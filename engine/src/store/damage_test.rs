//! Damage is known, told, remembered and never served; the log keeps its length, and what lies behind can be read.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::test_support::*;
use super::{Job, JobDone, JobKind, Store, StoreConfig};
use crate::checkpoint::{DAMAGE_NOTE, read_damage};
use crate::disk::{Disk, Open, Patience, SimulatedDisk, Wait};
use crate::log::{Log, Permit, Read, ReadError};
use crate::segment::DamagedRange;
use crate::units::Offset;

#[test]
fn one_damaged_log_keeps_nobody_from_opening_and_is_told_of() {
    let simulated = SimulatedDisk::new(1);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let (store, _) = open(&disk, Path::new("/data"));
    for log in ["t-0", "t-1"] {
        let log = store.create_log(&name(log), None, small_segments(400), now(0)).unwrap();
        for number in 0..16 {
            log.append(Permit::new(epoch(0)), numbered(1, number * 2, 2), now(1)).unwrap();
        }
        store.want_durable(&log);
        turn(&store);
        assert!(log.segment_count() > 2);
    }
    for log in store.logs() {
        Job::Seal { log: log.id() }.run(&store);
        store.want_durable(&log);
        turn(&store);
    }
    assert!(matches!(Job::Checkpoint { now: now(2) }.run(&store), JobDone::Checkpointed));
    drop(store);

    // A header in the first segment, below the recovery point; what the windows of producers are made from again lies there.
    let path = Path::new("/data/t-0/00000000000000000000.log");
    let length: [u8; 4] = simulated.contents(path).unwrap()[8..12].try_into().unwrap();
    let batch_bytes = u64::from(u32::from_be_bytes(length)) + 12;
    simulated.damage(path, batch_bytes, &[0xff; 61]).unwrap();
    let next: Arc<dyn Disk> = Arc::new(simulated.crash_kill(&mut fastrand::Rng::with_seed(1)));
    let (store, report) = open(&next, Path::new("/data"));
    let [damaged, whole] = &report.logs[..] else { panic!("{report:?}") };
    assert!(whole.plan.damaged.is_empty() && !whole.suspect);
    let [range] = &damaged.plan.damaged[..] else { panic!("{}", damaged.plan) };
    assert_eq!((range.segment, range.offsets.start(), range.offsets.end()), (at(0), at(2), at(4)));
    assert_eq!(range.bytes, (batch_bytes, 2 * batch_bytes));
    assert!(damaged.suspect && damaged.end == at(32));

    let log = store.log(&name("t-0")).unwrap();
    let mut inside = log.read(at(2), Offset::MAX, 100, true);
    if let Ok(Read::Cold(asked)) = inside {
        let done = Job::ColdRead(asked).run(&store);
        let JobDone::Read { result, .. } = done else { panic!("{done:?}") };
        inside = result;
    }
    assert!(matches!(inside, Err(ReadError::Damaged { .. })), "{inside:?}");
    assert!(!read_all(&store, &log, 8).is_empty(), "the other segments are whole");
}

pub(super) const DATA: &str = "/data";
pub(super) const SEALED: &str = "/data/t-0/00000000000000000000.log";

/// A log of several segments, closed cleanly: whatever is read of it next comes from its files.
pub(super) fn closed_log(seed: u64) -> SimulatedDisk {
    let simulated = SimulatedDisk::new(seed);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let (store, _) = open(&disk, Path::new(DATA));
    let log = store.create_log(&name("t-0"), None, small_segments(700), now(0)).unwrap();
    for number in 0..24 {
        log.append(Permit::new(epoch(number / 8)), produced(&[b"one", b"two"], 1), now(1)).unwrap();
        turn(&store);
    }
    assert!(log.segment_count() > 2);
    store.close(serde_json::Map::new(), None).unwrap();
    simulated
}

/// What a reader has who goes on behind damage: each batch by its base offset, and the ranges that he was told of.
pub(super) type Beside = (BTreeMap<i64, Vec<u8>>, Vec<(i64, i64)>);

pub(super) fn read_beside(store: &Store, log: &Log, what: &str) -> Beside {
    let (mut batches, mut ranges) = (BTreeMap::new(), Vec::new());
    let mut next = log.start();
    while next < log.written() {
        let mut read = log.read(next, Offset::MAX, 300, true);
        if let Ok(Read::Cold(asked)) = read {
            let JobDone::Read { result, .. } = Job::ColdRead(asked).run(store) else { panic!() };
            read = result;
        }
        match read {
            Ok(Read::Records(records)) => {
                assert!(records.first <= next && next < records.end, "{records:?} at {next}");
                let bytes: Vec<u8> = records.parts.concat();
                for batch in crate::batch::scan(&bytes, 0) {
                    let (_, batch) = batch.unwrap();
                    batches.insert(batch.header().base_offset.value(), batch.bytes().to_vec());
                }
                next = records.end;
            }
            Err(ReadError::Damaged { offsets: Some(offsets), .. }) => {
                assert!(offsets.end() > next, "{offsets} at {next}");
                ranges.push((offsets.start().value(), offsets.end().value()));
                next = offsets.end();
            }
            other => panic!("{what}: {other:?} at {next}, of {:?}", log.damaged()),
        }
    }
    assert_eq!(next, log.written());
    (batches, ranges)
}

/// Damages a sealed segment, and judges a process that is told of nothing, and the one after it.
fn judge(whole: &SimulatedDisk, what: &str, damage: impl Fn(&SimulatedDisk)) -> Vec<(i64, i64)> {
    let undamaged: Arc<dyn Disk> = Arc::new(whole.fork(2));
    let (store, _) = open(&undamaged, Path::new(DATA));
    let log = store.log(&name("t-0")).unwrap();
    let (all, none) = read_beside(&store, &log, what);
    assert!(none.is_empty() && all.len() == 24);
    let end = log.written();
    drop((log, store));

    let simulated = whole.fork(3);
    damage(&simulated);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let (store, _) = open(&disk, Path::new(DATA));
    let log = store.log(&name("t-0")).unwrap();
    assert_eq!(log.written(), end, "{what}: the log never shrinks");
    let (batches, told) = read_beside(&store, &log, what);
    for (base, bytes) in &batches {
        assert_eq!(all.get(base), Some(bytes), "{what}: what is served is what was written");
    }
    let missing = all.keys().filter(|base| !batches.contains_key(base));
    for base in missing {
        assert!(told.iter().any(|(from, until)| from <= base && base < until), "{what}: {base} of {told:?}");
    }
    let facts: Vec<_> = log.damaged().iter().map(pair).filter(|(from, until)| from < until).collect();
    assert_eq!(facts, told, "{what}");
    if !told.is_empty() {
        assert_eq!(store.turn(Wait::Not, Patience::MustNotBlock).damaged, [log.id()], "{what}");
    }
    drop((log, store));

    // The next process knows, whatever the stop was.
    let (store, report) = open(&disk, Path::new(DATA));
    let [found] = &report.logs[..] else { panic!("{report:?}") };
    let known: Vec<_> = found.plan.damaged.iter().map(pair).filter(|(from, until)| from < until).collect();
    assert_eq!(known, told, "{what}: {}", found.plan);
    assert!(told.is_empty() || found.suspect, "{what}");
    let log = store.log(&name("t-0")).unwrap();
    assert_eq!(log.written(), end, "{what}");
    assert_eq!(read_beside(&store, &log, what), (batches, told.clone()), "{what}");
    told
}

pub(super) fn pair(range: &DamagedRange) -> (i64, i64) {
    (range.offsets.start().value(), range.offsets.end().value())
}

#[test]
fn no_flipped_byte_of_a_sealed_segment_is_served_and_all_others_are() {
    let whole = closed_log(5);
    let bytes = whole.contents(Path::new(SEALED)).unwrap();
    let (mut told, mut silent) = (0, 0);
    let (last, _) = crate::batch::scan(&bytes, 0).map(Result::unwrap).last().unwrap();
    let last_epoch = usize::try_from(last).unwrap() + 15;
    for (at, byte) in bytes.iter().enumerate() {
        for flip in [0x01, 0x40, 0xff] {
            if (at, flip) == (last_epoch, 0x01) {
                // The last batch of its epoch has the next one then: the epoch checkpoint might as well be wrong.
                continue;
            }
            let changed = [byte ^ flip];
            let ranges = judge(&whole, &format!("byte {at}"), |simulated| {
                simulated.damage(Path::new(SEALED), at as u64, &changed).unwrap();
            });
            match &ranges[..] {
                [] => silent += 1,
                [_] => told += 1,
                _ => panic!("byte {at}: {ranges:?}"),
            }
        }
    }
    println!("{told} flips were told of, {silent} did not show");
    assert!(told > 1_000 && silent == 0, "{told} told, {silent} silent");
}

#[test]
fn a_sealed_segment_that_was_cut_anywhere_has_a_damaged_end() {
    let whole = closed_log(6);
    let size = whole.contents(Path::new(SEALED)).unwrap().len() as u64;
    for length in 0..size {
        let ranges = judge(&whole, &format!("cut at {length}"), |simulated| {
            simulated.open(Path::new(SEALED), Open::Write).unwrap().set_size(length).unwrap();
        });
        assert_eq!(ranges.len(), 1, "cut at {length}");
    }
}

#[test]
fn damage_that_is_gone_at_the_next_opening_is_forgotten_and_so_is_a_deleted_log() {
    let whole = closed_log(7);
    let bytes = whole.contents(Path::new(SEALED)).unwrap();
    whole.damage(Path::new(SEALED), 70, &[0; 8]).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(whole.clone());
    let mut last_noted = Vec::new();
    for restored in [false, true, false] {
        let planned = Store::plan_opening(Arc::clone(&disk), Path::new(DATA), StoreConfig::default(), now(0));
        assert_eq!(
            planned.unwrap().noted,
            Some(last_noted),
            "whoever asks for the plan is told what is noted"
        );
        if restored {
            whole.damage(Path::new(SEALED), 0, &bytes).unwrap();
        }
        let (store, report) = open(&disk, Path::new(DATA));
        let log = store.log(&name("t-0")).unwrap();
        read_beside(&store, &log, "");
        let noted = read_damage(disk.as_ref(), &Path::new(DATA).join(DAMAGE_NOTE)).unwrap().known();
        let is_damaged = whole.contents(Path::new(SEALED)).unwrap() != bytes;
        assert_eq!(log.damaged().is_empty(), !is_damaged, "{report:?}");
        last_noted = noted.unwrap_or_default();
        assert_eq!(last_noted.is_empty(), !is_damaged, "{report:?}");
    }
    whole.damage(Path::new(SEALED), 70, &[0; 8]).unwrap();
    let (store, _) = open(&disk, Path::new(DATA));
    read_beside(&store, &store.log(&name("t-0")).unwrap(), "");
    store.delete_log(&name("t-0")).unwrap().run(&store);
    assert!(matches!(Job::Checkpoint { now: now(9) }.run(&store), JobDone::Checkpointed));
    let noted = read_damage(disk.as_ref(), &Path::new(DATA).join(DAMAGE_NOTE)).unwrap().known();
    assert_eq!(noted, Some(Vec::new()));
}

#[test]
fn a_gap_is_found_behind_damage_that_was_known_at_the_opening() {
    let whole = closed_log(11);
    whole.damage(Path::new(SEALED), 100, &[0; 8]).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(whole.clone());
    let (store, _) = open(&disk, Path::new(DATA));
    assert_eq!(read_beside(&store, &store.log(&name("t-0")).unwrap(), "noted").1, [(2, 4)]);
    drop(store);
    let bytes = whole.contents(Path::new(SEALED)).unwrap();
    let size = bytes.len() as u64;
    whole.open(Path::new(SEALED), Open::Write).unwrap().set_size(size / 8 * 6).unwrap();
    let (store, _) = open(&disk, Path::new(DATA));
    let told = read_beside(&store, &store.log(&name("t-0")).unwrap(), "cut").1;
    assert_eq!(told, [(2, 4), (12, 16)]);
}

#[test]
fn where_the_note_cannot_be_believed_everything_is_examined() {
    let whole = closed_log(8);
    whole.damage(Path::new(SEALED), 70, &[0; 8]).unwrap();
    let note = Path::new(DATA).join(DAMAGE_NOTE);
    whole.open(&note, Open::Create).unwrap().write_all_at(b"{\"version\":0}", 0).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(whole);
    let (store, _) = open(&disk, Path::new(DATA));
    let log = store.log(&name("t-0")).unwrap();
    let jobs = store.due_jobs(now(1));
    assert_eq!(jobs.iter().filter(|job| job.kind() == JobKind::Examine).count(), log.segment_count());
    for job in jobs {
        assert!(!matches!(job.run(&store), JobDone::Failed { .. }));
    }
    assert_eq!(log.damaged().len(), 1);
}

#[test]
fn a_wrong_epoch_in_a_header_stays_known() {
    let whole = closed_log(9);
    let bytes = whole.contents(Path::new(SEALED)).unwrap();
    let (second, _) = crate::batch::scan(&bytes, 0).nth(1).unwrap().unwrap();
    whole.damage(Path::new(SEALED), second + 12, &[0, 0, 0, 7]).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(whole);
    for _ in 0..2 {
        let (store, _) = open(&disk, Path::new(DATA));
        let log = store.log(&name("t-0")).unwrap();
        let JobDone::Examined { damaged, .. } = (Job::Examine { log: log.id(), segment: at(0) }).run(&store)
        else {
            panic!()
        };
        assert_eq!(damaged.iter().map(pair).collect::<Vec<_>>(), [(2, 4)]);
        drop((log, store));
        let (_, report) = open(&disk, Path::new(DATA));
        assert_eq!(report.logs[0].plan.damaged.iter().map(pair).collect::<Vec<_>>(), [(2, 4)]);
    }
}

#[test]
fn a_cut_inside_of_damage_takes_it_away_and_one_behind_it_leaves_it() {
    for (to, end, left) in [(6, 6, 1), (4, 4, 1), (3, 2, 0), (2, 2, 0), (1, 0, 0)] {
        let whole = closed_log(10);
        let bytes = whole.contents(Path::new(SEALED)).unwrap();
        let (second, batch) = crate::batch::scan(&bytes, 0).nth(1).unwrap().unwrap();
        whole.damage(Path::new(SEALED), second, &vec![0; batch.bytes().len()]).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(whole.clone());
        let (store, _) = open(&disk, Path::new(DATA));
        let log = store.log(&name("t-0")).unwrap();
        Job::Examine { log: log.id(), segment: at(0) }.run(&store);
        assert_eq!(log.damaged().iter().map(pair).collect::<Vec<_>>(), [(2, 4)]);
        let done = Job::Truncate { log: log.id(), to: at(to) }.run(&store);
        assert!(matches!(done, JobDone::Truncated { .. } | JobDone::RestartedAt { .. }), "{done:?}");
        assert_eq!((log.accepted(), log.damaged().len()), (at(end), left), "to {to}");
        append(&log, 3);
        turn(&store);
        let (batches, _) = read_beside(&store, &log, "");
        assert_eq!(batches.keys().last(), Some(&end), "to {to}");
        assert_eq!(log.written(), at(end + 3));
        store.close(serde_json::Map::new(), None).unwrap();
        let (store, report) = open(&disk, Path::new(DATA));
        assert_eq!((report.logs[0].end, report.logs[0].plan.damaged.len()), (at(end + 3), left), "to {to}");
        read_beside(&store, &store.log(&name("t-0")).unwrap(), "");
    }
}
