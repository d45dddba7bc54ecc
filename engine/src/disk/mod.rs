//! The only door to the outside world: files, directories, syncs and maps, each call with its crash contract.
//!
//! Two kinds of crash are told apart. A *kill* ends the process: whatever a completed call did to files stays, because the
//! operating system keeps it. A *power loss* ends the machine: only what a completed sync covered is certain; of the rest any
//! part may be there, at the granularity of a page for contents (of a sector, where the device tears pages) and of one name for
//! directories, in any order.
//!
//! Three implementations: portable POSIX, `io_uring` for what fans out, and a simulated disk for tests.

mod choose;
#[cfg(test)]
mod contract_test;
mod files;
mod incarnation;
mod lock;
#[cfg(test)]
mod lock_test;
mod posix;
#[cfg(test)]
mod posix_test;
mod read_only;
#[cfg(all(target_os = "linux", feature = "uring"))]
#[expect(unsafe_code, reason = "the kernel uses buffers that it does not borrow")]
mod ring;
pub mod simulated;
#[expect(unsafe_code, reason = "system calls that the standard library does not offer, and maps")]
mod sys;
mod trouble;
#[cfg(all(target_os = "linux", feature = "uring"))]
mod uring;
mod wake;

pub use choose::{IoMode, OpenedDisk, RingRefusal, open_disk, raise_descriptor_limit};
pub use lock::LOCK_FILE;
pub use posix::{PosixDisk, SyncThread};
pub(crate) use read_only::ReadOnlyDisk;
pub use simulated::SimulatedDisk;
pub(crate) use trouble::{is_bad_medium, is_full, is_out_of_descriptors, is_passing};
#[cfg(all(target_os = "linux", feature = "uring"))]
pub use uring::UringDisk;

use std::any::Any;
use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

/// An open file. Closed when the last reference goes; closing gives no promise about what was written.
pub type File = Arc<dyn DiskFile>;

/// Directories, names and the making of files.
///
/// Calls block the caller; they are for opening, jobs and shutdown. What a log does all the time goes through a [`Queue`].
pub trait Disk: Send + Sync + Debug {
    /// Opens a file. With [`Open::Create`] a missing file is made, empty, mode 0600. The lock file of a directory that this
    /// process holds is refused: it is read through its guard ([`Disk::lock`]), since closing it would give the lock away.
    ///
    /// Power loss: a new name is certain only after [`Disk::sync_directory`] of its directory.
    fn open(&self, path: &Path, how: Open) -> io::Result<File>;

    /// The entries of a directory, sorted by name. Entries that are neither files nor directories are reported as
    /// [`EntryKind::Other`]; symbolic links are not followed.
    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>>;

    /// Makes a directory, mode 0700, and those above it. Nothing happens if it is there.
    ///
    /// Power loss: as for a new file.
    fn create_directory(&self, directory: &Path) -> io::Result<()>;

    /// Gives a file or directory another name, replacing a file of that name.
    ///
    /// Kill: the old or the new state. Power loss: either, until the directories of both names are synced; the new name may
    /// be there with any contents the file had since its last sync.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name; a file that is open stays readable through its handle.
    ///
    /// Power loss: the name may come back until its directory is synced.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory and all that is in it. A crash leaves any part of it.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;

    /// When it returns `Ok`, all names made, changed and removed in this directory before are certain. An error is final, as that of
    /// [`DiskFile::sync`]; only where the directory could not be opened for want of a descriptor nothing was tried.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// Takes the directory for this process: an `fcntl` write lock on the file `.lock` in it, which excludes Kafka as well.
    /// Held until the guard is dropped; a kill releases it. The file stays. It may be read and rewritten through the guard.
    fn lock(&self, directory: &Path) -> Result<Box<dyn DirectoryLock>, LockError>;

    /// What has to be equal for the page cache to have survived since: the boot, the device and the mount. `None` where
    /// that cannot be known (network, FUSE, and every system but Linux), which is treated as a machine crash.
    fn incarnation(&self, directory: &Path) -> Option<Incarnation>;

