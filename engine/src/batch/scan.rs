//! Walks over concatenated batches, as a segment holds them, up to the first that is not whole, and says why it stopped.
//!
//! Decides nothing: whether a stop is the end of a log, a torn write or damage is for the caller, who knows where the bytes come from.
//! Source: `FileLogInputStream`, `ByteBufferLogInputStream`; Kafka keeps silent about a tail of 17 bytes or fewer, and about a batch that
//! does not fit, and so these have reasons of their own here.

use super::header::{AT_LENGTH, AT_MAGIC, LENGTH_MIN, MAGIC, PREFIX_BYTES, size_of_length};
use super::{BatchDamage, BatchHeader, BatchView, HeaderDamage};

/// The batches in `bytes`, whose first byte is at `base_position` of its file.
///
/// Yields each whole batch (length, magic, CRC) with its position. At the first that is not whole it yields the
/// [`ScanStop`], and then nothing more; if the bytes end exactly behind a batch it just ends.
pub fn scan(bytes: &[u8], base_position: u64) -> Scan<'_> {
    Scan { rest: bytes, position: base_position, stopped: false }
}

/// See [`scan`].
#[derive(Clone, Debug)]
pub struct Scan<'a> {
    rest: &'a [u8],
    position: u64,
    stopped: bool,
}

/// Where a scan stopped before the end of its bytes, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at position {position}: {reason}")]
pub struct ScanStop {
    /// The position of the first byte that belongs to no whole batch.
    pub position: u64,
    /// What is there.
    pub reason: StopReason,
}

/// What stopped a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopReason {
    /// Too few bytes are left for the part of a header that all versions share.
    #[error("{have} bytes are left, too few for a batch")]
    TornHeader {
        /// How many bytes are left.
        have: usize,
    },
    /// The bytes end before the batch does: a torn write, or a damaged length.
    #[error("the batch has {needs} bytes, {have} are left")]
    TornBatch {
        /// The size that the batch claims.
        needs: usize,
        /// How many bytes are left.
        have: usize,
    },
    /// Nothing but zeros up to the end.
    #[error("nothing but {have} zeros is left")]
    Zeros {
        /// How many.
        have: usize,
    },
    /// A length that no batch can have, and it is not all zeros behind it.
    #[error("the length field says {length}")]
    Length {
        /// The field's value.
        length: i32,
    },
    /// A message of the legacy formats, magic 0 or 1.
    #[error("a message of the legacy format {magic}, {size_bytes} bytes long")]
    Legacy {
        /// 0 or 1.
        magic: i8,
        /// Its size in bytes; all of them are there.
        size_bytes: usize,
    },
    /// No version of the format.
    #[error("magic {magic}")]
    Magic {
        /// The field's value.
        magic: i8,
    },
    /// The CRC is another one.
    #[error("CRC {computed:08x} instead of {stored:08x}")]
    Crc {
        /// The one in the header.
        stored: u32,
        /// The one of the bytes.
        computed: u32,
    },
    /// The bytes are as they were written, and do not make sense.
    #[error(transparent)]
    Nonsense(HeaderDamage),
}

impl Scan<'_> {
    /// The position behind the last whole batch.
    pub const fn position(&self) -> u64 {
        self.position
    }
}

impl<'a> Iterator for Scan<'a> {
    type Item = Result<(u64, BatchView<'a>), ScanStop>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.stopped || self.rest.is_empty() {
            return None;
        }
        let position = self.position;
        match next_batch(self.rest) {
            Ok(view) => {
                self.rest = &self.rest[view.bytes().len()..];
                self.position += view.bytes().len() as u64;
                Some(Ok((position, view)))
            }
            Err(reason) => {
                self.stopped = true;
                Some(Err(ScanStop { position, reason }))
            }
        }
    }
}

/// What the first 17 bytes of a batch or message, of any version, say of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix {
    pub(super) size_bytes: usize,
    pub(super) magic: i8,
}

/// Reads the part of a header that all versions share.
#[inline]
pub(super) fn prefix(bytes: &[u8]) -> Result<Prefix, StopReason> {
    let Some(p) = bytes.first_chunk::<PREFIX_BYTES>() else {
        return Err(StopReason::TornHeader { have: bytes.len() });
    };
    let length = i32::from_be_bytes([p[AT_LENGTH], p[AT_LENGTH + 1], p[AT_LENGTH + 2], p[AT_LENGTH + 3]]);
    let magic = i8::from_be_bytes([p[AT_MAGIC]]);
    match size_of_length(length) {
        Some(size_bytes) if length >= LENGTH_MIN => Ok(Prefix { size_bytes, magic }),
        _ => Err(StopReason::Length { length }),
    }
}

fn next_batch(bytes: &[u8]) -> Result<BatchView<'_>, StopReason> {
    let have = bytes.len();
    let prefix = match prefix(bytes) {
        Ok(prefix) => prefix,
        Err(_) if bytes.iter().all(|byte| *byte == 0) => return Err(StopReason::Zeros { have }),
        Err(reason) => return Err(reason),
    };
    match prefix.magic {
        MAGIC => {}
        0 | 1 if prefix.size_bytes > have => {
            return Err(StopReason::TornBatch { needs: prefix.size_bytes, have });
        }
        magic @ (0 | 1) => return Err(StopReason::Legacy { magic, size_bytes: prefix.size_bytes }),
        magic => return Err(StopReason::Magic { magic }),
    }
    BatchView::parse(bytes).map_err(|damage| match damage {
        BatchDamage::Torn { needs, have } => StopReason::TornBatch { needs, have },
        BatchDamage::Crc { stored, computed } => StopReason::Crc { stored, computed },
        BatchDamage::Header(HeaderDamage::Short { have }) => {
            StopReason::TornBatch { needs: prefix.size_bytes, have }
        }
        BatchDamage::Header(HeaderDamage::Length { length }) => StopReason::Length { length },
        BatchDamage::Header(HeaderDamage::Magic { magic }) => StopReason::Magic { magic },
        BatchDamage::Header(damage) => StopReason::Nonsense(damage),
    })
}

/// The first position in `bytes`, at or behind `from`, at which a whole batch begins.
///
/// For a caller who found damage and asks whether whole batches follow it, as they do behind a hole and not behind a torn tail. Bytes of
/// a record that look like a batch are found too; the caller compares offsets.
pub fn find_batch(bytes: &[u8], from: usize) -> Option<usize> {
    (from..bytes.len().saturating_sub(super::HEADER_BYTES - 1)).find(|at| {
        let rest = &bytes[*at..];
        rest[AT_MAGIC] == 2 && BatchHeader::parse(rest).is_ok() && BatchView::parse(rest).is_ok()
    })
}
