//! Which batches of transactions still count, and which markers still have something to say. Source: `CleanedTransactionMetadata`.
//!
//! Records of an aborted transaction go at once. A marker stays as long as a batch of its transaction was met in front of it, records or not;
//! in the next round, when none is, it has nothing left to end.

use std::collections::{BTreeMap, BTreeSet};

use crate::batch::BatchHeader;
use crate::index::AbortedTransaction;
use crate::units::{Offset, ProducerId};

/// What is met on the way through a log, from its first batch on.
#[derive(Clone, Debug)]
pub(crate) struct Transactions {
    /// By producer and marker.
    aborted: BTreeMap<(ProducerId, Offset), AbortedTransaction>,
    /// Producers of whom a batch of a transaction was met that has not ended yet.
    met: BTreeSet<ProducerId>,
}

impl Transactions {
    /// Nothing was met yet of a log with these aborted transactions.
    pub(crate) fn new(aborted: &[AbortedTransaction]) -> Self {
        let by_marker = |aborted: &AbortedTransaction| ((aborted.producer, aborted.marker), *aborted);
        Self { aborted: aborted.iter().map(by_marker).collect(), met: BTreeSet::new() }
    }

    /// Takes in a batch of records, and says whether they were aborted.
    pub(crate) fn batch(&mut self, header: &BatchHeader) -> bool {
        let Some(producer) = header.producer_id.filter(|_| header.attributes.is_transactional()) else {
            return false;
        };
        self.met.insert(producer);
        let behind = (producer, header.last_offset())..=(producer, Offset::MAX);
        let next = self.aborted.range(behind).next();
        next.is_some_and(|(_, aborted)| aborted.first <= header.base_offset)
    }

    /// Takes in a marker, and says whether it has nothing left to end.
    pub(crate) fn marker(&mut self, producer: Option<ProducerId>) -> bool {
        producer.is_some_and(|producer| !self.met.remove(&producer))
    }
}
