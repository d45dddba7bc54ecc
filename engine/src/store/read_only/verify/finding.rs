//! What does not hold together: a typed fault, and where it is.

use std::fmt;
use std::path::PathBuf;

use crate::checkpoint::Damage;
use crate::index::{AbortedDamage, AbortedTransaction, IndexDamage, OffsetEntry, TimeEntry};
use crate::recovery::{BadKind, Refusal, SuspectReason};
use crate::state::SnapshotDamage;
use crate::units::{LeaderEpoch, Offset, OffsetRange, ProducerId, Timestamp, TopicPartition};

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Whose; `None` of what belongs to the data directory, or of a file alone.
    pub log: Option<TopicPartition>,
    /// The file, or the directory where no file is to blame.
    pub path: PathBuf,
    /// Where in the file, in bytes.
    pub position: Option<u64>,
    /// Which offsets it touches.
    pub offsets: Option<OffsetRange>,
    /// What it is.
    pub fault: Fault,
}

impl Finding {
    pub(super) fn new(path: PathBuf, fault: Fault) -> Self {
        Self { log: None, path, position: None, offsets: None, fault }
    }

    pub(super) fn at(mut self, position: u64) -> Self {
        self.position = Some(position);
        self
    }

    pub(super) fn of(mut self, from: Offset, until: Offset) -> Self {
        self.offsets = OffsetRange::new(from, until.max(from));
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(position) = self.position {
            write!(f, " at byte {position}")?;
        }
        if let Some(offsets) = self.offsets {
            write!(f, ", offsets {offsets}")?;
        }
        write!(f, ": {}", self.fault)
    }
}

