//! Topics of the cluster under test: made, found, waited for, deleted.

use std::net::SocketAddr;
use std::time::Duration;

use highwater_replication::wire::ErrorCode;
use highwater_replication::wire::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse,
};
use highwater_replication::wire::delete_topics::{
    DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
};
use highwater_replication::wire::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
};
use highwater_replication::wire::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};

use crate::client::Connection;
use crate::clock;
use crate::error::{BenchError, Result};

const METADATA_VERSION: i16 = 12;
const CREATE_VERSION: i16 = 7;
const DELETE_VERSION: i16 = 6;
const LIST_OFFSETS_VERSION: i16 = 7;
/// The timestamp that stands for a partition's end.
const LATEST: i64 = -1;
const WAIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// What a topic should be.
#[derive(Clone, Debug)]
pub(crate) struct NewTopic {
    pub(crate) name: String,
    pub(crate) partitions: i32,
    pub(crate) replicas: i16,
    pub(crate) configs: Vec<(&'static str, String)>,
}

/// Where a topic's partitions are led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) topic: String,
    /// Each leader with its partitions, ascending.
    pub(crate) leaders: Vec<(SocketAddr, Vec<i32>)>,
    /// The smallest ISR of all partitions.
    pub(crate) isr_min: usize,
}

/// Makes the topic and waits until all of its replicas are in sync.
pub(crate) fn create(bootstrap: SocketAddr, topic: &NewTopic) -> Result<Layout> {
    let configs = topic.configs.iter();
    let configs = configs
        .map(|(name, value)| CreatableTopicConfig { name: (*name).to_owned(), value: Some(value.clone()) });
    let asked = CreatableTopic {
        name: topic.name.clone(),
        num_partitions: topic.partitions,
        replication_factor: topic.replicas,
        configs: configs.collect(),
        ..CreatableTopic::default()
    };
    let request = CreateTopicsRequest { topics: vec![asked], ..CreateTopicsRequest::default() };
    let response = Connection::open(bootstrap)?.call(CREATE_VERSION, request)?;
    let response = CreateTopicsResponse::try_from(response)
        .map_err(|other| BenchError::SomethingElse { asked: other.api() })?;
    for result in response.topics {
        let what = format!("making the topic {}", result.name);
        BenchError::check(&what, result.error_code, result.error_message.as_deref())?;
    }
    wait_until_whole(bootstrap, &topic.name, usize::from(topic.replicas.unsigned_abs()))
}

/// Waits until the topic has a leader for each partition, which knows it, and an ISR of this size.
fn wait_until_whole(bootstrap: SocketAddr, topic: &str, isr: usize) -> Result<Layout> {
    let mut last = None;
    let whole = clock::poll(WAIT, PAUSE, || match find_led(bootstrap, topic) {
        Ok(layout) if layout.isr_min >= isr => Some(layout),
        Ok(layout) => {
            last = Some(format!("an ISR of {}", layout.isr_min));
            None
        }
        Err(error) => {
            last = Some(error.to_string());
            None
        }
    });
    let what = || format!("{topic} with {isr} replicas in sync");
    whole.ok_or_else(|| BenchError::TooLate { what: what(), seconds: WAIT.as_secs(), last })
}

/// Where the topic is led; made on the way if that is asked for and the cluster does it.
pub(crate) fn find(bootstrap: SocketAddr, topic: &str, create: bool) -> Result<Layout> {
    let asked = MetadataRequestTopic { name: Some(topic.to_owned()), ..MetadataRequestTopic::default() };
    let request = MetadataRequest {
        topics: Some(vec![asked]),
        allow_auto_topic_creation: create,
        ..MetadataRequest::default()
    };
    layout_of(topic, &ask(bootstrap, request)?)
}

