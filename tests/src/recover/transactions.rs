//! Transactions: which are open is what the batches and the markers in the log say, whatever the log has been through.

use std::collections::BTreeMap;

use highwater_engine::batch::{
    BatchView, ControlRecord, DecompressLimits, ReplicatedBatches, TransactionEnd,
};
use highwater_engine::log::{Log, Read};
use highwater_engine::store::{Job, JobDone, JobKind, Store};
use highwater_engine::units::Offset;

use super::batches::{leader_epoch, marker, offset};
use super::doors::{Door, asked, called, done, told};
use super::model::{Model, Sent};
use super::trial::{Open, Trial, Verdict};

/// Producers from this one on send all their batches in transactions.
pub(super) const TRANSACTIONAL: i64 = 100;

impl Sent {
    /// Whether the batch belongs to a transaction.
    pub const fn is_transactional(self) -> bool {
        self.id >= TRANSACTIONAL
    }
}

impl Model {
    /// The first offset of the earliest transaction that is not decided below `ceiling`, by a walk over all batches.
    pub fn first_unstable(&self, ceiling: i64) -> Option<i64> {
        let mut open: BTreeMap<i64, i64> = BTreeMap::new();
        let mut first_ended: Option<i64> = None;
        for batch in &self.batches {
            if let Some(sent) = batch.sent.filter(|sent| sent.is_transactional()) {
                open.entry(sent.id).or_insert(batch.base);
            }
            let ended = batch.ends.and_then(|id| open.remove(&id));
            if let Some(first) = ended.filter(|_| batch.base >= ceiling) {
                first_ended = first_ended.into_iter().chain([first]).min();
            }
        }
        open.into_values().chain(first_ended).min()
    }

    /// Whether everything is there that says which transactions are open and which had ended above `ceiling`. What lies below the start may be
    /// remembered or forgotten, and of what had ended before the log was opened nobody asks any more.
    fn knows_transactions(&self, ceiling: i64) -> bool {
        let below = self.batches.iter().take_while(|batch| batch.base < self.start_high.max(self.start));
        ceiling >= self.remembered_from.max(self.settled) && !below.into_iter().any(is_of_a_transaction)
    }
}

/// Which transaction is open, against a walk over all batches.
pub(super) fn check_unstable(log: &Log, model: &Model, ceiling: i64) -> Result<(), String> {
    let found = told(Door::LogFirstUnstable, log.first_unstable(offset(ceiling)));
    let found = found.map(Offset::value);
    let expected = model.first_unstable(ceiling);
    if found == expected || !model.knows_transactions(ceiling) {
        return Ok(());
    }
    Err(format!("the first offset that is not decided below {ceiling} is {expected:?}, not {found:?}"))
}

/// The high watermark has come there. What was decided below is forgotten, and nothing else.
pub(super) fn settle_below(log: &Log, model: &mut Model, high_watermark: i64) -> Verdict {
    log.settle_below(offset(high_watermark));
    called(Door::LogSettleBelow);
    model.settled = model.settled.max(high_watermark.min(model.end));
    let left = log.first_unstable(Offset::ZERO).map(Offset::value);
    let expected = model.first_unstable(model.settled);
    if left == expected || !model.knows_transactions(model.settled) {
        return Ok(());
    }
    Err(format!("what is not decided below {} begins at {expected:?}, and {left:?} is left", model.settled))
}

/// An aborted transaction: its producer, its first offset, its marker.
type Aborted = (i64, i64, i64);

impl Model {
    /// The aborted transactions that have records from `from` on and below `end`.
    fn aborted(&self, from: i64, end: i64) -> Vec<Aborted> {
        let (mut open, mut aborted) = (BTreeMap::new(), Vec::new());
        for batch in &self.batches {
            if let Some(sent) = batch.sent.filter(|sent| sent.is_transactional()) {
                open.entry(sent.id).or_insert(batch.base);
            }
            if let Some((id, first)) = batch.ends.and_then(|id| Some((id, open.remove(&id)?)))
                && is_abort(&batch.bytes)
                && batch.base >= from
                && first < end
            {
                aborted.push((id, first, batch.base));
            }
        }
        aborted
    }
}

