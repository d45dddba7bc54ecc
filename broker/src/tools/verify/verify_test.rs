//! What is printed, and what comes out of it: beside the process that writes, for a partition's directory and for one file.

use std::fs;

use highwater_engine::batch::{BatchBuilder, BatchLimits, Compression, ProducedBatch};
use highwater_engine::disk::{IoMode, open_disk};
use highwater_engine::log::{Log, LogConfig, Permit, Step};
use highwater_engine::store::Store;
use highwater_engine::units::{LeaderEpoch, Timestamp, TopicPartition};
use serde_json::Value;

use super::*;

fn place() -> (tempfile::TempDir, Store, Log) {
    let directory = tempfile::tempdir().unwrap();
    let disk = open_disk(IoMode::Auto, SyncThread::WhenNeeded).unwrap().disk;
    let now = Clock::start().now();
    let store = Store::open(disk, directory.path(), StoreConfig::default(), now).unwrap().store;
    let name = TopicPartition::new("topic", 0).unwrap();
    let log = store.create_log(&name, None, LogConfig::default(), now).unwrap();
    for number in 0..4 {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.push(Some(Timestamp::from_millis(number)), None, Some(b"a value"), &[]).unwrap();
        let batch = ProducedBatch::check(builder.finish().unwrap(), &BatchLimits::default(), now.wall);
        log.append(Permit::new(LeaderEpoch::ZERO), batch.unwrap(), now).unwrap();
    }
    store.wait(log.ticket(), Step::Durable).unwrap();
    (directory, store, log)
}

fn verified(path: &Path, json: bool) -> (Verdict, Vec<String>) {
    let mut out = Vec::new();
    let what = Verify { path: path.to_owned(), compacted: false, json };
    let verdict = verify(&what, Clock::start(), &mut out, None).unwrap();
    (verdict, String::from_utf8(out).unwrap().lines().map(str::to_owned).collect())
}

#[test]
fn a_directory_is_verified_beside_its_writer_and_damage_is_told() {
    let (directory, _store, _log) = place();
    let partition = directory.path().join("topic-0");
    let segment = partition.join("00000000000000000000.log");
    let bytes = fs::metadata(&segment).unwrap().len();
    let sum = format!("1 logs, 1 segments, 4 batches, {bytes} bytes read");
    for path in [directory.path(), &partition] {
        assert_eq!(verified(path, false), (Verdict::Whole, vec![sum.clone(), "nothing found".to_owned()]));
    }
    let alone = format!("{}: {bytes} bytes, 4 entries", segment.display());
    assert_eq!(verified(&segment, false), (Verdict::Whole, vec![alone, "nothing found".to_owned()]));

    let mut contents = fs::read(&segment).unwrap();
    let size = usize::try_from(bytes / 4).unwrap();
    contents[size + 70] ^= 1;
    fs::write(&segment, contents).unwrap();
    let (verdict, lines) = verified(directory.path(), false);
    assert_eq!((verdict, lines.len()), (Verdict::Found, 3));
    assert!(
        lines[0].contains(&format!("00000000000000000000.log at byte {size}, offsets 1..2: ")),
        "{lines:?}"
    );
    assert_eq!(lines[2], "1 found");
    let (verdict, lines) = verified(directory.path(), true);
    let objects: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((verdict, objects.len()), (Verdict::Found, 3));
    let field = |name: &str| &objects[0][name];
    assert_eq!((field("fault"), field("log")), (&Value::from("no-batch"), &Value::from("topic-0")));
    assert_eq!((field("position"), field("from"), field("until")), (&size.into(), &1.into(), &2.into()));
    assert_eq!((field("expected"), field("found")), (&Value::from("1"), &Value::from("2")));
    assert_eq!(objects[2]["found"], 1);
}

#[test]
fn what_cannot_be_verified_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |path: PathBuf| {
        let what = Verify { path, ..Verify::default() };
        verify(&what, Clock::start(), &mut Vec::new(), None).unwrap_err()
    };
    let notes = directory.path().join("notes.txt");
    fs::write(&notes, "x").unwrap();
    assert!(matches!(refused(notes), VerifyError::Unknown { .. }));
    assert!(matches!(refused(directory.path().join("nowhere")), VerifyError::Io { .. }));
    // The directory above those of the brokers, say.
    assert!(matches!(refused(directory.path().to_owned()), VerifyError::NoLogs { .. }));
    let unnamed = directory.path().join("unnamed");
    fs::create_dir(&unnamed).unwrap();
    fs::write(unnamed.join("00000000000000000000.log"), "").unwrap();
    assert!(matches!(refused(unnamed), VerifyError::NoLogs { .. }));
}
