//! A batch that is known to be whole: constructed only when length, magic and CRC agree, and never checked again.

use super::codec::Decompressor;
use super::header::{AT_ATTRIBUTES, AT_CRC, HEADER_BYTES, field};
use super::{BatchHeader, Compression, DecompressLimits, HeaderDamage, RecordDamage, Records};

/// Whole bytes of one batch of magic 2, borrowed. What its records look like inside is not yet known.
#[derive(Clone, Copy)]
pub struct BatchView<'a> {
    header: BatchHeader,
    bytes: &'a [u8],
}

/// Why bytes are not a whole batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchDamage {
    /// The header is not one.
    #[error(transparent)]
    Header(#[from] HeaderDamage),
    /// The bytes end before the batch does.
    #[error("the batch has {needs} bytes, {have} are there")]
    Torn {
        /// The batch's size in bytes.
        needs: usize,
        /// How many bytes there are.
        have: usize,
    },
    /// The CRC is another one.
    #[error("CRC {computed:08x} instead of {stored:08x}")]
    Crc {
        /// The one in the header.
        stored: u32,
        /// The one of the bytes.
        computed: u32,
    },
}

impl<'a> BatchView<'a> {
    /// Proves the batch at the beginning of `bytes`; there may be more behind it.
    ///
    /// The CRC is judged before the fields that it covers, so that a damaged attribute is [`BatchDamage::Crc`] and
    /// [`BatchDamage::Header`] is left for what was written so.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BatchDamage> {
        match BatchHeader::parse(bytes) {
            Ok(header) => {
                let whole = take(bytes, header.size_bytes)?;
                check_crc(whole)?;
                Ok(Self { header, bytes: whole })
            }
            Err(
                damage @ (HeaderDamage::Codec { .. }
                | HeaderDamage::Count { .. }
                | HeaderDamage::Offsets { .. }),
            ) => {
                let length = bytes.first_chunk::<HEADER_BYTES>().map(|h| i32::from_be_bytes(field(h, 8)));
                let size = length.and_then(super::header::size_of_length).unwrap_or(HEADER_BYTES);
                check_crc(take(bytes, size)?)?;
                Err(damage.into())
            }
            Err(damage) => Err(damage.into()),
        }
    }

    /// What the header says.
    pub const fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The whole batch.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What is behind the header: the records, or one compressed stream of them.
    #[inline]
    pub fn records_bytes(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// The records. Those of a compressed batch are decompressed, within the limits, into `scratch`, whose content is replaced and whose
    /// room can be used again; those of any other are borrowed from the batch itself.
    pub fn records<'b>(
        &self,
        limits: &DecompressLimits,
        scratch: &'b mut Vec<u8>,
    ) -> Result<Records<'b>, RecordDamage>
    where
        'a: 'b,
    {
        let compression = self.header.compression();
        if compression == Compression::None || self.header.record_count == 0 {
            return Ok(Records::new(self.header, self.records_bytes()));
        }
        scratch.clear();
        Decompressor::new(compression, self.records_bytes(), limits)?.read_all(scratch)?;
        Ok(Records::new(self.header, scratch))
    }
}

impl std::fmt::Debug for BatchView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchView").field("header", &self.header).finish_non_exhaustive()
    }
}

#[inline]
fn take(bytes: &[u8], needs: usize) -> Result<&[u8], BatchDamage> {
    bytes.get(..needs).ok_or(BatchDamage::Torn { needs, have: bytes.len() })
}

/// CRC-32C of what it covers in a whole batch.
#[inline]
pub(super) fn crc_of(batch: &[u8]) -> u32 {
    crc32c::crc32c(&batch[AT_ATTRIBUTES..])
}

#[inline]
fn check_crc(batch: &[u8]) -> Result<(), BatchDamage> {
    let stored = batch.first_chunk::<HEADER_BYTES>().map_or(0, |h| u32::from_be_bytes(field(h, AT_CRC)));
    let computed = crc_of(batch);
    if stored == computed { Ok(()) } else { Err(BatchDamage::Crc { stored, computed }) }
}
