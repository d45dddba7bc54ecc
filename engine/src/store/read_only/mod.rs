//! Looking at a data directory without opening it: no lock, no change, while another process may be writing it.
//!
//! ```text
//!   writer       | batch | batch | batch | bat          a write on its way, a roll, a cut, a deletion
//!                                        :
//!   sight        | batch | batch | batch |              what was whole when somebody looked: start, end, epochs
//!                        read            refresh ────>  more of it; or it was cut, and then it says so
//! ```
//!
//! What is seen is what recovery would keep: the same facts are read, the same plan is made, and nobody carries it out. Everything goes
//! through a disk that refuses changes, so that there is no call by which a looker could disturb the writer. What the writer may be in the
//! middle of is never trusted:
//!
//! | the writer | what the looker sees |
//! |---|---|
//! | is writing a batch | the log ends before it |
//! | rolls, seals | an empty last segment, or none yet; index files are copied and checked, and a wrong one only costs time |
//! | replaces a small file | the old one or the new one, because they are renamed into place |
//! | deletes the oldest segments | [`ReadOnlyReadError::Changed`] for a read that was too late; the next refresh moves the start up |
//! | cuts the log | the same; the next refresh says from where on everything is different |
//! | compacts the log | the same; where the last batch that was seen is another one by now, the next refresh calls it a cut behind everything |
//!
//! That a log was cut behind one's back is seen by its last batch, and by its leader epochs: the file of epochs says where a new one begins
//! before its first batch is written, and each batch that is read has to bear the epoch that the sight has there. So whoever cuts a log goes
//! on under a new epoch, as replicas do anyway; otherwise a looker may take new records for old ones until its next refresh.
//!
//! Nobody sees above `written`. That is no high watermark: with replicas, what is seen may be cut later, and whoever must not see that reads
//! the host's own checkpoint ([`ReadOnlyStore::read_offset_checkpoint`]) and stays below.

mod log;
mod look;
mod sight;
mod verify;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use log::{ReadOnlyLog, ReadOnlyReadError, Refreshed};
pub use verify::{Fault, FileVerified, Finding, LogVerified};

use super::StoreConfig;
use super::half_done::{as_it_will_be, plan_half_done};
use super::layout::{DirectoryName, directory_name};
use crate::checkpoint::{OffsetCheckpoint, Reading, read_offsets};
use crate::disk::{Disk, EntryKind, ReadOnlyDisk};
use crate::recovery::Refusal;
use crate::segment::{Home, OpenFiles};
use crate::units::TopicPartition;

/// Why something of a directory cannot be seen. Refuses the call; nothing is closed by it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadOnlyError {
    /// There is no such log (any more).
    #[error("there is no log {name}")]
    NoSuchLog {
        /// Its name.
        name: TopicPartition,
    },
    /// The log could not be opened as it is. It may be a moment's state of a compaction.
    #[error("{name} cannot be opened: {why}")]
    Refused {
        /// Its name.
        name: TopicPartition,
        /// Why.
        why: Refusal,
    },
    /// The log was changed each time that it was looked at. Another try may succeed.
    #[error("{name} changes faster than it can be looked at")]
    Unsettled {
        /// Its name.
        name: TopicPartition,
    },
    /// A file or directory could not be read.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A data directory that is looked at. See the module's documentation.
///
/// Cheap to clone. It holds nothing but its settings: what is seen of a log is in [`ReadOnlyLog`].
#[derive(Clone, Debug)]
pub struct ReadOnlyStore {
    disk: Arc<dyn Disk>,
    directory: Arc<Path>,
    config: StoreConfig,
    files: Arc<OpenFiles>,
}

impl ReadOnlyStore {
    /// Looks whether the directory is there. Of the settings count those of the log and the bounds of a batch and of open files; they need
    /// not be those of the writer, but whether its logs are compacted has to be said rightly.
    pub fn open(disk: &Arc<dyn Disk>, directory: &Path, config: StoreConfig) -> Result<Self, ReadOnlyError> {
        let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk::new(Arc::clone(disk)));
        disk.list(directory).map_err(failed(directory))?;
        let files =
            Arc::new(OpenFiles::new(config.open_files_max_on(disk.as_ref()), config.mapped_indexes_max));
        Ok(Self { disk, directory: directory.into(), config, files })
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The logs that are there at this moment, sorted by name.
    pub fn names(&self) -> Result<Vec<TopicPartition>, ReadOnlyError> {
        let entries = self.disk.list(&self.directory).map_err(failed(&self.directory))?;
        let directories = entries.iter().filter(|entry| entry.kind == EntryKind::Directory);
        let mut names: Vec<_> = directories
            .filter_map(|entry| match directory_name(&entry.name) {
                DirectoryName::Log(name) => Some(name),
                DirectoryName::Deleted | DirectoryName::Foreign => None,
            })
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Looks at a log: reads what its recovery would read, which is everything behind its recovery point. Blocks meanwhile.
    pub fn log(&self, name: &TopicPartition) -> Result<ReadOnlyLog, ReadOnlyError> {
        ReadOnlyLog::open(self.clone(), name)
    }

    /// Reads a named offset checkpoint of the host, as [`super::Store::read_offset_checkpoint`] does.
    pub fn read_offset_checkpoint(&self, name: &str) -> io::Result<Reading<OffsetCheckpoint>> {
        read_offsets(self.disk.as_ref(), &self.directory.join(name))
    }

    /// Where a log's files are: as they will be, where an exchange was interrupted.
    fn home(&self, name: &TopicPartition) -> Home {
        let directory = self.directory.join(name.to_string());
        let exchange = plan_half_done(self.disk.as_ref(), &directory, self.config.batch_bytes_max);
        let disk = match exchange {
            Ok(Ok(steps)) if !steps.is_empty() => as_it_will_be(&self.disk, &directory, &steps),
            // What cannot be read is met again by whoever looks.
            Ok(_) | Err(_) => Arc::clone(&self.disk),
        };
        Home {
            directory: directory.into(),
            disk,
            files: Arc::clone(&self.files),
            settings: self.config.log.index_settings(),
        }
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> ReadOnlyError {
    let path = path.to_owned();
    move |source| ReadOnlyError::Io { path, source }
}

#[cfg(test)]
mod interrupted_test;
#[cfg(test)]
mod read_only_test;
