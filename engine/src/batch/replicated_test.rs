//! What a follower appends of what its leader sent, and what it refuses.

use bytes::Bytes;

use super::testing::{epoch, offset, stamped};
use super::{Compression, Dropped, ReplicaRefusal, ReplicatedBatches, StopReason};

/// Batches of two records each, at these offsets and in these epochs.
fn batches(places: &[(i64, i32)]) -> Vec<u8> {
    places
        .iter()
        .flat_map(|(base, number)| stamped(Compression::None, 2, *base, Some(epoch(*number))))
        .collect()
}

fn check(bytes: Vec<u8>, fetch_epoch: i32) -> Result<ReplicatedBatches, ReplicaRefusal> {
    ReplicatedBatches::check(Bytes::from(bytes), epoch(fetch_epoch))
}

#[test]
fn whole_batches_are_taken_and_a_torn_tail_is_left() {
    let bytes = batches(&[(10, 1), (12, 1), (20, 2)]);
    let size = bytes.len() / 3;
    let all = check(bytes.clone(), 2).unwrap();
    assert_eq!(all.dropped(), Dropped::Nothing);
    assert_eq!(
        (all.first_offset(), all.next_offset(), all.last_epoch()),
        (Some(offset(10)), Some(offset(22)), Some(epoch(2)))
    );
    let places: Vec<_> = all.batches().map(|(at, header)| (at, header.base_offset.value())).collect();
    assert_eq!(places, [(0, 10), (size, 12), (2 * size, 20)]);
    for length in 0..bytes.len() {
        let cut = check(bytes[..length].to_vec(), 2).unwrap();
        assert_eq!(cut.bytes(), &bytes[..length / size * size]);
        assert_eq!(cut.is_empty(), length < size);
        assert_eq!(cut.dropped() == Dropped::Nothing, length % size == 0, "{length}");
    }
    let zeros = [&bytes[..], &[0; 17]].concat();
    assert_eq!(check(zeros, 2).unwrap().dropped(), Dropped::TornTail, "Kafka is silent about 17 zeros");
}

#[test]
fn batches_of_a_newer_leadership_are_left_for_a_fetch_in_it() {
    let bytes = batches(&[(0, 1), (2, 3), (4, 1)]);
    let size = bytes.len() / 3;
    let kept = check(bytes.clone(), 2).unwrap();
    assert_eq!((kept.bytes().len(), kept.dropped()), (size, Dropped::NewerEpoch { epoch: epoch(3) }));
    assert!(check(bytes, 0).unwrap().is_empty());
}

#[test]
fn what_cannot_be_a_leaders_log_is_refused() {
    let size = batches(&[(0, 1)]).len() as u64;
    assert_eq!(
        check(batches(&[(0, 1), (1, 1)]), 1).unwrap_err(),
        ReplicaRefusal::OffsetsNotAscending { position: size, base: offset(1), expected: offset(2) }
    );
    assert_eq!(
        check(batches(&[(0, 2), (2, 1)]), 2).unwrap_err(),
        ReplicaRefusal::EpochGoesBack { position: size, epoch: epoch(1), before: epoch(2) }
    );
    assert_eq!(
        check(stamped(Compression::None, 1, 0, None).to_vec(), 1).unwrap_err(),
        ReplicaRefusal::EpochMissing { position: 0 }
    );
    let mut damaged = batches(&[(0, 1), (2, 1)]);
    *damaged.last_mut().unwrap() ^= 1;
    let refusal = check(damaged, 1).unwrap_err();
    assert!(
        matches!(refusal, ReplicaRefusal::Damaged(stop) if stop.position == size && matches!(stop.reason, StopReason::Crc { .. }))
    );
    let zeros = [&batches(&[(0, 1)])[..], &[0; 18]].concat();
    assert!(
        matches!(check(zeros, 1).unwrap_err(), ReplicaRefusal::Damaged(stop) if stop.reason == StopReason::Zeros { have: 18 })
    );
}
