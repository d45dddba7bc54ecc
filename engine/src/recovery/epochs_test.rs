//! Epochs of batches that have one neighbour, and what the epoch checkpoint says of them.

use crate::segment::DamagedRange;

use super::model_test::{Directory, Item, at, epochs, range};
use Item::Batch;

/// Two epochs of two batches each, the first or the last of which says something else.
fn two_epochs(first: i32, last: i32) -> Directory {
    let segments = [(0, [Batch(0, 4, first), Batch(4, 4, 1)]), (8, [Batch(8, 4, 2), Batch(12, 4, last)])];
    let mut directory = Directory::new(&[(0, &segments[0].1), (8, &segments[1].1)]);
    directory.epochs = Some(epochs(&[(1, 0), (2, 8)]));
    directory
}

#[test]
fn an_epoch_of_the_last_batch_or_the_first_that_cannot_be_is_damage() {
    let first = DamagedRange { segment: at(0), offsets: range(0, 4), bytes: (0, 100) };
    let last = DamagedRange { segment: at(8), offsets: range(12, 16), bytes: (100, 200) };
    for (directory, damaged) in [
        (two_epochs(-1, 2), first.clone()),
        (two_epochs(77, 2), first),
        (two_epochs(1, -1), last.clone()),
        (two_epochs(1, 1), last.clone()),
        (two_epochs(1, 77), last),
    ] {
        let (recovered, plan) = directory.recovered();
        assert_eq!(plan.damaged, [damaged], "{plan}");
        assert_eq!((&plan.epochs, plan.end), (&epochs(&[(1, 0), (2, 8)]), at(16)), "{plan}");
        assert_eq!(recovered.logs(), directory.logs());
    }
}

#[test]
fn the_epoch_of_the_last_batch_is_believed_where_a_power_loss_may_have_taken_the_file_that_named_it() {
    let plan = two_epochs(1, 77).after_power_loss().plan();
    assert!(plan.damaged.is_empty(), "{plan}");
    assert_eq!(plan.epochs, epochs(&[(1, 0), (2, 8), (77, 12)]));
}

#[test]
fn of_two_neighbours_that_differ_the_one_is_damaged_whose_epoch_the_file_does_not_have() {
    let items = [Batch(0, 4, 1), Batch(4, 4, 1), Batch(8, 4, 77), Batch(12, 4, 2)];
    let mut directory = Directory::new(&[(0, &items)]);
    directory.epochs = Some(epochs(&[(1, 0), (2, 8)]));
    let plan = directory.plan();
    assert_eq!(plan.damaged, [DamagedRange { segment: at(0), offsets: range(8, 12), bytes: (200, 300) }]);
    assert_eq!(plan.epochs, epochs(&[(1, 0), (2, 8)]), "as the file says");
}
