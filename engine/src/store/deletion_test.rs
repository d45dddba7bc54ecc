//! A log, or its oldest segments, that go while somebody else is in the middle of a change or of a read: whoever was first ends, nobody is
//! told of files that are not there, and the directory goes on.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use super::test_support::*;
use super::{Job, JobDone, Store, StoreConfig};
use crate::disk::{DirectoryLock, Disk, Entry, File, Incarnation, LockError, Open, Queue, SimulatedDisk};
use crate::log::{Closed, Log, LogConfig, Permit, ReadError, Step};
use crate::units::{Offset, Timestamp};

/// So many turns another thread is given to go on, if it can.
const YIELDS: usize = 2_000;

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Open(Open),
    Remove,
}

/// Called once, before this is done to a file whose name ends so.
struct Hook {
    call: Call,
    end: &'static str,
    run: Box<dyn FnOnce() + Send>,
}

/// A disk on which something else happens in the middle of a change.
#[derive(Clone)]
struct Hooked {
    behind: SimulatedDisk,
    hooks: Arc<Mutex<Vec<Hook>>>,
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooked")
    }
}

impl Hooked {
    fn new() -> Self {
        Self { behind: SimulatedDisk::new(3), hooks: Arc::default() }
    }

    fn before(&self, call: Call, end: &'static str, run: impl FnOnce() + Send + 'static) {
        self.hooks.lock().unwrap().push(Hook { call, end, run: Box::new(run) });
    }

    fn run_hook(&self, call: Call, path: &Path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut hooks = self.hooks.lock().unwrap();
        let at = hooks.iter().position(|hook| hook.call == call && name.ends_with(hook.end));
        let hook = at.map(|at| hooks.remove(at));
        drop(hooks);
        if let Some(hook) = hook {
            (hook.run)();
        }
    }
}

impl Disk for Hooked {
    fn open(&self, path: &Path, how: Open) -> io::Result<File> {
        self.run_hook(Call::Open(how), path);
        self.behind.open(path, how)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        self.behind.list(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.behind.create_directory(directory)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.behind.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.run_hook(Call::Remove, path);
        self.behind.remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.behind.remove_directory(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.behind.sync_directory(directory)
    }

    fn lock(&self, directory: &Path) -> Result<Box<dyn DirectoryLock>, LockError> {
        self.behind.lock(directory)
    }

    fn incarnation(&self, directory: &Path) -> Option<Incarnation> {
        self.behind.incarnation(directory)
    }

    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        self.behind.free_bytes(directory)
    }

    fn open_files_max(&self) -> Option<usize> {
        self.behind.open_files_max()
    }

    fn queue(&self) -> io::Result<Box<dyn Queue>> {
        self.behind.queue()
    }
}

/// Deletes the log when it is told to, and says that it is about to.
fn delete_when_told(store: Store, told: Receiver<()>, begun: Sender<()>) -> thread::JoinHandle<JobDone> {
    thread::spawn(move || {
        told.recv().unwrap();
        let job = store.delete_log(&name("t-0")).unwrap();
        begun.send(()).unwrap();
        job.run(&store)
    })
}

/// Has the log deleted when a file is about to be made whose name ends so, and does `change`, which makes one.
fn delete_within(file: &'static str, change: impl FnOnce(&Store, &Log)) {
    let disk = Hooked::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, _) = open_with(&shared, Path::new("/data"), StoreConfig::default());
    let log = store.create_log(&name("t-0"), None, small_segments(1_000), now(0)).unwrap();
    let other = store.create_log(&name("u-0"), None, small_segments(1_000), now(0)).unwrap();
    log.append(Permit::new(epoch(0)), produced(&[&[7; 900]], 1), now(1)).unwrap();
    turn(&store);
    let ((tell, told), (begun, has_begun)) = (channel(), channel());
    let deletion = delete_when_told(store.clone(), told, begun);
    disk.before(Call::Open(Open::Create), file, move || {
        tell.send(()).unwrap();
        has_begun.recv().unwrap();
        (0..YIELDS).for_each(|_| thread::yield_now());
    });
    change(&store, &log);
    assert!(matches!(deletion.join().unwrap(), JobDone::Deleted { .. }));
    assert!(disk.hooks.lock().unwrap().is_empty(), "it was deleted in the middle");
    assert_eq!(store.failure(), None);
    assert_eq!(log.closed(), Some(Closed::Deleted));
    append(&other, 1);
    turn(&store);
    store.create_log(&name("t-0"), None, small_segments(1_000), now(2)).unwrap();
}

#[test]
fn a_log_that_is_deleted_within_a_roll_takes_nothing_with_it() {
    delete_within(".log", |_, log| {
        let refused = log.append(Permit::new(epoch(0)), produced(&[&[7; 900]], 1), now(1));
        assert!(refused.is_err(), "{refused:?}");
    });
}

