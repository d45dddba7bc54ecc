//! What is whole is found whole, also beside its writer and after a kill; what was changed is found.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::disk::{Disk, Open, SimulatedDisk};
use crate::segment::{FileKind, file_path, parse_file_name};
use crate::store::Job;
use crate::store::read_only::ReadOnlyStore;
use crate::store::read_only::read_only_test::{DIRECTORY, Writing, config, looker};
use crate::store::test_support::*;

fn seed() -> u64 {
    std::env::var("HIGHWATER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn findings(store: &ReadOnlyStore) -> Vec<Finding> {
    let mut findings = store.verify_files().unwrap();
    for name in store.names().unwrap() {
        findings.extend(store.verify_log(&name, &|_| {}).unwrap().findings);
    }
    findings
}

fn assert_whole(store: &ReadOnlyStore, why: &str) {
    let findings: Vec<String> = findings(store).iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{why}: {findings:#?}");
}

#[test]
fn a_log_is_whole_beside_its_writer_and_after_it() {
    let seed = seed();
    let mut rng = fastrand::Rng::with_seed(seed);
    for run in 0..4 {
        let disk = SimulatedDisk::new(seed + run);
        let mut writing = Writing::begin(&disk);
        for step in 0..60 {
            let action = if rng.u32(..40) == 0 { 9 } else { [rng.u32(0..9), 10][usize::from(rng.bool())] };
            writing.act(action, &mut rng);
            assert_whole(&looker(&disk), &format!("seed {seed} run {run} step {step} action {action}"));
        }
        let (start, end) = (writing.log.start(), writing.log.written());
        writing.store.close(serde_json::Map::new(), None).unwrap();
        assert_whole(&looker(&disk), &format!("seed {seed} run {run} stopped"));
        let verified = looker(&disk).verify_log(&name("t-0"), &|_| {}).unwrap();
        assert_eq!((verified.start, verified.end), (start, end));
    }
}

#[test]
fn a_log_is_whole_after_a_kill_at_any_call() {
    let seed = seed();
    let mut rng = fastrand::Rng::with_seed(seed);
    let base = SimulatedDisk::new(seed);
    let mut writing = Writing::begin(&base);
    for _ in 0..30 {
        writing.act(rng.u32(0..5), &mut rng);
    }
    drop(writing);
    for action in 0..=10 {
        for call in base.next_call().. {
            let disk = base.fork(call);
            let mut writing = Writing::begin(&disk);
            disk.crash_at(disk.next_call() + (call - base.next_call()));
            writing.act(action, &mut fastrand::Rng::with_seed(call));
            let is_over = !disk.is_down();
            let after = disk.crash_kill(&mut rng);
            drop(writing);
            assert_whole(&looker(&after), &format!("seed {seed} action {action} call {call}"));
            if is_over {
                break;
            }
        }
    }
}

/// A log with several sealed segments, everything of it synced, and its writer.
fn sealed(disk: &SimulatedDisk) -> Writing {
    let mut writing = Writing::begin(disk);
    let mut rng = fastrand::Rng::with_seed(5);
    for _ in 0..20 {
        writing.act(0, &mut rng);
    }
    Job::Seal { log: writing.log.id() }.run(&writing.store);
    writing.act(10, &mut rng);
    writing
}

#[test]
fn what_is_damaged_beside_a_writer_is_found_where_it_is() {
    let disk = SimulatedDisk::new(1);
    let writing = sealed(&disk);
    let path = file_path(writing.log.directory(), at(0), FileKind::Log);
    disk.damage(&path, 70, b"other").unwrap();
    let found = findings(&looker(&disk));
    let [finding] = &found[..] else { panic!("{found:?}") };
    assert_eq!((finding.log.as_ref(), finding.position), (Some(&name("t-0")), Some(0)));
    assert_eq!(finding.path, path);
    assert!(matches!(&finding.fault, Fault::NoBatch { expected, .. } if *expected == at(0)), "{finding}");
    assert_eq!(finding.fault.expected_and_found().unwrap().0, "0");
}

#[test]
fn a_segment_that_was_taken_away_is_found_unless_the_log_is_compacted() {
    let disk = SimulatedDisk::new(1);
    let writing = sealed(&disk);
    let entries = disk.list(writing.log.directory()).unwrap();
    let names = entries.iter().filter_map(|entry| parse_file_name(&entry.name));
    let mut bases = names.filter(|(_, kind)| *kind == FileKind::Log).map(|(base, _)| base);
    let base = bases.nth(1).unwrap();
    for kind in FileKind::OF_A_SEGMENT {
        let _ = disk.remove_file(&file_path(writing.log.directory(), base, kind));
    }
    let found = findings(&looker(&disk));
    let is_missing =
        |finding: &Finding| matches!(finding.fault, Fault::Missing { expected, .. } if expected == base);
    assert!(found.iter().any(is_missing), "{found:?}");
    let mut compacted = config();
    compacted.log.cleanup = crate::log::Cleanup::Compact;
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let found = findings(&ReadOnlyStore::open(&shared, Path::new(DIRECTORY), compacted).unwrap());
    assert!(!found.iter().any(is_missing), "{found:?}");
}

#[test]
fn an_index_is_missed_unless_its_segment_is_just_being_deleted() {
    let disk = SimulatedDisk::new(1);
    let writing = sealed(&disk);
    let entries = disk.list(writing.log.directory()).unwrap();
    let names = entries.iter().filter_map(|entry| parse_file_name(&entry.name));
    let bases: Vec<_> = names.filter(|(_, kind)| *kind == FileKind::Log).map(|(base, _)| base).collect();
    let index = |number: usize| file_path(writing.log.directory(), bases[number], FileKind::OffsetIndex);
    disk.remove_file(&index(0)).unwrap();
    assert_whole(&looker(&disk), "retention was interrupted");
    disk.remove_file(&index(1)).unwrap();
    let found = findings(&looker(&disk));
    assert!(
        matches!(&found[..], [Finding { fault: Fault::NoFile, path, .. }] if *path == index(1)),
        "{found:?}"
    );
}

#[test]
fn a_snapshot_that_a_crash_has_torn_is_no_fault_behind_a_later_one() {
    let disk = SimulatedDisk::new(1);
    let writing = sealed(&disk);
    let entries = disk.list(writing.log.directory()).unwrap();
    let names = entries.iter().filter_map(|entry| parse_file_name(&entry.name));
    let snapshots: Vec<_> =
        names.filter(|(_, kind)| *kind == FileKind::Snapshot).map(|(offset, _)| offset).collect();
    let [first, .., last] = snapshots[..] else { panic!("{snapshots:?}") };
    let torn = file_path(writing.log.directory(), first, FileKind::Snapshot);
    disk.open(&torn, Open::Write).unwrap().set_size(1).unwrap();
    assert_whole(&looker(&disk), "there are later ones");
    writing.store.close(serde_json::Map::new(), None).unwrap();
    let end = disk.list(Path::new("/data/t-0")).unwrap();
    let newest = end.iter().filter_map(|entry| parse_file_name(&entry.name));
    let newest = newest.filter(|(_, kind)| *kind == FileKind::Snapshot).map(|(offset, _)| offset).max();
    let newest = newest.filter(|newest| *newest >= last).unwrap();
    let path = file_path(Path::new("/data/t-0"), newest, FileKind::Snapshot);
    disk.open(&path, Open::Write).unwrap().set_size(1).unwrap();
    let found = findings(&looker(&disk));
    assert!(found.iter().any(|finding| finding.path == path), "{found:?}");
}

#[test]
fn a_high_watermark_above_the_end_is_found() {
    let disk = SimulatedDisk::new(1);
    let writing = sealed(&disk);
    let above = writing.log.written().next().unwrap();
    let name = crate::checkpoint::HIGH_WATERMARKS.to_owned();
    Job::OffsetCheckpoint { name, entries: vec![(writing.log.name().clone(), above)] }.run(&writing.store);
    let found = findings(&looker(&disk));
    let [finding] = &found[..] else { panic!("{found:?}") };
    let end = writing.log.written();
    assert_eq!(finding.fault, Fault::BelowHighWatermark { expected: above, found: end });
}

#[test]
fn a_file_is_verified_alone() {
    let disk = SimulatedDisk::new(1);
    let writing = sealed(&disk);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let alone = |path: &Path| ReadOnlyStore::verify_file(&shared, path, 1 << 20, &|_| {}).unwrap();
    let mut verified = 0;
    for entry in disk.list(writing.log.directory()).unwrap() {
        let path = writing.log.directory().join(&entry.name);
        let Some(found) = alone(&path) else { continue };
        assert!(found.findings.is_empty(), "{}: {:?}", entry.name, found.findings);
        verified += 1;
        let bytes = disk.contents(&path).unwrap();
        let Some(last) = bytes.len().checked_sub(1) else { continue };
        disk.damage(&path, last as u64, &[bytes[last] ^ 0x40]).unwrap();
        let damaged = alone(&path).expect("its name is the same");
        // The last digit of an identity, of an epoch's start or of an index without its log says nothing.
        let is_guarded = parse_file_name(&entry.name).is_some();
        assert!(!is_guarded || !damaged.findings.is_empty(), "{}", entry.name);
        disk.damage(&path, last as u64, &bytes[last..]).unwrap();
    }
    assert!(verified > 8, "{verified}");
    disk.open(Path::new("/data/notes.txt"), Open::Create).unwrap();
    assert_eq!(alone(Path::new("/data/notes.txt")), None);
}

#[cfg(feature = "codecs")]
mod of_kafka {
    use super::*;
    use crate::disk::{PosixDisk, SyncThread};
    use crate::store::kafka_test::unpack_directory;

    fn store(directory: &Path) -> ReadOnlyStore {
        let disk: Arc<dyn Disk> = Arc::new(PosixDisk::new(SyncThread::Never));
        ReadOnlyStore::open(&disk, directory, crate::store::StoreConfig::default()).unwrap()
    }

    #[test]
    fn what_a_kafka_has_written_is_whole() {
        for which in ["clean-1", "clean-2", "clean-3", "killed-1", "killed-2", "killed-3"] {
            let kept = tempfile::tempdir().unwrap();
            unpack_directory(which, kept.path());
            assert_whole(&store(kept.path()), which);
        }
    }

    #[test]
    fn each_byte_of_what_was_derived_is_compared() {
        let kept = tempfile::tempdir().unwrap();
        unpack_directory("clean-1", kept.path());
        let files = [
            "rolled-0/00000000000000000018.index",
            "rolled-0/00000000000000000018.timeindex",
            "transactions-0/00000000000000000000.txnindex",
            "idempotent-0/00000000000000000027.snapshot",
            "epochs-0/leader-epoch-checkpoint",
        ];
        let mut survived = Vec::new();
        for file in files {
            let path: std::path::PathBuf = kept.path().join(file);
            let whole = std::fs::read(&path).unwrap();
            assert!(!whole.is_empty(), "{file}");
            // The last epoch has no batch yet.
            let until = if file.ends_with("checkpoint") { whole.len() - "7 40\n".len() } else { whole.len() };
            for number in 0..until {
                let mut bytes = whole.clone();
                // Of a time index any offset of the batch leads to it.
                bytes[number] ^= if file.ends_with("timeindex") { 0x40 } else { 1 };
                std::fs::write(&path, &bytes).unwrap();
                let name = name(file.split('/').next().unwrap());
                if store(kept.path()).verify_log(&name, &|_| {}).unwrap().findings.is_empty() {
                    survived.push((file, number));
                }
            }
            std::fs::write(&path, &whole).unwrap();
        }
        assert_eq!(survived, []);
    }
}
