//! The index of aborted transactions (`.txnindex`), in the segment of their markers; readers of committed records leave their
//! records out.

use crate::units::{Offset, ProducerId};

const ENTRY_BYTES: usize = 34;
const VERSION: i16 = 0;

/// An aborted transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Whose it was.
    pub producer: ProducerId,
    /// The offset of its first record.
    pub first: Offset,
    /// The offset of its marker.
    pub marker: Offset,
    /// The first offset of the earliest transaction that was still open then, else the one behind the marker.
    pub last_stable: Offset,
}

/// Why an index of aborted transactions has to be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AbortedDamage {
    /// The file does not consist of whole entries.
    #[error("{bytes} bytes are not whole entries of aborted transactions")]
    Length {
        /// The file's size.
        bytes: usize,
    },
    /// An entry has another version, a negative number, or does not lie behind the one before.
    #[error("the aborted transaction {entry} is impossible")]
    Entry {
        /// The entry's number, from 0.
        entry: usize,
    },
}

/// What [`aborted_in`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbortedQuery {
    /// Aborted transactions that overlap the range.
    pub transactions: Vec<AbortedTransaction>,
    /// Whether no later segment can hold another one that does.
    pub complete: bool,
}

/// Puts an entry's bytes behind those of the file.
pub fn append_aborted(bytes: &mut Vec<u8>, aborted: &AbortedTransaction) {
    bytes.extend(VERSION.to_be_bytes());
    bytes.extend(aborted.producer.value().to_be_bytes());
    for offset in [aborted.first, aborted.marker, aborted.last_stable] {
        bytes.extend(offset.value().to_be_bytes());
    }
}

/// Reads the entries of a segment with this base: whole, markers strictly ascending from the base on.
pub fn decode_aborted(bytes: &[u8], base: Offset) -> Result<Vec<AbortedTransaction>, AbortedDamage> {
    let (entries, []) = bytes.as_chunks::<ENTRY_BYTES>() else {
        return Err(AbortedDamage::Length { bytes: bytes.len() });
    };
    let mut decoded: Vec<AbortedTransaction> = Vec::with_capacity(entries.len());
    for (number, entry) in entries.iter().enumerate() {
        let aborted = decode_entry(entry)
            .filter(|aborted| aborted.first <= aborted.marker && aborted.marker >= base)
            .filter(|aborted| decoded.last().is_none_or(|before| aborted.marker > before.marker))
            .ok_or(AbortedDamage::Entry { entry: number })?;
        decoded.push(aborted);
    }
    Ok(decoded)
}

/// Which of a segment's aborted transactions have records from `from` on and below `end`.
pub fn aborted_in(aborted: &[AbortedTransaction], from: Offset, end: Offset) -> AbortedQuery {
    let mut transactions = Vec::new();
    for transaction in aborted {
        if transaction.marker >= from && transaction.first < end {
            transactions.push(*transaction);
        }
        if transaction.last_stable >= end {
            return AbortedQuery { transactions, complete: true };
        }
    }
    AbortedQuery { transactions, complete: false }
}

/// How many bytes the entries have in front of the first whose marker lies at or above `end`.
pub(crate) fn aborted_bytes_below(bytes: &[u8], end: Offset) -> usize {
    let (entries, _) = bytes.as_chunks::<ENTRY_BYTES>();
    let marker = |entry| decode_entry(entry).map(|aborted| aborted.marker);
    let cut = entries.iter().position(|entry| marker(entry).is_some_and(|marker| marker >= end));
    cut.map_or(bytes.len(), |number| number * ENTRY_BYTES)
}

fn decode_entry(entry: &[u8; ENTRY_BYTES]) -> Option<AbortedTransaction> {
    let (version, rest) = entry.split_first_chunk()?;
    if i16::from_be_bytes(*version) != VERSION {
        return None;
    }
    let (fields, _) = rest.as_chunks::<8>();
    let [producer, first, marker, last_stable] = *fields else { return None };
    Some(AbortedTransaction {
        producer: ProducerId::new(i64::from_be_bytes(producer))?,
        first: Offset::new(i64::from_be_bytes(first))?,
        marker: Offset::new(i64::from_be_bytes(marker))?,
        last_stable: Offset::new(i64::from_be_bytes(last_stable))?,
    })
}
