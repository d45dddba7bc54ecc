//! What becomes of each kind of batch, rule by rule.

use super::*;
use crate::batch::{BatchBuilder, BatchView, Compression, TransactionEnd, transaction_marker};
use crate::index::AbortedTransaction;
use crate::units::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};
use bytes::Bytes;

fn at(offset: i64) -> Offset {
    Offset::new(offset).unwrap()
}

fn id(number: i64) -> ProducerId {
    ProducerId::new(number).unwrap()
}

fn epoch(number: i16) -> ProducerEpoch {
    ProducerEpoch::new(number).unwrap()
}

/// Records with these keys and values, one millisecond apart from `base` on.
fn batch(base: i64, records: &[(Option<&str>, Option<&str>)], builder: BatchBuilder) -> Bytes {
    let mut builder = builder.base_offset(at(base));
    for (number, (key, value)) in records.iter().enumerate() {
        let time = Timestamp::from_millis(1_000 + base + i64::try_from(number).unwrap());
        builder
            .push(Some(time), key.map(str::as_bytes), value.map(str::as_bytes), &[("h", Some(b"x"))])
            .unwrap();
    }
    builder.finish().unwrap()
}

fn plain(base: i64, records: &[(Option<&str>, Option<&str>)]) -> Bytes {
    batch(base, records, BatchBuilder::new(Compression::None))
}

fn transactional(base: i64, producer: i64, key: &str) -> Bytes {
    let builder = BatchBuilder::new(Compression::None)
        .producer(id(producer), epoch(0), Sequence::new(0).unwrap())
        .transactional();
    batch(base, &[(Some(key), Some("v"))], builder)
}

fn marker(base: i64, producer: i64, end: TransactionEnd) -> Bytes {
    let bytes = transaction_marker(end, id(producer), epoch(0), 1, Timestamp::from_millis(5)).unwrap();
    let mut bytes = bytes.to_vec();
    bytes[..8].copy_from_slice(&base.to_be_bytes());
    bytes.into()
}

/// A round at this time over what lies in front of `mapped_to`.
fn survivors(log: &[Bytes], aborted: &[AbortedTransaction], now: i64) -> Survivors {
    let mut map = KeyMap::new(1 << 20, 1_000, [1, 2]);
    let mut transactions = Transactions::new(aborted);
    for bytes in log {
        let view = BatchView::parse(bytes).unwrap();
        map_batch(&mut map, &mut transactions, &view, at(0), &mut Vec::new()).unwrap();
    }
    Survivors {
        map,
        mapped_to: at(1_000),
        transactions: Transactions::new(aborted),
        producers: std::collections::BTreeMap::new(),
        now: Timestamp::from_millis(now),
        delete_retention_ms: 100,
        batch_bytes_max: 1 << 20,
        last_marker_gone: None,
        scratch: Vec::new(),
        records_kept: 0,
        records_gone: 0,
    }
}

/// The log as the round leaves it.
fn cleaned(round: &mut Survivors, log: &[Bytes]) -> Vec<Bytes> {
    let next = |bytes: &Bytes| match round.next(&BatchView::parse(bytes).unwrap(), Place::Any).unwrap() {
        Survivor::Gone => None,
        Survivor::AsItIs => Some(bytes.clone()),
        Survivor::Rewritten(bytes) => Some(bytes),
    };
    log.iter().filter_map(next).collect()
}

type Told = (i64, Option<String>, Option<String>, i64);

/// Offset, key, value and time of each record.
fn told(bytes: &Bytes) -> Vec<Told> {
    let view = BatchView::parse(bytes).unwrap();
    let text = |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let mut scratch = Vec::new();
    let records = view.records(&crate::batch::DecompressLimits::default(), &mut scratch).unwrap();
    let record = |record: crate::batch::RecordView<'_>| {
        assert_eq!(record.headers.iter().collect::<Vec<_>>(), [(&b"h"[..], Some(&b"x"[..]))]);
        (record.offset.value(), text(record.key), text(record.value), record.timestamp.unwrap().millis())
    };
    records.map(|next| record(next.unwrap())).collect()
}

