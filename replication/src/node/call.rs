//! A client of a node in the same process: the requests that a Kafka client would send, and what comes of them.

use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::bounded;
use highwater_engine::units::{Offset, TopicPartition};

use super::Node;
use super::host::Order;
use crate::wire::fetch::{FetchPartition, FetchRequest, FetchTopic};
use crate::wire::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use crate::wire::{ApiKey, ErrorCode, Request, RequestHeader, Response, decode_response, encode_request};

/// The last versions that name topics instead of their ids.
const PRODUCE_VERSION: i16 = 12;
const FETCH_VERSION: i16 = 12;
const LENGTH_BYTES: usize = 4;

/// What an append is acknowledged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// The leader has written it (`acks=1`).
    Leader,
    /// All in-sync replicas have it, `min.insync.replicas` at least (`acks=all`).
    All,
}

/// What a read gave.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Whole batches, as they were appended; the first may begin before the offset that was asked for. Empty if there was nothing in time.
    pub records: Bytes,
    /// Below it everything is committed.
    pub high_watermark: Offset,
}

/// Why a call to a node came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The node refuses it; Kafka's codes say why, and which of them may be tried again.
    #[error("refused: {code:?}{}", .why.as_deref().map(|why| format!(": {why}")).unwrap_or_default())]
    Refused {
        /// Kafka's code.
        code: ErrorCode,
        /// More, if there is more to say.
        why: Option<String>,
    },
    /// The node has ended, or has closed the connection: it may be there or not.
    #[error("the node gives no answer; it may have been carried out or not")]
    NoAnswer,
    /// The request is larger than a frame.
    #[error("the request is too large for a frame")]
    TooLarge,
}

impl CallError {
    /// Whether this node does not lead the partition, as far as it knows: ask another, or again.
    pub fn is_elsewhere(&self) -> bool {
        let Self::Refused { code, .. } = self else { return false };
        matches!(code, ErrorCode::NotLeaderOrFollower | ErrorCode::UnknownTopicOrPartition)
    }
}

fn refuse(code: ErrorCode, why: Option<String>) -> Result<(), CallError> {
    if code == ErrorCode::None { Ok(()) } else { Err(CallError::Refused { code, why }) }
}

impl Node {
    /// Appends a batch to a partition that this node leads, and waits for the acknowledgement, `time` at most. Answers the offset of its
    /// first record.
    ///
    /// An error behind the append, above all `RequestTimedOut` and `NotEnoughReplicasAfterAppend`, leaves open whether it is there: with a
    /// producer's id and sequence it can be sent again and is there once.
    pub fn append(
        &self,
        partition: &TopicPartition,
        batch: Bytes,
        acks: Acks,
        time: Duration,
    ) -> Result<Offset, CallError> {
        let data = PartitionProduceData { index: partition.partition(), records: Some(batch) };
        let topic = TopicProduceData {
            name: partition.topic().to_owned(),
            partition_data: vec![data],
            ..Default::default()
        };
        let request = ProduceRequest {
            acks: if acks == Acks::All { -1 } else { 1 },
            timeout_ms: milliseconds(time),
            topic_data: vec![topic],
            ..Default::default()
        };
        let Response::Produce(response) = self.call(ApiKey::Produce, PRODUCE_VERSION, &request.into())?
        else {
            return Err(CallError::NoAnswer);
        };
        let part = response.responses.into_iter().flat_map(|topic| topic.partition_responses).next();
        let part = part.ok_or(CallError::NoAnswer)?;
        refuse(part.error_code, part.error_message)?;
        Offset::new(part.base_offset).ok_or(CallError::NoAnswer)
    }

    /// Reads committed batches of a partition that this node leads, from an offset on; at the end it waits for more, `time` at most.
    pub fn read(
        &self,
        partition: &TopicPartition,
        from: Offset,
        bytes_max: u32,
        time: Duration,
    ) -> Result<Fetched, CallError> {
        let bytes_max = i32::try_from(bytes_max).unwrap_or(i32::MAX);
        let asked = FetchPartition {
            partition: partition.partition(),
            fetch_offset: from.value(),
            partition_max_bytes: bytes_max,
            ..Default::default()
        };
        let topic =
            FetchTopic { topic: partition.topic().to_owned(), partitions: vec![asked], ..Default::default() };
        let request = FetchRequest {
            max_wait_ms: milliseconds(time),
            min_bytes: 1,
            max_bytes: bytes_max,
            topics: vec![topic],
            ..Default::default()
        };
        let Response::Fetch(response) = self.call(ApiKey::Fetch, FETCH_VERSION, &request.into())? else {
            return Err(CallError::NoAnswer);
        };
        refuse(response.error_code, None)?;
        let part = response.responses.into_iter().flat_map(|topic| topic.partitions).next();
        let part = part.ok_or(CallError::NoAnswer)?;
        refuse(part.error_code, None)?;
        Ok(Fetched {
            records: part.records.unwrap_or_default().into_bytes(),
            high_watermark: Offset::new(part.high_watermark).unwrap_or_default(),
        })
    }

    fn call(&self, api: ApiKey, version: i16, request: &Request) -> Result<Response, CallError> {
        let header = RequestHeader { api, version, correlation_id: 0, client_id: None };
        let parts = encode_request(&header, request).map_err(|_| CallError::TooLarge)?;
        let frame = Bytes::from(parts.concat()).split_off(LENGTH_BYTES);
        let (answer, answered) = bounded(1);
        self.orders.send(Order::Call { frame, answer }).map_err(|_| CallError::NoAnswer)?;
        let frame = answered.recv().map_err(|_| CallError::NoAnswer)?;
        let (_, response) = decode_response(api, version, frame).map_err(|_| CallError::NoAnswer)?;
        Ok(response)
    }
}

fn milliseconds(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}
