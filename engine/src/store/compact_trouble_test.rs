//! Compaction and what else happens to a log: snapshots that cannot be read, a loss of power with damage, a repair.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fastrand::Rng;

use super::compact_test::*;
use super::test_support::{at, epoch, name, now, open_with, replicated, turn};
use super::{Compaction, Job, JobDone, Store};
use crate::batch::{BatchBuilder, Compression, TransactionEnd, transaction_marker};
use crate::checkpoint::CLEANER_OFFSETS;
use crate::disk::simulated::Unsynced;
use crate::disk::{Disk, Open, SimulatedDisk};
use crate::log::{Cleanup, Log, LogConfig};
use crate::segment::{FileKind, parse_file_name};
use crate::units::{Offset, OffsetRange, ProducerEpoch, ProducerId, Sequence, Timestamp};

/// A record as a leader stamped it; of a transaction of producer 8, if there is a sequence.
fn stamped(base: i64, key: &str, sequence: Option<i32>) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None).base_offset(at(base)).leader_epoch(epoch(0));
    if let Some(sequence) = sequence {
        let (id, epoch) = (ProducerId::new(8).unwrap(), ProducerEpoch::new(0).unwrap());
        builder = builder.producer(id, epoch, Sequence::new(sequence).unwrap()).transactional();
    }
    let value = [b'v'; 100];
    builder.push(Some(Timestamp::from_millis(1)), Some(key.as_bytes()), Some(&value), &[]).unwrap();
    builder.finish().unwrap()
}

fn marker(base: i64) -> Bytes {
    let (id, producer_epoch) = (ProducerId::new(8).unwrap(), ProducerEpoch::new(0).unwrap());
    let commit = TransactionEnd::Commit;
    let marker = transaction_marker(commit, id, producer_epoch, 1, Timestamp::from_millis(5)).unwrap();
    let mut bytes = marker.to_vec();
    bytes[..8].copy_from_slice(&base.to_be_bytes());
    bytes[12..16].copy_from_slice(&0_i32.to_be_bytes());
    bytes.into()
}

fn follow(store: &Store, log: &Log, batch: Bytes) {
    log.append_replicated(&replicated(&[batch]), now(1)).unwrap();
    turn(store);
}

#[test]
fn a_transaction_whose_marker_is_compacted_away_is_open_in_no_snapshot_that_is_left() {
    const LATER: u64 = 40 * DAY;
    let disk = SimulatedDisk::new(20);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, _) = open_with(&shared, Path::new(DATA), compacted());
    // Each segment is cleaned for itself, so that the snapshots between them stay.
    let config = || LogConfig { segment_bytes_max: 300, dirty_ppm_min: 0, ..config() };
    let log = store.create_log(&name("t-0"), None, config(), now(0)).unwrap();
    let mut end = 0;
    let grow = |from: &mut i64| {
        for _ in 0..8 {
            follow(&store, &log, stamped(*from, &format!("key {from}"), None));
            *from += 1;
        }
    };
    follow(&store, &log, stamped(end, "old", Some(0)));
    end += 1;
    grow(&mut end);
    follow(&store, &log, marker(end));
    follow(&store, &log, stamped(end + 1, "old", None));
    end += 2;
    grow(&mut end);
    seal(&store, &log);
    // The producer is forgotten, so that no batch of it has to stay.
    Job::Retention { log: log.id(), ceiling: Offset::MAX, now: now(LATER) }.run(&store);
    for days in [0, 2, 4, 6, 8] {
        round(&store, &log, now(LATER + days * DAY), u64::MAX).unwrap();
        grow(&mut end);
        seal(&store, &log);
    }
    // Nobody can read the newer snapshots.
    let disk = disk.crash_kill(&mut Rng::with_seed(1));
    for entry in disk.list(log.directory()).unwrap() {
        if let Some((offset, FileKind::Snapshot)) = parse_file_name(&entry.name)
            && offset >= at(10)
        {
            disk.open(&log.directory().join(entry.name), Open::Write).unwrap().set_size(3).unwrap();
        }
    }
    let (store, log) = opened(&disk);
    let left = super::test_support::read_all(&store, &log, 0);
    let is_marker = |found: Result<(u64, crate::batch::BatchView<'_>), _>| {
        found
            .is_ok_and(|(_, batch)| batch.header().attributes.is_control() && batch.header().record_count > 0)
    };
    assert!(!crate::batch::scan(&left, 0).any(is_marker), "the marker is gone");
    assert_eq!(log.first_unstable(Offset::MAX), None);
}

#[test]
fn what_is_cleaned_is_never_cut_as_the_torn_end_of_a_crash() {
    let disk = SimulatedDisk::new(21);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, _) = open_with(&shared, Path::new(DATA), compacted());
    let log = store.create_log(&name("t-0"), None, config(), now(0)).unwrap();
    for number in 0..40 {
        append(&log, number, &[(number.unsigned_abs() % 5, Some(number.unsigned_abs()))]);
        turn(&store);
    }
    // Sealed and synced, and the checkpoint of recovery points does not say so yet.
    seal(&store, &log);
    let before = records(&store, &log);
    let report = round(&store, &log, now(5), u64::MAX).unwrap();
    assert_eq!(state(&records(&store, &log)), state(&before));
    let disk = disk.crash_power(Unsynced::Lost, &mut Rng::with_seed(2));
    let file = log.directory().join(format!("{:020}.log", 0));
    let bytes = disk.contents(&file).unwrap();
    disk.damage(&file, bytes.len() as u64 / 2, &[bytes[bytes.len() / 2] ^ 1]).unwrap();
    let (store, log) = opened(&disk);
    Job::Examine { log: log.id(), segment: at(0) }.run(&store);
    assert!(log.written() >= report.cleaned_to, "{:?} {report:?}", log.written());
    assert!(!log.damaged().is_empty());
}

