//! The machine: what it holds, how it is told, and what it shows.

use highwater_engine::log::{LogFacts, Permit};
use highwater_engine::units::{LeaderEpoch, Monotonic, NodeId, Now, Offset, TopicId, TopicPartition};

use super::assignment::{Assignment, Durability};
use super::config::{PartitionConfig, Settings};
use super::effect::{Effect, PartitionEvent, RepairProblem, ResignReason, WaitOutcome, Wake};
use super::follower::{Follower, Matching, Phase};
use super::input::{AckWait, Acks, FetchClaim, Input, IsrAnswer, IsrProposal, WaitId};
use super::leader::{Leader, View, contribution, in_sync};
use super::refusal::{FetchRequest, FetchVerdict, ProduceRefusal};
use super::status::{OutOfSync, RoleName, Status};
use super::waits::Waits;
use super::watermark::Watermark;
use crate::rules::{Rule, Rules};

/// The state machine of one replica.
///
/// *Tell* it what happens with [`Partition::step`], *take* what it wants done with [`Partition::take_effects`], *look* with the rest. Effects
/// are to be carried out in order and before the next [`Input::LogMoved`]; the same inputs give the same effects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Partition {
    pub(super) node: NodeId,
    name: TopicPartition,
    pub(super) topic_id: TopicId,
    pub(super) settings: Settings,
    pub(super) assignment: Option<Assignment>,
    /// A newer word of the controller, kept until the job on the log is over.
    pub(super) deferred: Option<Assignment>,
    pub(super) role: Role,
    pub(super) watermark: Watermark,
    pub(super) waits: Waits,
    effects: Vec<Effect>,
    /// Up to where a sync was asked for, and up to where followers were woken.
    sync_wanted: Offset,
    woken: Offset,
    /// The controller is wrong about the damage of this log, and somebody was asked to tell it.
    pub(super) is_misjudged: bool,
}

/// What a replica is, with the data of that role only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    /// The controller has not spoken, or this node is not assigned.
    Unassigned,
    Leader(Leader),
    Follower(Follower),
    /// The log failed.
    Offline,
}

impl Partition {
    /// A replica that the controller has not spoken of yet. `known_committed` is what the checkpoint says of it: `None` if that could not
    /// be read, or if there is none.
    pub fn new(
        node: NodeId,
        name: TopicPartition,
        topic_id: TopicId,
        config: PartitionConfig,
        rules: Rules,
        known_committed: Option<Offset>,
    ) -> Self {
        Self {
            node,
            name,
            topic_id,
            settings: Settings { config, rules },
            assignment: None,
            deferred: None,
            role: Role::Unassigned,
            watermark: Watermark::new(known_committed),
            waits: Waits::default(),
            effects: Vec::new(),
            sync_wanted: Offset::ZERO,
            woken: Offset::ZERO,
            is_misjudged: false,
        }
    }

    /// Tells the machine what happened. What does not fit its state (an old answer, an old word of the controller) changes nothing.
    pub fn step(&mut self, now: Now, input: Input, log: &LogFacts<'_>) {
        let now = now.monotonic;
        let before = (self.watermark.high(), self.watermark.known_committed());
        self.watermark.keep_inside(log);
        match input {
            Input::Assigned(assignment) => self.assigned(now, assignment, log),
            Input::MembersChanged(members) => self.members_changed(now, &members, log),
            Input::FollowerFetched(claim) => self.follower_fetched(now, &claim, log),
            Input::FetchAnswered(answer) => self.fetch_answered(now, &answer, log),
            Input::RangeAnswered { epoch, start, end } => self.range_answered(now, epoch, start, end, log),
            Input::Truncated { .. } | Input::RestartedAt { .. } => self.cut_done(now, log),
            Input::NotCut => self.cut_failed(now, log),
            Input::IsrAnswered { proposal, answer } => self.isr_answered(now, &proposal, answer, log),
            Input::Wait(wait) => self.wait(wait),
            Input::Forget(id) => self.waits.remove(id),
            Input::LogFailed => self.log_failed(),
            Input::LogDamaged => self.damage_found(log),
            Input::RangeFetched { offsets, epoch, outcome } => {
                self.range_fetched(now, offsets, epoch, outcome, log);
            }
            Input::Repaired { offsets } => self.repaired(offsets),
            Input::NotRepaired { offsets } => self.not_repaired(now, offsets, RepairProblem::NotTaken),
            Input::LogMoved | Input::Tick => {}
        }
        self.settle(now, log);
        if (self.watermark.high(), self.watermark.known_committed()) != before {
            self.effect(Effect::HighWatermark(self.watermark.high()));
        }
    }

