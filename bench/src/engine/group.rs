//! What many threads that share one sync cost by themselves: a group commit that writes the same bytes and does nothing else. Each thread
//! sleeps until its own bytes are synced, and is woken for itself.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

use rustix::fs::FallocateFlags;

use super::ground::MIB;
use crate::error::{BenchError, Result};

const RESERVED: u64 = 64 * MIB as u64;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Group {
    file: File,
    waiting: Mutex<Waiting>,
    /// Bytes that are synced.
    durable: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    threads: Vec<Thread>,
    /// Bytes that were added.
    end: u64,
    is_led: bool,
}

impl Group {
    pub(super) fn new(file: File) -> Self {
        Self { file, waiting: Mutex::default(), durable: AtomicU64::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds bytes and returns when they are synced.
    pub(super) fn append(&self, bytes: &[u8]) -> Result<()> {
        let end = {
            let mut waiting = self.lock();
            waiting.bytes.extend_from_slice(bytes);
            waiting.end += bytes.len() as u64;
            waiting.threads.push(thread::current());
            waiting.end
        };
        while self.durable.load(Ordering::Acquire) < end {
            let mut waiting = self.lock();
            if waiting.is_led {
                drop(waiting);
                thread::park();
            } else if self.durable.load(Ordering::Acquire) < end {
                waiting.is_led = true;
                let taken =
                    (std::mem::take(&mut waiting.bytes), std::mem::take(&mut waiting.threads), waiting.end);
                drop(waiting);
                self.commit(taken)?;
            }
        }
        Ok(())
    }

    fn commit(&self, (bytes, threads, end): (Vec<u8>, Vec<Thread>, u64)) -> Result<()> {
        let failed = || BenchError::io("the group's file");
        let begin = end - bytes.len() as u64;
        if begin / RESERVED != end / RESERVED || begin == 0 {
            let from = end.next_multiple_of(RESERVED);
            rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, begin, from + RESERVED - begin)
                .map_err(|error| failed()(error.into()))?;
        }
        self.file.write_all_at(&bytes, begin).map_err(failed())?;
        self.file.sync_data().map_err(failed())?;
        self.durable.store(end, Ordering::Release);
        let next = {
            let mut waiting = self.lock();
            waiting.is_led = false;
            waiting.threads.first().cloned()
        };
        // Whoever waits for the next sync begins it while those of this one are woken.
        next.iter().chain(&threads).for_each(Thread::unpark);
        Ok(())
    }
}
