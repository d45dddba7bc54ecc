//! `highwater verify PATH`: everything in a data directory, in a partition's, or in one file, compared with everything else. Changes nothing
//! and takes no lock, so that it can be used beside a running broker, also beside a Kafka.

mod print;
mod progress;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use highwater_engine::disk::{Disk, PosixDisk, SyncThread};
use highwater_engine::log::Cleanup;
use highwater_engine::store::{ReadOnlyError, ReadOnlyStore, StoreConfig};

use super::place::{Place, is_segment};
use crate::clock::Clock;
use print::Printer;
use progress::Progress;

/// What is verified, and how it is shown.
#[derive(Clone, Debug, Default)]
pub struct Verify {
    /// A data directory, the directory of a partition, or a file.
    pub path: PathBuf,
    /// Whether offsets may be missing between the segments of any log.
    pub compacted: bool,
    /// One JSON object a line.
    pub json: bool,
}

/// Why not everything could be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The name says nothing.
    #[error(
        "{path} is none of Kafka's files: *.log, *.index, *.timeindex, *.txnindex, *.snapshot, *-offset-checkpoint, leader-epoch-checkpoint, \
         partition.metadata, meta.properties, .kafka_cleanshutdown"
    )]
    Unknown {
        /// The file.
        path: PathBuf,
    },
    /// There is nothing to be verified.
    #[error("{path} is neither a data directory nor that of a partition, as topic-0: no log is in it")]
    NoLogs {
        /// The directory.
        path: PathBuf,
    },
    /// A file or directory could not be read.
    #[error("{path} cannot be read: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A log could not be looked at.
    #[error(transparent)]
    Look(#[from] ReadOnlyError),
    /// The output cannot be written.
    #[error("the output cannot be written: {0}")]
    Write(io::Error),
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Nothing.
    Whole,
    /// Something does not hold together.
    Found,
}

/// Verifies. What is found is written to `out`, how far it is to `aside`, if there is somebody to see it.
pub fn verify(
    what: &Verify,
    clock: Clock,
    out: &mut dyn Write,
    aside: Option<&mut dyn Write>,
) -> Result<Verdict, VerifyError> {
    let io_failed = |source| VerifyError::Io { path: what.path.clone(), source };
    let disk: Arc<dyn Disk> = Arc::new(PosixDisk::new(SyncThread::Never));
    let mut printer = Printer::new(what.json, out);
    let metadata = std::fs::metadata(&what.path).map_err(io_failed)?;
    let mut config = StoreConfig::default();
    // One thread reads while another one checks.
    config.opening_threads = 1;
    config.log.cleanup = if what.compacted { Cleanup::Compact } else { Cleanup::Delete };
    if !metadata.is_dir() {
        let progress = Progress::new(metadata.len(), clock, aside);
        let watch = |bytes| progress.read(bytes);
        let verified = ReadOnlyStore::verify_file(&disk, &what.path, config.batch_bytes_max, &watch);
        progress.clear();
        let verified = verified?.ok_or_else(|| VerifyError::Unknown { path: what.path.clone() })?;
        printer.file(&what.path, &verified).map_err(VerifyError::Write)?;
        return printer.finish().map_err(VerifyError::Write);
    }
    let path = std::fs::canonicalize(&what.path).map_err(io_failed)?;
    let of_one = match Place::of(&path) {
        Place::Partition(name) => Some(name),
        Place::DataDirectory | Place::File => None,
        Place::NoLogs => return Err(VerifyError::NoLogs { path }),
    };
    let directory = if of_one.is_some() { path.parent().unwrap_or(&path) } else { &path };
    let store = ReadOnlyStore::open(&disk, directory, config)?;
    let names = match &of_one {
        Some(name) => vec![name.clone()],
        None => store.names()?,
    };
    let bytes = names.iter().map(|name| bytes_in(&directory.join(name.to_string()))).sum();
    let progress = Progress::new(bytes, clock, aside);
    if of_one.is_none() {
        printer.findings(&store.verify_files()?).map_err(VerifyError::Write)?;
    }
    for name in &names {
        let verified = match store.verify_log(name, &|bytes| progress.read(bytes)) {
            // Deleted since it was listed.
            Err(ReadOnlyError::NoSuchLog { .. }) if of_one.is_none() => continue,
            verified => verified,
        };
        progress.clear();
        printer.log(&verified?).map_err(VerifyError::Write)?;
    }
    printer.finish().map_err(VerifyError::Write)
}

/// What there is to read, as far as it can be told: it is only for saying how far the work is.
fn bytes_in(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let segments = entries.flatten().filter(is_segment);
    segments.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

#[cfg(test)]
mod verify_test;
