//! redb: a table by number, a transaction a call.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use redb::{Database, Durability, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use crate::peer::{Call, Peer};

const RECORDS: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("records");

pub(crate) struct Redb {
    database: Database,
    next: AtomicU64,
}

impl Redb {
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let this = Self { database: Database::create(directory.join("log.redb"))?, next: AtomicU64::new(0) };
        let write = this.database.begin_write()?;
        let last = write.open_table(RECORDS)?.last()?.map(|(number, _)| number.value());
        write.commit()?;
        this.next.store(last.map_or(0, |last| last + 1), Ordering::Relaxed);
        Ok(this)
    }

    fn write<'a>(
        &self,
        records: impl ExactSizeIterator<Item = &'a [u8]>,
        durability: Durability,
    ) -> Result<()> {
        let mut write = self.database.begin_write()?;
        write.set_durability(durability)?;
        let first = self.next.fetch_add(records.len() as u64, Ordering::Relaxed);
        {
            let mut table = write.open_table(RECORDS)?;
            for (record, number) in records.zip(first..) {
                table.insert(number, record)?;
            }
        }
        Ok(write.commit()?)
    }
}

impl Peer for Redb {
    fn append(&self, call: Call) -> Result<()> {
        self.write(call.records.iter().map(AsRef::as_ref), Durability::None)
    }

    fn append_one(&self, record: &[u8]) -> Result<()> {
        self.write(std::iter::once(record), Durability::None)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.write(std::iter::empty(), Durability::Immediate)
    }

    fn append_durable(&self, call: Call) -> Result<()> {
        self.write(call.records.iter().map(AsRef::as_ref), Durability::Immediate)
    }

    fn scan(&self) -> Result<(usize, usize)> {
        let table = self.database.begin_read()?.open_table(RECORDS)?;
        let (mut records, mut bytes) = (0, 0);
        for read in table.iter()? {
            records += 1;
            bytes += read?.1.value().len();
        }
        Ok((records, bytes))
    }

    fn points(&self, numbers: &[usize]) -> Result<usize> {
        let table = self.database.begin_read()?.open_table(RECORDS)?;
        let read = |number: &usize| -> Result<usize> {
            let value = table.get(*number as u64)?;
            Ok(value.context("a record is not there")?.value().len())
        };
        numbers.iter().try_fold(0, |bytes, number| read(number).map(|more| bytes + more))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
