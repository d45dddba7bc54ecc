//! The plan: a value that can be printed, and that nobody has carried out yet.

use std::fmt;

use super::scan::BadKind;
use crate::checkpoint::CleanPartition;
use crate::segment::DamagedRange;
use crate::state::{EpochHistory, EpochStart};
use crate::units::{Offset, OffsetRange};

/// What recovery will do to a partition's directory, and what the log is then.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Plan {
    /// What is done, in this order.
    pub steps: Vec<Step>,
    /// The first offset that readers are given.
    pub start: Offset,
    /// The next offset that an append gets.
    pub end: Offset,
    /// Where the next recovery would begin to scan; never above what it was.
    pub recovery_point: Offset,
    /// The history of leader epochs.
    #[serde(serialize_with = "starts_of")]
    pub epochs: EpochHistory,
    /// Producer snapshots that may be loaded, the best first. If none can be believed, the state is made from the log's first batch on.
    pub snapshots: Vec<Offset>,
    /// What is in the log and cannot be read.
    pub damaged: Vec<DamagedRange>,
    /// Why the replica may lack records that it once had. Empty: it has them all.
    pub suspect: Vec<SuspectReason>,
}

fn starts_of<S: serde::Serializer>(history: &EpochHistory, serializer: S) -> Result<S::Ok, S::Error> {
    <[EpochStart] as serde::Serialize>::serialize(history.starts(), serializer)
}

impl Plan {
    /// Bytes that are cut from segments that stay.
    pub fn cut_bytes(&self) -> u64 {
        let cut = |step: &Step| match step {
            Step::CutSegment { from_bytes, to_bytes, .. } => from_bytes - to_bytes,
            Step::RemoveFile { .. }
            | Step::RemoveExchanged { .. }
            | Step::RenameFile { .. }
            | Step::SyncNames
            | Step::RemoveSegment { .. }
            | Step::RewriteSegment { .. }
            | Step::CreateSegment { .. }
            | Step::RebuildIndex { .. }
            | Step::RewriteEpochs
            | Step::NoteGaps => 0,
        };
        self.steps.iter().map(cut).sum()
    }

    /// Whether pages of a machine crash were missing before others that were there.
    pub fn has_hole(&self) -> bool {
        self.suspect.iter().any(|reason| matches!(reason, SuspectReason::Hole { .. }))
    }
}

/// One step. Each can be repeated.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub enum Step {
    /// Remove a file that belongs to nothing.
    RemoveFile {
        /// Its name.
        name: String,
    },
    /// Remove a file of an exchange that was interrupted: what was not complete, or what another one takes the place of.
    RemoveExchanged {
        /// Its name.
        name: String,
    },
    /// Give a file of an exchange that was interrupted its place. One that is not there has it already.
    RenameFile {
        /// Its name.
        from: String,
        /// Its name then.
        to: String,
    },
    /// Make what was removed and renamed certain, before what follows.
    SyncNames,
    /// Remove a segment with its indexes, the log file last.
    RemoveSegment {
        /// Its base offset.
        base: Offset,
        /// Under which name the log file is kept instead.
        aside: Option<String>,
    },
    /// Cut a segment's log file, and sync it.
    CutSegment {
        /// Its base offset.
        base: Offset,
        /// Its size now.
        from_bytes: u64,
        /// Its size then.
        to_bytes: u64,
        /// The file into which the bytes that go are copied and synced before.
        aside: Option<String>,
    },
    /// Write the bytes of a segment's log file again as they are, from the batch on that holds an offset, or from somewhat before. The log
    /// serves meanwhile: it is done before the first sync of it, and nothing of it is durable before.
    RewriteSegment {
        /// Its base offset.
        base: Offset,
        /// Everything below it is synced.
        from: Offset,
    },
    /// Make an empty segment.
    CreateSegment {
        /// Its base offset.
        base: Offset,
    },
    /// Make a segment's indexes again from its log.
    RebuildIndex {
        /// Its base offset.
        base: Offset,
    },
    /// Write the epoch checkpoint with the plan's epochs.
    RewriteEpochs,
    /// Note that there may be gaps of offsets: there is one, and whoever has written the log did not note it, or a power loss took the note.
    NoteGaps,
}

