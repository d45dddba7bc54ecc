//! What was accepted and waits to be written: the next write of a log, gathered while the last one is in flight.
//!
//! Knows bytes and positions; who submits it, and when, is the driver's business.

use bytes::{Bytes, BytesMut};

use super::buffers::{BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, Buffers};
use super::shared::lock;
use super::tail::Chunk;
use crate::batch::{BatchHeader, OffsetsExhausted, ProducedBatch, StampedBatch};
use crate::sync::Mutex;
use crate::units::{LeaderEpoch, Offset, Timestamp};

/// A batch smaller than this is copied into the write buffer; a larger one is written from where it is.
pub(crate) const SMALL_BYTES: usize = 4096;
/// Buffers of one write; the kernel takes 1,024 at a time.
const CHUNKS_MAX: usize = 512;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct WriteQueue {
    /// Where in the active segment the first waiting byte goes.
    position: u64,
    chunks: Vec<Chunk>,
    /// Empty: the memory of the list that the last write had.
    spare_chunks: Vec<Chunk>,
    small: BytesMut,
    /// How large the buffer is, and how large the next one will be.
    small_bytes: usize,
    buffer_bytes: usize,
    small_first: Offset,
    small_end: Offset,
    waiting_bytes: usize,
    flying_bytes: usize,
}

/// One write.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) position: u64,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) bytes: usize,
    /// What `written` is when it is done.
    pub(crate) end: Offset,
}

impl Write {
    /// Moves its bytes into a list, for the time that they are under way.
    pub(crate) fn lend_buffers(&mut self, buffers: &mut Vec<Bytes>) {
        buffers.extend(self.chunks.iter_mut().map(|chunk| std::mem::take(&mut chunk.bytes)));
    }

    /// Takes them back.
    pub(crate) fn take_buffers(&mut self, buffers: &mut Vec<Bytes>) {
        for (chunk, bytes) in self.chunks.iter_mut().zip(buffers.drain(..)) {
            chunk.bytes = bytes;
        }
    }
}

impl WriteQueue {
    /// Nothing waits; the next byte goes to `position`.
    pub(crate) fn new(position: u64) -> Self {
        Self {
            position,
            chunks: Vec::new(),
            spare_chunks: Vec::new(),
            small: BytesMut::new(),
            small_bytes: 0,
            buffer_bytes: BUFFER_BYTES_MIN,
            small_first: Offset::ZERO,
            small_end: Offset::ZERO,
            waiting_bytes: 0,
            flying_bytes: 0,
        }
    }

    /// Bytes that are not written yet.
    pub(crate) const fn pending_bytes(&self) -> usize {
        self.waiting_bytes + self.flying_bytes
    }

    pub(crate) const fn is_waiting(&self) -> bool {
        self.waiting_bytes > 0
    }

    pub(crate) const fn is_flying(&self) -> bool {
        self.flying_bytes > 0
    }

    pub(crate) const fn is_idle(&self) -> bool {
        self.pending_bytes() == 0
    }

    /// Stamps a batch and adds it; a small one is stamped where it is copied to. After an error nothing is added.
    #[inline]
    pub(crate) fn stamp(
        &mut self,
        batch: ProducedBatch,
        buffers: &Mutex<Buffers>,
        first: Offset,
        epoch: LeaderEpoch,
        append_time: Option<Timestamp>,
    ) -> Result<BatchHeader, OffsetsExhausted> {
        let bytes = batch.size_bytes();
        if bytes >= SMALL_BYTES {
            let StampedBatch { bytes, header } = batch.stamp(first, epoch, append_time)?;
            self.push_large(first, header.next_offset(), bytes);
            return Ok(header);
        }
        self.make_room(bytes, buffers);
        let header = batch.stamp_into(&mut self.small, first, epoch, append_time)?;
        self.added(first, header.next_offset(), bytes);
        Ok(header)
    }

    /// Adds whole batches.
    pub(crate) fn push(&mut self, first: Offset, end: Offset, bytes: Bytes, buffers: &Mutex<Buffers>) {
        if bytes.len() >= SMALL_BYTES {
            self.push_large(first, end, bytes);
            return;
        }
        self.make_room(bytes.len(), buffers);
        self.small.extend_from_slice(&bytes);
        self.added(first, end, bytes.len());
    }

    fn push_large(&mut self, first: Offset, end: Offset, bytes: Bytes) {
        self.waiting_bytes += bytes.len();
        self.freeze_small();
        self.chunks.push(Chunk { first, end, bytes });
    }

    /// Makes room in the buffer of small batches.
    #[inline]
    fn make_room(&mut self, bytes: usize, buffers: &Mutex<Buffers>) {
        if self.small.capacity() - self.small.len() < bytes {
            self.freeze_small();
            let mut buffers = lock(buffers);
            let next = buffers.take(self.buffer_bytes);
            let spent = std::mem::replace(&mut self.small, next);
            let spent_bytes = std::mem::replace(&mut self.small_bytes, self.buffer_bytes);
            if spent_bytes > 0 {
                buffers.give_back(spent, spent_bytes);
            }
            self.buffer_bytes = (self.buffer_bytes * 2).min(BUFFER_BYTES_MAX);
        }
    }

    /// The last so many bytes of the buffer are new.
    #[inline]
    fn added(&mut self, first: Offset, end: Offset, bytes: usize) {
        self.waiting_bytes += bytes;
        if self.small.len() == bytes {
            self.small_first = first;
        }
        self.small_end = end;
    }

    /// Takes the next write, unless one is in flight or nothing waits.
    pub(crate) fn take(&mut self) -> Option<Write> {
        if self.is_flying() || !self.is_waiting() {
            return None;
        }
        self.freeze_small();
        let chunks = if self.chunks.len() > CHUNKS_MAX {
            self.chunks.drain(..CHUNKS_MAX).collect()
        } else {
            std::mem::replace(&mut self.chunks, std::mem::take(&mut self.spare_chunks))
        };
        let bytes = chunks.iter().map(|chunk| chunk.bytes.len()).sum();
        let end = chunks.last().map_or(self.small_end, |chunk| chunk.end);
        if bytes < self.buffer_bytes / 4 {
            self.buffer_bytes = BUFFER_BYTES_MIN;
        }
        let position = self.position;
        self.position += bytes as u64;
        self.waiting_bytes -= bytes;
        self.flying_bytes = bytes;
        Some(Write { position, chunks, bytes, end })
    }

    /// The write that was taken is done; the memory of its list serves the next one.
    pub(crate) fn landed(&mut self, mut chunks: Vec<Chunk>) {
        self.flying_bytes = 0;
        chunks.clear();
        self.spare_chunks = chunks;
    }

    fn freeze_small(&mut self) {
        if !self.small.is_empty() {
            let bytes = self.small.split().freeze();
            self.chunks.push(Chunk { first: self.small_first, end: self.small_end, bytes });
        }
    }
}
