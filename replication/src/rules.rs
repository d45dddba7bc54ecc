//! The rules of replication that a test can switch off, to prove that its checkers see what the rule prevents.
//!
//! A product always runs with all of them: a value without a rule can only be built with the feature `planted-faults`.

/// One rule of replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The high watermark is taken over the committed and the proposed in-sync replicas together (KIP-497).
    HwOverMaximalIsr,
    /// The high watermark stands still while the committed ISR is below `min.insync.replicas` (KIP-966).
    HwFrozenBelowMinIsr,
    /// `min.insync.replicas` is checked again when an acks=all append completes.
    MinIsrAgainAtCompletion,
    /// A Fetch of another leader epoch than the leader's is refused (KIP-320).
    EpochFenceOnFetch,
    /// A Fetch whose history differs from the leader's is told where they part (KIP-595).
    DivergenceCheck,
    /// What a leader knows of a follower is forgotten when that broker begins a new session (KIP-903).
    ResetFollowerAtNewSession,
    /// A follower joins the ISR only when it has reached the start of the leader's epoch (KAFKA-7128).
    ExpansionNeedsEpochStart,
    /// Waits for an acknowledgement end with the leadership that they began in.
    WaitsKeyedByEpoch,
    /// A replica that may have lost records does not lead.
    SuspectsDoNotLead,
    /// A follower asks for more only when everything it received is written (or durable).
    NextFetchWaitsForWritten,
    /// A log grows only where the checkpoint of high watermarks names nothing above its end.
    GrowAboveCheckpoint,
    /// A leader with a damaged range gives way to a replica in sync that has none.
    DamagedDoNotLead,
    /// A damaged range is fetched only from a leader whose history this log was seen to be a beginning of.
    RepairWhereLogsAgree,
}

/// Which rules hold; all of them by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    off: u64,
}

impl Rules {
    /// Whether the rule holds.
    pub const fn holds(self, rule: Rule) -> bool {
        self.off & (1 << rule as u16) == 0
    }

    /// The same rules without this one.
    #[cfg(any(test, feature = "planted-faults"))]
    #[must_use]
    pub const fn without(self, rule: Rule) -> Self {
        Self { off: self.off | (1 << rule as u16) }
    }
}
