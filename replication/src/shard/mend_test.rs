//! What is said to the controller of a replica that is offline, and what is not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use highwater_engine::disk::{PosixDisk, SyncThread};
use highwater_engine::store::{Store, StoreConfig};
use highwater_engine::units::{LeaderEpoch, Monotonic, NodeId, Now, Timestamp, TopicId, TopicPartition};

use super::{ControllerCallId, Event, Out, ReplicaKey, Shard, ShardConfig};
use crate::controller::{
    Broker, BrokerStatus, ClusterState, ControllerReply, ControllerRequest, PartitionState, ResignCause,
    SessionBegun, Suspicion, Topic,
};
use crate::ids::{BrokerEpoch, PartitionEpoch};
use crate::rules::Rules;

/// A shard that leads one partition, and what it has asked the controller.
struct Alone {
    shard: Shard,
    now: Now,
    state: ClusterState,
    poll: Option<ControllerCallId>,
    asked: Vec<ControllerRequest>,
}

fn node(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn name() -> TopicPartition {
    TopicPartition::new("t", 0).unwrap()
}

fn topic_id() -> TopicId {
    TopicId::new([7; 16]).unwrap()
}

fn epoch(value: i32) -> LeaderEpoch {
    LeaderEpoch::new(value).unwrap()
}

/// A cluster in which node 1 leads the partition.
fn led_by_1() -> ClusterState {
    let broker = |session| Broker {
        session: BrokerEpoch::new(session).unwrap(),
        host: "127.0.0.1".to_owned(),
        port: 9092,
        directory: None,
        process: None,
        status: BrokerStatus::Alive,
        registered_as: None,
    };
    let both = vec![node(1), node(2)];
    let partition = PartitionState {
        adding: Vec::new(),
        removing: Vec::new(),
        replicas: both.clone(),
        isr: both.clone(),
        eligible: both,
        leader: Some(node(1)),
        leader_epoch: epoch(0),
        partition_epoch: PartitionEpoch::new(0).unwrap(),
        out_of_sync: BTreeMap::new(),
        suspects: BTreeMap::new(),
        damaged: BTreeSet::new(),
        reports: BTreeMap::new(),
        losses: Vec::new(),
        possible_losses: Vec::new(),
    };
    let topic = Topic { id: topic_id(), configs: BTreeMap::new(), partitions: vec![partition] };
    ClusterState {
        version: 1,
        cluster_id: "cluster".to_owned(),
        brokers: BTreeMap::from([(node(1), broker(1)), (node(2), broker(2))]),
        topics: BTreeMap::from([("t".to_owned(), topic)]),
        ..ClusterState::empty()
    }
}

impl Alone {
    fn leading(path: &std::path::Path) -> Self {
        let now = Now { monotonic: Monotonic::default(), wall: Timestamp::from_millis(1_700_000_000_000) };
        let disk = Arc::new(PosixDisk::new(SyncThread::Never));
        let opened = Store::open(disk, path, StoreConfig::default(), now).unwrap();
        let shard =
            Shard::new(opened.store, &opened.report, ShardConfig::new(node(1)), Rules::default(), 7, now);
        let mut alone = Self { shard, now, state: led_by_1(), poll: None, asked: Vec::new() };
        alone.pass(0);
        // It is so before the first poll is answered: a stop in between names it in its mark.
        assert_eq!((alone.shard.last_session(), alone.shard.view().since()), (BrokerEpoch::new(1), None));
        alone.told(|_| {});
        alone
    }

    /// The controller says how things are now.
    fn told(&mut self, change: impl FnOnce(&mut PartitionState)) {
        let topic = self.state.topics.get_mut("t").unwrap();
        change(&mut topic.partitions[0]);
        self.state.version += 1;
        let whole = ControllerReply::Whole(Box::new(self.state.clone()));
        let call = self.poll.take().expect("it polls");
        self.shard.tell(Event::ControllerAnswered { call, reply: Some(whole) });
        self.pass(0);
    }

    /// Turns until nothing happens, when so many milliseconds have passed. The controller hears everything, and says nothing new.
    fn pass(&mut self, ms: u64) {
        self.now.monotonic = self.now.monotonic.after(Duration::from_millis(ms));
        loop {
            let outs = self.shard.turn(self.now);
            if outs.is_empty() {
                break;
            }
            for out in outs {
                self.carry_out(out);
            }
        }
    }

    fn carry_out(&mut self, out: Out) {
        match out {
            Out::Job(job) => {
                let done = job.run(&self.shard.store().clone());
                self.shard.tell(Event::JobDone(done));
            }
            Out::Controller { call, request } => {
                if matches!(request.request, ControllerRequest::Poll { .. }) {
                    self.poll = Some(call);
                    return;
                }
                let begun = SessionBegun {
                    session: BrokerEpoch::new(1).unwrap(),
                    cluster_id: "cluster".to_owned(),
                    version: 1,
                    session_timeout_ms: 9000,
                };
                let registers = matches!(request.request, ControllerRequest::Register(_));
                let reply =
                    if registers { ControllerReply::Registered(Ok(begun)) } else { ControllerReply::Heard };
                self.asked.push(request.request);
                self.shard.tell(Event::ControllerAnswered { call, reply: Some(reply) });
            }
            Out::Frame { .. }
            | Out::Close { .. }
            | Out::PeerFrame { .. }
            | Out::PeerClose { .. }
            | Out::Answer { .. }
            | Out::MayStop
            | Out::News(_) => {}
        }
    }

    fn key(&self) -> ReplicaKey {
        self.shard.by_name[&name()]
    }

    /// What was asked since the last time, but for sessions.
    fn said(&mut self) -> Vec<ControllerRequest> {
        let mut asked = std::mem::take(&mut self.asked);
        asked.retain(|request| {
            !matches!(request, ControllerRequest::Register(_) | ControllerRequest::Heartbeat)
        });
        asked
    }
}

fn resignation() -> ControllerRequest {
    let (leader_epoch, why) = (epoch(0), ResignCause::LogFailed);
    ControllerRequest::Resign { partition: name(), topic_id: topic_id(), leader_epoch, why }
}

#[test]
fn a_leader_whose_machine_panicked_resigns_until_it_is_heard() {
    let directory = tempfile::tempdir().unwrap();
    let mut alone = Alone::leading(directory.path());
    let (now, key) = (alone.now, alone.key());
    alone.shard.on_panicked(now, key, "a broken invariant".to_owned());
    alone.pass(499);
    assert_eq!(alone.said(), []);
    for _ in 0..3 {
        alone.pass(500);
        assert_eq!(alone.said(), [resignation()]);
    }
    alone.told(|partition| {
        partition.isr = vec![node(2)];
        partition.leader = Some(node(2));
        partition.leader_epoch = epoch(1);
    });
    alone.pass(500);
    assert_eq!(alone.said(), []);
    assert_ne!(alone.key(), key, "another machine follows");
}

#[test]
fn a_replica_that_is_offline_reports_nothing_that_could_elect_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut alone = Alone::leading(directory.path());
    let (now, key) = (alone.now, alone.key());
    alone.shard.fail_log(now, key, "a write failed");
    alone.pass(0);
    assert_eq!(alone.said(), [resignation()]);
    alone.told(|partition| {
        partition.isr = Vec::new();
        partition.suspects.insert(node(1), Suspicion::LogFailed);
        partition.leader = None;
        partition.leader_epoch = epoch(1);
    });
    assert_eq!(alone.said(), [], "what it has is known when its log is open again");
}
