//! Fetching from leaders: one connection for each leader and kind of topic, on it one Fetch in flight, in a session that names only what
//! changed.
//!
//! The next Fetch goes out when everything that the last one brought is written (or durable), because its offsets say what this node has.
//! A second one overtakes a parked one when a partition is new or was cut, so that it does not wait for the others' records.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::batch::ReplicatedBatches;
use highwater_engine::log::ReplicaAppendError;
use highwater_engine::units::{LeaderEpoch, Monotonic, Now, Offset, TopicId};

use super::event::{Lane, Out};
use super::{ReplicaKey, Shard, ShardConfig};
use crate::ids::BrokerEpoch;
use crate::partition::{FetchAnswer, FetchFailure, FetchOutcome, Input, Partition};
use crate::pending::{FollowerSession, PartRequest, SessionFetch};
use crate::wire::fetch::{
    FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData, ReplicaState,
};
use crate::wire::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use crate::wire::{self, ApiKey, ErrorCode, Request, RequestHeader, Response};

/// With topic ids and the follower's session (KIP-903).
pub(super) const FETCH_VERSION: i16 = 17;
const LIST_OFFSETS_VERSION: i16 = 9;
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;

/// All connections to leaders.
#[derive(Debug)]
pub(super) struct Followers {
    lanes: BTreeMap<Lane, LaneState>,
    timeout: Duration,
    next_correlation: i32,
}

/// A partition as leaders are asked for it. A leader remembers it also when this node has deleted the replica, and has to be told.
type Part = (TopicId, i32);

#[derive(Debug, Default)]
struct LaneState {
    replicas: BTreeSet<ReplicaKey>,
    session: FollowerSession<Part>,
    in_flight: VecDeque<InFlight>,
    ranges: VecDeque<RangeAsked>,
    /// Replicas whose last records are not yet where they have to be before the next Fetch.
    landing: BTreeSet<ReplicaKey>,
}

#[derive(Debug)]
struct InFlight {
    correlation: i32,
    sent_at: Monotonic,
    what: Sent,
}

#[derive(Debug)]
enum Sent {
    Fetch {
        asked: BTreeMap<Part, (ReplicaKey, Asked)>,
        /// Whether its answer tells the session's id.
        begins_session: bool,
    },
    Range(RangeAsked),
}

/// What a Fetch asked of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) epoch: LeaderEpoch,
    pub(super) offset: Offset,
}

/// A question for a log's range: its end first, then its start.
#[derive(Clone, Copy, Debug)]
struct RangeAsked {
    key: ReplicaKey,
    epoch: LeaderEpoch,
    end: Option<Offset>,
}

impl Followers {
    pub(super) fn new(config: &ShardConfig) -> Self {
        Self { lanes: BTreeMap::new(), timeout: config.peer_timeout, next_correlation: 0 }
    }

    pub(super) fn join(&mut self, lane: Lane, key: ReplicaKey) {
        self.lanes.entry(lane).or_default().replicas.insert(key);
    }

    pub(super) fn leave(&mut self, lane: Lane, key: ReplicaKey) {
        if let Some(state) = self.lanes.get_mut(&lane) {
            state.replicas.remove(&key);
        }
    }

    pub(super) fn ask_range(&mut self, lane: Lane, key: ReplicaKey, epoch: LeaderEpoch) {
        self.lanes.entry(lane).or_default().ranges.push_back(RangeAsked { key, epoch, end: None });
    }

    /// When an answer is overdue.
    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        let oldest = self.lanes.values().filter_map(|state| state.in_flight.front());
        oldest.map(|sent| sent.sent_at.after(self.timeout)).min()
    }

    fn correlation(&mut self) -> i32 {
        self.next_correlation = self.next_correlation.wrapping_add(1) & i32::MAX;
        self.next_correlation
    }
}

impl Shard {
    pub(super) fn send_fetches(&mut self, now: Now) {
        let lanes: Vec<Lane> = self.followers.lanes.keys().copied().collect();
        for lane in lanes {
            let Some(state) = self.followers.lanes.get(&lane) else { continue };
            let overdue = state
                .in_flight
                .front()
                .is_some_and(|sent| now.monotonic.since(sent.sent_at) >= self.followers.timeout);
            if overdue {
                self.out.push(Out::PeerClose { lane });
                self.on_peer_down(now, lane);
                self.settle(now);
            }
            self.send_on(now, lane);
        }
    }

