//! Batches that are whole and not in their place: offsets lie outside of the CRC.

use super::scan::BadBytes;
use super::*;
use crate::segment::DamagedRange;
use crate::units::Offset;

use super::model_test::{Directory, Item, at, range, scan};
use BadKind::{Corrupt, Torn, Zeros};
use Item::{Bad, Batch};

#[test]
fn a_batch_out_of_its_place_is_bad_and_so_is_one_that_leapt() {
    let lower = scan(0, &[Batch(0, 4, 0), Batch(2, 4, 0), Batch(8, 4, 0)]);
    let expected =
        BadBytes { position: 100, until: 200, expected: at(4), next: Some(at(8)), kind: BadKind::Disorder };
    assert_eq!((lower.bad, lower.end), (vec![expected], at(12)));

    let leapt = scan(0, &[Batch(0, 4, 0), Batch(1_000_004, 4, 0), Batch(8, 4, 0)]);
    assert_eq!((leapt.bad, leapt.end), (vec![expected], at(12)));
    assert_eq!(leapt.runs.len(), 1);
    assert_eq!((leapt.runs[0].batches, leapt.runs[0].offsets), (2, range(0, 12)));

    let twice = scan(0, &[Batch(0, 4, 0), Batch(0, 4, 0)]);
    assert_eq!((twice.bad[0].next, twice.end, twice.good_bytes), (None, at(4), 100));
    let below = scan(10, &[Batch(5, 2, 0), Batch(10, 1, 0)]);
    assert_eq!((below.bad[0].expected, below.end), (at(10), at(11)));
    let far = scan(0, &[Batch(i64::from(i32::MAX), 1, 0), Batch(i64::from(i32::MAX) + 1, 1, 0)]);
    assert_eq!((far.bad.len(), far.end), (1, at(i64::from(i32::MAX) + 1)));
}

#[test]
fn bytes_that_leave_no_offset_out_were_a_batch_and_the_one_beside_them_is_wrong() {
    let bad = |items: &[Item]| -> Vec<((u64, u64), Option<Offset>)> {
        scan(0, items).bad.iter().map(|bad| ((bad.position, bad.until), bad.next)).collect()
    };
    // The first was damaged, and the second says that it is the first.
    let lower = [Bad(100, Zeros), Batch(0, 4, 0), Batch(8, 4, 0), Batch(12, 4, 0)];
    assert_eq!(bad(&lower), [((0, 200), Some(at(8)))]);
    assert_eq!(bad(&[Bad(100, Zeros), Batch(0, 4, 0)]), [((0, 200), None)]);
    assert_eq!(bad(&[Bad(100, Zeros), Batch(0, 4, 0), Bad(9, Torn)]), [((0, 209), None)]);
    let two = [Bad(100, Corrupt), Batch(0, 4, 0), Bad(100, Corrupt), Batch(12, 4, 0)];
    assert_eq!(bad(&two), [((0, 300), Some(at(12)))]);
    let disorder =
        [Batch(0, 4, 0), Bad(100, Corrupt), Batch(4, 4, 0), Batch(2, 1, 0), Batch(12, 4, 0), Batch(16, 4, 0)];
    assert_eq!(bad(&disorder), [((100, 400), Some(at(12)))]);
    let higher = [Batch(0, 4, 0), Batch(8, 4, 0), Bad(100, Corrupt), Batch(12, 4, 0), Batch(16, 4, 0)];
    assert_eq!(bad(&higher), [((100, 300), Some(at(12)))]);
    // Of what joins another batch, and of what goes on behind a place, nothing says that it is wrong.
    let joined = [Batch(0, 4, 0), Bad(100, Corrupt), Batch(4, 4, 0), Batch(8, 4, 0)];
    assert_eq!(bad(&joined), [((100, 200), Some(at(4)))]);
    let with_a_gap = [Bad(100, Corrupt), Batch(4, 4, 0), Batch(12, 4, 0)];
    assert_eq!(bad(&with_a_gap), [((0, 100), Some(at(4)))]);

    let (recovered, plan) = Directory::new(&[(0, &lower)]).synced_to(16).recovered();
    assert_eq!(recovered.logs(), [(0, lower.as_slice())]);
    assert_eq!(plan.damaged, [DamagedRange { segment: at(0), offsets: range(0, 8), bytes: (0, 200) }]);
    let until_known = [Bad(100, Corrupt), Batch(0, 4, 0)];
    let plan = Directory::new(&[(0, &until_known)]).synced_to(4).plan();
    assert_eq!(plan.damaged[0].bytes, (0, 100), "the recovery point is where it ends");
    let plan = Directory::new(&[(0, &until_known)]).synced_to(8).plan();
    assert_eq!(plan.damaged, [DamagedRange { segment: at(0), offsets: range(0, 8), bytes: (0, 200) }]);
}
