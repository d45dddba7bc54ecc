//! One state of the whole: the controller, the brokers, what is on the wire, and what has been promised.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use highwater_engine::units::{LeaderEpoch, NodeId, Now, Offset, TopicPartition};
use highwater_replication::controller::{
    CallId, ClusterView, Controller, ControllerCall, ControllerReply, ControllerRequest, Effect, Input,
    Sender,
};
use highwater_replication::partition::{Assignment, FetchAnswer, FetchClaim, RoleName};

use super::bounds::Bounds;
use super::node::{Node, Record, index};

/// A follower's question to its leader, or the answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Message {
    pub(super) follower: NodeId,
    pub(super) leader: NodeId,
    pub(super) content: Content,
}

/// See [`Message`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Content {
    Fetch { epoch: LeaderEpoch, claim: FetchClaim },
    Answer { answer: FetchAnswer, records: Vec<Record> },
    AskRange { epoch: LeaderEpoch },
    Range { epoch: LeaderEpoch, start: Offset, end: Offset },
}

/// An invariant of the catalogue that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Breach {
    LogMatching,
    LeaderCompleteness,
    HighWatermarkFell,
    AboveContribution,
    CommittedChanged,
    CommittedCut,
    AckedNotCommitted,
}

/// See the module's documentation. What is shared with the state before is copied when it changes.
#[derive(Clone, Debug)]
pub(super) struct State {
    controller: Arc<Controller>,
    /// The controller's word on the partition, as a broker would hear it.
    word: Option<Arc<Assignment>>,
    nodes: Vec<Arc<Node>>,
    pub(super) wire: Vec<Message>,
    /// What may still happen.
    pub(super) left: Bounds,
    /// Records in their order, as a leader's high watermark first said that they are committed.
    pub(super) committed: Vec<Record>,
    pub(super) breach: Option<Breach>,
}

/// States are the same where nothing differs that anybody decides by: the controller's version and past changes decide nothing.
impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let state = self.controller.state();
        (&state.brokers, &state.topics, &self.nodes, &self.wire).hash(hasher);
        (&self.left, &self.committed, self.breach).hash(hasher);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.controller.state(), other.controller.state());
        (&ours.brokers, &ours.topics) == (&theirs.brokers, &theirs.topics)
            && (&self.nodes, &self.wire, &self.left) == (&other.nodes, &other.wire, &other.left)
            && (&self.committed, self.breach) == (&other.committed, other.breach)
    }
}

impl State {
    pub(super) fn new(controller: Controller, nodes: Vec<Node>, left: Bounds) -> Self {
        Self {
            controller: Arc::new(controller),
            word: None,
            nodes: nodes.into_iter().map(Arc::new).collect(),
            wire: Vec::new(),
            left,
            committed: Vec::new(),
            breach: None,
        }
    }

    pub(super) fn nodes(&self) -> impl ExactSizeIterator<Item = &Node> {
        self.nodes.iter().map(Arc::as_ref)
    }

    pub(super) fn node(&self, at: usize) -> &Node {
        &self.nodes[at]
    }

    pub(super) fn node_mut(&mut self, at: usize) -> &mut Node {
        Arc::make_mut(&mut self.nodes[at])
    }

