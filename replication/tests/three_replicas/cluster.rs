//! The cluster that the tests run: three shards and a controller, turned by hand, with frames and calls carried between them.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::batch::{BatchBuilder, Compression};
use highwater_engine::disk::{Disk, Patience, PosixDisk};
use highwater_engine::store::{Job, JobDone, JobError, JobKind, Store, StoreConfig};
use highwater_engine::units::{LeaderEpoch, Monotonic, NodeId, Now, Timestamp, TopicPartition};
use highwater_replication::Rules;
use highwater_replication::controller::{
    self, CallId, ControllerConfig, ControllerNode, ControllerOut, ControllerReply, ControllerRequest,
    CreationPurpose, NewTopic,
};
use highwater_replication::pending::{ConnectionId, Slot};
use highwater_replication::shard::{AskId, ControllerCallId, Event, Lane, Out, Shard, ShardConfig};
use highwater_replication::wire::fetch::FetchResponse;
use highwater_replication::wire::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use highwater_replication::wire::{self, ApiKey, ErrorCode, Request, RequestHeader, Response};

pub(crate) struct Cluster {
    pub(crate) now: Now,
    pub(crate) controller: ControllerNode,
    pub(crate) shards: BTreeMap<NodeId, Shard>,
    pub(crate) calls: BTreeMap<CallId, (NodeId, ControllerCallId)>,
    pub(crate) next_call: u64,
    /// Frames from followers to leaders that are not delivered yet.
    pub(crate) requests: VecDeque<(NodeId, Lane, Bytes)>,
    pub(crate) requests_sent: usize,
    pub(crate) lanes: BTreeMap<(NodeId, Lane), ConnectionId>,
    pub(crate) slots: BTreeMap<Slot, (NodeId, Lane)>,
    pub(crate) next_slot: u64,
    pub(crate) answers: BTreeMap<Slot, Bytes>,
    pub(crate) asked: BTreeMap<AskId, Option<ControllerReply>>,
    pub(crate) log: Vec<String>,
    /// So many checkpoints of high watermarks find no room.
    pub(crate) checkpoints_refused: usize,
    pub(crate) checkpoints_written: usize,
    /// So many resignations do not reach the controller.
    pub(crate) resignations_lost: usize,
    /// What every Fetch is refused with.
    pub(crate) fetches_refused: Option<ErrorCode>,
}

