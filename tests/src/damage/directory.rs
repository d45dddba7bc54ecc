//! A small data directory with every kind of file that the engine writes: several logs, sealed and active segments, plain, compressed,
//! transactional and control batches, indexes, also of aborted transactions, snapshots, epochs, checkpoints, the mark, the lock, the note of damage, `meta.properties`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use highwater_engine::batch::{
    BatchBuilder, BatchLimits, Compression, ProducedBatch, ReplicatedBatches, TransactionEnd,
    transaction_marker,
};
use highwater_engine::checkpoint::{HIGH_WATERMARKS, META_PROPERTIES, MetaProperties, write_properties};
use highwater_engine::disk::{Disk, EntryKind, Open, Patience, SimulatedDisk, Wait};
use highwater_engine::index::{AbortedTransaction, append_aborted};
use highwater_engine::log::{Log, Permit};
use highwater_engine::segment::{FileKind, parse_file_name};
use highwater_engine::store::{Job, JobDone, Opened, Store, StoreConfig};
use highwater_engine::units::{
    LeaderEpoch, NodeId, Now, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp, TopicId, TopicPartition,
};

pub(super) const DATA: &str = "/data";

/// How the directory's user ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// With a mark.
    Clean,
    /// Without, and the machine lived on.
    Kill,
    /// The same, and a log has a damaged range, of which the note says where it is. Such a directory has no mark.
    KillWithDamage,
}

pub(super) fn config() -> StoreConfig {
    let mut config = StoreConfig::default();
    (config.log.segment_bytes_max, config.log.index_interval_bytes) = (900, 100);
    config.tail_bytes_max = 0;
    config
}

pub(super) fn open(disk: &SimulatedDisk) -> Result<Opened, String> {
    Store::open(Arc::new(disk.clone()), Path::new(DATA), config(), Now::default())
        .map_err(|error| error.to_string())
}

pub(super) fn at(offset: i64) -> Offset {
    Offset::new(offset.max(0)).expect("offsets are not negative")
}

fn epoch(number: i32) -> LeaderEpoch {
    LeaderEpoch::new(number).expect("epochs are not negative")
}

fn turn(store: &Store) {
    while store.turn(Wait::ForOne, Patience::MayBlock).in_flight > 0 {}
}

fn batch(compression: Compression, number: i32, is_transactional: bool) -> Bytes {
    let mut builder = BatchBuilder::new(compression).producer(
        ProducerId::new(7).expect("an id"),
        ProducerEpoch::new(0).expect("an epoch"),
        Sequence::new(number * 2).expect("a sequence"),
    );
    if is_transactional {
        builder = builder.transactional();
    }
    for record in 0..2 {
        let value = format!("record {number}.{record}, long enough to be told apart");
        let time = Timestamp::from_millis(1_000 + i64::from(number) * 10 + record);
        builder.push(Some(time), None, Some(value.as_bytes()), &[]).expect("a small record fits");
    }
    builder.finish().expect("there are records")
}

fn produce(log: &Log, leader: i32, bytes: Bytes) {
    let checked = ProducedBatch::check(bytes, &BatchLimits::default(), Timestamp::from_millis(i64::MAX / 2));
    let checked = checked.expect("the builder makes batches that a leader takes");
    log.append(Permit::new(epoch(leader)), checked, Now::default()).expect("there is room");
}

/// Gives the transaction that it has ended.
fn end_transaction(log: &Log, leader: i32, end: TransactionEnd) -> AbortedTransaction {
    let (first, place) = (log.first_unstable(Offset::MAX), log.accepted());
    let (id, producer_epoch) = (ProducerId::new(7).expect("an id"), ProducerEpoch::new(0).expect("an epoch"));
    let marker = transaction_marker(end, id, producer_epoch, 3, Timestamp::from_millis(5_000));
    let mut bytes = BytesMut::from(&marker.expect("a marker can be built")[..]);
    bytes[..8].copy_from_slice(&log.accepted().value().to_be_bytes());
    bytes[12..16].copy_from_slice(&leader.to_be_bytes());
    let set = ReplicatedBatches::check(bytes.freeze(), epoch(leader)).expect("it is stamped");
    log.append_replicated(&set, Now::default()).expect("there is room");
    let first = first.expect("a transaction is open");
    AbortedTransaction { producer: id, first, marker: place, last_stable: log.accepted() }
}

