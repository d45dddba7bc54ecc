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
pub use tcp::{Tcp, TcpConfig};

use bytes::Bytes;
use crossbeam_channel::Sender;

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
