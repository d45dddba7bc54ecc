//! The engine of this project: one log of one store, as a leader appends to it.

use std::cell::RefCell;
use std::future::Future as _;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use futures::future::try_join_all;
use highwater_engine::batch::{
    BatchBuilder, BatchLimits, Compression, DecompressLimits, ProducedBatch, scan,
};
use highwater_engine::disk::{IoMode, Patience, SyncThread, Wait, open_disk};
use highwater_engine::log::{Log, LogConfig, Permit, Read, Step, Ticket};
use highwater_engine::store::{Job, JobDone, Store, StoreConfig};
use highwater_engine::units::{LeaderEpoch, Monotonic, Now, Offset, Timestamp, TopicPartition};

use crate::peer::{Call, Peer};

const READ_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Highwater {
    store: Store,
    log: Log,
    begun: Instant,
}

/// What a thread that appends small batches keeps: the builder, and the time, which it reads once for all that it appends until it writes, as
/// an event loop does.
struct Writer {
    builder: BatchBuilder,
    now: Option<Now>,
}

thread_local! {
    static WRITER: RefCell<Writer> = RefCell::new(Writer { builder: BatchBuilder::new(Compression::None), now: None });
}

impl Highwater {
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let begun = Instant::now();
        let disk = open_disk(IoMode::Auto, SyncThread::WhenNeeded)?.disk;
        let store = Store::open(disk, directory, StoreConfig::default(), now(begun)?)?.store;
        let name = TopicPartition::new("peers", 0)?;
        let log = match store.log(&name) {
            Some(log) => log,
            None => store.create_log(&name, None, LogConfig::default(), now(begun)?)?,
        };
        Ok(Self { store, log, begun })
    }

    fn append_batch(&self, batch: Bytes, now: Now) -> Result<Ticket> {
        let batch = ProducedBatch::check(batch, &BatchLimits::default(), now.wall)?;
        Ok(self.log.append(Permit::new(LeaderEpoch::ZERO), batch, now)?.ticket)
    }

    fn write(&self) {
        self.store.turn(Wait::Not, Patience::MayBlock);
    }

    fn read(&self, from: Offset, bytes_max: usize) -> Result<Read> {
        let Read::Cold(asked) = self.log.read(from, Offset::MAX, bytes_max, true)? else {
            return Ok(self.log.read(from, Offset::MAX, bytes_max, true)?);
        };
        match Job::ColdRead(asked).run(&self.store) {
            JobDone::Read { result, .. } => Ok(result?),
            other => bail!("{other:?}"),
        }
    }
}

fn now(begun: Instant) -> Result<Now> {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    Ok(Now {
        monotonic: Monotonic::from_duration(begun.elapsed()),
        wall: Timestamp::from_millis(i64::try_from(wall)?),
    })
}

impl Peer for Highwater {
    fn append(&self, call: Call) -> Result<()> {
        self.append_batch(call.batch, now(self.begun)?)?;
        self.write();
        Ok(())
    }

    fn append_one(&self, record: &[u8]) -> Result<()> {
        WRITER.with_borrow_mut(|writer| {
            let now = match writer.now {
                Some(now) => now,
                None => now(self.begun)?,
            };
            writer.now = Some(now);
            writer.builder.push(None, None, Some(record), &[])?;
            self.append_batch(writer.builder.finish()?, now)?;
            Ok(())
        })
    }

    fn flush(&self) -> Result<()> {
        WRITER.with_borrow_mut(|writer| writer.now = None);
        Ok(self.store.wait(self.log.ticket(), Step::Written)?)
    }

    fn sync(&self) -> Result<()> {
        Ok(self.store.wait(self.log.ticket(), Step::Durable)?)
    }

    fn append_durable(&self, call: Call) -> Result<()> {
        let ticket = self.append_batch(call.batch, now(self.begun)?)?;
        Ok(self.store.wait(ticket, Step::Durable)?)
    }

    fn append_durable_in_tasks(&self, call: &Call, writers: usize, end: Instant) -> Option<Result<usize>> {
        let writer = async || -> Result<usize> {
            let mut count = 0;
            while Instant::now() < end {
                let ticket = self.append_batch(call.anew().batch, now(self.begun)?)?;
                self.store.wait_async(ticket, Step::Durable).await?;
                count += 1;
            }
            Ok(count)
        };
        let mut all = pin!(try_join_all((0..writers).map(|_| writer())));
        // What is not done after a turn is polled again behind the next one, so that nobody need be woken.
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(counts) = all.as_mut().poll(&mut context) {
                return Some(counts.map(|counts| counts.iter().sum()));
            }
            self.store.turn(Wait::ForOne, Patience::MayBlock);
        }
    }

    fn scan(&self) -> Result<(usize, usize)> {
        let (mut from, mut records, mut bytes) = (Offset::ZERO, 0, 0);
        while let Read::Records(read) = self.read(from, READ_BYTES)? {
            records += usize::try_from(read.end.value() - from.value())?;
            bytes += read.size;
            from = read.end;
        }
        Ok((records, bytes))
    }

    fn points(&self, numbers: &[usize]) -> Result<usize> {
        let (limits, mut room) = (DecompressLimits::default(), Vec::new());
        let mut bytes = 0;
        for number in numbers {
            let offset = Offset::new(i64::try_from(*number)?).context("an offset")?;
            let Read::Records(read) = self.read(offset, 1)? else { bail!("{number} is not there") };
            for part in &read.parts {
                for (_, batch) in scan(part, 0).flatten() {
                    for record in batch.records(&limits, &mut room)? {
                        bytes += record?.value.map_or(0, <[u8]>::len);
                    }
                }
            }
        }
        Ok(bytes)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.store.close(serde_json::Map::new(), None)?;
        Ok(())
    }
}