    fn send_on(&mut self, now: Now, lane: Lane) {
        let Some(mut state) = self.followers.lanes.remove(&lane) else { return };
        if state.in_flight.is_empty()
            && let Some(range) = state.ranges.pop_front()
        {
            self.send_range(now, lane, &mut state, range);
        } else if self.has_landed(&mut state) {
            self.send_fetch_on(now, lane, &mut state);
        }
        if state.replicas.is_empty() && state.in_flight.is_empty() && state.ranges.is_empty() {
            self.out.push(Out::PeerClose { lane });
        } else {
            self.followers.lanes.insert(lane, state);
        }
    }

    /// Whether everything that was received is where it has to be. A replica that does not fetch any more holds nobody up.
    fn has_landed(&self, state: &mut LaneState) -> bool {
        let replicas = &state.replicas;
        state.landing.retain(|key| {
            replicas.contains(key)
                && self.replicas.get(key).is_some_and(|replica| {
                    replica.look(|machine, facts| {
                        machine.fetch_request(facts).is_none() && facts.durable < facts.accepted
                    })
                })
        });
        state.landing.is_empty()
    }

    fn send_fetch_on(&mut self, now: Now, lane: Lane, state: &mut LaneState) {
        let (wanted, asked) = self.wanted(state);
        let may_send = match state.in_flight.front().map(|sent| &sent.what) {
            None => !wanted.is_empty(),
            // A question for a range waits until nothing is in flight.
            Some(Sent::Fetch { asked: parked, begins_session: false })
                if state.in_flight.len() == 1 && state.ranges.is_empty() =>
            {
                asked.iter().any(|(part, asked)| parked.get(part) != Some(asked))
            }
            Some(_) => false,
        };
        if !may_send {
            return;
        }
        let Some(session) = self.link.session() else { return };
        let fetch = state.session.next(&wanted);
        let begins_session = fetch.epoch == 0;
        if !begins_session {
            // The next one may go out before this one is answered.
            state.session.answered(fetch.id);
        }
        let request = self.fetch_request(fetch, session);
        let what = Sent::Fetch { asked, begins_session };
        self.send(now, lane, state, FETCH_VERSION, &request.into(), what);
    }

    /// What is to be fetched, as the leader is asked for it and as its answer will be understood.
    fn wanted(
        &self,
        state: &LaneState,
    ) -> (BTreeMap<Part, PartRequest>, BTreeMap<Part, (ReplicaKey, Asked)>) {
        let bytes_max = usize::try_from(self.config.fetch_partition_bytes_max).unwrap_or(0);
        let wanted = |key: &ReplicaKey| {
            let replica = self.replicas.get(key)?;
            let request = replica.look(Partition::fetch_request)?;
            if !self.may_grow(&replica.name, request.offset) {
                return None;
            }
            let asked = Asked { epoch: request.epoch, offset: request.offset };
            let request = PartRequest {
                current_epoch: Some(request.epoch),
                offset: request.offset,
                last_fetched_epoch: request.last_fetched_epoch,
                log_start: Some(request.log_start),
                bytes_max,
            };
            let part = (replica.topic_id, replica.name.partition());
            Some(((part, request), (part, (*key, asked))))
        };
        state.replicas.iter().filter_map(wanted).unzip()
    }

    fn fetch_request(&self, fetch: SessionFetch<Part>, session: BrokerEpoch) -> FetchRequest {
        let mut topics: Vec<FetchTopic> = Vec::new();
        for ((topic_id, partition), request) in fetch.parts {
            let part = FetchPartition {
                partition,
                current_leader_epoch: request.current_epoch.map_or(-1, LeaderEpoch::value),
                fetch_offset: request.offset.value(),
                last_fetched_epoch: request.last_fetched_epoch.map_or(-1, LeaderEpoch::value),
                log_start_offset: request.log_start.map_or(-1, Offset::value),
                partition_max_bytes: self.config.fetch_partition_bytes_max,
                ..Default::default()
            };
            match topics.last_mut() {
                Some(topic) if topic.topic_id == Some(topic_id) => topic.partitions.push(part),
                Some(_) | None => topics.push(FetchTopic {
                    topic_id: Some(topic_id),
                    partitions: vec![part],
                    ..Default::default()
                }),
            }
        }
        let forgotten = fetch.forgotten.into_iter().map(|(topic_id, partition)| ForgottenTopic {
            topic_id: Some(topic_id),
            partitions: vec![partition],
            ..Default::default()
        });
        FetchRequest {
            replica_state: ReplicaState {
                replica_id: self.config.node.value(),
                replica_epoch: session.value(),
            },
            max_wait_ms: i32::try_from(self.config.fetch_wait_max.as_millis()).unwrap_or(i32::MAX),
            min_bytes: 1,
            max_bytes: self.config.fetch_bytes_max,
            session_id: fetch.id,
            session_epoch: fetch.epoch,
            forgotten_topics_data: forgotten.collect(),
            topics,
            ..Default::default()
        }
    }

