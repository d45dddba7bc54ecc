//! seglog: one file of a size that is fixed when it is made. A flush is no commit: what has no commit marker is gone after a kill.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};
use seglog::read::{ReadHint, Reader, RecordKind};
use seglog::write::Writer;

use crate::peer::{Call, Peer};

const FILE_BYTES: usize = 512 << 20;

pub(crate) struct Seglog {
    path: PathBuf,
    writer: Mutex<Writer<0>>,
}

impl Seglog {
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let path = directory.join("segment");
        let writer = if path.exists() {
            Writer::open(&path, FILE_BYTES, 0)?
        } else {
            Writer::create(&path, FILE_BYTES, 0)?
        };
        Ok(Self { path, writer: Mutex::new(writer) })
    }

    fn append_to(writer: &mut Writer<0>, call: &Call) -> Result<()> {
        for record in &call.records {
            writer.append(&[], record)?;
        }
        Ok(())
    }

    fn writer(&self) -> std::sync::MutexGuard<'_, Writer<0>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reader(&self) -> Result<Reader<0>> {
        Ok(Reader::open_read_only(&self.path, Some(self.writer().flushed_offset()))?)
    }
}

impl Peer for Seglog {
    fn append(&self, call: Call) -> Result<()> {
        let mut writer = self.writer();
        Self::append_to(&mut writer, &call)?;
        Ok(writer.flush_writer()?)
    }

    fn append_one(&self, record: &[u8]) -> Result<()> {
        self.writer().append(&[], record)?;
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(self.writer().flush_writer()?)
    }

    fn sync(&self) -> Result<()> {
        let mut writer = self.writer();
        let end = writer.write_offset();
        writer.commit(end)?;
        Ok(())
    }

    fn append_durable(&self, call: Call) -> Result<()> {
        let mut writer = self.writer();
        Self::append_to(&mut writer, &call)?;
        let end = writer.write_offset();
        writer.commit(end)?;
        Ok(())
    }

    fn scan(&self) -> Result<(usize, usize)> {
        let mut reader = self.reader()?;
        let mut iter = reader.iter(0);
        let (mut records, mut bytes) = (0, 0);
        while let Some(record) = iter.next_record()? {
            records += 1;
            bytes += record.data.len();
        }
        Ok((records, bytes))
    }

    fn points(&self, numbers: &[usize]) -> Result<usize> {
        // It has no index: positions are read once from the headers, for free here, as they would be kept by the caller.
        let mut reader = self.reader()?;
        let (mut positions, mut at) = (Vec::new(), 0);
        loop {
            match reader.peek(at)? {
                RecordKind::Data { total_len } => {
                    positions.push(at);
                    at += total_len as u64;
                }
                RecordKind::Control { total_len } => at += total_len as u64,
                RecordKind::End => break,
            }
        }
        let mut bytes = 0;
        for number in numbers {
            let Some(position) = positions.get(*number) else { bail!("{number} is not there") };
            bytes += reader.read_record(*position, ReadHint::Random)?.data.len();
        }
        Ok(bytes)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.writer.into_inner().unwrap_or_else(PoisonError::into_inner).close()?)
    }
}
