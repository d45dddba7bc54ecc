//! One idempotent producer: its epoch, its last five batches, its open transaction (KIP-98; Kafka's `ProducerStateEntry` and
//! `ProducerAppendInfo`).
//!
//! Pure; it knows nothing of other producers.

use std::collections::VecDeque;

use crate::batch::BatchHeader;
use crate::units::{Monotonic, Offset, OffsetRange, ProducerEpoch, ProducerId, Sequence, Timestamp};

/// How many batches of a producer are remembered, so that a repetition of one of them is recognized.
pub(super) const WINDOW: usize = 5;

/// What a data batch of an idempotent producer says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerBatch {
    /// Whose batch it is.
    pub producer: ProducerId,
    /// In which generation of that id.
    pub epoch: ProducerEpoch,
    /// The sequence of its first record.
    pub first_sequence: Sequence,
    /// The sequence of its last record.
    pub last_sequence: Sequence,
    /// Whether it belongs to a transaction.
    pub transactional: bool,
}

impl ProducerBatch {
    /// What the header of a data batch says of its producer; `None` for control batches and for those of producers that are
    /// not idempotent.
    #[inline]
    pub fn from_header(header: &BatchHeader) -> Option<Self> {
        if header.attributes.is_control() {
            return None;
        }
        Some(Self {
            producer: header.producer_id?,
            epoch: header.producer_epoch?,
            first_sequence: header.base_sequence?,
            last_sequence: header.last_sequence()?,
            transactional: header.attributes.is_transactional(),
        })
    }
}

/// The control batch that ends a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionMarker {
    /// Whose transaction ends.
    pub producer: ProducerId,
    /// The producer's epoch; with transaction version 2 one above that of the transaction's batches.
    pub epoch: ProducerEpoch,
    /// The epoch of the transaction coordinator that decided, at least 0.
    pub coordinator_epoch: i32,
    /// What it decided.
    pub kind: MarkerKind,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkerKind {
    /// Its records do not count.
    Abort,
    /// Its records count.
    Commit,
}

/// What a leader does with a batch of an idempotent producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the next one: append it.
    Append,
    /// It is in the log already: answer as then and append nothing.
    Duplicate {
        /// Where it is.
        offsets: OffsetRange,
        /// Its greatest timestamp as it is in the log.
        timestamp: Timestamp,
    },
    /// It must not be appended.
    Refuse(ProducerRefusal),
}

/// Why a leader does not append a batch of an idempotent producer. Each refuses the call only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProducerRefusal {
    /// A zombie: a newer generation of the id has written (Kafka's `INVALID_PRODUCER_EPOCH`).
    #[error("the epoch {} of the producer is older than {}", .given.value(), .known.value())]
    InvalidEpoch {
        /// The batch's epoch.
        given: ProducerEpoch,
        /// The newest epoch that wrote here.
        known: ProducerEpoch,
    },
    /// Neither the next batch nor one of the last five (`OUT_OF_ORDER_SEQUENCE_NUMBER`).
    #[error("sequence {} where {} is the next", .given.value(), .expected.value())]
    OutOfOrder {
        /// The batch's first sequence.
        given: Sequence,
        /// The sequence that would be accepted.
        expected: Sequence,
    },
    /// The producer's state was lost to damage, and its sequence is not the first one, so that nobody can say whether the batch
    /// is a repetition (`UNKNOWN_PRODUCER_ID`).
    #[error("nothing is known of the producer, because its state was lost to damage; sequence {} cannot be judged", .given.value())]
    StateLost {
        /// The batch's first sequence.
        given: Sequence,
    },
    /// A batch outside a transaction while the producer has one open (`INVALID_TXN_STATE`).
    #[error(
        "the producer has a transaction open, from offset {first} on; a batch outside it cannot be appended"
    )]
    TransactionOpen {
        /// Where the open transaction begins.
        first: Offset,
    },
    /// The table of producers is full; room comes with the expiry of idle ones.
    #[error("{limit} producers are known already; the oldest have to expire first")]
    TooManyProducers {
        /// The limit, [`super::ProducersConfig::producers_max`].
        limit: usize,
    },
    /// A marker of a coordinator that was succeeded by another (`TRANSACTION_COORDINATOR_FENCED`).
    #[error("the coordinator's epoch {given} is older than {known}")]
    CoordinatorFenced {
        /// The marker's coordinator epoch.
        given: i32,
        /// The newest known one.
        known: i32,
    },
}

/// One remembered batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Remembered {
    pub(super) first_sequence: Sequence,
    pub(super) last_sequence: Sequence,
    pub(super) first: Offset,
    pub(super) last: Offset,
    pub(super) timestamp: Timestamp,
}

