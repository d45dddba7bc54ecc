//! Bounds how many files of segments that grow no more are open at once: the ones opened first are closed first, and opened again when
//! somebody reads.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, Weak};

use crate::disk::File;
use crate::sync::Mutex;

/// A file that may be closed and opened again.
pub(super) type Slot = Arc<Mutex<Option<File>>>;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    files_max: usize,
    open: Mutex<VecDeque<Weak<Mutex<Option<File>>>>>,
}

impl OpenFiles {
    pub(crate) fn new(files_max: usize) -> Self {
        Self { files_max, open: Mutex::default() }
    }

    /// A file was opened. The caller holds no slot's lock.
    pub(super) fn opened(&self, slot: &Slot) {
        let closing = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.push_back(Arc::downgrade(slot));
            if open.len() > self.files_max { open.pop_front() } else { None }
        };
        if let Some(slot) = closing.and_then(|slot| slot.upgrade()) {
            // Whoever uses it at this moment has a reference of its own.
            slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
}
