//! What becomes of a batch.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Full, KeyMap, Transactions};
use crate::batch::{
    BatchHeader, BatchView, BuildError, ControlRecord, DecompressLimits, RecordDamage, RecordView,
};
use crate::units::{Offset, ProducerEpoch, ProducerId, Timestamp};

/// What is in the log was let in before, by whatever ratio: only memory is bounded.
const LIMITS: DecompressLimits =
    DecompressLimits { output_bytes_max: 128 << 20, ratio_max: 1, ratio_free_bytes: 128 << 20 };

/// What is kept of a producer that is known, so that it is known after the round too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastOf {
    /// The batch with its last sequence ends at this offset.
    Batch(Offset),
    /// Nothing but a marker: those of this epoch.
    Marker(ProducerEpoch),
}

/// Where in its new segment a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The last of those that the segment replaces.
    Last,
    Any,
}

/// What a batch becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Survivor {
    Gone,
    AsItIs,
    Rewritten(Bytes),
}

/// Why nobody can say what becomes of a batch. Its bytes are as they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unclear {
    #[error(transparent)]
    Records(#[from] RecordDamage),
    #[error(transparent)]
    Rewriting(#[from] BuildError),
}

/// A round on its way through a log.
#[derive(Debug)]
pub(crate) struct Survivors {
    pub(crate) map: KeyMap,
    /// The map knows everything below that is dirty, and nothing from here on.
    pub(crate) mapped_to: Offset,
    pub(crate) transactions: Transactions,
    pub(crate) producers: BTreeMap<ProducerId, LastOf>,
    pub(crate) now: Timestamp,
    pub(crate) delete_retention_ms: i64,
    /// No batch may become larger than this by being written anew.
    pub(crate) batch_bytes_max: usize,
    /// The last marker that says nothing any more behind the round.
    pub(crate) last_marker_gone: Option<Offset>,
    /// For records that were compressed.
    pub(crate) scratch: Vec<u8>,
    pub(crate) records_kept: u64,
    pub(crate) records_gone: u64,
}

/// Adds the keys of a batch from `from` on to the map; the offset of the first record that has no room in it, if there is one.
pub(crate) fn map_batch(
    map: &mut KeyMap,
    transactions: &mut Transactions,
    batch: &BatchView<'_>,
    from: Offset,
    scratch: &mut Vec<u8>,
) -> Result<Option<Offset>, RecordDamage> {
    let header = batch.header();
    if header.attributes.is_control() {
        says_nothing(transactions, batch)?;
        return Ok(None);
    }
    if transactions.batch(header) {
        return Ok(None);
    }
    for record in batch.records(&LIMITS, scratch)? {
        let record = record?;
        let Some(key) = record.key.filter(|_| record.offset >= from) else { continue };
        if map.put(key, record.offset) == Err(Full) {
            return Ok(Some(record.offset));
        }
    }
    Ok(None)
}

/// Takes in a control batch, and says whether nothing is left for it to say. What is no marker always counts.
fn says_nothing(transactions: &mut Transactions, batch: &BatchView<'_>) -> Result<bool, RecordDamage> {
    let mut scratch = Vec::new();
    let Some(record) = batch.records(&LIMITS, &mut scratch)?.next() else {
        return Ok(true);
    };
    let is_marker = matches!(ControlRecord::parse(&record?), Ok(ControlRecord::Marker { .. }));
    Ok(is_marker && transactions.marker(batch.header().producer_id))
}

impl Survivors {
    /// What this batch, the next on the way, becomes.
    pub(crate) fn next(&mut self, batch: &BatchView<'_>, place: Place) -> Result<Survivor, Unclear> {
        let header = batch.header();
        let (is_control, horizon) = (header.attributes.is_control(), header.delete_horizon());
        let may_go = if is_control {
            says_nothing(&mut self.transactions, batch)?
        } else {
            self.transactions.batch(header)
        };
        let is_past = horizon.is_some_and(|horizon| horizon <= self.now);
        let goes = may_go && (is_past || !is_control);
        let mut scratch = std::mem::take(&mut self.scratch);
        let survivor = if goes {
            if is_control {
                self.last_marker_gone = Some(header.base_offset);
            }
            self.records_gone += u64::from(header.record_count.unsigned_abs());
            Ok(self.emptied(header, place))
        } else {
            self.filtered(batch, place, may_go && is_control, &mut scratch)
        };
        self.scratch = scratch;
        survivor
    }

    fn filtered(
        &mut self,
        batch: &BatchView<'_>,
        place: Place,
        is_spent_marker: bool,
        scratch: &mut Vec<u8>,
    ) -> Result<Survivor, Unclear> {
        let header = batch.header();
        let is_control = header.attributes.is_control();
        let horizon = header.delete_horizon();
        let mut kept: Vec<RecordView<'_>> = Vec::new();
        let mut total = 0_u64;
        for record in batch.records(&LIMITS, scratch)? {
            let record = record?;
            total += 1;
            if is_control || self.stays(&record, horizon) {
                kept.push(record);
            }
        }
        let gone = total - kept.len() as u64;
        if kept.is_empty() {
            self.records_gone += gone;
            return Ok(self.emptied(header, place));
        }
        let wants_horizon = is_spent_marker || kept.iter().any(|record| record.value.is_none());
        let given = if wants_horizon && horizon.is_none() { Some(self.horizon()) } else { None };
        let with_given = given.is_some().then_some(given);
        let without = (gone > 0).then_some(horizon);
        for horizon in with_given.into_iter().chain(without) {
            match header.with_records(&kept, horizon) {
                Ok(rewritten) if rewritten.len() <= self.batch_bytes_max => {
                    self.records_kept += kept.len() as u64;
                    self.records_gone += gone;
                    return Ok(Survivor::Rewritten(rewritten));
                }
                Ok(_) | Err(BuildError::TooLarge { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // Nothing of it goes, or nobody could read what it would become: what newer records hide may stay.
        self.records_kept += total;
        Ok(Survivor::AsItIs)
    }

    fn stays(&self, record: &RecordView<'_>, horizon: Option<Timestamp>) -> bool {
        if record.offset >= self.mapped_to {
            return true;
        }
        let Some(key) = record.key else { return false };
        let is_newest = self.map.newest(key).is_none_or(|newest| record.offset >= newest);
        is_newest && (record.value.is_some() || horizon.is_none_or(|horizon| self.now < horizon))
    }

    fn horizon(&self) -> Timestamp {
        Timestamp::from_millis(self.now.millis().saturating_add(self.delete_retention_ms))
    }

    /// What stays of a batch that has no record left.
    fn emptied(&self, header: &BatchHeader, place: Place) -> Survivor {
        let is_last_of_producer =
            header.producer_id.and_then(|id| self.producers.get(&id)).is_some_and(|last| match last {
                LastOf::Batch(last) => header.last_offset() == *last,
                LastOf::Marker(epoch) => {
                    header.attributes.is_control() && header.producer_epoch == Some(*epoch)
                }
            });
        if is_last_of_producer || place == Place::Last {
            Survivor::Rewritten(header.without_records())
        } else {
            Survivor::Gone
        }
    }
}
