//! Requests as frames: read, handed to their API, and answered.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use highwater_engine::units::{LeaderEpoch, Monotonic, NodeId, Now, TopicId, TopicPartition};

use super::event::{CloseReason, Out};
use super::{ReplicaKey, Shard, fetch, fetch_session, produce};
use crate::partition::{Input, WaitOutcome};
use crate::pending::{
    ConnectionId, FetchLimits, FetchReady, FetchSessions, Fetches, Produces, SessionLimits, Slot,
};
use crate::wire::common::{LeaderIdAndEpoch, NodeEndpoint};
use crate::wire::{self, ErrorCode, Request, RequestHeader, Response};

/// The requests that are not answered yet.
#[derive(Debug)]
pub(super) struct Requests {
    pub(super) fetches: Fetches<ReplicaKey>,
    /// An outcome is that of a wait, or none for a part that was answered without one.
    pub(super) produces: Produces<Option<WaitOutcome>>,
    pub(super) sessions: FetchSessions<fetch_session::PartName>,
    pub(super) open_fetches: BTreeMap<Slot, fetch::OpenFetch>,
    pub(super) open_produces: BTreeMap<Slot, produce::OpenProduce>,
    pub(super) cold_reads: fetch::ColdReads,
    pub(super) catch_up_bytes_left: usize,
    pub(super) chance: fastrand::Rng,
}

impl Requests {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            fetches: Fetches::new(FetchLimits::default()),
            produces: Produces::default(),
            sessions: FetchSessions::new(SessionLimits::default()),
            open_fetches: BTreeMap::new(),
            open_produces: BTreeMap::new(),
            cold_reads: fetch::ColdReads::default(),
            catch_up_bytes_left: 0,
            chance: fastrand::Rng::with_seed(seed),
        }
    }

    /// A replica is gone, and nobody else settles what producers wait for there.
    pub(super) fn end_waits_at(&mut self, key: ReplicaKey) {
        for wait in self.open_produces.values().flat_map(|produce| produce.waits_of(key)) {
            self.produces.settle(wait, Some(WaitOutcome::LeadershipChanged));
        }
    }

    pub(super) fn begin_turn(&mut self, now: Monotonic, catch_up_bytes: usize) {
        self.catch_up_bytes_left = catch_up_bytes;
        self.fetches.expire(now);
    }
}

impl Shard {
    /// Answers a request; appends in no other leadership than `epoch`, where one is given.
    pub(super) fn on_request(&mut self, now: Now, slot: Slot, epoch: Option<LeaderEpoch>, frame: Bytes) {
        let (header, body) = match wire::decode_request(frame) {
            Ok(decoded) => decoded,
            Err(error) => {
                return self.hang_up(slot.connection, CloseReason::Unreadable { why: error.to_string() });
            }
        };
        match body {
            Request::Produce(body) => self.on_produce(now, slot, header, epoch, body),
            Request::Fetch(body) => self.on_fetch(now, slot, header, body),
            Request::ListOffsets(body) => self.on_list_offsets(slot, &header, body),
            Request::OffsetForLeaderEpoch(body) => self.on_offset_for_leader_epoch(slot, &header, body),
            Request::Metadata(_)
            | Request::OffsetCommit(_)
            | Request::OffsetFetch(_)
            | Request::FindCoordinator(_)
            | Request::JoinGroup(_)
            | Request::Heartbeat(_)
            | Request::LeaveGroup(_)
            | Request::SyncGroup(_)
            | Request::DescribeGroups(_)
            | Request::ListGroups(_)
            | Request::ApiVersions(_)
            | Request::CreateTopics(_)
            | Request::DeleteTopics(_)
            | Request::InitProducerId(_)
            | Request::DescribeConfigs(_)
            | Request::DeleteGroups(_)
            | Request::ElectLeaders(_)
            | Request::OffsetDelete(_)
            | Request::AlterPartitionReassignments(_)
            | Request::ListPartitionReassignments(_)
            | Request::DescribeCluster(_)
            | Request::Highwater(_) => {
                let why = format!("{} is not for the shard", header.api.name());
                self.hang_up(slot.connection, CloseReason::Unreadable { why });
            }
        }
    }

