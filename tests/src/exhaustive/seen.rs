//! What a search has come by.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Something without which a search proves little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A record was acknowledged.
    Acknowledged,
    /// A leadership began.
    Led,
    /// A log was cut.
    Cut,
    /// A replica left the ISR.
    LeftIsr,
    /// A replica joined it.
    JoinedIsr,
    /// A Fetch of an epoch that was over was refused.
    Fenced,
    /// A cut was refused, because it would have taken committed records.
    CutRefused,
}

impl Seen {
    const ALL: [Self; 7] = [
        Self::Acknowledged,
        Self::Led,
        Self::Cut,
        Self::LeftIsr,
        Self::JoinedIsr,
        Self::Fenced,
        Self::CutRefused,
    ];
}

/// How often each was seen, by all threads together.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(Arc<[AtomicU64; Seen::ALL.len()]>);

impl Counts {
    pub(super) fn count(&self, what: Seen) {
        for (known, count) in Seen::ALL.iter().zip(self.0.iter()) {
            if *known == what {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn all(&self) -> Vec<(Seen, u64)> {
        Seen::ALL.into_iter().zip(self.0.iter().map(|count| count.load(Ordering::Relaxed))).collect()
    }
}
