//! A replica's host for those who embed it: one thread that gives a [`Shard`] its turns, one that runs its jobs, and calls from any thread.
//!
//! ```text
//!   append, read, ask, wait --orders-->  +--------------------+ --jobs--> job thread
//!   endpoint (frames)       --events-->  |  Shard::turn(now)  |
//!   controller (replies)    --events-->  +--------------------+ --> endpoint, controller, who waits
//! ```
//!
//! It decides nothing about data; it reads the clock once a turn. What it is given is what differs between hosts: an
//! [`Endpoint`] that carries frames between nodes, and a [`ControllerLink`]. A broker with an event loop does without it.

mod call;
mod clock;
mod controller;
mod host;

pub use call::{Acks, CallError, Fetched};
pub use clock::Clock;
pub use controller::{ControllerEnd, ControllerLink, ControllerStartError, LocalController, LocalLink};

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded, unbounded};
use highwater_engine::disk::{PosixDisk, SyncThread};
use highwater_engine::store::{CloseError, Opened, Store, StoreConfig, StoreOpenError};
use highwater_engine::units::{NodeId, TopicPartition};

use crate::Rules;
use crate::controller::{ControllerReply, ControllerRequest, CreatedTopic, NewTopic, TopicRefusal};
use crate::shard::{Shard, ShardConfig};
use crate::transport::{Endpoint, Inbox};
use host::{Host, Order};

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeStartError {
    /// Its data directory cannot be used.
    #[error(transparent)]
    Open(#[from] StoreOpenError),
    /// There is no way to other nodes.
    #[error("the node cannot be reached by others: {0}")]
    Endpoint(#[source] io::Error),
    /// The system gives no thread.
    #[error("a node's thread cannot be started: {0}")]
    Thread(#[from] io::Error),
}

/// A node that runs. Dropping it is as a kill: the next start recovers.
#[derive(Debug)]
pub struct Node {
    id: NodeId,
    orders: Sender<Order>,
    thread: JoinHandle<Result<(), CloseError>>,
}

impl Node {
    /// Opens a data directory, which recovers it, and runs a shard over it. `connect` gets the inbox for the endpoint's events.
    ///
    /// Syncs are done by the node's own thread.
    pub fn start<E: Endpoint + Send + 'static>(
        directory: &Path,
        config: ShardConfig,
        controller: impl ControllerLink + Send + 'static,
        connect: impl FnOnce(Inbox) -> io::Result<E>,
    ) -> Result<Self, NodeStartError> {
        let (id, clock) = (config.node, Clock::start());
        let disk = Arc::new(PosixDisk::new(SyncThread::Never));
        let Opened { store, report } = Store::open(disk, directory, StoreConfig::default(), clock.now())?;
        let shard = Shard::new(store, &report, config, Rules::default(), fastrand::u64(..), clock.now());
        let (inbox, events) = unbounded();
        let (orders, taken) = unbounded();
        let endpoint = connect(inbox.clone()).map_err(NodeStartError::Endpoint)?;
        let host = Host::new(shard, clock, inbox, controller, endpoint)?;
        let named = std::thread::Builder::new().name(format!("highwater-node-{id}"));
        let thread = named.spawn(move || host.run(&events, &taken))?;
        Ok(Self { id, orders, thread })
    }

    /// Its id.
    pub const fn id(&self) -> NodeId {
        self.id
    }

    /// Looks at the shard after each of its turns until `look` finds something; `None` if the time is over or the node has ended.
    pub fn wait<T: Send + 'static>(
        &self,
        time: Duration,
        mut look: impl FnMut(&Shard) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let (found, answer) = bounded(1);
        let watch = move |shard: &Shard| look(shard).is_some_and(|value| found.try_send(value).is_ok());
        self.orders.send(Order::Watch(Box::new(watch))).ok()?;
        answer.recv_timeout(time).ok()
    }

    /// Asks the controller something in the name of this node's session. `None`: there is none yet, or it could not be reached and may have
    /// done it all the same.
    pub fn ask(&self, request: ControllerRequest) -> Option<ControllerReply> {
        let (answer, reply) = bounded(1);
        self.orders.send(Order::Ask { request, answer }).ok()?;
        reply.recv().ok().flatten()
    }

    /// Makes a topic as soon as the controller has let this node in, and waits until it knows of it. `None`: the controller could not be
    /// reached within the topic's time.
    pub fn create_topic(&self, topic: NewTopic) -> Option<Result<CreatedTopic, TopicRefusal>> {
        let wait = Duration::from_millis(topic.timeout_ms);
        self.wait(wait, Shard::session)?;
        let ControllerReply::TopicCreated { name, outcome } =
            self.ask(ControllerRequest::CreateTopic(topic))?
        else {
            return None;
        };
        if outcome.is_ok() {
            self.wait(wait, move |shard| shard.view().state().topics.contains_key(&name).then_some(()));
        }
        Some(outcome)
    }

    /// Hands leaderships over, closes the directory and ends: the next start has nothing to recover.
    pub fn stop(self) -> Result<(), CloseError> {
        // A thread that has ended already has its result.
        let _ended = self.orders.send(Order::Stop);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// The one of these nodes that leads a partition, as soon as one does. `time` is for each of two steps: the controller's word, and its
/// being heard by that node.
pub fn leader_of<'a>(nodes: &'a [Node], partition: &TopicPartition, time: Duration) -> Option<&'a Node> {
    let (ids, name): (Vec<NodeId>, _) = (nodes.iter().map(Node::id).collect(), partition.clone());
    let leader = nodes.first()?.wait(time, move |shard| {
        shard.view().state().partition(&name)?.leader.filter(|leader| ids.contains(leader))
    })?;
    let (node, name) = (nodes.iter().find(|node| node.id() == leader)?, partition.clone());
    node.wait(time, move |shard| shard.leads(&name))?;
    Some(node)
}
