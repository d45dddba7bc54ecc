//! Connections: accepted ones and those that this side makes, as a table. Frames come in through the mailbox, parts go out by `writev`.
//!
//! ```text
//!   socket ready -> reader's task -> mailbox -> the loop's turn -> send, flush -> writev
//!                     (frames)                                      | would block: a task waits for the socket
//! ```
//! All tasks are the loop's own thread's: a frame costs no hand-off between threads. Knows nothing of what is in a frame.

mod budget;
mod listener;
mod reader;
mod writer;

#[cfg(test)]
mod sockets_test;

pub(crate) use budget::Budget;
pub(crate) use listener::Bound;
pub use listener::ListenError;
pub(crate) use reader::Gone;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use highwater_replication::pending::ConnectionId;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use self::reader::{Reader, ReaderLimits};
use self::writer::{Flushed, Writer};
use super::mailbox::Mailbox;
use crate::clock::Clock;
use crate::settings::HostPort;

/// How long a connection may take to be made.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// What sockets tell the loop.
#[derive(Debug)]
pub(crate) enum SocketNews {
    /// Somebody connected.
    Accepted(TcpStream),
    /// A connection of [`Sockets::connect`] is made.
    Connected {
        /// Which.
        id: ConnectionId,
        /// The socket.
        stream: TcpStream,
    },
    /// A whole frame came, without its length.
    Frame {
        /// On which connection.
        id: ConnectionId,
        /// The frame.
        frame: Bytes,
        /// What it was charged to the budget.
        charged: usize,
    },
    /// A connection that would not take more takes more.
    Writable {
        /// Which.
        id: ConnectionId,
    },
    /// A connection ended, or could not be made.
    Gone {
        /// Which.
        id: ConnectionId,
        /// Why.
        why: Gone,
    },
}

/// The bounds of a table of sockets.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_field_names, reason = "each is the most of something")]
pub(crate) struct SocketLimits {
    /// Accepted connections at a time.
    pub(crate) accepted_max: usize,
    /// Of these, from one address.
    pub(crate) accepted_per_address_max: usize,
    /// Requests of one connection that are under way.
    pub(crate) requests_max: usize,
    /// Bytes of one frame.
    pub(crate) frame_bytes_max: usize,
    /// How long an accepted connection may be silent.
    pub(crate) idle_max: Duration,
    /// How long one that owes reading may not read.
    pub(crate) stall_max: Duration,
}

enum State {
    /// Parts wait until the connection is made.
    Connecting {
        waiting: Vec<Bytes>,
        task: AbortHandle,
    },
    Open {
        writer: Writer,
        reader: AbortHandle,
    },
}

struct Socket {
    state: State,
    /// Of an accepted one: the reader's permits, and the sizes of the requests that are not done, oldest first.
    requests: Option<(Arc<Semaphore>, VecDeque<usize>)>,
    /// Of an accepted one: from where.
    from: Option<IpAddr>,
}

/// The table. Dropping it closes everything.
pub(crate) struct Sockets<T> {
    mailbox: Mailbox<T>,
    clock: Clock,
    limits: SocketLimits,
    budget: Arc<Budget>,
    open: HashMap<ConnectionId, Socket>,
    accepted: usize,
    accepted_from: HashMap<IpAddr, usize>,
    next_id: u64,
}

