//! The bytes say how the files of a data directory are changed behind the engine's back.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use highwater_engine::disk::simulated::Unsynced;
use highwater_engine::disk::{Disk, EntryKind, Open, SimulatedDisk};
use highwater_engine::log::{LogConfig, Permit, Step};
use highwater_engine::recovery::{Plan, Step as PlanStep, SuspectReason};
use highwater_engine::store::{Job, Opened, Store, StoreConfig};
use highwater_engine::units::{Now, TopicPartition};

use crate::recover::batches::{check, leader_epoch, offset, sent};
use crate::recover::open::read_batches;
use crate::recover::{Choices, Content};

const DIRECTORY: &str = "/data";
const CHANGES_MAX: usize = 6;
/// How many batches there are, and records.
const BATCHES: i64 = 40;

/// A directory of all kinds of files, and what was put into its log.
#[derive(Debug)]
struct Original {
    clean: SimulatedDisk,
    killed: SimulatedDisk,
    /// From offset 0 on, without gaps.
    batches: Vec<Bytes>,
}

/// The directory opens or says why not; what can be read is what was written, in order and with nothing left out; it can be written to
/// again or says why not, and opens a second time.
pub fn directory(data: &[u8]) {
    let original = original();
    let mut choices = Choices::bytes(data);
    let disk = if choices.once_in(2) { original.clean.fork(1) } else { original.killed.fork(1) };
    for _ in 0..CHANGES_MAX {
        if choices.are_used_up() {
            break;
        }
        change(&disk, Path::new(DIRECTORY), &mut choices);
    }
    let mut leapt = None;
    for _ in 0..2 {
        let Ok(Opened { store, report }) = open(&disk) else { return };
        leapt = leapt.or(report.logs.iter().find_map(|log| may_have_leapt(&log.plan)));
        let Some(log) = store.log(&name()) else { continue };
        check_reads(&store, original, leapt);
        for job in store.due_jobs(Now::default()) {
            drop(job.run(&store));
        }
        check_reads(&store, original, leapt);
        std::hint::black_box(log.max_timestamp(offset(i64::MAX)).is_ok());
        let batch = check(&sent(&Content::plain(1, 10, 1), 1_000_000));
        if let Ok(appended) = log.append(Permit::new(leader_epoch(1_000)), batch, Now::default()) {
            std::hint::black_box(store.wait(appended.ticket, Step::Durable).is_ok());
        }
    }
}

/// The last batch of a log, behind a gap, when the recovery points are lost and there is no mark either. Nobody can tell whether its base offset
/// was changed, which lies outside of its CRC: whoever wrote the log before the points were lost may have been a Kafka that follows a
/// compacted log, which writes just that and leaves no note, and to cut it would lose what was answered. The replica is suspect.
fn may_have_leapt(plan: &Plan) -> Option<i64> {
    let is_suspect = plan.suspect.contains(&SuspectReason::RecoveryPointUnknown);
    (is_suspect && plan.steps.contains(&PlanStep::NoteGaps)).then(|| plan.end.value() - 1)
}

/// Reads on behind whatever cannot be read, as far as the log says that it goes. One batch may be anywhere, if it is whole: `leapt`.
fn check_reads(store: &Store, original: &Original, leapt: Option<i64>) {
    let Some(log) = store.log(&name()) else { return };
    let end = log.written().value().min(BATCHES + 8);
    let mut next = log.start().value();
    while next < end {
        let Ok(batches) = read_batches(store, &log, next) else {
            next += 1;
            continue;
        };
        let Some(last) = batches.last() else { return };
        let mut at = None;
        for batch in &batches {
            let base = i64::from_be_bytes(*batch.first_chunk().expect("a batch has a header"));
            let is_own = batch[57..61] == [0, 0, 0, 1] && batch.len() < 120;
            let known = usize::try_from(base).ok().and_then(|base| original.batches.get(base));
            // The epoch lies outside of what a CRC covers, like the offset, and is no part of a record.
            let is = |known: &Bytes| known.len() == batch.len() && known[16..] == batch[16..];
            let has_leapt = leapt == Some(base);
            let is_known = known.is_some_and(is)
                || (has_leapt && original.batches.iter().take(usize::try_from(base).unwrap_or(0)).any(is));
            assert!(is_known || is_own, "at {base} is what nobody wrote there");
            assert!(at.is_none_or(|at| at == base) || has_leapt, "a read leaves out what lies before {base}");
            at = Some(base + 1);
        }
        let base = i64::from_be_bytes(*last.first_chunk().expect("a batch has a header"));
        assert!(base >= next || batches.len() > 1, "a read goes on");
        next = base + 1;
    }
}

