//! Segments that are missing, overlap, have changed places or names, or are no files: told of, never served as something else, and never
//! a reason to forget what is whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use super::damage_test::{DATA, closed_log, read_beside};
use super::test_support::*;
use super::{LogRefusal, ReadOnlyReadError, ReadOnlyStore, Stop, Store, StoreConfig, StoreOpenError};
use crate::checkpoint::CLEAN_MARK;
use crate::disk::{Disk, Open, PosixDisk, SimulatedDisk, SyncThread};
use crate::log::ReadError;
use crate::recovery::Refusal;
use crate::segment::{FileKind, file_path, parse_file_name};
use crate::units::Offset;

fn bases(disk: &SimulatedDisk) -> Vec<Offset> {
    let files = disk.list(&Path::new(DATA).join("t-0")).unwrap();
    let named = files.iter().filter_map(|file| parse_file_name(&file.name));
    named.filter_map(|(base, kind)| (kind == FileKind::Log).then_some(base)).collect()
}

fn path(base: Offset, kind: FileKind) -> PathBuf {
    file_path(&Path::new(DATA).join("t-0"), base, kind)
}

fn remove_segment(disk: &SimulatedDisk, base: Offset) {
    for kind in FileKind::OF_A_SEGMENT {
        drop(disk.remove_file(&path(base, kind)));
    }
}

fn whole_batches(disk: &SimulatedDisk) -> BTreeMap<i64, Vec<u8>> {
    let shared: Arc<dyn Disk> = Arc::new(disk.fork(1));
    let (store, _) = open(&shared, Path::new(DATA));
    read_beside(&store, &store.log(&name("t-0")).unwrap(), "whole").0
}

/// Opens twice, reads, and checks that what is served is what was written and that the rest is told of; gives that.
fn judge(disk: &SimulatedDisk, all: &BTreeMap<i64, Vec<u8>>, what: &str) -> Vec<(i64, i64)> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut last = None;
    for opening in 0..2 {
        let (store, _) = open(&shared, Path::new(DATA));
        let log = store.log(&name("t-0")).unwrap_or_else(|| panic!("{what}: it does not open"));
        assert_eq!(log.written(), at(48), "{what}, opening {opening}: the log never shrinks");
        let (batches, told) = read_beside(&store, &log, what);
        for (base, bytes) in &batches {
            assert_eq!(all.get(base), Some(bytes), "{what}, opening {opening}: offset {base}");
        }
        for base in all.keys().filter(|base| !batches.contains_key(base)) {
            let is_told = told.iter().any(|(from, until)| from <= base && base < until);
            assert!(is_told, "{what}, opening {opening}: {base} of {told:?}");
        }
        if let Some(last) = last.replace(told.clone()) {
            assert_eq!(last, told, "{what}: the next process knows the same");
        }
    }
    last.unwrap_or_default()
}

fn without_mark(disk: &SimulatedDisk) {
    disk.remove_file(&Path::new(DATA).join(CLEAN_MARK)).unwrap();
}

#[test]
fn a_missing_segment_in_the_middle_is_a_damaged_range() {
    for clean in [true, false] {
        let whole = closed_log(100);
        let all = whole_batches(&whole);
        let bases = bases(&whole);
        for pair in bases.windows(2).skip(1) {
            let disk = whole.fork(2);
            remove_segment(&disk, pair[0]);
            if !clean {
                without_mark(&disk);
            }
            let told = judge(&disk, &all, &format!("without {}, clean: {clean}", pair[0]));
            assert_eq!(told, [(pair[0].value(), pair[1].value())]);
        }
    }
}

#[test]
fn a_missing_first_segment_is_a_damaged_range() {
    for clean in [true, false] {
        let whole = closed_log(100);
        let all = whole_batches(&whole);
        let bases = bases(&whole);
        for missing in 1..bases.len() {
            let disk = whole.fork(2);
            for base in &bases[..missing] {
                remove_segment(&disk, *base);
            }
            if !clean {
                without_mark(&disk);
            }
            // Also for whoever only looks, before anybody has opened it.
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let looker = ReadOnlyStore::open(&shared, Path::new(DATA), StoreConfig::default()).unwrap();
            let log = looker.log(&name("t-0")).unwrap();
            assert_eq!((log.start(), log.end()), (at(0), at(48)));
            for from in [at(0), bases[missing].checked_add(-1).unwrap()] {
                let refused = log.read(from, 1 << 20);
                assert!(
                    matches!(refused, Err(ReadOnlyReadError::Read(ReadError::Damaged { .. }))),
                    "{refused:?}"
                );
            }
            assert_eq!(log.read(bases[missing], 1).unwrap().unwrap().first, bases[missing]);
            let told = judge(&disk, &all, &format!("without the first {missing}, clean: {clean}"));
            assert_eq!(told, [(0, bases[missing].value())]);
        }
    }
}

