//! The libraries that know the four algorithms, each if its feature is on, behind one enum. Sets no limit: that is [`codec`](super::codec)'s.

use bytes::BytesMut;
use std::io::{self, Read};

use super::Compression;
#[cfg(feature = "snappy")]
use super::snappy::{self, SnappyReader};

/// Zstandard's own default, said here so that it does not change: 2^27 bytes.
#[cfg(feature = "zstd")]
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

#[cfg(not(all(feature = "gzip", feature = "snappy", feature = "lz4", feature = "zstd")))]
fn not_built<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Appends the compressed `records`, in one stream, as Kafka's own clients write it.
pub(super) fn compress(compression: Compression, records: &[u8], out: &mut BytesMut) -> io::Result<()> {
    match compression {
        Compression::None => {
            out.extend_from_slice(records);
            Ok(())
        }
        #[cfg(feature = "gzip")]
        Compression::Gzip => {
            use bytes::BufMut;
            use std::io::Write;
            let mut encoder = flate2::write::GzEncoder::new(out.writer(), flate2::Compression::default());
            encoder.write_all(records)?;
            encoder.finish().map(drop)
        }
        #[cfg(not(feature = "gzip"))]
        Compression::Gzip => not_built(),
        #[cfg(feature = "snappy")]
        Compression::Snappy => snappy::compress(records, out),
        #[cfg(not(feature = "snappy"))]
        Compression::Snappy => not_built(),
        #[cfg(feature = "lz4")]
        Compression::Lz4 => {
            use bytes::BufMut;
            use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
            use std::io::Write;
            let frame = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Independent);
            let mut encoder = FrameEncoder::with_frame_info(frame, out.writer());
            encoder.write_all(records)?;
            encoder.finish().map(drop).map_err(io::Error::other)
        }
        #[cfg(not(feature = "lz4"))]
        Compression::Lz4 => not_built(),
        #[cfg(feature = "zstd")]
        Compression::Zstd => {
            use bytes::BufMut;
            use std::io::Write;
            let mut encoder =
                zstd::stream::write::Encoder::new(out.writer(), zstd::DEFAULT_COMPRESSION_LEVEL)?;
            encoder.write_all(records)?;
            encoder.finish().map(drop)
        }
        #[cfg(not(feature = "zstd"))]
        Compression::Zstd => not_built(),
    }
}

/// What comes out of compressed bytes. Bytes behind the end of a gzip member are not looked at.
pub(super) enum Stream<'a> {
    None(&'a [u8]),
    #[cfg(feature = "gzip")]
    Gzip(Box<flate2::bufread::GzDecoder<&'a [u8]>>),
    #[cfg(feature = "snappy")]
    Snappy(SnappyReader<'a>),
    #[cfg(feature = "lz4")]
    Lz4(Box<lz4_flex::frame::FrameDecoder<&'a [u8]>>),
    #[cfg(feature = "zstd")]
    Zstd(zstd::stream::read::Decoder<'static, &'a [u8]>),
}

impl<'a> Stream<'a> {
    /// A stream of which at most `allowed` bytes will be wanted.
    #[cfg_attr(
        not(feature = "snappy"),
        expect(unused_variables, reason = "only snappy's blocks need the limit before they are read")
    )]
    pub(super) fn new(compression: Compression, bytes: &'a [u8], allowed: u64) -> io::Result<Self> {
        match compression {
            Compression::None => Ok(Self::None(bytes)),
            #[cfg(feature = "gzip")]
            Compression::Gzip => Ok(Self::Gzip(Box::new(flate2::bufread::GzDecoder::new(bytes)))),
            #[cfg(not(feature = "gzip"))]
            Compression::Gzip => not_built(),
            #[cfg(feature = "snappy")]
            Compression::Snappy => Ok(Self::Snappy(SnappyReader::new(bytes, allowed))),
            #[cfg(not(feature = "snappy"))]
            Compression::Snappy => not_built(),
            #[cfg(feature = "lz4")]
            Compression::Lz4 => Ok(Self::Lz4(Box::new(lz4_flex::frame::FrameDecoder::new(bytes)))),
            #[cfg(not(feature = "lz4"))]
            Compression::Lz4 => not_built(),
            #[cfg(feature = "zstd")]
            Compression::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Ok(Self::Zstd(decoder))
            }
            #[cfg(not(feature = "zstd"))]
            Compression::Zstd => not_built(),
        }
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::None(bytes) => bytes.read(buffer),
            #[cfg(feature = "gzip")]
            Self::Gzip(decoder) => decoder.read(buffer),
            #[cfg(feature = "snappy")]
            Self::Snappy(decoder) => decoder.read(buffer),
            #[cfg(feature = "lz4")]
            Self::Lz4(decoder) => decoder.read(buffer),
            #[cfg(feature = "zstd")]
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{NOW, batch, header, produced};
    use super::super::{
        BatchBuilder, BatchLimits, BatchView, BuildError, CodecError, DecompressLimits, ProducedBatch,
        RecordDamage,
    };
    use super::*;

    /// With each feature alone, too: what is built works, and what is not says so.
    #[test]
    fn what_is_not_built_is_checked_by_header_and_refused_to_be_made_or_read() {
        let check = |bytes| ProducedBatch::check(bytes, &BatchLimits::default(), NOW);
        for compression in Compression::ALL {
            if compression.is_built() {
                assert!(check(produced(compression, 3)).is_ok(), "{compression}");
                continue;
            }
            let bytes = batch(header(compression, 1), b"a stream that cannot be read");
            let mut scratch = Vec::new();
            let read = BatchView::parse(&bytes)
                .unwrap()
                .records(&DecompressLimits::default(), &mut scratch)
                .map(drop);
            let not_built = CodecError::NotBuilt { compression };
            assert_eq!(read, Err(RecordDamage::Codec(not_built)));
            assert!(check(bytes.into()).is_ok(), "{compression}");
            let mut builder = BatchBuilder::new(compression);
            builder.push(None, None, None, &[]).unwrap();
            assert_eq!(builder.finish(), Err(BuildError::Codec(not_built)));
        }
    }
}
