//! The rules of the engine that a test can switch off, to prove that its checkers see what the rule prevents.
//!
//! A product always runs with all of them: a value without a rule can only be built with the feature `planted-faults`.

/// One rule of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Reads end at `written`.
    NobodySeesAboveWritten,
    /// A sync is submitted after the writes that it covers have completed.
    SyncOnlyAfterItsWrites,
    /// The recovery point stays below what is not synced, the sealing of an older segment included.
    RecoveryPointBelowUnsynced,
    /// What recovery found above the recovery point is written again before a sync of it counts.
    WriteAgainBeforeSync,
    /// A truncation cuts the epoch history too.
    EpochsFollowTruncation,
    /// A truncation cuts the state of producers too.
    ProducersFollowTruncation,
}

/// Which rules hold; all of them by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    off: u8,
}

impl Rules {
    /// Whether the rule holds.
    pub const fn holds(self, rule: Rule) -> bool {
        self.off & (1 << rule as u8) == 0
    }

    /// The same rules without this one.
    #[cfg(feature = "planted-faults")]
    #[must_use]
    pub const fn without(self, rule: Rule) -> Self {
        Self { off: self.off | (1 << rule as u8) }
    }
}
