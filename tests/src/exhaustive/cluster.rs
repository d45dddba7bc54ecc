//! The cluster: the machines of the product, and what a host does for them.

use std::time::Duration;

use highwater_engine::units::{LeaderEpoch, NodeId, Now, Offset, TopicId, TopicPartition};
use highwater_replication::Rules;
use highwater_replication::controller::{
    self, ClusterState, Condition, Controller, ControllerConfig, ControllerReply, ControllerRequest,
    CreationPurpose, LastStop, NewTopic, Registration, ReplicaFacts, ReplicaReport, ReportedReplica,
    ResignCause,
};
use highwater_replication::ids::BrokerEpoch;
use highwater_replication::partition::{
    AckWait, Acks, Asker, Durability, Effect, Fenced, FetchAnswer, FetchClaim, FetchFailure, FetchOutcome,
    FetchRefusal, FetchVerdict, Fetcher, Input, Integrity, IsrAnswer, Partition, PartitionConfig,
    PartitionEvent, ResignReason, WaitId, WaitOutcome,
};

use super::bounds::Bounds;
use super::node::{End, Node, Process, Record, index};
use super::seen::{Counts, Seen};
use super::state::{Content, Message, State};

/// Two or three replicas of one partition, the controller, and the settings of all.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) bounds: Bounds,
    pub(super) rules: Rules,
    name: TopicPartition,
    config: PartitionConfig,
    seen: Counts,
}

impl Cluster {
    pub(super) fn new(bounds: Bounds, rules: Rules) -> Self {
        // Whoever pauses is ready to go on at once: how long a pause is decides nothing.
        let config = PartitionConfig {
            fetch_backoff_min: Duration::ZERO,
            fetch_backoff_max: Duration::ZERO,
            isr_retry: Duration::ZERO,
            ..PartitionConfig::default()
        };
        let name = TopicPartition::new("t", 0).expect("a legal name");
        Self { bounds, rules, name, config, seen: Counts::default() }
    }

    pub(super) fn counts(&self) -> Counts {
        self.seen.clone()
    }

    /// All brokers are registered, and the topic is there.
    pub(super) fn first(&self) -> State {
        let config = ControllerConfig {
            brokers_configured: usize::try_from(self.bounds.replicas).ok(),
            new_cluster_id: Some("AAAAAAAAAAAAAAAAAAAAAQ".to_owned()),
            recent_changes_max: 0,
            ..ControllerConfig::default()
        };
        let controller = Controller::new(ClusterState::empty(), config, self.rules, 1, Now::default());
        let ids: Vec<NodeId> = (1..=self.bounds.replicas).filter_map(NodeId::new).collect();
        let mut state = State::new(controller, ids.iter().map(|id| Node::new(*id)).collect(), self.bounds);
        let sessions: Vec<BrokerEpoch> =
            ids.iter().map(|id| self.register(&mut state, *id, LastStop::Never, Vec::new())).collect();
        let durability = match self.bounds.durability {
            Durability::Written => "written",
            Durability::Fsync => "fsync",
        };
        let configs = [
            (controller::MIN_ISR, self.bounds.min_isr.to_string()),
            (controller::DURABILITY, durability.into()),
        ];
        let topic = NewTopic {
            name: self.name.topic().to_owned(),
            partitions: None,
            replication_factor: None,
            assignment: Some(vec![ids]),
            configs: configs.map(|(key, value)| (key.to_owned(), value)).into(),
            timeout_ms: 0,
            purpose: CreationPurpose::Create,
        };
        let created = state.ask(&self.name, None, ControllerRequest::CreateTopic(topic));
        assert!(matches!(created, Some(ControllerReply::TopicCreated { outcome: Ok(_), .. })), "{created:?}");
        for (at, session) in sessions.into_iter().enumerate() {
            self.begin(&mut state, at, session, Some(Offset::ZERO));
        }
        state
    }

