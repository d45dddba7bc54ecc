//! Three replicas and a controller in one process: what a client of theirs sees when all is well, and when one is lost.

#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::batch::{BatchBuilder, BatchLimits, Compression};
use highwater_engine::disk::simulated::Fault;
use highwater_engine::disk::{Disk, Patience, PosixDisk, SimulatedDisk};
use highwater_engine::log::LogConfig;
use highwater_engine::store::{Job, JobDone, JobError, JobKind, Store, StoreConfig};
use highwater_engine::units::{Monotonic, NodeId, Now, Timestamp, TopicPartition};
use highwater_replication::Rules;
use highwater_replication::controller::{
    self, CallId, ControllerConfig, ControllerNode, ControllerOut, ControllerReply, ControllerRequest,
    CreationPurpose, NewTopic,
};
use highwater_replication::partition::PartitionConfig;
use highwater_replication::pending::{ConnectionId, Slot};
use highwater_replication::shard::{AskId, ControllerCallId, Event, Lane, Out, Shard, ShardConfig};
use highwater_replication::wire::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use highwater_replication::wire::{self, ErrorCode, RequestHeader, Response};

struct Cluster {
    now: Now,
    controller: ControllerNode,
    shards: BTreeMap<NodeId, Shard>,
    calls: BTreeMap<CallId, (NodeId, ControllerCallId)>,
    next_call: u64,
    /// Frames from followers to leaders that are not delivered yet.
    requests: VecDeque<(NodeId, Lane, Bytes)>,
    requests_sent: usize,
    lanes: BTreeMap<(NodeId, Lane), ConnectionId>,
    slots: BTreeMap<Slot, (NodeId, Lane)>,
    next_slot: u64,
    answers: BTreeMap<Slot, Bytes>,
    asked: BTreeMap<AskId, Option<ControllerReply>>,
    log: Vec<String>,
    /// So many checkpoints of high watermarks find no room.
    checkpoints_refused: usize,
    checkpoints_written: usize,
    /// So many resignations do not reach the controller.
    resignations_lost: usize,
}