pub(crate) fn node(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

pub(crate) fn config(id: i32) -> ShardConfig {
    ShardConfig::new(node(id))
}

pub(crate) fn posix() -> Arc<dyn Disk> {
    Arc::new(PosixDisk::new(highwater_engine::disk::SyncThread::Never))
}

pub(crate) fn open(disk: Arc<dyn Disk>, path: &Path, id: i32, now: Now) -> Shard {
    open_with(disk, path, config(id), now)
}

pub(crate) fn open_with(disk: Arc<dyn Disk>, path: &Path, config: ShardConfig, now: Now) -> Shard {
    let path = path.join(config.node.to_string());
    let opened = Store::open(disk, &path, StoreConfig::default(), now).unwrap();
    Shard::new(opened.store, &opened.report, config, Rules::default(), 7, now)
}

impl Cluster {
    pub(crate) fn new(path: &Path) -> Self {
        Self::with(path, |_| posix())
    }

    pub(crate) fn with(path: &Path, disk_of: impl Fn(i32) -> Arc<dyn Disk>) -> Self {
        let now = Now { monotonic: Monotonic::default(), wall: Timestamp::from_millis(1_700_000_000_000) };
        let disk = Arc::new(PosixDisk::new(highwater_engine::disk::SyncThread::Never));
        let controller = ControllerNode::open(
            disk,
            &path.join("controller"),
            ControllerConfig::default(),
            Rules::default(),
            7,
            now,
        )
        .unwrap();
        let shards = (1..=3).map(|id| (node(id), open(disk_of(id), path, id, now))).collect();
        Self {
            now,
            controller,
            shards,
            calls: BTreeMap::new(),
            next_call: 0,
            requests: VecDeque::new(),
            requests_sent: 0,
            lanes: BTreeMap::new(),
            slots: BTreeMap::new(),
            next_slot: 0,
            answers: BTreeMap::new(),
            asked: BTreeMap::new(),
            log: Vec::new(),
            checkpoints_refused: 0,
            checkpoints_written: 0,
            resignations_lost: 0,
            fetches_refused: None,
        }
    }

    /// Everybody has turns until nothing happens for `for_ms`.
    pub(crate) fn run(&mut self, for_ms: u64) {
        for _ in 0..for_ms {
            let ms = Duration::from_millis(1);
            self.now.monotonic = self.now.monotonic.after(ms);
            self.now.wall = Timestamp::from_millis(self.now.wall.millis() + 1);
            for rounds in 0.. {
                assert!(rounds < 10_000, "they go round and round in one moment: {:#?}", self.log);
                let mut busy = false;
                for id in self.shards.keys().copied().collect::<Vec<_>>() {
                    let outs = self.shards.get_mut(&id).unwrap().turn(self.now);
                    busy |= !outs.is_empty();
                    for out in outs {
                        self.carry_out(id, out);
                    }
                }
                for out in self.controller.turn(self.now, Patience::MayBlock).unwrap() {
                    busy = true;
                    match out {
                        ControllerOut::Reply { id, reply } => {
                            let (node, call) = self.calls.remove(&id).unwrap();
                            if let Some(shard) = self.shards.get_mut(&node) {
                                shard.tell(Event::ControllerAnswered { call, reply: Some(reply) });
                            }
                        }
                        ControllerOut::Event(event) => self.log.push(format!("controller: {event}")),
                    }
                }
                if let Some((from, lane, frame)) = self.requests.pop_front() {
                    busy = true;
                    self.deliver(from, lane, frame);
                }
                if !busy {
                    break;
                }
            }
        }
    }

    pub(crate) fn deliver(&mut self, from: NodeId, lane: Lane, frame: Bytes) {
        if !self.shards.contains_key(&lane.leader) {
            self.shards.get_mut(&from).unwrap().tell(Event::PeerDown { lane });
            return;
        }
        if let Some(error_code) = self.fetches_refused {
            let (header, _) = wire::decode_request(frame).unwrap();
            let response = FetchResponse { error_code, ..Default::default() };
            let parts = wire::encode_response(header.version, header.correlation_id, &response.into());
            let frame = Bytes::from(parts.unwrap().concat()).slice(4..);
            return self.shards.get_mut(&from).unwrap().tell(Event::PeerFrame { lane, frame });
        }
        let next = ConnectionId(1000 + self.lanes.len() as u64);
        let connection = *self.lanes.entry((from, lane)).or_insert(next);
        let slot = Slot { connection, number: self.next_slot };
        self.next_slot += 1;
        self.slots.insert(slot, (from, lane));
        self.shards.get_mut(&lane.leader).unwrap().tell(Event::Frame { slot, frame });
    }

    pub(crate) fn carry_out(&mut self, id: NodeId, out: Out) {
        let whole = |parts: Vec<Bytes>| Bytes::from(parts.concat()).slice(4..);
        match out {
            Out::Frame { slot, parts } => match self.slots.remove(&slot) {
                Some((to, lane)) => {
                    if let Some(shard) = self.shards.get_mut(&to) {
                        shard.tell(Event::PeerFrame { lane, frame: whole(parts) });
                    }
                }
                None => {
                    self.answers.insert(slot, whole(parts));
                }
            },
            Out::PeerFrame { lane, parts } => {
                self.requests_sent += 1;
                self.requests.push_back((id, lane, whole(parts)));
            }
            Out::Controller { call, request }
                if self.resignations_lost > 0
                    && matches!(request.request, ControllerRequest::Resign { .. }) =>
            {
                self.resignations_lost -= 1;
                self.shards.get_mut(&id).unwrap().tell(Event::ControllerAnswered { call, reply: None });
            }
            Out::Controller { call, request } => {
                let at = CallId(self.next_call);
                self.next_call += 1;
                self.calls.insert(at, (id, call));
                self.controller.tell(controller::Input::Call { id: at, call: request });
            }
            Out::Answer { ask, reply } => {
                self.asked.insert(ask, reply);
            }
            Out::Job(Job::OffsetCheckpoint { .. }) if self.checkpoints_refused > 0 => {
                self.checkpoints_refused -= 1;
                let kind = JobKind::OffsetCheckpoint;
                let error = JobError::OutOfSpace { path: PathBuf::new() };
                let done = JobDone::Failed { kind, log: None, error };
                self.shards.get_mut(&id).unwrap().tell(Event::JobDone(done));
            }
            Out::Job(job) => {
                self.checkpoints_written += usize::from(matches!(job, Job::OffsetCheckpoint { .. }));
                let shard = self.shards.get_mut(&id).unwrap();
                let done = job.run(&shard.store().clone());
                shard.tell(Event::JobDone(done));
            }
            Out::News(news) => self.log.push(format!("{id}: {news:?}")),
            Out::Close { connection, why } => panic!("{connection:?} closed: {why}"),
            Out::PeerClose { .. } | Out::MayStop => {}
        }
    }

    pub(crate) fn create_topic(&mut self, name: &str) {
        self.create_topic_with(name, &[]);
    }

    pub(crate) fn create_topic_with(&mut self, name: &str, configs: &[(&str, &str)]) {
        let config = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let request = ControllerRequest::CreateTopic(NewTopic {
            name: name.to_owned(),
            partitions: Some(1),
            replication_factor: Some(3),
            assignment: None,
            configs: configs.iter().map(config).collect(),
            timeout_ms: 1000,
            purpose: CreationPurpose::Create,
        });
        let reply = self.ask(request);
        assert!(matches!(reply, Some(ControllerReply::TopicCreated { outcome: Ok(_), .. })), "{reply:?}");
    }

    pub(crate) fn ask(&mut self, request: ControllerRequest) -> Option<ControllerReply> {
        self.shards.get_mut(&node(1)).unwrap().tell(Event::Ask { ask: AskId(1), request });
        self.run(20);
        self.asked.remove(&AskId(1)).flatten()
    }

    pub(crate) fn leader(&self, name: &TopicPartition) -> NodeId {
        self.controller.state().partition(name).unwrap().leader.expect("somebody leads")
    }

    pub(crate) fn produce(&mut self, name: &TopicPartition, value: &str) -> (ErrorCode, i64) {
        self.produce_records(name, &[(None, Some(value))])
    }

    /// Keys and values, in one batch.
    pub(crate) fn produce_records(
        &mut self,
        name: &TopicPartition,
        records: &[(Option<&str>, Option<&str>)],
    ) -> (ErrorCode, i64) {
        let slot = self.send_produce(name, records);
        self.run(3000);
        self.produced(slot).expect("an answer")
    }

    /// A Produce that wants to be acknowledged by all within two seconds goes to the leader.
    pub(crate) fn send_produce(
        &mut self,
        name: &TopicPartition,
        records: &[(Option<&str>, Option<&str>)],
    ) -> Slot {
        let request = self.produce_request(name, records);
        self.send(self.leader(name), 9, &request)
    }

    /// The same by the broker itself, for one leadership.
    pub(crate) fn send_own_produce(
        &mut self,
        name: &TopicPartition,
        records: &[(Option<&str>, Option<&str>)],
        epoch: LeaderEpoch,
    ) -> Slot {
        let request = self.produce_request(name, records);
        self.send_as(self.leader(name), 9, &request, |slot, frame| Event::OwnFrame { slot, epoch, frame })
    }

    fn produce_request(&self, name: &TopicPartition, records: &[(Option<&str>, Option<&str>)]) -> Request {
        let mut builder = BatchBuilder::new(Compression::None);
        for (key, value) in records {
            let (key, value) = (key.map(str::as_bytes), value.map(str::as_bytes));
            builder.push(Some(self.now.wall), key, value, &[]).unwrap();
        }
        let records = builder.finish().unwrap();
        ProduceRequest {
            acks: -1,
            timeout_ms: 2000,
            topic_data: vec![TopicProduceData {
                name: name.topic().to_owned(),
                partition_data: vec![PartitionProduceData {
                    index: name.partition(),
                    records: Some(records),
                }],
                ..Default::default()
            }],
            ..Default::default()
        }
        .into()
    }

    /// A request of a client's goes to a broker.
    pub(crate) fn send(&mut self, to: NodeId, version: i16, request: &Request) -> Slot {
        self.send_as(to, version, request, |slot, frame| Event::Frame { slot, frame })
    }

    fn send_as(
        &mut self,
        to: NodeId,
        version: i16,
        request: &Request,
        event: impl FnOnce(Slot, Bytes) -> Event,
    ) -> Slot {
        let header = RequestHeader { api: request.api(), version, correlation_id: 1, client_id: None };
        let parts = wire::encode_request(&header, request).unwrap();
        let frame = Bytes::from(parts.concat()).slice(4..);
        let slot = Slot { connection: ConnectionId(1), number: self.next_slot };
        self.next_slot += 1;
        self.shards.get_mut(&to).unwrap().tell(event(slot, frame));
        slot
    }

    /// What a Produce was answered, if it was.
    pub(crate) fn produced(&mut self, slot: Slot) -> Option<(ErrorCode, i64)> {
        let response = self.answered(slot, ApiKey::Produce, 9)?;
        let Response::Produce(response) = response else { panic!("{response:?}") };
        let part = &response.responses[0].partition_responses[0];
        Some((part.error_code, part.base_offset))
    }

    /// What a request was answered, if it was.
    pub(crate) fn answered(&mut self, slot: Slot, api: ApiKey, version: i16) -> Option<Response> {
        let frame = self.answers.remove(&slot)?;
        Some(wire::decode_response(api, version, frame).unwrap().1)
    }
}
