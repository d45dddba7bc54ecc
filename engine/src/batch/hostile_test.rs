//! Bytes that were made to hurt: right length, right CRC, and lies within.

use std::io::Write;

use super::testing::{NOW, batch, header};
use super::{
    BatchLimits, BatchRefusal, BatchView, CodecError, Compression, DecompressLimits, ProducedBatch,
    RecordDamage, RefusalKind,
};

/// What a leader and what a reader say of these records.
fn judge(
    compression: Compression,
    count: i32,
    records: &[u8],
) -> (Option<BatchRefusal>, Option<RecordDamage>) {
    let bytes = batch(header(compression, count), records);
    let read = {
        let view = BatchView::parse(&bytes).unwrap();
        let mut scratch = Vec::new();
        match view.records(&DecompressLimits::default(), &mut scratch) {
            Ok(mut records) => records.find_map(Result::err),
            Err(damage) => Some(damage),
        }
    };
    (ProducedBatch::check(bytes.into(), &BatchLimits::default(), NOW).err(), read)
}

#[test]
fn broken_records_are_refused_by_leader_and_reader_alike() {
    use RecordDamage as D;
    let good: &[u8] = &[12, 0, 0, 0, 1, 1, 0];
    assert_eq!(judge(Compression::None, 1, good), (None, None));
    // length, attributes, timestamp delta, offset delta, key length, value length, header count
    let cases: &[(&str, i32, &[u8], RecordDamage)] = &[
        ("nothing", 1, &[], D::EndsEarly),
        ("one of two", 2, good, D::EndsEarly),
        ("negative length", 1, &[1, 0, 0, 0, 1, 1, 0], D::Length { length: -1 }),
        ("length beyond the end", 1, &[14, 0, 0, 0, 1, 1, 0], D::Length { length: 7 }),
        (
            "greatest length",
            1,
            &[0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 1, 1, 0],
            D::Length { length: i32::MAX },
        ),
        ("length of six bytes", 1, &[0x80, 0x80, 0x80, 0x80, 0x80, 0, 0, 0, 1, 1, 0], D::VarintTooLong),
        ("length too small", 1, &[10, 0, 0, 0, 1, 1, 0], D::LengthMismatch { claimed: 5, used: 6 }),
        ("length too large", 1, &[14, 0, 0, 0, 1, 1, 0, 0], D::LengthMismatch { claimed: 7, used: 6 }),
        ("zero length", 1, &[0, 0, 0, 0, 1, 1, 0], D::LengthMismatch { claimed: 0, used: 6 }),
        ("leftover", 1, &[12, 0, 0, 0, 1, 1, 0, 9], D::Leftover),
        ("key of -2", 1, &[12, 0, 0, 0, 3, 1, 0], D::FieldLength { length: -2 }),
        ("key beyond the record", 1, &[12, 0, 0, 0, 6, 1, 0, 7, 7], D::FieldLength { length: 3 }),
        (
            "greatest key",
            1,
            &[20, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0x0f, 1, 0],
            D::FieldLength { length: i32::MAX },
        ),
        ("value of -2", 1, &[12, 0, 0, 0, 1, 3, 0], D::FieldLength { length: -2 }),
        ("negative header count", 1, &[12, 0, 0, 0, 1, 1, 1], D::HeaderCount { count: -1 }),
        ("more headers than bytes", 1, &[16, 0, 0, 0, 1, 1, 4, 0, 1], D::HeaderCount { count: 2 }),
        (
            "greatest header count",
            1,
            &[20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f],
            D::HeaderCount { count: i32::MAX },
        ),
        ("header without a key", 1, &[16, 0, 0, 0, 1, 1, 2, 1, 1], D::FieldLength { length: -1 }),
        ("header's value of -2", 1, &[16, 0, 0, 0, 1, 1, 2, 0, 3], D::FieldLength { length: -2 }),
        ("offset before the batch", 1, &[12, 0, 0, 1, 1, 1, 0], D::OffsetDelta { delta: -1 }),
        ("offset behind the batch", 1, &[12, 0, 0, 2, 1, 1, 0], D::OffsetDelta { delta: 1 }),
        (
            "timestamp of eleven bytes",
            1,
            &[32, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0, 1, 1, 0],
            D::VarintTooLong,
        ),
    ];
    for (name, count, records, expected) in cases {
        let (refusal, read) = judge(Compression::None, *count, records);
        let refusal = refusal.unwrap_or_else(|| panic!("{name}: accepted"));
        assert_eq!(refusal.kind(), RefusalKind::InvalidRecord, "{name}");
        let BatchRefusal::Record { damage, .. } = refusal else { panic!("{name}: {refusal}") };
        assert_eq!(Some(damage), read, "{name}: leader and reader disagree");
        assert_eq!(damage, *expected, "{name}");
        for compression in &Compression::ALL[1..] {
            let mut stream = bytes::BytesMut::new();
            super::codec::compress(*compression, records, &mut stream).unwrap();
            let (refusal, read) = judge(*compression, *count, &stream);
            assert!(refusal.is_some() && read.is_some(), "{name}, {compression}");
        }
    }
}

