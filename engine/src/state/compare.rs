//! Compares what a snapshot says of producers with what the batches say. Decides nothing.

use super::Producers;
use super::producer::Producer;
use crate::units::{Offset, ProducerId};

/// Whether batches that a snapshot knew may be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    /// Not from `from` on.
    None,
    /// Compaction may have taken any.
    Any,
}

impl Producers {
    /// The first producer of whom this state, as a snapshot has it, says something that the state made of all batches from `from` on up to the
    /// same place contradicts. Producers that it does not name may have expired, if they have no transaction open.
    pub(crate) fn contradicted_by(
        &self,
        batches: &Self,
        from: Offset,
        removed: Removed,
    ) -> Option<ProducerId> {
        let differs = |(id, said): (&ProducerId, &Producer)| {
            let fits = match (batches.known.get(id), removed) {
                (Some(seen), Removed::None) => said.is_borne_out(seen, from),
                (Some(seen), Removed::Any) => !seen.is_newer_than(said),
                (None, Removed::None) => said.batches.back().is_none_or(|last| last.last < from),
                (None, Removed::Any) => true,
            };
            (!fits).then_some(*id)
        };
        let forgotten = |(id, seen): (&ProducerId, &Producer)| {
            (seen.transaction_first.is_some() && !self.known.contains_key(id)).then_some(*id)
        };
        self.known.iter().find_map(differs).or_else(|| batches.known.iter().find_map(forgotten))
    }
}

impl Producer {
    fn is_newer_than(&self, said: &Self) -> bool {
        let last = |producer: &Self| producer.batches.back().map(|batch| batch.last);
        last(self) > last(said) && self.epoch == said.epoch
    }

    /// Whether what was seen of the same producer from `from` on says the same.
    fn is_borne_out(&self, seen: &Self, from: Offset) -> bool {
        let place = |producer: &Self| {
            producer.batches.back().map(|b| (b.first_sequence, b.last_sequence, b.first, b.last))
        };
        let is_below = self.batches.back().is_some_and(|last| last.last < from) && seen.batches.is_empty();
        let same_transaction = self.transaction_first == seen.transaction_first
            || self.transaction_first.is_some_and(|first| first < from);
        self.epoch == seen.epoch
            && (is_below || place(self) == place(seen))
            && self.timestamp == seen.timestamp
            && (seen.coordinator_epoch.is_none() || self.coordinator_epoch == seen.coordinator_epoch)
            && same_transaction
    }
}
