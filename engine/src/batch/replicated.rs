//! A follower's checks of what its leader sent. The leader checked the records; here it is about what the network and two disks may have
//! done to the batches. Where the log ends is not known here.
//!
//! Source: `UnifiedLog.analyzeAndValidateRecords` for followers; KAFKA-18723 for batches of a newer epoch.

use bytes::Bytes;

use super::{BatchHeader, ScanStop, StopReason, scan};
use crate::units::{LeaderEpoch, Offset};

/// Whole batches of a leader's, in order of their offsets and epochs; possibly none.
#[derive(Clone, Debug)]
pub struct ReplicatedBatches {
    bytes: Bytes,
    ends: Option<Ends>,
    dropped: Dropped,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: Offset,
    next: Offset,
    epoch: LeaderEpoch,
}

/// What was behind the batches that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// Nothing.
    Nothing,
    /// The beginning of a batch: the reply's limit of bytes cut it.
    TornTail,
    /// Batches of a later leadership than the one that was asked; they are fetched again in that one.
    NewerEpoch {
        /// The first such batch's.
        epoch: LeaderEpoch,
    },
}

/// Why a follower refuses what its leader sent. Nothing is to be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicaRefusal {
    /// A batch is damaged.
    #[error("damaged {0}")]
    Damaged(ScanStop),
    /// A batch does not begin behind the one before it.
    #[error("at byte {position} a batch begins at offset {base}, the one before it ends at {expected}")]
    OffsetsNotAscending {
        /// Where the batch begins in what was sent.
        position: u64,
        /// Its base offset.
        base: Offset,
        /// The lowest that it could be.
        expected: Offset,
    },
    /// A batch without a leader epoch was never stamped by a leader.
    #[error("at byte {position} a batch has no leader epoch")]
    EpochMissing {
        /// Where the batch begins in what was sent.
        position: u64,
    },
    /// A batch of an older leadership behind one of a newer.
    #[error("at byte {position} a batch has {epoch:?}, behind one of {before:?}")]
    EpochGoesBack {
        /// Where the batch begins in what was sent.
        position: u64,
        /// Its epoch.
        epoch: LeaderEpoch,
        /// The epoch of the batch before it.
        before: LeaderEpoch,
    },
}

impl ReplicatedBatches {
    /// Checks the batches of a reply to a fetch that was sent in `fetch_epoch`. What cannot be appended now, but is not damaged, is
    /// [`Dropped`].
    pub fn check(bytes: Bytes, fetch_epoch: LeaderEpoch) -> Result<Self, ReplicaRefusal> {
        let mut ends: Option<Ends> = None;
        let mut dropped = Dropped::Nothing;
        let mut batches = scan(&bytes, 0);
        let kept = loop {
            let kept = batches.position();
            let (position, view) = match batches.next() {
                None => break kept,
                Some(Ok(batch)) => batch,
                Some(Err(stop)) if is_torn(&stop.reason) => {
                    dropped = Dropped::TornTail;
                    break kept;
                }
                Some(Err(stop)) => return Err(ReplicaRefusal::Damaged(stop)),
            };
            let header = view.header();
            let base = header.base_offset;
            let epoch = header.leader_epoch.ok_or(ReplicaRefusal::EpochMissing { position })?;
            if epoch > fetch_epoch {
                dropped = Dropped::NewerEpoch { epoch };
                break kept;
            }
            if let Some(before) = ends {
                if base < before.next {
                    return Err(ReplicaRefusal::OffsetsNotAscending {
                        position,
                        base,
                        expected: before.next,
                    });
                }
                if epoch < before.epoch {
                    return Err(ReplicaRefusal::EpochGoesBack { position, epoch, before: before.epoch });
                }
            }
            let first = ends.map_or(base, |ends| ends.first);
            ends = Some(Ends { first, next: header.next_offset(), epoch });
        };
        let kept = usize::try_from(kept).unwrap_or(bytes.len());
        let bytes = if kept == bytes.len() { bytes } else { bytes.slice(..kept) };
        Ok(Self { bytes, ends, dropped })
    }

    /// Whether no batch is left to append.
    pub const fn is_empty(&self) -> bool {
        self.ends.is_none()
    }

    /// The bytes to be stored, as the leader has them.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The bytes to be stored, as the leader has them.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// Where the first batch begins.
    pub fn first_offset(&self) -> Option<Offset> {
        self.ends.map(|ends| ends.first)
    }

    /// The first offset behind the last batch.
    pub fn next_offset(&self) -> Option<Offset> {
        self.ends.map(|ends| ends.next)
    }

    /// The leader epoch of the last batch, the greatest of them.
    pub fn last_epoch(&self) -> Option<LeaderEpoch> {
        self.ends.map(|ends| ends.epoch)
    }

    /// What was behind these batches and is left out.
    pub const fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// Each batch's header, with the position of its first byte in [`bytes`](Self::bytes).
    pub fn batches(&self) -> impl Iterator<Item = (usize, BatchHeader)> + '_ {
        let mut position = 0;
        std::iter::from_fn(move || {
            let rest = self.bytes.get(position..).filter(|rest| !rest.is_empty())?;
            let header = BatchHeader::parse(rest).expect("these bytes were scanned when they were checked");
            let at = position;
            position += header.size_bytes;
            Some((at, header))
        })
    }
}

/// Whether the bytes just end too early. Kafka keeps silent about 17 bytes or fewer, zeros or not.
const fn is_torn(reason: &StopReason) -> bool {
    matches!(reason, StopReason::TornHeader { .. } | StopReason::TornBatch { .. })
        || matches!(reason, StopReason::Zeros { have } if *have <= super::PREFIX_BYTES)
}
