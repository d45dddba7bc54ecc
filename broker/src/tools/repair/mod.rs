//! `highwater repair DIR`: damaged ranges whose peers are gone are given up.
//!
//! Without a confirmation only what would be given up is shown: which offsets, how many bytes, which producers and transactions it touches.
//! With one, the range is replaced by batches without records that reach over the same offsets, as compaction leaves them: the log keeps its
//! start and its end, no offset is used again, readers pass over, and so does a Kafka. Before that the damaged bytes are kept aside as they
//! are, and what is given up is noted in the data directory. A crash leaves the damage or the empty batches.

mod give_up;
mod print;
mod touched;

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use highwater_engine::batch::BuildError;
use highwater_engine::disk::{Disk, PosixDisk, SyncThread};
use highwater_engine::segment::DamagedRange;
use highwater_engine::store::{
    CloseError, JobError, ReadOnlyError, ReadOnlyReadError, ReadOnlyStore, StoreConfig,
};
use highwater_engine::units::{Now, Offset, OffsetRange, TopicPartition};

use super::dump::Format;
use super::recover::{RecoverError, check_place};
use give_up::give_up;
use print::Printer;
use touched::touched;

/// A range of offsets of a log, as `topic-0:10..20`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The log.
    pub log: TopicPartition,
    /// Its offsets.
    pub offsets: OffsetRange,
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (log, offsets) = text.rsplit_once(':')?;
            let (from, until) = offsets.split_once("..")?;
            let offset = |text: &str| Offset::new(text.parse().ok()?);
            let offsets =
                OffsetRange::new(offset(from)?, offset(until)?).filter(|range| !range.is_empty())?;
            Some(Self { log: TopicPartition::from_directory_name(log).ok()?, offsets })
        };
        parse().ok_or_else(|| "not a range as topic-0:10..20".to_owned())
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}..{}", self.log, self.offsets.start(), self.offsets.end())
    }
}

/// Why nothing, or not everything, was given up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// The log cannot be looked at.
    #[error(transparent)]
    Look(#[from] ReadOnlyError),
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadOnlyReadError),
    /// What was asked for is not what is damaged.
    #[error(
        "{range} is no damaged range; without --give-up those that there are are shown, and nothing is changed"
    )]
    NotDamaged {
        /// What was asked for.
        range: Range,
    },
    /// The directory cannot be opened, or a broker has to open it first.
    #[error(transparent)]
    Open(#[from] RecoverError),
    /// What takes the place of the range cannot be made.
    #[error("{range} cannot be replaced: {why}")]
    Build {
        /// The range.
        range: Range,
        /// Why.
        why: BuildError,
    },
    /// The range could not be replaced; it is as it was.
    #[error("{range} cannot be replaced and is as it was: {why}")]
    Job {
        /// The range.
        range: Range,
        /// Why.
        why: JobError,
    },
    /// What is kept aside, or the note, could not be written; nothing was given up.
    #[error("{path} cannot be written, and nothing more is given up: {source}")]
    Aside {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The ranges are given up, and the directory could not be stopped cleanly again.
    #[error("the ranges are given up, and the stop was not a clean one: {0}")]
    Close(#[from] CloseError),
    /// The output cannot be written.
    #[error("the output cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Repaired {
    /// Nothing is damaged, or nothing any more.
    Whole,
    /// Ranges are damaged, and were not to be given up.
    Damaged,
}

/// Shows what is damaged, and gives up the ranges that are named.
pub fn repair(
    directory: &Path,
    ranges: &[Range],
    format: Format,
    now: Now,
    out: &mut dyn Write,
) -> Result<Repaired, RepairError> {
    check_place(directory)?;
    let mut printer = Printer::new(format, out);
    let damaged = damaged(directory)?;
    for (name, range) in &damaged {
        let mut lines = Vec::new();
        if !range.offsets.is_empty() {
            lines = touched(&store(directory)?.log(name)?, range.offsets)?;
        }
        printer.damaged(name, range, &lines)?;
    }
    if damaged.is_empty() && ranges.is_empty() {
        printer.nothing_damaged()?;
        return Ok(Repaired::Whole);
    }
    let is_damaged = |range: &Range| {
        damaged.iter().any(|(name, known)| *name == range.log && known.offsets == range.offsets)
    };
    if let Some(range) = ranges.iter().find(|range| !is_damaged(range)) {
        return Err(RepairError::NotDamaged { range: range.clone() });
    }
    if ranges.is_empty() {
        let with_offsets = damaged.iter().filter(|(_, range)| !range.offsets.is_empty());
        let spelled: Vec<Range> =
            with_offsets.map(|(log, range)| Range { log: log.clone(), offsets: range.offsets }).collect();
        printer.not_given_up(&spelled, damaged.len())?;
        return Ok(Repaired::Damaged);
    }
    printer.flush()?;
    give_up(directory, ranges, now, &mut printer)?;
    let left = damaged.len() - ranges.len();
    printer.end(left)?;
    Ok(if left == 0 { Repaired::Whole } else { Repaired::Damaged })
}

fn store(directory: &Path) -> Result<ReadOnlyStore, RepairError> {
    let disk: Arc<dyn Disk> = Arc::new(PosixDisk::new(SyncThread::Never));
    Ok(ReadOnlyStore::open(&disk, directory, StoreConfig::default())?)
}

/// All damaged ranges of all logs.
fn damaged(directory: &Path) -> Result<Vec<(TopicPartition, DamagedRange)>, RepairError> {
    let store = store(directory)?;
    let mut damaged = Vec::new();
    for name in store.names()? {
        let ranges = store.log(&name)?.examine()?;
        damaged.extend(ranges.into_iter().map(|range| (name.clone(), range)));
    }
    Ok(damaged)
}

#[cfg(test)]
mod repair_test;
