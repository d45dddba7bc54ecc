//! Space in reserve: a file that holds room on the device and nothing else. When the device is full it is removed, so that checkpoints,
//! seals, deletion and a clean stop go through.
//!
//! ```text
//!   opening ──> there ──── something that must go through finds no room ──> given back
//!                 ^                                                             |
//!                 └── room for it, for what is asked, and a quarter more ───────┘  meanwhile appends are refused
//! ```
//! While it is given back appends do not get the room, or they would use it up at once. The quarter more keeps it from being taken and
//! given back by turns. A crash leaves the file or not; it says nothing.

use std::io;
use std::path::{Path, PathBuf};

use super::shared::lock;
use crate::disk::{Disk, Open, is_full};
use crate::sync::Mutex;

/// The name of the file, in the data directory.
pub const RESERVE_FILE: &str = "highwater-space-in-reserve";

/// Whether a data directory has space in reserve, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReserveReport {
    /// It has.
    Held {
        /// How many bytes.
        bytes: u64,
    },
    /// None was asked for.
    SwitchedOff,
    /// The file system cannot reserve space.
    Unsupported,
    /// There is too little room; it is tried again with the checkpoints.
    NoRoom {
        /// How many bytes would have to be free.
        needed_bytes: u64,
        /// How many are.
        free_bytes: u64,
    },
    /// The file could not be made. What it would have been of use for is done without it.
    Failed {
        /// The system's error, as text.
        error: String,
    },
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    bytes: Option<u64>,
    held: Mutex<Held>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Not asked for, or not to be had.
    Absent,
    /// To be taken with the next checkpoint, if there is room by then.
    Wanted,
    There,
    GivenBack,
}

impl Reserve {
    /// Nothing is reserved yet.
    pub(crate) fn new(directory: &Path, bytes: Option<u64>) -> Self {
        Self { path: directory.join(RESERVE_FILE), bytes, held: Mutex::new(Held::Absent) }
    }

    /// Takes it for the first time, or what the last process has left of it. One that is not wanted any more is removed.
    pub(crate) fn open(&self, disk: &dyn Disk) -> ReserveReport {
        let mut held = lock(&self.held);
        let Some(bytes) = self.bytes else {
            drop(disk.remove_file(&self.path));
            return ReserveReport::SwitchedOff;
        };
        let report = self.take(disk, bytes, 0);
        *held = match report {
            ReserveReport::Held { .. } => Held::There,
            ReserveReport::NoRoom { .. } => Held::Wanted,
            ReserveReport::SwitchedOff | ReserveReport::Unsupported | ReserveReport::Failed { .. } => {
                Held::Absent
            }
        };
        report
    }

    /// Gives the space back. Says whether something that found no room should be tried once more.
    pub(crate) fn give_back(&self, disk: &dyn Disk) -> bool {
        let mut held = lock(&self.held);
        if *held == Held::There {
            if disk.remove_file(&self.path).is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
                return false;
            }
            *held = Held::GivenBack;
        }
        *held == Held::GivenBack
    }

    /// Whether so many bytes may be used for records: not while the space is given back, which ends here if there is room again. If not,
    /// how many bytes are missing.
    pub(crate) fn allow(&self, disk: &dyn Disk, wanted_bytes: u64) -> Result<(), u64> {
        let mut held = lock(&self.held);
        let (Held::GivenBack, Some(bytes)) = (*held, self.bytes) else { return Ok(()) };
        match self.take(disk, bytes, wanted_bytes) {
            ReserveReport::NoRoom { needed_bytes, free_bytes } => Err((needed_bytes - free_bytes).max(1)),
            ReserveReport::Held { .. } => {
                *held = Held::There;
                Ok(())
            }
            // Then it is done without, as where it could not be had from the beginning.
            ReserveReport::SwitchedOff | ReserveReport::Unsupported | ReserveReport::Failed { .. } => {
                *held = Held::Absent;
                Ok(())
            }
        }
    }

    /// Takes it if it is not there and there is room by now. Says whether nothing is left to be taken.
    pub(crate) fn take_again(&self, disk: &dyn Disk) -> bool {
        let mut held = lock(&self.held);
        let (Held::Wanted | Held::GivenBack, Some(bytes)) = (*held, self.bytes) else { return true };
        let is_held = matches!(self.take(disk, bytes, 0), ReserveReport::Held { .. });
        if is_held {
            *held = Held::There;
        }
        is_held
    }

    /// Reserves `bytes`, if behind that so many more and a quarter stay free.
    fn take(&self, disk: &dyn Disk, bytes: u64, more_bytes: u64) -> ReserveReport {
        let Some(directory) = self.path.parent() else { return ReserveReport::Unsupported };
        let needed_bytes = bytes.saturating_add(bytes / 4).saturating_add(more_bytes);
        let reserved = disk.open(&self.path, Open::Create).and_then(|file| {
            // What the last process has left counts as free.
            file.set_size(0)?;
            let free_bytes = disk.free_bytes(directory)?;
            if free_bytes < needed_bytes {
                return Ok(Some(free_bytes));
            }
            file.reserve(bytes).map(|()| None)
        });
        let report = match reserved {
            Ok(None) => return ReserveReport::Held { bytes },
            Ok(Some(free_bytes)) => ReserveReport::NoRoom { needed_bytes, free_bytes },
            Err(error) if is_full(&error) => ReserveReport::NoRoom { needed_bytes, free_bytes: 0 },
            Err(error) if error.kind() == io::ErrorKind::Unsupported => ReserveReport::Unsupported,
            Err(error) => ReserveReport::Failed { error: error.to_string() },
        };
        // Without room of its own it is of no use.
        drop(disk.remove_file(&self.path));
        report
    }
}
