//! The controller's machine: its disk, its process, and who waits for which answer.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use highwater_engine::disk::simulated::Unsynced;
use highwater_engine::disk::{Disk, Patience, SimulatedDisk};
use highwater_engine::units::{NodeId, Now};
use highwater_replication::controller::{
    CallId, ClusterState, ControllerCall, ControllerConfig, ControllerNode, ControllerOut, ControllerReply,
    ControllerRequest, Input,
};
use highwater_replication::shard::ControllerCallId;

use super::World;
use super::agenda::{Happening, Incarnation, Moment};
use super::network::{End, Link};
use crate::invariants::Seen;

const DIRECTORY: &str = "/controller";

/// Who waits for an answer of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Broker { node: NodeId, life: Incarnation, call: ControllerCallId },
    Operator,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct ControllerHost {
    disk: SimulatedDisk,
    process: Option<Box<ControllerNode>>,
    life: Incarnation,
    turn_at: Option<Moment>,
    callers: BTreeMap<CallId, Caller>,
    next_call: u64,
    /// The last answer to an operator.
    pub(crate) told_operator: Option<ControllerReply>,
    pub(crate) skew_ms: i64,
    /// It was started and nothing of its state was looked at yet.
    is_new: bool,
}

impl ControllerHost {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            disk: SimulatedDisk::new(seed),
            process: None,
            life: 0,
            turn_at: None,
            callers: BTreeMap::new(),
            next_call: 0,
            told_operator: None,
            skew_ms: 0,
            is_new: true,
        }
    }

    /// What it has decided, while it runs.
    pub(crate) fn state(&self) -> Option<&ClusterState> {
        Some(self.process.as_ref()?.state())
    }
}

impl World {
    fn controller_now(&self) -> Now {
        self.clock(Duration::from_secs(self.controller.life), self.controller.skew_ms)
    }

    pub(crate) fn start_controller(&mut self) {
        if self.controller.process.is_some() {
            return;
        }
        let config = ControllerConfig {
            session_timeout: self.options.session_timeout,
            brokers_configured: Some(self.options.nodes.len()),
            new_cluster_id: Some("simulated-cluster-id--".to_owned()),
            snapshot_changes: 64,
            recent_changes_max: 128,
            imbalance_check_interval: Duration::from_secs(20),
            ..ControllerConfig::default()
        };
        let seed = self.chance.u64(..);
        self.controller.life += 1;
        let now = self.controller_now();
        let disk = Arc::new(self.controller.disk.clone()) as Arc<dyn Disk>;
        let opened = ControllerNode::open(disk, Path::new(DIRECTORY), config, self.options.rules, seed, now);
        if self.controller.disk.is_down() {
            return self.controller_crashes(None);
        }
        match opened {
            Ok(process) => self.controller.process = Some(Box::new(process)),
            Err(error) => {
                self.note(format!("the controller cannot open its directory: {error}"));
                panic!("{}", self.report());
            }
        }
        self.note("the controller starts".to_owned());
        self.controller.turn_at = None;
        self.controller.is_new = true;
        self.controller_turn();
    }

    /// Its process is gone; `None`: at the call of the disk that was planned for it.
    pub(crate) fn controller_crashes(&mut self, unsynced: Option<Unsynced>) {
        self.controller.process = None;
        let mut chance = self.chance.fork();
        self.controller.disk = match unsynced {
            Some(unsynced) => self.controller.disk.crash_power(unsynced, &mut chance),
            None => self.controller.disk.crash_kill(&mut chance),
        };
        for caller in std::mem::take(&mut self.controller.callers).into_values() {
            self.refuse(caller);
        }
        self.controller.life += 1;
        self.note(format!("the controller crashes ({unsynced:?})"));
        self.count("crashes of the controller");
        let wait = self.some(Duration::from_millis(500));
        self.plan_in(wait, Happening::StartController);
    }

    /// The controller's disk ends its process at one of its next calls.
    pub(crate) fn doom_controller(&mut self, calls: u64) {
        self.controller.disk.crash_at(self.controller.disk.next_call() + calls);
    }

    pub(crate) fn tell_controller(&mut self, caller: Caller, call: ControllerCall) {
        let id = CallId(self.controller.next_call);
        self.controller.next_call += 1;
        let Some(process) = &mut self.controller.process else { return self.refuse(caller) };
        process.tell(Input::Call { id, call });
        self.controller.callers.insert(id, caller);
        self.controller_turn();
    }

    /// Nobody is there to answer, which is heard soon.
    fn refuse(&mut self, caller: Caller) {
        if let Caller::Broker { node, life, call } = caller {
            let wait = self.some(Duration::from_millis(50));
            self.plan_in(wait, Happening::CallOverdue { node, life, call });
        }
    }

