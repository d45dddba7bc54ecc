//! What recovery knows before it decides: facts that its owner read from the disk, as values.

use std::collections::BTreeMap;

use super::context::Gaps;
use super::scan::SegmentScan;
use crate::checkpoint::CleanPartition;
use crate::state::EpochHistory;
use crate::units::{LeaderEpoch, Offset};

/// All that is known about one partition's directory.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// The plain files in the directory.
    pub files: Vec<FileFact>,
    /// What the checkpoint of recovery points says.
    pub recovery_point: RecoveryPoint,
    /// What the checkpoint of log starts says; `None` without an entry or where it cannot be believed.
    pub log_start: Option<Offset>,
    /// Who wrote that checkpoint.
    pub(crate) start_guard: StartGuard,
    /// How the last user stopped.
    pub stop: Stop,
    /// Whether what was written and not synced has survived since.
    pub machine: Machine,
    /// Whether batches with gaps in front of them may have been appended.
    pub gaps: Gaps,
    /// What was found in the segments that [`super::plan_scan`] asked for, by the segment's base.
    pub scans: BTreeMap<Offset, SegmentScan>,
    /// What is known of leader epochs.
    pub epochs: EpochFacts,
}

/// A plain file of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileFact {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// What the checkpoint of recovery points says about a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) enum RecoveryPoint {
    /// Everything below is synced.
    Known(Offset),
    /// The checkpoint can be believed and has no entry: nothing of the log was ever synced for certain.
    NoEntry,
    /// The checkpoint is missing or damaged.
    Unknown,
}

/// Whether the checkpoint of log starts guards itself, so that no damage to it looks like another start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) enum StartGuard {
    /// It is ours.
    Guarded,
    /// It is a Kafka's.
    Unguarded,
}

/// How the last user of the directory stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) enum Stop {
    /// With a mark; and what our own mark says about the log.
    Clean {
        /// `None` in Kafka's mark.
        facts: Option<CleanPartition>,
    },
    /// Without a mark that can be believed.
    Unclean,
}

/// Whether the page cache survived since the last user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) enum Machine {
    /// The same boot, device and mount: all that was written is there.
    Same,
    /// Another, or it cannot be known: what was not synced may be missing, any part of it.
    OtherOrUnknown,
}

/// What is known of leader epochs, apart from the batches in the scans.
#[derive(Clone, Debug, Default)]
pub(crate) struct EpochFacts {
    /// The epoch checkpoint; `None` where it is missing or damaged.
    pub file: Option<EpochHistory>,
    /// What the log says at each beginning that the file names, in segments that are not scanned; none where no batch is left
    /// from there on.
    pub witnesses: Vec<EpochWitness>,
}

/// What the log has at the place where the epoch checkpoint lets an epoch begin: the first batch whose last offset is not below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EpochWitness {
    /// The beginning that the file names.
    pub start: Offset,
    /// The base offset of the batch.
    pub base: Offset,
    /// The batch's leader epoch.
    pub epoch: Option<LeaderEpoch>,
}

/// Why nothing can be planned, and the log stays closed and as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A compaction was interrupted while it exchanged files, and what it had written is not whole. What it was to replace may be gone or not.
    #[error("{file} is left from an interrupted compaction, and not whole: what it replaces cannot be told")]
    UnfinishedCompaction {
        /// The file's name.
        file: String,
    },
    /// A directory, a link or a device has the name of a segment's file.
    #[error("{name} is not a file")]
    NotAFile {
        /// Its name.
        name: String,
    },
    /// A segment that had to be read was not.
    #[error("the segment {base} was not scanned")]
    NotScanned {
        /// Its base offset.
        base: Offset,
    },
}

/// The sizes of one segment's files, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SegmentFiles {
    pub(super) log: u64,
    pub(super) offsets: Option<u64>,
    pub(super) times: Option<u64>,
}

/// The directory's files, sorted out.
#[derive(Clone, Debug, Default)]
pub(super) struct Sorted {
    pub(super) segments: BTreeMap<Offset, SegmentFiles>,
    pub(super) snapshots: Vec<Offset>,
    /// Index files without a segment, and what deletions and compactions left.
    pub(super) leftovers: Vec<String>,
    /// A file of a compaction that had begun to exchange segments.
    pub(super) swap: Option<String>,
}

impl Sorted {
    pub(super) fn of(files: &[FileFact]) -> Self {
        let mut sorted = Self::default();
        let mut indexes = Vec::new();
        for file in files {
            match split_name(&file.name) {
                Some((base, ".log")) => {
                    sorted.segments.insert(base, SegmentFiles { log: file.bytes, ..SegmentFiles::default() });
                }
                Some((base, ".snapshot")) => sorted.snapshots.push(base),
                Some((base, suffix @ (".index" | ".timeindex" | ".txnindex"))) => {
                    indexes.push((base, suffix, file));
                }
                Some((_, suffix)) => match suffix.rsplit('.').next() {
                    Some("deleted" | "cleaned") => sorted.leftovers.push(file.name.clone()),
                    Some("swap") => sorted.swap = Some(file.name.clone()),
                    // Kept aside, or put there by somebody.
                    Some(_) | None => {}
                },
                // Checkpoints and what somebody put there.
                None => {}
            }
        }
        for (base, suffix, file) in indexes {
            match (sorted.segments.get_mut(&base), suffix) {
                (Some(segment), ".index") => segment.offsets = Some(file.bytes),
                (Some(segment), ".timeindex") => segment.times = Some(file.bytes),
                (Some(_), _) => {}
                (None, _) => sorted.leftovers.push(file.name.clone()),
            }
        }
        sorted.snapshots.sort_unstable();
        sorted
    }
}

/// Splits a name into the offset in its 20 digits and the rest.
pub(super) fn split_name(name: &str) -> Option<(Offset, &str)> {
    let (digits, suffix) = name.split_at_checked(20)?;
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) || !suffix.starts_with('.') {
        return None;
    }
    Some((Offset::new(digits.parse().ok()?)?, suffix))
}