#[test]
fn segments_that_have_changed_their_names_are_not_served_under_them() {
    for clean in [true, false] {
        let whole = closed_log(101);
        let all = whole_batches(&whole);
        let bases = bases(&whole);
        let disk = whole.fork(2);
        let aside = PathBuf::from(DATA).join("aside");
        disk.rename(&path(bases[0], FileKind::Log), &aside).unwrap();
        disk.rename(&path(bases[1], FileKind::Log), &path(bases[0], FileKind::Log)).unwrap();
        disk.rename(&aside, &path(bases[1], FileKind::Log)).unwrap();
        if !clean {
            without_mark(&disk);
        }
        let told = judge(&disk, &all, &format!("changed names, clean: {clean}"));
        assert!(!told.is_empty());
    }
}

#[test]
fn bytes_of_another_place_are_not_served_in_theirs() {
    let whole = closed_log(102);
    let all = whole_batches(&whole);
    let bases = bases(&whole);
    let bytes = whole.contents(&path(bases[1], FileKind::Log)).unwrap();
    let size = bytes.len() / 8;
    for (from, to) in [(0, 0), (size, size), (0, 3 * size), (3 * size, 0)] {
        let disk = whole.fork(2);
        // A whole batch of the second segment, with its right CRC, written into the first.
        disk.damage(&path(bases[0], FileKind::Log), to as u64, &bytes[from..from + size]).unwrap();
        let told = judge(&disk, &all, &format!("{from} at {to}"));
        assert_eq!(told.len(), 1, "{from} at {to}");
    }
}

#[test]
fn a_batch_that_is_there_twice_is_served_once() {
    let whole = closed_log(103);
    let all = whole_batches(&whole);
    let bases = bases(&whole);
    let bytes = whole.contents(&path(bases[0], FileKind::Log)).unwrap();
    let size = bytes.len() / 8;
    let disk = whole.fork(2);
    disk.damage(&path(bases[0], FileKind::Log), 3 * size as u64, &bytes[2 * size..3 * size]).unwrap();
    assert_eq!(judge(&disk, &all, "twice"), [(6, 8)]);
}

#[test]
fn a_segment_that_overlaps_another_serves_nothing_twice() {
    for clean in [true, false] {
        let whole = closed_log(104);
        let all = whole_batches(&whole);
        let bases = bases(&whole);
        let bytes = whole.contents(&path(bases[0], FileKind::Log)).unwrap();
        let size = bytes.len() / 8;
        let disk = whole.fork(2);
        // The second half of the first segment again, as a segment of its own.
        let copy = disk.open(&path(at(8), FileKind::Log), Open::Create).unwrap();
        copy.write_all_at(&bytes[4 * size..], 0).unwrap();
        if !clean {
            without_mark(&disk);
        }
        judge(&disk, &all, &format!("overlapping, clean: {clean}"));
    }
}

/// Two logs on a file system, closed cleanly.
fn two_logs() -> (tempfile::TempDir, Arc<dyn Disk>) {
    let kept = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(PosixDisk::new(SyncThread::Never));
    let (store, _) = open(&disk, &kept.path().join("data"));
    for log in ["t-0", "t-1"] {
        let log = store.create_log(&name(log), None, small_segments(300), now(0)).unwrap();
        for _ in 0..12 {
            append(&log, 2);
        }
    }
    turn(&store);
    store.close(serde_json::Map::new(), None).unwrap();
    (kept, disk)
}

#[test]
fn what_is_no_file_is_no_segment_and_its_log_alone_is_left_alone() {
    let directory = |path: &Path| std::fs::create_dir(path).unwrap();
    let link = |path: &Path| std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    let pipe = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    for make in [&directory as &dyn Fn(&Path), &link, &pipe] {
        for (base, kind) in [(0, FileKind::Log), (500, FileKind::Log), (0, FileKind::TimeIndex)] {
            let (kept, disk) = two_logs();
            let data = kept.path().join("data");
            let strange = file_path(&data.join("t-0"), at(base), kind);
            let aside = kept.path().join("aside");
            let replaced = std::fs::rename(&strange, &aside).is_ok();
            make(&strange);
            let (store, report) = open(&disk, &data);
            let [(refused, why)] = &report.refused[..] else { panic!("{report:?}") };
            assert!(
                refused.ends_with("t-0")
                    && matches!(why, LogRefusal::NotUnderstood(Refusal::NotAFile { .. })),
                "{why}"
            );
            let other = store.log(&name("t-1")).unwrap();
            assert_eq!(append(&other, 1).offsets.start(), at(24), "the other log goes on");
            turn(&store);
            store.close(serde_json::Map::new(), None).unwrap();
            drop(std::fs::remove_file(&strange).or_else(|_| std::fs::remove_dir(&strange)));
            if replaced {
                std::fs::rename(&aside, &strange).unwrap();
            }
            let (store, report) = open(&disk, &data);
            assert!(report.refused.is_empty(), "{report:?}");
            assert_eq!(store.log(&name("t-0")).unwrap().written(), at(24), "nothing of it was changed");
        }
    }
}

