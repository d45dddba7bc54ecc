//! Snappy's two framings: xerial's (Java clients, and the broker itself), and one raw block (librdkafka).
//!
//! ```text
//! 82 'S' 'N' 'A' 'P' 'P' 'Y' 00 | version i32 = 1 | compatible i32 = 1 | { length i32, raw block of at most 32 KiB }*
//! ```

use bytes::{BufMut, BytesMut};
use std::io::{self, Read};

const MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
const HEADER_BYTES: usize = 16;
const BLOCK_BYTES: usize = 32 << 10;
/// No element of a raw block makes more than 64 bytes of 3, so a block that claims more than 22 times its own size is a lie.
const RATIO_MAX: u64 = 22;

/// Appends `records` in xerial's framing.
pub(super) fn compress(records: &[u8], out: &mut BytesMut) -> io::Result<()> {
    out.extend_from_slice(&MAGIC);
    out.put_i32(1);
    out.put_i32(1);
    let mut encoder = snap::raw::Encoder::new();
    let mut block = vec![0; snap::raw::max_compress_len(BLOCK_BYTES)];
    for chunk in records.chunks(BLOCK_BYTES) {
        let count = encoder.compress(chunk, &mut block)?;
        out.put_i32(i32::try_from(count).map_err(io::Error::other)?);
        out.extend_from_slice(&block[..count]);
    }
    Ok(())
}

/// Decompresses block by block.
pub(super) struct SnappyReader<'a> {
    rest: &'a [u8],
    xerial: bool,
    block: Vec<u8>,
    at: usize,
    allowed: u64,
}

impl<'a> SnappyReader<'a> {
    /// Reads `bytes`, of which at most `allowed` may come out.
    pub(super) fn new(bytes: &'a [u8], allowed: u64) -> Self {
        Self { rest: bytes, xerial: bytes.starts_with(&MAGIC), block: Vec::new(), at: 0, allowed }
    }

    /// The next raw block; `None` at the end.
    fn next_block(&mut self) -> io::Result<Option<&'a [u8]>> {
        if !self.xerial {
            return Ok((!self.rest.is_empty()).then(|| std::mem::take(&mut self.rest)));
        }
        // Streams that were joined have a header in the middle.
        while self.rest.starts_with(&MAGIC) {
            self.rest = self.rest.get(HEADER_BYTES..).ok_or(io::ErrorKind::UnexpectedEof)?;
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (length, behind) = self.rest.split_first_chunk().ok_or(io::ErrorKind::UnexpectedEof)?;
        let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| io::ErrorKind::InvalidData)?;
        let (block, rest) = behind.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.rest = rest;
        Ok(Some(block))
    }

    fn decompress(&mut self, raw: &[u8]) -> io::Result<()> {
        let claimed = snap::raw::decompress_len(raw)?;
        if claimed as u64 > RATIO_MAX.saturating_mul(raw.len() as u64) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if claimed as u64 > self.allowed {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.block.resize(claimed, 0);
        let count = snap::raw::Decoder::new().decompress(raw, &mut self.block)?;
        self.block.truncate(count);
        self.at = 0;
        self.allowed -= count as u64;
        Ok(())
    }
}

impl Read for SnappyReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.block.len() {
            match self.next_block()? {
                None => return Ok(0),
                Some(raw) => self.decompress(raw)?,
            }
        }
        let count = (&self.block[self.at..]).read(buffer)?;
        self.at += count;
        Ok(count)
    }
}
