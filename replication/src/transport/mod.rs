//! The way of frames to other nodes and back, for those who embed the shard without an event loop of their own.
//!
//! A [`Transport`] is the outgoing half: it sends a follower's requests to a leader and tells the shard what comes back, as events in its
//! [`Inbox`]. [`Tcp`] does it with blocking threads for each leader and kind of topic; [`Switch`] joins nodes of one process by channels.
//! [`Listener`] is the other half for TCP: one thread for each connection. What is in a frame nobody here knows.
//!
//! A crash of either side breaks its connections; the shard hears [`Event::PeerDown`] and fetches again.

mod channels;
mod listener;
mod tcp;

#[cfg(test)]
mod transport_test;

pub use channels::{ChannelTransport, Switch};
pub use listener::{Listener, ListenerConfig};
pub use tcp::{Tcp, TcpConfig, read_frame, write_parts};

use bytes::Bytes;
use crossbeam_channel::Sender;

use crate::pending::{ConnectionId, Slot};
use crate::shard::{Event, Lane};

/// Where a shard's events are put for its next turn.
pub type Inbox = Sender<Event>;

/// The outgoing half: a follower's requests to leaders.
///
/// Requests of a lane are answered in their order, each by an [`Event::PeerFrame`] in the shard's inbox, until an [`Event::PeerDown`] says
/// that none of those sent before it will be any more.
pub trait Transport {
    /// Sends a request, given as parts with its length. `address` is where the leader is reached, `HOST:PORT`; a transport that knows
    /// nodes otherwise ignores it. Does not block on the network.
    fn send(&mut self, lane: Lane, address: &str, parts: Vec<Bytes>);

    /// The lane is not needed any more; what it has under way may be dropped without an answer.
    fn close(&mut self, lane: Lane);
}

/// Both halves: beside a [`Transport`], the way back for requests that came in as [`Event::Frame`].
///
/// The upper two bits of its connections' ids are 00 or 10; a [`crate::node::Node`] has 01 for itself.
pub trait Endpoint: Transport {
    /// Takes a shard's answer, given as parts with its length, to where the request came from; in the order of that connection's
    /// requests, whatever order the answers come in. No parts: the request has no answer.
    fn reply(&mut self, slot: Slot, parts: Vec<Bytes>);

    /// Closes a connection that came in.
    fn hang_up(&mut self, connection: ConnectionId);
}

/// Both halves over TCP.
#[derive(Debug)]
pub struct TcpEndpoint {
    /// The outgoing half.
    pub transport: Tcp,
    /// The incoming half.
    pub listener: Listener,
}

impl Transport for TcpEndpoint {
    fn send(&mut self, lane: Lane, address: &str, parts: Vec<Bytes>) {
        self.transport.send(lane, address, parts);
    }

    fn close(&mut self, lane: Lane) {
        self.transport.close(lane);
    }
}

impl Endpoint for TcpEndpoint {
    fn reply(&mut self, slot: Slot, parts: Vec<Bytes>) {
        self.listener.reply(slot, parts);
    }

    fn hang_up(&mut self, connection: ConnectionId) {
        self.listener.close(connection);
    }
}