    fn send_range(&mut self, now: Now, lane: Lane, state: &mut LaneState, range: RangeAsked) {
        let Some(replica) = self.replicas.get(&range.key) else { return };
        let partition = ListOffsetsPartition {
            partition_index: replica.name.partition(),
            current_leader_epoch: range.epoch.value(),
            timestamp: if range.end.is_none() { LATEST } else { EARLIEST },
        };
        let request = ListOffsetsRequest {
            replica_id: self.config.node.value(),
            topics: vec![ListOffsetsTopic {
                name: replica.name.topic().to_owned(),
                partitions: vec![partition],
            }],
            ..Default::default()
        };
        self.send(now, lane, state, LIST_OFFSETS_VERSION, &request.into(), Sent::Range(range));
    }

    fn send(
        &mut self,
        now: Now,
        lane: Lane,
        state: &mut LaneState,
        version: i16,
        request: &Request,
        what: Sent,
    ) {
        let correlation = self.followers.correlation();
        let header = RequestHeader {
            api: request.api(),
            version,
            correlation_id: correlation,
            client_id: Some(format!("highwater-{}", self.config.node)),
        };
        match wire::encode_request(&header, request) {
            Ok(parts) => {
                state.in_flight.push_back(InFlight { correlation, sent_at: now.monotonic, what });
                self.out.push(Out::PeerFrame { lane, parts });
            }
            // Larger than a frame can be: begin anew with less.
            Err(_) => state.session.failed(),
        }
    }

    pub(super) fn on_peer_down(&mut self, now: Now, lane: Lane) {
        let Some(state) = self.followers.lanes.get_mut(&lane) else { return };
        state.session.failed();
        state.landing.clear();
        let sent = std::mem::take(&mut state.in_flight);
        for sent in sent {
            self.fail(now, &sent.what, FetchFailure::Unreachable);
        }
    }

    fn fail(&mut self, now: Now, what: &Sent, why: FetchFailure) {
        match what {
            Sent::Fetch { asked, .. } => {
                for (key, asked) in asked.values() {
                    self.fetch_failed(now, *key, *asked, why);
                }
            }
            Sent::Range(range) => {
                let end = self.replicas.get(&range.key).map(|replica| replica.log.written());
                let asked = Asked { epoch: range.epoch, offset: end.unwrap_or_default() };
                self.fetch_failed(now, range.key, asked, why);
            }
        }
    }

    pub(super) fn on_peer_frame(&mut self, now: Now, lane: Lane, frame: Bytes) {
        let Some(state) = self.followers.lanes.get_mut(&lane) else { return };
        let Some(sent) = state.in_flight.pop_front() else { return };
        let (api, version) = match sent.what {
            Sent::Fetch { .. } => (ApiKey::Fetch, FETCH_VERSION),
            Sent::Range(_) => (ApiKey::ListOffsets, LIST_OFFSETS_VERSION),
        };
        let response = match wire::decode_response(api, version, frame) {
            Ok((correlation, response)) if correlation == sent.correlation => response,
            Ok(_) | Err(_) => {
                // Nothing that follows on this connection can be believed.
                state.in_flight.push_front(sent);
                self.out.push(Out::PeerClose { lane });
                return self.on_peer_down(now, lane);
            }
        };
        match (sent.what, response) {
            (Sent::Fetch { asked, begins_session }, Response::Fetch(response)) => {
                if !response.error_code.is_none() {
                    // The next Fetch names everything; at once only where that is what the leader wants to hear.
                    state.session.failed();
                    let session_is_lost = matches!(
                        response.error_code,
                        ErrorCode::FetchSessionIdNotFound | ErrorCode::InvalidFetchSessionEpoch
                    );
                    if begins_session || !session_is_lost {
                        let sent = Sent::Fetch { asked, begins_session };
                        self.fail(now, &sent, failure(response.error_code));
                    }
                    return;
                }
                if begins_session {
                    state.session.answered(response.session_id);
                }
                for topic in response.responses {
                    for data in topic.partitions {
                        let part = topic.topic_id.map(|id| (id, data.partition_index));
                        if let Some((key, asked)) = part.and_then(|part| asked.get(&part)) {
                            self.on_partition_data(now, lane, *key, *asked, &data);
                        }
                    }
                }
            }
            (Sent::Range(range), Response::ListOffsets(response)) => {
                let mut partitions = response.topics.into_iter().flat_map(|topic| topic.partitions);
                let answer = partitions.next().unwrap_or_default();
                self.on_range(now, lane, range, answer.error_code, Offset::new(answer.offset));
            }
            (what, _) => self.fail(now, &what, FetchFailure::LeaderFailed),
        }
    }