    fn topic_id(&self, state: &State) -> TopicId {
        state.controller().state().topics.get(self.name.topic()).expect("the topic was created").id
    }

    fn register(
        &self,
        state: &mut State,
        node: NodeId,
        last_stop: LastStop,
        replicas: Vec<ReplicaFacts>,
    ) -> BrokerEpoch {
        let registration = Registration {
            node,
            cluster_id: None,
            last_session: None,
            directory: None,
            host: "127.0.0.1".to_owned(),
            port: 1,
            process: None,
            run: None,
            last_stop,
            replicas,
        };
        let reply = state.ask(&self.name, None, ControllerRequest::Register(registration));
        let Some(ControllerReply::Registered(Ok(begun))) = reply else {
            panic!("{node:?} is refused: {reply:?}")
        };
        begun.session
    }

    /// A process begins over the log that is there.
    fn begin(&self, state: &mut State, at: usize, session: BrokerEpoch, known: Option<Offset>) {
        let topic_id = self.topic_id(state);
        let node = state.node_mut(at);
        let machine = Partition::new(node.id, self.name.clone(), topic_id, self.config, self.rules, known);
        let process =
            Process { machine, session, proposal: None, waiting: Vec::new(), high_max: Offset::ZERO };
        (node.end, node.process) = (None, Some(process));
    }

    /// Tells a machine, and carries out what it wants done.
    pub(super) fn tell(&self, state: &mut State, at: usize, input: Input) {
        let node = state.node_mut(at);
        let now = node.now();
        let Some(process) = &mut node.process else { return };
        process.machine.step(now, input, &node.log.facts());
        let effects = process.machine.take_effects();
        // What the step has committed counts before anybody is told.
        state.check();
        for effect in effects {
            self.carry_out(state, at, effect);
        }
    }

    fn carry_out(&self, state: &mut State, at: usize, effect: Effect) {
        let node = state.node_mut(at);
        let (follower, Some(process)) = (node.id, &mut node.process) else { return };
        match effect {
            Effect::BeginEpoch { epoch } => {
                node.log.epochs.assign(epoch, node.log.accepted());
            }
            Effect::ProposeIsr(proposal) => process.proposal = Some(proposal),
            Effect::AskRange { leader, epoch } => {
                state.send(Message { follower, leader, content: Content::AskRange { epoch } });
            }
            Effect::Truncate { to, .. } => {
                self.seen.count(Seen::Cut);
                state.cuts(at, to);
                state.node_mut(at).log.cut(to);
                self.tell(state, at, Input::Truncated { end: to });
            }
            Effect::RestartAt { offset } | Effect::RaiseStart { to: offset } => {
                assert_eq!(offset, Offset::ZERO, "nothing is deleted in this model");
            }
            Effect::Acknowledge { wait, outcome } => {
                let place = process.waiting.iter().position(|(_, record)| u32::from(record.1) == wait.part);
                let waited = place.map(|place| process.waiting.remove(place));
                if let (Some((offset, record)), WaitOutcome::Acknowledged) = (waited, outcome) {
                    self.seen.count(Seen::Acknowledged);
                    state.acknowledged(offset, record);
                }
            }
            Effect::Resign { epoch, why } => {
                let why = match why {
                    ResignReason::SecondIncarnation => ResignCause::SecondIncarnation,
                    ResignReason::LogFailed | _ => ResignCause::LogFailed,
                };
                let (partition, sender) = (self.name.clone(), state.sender(at));
                let request = ControllerRequest::Resign {
                    partition,
                    topic_id: self.topic_id(state),
                    leader_epoch: epoch,
                    why,
                };
                state.ask(&self.name, sender, request);
            }
            Effect::Event(event) => self.note(state, at, &event),
            // A Fetch and a sync are actions of their own; the rest is for consumers and people.
            Effect::WantDurable
            | Effect::HighWatermark(_)
            | Effect::FetchFrom { .. }
            | Effect::StopFetching
            | Effect::Wake(_)
            | _ => {}
        }
    }

