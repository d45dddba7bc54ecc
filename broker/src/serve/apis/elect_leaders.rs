//! `ElectLeaders`: preferred leaders, or any replica even if records are lost.

use std::collections::BTreeMap;

use highwater_engine::units::TopicPartition;
use highwater_replication::controller::{ControllerReply, ControllerRequest, Election, PartitionState};
use highwater_replication::wire::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};
use highwater_replication::wire::{ErrorCode, Response};

use super::{Answer, Facts, refusals};

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

/// A partition that was named, and whether it can be asked for.
struct Asked {
    topic: String,
    partition: i32,
    name: Option<TopicPartition>,
}

pub(super) fn answer(facts: &Facts<'_>, request: ElectLeadersRequest) -> Answer {
    let election = match request.election_type {
        PREFERRED => Election::Preferred,
        UNCLEAN => Election::UncleanAny,
        _ => {
            let error_code = ErrorCode::InvalidRequest;
            return Answer::Now(ElectLeadersResponse { error_code, ..Default::default() }.into());
        }
    };
    let asked: Vec<Asked> = match request.topic_partitions {
        Some(topics) => topics
            .into_iter()
            .flat_map(|topic| topic.partitions.into_iter().map(move |number| (topic.topic.clone(), number)))
            .map(|(topic, partition)| Asked {
                name: TopicPartition::new(&topic, partition).ok(),
                topic,
                partition,
            })
            .collect(),
        None => all_that_need_it(facts, election),
    };
    let requests = asked
        .iter()
        .filter_map(|asked| Some(ControllerRequest::Elect { partition: asked.name.clone()?, election }))
        .collect();
    Answer::Ask { requests, finish: Box::new(|replies| finish(asked, replies)) }
}

fn all_that_need_it(facts: &Facts<'_>, election: Election) -> Vec<Asked> {
    let needs = |partition: &PartitionState| match election {
        Election::Preferred => partition.leader != partition.replicas.first().copied(),
        Election::To(_) | Election::Unclean(_) | Election::UncleanAny => partition.leader.is_none(),
    };
    let all = facts.state.partitions().filter(|(_, _, partition)| needs(partition));
    all.map(|(name, _, _)| Asked {
        topic: name.topic().to_owned(),
        partition: name.partition(),
        name: Some(name),
    })
    .collect()
}

fn finish(asked: Vec<Asked>, replies: Vec<Option<ControllerReply>>) -> Response {
    let mut replies = replies.into_iter();
    let mut by_topic: BTreeMap<String, Vec<PartitionResult>> = BTreeMap::new();
    for asked in asked {
        let refusal = match asked.name.and_then(|_| replies.next()) {
            None => Some((ErrorCode::UnknownTopicOrPartition, "there is no such partition".to_owned())),
            Some(Some(ControllerReply::Elected { outcome: Ok(_), .. })) => None,
            Some(Some(ControllerReply::Elected { outcome: Err(refusal), .. })) => {
                Some((refusals::election(refusal), refusal.to_string()))
            }
            Some(_) => Some(refusals::no_answer()),
        };
        by_topic.entry(asked.topic).or_default().push(PartitionResult {
            partition_id: asked.partition,
            error_code: refusal.as_ref().map_or(ErrorCode::None, |(code, _)| *code),
            error_message: refusal.map(|(_, words)| words),
        });
    }
    let results = by_topic
        .into_iter()
        .map(|(topic, partition_result)| ReplicaElectionResult { topic, partition_result });
    ElectLeadersResponse { replica_election_results: results.collect(), ..Default::default() }.into()
}
