//! The rules of idempotent producers and the bytes of their snapshots, as Kafka has them.

use std::time::Duration;

use super::*;
use crate::units::{Monotonic, Offset, OffsetRange, ProducerEpoch, ProducerId, Sequence, Timestamp};

fn batch(producer: i64, epoch: i16, first: i32, records: i32) -> ProducerBatch {
    let first_sequence = Sequence::new(first).unwrap();
    ProducerBatch {
        producer: ProducerId::new(producer).unwrap(),
        epoch: ProducerEpoch::new(epoch).unwrap(),
        first_sequence,
        last_sequence: first_sequence.wrapping_add(records - 1),
        transactional: false,
    }
}

fn transactional(producer: i64, epoch: i16, first: i32, records: i32) -> ProducerBatch {
    ProducerBatch { transactional: true, ..batch(producer, epoch, first, records) }
}

fn marker(producer: i64, epoch: i16, coordinator_epoch: i32) -> TransactionMarker {
    TransactionMarker {
        producer: ProducerId::new(producer).unwrap(),
        epoch: ProducerEpoch::new(epoch).unwrap(),
        coordinator_epoch,
        kind: MarkerKind::Commit,
    }
}

fn at(offset: i64) -> Offset {
    Offset::new(offset).unwrap()
}

fn range(start: i64, end: i64) -> OffsetRange {
    OffsetRange::new(at(start), at(end)).unwrap()
}

fn second(number: u64) -> Monotonic {
    Monotonic::from_duration(Duration::from_secs(number))
}

fn time(offset: i64) -> Timestamp {
    Timestamp::from_millis(1_000 + offset)
}

/// A log that numbers what is appended to it.
struct Log {
    producers: Producers,
    end: i64,
}

impl Log {
    fn new() -> Self {
        Self { producers: Producers::new(ProducersConfig::default()), end: 0 }
    }

    /// Appends as a follower does: without a question.
    fn replicate(&mut self, batch: &ProducerBatch, records: i64) -> OffsetRange {
        let offsets = range(self.end, self.end + records);
        self.end += records;
        self.producers.note(batch, offsets, time(offsets.start().value()), second(0));
        offsets
    }

    /// Appends as a leader does: only if it may.
    fn produce(&mut self, batch: &ProducerBatch, records: i64) -> Verdict {
        let verdict = self.producers.check(batch);
        if verdict == Verdict::Append {
            self.replicate(batch, records);
        }
        verdict
    }
}

fn out_of_order(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Refuse(ProducerRefusal::OutOfOrder { .. }))
}

fn fenced(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Refuse(ProducerRefusal::InvalidEpoch { .. }))
}

#[test]
fn sequences_follow_one_another_within_an_epoch() {
    let mut log = Log::new();
    assert_eq!(log.produce(&batch(1, 0, 0, 1), 1), Verdict::Append);
    assert_eq!(log.produce(&batch(1, 0, 1, 1), 1), Verdict::Append);
    assert!(out_of_order(log.produce(&batch(1, 0, 3, 1), 1)));
    assert_eq!(log.produce(&batch(1, 1, 0, 1), 1), Verdict::Append);
    assert!(fenced(log.produce(&batch(1, 0, 0, 1), 1)));
    assert!(out_of_order(log.produce(&batch(1, 2, 1, 1), 1)));
    assert_eq!(log.produce(&batch(1, 7, 0, 1), 1), Verdict::Append);
}

#[test]
fn behind_the_greatest_sequence_comes_zero() {
    let mut log = Log::new();
    assert_eq!(log.produce(&batch(1, 0, i32::MAX - 1, 2), 2), Verdict::Append);
    assert!(out_of_order(log.produce(&batch(1, 0, 1, 1), 1)));
    assert_eq!(log.produce(&batch(1, 0, 0, 1), 1), Verdict::Append);
}

