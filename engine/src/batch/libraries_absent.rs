//! In place of the codecs' libraries when the crate is built without its feature `codecs`: knows no algorithm.

use bytes::BytesMut;
use std::io::{self, Read};

use super::Compression;

/// Appends `records` if they are not to be compressed.
pub(super) fn compress(compression: Compression, records: &[u8], out: &mut BytesMut) -> io::Result<()> {
    if compression != Compression::None {
        return Err(io::ErrorKind::Unsupported.into());
    }
    out.extend_from_slice(records);
    Ok(())
}

/// Bytes that are not compressed.
pub(super) struct Stream<'a>(&'a [u8]);

impl<'a> Stream<'a> {
    /// A stream of bytes that are not compressed.
    pub(super) fn new(compression: Compression, bytes: &'a [u8], _allowed: u64) -> io::Result<Self> {
        if compression == Compression::None {
            Ok(Self(bytes))
        } else {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}