#[test]
fn a_count_of_two_thousand_million_costs_nothing() {
    for compression in Compression::ALL {
        let mut stream = bytes::BytesMut::new();
        super::codec::compress(compression, &[12, 0, 0, 0, 1, 1, 0], &mut stream).unwrap();
        let (refusal, read) = judge(compression, i32::MAX, &stream);
        let damage = RecordDamage::EndsEarly;
        assert_eq!(refusal, Some(BatchRefusal::Record { record: 1, damage }), "{compression}");
        assert_eq!(read, Some(damage), "{compression}");
    }
}

/// One record whose value is zeros, `mib` of them, as it is before compression.
fn zeros(mib: usize) -> Vec<u8> {
    let varint = |number: usize| {
        let mut spelling = super::varint::Spelling::<5>::zeros(0);
        spelling.varint(i64::try_from(number).unwrap());
        spelling.bytes().to_vec()
    };
    let value = mib << 20;
    let body = [&[0, 0, 0, 1][..], &varint(value), &vec![0; value], &[0]].concat();
    [varint(body.len()), body].concat()
}

#[test]
fn bombs_are_stopped_while_they_come_out() {
    let bomb = zeros(32);
    for compression in &Compression::ALL[1..] {
        let mut stream = bytes::BytesMut::new();
        super::codec::compress(*compression, &bomb, &mut stream).unwrap();
        let bytes = batch(header(*compression, 1), &stream);
        let check = |decompress: DecompressLimits| {
            let limits = BatchLimits { decompress, batch_bytes_max: usize::MAX, ..BatchLimits::default() };
            ProducedBatch::check(bytes.clone().into(), &limits, NOW).map(drop)
        };
        let roomy = DecompressLimits { ratio_max: u64::MAX, ..DecompressLimits::default() };
        assert_eq!(check(roomy), Ok(()), "{compression}");
        for limits in [
            DecompressLimits { output_bytes_max: 4 << 20, ..roomy },
            DecompressLimits { ratio_max: 4, ..DecompressLimits::default() },
        ] {
            let refusal = check(limits).unwrap_err();
            assert_eq!(refusal.kind(), RefusalKind::CorruptMessage);
            let allowed = limits.allowed(stream.len());
            let damage =
                CodecError::TooLarge { compression: *compression, compressed: stream.len(), allowed }.into();
            assert_eq!(refusal, BatchRefusal::Record { record: 0, damage });
            let mut scratch = Vec::new();
            let view = BatchView::parse(&bytes).unwrap();
            assert_eq!(view.records(&limits, &mut scratch).unwrap_err(), damage, "{compression}");
            assert!(
                scratch.capacity() as u64 <= 2 * allowed + (64 << 10),
                "{compression}: {}",
                scratch.capacity()
            );
        }
    }
}