fn node(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn config(id: i32) -> ShardConfig {
    ShardConfig {
        node: node(id),
        cluster_id: None,
        directory_id: None,
        host: "127.0.0.1".to_owned(),
        port: 0,
        process: None,
        log: LogConfig::default(),
        partition: PartitionConfig::default(),
        batch: BatchLimits::default(),
        fetch_partition_bytes_max: 1 << 20,
        fetch_bytes_max: 10 << 20,
        fetch_wait_max: Duration::from_millis(500),
        response_bytes_max: 55 << 20,
        catch_up_bytes_per_turn: 4 << 20,
        high_watermark_interval: Duration::from_secs(5),
        retention_interval: Duration::from_secs(300),
        peer_timeout: Duration::from_secs(5),
    }
}

fn posix() -> Arc<dyn Disk> {
    Arc::new(PosixDisk::new(highwater_engine::disk::SyncThread::Never))
}

fn open(disk: Arc<dyn Disk>, path: &Path, id: i32, now: Now) -> Shard {
    let opened = Store::open(disk, &path.join(id.to_string()), StoreConfig::default(), now).unwrap();
    Shard::new(opened.store, &opened.report, config(id), Rules::default(), 7, now)
}

impl Cluster {
    fn new(path: &Path) -> Self {
        Self::with(path, |_| posix())
    }

    fn with(path: &Path, disk_of: impl Fn(i32) -> Arc<dyn Disk>) -> Self {
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
        }
    }

    /// Everybody has turns until nothing happens for `for_ms`.
    fn run(&mut self, for_ms: u64) {
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

    fn deliver(&mut self, from: NodeId, lane: Lane, frame: Bytes) {
        if !self.shards.contains_key(&lane.leader) {
            self.shards.get_mut(&from).unwrap().tell(Event::PeerDown { lane });
            return;
        }
        let next = ConnectionId(1000 + self.lanes.len() as u64);
        let connection = *self.lanes.entry((from, lane)).or_insert(next);
        let slot = Slot { connection, number: self.next_slot };
        self.next_slot += 1;
        self.slots.insert(slot, (from, lane));
        self.shards.get_mut(&lane.leader).unwrap().tell(Event::Frame { slot, frame });
    }

    fn carry_out(&mut self, id: NodeId, out: Out) {
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
                let (kind, source) = (JobKind::OffsetCheckpoint, ErrorKind::StorageFull.into());
                let error = JobError::Io { path: PathBuf::new(), source };
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

    fn create_topic(&mut self, name: &str) {
        let request = ControllerRequest::CreateTopic(NewTopic {
            name: name.to_owned(),
            partitions: Some(1),
            replication_factor: Some(3),
            assignment: None,
            configs: BTreeMap::new(),
            timeout_ms: 1000,
            purpose: CreationPurpose::Create,
        });
        let reply = self.ask(request);
        assert!(matches!(reply, Some(ControllerReply::TopicCreated { outcome: Ok(_), .. })), "{reply:?}");
    }

    fn ask(&mut self, request: ControllerRequest) -> Option<ControllerReply> {
        self.shards.get_mut(&node(1)).unwrap().tell(Event::Ask { ask: AskId(1), request });
        self.run(20);
        self.asked.remove(&AskId(1)).flatten()
    }

    fn leader(&self, name: &TopicPartition) -> NodeId {
        self.controller.state().partition(name).unwrap().leader.expect("somebody leads")
    }

    fn produce(&mut self, name: &TopicPartition, value: &str) -> (ErrorCode, i64) {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.push(Some(self.now.wall), None, Some(value.as_bytes()), &[]).unwrap();
        let records = builder.finish().unwrap();
        let request = ProduceRequest {
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
        };
        let header =
            RequestHeader { api: wire::ApiKey::Produce, version: 9, correlation_id: 1, client_id: None };
        let parts = wire::encode_request(&header, &request.into()).unwrap();
        let frame = Bytes::from(parts.concat()).slice(4..);
        let slot = Slot { connection: ConnectionId(1), number: self.next_slot };
        self.next_slot += 1;
        let leader = self.leader(name);
        self.shards.get_mut(&leader).unwrap().tell(Event::Frame { slot, frame });
        self.run(3000);
        let frame = self.answers.remove(&slot).expect("an answer");
        let (_, response) = wire::decode_response(wire::ApiKey::Produce, 9, frame).unwrap();
        let Response::Produce(response) = response else { panic!("{response:?}") };
        let part = &response.responses[0].partition_responses[0];
        (part.error_code, part.base_offset)
    }
}

#[test]
fn what_is_acknowledged_is_on_all_three_and_outlives_its_leader() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(directory.path());
    cluster.run(50);
    cluster.create_topic("topic");
    let name = TopicPartition::new("topic", 0).unwrap();
    cluster.run(1500);
    for (offset, value) in [(0, "a"), (1, "b"), (2, "c")] {
        let got = cluster.produce(&name, value);
        assert_eq!(got, (ErrorCode::None, offset), "{:#?}", cluster.log);
    }
    let isr = cluster.controller.state().partition(&name).unwrap().isr.clone();
    assert_eq!(isr.len(), 3, "{:#?}", cluster.log);
    for shard in cluster.shards.values() {
        assert_eq!(shard.store().log(&name).unwrap().written().value(), 3);
    }

    let gone = cluster.leader(&name);
    drop(cluster.shards.remove(&gone));
    cluster.controller.tell(controller::Input::ProcessEnded { node: gone, process: None });
    cluster.run(50);
    assert_ne!(cluster.leader(&name), gone);
    assert_eq!(cluster.produce(&name, "d"), (ErrorCode::None, 3), "{:#?}", cluster.log);

    let id = gone.value();
    let now = cluster.now;
    cluster.lanes.clear();
    cluster.shards.insert(gone, open(posix(), directory.path(), id, now));
    cluster.run(3000);
    let isr = cluster.controller.state().partition(&name).unwrap().isr.clone();
    assert_eq!(isr.len(), 3, "{:#?}", cluster.log);
    assert_eq!(cluster.shards[&gone].store().log(&name).unwrap().written().value(), 4);
}

#[test]
fn a_log_that_a_failed_write_closed_is_opened_again_by_the_same_process_and_catches_up() {
    for who_fails in [Who::Leader, Who::Follower] {
        let directory = tempfile::tempdir().unwrap();
        let disks: BTreeMap<i32, SimulatedDisk> = (1..=3).map(|id| (id, SimulatedDisk::new(7))).collect();
        let mut cluster = Cluster::with(directory.path(), |id| Arc::new(disks[&id].clone()));
        cluster.run(50);
        cluster.create_topic("topic");
        let name = TopicPartition::new("topic", 0).unwrap();
        cluster.run(1500);
        assert_eq!(cluster.produce(&name, "a"), (ErrorCode::None, 0), "{:#?}", cluster.log);

        let leader = cluster.leader(&name);
        let failing = match who_fails {
            Who::Leader => leader,
            Who::Follower => *cluster.shards.keys().find(|id| **id != leader).unwrap(),
        };
        let disk = &disks[&failing.value()];
        // The next call of this disk is the write of the next record.
        disk.fail_call(disk.next_call(), Fault::ShortWrite);
        cluster.resignations_lost = 1;
        let (error, _) = cluster.produce(&name, "b");
        let failed = cluster.log.iter().filter(|line| line.contains("LogFailed")).count();
        let reopened = cluster.log.iter().filter(|line| line.contains("LogReopened")).count();
        assert_eq!((failed, reopened), (1, 1), "{:#?}", cluster.log);
        assert_eq!(cluster.resignations_lost, 0, "it was said again: {:#?}", cluster.log);
        match who_fails {
            Who::Leader => assert_ne!(cluster.leader(&name), failing, "{error:?}"),
            Who::Follower => assert_eq!((cluster.leader(&name), error), (leader, ErrorCode::None)),
        }

        cluster.run(3000);
        let partition = cluster.controller.state().partition(&name).unwrap();
        assert_eq!((partition.isr.len(), partition.suspects.len()), (3, 0), "{:#?}", cluster.log);
        let (error, offset) = cluster.produce(&name, "c");
        assert_eq!(error, ErrorCode::None, "{:#?}", cluster.log);
        for shard in cluster.shards.values() {
            assert_eq!(shard.store().log(&name).unwrap().written().value(), offset + 1);
        }
    }
}

#[test]
fn followers_of_a_deleted_topic_do_not_fetch_it_on_and_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(directory.path());
    cluster.run(50);
    // Each broker leads one that is deleted and one that stays, so that all connections and their sessions stay.
    for name in ["a", "b", "c", "d", "e", "f"] {
        cluster.create_topic(name);
    }
    cluster.run(1500);
    for name in ["a", "b", "c"] {
        let reply = cluster.ask(ControllerRequest::DeleteTopic { name: name.to_owned() });
        assert!(matches!(reply, Some(ControllerReply::TopicDeleted { outcome: Ok(_), .. })), "{reply:?}");
    }
    cluster.run(1500);
    let before = cluster.requests_sent;
    cluster.run(5000);
    // Six pairs of a follower and a leader, each with one Fetch in half a second.
    let sent = cluster.requests_sent - before;
    assert!((50..=70).contains(&sent), "{sent} Fetches in 5 s");
}

