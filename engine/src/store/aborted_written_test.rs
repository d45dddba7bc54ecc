//! The index of aborted transactions that a Kafka finds in a directory which we had: what the batches say, whatever was there before.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::kafka_test::unpack_directory;
use super::test_support::*;
use super::{Job, JobDone, JobKind, Store, StoreConfig};
use crate::batch::{BatchBuilder, Compression, TransactionEnd, scan, transaction_marker};
use crate::disk::{Disk, Open, PosixDisk, SimulatedDisk, SyncThread};
use crate::index::{AbortedTransaction, append_aborted, decode_aborted};
use crate::log::{Log, LogConfig, Read, ReadError};
use crate::segment::{FileKind, file_path, parse_file_name};
use crate::units::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

const DATA: &str = "/data";
const LOG: &str = "/data/t-0";

/// What is wrong with an index.
type Spoil = fn(&mut Vec<u8>);

fn with_another(bytes: &mut Vec<u8>, marker: i64) {
    let (first, marker, last_stable) = (at(marker - 1), at(marker), at(marker + 1));
    let producer = ProducerId::new(7).unwrap();
    append_aborted(bytes, &AbortedTransaction { producer, first, marker, last_stable });
}

const SPOILED: [(&str, Spoil); 8] = [
    ("empty", Vec::clear),
    ("without its last entry", |bytes| bytes.truncate(bytes.len() - 34)),
    ("cut in an entry", |bytes| bytes.truncate(bytes.len() - 5)),
    ("of another version", |bytes| bytes[1] = 1),
    ("with another producer", |bytes| bytes[9] ^= 1),
    ("with another beginning", |bytes| bytes[17] ^= 1),
    ("with another marker", |bytes| bytes[25] ^= 64),
    ("with what the log does not have", |bytes| with_another(bytes, 1_000)),
];

#[test]
fn whatever_became_of_kafkas_index_it_is_right_when_we_stop() {
    let disk: Arc<dyn Disk> = Arc::new(PosixDisk::new(SyncThread::Never));
    let spoiled = SPOILED.map(|(what, spoil)| ("clean-1", what, Some(spoil)));
    let missing = ["clean-1", "killed-1"].map(|which| (which, "missing", None));
    for (which, what, spoil) in spoiled.into_iter().chain(missing) {
        let kept = tempfile::tempdir().unwrap();
        unpack_directory(which, kept.path());
        let path = file_path(&kept.path().join("transactions-0"), at(0), FileKind::AbortedIndex);
        let right = std::fs::read(&path).unwrap();
        assert!(right.len() > 34);
        match spoil {
            Some(spoil) => {
                let mut bytes = right.clone();
                spoil(&mut bytes);
                std::fs::write(&path, bytes).unwrap();
            }
            None => std::fs::remove_file(&path).unwrap(),
        }
        let (store, _) = open(&disk, kept.path());
        store.close(serde_json::Map::new(), None).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), right, "{which}, {what}");
    }
}

/// Writes transactions as a leader of ours would pass them on, three batches each, every third aborted.
struct Leader {
    next: i64,
    sequence: i32,
    aborted: Vec<AbortedTransaction>,
}

impl Leader {
    const fn new() -> Self {
        Self { next: 0, sequence: 0, aborted: Vec::new() }
    }