/// The index of aborted transactions of each segment that grows no more, as a Kafka leaves it.
fn write_aborted(disk: &SimulatedDisk, log: &Log, aborted: &[AbortedTransaction]) {
    let entries = disk.list(log.directory()).expect("it is there");
    let mut bases: Vec<Offset> = entries
        .iter()
        .filter_map(|entry| parse_file_name(&entry.name))
        .filter_map(|(base, kind)| (kind == FileKind::Log).then_some(base))
        .collect();
    bases.sort_unstable();
    for (base, next) in bases.iter().zip(bases.iter().skip(1)) {
        let mut bytes = Vec::new();
        for transaction in aborted.iter().filter(|one| *base <= one.marker && one.marker < *next) {
            append_aborted(&mut bytes, transaction);
        }
        if !bytes.is_empty() {
            let path = log.directory().join(format!("{:020}.txnindex", base.value()));
            let file = disk.open(&path, Open::Create).expect("nothing fails");
            file.write_all_at(&bytes, 0).expect("nothing fails");
        }
    }
}

/// A batch of the first segment rots, and somebody looks.
fn damage(disk: &SimulatedDisk, store: &Store, log: &Log) {
    let path = log.directory().join(format!("{:020}.log", 0));
    disk.damage(&path, 400, &[0x55; 40]).expect("it is there");
    let examined = Job::Examine { log: log.id(), segment: at(0) }.run(store);
    assert!(
        matches!(&examined, JobDone::Examined { damaged, .. } if !damaged.is_empty()),
        "what has rotted is found: {examined:?}"
    );
    Job::Checkpoint { now: Now::default() }.run(store);
}

/// Makes the directory.
pub(super) fn make(stop: Stop) -> SimulatedDisk {
    let disk = SimulatedDisk::new(4);
    let Opened { store, .. } = open(&disk).expect("an empty disk can be opened");
    let properties = MetaProperties {
        node: NodeId::new(1).expect("an id"),
        cluster: "a-cluster".to_owned(),
        directory: TopicId::new([9; 16]),
        others: BTreeMap::new(),
    };
    write_properties(&disk, &Path::new(DATA).join(META_PROPERTIES), &properties).expect("nothing fails");
    let (mut logs, mut aborted) = (Vec::new(), Vec::new());
    for topic in ["plain", "transactions"] {
        let name = TopicPartition::new(topic, 0).expect("a name");
        let id = TopicId::new([u8::try_from(topic.len()).expect("short"); 16]);
        logs.push(store.create_log(&name, id, config().log, Now::default()).expect("there is room"));
    }
    let [plain, transactions] = &logs[..] else { unreachable!("two logs were made") };
    for number in 0..10 {
        produce(plain, number / 4, batch(Compression::None, number, false));
        let compression = if number % 2 == 0 { Compression::Lz4 } else { Compression::None };
        produce(transactions, number / 5, batch(compression, number, true));
        if number % 3 == 2 {
            let end = if number % 2 == 0 { TransactionEnd::Abort } else { TransactionEnd::Commit };
            let ended = end_transaction(transactions, number / 5, end);
            aborted.extend((end == TransactionEnd::Abort).then_some(ended));
        }
        turn(&store);
        if number == 7 {
            for log in &logs {
                Job::Seal { log: log.id() }.run(&store);
                store.want_durable(log);
            }
            turn(&store);
            Job::RaiseStart { log: plain.id(), to: at(3) }.run(&store);
            Job::Checkpoint { now: Now::default() }.run(&store);
        }
    }
    let name = HIGH_WATERMARKS.to_owned();
    Job::OffsetCheckpoint { name, entries: vec![(plain.name().clone(), at(12))] }.run(&store);
    write_aborted(&disk, transactions, &aborted);
    if stop == Stop::KillWithDamage {
        damage(&disk, &store, transactions);
    }
    if stop == Stop::Clean {
        store.close(serde_json::Map::new(), None).expect("nothing fails");
        return disk;
    }
    drop(logs);
    drop(store);
    disk.crash_kill(&mut fastrand::Rng::with_seed(1))
}

/// All files of the directory.
pub(super) fn files(disk: &SimulatedDisk) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![PathBuf::from(DATA)];
    while let Some(directory) = todo.pop() {
        for entry in disk.list(&directory).expect("it is there") {
            let path = directory.join(entry.name);
            match entry.kind {
                EntryKind::Directory => todo.push(path),
                EntryKind::File | EntryKind::Other => found.push(path),
            }
        }
    }
    found.sort();
    found
}