/// Why a replica may lack records that it once had.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub enum SuspectReason {
    /// The machine crashed, or it cannot be known: what was not synced may be gone.
    MachineCrash,
    /// The recovery points were lost: what was synced is unknown.
    RecoveryPointUnknown,
    /// The log ends before its recovery point.
    EndBelowRecoveryPoint {
        /// Its end.
        end: Offset,
        /// The recovery point.
        recovery_point: Offset,
    },
    /// A checkpoint that guards nothing puts the start above the end. It is not believed, because all of the log would go.
    StartAboveEnd {
        /// The start that it names.
        start: Offset,
        /// The log's end.
        end: Offset,
    },
    /// The mark of the clean stop does not fit the log.
    MarkContradicted {
        /// What it said.
        mark: CleanPartition,
        /// The log's end as it was found.
        end: Offset,
    },
    /// Batches behind a hole were cut.
    Hole {
        /// The segment.
        segment: Offset,
        /// Where the hole begins.
        position: u64,
        /// The first offset that is gone.
        from: Offset,
    },
    /// The last batch was there in full and was not what had been written, though no crash of the machine explains it.
    LastBatchLost {
        /// The segment.
        segment: Offset,
        /// Where it began.
        position: u64,
        /// What its bytes look like.
        kind: BadKind,
    },
    /// There is a damaged range.
    Damaged {
        /// Its offsets.
        offsets: OffsetRange,
    },
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "log {}..{}, recovery point {}", self.start, self.end, self.recovery_point)?;
        for step in &self.steps {
            writeln!(f, "  {step}")?;
        }
        if self.steps.is_empty() {
            writeln!(f, "  nothing to do")?;
        }
        for damaged in &self.damaged {
            writeln!(f, "  {damaged}")?;
        }
        for reason in &self.suspect {
            writeln!(f, "  suspect: {reason}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = |f: &mut fmt::Formatter<'_>, aside: &Option<String>| match aside {
            Some(name) => write!(f, ", kept aside in {name}"),
            None => Ok(()),
        };
        match self {
            Self::RemoveFile { name } => write!(f, "remove {name}, which belongs to nothing"),
            Self::RemoveExchanged { name } => {
                write!(f, "remove {name}: compaction was interrupted while it exchanged segments")
            }
            Self::RenameFile { from, to } => write!(f, "rename {from} to {to}, which it was to replace"),
            Self::SyncNames => write!(f, "make these names certain"),
            Self::RemoveSegment { base, aside } => {
                write!(f, "remove segment {base}")?;
                kept(f, aside)
            }
            Self::CutSegment { base, from_bytes, to_bytes, aside } => {
                write!(f, "cut segment {base} from {from_bytes} to {to_bytes} bytes")?;
                kept(f, aside)
            }
            Self::RewriteSegment { base, from } => {
                write!(f, "write segment {base} again from offset {from} on, byte for byte")
            }
            Self::CreateSegment { base } => write!(f, "make an empty segment {base}"),
            Self::RebuildIndex { base } => write!(f, "make the indexes of segment {base} again"),
            Self::RewriteEpochs => write!(f, "write the epoch checkpoint again"),
            Self::NoteGaps => write!(f, "note that there are gaps"),
        }
    }
}

impl fmt::Display for SuspectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MachineCrash => {
                write!(f, "the machine crashed or may have, and what was not synced may be gone")
            }
            Self::RecoveryPointUnknown => write!(f, "the recovery points are lost"),
            Self::EndBelowRecoveryPoint { end, recovery_point } => {
                write!(f, "the log ends at {end}, before its recovery point {recovery_point}")
            }
            Self::StartAboveEnd { start, end } => {
                write!(f, "the log ends at {end}, before its start {start}, which is not believed")
            }
            Self::MarkContradicted { mark, end } => {
                write!(
                    f,
                    "the clean stop left a log up to {}, and it was found to end at {end} or to differ",
                    mark.end
                )
            }
            Self::Hole { segment, position, from } => {
                write!(
                    f,
                    "a hole at byte {position} of segment {segment}; what was written from offset {from} on is cut"
                )
            }
            Self::LastBatchLost { segment, position, kind } => {
                write!(f, "the last batch, at byte {position} of segment {segment}, is lost ({kind:?})")
            }
            Self::Damaged { offsets } => write!(f, "offsets {offsets} are damaged"),
        }
    }
}