/// All that is known of one producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Producer {
    /// `None` only if a snapshot says so; then any sequence is accepted.
    pub(super) epoch: Option<ProducerEpoch>,
    /// Oldest first, at most [`WINDOW`], all of the known epoch.
    pub(super) batches: VecDeque<Remembered>,
    pub(super) coordinator_epoch: Option<i32>,
    /// Of the last batch or marker, as records have it.
    pub(super) timestamp: Timestamp,
    /// When the last batch or marker was appended, for expiry.
    pub(super) appended: Monotonic,
    pub(super) transaction_first: Option<Offset>,
}

impl Producer {
    pub(super) fn new(timestamp: Timestamp, appended: Monotonic) -> Self {
        Self {
            epoch: None,
            batches: VecDeque::new(),
            coordinator_epoch: None,
            timestamp,
            appended,
            transaction_first: None,
        }
    }

    pub(super) fn check(&self, batch: &ProducerBatch) -> Verdict {
        if let Some(duplicate) = self.repetition_of(batch) {
            return duplicate;
        }
        if let Some(known) = self.epoch.filter(|known| batch.epoch < *known) {
            return Verdict::Refuse(ProducerRefusal::InvalidEpoch { given: batch.epoch, known });
        }
        if let Some(expected) = self.next_sequence(batch.epoch).filter(|next| *next != batch.first_sequence) {
            return Verdict::Refuse(ProducerRefusal::OutOfOrder { given: batch.first_sequence, expected });
        }
        match self.transaction_first {
            Some(first) if !batch.transactional => {
                Verdict::Refuse(ProducerRefusal::TransactionOpen { first })
            }
            _ => Verdict::Append,
        }
    }

    fn repetition_of(&self, batch: &ProducerBatch) -> Option<Verdict> {
        if self.epoch != Some(batch.epoch) {
            return None;
        }
        let same = self.batches.iter().find(|known| {
            known.first_sequence == batch.first_sequence && known.last_sequence == batch.last_sequence
        })?;
        let offsets = OffsetRange::new(same.first, same.last.next()?)?;
        Some(Verdict::Duplicate { offsets, timestamp: same.timestamp })
    }

    /// The only sequence that a batch of this epoch may begin with, or `None` if any may.
    fn next_sequence(&self, epoch: ProducerEpoch) -> Option<Sequence> {
        let known = self.epoch?;
        let last = if epoch == known { self.batches.back() } else { None };
        Some(last.map_or(Sequence::ZERO, |batch| batch.last_sequence.wrapping_add(1)))
    }

    pub(super) fn check_marker(&self, marker: &TransactionMarker) -> Result<(), ProducerRefusal> {
        if let Some(known) = self.epoch.filter(|known| marker.epoch < *known) {
            return Err(ProducerRefusal::InvalidEpoch { given: marker.epoch, known });
        }
        match self.coordinator_epoch.filter(|known| marker.coordinator_epoch < *known) {
            Some(known) => Err(ProducerRefusal::CoordinatorFenced { given: marker.coordinator_epoch, known }),
            None => Ok(()),
        }
    }

    pub(super) fn note(&mut self, batch: &ProducerBatch, remembered: Remembered, appended: Monotonic) {
        self.enter_epoch(batch.epoch);
        if self.batches.len() == WINDOW {
            self.batches.pop_front();
        }
        self.batches.push_back(remembered);
        self.timestamp = remembered.timestamp;
        self.appended = appended;
        if batch.transactional {
            self.transaction_first.get_or_insert(remembered.first);
        }
    }

    /// Takes over the earlier batches of a window that ends with the only one that is known here.
    pub(super) fn recall(&mut self, earlier: &Self) {
        let place = |batch: &Remembered| (batch.first_sequence, batch.last_sequence, batch.first, batch.last);
        let same_last =
            self.batches.len() == 1 && self.batches.back().map(place) == earlier.batches.back().map(place);
        if same_last && self.epoch == earlier.epoch {
            self.batches.clone_from(&earlier.batches);
        }
    }

    /// Takes a marker in; gives the beginning of the transaction that it ended.
    pub(super) fn note_marker(
        &mut self,
        marker: &TransactionMarker,
        timestamp: Timestamp,
        appended: Monotonic,
    ) -> Option<Offset> {
        self.enter_epoch(marker.epoch);
        self.coordinator_epoch = Some(marker.coordinator_epoch);
        self.timestamp = timestamp;
        self.appended = appended;
        self.transaction_first.take()
    }

    /// Another epoch, be it older (replicas take what their leader took), makes the remembered batches worthless.
    fn enter_epoch(&mut self, epoch: ProducerEpoch) {
        if self.epoch != Some(epoch) {
            self.epoch = Some(epoch);
            self.batches.clear();
        }
    }
}
