//! The libraries that know the four algorithms, behind one enum. Sets no limit: that is [`codec`](super::codec)'s.

use bytes::{BufMut, BytesMut};
use std::io::{self, Read, Write};

use super::Compression;
use super::snappy::{self, SnappyReader};

/// Zstandard's own default, said here so that it does not change: 2^27 bytes.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Appends the compressed `records`, in one stream, as Kafka's own clients write it.
pub(super) fn compress(compression: Compression, records: &[u8], out: &mut BytesMut) -> io::Result<()> {
    match compression {
        Compression::None => {
            out.extend_from_slice(records);
            Ok(())
        }
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(out.writer(), flate2::Compression::default());
            encoder.write_all(records)?;
            encoder.finish().map(drop)
        }
        Compression::Snappy => snappy::compress(records, out),
        Compression::Lz4 => {
            use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
            let frame = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Independent);
            let mut encoder = FrameEncoder::with_frame_info(frame, out.writer());
            encoder.write_all(records)?;
            encoder.finish().map(drop).map_err(io::Error::other)
        }
        Compression::Zstd => {
            let mut encoder =
                zstd::stream::write::Encoder::new(out.writer(), zstd::DEFAULT_COMPRESSION_LEVEL)?;
            encoder.write_all(records)?;
            encoder.finish().map(drop)
        }
    }
}

/// What comes out of compressed bytes. Bytes behind the end of a gzip member are not looked at.
pub(super) enum Stream<'a> {
    None(&'a [u8]),
    Gzip(Box<flate2::bufread::GzDecoder<&'a [u8]>>),
    Snappy(SnappyReader<'a>),
    Lz4(Box<lz4_flex::frame::FrameDecoder<&'a [u8]>>),
    Zstd(zstd::stream::read::Decoder<'static, &'a [u8]>),
}

impl<'a> Stream<'a> {
    /// A stream of which at most `allowed` bytes will be wanted.
    pub(super) fn new(compression: Compression, bytes: &'a [u8], allowed: u64) -> io::Result<Self> {
        Ok(match compression {
            Compression::None => Self::None(bytes),
            Compression::Gzip => Self::Gzip(Box::new(flate2::bufread::GzDecoder::new(bytes))),
            Compression::Snappy => Self::Snappy(SnappyReader::new(bytes, allowed)),
            Compression::Lz4 => Self::Lz4(Box::new(lz4_flex::frame::FrameDecoder::new(bytes))),
            Compression::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Self::Zstd(decoder)
            }
        })
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::None(bytes) => bytes.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Snappy(decoder) => decoder.read(buffer),
            Self::Lz4(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}
