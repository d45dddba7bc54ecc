//! A transport of one's own: frames between nodes go over Unix sockets, one for each node in a directory that all share.
//!
//! ```text
//! cargo run -p highwater-replication --example own_transport
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::batch::{BatchBuilder, Compression};
use highwater_engine::units::{NodeId, TopicPartition};
use highwater_replication::controller::{ControllerConfig, NewTopic};
use highwater_replication::node::{Acks, LocalController, Node, leader_of};
use highwater_replication::pending::{ConnectionId, ReplyOrder, Slot};
use highwater_replication::shard::{Event, Lane, ShardConfig};
use highwater_replication::transport::{Endpoint, Inbox, Transport, read_frame, write_parts};

const FRAME_BYTES_MAX: usize = 64 << 20;
const TIME: Duration = Duration::from_secs(30);

/// Both halves: lanes to leaders, which this side has opened, and connections of followers, which they have.
struct Unix {
    directory: PathBuf,
    inbox: Inbox,
    lanes: BTreeMap<Lane, Opened>,
    accepted: Arc<Mutex<Accepted>>,
}

struct Opened {
    stream: UnixStream,
    /// Somebody wants to hear of it.
    is_wanted: Arc<AtomicBool>,
}

struct Accepted {
    streams: BTreeMap<ConnectionId, UnixStream>,
    order: ReplyOrder<Vec<Bytes>>,
}

impl Unix {
    fn listen(directory: &Path, node: NodeId, inbox: Inbox) -> io::Result<Self> {
        let listener = UnixListener::bind(directory.join(node.to_string()))?;
        let empty = Accepted { streams: BTreeMap::new(), order: ReplyOrder::new(100) };
        let accepted = Arc::new(Mutex::new(empty));
        let (shared, to) = (Arc::clone(&accepted), inbox.clone());
        thread::spawn(move || accept(&listener, &shared, &to));
        Ok(Self { directory: directory.to_owned(), inbox, lanes: BTreeMap::new(), accepted })
    }

    /// A lane's connection, and a thread that takes the answers.
    fn open(&self, lane: Lane) -> io::Result<Opened> {
        let stream = UnixStream::connect(self.directory.join(lane.leader.to_string()))?;
        let (mut reading, inbox) = (stream.try_clone()?, self.inbox.clone());
        let is_wanted = Arc::new(AtomicBool::new(true));
        let wanted = Arc::clone(&is_wanted);
        thread::spawn(move || {
            let tell = |event| wanted.load(Ordering::SeqCst) && inbox.send(event).is_ok();
            while let Ok(frame) = read_frame(&mut reading, FRAME_BYTES_MAX) {
                tell(Event::PeerFrame { lane, frame });
            }
            tell(Event::PeerDown { lane });
        });
        Ok(Opened { stream, is_wanted })
    }
}

impl Transport for Unix {
    fn send(&mut self, lane: Lane, _address: &str, parts: Vec<Bytes>) {
        if !self.lanes.contains_key(&lane)
            && let Ok(opened) = self.open(lane)
        {
            self.lanes.insert(lane, opened);
        }
        let sent = self.lanes.get_mut(&lane).map(|opened| write_parts(&mut opened.stream, &parts));
        if !matches!(sent, Some(Ok(()))) {
            self.close(lane);
            let _ = self.inbox.send(Event::PeerDown { lane });
        }
    }

    fn close(&mut self, lane: Lane) {
        if let Some(opened) = self.lanes.remove(&lane) {
            opened.is_wanted.store(false, Ordering::SeqCst);
            let _ = opened.stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Endpoint for Unix {
    fn reply(&mut self, slot: Slot, parts: Vec<Bytes>) {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        accepted.order.fill(slot, Some(parts).filter(|parts| !parts.is_empty()));
        for parts in accepted.order.take(slot.connection) {
            if let Some(stream) = accepted.streams.get_mut(&slot.connection) {
                // The thread that reads from it tells of its end.
                let _ = write_parts(stream, &parts);
            }
        }
    }

    fn hang_up(&mut self, connection: ConnectionId) {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = accepted.streams.remove(&connection) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn accept(listener: &UnixListener, accepted: &Arc<Mutex<Accepted>>, inbox: &Inbox) {
    for (number, stream) in (0..).zip(listener.incoming()) {
        let Ok(Ok(mut reading)) = stream.as_ref().map(UnixStream::try_clone) else { continue };
        let Ok(stream) = stream else { continue };
        let (connection, shared, inbox) = (ConnectionId(number), Arc::clone(accepted), inbox.clone());
        shared.lock().unwrap_or_else(PoisonError::into_inner).streams.insert(connection, stream);
        thread::spawn(move || {
            while let Ok(frame) = read_frame(&mut reading, FRAME_BYTES_MAX) {
                let slot = shared.lock().unwrap_or_else(PoisonError::into_inner).order.open(connection);
                let Ok(slot) = slot else { break };
                if inbox.send(Event::Frame { slot, frame }).is_err() {
                    break;
                }
            }
            let mut accepted = shared.lock().unwrap_or_else(PoisonError::into_inner);
            accepted.streams.remove(&connection);
            accepted.order.disconnect(connection);
            let _ = inbox.send(Event::Disconnected { connection });
        });
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let home = tempfile::tempdir()?;
    let config = ControllerConfig { brokers_configured: Some(3), ..ControllerConfig::default() };
    let controller = LocalController::start(&home.path().join("controller"), config)?;
    let (sockets, mut nodes) = (tempfile::tempdir()?, Vec::new());
    for id in [1, 2, 3].into_iter().filter_map(NodeId::new) {
        let (directory, link) = (home.path().join(id.to_string()), controller.link());
        let listen = |inbox| Unix::listen(sockets.path(), id, inbox);
        nodes.push(Node::start(&directory, ShardConfig::new(id), link, listen)?);
    }
    nodes[0].create_topic(NewTopic::new("greetings")).ok_or("no controller")??;
    let name = TopicPartition::new("greetings", 0)?;
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(None, None, Some(b"over Unix sockets"), &[])?;
    let leader = leader_of(&nodes, &name, TIME).ok_or("nobody leads")?;
    let offset = leader.append(&name, builder.finish()?, Acks::All, TIME)?;
    println!("node {}: offset {offset} is on all in-sync replicas", leader.id());
    nodes.into_iter().try_for_each(Node::stop)?;
    Ok(controller.stop()?)
}
