//! What is asked of everyone who is measured.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use clap::ValueEnum;

use crate::peers;

/// What one call appends: the records as a peer takes them, and as the one batch that a producer of Kafka's would have sent. Both are made
/// before the time is taken.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) records: Vec<Bytes>,
    pub(crate) batch: Bytes,
}

/// An embedded log, opened in a directory. Records have numbers from 0 on, in the order in which they are appended.
pub(crate) trait Peer: Send + Sync {
    /// Appends the records of a call, by the weakest promise there is.
    fn append(&self, call: Call) -> Result<()>;

    /// Appends one record, by the weakest promise there is.
    fn append_one(&self, record: &[u8]) -> Result<()>;

    /// Everything that was appended survives the end of the process.
    fn flush(&self) -> Result<()>;

    /// Everything that was appended survives power loss.
    fn sync(&self) -> Result<()>;

    /// Appends the records of a call, which survive power loss when it returns.
    fn append_durable(&self, call: Call) -> Result<()>;

    /// As many writers in one thread, each of which waits for its own record: how many calls became durable until `end`. `None` for who has
    /// only threads.
    fn append_durable_in_tasks(&self, _call: &Call, _writers: usize, _end: Instant) -> Option<Result<usize>> {
        None
    }

    /// Reads everything, checked as far as the peer checks, and says how many records of how many bytes that is.
    fn scan(&self) -> Result<(usize, usize)>;

    /// Reads records by their numbers, and says how many bytes that is.
    fn points(&self, numbers: &[usize]) -> Result<usize>;

    /// Ends it as one does before the directory is opened again.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Kind {
    Highwater,
    NanoWal,
    Seglog,
    RaftEngine,
    Okaywal,
    Writeahead,
    Rocksdb,
    Redb,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Highwater => "highwater",
            Self::NanoWal => "nano-wal",
            Self::Seglog => "seglog",
            Self::RaftEngine => "raft-engine",
            Self::Okaywal => "okaywal",
            Self::Writeahead => "writeahead",
            Self::Rocksdb => "rocksdb",
            Self::Redb => "redb",
        }
    }

    /// What its figures do not say.
    pub(crate) fn promises(self) -> &'static str {
        match self {
            Self::Highwater => {
                "CRC-32C a batch, checked when it comes and when it is read; found by number and time"
            }
            Self::NanoWal => "no checksum; the caller keeps every position",
            Self::Seglog => {
                "CRC-32C a record; one file, made in full before; without a commit marker nothing survives a kill"
            }
            Self::RaftEngine => "CRC-32 a batch; every record in an index in memory",
            Self::Okaywal => "CRC-32 a chunk; every append is synced; records are not found by number",
            Self::Writeahead => "128-bit hash a record; every append is synced; zeros are written ahead",
            Self::Rocksdb => "the log before a table of keys; checksums of both",
            Self::Redb => "a tree, changed copy-on-write; without a sync nothing survives a kill",
        }
    }

    /// It appends without a sync.
    pub(crate) fn caches(self) -> bool {
        !matches!(self, Self::Okaywal | Self::Writeahead)
    }

    /// It finds a record by its number, or the position that it gave for it, after it was opened again.
    pub(crate) fn finds(self) -> bool {
        !matches!(self, Self::Okaywal)
    }

    /// Opens it in a directory, in which it may have been before.
    pub(crate) fn open(self, directory: &Path) -> Result<Box<dyn Peer>> {
        Ok(match self {
            Self::Highwater => Box::new(peers::Highwater::open(directory)?),
            Self::NanoWal => Box::new(peers::NanoWal::open(directory)?),
            Self::Seglog => Box::new(peers::Seglog::open(directory)?),
            Self::RaftEngine => Box::new(peers::RaftEngine::open(directory)?),
            Self::Okaywal => Box::new(peers::OkayWal::open(directory)?),
            Self::Writeahead => Box::new(peers::WriteAhead::open(directory)?),
            Self::Rocksdb => Box::new(peers::RocksDb::open(directory)?),
            Self::Redb => Box::new(peers::Redb::open(directory)?),
        })
    }
}
