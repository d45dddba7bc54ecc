//! The calls of [`Disk`] on a simulated disk, and the guard of a locked directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file::SimulatedFile;
use super::names::NodeId;
use super::queue::SimulatedQueue;
use super::state::{CallKind, Fault, State, Verdict};
use super::{Shared, SimulatedDisk};
use crate::disk::{
    DirectoryLock, Disk, Entry, EntryKind, File, Incarnation, LOCK_FILE, LockError, Open, Queue,
};

/// What an endless disk says is free.
const ENDLESS_FREE_BYTES: u64 = 1 << 40;

impl SimulatedDisk {
    fn call<T>(
        &self,
        kind: CallKind,
        path: &Path,
        apply: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        self.shared.state().call(self.life, kind, path, apply)
    }

    fn open_node(&self, state: &mut State, path: &Path, how: Open) -> io::Result<NodeId> {
        let (directory, name) = state.tree.find_parent(path)?;
        if name == LOCK_FILE && state.locked.contains(&directory) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        match state.tree.child(directory, &name)? {
            Some(node) => {
                state.call(self.life, CallKind::Open, path, |state| state.tree.file(node).map(drop))?;
                Ok(node)
            }
            None if how == Open::Create => state.call(self.life, CallKind::CreateFile, path, |state| {
                let time_ms = state.time_ms;
                Ok(state.tree.create_file(directory, &name, time_ms))
            }),
            None => state.call(self.life, CallKind::Open, path, |_| Err(io::ErrorKind::NotFound.into())),
        }
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<File> {
        let mut state = self.shared.state();
        state.check_alive(self.life)?;
        if state.open_files_max.is_some_and(|max| state.open_files() >= max) {
            return Err(state.fail(Fault::NoDescriptors));
        }
        let node = self.open_node(&mut state, path, how)?;
        state.forget_what_was_closed_unsynced(node, path);
        Ok(Arc::new(SimulatedFile {
            shared: self.shared.clone(),
            life: self.life,
            node,
            path: path.to_owned(),
            writable: how != Open::Read,
            _open: state.open_token(node),
        }))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        self.call(CallKind::List, directory, |state| {
            let names = state.tree.list(state.tree.find(directory)?)?;
            let entry = |(name, is_directory)| {
                let kind = if is_directory { EntryKind::Directory } else { EntryKind::File };
                Entry { name, kind }
            };
            Ok(names.into_iter().map(entry).collect())
        })
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.call(CallKind::CreateDirectory, directory, |state| state.tree.create_directories(directory))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(CallKind::Rename, from, |state| state.tree.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.call(CallKind::RemoveFile, path, |state| state.tree.remove_file(path))
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.shared.state();
        match state.begin(self.life, CallKind::RemoveDirectory, path)? {
            Verdict::Go => state.tree.remove_directory(path, usize::MAX),
            Verdict::Fail(fault) => {
                let steps = state.rng.usize(..4);
                state.tree.remove_directory(path, steps)?;
                Err(state.fail(fault))
            }
            Verdict::Crash => {
                let steps = state.part_of(3);
                drop(state.tree.remove_directory(path, steps));
                Err(state.go_down())
            }
        }
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.shared.state();
        let verdict = state.begin(self.life, CallKind::SyncDirectory, directory)?;
        state.sync_directory_with(verdict, directory)
    }

    fn lock(&self, directory: &Path) -> Result<Box<dyn DirectoryLock>, LockError> {
        let failed = |source| LockError::Io { path: directory.to_owned(), source };
        let path = directory.join(LOCK_FILE);
        let mut state = self.shared.state();
        let taken = state.call(self.life, CallKind::Lock, &path, |state| {
            let (node, _) = state.tree.find_parent(&path)?;
            let is_new = state.locked.insert(node);
            Ok(is_new.then_some(node))
        });
        let Some(node) = taken.map_err(failed)? else {
            let process = u32::try_from(self.life).ok().and_then(|life| life.checked_add(1));
            return Err(LockError::Held { path: directory.to_owned(), process });
        };
        match state.lock_file(node) {
            Ok(file) => {
                let shared = self.shared.clone();
                Ok(Box::new(SimulatedLock { shared, life: self.life, directory: node, file, path }))
            }
            Err(error) => {
                state.locked.remove(&node);
                Err(failed(error))
            }
        }
    }

    fn incarnation(&self, directory: &Path) -> Option<Incarnation> {
        let state = self.shared.state();
        let is_known = !state.incarnation_hidden && state.tree.find(directory).is_ok();
        is_known.then(|| Incarnation { boot: state.boot(), device: 1, mount: 1 })
    }

    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        self.call(CallKind::Look, directory, |state| {
            state.tree.find(directory)?;
            Ok(state.free().unwrap_or(ENDLESS_FREE_BYTES))
        })
    }

    fn open_files_max(&self) -> Option<usize> {
        self.shared.state().open_files_max
    }

    fn queue(&self) -> io::Result<Box<dyn Queue>> {
        self.shared.state().check_alive(self.life)?;
        Ok(Box::new(SimulatedQueue::new(self.shared.clone(), self.life)))
    }
}

impl State {
    /// The node of a directory's lock file, made where it is missing.
    fn lock_file(&mut self, directory: NodeId) -> io::Result<NodeId> {
        if let Some(node) = self.tree.child(directory, LOCK_FILE)? {
            self.tree.file(node)?;
            return Ok(node);
        }
        Ok(self.tree.create_file(directory, LOCK_FILE, self.time_ms))
    }
}

#[derive(Debug)]
struct SimulatedLock {
    shared: Shared,
    life: u64,
    directory: NodeId,
    file: NodeId,
    path: PathBuf,
}

impl DirectoryLock for SimulatedLock {
    fn read(&self) -> io::Result<Vec<u8>> {
        self.shared.state().call(self.life, CallKind::Look, &self.path, |state| {
            let body = state.tree.file(self.file)?;
            let mut text = vec![0; super::body::usize_of(body.size())];
            body.read(&mut text, 0);
            Ok(text)
        })
    }

    fn write(&self, text: &[u8]) -> io::Result<()> {
        self.shared.state().call(self.life, CallKind::WriteLock, &self.path, |state| {
            state.set_size(self.file, 0)?;
            state.write(self.file, 0, text)
        })
    }
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if state.check_alive(self.life).is_ok() {
            state.locked.remove(&self.directory);
        }
    }
}