    fn note(&self, state: &mut State, at: usize, event: &PartitionEvent) {
        if matches!(event, PartitionEvent::Leads { .. }) {
            self.seen.count(Seen::Led);
        } else if matches!(event, PartitionEvent::LeftIsr { .. }) {
            self.seen.count(Seen::LeftIsr);
        } else if matches!(event, PartitionEvent::JoinedIsr { .. }) {
            self.seen.count(Seen::JoinedIsr);
        } else if matches!(event, PartitionEvent::TruncationRefused { .. }) {
            self.seen.count(Seen::CutRefused);
            self.report(state, at);
        }
    }

    fn report(&self, state: &mut State, at: usize) {
        let node = state.node(at);
        let Some(process) = &node.process else { return };
        let Some(leader_epoch) = process.machine.leader_epoch() else { return };
        let report = ReplicaReport {
            last_epoch: node.log.epochs.latest().map(|entry| entry.epoch),
            end: node.log.written,
            known_committed: process.machine.known_committed(),
        };
        let (partition, topic_id) = (self.name.clone(), self.topic_id(state));
        let reported = ReportedReplica { partition, topic_id, leader_epoch, report };
        state.ask(&self.name, state.sender(at), ControllerRequest::Report(reported));
    }

    pub(super) fn produce(&self, state: &mut State, at: usize) {
        let number = state.left.records;
        let node = state.node_mut(at);
        let Some(process) = &mut node.process else { return };
        let Ok(permit) = process.machine.may_append(Acks::All, &node.log.facts()) else { return };
        let record: Record = (permit.epoch(), number);
        process.waiting.push((node.log.accepted(), record));
        node.log.append(record);
        let wait = AckWait {
            id: WaitId { request: 0, part: u32::from(number) },
            epoch: record.0,
            end: node.log.accepted(),
            acks: Acks::All,
            deadline: node.clock.after(Duration::MAX),
        };
        state.left.records -= 1;
        self.tell(state, at, Input::Wait(wait));
    }

    /// A follower sends its Fetch.
    pub(super) fn fetch(state: &mut State, at: usize) {
        let node = state.node(at);
        let Some(process) = &node.process else { return };
        let Some(request) = process.machine.fetch_request(&node.log.facts()) else { return };
        let claim = FetchClaim {
            fetcher: Fetcher::Follower { node: node.id, session: Some(process.session) },
            current_epoch: Some(request.epoch),
            offset: request.offset,
            last_fetched_epoch: request.last_fetched_epoch,
            log_start: Some(request.log_start),
        };
        let content = Content::Fetch { epoch: request.epoch, claim };
        state.send(Message { follower: node.id, leader: request.leader, content });
    }

    pub(super) fn arrive(&self, state: &mut State, place: usize) {
        let Message { follower, leader, content } = state.wire.remove(place);
        let (Some(at), Some(leads)) = (state.place(follower), state.place(leader)) else { return };
        match content {
            Content::Fetch { epoch, claim } => {
                let content = self.answer(state, leads, epoch, claim);
                state.send(Message { follower, leader, content });
            }
            Content::AskRange { epoch } => {
                let content = range(state.node(leads), epoch);
                state.send(Message { follower, leader, content });
            }
            Content::Range { epoch, start, end } => {
                self.tell(state, at, Input::RangeAnswered { epoch, start, end });
            }
            Content::Answer { answer, records } => self.take_answer(state, at, answer, records),
        }
    }

