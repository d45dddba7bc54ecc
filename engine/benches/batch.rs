//! What record batches cost: CRC, a leader's check, reading the records, building. Throughput is in bytes before compression.
//!
//! `cargo bench -p highwater-engine --bench batch`

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use highwater_engine::batch::{
    BatchBuilder, BatchLimits, BatchView, Compression, DecompressLimits, ProducedBatch, scan,
};
use highwater_engine::units::{LeaderEpoch, Offset, Timestamp};

const NOW: Timestamp = Timestamp::from_millis(1_600_000_000_000);
const RECORD_BYTES: usize = 1024;
const BATCH_RECORDS: usize = 100;

/// Text-like bytes: words of a small vocabulary, so that codecs find what they find in real records.
fn text(rng: &mut fastrand::Rng, bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes + 12);
    while out.len() < bytes {
        let word = rng.u32(..2_000).wrapping_mul(2_654_435_761);
        out.extend_from_slice(format!("{word:x} ").as_bytes());
    }
    out.truncate(bytes);
    out
}

fn batch(compression: Compression) -> Bytes {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut builder = BatchBuilder::new(compression);
    for _ in 0..BATCH_RECORDS {
        let value = text(&mut rng, RECORD_BYTES);
        builder.push(Some(NOW), None, Some(&value), &[]).expect("a record fits");
    }
    builder.finish().expect("a batch fits")
}

fn check(c: &mut Criterion) {
    let mut group = c.benchmark_group("check");
    group.throughput(Throughput::Bytes((BATCH_RECORDS * RECORD_BYTES) as u64));
    let plain = batch(Compression::None);
    group.bench_function("crc alone", |b| b.iter(|| crc32c::crc32c(black_box(&plain[21..]))));
    let limits = BatchLimits::default();
    for compression in Compression::ALL {
        let bytes = batch(compression);
        group.bench_function(format!("produced {compression}"), |b| {
            b.iter(|| ProducedBatch::check(black_box(bytes.clone()), &limits, NOW).expect("a good batch"));
        });
    }
    group.finish();
}

fn read(c: &mut Criterion) {
    let mut group = c.benchmark_group("read");
    group.throughput(Throughput::Bytes((BATCH_RECORDS * RECORD_BYTES) as u64));
    for compression in Compression::ALL {
        let bytes = batch(compression);
        let view = BatchView::parse(&bytes).expect("a good batch");
        let mut scratch = Vec::new();
        group.bench_function(format!("records {compression}"), |b| {
            b.iter(|| {
                let records =
                    view.records(&DecompressLimits::default(), &mut scratch).expect("a good stream");
                records
                    .map(|record| record.expect("a good record").value.map_or(0, <[u8]>::len))
                    .sum::<usize>()
            });
        });
    }
    let log: Vec<u8> = (0..10).flat_map(|_| batch(Compression::None)).collect();
    group.throughput(Throughput::Bytes(log.len() as u64));
    group.bench_function("scan", |b| b.iter(|| scan(black_box(&log), 0).flatten().count()));
    group.finish();
}

fn write(c: &mut Criterion) {
    let mut group = c.benchmark_group("write");
    let value = text(&mut fastrand::Rng::with_seed(2), 100);
    group.throughput(Throughput::Elements(1));
    group.bench_function("build a batch of one 100-byte record", |b| {
        let mut builder = BatchBuilder::new(Compression::None);
        b.iter(|| {
            builder.push(Some(NOW), None, Some(black_box(&value)), &[]).expect("a record fits");
            builder.finish().expect("a batch fits")
        });
    });
    let bytes = batch(Compression::None);
    let epoch = LeaderEpoch::ZERO;
    group.bench_function("stamp in place", |b| {
        b.iter_batched(
            || {
                let owned = Bytes::from(bytes.to_vec());
                ProducedBatch::check(owned, &BatchLimits::default(), NOW).expect("a good batch")
            },
            |produced| produced.stamp(Offset::ZERO, epoch, None).expect("offsets are left"),
            BatchSize::SmallInput,
        );
    });
    for compression in Compression::ALL {
        let mut rng = fastrand::Rng::with_seed(1);
        let values: Vec<_> = (0..BATCH_RECORDS).map(|_| text(&mut rng, RECORD_BYTES)).collect();
        group.throughput(Throughput::Bytes((BATCH_RECORDS * RECORD_BYTES) as u64));
        group.bench_function(format!("build {compression}"), |b| {
            let mut builder = BatchBuilder::new(compression);
            b.iter(|| {
                for value in &values {
                    builder.push(Some(NOW), None, Some(value), &[]).expect("a record fits");
                }
                builder.finish().expect("a batch fits")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, check, read, write);
criterion_main!(benches);
