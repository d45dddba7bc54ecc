//! Compaction of whole logs: what stays, in pieces and rounds, and whatever it is interrupted by.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;

use super::test_support::{at, epoch, name, now, open_with, read_all, turn};
use super::{Compaction, CompactionReport, Job, JobDone, JobError, ReadOnlyStore, Store, StoreConfig};
use crate::batch::{BatchBuilder, BatchLimits, Compression, DecompressLimits, ProducedBatch, scan};
use crate::checkpoint::CLEANER_OFFSETS;
use crate::disk::simulated::{Fault, Unsynced};
use crate::disk::{Disk, SimulatedDisk};
use crate::log::{Cleanup, Log, LogConfig, Permit};
use crate::units::{Now, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

pub(super) const DATA: &str = "/data";
pub(super) const DAY: u64 = 24 * 60 * 60 * 1000;

pub(super) fn config() -> LogConfig {
    LogConfig {
        segment_bytes_max: 600,
        index_interval_bytes: 100,
        cleanup: Cleanup::Compact,
        ..LogConfig::default()
    }
}

/// For logs that are found.
pub(super) fn compacted() -> StoreConfig {
    let log = LogConfig { segment_bytes_max: 1400, ..config() };
    StoreConfig { log, reserve_bytes: None, ..StoreConfig::default() }
}

pub(super) fn opened(disk: &SimulatedDisk) -> (Store, Log) {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, report) = open_with(&shared, Path::new(DATA), compacted());
    assert!(report.refused.is_empty(), "{:?}", report.refused);
    let log = store.log(&name("t-0")).unwrap();
    (store, log)
}

/// One batch of a producer, as many records as there are keys; without a value they are tombstones.
pub(super) fn append(log: &Log, sequence: i32, records: &[(u32, Option<u32>)]) {
    let mut builder = BatchBuilder::new(Compression::None).producer(
        ProducerId::new(7).unwrap(),
        ProducerEpoch::new(0).unwrap(),
        Sequence::new(sequence).unwrap(),
    );
    for (key, value) in records {
        let (key, value) = (format!("key {key}"), value.map(|value| format!("value {value}")));
        let (key, value) = (Some(key.as_bytes()), value.as_ref().map(String::as_bytes));
        builder.push(Some(Timestamp::from_millis(1000)), key, value, &[]).unwrap();
    }
    let batch = builder.finish().unwrap();
    let batch = ProducedBatch::check(batch, &BatchLimits::default(), Timestamp::from_millis(0)).unwrap();
    log.append(Permit::new(epoch(0)), batch, now(1)).unwrap();
}

/// A log of many small segments, sealed, with a few keys again and again.
pub(super) fn filled(seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, _) = open_with(&shared, Path::new(DATA), compacted());
    let log = store.create_log(&name("t-0"), None, config(), now(0)).unwrap();
    for number in 0..40_u32 {
        let value = (number % 7 != 3).then_some(number);
        let other = match number {
            2 => (50, Some(1)),
            10 => (50, None),
            _ => (100 + number % 3, Some(1)),
        };
        append(&log, i32::try_from(2 * number).unwrap(), &[(number % 5, value), other]);
        turn(&store);
    }
    seal(&store, &log);
    store.close(serde_json::Map::new(), None).unwrap();
    disk
}

pub(super) fn seal(store: &Store, log: &Log) {
    let done = Job::Seal { log: log.id() }.run(store);
    assert!(matches!(done, JobDone::Sealed { .. }), "{done:?}");
}

pub(super) fn piece(store: &Store, log: &Log, now: Now, bytes_max: u64) -> JobDone {
    Job::Compact { log: log.id(), ceiling: Offset::MAX, now, bytes_max }.run(store)
}

/// A round in pieces of this size.
pub(super) fn round(store: &Store, log: &Log, now: Now, bytes_max: u64) -> Option<CompactionReport> {
    loop {
        let done = piece(store, log, now, bytes_max);
        let JobDone::Compacted { step, .. } = done else { panic!("{done:?}") };
        match step {
            Compaction::UnderWay { .. } => {}
            Compaction::Done { report } => return Some(report),
            Compaction::NotDue => return None,
            Compaction::GivenUp => panic!("given up"),
        }
    }
}

pub(super) type Records = BTreeMap<i64, (String, Option<String>)>;