    /// Bytes that an unprivileged process can still allocate on the directory's file system.
    fn free_bytes(&self, directory: &Path) -> io::Result<u64>;

    /// How many files the process may have open at once, sockets and all else included; `None` if nothing bounds them.
    fn open_files_max(&self) -> Option<usize>;

    /// A new queue for writes, syncs and reads. Each driver has its own.
    fn queue(&self) -> io::Result<Box<dyn Queue>>;
}

/// One open file.
///
/// Calls block. While an operation on a file is in flight in a [`Queue`], the owner makes no conflicting call here.
pub trait DiskFile: Any + Send + Sync + Debug {
    /// The file's size in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Reads into the buffer from `position`; fewer bytes than asked only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// Appends `length` bytes from `position` to `out`, fewer only at the end of the file, and only from memory: `None` if some of it
    /// would have to come from the device, and then what was appended says nothing.
    fn read_cached(&self, out: &mut BytesMut, length: usize, position: u64) -> io::Result<Option<usize>>;

    /// Writes all bytes at `position`. On an error any part of them may have been written.
    ///
    /// Kill: completed writes stay; an interrupted one leaves any prefix. Power loss: any pages of it, until a sync.
    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()>;

    /// When it returns `Ok`, all bytes of writes that completed before, and the size, are certain (`fdatasync`; on Apple's systems
    /// `F_FULLFSYNC`, because `fsync` there leaves them in the drive's cache). The name is not. An error is final: what was written since
    /// the last good sync may be lost, and a second call proves nothing. So it is never of the kinds that say that there is no room,
    /// whatever its text says.
    fn sync(&self) -> io::Result<()>;

    /// Sets the size: shorter cuts, longer adds zeros. Room that was reserved behind it is given back. Not certain before a sync:
    /// after a power loss the file may have any size between those it has had, and what was cut may be there again.
    fn set_size(&self, size: u64) -> io::Result<()>;

    /// Reserves room up to `end` without changing the size (`fallocate(KEEP_SIZE)`), so that writes there do not fail for want
    /// of space; zeros never show. `ErrorKind::Unsupported` where the file system or the system cannot: then a full disk is met by the
    /// write, after offsets were given out, and closes the log.
    fn reserve(&self, end: u64) -> io::Result<()>;

    /// Maps the first `length` bytes for reading. The caller never shrinks a file that is mapped.
    fn map(&self, length: usize) -> io::Result<Map>;

    /// The descriptor, where there is one.
    fn descriptor(&self) -> Option<i32>;

    /// Modification time in milliseconds since 1970, and the inode: they tell whether a file was exchanged.
    fn identity(&self) -> io::Result<FileIdentity>;
}

/// Operations that are submitted and complete later, many at once. Owned by one driver.
///
/// Buffers belong to the queue until their completion is reaped. Completions come in any order. Dropping a queue waits for what
/// the kernel still holds.
pub trait Queue: Send + Debug {
    /// Hands operations over, and leaves the list empty. They may be complete on return; the results are had from [`Queue::reap`] all the
    /// same.
    fn submit(&mut self, operations: &mut Vec<Operation>);

    /// Takes completed operations. With [`Wait::ForOne`] it blocks until there is at least one, unless nothing is in flight.
    fn reap(&mut self, wait: Wait, completed: &mut Vec<Completion>);

    /// Operations submitted and not reaped.
    fn in_flight(&self) -> usize;

    /// A descriptor that becomes readable when there is something to reap (an eventfd), for an event loop; `None` where all
    /// completes at submission. What was complete when `submit` returned is not announced, and a wake-up may come once too often.
    ///
    /// It is the caller's own, a duplicate: it may be kept longer than the queue, and is silent then.
    fn wake_descriptor(&self) -> io::Result<Option<OwnedFd>>;

    /// How many operations of each kind went which way, since the start.
    fn counters(&self) -> QueueCounters;
}

/// How a file is opened. Symbolic links are not followed; what is not a regular file is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// For reading; it must exist.
    Read,
    /// For reading and writing; it must exist.
    Write,
    /// For reading and writing; made if it is missing.
    Create,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The last component; a name that is not UTF-8 is not ours and is left out by the listing.
    pub name: String,
    /// What it names.
    pub kind: EntryKind,
}

