//! A store on a simulated disk, small, and the batches that are put into it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use highwater_engine::Rules;
use highwater_engine::batch::{BatchBuilder, BatchLimits, Compression, ProducedBatch, scan};
use highwater_engine::disk::SimulatedDisk;
use highwater_engine::disk::simulated::Completing;
use highwater_engine::log::{AppendError, Appended, Log, LogConfig, Permit, Read, ReadError};
use highwater_engine::store::{Job, JobDone, Opened, Store, StoreConfig};
use highwater_engine::units::{LeaderEpoch, Monotonic, Now, Offset, Timestamp, TopicPartition};

/// A store with one log.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) disk: SimulatedDisk,
    pub(crate) store: Store,
    pub(crate) log: Log,
}

pub(crate) fn at(offset: i64) -> Offset {
    Offset::new(offset).expect("offsets are not negative")
}

pub(crate) fn now(ms: u64) -> Now {
    let wall = Timestamp::from_millis(i64::try_from(ms).unwrap_or(0));
    Now { monotonic: Monotonic::from_duration(Duration::from_millis(ms)), wall }
}

fn name() -> TopicPartition {
    TopicPartition::new("t", 0).expect("a topic may be called t")
}

/// A batch of one record that says where it belongs.
pub(crate) fn batch(mark: i64, bytes: usize) -> ProducedBatch {
    let mut builder = BatchBuilder::new(Compression::None);
    let mut value = mark.to_be_bytes().to_vec();
    value.resize(bytes.max(8), 7);
    builder.push(Some(Timestamp::from_millis(1)), None, Some(&value), &[]).expect("a small record fits");
    let sent = builder.finish().expect("a batch with a record can be finished");
    ProducedBatch::check(sent, &BatchLimits::default(), Timestamp::from_millis(1)).expect("a sound batch")
}

impl World {
    pub(crate) fn new(rules: Rules) -> Self {
        let disk = SimulatedDisk::new(1);
        let store = open(&disk, rules);
        let log = store.create_log(&name(), None, config().log, now(0)).expect("a log can be made");
        disk.set_completing(Completing::WhenTold);
        Self { disk, store, log }
    }

    /// Appends; `None` if the log is being cut or the store closed.
    pub(crate) fn append(&self, mark: i64) -> Option<Appended> {
        match self.log.append(Permit::new(LeaderEpoch::ZERO), batch(mark, 400), now(1)) {
            Ok(appended) => Some(appended),
            Err(AppendError::Truncating | AppendError::Closed(_)) => None,
            Err(error) => panic!("an append is refused: {error}"),
        }
    }

    /// Reads one batch or more from `from` on: for each its offset and its mark. `None` where nothing may be seen, or nothing is.
    pub(crate) fn read(&self, from: i64) -> Option<Vec<(i64, i64)>> {
        let mut read = self.log.read(at(from), at(i64::MAX), 1_000, true);
        if let Ok(Read::Cold(asked)) = read {
            let JobDone::Read { result, .. } = Job::ColdRead(asked).run(&self.store) else {
                panic!("a cold read gives something else")
            };
            read = result;
        }
        match read {
            Ok(Read::Records(records)) => Some(marks(&records.parts)),
            Ok(Read::Empty) | Err(ReadError::OutOfRange { .. } | ReadError::Closed(_)) => None,
            Ok(Read::Cold(asked)) => panic!("a cold read asks for a cold read: {asked:?}"),
            Err(error) => panic!("a read from {from}: {error}"),
        }
    }

    /// What is in the log after the process was killed or the machine lost its power.
    pub(crate) fn after(disk: SimulatedDisk) -> Vec<(i64, i64)> {
        disk.set_completing(Completing::AtOnce);
        let store = open(&disk, Rules::default());
        let Some(log) = store.log(&name()) else { return Vec::new() };
        let world = Self { disk, store, log };
        let (mut all, end) = (Vec::new(), world.log.written().value());
        let mut next = world.log.start().value();
        while next < end {
            let some = world.read(next).expect("what is written can be read");
            next = some.last().map_or(end, |(offset, _)| offset + 1);
            all.extend(some);
        }
        all
    }
}

fn config() -> StoreConfig {
    let mut log = LogConfig::default();
    (log.segment_bytes_max, log.index_interval_bytes) = (1_200, 1);
    let mut config = StoreConfig::default();
    config.log = log;
    // Small, so that readers are sent to the files.
    config.tail_bytes_max = 600;
    config
}

fn open(disk: &SimulatedDisk, rules: Rules) -> Store {
    let mut config = config();
    config.rules = rules;
    let opened = Store::open(Arc::new(disk.clone()), Path::new("/data"), config, now(0));
    let Opened { store, .. } = opened.expect("the directory can be opened");
    store
}

fn marks(parts: &[Bytes]) -> Vec<(i64, i64)> {
    let mut bytes = BytesMut::new();
    for part in parts {
        bytes.extend_from_slice(part);
    }
    let mut marks = Vec::new();
    for item in scan(&bytes, 0) {
        let (_, batch) = item.expect("a read gives whole batches");
        let mut scratch = Vec::new();
        let mut records = batch.records(&highwater_engine::batch::DecompressLimits::default(), &mut scratch);
        let record =
            records.as_mut().ok().and_then(Iterator::next).expect("a record").expect("a sound record");
        let value = record.value.and_then(|value| value.first_chunk()).expect("a mark");
        marks.push((record.offset.value(), i64::from_be_bytes(*value)));
    }
    marks
}
