//! The coordinator's records: written by Produce, read by Fetch, each to the broker's own shard.

use std::time::Duration;

use bytes::Bytes;
use highwater_engine::batch::{BatchBuilder, Compression, DecompressLimits, scan};
use highwater_engine::units::{LeaderEpoch, Monotonic, Now};
use highwater_replication::pending::Slot;
use highwater_replication::shard::{Event, Shard};
use highwater_replication::wire::fetch::{FetchPartition, FetchRequest, FetchTopic, PartitionData};
use highwater_replication::wire::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use highwater_replication::wire::{self, ApiKey, ErrorCode, Request, RequestHeader, Response};

use super::{Due, Groups, partition_name};
use crate::groups::{Record, TOPIC, WriteId};

/// Versions that name topics, not their ids.
const PRODUCE: i16 = 12;
const FETCH: i16 = 12;
/// What one Fetch brings of a partition that is being loaded.
const LOAD_BYTES: i32 = 4 << 20;
/// How long a Fetch waits for the high watermark to come to what was written before.
const LOAD_WAIT_MS: i32 = 500;
/// How long loading pauses after an error.
const PAUSE: Duration = Duration::from_millis(100);

/// How long it pauses after one that may stay.
const LONG_PAUSE: Duration = Duration::from_secs(1);

/// A request of the broker's own that is not answered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sent {
    Write(WriteId),
    Load { partition: i32, epoch: LeaderEpoch },
}

/// A partition that is being loaded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    epoch: LeaderEpoch,
    next: i64,
    /// The end that the log had when its replica was first seen to lead.
    until: Option<i64>,
    /// When it goes on; `None` while a Fetch is under way.
    again: Option<Monotonic>,
    /// Whether people were told that it does not get on.
    is_told: bool,
}

impl Load {
    pub(super) const fn new(epoch: LeaderEpoch) -> Self {
        Self {
            epoch,
            next: 0,
            until: None,
            again: Some(Monotonic::from_duration(Duration::ZERO)),
            is_told: false,
        }
    }

    pub(super) const fn deadline(&self) -> Option<Monotonic> {
        self.again
    }
}

impl<T: Copy> Groups<T> {
    /// The Produce that writes records, on behalf of a leadership.
    pub(super) fn write(
        &mut self,
        now: Now,
        write: WriteId,
        partition: i32,
        epoch: LeaderEpoch,
        records: &[Record],
    ) -> Result<Event, String> {
        match self.produce(now, partition, records) {
            Ok(frame) => {
                let slot = self.slot();
                self.sent.insert(slot.number, Sent::Write(write));
                Ok(Event::OwnFrame { slot, epoch, frame })
            }
            Err(why) => {
                self.coordinator.written(now, write, Err(ErrorCode::UnknownServerError));
                Err(format!("records of groups were not written: {why}"))
            }
        }
    }

    fn produce(&self, now: Now, index: i32, records: &[Record]) -> Result<Bytes, Box<dyn std::error::Error>> {
        let mut batch = BatchBuilder::new(Compression::None);
        for record in records {
            batch.push(Some(now.wall), Some(&record.key), record.value.as_deref(), &[])?;
        }
        let partition_data = vec![PartitionProduceData { index, records: Some(batch.finish()?) }];
        let topic_data = vec![TopicProduceData { name: TOPIC.to_owned(), topic_id: None, partition_data }];
        let request =
            ProduceRequest { acks: -1, timeout_ms: self.write_wait_ms, topic_data, ..Default::default() };
        Ok(frame(PRODUCE, &request.into())?)
    }

    /// Goes on with what is being loaded.
    pub(super) fn load(&mut self, now: Now, shard: &Shard) -> Vec<Due<T>> {
        let mut due = Vec::new();
        let ready = |load: &Load| load.again.is_some_and(|at| at <= now.monotonic);
        let numbers: Vec<i32> =
            self.loads.iter().filter(|(_, load)| ready(load)).map(|(number, _)| *number).collect();
        for number in numbers {
            let leads = partition_name(number).and_then(|name| shard.leads(&name));
            let Some(load) = self.loads.get_mut(&number) else { continue };
            match leads.filter(|(epoch, _)| *epoch == load.epoch) {
                // The replica has not begun yet, or another leadership is on its way to the coordinator.
                None => load.again = Some(now.monotonic.after(PAUSE)),
                Some((_, end)) => {
                    let until = *load.until.get_or_insert(end.value());
                    if load.next >= until {
                        self.loads.remove(&number);
                        self.coordinator.loaded(now, number);
                        self.coordinator.name_topics(|name| Some(shard.view().state().topics.get(name)?.id));
                        continue;
                    }
                    load.again = None;
                    let (epoch, next) = (load.epoch, load.next);
                    match frame(FETCH, &fetch(number, epoch, next).into()) {
                        Ok(frame) => {
                            let slot = self.slot();
                            self.sent.insert(slot.number, Sent::Load { partition: number, epoch });
                            due.push(Due::Tell(Event::Frame { slot, frame }));
                        }
                        Err(error) => due.push(Due::Note(error.to_string())),
                    }
                }
            }
        }
        due
    }

