//! What is given up is shown first and confirmed, and afterwards the log is whole, as long as it was, and says what it lacks.

use std::fs;

use highwater_engine::batch::{BatchBuilder, BatchLimits, Compression, ProducedBatch};
use highwater_engine::log::{LogConfig, Permit, Step};
use highwater_engine::store::Store;
use highwater_engine::units::{LeaderEpoch, ProducerEpoch, ProducerId, Sequence, Timestamp};

use super::*;
use crate::clock::Clock;
use crate::tools::recover::open;
use crate::tools::verify::{Verdict, Verify, verify};

fn now() -> Now {
    Clock::start().now()
}

/// Six batches of two records of one producer, in its transaction, the third of which has rotted.
fn place() -> (tempfile::TempDir, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let store: Store = open(directory.path(), now()).unwrap().store;
    let name = TopicPartition::new("topic", 0).unwrap();
    let log = store.create_log(&name, None, LogConfig::default(), now()).unwrap();
    for number in 0..6 {
        let (id, epoch) = (ProducerId::new(7).unwrap(), ProducerEpoch::new(0).unwrap());
        let sequence = Sequence::new(2 * number).unwrap();
        let mut builder = BatchBuilder::new(Compression::None).producer(id, epoch, sequence).transactional();
        for _ in 0..2 {
            builder.push(Some(Timestamp::from_millis(1)), None, Some(b"a value"), &[]).unwrap();
        }
        let batch = ProducedBatch::check(builder.finish().unwrap(), &BatchLimits::default(), now().wall);
        log.append(Permit::new(LeaderEpoch::ZERO), batch.unwrap(), now()).unwrap();
    }
    store.wait(log.ticket(), Step::Durable).unwrap();
    store.close(serde_json::Map::new(), None).unwrap();
    let path = directory.path().join("topic-0/00000000000000000000.log");
    let mut bytes = fs::read(&path).unwrap();
    let size = bytes.len() / 6;
    bytes[2 * size + 70] ^= 1;
    fs::write(path, &bytes).unwrap();
    let rotten = bytes[2 * size..3 * size].to_vec();
    (directory, rotten)
}

fn repaired(directory: &tempfile::TempDir, ranges: &[&str]) -> (Result<Repaired, RepairError>, String) {
    let ranges: Vec<Range> = ranges.iter().map(|text| text.parse().unwrap()).collect();
    let mut out = Vec::new();
    let done = repair(directory.path(), &ranges, Format::People, now(), &mut out);
    (done, String::from_utf8(out).unwrap())
}

fn verdict(directory: &tempfile::TempDir) -> (Verdict, String) {
    let mut out = Vec::new();
    let what = Verify { path: directory.path().to_owned(), ..Verify::default() };
    let verdict = verify(&what, Clock::start(), &mut out, None).unwrap();
    (verdict, String::from_utf8(out).unwrap())
}

