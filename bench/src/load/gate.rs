//! Bounds what is in flight between a thread that sends and one that receives.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// So many may be inside.
#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    room: usize,
    closed: bool,
}

impl Gate {
    pub(super) fn new(room: usize) -> Self {
        Self { state: Mutex::new(State { room: room.max(1), closed: false }), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room and takes it. False: the gate was closed, nothing will leave any more.
    #[must_use]
    pub(super) fn enter(&self) -> bool {
        let waiting = self.changed.wait_while(self.lock(), |state| state.room == 0 && !state.closed);
        let mut state = waiting.unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return false;
        }
        state.room -= 1;
        true
    }

    /// One has left.
    pub(super) fn leave(&self) {
        self.lock().room += 1;
        self.changed.notify_one();
    }

    /// Nobody waits here any more.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}
