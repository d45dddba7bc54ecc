//! Reads for those who want committed records alone (`read_committed`, KIP-98): the batches as they are, and with them which transactions with
//! records among them were aborted, so that the reader leaves those out.
//!
//! The caller passes the ceiling, as in every read: the last stable offset, which is [`super::Log::first_unstable`] or the ceiling itself.
//! What is aborted is found by the headers of the batches, once for each segment, and from the snapshot of producers in front of it. Where
//! that takes more than a little reading it belongs to a job.

use std::io;
use std::sync::Arc;

use super::fetch::{Source, damaged};
use super::inner::{Inner, View};
use super::noting::transaction_marker;
use super::producers::read_snapshot;
use super::read::{ColdRead, Isolation, Read};
use super::{ReadError, Records};
use crate::batch::BatchView;
use crate::index::AbortedTransaction;
use crate::segment::{
    AtDamage, FileKind, OpenTransactions, Segment, Transactions, Walk, WalkError, file_path,
};
use crate::state::{ProducerBatch, Producers};
use crate::units::{Monotonic, Offset};

/// So many bytes are looked through at once; more are left to a job.
const AT_ONCE_BYTES: u64 = 256 << 10;

/// How much somebody is ready to look through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// What is short, and nothing that another is about to look through.
    AtOnce,
    /// So many bytes of a segment; whoever comes next goes on there.
    Piece(u64),
    /// All of it.
    Whole,
}

impl Effort {
    const fn of(source: Source<'_>) -> Self {
        match source {
            Source::PageCache => Self::AtOnce,
            Source::Device { .. } => Self::Whole,
        }
    }
}

impl Inner {
    /// Adds to what was read which transactions were aborted, if that was asked for.
    pub(super) fn with_aborted(
        &self,
        view: &View,
        asked: &ColdRead,
        read: Read,
        source: Source<'_>,
    ) -> Result<Read, ReadError> {
        match (asked.isolation, read) {
            (Isolation::Committed, Read::Records(records)) => {
                let aborted = self.aborted(view, asked.from.max(records.first), records.end, source)?;
                Ok(match aborted {
                    Some(aborted) => Read::Records(Records { aborted, ..records }),
                    None => Read::Cold(*asked),
                })
            }
            (_, read) => Ok(read),
        }
    }

    /// The aborted transactions with records from `from` on and below `end`; `None` if that takes a job.
    fn aborted(
        &self,
        view: &View,
        from: Offset,
        end: Offset,
        source: Source<'_>,
    ) -> Result<Option<Vec<AbortedTransaction>>, ReadError> {
        let mut aborted = Vec::new();
        for number in view.floor(from)..view.segments.len() {
            let Some(segment) = view.segments.get(number) else { break };
            let known = self.look_through(view, number, end, Effort::of(source));
            let Some(known) = known.map_err(|error| damaged(segment, error))? else { return Ok(None) };
            if let Some(position) = known.doubt_in(from, end) {
                return Err(damaged(segment, WalkError::Damaged(position)));
            }
            aborted.extend(known.aborted_in(from, end));
            if known.has_all_below(end) {
                break;
            }
        }
        Ok(Some(aborted))
    }

    /// The aborted transactions with records from `from` on and below `end`, in the order of their markers. Blocks.
    pub(crate) fn aborted_between(
        &self,
        from: Offset,
        end: Offset,
        source: Source<'_>,
    ) -> Result<Vec<AbortedTransaction>, ReadError> {
        let aborted = self.aborted(&self.view(), from, end, source)?;
        Ok(aborted.unwrap_or_default())
    }

    /// Looks through a segment until nothing more in it can concern records below `end`, from where somebody has stopped.
    pub(super) fn look_through(
        &self,
        view: &View,
        number: usize,
        end: Offset,
        effort: Effort,
    ) -> Result<Option<Transactions>, WalkError> {
        let Some(segment) = view.segments.get(number) else { return Ok(None) };
        let slot = match effort {
            Effort::AtOnce => segment.try_transactions(),
            Effort::Piece(_) | Effort::Whole => Some(segment.transactions()),
        };
        let Some(mut slot) = slot else { return Ok(None) };
        let mut known = match slot.take() {
            Some(known) => known,
            None => match self.open_before(view, number, effort)? {
                Some(open) => Transactions::begin(segment.base(), open),
                None => return Ok(None),
            },
        };
        // What is appended meanwhile is left to whoever comes next.
        let size = segment.size();
        let left = size.saturating_sub(known.position);
        let looked = match effort {
            Effort::AtOnce if left > AT_ONCE_BYTES => Ok(()),
            Effort::Piece(bytes) => {
                let until = size.min(known.position.saturating_add(bytes));
                walk(segment, &mut known, end, until)
            }
            Effort::AtOnce | Effort::Whole => walk(segment, &mut known, end, size),
        };
        let is_known = known.has_all_below(end) || known.position >= size;
        *slot = Some(known.clone());
        looked?;
        Ok(is_known.then_some(known))
    }

    /// The transactions that are open in front of a segment: as the snapshot there has it, or as the segment before leaves it.
    fn open_before(
        &self,
        view: &View,
        number: usize,
        effort: Effort,
    ) -> Result<Option<OpenTransactions>, WalkError> {
        let Some(segment) = view.segments.get(number) else { return Ok(None) };
        if let Some(producers) = self.snapshot_at(segment.base())? {
            return Ok(Some(Transactions::open_in(&producers)));
        }
        let Some(before) = number.checked_sub(1) else {
            // What began before the first segment nobody knows.
            return Ok(Some(OpenTransactions::new()));
        };
        let known = self.look_through(view, before, Offset::MAX, effort)?;
        Ok(known.map(|known| known.open().clone()))
    }

    pub(crate) fn snapshot_at(&self, base: Offset) -> io::Result<Option<Producers>> {
        let path = file_path(&self.directory, base, FileKind::Snapshot);
        match read_snapshot(self.shared.disk.as_ref(), &path) {
            Ok(bytes) => {
                let limits = self.shared.limits.producers;
                Ok(Producers::decode_snapshot(&bytes, limits, Monotonic::default()).ok())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if crate::disk::is_bad_medium(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Shows the batches from where it has stopped, until nothing behind can concern records below `end`, or those that begin below `until`. What
/// is known to be damaged is passed over, with doubts about what is open there. Of markers the CRC is checked, because one that cannot be read
/// would leave aborted records standing.
fn walk(segment: &Arc<Segment>, known: &mut Transactions, end: Offset, until: u64) -> Result<(), WalkError> {
    let mut walk = Walk::new(segment, known.position, AtDamage::PassOver)?;
    while !known.has_all_below(end) && known.position < until {
        let next = walk.next()?;
        if walk.has_passed_damage() {
            known.passed_damage();
        }
        let Some((position, frame)) = next else {
            known.position = known.position.max(until);
            break;
        };
        if let Some(header) = walk.header(position) {
            if let Some(batch) = ProducerBatch::from_header(&header) {
                known.batch(&batch, header.base_offset);
            } else if header.attributes.is_control() || header.producer_id.is_some() {
                let bytes = walk.batch_bytes(position, frame.size)?;
                if BatchView::parse(&bytes).is_err() {
                    return Err(WalkError::Damaged(position));
                }
                if let Some(marker) = transaction_marker(&header, &bytes) {
                    known.marker(&marker, header.base_offset);
                }
            }
        }
        (known.position, known.behind) = (position + frame.size as u64, frame.end());
    }
    Ok(())
}
