//! The system calls that the standard library does not offer, each behind a safe function that loops where it has to be looped.
//!
//! Nothing here knows what a log is, and nothing is retried but an interrupted call.

use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};

use bytes::BytesMut;

/// The most buffers that one vectored call takes (`IOV_MAX` of Linux).
pub(super) const BUFFERS_MAX: usize = 1024;

fn checked(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn checked_int(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Repeats a call while a signal interrupts it.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// A position or length as the kernel wants it; one that does not fit is the caller's mistake and is refused.
pub(super) fn offset(bytes: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// `pwritev`, once. It may write less than was asked.
pub(super) fn write_vectored_at(file: RawFd, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
    let position = offset(position)?;
    let count = libc::c_int::try_from(buffers.len().min(BUFFERS_MAX)).map_err(io::Error::other)?;
    uninterrupted(|| {
        // SAFETY: `IoSlice` is guaranteed to have the layout of `iovec`; the slices are borrowed for the length of the call.
        checked(unsafe { libc::pwritev(file, buffers.as_ptr().cast::<libc::iovec>(), count, position) })
    })
}

/// Writes all buffers one behind the other.
pub(super) fn write_all_vectored_at(
    file: RawFd,
    mut buffers: &mut [IoSlice<'_>],
    mut position: u64,
) -> io::Result<()> {
    IoSlice::advance_slices(&mut buffers, 0);
    while !buffers.is_empty() {
        let written = write_vectored_at(file, buffers, position)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut buffers, written);
        position += written as u64;
    }
    Ok(())
}

/// `preadv2(RWF_NOWAIT)`, once, to the end of `out`: `None` if the first byte is not in memory or the file system cannot tell.
#[cfg(target_os = "linux")]
pub(super) fn read_cached_at(
    file: RawFd,
    out: &mut BytesMut,
    length: usize,
    position: u64,
) -> io::Result<Option<usize>> {
    let position = offset(position)?;
    out.reserve(length);
    let room = out.spare_capacity_mut();
    let part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len().min(length) };
    let read = uninterrupted(|| {
        // SAFETY: `part` describes the beginning of `room`, which is borrowed mutably for the length of the call and is only written.
        checked(unsafe { libc::preadv2(file, &raw const part, 1, position, libc::RWF_NOWAIT) })
    });
    match read {
        Ok(count) => {
            // SAFETY: the kernel has written the first `count` bytes of the room behind the length, and gives no more than it was asked.
            unsafe { out.set_len(out.len() + count) };
            Ok(Some(count))
        }
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => Ok(None),
            _ => Err(error),
        },
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn read_cached_at(_: RawFd, _: &mut BytesMut, _: usize, _: u64) -> io::Result<Option<usize>> {
    Ok(None)
}

/// `fallocate(KEEP_SIZE)`: room from `from`, `length` bytes of it.
#[cfg(target_os = "linux")]
pub(super) fn reserve(file: RawFd, from: u64, length: u64) -> io::Result<()> {
    let (from, length) = (offset(from)?, offset(length)?);
    uninterrupted(|| {
        // SAFETY: no memory is passed.
        checked_int(unsafe { libc::fallocate(file, libc::FALLOC_FL_KEEP_SIZE, from, length) })
    })
    .map(drop)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn reserve(_: RawFd, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Takes `O_NONBLOCK` away, which was set only so that opening a pipe by mistake does not hang.
pub(super) fn set_blocking(file: &fs::File) -> io::Result<()> {
    // SAFETY: no memory is passed.
    let flags = checked_int(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: no memory is passed.
    checked_int(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) }).map(drop)
}

/// What [`lock_whole`] found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RecordLock {
    /// This process has it now.
    Taken,
    /// Another process has it.
    Held,
}

/// A write lock on the whole of a file. The classic record lock, because that is the one that Java's `FileChannel.lock` takes.
pub(super) fn lock_whole(file: &fs::File) -> io::Result<RecordLock> {
    let wanted = whole_file_write_lock();
    let taken = uninterrupted(|| {
        // SAFETY: `wanted` is a valid `flock` that outlives the call.
        checked_int(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const wanted) })
    });
    match taken {
        Ok(_) => Ok(RecordLock::Taken),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(RecordLock::Held)
        }
        Err(error) => Err(error),
    }
}

/// What [`lock_holder`] found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// The file is free (by now).
    Nobody,
    /// This process has it.
    Process(u32),
    /// A process in another pid namespace, or on another machine, has it.
    Unknown,
}

