//! The controller's machine: tell it what happened, take what it wants done, look at its state. Decisions are in the files beside.

use std::collections::{BTreeMap, VecDeque};

use highwater_engine::units::{Monotonic, NodeId, Now, TopicId, TopicPartition};

use super::change::Change;
use super::election::{self, EpochsUsedUp, Trust};
use super::event::{ControllerEvent, LeaderReason};
use super::input::{CallId, ControllerConfig, Effect, Input};
use super::isr;
use super::polls::HeldPoll;
use super::protocol::{
    ControllerCall, ControllerReply, ControllerRequest, IsrAnswer, IsrGranted, IsrProposal, ProducerIdBlock,
    ReportedReplica, Sender,
};
use super::reassign;
use super::refusal::IsrRefusal;
use super::state::{ClusterState, OutReason, PartitionState};
use super::topics::HeldCreation;
use crate::partition::LossRecord;
use crate::rules::{Rule, Rules};

/// How many producer ids are granted at once, as in Kafka.
const PRODUCER_IDS: i64 = 1_000;

/// The controller as a pure machine.
///
/// Its state is changed by [`Change`]s only, each of which it also gives out to be persisted.
#[derive(Clone, Debug)]
pub struct Controller {
    pub(super) state: ClusterState,
    pub(super) config: ControllerConfig,
    pub(super) rules: Rules,
    pub(super) rng: fastrand::Rng,
    pub(super) now: Now,
    /// When each broker with a session was last heard of.
    pub(super) heard: BTreeMap<NodeId, Monotonic>,
    pub(super) polls: Vec<HeldPoll>,
    pub(super) creations: VecDeque<HeldCreation>,
    /// The last changes; the newest one made `state.version`.
    pub(super) recent: VecDeque<Change>,
    pub(super) balance_at: Monotonic,
    effects: Vec<Effect>,
}

impl Controller {
    /// A machine that goes on with this state; an empty one becomes a new cluster.
    ///
    /// Brokers with a session count as heard of now: whoever does not come back is fenced in time. The seed decides ids, the
    /// random half of sessions and where replicas are placed.
    pub fn new(state: ClusterState, config: ControllerConfig, rules: Rules, seed: u64, now: Now) -> Self {
        let heard = (state.brokers.keys().copied())
            .filter(|node| state.is_registered(*node))
            .map(|node| (node, now.monotonic))
            .collect();
        let mut machine = Self {
            balance_at: now.monotonic.after(config.imbalance_check_interval),
            state,
            config,
            rules,
            rng: fastrand::Rng::with_seed(seed),
            now,
            heard,
            polls: Vec::new(),
            creations: VecDeque::new(),
            recent: VecDeque::new(),
            effects: Vec::new(),
        };
        if machine.state.version == 0 {
            let cluster_id = match machine.config.new_cluster_id.clone() {
                Some(id) => id,
                None => machine.new_id().to_string(),
            };
            machine.change(Change::ClusterCreated { format: super::FORMAT_VERSION, cluster_id });
        }
        machine
    }

    /// Tells what happened, and when.
    pub fn step(&mut self, now: Now, input: Input) {
        self.now = now;
        self.forgive_own_absence();
        self.fence_the_silent();
        match input {
            Input::Call { id, call } => self.called(id, call),
            Input::CallerGone { id } => {
                self.polls.retain(|poll| poll.id != id);
                self.creations.retain(|creation| creation.id != id);
            }
            Input::ProcessEnded { node, process } => self.process_ended(node, process),
            Input::Tick => {}
        }
        self.give_preferred_leaders_theirs();
        self.look_at_creations();
        self.answer_polls();
    }

