//! `FindCoordinator`: the leader of the partition in which a group lives. The topic of groups is made by the first question.
//!
//! There are no transactions and no share groups, and so no coordinators of them: that is final for every client.

use highwater_engine::units::NodeId;
use highwater_replication::controller::Broker;
use highwater_replication::wire::find_coordinator::{
    Coordinator, FindCoordinatorRequest, FindCoordinatorResponse,
};
use highwater_replication::wire::{ErrorCode, Response};

use super::{Answer, Facts};
use crate::groups::{TOPIC, partition_of};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
/// From this version on several keys can be asked for.
const SEVERAL_FROM: i16 = 4;

pub(super) fn answer(facts: &Facts<'_>, version: i16, request: &FindCoordinatorRequest) -> Answer {
    let find = |key: &str| match request.key_type {
        GROUP => of_group(facts, key),
        TRANSACTION => Err((ErrorCode::TransactionalIdAuthorizationFailed, "there are no transactions")),
        _ => Err((ErrorCode::InvalidRequest, "there are groups and nothing else to be coordinated")),
    };
    let response = if version >= SEVERAL_FROM {
        let coordinators = request.coordinator_keys.iter().map(|key| coordinator(key, find(key))).collect();
        FindCoordinatorResponse { coordinators, ..Default::default() }
    } else {
        let one = coordinator("", find(&request.key));
        FindCoordinatorResponse {
            error_code: one.error_code,
            error_message: one.error_message,
            node_id: one.node_id,
            host: one.host,
            port: one.port,
            ..Default::default()
        }
    };
    let is_missing = request.key_type == GROUP && !facts.state.topics.contains_key(TOPIC);
    let creations = if is_missing { vec![TOPIC.to_owned()] } else { Vec::new() };
    Answer::NowAndCreate(Response::from(response), creations)
}

type Found<'a> = Result<(NodeId, &'a Broker), (ErrorCode, &'static str)>;

fn of_group<'a>(facts: &'a Facts<'_>, group: &str) -> Found<'a> {
    let none = (ErrorCode::CoordinatorNotAvailable, "nobody leads the partition of this group now");
    let topic = facts.state.topics.get(TOPIC).ok_or(none)?;
    let number = partition_of(group, i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX));
    let partition = usize::try_from(number).ok().and_then(|at| topic.partitions.get(at)).ok_or(none)?;
    let leader = partition.leader.filter(|leader| facts.state.is_registered(*leader)).ok_or(none)?;
    let broker = facts.state.brokers.get(&leader).ok_or(none)?;
    Ok((leader, broker))
}

fn coordinator(key: &str, found: Found<'_>) -> Coordinator {
    let key = key.to_owned();
    match found {
        Ok((node, broker)) => Coordinator {
            key,
            node_id: node.value(),
            host: broker.host.clone(),
            port: i32::from(broker.port),
            ..Default::default()
        },
        Err((error_code, why)) => Coordinator {
            key,
            node_id: -1,
            port: -1,
            error_code,
            error_message: Some(why.to_owned()),
            ..Default::default()
        },
    }
}