#[test]
fn the_newest_record_of_a_key_stays_with_its_offset_and_its_batch_with_its_place() {
    let all = [Compression::None, Compression::Gzip, Compression::Lz4];
    for compression in all.into_iter().take(if cfg!(feature = "codecs") { all.len() } else { 1 }) {
        let producer = BatchBuilder::new(compression).producer(id(7), epoch(3), Sequence::new(9).unwrap());
        let three = [(Some("a"), Some("1")), (Some("b"), Some("2")), (Some("a"), Some("3"))];
        let log = [
            batch(10, &three, producer),
            plain(20, &[(Some("b"), Some("4")), (None, Some("no key"))]),
            plain(30, &[(Some("c"), Some("5"))]),
        ];
        let mut round = survivors(&log, &[], 0);
        let left = cleaned(&mut round, &log);
        let expected = (12, Some("a".to_owned()), Some("3".to_owned()), 1_012);
        assert_eq!(told(&left[0]), [expected]);
        let (old, new) = (BatchView::parse(&log[0]).unwrap(), BatchView::parse(&left[0]).unwrap());
        let place = |view: &BatchView<'_>| {
            let header = view.header();
            (header.base_offset, header.last_offset(), header.last_sequence(), header.compression())
        };
        assert_eq!(place(&old), place(&new));
        assert_eq!(new.header().base_timestamp.millis(), 1_012, "the first one's that is left");
        assert_eq!(told(&left[1]).len(), 1);
        assert_eq!(new.header().max_timestamp, Some(Timestamp::from_millis(1_012)));
        assert_eq!(BatchView::parse(&left[1]).unwrap().header().max_timestamp.unwrap().millis(), 1_020);
        assert_eq!(left[2], log[2], "byte for byte");
        assert_eq!((round.records_kept, round.records_gone), (3, 3));
    }
}

#[test]
fn what_the_map_does_not_reach_stays_as_it_is() {
    let log = [plain(0, &[(Some("a"), Some("1"))]), plain(5, &[(Some("a"), Some("2")), (None, None)])];
    let mut round = survivors(&log[..1], &[], 0);
    round.mapped_to = at(5);
    let left = cleaned(&mut round, &log);
    assert_eq!(told(&left[0]).len() + told(&left[1]).len(), 3);
}

#[test]
fn a_tombstone_is_given_a_horizon_and_goes_behind_it() {
    let log = [plain(0, &[(Some("a"), Some("1"))]), plain(5, &[(Some("a"), None), (Some("b"), Some("2"))])];
    let left = cleaned(&mut survivors(&log, &[], 50), &log);
    assert_eq!(left.len(), 1, "what it deletes goes at once");
    let header = *BatchView::parse(&left[0]).unwrap().header();
    assert_eq!(header.delete_horizon(), Some(Timestamp::from_millis(150)));
    assert_eq!(told(&left[0]), told(&log[1]), "times as before");
    let before = cleaned(&mut survivors(&left, &[], 149), &left);
    assert_eq!(before, left);
    let behind = cleaned(&mut survivors(&left, &[], 150), &left);
    assert_eq!(told(&behind[0]), told(&log[1])[1..]);
    let kept = BatchView::parse(&behind[0]).unwrap().header().delete_horizon();
    assert_eq!(kept, Some(Timestamp::from_millis(150)), "as Kafka keeps it");
}

#[test]
fn a_batch_that_would_outgrow_the_limit_stays_without_a_horizon_or_as_it_is() {
    let two = [(Some("a"), None), (Some("b"), Some("2"))];
    let log = [plain(0, &two)];
    let mut round = survivors(&log, &[], 1 << 40);
    let grown = cleaned(&mut round, &log)[0].len();
    assert!(grown > log[0].len(), "deltas are counted from the horizon, which is far from the records");
    for (batch_bytes_max, len) in [(grown, grown), (grown - 1, log[0].len())] {
        let mut round = survivors(&log, &[], 1 << 40);
        round.batch_bytes_max = batch_bytes_max;
        assert_eq!(cleaned(&mut round, &log)[0].len(), len);
        assert_eq!((round.records_kept, round.records_gone), (2, 0));
    }
    // With a record that goes there is room for the rest, though not for the horizon.
    let log = [plain(
        0,
        &[
            (Some("a"), None),
            (Some("b"), None),
            (Some("c"), None),
            (Some("d"), None),
            (Some("e"), None),
            (Some("a"), Some("3")),
        ],
    )];
    let mut round = survivors(&log, &[], 1 << 40);
    round.batch_bytes_max = log[0].len() - 1;
    let left = cleaned(&mut round, &log);
    assert_eq!(BatchView::parse(&left[0]).unwrap().header().delete_horizon(), None);
    assert_eq!((told(&left[0]).len(), round.records_kept, round.records_gone), (5, 5, 1));
}

