//! What a snapshot has of each producer, to be shown. Decides nothing.

use super::Producers;
use crate::units::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

/// One producer as a snapshot has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProducerSummary {
    /// Whose it is.
    pub id: ProducerId,
    /// Its epoch.
    pub epoch: Option<ProducerEpoch>,
    /// First and last sequence, first and last offset of its last batch; `None` if only a marker is known.
    pub last_batch: Option<(Sequence, Sequence, Offset, Offset)>,
    /// The greatest timestamp of its last batch or marker.
    pub timestamp: Timestamp,
    /// The epoch of the transaction coordinator, if it ever ended a transaction.
    pub coordinator_epoch: Option<i32>,
    /// Where its open transaction begins.
    pub transaction_first: Option<Offset>,
}

impl Producers {
    /// What is known of each producer, by ascending id.
    pub fn summaries(&self) -> impl Iterator<Item = ProducerSummary> {
        self.known.iter().map(|(id, producer)| ProducerSummary {
            id: *id,
            epoch: producer.epoch,
            last_batch: producer.batches.back().map(|b| (b.first_sequence, b.last_sequence, b.first, b.last)),
            timestamp: producer.timestamp,
            coordinator_epoch: producer.coordinator_epoch,
            transaction_first: producer.transaction_first,
        })
    }
}
