//! What a leader refuses, with which of Kafka's errors, and what its stamp changes.

use bytes::Bytes;

use super::header::HEADER_BYTES;
use super::testing::{NOW, batch, epoch, header, offset, produced, sealed, stamped};
use super::{
    Attributes, BatchBuilder, BatchHeader, BatchLimits, BatchRefusal, BatchView, Compression, KeyRule,
    ProducedBatch, RecordRefusal, RefusalKind, RefusedRecords, TimestampRule, TimestampType,
    ValidateCompressed,
};
use crate::units::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

fn check(bytes: impl Into<Bytes>) -> Result<ProducedBatch, BatchRefusal> {
    ProducedBatch::check(bytes.into(), &BatchLimits::default(), NOW)
}

fn kind(bytes: impl Into<Bytes>) -> RefusalKind {
    check(bytes).unwrap_err().kind()
}

/// A batch of one record with this timestamp.
fn at(timestamp: Option<Timestamp>, compression: Compression) -> Bytes {
    let mut builder = BatchBuilder::new(compression);
    builder.push(Some(NOW), Some(b"k"), Some(b"v"), &[]).unwrap();
    builder.push(timestamp, Some(b"k"), Some(b"v"), &[]).unwrap();
    builder.finish().unwrap()
}

fn with_header(change: impl FnOnce(&mut BatchHeader)) -> Vec<u8> {
    let bytes = produced(Compression::None, 3);
    let mut changed = *BatchView::parse(&bytes).unwrap().header();
    change(&mut changed);
    let mut out = changed.encode().to_vec();
    out.extend_from_slice(&bytes[HEADER_BYTES..]);
    sealed(out)
}

#[test]
fn what_producers_send_is_accepted_in_every_codec() {
    for compression in Compression::ALL {
        let batch = check(produced(compression, 100)).unwrap();
        assert_eq!((batch.header().record_count, batch.offset_count()), (100, 100));
    }
}

#[test]
fn a_torn_batch_behind_a_whole_one_is_dropped() {
    let whole = produced(Compression::None, 2);
    for tail in [0, 1, 17, 40, whole.len() - 1] {
        let bytes = [&whole[..], &whole[..tail]].concat();
        assert_eq!(check(bytes).unwrap().bytes(), &whole, "{tail}");
    }
}

#[test]
fn what_is_not_one_whole_batch_is_refused() {
    let whole = produced(Compression::None, 2).to_vec();
    for length in 0..whole.len() {
        assert_eq!(check(whole[..length].to_vec()).unwrap_err(), BatchRefusal::NoWholeBatch { have: length });
    }
    assert_eq!(check([&whole[..], &whole[..]].concat()).unwrap_err(), BatchRefusal::SeveralBatches);
    let changed = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    for (bytes, refused) in [
        (changed(16, 1), RefusalKind::InvalidRecord),
        (changed(16, 3), RefusalKind::CorruptMessage),
        (changed(16, 0xff), RefusalKind::CorruptMessage),
        (changed(8, 0xff), RefusalKind::CorruptMessage),
        (changed(11, 13), RefusalKind::CorruptMessage),
        (changed(11, 48), RefusalKind::CorruptMessage),
        (changed(7, 1), RefusalKind::InvalidRecord),
        (changed(0, 0xff), RefusalKind::InvalidRecord),
        (changed(whole.len() - 1, 7), RefusalKind::CorruptMessage),
        (changed(20, 7), RefusalKind::CorruptMessage),
        ([&whole[..], &[0; 17]].concat(), RefusalKind::CorruptMessage),
        ([&whole[..], &changed(16, 9)].concat(), RefusalKind::CorruptMessage),
    ] {
        assert_eq!(kind(bytes.clone()), refused, "{:?}", check(bytes));
    }
}