    fn on_range(
        &mut self,
        now: Now,
        lane: Lane,
        range: RangeAsked,
        error: ErrorCode,
        offset: Option<Offset>,
    ) {
        let (Some(offset), true) = (offset, error.is_none()) else {
            return self.fail(now, &Sent::Range(range), failure(error));
        };
        match range.end {
            None => {
                if let Some(state) = self.followers.lanes.get_mut(&lane) {
                    state.ranges.push_front(RangeAsked { end: Some(offset), ..range });
                }
            }
            Some(end) => {
                let answer = Input::RangeAnswered { epoch: range.epoch, start: offset, end };
                self.step(now, range.key, answer);
            }
        }
    }

    fn on_partition_data(
        &mut self,
        now: Now,
        lane: Lane,
        key: ReplicaKey,
        asked: Asked,
        data: &PartitionData,
    ) {
        let outcome = if !data.error_code.is_none() {
            FetchOutcome::Failed(failure(data.error_code))
        } else if let Some(epoch) = LeaderEpoch::new(data.diverging_epoch.epoch) {
            match Offset::new(data.diverging_epoch.end_offset) {
                Some(end) => FetchOutcome::Diverging { epoch, end },
                None => FetchOutcome::Failed(FetchFailure::Corrupt),
            }
        } else {
            match self.take_records(now, lane, key, asked, data) {
                Ok(()) => FetchOutcome::Records {
                    high_watermark: Offset::new(data.high_watermark),
                    log_start: Offset::new(data.log_start_offset),
                },
                Err(instead) => instead,
            }
        };
        let answer = FetchAnswer { epoch: asked.epoch, from: asked.offset, outcome };
        self.step(now, key, Input::FetchAnswered(answer));
    }

    /// Appends what came, if the replica still expects it; else says what that was instead.
    fn take_records(
        &mut self,
        now: Now,
        lane: Lane,
        key: ReplicaKey,
        asked: Asked,
        data: &PartitionData,
    ) -> Result<(), FetchOutcome> {
        let Some(records) = data.records.clone().filter(|records| !records.is_empty()) else { return Ok(()) };
        let replica = self.replicas.get(&key).ok_or(FetchOutcome::Failed(FetchFailure::NotLeader))?;
        if !replica.look(|machine, facts| machine.expects_records(asked.epoch, asked.offset, facts)) {
            return Ok(());
        }
        let batches = ReplicatedBatches::check(records.into_bytes(), asked.epoch)
            .map_err(|_| FetchOutcome::Failed(FetchFailure::Corrupt))?;
        match replica.log.append_replicated(&batches, now) {
            Ok(_) => {}
            // The machine judges whether this log is one that may begin again there.
            Err(ReplicaAppendError::BelowEnd { first: base, end, .. }) => {
                return Err(FetchOutcome::StraddlesStart { base, end });
            }
            Err(_) => return Err(FetchOutcome::Failed(FetchFailure::NotAppended)),
        }
        if let Some(state) = self.followers.lanes.get_mut(&lane) {
            state.landing.insert(key);
        }
        self.step(now, key, Input::LogMoved);
        Ok(())
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other error of Kafka's is one that time may cure")]
pub(super) const fn failure(error: ErrorCode) -> FetchFailure {
    match error {
        ErrorCode::FencedLeaderEpoch => FetchFailure::FencedEpoch,
        ErrorCode::UnknownLeaderEpoch => FetchFailure::UnknownEpoch,
        ErrorCode::NotLeaderOrFollower
        | ErrorCode::UnknownTopicId
        | ErrorCode::UnknownTopicOrPartition
        | ErrorCode::InconsistentTopicId => FetchFailure::NotLeader,
        ErrorCode::OffsetOutOfRange => FetchFailure::OutOfRange,
        ErrorCode::CorruptMessage => FetchFailure::Corrupt,
        _ => FetchFailure::LeaderFailed,
    }
}
