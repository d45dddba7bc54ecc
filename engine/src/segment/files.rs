//! The file of a segment, which may be closed while nobody uses it, and is opened again by its name.
//!
//! ```text
//!            open             a batch is accepted           all of it is synced
//!   closed ────────> open ────────────────────────> held ──────────────────────> open
//!     ^               │  nobody has used it for longest                            │
//!     └───────────────┴────────────────────────────────────────────────────────────┘
//! ```
//! A file that is *held* is never closed. Its pages may wait for their write-back, and if that fails whoever has the file open is told at his
//! next sync; of one that was closed meanwhile another opener may be told, or nobody, and then a sync would succeed and prove nothing.
//!
//! A file that was closed may be another one when it is opened again: its inode tells, and of one that grows the size.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::bound::{Bound, Closable, Close, Counted, Mark};
use super::lookup::IndexSlot;
use crate::disk::File;
use crate::disk::is_out_of_descriptors;
use crate::sync::atomic::AtomicBool;
use crate::sync::{Mutex, MutexGuard};

/// How many files, and maps of indexes, all segments of a store have open.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    pub(super) files: Bound<Slot>,
    pub(super) indexes: Bound<IndexSlot>,
}

impl OpenFiles {
    pub(crate) fn new(files_max: usize, indexes_max: usize) -> Self {
        Self { files: Bound::new(files_max), indexes: Bound::new(indexes_max) }
    }

    #[cfg(test)]
    pub(crate) fn open(&self) -> usize {
        self.files.open()
    }

    #[cfg(test)]
    pub(crate) fn mapped(&self) -> usize {
        self.indexes.open()
    }

    /// Whether there is little left that may be closed without a sync.
    pub(crate) fn are_mostly_held(&self) -> bool {
        self.files.is_mostly_held()
    }

    /// Whether another file may be opened; closes one if that helps. Otherwise all that are open are held, or being used.
    pub(crate) fn has_place(&self) -> bool {
        self.files.has_place()
    }
}

/// What somebody opens a file for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Once,
    /// It is to stay open until [`Slot::release`].
    Held,
}

/// A file that is open.
#[derive(Debug)]
pub(crate) struct OpenFile {
    file: File,
    _open: Counted,
    held: Option<Counted>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Slot {
    open: Mutex<Option<OpenFile>>,
    /// Set and taken away under the lock of `open`.
    is_held: AtomicBool,
    /// Of the file, from when it is first known.
    inode: Mutex<Option<u64>>,
    mark: Mark,
}

impl Slot {
    pub(super) fn closed() -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            is_held: AtomicBool::new(false),
            inode: Mutex::default(),
            mark: Mark::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<OpenFile>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file. `open` opens it, if it is not.
    pub(super) fn file(
        self: &Arc<Self>,
        files: &OpenFiles,
        wanted: Use,
        open: impl Fn() -> io::Result<File>,
    ) -> io::Result<File> {
        let mut slot = self.lock();
        let is_new = slot.is_none();
        let open = match &mut *slot {
            Some(open) => open,
            closed @ None => {
                let file = self.opened(files, &open)?;
                closed.insert(OpenFile { file, _open: files.files.count(), held: None })
            }
        };
        if wanted == Use::Held {
            self.keep(files, open);
        }
        let file = Arc::clone(&open.file);
        drop(slot);
        self.mark.use_it();
        if is_new {
            files.files.list(self);
        }
        Ok(file)
    }

    fn opened(&self, files: &OpenFiles, open: &impl Fn() -> io::Result<File>) -> io::Result<File> {
        let file = loop {
            match open() {
                // The rest of the process has more open than was thought.
                Err(error) if is_out_of_descriptors(&error) && files.files.close_one() => {}
                opened => break opened?,
            }
        };
        let inode = file.identity()?.inode;
        let mut known = self.inode.lock().unwrap_or_else(PoisonError::into_inner);
        if *known.get_or_insert(inode) != inode {
            return Err(io::Error::other(Exchanged));
        }
        Ok(file)
    }

    /// The file, if it is open. Touches no disk.
    pub(super) fn open_file(&self) -> Option<File> {
        self.mark.use_it();
        self.lock().as_ref().map(|open| Arc::clone(&open.file))
    }

    /// Whether it is open, and nobody is about to open it.
    pub(super) fn is_open(&self) -> bool {
        self.is_held() || self.open.try_lock().is_ok_and(|slot| slot.is_some())
    }

    /// Keeps it open, if it is; waits for nobody. Called, as [`Slot::release`] is, where the log's order is made.
    pub(super) fn hold(&self, files: &OpenFiles) -> bool {
        if self.is_held.load(Ordering::Acquire) {
            return true;
        }
        let Ok(mut slot) = self.open.try_lock() else { return false };
        let Some(open) = &mut *slot else { return false };
        self.keep(files, open);
        true
    }

    fn keep(&self, files: &OpenFiles, open: &mut OpenFile) {
        open.held.get_or_insert_with(|| files.files.count_held());
        self.is_held.store(true, Ordering::SeqCst);
    }

    /// All that was written to it is synced: from now on it may be closed.
    pub(super) fn release(self: &Arc<Self>, files: &OpenFiles) {
        if !self.is_held.load(Ordering::Acquire) {
            return;
        }
        {
            let mut slot = self.lock();
            self.is_held.store(false, Ordering::SeqCst);
            if let Some(open) = &mut *slot {
                open.held = None;
            }
        }
        files.files.list(self);
    }
}

impl Closable for Slot {
    type Thing = OpenFile;

    fn mark(&self) -> &Mark {
        &self.mark
    }

    fn is_held(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }

    fn close(&self) -> Close<Self::Thing> {
        match self.open.try_lock() {
            // Whoever uses it at this moment has a reference of his own.
            Ok(mut slot) if !self.is_held() => slot.take().map_or(Close::Not, Close::Closed),
            Ok(_) => Close::Not,
            Err(_) => Close::InUse,
        }
    }
}

/// A file that was opened again is not the one that was closed: removed, replaced or cut by somebody else. Inside of an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the file is not the one that it was: somebody else has replaced or cut it")]
pub(crate) struct Exchanged;

impl Exchanged {
    /// Whether an error says so.
    pub(crate) fn is_in(error: &io::Error) -> bool {
        error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Self>)
    }
}
