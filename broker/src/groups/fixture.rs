//! A coordinator by itself: a log in memory, a clock that is turned by hand, and members who say what they say.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::units::{LeaderEpoch, Monotonic, Now, Timestamp, TopicId};
use highwater_replication::wire::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use highwater_replication::wire::join_group::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse,
};
use highwater_replication::wire::leave_group::{LeaveGroupRequest, LeaveGroupResponse, MemberIdentity};
use highwater_replication::wire::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};
use highwater_replication::wire::sync_group::{
    SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse,
};
use highwater_replication::wire::{ErrorCode, Response};

use super::{Coordinator, Effect, GroupConfig, Origin, Record, Wanted, WriteId, partition_of};

pub(super) const GROUP: &str = "group";
pub(super) const PARTITIONS: i32 = 5;
const TOPIC_ID: [u8; 16] = [7; 16];

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn config() -> GroupConfig {
    GroupConfig {
        session_min: ms(6_000),
        session_max: ms(60_000),
        initial_delay: ms(3_000),
        members_max: 5,
        metadata_bytes_max: 10,
        retention: ms(1_000_000),
        retention_check: ms(100_000),
    }
}

/// See the module's documentation.
pub(super) struct Bench {
    pub(super) machine: Coordinator<u32>,
    pub(super) now: Now,
    /// Records of each partition, in order, as far as they are committed.
    log: BTreeMap<i32, Vec<Record>>,
    /// Writes that are not committed yet.
    pub(super) writes: Vec<(WriteId, i32, Vec<Record>)>,
    replies: BTreeMap<u32, Response>,
    next: u32,
    epoch: i32,
}

impl Bench {
    /// A coordinator of all partitions, which are empty.
    pub(super) fn new() -> Self {
        let now = Now {
            monotonic: Monotonic::from_duration(ms(1_000)),
            wall: Timestamp::from_millis(1_700_000_000_000),
        };
        let mut bench = Self {
            machine: Coordinator::new(config(), 0, now.monotonic),
            now,
            log: BTreeMap::new(),
            writes: Vec::new(),
            replies: BTreeMap::new(),
            next: 0,
            epoch: 0,
        };
        bench.lead();
        bench
    }

    /// Another leader takes over, with nothing but the log.
    pub(super) fn fail_over(&mut self) {
        for number in 0..PARTITIONS {
            self.machine.lose(self.now, number);
        }
        self.take_effects();
        self.machine = Coordinator::new(config(), 1, self.now.monotonic);
        self.writes.clear();
        self.lead();
    }

    fn lead(&mut self) {
        self.epoch += 1;
        self.machine.set_partitions(PARTITIONS);
        for number in 0..PARTITIONS {
            self.machine.lead(number, LeaderEpoch::new(self.epoch).unwrap());
            for record in self.log.get(&number).into_iter().flatten() {
                self.machine.load(self.now, number, Some(record.key.clone()), record.value.clone()).unwrap();
            }
            self.machine.loaded(self.now, number);
        }
        self.machine.name_topics(topic_id);
    }

