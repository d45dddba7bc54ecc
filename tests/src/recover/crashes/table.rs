//! What was enumerated, counted by operation and by kind, so that a kind that never occurs is seen.

use std::collections::BTreeMap;
use std::fmt;

use highwater_engine::disk::simulated::{Interruption, SimulatedCounters};

/// The kinds of states. A state may be of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The process was killed: nothing is lost.
    Kill,
    /// The machine lost its power.
    PowerLoss,
    /// A part of a write is there.
    PartOfAWrite,
    /// A written page reads as zeros.
    Hole,
    /// A file has grown, and what it grew by is not there.
    SizeBeforeData,
    /// A page is there as it was earlier.
    StalePage,
    /// Sectors of two versions are in one page.
    TornPage,
    /// A later page is there and an earlier one is not.
    Reorder,
    /// A file is shorter than it was.
    LostSize,
    /// A file is longer than it was: its cut is lost.
    LostTruncation,
    /// A name is gone, or names what it named earlier.
    LostName,
    /// A removed name is back.
    NameThatCameBack,
    /// A page of an index is there, and one of its log is not.
    EarlyIndexPage,
    /// Recovery was crashed.
    RecoveryCrashedOnce,
    /// So was the recovery of that.
    RecoveryCrashedTwice,
    /// And of that.
    RecoveryCrashedThrice,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Kill,
        Self::PowerLoss,
        Self::PartOfAWrite,
        Self::Hole,
        Self::SizeBeforeData,
        Self::StalePage,
        Self::TornPage,
        Self::Reorder,
        Self::LostSize,
        Self::LostTruncation,
        Self::LostName,
        Self::NameThatCameBack,
        Self::EarlyIndexPage,
        Self::RecoveryCrashedOnce,
        Self::RecoveryCrashedTwice,
        Self::RecoveryCrashedThrice,
    ];

    pub(super) fn of_interruption(interruption: Interruption) -> Vec<Self> {
        if matches!(interruption, Interruption::Part(_)) { vec![Self::PartOfAWrite] } else { Vec::new() }
    }

    /// What a crash has done, by what the disk counted before and behind it.
    pub(super) fn of_loss(before: &SimulatedCounters, after: &SimulatedCounters) -> Vec<Self> {
        let counted = [
            (Self::Kill, after.kills - before.kills),
            (Self::PowerLoss, after.power_losses - before.power_losses),
            (Self::Hole, after.holes - before.holes),
            (Self::SizeBeforeData, after.sizes_before_data - before.sizes_before_data),
            (Self::StalePage, after.stale_pages - before.stale_pages),
            (Self::TornPage, after.torn_pages - before.torn_pages),
            (Self::Reorder, after.reorderings - before.reorderings),
            (Self::LostSize, after.lost_sizes - before.lost_sizes),
            (Self::LostTruncation, after.undone_cuts - before.undone_cuts),
            (Self::LostName, after.lost_names - before.lost_names),
            (Self::NameThatCameBack, after.resurrected_names - before.resurrected_names),
        ];
        counted.into_iter().filter(|(_, count)| *count > 0).map(|(kind, _)| kind).collect()
    }

    fn words(self) -> &'static str {
        match self {
            Self::Kill => "kill, nothing lost",
            Self::PowerLoss => "power loss",
            Self::PartOfAWrite => "part of a write",
            Self::Hole => "hole",
            Self::SizeBeforeData => "size before data",
            Self::StalePage => "stale page",
            Self::TornPage => "torn page",
            Self::Reorder => "reorder",
            Self::LostSize => "lost size",
            Self::LostTruncation => "lost truncation",
            Self::LostName => "lost name",
            Self::NameThatCameBack => "name that came back",
            Self::EarlyIndexPage => "early index page",
            Self::RecoveryCrashedOnce => "recovery crashed once",
            Self::RecoveryCrashedTwice => "recovery crashed twice",
            Self::RecoveryCrashedThrice => "recovery crashed three times",
        }
    }
}

/// States by operation and by kind.
#[derive(Clone, Debug, Default)]
pub struct Table {
    states: u64,
    scenes: BTreeMap<&'static str, u64>,
    kinds: BTreeMap<Kind, u64>,
}

impl Table {
    /// How many states were judged.
    pub fn states(&self) -> u64 {
        self.states
    }

    /// Kinds of which there was none.
    pub fn missing(&self) -> Vec<Kind> {
        Kind::ALL.into_iter().filter(|kind| !self.kinds.contains_key(kind)).collect()
    }

    pub(super) fn count(&mut self, scene: &'static str, kinds: &[Kind]) {
        self.states += 1;
        *self.scenes.entry(scene).or_default() += 1;
        self.count_kinds(kinds);
    }

    fn count_kinds(&mut self, kinds: &[Kind]) {
        for kind in kinds {
            *self.kinds.entry(*kind).or_default() += 1;
        }
    }

    pub(super) fn count_of_a_recovery(&mut self, kinds: &[Kind]) {
        self.states += 1;
        self.count_kinds(kinds);
    }

    /// Adds what another has counted.
    pub fn add(&mut self, other: &Self) {
        self.states += other.states;
        for (scene, states) in &other.scenes {
            *self.scenes.entry(scene).or_default() += states;
        }
        for (kind, states) in &other.kinds {
            *self.kinds.entry(*kind).or_default() += states;
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (scene, states) in &self.scenes {
            writeln!(f, "{states:>9}  {scene}")?;
        }
        writeln!(f)?;
        for kind in Kind::ALL {
            let states = self.kinds.get(&kind).copied().unwrap_or(0);
            writeln!(f, "{states:>9}  {}", kind.words())?;
        }
        write!(f, "\n{:>9}  states", self.states)
    }
}
