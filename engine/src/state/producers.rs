//! All idempotent producers of one log (Kafka's `ProducerStateManager`).
//!
//! Pure. It does not truncate: after a truncation the state is made again from the newest snapshot that is left and the batches
//! behind it. It forgets by the time of the append, not by the time that records claim, so that a producer of old records
//! keeps its state while it is active; and by the monotonic clock, so that a jump of the wall clock expires nobody.

use std::collections::BTreeMap;
use std::time::Duration;

use super::producer::{Producer, ProducerBatch, ProducerRefusal, Remembered, TransactionMarker, Verdict};
use crate::units::{Monotonic, Offset, OffsetRange, ProducerId, Timestamp};

/// The bounds of a log's [`Producers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProducersConfig {
    /// How many producers are remembered. Beyond it a leader refuses new ones, and a replica forgets those that have been idle
    /// for longest.
    pub producers_max: usize,
    /// How long an idle producer is remembered (`producer.id.expiration.ms`).
    pub expiration: Duration,
}

impl Default for ProducersConfig {
    fn default() -> Self {
        Self { producers_max: 100_000, expiration: Duration::from_secs(24 * 60 * 60) }
    }
}

/// A transaction that a marker has just ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedTransaction {
    /// The offset of its first record.
    pub first: Offset,
    /// The offset of the marker.
    pub marker: Offset,
    /// The first offset of the earliest transaction that is still open, else the one behind the marker: what the index of
    /// aborted transactions records as the last stable offset.
    pub last_stable: Offset,
}

/// The state of all producers of one log.
#[derive(Clone, Debug)]
pub struct Producers {
    pub(super) config: ProducersConfig,
    pub(super) known: BTreeMap<ProducerId, Producer>,
    /// First offsets of the open transactions.
    pub(super) open: BTreeMap<Offset, ProducerId>,
    /// First offset and marker of ended transactions whose marker may still lie above the caller's ceiling.
    ended: BTreeMap<Offset, Offset>,
    /// State from before this offset was lost to damage.
    lost_until: Option<Offset>,
}

impl Producers {
    /// No producer is known yet.
    pub fn new(config: ProducersConfig) -> Self {
        Self {
            config,
            known: BTreeMap::new(),
            open: BTreeMap::new(),
            ended: BTreeMap::new(),
            lost_until: None,
        }
    }

    /// How many producers are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no producer is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// What a leader has to do with this batch, which would be the next one in the log.
    ///
    /// An unknown producer may begin with any sequence, because its state may have expired or been retained away, unless state
    /// was lost to damage ([`Producers::note_lost`]).
    pub fn check(&self, batch: &ProducerBatch) -> Verdict {
        if let Some(known) = self.known.get(&batch.producer) {
            return known.check(batch);
        }
        let given = batch.first_sequence;
        if self.lost_until.is_some() && given.value() != 0 {
            return Verdict::Refuse(ProducerRefusal::StateLost { given });
        }
        if self.known.len() >= self.config.producers_max {
            return Verdict::Refuse(ProducerRefusal::TooManyProducers { limit: self.config.producers_max });
        }
        Verdict::Append
    }

    /// Whether a leader may append this marker.
    pub fn check_marker(&self, marker: &TransactionMarker) -> Result<(), ProducerRefusal> {
        self.known.get(&marker.producer).map_or(Ok(()), |known| known.check_marker(marker))
    }

    /// Takes in a batch that was appended, replicated or found by recovery. Nothing is checked: what is in the log counts, also
    /// an older epoch or a gap.
    ///
    /// `offsets` are those of the whole batch, `timestamp` its greatest, `appended` the moment of the append or, for a batch found by
    /// recovery, of the recovery.
    pub fn note(
        &mut self,
        batch: &ProducerBatch,
        offsets: OffsetRange,
        timestamp: Timestamp,
        appended: Monotonic,
    ) {
        let Some(last) = offsets.end().checked_add(-1).filter(|_| !offsets.is_empty()) else { return };
        let remembered = Remembered {
            first_sequence: batch.first_sequence,
            last_sequence: batch.last_sequence,
            first: offsets.start(),
            last,
            timestamp,
        };
        self.make_room_for(batch.producer);
        let producer = self.known.entry(batch.producer).or_insert_with(|| Producer::new(timestamp, appended));
        let open_before = producer.transaction_first;
        producer.note(batch, remembered, appended);
        if open_before.is_none() && batch.transactional {
            self.open.insert(offsets.start(), batch.producer);
        }
    }

