//! The APIs that are about the cluster and not about a partition's records: one file each, a request and facts in, an answer out.
//!
//! An answer is ready, or needs the controller first: then it says what to ask and how the replies become the response. Nothing here
//! sends anything. What is for the shard never comes here.

mod alter_partition_reassignments;
mod api_versions;
mod create_topics;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod elect_leaders;
mod find_coordinator;
mod init_producer_id;
mod list_partition_reassignments;
mod metadata;
mod private;
mod refusals;

#[cfg(test)]
mod apis_test;

pub(super) use init_producer_id::{ProducerIds, Wanted};

use bytes::Bytes;
use highwater_engine::units::NodeId;
use highwater_replication::controller::{
    Broker, BrokerStatus, ClusterState, ControllerReply, ControllerRequest, CreationPurpose, NewTopic,
};
use highwater_replication::partition::Status;
use highwater_replication::wire::{self, Request, RequestError, RequestHeader, Response};

use crate::groups::TOPIC;
use crate::settings::{self, Settings};

/// How the controller's replies, in the order of the requests, become the response; `None` where there was none.
pub(super) type Finish = Box<dyn FnOnce(Vec<Option<ControllerReply>>) -> Response + Send>;

/// What is to be done about a request.
pub(super) enum Answer {
    /// This is the response.
    Now(Response),
    /// This is the response, and these topics should be made meanwhile.
    NowAndCreate(Response, Vec<String>),
    /// The controller has to be asked first.
    Ask {
        /// What.
        requests: Vec<ControllerRequest>,
        /// What becomes of the replies.
        finish: Finish,
    },
    /// A producer id is wanted.
    ProducerId,
}

/// What the answers are made of.
pub(super) struct Facts<'a> {
    /// This broker.
    pub(super) node: NodeId,
    /// The cluster as this broker knows it.
    pub(super) state: &'a ClusterState,
    /// This broker's settings.
    pub(super) settings: &'a Settings,
    /// How this broker's replicas are; asked for only where they are shown.
    pub(super) replicas: &'a dyn Fn() -> Vec<Status>,
}

impl Facts<'_> {
    /// The brokers whose sessions last.
    fn alive(&self) -> impl Iterator<Item = (NodeId, &Broker)> {
        let brokers = self.state.brokers.iter();
        brokers.filter(|(_, broker)| broker.status != BrokerStatus::Fenced).map(|(id, broker)| (*id, broker))
    }

    /// A broker that takes requests for the controller: any does, so it is this one, if it is part of the cluster.
    fn controller(&self) -> i32 {
        if self.state.is_registered(self.node) { self.node.value() } else { -1 }
    }
}

/// What a frame for one of these APIs asks: a request to be answered in a version, or a connection to be closed.
pub(super) enum Read {
    /// A request.
    Request(RequestHeader, Box<Request>),
    /// Its response is known already, in this version.
    Response(RequestHeader, i16, Response),
}

/// Reads a frame. An `ApiVersions` in a version that is not understood is answered in version 0 (KIP-511); everything else that cannot
/// be read costs the connection.
pub(super) fn read(frame: Bytes) -> Result<Read, RequestError> {
    match wire::decode_request(frame) {
        Ok((header, request)) => Ok(Read::Request(header, Box::new(request))),
        Err(RequestError::UnsupportedVersion { header }) if header.api == wire::ApiKey::ApiVersions => {
            let (version, response) = wire::unsupported_api_versions();
            Ok(Read::Response(header, version, response))
        }
        Err(error) => Err(error),
    }
}

/// Answers a request; `None` if it is for the shard, or about groups.
pub(super) fn answer(facts: &Facts<'_>, version: i16, request: Request) -> Option<Answer> {
    Some(match request {
        Request::ApiVersions(request) => Answer::Now(api_versions::answer(version, &request)),
        Request::Metadata(request) => metadata::answer(facts, version, request),
        Request::CreateTopics(request) => create_topics::answer(facts, version, &request),
        Request::DeleteTopics(request) => delete_topics::answer(facts, request),
        Request::DescribeConfigs(request) => Answer::Now(describe_configs::answer(facts, request)),
        Request::DescribeCluster(request) => Answer::Now(describe_cluster::answer(facts, &request)),
        Request::ElectLeaders(request) => elect_leaders::answer(facts, request),
        Request::FindCoordinator(request) => find_coordinator::answer(facts, version, &request),
        Request::AlterPartitionReassignments(request) => alter_partition_reassignments::answer(request),
        Request::ListPartitionReassignments(request) => {
            Answer::Now(list_partition_reassignments::answer(facts, request))
        }
        Request::InitProducerId(request) => init_producer_id::answer(&request),
        Request::Highwater(request) => private::answer(facts, &request.json),
        Request::Produce(_)
        | Request::Fetch(_)
        | Request::ListOffsets(_)
        | Request::OffsetForLeaderEpoch(_)
        | Request::OffsetCommit(_)
        | Request::OffsetFetch(_)
        | Request::JoinGroup(_)
        | Request::Heartbeat(_)
        | Request::LeaveGroup(_)
        | Request::SyncGroup(_)
        | Request::DescribeGroups(_)
        | Request::ListGroups(_)
        | Request::DeleteGroups(_)
        | Request::OffsetDelete(_) => return None,
    })
}

/// The topic that a client's first question makes: all defaults, but for the topic of groups.
pub(super) fn automatic_topic(settings: &Settings, name: String) -> ControllerRequest {
    let is_of_groups = name == TOPIC;
    let of_groups = [
        (settings::CLEANUP_POLICY.topic, "compact"),
        (settings::SEGMENT_BYTES.topic, settings.text(&settings::OFFSETS_TOPIC_SEGMENT_BYTES)),
    ];
    let configs = of_groups.into_iter().filter(|_| is_of_groups);
    let configs = configs.filter_map(|(key, value)| Some((key?.to_owned(), value.to_owned())));
    ControllerRequest::CreateTopic(NewTopic {
        name,
        partitions: is_of_groups
            .then(|| u32::try_from(settings.value(&settings::OFFSETS_TOPIC_NUM_PARTITIONS)).unwrap_or(1)),
        replication_factor: None,
        assignment: None,
        configs: configs.collect(),
        timeout_ms: 10_000,
        purpose: CreationPurpose::Create,
    })
}
