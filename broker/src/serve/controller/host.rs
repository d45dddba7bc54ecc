//! Runs the controller: a thread with its connections, its calls and its log, whose sync may block it and nobody else.
//!
//! ```text
//! brokers (TCP), the broker of this process, the supervisor -> mailbox -> turn: step, persist, sync -> replies, events
//! ```
//! Replies leave in the order in which they are ready, not in that of the calls: a poll is held back, and a call finds its reply by its
//! correlation id. Decides nothing itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::checkpoint::{META_PROPERTIES, Reading, read_properties};
use highwater_engine::disk::{LockError, Patience, PosixDisk, SyncThread};
use highwater_engine::store::StoreOpenError;
use highwater_engine::units::NodeId;
use highwater_replication::Rules;
use highwater_replication::controller::{
    CallId, ControllerCall, ControllerEvent, ControllerNode, ControllerOpenError, ControllerOut,
    ControllerReply, Input,
};
use highwater_replication::pending::ConnectionId;
use highwater_replication::wire::highwater::HighwaterResponse;
use highwater_replication::wire::{self, Request};

use crate::clock::{Clock, instant};
use crate::event::Event;
use crate::serve::mailbox::Mailbox;
use crate::serve::sockets::{Bound, Budget, ListenError, SocketLimits, SocketNews, Sockets};
use crate::serve::{configure, random_seed};
use crate::settings::{self, HostPort, Settings};

const FRAME_BYTES_MAX: usize = 64 << 20;
const BYTES_UNDERWAY_MAX: usize = 256 << 20;

/// What a controller is made of.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// Where its state lies.
    pub directory: PathBuf,
    /// Where it listens; port 0 for any.
    pub listen: HostPort,
    /// How many brokers the cluster is configured to have.
    pub brokers: Option<usize>,
    /// The data directories of brokers on this machine, as far as they are known: if they belong to a cluster, it is this one.
    pub data_directories: Vec<PathBuf>,
    /// The settings.
    pub settings: Settings,
}

/// Why a controller cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerHostError {
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Its state cannot be used.
    #[error("{source}{}", what_to_do(source))]
    Open {
        /// Why.
        #[from]
        source: ControllerOpenError,
    },
    /// The brokers have a past, and the controller has not, or another one.
    #[error(
        "{data} belongs to cluster {cluster}, and {controller} {found}: put that cluster's state back, or make a new one with \
         `highwater controller rebuild`"
    )]
    NotTheState {
        /// A broker's data directory.
        data: PathBuf,
        /// Its cluster.
        cluster: String,
        /// The controller's directory.
        controller: PathBuf,
        /// What is there instead.
        found: String,
    },
    /// The system gives no thread or no reactor.
    #[error("the controller cannot be run: {0}")]
    System(#[from] std::io::Error),
}

fn what_to_do(error: &ControllerOpenError) -> &'static str {
    match error {
        ControllerOpenError::Store(StoreOpenError::Lock(LockError::Held { .. })) => {
            "; stop it, or choose another directory with --data DIR"
        }
        ControllerOpenError::Store(_) | ControllerOpenError::Io { .. } => {
            "; make it readable and writable, or choose another directory with --data DIR"
        }
        ControllerOpenError::NewerFormat { .. } | ControllerOpenError::Damaged { .. } | _ => "",
    }
}

/// Refuses to begin a new cluster, or to go on with another one, where brokers have had one. What cannot be read is refused where it is opened.
fn check_whose_state(controller: &Path, data_directories: &[PathBuf]) -> Result<(), ControllerHostError> {
    let disk = PosixDisk::new(SyncThread::Never);
    let cluster_of = |directory: &Path| match read_properties(&disk, &directory.join(META_PROPERTIES)) {
        Ok(Reading::Known { value, .. }) => Ok(Some(value.cluster)),
        Ok(Reading::Missing) => Ok(None),
        Ok(Reading::Damaged { .. }) | Err(_) => Err(()),
    };
    let Ok(own) = cluster_of(controller) else { return Ok(()) };
    for data in data_directories {
        let Ok(Some(cluster)) = cluster_of(data) else { continue };
        if own.as_ref() != Some(&cluster) {
            let found = match own {
                Some(other) => format!("holds the state of cluster {other}"),
                None => "holds no state of a cluster".to_owned(),
            };
            let (data, controller) = (data.clone(), controller.to_owned());
            return Err(ControllerHostError::NotTheState { data, cluster, controller, found });
        }
    }
    Ok(())
}

/// What a controller tells who started it.
#[derive(Clone, Debug)]
pub enum ControllerNews {
    /// Something for people.
    Event(Event),
    /// It cannot go on; its process has to end.
    Failed(String),
}

type Answer = Box<dyn FnOnce(Option<ControllerReply>) + Send>;

enum Letter {
    Socket(SocketNews),
    Call(ControllerCall, Answer),
    ProcessEnded { node: NodeId, process: Option<u32> },
    Stop,
}

impl From<SocketNews> for Letter {
    fn from(news: SocketNews) -> Self {
        Self::Socket(news)
    }
}

