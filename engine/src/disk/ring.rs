//! One `io_uring` and the operations in it: each in a slot that owns its file and its buffers until the kernel has answered.
//!
//! Never more operations are under way than the completion queue holds, so that it cannot overflow; the others wait in a backlog. What the
//! kernel leaves unfinished (a short write, an operation cancelled because the thread that submitted it ended) is submitted again.

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{OwnedFd, RawFd};

use bytes::{Bytes, BytesMut};
use io_uring::{IoUring, opcode, squeue, types};

use super::choose::RingRefusal;
use super::wake::Wake;
use super::{Completion, Done, File, Operation, OperationKind, Wait, sys, trouble};

/// How often an operation that the kernel did not do for reasons of its own is handed to it, before the caller does it.
const ATTEMPTS_MAX: u8 = 8;

/// The most bytes that one read asks for.
const READ_BYTES_MAX: usize = 1 << 30;

/// An operation on its way.
#[derive(Debug)]
struct Job {
    token: u64,
    file: File,
    descriptor: RawFd,
    work: Work,
    attempts: u8,
}

#[derive(Debug)]
enum Work {
    Write { position: u64, buffers: Vec<Bytes>, length: usize, written: usize, vectors: Vectors },
    Sync,
    Read { position: u64, buffer: BytesMut, filled: usize },
}

/// What the kernel is given to read from; points into the buffers of the same job.
#[derive(Debug, Default)]
struct Vectors(Vec<libc::iovec>);

// SAFETY: the pointers are only followed by the kernel, and what they point to is shared immutable memory owned by the same job.
unsafe impl Send for Vectors {}

/// See the module's documentation.
pub(super) struct Ring {
    /// Dropped by hand: never while the kernel may still use the slots.
    queues: ManuallyDrop<IoUring>,
    slots: ManuallyDrop<Vec<Option<Job>>>,
    free: Vec<usize>,
    /// Empty, of jobs that are done.
    spare_vectors: Vec<Vectors>,
    /// Slots that are not yet in the submission queue.
    backlog: VecDeque<usize>,
    /// Slots that are in the submission queue or with the kernel.
    under_way: usize,
    under_way_max: usize,
    wake: Wake,
    was_used: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Ring");
        shown
            .field("under_way", &self.under_way)
            .field("backlog", &self.backlog.len())
            .finish_non_exhaustive()
    }
}