#[test]
fn aborted_records_go_at_once_and_their_marker_when_nothing_is_left_for_it_to_end() {
    let log = [
        plain(0, &[(Some("a"), Some("before"))]),
        transactional(1, 7, "a"),
        transactional(2, 8, "b"),
        marker(3, 7, TransactionEnd::Abort),
        marker(4, 8, TransactionEnd::Commit),
        plain(5, &[(Some("z"), Some("last"))]),
    ];
    let aborted = AbortedTransaction { producer: id(7), first: at(1), marker: at(3), last_stable: at(2) };
    let bases = |log: &[Bytes]| -> Vec<i64> {
        log.iter().map(|bytes| BatchView::parse(bytes).unwrap().header().base_offset.value()).collect()
    };
    let horizon = |bytes: &Bytes| BatchView::parse(bytes).unwrap().header().delete_horizon();
    let first = cleaned(&mut survivors(&log, &[aborted], 50), &log);
    assert_eq!(bases(&first), [0, 2, 3, 4, 5], "an aborted record hides nothing");
    assert_eq!(first[2..4], log[3..5], "markers stay as they are");
    let second = cleaned(&mut survivors(&first, &[], 60), &first);
    assert_eq!(bases(&second), [0, 2, 3, 4, 5]);
    assert_eq!((horizon(&second[2]), horizon(&second[3])), (Some(Timestamp::from_millis(160)), None));
    assert_eq!(bases(&cleaned(&mut survivors(&second, &[], 159), &second)), [0, 2, 3, 4, 5]);
    assert_eq!(bases(&cleaned(&mut survivors(&second, &[], 160), &second)), [0, 2, 4, 5]);
}

#[test]
fn a_key_with_the_bytes_of_a_marker_touches_no_marker() {
    let key = std::str::from_utf8(&[0, 0, 0, 1]).unwrap();
    let log = [
        transactional(0, 7, "a"),
        marker(1, 7, TransactionEnd::Commit),
        plain(2, &[(Some(key), Some("1"))]),
        plain(3, &[(Some(key), Some("2"))]),
    ];
    let left = cleaned(&mut survivors(&log, &[], 0), &log);
    assert_eq!(left, [log[0].clone(), log[1].clone(), log[3].clone()]);
}

#[test]
fn a_batch_stays_empty_for_a_producers_last_sequence_its_last_marker_and_the_last_offset() {
    let numbered = |base: i64, sequence: i32| {
        let sequence = Sequence::new(sequence).unwrap();
        let builder = BatchBuilder::new(Compression::None).producer(id(7), epoch(0), sequence);
        batch(base, &[(Some("a"), Some("1")), (Some("a"), Some("2"))], builder)
    };
    let log = [numbered(0, 0), numbered(2, 2), plain(4, &[(Some("a"), Some("3"))])];
    let mut round = survivors(&log, &[], 0);
    round.producers.insert(id(7), LastOf::Batch(at(3)));
    let left = cleaned(&mut round, &log);
    assert_eq!(left.len(), 2);
    let header = *BatchView::parse(&left[0]).unwrap().header();
    assert_eq!((left[0].len(), header.record_count, header.base_timestamp.millis()), (61, 0, -1));
    assert_eq!((header.base_offset, header.last_offset()), (at(2), at(3)));
    assert_eq!(header.last_sequence().unwrap().value(), 3);
    let before = BatchView::parse(&log[1]).unwrap().header().max_timestamp;
    assert_eq!(header.max_timestamp, before, "that of the records that are gone");
    // And again: an empty one stays empty.
    assert_eq!(cleaned(&mut round, &left), left);
    let mut round = survivors(&log, &[], 0);
    let view = BatchView::parse(&log[0]).unwrap();
    let Survivor::Rewritten(empty) = round.next(&view, Place::Last).unwrap() else { panic!("gone") };
    assert_eq!(BatchView::parse(&empty).unwrap().header().last_offset(), at(1));
    let spent = cleaned(&mut survivors(&[], &[], 0), &[marker(9, 7, TransactionEnd::Commit)]);
    let mut round = survivors(&[], &[], 1_000);
    assert_eq!(cleaned(&mut round, &spent), Vec::<Bytes>::new());
    round.producers.insert(id(7), LastOf::Marker(epoch(0)));
    assert_eq!(cleaned(&mut round, &spent)[0].len(), 61);
}

#[test]
fn a_map_that_is_full_ends_the_round_in_front_of_the_first_new_key() {
    let mut map = KeyMap::new(0, 1_000, [1, 2]);
    let bytes =
        plain(0, &[(Some("a"), Some("1")), (None, None), (Some("a"), Some("2")), (Some("b"), Some("3"))]);
    let view = BatchView::parse(&bytes).unwrap();
    let full = map_batch(&mut map, &mut Transactions::new(&[]), &view, at(0), &mut Vec::new()).unwrap();
    assert_eq!((full, map.newest(b"a")), (Some(at(3)), Some(at(2))));
}

#[cfg(feature = "codecs")]
#[test]
fn a_batch_that_compresses_well_is_read_however_well() {
    let value = "0".repeat(8 << 20);
    let log = [
        batch(0, &[(Some("a"), Some(&value))], BatchBuilder::new(Compression::Zstd)),
        plain(1, &[(Some("a"), Some("2"))]),
    ];
    assert!(log[0].len() < value.len() / 1_000);
    assert_eq!(cleaned(&mut survivors(&log, &[], 0), &log), log[1..]);
}