/// What a repair replaces.
fn replaced(log: &Log) -> Vec<(i64, i64)> {
    let pair = |part: &OffsetRange| (part.start().value(), part.end().value());
    log.with_facts(|facts| facts.replaced_by_repair.iter().map(pair).collect())
}

#[test]
fn a_repair_replaces_all_that_was_compacted_and_behind_it_counting_begins_anew() {
    let first = filled(22);
    let disk = first.fork(1);
    let (store, log) = opened(&disk);
    let report = round(&store, &log, now(5), u64::MAX).unwrap();
    grow(&store, &log);
    let end = log.written().value();
    let bases: Vec<i64> = log.0.view().segments.iter().map(|segment| segment.base().value()).collect();
    assert!(replaced(&log).is_empty(), "nothing is damaged");
    store.close(serde_json::Map::new(), None).unwrap();
    let file = log.directory().join(format!("{:020}.log", 0));
    disk.damage(&file, 70, &[0x55; 4]).unwrap();
    let (store, log) = opened(&disk);
    Job::Examine { log: log.id(), segment: at(0) }.run(&store);
    assert_eq!(log.damaged().len(), 1);
    let cleaned = report.cleaned_to.value();
    let ends = bases.iter().skip(1).copied().chain([end]);
    let expected: Vec<(i64, i64)> =
        bases.iter().copied().zip(ends).filter(|(base, _)| *base < cleaned).collect();
    assert!(expected.len() > 1);
    assert_eq!(replaced(&log), expected);
    assert_eq!(log.with_facts(|facts| facts.cleaned_to), report.cleaned_to);
    // A peer has never compacted.
    let (peer, theirs) = opened(&first.fork(2));
    let whole = records(&peer, &theirs);
    for part in expected.into_iter().rev() {
        let bytes = super::test_support::read_all(&peer, &theirs, part.0);
        let in_part = |found: Result<(u64, crate::batch::BatchView<'_>), _>| {
            let (_, batch) = found.unwrap();
            (batch.header().last_offset().value() < part.1).then(|| Bytes::copy_from_slice(batch.bytes()))
        };
        let batches: Vec<Bytes> = crate::batch::scan(&bytes, 0).filter_map(in_part).collect();
        let offsets = OffsetRange::new(at(part.0), at(part.1)).unwrap();
        let done =
            Job::Repair { log: log.id(), offsets, batches: replicated(&batches), now: now(6) }.run(&store);
        assert!(matches!(done, JobDone::Repaired { .. }), "{done:?}");
        let known = store.read_offset_checkpoint(CLEANER_OFFSETS).unwrap().known().unwrap();
        let kept = if log.damaged().is_empty() { 0 } else { cleaned };
        assert_eq!(known.get(&name("t-0")).copied(), Some(at(kept)), "{part:?}");
    }
    let below: Records = records(&store, &log).range(..cleaned).map(|(a, b)| (*a, b.clone())).collect();
    assert_eq!(below, whole.range(..cleaned).map(|(a, b)| (*a, b.clone())).collect());
    let again = round(&store, &log, now(7), u64::MAX).unwrap();
    assert_eq!(again.first_dirty, at(0));
}

#[test]
fn what_has_gone_with_the_old_segments_is_not_read_from_memory_beside_the_new_ones() {
    let disk = SimulatedDisk::new(23);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, _) = open_with(&shared, Path::new(DATA), compacted());
    let log = store.create_log(&name("t-0"), None, config(), now(0)).unwrap();
    for number in 0..40 {
        append(&log, number, &[(1, Some(number.unsigned_abs()))]);
        turn(&store);
    }
    seal(&store, &log);
    assert_eq!(records(&store, &log).len(), 40);
    let report = round(&store, &log, now(5), u64::MAX).unwrap();
    let left = usize::try_from(report.records_kept).unwrap() + 40
        - usize::try_from(report.cleaned_to.value()).unwrap();
    assert_eq!(records(&store, &log).len(), left);
}

#[test]
fn a_round_ends_where_the_log_is_no_longer_compacted() {
    let (store, log) = opened(&filled(24));
    let under_way = piece(&store, &log, now(5), 1);
    assert!(matches!(under_way, JobDone::Compacted { step: Compaction::UnderWay { .. }, .. }));
    store.set_config(log.id(), LogConfig { cleanup: Cleanup::Delete, ..config() }).unwrap();
    let done = piece(&store, &log, now(5), 1);
    assert!(matches!(done, JobDone::Compacted { step: Compaction::GivenUp, .. }), "{done:?}");
}
