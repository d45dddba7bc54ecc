//! Taking a data directory for one process.
//!
//! The kernel's record lock on `.lock` excludes other processes, Kafka among them. It does not exclude within a process, and it is lost
//! when the process closes *any* descriptor of that file; so this module also keeps a table of the directories that this process
//! has, and asks it before `.lock` is opened at all.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::sys::{self, Holder, RecordLock};
use super::{DirectoryLock, LockError};

/// The name of the lock file; Kafka's.
pub const LOCK_FILE: &str = ".lock";

/// How often a lock is tried whose holder vanished, or whose file was exchanged, between two calls.
const TRIES_MAX: usize = 16;

type Directory = (u64, u64);

/// Device and inode of the directories that this process holds.
static HELD: Mutex<BTreeSet<Directory>> = Mutex::new(BTreeSet::new());

fn held() -> MutexGuard<'static, BTreeSet<Directory>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A directory that this process holds.
#[derive(Debug)]
struct PosixLock {
    directory: Directory,
    file: Option<fs::File>,
}

impl PosixLock {
    fn file(&self) -> io::Result<&fs::File> {
        self.file.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl DirectoryLock for PosixLock {
    fn read(&self) -> io::Result<Vec<u8>> {
        let file = self.file()?;
        let mut text = vec![0; usize::try_from(file.metadata()?.len().min(64 * 1024)).unwrap_or(0)];
        file.read_exact_at(&mut text, 0)?;
        Ok(text)
    }

    fn write(&self, text: &[u8]) -> io::Result<()> {
        let file = self.file()?;
        let before = usize::try_from(file.metadata()?.len()).unwrap_or_default();
        // In one call, blank to the end: a kill leaves the old text or the new one, and never none.
        let mut whole = text.to_vec();
        whole.resize(before.max(text.len()), b' ');
        file.write_all_at(&whole, 0)?;
        file.set_len(text.len() as u64)
    }
}

impl Drop for PosixLock {
    fn drop(&mut self) {
        let mut held = held();
        // Closing gives the record lock back; it happens before the entry goes, so that nobody here opens the file between.
        self.file = None;
        held.remove(&self.directory);
    }
}

/// See [`super::Disk::lock`].
pub(super) fn lock(directory: &Path) -> Result<Box<dyn DirectoryLock>, LockError> {
    let failed = |source| LockError::Io { path: directory.to_owned(), source };
    let facts = fs::metadata(directory).map_err(failed)?;
    if !facts.is_dir() {
        return Err(failed(io::ErrorKind::NotADirectory.into()));
    }
    let key = (facts.dev(), facts.ino());
    let mut held = held();
    if held.contains(&key) {
        return Err(LockError::Held { path: directory.to_owned(), process: Some(std::process::id()) });
    }
    let path = directory.join(LOCK_FILE);
    for _ in 0..TRIES_MAX {
        match try_lock(&path).map_err(failed)? {
            Attempt::Taken(file) => {
                held.insert(key);
                return Ok(Box::new(PosixLock { directory: key, file: Some(file) }));
            }
            Attempt::Held(process) => return Err(LockError::Held { path: directory.to_owned(), process }),
            Attempt::Again => {}
        }
    }
    Err(failed(io::Error::from(io::ErrorKind::ResourceBusy)))
}

enum Attempt {
    Taken(fs::File),
    Held(Option<u32>),
    Again,
}

fn try_lock(path: &PathBuf) -> io::Result<Attempt> {
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK)
        .open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    match sys::lock_whole(&file)? {
        RecordLock::Held => Ok(match sys::lock_holder(&file)? {
            Holder::Process(process) => Attempt::Held(Some(process)),
            Holder::Unknown => Attempt::Held(None),
            Holder::Nobody => Attempt::Again,
        }),
        // Kafka removes its lock file when it stops: a lock on a file without that name would exclude nobody.
        RecordLock::Taken => Ok(match fs::symlink_metadata(path) {
            Ok(named) if (named.dev(), named.ino()) == (facts.dev(), facts.ino()) => Attempt::Taken(file),
            _ => Attempt::Again,
        }),
    }
}

/// Refuses to open the lock file of a directory that this process holds, because closing it would give the lock away.
pub(super) fn check_not_our_lock(path: &Path) -> io::Result<()> {
    if path.file_name().is_none_or(|name| name != LOCK_FILE) {
        return Ok(());
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let facts = fs::metadata(directory)?;
    if held().contains(&(facts.dev(), facts.ino())) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the lock file is read through its guard",
        ));
    }
    Ok(())
}
