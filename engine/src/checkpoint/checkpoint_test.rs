//! Kafka's small files as Kafka wrote them, our guards, and damage to any byte.

use std::path::Path;

use super::*;
use crate::disk::{Disk, Open, PosixDisk, SyncThread};
use crate::state::{EpochHistory, EpochStart};
use crate::units::{LeaderEpoch, NodeId, Offset, TopicId, TopicPartition};

fn at(offset: i64) -> Offset {
    Offset::new(offset).unwrap()
}

fn name(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition).unwrap()
}

fn offsets(entries: &[(&str, i32, i64)]) -> OffsetCheckpoint {
    entries.iter().map(|(topic, partition, offset)| (name(topic, *partition), at(*offset))).collect()
}

fn unguarded<T>(value: T) -> Reading<T> {
    Reading::Known { value, guarded: false }
}

fn damaged<T: std::fmt::Debug>(reading: &Reading<T>) -> bool {
    matches!(reading, Reading::Damaged { .. })
}

/// Every file that differs from this one in a byte, or lacks its end.
fn damages(bytes: &[u8]) -> impl Iterator<Item = (String, Vec<u8>)> {
    let flips = (0..bytes.len()).flat_map(move |at| {
        (1..=255u8).map(move |flip| {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= flip;
            (format!("byte {at} xor {flip}"), damaged)
        })
    });
    let cuts = (1..bytes.len()).map(move |length| (format!("cut to {length}"), bytes[..length].to_vec()));
    let removals = (0..bytes.len()).map(move |at| {
        let mut damaged = bytes.to_vec();
        damaged.remove(at);
        (format!("without byte {at}"), damaged)
    });
    flips.chain(cuts).chain(removals)
}

const RECOVERY_POINTS_FILE: &[u8] =
    include_bytes!("../../testdata/checkpoint/recovery-point-offset-checkpoint");
const LOG_STARTS_FILE: &[u8] = include_bytes!("../../testdata/checkpoint/log-start-offset-checkpoint");
const EPOCHS_FILE: &[u8] = include_bytes!("../../testdata/checkpoint/leader-epoch-checkpoint");
const METADATA_FILE: &[u8] = include_bytes!("../../testdata/checkpoint/partition.metadata");
const PROPERTIES_FILE: &[u8] = include_bytes!("../../testdata/checkpoint/meta.properties");
const MARK_FILE: &[u8] = include_bytes!("../../testdata/checkpoint/kafka_cleanshutdown");

#[test]
fn kafkas_offset_checkpoints_are_read() {
    let known = decode_offsets(RECOVERY_POINTS_FILE).known().unwrap();
    assert_eq!(known.len(), 11);
    assert_eq!(known[&name("idempotent", 1)], at(20));
    assert_eq!(known[&name("torn", 0)], at(600));
    assert_eq!(decode_offsets(LOG_STARTS_FILE), unguarded(offsets(&[("raised", 0, 23)])));
    assert_eq!(decode_offsets(b"0\n0\n"), unguarded(OffsetCheckpoint::new()));
    assert_eq!(decode_offsets(b""), Reading::Missing, "as Kafka makes it before the first checkpoint");
}

#[test]
fn our_offset_checkpoints_are_guarded() {
    for value in [offsets(&[]), offsets(&[("a", 0, 0)]), offsets(&[("b", 12, i64::MAX), ("a-b", 3, 7)])] {
        let text = encode_offsets(&value);
        assert_eq!(decode_offsets(text.as_bytes()), Reading::Known { value, guarded: true }, "{text}");
    }
    assert!(encode_offsets(&offsets(&[("a", 0, 5)])).starts_with("0\n2\n__highwater_guard 0 "));
}

#[test]
fn any_damage_to_a_guarded_offset_checkpoint_is_noticed() {
    for value in [offsets(&[]), offsets(&[("orders", 0, 120), ("orders", 1, 7), ("x", 0, 0)])] {
        for (what, bytes) in damages(encode_offsets(&value).as_bytes()) {
            let reading = decode_offsets(&bytes);
            assert!(damaged(&reading), "{what}: {reading:?} from {:?}", String::from_utf8_lossy(&bytes));
        }
    }
}

