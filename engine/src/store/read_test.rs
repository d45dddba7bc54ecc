//! Reads from files: every batch, every bound, batches of every size.

use bytes::Bytes;

use super::test_support::*;
use super::*;
use crate::log::{Log, LogConfig, Permit};

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
