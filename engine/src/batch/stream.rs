//! Records walked over while they come out of a codec: one chunk is in memory, whatever the batch claims to hold.

use super::RecordDamage;
use super::codec::{CHUNK_BYTES, Decompressor};
use super::varint::Source;

/// A stream as a source. What is taken from it is gone.
pub(super) struct StreamSource<'a> {
    stream: Decompressor<'a>,
    chunk: [u8; CHUNK_BYTES],
    at: usize,
    filled: usize,
    /// What the chunks before this one held.
    before: u64,
}

impl<'a> StreamSource<'a> {
    pub(super) fn new(stream: Decompressor<'a>) -> Self {
        Self { stream, chunk: [0; CHUNK_BYTES], at: 0, filled: 0, before: 0 }
    }

    /// Gets the next chunk when this one is used up; false at the end.
    fn fill(&mut self) -> Result<bool, RecordDamage> {
        if self.at < self.filled {
            return Ok(true);
        }
        self.before += self.filled as u64;
        self.at = 0;
        self.filled = 0;
        self.filled = self.stream.read(&mut self.chunk)?;
        Ok(self.filled > 0)
    }
}

impl Source for StreamSource<'_> {
    type Taken = ();

    #[inline]
    fn byte(&mut self) -> Result<u8, RecordDamage> {
        if self.at == self.filled && !self.fill()? {
            return Err(RecordDamage::EndsEarly);
        }
        let byte = self.chunk[self.at];
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, mut count: usize) -> Result<(), RecordDamage> {
        while count > 0 {
            if !self.fill()? {
                return Err(RecordDamage::EndsEarly);
            }
            let step = count.min(self.filled - self.at);
            self.at += step;
            count -= step;
        }
        Ok(())
    }

    fn position(&self) -> u64 {
        self.before + self.at as u64
    }

    fn remaining(&self) -> Option<usize> {
        None
    }

    fn at_end(&mut self) -> Result<bool, RecordDamage> {
        Ok(!self.fill()?)
    }
}
