//! writeahead: a thread that writes and syncs what tasks send it. A large append has several calls under way, or each would wait for its own
//! sync.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use futures::StreamExt as _;
use futures::executor::block_on;
use futures::future::BoxFuture;
use writeahead::{SimpleFile, WriteAheadOptions, WriteHandle};

use crate::peer::{Call, Peer};

const UNDER_WAY: usize = 16;

type Waiting = VecDeque<BoxFuture<'static, Result<()>>>;

pub(crate) struct WriteAhead {
    wal: writeahead::WriteAhead<SimpleFile>,
    handle: WriteHandle,
    waiting: Mutex<Waiting>,
}

impl WriteAhead {
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let options = WriteAheadOptions { log_dir: directory.to_owned(), ..WriteAheadOptions::default() };
        let mut wal = writeahead::WriteAhead::<SimpleFile>::with_options(options);
        wal.start()?;
        let handle = wal.writer()?;
        Ok(Self { wal, handle, waiting: Mutex::default() })
    }

    fn wait_until(&self, left: usize) -> Result<()> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while waiting.len() > left {
            waiting.pop_front().map_or(Ok(()), block_on)?;
        }
        Ok(())
    }
}

fn owned(call: &Call) -> Vec<Vec<u8>> {
    call.records.iter().map(|record| record.to_vec()).collect()
}

impl Peer for WriteAhead {
    fn append(&self, call: Call) -> Result<()> {
        let handle = Arc::new(self.handle.clone());
        let records = owned(&call);
        let mut asked: BoxFuture<'static, Result<()>> = Box::pin(async move {
            handle.write_batch(records).await?;
            Ok(())
        });
        // It is sent when it is polled for the first time.
        let waker = futures::task::noop_waker();
        match asked.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            std::task::Poll::Ready(done) => done?,
            std::task::Poll::Pending => {
                self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(asked);
            }
        }
        self.wait_until(UNDER_WAY)
    }

    fn append_one(&self, record: &[u8]) -> Result<()> {
        block_on(self.handle.write(record.to_vec()))?;
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.wait_until(0)
    }

    fn sync(&self) -> Result<()> {
        self.wait_until(0)
    }

    fn append_durable(&self, call: Call) -> Result<()> {
        block_on(self.handle.write_batch(owned(&call)))?;
        Ok(())
    }

    fn scan(&self) -> Result<(usize, usize)> {
        let mut stream = self.wal.create_stream()?;
        let (mut records, mut bytes) = (0, 0);
        while let Some(read) = block_on(stream.next()) {
            records += 1;
            bytes += read?.1.len();
        }
        Ok((records, bytes))
    }

    fn points(&self, _numbers: &[usize]) -> Result<usize> {
        bail!("filling it takes a sync a record")
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.wait_until(0)
    }
}