#[test]
fn a_data_directory_may_be_reached_through_a_link() {
    let (kept, disk) = two_logs();
    let link = kept.path().join("link");
    std::os::unix::fs::symlink(kept.path().join("data"), &link).unwrap();
    let (store, report) = open(&disk, &link);
    assert_eq!((report.stop, report.logs.len()), (Stop::Clean, 2));
    let again = Store::open(Arc::clone(&disk), &kept.path().join("data"), StoreConfig::default(), now(0));
    assert!(matches!(again, Err(StoreOpenError::Lock(_))), "it is one directory");
    append(&store.log(&name("t-0")).unwrap(), 1);
    turn(&store);
}

/// What may lie behind the last batch: parts of one, zeros, old batches with their right CRC, noise.
#[test]
fn garbage_behind_a_log_is_cut_and_every_record_is_there() {
    let whole = closed_log(106);
    let all = whole_batches(&whole);
    let last = *bases(&whole).last().unwrap();
    let bytes = whole.contents(&path(last, FileKind::Log)).unwrap();
    let first = whole.contents(&path(at(0), FileKind::Log)).unwrap();
    let batch = first.len() / 8;
    let mut tails: Vec<Vec<u8>> = (1..batch).map(|length| first[..length].to_vec()).collect();
    tails.extend([1, 17, 18, 61, 4_096, 1 << 20].map(|length| vec![0; length]));
    tails.extend([vec![0xff; 300], vec![0x7f; 5_000], first[..batch].to_vec(), bytes[..batch].to_vec()]);
    for clean in [true, false] {
        for tail in &tails {
            let disk = whole.fork(2);
            if !clean {
                without_mark(&disk);
            }
            let file = disk.open(&path(last, FileKind::Log), Open::Write).unwrap();
            file.write_all_at(tail, bytes.len() as u64).unwrap();
            let index = path(last, FileKind::OffsetIndex);
            let size = disk.contents(&index).unwrap().len() as u64;
            disk.open(&index, Open::Write).unwrap().write_all_at(&[0, 0, 1, 0, 0, 1, 0, 0], size).unwrap();
            let what = format!("{} bytes, {:?}, clean: {clean}", tail.len(), &tail[..tail.len().min(12)]);
            assert!(judge(&disk, &all, &what).is_empty(), "{what}");
            assert_eq!(disk.contents(&path(last, FileKind::Log)).unwrap(), bytes, "{what}");
        }
    }
}

/// Half a header is all that a log has.
#[test]
fn a_log_of_which_nothing_whole_was_written_is_empty() {
    for length in [1, 11, 17, 40, 61] {
        let simulated = SimulatedDisk::new(107);
        let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
        let (store, _) = open(&disk, Path::new(DATA));
        let log = store.create_log(&name("t-0"), None, small_segments(700), now(0)).unwrap();
        append(&log, 2);
        turn(&store);
        drop((log, store));
        let next = simulated.crash_kill(&mut fastrand::Rng::with_seed(107));
        next.open(&path(at(0), FileKind::Log), Open::Write).unwrap().set_size(length).unwrap();
        let next: Arc<dyn Disk> = Arc::new(next);
        let (store, report) = open(&next, Path::new(DATA));
        assert_eq!((report.logs[0].end, report.logs[0].cut_bytes), (at(0), length));
        assert_eq!(append(&store.log(&name("t-0")).unwrap(), 1).offsets.start(), at(0));
    }
}

/// Unknown files are nobody's business.
#[test]
fn strangers_in_the_directories_stay() {
    let disk = closed_log(105);
    let all = whole_batches(&disk);
    let names = ["notes.txt", "t-0/core", "t-0/00000000000000000000.log.bak", "t-0/.nfs0001", "lost+found/x"];
    disk.create_directory(&Path::new(DATA).join("lost+found")).unwrap();
    for stranger in names {
        disk.open(&Path::new(DATA).join(stranger), Open::Create).unwrap().write_all_at(b"mine", 0).unwrap();
    }
    assert!(judge(&disk, &all, "strangers").is_empty());
    for stranger in names {
        assert_eq!(disk.contents(&Path::new(DATA).join(stranger)).unwrap(), b"mine", "{stranger}");
    }
}