#[test]
fn a_checkpoint_that_kafka_rewrote_is_believed_without_its_guard() {
    let ours = encode_offsets(&offsets(&[("a", 0, 5)]));
    assert!(damaged(&decode_offsets(
        ours.lines().filter(|line| !line.contains("guard")).collect::<Vec<_>>().join("\n").as_bytes()
    )));
    assert_eq!(decode_offsets(b"0\n1\na 0 6\n"), unguarded(offsets(&[("a", 0, 6)])));
}

#[test]
fn offset_checkpoints_without_a_guard_are_parsed_strictly() {
    let damage = |text: &str| match decode_offsets(text.as_bytes()) {
        Reading::Damaged { why } => why,
        other @ (Reading::Known { .. } | Reading::Missing) => panic!("{text:?} is {other:?}"),
    };
    assert_eq!(damage("1\n0\n"), Damage::Version { version: "1".to_owned() });
    assert_eq!(damage("0\n2\na 0 1\n"), Damage::Count { announced: "2".to_owned(), found: 1 });
    assert_eq!(damage("0\n0\na 0 1\n"), Damage::Count { announced: "0".to_owned(), found: 1 });
    assert_eq!(damage("0\n1\na 0 1"), Damage::Cut);
    assert_eq!(damage("0\n"), Damage::Cut);
    assert_eq!(damage("0"), Damage::Cut);
    assert_eq!(damage("\n"), Damage::Version { version: String::new() });
    assert_eq!(damage("0\n2\na 0 1\na 0 2\n"), Damage::Contradiction { line: 4 });
    for line in [
        "a 0",
        "a 0 1 2",
        "a  0 1",
        " a 0 1",
        "a 0 1 ",
        "a 0 -1",
        "a -1 1",
        "a 0 x",
        "a x 1",
        "a 0 01",
        "a 0 +1",
        "a 0 1\r",
        "a/b 0 1",
        "a 0 9223372036854775808",
        "",
        "a\t0\t1",
    ] {
        assert_eq!(damage(&format!("0\n1\n{line}\n")), Damage::Line { line: 3 }, "{line:?}");
    }
    assert_eq!(decode_offsets(&[0xff, b'\n']), Reading::Damaged { why: Damage::NotText });
    assert_eq!(damage(&format!("0\n1\n{GUARD_TOPIC} 0 x\n")), Damage::GuardLine);
    assert_eq!(damage(&format!("0\n1\n{GUARD_TOPIC} 1 7\n")), Damage::GuardLine);
    assert!(matches!(damage(&format!("0\n1\n{GUARD_TOPIC} 0 7\n")), Damage::Guard { stored: 7, .. }));
}

#[test]
fn kafkas_epoch_checkpoint_is_read_and_written() {
    let starts = [(0, 0), (1, 15), (2, 20), (3, 35), (7, 40)];
    let history = EpochHistory::from_starts(
        starts.map(|(epoch, start)| EpochStart { epoch: LeaderEpoch::new(epoch).unwrap(), start: at(start) }),
    );
    assert_eq!(decode_epochs(EPOCHS_FILE), unguarded(history.clone()));
    assert_eq!(encode_epochs(&history).as_bytes(), EPOCHS_FILE);
    assert_eq!(decode_epochs(b""), Reading::Missing);
    assert_eq!(decode_epochs(b"0\n0\n"), unguarded(EpochHistory::default()));
}

#[test]
fn an_epoch_checkpoint_that_does_not_ascend_is_damaged() {
    for text in ["0\n2\n1 5\n1 6\n", "0\n2\n1 5\n2 5\n", "0\n2\n2 5\n1 6\n", "0\n2\n1 5\n2 4\n"] {
        let reading = decode_epochs(text.as_bytes());
        assert_eq!(reading, Reading::Damaged { why: Damage::Contradiction { line: 4 } }, "{text:?}");
    }
    for text in ["0\n1\n1\n", "0\n1\n-1 0\n", "0\n1\n0 -1\n", "0\n1\n0 0 0\n", "0\n1\n2147483648 0\n"] {
        assert_eq!(
            decode_epochs(text.as_bytes()),
            Reading::Damaged { why: Damage::Line { line: 3 } },
            "{text:?}"
        );
    }
}

