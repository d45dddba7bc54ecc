//! Nodes of one process, joined by channels. Frames are handed over without a copy where they are one piece.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use highwater_engine::units::NodeId;

use super::{Endpoint, Inbox, Transport};
use crate::pending::{ConnectionId, Slot};
use crate::shard::{Event, Lane};

/// Connection ids of this transport have the upper bit set, so that a host may use the lower half for its own.
const IN_PROCESS: u64 = 1 << 63;
/// The length in front of a frame.
const LENGTH_BYTES: usize = 4;

/// What joins the nodes of one process. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Switch {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeMap<NodeId, Inbox>,
    connections: BTreeMap<(NodeId, Lane), Connection>,
    open: BTreeMap<Slot, (NodeId, Lane)>,
    next_connection: u64,
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    id: ConnectionId,
    next_request: u64,
}

impl Switch {
    /// Nobody is joined.
    pub fn new() -> Self {
        Self::default()
    }

    /// Joins a node, or joins it again after it was gone, and gives it its outgoing half.
    pub fn join(&self, node: NodeId, inbox: Inbox) -> ChannelTransport {
        self.leave(node);
        self.state().nodes.insert(node, inbox);
        ChannelTransport { node, switch: self.clone() }
    }

    /// A node is gone: its connections break.
    pub fn leave(&self, node: NodeId) {
        let mut state = self.state();
        state.nodes.remove(&node);
        let broken: Vec<(NodeId, Lane)> = state
            .connections
            .keys()
            .filter(|(from, lane)| *from == node || lane.leader == node)
            .copied()
            .collect();
        for (from, lane) in broken {
            state.break_connection(from, lane);
            state.tell(from, Event::PeerDown { lane });
        }
    }

    /// Takes a shard's answer ([`crate::shard::Out::Frame`]) to where it belongs. `false`: the slot is not of this switch.
    pub fn reply(&self, slot: Slot, parts: &[Bytes]) -> bool {
        let mut state = self.state();
        match state.open.remove(&slot) {
            Some((to, lane)) => {
                state.tell(to, Event::PeerFrame { lane, frame: frame_of(parts) });
                true
            }
            None => slot.connection.0 & IN_PROCESS != 0,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A node whose inbox is closed is gone: nobody misses the event.
    fn tell(&self, node: NodeId, event: Event) {
        if let Some(inbox) = self.nodes.get(&node) {
            let _ = inbox.send(event);
        }
    }

    fn break_connection(&mut self, from: NodeId, lane: Lane) {
        if let Some(connection) = self.connections.remove(&(from, lane)) {
            self.open.retain(|slot, _| slot.connection != connection.id);
            self.tell(lane.leader, Event::Disconnected { connection: connection.id });
        }
    }

    fn send(&mut self, from: NodeId, lane: Lane, parts: &[Bytes]) {
        if !self.nodes.contains_key(&lane.leader) {
            return self.tell(from, Event::PeerDown { lane });
        }
        let fresh = Connection { id: ConnectionId(IN_PROCESS | self.next_connection), next_request: 0 };
        let connection = self.connections.entry((from, lane)).or_insert(fresh);
        if connection.id == fresh.id {
            self.next_connection += 1;
        }
        let slot = Slot { connection: connection.id, number: connection.next_request };
        connection.next_request += 1;
        self.open.insert(slot, (from, lane));
        self.tell(lane.leader, Event::Frame { slot, frame: frame_of(parts) });
    }
}

/// A node's outgoing half of a [`Switch`].
#[derive(Debug)]
pub struct ChannelTransport {
    node: NodeId,
    switch: Switch,
}

impl Transport for ChannelTransport {
    fn send(&mut self, lane: Lane, _address: &str, parts: Vec<Bytes>) {
        self.switch.state().send(self.node, lane, &parts);
    }

    fn close(&mut self, lane: Lane) {
        self.switch.state().break_connection(self.node, lane);
    }
}

impl Endpoint for ChannelTransport {
    fn reply(&mut self, slot: Slot, parts: Vec<Bytes>) {
        // Nobody else has requests here.
        let _ = self.switch.reply(slot, &parts);
    }

    /// A frame of the shard's own making is never refused.
    fn hang_up(&mut self, _connection: ConnectionId) {}
}

/// The frame without its length, in one piece.
fn frame_of(parts: &[Bytes]) -> Bytes {
    let mut whole = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
    for part in parts {
        whole.extend_from_slice(part);
    }
    let mut frame = whole.freeze();
    if frame.len() >= LENGTH_BYTES { frame.split_off(LENGTH_BYTES) } else { Bytes::new() }
}
