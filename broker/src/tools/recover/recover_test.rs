//! What is shown is what is done; what a controller has to be told is left to a broker.

use std::fs;

use highwater_engine::batch::{BatchBuilder, BatchLimits, Compression, ProducedBatch};
use highwater_engine::log::{LogConfig, Permit, Step};
use highwater_engine::units::{LeaderEpoch, Timestamp};
use serde_json::Value;

use super::*;
use crate::clock::Clock;

fn now() -> Now {
    Clock::start().now()
}

/// A directory with four batches of one record, and its store.
fn place() -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let Opened { store, .. } = open(directory.path(), now()).unwrap();
    let name = TopicPartition::new("topic", 0).unwrap();
    let log = store.create_log(&name, None, LogConfig::default(), now()).unwrap();
    for number in 0..4 {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.push(Some(Timestamp::from_millis(number)), None, Some(b"a value"), &[]).unwrap();
        let batch = ProducedBatch::check(builder.finish().unwrap(), &BatchLimits::default(), now().wall);
        log.append(Permit::new(LeaderEpoch::ZERO), batch.unwrap(), now()).unwrap();
    }
    store.wait(log.ticket(), Step::Written).unwrap();
    (directory, store)
}

fn segment(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("topic-0/00000000000000000000.log")
}

fn recovered(directory: &tempfile::TempDir, what: Recover) -> (Result<(), RecoverError>, String) {
    let mut out = Vec::new();
    let done = recover(directory.path(), what, Format::People, now(), &mut out);
    (done, String::from_utf8(out).unwrap())
}

#[test]
fn a_torn_end_is_shown_and_then_cut() {
    let (directory, store) = place();
    let (done, _) = recovered(&directory, Recover::Apply);
    assert!(matches!(done, Err(RecoverError::InUse(_))), "{done:?}");
    drop(store);
    let bytes = fs::metadata(segment(&directory)).unwrap().len();
    let torn = bytes - 7;
    fs::File::options().write(true).open(segment(&directory)).unwrap().set_len(torn).unwrap();
    let cut = format!("cut segment 0 from {torn} to {} bytes", bytes / 4 * 3);
    let (done, shown) = recovered(&directory, Recover::Show);
    assert!(done.is_ok() && shown.contains(&cut) && !shown.contains("done"), "{done:?} {shown}");
    assert_eq!(fs::metadata(segment(&directory)).unwrap().len(), torn);
    let (done, shown) = recovered(&directory, Recover::Apply);
    assert!(done.is_ok() && shown.contains(&cut) && shown.ends_with("done\n"), "{done:?} {shown}");
    assert_eq!(fs::metadata(segment(&directory)).unwrap().len(), bytes / 4 * 3);
    let (done, shown) = recovered(&directory, Recover::Apply);
    assert!(done.is_ok() && !shown.contains("cut"), "{done:?} {shown}");
}

#[test]
fn what_a_clean_stop_has_left_stays_as_it_is() {
    let (directory, store) = place();
    store.close(serde_json::Map::new(), None).unwrap();
    let mark = fs::read(directory.path().join(".kafka_cleanshutdown")).unwrap();
    let (done, shown) = recovered(&directory, Recover::Apply);
    assert!(done.is_ok() && shown.ends_with("there is nothing to do\n"), "{done:?} {shown}");
    assert_eq!(fs::read(directory.path().join(".kafka_cleanshutdown")).unwrap(), mark);
}

#[test]
fn what_a_controller_has_to_be_told_is_left_to_a_broker() {
    let (directory, store) = place();
    drop(store);
    let mut bytes = fs::read(segment(&directory)).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(segment(&directory), &bytes).unwrap();
    let (done, shown) = recovered(&directory, Recover::Apply);
    assert!(matches!(done, Err(RecoverError::ToBeTold { .. })), "{done:?} {shown}");
    assert_eq!(fs::read(segment(&directory)).unwrap(), bytes);
    let (done, _) = recovered(&directory, Recover::ApplyAlone);
    assert!(done.is_ok(), "{done:?}");
    assert_eq!(fs::read(segment(&directory)).unwrap(), bytes[..bytes.len() / 4 * 3]);
    assert!(
        fs::read_dir(directory.path().join("topic-0"))
            .unwrap()
            .any(|entry| { entry.unwrap().file_name().to_string_lossy().ends_with(".lost") })
    );
}

fn objects(directory: &Path, what: Recover) -> Vec<Value> {
    let mut out = Vec::new();
    recover(directory, what, Format::Json, now(), &mut out).unwrap();
    String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn programs_are_told_the_same_as_people() {
    let (directory, store) = place();
    drop(store);
    let bytes = fs::metadata(segment(&directory)).unwrap().len();
    fs::File::options().write(true).open(segment(&directory)).unwrap().set_len(bytes - 7).unwrap();
    let shown = objects(directory.path(), Recover::Show);
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert_eq!((&shown[0]["stop"], &shown[0]["machine"]), (&"unclean".into(), &"same".into()));
    assert_eq!(
        (&shown[1]["log"], &shown[1]["plan"]["start"], &shown[1]["plan"]["end"]),
        (&"topic-0".into(), &0.into(), &3.into())
    );
    let cut = &shown[1]["plan"]["steps"][0]["CutSegment"];
    assert_eq!((&cut["from_bytes"], &cut["to_bytes"]), (&(bytes - 7).into(), &(bytes / 4 * 3).into()));
    let (_, text) = recovered(&directory, Recover::Show);
    assert!(text.contains(shown[1]["text"].as_str().unwrap()), "{text}");
    let done = objects(directory.path(), Recover::Apply);
    assert_eq!((done.len(), &done[2]["end"]), (3, &"done".into()));
}

#[test]
fn a_part_of_a_data_directory_and_what_is_none_are_refused_and_nothing_is_made_there() {
    let (directory, store) = place();
    store.close(serde_json::Map::new(), None).unwrap();
    let partition = directory.path().join("topic-0");
    let names = |path: &Path| {
        let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let before = names(&partition);
    let refused =
        |path: &Path| recover(path, Recover::Apply, Format::People, now(), &mut Vec::new()).unwrap_err();
    assert!(matches!(refused(&segment(&directory)), RecoverError::Part { what: "a file", .. }));
    assert!(matches!(refused(&partition), RecoverError::Part { .. }));
    assert_eq!(names(&partition), before);
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("notes.txt"), "x").unwrap();
    assert!(matches!(refused(other.path()), RecoverError::NoLogs { .. }));
    assert_eq!(names(other.path()).len(), 1);
    assert!(matches!(refused(&other.path().join("nowhere")), RecoverError::Open(_)));
}
