//! `highwater dump PATH`: what is in a segment, an index, a snapshot, a checkpoint, a partition's or a whole data directory.
//!
//! Shows what the bytes say, whether or not a broker would believe it; what does not hold together is shown with the reason.
//! Changes nothing and takes no lock, so that it can be used beside a running broker, whose last batch may then be shown as torn.

mod legacy;
mod lines;
mod segment;
mod small;
mod text;

use std::io;
use std::path::{Path, PathBuf};

use highwater_engine::checkpoint::{
    CLEAN_MARK, LEADER_EPOCH_CHECKPOINT, META_PROPERTIES, PARTITION_METADATA, decode_partition_metadata,
    decode_properties,
};
use highwater_engine::units::{Offset, TopicPartition};

pub use lines::Format;
use lines::Lines;

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// A file or directory cannot be read.
    #[error("{path} cannot be read: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The name says nothing about what is in it.
    #[error(
        "{path} is none of Kafka's files: a dump can show *.log, *.index, *.timeindex, *.txnindex, *.snapshot, *checkpoint, \
         partition.metadata, meta.properties, .kafka_cleanshutdown, and directories of them"
    )]
    Unknown {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be written where it should go.
    #[error("the dump cannot be written: {0}")]
    Write(io::Error),
}

/// What a file is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Segment,
    OffsetIndex(Offset),
    TimeIndex(Offset),
    AbortedIndex(Offset),
    Snapshot,
    OffsetCheckpoint,
    EpochCheckpoint,
    PartitionMetadata,
    MetaProperties,
    CleanMark,
}

impl Kind {
    fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let base = || {
            let digits = name.split('.').next().filter(|digits| digits.len() == 20)?;
            digits.parse().ok().and_then(Offset::new)
        };
        match name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("log") => Some(Self::Segment),
            Some("index") => base().map(Self::OffsetIndex),
            Some("timeindex") => base().map(Self::TimeIndex),
            Some("txnindex") => base().map(Self::AbortedIndex),
            Some("snapshot") => Some(Self::Snapshot),
            Some(_) | None => match name {
                LEADER_EPOCH_CHECKPOINT => Some(Self::EpochCheckpoint),
                PARTITION_METADATA => Some(Self::PartitionMetadata),
                META_PROPERTIES => Some(Self::MetaProperties),
                CLEAN_MARK => Some(Self::CleanMark),
                name if name.ends_with("-offset-checkpoint") => Some(Self::OffsetCheckpoint),
                _ => None,
            },
        }
    }

    fn dump(self, path: &Path, lines: &mut Lines<'_>) -> io::Result<()> {
        match self {
            Self::Segment => segment::dump(path, lines),
            Self::OffsetIndex(base) => small::offset_index(path, base, lines),
            Self::TimeIndex(base) => small::time_index(path, base, lines),
            Self::AbortedIndex(base) => small::aborted_index(path, base, lines),
            Self::Snapshot => small::snapshot(path, lines),
            Self::OffsetCheckpoint => text::offsets(path, lines),
            Self::EpochCheckpoint => text::epochs(path, lines),
            Self::PartitionMetadata => {
                text::plain(path, lines, |bytes| decode_partition_metadata(bytes).into())
            }
            Self::MetaProperties => text::plain(path, lines, |bytes| decode_properties(bytes).into()),
            Self::CleanMark => text::clean_mark(path, lines),
        }
    }
}

/// Shows a file, or all of Kafka's files in a partition's or a data directory.
pub fn dump(path: &Path, format: Format, out: &mut dyn io::Write) -> Result<(), DumpError> {
    let mut lines = Lines::new(out, format);
    let cannot_read = |source| DumpError::Read { path: path.to_owned(), source };
    if !std::fs::metadata(path).map_err(cannot_read)?.is_dir() {
        let kind = Kind::of(path).ok_or_else(|| DumpError::Unknown { path: path.to_owned() })?;
        return dump_file(kind, path, &mut lines);
    }
    for file in files_in(path).map_err(cannot_read)? {
        let Some(kind) = Kind::of(&file) else { continue };
        let name = file.strip_prefix(path).unwrap_or(&file).display().to_string();
        lines.in_file(name).map_err(DumpError::Write)?;
        dump_file(kind, &file, &mut lines)?;
    }
    Ok(())
}

fn dump_file(kind: Kind, path: &Path, lines: &mut Lines<'_>) -> Result<(), DumpError> {
    kind.dump(path, lines).map_err(|source| {
        if source.kind() == io::ErrorKind::BrokenPipe {
            DumpError::Write(source)
        } else {
            DumpError::Read { path: path.to_owned(), source }
        }
    })
}

/// The files of a partition's directory, or those of a data directory and of the partitions in it, by name.
fn files_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut entries: Vec<_> = std::fs::read_dir(directory)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let is_partition = || {
            entry.file_name().to_str().is_some_and(|name| TopicPartition::from_directory_name(name).is_ok())
        };
        if !entry.file_type()?.is_dir() {
            files.push(entry.path());
        } else if is_partition() {
            files.extend(files_in(&entry.path())?);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod dump_test;
