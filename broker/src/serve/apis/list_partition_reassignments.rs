//! `ListPartitionReassignments`: which partitions are under way to other brokers (KIP-455).

use std::collections::{BTreeMap, BTreeSet};

use highwater_engine::units::NodeId;
use highwater_replication::controller::PartitionState;
use highwater_replication::wire::Response;
use highwater_replication::wire::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, OngoingPartitionReassignment,
    OngoingTopicReassignment,
};

use super::Facts;

/// What is not under way, or not there, is left out, as by Kafka.
pub(super) fn answer(facts: &Facts<'_>, request: ListPartitionReassignmentsRequest) -> Response {
    let wanted: Option<BTreeSet<(String, i32)>> = request.topics.map(|topics| {
        let of =
            |name: String, numbers: Vec<i32>| numbers.into_iter().map(move |number| (name.clone(), number));
        topics.into_iter().flat_map(|topic| of(topic.name, topic.partition_indexes)).collect()
    });
    let is_wanted = |topic: &str, number: i32| {
        wanted.as_ref().is_none_or(|wanted| wanted.contains(&(topic.to_owned(), number)))
    };
    let mut by_topic: BTreeMap<String, Vec<OngoingPartitionReassignment>> = BTreeMap::new();
    for (name, _, partition) in facts.state.partitions().filter(|(_, _, partition)| partition.is_moving()) {
        if is_wanted(name.topic(), name.partition()) {
            let under_way = under_way(name.partition(), partition);
            by_topic.entry(name.topic().to_owned()).or_default().push(under_way);
        }
    }
    let topics = by_topic.into_iter().map(|(name, partitions)| OngoingTopicReassignment { name, partitions });
    ListPartitionReassignmentsResponse { topics: topics.collect(), ..Default::default() }.into()
}

fn under_way(partition_index: i32, state: &PartitionState) -> OngoingPartitionReassignment {
    let ids = |nodes: &[NodeId]| nodes.iter().map(|node| node.value()).collect();
    OngoingPartitionReassignment {
        partition_index,
        replicas: ids(&state.replicas),
        adding_replicas: ids(&state.adding),
        removing_replicas: ids(&state.removing),
    }
}
