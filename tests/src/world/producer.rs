//! A producer of one partition: several batches in flight, tried again with the same sequence until they are answered.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::batch::{BatchBuilder, BatchHeader, Compression};
use highwater_engine::units::{NodeId, ProducerEpoch, ProducerId, Sequence, TopicPartition};
use highwater_replication::wire::produce::{
    PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData,
};
use highwater_replication::wire::{self, ApiKey, ErrorCode, Response};

use super::World;
use super::agenda::{Happening, Moment};
use super::client::Line;
use super::network::ClientId;
use crate::invariants::{ProduceAnswer, Promise};

const VERSION: i16 = 11;
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// What a producer wants.
#[derive(Clone, Copy, Debug)]
pub struct ProducerOptions {
    /// `acks`: 0, 1 or -1.
    pub acks: i16,
    /// `enable.idempotence`.
    pub idempotent: bool,
    /// How many requests may be in flight.
    pub in_flight_max: usize,
    /// How often it produces on its own.
    pub every: Option<Duration>,
    /// The most records of a batch.
    pub records_max: i32,
    /// The most bytes of a record.
    pub value_bytes_max: usize,
}

impl Default for ProducerOptions {
    fn default() -> Self {
        Self {
            acks: -1,
            idempotent: true,
            in_flight_max: 5,
            every: None,
            records_max: 3,
            value_bytes_max: 400,
        }
    }
}

/// A batch that is not answered yet.
#[derive(Clone, Debug)]
struct Outgoing {
    number: u64,
    bytes: Bytes,
    crc: u32,
    records: i32,
    sent: Option<(i32, Moment)>,
    /// The end of what was acknowledged when it was sent first.
    acked_before: Option<i64>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Producer {
    pub(crate) partition: TopicPartition,
    pub(crate) options: ProducerOptions,
    pub(crate) line: Line,
    identity: Option<(ProducerId, ProducerEpoch)>,
    next_sequence: Sequence,
    outgoing: VecDeque<Outgoing>,
    pause_until: Moment,
    produce_at: Moment,
    /// Numbers of the batches that were answered well, with their first offsets.
    pub(crate) answered: Vec<(u64, i64)>,
    pub(crate) last_error: Option<ErrorCode>,
    /// It does what is wrong, on purpose: what is refused is given up.
    may_be_refused: bool,
}

impl Producer {
    /// What was sent on a connection that is no more is sent again.
    pub(crate) fn ask_again(&mut self) {
        for outgoing in &mut self.outgoing {
            outgoing.sent = None;
        }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.outgoing.is_empty()
    }

    pub(crate) fn stop_producing(&mut self) {
        self.options.every = None;
    }

    fn in_flight(&self) -> usize {
        self.outgoing.iter().filter(|outgoing| outgoing.sent.is_some()).count()
    }
}

impl World {
    /// A new producer of a partition.
    pub fn producer(&mut self, partition: &TopicPartition, options: ProducerOptions) -> ClientId {
        let id = self.clients.next_id();
        let identity = options.idempotent.then(|| self.new_identity());
        let producer = Producer {
            partition: partition.clone(),
            options,
            line: Line::default(),
            identity,
            next_sequence: Sequence::ZERO,
            outgoing: VecDeque::new(),
            pause_until: self.now,
            produce_at: self.now,
            answered: Vec::new(),
            last_error: None,
            may_be_refused: false,
        };
        self.clients.producers.insert(id, producer);
        self.plan_soon(Happening::Client(id));
        id
    }

    fn new_identity(&mut self) -> (ProducerId, ProducerEpoch) {
        self.clients.next_producer_id += 1;
        let id = ProducerId::new(self.clients.next_producer_id).expect("ids are counted from 1");
        (id, ProducerEpoch::new(0).expect("0 is an epoch"))
    }

    /// From its next batch on a producer is this one.
    pub fn become_producer(&mut self, client: ClientId, id: i64, epoch: i16, sequence: i32) {
        let id = ProducerId::new(id).expect("a good id");
        let epoch = ProducerEpoch::new(epoch).expect("a good epoch");
        let producer = self.producer_of(client);
        producer.identity = Some((id, epoch));
        producer.next_sequence = Sequence::new(sequence).expect("a good sequence");
        producer.may_be_refused = true;
    }

    /// What is under way is still sent, and nothing new.
    pub fn stop_producing(&mut self, client: ClientId) {
        self.producer_of(client).stop_producing();
    }

    pub(crate) fn producer_of(&mut self, client: ClientId) -> &mut Producer {
        self.clients
            .producers
            .get_mut(&client)
            .unwrap_or_else(|| panic!("client {} is no producer", client.0))
    }

