//! The bytes of Kafka's indexes, floors against a sorted map, and damage.

use std::collections::BTreeMap;

use super::*;
use crate::batch::scan;
use crate::disk::Map;
use crate::units::{Offset, ProducerId, Timestamp};

fn at(offset: i64) -> Offset {
    Offset::new(offset).unwrap()
}

fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn copy(bytes: &[u8]) -> Map {
    Map::Copied(bytes.into())
}

/// Shows the index every batch of a log from a position on.
fn show(index: &mut ActiveIndex, log: &[u8], from: u64) {
    for batch in scan(&log[usize::try_from(from).unwrap()..], from) {
        let (position, view) = batch.unwrap();
        let header = view.header();
        index.note(header.last_offset(), position, header.size_bytes as u64, header.max_timestamp);
    }
}

const CODECS: &[u8] = include_bytes!("../../testdata/index/codecs.log");
const CODECS_INDEX: &[u8] = include_bytes!("../../testdata/index/codecs.index");
const CODECS_TIMEINDEX: &[u8] = include_bytes!("../../testdata/index/codecs.timeindex");
const ROLLED: &[u8] = include_bytes!("../../testdata/index/rolled-18.log");
const ROLLED_INDEX: &[u8] = include_bytes!("../../testdata/index/rolled-18.index");
const ROLLED_TIMEINDEX: &[u8] = include_bytes!("../../testdata/index/rolled-18.timeindex");

#[test]
fn the_indexes_of_kafkas_logs_come_out_as_kafkas() {
    for (base, interval, log, offsets, times) in
        [(0, 4096, CODECS, CODECS_INDEX, CODECS_TIMEINDEX), (18, 100, ROLLED, ROLLED_INDEX, ROLLED_TIMEINDEX)]
    {
        let mut index = ActiveIndex::new(at(base), interval, 4096);
        show(&mut index, log, 0);
        index.seal();
        assert_eq!((index.offset_bytes(), index.time_bytes()), (offsets, times));
    }
}

#[test]
fn every_lookup_in_kafkas_index_leads_to_the_batch() {
    let index = SealedOffsetIndex::open(at(18), copy(ROLLED_INDEX), ROLLED.len() as u64).unwrap();
    let times = SealedTimeIndex::open(at(18), copy(ROLLED_TIMEINDEX)).unwrap();
    assert_eq!((index.len(), times.len()), (3, 3));
    assert_eq!(index.entry(0), Some(OffsetEntry { last_offset: at(23), position: 589 }));
    assert_eq!(index.entry(3), None);
    for offset in 18..36 {
        let from = usize::try_from(index.floor(at(offset))).unwrap();
        let mut batches = scan(&ROLLED[from..], 0).map(|batch| batch.unwrap().1.header().offsets());
        assert!(batches.any(|offsets| offsets.contains(at(offset))), "offset {offset}");
    }
    let latest = TimeEntry { timestamp: time(1_700_003_700_035), last_offset: at(35) };
    assert_eq!(times.latest(), Some(latest));
    assert_eq!(times.floor(time(i64::MAX)), Some(latest));
    assert_eq!(times.floor(time(1_700_003_700_022)), None);
    assert_eq!(times.floor(time(1_700_003_700_023)).unwrap().last_offset, at(23));
    assert_eq!(times.floor(time(1_700_003_700_028)).unwrap().last_offset, at(23));
}

#[test]
fn an_empty_index_leads_to_the_beginning() {
    let index = ActiveIndex::new(at(10), 0, 4096);
    assert_eq!((index.floor(at(10)), index.floor(at(99)), index.floor(at(0))), (0, 0, 0));
    assert_eq!((index.time_floor(time(5)), index.latest(), index.last_entry()), (None, None, None));
    let sealed = SealedOffsetIndex::open(at(10), copy(&[]), 0).unwrap();
    assert!(sealed.len() == 0 && sealed.floor(at(11)) == 0 && sealed.entry(0).is_none());
}

/// Batches of one record and 10 bytes at offsets 0, 1, 2, ...; with an interval of 0 all but the first have an entry.
fn dense(count: i64) -> ActiveIndex {
    let mut index = ActiveIndex::new(at(0), 0, 4096);
    for offset in 0..count {
        note_dense(&mut index, offset);
    }
    index
}

