//! Topics: made, deleted and listed with Kafka's own messages.

use highwater_engine::units::{InvalidName, TopicPartition};
use highwater_replication::wire::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use highwater_replication::wire::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use highwater_replication::wire::metadata::MetadataRequest;
use highwater_replication::wire::{ErrorCode, Response};

use super::{AskError, Connection};

const CREATE_VERSION: i16 = 7;
const DELETE_VERSION: i16 = 6;
const METADATA_VERSION: i16 = 12;
/// How long the cluster may take to make or delete a topic.
pub(super) const WAIT_MS: i32 = 30_000;

/// A topic to be made. What is `None` is the cluster's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions.
    pub partitions: Option<i32>,
    /// How many replicas of each.
    pub replication_factor: Option<i16>,
    /// The brokers of each partition, instead of both numbers; empty if the cluster chooses.
    pub assignment: Vec<Vec<i32>>,
    /// Its own settings.
    pub configs: Vec<(String, String)>,
}

/// A topic, as the cluster lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicLine {
    /// Its name.
    pub name: String,
    /// How many partitions.
    pub partitions: usize,
    /// How many replicas of each.
    pub replicas: usize,
    /// How many partitions have all replicas in sync.
    pub in_sync: usize,
}

/// Reads `2:3,3:1`: the brokers of partition 0, of partition 1, and so on; the first is the preferred leader.
pub fn parse_assignment(text: &str) -> Option<Vec<Vec<i32>>> {
    let brokers = |partition: &str| {
        let ids: Option<Vec<i32>> = partition.split(':').map(|id| id.trim().parse().ok()).collect();
        ids.filter(|ids| ids.iter().all(|id| *id >= 0))
    };
    text.split(',').map(brokers).collect()
}

pub(super) fn refused(what: &str, code: ErrorCode, words: Option<&str>) -> AskError {
    AskError::Refused(format!("{what}: {}", words.unwrap_or_else(|| code.message())))
}

/// Makes a topic. Answers how many partitions and replicas it has, as far as the broker says so.
pub fn create_topic(broker: &mut Connection, topic: &NewTopic) -> Result<(i32, i16), AskError> {
    let wrong_name = |error: InvalidName| AskError::Refused(error.to_string());
    TopicPartition::check_topic(&topic.name).map_err(wrong_name)?;
    let assigned = |(partition, brokers): (usize, &Vec<i32>)| CreatableReplicaAssignment {
        partition_index: i32::try_from(partition).unwrap_or(i32::MAX),
        broker_ids: brokers.clone(),
    };
    let config = |(name, value): &(String, String)| CreatableTopicConfig {
        name: name.clone(),
        value: Some(value.clone()),
    };
    let wanted = CreatableTopic {
        name: topic.name.clone(),
        num_partitions: topic.partitions.unwrap_or(-1),
        replication_factor: topic.replication_factor.unwrap_or(-1),
        assignments: topic.assignment.iter().enumerate().map(assigned).collect(),
        configs: topic.configs.iter().map(config).collect(),
    };
    let request = CreateTopicsRequest { topics: vec![wanted], timeout_ms: WAIT_MS, validate_only: false };
    let Response::CreateTopics(answer) = broker.call(CREATE_VERSION, &request.into())? else {
        return Err(broker.something_else());
    };
    let Some(result) = answer.topics.first() else { return Err(broker.something_else()) };
    if !result.error_code.is_none() {
        return Err(refused(&topic.name, result.error_code, result.error_message.as_deref()));
    }
    Ok((result.num_partitions, result.replication_factor))
}

/// Deletes a topic with everything that is in it.
pub fn delete_topic(broker: &mut Connection, name: &str) -> Result<(), AskError> {
    let topic = DeleteTopicState { name: Some(name.to_owned()), topic_id: None };
    let request = DeleteTopicsRequest { topics: vec![topic], topic_names: Vec::new(), timeout_ms: WAIT_MS };
    let Response::DeleteTopics(answer) = broker.call(DELETE_VERSION, &request.into())? else {
        return Err(broker.something_else());
    };
    let Some(result) = answer.responses.first() else { return Err(broker.something_else()) };
    if result.error_code.is_none() {
        Ok(())
    } else {
        Err(refused(name, result.error_code, result.error_message.as_deref()))
    }
}

/// All topics, by name.
pub fn list_topics(broker: &mut Connection) -> Result<Vec<TopicLine>, AskError> {
    let request = MetadataRequest { topics: None, allow_auto_topic_creation: false, ..Default::default() };
    let Response::Metadata(answer) = broker.call(METADATA_VERSION, &request.into())? else {
        return Err(broker.something_else());
    };
    let mut lines: Vec<_> = answer
        .topics
        .into_iter()
        .filter_map(|topic| {
            let partitions = &topic.partitions;
            Some(TopicLine {
                partitions: partitions.len(),
                replicas: partitions.iter().map(|p| p.replica_nodes.len()).max().unwrap_or(0),
                in_sync: partitions.iter().filter(|p| p.isr_nodes.len() == p.replica_nodes.len()).count(),
                name: topic.name?,
            })
        })
        .collect();
    lines.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(lines)
}
