//! From options to a running broker, and from a stop order to a closed data directory. Everything that can be wrong is said in one line.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use highwater_engine::disk::{
    LockError, OpenedDisk, RingRefusal, SyncThread, open_disk, raise_descriptor_limit,
};
use highwater_engine::store::{CloseError, OpenReport, Opened, OpeningProgress, Stop, Store, StoreOpenError};
use highwater_engine::units::{NodeId, TopicId};
use highwater_replication::Rules;
use highwater_replication::shard::Shard;
use tokio::signal::unix::{SignalKind, signal};

use super::broker::{Broker, Ending, Letter, Parts, Remains};
use super::controller::{
    ControllerHost, ControllerHostError, ControllerLink, ControllerNews, ControllerOptions, Reached,
};
use super::herald::{Form, Herald};
use super::home::{Home, HomeError};
use super::jobs::Jobs;
use super::mailbox::Mailbox;
use super::sockets::{Bound, Budget, ListenError, Sockets};
use super::{configure, fill_with_chance, random_seed};
use crate::clock::Clock;
use crate::event::Event;
use crate::settings::{self, HostPort, Settings};
use crate::supervisor::lifeline::{self, StopOrder};

/// Not more often than this is it said how far the opening of the logs is.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// How the controller is reached.
#[derive(Clone, Debug)]
pub enum ControllerAt {
    /// It runs elsewhere.
    At(HostPort),
    /// This process runs it, with its state in this directory.
    Own {
        /// The directory.
        directory: PathBuf,
    },
}

/// What a broker is started with.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Its id.
    pub node: NodeId,
    /// Where it listens; port 0 for any.
    pub listen: HostPort,
    /// Its data directory, laid out as Kafka's.
    pub data: PathBuf,
    /// How many brokers the cluster is configured to have.
    pub brokers: Option<usize>,
    /// The controller.
    pub controller: ControllerAt,
    /// The settings.
    pub settings: Settings,
    /// How it tells what happens.
    pub form: Form,
}

/// Why a broker could not start, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// It listens everywhere, and clients cannot connect to everywhere.
    #[error(
        "clients cannot be told to connect to {0}; say where they reach this broker with --set advertised.listeners=HOST:PORT"
    )]
    Nowhere(HostPort),
    /// The kernel gives no ring, and `disk.io=uring` asks for one.
    #[error("{0}; set disk.io=auto to do without")]
    Ring(#[from] RingRefusal),
    /// Somebody has the data directory.
    #[error("{0}; stop it, or choose another directory with --data DIR")]
    InUse(LockError),
    /// The data directory cannot be used.
    #[error("{0}; make it readable and writable, or choose another directory with --data DIR")]
    Open(StoreOpenError),
    /// The data directory is somebody else's.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The controller of this process cannot start.
    #[error(transparent)]
    Controller(#[from] ControllerHostError),
    /// The system gives no thread, no reactor or no randomness.
    #[error("the broker cannot be run: {0}")]
    System(#[from] io::Error),
    /// It could not go on.
    #[error("{0}")]
    Failed(String),
    /// It stopped, but not cleanly: the next start recovers.
    #[error("not stopped cleanly: {0}")]
    Close(#[from] CloseError),
}

impl From<StoreOpenError> for ServeError {
    fn from(error: StoreOpenError) -> Self {
        if let StoreOpenError::Lock(lock @ LockError::Held { .. }) = error {
            Self::InUse(lock)
        } else {
            Self::Open(error)
        }
    }
}

/// Stops a broker that runs.
#[derive(Clone)]
pub struct Stopper(Mailbox<Letter>);

impl Stopper {
    /// Orders the stop; it is carried out in the broker's own time.
    pub fn stop(&self, order: StopOrder) {
        self.0.push(Letter::Stop(order));
    }
}

impl std::fmt::Debug for Stopper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stopper")
    }
}

/// A broker that runs in a thread of its own.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub address: HostPort,
    stopper: Stopper,
    thread: JoinHandle<Result<(), ServeError>>,
}

