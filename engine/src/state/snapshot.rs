//! The bytes of Kafka's `.snapshot` files: the state of all producers at an offset, the last batch of each.
//!
//! ```text
//! version i16 = 1 | crc u32, CRC-32C of all behind it | count i32 | count x 46 bytes
//! producer i64 | epoch i16 | last sequence i32 | last offset i64 | offset delta i32 | timestamp i64 | coordinator epoch i32 | first offset of the open transaction i64
//! ```
//! It refuses to guess: a snapshot that is not exactly right is damaged, and an older one or the log itself is taken.

use std::collections::VecDeque;

use super::producer::{Producer, Remembered};
use super::producers::{Producers, ProducersConfig};
use crate::units::{Monotonic, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

const VERSION: i16 = 1;
const HEADER_BYTES: usize = 10;
const ENTRY_BYTES: usize = 46;

/// Why a producer snapshot cannot be believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotDamage {
    /// Fewer bytes than a header, or not the length that the count says.
    #[error("the snapshot has {bytes} bytes, which is not the length of one")]
    Length {
        /// The file's length.
        bytes: usize,
    },
    /// Another version than 1.
    #[error("the snapshot's version is {version}, not 1")]
    Version {
        /// What it says.
        version: i16,
    },
    /// The CRC-32C does not fit the bytes.
    #[error("the snapshot's CRC is {stored:#010x}, its bytes have {computed:#010x}")]
    Crc {
        /// What it says.
        stored: u32,
        /// What its bytes have.
        computed: u32,
    },
    /// A field has a value that no writer gives it.
    #[error("the entry {entry} of the snapshot has an impossible value")]
    Value {
        /// The number of the entry, from 0.
        entry: usize,
    },
}

impl Producers {
    /// The bytes of a snapshot of this state.
    pub fn encode_snapshot(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.known.len() * ENTRY_BYTES);
        bytes.extend(VERSION.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(i32::try_from(self.known.len()).unwrap_or(i32::MAX).to_be_bytes());
        for (id, producer) in &self.known {
            encode_entry(&mut bytes, *id, producer);
        }
        let crc = crc32c::crc32c(bytes.get(6..).unwrap_or_default());
        if let Some(field) = bytes.get_mut(2..6) {
            field.copy_from_slice(&crc.to_be_bytes());
        }
        bytes
    }

    /// The state that a snapshot holds. All its producers count as active at `loaded`: when they last wrote is not in the file, and
    /// the time that their records claim says nothing about it.
    pub fn decode_snapshot(
        bytes: &[u8],
        config: ProducersConfig,
        loaded: Monotonic,
    ) -> Result<Self, SnapshotDamage> {
        let length = || SnapshotDamage::Length { bytes: bytes.len() };
        let mut header = Fields(bytes);
        let version = header.i16().ok_or_else(length)?;
        if version != VERSION {
            return Err(SnapshotDamage::Version { version });
        }
        let stored = header.u32().ok_or_else(length)?;
        let computed = crc32c::crc32c(header.0);
        if stored != computed {
            return Err(SnapshotDamage::Crc { stored, computed });
        }
        let count = header.i32().and_then(|count| usize::try_from(count).ok()).ok_or_else(length)?;
        if count.checked_mul(ENTRY_BYTES) != Some(header.0.len()) {
            return Err(length());
        }
        let mut producers = Self::new(config);
        for entry in 0..count {
            let (id, producer) = decode_entry(&mut header, loaded).ok_or(SnapshotDamage::Value { entry })?;
            if let Some(first) = producer.transaction_first {
                producers.open.insert(first, id);
            }
            producers.known.insert(id, producer);
        }
        Ok(producers)
    }
}

fn encode_entry(bytes: &mut Vec<u8>, id: ProducerId, producer: &Producer) {
    let last = producer.batches.back();
    let delta = last.and_then(|batch| batch.last.distance_from(batch.first)).unwrap_or(0);
    bytes.extend(id.value().to_be_bytes());
    bytes.extend(producer.epoch.map_or(-1, ProducerEpoch::value).to_be_bytes());
    bytes.extend(last.map_or(-1, |batch| batch.last_sequence.value()).to_be_bytes());
    bytes.extend(last.map_or(-1, |batch| batch.last.value()).to_be_bytes());
    bytes.extend(i32::try_from(delta).unwrap_or(i32::MAX).to_be_bytes());
    bytes.extend(producer.timestamp.millis().to_be_bytes());
    bytes.extend(producer.coordinator_epoch.unwrap_or(-1).to_be_bytes());
    bytes.extend(producer.transaction_first.map_or(-1, Offset::value).to_be_bytes());
}

fn decode_entry(fields: &mut Fields<'_>, loaded: Monotonic) -> Option<(ProducerId, Producer)> {
    let id = ProducerId::new(fields.i64()?)?;
    let epoch = ProducerEpoch::new(fields.i16()?);
    let last_sequence = fields.i32()?;
    let last = Offset::new(fields.i64()?);
    let delta = fields.i32()?;
    let timestamp = Timestamp::from_millis(fields.i64()?);
    let coordinator_epoch = Some(fields.i32()?).filter(|epoch| *epoch >= 0);
    let transaction_first = Offset::new(fields.i64()?);
    let mut batches = VecDeque::new();
    if let Some(last) = last {
        let last_sequence = Sequence::new(last_sequence)?;
        let first = last.checked_add(-i64::from(delta)).filter(|first| *first <= last)?;
        // Back over zero to the greatest sequence, as the writer came from there.
        let first_sequence = Sequence::new(last_sequence.value().wrapping_sub(delta) & i32::MAX)?;
        batches.push_back(Remembered { first_sequence, last_sequence, first, last, timestamp });
    }
    Some((id, Producer { epoch, batches, coordinator_epoch, timestamp, appended: loaded, transaction_first }))
}

/// Big-endian fields, one behind the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn i16(&mut self) -> Option<i16> {
        self.take().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_be_bytes)
    }
}