    /// Time passes, with everything that is due in it.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now.monotonic.after(time);
        while let Some(at) = self.machine.next_deadline().filter(|at| *at <= end) {
            self.turn_to(at.max(self.now.monotonic));
            self.machine.tick(self.now);
            self.take_effects();
        }
        self.turn_to(end);
    }

    fn turn_to(&mut self, at: Monotonic) {
        let passed = i64::try_from(at.since(self.now.monotonic).as_millis()).unwrap();
        self.now = Now { monotonic: at, wall: Timestamp::from_millis(self.now.wall.millis() + passed) };
    }

    pub(super) fn take_effects(&mut self) {
        for effect in self.machine.take_effects() {
            match effect {
                Effect::Reply { to, response } => {
                    assert!(self.replies.insert(to, response).is_none(), "request {to} is answered twice");
                }
                Effect::Write { write, partition, records, .. } => {
                    self.writes.push((write, partition, records));
                }
            }
        }
    }

    /// Everything that is being written is committed.
    pub(super) fn commit_writes(&mut self) {
        while !self.writes.is_empty() {
            for (write, partition, records) in std::mem::take(&mut self.writes) {
                self.log.entry(partition).or_default().extend(records);
                self.machine.written(self.now, write, Ok(()));
            }
            self.take_effects();
        }
    }

    /// Nothing of it is.
    pub(super) fn fail_writes(&mut self, error: ErrorCode) {
        for (write, _, _) in std::mem::take(&mut self.writes) {
            self.machine.written(self.now, write, Err(error));
        }
        self.take_effects();
    }

    pub(super) fn ask(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// The answer to a request; `None` if it waits.
    pub(super) fn answer<R: TryFrom<Response>>(&mut self, to: u32) -> Option<R> {
        let response = self.replies.remove(&to)?;
        Some(R::try_from(response).unwrap_or_else(|_| panic!("request {to} got another answer")))
    }

    pub(super) fn join(&mut self, request: JoinGroupRequest) -> u32 {
        let to = self.ask();
        let origin =
            Origin { client_id: "client".to_owned(), client_host: "/127.0.0.1".to_owned(), version: 9 };
        self.machine.join(self.now, to, origin, request);
        self.take_effects();
        to
    }

    pub(super) fn joined(&mut self, to: u32) -> JoinGroupResponse {
        self.answer(to).expect("the member waits")
    }

    /// A member that comes without an id gets one.
    pub(super) fn new_id(&mut self) -> String {
        let to = self.join(join("", None));
        let response = self.joined(to);
        assert_eq!(response.error_code, ErrorCode::MemberIdRequired);
        response.member_id
    }

    /// Members join a group that has none, and are in its first generation, without parts.
    pub(super) fn generation_of(&mut self, members: usize) -> Vec<JoinGroupResponse> {
        let ids: Vec<String> = (0..members).map(|_| self.new_id()).collect();
        let asked: Vec<u32> = ids.iter().map(|id| self.join(join(id, None))).collect();
        self.gather();
        asked.into_iter().map(|to| self.joined(to)).collect()
    }

    /// The first members have come, and nobody else does.
    pub(super) fn gather(&mut self) {
        self.pass(config().initial_delay * 2);
    }

    /// The same, and the leader has given each member its own id as its part.
    pub(super) fn stable(&mut self, members: usize) -> Vec<JoinGroupResponse> {
        let joined = self.generation_of(members);
        let asked: Vec<u32> = joined.iter().map(|member| self.sync(&parts(member))).collect();
        self.commit_writes();
        for (to, member) in asked.into_iter().zip(&joined) {
            let part: SyncGroupResponse = self.answer(to).unwrap();
            assert_eq!(
                (part.error_code, part.assignment),
                (ErrorCode::None, member.member_id.clone().into())
            );
        }
        joined
    }

    pub(super) fn sync(&mut self, request: &SyncGroupRequest) -> u32 {
        let to = self.ask();
        self.machine.sync(self.now, to, request.clone());
        self.take_effects();
        to
    }

    pub(super) fn heartbeat(&mut self, member: &str, generation_id: i32) -> ErrorCode {
        let to = self.ask();
        let request = HeartbeatRequest {
            group_id: GROUP.to_owned(),
            generation_id,
            member_id: member.to_owned(),
            ..Default::default()
        };
        self.machine.heartbeat(self.now, to, &request);
        self.take_effects();
        self.answer::<HeartbeatResponse>(to).unwrap().error_code
    }

    pub(super) fn leave(&mut self, member: &str, instance: Option<&str>) -> ErrorCode {
        let to = self.ask();
        let group_instance_id = instance.map(str::to_owned);
        let members = vec![MemberIdentity { member_id: member.to_owned(), group_instance_id, reason: None }];
        let request = LeaveGroupRequest { group_id: GROUP.to_owned(), members, ..Default::default() };
        self.machine.leave(self.now, to, 5, request);
        self.take_effects();
        self.answer::<LeaveGroupResponse>(to).unwrap().members[0].error_code
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    pub(super) fn commit(&mut self, request: OffsetCommitRequest) -> u32 {
        let to = self.ask();
        self.machine.commit(self.now, to, &request, |name, _| {
            Ok((name.to_owned(), topic_id(name).ok_or(ErrorCode::UnknownTopicOrPartition)?))
        });
        self.take_effects();
        to
    }

    pub(super) fn committed(&mut self, to: u32) -> Vec<ErrorCode> {
        let response: OffsetCommitResponse = self.answer(to).expect("the commit waits");
        let partitions = response.topics.into_iter().flat_map(|topic| topic.partitions);
        partitions.map(|partition| partition.error_code).collect()
    }

    /// How far the group has come in partition 0 of a topic.
    pub(super) fn offset(&mut self, topic: &str) -> i64 {
        let fetched =
            self.machine.fetch(GROUP, Wanted::Some(vec![(topic.to_owned(), vec![0])]), topic_id).unwrap();
        fetched[0].1[0].committed_offset
    }

    pub(super) fn state(&mut self) -> String {
        self.machine.describe(5, GROUP, false).group_state
    }

    /// What the log says of the group's partition, newest last: whether each record is about a group, and whether it has a value.
    pub(super) fn records(&self) -> Vec<(bool, bool)> {
        let log = self.log.get(&partition_of(GROUP, PARTITIONS)).into_iter().flatten();
        log.map(|record| (record.key.starts_with(&[0, 2]), record.value.is_some())).collect()
    }
}

/// The topics that there are begin with `t`.
pub(super) fn topic_id(name: &str) -> Option<TopicId> {
    if name.starts_with('t') { TopicId::new(TOPIC_ID) } else { None }
}

/// A subscription to topics, as consumers write it.
pub(super) fn subscription(topics: &[&str]) -> Bytes {
    let mut bytes = vec![0, 0];
    bytes.extend(u32::try_from(topics.len()).unwrap().to_be_bytes());
    for topic in topics {
        bytes.extend(u16::try_from(topic.len()).unwrap().to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    bytes.extend([0xff; 4]);
    bytes.into()
}

pub(super) fn join(member: &str, instance: Option<&str>) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: GROUP.to_owned(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 20_000,
        member_id: member.to_owned(),
        group_instance_id: instance.map(str::to_owned),
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".to_owned(),
            metadata: subscription(&["t"]),
        }],
        ..Default::default()
    }
}