fn records_in(bytes: &[u8]) -> Records {
    let mut records = BTreeMap::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for found in scan(bytes, 0) {
        let (_, batch) = found.unwrap();
        let mut scratch = Vec::new();
        for record in batch.records(&DecompressLimits::default(), &mut scratch).unwrap() {
            let record = record.unwrap();
            records.insert(record.offset.value(), (text(record.key.unwrap()), record.value.map(text)));
        }
    }
    records
}

pub(super) fn records(store: &Store, log: &Log) -> Records {
    records_in(&read_all(store, log, log.start().value()))
}

/// What a reader who keeps the newest of each key has in the end.
pub(super) fn state(records: &Records) -> BTreeMap<String, String> {
    let mut state = BTreeMap::new();
    for (key, value) in records.values() {
        match value {
            Some(value) => state.insert(key.clone(), value.clone()),
            None => state.remove(key),
        };
    }
    state
}

/// What has to stay below `cleaned_to` of a log whose tombstones are young.
fn expected(before: &Records, cleaned_to: i64) -> Records {
    let is_newest =
        |offset: i64, key: &String| !before.range(offset + 1..cleaned_to).any(|(_, (other, _))| other == key);
    let stays = |(offset, (key, _)): &(&i64, &(String, Option<String>))| {
        **offset >= cleaned_to || is_newest(**offset, key)
    };
    before.iter().filter(stays).map(|(offset, record)| (*offset, record.clone())).collect()
}

#[test]
fn the_newest_record_of_each_key_stays_in_pieces_of_any_size_and_after_every_stop() {
    let first = filled(1);
    let mut sizes = Vec::new();
    for bytes_max in [1, 700, u64::MAX] {
        let disk = first.fork(1);
        let (store, log) = opened(&disk);
        let (before, end, segments) = (records(&store, &log), log.written(), log.segment_count());
        let report = round(&store, &log, now(5), bytes_max).unwrap();
        let after = records(&store, &log);
        assert_eq!(after, expected(&before, report.cleaned_to.value()), "{bytes_max}");
        assert_eq!(log.written(), end);
        assert!(report.bytes_after < report.bytes_before / 2, "{report:?}");
        assert!(log.segment_count() < segments && report.segments_after < report.segments_before);
        assert_eq!(report.keys, 9);
        sizes.push((report.bytes_after, report.records_kept, report.records_gone, report.key_map_bytes));
        assert_eq!(round(&store, &log, now(6), bytes_max), None, "nothing is dirty any more");
        append(&log, 80, &[(1, Some(99))]);
        turn(&store);
        let with_one = records(&store, &log);
        let left = disk.fork(2).crash_kill(&mut Rng::with_seed(1));
        store.close(serde_json::Map::new(), None).unwrap();
        for disk in [disk, left] {
            let (store, log) = opened(&disk);
            assert_eq!(records(&store, &log), with_one);
            assert!(log.damaged().is_empty());
            assert_eq!(round(&store, &log, now(6), bytes_max), None, "it is known how far it came");
            let seen = ReadOnlyStore::open(store.disk(), Path::new(DATA), compacted()).unwrap();
            let verified = seen.verify_log(&name("t-0"), &|_| {}).unwrap();
            assert!(verified.findings.is_empty(), "{:?}", verified.findings);
        }
    }
    assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
}

#[test]
fn a_map_that_holds_few_keys_takes_several_rounds_each_of_which_comes_farther() {
    let disk = filled(2);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let config = StoreConfig { key_map_bytes_max: 24 * 4, ..compacted() };
    let (store, _) = open_with(&shared, Path::new(DATA), config);
    let log = store.log(&name("t-0")).unwrap();
    store.set_config(log.id(), LogConfig { dirty_ppm_min: 0, ..self::config() }).unwrap();
    let (before, mut cleaned_to) = (records(&store, &log), at(0));
    while let Some(report) = round(&store, &log, now(5), u64::MAX) {
        assert!(report.cleaned_to > cleaned_to && report.key_map_bytes <= 96 && report.keys <= 3);
        assert_eq!(report.first_dirty, cleaned_to);
        cleaned_to = report.cleaned_to;
        assert_eq!(state(&records(&store, &log)), state(&before));
    }
    assert_eq!(records(&store, &log), expected(&before, cleaned_to.value()));
}