#[test]
fn nothing_is_given_up_unless_it_is_named() {
    let (directory, rotten) = place();
    let path = directory.path().join("topic-0/00000000000000000000.log");
    let before = fs::read(&path).unwrap();
    let (done, shown) = repaired(&directory, &[]);
    assert_eq!(done.unwrap(), Repaired::Damaged);
    let line = format!(
        "topic-0: offsets 4..6, up to 2 records in {0} bytes, at byte {1} of segment 0",
        rotten.len(),
        2 * rotten.len()
    );
    for line in [
        line.as_str(),
        "producer 7: behind it comes sequence 6, and 4 is the next that is known",
        "the transaction of producer 7 from offset 0 on has no end in the log",
        "--give-up topic-0:4..6",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    for other in ["topic-0:4..5", "topic-0:0..2", "other-0:4..6"] {
        let (done, _) = repaired(&directory, &[other]);
        assert!(matches!(done, Err(RepairError::NotDamaged { .. })), "{other}: {done:?}");
    }
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_range_that_is_given_up_is_passed_over_and_the_log_is_as_long_as_it_was() {
    let (directory, rotten) = place();
    assert_eq!(verdict(&directory).0, Verdict::Found);
    let (done, shown) = repaired(&directory, &["topic-0:4..6"]);
    assert_eq!(done.unwrap(), Repaired::Whole, "{shown}");
    assert!(shown.contains("topic-0:4..6 is given up"), "{shown}");
    let (found, shown) = verdict(&directory);
    assert_eq!(found, Verdict::Whole, "{shown}");
    let aside = format!("topic-0/00000000000000000000-{}.lost", 2 * rotten.len());
    assert_eq!(fs::read(directory.path().join(aside)).unwrap(), rotten);
    let note = fs::read_to_string(directory.path().join("highwater-given-up")).unwrap();
    let note: serde_json::Value = serde_json::from_str(&note).unwrap();
    assert_eq!((&note["log"], &note["from"], &note["until"]), (&"topic-0".into(), &4.into(), &6.into()));
    let (done, shown) = repaired(&directory, &[]);
    assert_eq!(done.unwrap(), Repaired::Whole, "{shown}");

    let opened = open(directory.path(), now()).unwrap();
    let log = opened.store.log(&TopicPartition::new("topic", 0).unwrap()).unwrap();
    assert_eq!((log.start().value(), log.written().value()), (0, 12));
    assert!(opened.report.logs[0].plan.damaged.is_empty() && !opened.report.logs[0].suspect);
}

#[test]
fn ranges_are_spelled_as_they_are_shown() {
    let range: Range = "a-topic-3:10..20".parse().unwrap();
    assert_eq!((range.log.to_string(), range.to_string()), ("a-topic-3".into(), "a-topic-3:10..20".into()));
    for wrong in
        ["", "topic-0", "topic-0:10", "topic-0:20..10", "topic-0:5..5", "topic:1..2", "topic-0:-1..2"]
    {
        assert!(wrong.parse::<Range>().is_err(), "{wrong}");
    }
}

fn objects(path: &Path, ranges: &[&str]) -> (Repaired, Vec<serde_json::Value>) {
    let ranges: Vec<Range> = ranges.iter().map(|text| text.parse().unwrap()).collect();
    let mut out = Vec::new();
    let done = repair(path, &ranges, Format::Json, now(), &mut out).unwrap();
    let lines = String::from_utf8(out).unwrap();
    (done, lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn programs_are_told_the_same_as_people() {
    let (directory, rotten) = place();
    let (done, shown) = objects(directory.path(), &[]);
    assert_eq!((done, shown.len()), (Repaired::Damaged, 2), "{shown:?}");
    let field = |name: &str| &shown[0][name];
    assert_eq!((field("log"), field("from"), field("until")), (&"topic-0".into(), &4.into(), &6.into()));
    assert_eq!((field("position"), field("bytes")), (&(2 * rotten.len()).into(), &rotten.len().into()));
    assert_eq!((field("can_be_given_up"), field("touched").as_array().unwrap().len()), (&true.into(), 2));
    assert_eq!(shown[1]["damaged"], 1);
    let (done, shown) = objects(directory.path(), &["topic-0:4..6"]);
    assert_eq!(
        (done, &shown[1]["given_up"], &shown[2]["damaged"]),
        (Repaired::Whole, &true.into(), &0.into())
    );
    assert!(Path::new(shown[1]["kept"].as_str().unwrap()).exists());
    let (done, shown) = objects(directory.path(), &[]);
    assert_eq!((done, shown.len(), &shown[0]["damaged"]), (Repaired::Whole, 1, &0.into()));
}

#[test]
fn one_partition_or_one_file_has_no_repair_of_its_own() {
    let (directory, _) = place();
    let partition = directory.path().join("topic-0");
    for path in [partition.join("00000000000000000000.log"), partition] {
        let done = repair(&path, &[], Format::People, now(), &mut Vec::new());
        assert!(matches!(done, Err(RepairError::Open(RecoverError::Part { .. }))), "{done:?}");
    }
}
