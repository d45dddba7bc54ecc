//! Links between machines, and connections over them: first in, first out in each direction, until one of their frames is lost.
//!
//! A link is one-way. It can be cut (what arrives is lost, and the connection with it) or held (what arrives waits until it is released).

use std::collections::BTreeMap;
use std::time::Duration;

use highwater_engine::units::NodeId;
use highwater_replication::shard::Lane;

use super::agenda::{Agenda, Happening, Incarnation, Moment};

/// A client of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(pub u32);

/// Something that has links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// A broker's machine.
    Node(NodeId),
    /// The controller's.
    Controller,
    /// A client's.
    Client(ClientId),
}

impl From<NodeId> for End {
    fn from(node: NodeId) -> Self {
        Self::Node(node)
    }
}

impl From<ClientId> for End {
    fn from(client: ClientId) -> Self {
        Self::Client(client)
    }
}

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Toward {
    /// The one that serves.
    Server,
    /// The one that opened it.
    Opener,
}

/// Whose connection it is, on the opener's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opener {
    Client(ClientId),
    Follower { node: NodeId, life: Incarnation, lane: Lane },
}

impl Opener {
    pub(crate) fn end(self) -> End {
        match self {
            Self::Client(client) => End::Client(client),
            Self::Follower { node, .. } => End::Node(node),
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) opener: Opener,
    pub(crate) server: NodeId,
    /// The process that took it; `None` until its first frame arrived.
    pub(crate) server_life: Option<Incarnation>,
    broken: bool,
    /// How many ends have heard that it is.
    heard: u8,
    to_server: Moment,
    to_opener: Moment,
}

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Open,
    Cut,
    Held,
}

/// All links and connections.
#[derive(Debug, Default)]
pub(crate) struct Network {
    /// Those that are not open.
    links: BTreeMap<(End, End), Link>,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    /// What waits at a held link, in the order of its arrival.
    held: Vec<(End, End, Happening)>,
    /// The longest time that a frame takes.
    pub(crate) latency_max: Duration,
}

impl Network {
    pub(crate) fn new(latency_max: Duration) -> Self {
        Self { latency_max, ..Self::default() }
    }

    pub(crate) fn link(&self, from: End, to: End) -> Link {
        self.links.get(&(from, to)).copied().unwrap_or(Link::Open)
    }

    pub(crate) fn set_link(&mut self, from: End, to: End, link: Link) {
        match link {
            Link::Open => self.links.remove(&(from, to)),
            Link::Cut | Link::Held => self.links.insert((from, to), link),
        };
    }

    /// Everything is open again; gives what was held.
    pub(crate) fn open_all(&mut self) -> Vec<Happening> {
        self.links.clear();
        std::mem::take(&mut self.held).into_iter().map(|(_, _, happening)| happening).collect()
    }

    pub(crate) fn hold(&mut self, from: End, to: End, happening: Happening) {
        self.held.push((from, to, happening));
    }

    pub(crate) fn take_held(&mut self, from: End, to: End) -> Vec<Happening> {
        let (taken, kept) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|(held_from, held_to, _)| (*held_from, *held_to) == (from, to));
        self.held = kept;
        taken.into_iter().map(|(_, _, happening)| happening).collect()
    }

    pub(crate) fn connect(&mut self, opener: Opener, server: NodeId) -> u64 {
        self.next += 1;
        let connection = Connection {
            opener,
            server,
            server_life: None,
            broken: false,
            heard: 0,
            to_server: Moment::default(),
            to_opener: Moment::default(),
        };
        self.connections.insert(self.next, connection);
        self.next
    }

    /// A connection, unless it is broken.
    pub(crate) fn connection(&mut self, id: u64) -> Option<&mut Connection> {
        self.connections.get_mut(&id).filter(|connection| !connection.broken)
    }

    /// Also one that is broken, until both ends have heard of it.
    pub(crate) fn any_connection(&self, id: u64) -> Option<&Connection> {
        self.connections.get(&id)
    }

    /// One end has heard that it is broken.
    pub(crate) fn heard_of_break(&mut self, id: u64) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.heard += 1;
            if connection.heard == 2 {
                self.connections.remove(&id);
            }
        }
    }

    /// Sends a frame behind those that were sent before in its direction.
    pub(crate) fn send(
        &mut self,
        agenda: &mut Agenda,
        id: u64,
        toward: Toward,
        frame: bytes::Bytes,
        earliest: Moment,
    ) {
        let Some(connection) = self.connection(id) else { return };
        let last = match toward {
            Toward::Server => &mut connection.to_server,
            Toward::Opener => &mut connection.to_opener,
        };
        *last = earliest.max(Moment(last.0 + 1));
        agenda.plan(*last, Happening::Arrives { connection: id, toward, frame });
    }

    /// Marks a connection as broken; `false` if it was, or is gone.
    pub(crate) fn break_off(&mut self, id: u64) -> bool {
        self.connection(id).map(|connection| connection.broken = true).is_some()
    }

    /// The connections with an end at this process.
    pub(crate) fn of_process(&self, node: NodeId) -> Vec<u64> {
        let touches = |connection: &Connection| {
            connection.server == node
                || matches!(connection.opener, Opener::Follower { node: opener, .. } if opener == node)
        };
        self.connections.iter().filter(|(_, connection)| touches(connection)).map(|(id, _)| *id).collect()
    }
}
