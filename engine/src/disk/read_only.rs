//! A door through which nothing can be changed: every call that would change a file, a name or a lock is refused, whatever is behind it.
//!
//! It is for looking at a directory that another process may be writing. Nothing is mapped here, because that process may cut what would
//! be mapped, and touching a page behind the end of a file kills. Files of one directory may be shown under the names that they are about to get.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::BytesMut;

use super::{
    DirectoryLock, Disk, DiskFile, Entry, EntryKind, File, FileIdentity, Incarnation, LockError, Map, Open,
    Queue,
};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct ReadOnlyDisk {
    behind: Arc<dyn Disk>,
    names: Names,
}

/// What is to be seen of a directory under another name, or not.
#[derive(Debug, Default)]
struct Names {
    directory: PathBuf,
    gone: BTreeSet<String>,
    /// By the name to be seen.
    renamed: BTreeMap<String, String>,
}

impl ReadOnlyDisk {
    pub(crate) fn new(behind: Arc<dyn Disk>) -> Self {
        Self { behind, names: Names::default() }
    }

    /// In `directory` the names in `gone` are not to be seen, and those in `renamed` stand for the files with the names beside them.
    pub(crate) fn with_names(
        behind: Arc<dyn Disk>,
        directory: &Path,
        gone: BTreeSet<String>,
        renamed: BTreeMap<String, String>,
    ) -> Self {
        Self { behind, names: Names { directory: directory.to_owned(), gone, renamed } }
    }
}

impl Names {
    fn are_of(&self, directory: Option<&Path>) -> bool {
        directory == Some(&self.directory) && !(self.gone.is_empty() && self.renamed.is_empty())
    }

    /// Where a file is that is seen as `path`.
    fn place<'a>(&self, path: &'a Path) -> io::Result<Cow<'a, Path>> {
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(name) = name.filter(|_| self.are_of(path.parent())) else { return Ok(path.into()) };
        match self.renamed.get(name) {
            Some(now) => Ok(path.with_file_name(now).into()),
            None if self.gone.contains(name) => Err(io::ErrorKind::NotFound.into()),
            None => Ok(path.into()),
        }
    }
}

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for ReadOnlyDisk {
    /// However it is asked for, the file is opened for reading, and must exist.
    fn open(&self, path: &Path, _: Open) -> io::Result<File> {
        let path = self.names.place(path)?;
        Ok(Arc::new(ReadOnlyFile { behind: self.behind.open(&path, Open::Read)? }))
    }

    fn open_files_max(&self) -> Option<usize> {
        self.behind.open_files_max()
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = self.behind.list(directory)?;
        if self.names.are_of(Some(directory)) {
            let Names { gone, renamed, .. } = &self.names;
            entries.retain(|entry| !gone.contains(&entry.name) && !renamed.contains_key(&entry.name));
            let renamed = renamed.keys().map(|name| Entry { name: name.clone(), kind: EntryKind::File });
            entries.extend(renamed);
            entries.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        }
        Ok(entries)
    }

    fn create_directory(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        refused()
    }

    fn remove_file(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn remove_directory(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn lock(&self, directory: &Path) -> Result<Box<dyn DirectoryLock>, LockError> {
        let source = io::ErrorKind::ReadOnlyFilesystem.into();
        Err(LockError::Io { path: directory.to_owned(), source })
    }

    fn incarnation(&self, directory: &Path) -> Option<Incarnation> {
        self.behind.incarnation(directory)
    }

    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        self.behind.free_bytes(directory)
    }

    fn queue(&self) -> io::Result<Box<dyn Queue>> {
        refused()
    }
}

#[derive(Debug)]
struct ReadOnlyFile {
    behind: File,
}

impl DiskFile for ReadOnlyFile {
    fn size(&self) -> io::Result<u64> {
        self.behind.size()
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.behind.read_at(buffer, position)
    }

    fn read_cached(&self, out: &mut BytesMut, length: usize, position: u64) -> io::Result<Option<usize>> {
        self.behind.read_cached(out, length, position)
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        refused()
    }

    fn sync(&self) -> io::Result<()> {
        refused()
    }

    fn set_size(&self, _: u64) -> io::Result<()> {
        refused()
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        refused()
    }

    /// A copy, of as much as there is at this moment.
    fn map(&self, length: usize) -> io::Result<Map> {
        let there = usize::try_from(self.size()?).unwrap_or(usize::MAX);
        if length > there {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut bytes = vec![0; length];
        let count = self.read_at(&mut bytes, 0)?;
        bytes.truncate(count);
        Ok(Map::Copied(bytes.into()))
    }

    fn descriptor(&self) -> Option<i32> {
        self.behind.descriptor()
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        self.behind.identity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SimulatedDisk;
    use crate::disk::simulated::{Call, CallKind};

    #[test]
    fn what_would_change_something_is_refused_and_never_gets_to_the_disk_behind() {
        let disk = SimulatedDisk::new(1);
        let (directory, file) = (Path::new("/d"), Path::new("/d/f"));
        disk.create_directory(directory).unwrap();
        disk.open(file, Open::Create).unwrap().write_all_at(b"abc", 0).unwrap();
        disk.take_calls();
        let door = ReadOnlyDisk::new(Arc::new(disk.clone()));
        let opened = door.open(file, Open::Write).unwrap();
        let refusals = [
            door.create_directory(Path::new("/e")),
            door.rename(file, Path::new("/d/g")),
            door.remove_file(file),
            door.remove_directory(directory),
            door.sync_directory(directory),
            door.lock(directory).map(drop).map_err(|_| io::ErrorKind::ReadOnlyFilesystem.into()),
            door.queue().map(drop),
            opened.write_all_at(b"x", 0),
            opened.sync(),
            opened.set_size(0),
            opened.reserve(100),
        ];
        for refusal in refusals {
            assert_eq!(refusal.unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
        }
        assert_eq!(door.open(Path::new("/d/new"), Open::Create).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(matches!(opened.map(3), Ok(Map::Copied(bytes)) if *bytes == *b"abc"));
        let calls = disk.take_calls();
        let changes = |call: &&Call| call.kind.is_change() || call.kind == CallKind::Lock;
        assert!(!calls.is_empty());
        assert_eq!(calls.iter().filter(changes).collect::<Vec<_>>(), Vec::<&Call>::new());
    }
}
