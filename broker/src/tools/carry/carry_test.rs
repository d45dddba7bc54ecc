//! What is carried over is there as it was, whatever happens on the way; and what cannot be is refused before anything is changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{fs, io};

use highwater_engine::batch::{
    BatchBuilder, BatchLimits, Compression, ProducedBatch, ReplicatedBatches, scan,
};
use highwater_engine::checkpoint::{
    HIGH_WATERMARKS, LOG_STARTS, MetaProperties, encode_partition_metadata, write_properties,
};
use highwater_engine::disk::{
    DirectoryLock, Disk, Entry, File, Incarnation, LockError, Open, PosixDisk, Queue, SyncThread,
};
use highwater_engine::log::{Log, LogConfig, Permit, Read, Step};
use highwater_engine::store::{Job, JobDone, OpenReport, Opened, Stop, Store, StoreConfig};
use highwater_engine::units::{
    LeaderEpoch, Monotonic, NodeId, Now, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp, TopicId,
    TopicPartition,
};

use super::*;

const CLUSTER: &str = "a-cluster";

fn now() -> Now {
    Now { monotonic: Monotonic::from_duration(Duration::ZERO), wall: Timestamp::from_millis(1) }
}

fn disk() -> Arc<dyn Disk> {
    Arc::new(PosixDisk::new(SyncThread::Never))
}

fn open(directory: &Path) -> (Store, OpenReport) {
    let Opened { store, report } = Store::open(disk(), directory, StoreConfig::default(), now()).unwrap();
    (store, report)
}

fn name(text: &str) -> TopicPartition {
    TopicPartition::from_directory_name(text).unwrap()
}

fn at(offset: i64) -> Offset {
    Offset::new(offset).unwrap()
}

fn format(directory: &Path, node: i32, cluster: &str) {
    let properties = MetaProperties {
        node: NodeId::new(node).unwrap(),
        cluster: cluster.to_owned(),
        directory: TopicId::new([u8::try_from(node).unwrap(); 16]),
        others: BTreeMap::new(),
    };
    write_properties(disk().as_ref(), &directory.join("meta.properties"), &properties).unwrap();
}

fn topic_id() -> TopicId {
    TopicId::new([7; 16]).unwrap()
}

/// A data directory of ours with empty logs, stopped cleanly.
fn ours(directory: &Path, node: i32, logs: &[&str]) -> PathBuf {
    let (store, _) = open(directory);
    format(directory, node, CLUSTER);
    for log in logs {
        store.create_log(&name(log), Some(topic_id()), LogConfig::default(), now()).unwrap();
    }
    store.close(serde_json::Map::new(), Some(5)).unwrap();
    directory.to_owned()
}

/// A data directory of ours with `t-0`: small segments, a producer, two epochs, and records below its start.
fn ours_with_records(directory: &Path) -> PathBuf {
    ours(directory, 1, &["t-0"]);
    let (store, _) = open(directory);
    let log = store.log(&name("t-0")).unwrap();
    let mut config = LogConfig::default();
    config.segment_bytes_max = 1_000;
    store.set_config(log.id(), config).unwrap();
    for number in 0..40 {
        let epoch = LeaderEpoch::new(if number < 20 { 3 } else { 8 }).unwrap();
        let (id, producer_epoch) = (ProducerId::new(1000).unwrap(), ProducerEpoch::new(0).unwrap());
        let mut builder = BatchBuilder::new(Compression::None).producer(
            id,
            producer_epoch,
            Sequence::new(number * 3).unwrap(),
        );
        for record in 0..3 {
            let value = format!("record {record} of batch {number}");
            builder
                .push(
                    Some(Timestamp::from_millis(100 + i64::from(number))),
                    None,
                    Some(value.as_bytes()),
                    &[],
                )
                .unwrap();
        }
        let batch = ProducedBatch::check(builder.finish().unwrap(), &BatchLimits::default(), now().wall);
        log.append(Permit::new(epoch), batch.unwrap(), now()).unwrap();
        store.wait(log.ticket(), Step::Written).unwrap();
    }
    let raised = Job::RaiseStart { log: log.id(), to: at(31) }.run(&store);
    assert!(matches!(raised, JobDone::StartRaised { .. }), "{raised:?}");
    store.close(serde_json::Map::new(), None).unwrap();
    directory.to_owned()
}

