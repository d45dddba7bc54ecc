//! `Metadata`: which brokers and topics there are, and who leads. A topic that is not there may be made by the question.

use std::collections::BTreeSet;

use highwater_engine::units::{NodeId, TopicPartition};
use highwater_replication::controller::{ClusterState, PartitionState, Topic};
use highwater_replication::wire::ErrorCode;
use highwater_replication::wire::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic,
};

use super::{Answer, Facts};
use crate::settings;

/// Topics that clients leave alone.
const INTERNAL: [&str; 2] = ["__consumer_offsets", "__transaction_state"];
/// More topics are not made by one question.
const CREATIONS_MAX: usize = 100;

pub(super) fn answer(facts: &Facts<'_>, version: i16, request: MetadataRequest) -> Answer {
    let all = request.asks_for_all_topics(version);
    let may_create = request.allow_auto_topic_creation && facts.settings.value(&settings::AUTO_CREATE_TOPICS);
    let mut creations = Vec::new();
    let topics = if all {
        facts.state.topics.iter().map(|(name, topic)| known(facts.state, name, topic)).collect()
    } else {
        // Each is answered once, as in Kafka: the answer is not larger than the cluster, however often a topic is named.
        let mut seen = BTreeSet::new();
        let asked = request.topics.unwrap_or_default().into_iter();
        let asked = asked.filter(|topic| seen.insert((topic.topic_id, topic.name.clone())));
        asked.map(|asked| one(facts, asked, may_create, &mut creations)).collect()
    };
    let brokers = facts.alive().map(|(id, broker)| MetadataResponseBroker {
        node_id: id.value(),
        host: broker.host.clone(),
        port: i32::from(broker.port),
        rack: None,
    });
    let response = MetadataResponse {
        brokers: brokers.collect(),
        cluster_id: Some(facts.state.cluster_id.clone()).filter(|id| !id.is_empty()),
        controller_id: facts.controller(),
        topics,
        ..Default::default()
    };
    Answer::NowAndCreate(response.into(), creations)
}

fn one(
    facts: &Facts<'_>,
    asked: MetadataRequestTopic,
    may_create: bool,
    creations: &mut Vec<String>,
) -> MetadataResponseTopic {
    if let (Some(id), None) = (asked.topic_id, &asked.name) {
        let found = facts.state.topics.iter().find(|(_, topic)| topic.id == id);
        return match found {
            Some((name, topic)) => known(facts.state, name, topic),
            None => MetadataResponseTopic {
                error_code: ErrorCode::UnknownTopicId,
                topic_id: Some(id),
                ..Default::default()
            },
        };
    }
    let name = asked.name.unwrap_or_default();
    if let Some(topic) = facts.state.topics.get(&name) {
        return known(facts.state, &name, topic);
    }
    let error_code = if TopicPartition::check_topic(&name).is_err() {
        ErrorCode::InvalidTopicException
    } else {
        if may_create && !is_internal(&name) && creations.len() < CREATIONS_MAX {
            creations.push(name.clone());
        }
        ErrorCode::UnknownTopicOrPartition
    };
    let is_internal = is_internal(&name);
    MetadataResponseTopic { error_code, name: Some(name), is_internal, ..Default::default() }
}

fn is_internal(name: &str) -> bool {
    INTERNAL.contains(&name)
}

fn known(state: &ClusterState, name: &str, topic: &Topic) -> MetadataResponseTopic {
    let partitions = topic.partitions.iter().enumerate().map(|(number, partition)| {
        let number = i32::try_from(number).unwrap_or(i32::MAX);
        one_partition(state, number, partition)
    });
    MetadataResponseTopic {
        name: Some(name.to_owned()),
        topic_id: Some(topic.id),
        is_internal: is_internal(name),
        partitions: partitions.collect(),
        ..Default::default()
    }
}

fn one_partition(state: &ClusterState, number: i32, partition: &PartitionState) -> MetadataResponsePartition {
    let ids = |nodes: &[NodeId]| nodes.iter().map(|node| node.value()).collect::<Vec<_>>();
    let offline = partition.replicas.iter().filter(|node| !state.is_registered(**node));
    let leader = partition.leader.filter(|leader| state.is_registered(*leader));
    MetadataResponsePartition {
        error_code: if leader.is_some() { ErrorCode::None } else { ErrorCode::LeaderNotAvailable },
        partition_index: number,
        leader_id: leader.map_or(-1, NodeId::value),
        leader_epoch: partition.leader_epoch.value(),
        replica_nodes: ids(&partition.replicas),
        isr_nodes: ids(&partition.isr),
        offline_replicas: offline.map(|node| node.value()).collect(),
    }
}
