//! Reads from files: every batch, every bound, batches of every size.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::test_support::*;
use super::*;
use crate::disk::simulated::Completing;
use crate::disk::{Disk, Patience, SimulatedDisk, Wait};
use crate::log::{Log, LogConfig, Permit, Read};
use crate::units::Offset;

/// First and last offset of each batch, and its bytes.
type Batches = Vec<(i64, i64, Bytes)>;

/// Batches of one to five records, of 70 bytes to 30 KiB, in several segments.
fn fill(store: &Store, log: &Log) -> Batches {
    let mut rng = fastrand::Rng::with_seed(11);
    for _ in 0..150 {
        let bytes_max = *rng.choice(&[10, 500, 2000, 6000]).unwrap();
        let values: Vec<Vec<u8>> = (0..rng.usize(1..=5)).map(|_| vec![7; rng.usize(1..bytes_max)]).collect();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        log.append(Permit::new(epoch(0)), produced(&values, 1), now(1)).unwrap();
    }
    turn(store);
    let bytes = Bytes::from(read_all(store, log, 0));
    crate::batch::scan(&bytes, 0)
        .map(|batch| {
            let (_, view) = batch.unwrap();
            let header = view.header();
            (header.base_offset.value(), header.last_offset().value(), bytes.slice_ref(view.bytes()))
        })
        .collect()
}

fn settings() -> LogConfig {
    LogConfig { segment_bytes_max: 200 << 10, ..LogConfig::default() }
}

#[test]
fn every_offset_and_bound_gives_the_batches_that_fit() {
    for place in places() {
        let (store, _) = open(&place.disk, &place.directory);
        let log = store.create_log(&name("t-0"), None, settings(), now(0)).unwrap();
        let batches = fill(&store, &log);
        assert!(log.segment_count() > 2, "{}", log.segment_count());
        store.close(serde_json::Map::new(), None).unwrap();
        let (store, _) = open(&place.disk, &place.directory);
        let log = store.log(&name("t-0")).unwrap();
        for (number, (first, last, bytes)) in batches.iter().enumerate() {
            for (from, bytes_max) in
                [(*first, 1), (*last, 1), (*last, 700), (*first, 9000), (*last, 40_000), (*first, 1 << 20)]
            {
                let records = read(&store, &log, from, bytes_max).unwrap();
                let given: Vec<u8> = records.parts.concat();
                assert_eq!(records.first, at(*first), "from {from}, {bytes_max} bytes");
                assert!(given.len() <= bytes_max.max(bytes.len()), "from {from}, {bytes_max} bytes");
                let wanted: Vec<u8> = batches[number..].iter().flat_map(|batch| batch.2.clone()).collect();
                assert_eq!(given, wanted[..given.len()], "from {from}, {bytes_max} bytes");
                let next = batches.iter().find(|batch| batch.0 == records.end.value());
                let stays = next.is_some_and(|next| given.len() + next.2.len() <= bytes_max);
                let at_seam = log.0.view().segments.iter().any(|segment| segment.base() == records.end);
                assert!(!stays || at_seam, "from {from}, {bytes_max} bytes: the next batch fits");
            }
        }
    }
}

#[test]
fn bounds_of_no_byte_and_of_one_give_a_whole_batch_or_nothing() {
    for place in places() {
        let (store, _) = open(&place.disk, &place.directory);
        let log = store.create_log(&name("t-0"), None, settings(), now(0)).unwrap();
        append(&log, 2);
        append(&log, 2);
        turn(&store);
        store.close(serde_json::Map::new(), None).unwrap();
        let (store, _) = open(&place.disk, &place.directory);
        let log = store.log(&name("t-0")).unwrap();
        for bytes_max in [0, 1, 60] {
            let least = read(&store, &log, 0, bytes_max).unwrap();
            assert_eq!((least.first, least.end), (at(0), at(2)), "{bytes_max} bytes");
            let mut given = log.read(at(0), Offset::MAX, bytes_max, false).unwrap();
            if let Read::Cold(asked) = given {
                let JobDone::Read { result, .. } = Job::ColdRead(asked).run(&store) else { panic!() };
                given = result.unwrap();
            }
            assert!(matches!(given, Read::Empty), "{bytes_max} bytes: {given:?}");
        }
    }
}

/// Wherever a segment ends, and wherever a read begins.
#[test]
fn no_ceiling_is_ever_passed() {
    let place = places().remove(0);
    let (store, _) = open(&place.disk, &place.directory);
    let log = store.create_log(&name("t-0"), None, small_segments(400), now(0)).unwrap();
    for _ in 0..20 {
        append(&log, 2);
    }
    turn(&store);
    assert!(log.segment_count() > 3);
    let check = |store: &Store, log: &Log| {
        for (from, ceiling) in (0..=40).flat_map(|from| (0..=40).map(move |ceiling| (from, ceiling))) {
            let mut given = log.read(at(from), at(ceiling), 1 << 20, true).unwrap();
            if let Read::Cold(asked) = given {
                let JobDone::Read { result, .. } = Job::ColdRead(asked).run(store) else { panic!() };
                given = result.unwrap();
            }
            match given {
                Read::Records(records) => assert!(records.end <= at(ceiling) && records.first <= at(from)),
                Read::Empty => assert!(ceiling / 2 <= from / 2, "{from}..{ceiling}"),
                Read::Cold(asked) => panic!("{asked:?}"),
            }
        }
    };
    check(&store, &log);
    store.close(serde_json::Map::new(), None).unwrap();
    let (store, _) = open(&place.disk, &place.directory);
    check(&store, &store.log(&name("t-0")).unwrap());
}

#[test]
fn appends_and_reads_go_on_beside_a_sync() {
    let simulated = SimulatedDisk::new(12);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let (store, _) = open(&disk, Path::new("/data"));
    let log = store.create_log(&name("t-0"), None, settings(), now(0)).unwrap();
    append(&log, 2);
    turn(&store);
    simulated.set_completing(Completing::WhenTold);
    store.want_durable(&log);
    store.turn(Wait::Not, Patience::MustNotBlock);
    assert_eq!(simulated.uncompleted(), 1, "the sync is under way");
    assert_eq!(append(&log, 2).offsets.start(), at(2));
    assert_eq!(read(&store, &log, 0, 1).unwrap().end, at(2));
    store.turn(Wait::Not, Patience::MustNotBlock);
    assert_eq!(simulated.uncompleted(), 2, "and a write beside it");
    turn(&store);
    assert_eq!((log.written(), log.durable()), (at(4), at(2)));
}