#[test]
fn a_log_that_does_not_say_its_topic_is_made_to_say_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(directory.path());
    cluster.run(50);
    cluster.create_topic("topic");
    let name = TopicPartition::new("topic", 0).unwrap();
    cluster.run(1500);
    let leader = cluster.leader(&name);
    let follower = *cluster.shards.keys().find(|id| **id != leader).unwrap();
    cluster.lanes.clear();
    // As a crash leaves a log that is just being made.
    let metadata = directory.path().join(follower.to_string()).join("topic-0/partition.metadata");
    std::fs::remove_file(&metadata).unwrap();
    for _ in 0..2 {
        drop(cluster.shards.remove(&follower));
        let now = cluster.now;
        cluster.shards.insert(follower, open(posix(), directory.path(), follower.value(), now));
        cluster.run(3000);
    }
    let topic = cluster.controller.state().topics["topic"].id;
    // Opened again, it has the id: a log without one counts as missing when its broker registers.
    let found = cluster.shards[&follower].store().log(&name).unwrap().topic_id();
    assert_eq!((found, metadata.exists()), (Some(topic), true), "{:#?}", cluster.log);
}

#[test]
fn a_log_that_could_not_be_made_is_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let disks: BTreeMap<i32, SimulatedDisk> = (1..=3).map(|id| (id, SimulatedDisk::new(7))).collect();
    let mut cluster = Cluster::with(directory.path(), |id| Arc::new(disks[&id].clone()));
    cluster.run(50);
    // The next calls of these disks are those that make the log.
    for id in [1, 2] {
        disks[&id].fail_call(disks[&id].next_call(), Fault::NoSpace);
    }
    cluster.create_topic("topic");
    let name = TopicPartition::new("topic", 0).unwrap();
    cluster.run(50);
    assert_eq!(cluster.log.iter().filter(|line| line.contains("LogFailed")).count(), 2, "{:#?}", cluster.log);
    cluster.run(3000);
    let partition = cluster.controller.state().partition(&name).unwrap();
    assert_eq!((partition.isr.len(), partition.suspects.len()), (3, 0), "{:#?}", cluster.log);
    assert_eq!(cluster.produce(&name, "a"), (ErrorCode::None, 0), "{:#?}", cluster.log);
}

#[test]
fn high_watermarks_that_found_no_room_are_written_later() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(directory.path());
    cluster.run(50);
    cluster.create_topic("topic");
    cluster.run(1500);
    let name = TopicPartition::new("topic", 0).unwrap();
    let before = cluster.checkpoints_written;
    cluster.checkpoints_refused = 3;
    assert_eq!(cluster.produce(&name, "a"), (ErrorCode::None, 0), "{:#?}", cluster.log);
    cluster.run(12_000);
    assert_eq!(cluster.checkpoints_refused, 0);
    assert_eq!(cluster.checkpoints_written - before, 3, "one of each");
}

#[derive(Clone, Copy)]
enum Who {
    Leader,
    Follower,
}
