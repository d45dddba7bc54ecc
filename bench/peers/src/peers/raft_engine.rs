//! raft-engine: the log of `TiKV`, one group, an entry a record.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use protobuf::well_known_types::Any;
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};

use crate::peer::{Call, Peer};

const GROUP: u64 = 1;
const FETCHED_AT_ONCE: u64 = 1024;

/// An entry is a message that says its number.
#[derive(Clone, Debug)]
struct Entries;

impl MessageExt for Entries {
    type Entry = Any;

    fn index(entry: &Any) -> u64 {
        u64::from_str_radix(&entry.type_url, 16).expect("an entry of this run")
    }
}

pub(crate) struct RaftEngine {
    engine: Engine,
    next: AtomicU64,
}

impl RaftEngine {
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let config = Config {
            dir: directory.to_str().context("a path that is not UTF-8")?.to_owned(),
            // Records that cannot be compressed are not to be tried.
            batch_compression_threshold: ReadableSize::kb(0),
            purge_threshold: ReadableSize::gb(64),
            ..Config::default()
        };
        let engine = Engine::open(config)?;
        let next = AtomicU64::new(engine.last_index(GROUP).map_or(1, |last| last + 1));
        Ok(Self { engine, next })
    }

    fn write<'a>(&self, records: impl ExactSizeIterator<Item = &'a [u8]>, sync: bool) -> Result<()> {
        let count = records.len() as u64;
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        let entries: Vec<Any> = records
            .zip(first..)
            .map(|(record, index)| Any {
                type_url: format!("{index:x}"),
                value: record.to_vec(),
                ..Any::default()
            })
            .collect();
        // Entries of a group have to follow on each other, so writers in parallel each have a group of their own, as in `TiKV`.
        let group = if count == 1 && sync { GROUP + 1 + first } else { GROUP };
        let mut batch = LogBatch::with_capacity(1);
        batch.add_entries::<Entries>(group, &entries)?;
        self.engine.write(&mut batch, sync)?;
        Ok(())
    }
}

impl Peer for RaftEngine {
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
        Ok(self.engine.sync()?)
    }

    fn append_durable(&self, call: Call) -> Result<()> {
        self.write(call.records.iter().map(AsRef::as_ref), true)
    }

    fn scan(&self) -> Result<(usize, usize)> {
        let end = self.engine.last_index(GROUP).map_or(1, |last| last + 1);
        let (mut records, mut bytes, mut from) = (0, 0, 1);
        let mut entries = Vec::new();
        while from < end {
            let to = end.min(from + FETCHED_AT_ONCE);
            entries.clear();
            records += self.engine.fetch_entries_to::<Entries>(GROUP, from, to, None, &mut entries)?;
            bytes += entries.iter().map(|entry| entry.value.len()).sum::<usize>();
            from = to;
        }
        Ok((records, bytes))
    }

    fn points(&self, numbers: &[usize]) -> Result<usize> {
        let read = |number: &usize| -> Result<usize> {
            let entry = self.engine.get_entry::<Entries>(GROUP, *number as u64 + 1)?;
            Ok(entry.context("an entry is not there")?.value.len())
        };
        numbers.iter().try_fold(0, |bytes, number| read(number).map(|more| bytes + more))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.engine.sync()?)
    }
}