    pub(super) fn place(&self, id: NodeId) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == id)
    }

    pub(super) fn controller(&self) -> &Controller {
        &self.controller
    }

    /// The controller's word on the partition.
    pub(super) fn word(&self) -> Option<&Assignment> {
        self.word.as_deref()
    }

    /// Asks the controller, and has the answer at once.
    pub(super) fn ask(
        &mut self,
        name: &TopicPartition,
        sender: Option<Sender>,
        request: ControllerRequest,
    ) -> Option<ControllerReply> {
        let call = ControllerCall { sender, request };
        self.tell_controller(name, Input::Call { id: CallId(0), call })
    }

    pub(super) fn tell_controller(&mut self, name: &TopicPartition, input: Input) -> Option<ControllerReply> {
        let controller = Arc::make_mut(&mut self.controller);
        let before = controller.state().version;
        controller.step(Now::default(), input);
        let effects = controller.take_effects();
        if controller.state().version != before {
            let mut view = ClusterView::new(NodeId::new(0)?);
            view.apply_whole(controller.state().clone());
            self.word = view.assignment(name).map(Arc::new);
        }
        effects
            .into_iter()
            .find_map(|effect| if let Effect::Reply { reply, .. } = effect { Some(reply) } else { None })
    }

    pub(super) fn sender(&self, at: usize) -> Option<Sender> {
        let node = self.node(at);
        Some(Sender { node: node.id, session: node.process.as_ref()?.session })
    }

    /// Whether the controller holds this process for alive.
    pub(super) fn is_heard(&self, node: &Node) -> bool {
        let state = self.controller.state();
        node.process.as_ref().is_some_and(|process| {
            state.is_registered(node.id)
                && state.brokers.get(&node.id).is_some_and(|known| known.session == process.session)
        })
    }

    /// Whether nobody leads and the controller lacks this node's report.
    pub(super) fn report_is_wanted(&self, name: &TopicPartition, node: NodeId) -> bool {
        let partition = self.controller.state().partition(name);
        partition.is_some_and(|known| known.leader.is_none() && !known.reports.contains_key(&node))
    }

    /// Puts a message on the wire, whose order of places says nothing.
    pub(super) fn send(&mut self, message: Message) {
        let key = |it: &Message| (it.follower, it.leader);
        let place = self.wire.partition_point(|other| key(other) <= key(&message));
        self.wire.insert(place, message);
    }

    fn broken(&mut self, breach: Breach) {
        self.breach.get_or_insert(breach);
    }

    /// What must hold after every event.
    pub(super) fn check(&mut self) {
        for at in 0..self.nodes.len() {
            self.check_node(at);
        }
        if !self.logs_match() {
            self.broken(Breach::LogMatching);
        }
        if !self.leader_is_complete() {
            self.broken(Breach::LeaderCompleteness);
        }
    }

    fn check_node(&mut self, at: usize) {
        let node = self.node(at);
        // What a checkpoint says counts for nothing before the controller has spoken.
        let process = node.process.as_ref().filter(|it| it.machine.role_name() != RoleName::Unassigned);
        let Some(process) = process else { return };
        let (high, shown) = (process.machine.high_watermark(), process.high_max);
        let above = high > node.log.written;
        let below = node.log.records.get(..index(high)).unwrap_or(&node.log.records);
        let common = below.len().min(self.committed.len());
        let changed = below.get(..common) != self.committed.get(..common);
        if process.machine.role_name() == RoleName::Leader && !changed {
            let more = below.get(common..).unwrap_or_default().to_vec();
            self.committed.extend(more);
        }
        if shown != high
            && let Some(process) = &mut self.node_mut(at).process
        {
            process.high_max = high;
        }
        let breaches = [
            (Breach::HighWatermarkFell, high < shown),
            (Breach::AboveContribution, above),
            (Breach::CommittedChanged, changed),
        ];
        for (breach, _) in breaches.into_iter().filter(|(_, broken)| *broken) {
            self.broken(breach);
        }
    }

    /// I1, the stronger form: where two logs have a record of the same epoch at an offset, everything below is the same.
    fn logs_match(&self) -> bool {
        let logs = || self.nodes().map(|node| &node.log.records);
        logs().enumerate().all(|(at, one)| {
            logs().skip(at + 1).all(|other| {
                let both = one.len().min(other.len());
                let meets = (0..both).rev().find(|at| one[*at].0 == other[*at].0);
                meets.is_none_or(|last| one[..=last] == other[..=last])
            })
        })
    }

    /// I2: whoever leads in the controller's epoch has everything that is committed.
    fn leader_is_complete(&self) -> bool {
        let Some((leader, epoch)) = self.word().and_then(|word| Some((word.leader?, word.leader_epoch)))
        else {
            return true;
        };
        self.nodes().filter(|node| node.id == leader).all(|node| {
            let machine = node.process.as_ref().map(|process| &process.machine);
            let leads = machine
                .is_some_and(|it| it.role_name() == RoleName::Leader && it.leader_epoch() == Some(epoch));
            !leads || node.log.records.starts_with(&self.committed)
        })
    }

    /// An answer goes out to a producer who waited for all.
    pub(super) fn acknowledged(&mut self, at: Offset, record: Record) {
        // The high watermark that allowed it was counted before.
        if self.committed.get(index(at)) != Some(&record) {
            self.broken(Breach::AckedNotCommitted);
        }
    }

    /// A log is about to be cut. What goes may be there in another's log only under other records.
    pub(super) fn cuts(&mut self, at: usize, to: Offset) {
        let gone = self.node(at).log.records.iter().zip(&self.committed).skip(index(to));
        if gone.clone().any(|(here, committed)| here == committed) {
            self.broken(Breach::CommittedCut);
        }
    }
}