impl Running {
    /// For whoever orders the stop.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits until it has stopped.
    pub fn wait(self) -> Result<(), ServeError> {
        match self.thread.join() {
            Ok(result) => result,
            Err(_panic) => Err(ServeError::Failed("the broker's loop panicked".to_owned())),
        }
    }
}

/// Runs a broker until it is told to stop: by SIGTERM or SIGINT, or by the end of its standard input where a supervisor started it.
/// Blocks.
pub fn serve(options: ServeOptions, stdin_is_lifeline: bool) -> Result<(), ServeError> {
    let others_go_on = matches!(options.controller, ControllerAt::At(_));
    let running = start(options)?;
    if stdin_is_lifeline {
        let stopper = running.stopper();
        std::thread::Builder::new()
            .name("lifeline".to_owned())
            .spawn(move || stopper.stop(lifeline::wait(io::stdin().lock())))?;
    }
    let stopper = running.stopper();
    let order = if others_go_on { StopOrder::HandOver } else { StopOrder::All };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || watch_signals(&stopper, order))?;
    running.wait()
}

/// Each signal is a stop order; the second one ends a hand-over that takes long.
fn watch_signals(stopper: &Stopper, order: StopOrder) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let (Ok(mut terminate), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            return;
        };
        loop {
            tokio::select! {
                Some(()) = terminate.recv() => stopper.stop(order),
                Some(()) = interrupt.recv() => stopper.stop(order),
                else => return,
            }
        }
    });
}