    /// Takes over, from a state made of batches that came before, the windows of the producers of which only the last batch is known, as
    /// after a snapshot: of those whose last batch there is the same, in the same epoch.
    pub fn recall(&mut self, earlier: &Self) {
        for (id, producer) in &mut self.known {
            if let Some(earlier) = earlier.known.get(id) {
                producer.recall(earlier);
            }
        }
    }

    /// Takes in a marker that was appended, replicated or found by recovery. Gives the transaction it ended; none if none was open.
    pub fn note_marker(
        &mut self,
        marker: &TransactionMarker,
        offset: Offset,
        timestamp: Timestamp,
        appended: Monotonic,
    ) -> Option<ClosedTransaction> {
        self.make_room_for(marker.producer);
        let producer =
            self.known.entry(marker.producer).or_insert_with(|| Producer::new(timestamp, appended));
        let first = producer.note_marker(marker, timestamp, appended)?;
        self.open.remove(&first);
        self.ended.insert(first, offset);
        let behind = offset.next().unwrap_or(Offset::MAX);
        let last_stable = self.open.first_key_value().map_or(behind, |(first, _)| *first);
        Some(ClosedTransaction { first, marker: offset, last_stable })
    }

    /// The first offset of the earliest transaction that is open, or whose marker is not below `ceiling`: readers of committed
    /// records stop there. `None` if there is no such transaction.
    pub fn first_unstable(&self, ceiling: Offset) -> Option<Offset> {
        let open = self.open.first_key_value().map(|(first, _)| *first);
        let ended = self.ended.iter().find(|(_, marker)| **marker >= ceiling).map(|(first, _)| *first);
        match (open, ended) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Whether a transaction is open.
    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Forgets ended transactions whose marker lies below `ceiling`, which never goes back behind that again.
    pub fn settle_below(&mut self, ceiling: Offset) {
        self.ended.retain(|_, marker| *marker >= ceiling);
    }

    /// Forgets producers that are idle for longer than the expiration and have no transaction open. Gives how many.
    pub fn expire(&mut self, now: Monotonic) -> usize {
        let before = self.known.len();
        let expiration = self.config.expiration;
        self.known.retain(|_, producer| {
            producer.transaction_first.is_some() || now.since(producer.appended) < expiration
        });
        before - self.known.len()
    }

    /// Notes that batches below `until` could not be read because of damage, so that what is known may be incomplete.
    pub fn note_lost(&mut self, until: Offset) {
        self.lost_until = self.lost_until.max(Some(until));
    }

    /// Whether something that is not known was lost to damage. A snapshot of the rest would make that certain, so none is written.
    pub const fn lacks_something(&self) -> bool {
        self.lost_until.is_some()
    }

    /// Notes that the log now starts at `start`: what was lost below it no longer matters.
    pub fn note_start(&mut self, start: Offset) {
        self.lost_until = self.lost_until.filter(|until| *until > start);
    }

    /// A replica cannot refuse what its leader took, so at the bound the ones that are idle for longest go, a sixteenth at a
    /// time so that the search for them does not cost each append.
    fn make_room_for(&mut self, producer: ProducerId) {
        if self.known.len() < self.config.producers_max || self.known.contains_key(&producer) {
            return;
        }
        let mut idle: Vec<(Monotonic, ProducerId)> = self
            .known
            .iter()
            .filter(|(_, producer)| producer.transaction_first.is_none())
            .map(|(id, producer)| (producer.appended, *id))
            .collect();
        idle.sort_unstable();
        for (_, id) in idle.into_iter().take(self.config.producers_max / 16 + 1) {
            self.known.remove(&id);
        }
    }
}