fn note_dense(index: &mut ActiveIndex, offset: i64) {
    index.note(at(offset), u64::try_from(offset).unwrap() * 10, 10, Some(time(1000 + offset)));
}

#[test]
fn the_first_batch_has_no_entry_and_an_interval_is_strictly_exceeded() {
    assert!(dense(1).offset_bytes().is_empty());
    assert_eq!(dense(2).last_entry(), Some(OffsetEntry { last_offset: at(1), position: 10 }));
    let mut index = ActiveIndex::new(at(0), 10, 4096);
    for offset in 0..6 {
        note_dense(&mut index, offset);
    }
    let entries = [2, 4].map(|offset| [[0, 0, 0, offset], [0, 0, 0, offset * 10]].concat());
    assert_eq!(index.offset_bytes(), entries.concat(), "each second batch");
}

#[test]
fn offsets_between_entries_and_before_the_first_go_to_the_floor() {
    let mut index = ActiveIndex::new(at(50), 0, 4096);
    for (offset, position) in [(50, 0), (51, 7), (60, 90)] {
        index.note(at(offset), position, 7, None);
    }
    let floors = [49, 50, 51, 59, 60, 61].map(|offset| index.floor(at(offset)));
    assert_eq!(floors, [0, 0, 7, 7, 90, 90]);
    let ceilings =
        [50, 51, 59, 60, 61].map(|offset| index.span(at(offset)).ceiling.map(|next| next.position));
    assert_eq!(ceilings, [Some(7), Some(90), Some(90), None, None]);
    assert!(index.time_bytes().is_empty(), "no record has a timestamp");
}

