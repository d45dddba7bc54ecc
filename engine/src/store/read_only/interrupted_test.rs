//! A look or a read between any two calls of which the writer does something; and looks at what stands still, however damaged it is.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::BytesMut;

use super::read_only_test::{DIRECTORY, Writing, looker, seen};
use super::*;
use crate::disk::simulated::Unsynced;
use crate::disk::{
    DirectoryLock, DiskFile, Entry, File, FileIdentity, Incarnation, LockError, Map, Open, Queue,
    ReadOnlyDisk, SimulatedDisk,
};
use crate::log::{Permit, ReadError};
use crate::segment::{FileKind, file_path};
use crate::state::EpochHistory;
use crate::store::Job;
use crate::store::test_support::*;
use crate::units::Offset;

/// How many calls from now on something is done, and what.
#[derive(Clone, Default)]
struct Planned(Arc<Mutex<Option<(usize, Action)>>>);

type Action = Box<dyn FnOnce() + Send>;

impl std::fmt::Debug for Planned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Planned")
    }
}

impl Planned {
    fn plan(&self, calls: usize, action: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some((calls, Box::new(action)));
    }

    fn has_come(&self) -> bool {
        self.0.lock().unwrap().is_none()
    }

    fn call(&self) {
        let mut planned = self.0.lock().unwrap();
        match planned.take() {
            Some((0, action)) => {
                drop(planned);
                action();
            }
            Some((calls, action)) => *planned = Some((calls - 1, action)),
            None => {}
        }
    }
}

/// The disk as the looker has it.
#[derive(Clone, Debug)]
struct Interrupted {
    behind: Arc<ReadOnlyDisk>,
    planned: Planned,
}

impl Interrupted {
    fn new(disk: &SimulatedDisk) -> Self {
        let behind = Arc::new(ReadOnlyDisk::new(Arc::new(disk.clone())));
        Self { behind, planned: Planned::default() }
    }
}

impl Disk for Interrupted {
    fn open(&self, path: &Path, how: Open) -> io::Result<File> {
        self.planned.call();
        let file = self.behind.open(path, how)?;
        Ok(Arc::new(InterruptedFile { file, planned: self.planned.clone() }))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        self.planned.call();
        self.behind.list(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.behind.create_directory(directory)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.behind.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
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

#[derive(Debug)]
struct InterruptedFile {
    file: File,
    planned: Planned,
}

impl DiskFile for InterruptedFile {
    fn size(&self) -> io::Result<u64> {
        self.planned.call();
        self.file.size()
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.planned.call();
        self.file.read_at(buffer, position)
    }

    fn read_cached(&self, out: &mut BytesMut, length: usize, position: u64) -> io::Result<Option<usize>> {
        self.planned.call();
        self.file.read_cached(out, length, position)
    }

    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, position)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_size(size)
    }

    fn reserve(&self, end: u64) -> io::Result<()> {
        self.file.reserve(end)
    }

    fn map(&self, length: usize) -> io::Result<Map> {
        self.planned.call();
        self.file.map(length)
    }

    fn descriptor(&self) -> Option<i32> {
        self.file.descriptor()
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        self.file.identity()
    }
}

/// A log as somebody sees it.
#[derive(Debug, PartialEq, Eq)]
struct Picture {
    start: Offset,
    end: Offset,
    epochs: EpochHistory,
    bytes: Vec<u8>,
}

impl Picture {
    fn of(log: &ReadOnlyLog) -> Self {
        Self { start: log.start(), end: log.end(), epochs: log.epochs().clone(), bytes: seen(log) }
    }

