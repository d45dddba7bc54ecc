//! `highwater cat PATH`: the records of a partition, or of one `.log` file, as lines.
//!
//! Changes nothing and takes no lock, so that it can be used beside a running broker, Kafka's too. Shows what is whole, also what may be cut
//! later because it is above the high watermark, and what an aborted transaction wrote; markers are no records. Damage ends it with an
//! error that says where it can go on.

mod print;
mod records;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use highwater_engine::disk::{Disk, PosixDisk, SyncThread};
use highwater_engine::log::{Cleanup, ReadError};
use highwater_engine::store::{
    ReadOnlyError, ReadOnlyLog, ReadOnlyReadError, ReadOnlyStore, Refreshed, StoreConfig,
};
use highwater_engine::units::{Offset, OffsetRange, Timestamp, TopicPartition};

use print::Printer;
use records::each_record;

use super::segment_file::read_batch;

/// How many bytes are read at once.
const READ_BYTES: usize = 1 << 20;
/// How long a log that has nothing new is left alone.
const PAUSE: Duration = Duration::from_millis(100);

/// What is to be shown, and how.
#[derive(Clone, Debug, Default)]
pub struct Cat {
    /// The directory of a partition, or a `.log` file.
    pub path: PathBuf,
    /// From this offset on; without it, from the first.
    pub from: Option<Offset>,
    /// From the first record on that is not older.
    pub since: Option<Timestamp>,
    /// No more records than this.
    pub count: Option<u64>,
    /// Only records with this key.
    pub key: Option<String>,
    /// Only records in whose value this occurs.
    pub contains: Option<String>,
    /// Whether the topic is compacted, so that offsets may be missing between its segments.
    pub compacted: bool,
    /// Whether to wait for more at the end.
    pub follow: bool,
    /// One JSON object a line.
    pub json: bool,
}

/// Why not everything can be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatError {
    /// There is nothing to be read at this path.
    #[error("{path} is neither the directory of a partition, as topic-0, nor a .log file")]
    NotALog {
        /// The path.
        path: PathBuf,
    },
    /// A file alone does not grow.
    #[error("{path} is one file; only the directory of a partition can be followed")]
    OneFile {
        /// The file.
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
    /// The log cannot be seen.
    #[error(transparent)]
    Look(#[from] ReadOnlyError),
    /// The log does not have this offset.
    #[error("offset {from} is outside of the log, which has {start} up to but not including {end}")]
    OutOfRange {
        /// What was asked for.
        from: Offset,
        /// The log's first offset.
        start: Offset,
        /// Behind its last one.
        end: Offset,
    },
    /// Offsets are damaged.
    #[error("{damage}; --from {end} goes on behind it")]
    Damaged {
        /// What the log says.
        damage: ReadError,
        /// Behind the damage.
        end: Offset,
    },
    /// Between two segments offsets are missing, as compaction leaves them; or a part of the log is.
    #[error(
        "{from} to {end} lie in no segment; if the topic is compacted, say --compacted, and otherwise they are gone, and --from {end} goes \
         on behind them"
    )]
    Gap {
        /// The first offset that is missing.
        from: Offset,
        /// Behind the last one.
        end: Offset,
    },
    /// The log cannot be read.
    #[error(transparent)]
    Read(ReadOnlyReadError),
    /// Bytes of a file are no whole batch.
    #[error("{path} at {position}: {why}")]
    NoBatch {
        /// The file.
        path: PathBuf,
        /// Where in it, in bytes.
        position: u64,
        /// Why.
        why: String,
    },
    /// A batch is whole, and what it holds are no records.
    #[error("the batch at offset {base}: {why}")]
    NoRecords {
        /// Its base offset.
        base: i64,
        /// Why.
        why: String,
    },
    /// The output cannot be written.
    #[error("the output cannot be written: {0}")]
    Write(io::Error),
}

/// Shows the records. What happens to the log meanwhile is told to `aside`.
pub fn cat(what: &Cat, out: &mut dyn Write, aside: &mut dyn Write) -> Result<(), CatError> {
    let io_failed = |source| CatError::Io { path: what.path.clone(), source };
    let mut printer = Printer::new(what, out);
    if std::fs::metadata(&what.path).map_err(io_failed)?.is_dir() {
        let path = std::fs::canonicalize(&what.path).map_err(io_failed)?;
        return directory(what, &path, &mut printer, aside);
    }
    if what.path.extension().is_none_or(|extension| extension != "log") {
        return Err(CatError::NotALog { path: what.path.clone() });
    }
    if what.follow {
        return Err(CatError::OneFile { path: what.path.clone() });
    }
    one_file(&what.path, &mut printer)
}

