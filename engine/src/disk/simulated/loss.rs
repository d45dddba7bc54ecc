//! What a power loss decides on, one thing at a time, and who decides: chance, or a list that somebody has made.
//!
//! With the list every legal loss can be enumerated: [`super::SimulatedDisk::unsynced`] names the things, each with its choices, and
//! [`super::SimulatedDisk::crash_power_as`] takes one [`Fate`] for each.

use std::path::PathBuf;
use std::slice::Iter;

use fastrand::Rng;

use super::{Tear, Unsynced};

/// A thing that is not certain, of which a power loss leaves one of several states, independently of all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// What it is.
    pub kind: UnitKind,
    /// Of which file; the name itself, where it is one.
    pub path: PathBuf,
    /// When it was changed last; among names and among the rest, later ones have higher steps.
    pub step: u64,
    /// How many states it may have: 0 is the certain one, the last is the newest.
    pub choices: usize,
}

/// The kinds of [`Unit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnitKind {
    /// The size of a file.
    Size,
    /// A page of a file, by its number.
    Page(u64),
    /// A change of names.
    Name,
}

/// What becomes of one [`Unit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The newest state.
    Kept,
    /// The state of this number; what there is not is the newest.
    Older(usize),
    /// Of a page: the certain state, and the newest in the sectors whose bits are set. Anything else is kept.
    Torn(u8),
}

/// Who decides.
pub(super) enum Decision<'a> {
    Chance { unsynced: Unsynced, tear: Tear, rng: &'a mut Rng },
    Given { fates: &'a mut Iter<'a, Fate> },
}

impl Decision<'_> {
    /// A different mood for each file and crash: sometimes nearly everything got there, sometimes nearly nothing.
    pub(super) fn mood(&mut self, percents: [u32; 3]) -> u32 {
        match self {
            Self::Chance { rng, .. } => percents[rng.usize(..3)],
            Self::Given { .. } => 0,
        }
    }

    /// Whether a change of names is kept that may be, and that has to be undone unless it is free.
    pub(super) fn keeps_name(&mut self, kept_percent: u32, is_free: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Chance { unsynced: Unsynced::Lost, .. } => false,
            Self::Chance { unsynced: Unsynced::Kept, .. } => true,
            Self::Chance { unsynced: Unsynced::Chosen, rng, .. } => {
                rng.u32(..100) < kept_percent && is_free()
            }
            Self::Given { fates } => next(fates) != Fate::Older(0) && is_free(),
        }
    }
}

/// What is not decided is kept.
pub(super) fn next(fates: &mut Iter<'_, Fate>) -> Fate {
    fates.next().copied().unwrap_or(Fate::Kept)
}