#[test]
fn streams_that_claim_what_they_do_not_hold_are_refused() {
    let xerial = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
    let claims = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0];
    let cases: Vec<(&str, Compression, Vec<u8>)> = vec![
        ("a raw block that claims 4 GiB", Compression::Snappy, claims.to_vec()),
        (
            "a framed block that claims 4 GiB",
            Compression::Snappy,
            [&xerial[..], &[0, 0, 0, 7], &claims].concat(),
        ),
        (
            "a block longer than the stream",
            Compression::Snappy,
            [&xerial[..], &[0x7f, 0xff, 0xff, 0xff]].concat(),
        ),
        ("a block of negative length", Compression::Snappy, [&xerial[..], &[0xff; 4]].concat()),
        ("a cut frame", Compression::Snappy, xerial[..12].to_vec()),
        ("a window of 2 TiB", Compression::Zstd, vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 1, 0, 0]),
        ("a window of 1 GiB", Compression::Zstd, vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa0, 1, 0, 0]),
        (
            "a block of 4 MiB in a frame of 64 KiB",
            Compression::Lz4,
            vec![4, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82, 0, 0, 0x40, 0],
        ),
        (
            "a wrong header checksum",
            Compression::Lz4,
            vec![4, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x83, 0, 0, 0, 0],
        ),
        ("no stream", Compression::Gzip, b"\x1f\x8c".to_vec()),
    ];
    for (name, compression, stream) in cases {
        let (refusal, read) = judge(compression, 1, &stream);
        let refusal = refusal.unwrap_or_else(|| panic!("{name}: accepted"));
        assert_eq!(refusal.kind(), RefusalKind::CorruptMessage, "{name}: {refusal}");
        assert!(matches!(read, Some(RecordDamage::Codec(CodecError::Stream { .. }))), "{name}: {read:?}");
    }
}

#[test]
fn a_cut_stream_is_never_a_whole_batch() {
    for compression in &Compression::ALL[1..] {
        let mut stream = bytes::BytesMut::new();
        super::codec::compress(*compression, &[12, 0, 0, 0, 1, 1, 0], &mut stream).unwrap();
        for length in 0..stream.len() {
            let (refusal, _) = judge(*compression, 2, &stream[..length]);
            assert!(refusal.is_some(), "{compression} cut at {length}");
        }
    }
}

#[test]
fn snappy_is_read_in_both_framings_and_joined() {
    let record = [12, 0, 0, 0, 1, 1, 0];
    let raw = snap::raw::Encoder::new().compress_vec(&record).unwrap();
    assert_eq!(judge(Compression::Snappy, 1, &raw), (None, None), "as librdkafka writes it");
    let mut framed = bytes::BytesMut::new();
    super::codec::compress(Compression::Snappy, &record[..3], &mut framed).unwrap();
    super::codec::compress(Compression::Snappy, &record[3..], &mut framed).unwrap();
    assert_eq!(judge(Compression::Snappy, 1, &framed), (None, None), "two framed streams");
}

#[test]
fn bytes_behind_a_gzip_member_are_accepted() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&[12, 0, 0, 0, 1, 1, 0]).unwrap();
    let mut stream = encoder.finish().unwrap();
    stream.extend_from_slice(b"anything");
    assert_eq!(judge(Compression::Gzip, 1, &stream), (None, None));
}

#[test]
fn random_damage_inside_a_right_crc_never_panics() {
    let seed = std::env::var("HIGHWATER_SEED").map_or(fastrand::u64(..), |seed| seed.parse().unwrap());
    let mut rng = fastrand::Rng::with_seed(seed);
    for round in 0..3_000 {
        let compression = Compression::ALL[round % 5];
        let mut bytes = super::testing::produced(compression, 8).to_vec();
        for _ in 0..rng.usize(1..6) {
            let at = rng.usize(21..bytes.len());
            bytes[at] = rng.u8(..);
        }
        let bytes = super::testing::sealed(bytes);
        // Whatever they say, they must say it, and agree that all is well only together.
        let accepted = ProducedBatch::check(bytes.clone().into(), &BatchLimits::default(), NOW).is_ok();
        let mut scratch = Vec::new();
        let read = BatchView::parse(&bytes).is_ok_and(|view| {
            view.records(&DecompressLimits::default(), &mut scratch)
                .is_ok_and(|mut records| records.all(|r| r.is_ok()))
        });
        assert!(!accepted || read, "HIGHWATER_SEED={seed}, round {round}: accepted and cannot be read");
    }
}