    /// Whether this is what was seen, or what it had become when the log ended there.
    fn is(&self, log: &ReadOnlyLog) -> bool {
        let mut epochs = self.epochs.clone();
        epochs.truncate_from_end(log.end());
        self.start == log.start() && log.end() <= self.end && epochs == *log.epochs()
    }
}

fn picture_of(disk: &SimulatedDisk) -> Picture {
    Picture::of(&looker(disk).log(&name("t-0")).unwrap())
}

/// Appends a batch of one record and one size.
fn append(writing: &Writing, value: u8) {
    append_records(writing, value, 1);
}

fn append_records(writing: &Writing, value: u8, records: usize) {
    let batch = produced(&vec![[value; 100].as_slice(); records], 1);
    writing.log.append(Permit::new(epoch(writing.epoch)), batch, now(1)).unwrap();
    turn(&writing.store);
}

/// What the writer does while somebody looks. Cuts are followed by as much as was cut, so that the log is no shorter for it.
fn act(writing: &mut Writing, action: u32, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    if action == BELOW_THE_START {
        let to = at(rng.i64(0..writing.log.start().value()));
        Job::Truncate { log: writing.log.id(), to }.run(&writing.store);
        writing.epoch += 1;
    } else {
        writing.act(action, &mut rng);
    }
    if [5, 9, BELOW_THE_START].contains(&action) {
        (0..rng.u32(..30)).for_each(|_| append_records(writing, 2, 2));
    }
}

const BELOW_THE_START: u32 = 11;
const ACTIONS: [u32; 8] = [0, 5, 6, 7, 8, 9, 10, BELOW_THE_START];

/// Looks as `look` says at a directory in which the writer does something before each of its calls in turn. `look` begins with what must
/// not be interrupted, and then tells so.
fn interrupt_each_call(look: impl Fn(&ReadOnlyStore, &dyn Fn(), [&Picture; 2], &str) -> ReadOnlyLog) {
    let base = SimulatedDisk::new(1);
    let writing = Writing::begin(&base);
    (0..20).for_each(|_| append_records(&writing, 1, 2));
    Job::RaiseStart { log: writing.log.id(), to: at(11) }.run(&writing.store);
    Job::Checkpoint { now: now(1) }.run(&writing.store);
    drop(writing);
    for action in ACTIONS {
        for call in 0.. {
            let why = format!("action {action} call {call}");
            let seed = call as u64;

            let disk = base.fork(1);
            let mut writing = Writing::begin(&disk);
            let before = picture_of(&disk);
            act(&mut writing, action, seed);
            let after = picture_of(&disk);

            let disk = base.fork(1);
            let writing = Mutex::new(Writing::begin(&disk));
            let interrupted = Interrupted::new(&disk);
            let action = move || act(&mut writing.lock().unwrap(), action, seed);
            let action = Mutex::new(Some(action));
            let begin = || {
                let action = action.lock().unwrap().take();
                interrupted.planned.plan(call, action.expect("once"));
            };
            let mut log = look(&looker(&interrupted), &begin, [&before, &after], &why);
            if !interrupted.planned.has_come() {
                assert!(call > 2, "{why}");
                break;
            }
            check(&mut log, [&before, &after], &why);
        }
    }
}

/// Reads all that can be read, which is nothing but what was there at one moment: before, or when something had been done, or all. Then
/// looks again.
fn check(log: &mut ReadOnlyLog, [before, after]: [&Picture; 2], why: &str) {
    let (start, end) = (log.start(), log.end());
    let mut moments = Vec::new();
    moments.extend(Some(before).filter(|before| before.is(log) && before.end == end));
    moments.extend(Some(after).filter(|after| after.is(log)));
    let mut next = start;
    while next < end {
        match log.read(next, 1_000) {
            Ok(Some(records)) => {
                moments.retain(|moment| has(moment, &records.parts.concat()));
                next = records.end;
            }
            Err(ReadOnlyReadError::Changed) => break,
            other => panic!("{why}: {other:?}"),
        }
    }
    assert!(!moments.is_empty(), "{why}: {start}..{end} up to {next} was never there");
    let _refreshed = log.refresh().unwrap_or_else(|error| panic!("{why}: {error}"));
    assert!(Picture::of(log) == *after, "{why}: {}..{}", log.start(), log.end());
    assert_eq!(log.refresh().unwrap(), Refreshed::Same, "{why}");
}

fn has(moment: &Picture, bytes: &[u8]) -> bool {
    moment.bytes.windows(bytes.len()).any(|window| window == bytes)
}

#[test]
fn a_look_beside_a_change_sees_what_was_before_it_or_after() {
    interrupt_each_call(|store, begin, _, why| {
        begin();
        store.log(&name("t-0")).unwrap_or_else(|error| panic!("{why}: {error}"))
    });
}

#[test]
fn another_look_beside_a_change_sees_what_was_before_it_or_after() {
    interrupt_each_call(|store, begin, _, why| {
        let mut log = store.log(&name("t-0")).unwrap();
        begin();
        let _refreshed = log.refresh().unwrap_or_else(|error| panic!("{why}: {error}"));
        log
    });
}

#[test]
fn a_read_beside_a_change_gives_what_was_seen_or_says_so() {
    interrupt_each_call(|store, begin, [before, _], why| {
        let log = store.log(&name("t-0")).unwrap();
        begin();
        let mut next = log.start();
        while next < log.end() {
            match log.read(next, 1_000) {
                Ok(Some(records)) => {
                    assert!(
                        has(before, &records.parts.concat()),
                        "{why}: what is read at {next} was not seen"
                    );
                    next = records.end;
                }
                Err(ReadOnlyReadError::Changed) => break,
                other => panic!("{why}: {other:?}"),
            }
        }
        log
    });
}

/// Expects that a log that nobody changes is seen, or refused for a reason, and that what of it is read is read or damaged.
fn check_it_settles(disk: &SimulatedDisk, why: &str) -> bool {
    let mut log = match looker(disk).log(&name("t-0")) {
        Ok(log) => log,
        Err(error @ ReadOnlyError::Unsettled { .. }) => panic!("{why}: {error}"),
        Err(_) => return false,
    };
    let mut next = log.start();
    while next < log.end() {
        match log.read(next, 300) {
            Ok(Some(records)) => next = records.end,
            // A flipped bit of a last batch's offset puts the end far ahead, and nothing lies in front of it.
            Ok(None) => break,
            Err(ReadOnlyReadError::Read(ReadError::Damaged { offsets: Some(offsets), .. })) => {
                assert!(offsets.end() > next, "{why}: {offsets} at {next}");
                next = offsets.end();
            }
            other => panic!("{why}: at {next} {other:?}"),
        }
    }
    assert_eq!(log.refresh().unwrap(), Refreshed::Same, "{why}");
    true
}

#[test]
fn what_stands_still_is_seen_however_it_is_damaged() {
    let mut rng = fastrand::Rng::with_seed(2);
    let disk = SimulatedDisk::new(2);
    let mut writing = Writing::begin(&disk);
    for action in [0, 0, 0, 5, 0, 0, 0, 0, 10, 5, 0, 0, 0, 0, 0] {
        writing.act(action, &mut rng);
    }
    drop(writing);
    let base = disk.crash_kill(&mut rng);
    let (mut seen, mut refused) = (0, 0);
    let mut count = |disk: &SimulatedDisk, why: &str| {
        if check_it_settles(disk, why) {
            seen += 1;
        } else {
            refused += 1;
        }
    };
    for directory in [Path::new(DIRECTORY), Path::new("/data/t-0")] {
        for entry in base.list(directory).unwrap().into_iter().filter(|entry| entry.kind == EntryKind::File) {
            let path = directory.join(entry.name);
            let bytes = base.contents(&path).unwrap();
            for (at, byte) in bytes.iter().enumerate() {
                let at = at as u64;
                let flipped = base.fork(at);
                flipped.damage(&path, at, &[byte ^ (1 << (at % 8))]).unwrap();
                count(&flipped, &format!("{} flipped at {at}", path.display()));
                let cut = base.fork(at);
                cut.open(&path, Open::Write).unwrap().set_size(at).unwrap();
                count(&cut, &format!("{} cut to {at}", path.display()));
            }
            let without = base.fork(0);
            without.remove_file(&path).unwrap();
            count(&without, &format!("without {}", path.display()));
        }
    }
    assert!(seen > 1_000, "{seen} {refused}");
}

#[test]
fn a_cut_that_goes_on_in_its_epoch_is_seen_by_the_next_look() {
    let disk = SimulatedDisk::new(1);
    let writing = Writing::begin(&disk);
    (0..3).for_each(|_| append(&writing, 1));
    let mut log = looker(&disk).log(&name("t-0")).unwrap();
    Job::Truncate { log: writing.log.id(), to: at(1) }.run(&writing.store);
    (0..3).for_each(|_| append(&writing, 2));
    assert!(matches!(log.refresh().unwrap(), Refreshed::Cut { .. }));
    assert_eq!(Picture::of(&log), picture_of(&disk));
}

#[test]
fn a_cut_is_seen_also_when_the_log_ended_in_a_segment_without_a_batch() {
    let disk = SimulatedDisk::new(1);
    let mut writing = Writing::begin(&disk);
    let base = loop {
        append(&writing, 1);
        if writing.log.segment_count() > 1 {
            break writing.log.written().value() - 1;
        }
    };
    // The next segment has its name, and nothing in it yet.
    let disk = SimulatedDisk::new(1);
    writing = Writing::begin(&disk);
    (0..base).for_each(|_| append(&writing, 1));
    disk.open(&file_path(Path::new("/data/t-0"), at(base), FileKind::Log), Open::Create).unwrap();
    let mut log = looker(&disk).log(&name("t-0")).unwrap();
    assert_eq!(log.end(), at(base));
    Job::Truncate { log: writing.log.id(), to: at(1) }.run(&writing.store);
    writing.epoch += 1;
    (0..=base).for_each(|_| append(&writing, 2));
    assert_eq!(log.refresh().unwrap(), Refreshed::Cut { to: at(1) });
    assert_eq!(Picture::of(&log), picture_of(&disk));
}

#[test]
fn a_log_of_which_a_crash_has_left_nothing_is_seen_and_may_go_on_anywhere() {
    let disk = SimulatedDisk::new(1);
    let writing = Writing::begin(&disk);
    (0..3).for_each(|_| append(&writing, 1));
    Job::RaiseStart { log: writing.log.id(), to: at(3) }.run(&writing.store);
    Job::Checkpoint { now: now(1) }.run(&writing.store);
    drop(writing);
    let disk = disk.crash_power(Unsynced::Lost, &mut fastrand::Rng::with_seed(1));
    let mut log = looker(&disk).log(&name("t-0")).unwrap();
    assert_eq!((log.start(), log.end()), (at(3), at(3)));
    assert_eq!(log.refresh().unwrap(), Refreshed::Same);
    let mut not_again = looker(&disk).log(&name("t-0")).unwrap();
    let mut writing = Writing::begin(&disk);
    append(&writing, 1);
    let mut later = looker(&disk).log(&name("t-0")).unwrap();
    assert_eq!((later.start(), later.end()), (at(3), at(4)));
    assert_eq!(log.refresh().unwrap(), Refreshed::Moved);
    Job::RestartAt { log: writing.log.id(), offset: at(1) }.run(&writing.store);
    writing.epoch += 1;
    append(&writing, 2);
    for log in [&mut log, &mut later, &mut not_again] {
        assert_eq!(log.refresh().unwrap(), Refreshed::Cut { to: at(1) });
        assert_eq!(Picture::of(log), picture_of(&disk));
    }
}

#[test]
fn what_came_damaged_is_judged_as_recovery_does() {
    let disk = SimulatedDisk::new(1);
    let writing = Writing::begin(&disk);
    append(&writing, 1);
    let mut log = looker(&disk).log(&name("t-0")).unwrap();
    (0..2).for_each(|_| append(&writing, 2));
    disk.damage(&file_path(Path::new("/data/t-0"), at(0), FileKind::Log), 300, b"other").unwrap();
    assert_eq!(log.refresh().unwrap(), Refreshed::Moved);
    assert_eq!((log.end(), log.damaged().len()), (at(3), 1));
}

#[test]
fn what_came_damaged_before_a_roll_is_judged_as_recovery_does() {
    let disk = SimulatedDisk::new(1);
    let writing = Writing::begin(&disk);
    append(&writing, 1);
    let mut log = looker(&disk).log(&name("t-0")).unwrap();
    while writing.log.segment_count() < 2 {
        append(&writing, 2);
    }
    let path = file_path(Path::new("/data/t-0"), at(0), FileKind::Log);
    disk.damage(&path, disk.contents(&path).unwrap().len() as u64 - 5, b"other").unwrap();
    assert_eq!(log.refresh().unwrap(), Refreshed::Moved);
    assert_eq!((log.end(), log.damaged().len()), (writing.log.written(), 1));
}
