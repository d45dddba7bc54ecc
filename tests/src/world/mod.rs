//! One seeded world on one thread: real shards over real stores on simulated disks, the real controller on its own, and a network, clocks
//! and clients that are simulated. The seed decides the order and time of everything; the same seed replays it.
//!
//! ```text
//!   clients --frames--> [ network ] --frames--> shard --> store --> simulated disk
//!                           |  ^                 |  ^  jobs, completions: each an event of its own
//!                           v  |                 v  |
//!                        shards (followers)   calls, answers --> controller --> its disk
//! ```
//! One event is one frame, one completion, one job, one turn, one fault. After each, the invariants are checked. There is no hook in the
//! product. What it refuses to do: threads, sleeping, the machine's clock.

mod agenda;
mod chronicle;
mod client;
mod consumer;
mod controller;
mod faults;
mod host;
mod network;
mod options;
mod outs;
mod producer;
mod random;
mod rot;
mod vocabulary;

pub use agenda::Moment;
pub use network::{ClientId, End};
pub use options::{Options, TopicOptions};
pub use producer::ProducerOptions;
pub use random::{Outcome, RandomOptions, random};
pub use vocabulary::{A, B, C, D};

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use highwater_engine::units::{Monotonic, NodeId, Now, Timestamp, TopicPartition};

use crate::invariants::{Ghost, Violation};
use agenda::{Agenda, Happening};
use chronicle::Chronicle;
use client::Clients;
use controller::ControllerHost;
use host::Node;
use network::Network;

/// Midnight of some day, in milliseconds.
const WALL_START_MS: i64 = 1_700_000_000_000;

/// See the module's documentation.
#[derive(Debug)]
pub struct World {
    seed: u64,
    options: Options,
    chance: Rng,
    now: Moment,
    agenda: Agenda,
    network: Network,
    nodes: BTreeMap<NodeId, Node>,
    controller: ControllerHost,
    clients: Clients,
    ghost: Ghost,
    chronicle: Chronicle,
    found: Vec<Violation>,
    /// Violations are gathered, and stop nothing.
    watching: bool,
    chaos: Option<random::Chaos>,
    partitions: Vec<TopicPartition>,
}

impl World {
    /// A world with its nodes and its controller started, and nothing in it. `HIGHWATER_SEED` overrides the seed.
    pub fn new(seed: u64, options: Options) -> Self {
        let seed = seed_of_environment().unwrap_or(seed);
        let mut chance = Rng::with_seed(seed);
        let controller = ControllerHost::new(chance.u64(..));
        let nodes = options.nodes.iter().map(|id| (*id, Node::new(chance.u64(..)))).collect();
        let network = Network::new(options.latency_max);
        let mut world = Self {
            seed,
            chance,
            now: Moment::default(),
            agenda: Agenda::default(),
            network,
            nodes,
            controller,
            clients: Clients::default(),
            ghost: Ghost::default(),
            chronicle: Chronicle::new(std::env::var_os("HIGHWATER_ALOUD").is_some()),
            found: Vec::new(),
            watching: false,
            chaos: None,
            partitions: Vec::new(),
            options,
        };
        world.agenda.plan(world.now, Happening::StartController);
        for node in world.options.nodes.clone() {
            world.plan_soon(Happening::Start(node));
        }
        world
    }

    /// The next thing happens; `false` if there is none before `until`.
    pub(crate) fn step(&mut self, until: Moment) -> bool {
        if self.agenda.next_moment().is_none_or(|at| at > until) {
            self.now = self.now.max(until);
            return false;
        }
        let Some((at, happening)) = self.agenda.next() else { return false };
        self.now = self.now.max(at);
        self.happen(happening);
        self.take_violations();
        true
    }

