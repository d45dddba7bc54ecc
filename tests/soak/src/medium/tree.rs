//! The numbers by which the kernel knows files and directories, and their paths on the simulated disk.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use highwater_engine::disk::{Disk, EntryKind, File, Open, SimulatedDisk};

/// The number of the root.
pub(super) const ROOT: u64 = 1;

/// How many requests of some kinds came.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Requests {
    pub(super) writes: u64,
    pub(super) syncs: u64,
    pub(super) directory_syncs: u64,
    pub(super) cuts: u64,
    pub(super) renames: u64,
    pub(super) removals: u64,
    pub(super) reservations: u64,
}

/// What a number stands for.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// A file; it stays when its name is gone.
    File(File),
    /// A directory.
    Directory(PathBuf),
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) disk: SimulatedDisk,
    nodes: BTreeMap<u64, Node>,
    directories: BTreeMap<PathBuf, u64>,
    next_directory: u64,
    /// A clock that counts changes, so that files have times.
    time_ms: i64,
    pub(super) requests: Requests,
}

pub(super) fn lock(tree: &Mutex<Tree>) -> MutexGuard<'_, Tree> {
    tree.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_entry() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOENT)
}

impl Tree {
    pub(super) fn new(disk: SimulatedDisk, requests: Requests) -> Self {
        let root = PathBuf::from("/");
        Self {
            disk,
            nodes: BTreeMap::from([(ROOT, Node::Directory(root.clone()))]),
            directories: BTreeMap::from([(root, ROOT)]),
            next_directory: ROOT,
            time_ms: 0,
            requests,
        }
    }

    pub(super) fn node(&self, number: u64) -> io::Result<Node> {
        self.nodes.get(&number).cloned().ok_or_else(no_entry)
    }

    pub(super) fn file(&self, number: u64) -> io::Result<File> {
        match self.node(number)? {
            Node::File(file) => Ok(file),
            Node::Directory(_) => Err(io::Error::from_raw_os_error(libc::EISDIR)),
        }
    }

    pub(super) fn directory(&self, number: u64) -> io::Result<PathBuf> {
        match self.node(number)? {
            Node::Directory(path) => Ok(path),
            Node::File(_) => Err(io::Error::from_raw_os_error(libc::ENOTDIR)),
        }
    }

    pub(super) fn path(&self, parent: u64, name: &Path) -> io::Result<PathBuf> {
        Ok(self.directory(parent)?.join(name))
    }

    /// Time goes on.
    pub(super) fn tick(&mut self) {
        self.time_ms += 1;
        self.disk.set_time_ms(self.time_ms);
    }

    /// The number of what has this name.
    pub(super) fn look_up(&mut self, parent: u64, name: &Path) -> io::Result<u64> {
        let directory = self.directory(parent)?;
        let entries = self.disk.list(&directory)?;
        let entry = entries.iter().find(|entry| Path::new(&entry.name) == name).ok_or_else(no_entry)?;
        let path = directory.join(name);
        match entry.kind {
            EntryKind::Directory => Ok(self.number_of_directory(path)),
            EntryKind::File | EntryKind::Other => self.open(&path, Open::Write),
        }
    }

    /// The number of a file, which may be made.
    pub(super) fn open(&mut self, path: &Path, how: Open) -> io::Result<u64> {
        let file = self.disk.open(path, how)?;
        // Even; directories are odd.
        let number = (file.identity()?.inode + 1) * 2;
        self.nodes.entry(number).or_insert(Node::File(file));
        Ok(number)
    }

    pub(super) fn number_of_directory(&mut self, path: PathBuf) -> u64 {
        if let Some(number) = self.directories.get(&path) {
            return *number;
        }
        self.next_directory += 2;
        let number = self.next_directory;
        self.directories.insert(path.clone(), number);
        self.nodes.insert(number, Node::Directory(path));
        number
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)?;
        let moved: Vec<PathBuf> =
            self.directories.keys().filter(|path| path.starts_with(from)).cloned().collect();
        for old in moved {
            let (Some(number), Ok(rest)) = (self.directories.remove(&old), old.strip_prefix(from)) else {
                continue;
            };
            let new = if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) };
            self.directories.insert(new.clone(), number);
            self.nodes.insert(number, Node::Directory(new));
        }
        Ok(())
    }

    /// Removes a directory in which nothing is.
    pub(super) fn remove_directory(&mut self, path: &Path) -> io::Result<()> {
        if !self.disk.list(path)?.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::ENOTEMPTY));
        }
        self.disk.remove_directory(path)?;
        if let Some(number) = self.directories.remove(path) {
            self.nodes.remove(&number);
        }
        Ok(())
    }

    /// The kernel has forgotten it.
    pub(super) fn forget(&mut self, number: u64) {
        if number.is_multiple_of(2) {
            self.nodes.remove(&number);
        }
    }
}
