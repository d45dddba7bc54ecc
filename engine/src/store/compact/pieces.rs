//! Reads the batches of a segment a piece at a time, each checked.

use std::ops::{ControlFlow, Range};

use super::{CompactionRefusal, JobError, unread};
use crate::batch::{BatchView, StopReason, scan};
use crate::segment::{FileKind, Segment, WalkError};
use crate::units::Offset;

/// How much is read at once, unless a batch is larger.
const PIECE_BYTES: usize = 1 << 20;

/// A way through a segment.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) position: u64,
    /// Where the next batch may begin at the earliest, and where the segment's offsets end.
    offsets: Range<Offset>,
    /// What the next piece has to hold.
    wanted: usize,
    buffer: Vec<u8>,
}

impl Pieces {
    pub(super) const fn new() -> Self {
        Self { position: 0, offsets: Offset::ZERO..Offset::ZERO, wanted: PIECE_BYTES, buffer: Vec::new() }
    }

    /// Goes to the batch that holds an offset, or to the end, of a segment whose offsets lie below `end`.
    pub(super) fn go_to(&mut self, segment: &Segment, offset: Offset, end: Offset) -> Result<(), JobError> {
        self.wanted = PIECE_BYTES;
        self.offsets = segment.base()..end;
        self.position = 0;
        if offset > segment.base() {
            let found = segment.find_unbroken(offset).map_err(|error| unread(segment, error))?;
            self.position = found.map_or(segment.size(), |(position, _)| position);
        }
        Ok(())
    }

    /// Reads a piece and shows its batches with their positions until the visitor has enough. Gives how many bytes were read; none at the end.
    pub(super) fn next<B>(
        &mut self,
        segment: &Segment,
        batch_bytes_max: usize,
        mut visit: impl FnMut(u64, &BatchView<'_>) -> Result<ControlFlow<B>, JobError>,
    ) -> Result<(u64, Option<B>), JobError> {
        let left = segment.size().saturating_sub(self.position);
        if left == 0 {
            return Ok((0, None));
        }
        let fail = |error: WalkError| unread(segment, error);
        let bytes = usize::try_from(left).unwrap_or(self.wanted).min(self.wanted);
        self.buffer.resize(bytes, 0);
        let file = segment.file().map_err(|error| fail(error.into()))?;
        let count = file.read_at(&mut self.buffer, self.position).map_err(|error| fail(error.into()))?;
        self.buffer.truncate(count);
        let (from, is_all) = (self.position, count as u64 == left);
        let mut wanted = PIECE_BYTES;
        for found in scan(&self.buffer, from) {
            let stop = match found {
                Ok((position, batch)) => {
                    // No CRC covers a batch's offset, and recovery goes by the last one of what is written here.
                    let (first, last) = (batch.header().base_offset, batch.header().last_offset());
                    if first < self.offsets.start || last >= self.offsets.end {
                        return Err(fail(WalkError::Damaged(position)));
                    }
                    self.offsets.start = batch.header().next_offset();
                    self.position = position + batch.bytes().len() as u64;
                    if let ControlFlow::Break(enough) = visit(position, &batch)? {
                        return Ok((count as u64, Some(enough)));
                    }
                    continue;
                }
                Err(stop) => stop,
            };
            match stop.reason {
                StopReason::TornBatch { needs, .. } if !is_all && needs <= batch_bytes_max => {
                    wanted = needs.max(PIECE_BYTES);
                }
                // Zeros that are the beginning of something else, or of a header.
                StopReason::TornHeader { .. } | StopReason::Zeros { .. }
                    if !is_all && stop.position > from => {}
                StopReason::Legacy { .. } => {
                    let (path, position) = (segment.path(FileKind::Log), stop.position);
                    return Err(CompactionRefusal::LegacyFormat { path, position }.into());
                }
                StopReason::TornHeader { .. }
                | StopReason::TornBatch { .. }
                | StopReason::Zeros { .. }
                | StopReason::Length { .. }
                | StopReason::Magic { .. }
                | StopReason::Crc { .. }
                | StopReason::Nonsense(_) => return Err(fail(WalkError::Damaged(stop.position))),
            }
        }
        if self.position == from && wanted <= self.wanted {
            return Err(fail(WalkError::Damaged(from)));
        }
        self.wanted = wanted;
        Ok((count as u64, None))
    }
}
