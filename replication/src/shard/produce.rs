//! Produce: batches are proven, appended in the epoch of a permit, and waited for.

use std::time::Duration;

use highwater_engine::batch::{ProducedBatch, RecordRefusal};
use highwater_engine::units::{LeaderEpoch, Now, Offset, Timestamp};

use super::event::{CloseReason, Out};
use super::{ReplicaKey, Shard, errors};
use crate::partition::{AckWait, Acks, Input, ProduceRefusal, WaitId, WaitOutcome};
use crate::pending::Slot;
use crate::wire::produce::{
    BatchIndexAndErrorMessage, PartitionProduceData, PartitionProduceResponse, ProduceRequest,
    ProduceResponse, TopicProduceResponse,
};
use crate::wire::{ErrorCode, RequestHeader, consumer_offsets};

/// A Produce that is not answered yet.
#[derive(Debug)]
pub(super) struct OpenProduce {
    header: RequestHeader,
    /// With the answers of all parts, as if every wait ended well.
    response: ProduceResponse,
    /// Which replica each part waits at, in order of the parts; `None` if it does not wait.
    waits: Vec<Option<(ReplicaKey, WaitId)>>,
}

impl OpenProduce {
    /// The replica that has this wait, if it is one of this request's.
    pub(super) fn waits_at(&self, wait: WaitId) -> Option<ReplicaKey> {
        self.waits.iter().flatten().find(|(_, id)| *id == wait).map(|(key, _)| *key)
    }

    /// What waits at this replica.
    pub(super) fn waits_of(&self, key: ReplicaKey) -> impl Iterator<Item = WaitId> {
        self.waits.iter().flatten().filter(move |(at, _)| *at == key).map(|(_, id)| *id)
    }
}

/// What an append gave.
struct AppendedPart {
    end: Offset,
    epoch: LeaderEpoch,
}

impl Shard {
    pub(super) fn on_produce(
        &mut self,
        now: Now,
        slot: Slot,
        header: RequestHeader,
        epoch: Option<LeaderEpoch>,
        body: ProduceRequest,
    ) {
        let timeout = Duration::from_millis(u64::try_from(body.timeout_ms).unwrap_or(0));
        let deadline = now.monotonic.after(timeout);
        let acks = Acks::from_number(body.acks).ok_or(ErrorCode::InvalidRequiredAcks);
        let acks = match acks {
            Ok(_) if body.transactional_id.is_some() => Err(ErrorCode::TransactionalIdAuthorizationFailed),
            acks => acks,
        };
        let parts: usize = body.topic_data.iter().map(|topic| topic.partition_data.len()).sum();
        let mut id = self.requests.produces.open(slot, u32::try_from(parts).unwrap_or(u32::MAX));
        let mut produce = OpenProduce { header, response: ProduceResponse::default(), waits: Vec::new() };
        let mut begun = Vec::new();
        for topic in body.topic_data {
            let mut answers = Vec::with_capacity(topic.partition_data.len());
            for data in topic.partition_data {
                let index = data.index;
                let found = acks.and_then(|acks| Ok((self.find(&topic.name, topic.topic_id, index)?, acks)));
                let (answer, wait) = match found {
                    Ok((key, acks)) => {
                        let (answer, appended) = self.append(now, key, epoch, acks, data);
                        let wait = appended.filter(|_| acks != Acks::None).map(|part| {
                            (key, AckWait { id, epoch: part.epoch, end: part.end, acks, deadline })
                        });
                        (answer, wait)
                    }
                    Err(error) => (failed(index, error), None),
                };
                answers.push(answer);
                produce.waits.push(wait.map(|(key, wait)| (key, wait.id)));
                begun.push((id, wait));
                id.part += 1;
            }
            produce.response.responses.push(TopicProduceResponse {
                name: topic.name,
                topic_id: topic.topic_id,
                partition_responses: answers,
            });
        }
        if acks == Ok(Acks::None) {
            return self.answer_nothing(slot, begun, &produce);
        }
        self.requests.open_produces.insert(slot, produce);
        for (id, wait) in begun {
            match wait {
                Some((key, wait)) if self.replicas.contains_key(&key) => {
                    self.step(now, key, Input::Wait(wait));
                }
                // It went when it was told of the append.
                Some(_) => self.requests.produces.settle(id, Some(WaitOutcome::LeadershipChanged)),
                None => self.requests.produces.settle(id, None),
            }
        }
    }

