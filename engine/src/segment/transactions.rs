//! What is known of the transactions of a segment: which were aborted by markers in it, as far as its batches were looked at.
//!
//! Kafka's `.txnindex` says the same, and has no checksum; one that is missing looks like one without entries. So it is not asked, and written
//! by what is known here. What this is made from is the snapshot of producers in front of the segment, which guards itself, and the headers of the batches.

use std::collections::BTreeMap;
use std::sync::{PoisonError, TryLockError};

use crate::index::{AbortedTransaction, aborted_in};
use crate::state::{MarkerKind, ProducerBatch, Producers, TransactionMarker};
use crate::sync::{Mutex, MutexGuard};
use crate::units::{Offset, ProducerId};

/// The transactions that are open at one place, by their producers, and where they began.
pub(crate) type Open = BTreeMap<ProducerId, Offset>;

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transactions {
    /// Everything in front of it was looked at.
    pub(crate) position: u64,
    /// The offset there.
    pub(crate) behind: Offset,
    open: Open,
    aborted: Vec<AbortedTransaction>,
    doubts: Vec<Doubt>,
}

/// Damage that was passed over while transactions were open: it may hide how they ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Doubt {
    position: u64,
    /// Where the first of them began.
    first: Offset,
    /// The end of what was seen of them.
    behind: Offset,
}

impl Transactions {
    /// Nothing of a segment was looked at yet, in front of which these are open.
    pub(crate) fn begin(base: Offset, open: Open) -> Self {
        Self { position: 0, behind: base, open, ..Self::default() }
    }

    /// The transactions that a snapshot of producers has open.
    pub(crate) fn open_in(producers: &Producers) -> Open {
        let open = producers.summaries().filter_map(|known| Some((known.id, known.transaction_first?)));
        open.collect()
    }

    /// What is open behind what was looked at.
    pub(crate) const fn open(&self) -> &Open {
        &self.open
    }

    pub(crate) fn batch(&mut self, batch: &ProducerBatch, base: Offset) {
        if batch.transactional {
            self.open.entry(batch.producer).or_insert(base);
        }
    }

    pub(crate) fn marker(&mut self, marker: &TransactionMarker, offset: Offset) {
        let Some(first) = self.open.remove(&marker.producer) else { return };
        if marker.kind == MarkerKind::Abort {
            let behind = offset.next().unwrap_or(Offset::MAX);
            let last_stable = self.open.values().min().copied().unwrap_or(behind);
            self.aborted.push(AbortedTransaction {
                producer: marker.producer,
                first,
                marker: offset,
                last_stable,
            });
        }
    }

    /// Known damage lies behind what was looked at.
    pub(crate) fn passed_damage(&mut self) {
        let Some(first) = self.open.values().min().copied() else { return };
        let doubt = Doubt { position: self.position, first, behind: self.behind };
        if self.doubts.last() != Some(&doubt) {
            self.doubts.push(doubt);
        }
    }

    /// Where damage lies that may hide how a transaction ended that has records from `from` on and below `end`.
    pub(crate) fn doubt_in(&self, from: Offset, end: Offset) -> Option<u64> {
        let here = |doubt: &&Doubt| doubt.first < end && from < doubt.behind;
        self.doubts.iter().find(here).map(|doubt| doubt.position)
    }

    /// Whether no batch behind what was looked at can end a transaction that has records below `end`.
    pub(crate) fn has_all_below(&self, end: Offset) -> bool {
        self.behind >= end && self.open.values().all(|first| *first >= end)
    }

    /// All of what was looked at, in the order of their markers.
    pub(crate) fn aborted(&self) -> &[AbortedTransaction] {
        &self.aborted
    }

    /// Those with records from `from` on and below `end`.
    pub(crate) fn aborted_in(&self, from: Offset, end: Offset) -> Vec<AbortedTransaction> {
        aborted_in(&self.aborted, from, end).transactions
    }
}

/// Where a segment keeps it; nothing before somebody asks.
#[derive(Debug, Default)]
pub(super) struct Slot(Mutex<Option<Transactions>>);

impl Slot {
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Transactions>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Option<Transactions>>> {
        match self.0.try_lock() {
            Ok(known) => Some(known),
            Err(TryLockError::Poisoned(left)) => Some(left.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The file ends at `size` now.
    pub(super) fn cut(&self, size: u64) {
        let mut known = self.lock();
        if known.as_ref().is_some_and(|known| known.position > size) {
            *known = None;
        }
    }
}
