//! `RocksDB`: a key a record, its number; its own log takes each write before the table does.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use rocksdb::{DB, DBCompressionType, IteratorMode, Options, WriteBatch, WriteOptions};

use crate::peer::{Call, Peer};

pub(crate) struct RocksDb {
    db: DB,
    next: AtomicU64,
}

impl RocksDb {
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_compression_type(DBCompressionType::None);
        let db = DB::open(&options, directory)?;
        let last = db.iterator(IteratorMode::End).next().transpose()?;
        let last = last.and_then(|(key, _)| Some(u64::from_be_bytes(key.as_ref().try_into().ok()?)));
        Ok(Self { db, next: AtomicU64::new(last.map_or(0, |last| last + 1)) })
    }

    fn write<'a>(&self, records: impl ExactSizeIterator<Item = &'a [u8]>, sync: bool) -> Result<()> {
        let first = self.next.fetch_add(records.len() as u64, Ordering::Relaxed);
        let mut batch = WriteBatch::default();
        for (record, number) in records.zip(first..) {
            batch.put(number.to_be_bytes(), record);
        }
        let mut options = WriteOptions::default();
        options.set_sync(sync);
        Ok(self.db.write_opt(batch, &options)?)
    }
}

impl Peer for RocksDb {
    fn append(&self, call: Call) -> Result<()> {
        self.write(call.records.iter().map(AsRef::as_ref), false)
    }

    fn append_one(&self, record: &[u8]) -> Result<()> {
        self.write(std::iter::once(record), false)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(self.db.flush_wal(true)?)
    }

    fn append_durable(&self, call: Call) -> Result<()> {
        self.write(call.records.iter().map(AsRef::as_ref), true)
    }

    fn scan(&self) -> Result<(usize, usize)> {
        let (mut records, mut bytes) = (0, 0);
        for read in self.db.iterator(IteratorMode::Start) {
            records += 1;
            bytes += read?.1.len();
        }
        Ok((records, bytes))
    }

    fn points(&self, numbers: &[usize]) -> Result<usize> {
        let read = |number: &usize| -> Result<usize> {
            let value = self.db.get_pinned((*number as u64).to_be_bytes())?;
            Ok(value.context("a record is not there")?.len())
        };
        numbers.iter().try_fold(0, |bytes, number| read(number).map(|more| bytes + more))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.flush_wal(true)?)
    }
}