#[test]
fn partition_metadata_is_kafkas() {
    let id = TopicId::parse("uU_DMDUASiqA71MGNx3ZxQ").unwrap();
    assert_eq!(decode_partition_metadata(METADATA_FILE), unguarded(id));
    assert_eq!(encode_partition_metadata(id).as_bytes(), METADATA_FILE);
    assert_eq!(decode_partition_metadata(&[METADATA_FILE, b"\n"].concat()), unguarded(id));
    for text in [
        "",
        "version: 0",
        "version: 1\ntopic_id: uU_DMDUASiqA71MGNx3ZxQ",
        "version: 0\ntopic_id:uU_DMDUASiqA71MGNx3ZxQ",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        "version: 0\ntopic_id: uU_DMDUASiqA71MGNx3ZxQ\n\n",
    ] {
        assert!(damaged(&decode_partition_metadata(text.as_bytes())), "{text:?}");
    }
    for length in 0..METADATA_FILE.len() {
        assert!(damaged(&decode_partition_metadata(&METADATA_FILE[..length])), "cut to {length}");
    }
}

#[test]
fn meta_properties_are_kafkas() {
    let known = decode_properties(PROPERTIES_FILE).known().unwrap();
    assert_eq!(known.node, NodeId::new(1).unwrap());
    assert_eq!(known.cluster, "4L6g3nShT-eMCtK--X86sw");
    assert_eq!(known.directory, TopicId::parse("kAEfKAP5CL7khVu1hGijzQ"));
    assert!(known.others.is_empty());
    let strange = [("controller kind".to_owned(), "a=b:\\ \n\u{e4}\u{1f980}!".to_owned())];
    let value = MetaProperties { others: strange.into(), ..known };
    let text = encode_properties(&value);
    assert!(text.is_ascii(), "{text}");
    assert_eq!(text.lines().count(), 6, "{text}");
    let surrogates = decode_properties(text.as_bytes());
    assert_eq!(surrogates, unguarded(value));
}

#[test]
fn meta_properties_that_do_not_name_a_node_are_damaged() {
    for text in [
        "",
        "#\n",
        "version=1\nnode.id=1\n",
        "version=1\ncluster.id=x\n",
        "version=1\ncluster.id=\nnode.id=1\n",
        "version=0\nnode.id=1\ncluster.id=x\n",
        "version=1\nnode.id=-1\ncluster.id=x\n",
        "version=1\nnode.id=1\ncluster.id=x",
        "version=1\nnode.id=1\nnode.id=2\ncluster.id=x\n",
        "version=1\nnode.id=1\ncluster.id=x\ndirectory.id=short\n",
        "version=1\nnode.id=1\ncluster.id=x\nnonsense\n",
        "version=1\nnode.id=1\ncluster.id=x\\\n",
    ] {
        assert!(damaged(&decode_properties(text.as_bytes())), "{text:?}");
    }
}

fn mark() -> CleanMark {
    let orders = CleanPartition {
        end: at(120),
        last_batch_crc: Some(0xbeef),
        log_bytes: 9000,
        index_crc: Some(7),
        aborted_crc: Some(0),
    };
    let empty =
        CleanPartition { end: at(0), last_batch_crc: None, log_bytes: 0, index_crc: None, aborted_crc: None };
    let extra = serde_json::json!({"suspect": false, "session": 7});
    CleanMark {
        broker_epoch: Some(453),
        facts: Some(CleanFacts {
            partitions: [("orders-0".to_owned(), orders), ("x-1".to_owned(), empty)].into(),
            extra: extra.as_object().unwrap().clone(),
        }),
    }
}