#[test]
fn floors_agree_with_a_sorted_map() {
    let seed = std::env::var("HIGHWATER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(11);
    let mut chance = fastrand::Rng::with_seed(seed);
    let base = 1_000_000;
    let mut index = ActiveIndex::new(at(base), 40, 1 << 20);
    let (mut offset, mut position, mut since, mut highest) = (base, 0, 0, 0);
    let (mut offsets, mut times) = (BTreeMap::new(), BTreeMap::new());
    for _ in 0..2_000 {
        offset += chance.i64(1..9);
        let (size, stamp) = (chance.u64(1..30), chance.i64(1..100_000));
        index.note(at(offset), position, size, Some(time(stamp)));
        let new_highest = stamp > highest;
        if new_highest {
            highest = stamp;
            times.insert(stamp, (offset, false));
        }
        if since > 40 {
            since = 0;
            offsets.insert(offset, position);
            times.last_entry().unwrap().get_mut().1 = true;
        }
        since += size;
        position += size;
    }
    let sealed = SealedOffsetIndex::open(at(base), copy(index.offset_bytes()), position).unwrap();
    let sealed_times = SealedTimeIndex::open(at(base), copy(index.time_bytes())).unwrap();
    assert_eq!(sealed.len(), offsets.len());
    for target in base..offset + 10 {
        let floor = offsets.range(..=target).next_back().map_or(0, |(_, position)| *position);
        assert_eq!(index.floor(at(target)), floor, "seed {seed} target {target}");
        assert_eq!(sealed.floor(at(target)), floor, "seed {seed} target {target}");
    }
    for target in (0..100_000).step_by(97) {
        let floor = times.range(..=target).rfind(|(_, (_, entered))| *entered);
        let expected = floor.map(|(stamp, (offset, _))| (*stamp, *offset));
        let pair = |entry: TimeEntry| (entry.timestamp.millis(), entry.last_offset.value());
        assert_eq!(index.time_floor(time(target)).map(pair), expected, "seed {seed} time {target}");
        assert_eq!(sealed_times.floor(time(target)).map(pair), expected, "seed {seed} time {target}");
    }
}

#[test]
fn truncation_keeps_entries_below_the_target_and_goes_on_from_there() {
    for (target, last) in [(12, Some(9)), (10, Some(9)), (9, Some(8)), (5, Some(4)), (1, None), (0, None)] {
        let mut index = dense(10);
        let from = index.truncate(at(target));
        assert_eq!(index.last_entry().map(|entry| entry.last_offset.value()), last, "target {target}");
        assert_eq!(from, last.map_or(0, |last| u64::try_from(last).unwrap() * 10));
        for offset in i64::try_from(from).unwrap() / 10..10 {
            note_dense(&mut index, offset);
        }
        let whole = dense(10);
        assert_eq!(index.offset_bytes(), whole.offset_bytes(), "target {target}");
        assert_eq!(index.time_bytes(), whole.time_bytes(), "target {target}");
        assert_eq!(index.latest(), whole.latest());
    }
}

#[test]
fn an_index_that_was_cut_anywhere_is_as_if_it_had_never_grown() {
    let seed = std::env::var("HIGHWATER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(13);
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut batches = Vec::new();
    let (mut offset, mut position) = (0, 0);
    for _ in 0..120 {
        let (size, stamp) = (chance.u64(20..60), chance.i64(0..500));
        offset += chance.i64(1..5);
        batches.push((offset, position, size, stamp));
        position += size;
    }
    let note = |index: &mut ActiveIndex, batch: &(i64, u64, u64, i64)| {
        index.note(at(batch.0), batch.1, batch.2, Some(time(batch.3)));
    };
    for kept in 0..batches.len() {
        let mut cut = ActiveIndex::new(at(0), 100, 4096);
        let mut never = ActiveIndex::new(at(0), 100, 4096);
        for batch in &batches {
            note(&mut cut, batch);
        }
        batches[..kept].iter().for_each(|batch| note(&mut never, batch));
        let target = batches[kept].0;
        let from = cut.truncate(at(target));
        batches[..kept].iter().filter(|batch| batch.1 >= from).for_each(|batch| note(&mut cut, batch));
        for index in [&mut cut, &mut never] {
            batches[kept..].iter().for_each(|batch| note(index, batch));
            index.seal();
        }
        assert_eq!(cut.offset_bytes(), never.offset_bytes(), "seed {seed} kept {kept}");
        assert_eq!(cut.time_bytes(), never.time_bytes(), "seed {seed} kept {kept}");
    }
}

#[test]
fn a_reopened_index_goes_on_where_it_stopped() {
    let mut whole = ActiveIndex::new(at(0), 4096, 4096);
    show(&mut whole, CODECS, 0);
    let files = (whole.offset_bytes().to_vec(), whole.time_bytes().to_vec());
    let (mut again, from) = ActiveIndex::reopen(at(0), 4096, 4096, files, CODECS.len() as u64).unwrap();
    assert_eq!(from, 8672);
    show(&mut again, CODECS, from);
    assert_eq!(again.latest(), whole.latest());
    for index in [&mut whole, &mut again] {
        index.note(at(400), 9564, 4000, Some(time(1_800_000_000_000)));
        index.note(at(401), 13_564, 100, Some(time(1_800_000_000_001)));
        index.seal();
    }
    assert_eq!(again.offset_bytes(), whole.offset_bytes());
    assert_eq!(again.time_bytes(), whole.time_bytes());
}

#[test]
fn at_the_bound_entries_are_left_out_and_one_is_kept_for_the_seal() {
    let mut index = ActiveIndex::new(at(0), 0, 36);
    let mut full_at = None;
    for offset in 0..10 {
        note_dense(&mut index, offset);
        full_at = full_at.or(index.is_full().then_some(offset));
    }
    assert_eq!(full_at, Some(2));
    assert_eq!((index.offset_bytes().len(), index.time_bytes().len()), (16, 24));
    index.seal();
    assert_eq!(index.time_bytes().len(), 36);
    let times = SealedTimeIndex::open(at(0), copy(index.time_bytes())).unwrap();
    assert_eq!(times.latest(), Some(TimeEntry { timestamp: time(1009), last_offset: at(9) }));
    assert_eq!(index.floor(at(9)), 20);
}

#[test]
fn offsets_too_far_from_the_base_have_no_entry() {
    let far = i64::from(i32::MAX) + 5;
    let mut index = ActiveIndex::new(at(5), 0, 4096);
    index.note(at(5), 0, 10, Some(time(1)));
    index.note(at(far), 10, 10, Some(time(2)));
    index.note(at(far + 1), 20, 10, Some(time(3)));
    assert_eq!(index.last_entry(), Some(OffsetEntry { last_offset: at(far), position: 10 }));
    assert_eq!(index.floor(at(far + 1)), 10);
}

#[test]
fn an_index_that_was_not_trimmed_or_is_damaged_is_made_again() {
    let log_bytes = ROLLED.len() as u64;
    let check = |bytes: &[u8]| check_offset_index(bytes, at(18), log_bytes);
    assert_eq!(check(ROLLED_INDEX), Ok(()));
    let padded = [ROLLED_INDEX, &[0; 4072]].concat();
    assert_eq!(check(&padded), Err(IndexDamage::Position { entry: 3, position: 0, log_bytes }));
    assert_eq!(check(&ROLLED_INDEX[..2]), Err(IndexDamage::Length { bytes: 2 }));
    assert_eq!(check(&[ROLLED_INDEX, ROLLED_INDEX].concat()), Err(IndexDamage::Order { entry: 3 }));
    assert_eq!(
        check_offset_index(ROLLED_INDEX, at(18), 1767),
        Err(IndexDamage::Position { entry: 2, position: 1767, log_bytes: 1767 })
    );
    assert_eq!(check(&[255, 255, 255, 255, 0, 0, 0, 1]), Err(IndexDamage::Offset { entry: 0 }));
    assert_eq!(
        check_offset_index(&[0, 0, 0, 9, 0, 0, 0, 1], Offset::MAX, 9),
        Err(IndexDamage::Offset { entry: 0 })
    );
    assert_eq!(check_time_index(ROLLED_TIMEINDEX, at(18)), Ok(()));
    assert_eq!(check_time_index(&ROLLED_TIMEINDEX[..13], at(18)), Err(IndexDamage::Length { bytes: 13 }));
    let padded = [ROLLED_TIMEINDEX, &[0; 12]].concat();
    assert_eq!(check_time_index(&padded, at(18)), Err(IndexDamage::Order { entry: 3 }));
}

#[test]
fn a_damaged_index_that_passes_the_check_never_panics() {
    for number in 0..ROLLED_INDEX.len() * 255 {
        let mut bytes = ROLLED_INDEX.to_vec();
        bytes[number / 255] ^= u8::try_from(number % 255 + 1).unwrap();
        if let Ok(index) = SealedOffsetIndex::open(at(18), copy(&bytes), ROLLED.len() as u64) {
            for offset in 17..40 {
                assert!(index.floor(at(offset)) < ROLLED.len() as u64);
            }
        }
    }
}

#[test]
fn aborted_transactions_are_kafkas_bytes() {
    let bytes = include_bytes!("../../testdata/index/transactions.txnindex");
    let aborted = decode_aborted(bytes, at(0)).unwrap();
    let producer = ProducerId::new(1001).unwrap();
    let expected = [(5, 9, 10), (15, 19, 20), (20, 24, 25)].map(|(first, marker, stable)| {
        AbortedTransaction { producer, first: at(first), marker: at(marker), last_stable: at(stable) }
    });
    assert_eq!(aborted, expected);
    let mut again = Vec::new();
    for transaction in &aborted {
        append_aborted(&mut again, transaction);
    }
    assert_eq!(again, bytes);
    let found = |from, end| {
        let query = aborted_in(&aborted, at(from), at(end));
        (query.transactions.iter().map(|found| found.first.value()).collect::<Vec<_>>(), query.complete)
    };
    assert_eq!(found(0, 5), (vec![], true));
    assert_eq!(found(0, 6), (vec![5], true));
    assert_eq!(found(9, 16), (vec![5, 15], true));
    assert_eq!(found(10, 20), (vec![15], true));
    assert_eq!(found(10, 26), (vec![15, 20], false));
    assert_eq!(decode_aborted(&bytes[..33], at(0)), Err(AbortedDamage::Length { bytes: 33 }));
    assert_eq!(decode_aborted(bytes, at(10)), Err(AbortedDamage::Entry { entry: 0 }));
    let twice = [bytes.as_slice(), bytes].concat();
    assert_eq!(decode_aborted(&twice, at(0)), Err(AbortedDamage::Entry { entry: 3 }));
}
