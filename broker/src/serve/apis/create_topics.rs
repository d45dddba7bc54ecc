//! `CreateTopics`: settings and numbers are checked here, everything else by the controller.

use std::collections::{BTreeMap, BTreeSet};

use highwater_engine::units::NodeId;
use highwater_replication::controller::{
    ControllerReply, ControllerRequest, CreatedTopic, CreationPurpose, NewTopic,
};
use highwater_replication::wire::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfigs, CreatableTopicResult,
    CreateTopicsRequest, CreateTopicsResponse,
};
use highwater_replication::wire::{ErrorCode, PARTS_MAX, Response};

use super::{Answer, Facts, refusals};
use crate::settings;

type Refusal = (ErrorCode, String);

pub(super) fn answer(facts: &Facts<'_>, version: i16, request: &CreateTopicsRequest) -> Answer {
    let purpose = if request.validate_only { CreationPurpose::Validate } else { CreationPurpose::Create };
    let timeout_ms = u64::try_from(request.timeout_ms).unwrap_or(0);
    let mut seen = BTreeSet::new();
    let mut repeated = BTreeSet::new();
    for topic in &request.topics {
        if !seen.insert(topic.name.as_str()) {
            repeated.insert(topic.name.clone());
        }
    }
    let asked: usize = request.topics.iter().map(|topic| partitions_of(facts, topic)).sum();
    let mut outcomes = Vec::new();
    let mut requests = Vec::new();
    for topic in &request.topics {
        let checked = if asked > PARTS_MAX {
            Err((
                ErrorCode::InvalidPartitions,
                format!("the request asks for {asked} partitions; {PARTS_MAX} at a time can be made"),
            ))
        } else if repeated.contains(&topic.name) {
            Err((ErrorCode::InvalidRequest, "the request names this topic more than once".to_owned()))
        } else {
            check(facts, version, topic)
        };
        let name = topic.name.clone();
        match checked {
            Ok(topic) => {
                requests.push(ControllerRequest::CreateTopic(NewTopic { timeout_ms, purpose, ..topic }));
                outcomes.push((name, None));
            }
            Err(refusal) if !outcomes.iter().any(|(other, _)| *other == name) => {
                outcomes.push((name, Some(refusal)));
            }
            Err(_) => {}
        }
    }
    Answer::Ask { requests, finish: Box::new(|replies| finish(outcomes, replies)) }
}

fn partitions_of(facts: &Facts<'_>, topic: &CreatableTopic) -> usize {
    let by_default = facts.settings.count(&settings::NUM_PARTITIONS);
    usize::try_from(topic.num_partitions).unwrap_or(by_default).max(topic.assignments.len())
}

/// The topic as the controller is asked for it; time and purpose are the request's.
fn check(facts: &Facts<'_>, version: i16, topic: &CreatableTopic) -> Result<NewTopic, Refusal> {
    let mut configs = BTreeMap::new();
    for config in &topic.configs {
        let Some(value) = &config.value else {
            return Err((ErrorCode::InvalidConfig, format!("{} has no value", config.name)));
        };
        configs.insert(config.name.clone(), value.clone());
    }
    let pairs = configs.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    if let Err(error) = facts.settings.with_topic(pairs) {
        return Err((ErrorCode::InvalidConfig, error.to_string()));
    }
    let defaults_are_known = version >= 4;
    let mut new = NewTopic {
        name: topic.name.clone(),
        partitions: None,
        replication_factor: None,
        assignment: None,
        configs,
        timeout_ms: 0,
        purpose: CreationPurpose::Validate,
    };
    if topic.assignments.is_empty() {
        new.partitions = match topic.num_partitions {
            -1 if defaults_are_known => None,
            count => Some(u32::try_from(count).ok().filter(|count| *count > 0).ok_or_else(|| {
                (ErrorCode::InvalidPartitions, format!("{count} partitions: at least 1 is needed"))
            })?),
        };
        new.replication_factor = match topic.replication_factor {
            -1 if defaults_are_known => None,
            count => Some(u16::try_from(count).ok().filter(|count| *count > 0).ok_or_else(|| {
                (ErrorCode::InvalidReplicationFactor, format!("{count} replicas: at least 1 is needed"))
            })?),
        };
    } else if topic.num_partitions == -1 && topic.replication_factor == -1 {
        new.assignment = Some(assignment(&topic.assignments)?);
    } else {
        let why = "with an assignment, the numbers of partitions and replicas have to be -1";
        return Err((ErrorCode::InvalidRequest, why.to_owned()));
    }
    Ok(new)
}

fn assignment(asked: &[CreatableReplicaAssignment]) -> Result<Vec<Vec<NodeId>>, Refusal> {
    let refuse = |why: String| (ErrorCode::InvalidReplicaAssignment, why);
    let mut by_number = BTreeMap::new();
    for partition in asked {
        let brokers: Option<Vec<NodeId>> = partition.broker_ids.iter().map(|id| NodeId::new(*id)).collect();
        let brokers = brokers.ok_or_else(|| refuse("broker ids are not negative".to_owned()))?;
        if by_number.insert(partition.partition_index, brokers).is_some() {
            return Err(refuse(format!("partition {} is assigned twice", partition.partition_index)));
        }
    }
    let numbers = by_number.keys().copied();
    if !numbers.eq(0..i32::try_from(by_number.len()).unwrap_or(i32::MAX)) {
        return Err(refuse("partitions have to be numbered from 0 on without a gap".to_owned()));
    }
    Ok(by_number.into_values().collect())
}

fn finish(outcomes: Vec<(String, Option<Refusal>)>, replies: Vec<Option<ControllerReply>>) -> Response {
    let mut replies = replies.into_iter();
    let topics = outcomes.into_iter().map(|(name, refusal)| {
        let refusal = match refusal {
            Some(refusal) => refusal,
            None => match replies.next().flatten() {
                Some(ControllerReply::TopicCreated { outcome: Ok(created), .. }) => {
                    return made(name, created);
                }
                Some(ControllerReply::TopicCreated { outcome: Err(refusal), .. }) => {
                    (refusals::topic(&refusal), refusal.to_string())
                }
                _ => refusals::no_answer(),
            },
        };
        CreatableTopicResult {
            name,
            error_code: refusal.0,
            error_message: Some(refusal.1),
            ..Default::default()
        }
    });
    CreateTopicsResponse { topics: topics.collect(), ..Default::default() }.into()
}

fn made(name: String, created: CreatedTopic) -> CreatableTopicResult {
    let configs = created.configs.into_iter().map(|(name, value)| CreatableTopicConfigs {
        name,
        value: Some(value),
        config_source: super::describe_configs::OF_TOPIC,
        ..Default::default()
    });
    CreatableTopicResult {
        name,
        topic_id: created.id,
        num_partitions: i32::try_from(created.assignment.len()).unwrap_or(i32::MAX),
        replication_factor: created
            .assignment
            .first()
            .map_or(-1, |replicas| i16::try_from(replicas.len()).unwrap_or(i16::MAX)),
        configs: Some(configs.collect()),
        ..Default::default()
    }
}