/// Changes one of the files below a directory.
pub(super) fn change(disk: &SimulatedDisk, directory: &Path, choices: &mut Choices) {
    let files = files(disk, directory);
    let count = i64::try_from(files.len()).unwrap_or(0);
    let Some(path) = usize::try_from(choices.below(count)).ok().and_then(|at| files.get(at)) else { return };
    let Ok(file) = disk.open(path, Open::Write) else { return };
    let Ok(size) = file.size() else { return };
    let place = |choices: &mut Choices| choices.below(i64::try_from(size).unwrap_or(0) + 1).unsigned_abs();
    match choices.below(7) {
        0 => {
            let at = place(choices);
            let mut byte = [0];
            if file.read_at(&mut byte, at).is_ok() {
                byte[0] ^= 1 << choices.below(8);
                drop(file.write_all_at(&byte, at));
            }
        }
        1 => drop(file.write_all_at(&choices.below(1 << 31).to_be_bytes(), place(choices))),
        2 => drop(file.write_all_at(&[0; 64], place(choices))),
        3 => drop(file.set_size(place(choices))),
        4 => drop(file.set_size(size + choices.below(600).unsigned_abs())),
        5 => drop(disk.remove_file(path)),
        _ => {
            let count = choices.below(40);
            let text: Vec<u8> = (0..count).filter_map(|_| u8::try_from(choices.below(256)).ok()).collect();
            drop(file.set_size(0).and_then(|()| file.write_all_at(&text, 0)));
        }
    }
}

fn files(disk: &SimulatedDisk, directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in disk.list(directory).unwrap_or_default() {
        let path = directory.join(&entry.name);
        match entry.kind {
            EntryKind::Directory => files.extend(self::files(disk, &path)),
            EntryKind::File | EntryKind::Other => files.push(path),
        }
    }
    files
}

fn name() -> TopicPartition {
    TopicPartition::new("t", 0).expect("a topic may be called t")
}

fn open(disk: &SimulatedDisk) -> Result<Opened, highwater_engine::store::StoreOpenError> {
    let mut log = LogConfig::default();
    (log.segment_bytes_max, log.index_interval_bytes) = (2_000, 300);
    let mut config = StoreConfig::default();
    (config.log, config.tail_bytes_max) = (log, 1_000);
    // As after a kill: nobody holds the directory.
    let disk = disk.crash_kill(&mut fastrand::Rng::with_seed(1));
    Store::open(Arc::new(disk), Path::new(DIRECTORY), config, Now::default())
}

/// Made once: batches of one record, so that offsets are their numbers; a few epochs and producers; some sealed segments.
fn original() -> &'static Original {
    static ORIGINAL: OnceLock<Original> = OnceLock::new();
    ORIGINAL.get_or_init(|| {
        let disk = SimulatedDisk::new(7);
        let Opened { store, .. } = open(&disk).expect("an empty directory can be opened");
        let config = store.config().log.clone();
        let log = store.create_log(&name(), None, config, Now::default()).expect("a log can be made");
        for number in 0..BATCHES {
            let content = Content::plain(1, 100 + number * 7 % 90, 1_000 + number);
            let content = if number % 3 == 0 {
                content.of(1, i32::try_from(number / 3).expect("a small number"))
            } else {
                content
            };
            let epoch = leader_epoch(i32::try_from(number / 15).expect("a small number"));
            let batch = check(&sent(&content, number.unsigned_abs()));
            let appended = log.append(Permit::new(epoch), batch, Now::default()).expect("there is room");
            store.wait(appended.ticket, Step::Written).expect("it is written");
            if number == 25 {
                store.wait(appended.ticket, Step::Durable).expect("it is synced");
                drop(Job::Checkpoint { now: Now::default() }.run(&store));
            }
        }
        let mut batches = Vec::new();
        let mut next = 0;
        while next < BATCHES {
            let read = read_batches(&store, &log, next).expect("what is written can be read");
            next += i64::try_from(read.len()).expect("a few batches");
            batches.extend(read);
        }
        let killed = disk.fork(2).crash_power(Unsynced::Kept, &mut fastrand::Rng::with_seed(2));
        store.close(serde_json::Map::new(), None).expect("it closes");
        Original { clean: disk, killed, batches }
    })
}
