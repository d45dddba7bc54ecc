//! The losses that are tried at one boundary: all subsets of what is not synced where they are few; otherwise each thing alone, all but each,
//! every beginning, pairs; then middle states, torn pages, and some by chance. A plan: it touches nothing.

use std::collections::BTreeSet;

use fastrand::Rng;
use highwater_engine::disk::simulated::{Fate, Unit, UnitKind};

use super::Kind;

const LOST: Fate = Fate::Older(0);
/// Which sectors of a torn page get there: the first, the first half, all but the first, every other one, the last.
const TEARS: [u8; 5] = [0x01, 0x0f, 0xfe, 0x55, 0x80];
const PAIRS_MAX: usize = 60;

/// About `wanted` lists of fates, one for each unit; everything lost, everything kept, and everything but one file's size in any case.
/// Without units there is one, the empty one.
pub(super) fn losses(units: &[Unit], wanted: usize, rng: &mut Rng) -> Vec<Vec<Fate>> {
    let mut lists = all_losses(units, wanted, rng);
    let mut known = BTreeSet::new();
    lists.retain(|fates| known.insert(format!("{fates:?}")));
    let certain = (2 + sizes(units).count()).min(lists.len());
    let (certain, others) = lists.split_at_mut(certain);
    rng.shuffle(others);
    let count = certain.len() + others.len().min(wanted);
    lists.truncate(count);
    lists
}

fn all_losses(units: &[Unit], wanted: usize, rng: &mut Rng) -> Vec<Vec<Fate>> {
    let count = units.len();
    let mut all = Vec::new();
    let of = |keep: &dyn Fn(usize) -> bool| -> Vec<Fate> {
        (0..count).map(|at| if keep(at) { Fate::Kept } else { LOST }).collect()
    };
    all.extend([of(&|_| false), of(&|_| true)]);
    all.extend(sizes(units).map(|size| of(&|at| at != size)));
    let subsets = 1_usize.checked_shl(u32::try_from(count).unwrap_or(u32::MAX)).unwrap_or(usize::MAX);
    if subsets <= wanted.max(8) {
        all.extend((0..subsets).map(|subset| of(&|at| subset >> at & 1 == 1)));
    } else {
        for one in 0..count {
            all.extend([of(&|at| at == one), of(&|at| at != one)]);
        }
        all.extend(beginnings(units));
        for _ in 0..PAIRS_MAX.min(count * (count - 1) / 2).min(wanted) {
            let (one, two) = (rng.usize(..count), rng.usize(..count));
            all.extend([of(&|at| at == one || at == two), of(&|at| at != one && at != two)]);
        }
    }
    for (at, unit) in units.iter().enumerate() {
        let middle = (1..unit.choices.saturating_sub(1)).map(Fate::Older);
        let torn = TEARS.iter().map(|sectors| Fate::Torn(*sectors));
        let is_page = matches!(unit.kind, UnitKind::Page(_));
        for fate in middle.chain(torn.filter(|_| is_page)) {
            for mut fates in [of(&|_| false), of(&|_| true)] {
                fates[at] = fate;
                // A page of a file that does not reach there is not seen.
                for (other, unit) in units.iter().enumerate().filter(|_| is_page) {
                    if unit.kind == UnitKind::Size && unit.path == units[at].path {
                        fates[other] = Fate::Kept;
                    }
                }
                all.push(fates);
            }
        }
    }
    all.extend((0..wanted / 4).map(|_| by_chance(units, rng)));
    all
}

fn sizes(units: &[Unit]) -> impl Iterator<Item = usize> {
    (0..units.len()).filter(|at| units[*at].kind == UnitKind::Size)
}

/// What was changed first got there, and of names and contents one may be ahead of the other.
fn beginnings(units: &[Unit]) -> Vec<Vec<Fate>> {
    let (names, rest): (Vec<usize>, Vec<usize>) =
        (0..units.len()).partition(|at| units[*at].kind == UnitKind::Name);
    let mut all = Vec::new();
    for (moving, still) in [(&names, &rest), (&rest, &names)] {
        let mut moving = moving.clone();
        moving.sort_by_key(|at| units[*at].step);
        for kept in 0..=moving.len() {
            for fate in [LOST, Fate::Kept] {
                let mut fates = vec![LOST; units.len()];
                for at in still {
                    fates[*at] = fate;
                }
                for at in &moving[..kept] {
                    fates[*at] = Fate::Kept;
                }
                all.push(fates);
            }
        }
    }
    all
}

pub(super) fn by_chance(units: &[Unit], rng: &mut Rng) -> Vec<Fate> {
    let kept_percent = [10, 50, 90][rng.usize(..3)];
    let one = |unit: &Unit| {
        if rng.u32(..100) < kept_percent {
            Fate::Kept
        } else if unit.kind != UnitKind::Size && unit.kind != UnitKind::Name && rng.u8(..4) == 0 {
            Fate::Torn(rng.u8(..))
        } else {
            Fate::Older(rng.usize(..unit.choices.saturating_sub(1).max(1)))
        }
    };
    units.iter().map(one).collect()
}

/// What can be told of a loss from the list alone: that a page of an index got there before what it points to.
pub(super) fn kinds(units: &[Unit], fates: &[Fate]) -> Vec<Kind> {
    let of = |wanted: &dyn Fn(&str) -> bool, fate: &dyn Fn(&Fate) -> bool| {
        units.iter().zip(fates).any(|(unit, is)| {
            let extension =
                unit.path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            matches!(unit.kind, UnitKind::Page(_)) && wanted(extension) && fate(is)
        })
    };
    let index_is_there = of(&|extension| extension.ends_with("index"), &|fate| *fate == Fate::Kept);
    let log_is_lost = of(&|extension| extension == "log", &|fate| matches!(fate, Fate::Older(_)));
    if index_is_there && log_is_lost { vec![Kind::EarlyIndexPage] } else { Vec::new() }
}