    pub(super) fn on_disconnected(&mut self, now: Now, connection: ConnectionId) {
        self.requests.fetches.disconnect(connection);
        self.requests.open_fetches.retain(|slot, _| slot.connection != connection);
        for wait in self.requests.produces.disconnect(connection) {
            let mut produces = self.requests.open_produces.values();
            if let Some(key) = produces.find_map(|produce| produce.waits_at(wait)) {
                self.step(now, key, Input::Forget(wait));
            }
        }
        self.requests.open_produces.retain(|slot, _| slot.connection != connection);
    }

    pub(super) fn hang_up(&mut self, connection: ConnectionId, why: CloseReason) {
        self.out.push(Out::Close { connection, why });
    }

    pub(super) fn reply(&mut self, slot: Slot, header: &RequestHeader, response: &Response) {
        match wire::encode_response(header.version, header.correlation_id, response) {
            Ok(parts) => self.out.push(Out::Frame { slot, parts }),
            Err(error) => self.hang_up(slot.connection, CloseReason::Unreadable { why: error.to_string() }),
        }
    }

    /// The replica that a request names, by id where it has one, else by name.
    pub(super) fn find(
        &self,
        topic: &str,
        id: Option<TopicId>,
        partition: i32,
    ) -> Result<ReplicaKey, ErrorCode> {
        let key = match id {
            Some(id) => self.by_id.get(&(id, partition)),
            None => TopicPartition::new(topic, partition).ok().and_then(|name| self.by_name.get(&name)),
        };
        key.copied().ok_or_else(|| self.why_not_here(topic, id, partition))
    }

    fn why_not_here(&self, topic: &str, id: Option<TopicId>, partition: i32) -> ErrorCode {
        let topics = &self.view.state().topics;
        let (topic, unknown) = match id {
            Some(id) => (topics.values().find(|topic| topic.id == id), ErrorCode::UnknownTopicId),
            None => (topics.get(topic), ErrorCode::UnknownTopicOrPartition),
        };
        let Some(topic) = topic else { return unknown };
        let exists = usize::try_from(partition).is_ok_and(|at| at < topic.partitions.len());
        if exists { ErrorCode::NotLeaderOrFollower } else { ErrorCode::UnknownTopicOrPartition }
    }

    /// Who leads instead, for a client that asked the wrong node (KIP-951); nobody where [`Shard::endpoints`] could not say how to reach them.
    pub(super) fn leader_hint(&self, error: ErrorCode, key: Option<ReplicaKey>) -> LeaderIdAndEpoch {
        let stale = matches!(error, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch);
        let assignment = key
            .filter(|_| stale)
            .and_then(|key| self.replicas.get(&key))
            .and_then(|replica| replica.machine.assignment());
        let hint = assignment.and_then(|assignment| {
            let leader = assignment.leader.filter(|leader| self.view.state().is_registered(*leader))?;
            let leader_epoch = assignment.leader_epoch.value();
            Some(LeaderIdAndEpoch { leader_id: leader.value(), leader_epoch })
        });
        hint.unwrap_or_default()
    }

    /// Where the leaders of hints are reached. A hint without it leaves clients asking the wrong node for ever: they take it for their
    /// new metadata, which it then is not.
    pub(super) fn endpoints<'a>(
        &self,
        hints: impl Iterator<Item = &'a LeaderIdAndEpoch>,
    ) -> Vec<NodeEndpoint> {
        let leaders: BTreeSet<NodeId> = hints.filter_map(|hint| NodeId::new(hint.leader_id)).collect();
        let brokers = &self.view.state().brokers;
        let endpoint = |node: NodeId| {
            let broker = brokers.get(&node)?;
            Some(NodeEndpoint {
                node_id: node.value(),
                host: broker.host.clone(),
                port: i32::from(broker.port),
                ..Default::default()
            })
        };
        leaders.into_iter().filter_map(endpoint).collect()
    }

    /// Answers what became ready.
    pub(super) fn answer_ready(&mut self, now: Now) {
        for (slot, outcomes) in self.requests.produces.take_ready() {
            self.answer_produce(slot, outcomes);
        }
        loop {
            let ready = self.requests.fetches.take_ready();
            if ready.is_empty() {
                break;
            }
            for ready in ready {
                match ready {
                    FetchReady::Answer(slot) => self.answer_fetch(now, slot),
                    FetchReady::Measure { slot, partition, .. } => self.measure(now, slot, partition),
                }
            }
        }
    }
}