#[test]
fn a_batch_may_wrap_in_its_middle() {
    let mut log = Log::new();
    let wrapping = batch(1, 0, i32::MAX, 3);
    assert_eq!(wrapping.last_sequence.value(), 1);
    assert_eq!(log.produce(&wrapping, 3), Verdict::Append);
    assert_eq!(log.produce(&batch(1, 0, 2, 1), 1), Verdict::Append);
    assert_eq!(log.produce(&wrapping, 3), Verdict::Duplicate { offsets: range(0, 3), timestamp: time(0) });
}

#[test]
fn repetitions_of_the_last_five_batches_are_answered_with_their_offsets() {
    let mut log = Log::new();
    for number in 0..7 {
        assert_eq!(log.produce(&batch(1, 0, number * 2, 2), 2), Verdict::Append);
    }
    for number in 2..7 {
        let offsets = range(i64::from(number) * 2, i64::from(number) * 2 + 2);
        let expected = Verdict::Duplicate { offsets, timestamp: time(offsets.start().value()) };
        assert_eq!(log.produce(&batch(1, 0, number * 2, 2), 2), expected, "batch {number}");
    }
    assert!(out_of_order(log.produce(&batch(1, 0, 2, 2), 2)), "the sixth from the end");
    assert!(out_of_order(log.produce(&batch(1, 0, 13, 2), 2)), "half of the last batch and more");
    assert!(out_of_order(log.produce(&batch(1, 0, 12, 1), 1)), "half of the last batch");
    assert_eq!(log.end, 14);
}

#[test]
fn a_repetition_from_an_older_epoch_is_fenced() {
    let mut log = Log::new();
    log.produce(&batch(1, 0, 0, 1), 1);
    log.produce(&batch(1, 1, 0, 1), 1);
    assert!(fenced(log.produce(&batch(1, 0, 0, 1), 1)));
}

#[test]
fn an_unknown_producer_may_begin_anywhere() {
    assert_eq!(Log::new().produce(&batch(1, 0, 16, 1), 1), Verdict::Append);
}

#[test]
fn where_state_was_lost_to_damage_an_unknown_producer_begins_at_zero() {
    let mut log = Log::new();
    log.producers.note_lost(at(100));
    let refused = Verdict::Refuse(ProducerRefusal::StateLost { given: Sequence::new(16).unwrap() });
    assert_eq!(log.produce(&batch(1, 0, 16, 1), 1), refused);
    assert_eq!(log.produce(&batch(2, 0, 0, 1), 1), Verdict::Append);
    log.producers.note_start(at(99));
    assert_eq!(log.produce(&batch(1, 0, 16, 1), 1), refused);
    log.producers.note_start(at(100));
    assert_eq!(log.produce(&batch(1, 0, 16, 1), 1), Verdict::Append);
}

#[test]
fn a_replica_takes_gaps_and_older_epochs_and_believes_them() {
    let mut log = Log::new();
    log.replicate(&batch(1, 3, 0, 1), 1);
    log.replicate(&batch(1, 3, 9, 1), 1);
    log.replicate(&batch(1, 2, 4, 1), 1);
    assert_eq!(log.produce(&batch(1, 2, 5, 1), 1), Verdict::Append);
    assert_eq!(log.produce(&batch(1, 3, 0, 1), 1), Verdict::Append);
}

#[test]
fn a_marker_brings_an_epoch_that_begins_at_sequence_zero() {
    let mut log = Log::new();
    assert_eq!(log.producers.note_marker(&marker(1, 4, 0), at(0), time(0), second(0)), None);
    assert!(out_of_order(log.produce(&batch(1, 4, 1, 1), 1)));
    assert!(fenced(log.produce(&batch(1, 3, 0, 1), 1)));
    assert_eq!(log.produce(&batch(1, 4, 0, 1), 1), Verdict::Append);
}

#[test]
fn an_older_coordinator_is_fenced_by_a_leader() {
    let mut log = Log::new();
    log.producers.note_marker(&marker(1, 0, 5), at(0), time(0), second(0));
    assert_eq!(
        log.producers.check_marker(&marker(1, 0, 4)),
        Err(ProducerRefusal::CoordinatorFenced { given: 4, known: 5 })
    );
    assert_eq!(log.producers.check_marker(&marker(1, 0, 5)), Ok(()));
    assert_eq!(log.producers.check_marker(&marker(2, 0, 0)), Ok(()));
}

