//! Requests about groups, each handed to the coordinator in its own words.

use std::collections::BTreeSet;
use std::net::IpAddr;

use highwater_engine::units::{Now, TopicId};
use highwater_replication::controller::ClusterState;
use highwater_replication::wire::describe_groups::DescribeGroupsResponse;
use highwater_replication::wire::offset_fetch::{
    OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use highwater_replication::wire::{ApiKey, ErrorCode, Request, Response};

use super::Groups;
use crate::groups::{Fetched, Origin, Wanted};

/// From this version on several groups can be asked for.
const SEVERAL_FROM: i16 = 8;
/// From this version on the answer has an error of its own.
const ERROR_FROM: i16 = 2;
/// From this version on topics have ids instead of names.
const IDS_FROM: i16 = 10;

/// Whether requests of this API are for the coordinator.
pub(in crate::serve) const fn handles(api: ApiKey) -> bool {
    matches!(
        api,
        ApiKey::OffsetCommit
            | ApiKey::OffsetFetch
            | ApiKey::JoinGroup
            | ApiKey::Heartbeat
            | ApiKey::LeaveGroup
            | ApiKey::SyncGroup
            | ApiKey::DescribeGroups
            | ApiKey::ListGroups
            | ApiKey::DeleteGroups
            | ApiKey::OffsetDelete
    )
}

/// Who asks.
#[derive(Clone, Debug)]
pub(in crate::serve) struct Asker {
    pub(in crate::serve) client_id: Option<String>,
    pub(in crate::serve) from: Option<IpAddr>,
    pub(in crate::serve) version: i16,
}

impl<T: Copy> Groups<T> {
    /// Answers a request, now or when what it needs is written.
    pub(in crate::serve) fn request(
        &mut self,
        now: Now,
        to: T,
        asker: Asker,
        request: Request,
        state: &ClusterState,
    ) -> Option<Response> {
        let version = asker.version;
        match request {
            Request::JoinGroup(request) => self.coordinator.join(now, to, origin(asker), request),
            Request::SyncGroup(request) => self.coordinator.sync(now, to, request),
            Request::Heartbeat(request) => self.coordinator.heartbeat(now, to, &request),
            Request::LeaveGroup(request) => self.coordinator.leave(now, to, version, request),
            Request::OffsetCommit(request) => {
                self.coordinator.commit(now, to, &request, |name, id| topic(state, version, name, id));
            }
            Request::DeleteGroups(request) => self.coordinator.delete_groups(now, to, request),
            Request::OffsetDelete(request) => {
                self.coordinator.delete_offsets(now, to, &request, |name| state.topics.contains_key(name));
            }
            Request::OffsetFetch(request) => return Some(self.offsets(version, request, state).into()),
            Request::ListGroups(request) => return Some(self.coordinator.list(&request).into()),
            Request::DescribeGroups(request) => {
                let with_operations = request.include_authorized_operations;
                // Each is described once: the answer is not larger than the groups, however often one is named.
                let names = BTreeSet::from_iter(request.groups);
                let groups = names.iter();
                let groups =
                    groups.map(|name| self.coordinator.describe(version, name, with_operations)).collect();
                return Some(DescribeGroupsResponse { groups, ..Default::default() }.into());
            }
            Request::Produce(_)
            | Request::Fetch(_)
            | Request::ListOffsets(_)
            | Request::Metadata(_)
            | Request::FindCoordinator(_)
            | Request::ApiVersions(_)
            | Request::CreateTopics(_)
            | Request::DeleteTopics(_)
            | Request::InitProducerId(_)
            | Request::OffsetForLeaderEpoch(_)
            | Request::DescribeConfigs(_)
            | Request::ElectLeaders(_)
            | Request::AlterPartitionReassignments(_)
            | Request::ListPartitionReassignments(_)
            | Request::DescribeCluster(_)
            | Request::Highwater(_) => debug_assert!(false, "a request that is not about groups"),
        }
        None
    }

    fn offsets(
        &mut self,
        version: i16,
        request: OffsetFetchRequest,
        state: &ClusterState,
    ) -> OffsetFetchResponse {
        if version < SEVERAL_FROM {
            return self.offsets_of_one(version, request, state);
        }
        let (mut groups, mut seen) = (Vec::new(), BTreeSet::new());
        let asked = request.groups.into_iter();
        // Each is answered once, as above.
        for group in asked.filter(|group| seen.insert(group.group_id.clone())) {
            // Topics of ids that are not known are answered where they are asked.
            let mut unknown = Vec::new();
            let wanted = group.topics.map(|topics| {
                let mut known = Vec::new();
                for wanted in topics {
                    match topic(state, version, &wanted.name, wanted.topic_id) {
                        Ok((name, _)) => known.push((name, wanted.partition_indexes)),
                        Err(error) if version >= IDS_FROM => unknown.push((wanted, error)),
                        // By name, offsets may be known of a topic that is not.
                        Err(_) => known.push((wanted.name, wanted.partition_indexes)),
                    }
                }
                known
            });
            let wanted = wanted.map_or(Wanted::All, Wanted::Some);
            let (fetched, error_code) =
                match self.coordinator.fetch(&group.group_id, wanted, |name| id_of(state, name)) {
                    Ok(fetched) => (fetched, ErrorCode::None),
                    Err(error) => (Fetched::new(), error),
                };
            let mut topics: Vec<OffsetFetchResponseTopics> = fetched
                .into_iter()
                .filter_map(|(name, partitions)| {
                    let topic_id = state.topics.get(&name).map(|topic| topic.id);
                    // What has no id any more cannot be named.
                    let is_named = version < IDS_FROM || topic_id.is_some();
                    is_named.then_some(OffsetFetchResponseTopics { name, topic_id, partitions })
                })
                .collect();
            if error_code.is_none() {
                topics.extend(unknown.into_iter().map(|(wanted, error)| OffsetFetchResponseTopics {
                    topic_id: wanted.topic_id,
                    partitions: failed(&wanted.partition_indexes, error),
                    name: wanted.name,
                }));
            }
            groups.push(OffsetFetchResponseGroup { group_id: group.group_id, topics, error_code });
        }
        OffsetFetchResponse { groups, ..Default::default() }
    }

    fn offsets_of_one(
        &mut self,
        version: i16,
        request: OffsetFetchRequest,
        state: &ClusterState,
    ) -> OffsetFetchResponse {
        let asked = request.topics.map(|topics| {
            topics.into_iter().map(|topic| (topic.name, topic.partition_indexes)).collect::<Vec<_>>()
        });
        let wanted = asked.clone().map_or(Wanted::All, Wanted::Some);
        let (fetched, error_code) =
            match self.coordinator.fetch(&request.group_id, wanted, |name| id_of(state, name)) {
                Ok(fetched) => (fetched, ErrorCode::None),
                Err(error) if version < ERROR_FROM => {
                    let topics = asked.unwrap_or_default().into_iter();
                    let all = topics.map(|(name, partitions)| (name, failed(&partitions, error))).collect();
                    (all, ErrorCode::None)
                }
                Err(error) => (Fetched::new(), error),
            };
        let topics =
            fetched.into_iter().map(|(name, partitions)| OffsetFetchResponseTopic { name, partitions });
        OffsetFetchResponse { topics: topics.collect(), error_code, ..Default::default() }
    }
}

fn origin(asker: Asker) -> Origin {
    Origin {
        client_id: asker.client_id.unwrap_or_default(),
        client_host: asker.from.map(|from| format!("/{from}")).unwrap_or_default(),
        version: asker.version,
    }
}

fn failed(partitions: &[i32], error_code: ErrorCode) -> Vec<OffsetFetchResponsePartition> {
    let one = |partition_index: &i32| OffsetFetchResponsePartition {
        partition_index: *partition_index,
        metadata: Some(String::new()),
        error_code,
        ..Default::default()
    };
    partitions.iter().map(one).collect()
}

fn id_of(state: &ClusterState, name: &str) -> Option<TopicId> {
    Some(state.topics.get(name)?.id)
}

/// A topic's name and id, in the words of a version.
fn topic(
    state: &ClusterState,
    version: i16,
    name: &str,
    id: Option<TopicId>,
) -> Result<(String, TopicId), ErrorCode> {
    if version >= IDS_FROM {
        let found = state.topics.iter().find(|(_, topic)| Some(topic.id) == id);
        return found.map(|(name, topic)| (name.clone(), topic.id)).ok_or(ErrorCode::UnknownTopicId);
    }
    let found = state.topics.get(name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    Ok((name.to_owned(), found.id))
}