    fn transact(&mut self, log: &Log, number: i64) {
        let (producer, epoch_0) = (ProducerId::new(50).unwrap(), ProducerEpoch::new(0).unwrap());
        let first = at(self.next);
        let mut batches = Vec::new();
        for _ in 0..2 {
            let mut builder = BatchBuilder::new(Compression::None)
                .base_offset(at(self.next))
                .leader_epoch(epoch(0))
                .producer(producer, epoch_0, Sequence::new(self.sequence).unwrap())
                .transactional();
            builder.push(Some(Timestamp::from_millis(1)), None, Some(&[7; 80]), &[]).unwrap();
            batches.push(builder.finish().unwrap());
            self.next += 1;
            self.sequence += 1;
        }
        let end = if number % 3 == 0 { TransactionEnd::Abort } else { TransactionEnd::Commit };
        let marker = transaction_marker(end, producer, epoch_0, 0, Timestamp::from_millis(1)).unwrap();
        let mut marker = marker.to_vec();
        marker[..8].copy_from_slice(&self.next.to_be_bytes());
        marker[12..16].copy_from_slice(&0_i32.to_be_bytes());
        batches.push(marker.into());
        if end == TransactionEnd::Abort {
            let (marker, last_stable) = (at(self.next), at(self.next + 1));
            self.aborted.push(AbortedTransaction { producer, first, marker, last_stable });
        }
        self.next += 1;
        for batch in batches {
            log.append_replicated(&replicated(&[batch]), now(1)).unwrap();
        }
    }
}

/// All that the index files of the log say.
fn indexed(disk: &SimulatedDisk) -> Vec<AbortedTransaction> {
    let mut found = Vec::new();
    for path in index_files(disk) {
        let (base, _) = parse_file_name(path.file_name().unwrap().to_str().unwrap()).unwrap();
        found.extend(decode_aborted(&disk.contents(&path).unwrap(), base).unwrap());
    }
    found
}

fn index_files(disk: &SimulatedDisk) -> Vec<PathBuf> {
    let entries = disk.list(Path::new(LOG)).unwrap();
    let names = entries.into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(".txnindex")).map(|name| Path::new(LOG).join(name)).collect()
}

fn log_of(disk: &SimulatedDisk) -> (Store, Log) {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let config = StoreConfig { log: small_segments(1_000), ..StoreConfig::default() };
    let (store, _) = open_with(&shared, Path::new(DATA), config);
    let log = store.log(&name("t-0"));
    let log =
        log.unwrap_or_else(|| store.create_log(&name("t-0"), None, small_segments(1_000), now(0)).unwrap());
    (store, log)
}

/// A log of several segments, stopped.
fn stopped() -> (SimulatedDisk, Vec<AbortedTransaction>) {
    let disk = SimulatedDisk::new(90);
    let (store, log) = log_of(&disk);
    let mut leader = Leader::new();
    for number in 0..14 {
        leader.transact(&log, number);
        turn(&store);
    }
    assert!(log.segment_count() > 4);
    store.close(serde_json::Map::new(), None).unwrap();
    (disk, leader.aborted)
}

/// Does all jobs of a kind that are due, each when the one before is done; gives how many there were, and how many files they have written.
fn run_due(store: &Store) -> (usize, usize) {
    let (mut jobs, mut rewritten) = (0, 0);
    loop {
        let due = store.due_jobs(now(1));
        let due: Vec<Job> = due.into_iter().filter(|job| job.kind() == JobKind::IndexAborted).collect();
        assert!(due.len() <= 1, "others are not to wait for all of them");
        let Some(job) = due.into_iter().next() else { return (jobs, rewritten) };
        let done = job.run(store);
        let JobDone::AbortedIndexed { rewritten: is_rewritten, .. } = done else { panic!("{done:?}") };
        rewritten += usize::from(is_rewritten);
        jobs += 1;
    }
}

#[test]
fn markers_that_a_follower_appends_are_in_the_index_of_their_segment_when_it_stops() {
    let (disk, aborted) = stopped();
    assert_eq!(indexed(&disk), aborted);
    assert!(index_files(&disk).len() > 2, "and segments without aborted transactions have none");
    let (store, log) = log_of(&disk);
    assert_eq!(run_due(&store), (0, 0), "the mark has proved them");
    assert_eq!(log.written(), at(42));
    store.close(serde_json::Map::new(), None).unwrap();
    assert_eq!(indexed(&disk), aborted);
}