/// Calls the controller of the same process.
#[derive(Clone)]
pub struct Caller(Mailbox<Letter>);

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Caller")
    }
}

impl Caller {
    /// Calls. The answer is given in the controller's thread; `None` if it stops before.
    pub fn call(&self, call: ControllerCall, answer: impl FnOnce(Option<ControllerReply>) + Send + 'static) {
        self.0.push(Letter::Call(call, Box::new(answer)));
    }
}

/// A controller that runs.
pub struct ControllerHost {
    mailbox: Mailbox<Letter>,
    address: HostPort,
    thread: std::thread::JoinHandle<()>,
}

impl std::fmt::Debug for ControllerHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControllerHost").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ControllerHost {
    /// Opens the directory and the port, and starts the thread. `tell` is called in that thread and must not block.
    pub fn start(
        options: ControllerOptions,
        clock: Clock,
        tell: impl FnMut(ControllerNews) + Send + 'static,
    ) -> Result<Self, ControllerHostError> {
        let ControllerOptions { directory, listen, brokers, data_directories, settings } = options;
        check_whose_state(&directory, &data_directories)?;
        let bound = Bound::bind(&listen, settings.value(&settings::INSECURE))?;
        let address = bound.address();
        let config = configure::controller_config(&settings, brokers);
        let disk = Arc::new(PosixDisk::new(SyncThread::Never));
        let seed = random_seed()?;
        let node = ControllerNode::open(disk, &directory, config, Rules::default(), seed, clock.now())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mailbox = Mailbox::new();
        let limits = SocketLimits {
            frame_bytes_max: FRAME_BYTES_MAX,
            idle_max: Duration::from_secs(24 * 3600),
            ..configure::socket_limits(&settings)
        };
        let sockets = Sockets::new(mailbox.clone(), clock, limits, Budget::new(BYTES_UNDERWAY_MAX));
        let host = Host {
            node,
            clock,
            mailbox: mailbox.clone(),
            sockets,
            calls: BTreeMap::new(),
            next_call: 0,
            dirty: BTreeSet::new(),
            tell: Box::new(tell),
            stopping: false,
        };
        let thread = std::thread::Builder::new().name("controller".to_owned()).spawn(move || {
            runtime.block_on(async move {
                // A task, not the future that is blocked on: waking that one costs a system call.
                let _ended = tokio::spawn(host.run(bound)).await;
            });
        })?;
        Ok(Self { mailbox, address, thread })
    }

    /// Where it listens.
    pub fn address(&self) -> &HostPort {
        &self.address
    }

    /// For a broker in the same process.
    pub fn caller(&self) -> Caller {
        Caller(self.mailbox.clone())
    }

    /// A broker's process ended.
    pub fn process_ended(&self, node: NodeId, process: Option<u32>) {
        self.mailbox.push(Letter::ProcessEnded { node, process });
    }

    /// Stops it cleanly and waits for that.
    pub fn stop(self) {
        self.mailbox.push(Letter::Stop);
        // A panic in there was printed when it happened.
        let _panicked = self.thread.join();
    }
}

enum Asker {
    Socket { connection: ConnectionId, version: i16, correlation_id: i32 },
    Here(Answer),
}

struct Host {
    node: ControllerNode,
    clock: Clock,
    mailbox: Mailbox<Letter>,
    sockets: Sockets<Letter>,
    calls: BTreeMap<CallId, Asker>,
    next_call: u64,
    dirty: BTreeSet<ConnectionId>,
    tell: Box<dyn FnMut(ControllerNews) + Send>,
    stopping: bool,
}

impl Host {
    async fn run(mut self, bound: Bound) {
        let accepting = match bound.serve(self.mailbox.clone()) {
            Ok(accepting) => accepting,
            Err(error) => return (self.tell)(ControllerNews::Failed(error.to_string())),
        };
        let mut letters = Vec::new();
        loop {
            self.mailbox.take(&mut letters);
            letters.drain(..).for_each(|letter| self.read(letter));
            match self.node.turn(self.clock.now(), Patience::MayBlock) {
                Ok(outs) => outs.into_iter().for_each(|out| self.carry_out(out)),
                Err(failure) => {
                    (self.tell)(ControllerNews::Failed(failure.to_string()));
                    break;
                }
            }
            for id in std::mem::take(&mut self.dirty) {
                self.sockets.flush(id);
            }
            if self.stopping {
                break;
            }
            let due = self.node.next_deadline().map(|at| instant(self.clock, at));
            tokio::select! {
                biased;
                () = self.mailbox.rings() => {}
                () = async { match due { Some(at) => tokio::time::sleep_until(at).await, None => std::future::pending().await } } => {}
            }
        }
        accepting.abort();
        self.end();
    }

    fn end(mut self) {
        for (_, caller) in std::mem::take(&mut self.calls) {
            if let Asker::Here(answer) = caller {
                answer(None);
            }
        }
        if self.stopping
            && let Err(error) = self.node.close()
        {
            (self.tell)(ControllerNews::Failed(error.to_string()));
        }
    }