fn is_abort(marker: &[u8]) -> bool {
    let Ok(view) = BatchView::parse(marker) else { return false };
    let mut scratch = Vec::new();
    let records = view.records(&DecompressLimits::default(), &mut scratch);
    let record = records.ok().and_then(|mut records| records.next()?.ok());
    let said = record.and_then(|record| ControlRecord::parse(&record).ok());
    matches!(said, Some(ControlRecord::Marker { end: TransactionEnd::Abort, .. }))
}

/// A read of committed records gives what any read gives below the last stable offset, and says which transactions were aborted.
pub(super) fn check_committed(
    store: &Store,
    log: &Log,
    model: &Model,
    (from, ceiling): (i64, i64),
) -> Verdict {
    let ceiling = ceiling.min(log.written().value());
    let stable = log.first_unstable(offset(ceiling)).map_or(ceiling, |first| first.value().min(ceiling));
    if from > stable || from < log.start().value() || model.damaged.is_some() {
        return Ok(());
    }
    let read = log.read_committed(offset(from), offset(stable), 2_000, true);
    let mut read = asked(Door::LogReadCommitted, read).map_err(|error| error.to_string())?;
    if let Read::Cold(wanted) = read {
        let read_now = done(JobKind::ColdRead, Job::ColdRead(wanted).run(store));
        let JobDone::Read { result, .. } = read_now else { panic!("a cold read gave {read_now:?}") };
        read = result.map_err(|error| error.to_string())?;
    }
    let Read::Records(records) = read else { return Ok(()) };
    let below = model.batches.iter().take_while(|batch| batch.base < model.start_high.max(model.start));
    if below.into_iter().any(is_of_a_transaction) {
        // What is deleted may be known or not.
        return Ok(());
    }
    let said = records.aborted.iter();
    let said: Vec<Aborted> =
        said.map(|one| (one.producer.value(), one.first.value(), one.marker.value())).collect();
    let expected = model.aborted(from.max(records.first.value()), records.end.value());
    if said == expected {
        return Ok(());
    }
    Err(format!("of {from}..{} {said:?} are told as aborted, and {expected:?} were", records.end))
}

/// Whether a batch belongs to a transaction, or ends one.
pub(super) fn is_of_a_transaction(batch: &super::Batch) -> bool {
    batch.ends.is_some() || batch.sent.is_some_and(Sent::is_transactional)
}

impl Trial {
    /// A coordinator ends a producer's transaction, if it has one open.
    pub(super) fn end_transaction(&mut self, id: i64, end: TransactionEnd) -> Verdict {
        let Some(Open { log, .. }) = &self.open else { return Ok(()) };
        if self.model.next_sequence(id).is_none_or(|next| next == 0) {
            // A producer that nobody has heard of would be known by its marker, and what is deleted may be known or not.
            return Ok(());
        }
        let batch = marker(end, id, self.now_ms, self.model.end, self.model.epoch);
        let set = ReplicatedBatches::check(batch.bytes.clone(), leader_epoch(self.model.epoch));
        let set = set.map_err(|error| format!("a stamped marker is refused: {error}"))?;
        self.model.noted = self.model.noted.max(batch.end);
        match asked(Door::LogAppendReplicated, log.append_replicated(&set, self.now())) {
            Ok(appended) if appended.offsets.end().value() == batch.end => {
                self.hold(appended.ticket);
                self.model.accept(batch);
                Ok(())
            }
            Ok(appended) => self.excuse(&format!("of a marker {:?} was appended", appended.offsets)),
            Err(error) => self.excuse(&format!("a marker was refused: {error}")),
        }
    }
}