    /// Takes what is to be done.
    #[must_use = "an effect that is not carried out is lost"]
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// When [`Input::Tick`] is due.
    pub fn next_deadline(&self, now: Now, log: &LogFacts<'_>) -> Option<Monotonic> {
        let role = match &self.role {
            Role::Leader(leader) => {
                self.view(now.monotonic, log).and_then(|view| leader.next_deadline(&view))
            }
            Role::Follower(follower) => follower.next_deadline(),
            Role::Unassigned | Role::Offline => None,
        };
        role.into_iter().chain(self.waits.next_deadline()).min()
    }

    /// The right to append now, if a producer that wants these acknowledgements may.
    pub fn may_append(&self, acks: Acks, log: &LogFacts<'_>) -> Result<Permit, ProduceRefusal> {
        let (Role::Leader(_), Some(assignment)) = (&self.role, &self.assignment) else {
            return Err(match self.role {
                Role::Offline => ProduceRefusal::Offline,
                Role::Unassigned | Role::Leader(_) | Role::Follower(_) => ProduceRefusal::NotLeader,
            });
        };
        if log.epochs.latest().is_none_or(|entry| entry.epoch != assignment.leader_epoch) {
            return Err(ProduceRefusal::EpochNotBegun);
        }
        let (in_sync, needed) = (in_sync(assignment), assignment.min_isr_effective());
        if acks == Acks::All && in_sync < needed {
            return Err(ProduceRefusal::NotEnoughReplicas { in_sync, needed });
        }
        if acks != Acks::None && self.waits.len() >= self.settings.config.waits_max {
            return Err(ProduceRefusal::TooManyWaits { waiting: self.waits.len() });
        }
        Ok(Permit::new(assignment.leader_epoch))
    }

    /// What the next Fetch to the leader says of this partition; `None` while there is nothing to ask or not everything that was received
    /// is written (or durable) yet, because the Fetch's offset is what this replica contributes.
    pub fn fetch_request(&self, log: &LogFacts<'_>) -> Option<FetchRequest> {
        let (Role::Follower(follower), Some(assignment)) = (&self.role, &self.assignment) else {
            return None;
        };
        let Phase::Fetching { from } = follower.phase else { return None };
        let settled = contribution(assignment.durability, log) >= log.accepted;
        if from != log.accepted || (!settled && self.rules().holds(Rule::NextFetchWaitsForWritten)) {
            return None;
        }
        let last_fetched_epoch = match follower.matching {
            Matching::ByEpochs => log.epochs.latest().map(|entry| entry.epoch),
            Matching::ByHighWatermark => None,
        };
        let (epoch, log_start) = (assignment.leader_epoch, log.start);
        follower.leader.map(|leader| FetchRequest {
            leader,
            epoch,
            offset: log.accepted,
            last_fetched_epoch,
            log_start,
        })
    }

    /// Whether records that answer a Fetch of this epoch and offset may be appended: leadership, phase and end are as they were. After the
    /// append, [`Input::FetchAnswered`] is told at once.
    pub fn expects_records(&self, epoch: LeaderEpoch, from: Offset, log: &LogFacts<'_>) -> bool {
        let Role::Follower(follower) = &self.role else { return false };
        self.leader_epoch() == Some(epoch)
            && follower.phase == Phase::Fetching { from }
            && from == log.accepted
            && self.deferred.is_none()
    }

    /// The partition.
    pub fn name(&self) -> &TopicPartition {
        &self.name
    }

    /// What this replica is.
    pub fn role_name(&self) -> RoleName {
        match self.role {
            Role::Unassigned => RoleName::Unassigned,
            Role::Leader(_) => RoleName::Leader,
            Role::Follower(_) => RoleName::Follower,
            Role::Offline => RoleName::Offline,
        }
    }

    /// The leadership that this replica goes by.
    pub fn leader_epoch(&self) -> Option<LeaderEpoch> {
        self.assignment.as_ref().map(|assignment| assignment.leader_epoch)
    }

    /// The controller's last word that was taken.
    pub fn assignment(&self) -> Option<&Assignment> {
        self.assignment.as_ref()
    }

    /// The committed in-sync replicas.
    pub fn isr(&self) -> &[NodeId] {
        self.assignment.as_ref().map_or(&[], |assignment| &assignment.isr)
    }

    /// Everything below it may be read by consumers, and nothing at or above it; also the ceiling of retention.
    pub fn high_watermark(&self) -> Offset {
        self.watermark.high()
    }