    fn answer(&self, state: &mut State, leads: usize, epoch: LeaderEpoch, claim: FetchClaim) -> Content {
        let node = state.node(leads);
        let from = claim.offset;
        let Some(process) = &node.process else { return failed(epoch, from, FetchFailure::Unreachable) };
        match process.machine.judge_fetch(&claim, &node.log.facts()) {
            Ok(FetchVerdict::Diverging { epoch: shared, end }) => {
                let outcome = FetchOutcome::Diverging { epoch: shared, end };
                Content::Answer { answer: FetchAnswer { epoch, from, outcome }, records: Vec::new() }
            }
            Ok(FetchVerdict::Read { ceiling }) => {
                let records = node.log.records.get(index(from)..index(ceiling)).unwrap_or_default().to_vec();
                self.tell(state, leads, Input::FollowerFetched(claim));
                let process = state.node(leads).process.as_ref();
                let high_watermark = process.map(|process| process.machine.high_watermark());
                let outcome = FetchOutcome::Records { high_watermark, log_start: Some(Offset::ZERO) };
                Content::Answer { answer: FetchAnswer { epoch, from, outcome }, records }
            }
            Err(FetchRefusal::OutOfRange { .. }) => failed(epoch, from, FetchFailure::OutOfRange),
            Err(FetchRefusal::Fenced(refusal)) => {
                if matches!(refusal, Fenced::OldEpoch { .. }) {
                    self.seen.count(Seen::Fenced);
                }
                failed(epoch, from, failure_of(refusal))
            }
            Err(_) => failed(epoch, from, FetchFailure::NotLeader),
        }
    }

    fn take_answer(&self, state: &mut State, at: usize, answer: FetchAnswer, records: Vec<Record>) {
        let node = state.node_mut(at);
        let Some(process) = &node.process else { return };
        if matches!(answer.outcome, FetchOutcome::Records { .. }) {
            if !process.machine.expects_records(answer.epoch, answer.from, &node.log.facts()) {
                return;
            }
            for record in records {
                node.log.append(record);
            }
        }
        self.tell(state, at, Input::FetchAnswered(answer));
    }

    /// A message is lost; whoever asked hears of a broken connection.
    pub(super) fn lose(&self, state: &mut State, place: usize) {
        let Message { follower, content, .. } = state.wire.remove(place);
        let (epoch, from) = match content {
            Content::Fetch { epoch, claim } => (epoch, claim.offset),
            Content::Answer { answer, .. } => (answer.epoch, answer.from),
            Content::AskRange { epoch } | Content::Range { epoch, .. } => (epoch, Offset::ZERO),
        };
        if let (Some(at), Content::Answer { answer, .. }) =
            (state.place(follower), failed(epoch, from, FetchFailure::Unreachable))
        {
            self.tell(state, at, Input::FetchAnswered(answer));
        }
    }

    /// Whether a broker has something to hear of the controller, or to tell it.
    pub(super) fn has_news(&self, state: &State, at: usize) -> bool {
        let node = state.node(at);
        let process = node.process.as_ref().filter(|_| state.is_heard(node));
        process.is_some_and(|process| {
            state.word() != process.machine.assignment() || state.report_is_wanted(&self.name, node.id)
        })
    }

    /// A broker hears what the controller has decided, and reports what it is asked for.
    pub(super) fn hear(&self, state: &mut State, at: usize) {
        let Some(word) = state.word().cloned() else { return };
        self.tell(state, at, Input::Assigned(word));
        if state.report_is_wanted(&self.name, state.node(at).id) {
            self.report(state, at);
        }
    }

    /// The controller decides a proposal; its leader hears the answer, or does not.
    pub(super) fn decide(&self, state: &mut State, at: usize, heard: bool) {
        let (topic_id, sender) = (self.topic_id(state), state.sender(at));
        let process = state.node_mut(at).process.as_mut();
        let Some(proposal) = process.and_then(|process| process.proposal.take()) else { return };
        let asked = controller::IsrProposal::of_machine(self.name.clone(), topic_id, &proposal);
        let answer = match state.ask(&self.name, sender, ControllerRequest::AlterIsr(asked)) {
            Some(ControllerReply::Isr(answer)) if heard => answer.to_machine(),
            _ => IsrAnswer::Unanswered,
        };
        self.tell(state, at, Input::IsrAnswered { proposal, answer });
    }