/// Starts a broker: the port is taken, the data directory opened and recovered, then its thread runs.
pub fn start(options: ServeOptions) -> Result<Running, ServeError> {
    let ServeOptions { node, listen, data, brokers, controller, settings, form } = options;
    let clock = Clock::start();
    let bound = Bound::bind(&listen, settings.value(&settings::INSECURE))?;
    let address = bound.address();
    let advertised = settings.value(&settings::ADVERTISED_LISTENERS).unwrap_or_else(|| address.clone());
    if advertised.host.parse().is_ok_and(|host: IpAddr| host.is_unspecified()) {
        return Err(ServeError::Nowhere(advertised));
    }
    let mailbox = Mailbox::new();
    let mut herald = Herald::start(node.value(), form)?;
    if let Err(error) = raise_descriptor_limit() {
        herald.note(format!(
            "the limit of open files stays as it is, which may be low for many partitions: {error}"
        ));
    }
    let (store, report) = open_store(&settings, &data, clock, &mut herald)?;
    // Of an empty directory there is nothing to say.
    if !report.logs.is_empty() {
        herald.say(opened(node, &report));
    }
    let (own, reached) = match controller {
        ControllerAt::At(address) => (None, Reached::At(address)),
        ControllerAt::Own { directory } => {
            let host = own_controller(directory, &data, brokers, &settings, clock, &mailbox)?;
            let caller = host.caller();
            (Some(host), Reached::Here(caller))
        }
    };
    let home = Home::read(&store, node, random_id()?)?;
    let identity = configure::Identity {
        node,
        cluster_id: home.cluster_id(),
        last_session: home.last_session(),
        directory_id: home.directory_id(),
        advertised,
    };
    let config = configure::shard_config(&settings, identity);
    let now = clock.now();
    let shard = Shard::new(store.clone(), &report, config, Rules::default(), random_seed()?, now);
    let limits = configure::socket_limits(&settings);
    let budget = Budget::new(settings.count(&settings::QUEUED_MAX_REQUEST_BYTES));
    let broker = Broker::new(Parts {
        node,
        clock,
        mailbox: mailbox.clone(),
        shard,
        sockets: Sockets::new(mailbox.clone(), clock, limits, budget),
        groups: configure::groups(&settings, node, random_seed()?, now.monotonic),
        link: ControllerLink::new(reached, mailbox.clone()),
        jobs: Jobs::start(store, mailbox.clone())?,
        herald,
        home,
        bound,
        requests_max: limits.requests_max,
        settings,
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let thread = std::thread::Builder::new().name("broker".to_owned()).spawn(move || {
        // A task, not the future that is blocked on: waking that one costs a system call.
        let remains = runtime.block_on(async move { tokio::spawn(broker.run()).await });
        // Connections are closed before the store is, so that nobody is told of what comes after.
        drop(runtime);
        let ended = match remains {
            Ok(remains) => close(remains),
            Err(_panic) => Err(ServeError::Failed("the broker's loop panicked".to_owned())),
        };
        if let Some(own) = own {
            own.stop();
        }
        ended
    })?;
    Ok(Running { address, stopper: Stopper(mailbox), thread })
}

fn open_store(
    settings: &Settings,
    data: &std::path::Path,
    clock: Clock,
    herald: &mut Herald,
) -> Result<(Store, OpenReport), ServeError> {
    let OpenedDisk { disk, fallback, .. } = open_disk(configure::io_mode(settings), SyncThread::WhenNeeded)?;
    if let Some(refusal) = fallback {
        herald.note(format!("without io_uring: {refusal}"));
    }
    let config = configure::store_config(settings, random_seed()?);
    let begun = clock.now();
    let said = Mutex::new((&mut *herald, begun.monotonic));
    let watch = |progress: OpeningProgress| {
        let (herald, last) = &mut *said.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock.now().monotonic;
        if now.since(*last) >= PROGRESS_EVERY {
            *last = now;
            let OpeningProgress { done, logs, .. } = progress;
            herald.note(format!("{done} of {logs} partitions are open"));
        }
    };
    let Opened { store, report } = Store::open_watched(disk, data, config, begun, &watch)?;
    for (path, why) in &report.refused {
        herald.note(format!("{} cannot be opened and is left alone: {why}", path.display()));
    }
    Ok((store, report))
}

fn opened(node: NodeId, report: &OpenReport) -> Event {
    Event::Opened {
        broker: node.value(),
        partitions: report.logs.len(),
        clean: report.stop != Stop::Unclean,
        cut_bytes: report.logs.iter().map(|log| log.cut_bytes).sum(),
    }
}

fn own_controller(
    directory: PathBuf,
    data: &Path,
    brokers: Option<usize>,
    settings: &Settings,
    clock: Clock,
    mailbox: &Mailbox<Letter>,
) -> Result<ControllerHost, ControllerHostError> {
    let options = ControllerOptions {
        directory,
        listen: HostPort { host: "127.0.0.1".to_owned(), port: 0 },
        // A broker with a controller of its own is alone, unless somebody says that others will join.
        brokers: Some(brokers.unwrap_or(1)),
        data_directories: vec![data.to_owned()],
        settings: settings.clone(),
    };
    let mailbox = mailbox.clone();
    ControllerHost::start(options, clock, move |news| match news {
        ControllerNews::Event(event) => mailbox.push(Letter::Say(event)),
        ControllerNews::Failed(why) => mailbox.push(Letter::Fail(why)),
    })
}

fn random_id() -> io::Result<TopicId> {
    loop {
        let mut bytes = [0; 16];
        fill_with_chance(&mut bytes)?;
        if let Some(id) = TopicId::from_random(bytes) {
            return Ok(id);
        }
    }
}

/// Closes the store after a clean end; after a failure it is left as a kill would leave it.
fn close(remains: Remains) -> Result<(), ServeError> {
    let Remains { ending, shard, jobs, herald } = remains;
    jobs.finish();
    let ended = match ending {
        Ending::Failed(why) => Err(ServeError::Failed(why)),
        Ending::Clean => shard.close().map_err(ServeError::from),
    };
    herald.finish();
    ended
}