    /// What the high-watermark checkpoint should say of this partition; `None`: leave it out, it is not known.
    pub fn known_committed(&self) -> Option<Offset> {
        self.watermark.known_committed()
    }

    /// Whether it follows nobody because its leader lacks what is known to be committed here.
    pub fn refuses_to_cut(&self) -> bool {
        matches!(&self.role, Role::Follower(follower) if follower.phase == Phase::Refusing)
    }

    /// Whether each append has to be synced.
    pub fn durability(&self) -> Durability {
        self.assignment.as_ref().map(|assignment| assignment.durability).unwrap_or_default()
    }

    /// How the replica looks from outside.
    pub fn status(&self, now: Now, log: &LogFacts<'_>) -> Status {
        let assignment = self.assignment.as_ref();
        Status {
            name: self.name.clone(),
            topic_id: self.topic_id,
            role: self.role_name(),
            leader: assignment.and_then(|assignment| assignment.leader),
            leader_epoch: self.leader_epoch(),
            partition_epoch: assignment.map(|assignment| assignment.partition_epoch),
            replicas: assignment
                .map(|known| known.replicas.iter().map(|member| member.node).collect())
                .unwrap_or_default(),
            isr: self.isr().to_vec(),
            isr_proposed: self.isr_proposed(),
            eligible: assignment.map(|assignment| assignment.eligible.clone()).unwrap_or_default(),
            out_of_sync: self.out_of_sync(now.monotonic, log),
            high_watermark: self.high_watermark(),
            known_committed: self.known_committed(),
            log_start: log.start,
            log_end: log.written,
            damaged: log.damaged.iter().map(|range| range.offsets).collect(),
        }
    }

    fn isr_proposed(&self) -> Vec<NodeId> {
        let Role::Leader(leader) = &self.role else { return Vec::new() };
        leader.proposed().collect()
    }

    fn out_of_sync(&self, now: Monotonic, log: &LogFacts<'_>) -> Vec<OutOfSync> {
        let (Role::Leader(leader), Some(view)) = (&self.role, self.view(now, log)) else { return Vec::new() };
        let outside = view.assignment.replicas.iter().filter(|member| !self.isr().contains(&member.node));
        outside
            .map(|member| {
                let (since, reason, end) = leader.out_of_sync(&view, member);
                OutOfSync { node: member.node, since: now.since(since), reason, end }
            })
            .collect()
    }

    pub(super) fn role(&self) -> &Role {
        &self.role
    }

