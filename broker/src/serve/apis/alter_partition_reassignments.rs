//! `AlterPartitionReassignments`: partitions are put on other brokers, or that is cancelled (KIP-455).

use highwater_engine::units::{NodeId, TopicPartition};
use highwater_replication::controller::{ControllerReply, ControllerRequest, FactorRule};
use highwater_replication::wire::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ReassignablePartition,
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use highwater_replication::wire::{ErrorCode, Response};

use super::{Answer, refusals};

/// A partition that was named, and what is wrong with it before anybody is asked.
struct Asked {
    topic: String,
    partition: i32,
    refusal: Option<(ErrorCode, String)>,
}

pub(super) fn answer(request: AlterPartitionReassignmentsRequest) -> Answer {
    let may_change = request.allow_replication_factor_change;
    let factor = if may_change { FactorRule::MayChange } else { FactorRule::Stays };
    let (mut asked, mut requests) = (Vec::new(), Vec::new());
    for topic in request.topics {
        for partition in topic.partitions {
            let number = partition.partition_index;
            let refusal = match order(&topic.name, partition, factor) {
                Ok(order) => {
                    requests.push(order);
                    None
                }
                Err(refusal) => Some(refusal),
            };
            asked.push(Asked { topic: topic.name.clone(), partition: number, refusal });
        }
    }
    Answer::Ask { requests, finish: Box::new(move |replies| finish(asked, replies, may_change)) }
}

fn order(
    topic: &str,
    asked: ReassignablePartition,
    factor: FactorRule,
) -> Result<ControllerRequest, (ErrorCode, String)> {
    let partition = TopicPartition::new(topic, asked.partition_index)
        .map_err(|_| (ErrorCode::UnknownTopicOrPartition, "there is no such partition".to_owned()))?;
    let node = |id: i32| {
        let refusal = || (ErrorCode::InvalidReplicaAssignment, format!("there is no broker {id}"));
        NodeId::new(id).ok_or_else(refusal)
    };
    let replicas = asked.replicas.map(|ids| ids.into_iter().map(node).collect()).transpose()?;
    Ok(ControllerRequest::Reassign { partition, replicas, factor })
}

fn finish(asked: Vec<Asked>, replies: Vec<Option<ControllerReply>>, may_change: bool) -> Response {
    let mut replies = replies.into_iter();
    let mut responses: Vec<ReassignableTopicResponse> = Vec::new();
    for Asked { topic, partition, refusal } in asked {
        let refusal = refusal.or_else(|| match replies.next().flatten() {
            Some(ControllerReply::Reassigned { outcome: Ok(()), .. }) => None,
            Some(ControllerReply::Reassigned { outcome: Err(refusal), .. }) => {
                Some((refusals::reassignment(&refusal), refusal.to_string()))
            }
            _ => Some(refusals::no_answer()),
        });
        let result = ReassignablePartitionResponse {
            partition_index: partition,
            error_code: refusal.as_ref().map_or(ErrorCode::None, |(code, _)| *code),
            error_message: refusal.map(|(_, words)| words),
        };
        match responses.last_mut().filter(|last| last.name == topic) {
            Some(last) => last.partitions.push(result),
            None => responses.push(ReassignableTopicResponse { name: topic, partitions: vec![result] }),
        }
    }
    AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: may_change,
        responses,
        ..Default::default()
    }
    .into()
}
