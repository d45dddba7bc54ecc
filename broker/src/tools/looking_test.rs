//! The tools that only look, over a directory that a Kafka has left: nothing in it changes, nobody is in their way, and a whole directory, a
//! partition and a single file are looked at alike.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use highwater_engine::disk::{Disk, PosixDisk, SyncThread};
use highwater_engine::store::{Store, StoreConfig};
use highwater_engine::units::TopicPartition;

use super::cat::{Cat, cat};
use super::dump::{Format, dump};
use super::recover::{Recover, RecoverError, recover};
use super::repair::{Repaired, repair};
use super::verify::{Verdict, Verify, verify};
use crate::clock::Clock;

const PARTITIONS: [&str; 2] = ["codecs-0", "transactions-0"];

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// What a Kafka has left, stopped by nobody.
fn kafkas() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/dump/directory"), directory.path());
    directory
}

fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    found
}

fn verified(path: &Path) -> (Verdict, String) {
    let mut out = Vec::new();
    let what = Verify { path: path.to_owned(), compacted: false, json: true };
    let verdict = verify(&what, Clock::start(), &mut out, None).unwrap();
    (verdict, String::from_utf8(out).unwrap())
}

fn records(path: &Path) -> String {
    let (mut out, mut aside) = (Vec::new(), Vec::new());
    cat(&Cat { path: path.to_owned(), ..Cat::default() }, &mut out, &mut aside).unwrap();
    String::from_utf8(out).unwrap()
}

fn dumped(path: &Path) -> String {
    let mut out = Vec::new();
    dump(path, Format::Json, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Everything that the looking tools say of a directory and of its parts.
fn looks(directory: &Path) -> Vec<String> {
    let mut said = Vec::new();
    let (verdict, text) = verified(directory);
    assert_eq!(verdict, Verdict::Whole, "{text}");
    said.push(text);
    said.push(dumped(directory));
    for partition in PARTITIONS {
        let partition = directory.join(partition);
        let (verdict, text) = verified(&partition);
        assert_eq!(verdict, Verdict::Whole, "{text}");
        said.extend([text, dumped(&partition), records(&partition)]);
        for path in files(&partition).into_keys().filter(|path| path.extension().is_some()) {
            if path.extension().is_some_and(|kind| kind == "metadata" || kind == "tmp") {
                continue;
            }
            let (verdict, text) = verified(&path);
            assert_eq!(verdict, Verdict::Whole, "{text}");
            said.extend([text, dumped(&path)]);
            if path.extension().is_some_and(|kind| kind == "log") {
                said.push(records(&path));
            }
        }
    }
    said
}

fn repaired(directory: &Path) -> Repaired {
    repair(directory, &[], Format::People, Clock::start().now(), &mut Vec::new()).unwrap()
}

#[test]
fn the_tools_that_look_change_nothing_of_what_a_kafka_has_left() {
    let directory = kafkas();
    let before = files(directory.path());
    let said = looks(directory.path());
    assert!(said.len() > 20, "{said:?}");
    assert_eq!(repaired(directory.path()), Repaired::Whole);
    assert_eq!(files(directory.path()), before);
    // The plan of a recovery is made under the lock, whose file a Kafka takes away when it stops.
    let mut out = Vec::new();
    recover(directory.path(), Recover::Show, Format::Json, Clock::start().now(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    for partition in PARTITIONS {
        assert!(text.contains(&format!("\"log\":\"{partition}\"")), "{text}");
    }
    let mut after = files(directory.path());
    after.remove(&directory.path().join(".lock"));
    assert_eq!(after, before);
}

#[test]
fn they_look_beside_the_process_that_has_the_directory_and_only_what_changes_something_is_refused() {
    let directory = kafkas();
    let disk: Arc<dyn Disk> = Arc::new(PosixDisk::new(SyncThread::Never));
    let now = Clock::start().now();
    let store = Store::open(disk, directory.path(), StoreConfig::default(), now).unwrap().store;
    let log = store.log(&TopicPartition::from_directory_name(PARTITIONS[0]).unwrap()).unwrap();
    let before = files(directory.path());
    looks(directory.path());
    assert_eq!(repaired(directory.path()), Repaired::Whole);
    for what in [Recover::Show, Recover::Apply] {
        let refused = recover(directory.path(), what, Format::People, now, &mut Vec::new());
        assert!(matches!(refused, Err(RecoverError::InUse(_))), "{refused:?}");
    }
    assert_eq!(files(directory.path()), before);
    assert!(log.closed().is_none());
    store.close(serde_json::Map::new(), None).unwrap();
    looks(directory.path());
}
