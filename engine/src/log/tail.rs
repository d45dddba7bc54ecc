//! The tail of a log in memory: what was written last, as it was written, so that followers and consumers that keep up touch no file.
//!
//! Bounded by the driver, which counts the bytes of all logs together and drops the oldest chunks of all.

use std::collections::VecDeque;

use bytes::Bytes;

use super::read::Records;
use crate::segment::{Frame, frame_at};
use crate::units::Offset;

/// What one write put down: whole batches.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(crate) first: Offset,
    pub(crate) end: Offset,
    pub(crate) bytes: Bytes,
}

/// What is wanted is no longer kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooOld;

/// The newest chunks of a log, contiguous up to `written`.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    chunks: VecDeque<Chunk>,
}

impl Tail {
    pub(crate) fn push(&mut self, chunk: Chunk) {
        self.chunks.push_back(chunk);
    }

    /// Drops the oldest chunk.
    pub(crate) fn pop_oldest(&mut self) {
        self.chunks.pop_front();
    }

    /// Drops everything, because the log was cut. The driver's count of chunks goes on; popping an empty tail does nothing.
    pub(crate) fn clear(&mut self) {
        self.chunks.clear();
    }

    /// Whole batches from the one that holds `from`, or the next one, up to `ceiling`; the error says that the tail does not reach back so
    /// far.
    pub(crate) fn read(
        &self,
        from: Offset,
        ceiling: Offset,
        bytes_max: usize,
        at_least_one: bool,
    ) -> Result<Option<Records>, TooOld> {
        if self.chunks.front().is_none_or(|oldest| oldest.first > from) {
            return Err(TooOld);
        }
        let mut taking = Taking::new(ceiling, bytes_max, at_least_one);
        let at = self.chunks.partition_point(|chunk| chunk.end <= from);
        for chunk in self.chunks.range(at..) {
            if !taking.chunk(chunk, from) {
                break;
            }
        }
        Ok(taking.records)
    }
}

/// Gathers batches for one read.
struct Taking {
    ceiling: Offset,
    bytes_left: usize,
    at_least_one: bool,
    records: Option<Records>,
}

impl Taking {
    const fn new(ceiling: Offset, bytes_max: usize, at_least_one: bool) -> Self {
        Self { ceiling, bytes_left: bytes_max, at_least_one, records: None }
    }

    /// Takes what it can of a chunk; says whether the next one may be taken too.
    fn chunk(&mut self, chunk: &Chunk, from: Offset) -> bool {
        if chunk.first >= from && chunk.end <= self.ceiling && chunk.bytes.len() <= self.bytes_left {
            let Some(first) = frame_at(&chunk.bytes) else { return false };
            self.take(chunk.bytes.clone(), chunk.end, &first);
            return true;
        }
        let mut at = 0;
        let mut begin: Option<(usize, Frame)> = None;
        let mut taken = None;
        let mut whole = true;
        while let Some(frame) = chunk.bytes.get(at..).and_then(frame_at) {
            let behind = at + frame.size;
            if frame.last >= from {
                let start = begin.map_or(at, |(start, _)| start);
                let forced = self.at_least_one && self.records.is_none() && begin.is_none();
                if frame.last >= self.ceiling || (behind - start > self.bytes_left && !forced) {
                    whole = false;
                    break;
                }
                begin.get_or_insert((at, frame));
                taken = Some((behind, frame.last));
            }
            at = behind;
        }
        if let (Some((start, first)), Some((behind, last))) = (begin, taken) {
            let end = last.next().unwrap_or(Offset::MAX);
            self.take(chunk.bytes.slice(start..behind), end, &first);
        }
        whole
    }

    fn take(&mut self, part: Bytes, end: Offset, first: &Frame) {
        self.bytes_left = self.bytes_left.saturating_sub(part.len());
        let records = self.records.get_or_insert_with(|| Records {
            parts: Vec::new(),
            size: 0,
            first: first.base,
            end,
            first_epoch: first.epoch,
            aborted: Vec::new(),
        });
        records.size += part.len();
        records.end = end;
        records.parts.push(part);
    }
}
