//! nano-wal: records behind each other in files by time. It keeps no positions; here they are in a file beside it, and in memory.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use nano_wal::{EntryRef, Segment, Wal, WalOptions, WriteEntry};

use crate::peer::{Call, Peer};

/// Any time will do; the same one keeps everything in one file.
const TIME: i64 = 1_700_000_000_000;
/// As far away as a file's end may be.
const LONG: Duration = Duration::from_secs(1 << 32);

#[derive(Debug)]
struct Positions {
    path: PathBuf,
    known: Vec<(u64, usize)>,
}

pub(crate) struct NanoWal {
    wal: Wal,
    segment: Arc<Segment>,
    positions: Mutex<Positions>,
}

impl NanoWal {
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let options = WalOptions { retention: LONG, segment_duration: LONG };
        let wal = Wal::new(directory, "s", options)?;
        let segment = wal.ensure_segment(TIME)?;
        let path = directory.join("positions.json");
        let known = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(_) => Vec::new(),
        };
        Ok(Self { wal, segment, positions: Mutex::new(Positions { path, known }) })
    }

    fn keep(&self, entries: &[EntryRef]) {
        let mut positions = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
        positions.known.extend(entries.iter().map(|entry| (entry.file_offset, entry.byte_size)));
    }

    fn append_to(&self, call: &Call, durable: bool) -> Result<()> {
        let entries: Vec<WriteEntry<'_>> =
            call.records.iter().map(|record| WriteEntry { header: None, content: record }).collect();
        self.keep(&self.wal.append_batch(&entries, TIME, durable)?);
        Ok(())
    }

    fn read(&self, (offset, size): (u64, usize)) -> Result<usize> {
        Ok(self.wal.read_at(&self.segment, offset, size)?.content.len())
    }
}

impl Peer for NanoWal {
    fn append(&self, call: Call) -> Result<()> {
        self.append_to(&call, false)
    }

    fn append_one(&self, record: &[u8]) -> Result<()> {
        self.keep(&[self.wal.append(None, record, TIME, false)?]);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(self.wal.sync()?)
    }

    fn append_durable(&self, call: Call) -> Result<()> {
        self.append_to(&call, true)
    }

    fn scan(&self) -> Result<(usize, usize)> {
        let known = self.positions.lock().unwrap_or_else(PoisonError::into_inner).known.clone();
        let bytes =
            known.iter().try_fold(0, |bytes, position| self.read(*position).map(|more| bytes + more))?;
        Ok((known.len(), bytes))
    }

    fn points(&self, numbers: &[usize]) -> Result<usize> {
        let positions = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(numbers.iter().all(|number| *number < positions.known.len()), "positions are missing");
        numbers
            .iter()
            .try_fold(0, |bytes, number| self.read(positions.known[*number]).map(|more| bytes + more))
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.wal.shutdown()?;
        let positions = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::fs::write(&positions.path, serde_json::to_vec(&positions.known)?)?)
    }
}
