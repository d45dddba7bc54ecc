//! The buffers of small batches, used again when the last reader has let go of what was written from them, so that a steady stream of
//! appends allocates nothing.
//!
//! Keeps no bytes: a buffer comes in when it is full, and goes out when nobody but the list has a claim on it.

use std::collections::VecDeque;

use bytes::BytesMut;

/// Sizes are powers of two from this one on.
pub(crate) const BUFFER_BYTES_MIN: usize = 4096;
pub(crate) const BUFFER_BYTES_MAX: usize = 256 << 10;
const CLASSES: usize = (BUFFER_BYTES_MAX / BUFFER_BYTES_MIN).ilog2() as usize + 1;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// Of each size, what came in first comes first: it is let go of first.
    spent: [VecDeque<BytesMut>; CLASSES],
    bytes: usize,
    bytes_max: usize,
}

impl Buffers {
    /// Keeps at most so many bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { spent: std::array::from_fn(|_| VecDeque::new()), bytes: 0, bytes_max }
    }

    /// An empty buffer with room for `bytes`, one of the sizes.
    pub(crate) fn take(&mut self, bytes: usize) -> BytesMut {
        if let Some(spent) = self.spent.get_mut(class_of(bytes))
            && spent.front_mut().is_some_and(|oldest| oldest.try_reclaim(bytes))
            && let Some(buffer) = spent.pop_front()
        {
            self.bytes -= bytes;
            return buffer;
        }
        BytesMut::with_capacity(bytes)
    }

    /// Takes what is left of a buffer of this size.
    pub(crate) fn give_back(&mut self, buffer: BytesMut, bytes: usize) {
        let Some(spent) = self.spent.get_mut(class_of(bytes)) else { return };
        while self.bytes + bytes > self.bytes_max {
            if spent.pop_front().is_none() {
                return;
            }
            self.bytes -= bytes;
        }
        self.bytes += bytes;
        spent.push_back(buffer);
    }
}

fn class_of(bytes: usize) -> usize {
    (bytes / BUFFER_BYTES_MIN).checked_ilog2().map_or(0, |class| class as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_the_last_reader_is_gone() {
        let mut buffers = Buffers::new(2 * BUFFER_BYTES_MAX);
        let mut first = buffers.take(BUFFER_BYTES_MIN);
        first.extend_from_slice(&[1; 4000]);
        let place = first.as_ptr();
        let read = first.split().freeze();
        let again = read.clone();
        buffers.give_back(first, BUFFER_BYTES_MIN);
        assert_ne!(buffers.take(BUFFER_BYTES_MIN).as_ptr(), place, "somebody reads it");
        drop((read, again));
        assert_ne!(buffers.take(BUFFER_BYTES_MAX).as_ptr(), place, "it is of another size");
        let mut used_again = buffers.take(BUFFER_BYTES_MIN);
        assert_eq!((used_again.as_ptr(), used_again.len()), (place.cast(), 0));
        used_again.extend_from_slice(&[2; BUFFER_BYTES_MIN]);
        assert_eq!(used_again.as_ptr(), place, "all of it is there");
    }

    #[test]
    fn no_more_is_kept_than_the_bound() {
        let mut buffers = Buffers::new(3 * BUFFER_BYTES_MIN);
        for _ in 0..10 {
            buffers.give_back(BytesMut::with_capacity(BUFFER_BYTES_MIN), BUFFER_BYTES_MIN);
            buffers.give_back(BytesMut::with_capacity(BUFFER_BYTES_MAX), BUFFER_BYTES_MAX);
        }
        assert_eq!(buffers.spent.iter().map(VecDeque::len).sum::<usize>(), 3);
    }
}
