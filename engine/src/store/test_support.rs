//! What the tests of logs and stores have in common: batches, clocks, directories on every disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{OpenReport, Opened, Store, StoreConfig};
use crate::batch::{BatchBuilder, BatchLimits, Compression, ProducedBatch, ReplicatedBatches};
use crate::disk::{Disk, IoMode, Patience, PosixDisk, SimulatedDisk, SyncThread, Wait, open_disk};
use crate::log::{Appended, Log, LogConfig, LogId, Permit, Read, Records};
use crate::units::{
    LeaderEpoch, Monotonic, Now, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp, TopicPartition,
};

pub(crate) fn at(offset: i64) -> Offset {
    Offset::new(offset).unwrap()
}

pub(crate) fn epoch(number: i32) -> LeaderEpoch {
    LeaderEpoch::new(number).unwrap()
}

pub(crate) fn now(ms: u64) -> Now {
    Now {
        monotonic: Monotonic::from_duration(Duration::from_millis(ms)),
        wall: Timestamp::from_millis(i64::try_from(ms).unwrap()),
    }
}

pub(crate) fn name(text: &str) -> TopicPartition {
    TopicPartition::from_directory_name(text).unwrap()
}

/// A producer's batch with these values, all at one time.
pub(crate) fn produced(values: &[&[u8]], ms: i64) -> ProducedBatch {
    let mut builder = BatchBuilder::new(Compression::None);
    for value in values {
        builder.push(Some(Timestamp::from_millis(ms)), None, Some(value), &[]).unwrap();
    }
    check(builder.finish().unwrap())
}

/// A batch of an idempotent producer.
pub(crate) fn numbered(producer: i64, sequence: i32, records: usize) -> ProducedBatch {
    let mut builder = BatchBuilder::new(Compression::None).producer(
        ProducerId::new(producer).unwrap(),
        ProducerEpoch::new(0).unwrap(),
        Sequence::new(sequence).unwrap(),
    );
    for _ in 0..records {
        builder.push(Some(Timestamp::from_millis(1)), None, Some(b"numbered"), &[]).unwrap();
    }
    check(builder.finish().unwrap())
}

fn check(bytes: Bytes) -> ProducedBatch {
    ProducedBatch::check(bytes, &BatchLimits::default(), Timestamp::from_millis(0)).unwrap()
}

/// A batch as a leader stamped it.
pub(crate) fn stamped(base: i64, records: usize, leader: i32, ms: i64) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None).base_offset(at(base)).leader_epoch(epoch(leader));
    for record in 0..records {
        let value = format!("record {record} at {base}");
        builder.push(Some(Timestamp::from_millis(ms)), None, Some(value.as_bytes()), &[]).unwrap();
    }
    builder.finish().unwrap()
}

/// What a leader would send: batches one behind the other.
pub(crate) fn replicated(batches: &[Bytes]) -> ReplicatedBatches {
    let bytes: Vec<u8> = batches.iter().flatten().copied().collect();
    ReplicatedBatches::check(bytes.into(), epoch(i32::MAX)).unwrap()
}

/// Appends one batch of `records` records in epoch 0.
pub(crate) fn append(log: &Log, records: usize) -> Appended {
    let values = vec![b"a value of some bytes".as_slice(); records];
    log.append(Permit::new(epoch(0)), produced(&values, 1), now(1)).unwrap()
}

/// Turns until nothing is in flight; gives the logs that moved.
pub(crate) fn turn(store: &Store) -> Vec<LogId> {
    let mut moved = Vec::new();
    loop {
        let report = store.turn(Wait::ForOne, Patience::MayBlock);
        moved.extend(report.moved);
        if report.in_flight == 0 {
            moved.sort_unstable();
            moved.dedup();
            return moved;
        }
    }
}

/// Opens, and expects it to succeed.
pub(crate) fn open(disk: &Arc<dyn Disk>, directory: &Path) -> (Store, OpenReport) {
    open_with(disk, directory, StoreConfig::default())
}

pub(crate) fn open_with(disk: &Arc<dyn Disk>, directory: &Path, config: StoreConfig) -> (Store, OpenReport) {
    let Opened { store, report } = Store::open(Arc::clone(disk), directory, config, now(0)).unwrap();
    (store, report)
}

pub(crate) fn small_segments(bytes: u32) -> LogConfig {
    LogConfig { segment_bytes_max: bytes, index_interval_bytes: 128, ..LogConfig::default() }
}

/// A disk with a directory on it, kept until it is dropped.
pub(crate) struct Place {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) directory: PathBuf,
    _kept: Option<tempfile::TempDir>,
}

/// Every disk that works here.
pub(crate) fn places() -> Vec<Place> {
    let mut places =
        vec![Place { disk: Arc::new(SimulatedDisk::new(7)), directory: PathBuf::from("/data"), _kept: None }];
    let mut disks: Vec<Arc<dyn Disk>> = vec![Arc::new(PosixDisk::new(SyncThread::WhenNeeded))];
    disks.extend(open_disk(IoMode::Uring, SyncThread::Never).ok().map(|opened| opened.disk));
    for disk in disks {
        let kept = tempfile::tempdir().unwrap();
        places.push(Place { disk, directory: kept.path().join("data"), _kept: Some(kept) });
    }
    places
}

/// Reads with the device if need be.
pub(crate) fn read(store: &Store, log: &Log, from: i64, bytes_max: usize) -> Option<Records> {
    let read = log.read(at(from), Offset::MAX, bytes_max, true).unwrap();
    match read {
        Read::Records(records) => Some(records),
        Read::Empty => None,
        Read::Cold(asked) => {
            let done = super::Job::ColdRead(asked).run(store);
            let super::JobDone::Read { result, .. } = done else { panic!("{done:?}") };
            match result.unwrap() {
                Read::Records(records) => Some(records),
                Read::Empty => None,
                Read::Cold(asked) => panic!("a cold read of a cold read: {asked:?}"),
            }
        }
    }
}

/// All bytes of a log from an offset on.
pub(crate) fn read_all(store: &Store, log: &Log, from: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut next = from;
    while let Some(records) = read(store, log, next, 1 << 20) {
        for part in &records.parts {
            bytes.extend_from_slice(part);
        }
        assert!(records.end > at(next), "a read makes progress");
        next = records.end.value();
    }
    bytes
}