    /// Takes what is to be done, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// When [`Input::Tick`] is due at the latest.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let silent = self.heard.values().map(|heard| heard.after(self.config.session_timeout)).min();
        let poll = self.polls.iter().map(|poll| poll.deadline).min();
        let creation = self.creations.iter().map(|creation| creation.deadline).min();
        [silent, poll, creation, Some(self.balance_at)].into_iter().flatten().min()
    }

    /// The state, with changes that may not be durable yet.
    pub fn state(&self) -> &ClusterState {
        &self.state
    }

    /// The settings.
    pub fn config(&self) -> &ControllerConfig {
        &self.config
    }

    fn called(&mut self, id: CallId, call: ControllerCall) {
        let ControllerCall { sender, request } = call;
        if let Some(sender) = sender {
            if !self.session_lasts(sender) {
                return self.reply(id, ControllerReply::SessionFenced);
            }
            self.heard.insert(sender.node, self.now.monotonic);
        }
        match request {
            ControllerRequest::Register(registration) => self.register(id, &registration),
            ControllerRequest::Heartbeat => self.reply_to_broker(id, sender, |_, _| ControllerReply::Heard),
            ControllerRequest::Poll { since, wait_ms } => match sender {
                // The state holds every broker's session, which is nobody else's business.
                Some(sender) => self.poll(id, sender.node, since, wait_ms),
                None => self.reply(id, ControllerReply::SessionFenced),
            },
            ControllerRequest::AlterIsr(proposal) => {
                self.reply_to_broker(id, sender, |machine, sender| machine.alter_isr(sender, proposal));
            }
            ControllerRequest::Report(report) => {
                self.reply_to_broker(id, sender, |machine, sender| machine.report(sender, &report));
            }
            ControllerRequest::Resign { partition, topic_id, leader_epoch, why } => {
                self.reply_to_broker(id, sender, |machine, sender| {
                    machine.resign(sender, (&partition, topic_id), leader_epoch, why)
                });
            }
            ControllerRequest::ReportIntegrity { partition, topic_id, integrity } => {
                self.reply_to_broker(id, sender, |machine, sender| {
                    machine.report_integrity(sender, &partition, topic_id, integrity)
                });
            }
            ControllerRequest::CreateTopic(topic) => self.create_topic(id, topic),
            ControllerRequest::DeleteTopic { name, id: topic_id } => {
                let outcome = self.delete_topic(&name, topic_id);
                self.reply(id, ControllerReply::TopicDeleted { name, outcome });
            }
            ControllerRequest::AllocateProducerIds => {
                let block = self.allocate_producer_ids();
                self.reply(id, ControllerReply::ProducerIds(block));
            }
            ControllerRequest::Elect { partition, election } => {
                let outcome = self.elect(&partition, election);
                self.reply(id, ControllerReply::Elected { partition, outcome });
            }
            ControllerRequest::Reassign { partition, replicas, factor } => {
                let outcome = self.reassign(&partition, replicas, factor);
                self.reply(id, ControllerReply::Reassigned { partition, outcome });
            }
            ControllerRequest::ControlledStop => {
                self.reply_to_broker(id, sender, |machine, sender| ControllerReply::MayStop {
                    remaining: machine.stop(sender.node),
                });
            }
            ControllerRequest::ProcessEnded { node, process } => {
                self.process_ended(node, process);
                self.reply(id, ControllerReply::Heard);
            }
        }
    }

    /// Answers a request that only a broker with a session may make.
    fn reply_to_broker(
        &mut self,
        id: CallId,
        sender: Option<Sender>,
        answer: impl FnOnce(&mut Self, Sender) -> ControllerReply,
    ) {
        let reply = match sender {
            Some(sender) => answer(self, sender),
            None => ControllerReply::SessionFenced,
        };
        self.reply(id, reply);
    }

    fn alter_isr(&mut self, sender: Sender, proposal: IsrProposal) -> ControllerReply {
        let outcome = self.judge_isr(sender, &proposal);
        ControllerReply::Isr(IsrAnswer {
            partition: proposal.partition,
            leader_epoch: proposal.leader_epoch,
            partition_epoch: proposal.partition_epoch,
            outcome,
        })
    }

    fn judge_isr(&mut self, sender: Sender, proposal: &IsrProposal) -> Result<IsrGranted, IsrRefusal> {
        let name = &proposal.partition;
        let partition = self.state.partition(name).ok_or(IsrRefusal::UnknownPartition)?;
        if self.state.topics.get(name.topic()).is_none_or(|topic| topic.id != proposal.topic_id) {
            return Err(IsrRefusal::UnknownTopicId);
        }
        isr::check(&self.state, partition, sender, proposal)?;
        let members: Vec<NodeId> = proposal.isr.iter().map(|member| member.node).collect();
        let same =
            members.len() == partition.isr.len() && members.iter().all(|node| partition.in_sync(*node));
        let mut next = partition.clone();
        if !same {
            let before = (partition.leader_epoch, partition.replicas.clone());
            next.isr = members;
            self.change_partition(name, next.clone(), proposal.reason, LeaderReason::Order)
                .map_err(|EpochsUsedUp| IsrRefusal::EpochsUsedUp)?;
            next = self.state.partition(name).ok_or(IsrRefusal::UnknownPartition)?.clone();
            // It was taken, and more followed: who may no longer be a replica, or lead, learns it from the whole state alone. Told of the
            // ISR by itself, a leader could miss that a replica went and came back empty.
            if next.leader_epoch != before.0 {
                return Err(IsrRefusal::FencedLeaderEpoch);
            }
            if next.replicas != before.1 {
                return Err(IsrRefusal::InvalidUpdateVersion);
            }
        }
        Ok(IsrGranted { isr: next.isr, eligible: next.eligible, partition_epoch: next.partition_epoch })
    }

    fn report(&mut self, sender: Sender, reported: &ReportedReplica) -> ControllerReply {
        let name = &reported.partition;
        let Some(partition) = self.state.partition_of(reported.topic_id, name) else {
            return ControllerReply::Heard;
        };
        if !partition.replicas.contains(&sender.node) {
            return ControllerReply::Heard;
        }
        let mut next = partition.clone();
        election::confirm_losses(&mut next, &reported.report);
        let wanted = partition.leader.is_none() && partition.leader_epoch == reported.leader_epoch;
        if wanted {
            next.reports.insert(sender.node, reported.report);
        }
        self.change_or_leave(name, next, OutReason::NotElected, LeaderReason::BestOfAll);
        if wanted {
            self.elect_if_leaderless(name, LeaderReason::BestOfAll);
        }
        ControllerReply::Heard
    }

    fn allocate_producer_ids(&mut self) -> Option<ProducerIdBlock> {
        let first = self.state.next_producer_id;
        let next = first.checked_add(PRODUCER_IDS)?;
        self.change(Change::ProducerIdsGranted { next });
        Some(ProducerIdBlock { first, count: PRODUCER_IDS })
    }

    /// Gives a partition that nobody leads a leader, if there can be one.
    pub(super) fn elect_if_leaderless(&mut self, name: &TopicPartition, why: LeaderReason) {
        let trust = self.trust();
        let Some(partition) = self.state.partition(name) else { return };
        if partition.leader.is_some() {
            return;
        }
        let Some(choice) = election::choose(&self.state, partition, trust) else { return };
        let why = match choice {
            election::Choice::Safe(_) => why,
            election::Choice::BestOfAll(..) => LeaderReason::BestOfAll,
        };
        let mut next = partition.clone();
        election::lead(&mut next, choice);
        self.change_or_leave(name, next, OutReason::NotElected, why);
    }

    pub(super) fn trust(&self) -> Trust {
        if self.rules.holds(Rule::SuspectsDoNotLead) { Trust::NotSuspects } else { Trust::Everybody }
    }

    /// As [`Controller::change_partition`], where a partition whose epochs are used up is left as it is.
    pub(super) fn change_or_leave(
        &mut self,
        name: &TopicPartition,
        next: PartitionState,
        out: OutReason,
        why: LeaderReason,
    ) {
        let _unchangeable: Result<(), EpochsUsedUp> = self.change_partition(name, next, out, why);
    }

    /// Completes and persists a partition's next state, and says what happened.
    pub(super) fn change_partition(
        &mut self,
        name: &TopicPartition,
        mut next: PartitionState,
        out: OutReason,
        why: LeaderReason,
    ) -> Result<(), EpochsUsedUp> {
        let gives_way =
            self.rules.holds(Rule::DamagedDoNotLead) && election::give_way(&self.state, &mut next);
        let Some(topic) = self.state.topics.get(name.topic()) else { return Ok(()) };
        let Some(old) = self.state.partition(name).cloned() else { return Ok(()) };
        let leader = next.leader;
        reassign::complete_if_ready(&self.state, &mut next, |replicas| topic.min_isr(replicas));
        let why = match gives_way {
            _ if next.leader != leader => LeaderReason::Reassigned,
            true => LeaderReason::LeaderDamaged,
            false => why,
        };
        let min_isr = topic.min_isr(next.replicas_held());
        let settled = election::settle(&old, next, min_isr, self.now.wall.millis(), out)?;
        let Some(next) = settled else { return Ok(()) };
        self.tell_people(name, &old, &next, why);
        self.change(Change::PartitionChanged { partition: name.clone(), state: next });
        Ok(())
    }

    fn tell_people(
        &mut self,
        name: &TopicPartition,
        old: &PartitionState,
        next: &PartitionState,
        why: LeaderReason,
    ) {
        let partition = || name.clone();
        for (node, suspicion) in &next.suspects {
            if !old.suspects.contains_key(node) {
                self.event(ControllerEvent::Suspected {
                    partition: partition(),
                    node: *node,
                    why: *suspicion,
                });
            }
        }
        for node in next.damaged.difference(&old.damaged) {
            self.event(ControllerEvent::Damaged { partition: partition(), node: *node });
        }
        for node in old.damaged.difference(&next.damaged) {
            self.event(ControllerEvent::Whole { partition: partition(), node: *node });
        }
        for node in old.isr.iter().filter(|node| !next.isr.contains(node)) {
            if let Some(out) = next.out_of_sync.get(node) {
                self.event(ControllerEvent::LeftIsr { partition: partition(), node: *node, why: out.reason });
            }
        }
        for node in next.isr.iter().filter(|node| !old.isr.contains(node)) {
            self.event(ControllerEvent::JoinedIsr { partition: partition(), node: *node });
        }
        // By epoch, not by count: a full table keeps its length.
        let is_new = |loss: &LossRecord| !old.losses.iter().any(|known| known.epoch == loss.epoch);
        for loss in next.losses.iter().filter(|loss| is_new(loss)) {
            self.event(ControllerEvent::Lost { partition: partition(), from: loss.from, to: loss.to });
        }
        for loss in next.possible_losses.iter().filter(|loss| loss.epoch > old.leader_epoch) {
            self.event(ControllerEvent::PossiblyLost { partition: partition(), from: loss.from });
        }
        if (&old.replicas, &old.adding, &old.removing) != (&next.replicas, &next.adding, &next.removing) {
            self.event(if next.is_moving() {
                let (adding, removing) = (next.adding.clone(), next.removing.clone());
                ControllerEvent::Reassigning { partition: partition(), adding, removing }
            } else {
                ControllerEvent::Reassigned { partition: partition(), replicas: next.replicas.clone() }
            });
        }
        if old.leader != next.leader {
            self.event(ControllerEvent::Led {
                partition: partition(),
                from: old.leader,
                to: next.leader,
                epoch: next.leader_epoch,
                why,
            });
        }
    }

    /// Applies a change and gives it out.
    pub(super) fn change(&mut self, change: Change) {
        self.state.apply(&change).expect("the machine makes only changes that fit its own state");
        self.recent.push_back(change.clone());
        while self.recent.len() > self.config.recent_changes_max {
            self.recent.pop_front();
        }
        self.effects.push(Effect::Persist(change));
    }

    pub(super) fn reply(&mut self, id: CallId, reply: ControllerReply) {
        self.effects.push(Effect::Reply { id, reply });
    }

    pub(super) fn event(&mut self, event: ControllerEvent) {
        self.effects.push(Effect::Event(event));
    }

    /// A random id, as Kafka would draw one.
    pub(super) fn new_id(&mut self) -> TopicId {
        loop {
            if let Some(id) = TopicId::from_random(self.rng.u128(..).to_be_bytes()) {
                return id;
            }
        }
    }
}
