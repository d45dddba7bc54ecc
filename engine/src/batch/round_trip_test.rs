//! What the builder writes is what is read, in each codec; and no single damaged bit passes for anything else.

use super::testing::{NOW, epoch, offset, stamped};
use super::{BatchBuilder, BatchView, BuildError, Compression, DecompressLimits, RecordView, TimestampType};
use crate::units::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

struct Written {
    delta: i32,
    timestamp: Option<Timestamp>,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
}

fn random_field(rng: &mut fastrand::Rng, bytes_max: usize) -> Option<Vec<u8>> {
    let random = rng.bool();
    (rng.u8(..) > 30)
        .then(|| (0..rng.usize(..bytes_max)).map(|_| if random { rng.u8(..) } else { b'a' }).collect())
}

fn random_records(rng: &mut fastrand::Rng) -> Vec<Written> {
    let mut delta = -1;
    (0..rng.usize(1..60))
        .map(|_| {
            delta += if rng.u8(..) < 20 { rng.i32(2..100_000) } else { 1 };
            let timestamp =
                (rng.u8(..) > 20).then(|| Timestamp::from_millis(NOW.millis() + rng.i64(-5_000..5_000)));
            let headers = (0..rng.usize(..4)).map(|at| (format!("ä{at}"), random_field(rng, 40))).collect();
            Written { delta, timestamp, key: random_field(rng, 30), value: random_field(rng, 4_000), headers }
        })
        .collect()
}

fn assert_same(written: &Written, read: &RecordView<'_>, base: Offset, context: &str) {
    assert_eq!(read.offset.distance_from(base), Some(i64::from(written.delta)), "{context}");
    assert_eq!(read.timestamp, written.timestamp, "{context}");
    assert_eq!((read.key, read.value), (written.key.as_deref(), written.value.as_deref()), "{context}");
    let headers: Vec<_> = written.headers.iter().map(|(k, v)| (k.as_bytes(), v.as_deref())).collect();
    assert_eq!(read.headers.iter().collect::<Vec<_>>(), headers, "{context}");
}

#[test]
fn records_come_back_in_every_codec() {
    let seed = std::env::var("HIGHWATER_SEED").map_or(fastrand::u64(..), |seed| seed.parse().unwrap());
    let mut rng = fastrand::Rng::with_seed(seed);
    for round in 0..60 {
        let compression = Compression::ALL[round % 5];
        let context = format!("HIGHWATER_SEED={seed}, round {round}, {compression}");
        let written = random_records(&mut rng);
        let base = offset(rng.i64(0..1 << 40));
        let mut builder = BatchBuilder::new(compression).base_offset(base).leader_epoch(epoch(7));
        for Written { delta, timestamp, key, value, headers } in &written {
            let headers: Vec<_> =
                headers.iter().map(|(key, value)| (key.as_str(), value.as_deref())).collect();
            builder.push_at(*delta, *timestamp, key.as_deref(), value.as_deref(), &headers).unwrap();
        }
        let bytes = builder.finish().unwrap();
        let view = BatchView::parse(&bytes).unwrap();
        assert_eq!(
            view.header().max_timestamp,
            written.iter().filter_map(|record| record.timestamp).max(),
            "{context}"
        );
        assert_eq!(view.header().compression(), compression);
        let mut scratch = Vec::new();
        let mut read = view.records(&DecompressLimits::default(), &mut scratch).unwrap();
        for record in &written {
            assert_same(record, &read.next().unwrap().unwrap(), base, &context);
        }
        assert!(read.next().is_none(), "{context}");
    }
}