#[test]
fn a_tombstone_stays_for_its_time_and_brings_no_older_record_back() {
    let disk = filled(3);
    let (store, log) = opened(&disk);
    let before = records(&store, &log);
    let report = round(&store, &log, now(5), u64::MAX).unwrap();
    let tombstones = |records: &Records| records.values().filter(|(_, value)| value.is_none()).count();
    assert!(tombstones(&records(&store, &log)) > 0);
    for (time, is_there) in [(5 + DAY - 1, true), (5 + DAY, false)] {
        store.set_config(log.id(), LogConfig { dirty_ppm_min: 0, ..config() }).unwrap();
        grow(&store, &log);
        round(&store, &log, now(time), u64::MAX).unwrap();
        let below: Records =
            records(&store, &log).range(..report.cleaned_to.value()).map(|(a, b)| (*a, b.clone())).collect();
        assert_eq!(tombstones(&below) > 0, is_there, "{time}");
        let mut after = state(&records(&store, &log));
        after.retain(|key, _| !key.starts_with("other"));
        assert_eq!(after, state(&before));
    }
}

/// Adds segments of other keys.
pub(super) fn grow(store: &Store, log: &Log) {
    for number in 0..12 {
        let mut builder = BatchBuilder::new(Compression::None);
        let key = format!("other {number}");
        let value = [b'x'; 90];
        builder.push(Some(Timestamp::from_millis(1)), Some(key.as_bytes()), Some(&value), &[]).unwrap();
        let batch = builder.finish().unwrap();
        let batch = ProducedBatch::check(batch, &BatchLimits::default(), Timestamp::from_millis(0)).unwrap();
        log.append(Permit::new(epoch(0)), batch, now(1)).unwrap();
        turn(store);
    }
    seal(store, log);
}

#[test]
fn a_producer_whose_batches_are_all_gone_is_still_known() {
    let disk = SimulatedDisk::new(4);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, _) = open_with(&shared, Path::new(DATA), compacted());
    let log = store.create_log(&name("t-0"), None, config(), now(0)).unwrap();
    append(&log, 0, &[(1, Some(1))]);
    append(&log, 1, &[(2, Some(1))]);
    turn(&store);
    let mut builder = BatchBuilder::new(Compression::None);
    for key in ["key 1", "key 2"] {
        builder.push(Some(Timestamp::from_millis(1)), Some(key.as_bytes()), Some(b"z"), &[]).unwrap();
    }
    let batch = builder.finish().unwrap();
    let batch = ProducedBatch::check(batch, &BatchLimits::default(), Timestamp::from_millis(0)).unwrap();
    log.append(Permit::new(epoch(0)), batch, now(1)).unwrap();
    grow(&store, &log);
    round(&store, &log, now(5), u64::MAX).unwrap();
    // Without the snapshots of producers only the batch that stayed, empty, says what is known.
    let disk = disk.crash_kill(&mut Rng::with_seed(1));
    for entry in disk.list(log.directory()).unwrap() {
        if entry.name.ends_with(".snapshot") {
            disk.remove_file(&log.directory().join(entry.name)).unwrap();
        }
    }
    let (store, log) = opened(&disk);
    assert_eq!(records(&store, &log).first_key_value().map(|(offset, _)| *offset), Some(2));
    let before = log.accepted();
    append(&log, 1, &[(2, Some(1))]);
    assert_eq!(log.accepted(), before, "it is a repetition");
    append(&log, 2, &[(2, Some(2))]);
    assert!(log.accepted() > before);
    drop(store);
}

#[test]
fn what_lies_above_the_ceiling_or_is_too_young_is_left_alone() {
    let disk = filled(5);
    let (store, log) = opened(&disk);
    let before = records(&store, &log);
    let job = Job::Compact { log: log.id(), ceiling: at(30), now: now(5), bytes_max: u64::MAX };
    let JobDone::Compacted { step: Compaction::Done { report }, .. } = job.run(&store) else { panic!() };
    assert!(report.cleaned_to <= at(30));
    assert_eq!(records(&store, &log), expected(&before, report.cleaned_to.value()));
    let lag = std::time::Duration::from_secs(10);
    store.set_config(log.id(), LogConfig { compaction_lag_min: lag, ..config() }).unwrap();
    assert_eq!(round(&store, &log, now(10_999), u64::MAX), None, "the records are of 1000");
    assert!(round(&store, &log, now(11_000), u64::MAX).is_some());
}

