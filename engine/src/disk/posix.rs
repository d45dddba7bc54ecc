//! The portable disk: plain system calls, done by the thread that asks.
//!
//! Its queue completes everything at submission. Only a sync that must not hold up its submitter goes to a sync thread, and only where
//! the host allowed one; it is started with the first such sync.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::{Bytes, BytesMut};
use crossbeam_channel::{Receiver, Sender, unbounded};

use super::wake::Wake;
use super::{
    Completion, DirectoryLock, Disk, Done, Entry, File, Incarnation, LockError, Open, Operation,
    OperationKind, Patience, Queue, QueueCounters, Wait, files, incarnation, lock, sys,
};

/// Whether a queue may have a thread for the syncs that must not hold up the thread which submits them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncThread {
    /// No thread; such syncs are done by the submitter all the same.
    #[default]
    Never,
    /// One for each queue, from the first such sync on, until the queue is dropped.
    WhenNeeded,
}

/// The file system through plain system calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct PosixDisk {
    sync_thread: SyncThread,
}

impl PosixDisk {
    /// A disk whose queues have a sync thread or not.
    pub const fn new(sync_thread: SyncThread) -> Self {
        Self { sync_thread }
    }
}

impl Disk for PosixDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<File> {
        files::open(path, how)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        files::list(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        files::create_directory(directory)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir_all(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        files::sync_directory(directory)
    }

    fn lock(&self, directory: &Path) -> Result<Box<dyn DirectoryLock>, LockError> {
        lock::lock(directory)
    }

    fn incarnation(&self, directory: &Path) -> Option<Incarnation> {
        incarnation::incarnation(directory)
    }

    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        files::free_bytes(directory)
    }

    fn open_files_max(&self) -> Option<usize> {
        sys::descriptor_limit().ok().and_then(|limit| usize::try_from(limit).ok())
    }

    fn queue(&self) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(PosixQueue::new(self.sync_thread)?))
    }
}

/// See the module's documentation.
#[derive(Debug)]
struct PosixQueue {
    ready: VecDeque<Completion>,
    counters: QueueCounters,
    sync_thread: Option<Syncs>,
}

impl PosixQueue {
    fn new(sync_thread: SyncThread) -> io::Result<Self> {
        let sync_thread = match sync_thread {
            SyncThread::Never => None,
            SyncThread::WhenNeeded => Some(Syncs::new()?),
        };
        Ok(Self { ready: VecDeque::new(), counters: QueueCounters::default(), sync_thread })
    }
}

impl Queue for PosixQueue {
    fn submit(&mut self, operations: &mut Vec<Operation>) {
        for operation in operations.drain(..) {
            let must_not_block =
                matches!(operation.kind, OperationKind::Sync { patience: Patience::MustNotBlock });
            let operation = match &mut self.sync_thread {
                Some(syncs) if must_not_block => match syncs.submit(operation) {
                    Ok(()) => {
                        self.counters.syncs_thread += 1;
                        continue;
                    }
                    Err(operation) => operation,
                },
                _ => operation,
            };
            self.ready.push_back(perform(operation, &mut self.counters));
        }
    }

    fn reap(&mut self, wait: Wait, completed: &mut Vec<Completion>) {
        let wait = if self.ready.is_empty() { wait } else { Wait::Not };
        completed.extend(self.ready.drain(..));
        if let Some(syncs) = &mut self.sync_thread {
            syncs.reap(wait, completed);
        }
    }

    fn in_flight(&self) -> usize {
        self.ready.len() + self.sync_thread.as_ref().map_or(0, |syncs| syncs.in_flight)
    }

    fn wake_descriptor(&self) -> io::Result<Option<OwnedFd>> {
        self.sync_thread.as_ref().map(|syncs| syncs.wake.descriptor()).transpose()
    }

    fn counters(&self) -> QueueCounters {
        self.counters
    }
}