#[test]
fn a_builder_is_empty_after_each_batch_and_keeps_its_settings() {
    let producer =
        (ProducerId::new(4001).unwrap(), ProducerEpoch::new(2).unwrap(), Sequence::new(i32::MAX).unwrap());
    for compression in Compression::ALL {
        let mut builder =
            BatchBuilder::new(compression).producer(producer.0, producer.1, producer.2).transactional();
        for records in [3, 1, 2] {
            for _ in 0..records {
                builder.push(None, None, Some(b"v"), &[]).unwrap();
            }
            let bytes = builder.finish().unwrap();
            let header = *BatchView::parse(&bytes).unwrap().header();
            assert_eq!((header.record_count, header.last_offset_delta), (records, records - 1));
            assert_eq!((header.producer_id, header.base_sequence), (Some(producer.0), Some(producer.2)));
            assert_eq!(header.last_sequence(), Some(producer.2.wrapping_add(records - 1)), "sequences wrap");
            assert_eq!(header.max_timestamp, None);
            assert!(header.attributes.is_transactional() && !header.attributes.is_control());
        }
    }
}

#[test]
fn a_batch_without_records_keeps_its_offsets() {
    let bytes = BatchBuilder::new(Compression::Zstd).base_offset(offset(5)).finish().unwrap();
    assert_eq!(bytes.len(), 61);
    let view = BatchView::parse(&bytes).unwrap();
    assert_eq!((view.header().record_count, view.header().next_offset()), (0, offset(6)));
    assert_eq!(view.records(&DecompressLimits::default(), &mut Vec::new()).unwrap().count(), 0);
}

#[test]
fn with_the_leaders_clock_every_record_has_the_batchs_timestamp() {
    let mut builder = BatchBuilder::new(Compression::None).log_append_time();
    for millis in [5, 9, 7] {
        builder.push(Some(Timestamp::from_millis(millis)), None, None, &[]).unwrap();
    }
    let bytes = builder.finish().unwrap();
    let view = BatchView::parse(&bytes).unwrap();
    assert_eq!(view.header().attributes.timestamp_type(), TimestampType::LogAppendTime);
    let mut scratch = Vec::new();
    for record in view.records(&DecompressLimits::default(), &mut scratch).unwrap() {
        assert_eq!(record.unwrap().timestamp, Some(Timestamp::from_millis(9)));
    }
}

#[test]
fn offsets_that_do_not_exist_cannot_be_built() {
    let mut builder = BatchBuilder::new(Compression::None).base_offset(Offset::MAX);
    builder.push(None, None, None, &[]).unwrap();
    assert!(matches!(builder.finish(), Err(BuildError::OffsetsExhausted { .. })));
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push_at(i32::MAX, None, None, None, &[]).unwrap();
    assert_eq!(
        builder.push(None, None, None, &[]),
        Err(BuildError::OffsetDelta { delta: i32::MAX, last: i32::MAX })
    );
    assert!(builder.push_at(3, None, None, None, &[]).is_err(), "deltas ascend");
}

/// The CRC leaves out base offset, length, leader epoch and magic; of these, another length or magic is noticed all the same.
#[test]
fn any_flipped_bit_is_noticed_except_in_base_offset_and_leader_epoch() {
    for compression in Compression::ALL {
        let bytes = stamped(compression, 3, 1 << 20, Some(epoch(1 << 10)));
        let original = *BatchView::parse(&bytes).unwrap().header();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.to_vec();
                damaged[at] ^= 1 << bit;
                let Ok(view) = BatchView::parse(&damaged) else { continue };
                assert!(
                    (0..8).contains(&at) || (12..16).contains(&at),
                    "{compression}: byte {at}, bit {bit}"
                );
                let mut header = *view.header();
                assert_ne!(header, original);
                header.base_offset = original.base_offset;
                header.leader_epoch = original.leader_epoch;
                assert_eq!(header, original);
            }
        }
    }
}

#[test]
fn any_cut_is_noticed() {
    let bytes = stamped(Compression::Lz4, 3, 0, Some(epoch(1)));
    for length in 0..bytes.len() {
        assert!(BatchView::parse(&bytes[..length]).is_err(), "{length}");
    }
}