/// A member asks for its part; if it leads, everybody's part is its own id.
pub(super) fn parts(member: &JoinGroupResponse) -> SyncGroupRequest {
    let parts = member.members.iter().map(|other| SyncGroupRequestAssignment {
        member_id: other.member_id.clone(),
        assignment: other.member_id.clone().into(),
    });
    SyncGroupRequest {
        group_id: GROUP.to_owned(),
        generation_id: member.generation_id,
        member_id: member.member_id.clone(),
        assignments: parts.collect(),
        ..Default::default()
    }
}

/// Offsets of partition 0 of topics, by a member or by nobody.
pub(super) fn offsets(member: Option<&JoinGroupResponse>, topics: &[(&str, i64)]) -> OffsetCommitRequest {
    let topics = topics.iter().map(|(name, offset)| OffsetCommitRequestTopic {
        name: (*name).to_owned(),
        partitions: vec![OffsetCommitRequestPartition { committed_offset: *offset, ..Default::default() }],
        ..Default::default()
    });
    OffsetCommitRequest {
        group_id: GROUP.to_owned(),
        generation_id_or_member_epoch: member.map_or(-1, |member| member.generation_id),
        member_id: member.map(|member| member.member_id.clone()).unwrap_or_default(),
        topics: topics.collect(),
        ..Default::default()
    }
}