    /// Hands a batch of so many records over; gives its number. It is sent when its turn comes.
    pub fn send_batch(&mut self, client: ClientId, records: i32) -> u64 {
        self.clients.next_batch += 1;
        let number = self.clients.next_batch;
        let wall = self.clock(Duration::ZERO, 0).wall;
        let most = self.producer_of(client).options.value_bytes_max;
        let size = self.chance.usize(8..=most.max(8));
        let producer = self.producer_of(client);
        let mut builder = BatchBuilder::new(Compression::None);
        if let Some((id, epoch)) = producer.identity {
            builder = builder.producer(id, epoch, producer.next_sequence);
            producer.next_sequence = producer.next_sequence.wrapping_add(records);
        }
        let mut value = format!("batch {number} ").into_bytes();
        value.resize(size.max(value.len()), b'.');
        for _ in 0..records {
            builder.push(Some(wall), None, Some(&value), &[]).expect("a small record");
        }
        let bytes = builder.finish().expect("a small batch");
        let crc = BatchHeader::parse(&bytes).expect("a batch that was just built").crc;
        producer.outgoing.push_back(Outgoing { number, bytes, crc, records, sent: None, acked_before: None });
        self.ghost.attempted(crc);
        self.plan_soon(Happening::Client(client));
        number
    }

    pub(super) fn producer_turn(&mut self, client: ClientId) {
        let now = self.now;
        let options = self.producer_of(client).options;
        if let Some(every) = options.every
            && self.producer_of(client).produce_at <= now
        {
            if self.producer_of(client).outgoing.len() < 10 {
                let records = self.chance.i32(1..=options.records_max);
                self.send_batch(client, records);
            }
            let wait = self.some(every.saturating_mul(2));
            self.producer_of(client).produce_at = now.after(wait);
            self.plan_in(wait, Happening::Client(client));
        }
        self.give_up_waiting(client);
        let producer = self.producer_of(client);
        if producer.pause_until > now || producer.outgoing.iter().all(|outgoing| outgoing.sent.is_some()) {
            return;
        }
        let partition = producer.partition.clone();
        let Some(leader) = self.leader_for(client, &partition) else { return self.pause_client(client) };
        let Some(connection) = self.dial(client, leader) else { return };
        self.send_outgoing(client, connection, &partition);
    }

    fn give_up_waiting(&mut self, client: ClientId) {
        let now = self.now;
        let overdue = |outgoing: &Outgoing| outgoing.sent.is_some_and(|(_, at)| at.after(PATIENCE) <= now);
        if self.producer_of(client).outgoing.iter().any(overdue) {
            self.count("produces without an answer");
            self.hang_up(client);
        }
    }

    fn send_outgoing(&mut self, client: ClientId, connection: u64, partition: &TopicPartition) {
        let acked = self.ghost.acked_end(partition);
        while self.producer_of(client).in_flight() < self.producer_of(client).options.in_flight_max {
            let producer = self.producer_of(client);
            let acks = producer.options.acks;
            let Some(at) = producer.outgoing.iter().position(|outgoing| outgoing.sent.is_none()) else {
                break;
            };
            let outgoing = &mut producer.outgoing[at];
            outgoing.acked_before.get_or_insert(acked);
            let records = outgoing.bytes.clone();
            // A frame owns its bytes alone when it comes from a socket.
            let data = PartitionProduceData { index: partition.partition(), records: Some(records) };
            let request = ProduceRequest {
                acks,
                timeout_ms: 1_000,
                topic_data: vec![TopicProduceData {
                    name: partition.topic().to_owned(),
                    partition_data: vec![data],
                    ..Default::default()
                }],
                ..Default::default()
            };
            let correlation = self.request(client, connection, VERSION, &request.into());
            let now = self.now;
            let producer = self.producer_of(client);
            if acks == 0 {
                producer.outgoing.remove(at);
            } else {
                producer.outgoing[at].sent = Some((correlation, now));
                self.plan_in(PATIENCE, Happening::Client(client));
            }
        }
    }

    fn pause_client(&mut self, client: ClientId) {
        let wait = self.some(Duration::from_millis(50));
        let until = self.now.after(wait);
        self.producer_of(client).pause_until = until;
        self.plan_in(wait, Happening::Client(client));
    }

