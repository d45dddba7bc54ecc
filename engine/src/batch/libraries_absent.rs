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

#[cfg(test)]
mod tests {
    use super::super::testing::{NOW, batch, header, produced};
    use super::super::{
        BatchLimits, BatchView, BuildError, CodecError, DecompressLimits, ProducedBatch, RecordDamage,
    };
    use super::*;
    use crate::batch::BatchBuilder;

    #[test]
    fn plain_batches_are_read_and_compressed_ones_checked_by_header() {
        let check = |bytes| ProducedBatch::check(bytes, &BatchLimits::default(), NOW);
        assert!(check(produced(Compression::None, 3)).is_ok());
        let compression = Compression::Zstd;
        let bytes = batch(header(compression, 1), b"a stream that cannot be read");
        let mut scratch = Vec::new();
        let read =
            BatchView::parse(&bytes).unwrap().records(&DecompressLimits::default(), &mut scratch).map(drop);
        let not_built = CodecError::NotBuilt { compression };
        assert_eq!(read, Err(RecordDamage::Codec(not_built)));
        assert!(check(bytes.into()).is_ok());
        let mut builder = BatchBuilder::new(compression);
        builder.push(None, None, None, &[]).unwrap();
        assert_eq!(builder.finish(), Err(BuildError::Codec(not_built)));
    }
}
