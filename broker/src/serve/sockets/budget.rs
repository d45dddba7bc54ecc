//! Bytes of requests and answers that are under way on all connections together.
//!
//! Not strict, as Kafka's memory pool: a frame may begin while there is room, and one that has begun is read to its end, because a
//! connection that holds half a frame and waits for room would hold its half for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    bytes_max: usize,
    freed: Notify,
}

impl Budget {
    /// Nothing is under way.
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), bytes_max, freed: Notify::new() })
    }

    /// Bytes that are under way.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// These are under way now, too.
    pub(crate) fn charge(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// These are done.
    pub(crate) fn release(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "released more than was charged");
        if before >= self.bytes_max && before.saturating_sub(bytes) < self.bytes_max {
            self.freed.notify_waiters();
        }
    }

    /// Waits until a frame may begin.
    pub(crate) async fn room(&self) {
        loop {
            if self.used() < self.bytes_max {
                return;
            }
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if self.used() < self.bytes_max {
                return;
            }
            freed.await;
        }
    }
}

/// What one reader holds; given back when it goes.
#[derive(Debug)]
pub(super) struct Held {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Held {
    pub(super) fn nothing(budget: Arc<Budget>) -> Self {
        Self { budget, bytes: 0 }
    }

    /// It holds so many now.
    pub(super) fn set(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.budget.charge(bytes - self.bytes);
        } else if bytes < self.bytes {
            self.budget.release(self.bytes - bytes);
        }
        self.bytes = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_frame_begins_when_others_are_done() {
        let budget = Budget::new(100);
        let mut held = Held::nothing(Arc::clone(&budget));
        held.set(150);
        let waiting = tokio::spawn({
            let budget = Arc::clone(&budget);
            async move { budget.room().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        held.set(120);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(held);
        waiting.await.unwrap();
        assert_eq!(budget.used(), 0);
    }
}