impl Ring {
    /// Asks the kernel for a ring with so many entries for submissions.
    pub(super) fn new(entries: u32) -> Result<Self, RingRefusal> {
        let ring: IoUring =
            IoUring::builder().setup_clamp().dontfork().build(entries).map_err(RingRefusal::from_error)?;
        if !ring.params().is_feature_nodrop() || !ring.params().is_feature_submit_stable() {
            return Err(RingRefusal::TooOld);
        }
        let wake = Wake::new().map_err(RingRefusal::from_error)?;
        ring.submitter().register_eventfd(wake.raw_descriptor()).map_err(RingRefusal::from_error)?;
        let under_way_max = ring.params().cq_entries() as usize;
        Ok(Self {
            queues: ManuallyDrop::new(ring),
            slots: ManuallyDrop::new(Vec::new()),
            free: Vec::new(),
            spare_vectors: Vec::new(),
            backlog: VecDeque::new(),
            under_way: 0,
            under_way_max,
            wake,
            was_used: false,
        })
    }

    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.wake.descriptor()
    }

    /// Operations taken in and not given back.
    pub(super) fn in_flight(&self) -> usize {
        self.under_way + self.backlog.len()
    }

    /// Takes an operation in; it is on its way after the next [`Ring::submit`]. Gives it back if a ring cannot do it.
    pub(super) fn push(&mut self, operation: Operation) -> Result<(), Operation> {
        let Some(descriptor) = operation.file.descriptor() else { return Err(operation) };
        let fits = match &operation.kind {
            OperationKind::Write { position, buffers } => {
                sys::offset(*position).is_ok() && buffers.iter().any(|buffer| !buffer.is_empty())
            }
            OperationKind::Read { position, length } => sys::offset(*position).is_ok() && *length > 0,
            OperationKind::Sync { .. } => true,
        };
        if !fits {
            return Err(operation);
        }
        let Operation { token, file, kind } = operation;
        let work = match kind {
            OperationKind::Write { position, buffers } => {
                let length = buffers.iter().map(Bytes::len).sum();
                let vectors = self.spare_vectors.pop().unwrap_or_default();
                Work::Write { position, buffers, length, written: 0, vectors }
            }
            OperationKind::Sync { .. } => Work::Sync,
            OperationKind::Read { position, length } => {
                Work::Read { position, buffer: BytesMut::zeroed(length), filled: 0 }
            }
        };
        let job = Some(Job { token, file, descriptor, work, attempts: 0 });
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(job);
        } else {
            self.slots[slot] = job;
        }
        self.backlog.push_back(slot);
        self.was_used = true;
        Ok(())
    }

    /// Hands over what there is room for, without waiting.
    pub(super) fn submit(&mut self) {
        while self.fill() {
            if !self.enter(0) {
                break;
            }
        }
        if !self.enter(0) {
            // The kernel is short of something. Whoever watches the descriptor comes back and tries again.
            self.wake.signal();
        }
    }

    /// Moves the backlog into the submission queue. `true` if that is full before the backlog is empty.
    fn fill(&mut self) -> bool {
        while self.under_way < self.under_way_max {
            let Some(slot) = self.backlog.pop_front() else { return false };
            let Some(job) = &mut self.slots[slot] else { continue };
            let entry = entry(job).user_data(slot as u64);
            // SAFETY: the file and all memory that the entry points to belong to the job, which stays in its slot and is not
            // touched until its completion has been taken (`harvest`), or for ever if that cannot be waited for (`drop`).
            if unsafe { self.queues.submission().push(&entry) }.is_err() {
                self.backlog.push_front(slot);
                return true;
            }
            self.under_way += 1;
        }
        false
    }

    /// Tells the kernel of new entries and waits for so many completions. `false` if it cannot take all entries now.
    fn enter(&mut self, wanted: usize) -> bool {
        loop {
            if wanted == 0 && self.queues.submission().is_empty() {
                return true;
            }
            match self.queues.submit_and_wait(wanted) {
                Ok(_) if self.queues.submission().is_empty() => return true,
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM) => return false,
                    _ => panic!("io_uring_enter on a ring of our own: {error}"),
                },
            }
        }
    }

    /// Takes what the kernel has answered. With [`Wait::ForOne`] it blocks until an operation is complete, unless none is in flight.
    pub(super) fn reap(&mut self, wait: Wait, completed: &mut Vec<Completion>) {
        if !self.was_used {
            return;
        }
        // Before looking, so that what comes after the look is announced.
        self.wake.clear();
        let before = completed.len();
        loop {
            self.harvest(completed);
            self.submit();
            if wait == Wait::Not || completed.len() > before || self.in_flight() == 0 {
                return;
            }
            if !self.enter(1) {
                // It is short of memory for a moment; what it has may have completed meanwhile.
                std::thread::yield_now();
            }
        }
    }

    fn harvest(&mut self, completed: &mut Vec<Completion>) {
        loop {
            let answer = self.queues.completion().next();
            let Some(answer) = answer else { return };
            let Ok(slot) = usize::try_from(answer.user_data()) else { continue };
            self.under_way -= 1;
            let Some(mut job) = self.slots[slot].take() else { continue };
            match job.advance(answer.result()) {
                None => {
                    self.slots[slot] = Some(job);
                    self.backlog.push_back(slot);
                }
                Some(result) => {
                    self.free.push(slot);
                    if let Work::Write { vectors, .. } = &mut job.work {
                        vectors.0.clear();
                        self.spare_vectors.push(std::mem::take(vectors));
                    }
                    let token = job.token;
                    let result = result.map(|()| job.into_done());
                    completed.push(Completion { token, result });
                }
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut completed = Vec::new();
        while self.in_flight() > 0 {
            self.reap(Wait::ForOne, &mut completed);
        }
        // SAFETY: nothing is in flight any more, so that the kernel uses neither; both are dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.queues) };
        // SAFETY: as above.
        unsafe { ManuallyDrop::drop(&mut self.slots) };
    }
}

impl Job {
    /// Takes the kernel's answer in. `None` if the job has to go on.
    fn advance(&mut self, answer: i32) -> Option<io::Result<()>> {
        let Ok(count) = usize::try_from(answer) else { return self.refused(-answer) };
        match &mut self.work {
            Work::Sync => Some(Ok(())),
            Work::Write { .. } if count == 0 => Some(Err(io::ErrorKind::WriteZero.into())),
            Work::Write { length, written, .. } => {
                *written += count;
                (*written >= *length).then_some(Ok(()))
            }
            Work::Read { buffer, filled, .. } => {
                *filled += count;
                (count == 0 || *filled >= buffer.len()).then_some(Ok(()))
            }
        }
    }

    fn refused(&mut self, errno: i32) -> Option<io::Result<()>> {
        if !matches!(errno, libc::EINTR | libc::EAGAIN | libc::ECANCELED) {
            let error = io::Error::from_raw_os_error(errno);
            return Some(Err(if matches!(self.work, Work::Sync) { trouble::of_sync(error) } else { error }));
        }
        // It was not done, and nothing is wrong with the file.
        self.attempts += 1;
        if self.attempts < ATTEMPTS_MAX {
            return None;
        }
        Some(self.finish_inline())
    }

    /// Does what is left in the calling thread.
    fn finish_inline(&mut self) -> io::Result<()> {
        match &mut self.work {
            Work::Sync => self.file.sync(),
            Work::Write { position, buffers, written, .. } => {
                let (mut at, mut skip) = (*position, *written);
                for buffer in buffers {
                    let rest = &buffer[skip.min(buffer.len())..];
                    self.file.write_all_at(rest, at + (buffer.len() - rest.len()) as u64)?;
                    skip -= buffer.len() - rest.len();
                    at += buffer.len() as u64;
                }
                Ok(())
            }
            Work::Read { position, buffer, filled } => {
                *filled += self.file.read_at(&mut buffer[*filled..], *position + *filled as u64)?;
                Ok(())
            }
        }
    }

    fn into_done(self) -> Done {
        match self.work {
            Work::Write { buffers, .. } => Done::Written { buffers },
            Work::Sync => Done::Synced,
            Work::Read { mut buffer, filled, .. } => {
                buffer.truncate(filled);
                Done::Read(buffer.freeze())
            }
        }
    }
}

/// What the kernel is asked for what is left of a job.
fn entry(job: &mut Job) -> squeue::Entry {
    let file = types::Fd(job.descriptor);
    match &mut job.work {
        Work::Sync => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
        Work::Write { position, buffers, written, vectors, .. } => {
            vectors.fill(buffers, *written);
            #[expect(clippy::cast_possible_truncation, reason = "at most BUFFERS_MAX")]
            let count = vectors.0.len() as u32;
            opcode::Writev::new(file, vectors.0.as_ptr(), count).offset(*position + *written as u64).build()
        }
        Work::Read { position, buffer, filled } => {
            let rest = &mut buffer[*filled..];
            #[expect(clippy::cast_possible_truncation, reason = "at most READ_BYTES_MAX")]
            let length = rest.len().min(READ_BYTES_MAX) as u32;
            opcode::Read::new(file, rest.as_mut_ptr(), length).offset(*position + *filled as u64).build()
        }
    }
}

impl Vectors {
    /// Points at what is left of the buffers behind the first `skip` bytes, as many as one call takes.
    fn fill(&mut self, buffers: &[Bytes], mut skip: usize) {
        self.0.clear();
        for buffer in buffers {
            if skip >= buffer.len() {
                skip -= buffer.len();
                continue;
            }
            let rest = &buffer[skip..];
            skip = 0;
            if self.0.len() == sys::BUFFERS_MAX {
                return;
            }
            self.0.push(libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, Open, PosixDisk, SyncThread};

    fn job(file: &File, work: Work) -> Job {
        let descriptor = file.descriptor().unwrap();
        Job { token: 1, file: File::clone(file), descriptor, work, attempts: 0 }
    }

    fn write_of(buffers: Vec<Bytes>, position: u64) -> Work {
        let length = buffers.iter().map(Bytes::len).sum();
        Work::Write { position, buffers, length, written: 0, vectors: Vectors::default() }
    }

    fn new_file(root: &tempfile::TempDir) -> File {
        PosixDisk::new(SyncThread::Never).open(&root.path().join("a"), Open::Create).unwrap()
    }

    #[test]
    fn what_is_cancelled_is_tried_again_and_at_last_done_by_the_caller() {
        let root = tempfile::tempdir().unwrap();
        let file = new_file(&root);
        let buffers = ["one", "", "two", "three"].map(|text| Bytes::from_static(text.as_bytes())).to_vec();
        let mut job = job(&file, write_of(buffers, 2));
        assert!(job.advance(4).is_none(), "a short write goes on");
        for errno in [libc::ECANCELED, libc::EINTR, libc::EAGAIN].into_iter().cycle().take(7) {
            assert!(job.advance(-errno).is_none());
        }
        assert_eq!(file.size().unwrap(), 0);
        job.advance(-libc::ECANCELED).unwrap().unwrap();
        let mut bytes = [0xFF; 13];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 13);
        assert_eq!(&bytes, b"\0\0\0\0\0\0wothree", "the first four bytes were the kernel's to write");
    }

    #[test]
    fn what_the_device_refuses_is_not_tried_again() {
        let root = tempfile::tempdir().unwrap();
        let file = new_file(&root);
        for errno in [libc::EIO, libc::ENOSPC, libc::EBADF] {
            let write = write_of(vec![Bytes::from_static(b"x")], 0);
            let error = job(&file, write).advance(-errno).unwrap().unwrap_err();
            assert_eq!(error.raw_os_error(), Some(errno));
            let error = job(&file, Work::Sync).advance(-errno).unwrap().unwrap_err();
            assert!(!trouble::is_passing(&error), "a sync that failed is final: {error}");
        }
        let mut stuck = job(&file, write_of(vec![Bytes::from_static(b"x")], 0));
        assert_eq!(stuck.advance(0).unwrap().unwrap_err().kind(), io::ErrorKind::WriteZero);
    }
}
