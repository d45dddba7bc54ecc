//! A client of Kafka's protocol, as small as it can be.

use std::time::Duration;

use highwater_broker::ask::Connection;
use highwater_broker::clock::Clock;
use highwater_broker::settings::HostPort;
use highwater_engine::batch::{BatchBuilder, Compression, DecompressLimits, scan};
use highwater_engine::units::{ProducerEpoch, ProducerId, Sequence, Timestamp};
use highwater_replication::wire::fetch::{FetchPartition, FetchRequest, FetchTopic};
use highwater_replication::wire::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData,
};
use highwater_replication::wire::{ErrorCode, Records, Response};

/// Tries until it is so; it has to be soon.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let clock = Clock::start();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(clock.now().monotonic.since_start() < Duration::from_secs(30), "not in time: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

pub(crate) fn client(address: &HostPort) -> Connection {
    Connection::open(address).expect("the broker listens")
}

pub(crate) fn batch(producer: Option<(i64, i32)>, values: &[&str]) -> bytes::Bytes {
    let mut builder = BatchBuilder::new(Compression::Lz4);
    if let Some((id, sequence)) = producer {
        let epoch = ProducerEpoch::new(0).unwrap();
        builder = builder.producer(ProducerId::new(id).unwrap(), epoch, Sequence::new(sequence).unwrap());
    }
    for value in values {
        builder
            .push(Some(Timestamp::from_millis(1_700_000_000_000)), None, Some(value.as_bytes()), &[])
            .unwrap();
    }
    builder.finish().unwrap()
}

/// Appends, and gives what is answered.
pub(crate) fn answer_to(
    broker: &mut Connection,
    topic: &str,
    acks: i16,
    records: bytes::Bytes,
) -> PartitionProduceResponse {
    let partition_data = vec![PartitionProduceData { index: 0, records: Some(records) }];
    let topic_data = vec![TopicProduceData { name: topic.to_owned(), partition_data, ..Default::default() }];
    let request = ProduceRequest { acks, timeout_ms: 5_000, topic_data, ..Default::default() };
    let Response::Produce(mut response) = broker.call(9, &request.into()).unwrap() else {
        panic!("not Produce")
    };
    response.responses.remove(0).partition_responses.remove(0)
}

/// Appends, and answers the error or the base offset.
pub(crate) fn produce(
    broker: &mut Connection,
    topic: &str,
    acks: i16,
    records: bytes::Bytes,
) -> Result<i64, ErrorCode> {
    let partition = answer_to(broker, topic, acks, records);
    if partition.error_code.is_none() { Ok(partition.base_offset) } else { Err(partition.error_code) }
}

/// Everything in the partition that consumers see: each value with its offset.
pub(crate) fn consume(broker: &mut Connection, topic: &str) -> Vec<(i64, String)> {
    consume_from(broker, topic, 0)
}

pub(crate) fn consume_from(broker: &mut Connection, topic: &str, from: i64) -> Vec<(i64, String)> {
    let mut records = Vec::new();
    let mut next = from;
    loop {
        let partitions =
            vec![FetchPartition { fetch_offset: next, partition_max_bytes: 1 << 20, ..Default::default() }];
        let topics = vec![FetchTopic { topic: topic.to_owned(), partitions, ..Default::default() }];
        let request = FetchRequest { max_wait_ms: 100, min_bytes: 1, topics, ..Default::default() };
        let Response::Fetch(response) = broker.call(11, &request.into()).unwrap() else {
            panic!("not Fetch")
        };
        let partition = &response.responses[0].partitions[0];
        assert_eq!(partition.error_code, ErrorCode::None);
        let bytes = partition.records.clone().map(Records::into_bytes).unwrap_or_default();
        if bytes.is_empty() {
            return records;
        }
        for found in scan(&bytes, 0) {
            let (_, batch) = found.unwrap();
            let mut scratch = Vec::new();
            for record in batch.records(&DecompressLimits::default(), &mut scratch).unwrap() {
                let record = record.unwrap();
                let value = String::from_utf8(record.value.unwrap().to_vec()).unwrap();
                next = record.offset.value() + 1;
                records.push((record.offset.value(), value));
            }
        }
    }
}