    pub(super) fn rules(&self) -> Rules {
        self.settings.rules
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub(super) fn event(&mut self, event: PartitionEvent) {
        self.effects.push(Effect::Event(event));
    }

    pub(super) fn view<'a>(&'a self, now: Monotonic, log: &'a LogFacts<'a>) -> Option<View<'a>> {
        let assignment = self.assignment.as_ref()?;
        let (node, settings, high_watermark) = (self.node, self.settings, self.watermark.high());
        Some(View { now, node, settings, assignment, log, high_watermark })
    }

    /// Runs `act` on the leader's part and what it looks at; `None` if this replica does not lead.
    pub(super) fn as_leader<R>(
        &mut self,
        now: Monotonic,
        log: &LogFacts<'_>,
        act: impl FnOnce(&mut Leader, &View<'_>) -> R,
    ) -> Option<R> {
        let (node, settings, high_watermark) = (self.node, self.settings, self.watermark.high());
        let (Role::Leader(leader), Some(assignment)) = (&mut self.role, &self.assignment) else {
            return None;
        };
        Some(act(leader, &View { now, node, settings, assignment, log, high_watermark }))
    }

    fn follower_fetched(&mut self, now: Monotonic, claim: &FetchClaim, log: &LogFacts<'_>) {
        // A Fetch that was refused or that parts from this history says nothing of what the follower has (KAFKA-13141).
        if matches!(self.judge_fetch(claim, log), Ok(FetchVerdict::Read { .. })) {
            self.as_leader(now, log, |leader, view| leader.note_fetch(view, claim));
        }
    }

    fn isr_answered(&mut self, now: Monotonic, asked: &IsrProposal, answer: IsrAnswer, log: &LogFacts<'_>) {
        let retry = self.settings.config.isr_retry;
        let granted = self.as_leader(now, log, |leader, _| leader.note_answer(now, retry, asked, &answer))
            == Some(true);
        if let (true, IsrAnswer::Granted { isr, eligible, partition_epoch }, Some(known)) =
            (granted, answer, &self.assignment)
            && partition_epoch >= known.partition_epoch
        {
            let newer = Assignment { isr, eligible, partition_epoch, ..known.clone() };
            self.update_leader(now, newer, log);
        }
    }

    fn wait(&mut self, wait: AckWait) {
        let this_leadership = matches!(self.role, Role::Leader(_)) && self.leader_epoch() == Some(wait.epoch);
        let keyed = self.rules().holds(Rule::WaitsKeyedByEpoch);
        match wait.acks {
            Acks::None => self.acknowledge(wait.id, WaitOutcome::Acknowledged),
            Acks::Leader | Acks::All if this_leadership || !keyed => self.waits.add(wait),
            Acks::Leader | Acks::All => self.acknowledge(wait.id, WaitOutcome::LeadershipChanged),
        }
    }

    pub(super) fn acknowledge(&mut self, wait: WaitId, outcome: WaitOutcome) {
        self.effect(Effect::Acknowledge { wait, outcome });
    }

    /// A leadership is over: whoever waits is told, for what is committed later at those offsets may be other records (S44).
    pub(super) fn end_waits(&mut self, outcome: WaitOutcome) {
        if self.rules().holds(Rule::WaitsKeyedByEpoch) {
            for id in self.waits.take_every() {
                self.acknowledge(id, outcome);
            }
        }
    }

    fn log_failed(&mut self) {
        if matches!(self.role, Role::Offline) {
            return;
        }
        self.resign(ResignReason::LogFailed);
        if matches!(self.role, Role::Follower(_)) {
            self.effect(Effect::StopFetching);
        }
        self.role = Role::Offline;
        self.deferred = None;
        for id in self.waits.take_every() {
            self.acknowledge(id, WaitOutcome::LogFailed);
        }
        self.effect(Effect::Wake(Wake::Everything));
    }

    pub(super) fn resign(&mut self, why: ResignReason) {
        if let (Role::Leader(_), Some(epoch)) = (&self.role, self.leader_epoch()) {
            self.effect(Effect::Resign { epoch, why });
        }
    }

    /// What follows from the state as it is now, whatever was told.
    fn settle(&mut self, now: Monotonic, log: &LogFacts<'_>) {
        match self.role {
            Role::Leader(_) => self.settle_leader(now, log),
            Role::Follower(_) => self.settle_follower(now, log),
            Role::Unassigned | Role::Offline => {}
        }
        self.settle_integrity(log);
        // Without leadership only a wait that outlived its epoch against the rule can be reached here.
        let reached = self.waits.take_all_reached(self.watermark.high());
        self.complete(reached);
        for id in self.waits.take_expired(now) {
            self.acknowledge(id, WaitOutcome::TimedOut);
        }
        let fsync = self.durability() == Durability::Fsync && !matches!(self.role, Role::Offline);
        self.sync_wanted = self.sync_wanted.min(log.accepted);
        if fsync && log.durable < log.accepted && self.sync_wanted < log.accepted {
            self.sync_wanted = log.accepted;
            self.effect(Effect::WantDurable);
        }
    }

    fn settle_leader(&mut self, now: Monotonic, log: &LogFacts<'_>) {
        // First, so that who has just left does not join again because it has all that was committed while it was waited for (S58).
        if let Some(end) = self.as_leader(now, log, |leader, view| leader.committed_end(view)).flatten() {
            self.watermark.raise(end, log);
        }
        // Who is asked for counts from now on.
        if let Some(proposal) = self.as_leader(now, log, Leader::propose).flatten() {
            self.effect(Effect::ProposeIsr(proposal));
        }
        if log.written > self.woken {
            self.effect(Effect::Wake(Wake::Written(log.written)));
        }
        self.woken = log.written;
        let own = contribution(self.durability(), log);
        for id in self.waits.take_leader_reached(own) {
            self.acknowledge(id, WaitOutcome::Acknowledged);
        }
    }

    /// Ends waits that the high watermark has reached. `min.insync.replicas` is looked at again: what was enough when the batch was
    /// appended may be too few now (S45).
    fn complete(&mut self, reached: Vec<WaitId>) {
        let enough = self
            .assignment
            .as_ref()
            .is_none_or(|assignment| in_sync(assignment) >= assignment.min_isr_effective());
        let outcome = if enough || !self.rules().holds(Rule::MinIsrAgainAtCompletion) {
            WaitOutcome::Acknowledged
        } else {
            WaitOutcome::NotEnoughReplicasAfterAppend
        };
        for id in reached {
            self.acknowledge(id, outcome);
        }
    }
}