#[test]
fn one_that_somebody_takes_away_or_changes_behind_our_mark_is_written_anew_by_jobs() {
    for (what, spoil) in SPOILED {
        let (disk, aborted) = stopped();
        let sealed = index_files(&disk)[1].clone();
        let mut bytes = disk.contents(&sealed).unwrap();
        spoil(&mut bytes);
        let file = disk.open(&sealed, Open::Write).unwrap();
        file.set_size(0).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        let (store, log) = log_of(&disk);
        let (jobs, rewritten) = run_due(&store);
        assert_eq!((jobs, rewritten), (log.segment_count() - 1, 1), "{what}: every segment that is sealed");
        assert_eq!(indexed(&disk), aborted, "{what}");
        drop(store);
        // A kill leaves no proof, and what is right stays as it is.
        let (store, _) = log_of(&disk);
        assert_eq!(run_due(&store).1, 0, "{what}");
    }
}

#[test]
fn a_marker_in_damage_takes_nothing_from_the_index() {
    let (disk, aborted) = stopped();
    let sealed = index_files(&disk)[1].clone();
    let marker = decode_aborted(&disk.contents(&sealed).unwrap(), Offset::ZERO).unwrap()[0].marker;
    let log_file = sealed.with_extension("log");
    let bytes = disk.contents(&log_file).unwrap();
    let at_marker = bytes.windows(8).position(|eight| eight == marker.value().to_be_bytes()).unwrap();
    let file = disk.open(&log_file, Open::Write).unwrap();
    // Its length, so that nothing behind it is found before somebody looks for it.
    file.write_all_at(&[0x7f], at_marker as u64 + 8).unwrap();
    disk.remove_file(&Path::new(DATA).join(".kafka_cleanshutdown")).unwrap();
    let (store, log) = log_of(&disk);
    run_due(&store);
    for job in store.due_jobs(now(2)) {
        job.run(&store);
    }
    assert_eq!(log.damaged().len(), 1);
    assert_eq!(indexed(&disk), aborted, "what cannot be read may be what it speaks of");
    store.close(serde_json::Map::new(), None).unwrap();
    assert_eq!(indexed(&disk), aborted);
    let mark = disk.contents(&Path::new(DATA).join(".kafka_cleanshutdown")).unwrap();
    assert!(String::from_utf8(mark).unwrap().contains("\"aborted_crc\":null"), "nothing is proved");
}

/// What a reader of committed records is given of the batch at an offset, however little that is.
fn read_committed(store: &Store, log: &Log, from: Offset) -> Result<Vec<AbortedTransaction>, ReadError> {
    let read = match log.read_committed(from, log.written(), 1, true)? {
        Read::Cold(asked) => {
            let JobDone::Read { result, .. } = Job::ColdRead(asked).run(store) else { panic!("a cold read") };
            result?
        }
        read @ (Read::Records(_) | Read::Empty) => read,
    };
    let Read::Records(records) = read else { panic!("there are records") };
    Ok(records.aborted)
}

#[test]
fn a_marker_that_cannot_be_read_leaves_no_aborted_record_standing() {
    // Its CRC, its value, its producer, and the bit that makes it a marker.
    for (at_byte, flip) in [(17, 1), (75, 1), (50, 1), (22, 0x20)] {
        let (disk, aborted) = stopped();
        let one = aborted[1];
        let entries = disk.list(Path::new(LOG)).unwrap();
        let files = entries.iter().filter_map(|entry| parse_file_name(&entry.name));
        let places = files.filter(|(_, kind)| *kind == FileKind::Log).filter_map(|(base, kind)| {
            let path = file_path(Path::new(LOG), base, kind);
            let bytes = disk.contents(&path).unwrap();
            let place =
                scan(&bytes, 0).map(Result::unwrap).find(|(_, b)| b.header().base_offset == one.marker);
            place.map(|(position, _)| (path, base, position))
        });
        let (path, segment, position) = places.collect::<Vec<_>>().remove(0);
        let at_byte = position + at_byte;
        let old = disk.contents(&path).unwrap()[usize::try_from(at_byte).unwrap()];
        disk.open(&path, Open::Write).unwrap().write_all_at(&[old ^ flip], at_byte).unwrap();
        let (store, log) = log_of(&disk);
        assert_eq!(
            read_committed(&store, &log, aborted[0].first).unwrap(),
            [aborted[0]],
            "what is before it"
        );
        for what in ["not known yet", "known"] {
            let refused = read_committed(&store, &log, one.first).unwrap_err();
            assert!(matches!(refused, ReadError::Damaged { .. }), "{what}: {refused}");
            Job::Examine { log: log.id(), segment }.run(&store);
            assert_eq!(log.damaged().len(), 1, "byte {at_byte}");
        }
        let behind = aborted.iter().find(|other| other.first > one.marker).unwrap();
        assert_eq!(read_committed(&store, &log, behind.first).unwrap(), [*behind], "what is behind it");
        store.close(serde_json::Map::new(), None).unwrap();
        assert_eq!(indexed(&disk), aborted, "and nothing is taken from the index");
    }
}