    fn append(
        &mut self,
        now: Now,
        key: ReplicaKey,
        epoch: Option<LeaderEpoch>,
        acks: Acks,
        data: PartitionProduceData,
    ) -> (PartitionProduceResponse, Option<AppendedPart>) {
        let index = data.index;
        let Some(replica) = self.replicas.get(&key) else {
            return (failed(index, ErrorCode::NotLeaderOrFollower), None);
        };
        if epoch.is_none() && replica.name.topic() == consumer_offsets::TOPIC {
            return (failed(index, ErrorCode::InvalidTopicException), None);
        }
        let permit = replica.look(|machine, facts| {
            let permit = machine.may_append(acks, facts)?;
            if epoch.is_some_and(|epoch| epoch != permit.epoch()) {
                return Err(ProduceRefusal::NotLeader);
            }
            // As if the leadership had not begun: the client tries again.
            let may_grow = self.may_grow(&replica.name, facts.accepted);
            may_grow.then_some(permit).ok_or(ProduceRefusal::EpochNotBegun)
        });
        let permit = match permit {
            Ok(permit) => permit,
            Err(refusal) => {
                let error = errors::of_produce(refusal);
                let current_leader = self.leader_hint(error, Some(key));
                return (PartitionProduceResponse { current_leader, ..failed(index, error) }, None);
            }
        };
        let refused = |error_code, message: String| PartitionProduceResponse {
            log_start_offset: replica.log.start().value(),
            error_message: Some(message),
            ..failed(index, error_code)
        };
        let batch = match ProducedBatch::check(data.records.unwrap_or_default(), &replica.limits, now.wall) {
            Ok(batch) if batch.header().attributes.is_transactional() => {
                return (failed(index, ErrorCode::TransactionalIdAuthorizationFailed), None);
            }
            Ok(batch) => batch,
            Err(refusal) => {
                let answer = refused(errors::of_batch(refusal.kind()), refusal.to_string());
                let record_errors = refusal.records().iter().map(of_record).collect();
                return (PartitionProduceResponse { record_errors, ..answer }, None);
            }
        };
        let appended = match replica.log.append(permit, batch, now) {
            Ok(appended) => appended,
            Err(error) => {
                return (refused(errors::of_append(&error), error.to_string()), None);
            }
        };
        let log_start_offset = replica.log.start().value();
        self.step(now, key, Input::LogMoved);
        let answer = PartitionProduceResponse {
            index,
            base_offset: appended.offsets.start().value(),
            log_append_time_ms: appended.log_append_time.map_or(-1, Timestamp::millis),
            log_start_offset,
            ..Default::default()
        };
        (answer, Some(AppendedPart { end: appended.offsets.end(), epoch: permit.epoch() }))
    }

    /// acks=0: no answer, and a closed connection if anything failed, as in Kafka.
    fn answer_nothing<T>(&mut self, slot: Slot, begun: Vec<(WaitId, T)>, produce: &OpenProduce) {
        for (id, _) in begun {
            self.requests.produces.settle(id, None);
        }
        let mut answers = produce.response.responses.iter().flat_map(|topic| &topic.partition_responses);
        if answers.any(|answer| !answer.error_code.is_none()) {
            return self.hang_up(slot.connection, CloseReason::UnacknowledgedAppendRefused);
        }
        self.out.push(Out::Frame { slot, parts: Vec::new() });
    }

    pub(super) fn answer_produce(&mut self, slot: Slot, outcomes: Vec<Option<WaitOutcome>>) {
        // What is acknowledged by nobody was answered when it was appended.
        let Some(mut produce) = self.requests.open_produces.remove(&slot) else { return };
        let answers = produce.response.responses.iter_mut().flat_map(|topic| &mut topic.partition_responses);
        for ((answer, wait), outcome) in answers.zip(&produce.waits).zip(outcomes) {
            let (Some((key, _)), Some(outcome)) = (wait, outcome) else { continue };
            answer.error_code = errors::of_wait(outcome);
            answer.current_leader = self.leader_hint(answer.error_code, Some(*key));
            // After an error the base offset is named only where the records may be in the log all the same.
            if matches!(
                answer.error_code,
                ErrorCode::NotEnoughReplicasAfterAppend | ErrorCode::KafkaStorageError
            ) {
                answer.base_offset = -1;
            }
        }
        let answers = produce.response.responses.iter().flat_map(|topic| &topic.partition_responses);
        produce.response.node_endpoints = self.endpoints(answers.map(|answer| &answer.current_leader));
        self.reply(slot, &produce.header, &produce.response.into());
    }
}

fn of_record((record, why): &(i32, RecordRefusal)) -> BatchIndexAndErrorMessage {
    BatchIndexAndErrorMessage { batch_index: *record, batch_index_error_message: Some(why.to_string()) }
}

fn failed(index: i32, error_code: ErrorCode) -> PartitionProduceResponse {
    PartitionProduceResponse { index, error_code, base_offset: -1, ..Default::default() }
}
