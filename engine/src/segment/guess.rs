//! Where a batch may end, so that a read of little need not read everything up to the next entry of the index.

use std::sync::atomic::Ordering;

use super::{Frame, Segment};
use crate::index::Span;
use crate::units::Offset;

impl Segment {
    /// How many bytes from the first entry on the batch with this offset ends, if all batches there have as many offsets as the last one
    /// that was read. A guess.
    pub(crate) fn guess_end(&self, offset: Offset, span: &Span) -> Option<u64> {
        let (floor, ceiling) = (span.floor?, span.ceiling?);
        let offsets = u64::try_from(ceiling.last_offset.distance_from(floor.last_offset)?).ok()?;
        let passed = u64::try_from(offset.distance_from(floor.last_offset)?).ok()?;
        let in_batch = self.batch_offsets.load(Ordering::Relaxed);
        let until = passed.checked_next_multiple_of(in_batch)?.checked_add(in_batch)?;
        let bytes = ceiling.position.checked_sub(floor.position)?;
        Some(until.checked_mul(bytes)?.div_ceil(offsets.max(1)))
    }

    /// A batch was read; see [`Segment::guess_end`].
    pub(crate) fn note_read(&self, frame: &Frame) {
        let offsets = frame.end().distance_from(frame.base).and_then(|count| u64::try_from(count).ok());
        if let Some(offsets) = offsets.filter(|offsets| *offsets > 0)
            && self.batch_offsets.load(Ordering::Relaxed) != offsets
        {
            self.batch_offsets.store(offsets, Ordering::Relaxed);
        }
    }
}
