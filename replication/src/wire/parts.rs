//! How much one request asks for, so that it can be refused before anything is done for it.
//!
//! Memory is bounded while a request is read; this bounds the work and the answer. It refuses to know what a part costs.

use super::call::Request;
use super::fetch::FetchRequest;

/// The most topics and partitions that one request may name, together.
///
/// A follower's Fetch is not held to it: the first of a session names all that it follows, which the cluster's own limit bounds. Whether
/// somebody is the follower that it says is not known here; who answers it has to ask.
pub const PARTS_MAX: usize = 10_000;

/// A topic with its partitions counts as many as these, and at least as one.
fn of<T>(topics: &[T], partitions: impl Fn(&T) -> usize) -> usize {
    topics.iter().map(|topic| partitions(topic).max(1)).sum()
}

impl FetchRequest {
    /// How many topics and partitions it names, whoever asks.
    pub(crate) fn parts(&self) -> usize {
        of(&self.topics, |topic| topic.partitions.len())
            + of(&self.forgotten_topics_data, |topic| topic.partitions.len())
    }
}

impl Request {
    /// How many topics and partitions the request names, as far as [`PARTS_MAX`] bounds them.
    pub(super) fn parts(&self) -> usize {
        match self {
            Self::Produce(request) => of(&request.topic_data, |topic| topic.partition_data.len()),
            Self::Fetch(request) if request.replica_id >= 0 || request.replica_state.replica_id >= 0 => 0,
            Self::Fetch(request) => request.parts(),
            Self::ListOffsets(request) => of(&request.topics, |topic| topic.partitions.len()),
            Self::OffsetForLeaderEpoch(request) => of(&request.topics, |topic| topic.partitions.len()),
            Self::Metadata(request) => request.topics.as_ref().map_or(0, Vec::len),
            // The partitions that it wants made are counted where they are refused by name.
            Self::CreateTopics(request) => of(&request.topics, |topic| topic.assignments.len()),
            Self::DeleteTopics(request) => request.topics.len() + request.topic_names.len(),
            Self::DescribeConfigs(request) => request.resources.len(),
            Self::ElectLeaders(request) => request
                .topic_partitions
                .as_ref()
                .map_or(0, |topics| of(topics, |topic| topic.partitions.len())),
            Self::AlterPartitionReassignments(request) => of(&request.topics, |topic| topic.partitions.len()),
            Self::ListPartitionReassignments(request) => {
                request.topics.as_ref().map_or(0, |topics| of(topics, |topic| topic.partition_indexes.len()))
            }
            Self::FindCoordinator(request) => request.coordinator_keys.len(),
            Self::OffsetCommit(request) => of(&request.topics, |topic| topic.partitions.len()),
            Self::OffsetFetch(request) => {
                let one = request
                    .topics
                    .as_ref()
                    .map_or(0, |topics| of(topics, |topic| topic.partition_indexes.len()));
                let several = of(&request.groups, |group| {
                    group
                        .topics
                        .as_ref()
                        .map_or(0, |topics| of(topics, |topic| topic.partition_indexes.len()))
                });
                one + several
            }
            Self::OffsetDelete(request) => of(&request.topics, |topic| topic.partitions.len()),
            Self::LeaveGroup(request) => request.members.len(),
            Self::SyncGroup(request) => request.assignments.len(),
            Self::DescribeGroups(request) => request.groups.len(),
            Self::DeleteGroups(request) => request.groups_names.len(),
            Self::JoinGroup(_)
            | Self::Heartbeat(_)
            | Self::ListGroups(_)
            | Self::ApiVersions(_)
            | Self::InitProducerId(_)
            | Self::DescribeCluster(_)
            | Self::Highwater(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::wire::fetch::{FetchPartition, FetchTopic, ReplicaState};
    use crate::wire::metadata::{MetadataRequest, MetadataRequestTopic};
    use crate::wire::{ApiKey, RequestError, RequestHeader, decode_request, encode_request};

    fn read_again(api: ApiKey, version: i16, request: &Request) -> Result<Request, RequestError> {
        let header = RequestHeader { api, version, correlation_id: 1, client_id: None };
        let frame = Bytes::from(encode_request(&header, request).unwrap().concat()).slice(4..);
        decode_request(frame).map(|(_, request)| request)
    }

    #[test]
    fn a_request_for_too_much_is_refused_by_its_count() {
        let topics = |count| Some(vec![MetadataRequestTopic::default(); count]);
        let request = |count| MetadataRequest { topics: topics(count), ..Default::default() }.into();
        assert!(read_again(ApiKey::Metadata, 12, &request(PARTS_MAX)).is_ok());
        let refused = read_again(ApiKey::Metadata, 12, &request(PARTS_MAX + 1)).unwrap_err();
        assert!(matches!(refused, RequestError::TooManyParts { parts, .. } if parts == PARTS_MAX + 1));
    }

    #[test]
    fn a_follower_names_all_that_it_follows() {
        let partitions = vec![FetchPartition::default(); PARTS_MAX + 1];
        let topics = vec![FetchTopic { partitions, ..Default::default() }];
        let consumer = FetchRequest { topics, ..Default::default() };
        assert!(read_again(ApiKey::Fetch, 17, &consumer.clone().into()).is_err());
        let replica_state = ReplicaState { replica_id: 2, ..Default::default() };
        let follower = FetchRequest { replica_state, ..consumer };
        assert!(read_again(ApiKey::Fetch, 17, &follower.into()).is_ok());
    }
}
