//! `ElectLeaders`: preferred leaders, or any replica even if records are lost.

use highwater_engine::units::TopicPartition;
use highwater_replication::controller::{ControllerReply, ControllerRequest, Election, PartitionState};
use highwater_replication::wire::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};
use highwater_replication::wire::{ErrorCode, Response};

use super::{Answer, Facts, refusals};

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

/// A topic that was named, with its partitions and whether each can be asked for. Its name, which may be as long as a frame, is here once.
struct Asked {
    topic: String,
    partitions: Vec<(i32, Option<TopicPartition>)>,
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
            .map(|topic| {
                let named = |number| (number, TopicPartition::new(&topic.topic, number).ok());
                Asked { partitions: topic.partitions.into_iter().map(named).collect(), topic: topic.topic }
            })
            .collect(),
        None => all_that_need_it(facts, election),
    };
    let requests = asked
        .iter()
        .flat_map(|asked| &asked.partitions)
        .filter_map(|(_, name)| Some(ControllerRequest::Elect { partition: name.clone()?, election }))
        .collect();
    Answer::Ask { requests, finish: Box::new(|replies| finish(asked, replies)) }
}

fn all_that_need_it(facts: &Facts<'_>, election: Election) -> Vec<Asked> {
    let needs = |partition: &PartitionState| match election {
        Election::Preferred => partition.leader != partition.replicas.first().copied(),
        Election::To(_) | Election::Unclean(_) | Election::UncleanAny => partition.leader.is_none(),
    };
    let mut asked: Vec<Asked> = Vec::new();
    for (name, _, _) in facts.state.partitions().filter(|(_, _, partition)| needs(partition)) {
        let partition = (name.partition(), Some(name.clone()));
        match asked.last_mut() {
            Some(last) if last.topic == name.topic() => last.partitions.push(partition),
            Some(_) | None => {
                asked.push(Asked { topic: name.topic().to_owned(), partitions: vec![partition] });
            }
        }
    }
    asked
}

fn finish(asked: Vec<Asked>, replies: Vec<Option<ControllerReply>>) -> Response {
    let mut replies = replies.into_iter();
    let mut result = |(partition_id, name): (i32, Option<TopicPartition>)| {
        let refusal = match name.and_then(|_| replies.next()) {
            None => Some((ErrorCode::UnknownTopicOrPartition, "there is no such partition".to_owned())),
            Some(Some(ControllerReply::Elected { outcome: Ok(_), .. })) => None,
            Some(Some(ControllerReply::Elected { outcome: Err(refusal), .. })) => {
                Some((refusals::election(refusal), refusal.to_string()))
            }
            Some(_) => Some(refusals::no_answer()),
        };
        PartitionResult {
            partition_id,
            error_code: refusal.as_ref().map_or(ErrorCode::None, |(code, _)| *code),
            error_message: refusal.map(|(_, words)| words),
        }
    };
    let results = asked.into_iter().map(|asked| {
        let partition_result = asked.partitions.into_iter().map(&mut result).collect();
        ReplicaElectionResult { topic: asked.topic, partition_result }
    });
    ElectLeadersResponse { replica_election_results: results.collect(), ..Default::default() }.into()
}
