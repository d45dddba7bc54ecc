//! The outgoing half of a connection: parts in a queue, written many at once, and a wait when the socket takes no more.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::task::AbortHandle;

/// Parts of one `writev`.
const PARTS_MAX: usize = 64;

/// Parts that wait, and how many requests are answered when they are written.
struct Queued {
    bytes: Bytes,
    requests: usize,
}

/// See the module's documentation.
pub(super) struct Writer {
    half: Arc<OwnedWriteHalf>,
    queue: VecDeque<Queued>,
    queued_bytes: usize,
    /// Requests whose answers are written already, or have none.
    answered: usize,
    waiting: Option<AbortHandle>,
}

/// What a flush did.
pub(super) struct Flushed {
    /// Bytes that the socket took.
    pub(super) bytes: usize,
    /// Requests whose answers are with it.
    pub(super) requests: usize,
    /// `Ok` if nothing is left.
    pub(super) outcome: io::Result<()>,
}

impl Writer {
    pub(super) fn new(half: OwnedWriteHalf) -> Self {
        Self { half: Arc::new(half), queue: VecDeque::new(), queued_bytes: 0, answered: 0, waiting: None }
    }

    /// Puts parts behind the others; answers their bytes.
    pub(super) fn queue(&mut self, parts: Vec<Bytes>) -> usize {
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        let before = self.queued_bytes;
        for bytes in parts {
            self.queued_bytes += bytes.len();
            self.queue.push_back(Queued { bytes, requests: 0 });
        }
        self.queued_bytes - before
    }

    /// So many requests are answered when everything that is queued is written.
    pub(super) fn mark_requests(&mut self, count: usize) {
        match self.queue.back_mut() {
            Some(last) => last.requests += count,
            None => self.answered += count,
        }
    }

    pub(super) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Writes as much as the socket takes. While a wait is under way nothing is tried.
    pub(super) fn flush(&mut self) -> Flushed {
        let before = self.queued_bytes;
        let outcome = if self.waiting.is_some() { Ok(()) } else { self.write_all() };
        Flushed { bytes: before - self.queued_bytes, requests: std::mem::take(&mut self.answered), outcome }
    }

    fn write_all(&mut self) -> io::Result<()> {
        while !self.queue.is_empty() {
            let slices: Vec<IoSlice<'_>> =
                self.queue.iter().take(PARTS_MAX).map(|part| IoSlice::new(&part.bytes)).collect();
            match self.half.try_write_vectored(&slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn written(&mut self, mut count: usize) {
        self.queued_bytes -= count;
        while let Some(first) = self.queue.front_mut() {
            if count < first.bytes.len() {
                first.bytes.advance(count);
                return;
            }
            count -= first.bytes.len();
            self.answered += first.requests;
            self.queue.pop_front();
        }
    }

    /// Waits for the socket in a task of its own, and says what came of it.
    pub(super) fn wait(
        &mut self,
        stall_max: Duration,
        writable: impl FnOnce() + Send + 'static,
        stalled: impl FnOnce() + Send + 'static,
    ) {
        let half = Arc::clone(&self.half);
        let task = tokio::spawn(async move {
            match tokio::time::timeout(stall_max, half.writable()).await {
                // An error is found by the next write.
                Ok(_) => writable(),
                Err(_) => stalled(),
            }
        });
        self.waiting = Some(task.abort_handle());
    }

    /// The wait is over.
    pub(super) fn woken(&mut self) {
        self.waiting = None;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(waiting) = &self.waiting {
            waiting.abort();
        }
    }
}
