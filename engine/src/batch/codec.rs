//! Compressing, and decompressing as a bounded stream.
//!
//! What comes out is limited in bytes and in relation to what went in, while it comes out; no buffer is sized by a number that the
//! stream claims, except within constant bounds (an LZ4 block has at most 8 MiB, a Zstandard window at most 128 MiB of address space, of
//! which only what is decompressed is touched).

use bytes::BytesMut;
use std::io::{self, Read};

use super::Compression;
use super::libraries::{self, Stream};

/// How much may come out of a compressed batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecompressLimits {
    /// At most this many bytes.
    pub output_bytes_max: u64,
    /// At most this many times what went in,
    pub ratio_max: u64,
    /// which is not looked at up to this many bytes.
    pub ratio_free_bytes: u64,
}

impl DecompressLimits {
    /// What may come out of a stream of this many bytes.
    pub fn allowed(&self, compressed_bytes: usize) -> u64 {
        let by_ratio = (compressed_bytes as u64).saturating_mul(self.ratio_max).max(self.ratio_free_bytes);
        by_ratio.min(self.output_bytes_max)
    }
}

impl Default for DecompressLimits {
    fn default() -> Self {
        Self { output_bytes_max: 128 << 20, ratio_max: 1000, ratio_free_bytes: 1 << 20 }
    }
}

/// Why a batch cannot be compressed or decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The crate was built without the feature of this name.
    #[error("built without the codec {compression}")]
    NotBuilt {
        /// The codec.
        compression: Compression,
    },
    /// It is not a stream of this codec, or it is cut off.
    #[error("not a whole {compression} stream ({kind})")]
    Stream {
        /// The codec.
        compression: Compression,
        /// What the codec's library says of it.
        kind: io::ErrorKind,
    },
    /// More comes out than is allowed.
    #[error("more than {allowed} bytes come out of a {compression} stream of {compressed} bytes")]
    TooLarge {
        /// The codec.
        compression: Compression,
        /// How many bytes went in.
        compressed: usize,
        /// How many bytes may come out.
        allowed: u64,
    },
}

/// Appends the compressed `records`, in one stream, as Kafka's own clients write it.
pub(super) fn compress(
    compression: Compression,
    records: &[u8],
    out: &mut BytesMut,
) -> Result<(), CodecError> {
    if !compression.is_built() {
        return Err(CodecError::NotBuilt { compression });
    }
    libraries::compress(compression, records, out)
        .map_err(|error| CodecError::Stream { compression, kind: error.kind() })
}

/// What comes out of one compressed stream, up to its limit.
pub(super) struct Decompressor<'a> {
    stream: Stream<'a>,
    compression: Compression,
    compressed: usize,
    produced: u64,
    allowed: u64,
}

impl<'a> Decompressor<'a> {
    pub(super) fn new(
        compression: Compression,
        bytes: &'a [u8],
        limits: &DecompressLimits,
    ) -> Result<Self, CodecError> {
        if !compression.is_built() {
            return Err(CodecError::NotBuilt { compression });
        }
        let allowed = limits.allowed(bytes.len());
        let stream = Stream::new(compression, bytes, allowed)
            .map_err(|error| CodecError::Stream { compression, kind: error.kind() })?;
        Ok(Self { stream, compression, compressed: bytes.len(), produced: 0, allowed })
    }

    /// Fills the beginning of `buffer`; 0 only at the stream's end. Bytes behind the end of a gzip member are not looked at.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, CodecError> {
        let compression = self.compression;
        let count = self.stream.read(buffer).map_err(|error| {
            // The snappy reader refuses a block that would go beyond the limit before it makes room for it.
            if error.kind() == io::ErrorKind::FileTooLarge {
                self.too_large()
            } else {
                CodecError::Stream { compression, kind: error.kind() }
            }
        })?;
        self.produced += count as u64;
        if self.produced > self.allowed { Err(self.too_large()) } else { Ok(count) }
    }

    fn too_large(&self) -> CodecError {
        CodecError::TooLarge {
            compression: self.compression,
            compressed: self.compressed,
            allowed: self.allowed,
        }
    }

    /// Everything that comes out, appended to `out`, which grows only by what has come out.
    pub(super) fn read_all(&mut self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let mut chunk = [0; CHUNK_BYTES];
        loop {
            match self.read(&mut chunk)? {
                0 => return Ok(()),
                count => out.extend_from_slice(&chunk[..count]),
            }
        }
    }
}

/// How much is decompressed at once.
pub(super) const CHUNK_BYTES: usize = 16 << 10;
