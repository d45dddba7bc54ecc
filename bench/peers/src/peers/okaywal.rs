//! okaywal: entries of chunks, each commit a sync that several share.

use std::path::Path;

use anyhow::{Result, bail};
use okaywal::{Configuration, LogVoid, WriteAheadLog};

use crate::peer::{Call, Peer};

/// Zeros that it writes when it makes a file: more make the first commit wait for seconds.
const AHEAD_BYTES: u32 = 96 << 20;

pub(crate) struct OkayWal(WriteAheadLog);

impl OkayWal {
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let configuration = Configuration::default_for(directory)
            .preallocate_bytes(AHEAD_BYTES)
            .checkpoint_after_bytes(u64::from(AHEAD_BYTES));
        Ok(Self(configuration.open(LogVoid)?))
    }
}

impl Peer for OkayWal {
    fn append(&self, call: Call) -> Result<()> {
        self.append_durable(call)
    }

    fn append_one(&self, record: &[u8]) -> Result<()> {
        let mut entry = self.0.begin_entry()?;
        entry.write_chunk(record)?;
        entry.commit()?;
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn append_durable(&self, call: Call) -> Result<()> {
        let mut entry = self.0.begin_entry()?;
        for record in &call.records {
            entry.write_chunk(record)?;
        }
        entry.commit()?;
        Ok(())
    }

    fn scan(&self) -> Result<(usize, usize)> {
        bail!("it is read by its recovery alone")
    }

    fn points(&self, _numbers: &[usize]) -> Result<usize> {
        bail!("it is read by its recovery alone")
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.0.shutdown()?)
    }
}
