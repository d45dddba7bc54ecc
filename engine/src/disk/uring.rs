//! The disk whose queue hands many operations to the kernel at once. Files and directories are those of the POSIX disk.
//!
//! A buffered write is cheapest in the calling thread, because the kernel hands those of a ring to its workers: of 16 files beside each other
//! 4 KiB each take 2 to 7 µs inline and 5 to 15 through the ring, 64 KiB 18 to 20 and 23 to 880, 256 KiB 60 to 85 and more than 1,200 (ext4, two
//! busy cores). Several syncs are fastest side by side: of 64 files 4 to 11 times as fast as one after another. So in [`IoMode::Auto`]
//! writes are done inline unless they are large and several, and so is a sync that stands alone; syncs that fan out go through the ring.

#[cfg(test)]
#[path = "uring_test.rs"]
mod uring_test;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use super::choose::{IoMode, RingRefusal};
use super::posix::perform;
use super::ring::Ring;
use super::{
    Completion, DirectoryLock, Disk, Entry, File, Incarnation, LockError, Open, Operation, OperationKind,
    Patience, PosixDisk, Queue, QueueCounters, SyncThread, Wait,
};

/// Entries of the submission queue; more operations go in several submissions.
const ENTRIES: u32 = 256;

/// The file system, with `io_uring` for what fans out. Linux, feature `uring`.
#[derive(Debug)]
pub struct UringDisk {
    files: PosixDisk,
    inline: Inline,
    /// The ring that proved that the kernel gives one; for the first queue.
    first: Mutex<Option<Ring>>,
}

/// A larger write goes through the ring, where it is not the only one: several of them are worth more than one core.
const INLINE_WRITE_BYTES_MAX: usize = 256 << 10;

/// What a queue does itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inline {
    /// Writes that are not large; and a large write, or a sync that may block, which is the only one.
    Cheap,
    /// Only what a ring cannot do.
    Nothing,
}

impl UringDisk {
    /// Asks the kernel for a first ring. [`IoMode::Uring`] sends everything through rings; any other mode does inline what stands alone.
    pub fn new(mode: IoMode) -> Result<Self, RingRefusal> {
        let inline = match mode {
            IoMode::Uring => Inline::Nothing,
            IoMode::Auto | IoMode::Posix => Inline::Cheap,
        };
        let first = Mutex::new(Some(Ring::new(ENTRIES)?));
        Ok(Self { files: PosixDisk::new(SyncThread::Never), inline, first })
    }
}

impl Disk for UringDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<File> {
        self.files.open(path, how)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        self.files.list(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.files.create_directory(directory)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.files.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.files.remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.files.remove_directory(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.files.sync_directory(directory)
    }

    fn lock(&self, directory: &Path) -> Result<Box<dyn DirectoryLock>, LockError> {
        self.files.lock(directory)
    }

    fn incarnation(&self, directory: &Path) -> Option<Incarnation> {
        self.files.incarnation(directory)
    }

    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        self.files.free_bytes(directory)
    }

    fn open_files_max(&self) -> Option<usize> {
        self.files.open_files_max()
    }

    fn queue(&self) -> io::Result<Box<dyn Queue>> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ring = match first {
            Some(ring) => ring,
            None => Ring::new(ENTRIES).map_err(io::Error::other)?,
        };
        Ok(Box::new(UringQueue::new(ring, self.inline)))
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct UringQueue {
    ring: Ring,
    inline: Inline,
    /// Empty: the memory for what a submission does itself.
    here: Vec<Operation>,
    ready: VecDeque<Completion>,
    counters: QueueCounters,
}

impl UringQueue {
    fn new(ring: Ring, inline: Inline) -> Self {
        let (here, ready) = (Vec::new(), VecDeque::new());
        Self { ring, inline, here, ready, counters: QueueCounters::default() }
    }

    /// A queue with a ring of so many entries that sends everything through it.
    #[cfg(test)]
    pub(super) fn with_entries(entries: u32) -> Self {
        Self::new(Ring::new(entries).expect("the kernel gives a ring"), Inline::Nothing)
    }

    fn count_ring(&mut self, kind: Kind) {
        match kind {
            Kind::Write => self.counters.writes_ring += 1,
            Kind::Sync => self.counters.syncs_ring += 1,
            Kind::Read => self.counters.reads_ring += 1,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Write,
    Sync,
    Read,
}

fn kind_of(operation: &Operation) -> Kind {
    match operation.kind {
        OperationKind::Write { .. } => Kind::Write,
        OperationKind::Sync { .. } => Kind::Sync,
        OperationKind::Read { .. } => Kind::Read,
    }
}

/// What of a submission is done inline.
#[derive(Clone, Copy, Debug)]
struct InlineKinds {
    write_bytes_max: usize,
    syncs: bool,
}

impl InlineKinds {
    const NOTHING: Self = Self { write_bytes_max: 0, syncs: false };

    fn of(operations: &[Operation], in_flight: usize) -> Self {
        let count = |kind| operations.iter().filter(|operation| kind_of(operation) == kind).count();
        let must_not_block = operations.iter().any(|operation| {
            matches!(operation.kind, OperationKind::Sync { patience: Patience::MustNotBlock })
        });
        let large = if count(Kind::Write) == 1 { usize::MAX } else { INLINE_WRITE_BYTES_MAX };
        // Beside others that are under way it is not alone: whoever waits for those would wait for it too, and it shares their flush.
        let is_lone_sync = count(Kind::Sync) == 1 && in_flight == 0;
        Self { write_bytes_max: large, syncs: is_lone_sync && !must_not_block }
    }

    fn include(self, operation: &Operation) -> bool {
        match &operation.kind {
            OperationKind::Write { buffers, .. } => {
                buffers.iter().map(Bytes::len).sum::<usize>() <= self.write_bytes_max
            }
            OperationKind::Sync { .. } => self.syncs,
            OperationKind::Read { .. } => false,
        }
    }
}

impl Queue for UringQueue {
    fn submit(&mut self, operations: &mut Vec<Operation>) {
        let inline = match self.inline {
            Inline::Cheap => InlineKinds::of(operations, self.ring.in_flight()),
            Inline::Nothing => InlineKinds::NOTHING,
        };
        for operation in operations.drain(..) {
            let kind = kind_of(&operation);
            if inline.include(&operation) {
                self.here.push(operation);
                continue;
            }
            match self.ring.push(operation) {
                Ok(()) => self.count_ring(kind),
                Err(operation) => self.here.push(operation),
            }
        }
        // The kernel gets its part first, so that both are busy.
        self.ring.submit();
        for operation in self.here.drain(..) {
            let completion = perform(operation, &mut self.counters);
            self.ready.push_back(completion);
        }
    }

    fn reap(&mut self, wait: Wait, completed: &mut Vec<Completion>) {
        let wait = if self.ready.is_empty() { wait } else { Wait::Not };
        completed.extend(self.ready.drain(..));
        self.ring.reap(wait, completed);
    }

    fn in_flight(&self) -> usize {
        self.ready.len() + self.ring.in_flight()
    }

    fn wake_descriptor(&self) -> io::Result<Option<OwnedFd>> {
        self.ring.descriptor().map(Some)
    }

    fn counters(&self) -> QueueCounters {
        self.counters
    }
}