#[test]
fn a_replica_believes_a_marker_of_an_older_coordinator() {
    let mut log = Log::new();
    log.producers.note_marker(&marker(1, 0, 5), at(0), time(0), second(0));
    log.replicate(&transactional(1, 0, 0, 2), 2);
    let closed = log.producers.note_marker(&marker(1, 0, 4), at(2), time(2), second(0));
    assert!(closed.is_some(), "the transaction is over");
    assert_eq!(log.producers.check_marker(&marker(1, 0, 4)), Ok(()), "and that coordinator is the known one");
}

#[test]
fn a_batch_outside_the_open_transaction_is_refused() {
    let mut log = Log::new();
    assert_eq!(log.produce(&transactional(1, 0, 0, 2), 2), Verdict::Append);
    let refused = Verdict::Refuse(ProducerRefusal::TransactionOpen { first: at(0) });
    assert_eq!(log.produce(&batch(1, 0, 2, 1), 1), refused);
    assert_eq!(log.produce(&transactional(1, 0, 2, 1), 1), Verdict::Append);
    log.producers.note_marker(&marker(1, 0, 0), at(3), time(3), second(0));
    assert_eq!(log.produce(&batch(1, 0, 3, 1), 1), Verdict::Append);
}

#[test]
fn the_first_unstable_offset_moves_only_when_the_marker_is_below_the_ceiling() {
    let mut log = Log::new();
    log.replicate(&transactional(1, 0, 0, 3), 3);
    log.replicate(&transactional(2, 0, 0, 2), 2);
    assert_eq!(log.producers.first_unstable(at(5)), Some(at(0)));
    let closed = log.producers.note_marker(&marker(1, 0, 0), at(5), time(5), second(0));
    assert_eq!(closed, Some(ClosedTransaction { first: at(0), marker: at(5), last_stable: at(3) }));
    assert_eq!(log.producers.first_unstable(at(5)), Some(at(0)));
    assert_eq!(log.producers.first_unstable(at(6)), Some(at(3)));
    log.producers.settle_below(at(6));
    let closed = log.producers.note_marker(&marker(2, 0, 0), at(6), time(6), second(0));
    assert_eq!(closed, Some(ClosedTransaction { first: at(3), marker: at(6), last_stable: at(7) }));
    assert_eq!(log.producers.first_unstable(at(6)), Some(at(3)));
    assert_eq!(log.producers.first_unstable(at(7)), None);
}

#[test]
fn idle_producers_expire_by_the_time_of_their_append() {
    let config = ProducersConfig { expiration: Duration::from_secs(10), ..ProducersConfig::default() };
    let mut producers = Producers::new(config);
    let old = Timestamp::from_millis(-5);
    producers.note(&batch(1, 0, 0, 1), range(0, 1), old, second(0));
    producers.note(&transactional(2, 0, 0, 1), range(1, 2), old, second(0));
    producers.note(&batch(3, 0, 0, 1), range(2, 3), old, second(5));
    assert_eq!(producers.expire(second(9)), 0);
    assert_eq!(producers.expire(second(10)), 1);
    assert_eq!(producers.check(&batch(1, 0, 9, 1)), Verdict::Append, "unknown again");
    assert!(out_of_order(producers.check(&batch(3, 0, 9, 1))), "still known");
    assert_eq!(producers.len(), 2, "an open transaction keeps its producer");
}