#[test]
fn headers_that_do_not_agree_are_refused() {
    let id = ProducerId::new(9);
    let cases: [(&str, Vec<u8>, RefusalKind); 9] = [
        ("no records", batch(header(Compression::None, 0), &[]), RefusalKind::InvalidRecord),
        ("count too small", with_header(|h| h.record_count = 2), RefusalKind::InvalidRecord),
        ("count too large", with_header(|h| h.record_count = 4), RefusalKind::InvalidRecord),
        ("negative count", with_header(|h| h.record_count = -1), RefusalKind::InvalidRecord),
        ("negative delta", with_header(|h| h.last_offset_delta = -1), RefusalKind::InvalidRecord),
        (
            "both too large",
            with_header(|h| (h.record_count, h.last_offset_delta) = (4, 3)),
            RefusalKind::InvalidRecord,
        ),
        (
            "both too small",
            with_header(|h| (h.record_count, h.last_offset_delta) = (2, 1)),
            RefusalKind::InvalidRecord,
        ),
        ("control", with_header(|h| h.attributes = h.attributes.with_control()), RefusalKind::InvalidRecord),
        ("producer without sequence", with_header(|h| h.producer_id = id), RefusalKind::InvalidRecord),
    ];
    for (name, bytes, refused) in cases {
        assert_eq!(kind(bytes), refused, "{name}");
    }
    let mut codec_5 = produced(Compression::None, 1).to_vec();
    codec_5[22] = 5;
    assert_eq!(check(sealed(codec_5)).unwrap_err(), BatchRefusal::Codec { codec: 5 });
    let numbered = with_header(|h| {
        h.producer_id = id;
        h.producer_epoch = ProducerEpoch::new(0);
        h.base_sequence = Some(Sequence::ZERO);
    });
    assert!(check(numbered).is_ok());
}

#[test]
fn bits_without_a_meaning_for_producers_are_kept() {
    let bytes = with_header(|h| h.attributes = Attributes::from_bits(0xc0).unwrap());
    let stamped = check(bytes).unwrap().stamp(Offset::ZERO, epoch(0), None).unwrap();
    assert_eq!(stamped.header.attributes.bits(), 0xc0);
}

#[test]
fn a_batch_over_the_limit_is_too_large_before_anything_is_reckoned() {
    let mut bytes = produced(Compression::None, 5).to_vec();
    let limits = |batch_bytes_max| BatchLimits { batch_bytes_max, ..BatchLimits::default() };
    let size_bytes = bytes.len();
    assert!(ProducedBatch::check(bytes.clone().into(), &limits(size_bytes), NOW).is_ok());
    bytes[20] ^= 1;
    let refusal = ProducedBatch::check(bytes.into(), &limits(size_bytes - 1), NOW).unwrap_err();
    assert_eq!(refusal, BatchRefusal::TooLarge { size_bytes, batch_bytes_max: size_bytes - 1 });
    assert_eq!(refusal.kind(), RefusalKind::MessageTooLarge);
}

#[test]
fn timestamps_are_refused_beyond_the_limits_and_accepted_at_them() {
    let limits = BatchLimits {
        timestamps: TimestampRule::CreateTime { before_ms_max: 1_000, after_ms_max: 500 },
        ..BatchLimits::default()
    };
    for compression in Compression::ALL {
        for (millis, accepted) in [
            (NOW.millis() - 1_000, true),
            (NOW.millis() - 1_001, false),
            (NOW.millis() + 500, true),
            (NOW.millis() + 501, false),
            (-1, true),
            (-5, false),
            (i64::MIN, false),
            (i64::MAX, false),
        ] {
            let bytes = at(Some(Timestamp::from_millis(millis)), compression);
            match ProducedBatch::check(bytes, &limits, NOW) {
                Ok(_) => assert!(accepted, "{compression} {millis}"),
                Err(refusal) => {
                    assert!(!accepted, "{compression} {millis}");
                    let named: Vec<i32> = refusal.records().iter().map(|(record, _)| *record).collect();
                    assert_eq!((refusal.kind(), named), (RefusalKind::InvalidTimestamp, vec![1]));
                }
            }
        }
        assert!(
            check(at(Some(Timestamp::from_millis(-5)), compression)).is_ok(),
            "Kafka's default has no lower limit"
        );
    }
}

#[test]
fn a_compacted_topic_needs_keys() {
    let limits = BatchLimits { keys: KeyRule::Required, ..BatchLimits::default() };
    for compression in Compression::ALL {
        let mut builder = BatchBuilder::new(compression);
        builder.push(None, Some(b""), None, &[]).unwrap();
        builder.push(None, None, Some(b"v"), &[]).unwrap();
        let refusal = ProducedBatch::check(builder.finish().unwrap(), &limits, NOW).unwrap_err();
        assert_eq!(refusal.records(), [(1, RecordRefusal::KeyMissing)]);
        assert_eq!(refusal.kind(), RefusalKind::InvalidRecord);
    }
}