/// Does an operation in the calling thread.
pub(super) fn perform(operation: Operation, counters: &mut QueueCounters) -> Completion {
    let Operation { token, file, kind } = operation;
    let result = match kind {
        OperationKind::Write { position, buffers } => {
            counters.writes_inline += 1;
            write(&file, &buffers, position).map(|()| Done::Written { buffers })
        }
        OperationKind::Sync { .. } => {
            counters.syncs_inline += 1;
            file.sync().map(|()| Done::Synced)
        }
        OperationKind::Read { position, length } => {
            counters.reads_inline += 1;
            read(&file, position, length).map(Done::Read)
        }
    };
    Completion { token, result }
}

/// So many buffers go in one call, so that their list has its place on the stack; it is long enough for a call to cost nothing beside it.
const SLICES: usize = 64;

fn write(file: &File, buffers: &[Bytes], mut position: u64) -> io::Result<()> {
    for part in buffers.chunks(SLICES) {
        match file.descriptor() {
            Some(descriptor) => {
                let mut slices = [IoSlice::new(&[]); SLICES];
                for (slice, buffer) in slices.iter_mut().zip(part) {
                    *slice = IoSlice::new(buffer);
                }
                sys::write_all_vectored_at(descriptor, &mut slices[..part.len()], position)?;
                position += part.iter().map(|buffer| buffer.len() as u64).sum::<u64>();
            }
            None => {
                for buffer in part {
                    file.write_all_at(buffer, position)?;
                    position += buffer.len() as u64;
                }
            }
        }
    }
    Ok(())
}

fn read(file: &File, position: u64, length: usize) -> io::Result<Bytes> {
    let mut buffer = BytesMut::zeroed(length);
    let count = file.read_at(&mut buffer, position)?;
    buffer.truncate(count);
    Ok(buffer.freeze())
}

/// The sync thread and the two channels to it.
#[derive(Debug)]
struct Syncs {
    wake: Arc<Wake>,
    thread: Option<(Sender<Operation>, JoinHandle<()>)>,
    done: (Sender<Completion>, Receiver<Completion>),
    in_flight: usize,
}

impl Syncs {
    fn new() -> io::Result<Self> {
        Ok(Self { wake: Arc::new(Wake::new()?), thread: None, done: unbounded(), in_flight: 0 })
    }

    /// Gives the operation back if there is no thread to be had.
    fn submit(&mut self, operation: Operation) -> Result<(), Operation> {
        if self.thread.is_none() {
            match self.start() {
                Ok(thread) => self.thread = Some(thread),
                Err(_) => return Err(operation),
            }
        }
        let Some((work, _)) = &self.thread else { return Err(operation) };
        work.send(operation).map_err(|refused| refused.0)?;
        self.in_flight += 1;
        Ok(())
    }

    fn start(&self) -> io::Result<(Sender<Operation>, JoinHandle<()>)> {
        let (work, todo) = unbounded::<Operation>();
        let (done, wake) = (self.done.0.clone(), Arc::clone(&self.wake));
        let thread = std::thread::Builder::new().name("highwater-sync".to_owned()).spawn(move || {
            for operation in todo {
                let result = operation.file.sync().map(|()| Done::Synced);
                let reader_is_gone = done.send(Completion { token: operation.token, result }).is_err();
                wake.signal();
                if reader_is_gone {
                    return;
                }
            }
        })?;
        Ok((work, thread))
    }

    fn reap(&mut self, wait: Wait, completed: &mut Vec<Completion>) {
        self.wake.clear();
        let before = completed.len();
        completed.extend(self.done.1.try_iter());
        if wait == Wait::ForOne && completed.len() == before && self.in_flight > 0 {
            completed.extend(self.done.1.recv().ok());
        }
        self.in_flight -= completed.len() - before;
    }
}

impl Drop for Syncs {
    fn drop(&mut self) {
        if let Some((work, thread)) = self.thread.take() {
            drop(work);
            drop(thread.join());
        }
    }
}