#[test]
fn kafkas_clean_mark_is_read_and_proves_nothing_about_the_logs() {
    let value = CleanMark { broker_epoch: Some(453), facts: None };
    assert_eq!(decode_clean_mark(MARK_FILE), unguarded(value));
    let nobody = unguarded(CleanMark::default());
    assert_eq!(decode_clean_mark(br#"{"version":0,"brokerEpoch":-1}"#), nobody);
    for text in [
        "",
        "{",
        "[]",
        r#"{"version":1,"brokerEpoch":3}"#,
        r#"{"version":0}"#,
        r#"{"version":0,"brokerEpoch":"3"}"#,
    ] {
        assert!(damaged(&decode_clean_mark(text.as_bytes())), "{text:?}");
    }
}

#[test]
fn our_clean_mark_carries_its_facts_and_any_damage_to_it_is_noticed() {
    let text = encode_clean_mark(&mark());
    assert_eq!(decode_clean_mark(text.as_bytes()), Reading::Known { value: mark(), guarded: true });
    let facts = mark().facts.unwrap();
    assert_eq!(facts.partition(&name("orders", 0)).unwrap().end, at(120));
    assert_eq!(facts.partition(&name("orders", 1)), None);
    for (what, bytes) in damages(text.as_bytes()) {
        let reading = decode_clean_mark(&bytes);
        let same = matches!(&reading, Reading::Known { value, guarded: true } if *value == mark());
        assert!(same || damaged(&reading), "{what}: {reading:?} from {:?}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn files_are_replaced_and_read_back() {
    let root = tempfile::tempdir().unwrap();
    let disk = PosixDisk::new(SyncThread::Never);
    let path = root.path().join(HIGH_WATERMARKS);
    assert_eq!(read_offsets(&disk, &path).unwrap(), Reading::Missing);
    std::fs::write(root.path().join(format!("{HIGH_WATERMARKS}.tmp")), "left over, and longer than the next")
        .unwrap();
    for value in [offsets(&[("a", 0, 1), ("b", 0, 2)]), offsets(&[("a", 0, 3)])] {
        write_offsets(&disk, &path, &value).unwrap();
        assert_eq!(read_offsets(&disk, &path).unwrap(), Reading::Known { value, guarded: true });
    }
    assert_eq!(disk.list(root.path()).unwrap().len(), 1, "nothing is left beside it");
}

#[test]
fn each_file_comes_back_as_it_was_written() {
    let root = tempfile::tempdir().unwrap();
    let disk = PosixDisk::new(SyncThread::Never);
    let path = |name: &str| root.path().join(name);
    let history = decode_epochs(EPOCHS_FILE).known().unwrap();
    for certainty in [Certainty::Written, Certainty::Durable] {
        write_epochs(&disk, &path(LEADER_EPOCH_CHECKPOINT), &history, certainty).unwrap();
        file::renew_file(&disk, &path(LEADER_EPOCH_CHECKPOINT)).unwrap();
        assert_eq!(read_epochs(&disk, &path(LEADER_EPOCH_CHECKPOINT)).unwrap(), unguarded(history.clone()));
    }
    let id = TopicId::new([7; 16]).unwrap();
    write_partition_metadata(&disk, &path(PARTITION_METADATA), id).unwrap();
    assert_eq!(read_partition_metadata(&disk, &path(PARTITION_METADATA)).unwrap(), unguarded(id));
    let properties = decode_properties(PROPERTIES_FILE).known().unwrap();
    write_properties(&disk, &path(META_PROPERTIES), &properties).unwrap();
    assert_eq!(read_properties(&disk, &path(META_PROPERTIES)).unwrap(), unguarded(properties));
    write_clean_mark(&disk, &path(CLEAN_MARK), &mark()).unwrap();
    let known = Reading::Known { value: mark(), guarded: true };
    assert_eq!(read_clean_mark(&disk, &path(CLEAN_MARK)).unwrap(), known);
    for _ in 0..2 {
        remove_clean_mark(&disk, &path(CLEAN_MARK)).unwrap();
        assert_eq!(read_clean_mark(&disk, &path(CLEAN_MARK)).unwrap(), Reading::Missing);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_and_one_too_large_is_damaged() {
    let root = tempfile::tempdir().unwrap();
    let disk = PosixDisk::new(SyncThread::Never);
    assert!(read_offsets(&disk, root.path()).is_err(), "a directory");
    let path = root.path().join(LOG_STARTS);
    disk.open(&path, Open::Create).unwrap().set_size(CHECKPOINT_BYTES_MAX + 1).unwrap();
    let why = Damage::TooLarge { bytes: CHECKPOINT_BYTES_MAX + 1 };
    assert_eq!(read_offsets(&disk, &path).unwrap(), Reading::Damaged { why });
    assert!(replace_file(&disk, Path::new("/"), b"", Certainty::Durable).is_err());
}
