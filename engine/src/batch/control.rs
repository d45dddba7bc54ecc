//! Control records: what brokers write into a log for one another, above all the ends of transactions.
//!
//! Key: `version i16, type i16`. A marker's value: `version i16, coordinator epoch i32`. Source: `ControlRecordType`, `EndTransactionMarker`.

use bytes::Bytes;

use super::{BatchBuilder, BuildError, Compression, RecordView};
use crate::units::{ProducerEpoch, ProducerId, Timestamp};

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionEnd {
    /// Its records do not count.
    Abort,
    /// Its records count.
    Commit,
}

/// What a control record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlRecord {
    /// A transaction marker: the transaction of the batch's producer has ended.
    Marker {
        /// How it ended.
        end: TransactionEnd,
        /// The epoch of the transaction coordinator that wrote the marker.
        coordinator_epoch: i32,
    },
    /// A `KRaft` quorum has a new leader.
    LeaderChange,
    /// A `KRaft` snapshot begins.
    SnapshotHeader,
    /// A `KRaft` snapshot ends.
    SnapshotFooter,
    /// The version of a `KRaft` quorum.
    KraftVersion,
    /// The voters of a `KRaft` quorum.
    KraftVoters,
    /// A type of a later time, to be ignored.
    Unknown {
        /// The type's number.
        number: i16,
    },
}

/// Why a record is not a control record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlDamage {
    /// No key, or one of fewer than 4 bytes.
    #[error("a control record's key cannot have {bytes} bytes")]
    Key {
        /// Its length.
        bytes: usize,
    },
    /// A marker without a value, or with one of fewer than 6 bytes.
    #[error("a transaction marker's value cannot have {bytes} bytes")]
    Value {
        /// Its length.
        bytes: usize,
    },
    /// Versions begin at 0.
    #[error("there is no version {version} of a control record")]
    Version {
        /// The version.
        version: i16,
    },
}

impl ControlRecord {
    /// Reads a record of a control batch.
    pub fn parse(record: &RecordView<'_>) -> Result<Self, ControlDamage> {
        let key = record.key.unwrap_or_default();
        let bytes = key.len();
        let number = split_version(key).ok_or(ControlDamage::Key { bytes }).and_then(checked)?;
        let number = number.first_chunk().ok_or(ControlDamage::Key { bytes })?;
        Ok(match i16::from_be_bytes(*number) {
            0 => Self::marker(TransactionEnd::Abort, record)?,
            1 => Self::marker(TransactionEnd::Commit, record)?,
            2 => Self::LeaderChange,
            3 => Self::SnapshotHeader,
            4 => Self::SnapshotFooter,
            5 => Self::KraftVersion,
            6 => Self::KraftVoters,
            number => Self::Unknown { number },
        })
    }

    fn marker(end: TransactionEnd, record: &RecordView<'_>) -> Result<Self, ControlDamage> {
        let value = record.value.unwrap_or_default();
        let bytes = value.len();
        let epoch = split_version(value).ok_or(ControlDamage::Value { bytes }).and_then(checked)?;
        let epoch = epoch.first_chunk().ok_or(ControlDamage::Value { bytes })?;
        Ok(Self::Marker { end, coordinator_epoch: i32::from_be_bytes(*epoch) })
    }
}

fn split_version(bytes: &[u8]) -> Option<(i16, &[u8])> {
    let (version, rest) = bytes.split_first_chunk()?;
    Some((i16::from_be_bytes(*version), rest))
}

/// Versions above ours are read as far as ours goes, as Kafka does.
const fn checked((version, rest): (i16, &[u8])) -> Result<&[u8], ControlDamage> {
    if version < 0 { Err(ControlDamage::Version { version }) } else { Ok(rest) }
}

/// The batch of one record that ends a producer's transaction, 78 bytes, not yet stamped.
pub fn transaction_marker(
    end: TransactionEnd,
    producer: ProducerId,
    epoch: ProducerEpoch,
    coordinator_epoch: i32,
    timestamp: Timestamp,
) -> Result<Bytes, BuildError> {
    let number: i16 = match end {
        TransactionEnd::Abort => 0,
        TransactionEnd::Commit => 1,
    };
    let mut key = [0; 4];
    key[2..].copy_from_slice(&number.to_be_bytes());
    let mut value = [0; 6];
    value[2..].copy_from_slice(&coordinator_epoch.to_be_bytes());
    let mut builder = BatchBuilder::new(Compression::None)
        .producer_without_sequence(producer, epoch)
        .transactional()
        .control();
    builder.push(Some(timestamp), Some(&key), Some(&value), &[])?;
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::super::{BatchView, DecompressLimits, RecordHeaders};
    use super::*;
    use crate::units::Offset;

    #[test]
    fn a_marker_has_78_bytes_and_says_how_the_transaction_ended() {
        for end in [TransactionEnd::Abort, TransactionEnd::Commit] {
            let (id, epoch) = (ProducerId::new(77).unwrap(), ProducerEpoch::new(3).unwrap());
            let bytes = transaction_marker(end, id, epoch, 9, Timestamp::from_millis(5)).unwrap();
            assert_eq!(bytes.len(), 78);
            let view = BatchView::parse(&bytes).unwrap();
            let header = view.header();
            assert_eq!(header.attributes.bits(), 0x30);
            assert_eq!(
                (header.producer_id, header.producer_epoch, header.base_sequence),
                (Some(id), Some(epoch), None)
            );
            let mut scratch = Vec::new();
            let record =
                view.records(&DecompressLimits::default(), &mut scratch).unwrap().next().unwrap().unwrap();
            assert_eq!(
                ControlRecord::parse(&record),
                Ok(ControlRecord::Marker { end, coordinator_epoch: 9 })
            );
        }
    }

    #[test]
    fn unknown_types_are_told_and_damage_is_refused() {
        let parse = |key: Option<&[u8]>, value: Option<&[u8]>| {
            ControlRecord::parse(&RecordView {
                offset: Offset::ZERO,
                timestamp: None,
                attributes: 0,
                key,
                value,
                headers: RecordHeaders::NONE,
            })
        };
        assert_eq!(parse(Some(&[0, 0, 0, 2]), None), Ok(ControlRecord::LeaderChange));
        assert_eq!(parse(Some(&[0, 0, 0, 99]), None), Ok(ControlRecord::Unknown { number: 99 }));
        assert_eq!(parse(Some(&[0, 7, 0, 6]), None), Ok(ControlRecord::KraftVoters));
        assert_eq!(parse(Some(&[0xff, 0xff, 0, 2]), None), Err(ControlDamage::Version { version: -1 }));
        assert_eq!(parse(None, None), Err(ControlDamage::Key { bytes: 0 }));
        assert_eq!(parse(Some(&[0, 0, 0]), None), Err(ControlDamage::Key { bytes: 3 }));
        assert_eq!(parse(Some(&[0, 0, 0, 1]), None), Err(ControlDamage::Value { bytes: 0 }));
        assert_eq!(
            parse(Some(&[0, 0, 0, 1]), Some(&[0, 0, 0, 0, 0])),
            Err(ControlDamage::Value { bytes: 5 })
        );
    }
}
