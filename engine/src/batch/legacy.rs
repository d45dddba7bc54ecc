//! The formats before magic 2: single messages of magic 0 and 1, and wrappers whose value is a compressed set of them. Read, never written.
//!
//! ```text
//! offset i64 | size i32 | crc u32 (CRC-32 of what follows) | magic i8 | attributes i8 | [timestamp i64, magic 1] | key length i32, key | value length i32, value
//! ```
//!
//! Source: `org.apache.kafka.common.record.AbstractLegacyRecordBatch`, `LegacyRecord`. Not read: LZ4 in magic 0, whose writers reckoned the
//! frame's checksum wrongly.

use super::codec::Decompressor;
use super::header::{TimestampType, timestamp_from_field};
use super::scan::prefix;
use super::{CodecError, Compression, DecompressLimits, StopReason};
use crate::units::{Offset, Timestamp};

const BIT_LOG_APPEND_TIME: u8 = 1 << 3;

/// One message of magic 0 or 1 whose length and CRC are right: a record, or a compressed set of records.
#[derive(Clone, Copy, Debug)]
pub struct LegacyMessage<'a> {
    /// Its offset; a wrapper's is that of its last record.
    offset: i64,
    /// Its size in bytes.
    size_bytes: usize,
    /// 0 or 1.
    magic: i8,
    compression: Compression,
    timestamp_type: TimestampType,
    timestamp: Option<Timestamp>,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
}

/// Why bytes are not a message of magic 0 or 1, or its value not a set of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LegacyDamage {
    /// The part of the header that all versions share is not one, or the message is cut off.
    #[error(transparent)]
    Frame(StopReason),
    /// The fields do not fill the message exactly.
    #[error("the fields of a message do not fill its {size_bytes} bytes")]
    Fields {
        /// The message's size.
        size_bytes: usize,
    },
    /// There is no such codec in this version.
    #[error("there is no codec {codec} in magic {magic}")]
    Codec {
        /// The codec's number.
        codec: u8,
        /// 0 or 1.
        magic: i8,
    },
    /// A wrapper has no value, holds no message, or holds one of another version or one that is compressed again.
    #[error("a compressed message of magic {magic} does not hold plain ones of the same version")]
    Wrapped {
        /// The wrapper's.
        magic: i8,
    },
    /// An offset is negative, or the offsets within a wrapper do not fit it.
    #[error("{offset} is not the offset of a message here")]
    Offset {
        /// The offset.
        offset: i64,
    },
    /// The value cannot be decompressed.
    #[error(transparent)]
    Decompress(#[from] CodecError),
}

/// One record of the legacy formats; they have no headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyRecord<'a> {
    /// Its offset in the log.
    pub offset: Offset,
    /// Its timestamp; magic 0 has none.
    pub timestamp: Option<Timestamp>,
    /// The key, if there is one.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone in a compacted topic.
    pub value: Option<&'a [u8]>,
}