    pub(super) fn call_arrives(
        &mut self,
        node: NodeId,
        life: Incarnation,
        call: ControllerCallId,
        request: Box<ControllerCall>,
    ) {
        match self.network.link(End::Node(node), End::Controller) {
            Link::Open => {}
            Link::Cut => {
                self.count("calls to the controller lost");
                return self.lose_controller(node, life);
            }
            Link::Held => {
                let happening = Happening::CallArrives { node, life, call, request };
                return self.network.hold(End::Node(node), End::Controller, happening);
            }
        }
        self.tell_controller(Caller::Broker { node, life, call }, *request);
    }

    /// A broker waits no longer.
    pub(super) fn caller_gone(&mut self, node: NodeId, life: Incarnation, call: ControllerCallId) {
        let gone = Caller::Broker { node, life, call };
        let known = self.controller.callers.iter().find(|(_, caller)| **caller == gone).map(|(id, _)| *id);
        if let Some(id) = known
            && let Some(process) = &mut self.controller.process
        {
            process.tell(Input::CallerGone { id });
            self.controller.callers.remove(&id);
        }
    }

    pub(super) fn end_seen(&mut self, node: NodeId, process: u32) {
        let request = ControllerRequest::ProcessEnded { node, process: Some(process) };
        self.tell_controller(Caller::Operator, ControllerCall { sender: None, request });
    }

    pub(super) fn controller_turn_at(&mut self, life: Incarnation) {
        if self.controller.life == life && self.controller.turn_at.is_some_and(|at| at <= self.now) {
            self.controller.turn_at = None;
            self.controller_turn();
        }
    }

    /// Everything that it was told is decided, durable and answered.
    pub(crate) fn controller_turn(&mut self) {
        let now = self.controller_now();
        let Some(process) = &mut self.controller.process else { return };
        let outs = process.turn(now, Patience::MayBlock);
        if self.controller.disk.is_down() {
            return self.controller_crashes(None);
        }
        let outs = match outs {
            Ok(outs) => outs,
            Err(failure) => {
                self.note(format!("the controller fails: {failure}"));
                return self.controller_crashes(None);
            }
        };
        if let Some(process) = self.controller.process.as_ref().filter(|process| !process.waits_for_disk()) {
            let seen =
                if std::mem::take(&mut self.controller.is_new) { Seen::Later } else { Seen::AsDecided };
            self.ghost.observe_controller(process.state(), seen);
        }
        for out in outs {
            match out {
                ControllerOut::Reply { id, reply } => self.controller_replies(id, reply),
                ControllerOut::Event(event) => {
                    self.count_event(&event);
                    self.note(event.to_string());
                }
            }
        }
        self.plan_controller_turn();
    }

    fn controller_replies(&mut self, id: CallId, reply: ControllerReply) {
        match self.controller.callers.remove(&id) {
            Some(Caller::Broker { node, life, call }) => {
                let wait = self.latency();
                self.plan_in(wait, Happening::ReplyArrives { node, life, call, reply: Box::new(reply) });
            }
            Some(Caller::Operator) => self.controller.told_operator = Some(reply),
            None => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are not rare")]
    fn count_event(&mut self, event: &highwater_replication::controller::ControllerEvent) {
        use highwater_replication::controller::{ControllerEvent, LeaderReason};
        match event {
            ControllerEvent::Fenced { .. } => self.count("sessions ended"),
            ControllerEvent::Led { why: LeaderReason::BestOfAll, .. } => {
                self.count("elections of the best of all");
            }
            ControllerEvent::Led { to: None, .. } => self.count("partitions without a leader"),
            ControllerEvent::Led { .. } => self.count("elections"),
            ControllerEvent::LeftIsr { .. } => self.count("removals from the ISR"),
            ControllerEvent::JoinedIsr { .. } => self.count("joins to the ISR"),
            ControllerEvent::Suspected { .. } => self.count("suspicions"),
            ControllerEvent::Lost { .. } => self.count("recorded losses"),
            ControllerEvent::PossiblyLost { .. } => self.count("possible losses"),
            ControllerEvent::Reassigning { .. } => self.count("reassignments begun"),
            ControllerEvent::Reassigned { .. } => self.count("reassignments ended"),
            _ => {}
        }
    }

    fn plan_controller_turn(&mut self) {
        let ahead = Duration::from_secs(self.controller.life);
        let Some(process) = &self.controller.process else { return };
        let Some(deadline) = process.next_deadline() else { return };
        let since_start = deadline.since_start().saturating_sub(ahead);
        let micros = u64::try_from(since_start.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX);
        let at = Moment(micros.max(self.now.0 + 1));
        if self.controller.turn_at.is_none_or(|planned| planned > at || planned <= self.now) {
            self.controller.turn_at = Some(at);
            self.agenda.plan(at, Happening::ControllerTurn(self.controller.life));
        }
    }
}