/// What a name names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A link, socket, device or the like.
    Other,
}

/// See [`Disk::incarnation`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Incarnation {
    /// The kernel's boot id.
    pub boot: String,
    /// The device number of the file system.
    pub device: u64,
    /// The id of the mount.
    pub mount: u64,
}

/// See [`DiskFile::identity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FileIdentity {
    /// Milliseconds since 1970.
    pub modified_ms: i64,
    /// The inode's number.
    pub inode: u64,
}

/// A lock on a directory, until it is dropped.
pub trait DirectoryLock: Send + Sync + Debug {
    /// What the lock file says: the holder's process id and incarnation; empty when Kafka or nobody wrote it.
    fn read(&self) -> io::Result<Vec<u8>>;
    /// Replaces what the lock file says. Not synced: a lost text reads as a machine crash.
    fn write(&self, text: &[u8]) -> io::Result<()>;
}

/// Why a directory could not be locked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process has it.
    #[error("{path} is in use by {}", match .process { Some(id) => format!("process {id}"), None => "another process".to_owned() })]
    Held {
        /// The directory.
        path: PathBuf,
        /// Who has it, where the kernel tells.
        process: Option<u32>,
    },
    /// The lock file could not be made or locked.
    #[error("{path} cannot be locked: {source}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A read-only map of a file's first bytes, or a copy of them where the disk has no maps.
#[derive(Debug)]
pub enum Map {
    /// Pages of the file.
    Mapped(memmap2::Mmap),
    /// A copy in memory.
    Copied(Box<[u8]>),
}

impl std::ops::Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(pages) => pages,
            Self::Copied(bytes) => bytes,
        }
    }
}

/// One thing for a [`Queue`] to do.
#[derive(Debug)]
pub struct Operation {
    /// Comes back with the completion.
    pub token: u64,
    /// The file; kept open until the completion.
    pub file: File,
    /// What to do.
    pub kind: OperationKind,
}

/// What to do with a file.
#[derive(Debug)]
pub enum OperationKind {
    /// Write the buffers one behind the other, all of them: a short write is carried on by the queue.
    Write {
        /// Where the first byte goes.
        position: u64,
        /// The bytes; shared, not copied.
        buffers: Vec<Bytes>,
    },
    /// As [`DiskFile::sync`]. The caller submits it only when the writes it has to cover have completed.
    Sync {
        /// Whether the submitting thread may be held up by it.
        patience: Patience,
    },
    /// Read exactly `length` bytes, fewer only at the end of the file.
    Read {
        /// From where.
        position: u64,
        /// How many bytes.
        length: usize,
    },
}

/// Whether the thread that submits can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// It wants just this and may do it itself.
    MayBlock,
    /// It is an event loop: the sync goes to the ring, or to a sync thread.
    MustNotBlock,
}

/// Whether to block in [`Queue::reap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Take what is there.
    Not,
    /// Block until something completes.
    ForOne,
}

/// The end of an operation.
#[derive(Debug)]
pub struct Completion {
    /// As submitted.
    pub token: u64,
    /// What came of it.
    pub result: io::Result<Done>,
}

/// What a completed operation gives.
#[derive(Debug)]
pub enum Done {
    /// Everything was written.
    Written {
        /// The buffers, as they came.
        buffers: Vec<Bytes>,
    },
    /// Everything that had completed before the submission is certain.
    Synced,
    /// The bytes.
    Read(Bytes),
}

/// Operations counted by the way they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueCounters {
    /// Writes done by the submitting thread.
    pub writes_inline: u64,
    /// Writes that went through the ring.
    pub writes_ring: u64,
    /// Syncs done by the submitting thread.
    pub syncs_inline: u64,
    /// Syncs that went through the ring.
    pub syncs_ring: u64,
    /// Syncs done by a sync thread.
    pub syncs_thread: u64,
    /// Reads done by the submitting thread.
    pub reads_inline: u64,
    /// Reads that went through the ring.
    pub reads_ring: u64,
}