/// A data directory as Kafka leaves it when it has made an empty topic and has stopped.
fn kafkas(directory: &Path, node: i32) -> PathBuf {
    let partition = directory.join("t-0");
    fs::create_dir_all(&partition).unwrap();
    format(directory, node, "kafkas-cluster");
    fs::write(partition.join("partition.metadata"), encode_partition_metadata(topic_id())).unwrap();
    fs::write(partition.join("00000000000000000000.log"), []).unwrap();
    fs::write(directory.join("recovery-point-offset-checkpoint"), "0\n2\nt 0 0\nother 1 17\n").unwrap();
    fs::write(directory.join("replication-offset-checkpoint"), "0\n2\nother 1 17\nt 0 0\n").unwrap();
    fs::write(directory.join(".kafka_cleanshutdown"), r#"{"version":0,"brokerEpoch":445}"#).unwrap();
    directory.to_owned()
}

/// The directory of a Kafka that is in this tree, in a place where a lock may be taken.
fn golden(into: &Path) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/dump/directory");
    copy_tree(&from, into);
    into.to_owned()
}

fn copy_tree(from: &Path, into: &Path) {
    fs::create_dir_all(into).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = into.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Every file with its bytes, without the files that locks are.
fn tree(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(tree(&path));
        } else if path.file_name().unwrap() != ".lock" {
            files.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    files
}

/// All batches from the start on, with their leader epochs made 0.
fn batches(store: &Store, log: &Log) -> Vec<u8> {
    let mut all = Vec::new();
    let mut next = log.start();
    loop {
        let mut read = log.read(next, Offset::MAX, 1 << 20, true).unwrap();
        if let Read::Cold(asked) = read {
            let JobDone::Read { result, .. } = Job::ColdRead(asked).run(store) else { panic!("not a read") };
            read = result.unwrap();
        }
        let Read::Records(records) = read else { return all };
        let mut bytes = records.parts.concat();
        let places: Vec<u64> = scan(&bytes, 0).map(|batch| batch.unwrap().0).collect();
        for place in places {
            let place = usize::try_from(place).unwrap();
            bytes[place + 12..place + 16].fill(0);
        }
        all.extend(bytes);
        next = records.end;
    }
}

/// Start, end and batches of a partition, as the next start of a broker finds them.
fn found(directory: &Path, partition: &str) -> Option<(Offset, Offset, Vec<u8>)> {
    let (store, report) = open(directory);
    assert!(report.refused.is_empty(), "{:?}", report.refused);
    let log = store.log(&name(partition))?;
    assert!(log.damaged().is_empty(), "{:?}", log.damaged());
    Some((log.start(), log.written(), batches(&store, &log)))
}

fn carry(direction: Direction, from: PathBuf, into: &[&Path]) -> Carry {
    let into = into.iter().map(|into| into.to_path_buf()).collect();
    Carry { direction, from, into, replace: false, compacted: false }
}

fn refusal(what: &Carry) -> CarryError {
    CarryPlan::make(what).map(|plan| plan.to_string()).unwrap_err()
}

#[test]
fn a_kafkas_partition_is_imported_into_every_replica_and_nothing_is_changed_before() {
    let place = tempfile::tempdir().unwrap();
    let kafka = golden(&place.path().join("kafka"));
    let targets = [1, 2, 3]
        .map(|node| ours(&place.path().join(format!("data/{node}")), node, &["codecs-0", "other-0"]));
    let into = [targets[0].as_path(), targets[1].as_path(), targets[2].as_path()];
    let what = carry(Direction::Import, kafka.join("codecs-0"), &into);
    let before = tree(place.path());
    let shown = CarryPlan::make(&what).unwrap().to_string();
    assert_eq!(tree(place.path()), before, "a dry run");
    for said in [
        "codecs-0: offsets 0 to 300",
        "broker 3, cluster a-cluster",
        "leader epochs, up to 0",
        "it is empty there",
    ] {
        assert!(shown.contains(said), "{said:?} is not in {shown}");
    }
    CarryPlan::make(&what).unwrap().carry_out().unwrap();
    let source = tree(&kafka);
    assert_eq!(
        source,
        before.into_iter().filter(|(path, _)| path.starts_with(&kafka)).collect(),
        "the source"
    );
    let expected = found(&kafka, "codecs-0").unwrap();
    assert_eq!(expected.1, at(300));
    for target in &targets {
        let (store, report) = open(target);
        assert_eq!(report.stop, Stop::Clean, "the rest of the directory is as clean as it was");
        assert!(report.logs.iter().all(|log| !log.suspect), "{report:?}");
        let log = store.log(&name("codecs-0")).unwrap();
        assert_eq!(log.topic_id(), Some(topic_id()));
        assert_eq!((log.start(), log.written(), batches(&store, &log)), expected);
        let committed = store.read_offset_checkpoint(HIGH_WATERMARKS).unwrap().known().unwrap();
        assert_eq!(committed.get(&name("codecs-0")), Some(&at(300)));
    }
}

#[test]
fn messages_of_formats_before_magic_2_are_imported_as_they_are() {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/testdata/record-sets");
    for set in ["v0-none", "v1-none"] {
        let place = tempfile::tempdir().unwrap();
        let kafka = golden(&place.path().join("kafka"));
        let source = kafka.join("codecs-0");
        for entry in fs::read_dir(&source).unwrap().map(Result::unwrap) {
            if entry.file_name() != "partition.metadata" {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        let bytes = fs::read(records.join(set).with_extension("log")).unwrap();
        fs::write(source.join("00000000000000000000.log"), &bytes).unwrap();
        let target = ours(&place.path().join("data/1"), 1, &["codecs-0"]);
        let plan = CarryPlan::make(&carry(Direction::Import, source, &[&target])).unwrap();
        let shown = plan.to_string();
        assert!(shown.contains("21 messages of formats v0 and v1, which stay as they are"), "{set}: {shown}");
        plan.carry_out().unwrap();
        drop(plan);
        assert_eq!(fs::read(target.join("codecs-0/00000000000000000000.log")).unwrap(), bytes, "{set}");
        for _ in 0..2 {
            let (store, report) = open(&target);
            let log = store.log(&name("codecs-0")).unwrap();
            assert_eq!((log.start(), log.written()), (at(0), at(21)), "{set}");
            assert!(log.damaged().is_empty() && !report.logs[0].suspect, "{set}: {report:?}");
            store.close(serde_json::Map::new(), None).unwrap();
        }
    }
}

#[test]
fn our_partition_is_exported_with_its_start_and_without_epochs_and_producers() {
    let place = tempfile::tempdir().unwrap();
    let source = ours_with_records(&place.path().join("ours"));
    let target = kafkas(&place.path().join("kafka"), 4);
    let plan = CarryPlan::make(&carry(Direction::Export, source.join("t-0"), &[&target])).unwrap();
    for said in ["the copy begins at 31", "leader epochs, up to 8", "1 idempotent producers"] {
        assert!(plan.to_string().contains(said), "{said:?} is not in {plan}");
    }
    plan.carry_out().unwrap();
    drop(plan);
    let text = |file: &str| fs::read_to_string(target.join(file)).unwrap();
    assert_eq!(text("recovery-point-offset-checkpoint"), "0\n1\nother 1 17\n");
    assert_eq!(text("replication-offset-checkpoint"), "0\n2\nother 1 17\nt 0 120\n");
    assert_eq!(text(LOG_STARTS), "0\n1\nt 0 31\n");
    assert_eq!(text("t-0/leader-epoch-checkpoint"), "0\n1\n0 31\n");
    assert_eq!(text(".kafka_cleanshutdown"), r#"{"version":0,"brokerEpoch":445}"#);
    let expected = found(&source, "t-0").unwrap();
    assert_eq!((expected.0, expected.1), (at(31), at(120)));
    assert_eq!(found(&target, "t-0").unwrap(), expected);
    let (store, _) = open(&target);
    let log = store.log(&name("t-0")).unwrap();
    assert!(
        log.with_producers(highwater_engine::state::Producers::is_empty),
        "ids of another cluster mean others here"
    );
    assert!(log.segment_count() > 3, "segments are kept apart");
}

#[test]
fn gaps_of_a_compacted_topic_stay_also_the_one_in_front() {
    let place = tempfile::tempdir().unwrap();
    let source = ours(&place.path().join("ours"), 1, &["t-0"]);
    let (store, _) = open(&source);
    let log = store.log(&name("t-0")).unwrap();
    for base in [120, 150, 170] {
        let mut builder =
            BatchBuilder::new(Compression::Zstd).base_offset(at(base)).leader_epoch(LeaderEpoch::ZERO);
        builder.push(Some(now().wall), Some(b"key"), Some(b"value"), &[]).unwrap();
        let batch = ReplicatedBatches::check(builder.finish().unwrap(), LeaderEpoch::ZERO).unwrap();
        log.append_replicated(&batch, now()).unwrap();
    }
    store.wait(log.ticket(), Step::Written).unwrap();
    store.close(serde_json::Map::new(), None).unwrap();
    let target = kafkas(&place.path().join("kafka"), 4);
    let mut what = carry(Direction::Export, source.join("t-0"), &[&target]);
    what.compacted = true;
    CarryPlan::make(&what).unwrap().carry_out().unwrap();
    let expected = found(&source, "t-0").unwrap();
    assert_eq!((expected.0, expected.1), (at(0), at(171)));
    assert_eq!(found(&target, "t-0").unwrap(), expected);
    assert!(!target.join(LOG_STARTS).exists(), "Kafka takes the first segment's base for the start");
    // And back, where the start is written down.
    let other = kafkas(&place.path().join("elsewhere/kafka"), 5);
    CarryPlan::make(&Carry { into: vec![other.clone()], ..what }).unwrap().carry_out().unwrap();
    let again = ours(&place.path().join("again/2"), 2, &["t-0"]);
    let mut back = carry(Direction::Import, other.join("t-0"), &[&again]);
    back.compacted = true;
    CarryPlan::make(&back).unwrap().carry_out().unwrap();
    assert_eq!(found(&again, "t-0").unwrap(), expected);
}

#[test]
fn what_is_there_goes_only_if_it_may_and_the_copy_can_go_back() {
    let place = tempfile::tempdir().unwrap();
    let source = ours_with_records(&place.path().join("ours"));
    let target = kafkas(&place.path().join("kafka"), 4);
    let there = carry(Direction::Export, source.join("t-0"), &[&target]);
    CarryPlan::make(&there).unwrap().carry_out().unwrap();
    let expected = found(&source, "t-0").unwrap();
    // A Kafka guards nothing; the fixture stays one.
    let mut back = carry(Direction::Import, target.join("t-0"), &[&source]);
    let error = refusal(&back);
    assert!(
        matches!(error, CarryError::NotEmpty { start, end, .. } if (start, end) == (at(31), at(120))),
        "{error}"
    );
    back.replace = true;
    let plan = CarryPlan::make(&back).unwrap();
    assert!(plan.to_string().contains("its records 31 to 120 go"), "{plan}");
    plan.carry_out().unwrap();
    drop(plan);
    assert_eq!(found(&source, "t-0").unwrap(), expected);
}

#[test]
fn what_cannot_be_carried_over_is_refused_with_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let kafka = golden(&place.path().join("kafka"));
    let target = ours(&place.path().join("data/1"), 1, &["codecs-0", "transactions-0"]);
    let import = |partition: &str| carry(Direction::Import, kafka.join(partition), &[&target]);

    let undecided = refusal(&import("transactions-0"));
    assert!(matches!(undecided, CarryError::OpenTransaction { first, .. } if first == at(28)), "{undecided}");
    for topic in ["__consumer_offsets-0", "__transaction_state-0", "__cluster_metadata-0"] {
        fs::create_dir(kafka.join(topic)).unwrap();
        assert!(matches!(refusal(&import(topic)), CarryError::Internal { .. }), "{topic}");
    }
    let file = import("codecs-0/00000000000000000000.log");
    assert!(matches!(refusal(&file), CarryError::NotAPartition { .. }));
    // The other way round.
    let export = carry(Direction::Export, kafka.join("codecs-0"), &[&target]);
    assert!(matches!(refusal(&export), CarryError::OtherSystem { found: System::Kafka, .. }));
    {
        let _broker = open(&target);
        assert!(matches!(refusal(&import("codecs-0")), CarryError::InUse(_)));
    }
    // The topic is not there; nobody has used the directory.
    let bare = place.path().join("bare");
    fs::create_dir(&bare).unwrap();
    let into_bare = carry(Direction::Import, kafka.join("codecs-0"), &[&bare]);
    assert!(matches!(refusal(&into_bare), CarryError::NotFormatted { .. }));
    let other = ours(&place.path().join("elsewhere/2"), 2, &["other-0"]);
    let into_other = carry(Direction::Import, kafka.join("codecs-0"), &[&other]);
    assert!(matches!(refusal(&into_other), CarryError::NoTopic { .. }));
    // One replica is given, and another is beside it.
    let second = ours(&place.path().join("data/2"), 2, &["codecs-0"]);
    let second = fs::canonicalize(second).unwrap();
    assert!(matches!(refusal(&import("codecs-0")), CarryError::ReplicaLeftOut { path } if path == second));
    // Two that are not replicas of one partition.
    let stranger = ours(&place.path().join("stranger"), 2, &["codecs-0"]);
    format(&stranger, 2, "another-cluster");
    let both = carry(Direction::Import, kafka.join("codecs-0"), &[&target, &stranger]);
    assert!(matches!(refusal(&both), CarryError::NotReplicas { .. }));
    // The beginning is in remote storage.
    fs::write(kafka.join("log-start-offset-checkpoint"), "0\n1\ncodecs 0 3\n").unwrap();
    let (from, to) =
        (kafka.join("codecs-0/00000000000000000000.log"), kafka.join("codecs-0/00000000000000000010.log"));
    fs::rename(from, to).unwrap();
    assert!(matches!(refusal(&import("codecs-0")), CarryError::Remote { .. }));
}

#[test]
fn a_copy_that_is_cut_short_at_any_call_is_taken_for_no_log() {
    let place = tempfile::tempdir().unwrap();
    let kafka = golden(&place.path().join("kafka"));
    let whole = found(&golden(&place.path().join("reference")), "codecs-0").unwrap();
    let (mut untouched, mut gone) = (0, 0);
    for call in 0.. {
        let target = ours(&place.path().join(format!("{call}/1")), 1, &["codecs-0"]);
        let mut plan =
            CarryPlan::make(&carry(Direction::Import, kafka.join("codecs-0"), &[&target])).unwrap();
        plan.disk = Arc::new(EndingDisk { behind: disk(), left: AtomicUsize::new(call) });
        let done = plan.carry_out();
        drop(plan);
        match found(&target, "codecs-0") {
            None => gone += 1,
            Some((start, end, _)) if start == end => untouched += 1,
            Some(found) => assert_eq!(found, whole, "after {call} calls"),
        }
        if done.is_ok() {
            break;
        }
        // Nothing stays that nobody asked for.
        let left =
            fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert!(left.into_iter().all(|name| !name.ends_with("-delete")), "after {call} calls");
    }
    assert!(untouched > 5 && gone > 2, "{untouched} untouched, {gone} gone");
}

/// A disk of which the machine is switched off after so many changes of names.
#[derive(Debug)]
struct EndingDisk {
    behind: Arc<dyn Disk>,
    left: AtomicUsize,
}

impl EndingDisk {
    fn change<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_ok() { work() } else { Err(io::Error::other("switched off")) }
    }
}

impl Disk for EndingDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<File> {
        self.change(|| self.behind.open(path, how))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        self.behind.list(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.change(|| self.behind.create_directory(directory))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|| self.behind.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.change(|| self.behind.remove_file(path))
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.change(|| self.behind.remove_directory(path))
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.change(|| self.behind.sync_directory(directory))
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
