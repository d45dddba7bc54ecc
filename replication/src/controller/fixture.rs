//! A controller with three brokers to play with, for the tests beside.

use std::collections::BTreeMap;
use std::time::Duration;

use highwater_engine::units::{LeaderEpoch, Monotonic, NodeId, Now, Offset, Timestamp, TopicPartition};

use super::*;
use crate::ids::{BrokerEpoch, PartitionEpoch};
pub(super) use crate::partition::Integrity;
use crate::rules::Rules;

pub(super) fn node(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

pub(super) fn nodes(ids: &[i32]) -> Vec<NodeId> {
    ids.iter().copied().map(node).collect()
}

pub(super) fn epoch(value: i32) -> LeaderEpoch {
    LeaderEpoch::new(value).unwrap()
}

pub(super) fn offset(value: i64) -> Offset {
    Offset::new(value).unwrap()
}

pub(super) fn p0() -> TopicPartition {
    TopicPartition::new("t", 0).unwrap()
}

/// The machine, its clock, and everything it ever gave out.
pub(super) struct Fixture {
    pub(super) machine: Controller,
    pub(super) now: Now,
    pub(super) sessions: BTreeMap<i32, BrokerEpoch>,
    pub(super) changes: Vec<Change>,
    pub(super) events: Vec<ControllerEvent>,
    pub(super) replies: BTreeMap<u64, ControllerReply>,
    calls: u64,
}

pub(super) fn config() -> ControllerConfig {
    ControllerConfig {
        brokers_configured: Some(3),
        new_cluster_id: Some("AAAAAAAAAAAAAAAAAAAAAQ".to_owned()),
        ..ControllerConfig::default()
    }
}

impl Fixture {
    pub(super) fn with(config: ControllerConfig, rules: Rules) -> Self {
        let now = Now { monotonic: Monotonic::default(), wall: Timestamp::from_millis(1_000_000) };
        Self::of(Controller::new(ClusterState::empty(), config, rules, 7, now), now)
    }

    pub(super) fn of(machine: Controller, now: Now) -> Self {
        let mut fixture = Self {
            machine,
            now,
            sessions: BTreeMap::new(),
            changes: Vec::new(),
            events: Vec::new(),
            replies: BTreeMap::new(),
            calls: 0,
        };
        fixture.drain();
        fixture
    }

    /// Three brokers and the topic `t` with one partition on 1, 2, 3 and these settings.
    pub(super) fn three(configs: &[(&str, &str)]) -> Self {
        Self::three_with(configs, Rules::default())
    }

    pub(super) fn three_with(configs: &[(&str, &str)], rules: Rules) -> Self {
        let mut fixture = Self::with(config(), rules);
        for id in 1..=3 {
            fixture.register(id, LastStop::Never, &[]);
        }
        fixture.create(configs, vec![nodes(&[1, 2, 3])]);
        fixture
    }

    pub(super) fn create(&mut self, configs: &[(&str, &str)], assignment: Vec<Vec<NodeId>>) {
        let topic = NewTopic {
            assignment: Some(assignment),
            configs: configs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ..new_topic("t")
        };
        let reply = self.ask(None, ControllerRequest::CreateTopic(topic));
        assert!(matches!(reply, ControllerReply::TopicCreated { outcome: Ok(_), .. }), "{reply:?}");
    }

    pub(super) fn create_named(&mut self, name: &str) {
        let reply = self.ask(None, ControllerRequest::CreateTopic(new_topic(name)));
        assert!(matches!(reply, ControllerReply::TopicCreated { outcome: Ok(_), .. }), "{reply:?}");
    }

    pub(super) fn drain(&mut self) {
        for effect in self.machine.take_effects() {
            match effect {
                Effect::Persist(change) => self.changes.push(change),
                Effect::Reply { id, reply } => {
                    assert_eq!(self.replies.insert(id.0, reply), None, "one reply a call");
                }
                Effect::Event(event) => self.events.push(event),
            }
        }
    }

    pub(super) fn step(&mut self, input: Input) {
        self.machine.step(self.now, input);
        self.drain();
        check_state(self.machine.state());
    }

    /// Sends without waiting for the reply.
    pub(super) fn send(&mut self, from: Option<i32>, request: ControllerRequest) -> u64 {
        self.calls += 1;
        let id = self.calls;
        let sender = from.map(|id| Sender { node: node(id), session: self.sessions[&id] });
        self.step(Input::Call { id: CallId(id), call: ControllerCall { sender, request } });
        id
    }

    pub(super) fn ask(&mut self, from: Option<i32>, request: ControllerRequest) -> ControllerReply {
        let id = self.send(from, request);
        self.replies.get(&id).cloned().expect("answered at once")
    }

    pub(super) fn register(&mut self, id: i32, last_stop: LastStop, replicas: &[ReplicaFacts]) {
        let registration = Registration { last_stop, replicas: replicas.to_vec(), ..registration(id) };
        let reply = self.ask(None, ControllerRequest::Register(registration));
        let ControllerReply::Registered(Ok(begun)) = reply else { panic!("{reply:?}") };
        self.sessions.insert(id, begun.session);
    }

    /// What a log of `t-0` with this end says of itself.
    pub(super) fn facts(&self, last_epoch: i32, end: i64, known_committed: i64) -> ReplicaFacts {
        ReplicaFacts {
            partition: p0(),
            topic_id: Some(self.machine.state().topics["t"].id),
            last_epoch: Some(epoch(last_epoch)),
            end: offset(end),
            known_committed: Some(offset(known_committed)),
            recovery_point: Some(offset(0)),
            condition: Condition::Fits,
            integrity: Integrity::Whole,
        }
    }

    pub(super) fn ended(&mut self, id: i32) {
        self.step(Input::ProcessEnded { node: node(id), process: None });
    }

    /// Goes forward, stopping at each deadline; `alive` send heartbeats every second.
    pub(super) fn pass(&mut self, time: Duration, alive: &[i32]) {
        let until = self.now.monotonic.after(time);
        while self.now.monotonic < until {
            let second = self.now.monotonic.after(Duration::from_secs(1)).min(until);
            while let Some(due) = self.machine.next_deadline().filter(|due| *due < second) {
                self.now.monotonic = due;
                self.step(Input::Tick);
            }
            self.now.monotonic = second;
            for id in alive {
                assert_eq!(self.ask(Some(*id), ControllerRequest::Heartbeat), ControllerReply::Heard);
            }
            self.step(Input::Tick);
        }
    }

    pub(super) fn p(&self) -> &PartitionState {
        self.machine.state().partition(&p0()).unwrap()
    }

    /// Leader, leader epoch, ISR and eligible of `t-0`.
    pub(super) fn shape(&self) -> (Option<i32>, i32, Vec<i32>, Vec<i32>) {
        let numbers = |nodes: &[NodeId]| nodes.iter().map(|node| node.value()).collect();
        let p = self.p();
        (p.leader.map(NodeId::value), p.leader_epoch.value(), numbers(&p.isr), numbers(&p.eligible))
    }

    /// A proposal of the leader in the present state, with everybody's present session.
    pub(super) fn proposal(&self, isr: &[i32]) -> IsrProposal {
        IsrProposal {
            partition: p0(),
            topic_id: self.machine.state().topics["t"].id,
            leader_epoch: self.p().leader_epoch,
            partition_epoch: self.p().partition_epoch,
            isr: isr
                .iter()
                .map(|id| IsrMember { node: node(*id), session: self.sessions.get(id).copied() })
                .collect(),
            reason: OutReason::Lagging,
        }
    }

    pub(super) fn alter(&mut self, from: i32, proposal: IsrProposal) -> Result<IsrGranted, IsrRefusal> {
        let reply = self.ask(Some(from), ControllerRequest::AlterIsr(proposal));
        let ControllerReply::Isr(answer) = reply else { panic!("{reply:?}") };
        answer.outcome
    }

    /// The leader shrinks or expands the ISR to this.
    pub(super) fn isr(&mut self, isr: &[i32]) {
        let leader = self.p().leader.unwrap().value();
        let proposal = self.proposal(isr);
        self.alter(leader, proposal).unwrap();
    }

    /// The id of the topic that all tests have.
    pub(super) fn topic_id(&self) -> highwater_engine::units::TopicId {
        self.machine.state().topics["t"].id
    }

    pub(super) fn report(&mut self, id: i32, last_epoch: i32, end: i64, known_committed: i64) {
        let reported = ReportedReplica {
            partition: p0(),
            topic_id: self.topic_id(),
            leader_epoch: self.p().leader_epoch,
            report: ReplicaReport {
                last_epoch: Some(epoch(last_epoch)),
                end: offset(end),
                known_committed: Some(offset(known_committed)),
            },
        };
        assert_eq!(self.ask(Some(id), ControllerRequest::Report(reported)), ControllerReply::Heard);
    }
}

pub(super) fn registration(id: i32) -> Registration {
    Registration {
        node: node(id),
        cluster_id: None,
        directory: None,
        last_session: None,
        host: "127.0.0.1".to_owned(),
        port: 9091 + u16::try_from(id).unwrap(),
        process: Some(1000 + u32::try_from(id).unwrap()),
        run: None,
        last_stop: LastStop::Never,
        replicas: Vec::new(),
    }
}

pub(super) fn new_topic(name: &str) -> NewTopic {
    NewTopic {
        name: name.to_owned(),
        partitions: None,
        replication_factor: None,
        assignment: None,
        configs: BTreeMap::new(),
        timeout_ms: 5_000,
        purpose: CreationPurpose::Create,
    }
}

/// What holds of every state, whatever happened.
pub(super) fn check_state(state: &ClusterState) {
    for (name, topic, p) in state.partitions() {
        let assigned = |nodes: &[NodeId]| nodes.iter().all(|node| p.replicas.contains(node));
        assert!(assigned(&p.isr) && assigned(&p.eligible), "{name}: strangers in {p:?}");
        assert!(!p.eligible.is_empty(), "{name}: nobody is eligible");
        assert!(p.isr.iter().all(|node| p.eligible.contains(node)), "{name}: ISR beyond eligible {p:?}");
        assert!(
            p.isr.iter().all(|node| !p.suspects.contains_key(node)),
            "{name}: a suspect in the ISR {p:?}"
        );
        assert!(p.leader.is_none_or(|leader| p.in_sync(leader)), "{name}: leads outside the ISR {p:?}");
        assert!(p.leader.is_none_or(|leader| state.is_registered(leader)), "{name}: a dead leader {p:?}");
        assert!(p.isr.iter().all(|node| state.is_registered(*node)), "{name}: a dead member {p:?}");
        assert!(p.leader.is_none() || p.reports.is_empty(), "{name}: reports beside a leader {p:?}");
        let out = p.replicas.iter().filter(|node| !p.in_sync(**node));
        assert!(out.eq(p.replicas.iter().filter(|node| p.out_of_sync.contains_key(node))), "{name}: {p:?}");
        assert!(assigned(&p.adding) && assigned(&p.removing), "{name}: strangers under way {p:?}");
        assert!(p.adding.iter().all(|node| !p.removing.contains(node)), "{name}: to and fro {p:?}");
        if p.isr.len() >= topic.min_isr(p.replicas_held()) {
            assert_eq!(p.isr, p.eligible, "{name}: eligible outlives the minimum");
        }
    }
    let mut sessions: Vec<BrokerEpoch> = state.brokers.values().map(|broker| broker.session).collect();
    sessions.sort_unstable();
    sessions.dedup();
    assert_eq!(sessions.len(), state.brokers.len(), "two brokers in one session");
}

pub(super) fn partition_epoch(value: i32) -> PartitionEpoch {
    PartitionEpoch::new(value).unwrap()
}