#[test]
fn a_round_that_meets_a_cut_is_given_up_and_what_was_cut_is_dirty_again() {
    let disk = filled(6);
    let (store, log) = opened(&disk);
    let report = round(&store, &log, now(5), u64::MAX).unwrap();
    let cleaned = || {
        let known = store.read_offset_checkpoint(CLEANER_OFFSETS).unwrap().known().unwrap();
        known.get(&name("t-0")).copied()
    };
    assert_eq!(cleaned(), Some(report.cleaned_to));
    grow(&store, &log);
    store.set_config(log.id(), LogConfig { dirty_ppm_min: 0, ..config() }).unwrap();
    assert!(matches!(
        piece(&store, &log, now(5), 1),
        JobDone::Compacted { step: Compaction::UnderWay { .. }, .. }
    ));
    let to = at(report.cleaned_to.value() - 3);
    Job::Truncate { log: log.id(), to }.run(&store);
    let end = log.written();
    assert_eq!(cleaned(), Some(end), "certain before anything is appended");
    let done = piece(&store, &log, now(5), 1);
    assert!(matches!(done, JobDone::Compacted { step: Compaction::GivenUp, .. }), "{done:?}");
    let beside = disk.list(log.directory()).unwrap();
    assert!(beside.iter().all(|entry| !entry.name.contains(".cleaned")), "{beside:?}");
    grow(&store, &log);
    let report = round(&store, &log, now(5), u64::MAX).unwrap();
    assert_eq!(report.first_dirty, end);
}

#[test]
fn damage_ends_a_round_and_nothing_is_compacted_before_it_is_repaired() {
    let disk = filled(7);
    disk.damage(Path::new("/data/t-0/00000000000000000000.log"), 200, &[9; 4]).unwrap();
    let (store, log) = opened(&disk);
    let done = piece(&store, &log, now(5), u64::MAX);
    assert!(matches!(done, JobDone::Failed { error: JobError::Damaged(_), .. }), "{done:?}");
    Job::Examine { log: log.id(), segment: at(0) }.run(&store);
    assert!(!log.damaged().is_empty());
    assert_eq!(round(&store, &log, now(5), u64::MAX), None);
}

/// By segment that the round makes: what is in it before and behind the round.
fn groups(old: &SimulatedDisk) -> (Vec<i64>, Records, Records) {
    let disk = old.fork(9);
    let (store, log) = opened(&disk);
    let before = records(&store, &log);
    let report = round(&store, &log, now(5), u64::MAX).unwrap();
    assert!(report.segments_after > 1, "{report:?}");
    let names = disk.list(log.directory()).unwrap().into_iter();
    let bases = names.filter_map(|entry| entry.name.strip_suffix(".log")?.parse().ok()).collect();
    (bases, before, records(&store, &log))
}

