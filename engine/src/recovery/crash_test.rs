//! Recovery that is interrupted between any two steps, over random directories.

use std::collections::BTreeMap;

use super::*;
use crate::state::{EpochHistory, EpochStart};
use crate::units::{LeaderEpoch, Offset};

use super::model_test::{Directory, Item, at};
use BadKind::{Corrupt, Torn, Zeros};
use Item::{Bad, Batch};

/// An epoch checkpoint of this log, perhaps an old one; but what lies below the recovery point was synced before that.
fn any_epoch_file(
    chance: &mut fastrand::Rng,
    segments: &BTreeMap<i64, Vec<Item>>,
    log_start: Option<Offset>,
    recovery_point: i64,
) -> EpochHistory {
    let mut starts = Vec::new();
    for item in segments.values().flatten() {
        if let Batch(base, _, epoch) = item {
            starts.push(EpochStart { epoch: LeaderEpoch::new(*epoch).unwrap(), start: at(*base) });
        }
    }
    let mut history = EpochHistory::from_starts(starts);
    history.truncate_from_end(at(recovery_point + chance.i64(0..20)));
    if let Some(start) = log_start.filter(|_| chance.bool()) {
        history.truncate_from_start(start);
    }
    history
}

/// A directory with any kind of trouble.
fn any_directory(chance: &mut fastrand::Rng) -> Directory {
    let mut segments = BTreeMap::new();
    let (mut offset, mut epoch) = (0, 0);
    for _ in 0..chance.usize(0..4) {
        let mut items = Vec::new();
        let base = offset;
        for _ in 0..chance.usize(0..5) {
            let count = chance.i32(1..5);
            epoch += i32::from(chance.u8(0..6) == 0);
            items.push(match chance.u8(0..8) {
                0 => Bad(chance.u64(1..150), [Torn, Zeros, Corrupt][chance.usize(0..3)]),
                _ => Batch(offset, count, epoch),
            });
            offset += i64::from(count);
        }
        segments.insert(base, items);
    }
    // Two stretches of bad bytes behind one another are one to a scan, and are cut as one.
    for items in segments.values_mut() {
        items.dedup_by(|item, before| matches!((item, before), (Bad(..), Bad(..))));
    }
    let point = chance.i64(0..offset + 2);
    let log_start = chance.bool().then(|| at(chance.i64(0..6)));
    let epochs = chance.bool().then(|| any_epoch_file(chance, &segments, log_start, point));
    let points = [RecoveryPoint::Known(at(point)), RecoveryPoint::NoEntry, RecoveryPoint::Unknown];
    Directory {
        gaps: if chance.bool() { Gaps::Legal } else { Gaps::Never },
        segments,
        others: vec![("00000000000000000003.snapshot".to_owned(), 10)],
        recovery_point: points[chance.usize(0..3)],
        log_start,
        stop: if chance.u8(0..4) == 0 { Stop::Clean { facts: None } } else { Stop::Unclean },
        machine: if chance.bool() { Machine::Same } else { Machine::OtherOrUnknown },
        epochs,
    }
}

#[test]
fn a_crash_between_any_two_steps_is_cured_by_recovering_again() {
    let seed = std::env::var("HIGHWATER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(17);
    let mut chance = fastrand::Rng::with_seed(seed);
    let (mut interrupted, mut damaged, mut holes) = (0, 0, 0);
    for round in 0..3_000 {
        let directory = any_directory(&mut chance);
        let (whole, plan) = directory.recovered();
        damaged += usize::from(!plan.damaged.is_empty());
        holes += usize::from(plan.has_hole());
        let context = format!("seed {seed} round {round}: {directory:?}\n{plan}");
        assert!(plan.start <= plan.end && plan.recovery_point <= plan.end, "{context}");
        if let RecoveryPoint::Known(point) = directory.recovery_point {
            assert!(plan.recovery_point <= point, "recovery advanced it: {context}");
        }
        for crashed_after in 0..=plan.steps.len() {
            let mut again = directory.clone();
            for step in &plan.steps[..crashed_after] {
                again.apply(step, &plan);
            }
            if crashed_after > 0 && directory.stop != Stop::Unclean {
                // A kill during recovery is a stop without a mark, on the machine that began it. What an unclean stop made
                // suspect stays so: the stored incarnation is replaced only when somebody knows of the suspicion.
                (again.stop, again.machine) = (Stop::Unclean, Machine::Same);
            }
            let (recovered, second) = again.recovered();
            interrupted += 1;
            assert_eq!(recovered.logs(), whole.logs(), "after {crashed_after} steps: {context}\n{second}");
            assert_eq!(
                (second.start, second.end),
                (plan.start, plan.end),
                "after {crashed_after} steps: {context}\n{second}"
            );
            assert_eq!(second.epochs, plan.epochs, "after {crashed_after} steps: {context}\n{second}");
            assert_eq!(second.damaged, plan.damaged, "after {crashed_after} steps: {context}\n{second}");
        }
    }
    assert!(interrupted > 5_000 && damaged > 300 && holes > 30, "{interrupted} {damaged} {holes}");
}

#[test]
fn what_was_synced_is_never_cut() {
    let seed = std::env::var("HIGHWATER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(19);
    let mut chance = fastrand::Rng::with_seed(seed);
    for round in 0..3_000 {
        let mut directory = any_directory(&mut chance);
        directory.log_start = None;
        let RecoveryPoint::Known(point) = directory.recovery_point else { continue };
        let (recovered, plan) = directory.recovered();
        for (base, items) in &directory.segments {
            let left = recovered.segments.get(base).cloned().unwrap_or_default();
            let synced = items.iter().rposition(|item| matches!(item, Batch(base, ..) if at(*base) < point));
            let kept = synced.map_or(0, |last| last + 1);
            assert_eq!(
                left.get(..kept),
                items.get(..kept),
                "seed {seed} round {round}: {directory:?}\n{plan}"
            );
        }
    }
}