fn one_file(path: &Path, printer: &mut Printer<'_>) -> Result<(), CatError> {
    let failed = |source| CatError::Io { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let end = file.metadata().map_err(failed)?.len();
    let (mut position, mut batch) = (0, Vec::new());
    while position < end && !printer.is_done() {
        read_batch(&file, position, end, &mut batch).map_err(failed)?;
        let read = each_record(&batch, Offset::ZERO, |record| printer.put(record))?;
        if let Some(why) = read.stopped {
            return Err(CatError::NoBatch { path: path.to_owned(), position, why });
        }
        position += batch.len() as u64;
    }
    printer.flush()
}

fn directory(
    what: &Cat,
    path: &Path,
    printer: &mut Printer<'_>,
    aside: &mut dyn Write,
) -> Result<(), CatError> {
    let not_a_log = || CatError::NotALog { path: path.to_owned() };
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(not_a_log)?;
    let name = TopicPartition::from_directory_name(name).map_err(|_| not_a_log())?;
    let disk: Arc<dyn Disk> = Arc::new(PosixDisk::new(SyncThread::Never));
    let mut config = StoreConfig::default();
    config.log.cleanup = if what.compacted { Cleanup::Compact } else { Cleanup::Delete };
    let store = ReadOnlyStore::open(&disk, path.parent().ok_or_else(not_a_log)?, config)?;
    let mut log = store.log(&name)?;
    let mut next = what.from.unwrap_or(log.start());
    if next < log.start() || next > log.end() {
        return Err(CatError::OutOfRange { from: next, start: log.start(), end: log.end() });
    }
    loop {
        let changed = read_on(&log, &mut next, printer)?;
        printer.flush()?;
        if printer.is_done() || !(what.follow || changed) {
            return Ok(());
        }
        match log.refresh()? {
            Refreshed::Same => pause(),
            Refreshed::Moved => {}
            Refreshed::Cut { to } => {
                if to < next {
                    writeln!(aside, "{name}: what was shown from {to} on is cut").map_err(CatError::Write)?;
                }
                next = next.min(to);
            }
        }
        if next < log.start() {
            writeln!(aside, "{name}: what lay between {next} and {} is deleted", log.start())
                .map_err(CatError::Write)?;
            next = log.start();
        }
    }
}

/// Shows what was seen of the log; says whether somebody has changed it meanwhile.
fn read_on(log: &ReadOnlyLog, next: &mut Offset, printer: &mut Printer<'_>) -> Result<bool, CatError> {
    while !printer.is_done() {
        let records = match log.read(*next, READ_BYTES) {
            Ok(Some(records)) => records,
            Ok(None) => return Ok(false),
            Err(ReadOnlyReadError::Changed) => return Ok(true),
            Err(ReadOnlyReadError::Read(damage @ ReadError::Damaged { offsets: Some(offsets), .. })) => {
                printer.flush()?;
                return Err(damaged(damage, offsets));
            }
            Err(error) => return Err(CatError::Read(error)),
        };
        for part in &records.parts {
            let mut rest: &[u8] = part;
            while !rest.is_empty() && !printer.is_done() {
                let read = each_record(rest, *next, |record| printer.put(record))?;
                if let Some(why) = read.stopped {
                    return Err(CatError::NoRecords { base: next.value(), why });
                }
                rest = rest.get(read.bytes..).unwrap_or_default();
            }
        }
        *next = records.end;
    }
    Ok(false)
}

/// Behind the last byte of a segment it is offsets that are missing, and not bytes that are damaged.
fn damaged(damage: ReadError, offsets: OffsetRange) -> CatError {
    if let ReadError::Damaged { path, position, .. } = &damage
        && std::fs::metadata(path).is_ok_and(|metadata| *position >= metadata.len())
    {
        return CatError::Gap { from: offsets.start(), end: offsets.end() };
    }
    CatError::Damaged { damage, end: offsets.end() }
}

#[expect(clippy::disallowed_methods, reason = "a file tells nobody when it grows")]
fn pause() {
    thread::sleep(PAUSE);
}

#[cfg(test)]
mod cat_test;