impl<'a> LegacyMessage<'a> {
    /// Proves the message at the beginning of `bytes`; there may be more behind it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, LegacyDamage> {
        let prefix = prefix(bytes).map_err(LegacyDamage::Frame)?;
        let (size_bytes, magic) = (prefix.size_bytes, prefix.magic);
        if !matches!(magic, 0 | 1) {
            return Err(LegacyDamage::Frame(StopReason::Magic { magic }));
        }
        let torn = StopReason::TornBatch { needs: size_bytes, have: bytes.len() };
        let whole = bytes.get(..size_bytes).ok_or(LegacyDamage::Frame(torn))?;
        let fields = LegacyDamage::Fields { size_bytes };
        let (offset, rest) = whole.split_first_chunk().ok_or(fields)?;
        let (_length, rest) = rest.split_first_chunk::<4>().ok_or(fields)?;
        let (stored, rest) = rest.split_first_chunk().ok_or(fields)?;
        let (stored, computed) = (u32::from_be_bytes(*stored), crc32fast::hash(rest));
        if stored != computed {
            return Err(LegacyDamage::Frame(StopReason::Crc { stored, computed }));
        }
        let (&[_magic, attributes], mut rest) = rest.split_first_chunk().ok_or(fields)?;
        let mut timestamp = None;
        if magic == 1 {
            let (millis, behind) = rest.split_first_chunk().ok_or(fields)?;
            timestamp = timestamp_from_field(i64::from_be_bytes(*millis));
            rest = behind;
        }
        let (key, rest) = split_field(rest).ok_or(fields)?;
        let (value, rest) = split_field(rest).ok_or(fields)?;
        if !rest.is_empty() {
            return Err(fields);
        }
        let codec = attributes & 7;
        let compression = Compression::from_number(codec)
            .filter(|compression| *compression != Compression::Zstd)
            .ok_or(LegacyDamage::Codec { codec, magic })?;
        let timestamp_type = if magic == 1 && attributes & BIT_LOG_APPEND_TIME != 0 {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        };
        let offset = i64::from_be_bytes(*offset);
        Ok(Self { offset, size_bytes, magic, compression, timestamp_type, timestamp, key, value })
    }

    /// The offset that is written in it: its own, or its last record's if it is compressed (0 from some producers).
    pub const fn offset(&self) -> i64 {
        self.offset
    }

    /// Its size, header included, in bytes.
    pub const fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// 0 or 1.
    pub const fn magic(&self) -> i8 {
        self.magic
    }

    /// What its timestamp, and those in it, mean.
    pub const fn timestamp_type(&self) -> TimestampType {
        self.timestamp_type
    }

    /// How its value is compressed; if it is at all, the message is a wrapper.
    pub const fn compression(&self) -> Compression {
        self.compression
    }

    /// Its record, or those in it. A wrapper's value is decompressed, within the limits, into `scratch`, whose content is replaced.
    ///
    /// All records are proven before the first is given.
    pub fn records<'b>(
        &self,
        limits: &DecompressLimits,
        scratch: &'b mut Vec<u8>,
    ) -> Result<LegacyRecords<'b>, LegacyDamage>
    where
        'a: 'b,
    {
        if self.compression == Compression::None {
            let offset = Offset::new(self.offset).ok_or(LegacyDamage::Offset { offset: self.offset })?;
            let LegacyMessage { timestamp, key, value, .. } = *self;
            return Ok(LegacyRecords(Inside::One(Some(LegacyRecord { offset, timestamp, key, value }))));
        }
        let wrapped = LegacyDamage::Wrapped { magic: self.magic };
        scratch.clear();
        Decompressor::new(self.compression, self.value.ok_or(wrapped)?, limits)?.read_all(scratch)?;
        let base = self.check_wrapped(scratch)?;
        let log_append_time = match self.timestamp_type {
            TimestampType::LogAppendTime => self.timestamp,
            TimestampType::CreateTime => None,
        };
        Ok(LegacyRecords(Inside::Wrapped { rest: scratch, base, log_append_time }))
    }

    /// Proves the messages of a wrapper; gives what is to be added to their offsets.
    ///
    /// In magic 0 they are absolute. In magic 1 they count from the wrapper's first record, and the wrapper has the last one's offset;
    /// where that is 0, as from some producers, they are taken as they are.
    fn check_wrapped(&self, mut rest: &[u8]) -> Result<i64, LegacyDamage> {
        let wrapped = LegacyDamage::Wrapped { magic: self.magic };
        let mut offsets = None;
        while !rest.is_empty() {
            let message = LegacyMessage::parse(rest)?;
            if message.magic != self.magic || message.compression != Compression::None {
                return Err(wrapped);
            }
            let offset = message.offset;
            match offsets {
                Some((_, last)) if offset <= last => return Err(LegacyDamage::Offset { offset }),
                Some((first, _)) => offsets = Some((first, offset)),
                None => offsets = Some((offset, offset)),
            }
            rest = &rest[message.size_bytes..];
        }
        let (first, last) = offsets.ok_or(wrapped)?;
        let base = if self.magic == 0 || self.offset == 0 { Some(0) } else { self.offset.checked_sub(last) };
        let misfit = LegacyDamage::Offset { offset: self.offset };
        let base = base.ok_or(misfit)?;
        let in_log = |offset: i64| base.checked_add(offset).and_then(Offset::new);
        in_log(first).and(in_log(last)).ok_or(misfit)?;
        Ok(base)
    }
}

/// The records of one [`LegacyMessage`], in order.
#[derive(Clone, Debug)]
pub struct LegacyRecords<'a>(Inside<'a>);

#[derive(Clone, Debug)]
enum Inside<'a> {
    /// The message is a record itself.
    One(Option<LegacyRecord<'a>>),
    /// The message held these: those still to come, what is added to their offsets, and the timestamp of all, if the leader's clock counts.
    Wrapped { rest: &'a [u8], base: i64, log_append_time: Option<Timestamp> },
}

impl<'a> Iterator for LegacyRecords<'a> {
    type Item = LegacyRecord<'a>;

    fn next(&mut self) -> Option<LegacyRecord<'a>> {
        match &mut self.0 {
            Inside::One(record) => record.take(),
            Inside::Wrapped { rest, base, log_append_time } => {
                let message = LegacyMessage::parse(rest).ok()?;
                *rest = &rest[message.size_bytes..];
                Some(LegacyRecord {
                    offset: base.checked_add(message.offset).and_then(Offset::new)?,
                    timestamp: log_append_time.or(message.timestamp),
                    key: message.key,
                    value: message.value,
                })
            }
        }
    }
}

/// A length, -1 for null, and as many bytes.
fn split_field(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    match i32::from_be_bytes(*length) {
        -1 => Some((None, rest)),
        length => {
            let (field, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            Some((Some(field), rest))
        }
    }
}