impl<T: From<SocketNews> + Send + 'static> Sockets<T> {
    /// No connections yet.
    pub(crate) fn new(mailbox: Mailbox<T>, clock: Clock, limits: SocketLimits, budget: Arc<Budget>) -> Self {
        Self {
            mailbox,
            clock,
            limits,
            budget,
            open: HashMap::new(),
            accepted: 0,
            accepted_from: HashMap::new(),
            next_id: 0,
        }
    }

    fn new_id(&mut self) -> ConnectionId {
        self.next_id += 1;
        ConnectionId(self.next_id)
    }

    /// Takes a connection that somebody made; at the bound it is closed at once.
    pub(crate) fn accept(&mut self, stream: TcpStream) -> Option<ConnectionId> {
        if self.accepted >= self.limits.accepted_max {
            return None;
        }
        // One that is gone already has no address, and is found to be gone by its reader.
        let from = stream.peer_addr().ok().map(|address| address.ip());
        if let Some(from) = from {
            let held = self.accepted_from.entry(from).or_default();
            if *held >= self.limits.accepted_per_address_max {
                return None;
            }
            *held += 1;
        }
        let id = self.new_id();
        let permits = Arc::new(Semaphore::new(self.limits.requests_max));
        let limits = ReaderLimits {
            frame_bytes_max: self.limits.frame_bytes_max,
            idle_max: Some(self.limits.idle_max),
            requests: Some(Arc::clone(&permits)),
        };
        let state = self.start(id, stream, limits);
        self.accepted += 1;
        self.open.insert(id, Socket { state, requests: Some((permits, VecDeque::new())), from });
        Some(id)
    }

    /// Makes a connection. Parts may be sent at once; [`SocketNews::Gone`] comes if it cannot be made.
    pub(crate) fn connect(&mut self, address: HostPort) -> ConnectionId {
        let id = self.new_id();
        let mailbox = self.mailbox.clone();
        let task = tokio::spawn(async move {
            let connecting = TcpStream::connect((address.host.as_str(), address.port));
            mailbox.push(match tokio::time::timeout(CONNECT_WAIT, connecting).await {
                Ok(Ok(stream)) => SocketNews::Connected { id, stream },
                Ok(Err(error)) => SocketNews::Gone { id, why: Gone::Broken(error) },
                Err(_) => SocketNews::Gone { id, why: Gone::ConnectTimeout },
            });
        });
        let state = State::Connecting { waiting: Vec::new(), task: task.abort_handle() };
        self.open.insert(id, Socket { state, requests: None, from: None });
        id
    }

    /// The connection is made; what waited goes out.
    pub(crate) fn connected(&mut self, id: ConnectionId, stream: TcpStream) {
        if !self.open.contains_key(&id) {
            return;
        }
        let limits =
            ReaderLimits { frame_bytes_max: self.limits.frame_bytes_max, idle_max: None, requests: None };
        let state = self.start(id, stream, limits);
        let Some(socket) = self.open.get_mut(&id) else { return };
        if let State::Connecting { waiting, .. } = std::mem::replace(&mut socket.state, state) {
            self.send(id, waiting);
            self.flush(id);
        }
    }

    fn start(&self, id: ConnectionId, stream: TcpStream, limits: ReaderLimits) -> State {
        // Answers are whole when they are written: there is nothing to wait for. Without it they come later, and that is all.
        let _slower = stream.set_nodelay(true);
        let (half, out) = stream.into_split();
        let reader = Reader {
            id,
            half,
            mailbox: self.mailbox.clone(),
            clock: self.clock,
            budget: Arc::clone(&self.budget),
            limits,
        };
        let reader = tokio::spawn(reader.run()).abort_handle();
        State::Open { writer: Writer::new(out), reader }
    }

    /// A frame came of the mailbox. Whether its connection is still there; if not, the frame is to be dropped.
    pub(crate) fn request_came(&mut self, id: ConnectionId, charged: usize) -> bool {
        match self.open.get_mut(&id) {
            Some(Socket { requests: Some((_, sizes)), .. }) => {
                sizes.push_back(charged);
                true
            }
            Some(Socket { requests: None, .. }) => true,
            None => {
                self.budget.release(charged);
                false
            }
        }
    }

    /// The oldest `count` requests of an accepted connection need no more memory: their answers are queued.
    pub(crate) fn requests_done(&mut self, id: ConnectionId, count: usize) {
        let Some(Socket { requests: Some((_, sizes)), state, .. }) = self.open.get_mut(&id) else { return };
        let count = count.min(sizes.len());
        self.budget.release(sizes.drain(..count).sum());
        // The place is free when the answer is written: whoever does not read cannot ask on.
        match state {
            State::Open { writer, .. } => writer.mark_requests(count),
            State::Connecting { .. } => {}
        }
    }

    /// Queues parts.
    pub(crate) fn send(&mut self, id: ConnectionId, parts: Vec<Bytes>) {
        let Some(socket) = self.open.get_mut(&id) else { return };
        match &mut socket.state {
            State::Connecting { waiting, .. } => waiting.extend(parts),
            State::Open { writer, .. } => {
                let bytes = writer.queue(parts);
                if socket.requests.is_some() {
                    self.budget.charge(bytes);
                }
            }
        }
    }

    /// Writes what is queued, as far as the socket takes it; when it does not, a task waits for it.
    pub(crate) fn flush(&mut self, id: ConnectionId) {
        let stall_max = self.limits.stall_max;
        let Some(Socket { state: State::Open { writer, .. }, requests, .. }) = self.open.get_mut(&id) else {
            return;
        };
        let Flushed { bytes, requests: done, outcome } = writer.flush();
        if let Some((permits, _)) = requests {
            self.budget.release(bytes);
            permits.add_permits(done);
        }
        match outcome {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let (mailbox, other) = (self.mailbox.clone(), self.mailbox.clone());
                writer.wait(
                    stall_max,
                    move || mailbox.push(SocketNews::Writable { id }),
                    move || other.push(SocketNews::Gone { id, why: Gone::Stalled }),
                );
            }
            Err(error) => self.mailbox.push(SocketNews::Gone { id, why: Gone::Broken(error) }),
        }
    }

    /// The socket takes more.
    pub(crate) fn writable(&mut self, id: ConnectionId) {
        if let Some(Socket { state: State::Open { writer, .. }, .. }) = self.open.get_mut(&id) {
            writer.woken();
            self.flush(id);
        }
    }

    fn let_go(&mut self, from: IpAddr) {
        if let Entry::Occupied(mut held) = self.accepted_from.entry(from) {
            *held.get_mut() -= 1;
            if *held.get() == 0 {
                held.remove();
            }
        }
    }

    /// Closes a connection; nothing more is told of it but what is in the mailbox already. Whether it was there.
    pub(crate) fn close(&mut self, id: ConnectionId) -> bool {
        let Some(socket) = self.open.remove(&id) else { return false };
        let mut bytes = 0;
        if let Some((_, sizes)) = &socket.requests {
            self.accepted -= 1;
            if let Some(from) = socket.from {
                self.let_go(from);
            }
            bytes += sizes.iter().sum::<usize>();
        }
        if let (State::Open { writer, .. }, Some(_)) = (&socket.state, &socket.requests) {
            bytes += writer.queued_bytes();
        }
        self.budget.release(bytes);
        drop(socket);
        true
    }

    /// From where an accepted connection came.
    pub(crate) fn address_of(&self, id: ConnectionId) -> Option<IpAddr> {
        self.open.get(&id)?.from
    }

    /// Bytes that the socket has not taken yet.
    #[cfg(test)]
    pub(crate) fn queued_bytes(&self, id: ConnectionId) -> usize {
        match self.open.get(&id).map(|socket| &socket.state) {
            Some(State::Open { writer, .. }) => writer.queued_bytes(),
            Some(State::Connecting { .. }) | None => 0,
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        match &self.state {
            State::Connecting { task, .. } => task.abort(),
            State::Open { reader, .. } => reader.abort(),
        }
    }
}

impl<T> std::fmt::Debug for Sockets<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sockets").field("open", &self.open.len()).finish_non_exhaustive()
    }
}