#[test]
fn a_log_that_is_deleted_within_the_beginning_of_an_epoch_takes_nothing_with_it() {
    delete_within("leader-epoch-checkpoint.tmp", |_, log| {
        // Whether it begins is nobody's business any more.
        let _begun = log.begin_epoch(epoch(1));
    });
}

#[test]
fn a_log_that_is_deleted_within_a_checkpoint_takes_nothing_with_it() {
    delete_within("leader-epoch-checkpoint.tmp", |store, _| {
        let done = Job::Checkpoint { now: now(2) }.run(store);
        assert!(matches!(done, JobDone::Checkpointed), "{done:?}");
    });
}

/// Whoever makes a segment of a log that another thread's panic has closed is waited for: he would empty that of the log which is opened
/// again and rolls at the same place.
#[test]
fn a_log_that_is_opened_again_within_a_roll_loses_nothing_to_it() {
    let disk = Hooked::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, _) = open_with(&shared, Path::new("/data"), StoreConfig::default());
    let log = store.create_log(&name("t-0"), None, small_segments(1_000), now(0)).unwrap();
    let add = |log: &Log, leader| log.append(Permit::new(epoch(leader)), produced(&[&[7; 900]], 1), now(1));
    add(&log, 0).unwrap();
    turn(&store);
    let ((tell, told), (begun, has_begun)) = (channel(), channel());
    let opener = thread::spawn({
        let store = store.clone();
        move || {
            told.recv().unwrap();
            begun.send(()).unwrap();
            store.reopen_log(&name("t-0"), now(2)).unwrap().unwrap();
            let appended = add(&store.log(&name("t-0")).unwrap(), 1).unwrap();
            store.wait(appended.ticket, Step::Durable).unwrap();
        }
    });
    let closing = log.clone();
    disk.before(Call::Open(Open::Create), ".log", move || {
        closing.0.close(Closed::Panicked);
        tell.send(()).unwrap();
        has_begun.recv().unwrap();
        (0..YIELDS).for_each(|_| thread::yield_now());
    });
    assert!(add(&log, 0).is_err());
    opener.join().unwrap();
    drop((log, store));
    let next: Arc<dyn Disk> = Arc::new(disk.behind.crash_kill(&mut fastrand::Rng::with_seed(1)));
    let (store, _) = open(&next, Path::new("/data"));
    let log = store.log(&name("t-0")).unwrap();
    assert_eq!((log.written(), log.damaged()), (at(2), vec![]));
}

/// A read that has begun below the start of later, while retention is at it, is told that nothing is there any more.
fn read_within_retention(read: impl Fn(&Log) -> Result<(), ReadError>) -> Result<(), ReadError> {
    let disk = Hooked::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let config = StoreConfig { open_files_max: Some(1), tail_bytes_max: 0, ..StoreConfig::default() };
    let (store, _) = open_with(&shared, Path::new("/data"), config);
    let settings = LogConfig { retention_bytes: Some(1), retention_age: None, ..small_segments(1_000) };
    let log = store.create_log(&name("t-0"), None, settings, now(0)).unwrap();
    for _ in 0..4 {
        log.append(Permit::new(epoch(0)), produced(&[&[7; 900]], 1), now(1)).unwrap();
    }
    turn(&store);
    store.wait(log.ticket(), Step::Durable).unwrap();
    // The indexes are mapped and known to be right, so that retention has no need of the files.
    log.max_timestamp(Offset::MAX).unwrap();
    let ((removed, is_removed), (done, is_done)) = (channel(), channel::<()>());
    disk.before(Call::Remove, "1.log", move || {
        removed.send(()).unwrap();
        let _ended = is_done.recv();
    });
    let (id, retaining) = (log.id(), store.clone());
    disk.before(Call::Open(Open::Write), "0.log", move || {
        let retention = Job::Retention { log: id, ceiling: Offset::MAX, now: now(2) };
        thread::spawn(move || retention.run(&retaining));
        is_removed.recv().unwrap();
    });
    let told = read(&log);
    assert!(disk.hooks.lock().unwrap().is_empty(), "the read came in between");
    drop(done);
    told
}

#[test]
fn a_read_of_a_segment_that_retention_removes_is_out_of_range() {
    let told = read_within_retention(|log| log.read(at(0), Offset::MAX, 2_000, true).map(drop));
    assert!(matches!(told, Err(ReadError::OutOfRange { .. })), "{told:?}");
}

#[test]
fn a_time_that_was_in_a_segment_that_retention_removes_is_looked_for_in_the_others() {
    let told = read_within_retention(|log| {
        let found = log.offset_for_timestamp(Timestamp::from_millis(0), Offset::MAX)?;
        assert!(found.is_some_and(|found| found.offset > at(0)), "{found:?}");
        Ok(())
    });
    assert!(told.is_ok(), "{told:?}");
}