/// Who holds a lock on the file.
pub(super) fn lock_holder(file: &fs::File) -> io::Result<Holder> {
    let mut found = whole_file_write_lock();
    // SAFETY: `found` is a valid `flock` that outlives the call, and is written by it.
    checked_int(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut found) })?;
    // Compared as wide numbers, because the two have different types on Linux and the same on other systems.
    if i64::from(found.l_type) == i64::from(libc::F_UNLCK) {
        return Ok(Holder::Nobody);
    }
    Ok(match u32::try_from(found.l_pid) {
        Ok(process) if process != 0 => Holder::Process(process),
        _ => Holder::Unknown,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "small constants, of different widths on different systems"
)]
fn whole_file_write_lock() -> libc::flock {
    // SAFETY: `flock` is plain numbers, for which zero is valid: from the start to the end, however long the file grows.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

/// Bytes that an unprivileged process can still allocate on the file system of an open file.
pub(super) fn free_bytes(file: &fs::File) -> io::Result<u64> {
    // SAFETY: `statvfs` is plain numbers, for which zero is valid.
    let mut facts: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `facts` is valid and is written by the call.
    uninterrupted(|| checked_int(unsafe { libc::fstatvfs(file.as_raw_fd(), &raw mut facts) }))?;
    #[cfg_attr(target_os = "linux", expect(clippy::useless_conversion, reason = "smaller types elsewhere"))]
    Ok(u64::from(facts.f_bavail).saturating_mul(u64::from(facts.f_frsize)))
}

/// The file system's magic number.
#[cfg(target_os = "linux")]
pub(super) fn file_system_magic(file: &fs::File) -> io::Result<u64> {
    // SAFETY: `statfs` is plain numbers, for which zero is valid.
    let mut facts: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `facts` is valid and is written by the call.
    uninterrupted(|| checked_int(unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut facts) }))?;
    // Signed or not, 32 bits or 64, as the C library has it.
    u64::try_from(i128::from(facts.f_type) & 0xFFFF_FFFF).map_err(io::Error::other)
}

/// The id of the mount that an open file is on: the one that is never used again where the kernel has it (6.8), otherwise the
/// plain one.
#[cfg(target_os = "linux")]
pub(super) fn mount_id(file: &fs::File) -> io::Result<Option<u64>> {
    for wanted in [libc::STATX_MNT_ID_UNIQUE, libc::STATX_MNT_ID] {
        // SAFETY: `statx` is plain numbers, for which zero is valid.
        let mut facts: libc::statx = unsafe { std::mem::zeroed() };
        let descriptor = file.as_raw_fd();
        let name = c"".as_ptr();
        // SAFETY: the name is a C string, `facts` is valid and is written by the call.
        checked_int(unsafe { libc::statx(descriptor, name, libc::AT_EMPTY_PATH, wanted, &raw mut facts) })?;
        if facts.stx_mask & wanted != 0 {
            return Ok(Some(facts.stx_mnt_id));
        }
    }
    Ok(None)
}

/// How many descriptors this process may have open: the soft limit.
pub(super) fn descriptor_limit() -> io::Result<u64> {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limits` is valid and is written by the call.
    checked_int(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits) })?;
    #[cfg_attr(target_os = "linux", expect(clippy::useless_conversion, reason = "a signed type on FreeBSD"))]
    u64::try_from(limits.rlim_cur).map_err(io::Error::other)
}

/// Sets how many descriptors this process may have open (the soft limit) to the most it may allow itself (the hard one).
pub(super) fn raise_descriptor_limit() -> io::Result<u64> {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limits` is valid and is written by the call.
    checked_int(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits) })?;
    if limits.rlim_cur < limits.rlim_max {
        limits.rlim_cur = limits.rlim_max;
        // SAFETY: `limits` is valid and outlives the call.
        checked_int(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits) })?;
    }
    #[cfg_attr(target_os = "linux", expect(clippy::useless_conversion, reason = "a signed type on FreeBSD"))]
    u64::try_from(limits.rlim_cur).map_err(io::Error::other)
}

/// Maps the first `length` bytes for reading. The caller has checked that the file has them.
pub(super) fn map(file: &fs::File, length: usize) -> io::Result<memmap2::Mmap> {
    // SAFETY: the data directory is locked for this process, and whoever maps a file never shrinks or rewrites it afterwards
    // (contract of `DiskFile::map`), so that the bytes do not change or vanish under the map.
    unsafe { memmap2::MmapOptions::new().len(length).map(file) }
}

/// A non-blocking eventfd.
#[cfg(target_os = "linux")]
pub(super) fn event_descriptor() -> io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: no memory is passed.
    let descriptor = checked_int(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
    // SAFETY: the descriptor is new and nobody else has it.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(descriptor) })
}

/// Makes a descriptor non-blocking.
#[cfg(not(target_os = "linux"))]
pub(super) fn set_nonblocking(file: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: no memory is passed.
    let flags = checked_int(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: no memory is passed.
    checked_int(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) }).map(drop)
}

/// Whether a descriptor becomes readable within so many milliseconds.
#[cfg(test)]
pub(super) fn is_readable(descriptor: &impl AsRawFd, timeout_ms: i32) -> io::Result<bool> {
    let mut asked = libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: `asked` is one valid `pollfd` that outlives the call.
    Ok(checked_int(unsafe { libc::poll(&raw mut asked, 1, timeout_ms) })? > 0)
}