    /// An answer leaves a broker: what it promises must hold now, whether or not it arrives.
    pub(super) fn check_reply(&mut self, client: ClientId, leader: NodeId, frame: &Bytes) {
        let Some(producer) = self.clients.producers.get(&client) else { return };
        let Some(correlation) = wire::decode_correlation_id(frame) else { return };
        let Some(outgoing) = find(producer, correlation).cloned() else { return };
        let Ok((_, Response::Produce(response))) =
            wire::decode_response(ApiKey::Produce, VERSION, frame.clone())
        else {
            return;
        };
        let (error, base) = outcome(&response);
        if !error.is_none() {
            return;
        }
        let answer = ProduceAnswer {
            promise: if producer.options.acks == 1 { Promise::Leader } else { Promise::All },
            crc: outgoing.crc,
            records: outgoing.records,
            base,
            acked_before: outgoing.acked_before.unwrap_or(0),
            idempotent: producer.options.idempotent,
        };
        let partition = producer.partition.clone();
        self.ghost.check_answer(&partition, leader, &answer);
    }

    pub(super) fn producer_hears(&mut self, client: ClientId, frame: Bytes) {
        let (correlation, Response::Produce(response)) = self.answer(client, ApiKey::Produce, VERSION, frame)
        else {
            return;
        };
        let (error, base) = outcome(&response);
        let producer = self.producer_of(client);
        let Some(at) = producer
            .outgoing
            .iter()
            .position(|outgoing| outgoing.sent.is_some_and(|(sent, _)| sent == correlation))
        else {
            return;
        };
        let number = producer.outgoing[at].number;
        if error.is_none() {
            producer.outgoing.remove(at);
            producer.answered.push((number, base));
            return;
        }
        producer.outgoing[at].sent = None;
        if producer.last_error.replace(error) != Some(error) {
            self.note(format!(
                "client {} hears {} for batch {number} and those behind it",
                client.0,
                error.name()
            ));
        }
        self.on_error(client, at, error);
    }

    fn on_error(&mut self, client: ClientId, at: usize, error: ErrorCode) {
        let idempotent = self.producer_of(client).identity.is_some();
        let lost_track = matches!(
            error,
            ErrorCode::OutOfOrderSequenceNumber
                | ErrorCode::UnknownProducerId
                | ErrorCode::InvalidProducerEpoch
        );
        if idempotent && lost_track {
            // Behind one that failed, it waits for its turn; the first one has nothing to wait for.
            if self.producer_of(client).may_be_refused {
                self.producer_of(client).outgoing.clear();
            } else if at == 0 {
                self.count("producers that lost track");
                self.begin_anew(client);
            }
        } else if error == ErrorCode::InvalidTimestamp {
            // The leader's clock has jumped; it will be right again, or somebody else leads.
            self.count("produces refused because of a clock");
        } else if !error.is_retriable() && error != ErrorCode::KafkaStorageError {
            self.note(format!("client {} did not expect {}", client.0, error.name()));
            panic!("{}", self.report());
        } else {
            self.count("produces refused");
        }
        self.pause_client(client);
    }

    /// The broker has lost what the producer relied on: what is not answered is given up, under another id all begins anew.
    fn begin_anew(&mut self, client: ClientId) {
        let identity = self.new_identity();
        let partition = self.producer_of(client).partition.clone();
        // A window of five batches is kept in memory; a snapshot has the last one only, as Kafka's. So a batch that is in the log may be out of
        // order after a restart (see BUGS.md); one that is in no log may not.
        let crc = self.producer_of(client).outgoing.front().map(|first| first.crc);
        if crc.is_some_and(|crc| self.ghost.is_in_a_log(&partition, crc)) {
            self.count("duplicates that were not recognized");
        } else if self.ghost.losses(&partition) == 0 {
            let of_this = self.producer_of(client).identity.map_or(-1, |(id, _)| id.value());
            let first = self
                .producer_of(client)
                .outgoing
                .front()
                .and_then(|first| BatchHeader::parse(&first.bytes).ok());
            let sequence = first.and_then(|header| header.base_sequence).map_or(-1, Sequence::value);
            let logs = self.ghost.sequences_of(&partition, of_this);
            let what = format!(
                "{partition}: the first batch in flight of producer {of_this} is out of order with sequence {sequence}, nothing was lost, and \
                 the logs have (offset, sequence) {logs}"
            );
            self.ghost.out_of_order(&partition, of_this, what);
        }
        let producer = self.producer_of(client);
        producer.identity = Some(identity);
        producer.next_sequence = Sequence::ZERO;
        producer.outgoing.clear();
    }
}

fn find(producer: &Producer, correlation: i32) -> Option<&Outgoing> {
    producer.outgoing.iter().find(|outgoing| outgoing.sent.is_some_and(|(sent, _)| sent == correlation))
}

fn outcome(response: &ProduceResponse) -> (ErrorCode, i64) {
    let part = response.responses.iter().flat_map(|topic| &topic.partition_responses).next();
    part.map_or((ErrorCode::UnknownServerError, -1), |part| (part.error_code, part.base_offset))
}