#[test]
fn every_record_that_is_refused_is_named_up_to_a_bound() {
    let timestamps = TimestampRule::CreateTime { before_ms_max: 1_000, after_ms_max: 500 };
    let limits = BatchLimits { keys: KeyRule::Required, timestamps, ..BatchLimits::default() };
    for compression in Compression::ALL {
        let of = |records: &[(Option<&[u8]>, i64)]| {
            let mut builder = BatchBuilder::new(compression);
            for (key, at) in records {
                builder.push(Some(Timestamp::from_millis(NOW.millis() + at)), *key, Some(b"v"), &[]).unwrap();
            }
            ProducedBatch::check(builder.finish().unwrap(), &limits, NOW).unwrap_err()
        };
        let out_of_range = |at| RecordRefusal::TimestampOutOfRange {
            timestamp: Timestamp::from_millis(NOW.millis() + at),
            now: NOW,
        };
        let refusal = of(&[(None, 0), (Some(b"k"), 0), (None, 501), (Some(b"k"), -1_001), (Some(b"k"), 501)]);
        let named = [
            (0, RecordRefusal::KeyMissing),
            (2, RecordRefusal::KeyMissing),
            (3, out_of_range(-1_001)),
            (4, out_of_range(501)),
        ];
        assert_eq!((refusal.records(), refusal.kind()), (&named[..], RefusalKind::InvalidTimestamp));
        assert_eq!(refusal.to_string(), "4 of the batch's records are refused; record 0: it has no key");
        let many = vec![(None, 0); RefusedRecords::NAMED_MAX + 5];
        let refusal = of(&many);
        assert_eq!(refusal.records().len(), RefusedRecords::NAMED_MAX);
        assert!(matches!(&refusal, BatchRefusal::Records(refused) if refused.count() == 1_005), "{refusal}");
    }
}

/// A record of 7 bytes whose offset delta is `delta` (below 64).
fn record(delta: u8) -> [u8; 7] {
    [12, 0, 0, delta * 2, 1, 1, 0]
}

#[test]
fn offsets_within_a_plain_batch_may_be_any_of_its_own_and_in_a_compressed_one_must_ascend() {
    let plain = |deltas: [u8; 3]| batch(header(Compression::None, 3), &deltas.map(record).concat());
    for deltas in [[0, 1, 2], [0, 0, 0], [2, 1, 0]] {
        assert!(check(plain(deltas)).is_ok(), "{deltas:?}");
    }
    assert_eq!(kind(plain([0, 1, 3])), RefusalKind::InvalidRecord, "a record outside its batch");
    for compression in &Compression::ALL[1..] {
        let compressed = |deltas: [u8; 3]| {
            let mut stream = bytes::BytesMut::new();
            super::codec::compress(*compression, &deltas.map(record).concat(), &mut stream).unwrap();
            batch(header(*compression, 3), &stream)
        };
        assert!(check(compressed([0, 1, 2])).is_ok());
        let refusal = check(compressed([0, 0, 1])).unwrap_err();
        assert_eq!(refusal, BatchRefusal::InnerOffset { record: 1, delta: 0 });
        assert_eq!(refusal.kind(), RefusalKind::UnknownServerError);
    }
}

#[test]
fn by_header_only_what_is_in_a_compressed_batch_is_not_looked_at() {
    let limits = BatchLimits { compressed: ValidateCompressed::Header, ..BatchLimits::default() };
    let nonsense = batch(header(Compression::Zstd, 3), b"not a stream");
    assert!(ProducedBatch::check(nonsense.clone().into(), &limits, NOW).is_ok());
    assert_eq!(kind(nonsense), RefusalKind::CorruptMessage);
    let plain = batch(header(Compression::None, 3), b"not a record");
    assert!(ProducedBatch::check(plain.into(), &limits, NOW).is_err(), "plain batches are always walked");
    let mut late = header(Compression::Zstd, 3);
    late.max_timestamp = Some(Timestamp::from_millis(NOW.millis() + 3_600_001));
    let refusal = ProducedBatch::check(batch(late, b"").into(), &limits, NOW).unwrap_err();
    assert_eq!(refusal.kind(), RefusalKind::InvalidTimestamp, "the greatest timestamp is");
}