    /// The process of a broker is gone, and its connections with it; so much of its log is left.
    pub(super) fn crash(state: &mut State, at: usize, end: End, kept: Offset) {
        let node = state.node_mut(at);
        (node.process, node.end) = (None, Some(end));
        node.log.recover(kept, end);
        let id = node.id;
        state.wire.retain(|message| message.follower != id);
        for message in state.wire.iter_mut().filter(|message| message.leader == id) {
            message.content = match message.content {
                Content::Fetch { epoch, claim } => failed(epoch, claim.offset, FetchFailure::Unreachable),
                Content::AskRange { epoch } => failed(epoch, Offset::ZERO, FetchFailure::Unreachable),
                Content::Answer { .. } | Content::Range { .. } => continue,
            };
        }
    }

    /// The controller ends a session; nobody tells the broker.
    pub(super) fn fence(&self, state: &mut State, at: usize) {
        let node = state.node(at).id;
        state.tell_controller(&self.name, controller::Input::ProcessEnded { node, process: None });
    }

    /// A process begins and registers.
    pub(super) fn start(&self, state: &mut State, at: usize) {
        let node = state.node(at);
        let last_stop = match node.end {
            Some(End::PowerCut) => LastStop::MachineCrash,
            Some(End::Killed) | None => LastStop::Killed,
        };
        let (id, known) = (node.id, node.checkpoint);
        let facts = self.facts(state, at, known);
        let session = self.register(state, id, last_stop, vec![facts]);
        self.begin(state, at, session, known);
    }

    /// A process that was fenced registers again.
    pub(super) fn come_back(&self, state: &mut State, at: usize) {
        let node = state.node(at);
        let Some(process) = &node.process else { return };
        let (id, stop) = (node.id, LastStop::StillRunning { session: process.session });
        let facts = self.facts(state, at, process.machine.known_committed());
        let session = self.register(state, id, stop, vec![facts]);
        if let Some(process) = &mut state.node_mut(at).process {
            process.session = session;
        }
    }

    fn facts(&self, state: &State, at: usize, known_committed: Option<Offset>) -> ReplicaFacts {
        let log = &state.node(at).log;
        ReplicaFacts {
            partition: self.name.clone(),
            topic_id: Some(self.topic_id(state)),
            last_epoch: log.epochs.latest().map(|entry| entry.epoch),
            end: log.written,
            known_committed,
            recovery_point: Some(log.durable),
            condition: Condition::Fits,
            integrity: Integrity::Whole,
        }
    }
}

fn range(leader: &Node, epoch: LeaderEpoch) -> Content {
    let facts = leader.log.facts();
    let bound = leader.process.as_ref().map(|it| it.machine.list_bound(Asker::Replica, Some(epoch), &facts));
    match bound {
        Some(Ok(_)) => Content::Range { epoch, start: facts.start, end: facts.written },
        Some(Err(refusal)) => failed(epoch, facts.accepted, failure_of(refusal)),
        None => failed(epoch, facts.accepted, FetchFailure::Unreachable),
    }
}

fn failed(epoch: LeaderEpoch, from: Offset, failure: FetchFailure) -> Content {
    let answer = FetchAnswer { epoch, from, outcome: FetchOutcome::Failed(failure) };
    Content::Answer { answer, records: Vec::new() }
}

fn failure_of(refusal: Fenced) -> FetchFailure {
    match refusal {
        Fenced::OldEpoch { .. } => FetchFailure::FencedEpoch,
        Fenced::UnknownEpoch { .. } => FetchFailure::UnknownEpoch,
        Fenced::NotLeader => FetchFailure::NotLeader,
        Fenced::Offline | _ => FetchFailure::LeaderFailed,
    }
}
