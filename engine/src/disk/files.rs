//! Files and directories by plain system calls, shared by the POSIX and the `io_uring` disk.
//!
//! Nothing is cached here and nothing is retried but an interrupted call.

use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use bytes::BytesMut;

use super::{DiskFile, Entry, EntryKind, File, FileIdentity, Map, Open, lock, sys, trouble};

/// An open file and nothing else.
#[derive(Debug)]
pub(super) struct PosixFile {
    file: fs::File,
}

impl DiskFile for PosixFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], position + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn read_cached(&self, out: &mut BytesMut, length: usize, position: u64) -> io::Result<Option<usize>> {
        let mut filled = 0;
        while filled < length {
            let from = position + filled as u64;
            match sys::read_cached_at(self.file.as_raw_fd(), out, length - filled, from)? {
                None => return Ok(None),
                // Some kernels (5.9, 5.10) answer 0 where they mean "not in memory".
                Some(0) if from < self.size()? => return Ok(None),
                Some(0) => break,
                Some(count) => filled += count,
            }
        }
        Ok(Some(filled))
    }

    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        sys::write_all_vectored_at(self.file.as_raw_fd(), &mut [IoSlice::new(bytes)], position)
    }

    fn sync(&self) -> io::Result<()> {
        // `fdatasync`; on Apple's systems the standard library makes it F_FULLFSYNC.
        self.file.sync_data().map_err(trouble::of_sync)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size)
    }

    fn reserve(&self, end: u64) -> io::Result<()> {
        let size = self.size()?;
        if end <= size { Ok(()) } else { sys::reserve(self.file.as_raw_fd(), size, end - size) }
    }

    fn map(&self, length: usize) -> io::Result<Map> {
        if length as u64 > self.size()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if length == 0 {
            return Ok(Map::Copied(Box::default()));
        }
        Ok(Map::Mapped(sys::map(&self.file, length)?))
    }

    fn descriptor(&self) -> Option<i32> {
        Some(self.file.as_raw_fd())
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        let facts = self.file.metadata()?;
        let modified_ms = facts.mtime().saturating_mul(1000).saturating_add(facts.mtime_nsec() / 1_000_000);
        Ok(FileIdentity { modified_ms, inode: facts.ino() })
    }
}

/// See [`super::Disk::open`].
pub(super) fn open(path: &Path, how: Open) -> io::Result<File> {
    lock::check_not_our_lock(path)?;
    let file = fs::OpenOptions::new()
        .read(true)
        .write(how != Open::Read)
        .create(how == Open::Create)
        .truncate(false)
        .mode(0o600)
        // Without O_NONBLOCK opening a pipe would hang before it can be refused.
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    // For `io_uring` an operation on a non-blocking file is one that must not wait for the device.
    sys::set_blocking(&file)?;
    Ok(Arc::new(PosixFile { file }))
}

/// See [`super::Disk::list`].
pub(super) fn list(directory: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let kind = match entry.file_type() {
            Ok(kind) if kind.is_file() => EntryKind::File,
            Ok(kind) if kind.is_dir() => EntryKind::Directory,
            Ok(_) => EntryKind::Other,
            // It went away while we were looking.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        entries.push(Entry { name, kind });
    }
    entries.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(entries)
}

/// See [`super::Disk::create_directory`].
pub(super) fn create_directory(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// See [`super::Disk::sync_directory`].
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    let directory = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_CLOEXEC)
        .open(directory)?;
    directory.sync_all().map_err(trouble::of_sync)
}

/// See [`super::Disk::free_bytes`].
pub(super) fn free_bytes(directory: &Path) -> io::Result<u64> {
    sys::free_bytes(&fs::File::open(directory)?)
}
