//! Answers the kernel's requests out of the simulated disk. Nothing is decided here.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use highwater_engine::disk::{Disk, EntryKind, Open};

use super::Sync;
use super::tree::{Node, Tree, lock};

/// The kernel asks again each time: nothing is remembered beside the pages of open files.
const TTL: Duration = Duration::ZERO;
const BLOCK: u32 = 4096;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct System {
    tree: Arc<Mutex<Tree>>,
    sync: Sync,
}

impl System {
    pub(super) const fn new(tree: Arc<Mutex<Tree>>, sync: Sync) -> Self {
        Self { tree, sync }
    }

    fn attributes(tree: &Tree, number: u64) -> io::Result<FileAttr> {
        let (size, modified_ms, kind) = match tree.node(number)? {
            Node::File(file) => (file.size()?, file.identity()?.modified_ms, FileType::RegularFile),
            Node::Directory(_) => (0, 0, FileType::Directory),
        };
        let time = UNIX_EPOCH + Duration::from_millis(modified_ms.unsigned_abs());
        Ok(FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm: if kind == FileType::Directory { 0o700 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK,
            flags: 0,
        })
    }
}

fn errno(error: &io::Error) -> Errno {
    let kinds = [
        (io::ErrorKind::NotFound, libc::ENOENT),
        (io::ErrorKind::AlreadyExists, libc::EEXIST),
        (io::ErrorKind::NotADirectory, libc::ENOTDIR),
        (io::ErrorKind::IsADirectory, libc::EISDIR),
        (io::ErrorKind::DirectoryNotEmpty, libc::ENOTEMPTY),
        (io::ErrorKind::StorageFull, libc::ENOSPC),
        (io::ErrorKind::InvalidInput, libc::EINVAL),
    ];
    let known = kinds.iter().find(|(kind, _)| *kind == error.kind()).map(|(_, number)| *number);
    Errno::from_i32(error.raw_os_error().or(known).unwrap_or(libc::EIO))
}

impl Filesystem for System {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut tree = lock(&self.tree);
        let found =
            tree.look_up(parent.0, Path::new(name)).and_then(|number| Self::attributes(&tree, number));
        match found {
            Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn forget(&self, _: &Request, number: INodeNo, _: u64) {
        lock(&self.tree).forget(number.0);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match Self::attributes(&lock(&self.tree), number.0) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut tree = lock(&self.tree);
        tree.tick();
        if size.is_some() {
            tree.requests.cuts += 1;
        }
        let set = match size {
            Some(size) => tree.file(number.0).and_then(|file| file.set_size(size)),
            None => Ok(()),
        };
        match set.and_then(|()| Self::attributes(&tree, number.0)) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let mut tree = lock(&self.tree);
        let made = tree.path(parent.0, Path::new(name)).and_then(|path| {
            if tree.look_up(parent.0, Path::new(name)).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            tree.disk.create_directory(&path)?;
            let number = tree.number_of_directory(path);
            Self::attributes(&tree, number)
        });
        match made {
            Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut tree = lock(&self.tree);
        tree.requests.removals += 1;
        let path = tree.path(parent.0, Path::new(name));
        answer(reply, path.and_then(|path| tree.disk.remove_file(&path)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut tree = lock(&self.tree);
        tree.requests.removals += 1;
        let path = tree.path(parent.0, Path::new(name));
        answer(reply, path.and_then(|path| tree.remove_directory(&path)));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut tree = lock(&self.tree);
        tree.requests.renames += 1;
        let from = tree.path(parent.0, Path::new(name));
        let to = tree.path(new_parent.0, Path::new(new_name));
        answer(reply, from.and_then(|from| to.and_then(|to| tree.rename(&from, &to))));
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let mut tree = lock(&self.tree);
        tree.tick();
        let path = tree.path(parent.0, Path::new(name));
        let made = path
            .and_then(|path| tree.open(&path, Open::Create))
            .and_then(|number| Self::attributes(&tree, number));
        match made {
            Ok(facts) => reply.created(&TTL, &facts, Generation(0), FileHandle(0), FopenFlags::empty()),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut bytes = BytesMut::zeroed(usize::try_from(size).unwrap_or(0));
        let file = lock(&self.tree).file(number.0);
        match file.and_then(|file| file.read_at(&mut bytes, offset)) {
            Ok(count) => reply.data(&bytes[..count]),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut tree = lock(&self.tree);
        tree.tick();
        tree.requests.writes += 1;
        match tree.file(number.0).and_then(|file| file.write_all_at(bytes, offset)) {
            Ok(()) => reply.written(u32::try_from(bytes.len()).unwrap_or(0)),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Closing a file promises nothing.
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let mut tree = lock(&self.tree);
        tree.requests.syncs += 1;
        match self.sync {
            Sync::Honest => answer(reply, tree.file(number.0).and_then(|file| file.sync())),
            Sync::Lying => reply.ok(),
        }
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let mut tree = lock(&self.tree);
        tree.requests.directory_syncs += 1;
        let path = tree.directory(number.0);
        answer(reply, path.and_then(|path| tree.disk.sync_directory(&path)));
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut tree = lock(&self.tree);
        let listed = tree.directory(number.0).and_then(|path| Ok((tree.disk.list(&path)?, path)));
        let (entries, path) = match listed {
            Ok(listed) => listed,
            Err(error) => return reply.error(errno(&error)),
        };
        for (place, entry) in (1..).zip(&entries).filter(|(place, _)| *place > offset) {
            let (number, kind) = match entry.kind {
                EntryKind::Directory => {
                    (tree.number_of_directory(path.join(&entry.name)), FileType::Directory)
                }
                // A listing opens nothing: the kernel looks the name up before it uses a file.
                EntryKind::File | EntryKind::Other => (u64::MAX, FileType::RegularFile),
            };
            if reply.add(INodeNo(number), place, kind, &entry.name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let free = lock(&self.tree).disk.free_bytes(Path::new("/")).unwrap_or(0) / u64::from(BLOCK);
        reply.statfs(free, free, free, 1 << 20, 1 << 20, BLOCK, 255, BLOCK);
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode != libc::FALLOC_FL_KEEP_SIZE {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let mut tree = lock(&self.tree);
        tree.requests.reservations += 1;
        answer(reply, tree.file(number.0).and_then(|file| file.reserve(offset + length)));
    }
}

fn answer(reply: ReplyEmpty, done: io::Result<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}