#[test]
fn a_stamp_is_put_in_place_and_leaves_the_crc_alone() {
    let bytes = produced(Compression::Lz4, 9);
    let sent = bytes.to_vec();
    let owned = Bytes::from(sent.clone());
    let place = owned.as_ptr();
    let stamped = check(owned).unwrap().stamp(offset(77), epoch(3), None).unwrap();
    assert_eq!(stamped.bytes.as_ptr(), place, "nobody else held it");
    assert_eq!(stamped.bytes[16..], sent[16..]);
    let view = BatchView::parse(&stamped.bytes).unwrap();
    assert_eq!(*view.header(), stamped.header);
    assert_eq!((stamped.header.base_offset, stamped.header.leader_epoch), (offset(77), Some(epoch(3))));
    assert_eq!(stamped.header.next_offset(), offset(86));

    let shared = Bytes::from(sent.clone());
    let copied = check(shared.clone()).unwrap().stamp(offset(77), epoch(3), None).unwrap();
    assert_eq!(shared, sent, "what others hold is not changed");
    assert_eq!(copied.bytes, stamped.bytes);
}

#[test]
fn the_leaders_clock_rewrites_type_max_timestamp_and_crc_and_nothing_else() {
    let limits = BatchLimits { timestamps: TimestampRule::LogAppendTime, ..BatchLimits::default() };
    let time = Timestamp::from_millis(NOW.millis() + 99);
    for compression in Compression::ALL {
        let sent = produced(compression, 5);
        let batch = ProducedBatch::check(sent.clone(), &limits, NOW).unwrap();
        let stamped = batch.stamp(Offset::ZERO, epoch(0), Some(time)).unwrap();
        let header = *BatchView::parse(&stamped.bytes).unwrap().header();
        assert_eq!(header, stamped.header);
        assert_eq!(header.attributes.timestamp_type(), TimestampType::LogAppendTime);
        assert_eq!(header.max_timestamp, Some(time));
        assert_eq!(
            (&stamped.bytes[23..35], &stamped.bytes[43..]),
            (&sent[23..35], &sent[43..]),
            "{compression}"
        );
    }
    // Kafka refuses the claim where it would come true, and clears it elsewhere.
    let claims =
        with_header(|h| h.attributes = h.attributes.with_timestamp_type(TimestampType::LogAppendTime));
    let refusal = ProducedBatch::check(claims.clone().into(), &limits, NOW).unwrap_err();
    assert_eq!(refusal.kind(), RefusalKind::InvalidTimestamp);
    let stamped = check(claims).unwrap().stamp(Offset::ZERO, epoch(0), None).unwrap();
    let header = *BatchView::parse(&stamped.bytes).unwrap().header();
    assert_eq!(header.attributes.timestamp_type(), TimestampType::CreateTime);
}

#[test]
fn a_wrong_max_timestamp_is_set_right() {
    let truth = Some(Timestamp::from_millis(NOW.millis() + 2));
    for wrong in [None, Some(Timestamp::from_millis(1)), Some(Timestamp::from_millis(i64::MAX))] {
        let bytes = with_header(|h| h.max_timestamp = wrong);
        let stamped = check(bytes).unwrap().stamp(Offset::ZERO, epoch(0), None).unwrap();
        assert_eq!(BatchView::parse(&stamped.bytes).unwrap().header().max_timestamp, truth, "{wrong:?}");
    }
    let none = batch(
        BatchHeader { base_timestamp: Timestamp::from_millis(-1), ..header(Compression::None, 1) },
        &record(0),
    );
    let stamped = check(none).unwrap().stamp(Offset::ZERO, epoch(0), None).unwrap();
    assert_eq!(BatchView::parse(&stamped.bytes).unwrap().header().max_timestamp, None);
}

#[test]
fn a_batch_that_would_pass_the_last_offset_is_refused() {
    let last = offset(i64::MAX - 3);
    let three = || check(produced(Compression::None, 3)).unwrap();
    assert_eq!(three().stamp(last, epoch(0), None).unwrap().header.next_offset(), Offset::MAX);
    assert!(three().stamp(last.next().unwrap(), epoch(0), None).is_err());
    assert!(three().stamp(Offset::MAX, epoch(0), None).is_err());
}

#[test]
fn any_flipped_bit_of_a_producers_batch_is_refused_except_in_the_leader_epoch() {
    for compression in Compression::ALL {
        let bytes = stamped(compression, 3, 0, None);
        for at in (0..bytes.len()).filter(|at| !(12..16).contains(at)) {
            for bit in 0..8 {
                let mut damaged = bytes.to_vec();
                damaged[at] ^= 1 << bit;
                assert!(check(damaged).is_err(), "{compression}: byte {at}, bit {bit}");
            }
        }
    }
}