#[test]
fn a_beginning_in_damage_takes_nothing_from_the_index_of_the_segment_behind_it() {
    let (disk, aborted) = stopped();
    let entries = disk.list(Path::new(LOG)).unwrap();
    let files: Vec<(Offset, FileKind)> = entries.iter().filter_map(|it| parse_file_name(&it.name)).collect();
    let of_kind = |kind| files.iter().filter(move |file| file.1 == kind).map(|file| file.0);
    let bases: Vec<Offset> = of_kind(FileKind::Log).collect();
    let segment_of = |offset: Offset| *bases.iter().filter(|base| **base <= offset).max().unwrap();
    let spans = |one: &&AbortedTransaction| segment_of(one.first) != segment_of(one.marker);
    let spanning = aborted.iter().find(spans).expect("one that ends in the segment behind");
    // What was open in front of a segment is known from the batches alone.
    for base in of_kind(FileKind::Snapshot) {
        disk.remove_file(&file_path(Path::new(LOG), base, FileKind::Snapshot)).unwrap();
    }
    let path = file_path(Path::new(LOG), segment_of(spanning.first), FileKind::Log);
    let bytes = disk.contents(&path).unwrap();
    let begin = bytes.windows(8).position(|eight| eight == spanning.first.value().to_be_bytes()).unwrap();
    disk.open(&path, Open::Write).unwrap().write_all_at(&[0x7f], begin as u64 + 8).unwrap();
    disk.remove_file(&Path::new(DATA).join(".kafka_cleanshutdown")).unwrap();
    let (store, log) = log_of(&disk);
    run_due(&store);
    assert_eq!(log.damaged().len(), 1);
    assert_eq!(indexed(&disk), aborted);
    store.close(serde_json::Map::new(), None).unwrap();
    assert_eq!(indexed(&disk), aborted);
}

#[test]
fn what_is_cut_or_deleted_is_not_in_the_index_at_the_stop() {
    let (disk, aborted) = stopped();
    let (store, log) = log_of(&disk);
    let AbortedTransaction { first: open_from, marker: cut, .. } = aborted[3];
    let done = Job::Truncate { log: log.id(), to: cut }.run(&store);
    assert!(matches!(done, JobDone::Truncated { end, .. } if end == cut), "{done:?}");
    let start = aborted[2].first;
    let retention = LogConfig { retention_bytes: Some(1_000), ..small_segments(1_000) };
    store.set_config(log.id(), retention).unwrap();
    let done = Job::Retention { log: log.id(), ceiling: start, now: now(2) }.run(&store);
    assert!(matches!(done, JobDone::Retained { segments: 1.., .. }), "{done:?}");
    let mut leader = Leader { next: cut.value(), sequence: 100, aborted: Vec::new() };
    leader.transact(&log, 3);
    turn(&store);
    let start = log.start();
    store.close(serde_json::Map::new(), None).unwrap();
    let left = aborted.into_iter().filter(|one| one.marker >= start && one.marker < cut);
    let mut expected: Vec<_> = left.collect();
    // The one that lost its marker goes on until the next one.
    expected.extend(leader.aborted.iter().map(|one| AbortedTransaction { first: open_from, ..*one }));
    assert_eq!(indexed(&disk), expected);
}
