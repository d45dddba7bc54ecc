//! The incoming half over TCP, for embedders: one thread that accepts, one for each connection that reads. Answers are written by whoever
//! has them, in the order of the requests.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;

use super::Inbox;
use super::tcp::{read_frame, write_parts};
use crate::pending::{ConnectionId, ReplyOrder, Slot};
use crate::shard::Event;

/// The bounds of a [`Listener`].
#[derive(Clone, Copy, Debug)]
pub struct ListenerConfig {
    /// How many connections there may be; further ones are closed at once.
    pub connections_max: usize,
    /// How many requests of one connection may be unanswered; one more closes it.
    pub requests_max: usize,
    /// The largest request that is taken.
    pub frame_bytes_max: usize,
    /// How long a client may take to accept an answer.
    pub write_timeout: Duration,
}

impl Default for ListenerConfig {
    fn default() -> Self {
        Self {
            connections_max: 1_000,
            requests_max: 100,
            frame_bytes_max: 32 << 20,
            write_timeout: Duration::from_secs(10),
        }
    }
}

/// See the module's documentation. Dropping it stops accepting and closes all connections.
#[derive(Debug)]
pub struct Listener {
    shared: Arc<Shared>,
    address: SocketAddr,
}

#[derive(Debug)]
struct Shared {
    config: ListenerConfig,
    inbox: Inbox,
    stopped: AtomicBool,
    next_connection: AtomicU64,
    connections: Mutex<Connections>,
}

#[derive(Debug)]
struct Connections {
    streams: BTreeMap<ConnectionId, TcpStream>,
    order: ReplyOrder<Vec<Bytes>>,
}

impl Listener {
    /// Listens on the address; requests go to the inbox as [`Event::Frame`].
    pub fn bind(address: SocketAddr, config: ListenerConfig, inbox: Inbox) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let connections =
            Connections { streams: BTreeMap::new(), order: ReplyOrder::new(config.requests_max) };
        let shared = Arc::new(Shared {
            config,
            inbox,
            stopped: AtomicBool::new(false),
            next_connection: AtomicU64::new(0),
            connections: Mutex::new(connections),
        });
        let accepting = Arc::clone(&shared);
        thread::Builder::new()
            .name("highwater-accept".to_owned())
            .spawn(move || accepting.accept(&listener))?;
        Ok(Self { shared, address })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes a shard's answer ([`crate::shard::Out::Frame`]); it is written when those before it are. May block up to the write timeout.
    pub fn reply(&self, slot: Slot, parts: Vec<Bytes>) {
        let mut connections = self.shared.connections();
        connections.order.fill(slot, (!parts.is_empty()).then_some(parts));
        for parts in connections.order.take(slot.connection) {
            let stream = connections.streams.get_mut(&slot.connection);
            if stream.is_some_and(|stream| write_parts(stream, &parts).is_err()) {
                connections.drop_stream(slot.connection);
            }
        }
    }

    /// Closes a connection ([`crate::shard::Out::Close`]).
    pub fn close(&self, connection: ConnectionId) {
        self.shared.connections().drop_stream(connection);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
        let mut connections = self.shared.connections();
        let open: Vec<ConnectionId> = connections.streams.keys().copied().collect();
        for connection in open {
            connections.drop_stream(connection);
        }
    }
}

impl Connections {
    /// The thread that reads from it ends with its next read.
    fn drop_stream(&mut self, connection: ConnectionId) {
        if let Some(stream) = self.streams.remove(&connection) {
            // One that the other side has closed already is as good.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: Arc<Self>, listener: &TcpListener) {
        while let Ok((stream, _)) = listener.accept() {
            if self.stopped.load(Ordering::SeqCst) {
                return;
            }
            if self.connections().streams.len() >= self.config.connections_max {
                continue;
            }
            let shared = Arc::clone(&self);
            let connection = ConnectionId(self.next_connection.fetch_add(1, Ordering::Relaxed));
            let reading = thread::Builder::new().name(format!("highwater-read-{}", connection.0));
            // Without a thread the stream is dropped, which tells the client.
            let _ = reading.spawn(move || shared.read(connection, stream));
        }
    }

    fn read(&self, connection: ConnectionId, stream: TcpStream) {
        let ready = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_write_timeout(Some(self.config.write_timeout)))
            .and_then(|()| stream.try_clone());
        let Ok(mut reading) = ready else { return };
        self.connections().streams.insert(connection, stream);
        while let Ok(frame) = read_frame(&mut reading, self.config.frame_bytes_max) {
            let Ok(slot) = self.connections().order.open(connection) else { break };
            if self.inbox.send(Event::Frame { slot, frame }).is_err() {
                break;
            }
        }
        let mut connections = self.connections();
        connections.drop_stream(connection);
        connections.order.disconnect(connection);
        drop(connections);
        // A shard that is gone misses nothing.
        let _ = self.inbox.send(Event::Disconnected { connection });
    }
}
