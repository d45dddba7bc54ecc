//! A consumer of one partition: reads what is committed from the beginning, and asks for the latest offset now and then.

use std::time::Duration;

use bytes::Bytes;
use highwater_engine::batch::scan;
use highwater_engine::units::TopicPartition;
use highwater_replication::wire::fetch::{FetchPartition, FetchRequest, FetchTopic};
use highwater_replication::wire::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use highwater_replication::wire::{ApiKey, ErrorCode, Response};

use super::World;
use super::agenda::{Happening, Moment};
use super::client::Line;
use super::network::ClientId;
use crate::invariants::BatchFact;

const FETCH_VERSION: i16 = 12;
const LIST_VERSION: i16 = 7;
const PATIENCE: Duration = Duration::from_millis(1_500);

#[derive(Clone, Copy, Debug)]
enum Question {
    Records,
    Latest { told_before: i64, acked_before: i64 },
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Consumer {
    partition: TopicPartition,
    pub(crate) line: Line,
    pub(crate) position: i64,
    asked: Option<(Question, Moment)>,
    pause_until: Moment,
    pub(crate) latest_told: Option<i64>,
    pub(crate) last_error: Option<ErrorCode>,
}

impl Consumer {
    pub(crate) fn forget_question(&mut self) {
        self.asked = None;
    }
}

impl World {
    /// A new consumer of a partition, which begins at its beginning.
    pub fn consumer(&mut self, partition: &TopicPartition) -> ClientId {
        self.consumer_at(partition, 0)
    }

    /// A new consumer of a partition, which begins at this offset.
    pub fn consumer_at(&mut self, partition: &TopicPartition, position: i64) -> ClientId {
        let id = self.clients.next_id();
        let consumer = Consumer {
            partition: partition.clone(),
            line: Line::default(),
            position,
            asked: None,
            pause_until: self.now,
            latest_told: None,
            last_error: None,
        };
        self.clients.consumers.insert(id, consumer);
        self.plan_soon(Happening::Client(id));
        id
    }

    /// How far a consumer has read.
    pub fn position(&self, client: ClientId) -> i64 {
        self.clients.consumers.get(&client).map_or(0, |consumer| consumer.position)
    }

    pub(super) fn consumer_turn(&mut self, client: ClientId) {
        let now = self.now;
        let Some(consumer) = self.clients.consumers.get(&client) else { return };
        if consumer.asked.is_some_and(|(_, at)| at.after(PATIENCE) <= now) {
            self.hang_up(client);
        }
        let Some(consumer) = self.clients.consumers.get(&client) else { return };
        if consumer.asked.is_some() || consumer.pause_until > now {
            return;
        }
        let (partition, position) = (consumer.partition.clone(), consumer.position);
        let Some(leader) = self.leader_for(client, &partition) else { return self.pause_consumer(client) };
        let Some(connection) = self.dial(client, leader) else { return };
        let question = if self.chance.u8(..8) == 0 {
            let (told_before, acked_before) =
                (self.ghost.latest_told(&partition), self.ghost.acked_end(&partition));
            self.request(client, connection, LIST_VERSION, &latest(&partition).into());
            Question::Latest { told_before, acked_before }
        } else {
            self.request(client, connection, FETCH_VERSION, &fetch(&partition, position).into());
            Question::Records
        };
        if let Some(consumer) = self.clients.consumers.get_mut(&client) {
            consumer.asked = Some((question, now));
        }
        self.plan_in(PATIENCE, Happening::Client(client));
    }

    fn pause_consumer(&mut self, client: ClientId) {
        let wait = self.some(Duration::from_millis(50));
        let until = self.now.after(wait);
        if let Some(consumer) = self.clients.consumers.get_mut(&client) {
            consumer.pause_until = until;
        }
        self.plan_in(wait, Happening::Client(client));
    }

    pub(super) fn consumer_hears(&mut self, client: ClientId, frame: Bytes) {
        let Some(consumer) = self.clients.consumers.get_mut(&client) else { return };
        let Some((question, _)) = consumer.asked.take() else { return };
        let partition = consumer.partition.clone();
        match question {
            Question::Records => self.consumer_reads(client, &partition, frame),
            Question::Latest { told_before, acked_before } => {
                let (_, Response::ListOffsets(response)) =
                    self.answer(client, ApiKey::ListOffsets, LIST_VERSION, frame)
                else {
                    return;
                };
                let Some(part) = response.topics.iter().flat_map(|topic| &topic.partitions).next() else {
                    return;
                };
                if part.error_code.is_none() {
                    self.ghost.check_latest(&partition, part.offset, told_before, acked_before);
                    self.consumer_hears_latest(client, part.offset);
                } else {
                    self.consumer_fails(client, part.error_code);
                }
            }
        }
    }

    fn consumer_hears_latest(&mut self, client: ClientId, offset: i64) {
        if let Some(consumer) = self.clients.consumers.get_mut(&client) {
            consumer.latest_told = Some(offset);
        }
    }

    fn consumer_fails(&mut self, client: ClientId, error: ErrorCode) {
        if error == ErrorCode::OffsetNotAvailable {
            self.count("offsets that were not available yet");
        }
        if let Some(consumer) = self.clients.consumers.get_mut(&client) {
            consumer.last_error = Some(error);
        }
        self.pause_consumer(client);
    }

    fn consumer_reads(&mut self, client: ClientId, partition: &TopicPartition, frame: Bytes) {
        let (_, Response::Fetch(response)) = self.answer(client, ApiKey::Fetch, FETCH_VERSION, frame) else {
            return;
        };
        let Some(part) = response.responses.into_iter().flat_map(|topic| topic.partitions).next() else {
            return;
        };
        if !part.error_code.is_none() {
            if part.error_code == ErrorCode::OffsetOutOfRange {
                let position = self.position(client);
                self.ghost.check_out_of_range(partition, position);
                if let Some(consumer) = self.clients.consumers.get_mut(&client) {
                    consumer.position = 0;
                }
            }
            return self.consumer_fails(client, part.error_code);
        }
        let bytes = part.records.map(highwater_replication::wire::Records::into_bytes).unwrap_or_default();
        let mut batches = Vec::new();
        for batch in scan(&bytes, 0) {
            match batch {
                Ok((_, batch)) => batches.push(BatchFact::of(batch.header())),
                Err(stop) => self.ghost.check_torn(partition, &stop),
            }
        }
        self.ghost.check_passed_over(partition, self.position(client), &batches);
        let end = self.ghost.check_consumed(partition, &batches);
        if let Some(consumer) = self.clients.consumers.get_mut(&client) {
            consumer.position = consumer.position.max(end);
        }
    }
}

fn fetch(partition: &TopicPartition, position: i64) -> FetchRequest {
    FetchRequest {
        max_wait_ms: 200,
        min_bytes: 1,
        max_bytes: 64 << 10,
        topics: vec![FetchTopic {
            topic: partition.topic().to_owned(),
            partitions: vec![FetchPartition {
                partition: partition.partition(),
                fetch_offset: position,
                partition_max_bytes: 16 << 10,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn latest(partition: &TopicPartition) -> ListOffsetsRequest {
    ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsTopic {
            name: partition.topic().to_owned(),
            partitions: vec![ListOffsetsPartition {
                partition_index: partition.partition(),
                timestamp: -1,
                ..Default::default()
            }],
        }],
        ..Default::default()
    }
}
