//! The last batch of a segment, whose offset no other batch bears out.

use super::*;
use crate::checkpoint::CleanPartition;
use crate::segment::DamagedRange;

use super::model_test::{Directory, Item, at, epochs, range};
use BadKind::Corrupt;
use Item::{Bad, Batch};

fn mark(end: i64, crc: u32, log_bytes: u64) -> Stop {
    let marked = CleanPartition {
        end: at(end),
        last_batch_crc: Some(crc),
        log_bytes,
        index_crc: None,
        aborted_crc: None,
    };
    Stop::Clean { facts: Some(marked) }
}

/// A log whose last batch should begin at 8 and says 40, so that it seems to end at 44.
fn leapt(segments: &[(i64, &[Item])], point: i64) -> Directory {
    let mut directory = Directory::new(segments).synced_to(point);
    directory.epochs = Some(epochs(&[(0, 0)]));
    directory
}

const LEAPT: [Item; 3] = [Batch(0, 4, 0), Batch(4, 4, 0), Batch(40, 4, 0)];

#[test]
fn a_last_batch_that_has_leapt_over_a_known_end_is_damage() {
    let mut marked = leapt(&[(0, &LEAPT)], 4);
    marked.stop = mark(12, 47, 300);
    // Behind a gap that is legal, a batch that ends within what is known.
    let mut within = leapt(&[(0, &LEAPT)], 4);
    within.stop = mark(50, 47, 300);
    for (directory, until) in [
        (leapt(&[(0, &LEAPT)], 12), 12),
        (leapt(&[(0, &LEAPT), (12, &[])], 12), 12),
        (leapt(&[(0, &LEAPT), (12, &[Batch(12, 4, 0)])], 4), 12),
        (marked, 12),
        (within, 50),
    ] {
        let (recovered, plan) = directory.recovered();
        assert_eq!(recovered.logs(), directory.logs(), "{plan}");
        let range = DamagedRange { segment: at(0), offsets: range(8, until), bytes: (200, 300) };
        assert_eq!(plan.damaged, [range], "{plan}");
        assert_eq!(
            plan.end,
            at(if directory.segments.get(&12).is_some_and(|next| !next.is_empty()) { 16 } else { until })
        );
        assert!(!plan.suspect.is_empty());
    }
}

#[test]
fn a_last_batch_that_has_leapt_in_a_log_without_gaps_is_lost_as_one_that_is_damaged() {
    let mut directory = leapt(&[(0, &LEAPT)], 8);
    directory.gaps = Gaps::Never;
    let (recovered, plan) = directory.recovered();
    assert_eq!((recovered.logs(), plan.end), (vec![(0, &LEAPT[..2])], at(8)));
    assert!(matches!(plan.suspect[..], [SuspectReason::LastBatchLost { position: 200, .. }]), "{plan}");
    assert!(recovered.others.contains(&("00000000000000000000-200.lost".to_owned(), 100)));
}

#[test]
fn a_gap_at_the_end_that_may_be_one_is_believed_and_noted() {
    let (recovered, plan) = leapt(&[(0, &LEAPT)], 8).recovered();
    assert_eq!((recovered.logs(), plan.end), (vec![(0, LEAPT.as_slice())], at(44)));
    assert!(plan.suspect.is_empty() && plan.steps.contains(&Step::NoteGaps), "{plan}");
    assert!(!recovered.plan().steps.contains(&Step::NoteGaps), "once");
    // Nor has anybody noted it whose next batches show that it is one; a cut may make it the last.
    let mut directory = leapt(&[(0, &[&LEAPT[..], &[Batch(44, 4, 0)]].concat())], 8).after_power_loss();
    directory.gaps = Gaps::Never;
    let (mut recovered, plan) = directory.recovered();
    assert!(plan.end == at(48) && plan.steps.contains(&Step::NoteGaps), "{plan}");
    recovered.segments.insert(0, LEAPT.to_vec());
    assert_eq!(recovered.plan().end, at(44));
    // What is no batch lies between: that is no gap.
    let items = [Batch(0, 4, 0), Bad(100, Corrupt), Batch(8, 4, 0)];
    let mut directory = leapt(&[(0, &items)], 12);
    directory.gaps = Gaps::Never;
    assert_eq!((directory.plan().end, directory.plan().damaged[0].offsets), (at(12), range(4, 8)));
}