    fn happen(&mut self, happening: Happening) {
        if let Some(node) = host_of(&happening, &self.network)
            && let Some(process) = self.nodes.get_mut(&node).and_then(Node::process_mut)
            && process.paused
        {
            process.waiting.push(happening);
            return;
        }
        match happening {
            Happening::Turn(node, life) => self.turn(node, life),
            Happening::Job(node, life, number) => self.run_job(node, life, number),
            Happening::DiskCompletes(node, life) => self.disk_completes(node, life),
            Happening::Arrives { connection, toward, frame } => self.arrives(connection, toward, frame),
            Happening::Broken { connection, toward } => self.hears_of_break(connection, toward),
            Happening::CallArrives { node, life, call, request } => {
                self.call_arrives(node, life, call, request);
            }
            Happening::ReplyArrives { node, life, call, reply } => {
                self.reply_arrives(node, life, call, reply);
            }
            Happening::CallOverdue { node, life, call } => self.call_overdue(node, life, call),
            Happening::ControllerTurn(life) => self.controller_turn_at(life),
            Happening::Start(node) => self.start(node),
            Happening::StartController => self.start_controller(),
            Happening::EndSeen { node, process } => self.end_seen(node, process),
            Happening::Client(client) => self.client_turn(client),
            Happening::Stops(node, life) => self.stops(node, life),
            Happening::Chaos => self.chaos_strikes(),
        }
    }

    fn take_violations(&mut self) {
        if !self.ghost.has_violations() {
            return;
        }
        self.found.extend(self.ghost.take_violations());
        assert!(self.watching, "{}", self.report());
    }

    /// What was found, the seed, and the last steps in words.
    pub fn report(&self) -> String {
        let found: Vec<String> = self.found.iter().map(ToString::to_string).collect();
        format!(
            "{}\nHIGHWATER_SEED={} replays it. The last steps:\n{}",
            found.join("\n"),
            self.seed,
            self.chronicle.last_steps()
        )
    }

    pub(crate) fn note(&mut self, words: String) {
        self.chronicle.note(self.now, words);
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        self.chronicle.count(what);
    }

    /// How often the rare has happened.
    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        self.chronicle.counts()
    }

    /// The seed.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// What the world knows and no replica can.
    pub const fn ghost(&self) -> &Ghost {
        &self.ghost
    }

    /// Some time between a tenth of this and all of it.
    fn some(&mut self, longest: Duration) -> Duration {
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX).max(10);
        Duration::from_micros(self.chance.u64(micros / 10..=micros))
    }

    pub(crate) fn plan_in(&mut self, wait: Duration, happening: Happening) {
        self.agenda.plan(self.now.after(wait), happening);
    }

    fn plan_soon(&mut self, happening: Happening) {
        let wait = self.some(Duration::from_micros(100));
        self.plan_in(wait, happening);
    }

    fn latency(&mut self) -> Duration {
        self.some(self.network.latency_max)
    }

    pub(crate) fn now_at(&self, node: NodeId) -> Now {
        let (since, skew) =
            self.nodes.get(&node).map_or((Duration::ZERO, 0), |node| (node.clock_ahead, node.skew_ms));
        self.clock(since, skew)
    }

    fn clock(&self, ahead: Duration, skew_ms: i64) -> Now {
        let since_start = self.now.since_start();
        let millis = i64::try_from(since_start.as_millis()).unwrap_or(i64::MAX);
        Now {
            monotonic: Monotonic::from_duration(since_start + ahead),
            wall: Timestamp::from_millis(WALL_START_MS + millis + skew_ms),
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() && self.found.is_empty() {
            eprintln!("{}", self.report());
        }
    }
}

/// Whose process an event needs to be running.
fn host_of(happening: &Happening, network: &Network) -> Option<NodeId> {
    match happening {
        Happening::Turn(node, _)
        | Happening::Job(node, _, _)
        | Happening::DiskCompletes(node, _)
        | Happening::Stops(node, _)
        | Happening::ReplyArrives { node, .. }
        | Happening::CallOverdue { node, .. } => Some(*node),
        Happening::Arrives { connection, toward, .. } | Happening::Broken { connection, toward } => {
            let connection = network.any_connection(*connection)?;
            match (toward, connection.opener) {
                (network::Toward::Server, _) => Some(connection.server),
                (network::Toward::Opener, network::Opener::Follower { node, .. }) => Some(node),
                (network::Toward::Opener, network::Opener::Client(_)) => None,
            }
        }
        Happening::CallArrives { .. }
        | Happening::ControllerTurn(_)
        | Happening::Start(_)
        | Happening::StartController
        | Happening::EndSeen { .. }
        | Happening::Client(_)
        | Happening::Chaos => None,
    }
}

fn seed_of_environment() -> Option<u64> {
    std::env::var("HIGHWATER_SEED").ok()?.parse().ok()
}