/// Every call of a round is the last one, by a kill or by a power loss with any part of what was not synced; and every call fails once.
#[test]
fn a_round_that_is_interrupted_at_any_call_leaves_each_group_old_or_new() {
    let first = filled(8);
    let (bases, old, new) = groups(&first);
    let (mut olds, mut news, mut failed, mut planned) = (0, 0, 0, 0);
    let mut judge = |disk: &SimulatedDisk, what: &str| {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let seen = ReadOnlyStore::open(&shared, Path::new(DATA), compacted()).unwrap();
        let seen = seen.log(&name("t-0")).unwrap_or_else(|why| panic!("{what}: {why}"));
        let (mut bytes, mut from) = (Vec::new(), seen.start());
        while let Some(read) = seen.read(from, 1 << 20).unwrap_or_else(|why| panic!("{what}: {why}")) {
            read.parts.iter().for_each(|part| bytes.extend_from_slice(part));
            from = read.end;
        }
        let dry = Store::plan_opening(Arc::clone(&shared), Path::new(DATA), compacted(), now(0)).unwrap();
        let (store, log) = opened(disk);
        let now = records(&store, &log);
        assert_eq!(records_in(&bytes), now, "{what}: who looks sees what the opening makes of it");
        planned += usize::from(
            dry.logs[0].1.as_ref().unwrap().steps.iter().any(|step| step.to_string().contains("interrupted")),
        );
        for (number, base) in bases.iter().enumerate() {
            let range = *base..bases.get(number + 1).copied().unwrap_or(i64::MAX);
            let of = |records: &Records| -> Records {
                records.range(range.clone()).map(|(offset, record)| (*offset, record.clone())).collect()
            };
            assert!(of(&now) == of(&old) || of(&now) == of(&new), "{what}: group {base}");
            *(if of(&now) == of(&new) { &mut news } else { &mut olds }) += 1;
        }
        assert_eq!(log.written().value(), 80, "{what}");
        assert!(log.damaged().is_empty(), "{what}");
        let left = disk.list(log.directory()).unwrap();
        let is_left = |name: &str| [".cleaned", ".swap"].iter().any(|end| name.ends_with(end));
        assert!(left.iter().all(|entry| !is_left(&entry.name)), "{what}: {left:?}");
        // And what is interrupted is done in the end.
        seal(&store, &log);
        round(&store, &log, self::now(5), u64::MAX);
        assert_eq!(records(&store, &log), new, "{what}");
    };
    for call in 0.. {
        let mut is_over = true;
        for crash in [None, Some(Unsynced::Lost), Some(Unsynced::Kept), Some(Unsynced::Chosen)] {
            let disk = first.fork(call);
            let (store, log) = opened(&disk);
            disk.crash_at(disk.next_call() + call);
            drop(piece(&store, &log, now(5), u64::MAX));
            is_over &= !disk.is_down();
            drop((log, store));
            let mut rng = Rng::with_seed(call);
            let next = match crash {
                None => disk.crash_kill(&mut rng),
                Some(unsynced) => disk.crash_power(unsynced, &mut rng),
            };
            judge(&next, &format!("call {call}, {crash:?}"));
        }
        for fault in [Fault::NoSpace, Fault::Io] {
            let disk = first.fork(call);
            let (store, log) = opened(&disk);
            disk.fail_call(disk.next_call() + call, fault);
            let done = piece(&store, &log, now(5), u64::MAX);
            failed += u32::from(matches!(done, JobDone::Failed { .. }));
            if store.failure().is_none() && log.closed().is_some() {
                let report = store.reopen_log(&name("t-0"), now(6)).unwrap();
                assert!(report.is_some());
            }
            if let Some(log) = store.log(&name("t-0")).filter(|_| store.failure().is_none()) {
                assert_eq!(state(&records(&store, &log)), state(&old), "call {call}, {fault:?}");
            }
            drop((log, store));
            judge(&disk.crash_kill(&mut Rng::with_seed(call)), &format!("call {call}, {fault:?}"));
        }
        if is_over {
            assert!(call > 60, "{call}");
            break;
        }
    }
    println!("{olds} groups old, {news} new, {failed} rounds failed, {planned} exchanges were half done");
    assert!(olds > 100 && news > 100 && failed > 50 && planned > 50);
}

/// A reader on its way keeps what it has, and goes on in what has taken its place.
#[test]
fn a_round_that_another_log_has_ended_leaves_nothing_that_takes_an_exchange_back() {
    let disk = filled(10);
    let (store, log) = opened(&disk);
    // What is left of a round that had come farther than the next one does at first.
    let left = Path::new(DATA).join("t-0/00000000000000000020.log.cleaned");
    disk.open(&left, crate::disk::Open::Create).unwrap().write_all_at(b"half a batch", 0).unwrap();
    piece(&store, &log, now(5), 1);
    let names = disk.list(&Path::new(DATA).join("t-0")).unwrap();
    assert!(names.iter().all(|entry| !entry.name.ends_with(".cleaned")), "{names:?}");
}

#[test]
fn a_batch_that_says_another_offset_is_not_written_anew() {
    let disk = filled(11);
    let path = Path::new(DATA).join("t-0/00000000000000000000.log");
    let file = disk.open(&path, crate::disk::Open::Write).unwrap();
    // The last byte but three of the first batch's offset, which lies outside of its CRC.
    file.write_all_at(&[1], 4).unwrap();
    let (store, log) = opened(&disk);
    let done = piece(&store, &log, now(5), u64::MAX);
    assert!(matches!(done, JobDone::Failed { .. }), "{done:?}");
}

#[test]
fn readers_go_on_over_the_exchange() {
    let disk = filled(9);
    let (store, log) = opened(&disk);
    let before = records(&store, &log);
    let mut from = 0;
    let mut read = Records::new();
    for bytes_max in [1, 300, 1, 300, 1, 300, u64::MAX] {
        if let Some(part) = super::test_support::read(&store, &log, from, 1) {
            part.parts.iter().for_each(|part| read.extend(records_in(part)));
            from = part.end.value();
        }
        piece(&store, &log, now(5), bytes_max);
    }
    read.extend(records_in(&read_all(&store, &log, from)));
    assert_eq!(state(&read), state(&before));
}