/// Where the topic is led, if each leader says so itself: metadata may tell of a leader before it has become one.
fn find_led(bootstrap: SocketAddr, topic: &str) -> Result<Layout> {
    let layout = find(bootstrap, topic, false)?;
    for (leader, partitions) in &layout.leaders {
        let partition = |index: &i32| ListOffsetsPartition {
            partition_index: *index,
            timestamp: LATEST,
            ..ListOffsetsPartition::default()
        };
        let asked = ListOffsetsTopic {
            name: topic.to_owned(),
            partitions: partitions.iter().map(partition).collect(),
        };
        let request =
            ListOffsetsRequest { replica_id: -1, topics: vec![asked], ..ListOffsetsRequest::default() };
        let response = Connection::open(*leader)?.call(LIST_OFFSETS_VERSION, request)?;
        let response = ListOffsetsResponse::try_from(response)
            .map_err(|other| BenchError::SomethingElse { asked: other.api() })?;
        for answer in response.topics.iter().flat_map(|topic| &topic.partitions) {
            BenchError::check(
                &format!("{topic}-{} at {leader}", answer.partition_index),
                answer.error_code,
                None,
            )?;
        }
    }
    Ok(layout)
}

/// How many brokers the cluster says it has.
pub(crate) fn brokers(bootstrap: SocketAddr) -> Result<usize> {
    let request = MetadataRequest { topics: Some(Vec::new()), ..MetadataRequest::default() };
    Ok(ask(bootstrap, request)?.brokers.len())
}

fn ask(bootstrap: SocketAddr, request: MetadataRequest) -> Result<MetadataResponse> {
    MetadataResponse::try_from(Connection::open(bootstrap)?.call(METADATA_VERSION, request)?)
        .map_err(|other| BenchError::SomethingElse { asked: other.api() })
}

fn layout_of(topic: &str, metadata: &MetadataResponse) -> Result<Layout> {
    let refused = |code| BenchError::Refused { what: format!("looking for {topic}"), code, detail: None };
    let found = metadata.topics.iter().find(|found| found.name.as_deref() == Some(topic));
    let found = found.ok_or_else(|| refused(ErrorCode::UnknownTopicOrPartition))?;
    BenchError::check(&format!("looking for {topic}"), found.error_code, None)?;
    let mut layout = Layout { topic: topic.to_owned(), leaders: Vec::new(), isr_min: usize::MAX };
    let mut partitions: Vec<_> = found.partitions.iter().collect();
    partitions.sort_by_key(|partition| partition.partition_index);
    for partition in partitions {
        BenchError::check(&format!("looking for {topic}"), partition.error_code, None)?;
        let leader = metadata.brokers.iter().find(|broker| broker.node_id == partition.leader_id);
        let leader = leader.ok_or_else(|| refused(ErrorCode::LeaderNotAvailable))?;
        let address = format!("{}:{}", leader.host, leader.port);
        let address = address.parse().map_err(|_| BenchError::Program {
            program: "the cluster".to_owned(),
            said: format!("{address} is not an address"),
        })?;
        layout.isr_min = layout.isr_min.min(partition.isr_nodes.len());
        match layout.leaders.iter_mut().find(|(known, _)| *known == address) {
            Some((_, partitions)) => partitions.push(partition.partition_index),
            None => layout.leaders.push((address, vec![partition.partition_index])),
        }
    }
    if layout.leaders.is_empty() {
        return Err(refused(ErrorCode::LeaderNotAvailable));
    }
    Ok(layout)
}

/// Deletes the topic, so that its bytes are not in the way of the next measurement.
pub(crate) fn delete(bootstrap: SocketAddr, topic: &str) -> Result<()> {
    let asked = DeleteTopicState { name: Some(topic.to_owned()), topic_id: None };
    let request =
        DeleteTopicsRequest { topics: vec![asked], timeout_ms: 30_000, ..DeleteTopicsRequest::default() };
    let response = Connection::open(bootstrap)?.call(DELETE_VERSION, request)?;
    let response = DeleteTopicsResponse::try_from(response)
        .map_err(|other| BenchError::SomethingElse { asked: other.api() })?;
    for result in response.responses {
        let what = format!("deleting the topic {topic}");
        BenchError::check(&what, result.error_code, result.error_message.as_deref())?;
    }
    Ok(())
}