/// What is wrong, with what was expected and what is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Bytes of a segment that are no whole batch in its place.
    #[error("bytes {from}..{until} are no whole batch ({looks:?}); offset {expected} belongs there, and {}", next(*.found))]
    NoBatch {
        /// Where they begin.
        from: u64,
        /// Where they end.
        until: u64,
        /// What they look like.
        looks: BadKind,
        /// The offset of the batch that belongs there.
        expected: Offset,
        /// The base offset of the next whole batch of the segment.
        found: Option<Offset>,
    },
    /// A batch, or several, with another leader epoch than the log has there.
    #[error("the batches have leader epoch {}, and the log has {expected} there", number(*.found))]
    Epoch {
        /// What the history of the log has.
        expected: LeaderEpoch,
        /// What the batches have.
        found: Option<LeaderEpoch>,
    },
    /// Offsets that belong to the log and lie in no segment.
    #[error("the log goes on at {found}, and {expected} is the next offset")]
    Missing {
        /// The next offset.
        expected: Offset,
        /// Where the log goes on.
        found: Offset,
    },
    /// What recovery would say of the log.
    #[error("{reason}")]
    Recovery {
        /// What.
        reason: SuspectReason,
    },
    /// The log cannot be opened.
    #[error("the log cannot be opened: {why}")]
    Refused {
        /// Why.
        why: Refusal,
    },
    /// Behind a clean stop there is no write that was interrupted.
    #[error("the last {bytes} bytes are no whole batch, though the stop was clean")]
    Torn {
        /// How many bytes.
        bytes: u64,
    },
    /// What was known to be committed is gone.
    #[error("the log ends at {found}, below its high watermark {expected}")]
    BelowHighWatermark {
        /// The high watermark.
        expected: Offset,
        /// The end.
        found: Offset,
    },
    /// A file that belongs there.
    #[error("the file is missing")]
    NoFile,
    /// An index that cannot be one.
    #[error("{0}")]
    Index(#[from] IndexDamage),
    /// An entry of an offset index that leads astray.
    #[error("entry {entry} lets offset {} begin at byte {}, where {}", .named.last_offset, .named.position, place(*.found))]
    OffsetEntry {
        /// The entry's number, from 0.
        entry: usize,
        /// What it says.
        named: OffsetEntry,
        /// The offsets of the batch that begins there; `None` if none does.
        found: Option<OffsetRange>,
    },
    /// An entry of a time index that leads astray.
    #[error("entry {entry} lets {} be the greatest time up to offset {}, which is {}", .named.timestamp.millis(), .named.last_offset, time(*.found))]
    TimeEntry {
        /// The entry's number, from 0.
        entry: usize,
        /// What it says.
        named: TimeEntry,
        /// The greatest timestamp up to there; `None` if there is no such batch or it has none.
        found: Option<Timestamp>,
    },
    /// A time index that ends too early, so that the age of its segment and searches by time are wrong.
    #[error("the index ends with {}, and the greatest time of the segment is {}", time(*.found), .expected.millis())]
    TimeEnd {
        /// The greatest timestamp of the segment.
        expected: Timestamp,
        /// The last one of the index.
        found: Option<Timestamp>,
    },
    /// An index of aborted transactions that cannot be one.
    #[error("{0}")]
    AbortedIndex(#[from] AbortedDamage),
    /// An aborted transaction that the index and the log say differently.
    #[error("the index says {}, and the log {}", aborted(*.found), aborted(*.expected))]
    Aborted {
        /// What the log says.
        expected: Option<AbortedTransaction>,
        /// What the index says.
        found: Option<AbortedTransaction>,
    },
    /// A snapshot of producers that cannot be one.
    #[error("{0}")]
    Snapshot(#[from] SnapshotDamage),
    /// A producer that the snapshot and the log say differently.
    #[error("what it says of producer {} is not what the log says", .producer.value())]
    Producer {
        /// Whose state it is.
        producer: ProducerId,
    },
    /// The epoch checkpoint and the batches say different things.
    #[error("the file has leader epoch {}, and the batches have {}", number(*.found), number(*.expected))]
    EpochFile {
        /// What the batches have.
        expected: Option<LeaderEpoch>,
        /// What the file has.
        found: Option<LeaderEpoch>,
    },
    /// A small file that cannot be believed.
    #[error("{0}")]
    SmallFile(#[from] Damage),
}

impl Fault {
    /// Its kind, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NoBatch { .. } => "no-batch",
            Self::Epoch { .. } => "epoch",
            Self::Missing { .. } => "missing-offsets",
            Self::Recovery { .. } => "recovery",
            Self::Refused { .. } => "refused",
            Self::Torn { .. } => "torn",
            Self::BelowHighWatermark { .. } => "below-high-watermark",
            Self::NoFile => "missing-file",
            Self::Index(_) => "index",
            Self::OffsetEntry { .. } => "offset-entry",
            Self::TimeEntry { .. } => "time-entry",
            Self::TimeEnd { .. } => "time-end",
            Self::AbortedIndex(_) => "aborted-index",
            Self::Aborted { .. } => "aborted-transaction",
            Self::Snapshot(_) => "snapshot",
            Self::Producer { .. } => "producer",
            Self::EpochFile { .. } => "epoch-file",
            Self::SmallFile(_) => "small-file",
        }
    }

    /// What was expected and what is there, for programs, where the fault has them.
    pub fn expected_and_found(&self) -> Option<(String, String)> {
        let offset =
            |offset: Option<Offset>| offset.map_or_else(|| "nothing".to_owned(), |at| at.to_string());
        Some(match self {
            Self::NoBatch { expected, found, .. } => (expected.to_string(), offset(*found)),
            Self::Epoch { expected, found } => (expected.to_string(), number(*found)),
            Self::Missing { expected, found } | Self::BelowHighWatermark { expected, found } => {
                (expected.to_string(), found.to_string())
            }
            Self::OffsetEntry { named, found, .. } => (named.last_offset.to_string(), place(*found)),
            Self::TimeEntry { named, found, .. } => (named.timestamp.millis().to_string(), time(*found)),
            Self::TimeEnd { expected, found } => (expected.millis().to_string(), time(*found)),
            Self::Aborted { expected, found } => (aborted(*expected), aborted(*found)),
            Self::EpochFile { expected, found } => (number(*expected), number(*found)),
            Self::Recovery { .. }
            | Self::Refused { .. }
            | Self::Torn { .. }
            | Self::NoFile
            | Self::Index(_)
            | Self::AbortedIndex(_)
            | Self::Snapshot(_)
            | Self::Producer { .. }
            | Self::SmallFile(_) => return None,
        })
    }
}

fn next(found: Option<Offset>) -> String {
    match found {
        Some(offset) => format!("the next batch begins at offset {offset}"),
        None => "none follows in the segment".to_owned(),
    }
}

fn number(epoch: Option<LeaderEpoch>) -> String {
    epoch.map_or_else(|| "none".to_owned(), |epoch| epoch.to_string())
}

fn place(found: Option<OffsetRange>) -> String {
    match found {
        Some(offsets) => format!("the batch with offsets {offsets} begins"),
        None => "no such batch begins".to_owned(),
    }
}

fn time(found: Option<Timestamp>) -> String {
    found.map_or_else(|| "none".to_owned(), |time| time.millis().to_string())
}

fn aborted(transaction: Option<AbortedTransaction>) -> String {
    match transaction {
        Some(AbortedTransaction { producer, first, marker, last_stable }) => format!(
            "producer {} aborted from {first} to {marker}, stable up to {last_stable}",
            producer.value()
        ),
        None => "nothing of such a transaction".to_owned(),
    }
}