#[test]
fn at_the_bound_a_leader_refuses_and_a_replica_forgets_the_idlest() {
    let config = ProducersConfig { producers_max: 3, ..ProducersConfig::default() };
    let mut producers = Producers::new(config);
    for number in 0..3 {
        let offsets = range(number, number + 1);
        producers.note(&batch(number, 0, 0, 1), offsets, time(0), second(u64::try_from(number).unwrap()));
    }
    let refused = Verdict::Refuse(ProducerRefusal::TooManyProducers { limit: 3 });
    assert_eq!(producers.check(&batch(9, 0, 0, 1)), refused);
    assert_eq!(producers.check(&batch(2, 0, 1, 1)), Verdict::Append);
    producers.note(&batch(9, 0, 0, 1), range(3, 4), time(0), second(9));
    assert_eq!(producers.len(), 3);
    assert_eq!(producers.check(&batch(0, 0, 5, 1)), refused, "the idlest is unknown now");
    assert!(out_of_order(producers.check(&batch(1, 0, 5, 1))));
}

const IDEMPOTENT: &[u8] = include_bytes!("../../testdata/state/idempotent.snapshot");
const TRANSACTIONS: &[u8] = include_bytes!("../../testdata/state/transactions.snapshot");

fn decode(bytes: &[u8]) -> Result<Producers, SnapshotDamage> {
    Producers::decode_snapshot(bytes, ProducersConfig::default(), second(0))
}

#[test]
fn kafkas_snapshot_says_what_its_dump_tool_reads_in_it() {
    let producers = decode(IDEMPOTENT).unwrap();
    assert_eq!(producers.len(), 2);
    let timestamp = Timestamp::from_millis(1_795_985_637_070);
    assert_eq!(
        producers.check(&batch(0, 0, 15, 5)),
        Verdict::Duplicate { offsets: range(15, 20), timestamp }
    );
    assert_eq!(producers.check(&batch(0, 0, 20, 1)), Verdict::Append);
    let timestamp = Timestamp::from_millis(1_795_985_637_100);
    assert_eq!(
        producers.check(&batch(1000, 0, 0, 7)),
        Verdict::Duplicate { offsets: range(20, 27), timestamp }
    );
    assert_eq!(producers.encode_snapshot(), IDEMPOTENT);
}

#[test]
fn kafkas_snapshot_holds_the_open_transaction() {
    let producers = decode(TRANSACTIONS).unwrap();
    assert_eq!(producers.first_unstable(at(33)), Some(at(28)));
    assert_eq!(
        producers.check_marker(&marker(1001, 0, -1)),
        Err(ProducerRefusal::CoordinatorFenced { given: -1, known: 0 })
    );
    let mut sorted = producers.encode_snapshot();
    assert_eq!(decode(&sorted).unwrap().known, producers.known);
    // Kafka's entries are in no order; ours ascend.
    sorted.truncate(10);
    assert_eq!(sorted.len() + 2 * 46, TRANSACTIONS.len());
}

#[test]
fn a_snapshot_of_a_marker_alone_has_no_batch() {
    let mut producers = Producers::new(ProducersConfig::default());
    producers.note_marker(&marker(1, 4, 2), at(8), time(8), second(0));
    let bytes = producers.encode_snapshot();
    assert_eq!(bytes[20..36], [[255; 12].as_slice(), &[0; 4]].concat());
    assert_eq!(decode(&bytes).unwrap().known, producers.known);
}

#[test]
fn any_damaged_byte_of_a_snapshot_is_noticed() {
    for at in 0..IDEMPOTENT.len() {
        for flip in [1, 0x80, 0xff] {
            let mut bytes = IDEMPOTENT.to_vec();
            bytes[at] ^= flip;
            assert!(decode(&bytes).is_err(), "byte {at} xor {flip}");
        }
        assert!(decode(&IDEMPOTENT[..at]).is_err(), "cut at {at}");
    }
    assert!(decode(&[IDEMPOTENT, &[0]].concat()).is_err(), "a byte more");
}

#[test]
fn the_empty_snapshot_is_kafkas() {
    let bytes = Producers::new(ProducersConfig::default()).encode_snapshot();
    assert_eq!(bytes, [0, 1, 0x48, 0x67, 0x4b, 0xc7, 0, 0, 0, 0]);
    assert!(decode(&bytes).unwrap().is_empty());
}