    fn read(&mut self, letter: Letter) {
        match letter {
            Letter::Socket(SocketNews::Accepted(stream)) => {
                let _at_the_bound = self.sockets.accept(stream);
            }
            Letter::Socket(SocketNews::Frame { id, frame, charged }) => {
                if self.sockets.request_came(id, charged) {
                    self.frame(id, frame);
                }
            }
            Letter::Socket(SocketNews::Writable { id }) => self.sockets.writable(id),
            Letter::Socket(SocketNews::Gone { id, .. }) => self.gone(id),
            // This side makes no connections.
            Letter::Socket(SocketNews::Connected { .. }) => {}
            Letter::Call(call, answer) => self.call(Asker::Here(answer), call),
            Letter::ProcessEnded { node, process } => self.node.tell(Input::ProcessEnded { node, process }),
            Letter::Stop => self.stopping = true,
        }
    }

    fn frame(&mut self, id: ConnectionId, frame: Bytes) {
        let Ok((header, Request::Highwater(body))) = wire::decode_request(frame) else {
            return self.gone(id);
        };
        let caller =
            Asker::Socket { connection: id, version: header.version, correlation_id: header.correlation_id };
        match ControllerCall::decode(&body.json) {
            Ok(call) => self.call(caller, call),
            Err(error) => self.answer(caller, ControllerReply::Unreadable { why: error.to_string() }),
        }
    }

    fn call(&mut self, caller: Asker, call: ControllerCall) {
        let id = CallId(self.next_call);
        self.next_call += 1;
        self.calls.insert(id, caller);
        self.node.tell(Input::Call { id, call });
    }

    fn gone(&mut self, connection: ConnectionId) {
        if !self.sockets.close(connection) {
            return;
        }
        let is_its =
            |caller: &Asker| matches!(caller, Asker::Socket { connection: of, .. } if *of == connection);
        let gone: Vec<CallId> =
            self.calls.iter().filter(|(_, caller)| is_its(caller)).map(|(id, _)| *id).collect();
        for id in gone {
            self.calls.remove(&id);
            self.node.tell(Input::CallerGone { id });
        }
    }

    fn carry_out(&mut self, out: ControllerOut) {
        match out {
            ControllerOut::Reply { id, reply } => {
                if let Some(caller) = self.calls.remove(&id) {
                    self.answer(caller, reply);
                }
            }
            ControllerOut::Event(event) => {
                let event = for_people(&self.node, event);
                (self.tell)(ControllerNews::Event(event));
            }
        }
    }

    fn answer(&mut self, caller: Asker, reply: ControllerReply) {
        let (connection, version, correlation_id) = match caller {
            Asker::Here(answer) => return answer(Some(reply)),
            Asker::Socket { connection, version, correlation_id } => (connection, version, correlation_id),
        };
        let body = HighwaterResponse { json: reply.encode() };
        match wire::encode_response(version, correlation_id, &body.into()) {
            Ok(parts) => {
                self.sockets.send(connection, parts);
                self.sockets.requests_done(connection, 1);
                self.dirty.insert(connection);
            }
            // Larger than a frame can be: whoever asked finds the connection closed.
            Err(_) => self.gone(connection),
        }
    }
}

fn ids(nodes: &[NodeId]) -> Vec<i32> {
    nodes.iter().map(|node| node.value()).collect()
}

/// A controller's event with what people want to know beside it.
fn for_people(node: &ControllerNode, event: ControllerEvent) -> Event {
    let isr = |partition| node.state().partition(partition).map_or_else(Vec::new, |state| ids(&state.isr));
    match event {
        ControllerEvent::Registered { node } => Event::Registered { broker: node.value() },
        ControllerEvent::Fenced { node, why } => {
            Event::Fenced { broker: node.value(), reason: why.to_string() }
        }
        ControllerEvent::Led { partition, to, epoch, .. } => Event::Leads {
            topic: partition.topic().to_owned(),
            partition: partition.partition(),
            leader: to.map(NodeId::value),
            leader_epoch: epoch.value(),
            isr: isr(&partition),
        },
        ControllerEvent::LeftIsr { partition, node, why } => Event::IsrLeft {
            topic: partition.topic().to_owned(),
            partition: partition.partition(),
            replica: node.value(),
            reason: why.to_string(),
            isr: isr(&partition),
        },
        ControllerEvent::JoinedIsr { partition, node } => Event::IsrJoined {
            topic: partition.topic().to_owned(),
            partition: partition.partition(),
            replica: node.value(),
            isr: isr(&partition),
        },
        ControllerEvent::Lost { partition, from, to } => Event::Lost {
            topic: partition.topic().to_owned(),
            partition: partition.partition(),
            from: from.value(),
            to: to.map(highwater_engine::units::Offset::value),
        },
        ControllerEvent::TopicCreated { name, partitions, replicas } => Event::TopicCreated {
            topic: name,
            partitions: i32::try_from(partitions).unwrap_or(i32::MAX),
            replicas,
        },
        ControllerEvent::TopicDeleted { name } => Event::TopicDeleted { topic: name },
        other @ (ControllerEvent::Stopping { .. }
        | ControllerEvent::Suspected { .. }
        | ControllerEvent::PossiblyLost { .. }
        | _) => Event::Note { broker: None, text: other.to_string() },
    }
}