    /// The shard answered one of the broker's own requests.
    pub(in crate::serve) fn own_answer(&mut self, now: Now, slot: Slot, parts: &[Bytes]) {
        let Some(sent) = self.sent.remove(&slot.number) else { return };
        let frame = Bytes::from(parts.concat());
        let frame = frame.slice(frame.len().min(4)..);
        match sent {
            Sent::Write(write) => {
                let response = wire::decode_response(ApiKey::Produce, PRODUCE, frame);
                let outcome = match response {
                    Ok((_, Response::Produce(response))) => {
                        let mut parts =
                            response.responses.into_iter().flat_map(|topic| topic.partition_responses);
                        parts.next().map_or(ErrorCode::UnknownServerError, |part| part.error_code)
                    }
                    _ => ErrorCode::UnknownServerError,
                };
                self.coordinator.written(now, write, for_client(outcome));
            }
            Sent::Load { partition, epoch } => {
                if self.loads.get(&partition).is_none_or(|load| load.epoch != epoch) {
                    return;
                }
                let data = match wire::decode_response(ApiKey::Fetch, FETCH, frame) {
                    Ok((_, Response::Fetch(response))) => {
                        response.responses.into_iter().flat_map(|topic| topic.partitions).next()
                    }
                    _ => None,
                };
                self.fetched(now, partition, data);
            }
        }
    }

    fn fetched(&mut self, now: Now, number: i32, data: Option<PartitionData>) {
        let Some(load) = self.loads.get_mut(&number) else { return };
        load.again = Some(now.monotonic.after(PAUSE));
        let Some(data) = data else { return };
        if data.error_code == ErrorCode::OffsetOutOfRange && load.next < data.log_start_offset {
            // What is below the start has been deleted, and is not missed.
            load.next = data.log_start_offset;
            return;
        }
        if !data.error_code.is_none() {
            // That another leads now is on its way; anything else stays, and people have to know.
            let passes =
                [ErrorCode::NotLeaderOrFollower, ErrorCode::FencedLeaderEpoch, ErrorCode::UnknownLeaderEpoch];
            if !passes.contains(&data.error_code) {
                self.stuck(now, number, data.error_code.name());
            }
            return;
        }
        let records = data.records.unwrap_or_default().into_bytes();
        match self.take_records(now, number, &records) {
            Ok(next) => {
                if let Some(load) = self.loads.get_mut(&number).filter(|load| load.next < next) {
                    load.next = next;
                    load.again = Some(now.monotonic);
                }
            }
            Err(why) => self.stuck(now, number, &why),
        }
    }

    /// A partition cannot be read: its groups have no coordinator until it can. It is tried again, and told once.
    fn stuck(&mut self, now: Now, number: i32, why: &str) {
        let Some(load) = self.loads.get_mut(&number) else { return };
        load.again = Some(now.monotonic.after(LONG_PAUSE));
        if !std::mem::replace(&mut load.is_told, true) {
            self.notes.push(format!(
                "the groups of {TOPIC}-{number} have no coordinator, it cannot be read: {why}"
            ));
        }
    }

    /// Gives the records to the coordinator; where the next Fetch begins.
    fn take_records(&mut self, now: Now, number: i32, bytes: &Bytes) -> Result<i64, String> {
        let (limits, mut scratch) = (DecompressLimits::default(), Vec::new());
        let first = self.loads.get(&number).map_or(0, |load| load.next);
        let mut next = first;
        for batch in scan(bytes, 0) {
            let (_, batch) = match batch {
                Ok(batch) => batch,
                // The last one may be cut off by the answer's size.
                Err(_) if next > first => break,
                Err(stop) => return Err(stop.reason.to_string()),
            };
            let header = *batch.header();
            let records = batch.records(&limits, &mut scratch).map_err(|why| why.to_string())?;
            for record in records {
                let record = record.map_err(|why| why.to_string())?;
                if header.attributes.is_control() || record.offset.value() < first {
                    continue;
                }
                let copy = |bytes: Option<&[u8]>| bytes.map(Bytes::copy_from_slice);
                if let Err(why) = self.coordinator.load(now, number, copy(record.key), copy(record.value)) {
                    self.notes.push(format!("{TOPIC}-{number}, offset {}: {why}", record.offset.value()));
                }
            }
            next = next.max(header.last_offset().value().saturating_add(1));
        }
        Ok(next)
    }
}

fn fetch(partition: i32, epoch: LeaderEpoch, fetch_offset: i64) -> FetchRequest {
    let partitions = vec![FetchPartition {
        partition,
        current_leader_epoch: epoch.value(),
        fetch_offset,
        partition_max_bytes: LOAD_BYTES,
        ..Default::default()
    }];
    let topics = vec![FetchTopic { topic: TOPIC.to_owned(), topic_id: None, partitions }];
    FetchRequest {
        max_wait_ms: LOAD_WAIT_MS,
        min_bytes: 1,
        max_bytes: LOAD_BYTES,
        topics,
        ..Default::default()
    }
}

/// A request's frame, as the sockets would bring it.
fn frame(version: i16, request: &Request) -> Result<Bytes, wire::EncodeError> {
    let header = RequestHeader { api: request.api(), version, correlation_id: 0, client_id: None };
    let whole = Bytes::from(wire::encode_request(&header, request)?.concat());
    Ok(whole.slice(whole.len().min(4)..))
}

/// What a client of the coordinator is told of a failed write (`CoordinatorOperationExceptionHelper` of Kafka's).
fn for_client(error: ErrorCode) -> Result<(), ErrorCode> {
    let is = |errors: &[ErrorCode]| errors.contains(&error);
    let not_now = [
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::NotEnoughReplicas,
        ErrorCode::NotEnoughReplicasAfterAppend,
        ErrorCode::RequestTimedOut,
    ];
    if error.is_none() {
        Ok(())
    } else if is(&not_now) {
        Err(ErrorCode::CoordinatorNotAvailable)
    } else if is(&[ErrorCode::NotLeaderOrFollower, ErrorCode::KafkaStorageError]) {
        Err(ErrorCode::NotCoordinator)
    } else if is(&[ErrorCode::MessageTooLarge, ErrorCode::RecordListTooLarge]) {
        Err(ErrorCode::InvalidCommitOffsetSize)
    } else {
        Err(error)
    }
}
