//! What will happen and when: the one queue of the world. Of two things at one moment the one that was planned first comes first.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::units::NodeId;
use highwater_replication::controller::{ControllerCall, ControllerReply};
use highwater_replication::shard::ControllerCallId;

use super::network::{ClientId, Toward};

/// A moment of the world, in microseconds since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl Moment {
    /// So much later.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX)))
    }

    /// How long after the beginning.
    pub const fn since_start(self) -> Duration {
        Duration::from_micros(self.0)
    }
}

/// A process of a node: the how-manieth that was started there.
pub(crate) type Incarnation = u64;

/// One thing that happens.
#[derive(Debug)]
pub(crate) enum Happening {
    /// A shard gets a turn.
    Turn(NodeId, Incarnation),
    /// A job of a shard is run.
    Job(NodeId, Incarnation, u64),
    /// An operation in flight of a node's disk completes.
    DiskCompletes(NodeId, Incarnation),
    /// A frame arrives at one end of a connection.
    Arrives { connection: u64, toward: Toward, frame: Bytes },
    /// One end hears that its connection is no more.
    Broken { connection: u64, toward: Toward },
    /// A call of a broker arrives at the controller.
    CallArrives { node: NodeId, life: Incarnation, call: ControllerCallId, request: Box<ControllerCall> },
    /// The controller's answer arrives.
    ReplyArrives { node: NodeId, life: Incarnation, call: ControllerCallId, reply: Box<ControllerReply> },
    /// The host has waited long enough for an answer.
    CallOverdue { node: NodeId, life: Incarnation, call: ControllerCallId },
    /// The controller gets a turn.
    ControllerTurn(Incarnation),
    /// A process is started, unless it runs.
    Start(NodeId),
    /// The controller is started, unless it runs.
    StartController,
    /// The supervisor tells the controller that a process ended.
    EndSeen { node: NodeId, process: u32 },
    /// A client looks what it has to do.
    Client(ClientId),
    /// A process that was about to stop ends.
    Stops(NodeId, Incarnation),
    /// Chance strikes.
    Chaos,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    planned: BTreeMap<(Moment, u64), Happening>,
    next: u64,
}

impl Agenda {
    pub(crate) fn plan(&mut self, at: Moment, happening: Happening) {
        self.planned.insert((at, self.next), happening);
        self.next += 1;
    }

    pub(crate) fn next(&mut self) -> Option<(Moment, Happening)> {
        self.planned.pop_first().map(|((at, _), happening)| (at, happening))
    }

    pub(crate) fn next_moment(&self) -> Option<Moment> {
        self.planned.first_key_value().map(|((at, _), _)| *at)
    }
}
