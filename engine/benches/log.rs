//! What a log costs: appends, lookups in an index, reads of what is in the page cache, the opening of a directory after a kill.
//!
//! `cargo bench -p highwater-engine --bench log`

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use highwater_engine::batch::{BatchBuilder, BatchLimits, Compression, ProducedBatch};
use highwater_engine::disk::{IoMode, Patience, SyncThread, Wait, open_disk};
use highwater_engine::index::ActiveIndex;
use highwater_engine::log::{Log, LogConfig, Permit, Read, Records};
use highwater_engine::store::{Job, JobDone, Store, StoreConfig};
use highwater_engine::units::{LeaderEpoch, Monotonic, Now, Offset, Timestamp, TopicPartition};

const NOW: Now = Now {
    monotonic: Monotonic::from_duration(Duration::ZERO),
    wall: Timestamp::from_millis(1_600_000_000_000),
};
const MIB: usize = 1 << 20;

fn open(directory: &Path) -> Store {
    let disk = open_disk(IoMode::Auto, SyncThread::WhenNeeded).expect("there is always a disk").disk;
    Store::open(disk, directory, StoreConfig::default(), NOW).expect("the directory opens").store
}

fn create(store: &Store) -> Log {
    let name = TopicPartition::new("bench", 0).expect("a good name");
    store.create_log(&name, None, LogConfig::default(), NOW).expect("the log is new")
}

/// One batch of so many records of so many bytes.
fn batch(records: usize, record_bytes: usize) -> Bytes {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut builder = BatchBuilder::new(Compression::None);
    for _ in 0..records {
        let value: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(record_bytes).collect();
        builder.push(Some(NOW.wall), None, Some(&value), &[]).expect("a record fits");
    }
    builder.finish().expect("a batch fits")
}

fn append(log: &Log, bytes: Bytes) {
    let batch = ProducedBatch::check(bytes, &BatchLimits::default(), NOW.wall).expect("a good batch");
    log.append(Permit::new(LeaderEpoch::ZERO), batch, NOW).expect("there is room");
}

fn write(store: &Store) {
    black_box(store.turn(Wait::Not, Patience::MayBlock));
}

/// Closes the store, so that what is read afterwards comes from files.
fn reopened(store: Store, directory: &Path) -> (Store, Log) {
    store.close(serde_json::Map::new(), None).expect("the store closes");
    let store = open(directory);
    let log = store.logs().pop().expect("the log is there");
    (store, log)
}

/// What the kernel has dropped from the page cache meanwhile comes from the device.
fn read(store: &Store, log: &Log, from: Offset, bytes_max: usize) -> Option<Records> {
    let mut read = log.read(from, Offset::MAX, bytes_max, true).expect("readable");
    if let Read::Cold(asked) = read {
        let JobDone::Read { result, .. } = Job::ColdRead(asked).run(store) else { unreachable!() };
        read = result.expect("readable");
    }
    if let Read::Records(records) = read { Some(records) } else { None }
}

/// Batches into the page cache: small ones written every 64 KiB, large ones at once. Each time into a new log, so that the device has no part
/// in it.
fn appends(c: &mut Criterion) {
    let mut group = c.benchmark_group("append");
    for (name, bytes, count, written_every) in
        [("one 100-byte record", batch(1, 100), 20_000, 64 << 10), ("64 KiB", batch(63, 1024), 200, 0)]
    {
        let empty = || {
            let directory = tempfile::tempdir().expect("a directory");
            let store = open(directory.path());
            let log = create(&store);
            let batches: Vec<_> = (0..count).map(|_| Bytes::from(bytes.to_vec())).collect();
            (directory, store, log, batches)
        };
        group.throughput(Throughput::Elements(count));
        group.bench_function(name, |b| {
            b.iter_batched(
                empty,
                |(directory, store, log, batches)| {
                    let mut waiting = 0;
                    for batch in batches {
                        waiting += batch.len();
                        append(&log, batch);
                        if waiting >= written_every {
                            waiting = 0;
                            write(&store);
                        }
                    }
                    (directory, store, log)
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

fn lookups(c: &mut Criterion) {
    const ENTRIES: i64 = 256 << 10;
    let mut index = ActiveIndex::new(Offset::ZERO, 0, 16 << 20);
    for entry in 0..ENTRIES {
        let last = Offset::new(10 * entry + 9).expect("not negative");
        index.note(last, 4096 * entry.unsigned_abs(), 4096, Some(NOW.wall));
    }
    let mut rng = fastrand::Rng::with_seed(1);
    c.bench_function("index lookup in 1 GiB", |b| {
        b.iter(|| index.floor(Offset::new(rng.i64(0..10 * ENTRIES)).expect("not negative")));
    });
}

/// A scan in reads of a mebibyte, and reads of single batches, CRC checked.
fn reads(c: &mut Criterion) {
    const SCAN: usize = 64 * MIB;
    const POINTS: i64 = 50_000;
    let mut group = c.benchmark_group("read");
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path());
    let log = create(&store);
    let large = batch(63, 1024);
    for _ in 0..SCAN / large.len() {
        append(&log, large.clone());
        write(&store);
    }
    let (store, log) = reopened(store, directory.path());
    group.throughput(Throughput::Bytes(log.size_bytes()));
    group.bench_function("scan", |b| {
        b.iter(|| {
            let (mut from, mut bytes) = (Offset::ZERO, 0);
            while let Some(records) = read(&store, &log, from, MIB) {
                from = records.end;
                bytes += records.size;
            }
            assert_eq!(bytes as u64, log.size_bytes());
        });
    });
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path());
    let log = create(&store);
    let small = batch(1, 1024);
    for _ in 0..POINTS {
        append(&log, small.clone());
    }
    write(&store);
    let (store, log) = reopened(store, directory.path());
    let mut rng = fastrand::Rng::with_seed(1);
    group.throughput(Throughput::Elements(1));
    group.bench_function("one 1 KiB record", |b| {
        b.iter(|| {
            let offset = Offset::new(rng.i64(0..POINTS)).expect("not negative");
            assert_eq!(read(&store, &log, offset, 1).map(|records| records.first), Some(offset));
        });
    });
    group.finish();
}

/// A directory with a mebibyte that no sync covers.
fn recovery(c: &mut Criterion) {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path());
    let log = create(&store);
    let small = batch(1, 1024);
    for _ in 0..MIB / small.len() {
        append(&log, small.clone());
    }
    write(&store);
    drop((log, store));
    let mut group = c.benchmark_group("recover");
    group.throughput(Throughput::Bytes(MIB as u64));
    group.bench_function("1 MiB", |b| b.iter(|| open(directory.path())));
    group.finish();
}

criterion_group!(benches, appends, lookups, reads, recovery);
criterion_main!(benches);
