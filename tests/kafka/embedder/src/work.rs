//! Carries orders out, on a store that is open.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::batch::{
    BatchBuilder, BatchDamage, BatchLimits, BatchRefusal, BatchView, BuildError, CodecError, Compression,
    OffsetsExhausted, ProducedBatch, RecordDamage, ScanStop, scan,
};
use highwater_engine::disk::{IoMode, RingRefusal, SyncThread, open_disk};
use highwater_engine::log::{
    AppendError, BeginEpochError, Log, LogConfig, Permit, Read, ReadError, Step, TicketError,
};
use highwater_engine::store::{
    CloseError, Compaction, CreateLogError, Job, JobDone, JobError, SetConfigError, Stop, Store, StoreConfig,
    StoreOpenError,
};
use highwater_engine::units::{
    InvalidName, LeaderEpoch, Monotonic, Now, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp,
    TopicId, TopicPartition,
};
use serde_json::{Value, json};

use crate::order::{Append, Order};
use crate::shown;

/// Why an order was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("not an order: {0}")]
    Order(#[from] serde_json::Error),
    #[error("{0} is no number that it can be")]
    Number(i64),
    #[error("there is no codec {0}")]
    Codec(String),
    #[error("there is no log {0}")]
    NoLog(String),
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Ring(#[from] RingRefusal),
    #[error(transparent)]
    Open(#[from] StoreOpenError),
    #[error(transparent)]
    Create(#[from] CreateLogError),
    #[error(transparent)]
    Config(#[from] SetConfigError),
    #[error(transparent)]
    Epoch(#[from] BeginEpochError),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Batch(#[from] BatchRefusal),
    #[error(transparent)]
    Offsets(#[from] OffsetsExhausted),
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Ticket(#[from] TicketError),
    #[error(transparent)]
    Job(#[from] JobError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Scan(#[from] ScanStop),
    #[error(transparent)]
    View(#[from] BatchDamage),
    #[error(transparent)]
    Decompress(#[from] CodecError),
    #[error(transparent)]
    Record(#[from] RecordDamage),
    #[error("a job was answered like one of another kind")]
    Answer,
    #[error(transparent)]
    Close(#[from] CloseError),
}

/// A data directory that is worked in.
pub(crate) struct Work {
    store: Store,
    /// Time goes on by a millisecond with each order.
    orders: u64,
}

impl Work {
    /// Opens the directory; says what was found.
    pub(crate) fn open(directory: &Path, log: LogConfig) -> Result<(Self, Value), Failure> {
        let disk = open_disk(IoMode::Auto, SyncThread::Never)?.disk;
        let mut config = StoreConfig::default();
        config.log = log;
        let opened = Store::open(disk, directory, config, now(0, 0))?;
        let report = opened.report;
        let logs: Vec<Value> = (report.logs.iter())
            .map(|log| {
                json!({
                    "log": log.name.to_string(),
                    "start": log.start.value(),
                    "end": log.end.value(),
                    "cut_bytes": log.cut_bytes,
                    "damaged": log.plan.damaged.len(),
                    "plan": log.plan.to_string(),
                })
            })
            .collect();
        let refused = report.refused.iter().map(|(path, why)| format!("{}: {why}", path.display()));
        let said = json!({
            "did": "open",
            "clean": report.stop == Stop::Clean,
            "logs": logs,
            "refused": refused.collect::<Vec<_>>(),
        });
        Ok((Self { store: opened.store, orders: 0 }, said))
    }

    pub(crate) fn close(self) -> Result<(), Failure> {
        Ok(self.store.close(serde_json::Map::new(), None)?)
    }

    pub(crate) fn carry_out(&mut self, order: Order) -> Result<Value, Failure> {
        self.orders += 1;
        match order {
            Order::Create { log, topic_id } => {
                let name = TopicPartition::from_directory_name(&log)?;
                let id = topic_id.as_deref().and_then(TopicId::parse);
                let config = self.store.config().log.clone();
                self.store.create_log(&name, id, config, now(self.orders, 0))?;
                Ok(json!({"did": "create"}))
            }
            Order::Config { log, config } => {
                self.store.set_config(self.log(&log)?.id(), config)?;
                Ok(json!({"did": "config"}))
            }
            Order::Epoch { log, epoch } => {
                let epoch = LeaderEpoch::new(epoch).ok_or(Failure::Number(epoch.into()))?;
                self.log(&log)?.begin_epoch(epoch)?;
                Ok(json!({"did": "epoch"}))
            }
            Order::Append(append) => self.append(&append),
            Order::Cut { log, to } => {
                let cut = Job::Truncate { log: self.log(&log)?.id(), to: offset(to)? };
                let JobDone::Truncated { end, .. } = self.run(cut)? else { return Err(Failure::Answer) };
                Ok(json!({"did": "cut", "end": end.value()}))
            }
            Order::Raise { log, to } => {
                let raise = Job::RaiseStart { log: self.log(&log)?.id(), to: offset(to)? };
                let JobDone::StartRaised { start, .. } = self.run(raise)? else {
                    return Err(Failure::Answer);
                };
                Ok(json!({"did": "raise", "start": start.value()}))
            }
            Order::Retain { log, time } => {
                let log = self.log(&log)?;
                let now = now(self.orders, time);
                let retain = Job::Retention { log: log.id(), ceiling: log.written(), now };
                let JobDone::Retained { start, segments, .. } = self.run(retain)? else {
                    return Err(Failure::Answer);
                };
                Ok(json!({"did": "retain", "start": start.value(), "segments": segments}))
            }
            Order::Compact { log, time, piece } => {
                let log = self.log(&log)?;
                let (id, ceiling) = (log.id(), log.written());
                let ceiling = log.first_unstable(ceiling).unwrap_or(ceiling);
                let now = now(self.orders, time);
                loop {
                    let compact = Job::Compact { log: id, ceiling, now, bytes_max: piece };
                    let JobDone::Compacted { step, .. } = self.run(compact)? else {
                        return Err(Failure::Answer);
                    };
                    if let Compaction::Done { report } = step {
                        return Ok(json!({
                            "did": "compact",
                            "cleaned_to": report.cleaned_to.value(),
                            "bytes_before": report.bytes_before,
                            "bytes_after": report.bytes_after,
                        }));
                    }
                    if !matches!(step, Compaction::UnderWay { .. }) {
                        return Err(Failure::Answer);
                    }
                }
            }
            Order::Sync { log } => {
                let log = self.log(&log)?.id();
                self.run(Job::Seal { log })?;
                self.run(Job::Sync { logs: vec![log] })?;
                self.run(Job::Checkpoint { now: now(self.orders, 0) })?;
                Ok(json!({"did": "sync"}))
            }
            Order::Find { log, time } => {
                let found =
                    self.log(&log)?.offset_for_timestamp(Timestamp::from_millis(time), Offset::MAX)?;
                Ok(json!({"did": "find", "offset": found.map_or(-1, |found| found.offset.value())}))
            }
            Order::Look { log } => self.look(&log),
        }
    }

    fn log(&self, name: &str) -> Result<Log, Failure> {
        let log = self.store.log(&TopicPartition::from_directory_name(name)?);
        log.ok_or_else(|| Failure::NoLog(name.to_owned()))
    }

    fn run(&self, job: Job) -> Result<JobDone, Failure> {
        let done = job.run(&self.store);
        if let JobDone::Failed { error, .. } = done { Err(error.into()) } else { Ok(done) }
    }

    /// Appends under the newest epoch that the log has; gives the batches as they are in the log, or that they are there already.
    fn append(&self, append: &Append) -> Result<Value, Failure> {
        let log = self.log(&append.log)?;
        let codec = Compression::ALL.into_iter().find(|codec| codec.name() == append.codec);
        let codec = codec.ok_or_else(|| Failure::Codec(append.codec.clone()))?;
        let epoch = log.with_facts(|facts| facts.epochs.latest().map(|latest| latest.epoch));
        let permit = Permit::new(epoch.unwrap_or(LeaderEpoch::ZERO));
        let mut batches = Vec::new();
        for number in 0..append.batches {
            let bytes = build(append, codec, number)?;
            let time = now(self.orders, append.time);
            let batch = ProducedBatch::check(bytes.clone(), &BatchLimits::default(), time.wall)?;
            let appended = log.append(permit, batch, time)?;
            if appended.duplicate {
                let (first, end) = (appended.offsets.start().value(), appended.offsets.end().value());
                return Ok(json!({"did": "duplicate", "first": first, "last": end - 1}));
            }
            self.store.wait(appended.ticket, Step::Written)?;
            let sent = ProducedBatch::check(bytes, &BatchLimits::default(), time.wall)?;
            let stamped = sent.stamp(appended.offsets.start(), permit.epoch(), None)?;
            batches.push(shown::batch(&BatchView::parse(&stamped.bytes)?)?);
        }
        Ok(json!({"did": "append", "batches": batches}))
    }

    /// Everything, read as a reader reads it.
    fn look(&self, name: &str) -> Result<Value, Failure> {
        let log = self.log(name)?;
        let mut batches = Vec::new();
        let mut next = log.start();
        loop {
            let mut read = log.read(next, Offset::MAX, 1 << 20, true)?;
            if let Read::Cold(asked) = read {
                let JobDone::Read { result, .. } = self.run(Job::ColdRead(asked))? else {
                    return Err(Failure::Answer);
                };
                read = result?;
            }
            let Read::Records(records) = read else { break };
            let bytes = records.parts.concat();
            for item in scan(&bytes, 0) {
                batches.push(shown::batch(&item?.1)?);
            }
            next = records.end;
        }
        let mut shown = shown::log(&log);
        shown["did"] = "look".into();
        shown["batches"] = batches.into();
        Ok(shown)
    }
}

/// A batch as a producer sends it: keys, values and headers that are there, empty and missing.
fn build(append: &Append, codec: Compression, number: usize) -> Result<Bytes, Failure> {
    let mut builder = BatchBuilder::new(codec);
    if let Some(producer) = append.producer {
        let sent = i32::try_from(number * append.records).unwrap_or(i32::MAX);
        let id = ProducerId::new(producer.id).ok_or(Failure::Number(producer.id))?;
        let epoch = ProducerEpoch::new(producer.epoch).ok_or(Failure::Number(producer.epoch.into()))?;
        let sequence = Sequence::new(producer.sequence).ok_or(Failure::Number(producer.sequence.into()))?;
        builder = builder.producer(id, epoch, sequence.wrapping_add(sent));
    }
    for record in 0..append.records {
        let count = number * append.records + record;
        let key = match append.keys {
            Some(keys) => Some(format!("key {}", count % keys)),
            None => (count % 3 != 2).then(|| format!("key {count}")),
        };
        let value = (count % 7 != 6).then(|| format!("{} {count} ü ", append.label).repeat(count % 4));
        let headers: &[(&str, Option<&[u8]>)] = if count.is_multiple_of(2) {
            &[("h", Some(b"one")), ("h", Some(b"two")), ("empty", Some(b"")), ("null", None)]
        } else {
            &[]
        };
        let time = Timestamp::from_millis(append.time + i64::try_from(count).unwrap_or(0));
        let (key, value) = (key.as_deref().map(str::as_bytes), value.as_deref().map(str::as_bytes));
        builder.push(Some(time), key, value, headers)?;
    }
    Ok(builder.finish()?)
}

fn offset(number: i64) -> Result<Offset, Failure> {
    Offset::new(number).ok_or(Failure::Number(number))
}

fn now(monotonic_ms: u64, wall_ms: i64) -> Now {
    Now {
        monotonic: Monotonic::from_duration(Duration::from_millis(monotonic_ms)),
        wall: Timestamp::from_millis(wall_ms),
    }
}
