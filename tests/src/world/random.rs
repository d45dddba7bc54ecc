//! Random runs: a safety phase in which anything goes wrong, then everything is healed and the liveness phase begins, in which everybody
//! has to come to rest. The seed decides all of it.

use std::collections::BTreeMap;
use std::time::Duration;

use highwater_engine::disk::simulated::{Fault, Unsynced};
use highwater_engine::units::NodeId;
use highwater_replication::controller::{ControllerCall, ControllerRequest, Election, FactorRule};

use super::agenda::{Happening, Moment};
use super::controller::Caller;
use super::faults::Doom;
use super::network::End;
use super::{A, B, C, Options, ProducerOptions, TopicOptions, World};
use crate::invariants::Violation;

/// What a random run is like.
#[derive(Clone, Debug)]
pub struct RandomOptions {
    /// How long things go wrong.
    pub chaos: Duration,
    /// How long everything may take to come to rest behind it.
    pub rest: Duration,
    /// Whether machines lose their power.
    pub power: bool,
    /// Whether disks fail, and are exchanged or let bytes change.
    pub disks: bool,
    /// What strikes whom, a byte for each time, as a fuzzer chooses it; behind its end the seed does.
    pub strikes: Vec<u8>,
    /// How the world is made.
    pub world: Options,
    /// Other invariants than these stop nothing; all, if empty.
    pub only: Vec<u8>,
}

impl Default for RandomOptions {
    fn default() -> Self {
        Self {
            chaos: Duration::from_secs(6),
            rest: Duration::from_secs(30),
            power: true,
            disks: true,
            strikes: Vec::new(),
            world: Options { restart_after: Some(Duration::from_millis(800)), ..Options::default() },
            only: Vec::new(),
        }
    }
}

/// What came of a random run.
#[derive(Debug)]
pub struct Outcome {
    /// What was found first.
    pub violation: Option<Violation>,
    /// The seed and the last steps in words.
    pub report: String,
    /// How often the rare has happened.
    pub counts: BTreeMap<&'static str, u64>,
}

/// Faults that are under way.
#[derive(Debug)]
pub(crate) struct Chaos {
    until: Moment,
    power: bool,
    disks: bool,
    /// Bytes change at rest, and no disk is exchanged: both together may leave a record nowhere.
    rot: bool,
    /// The longest time between two faults.
    pace: Duration,
    /// What is chosen already.
    strikes: std::vec::IntoIter<u8>,
}

/// How many kinds of strikes there are, the likely ones counted several times.
const STRIKES: u8 = 22;

/// One random run.
pub fn random(seed: u64, options: &RandomOptions) -> Outcome {
    let mut dice = fastrand::Rng::with_seed(seed ^ 0x5eed_0f0c_4a05);
    let mut config = options.world.clone();
    config.ends_are_seen = dice.u8(..4) > 0;
    config.latency_max = Duration::from_micros(dice.u64(200..8_000));
    config.disk_latency_max = Duration::from_micros(dice.u64(50..3_000));
    let mut world = World::new(seed, config);
    world.watch();
    populate(&mut world, &mut dice);
    let end = world.now.after(options.chaos);
    let pace = Duration::from_millis(dice.u64(50..600));
    let rot = options.disks && dice.u8(..3) == 0;
    let strikes = options.strikes.clone().into_iter();
    world.chaos = Some(Chaos { until: end, power: options.power, disks: options.disks, rot, pace, strikes });
    world.plan_soon(Happening::Chaos);
    let stops = |world: &World| {
        world.found.iter().any(|seen| options.only.is_empty() || options.only.contains(&seen.invariant))
    };
    while !stops(&world) && world.step(end) {}
    if !stops(&world) {
        world.chaos = None;
        world.heal_everything();
        come_to_rest(&mut world, options, stops);
    }
    let violation = world
        .found
        .iter()
        .find(|seen| options.only.is_empty() || options.only.contains(&seen.invariant))
        .cloned();
    for node in world.options.nodes.clone() {
        let counters = world.node(node).disk.counters();
        for (what, count) in [
            ("holes on disk", counters.holes),
            ("torn pages", counters.torn_pages),
            ("reordered pages", counters.reorderings),
            ("lost names", counters.lost_names),
            ("overtaking completions", counters.overtakings),
            ("interrupted writes", counters.interrupted_writes),
        ] {
            for _ in 0..count.min(1_000) {
                world.count(what);
            }
        }
    }
    for _ in 0..world.ghost.producers_that_began_late() {
        world.count("producers whose second batch came first");
    }
    Outcome { violation, report: world.report(), counts: world.counts().clone() }
}

fn populate(world: &mut World, dice: &mut fastrand::Rng) {
    let written = TopicOptions { assignment: vec![vec![A, B, C], vec![B, C, A]], ..TopicOptions::default() };
    let durable = TopicOptions {
        name: "ledger",
        durability: "fsync",
        assignment: vec![vec![C, A, B]],
        ..TopicOptions::default()
    };
    let mut partitions = world.topic(&written);
    partitions.extend(world.topic(&durable));
    let every = |dice: &mut fastrand::Rng| Some(Duration::from_millis(dice.u64(10..80)));
    for partition in &partitions {
        world.producer(partition, ProducerOptions { every: every(dice), ..ProducerOptions::default() });
        world.consumer(partition);
    }
    for acks in [-1, 1, 0] {
        let partition = partitions[dice.usize(..partitions.len())].clone();
        let options = ProducerOptions {
            acks,
            idempotent: false,
            every: every(dice),
            in_flight_max: 1,
            ..ProducerOptions::default()
        };
        world.producer(&partition, options);
    }
}

fn come_to_rest(world: &mut World, options: &RandomOptions, stops: impl Fn(&World) -> bool) {
    for producer in world.clients.producers.values_mut() {
        producer.stop_producing();
    }
    let end = world.now.after(options.rest);
    let rests = |world: &World| {
        world.clients.producers.values().all(super::producer::Producer::is_quiet)
            && world.partitions.iter().all(|name| world.ghost.unrest(name).is_none())
    };
    // What fails in a healed world is started again, so that rest is asked for again and again.
    let mut ask_at = world.now;
    loop {
        if stops(world) {
            return;
        }
        if world.now >= ask_at {
            if rests(world) && world.all_logs_can_be_read() {
                return;
            }
            ask_at = world.now.after(Duration::from_millis(100));
        }
        if !world.step(end) {
            break;
        }
    }
    let partitions = world.partitions.clone();
    let unrest = partitions.iter().find_map(|name| world.ghost.unrest(name));
    let otherwise = || "a producer waits for its answer, or a log cannot be read".to_owned();
    world.ghost.unrested(unrest.unwrap_or_else(otherwise));
    world.take_violations();
}

impl World {
    pub(super) fn chaos_strikes(&mut self) {
        let Some(chaos) = &mut self.chaos else { return };
        if self.now >= chaos.until {
            return;
        }
        let (power, disks, rot, pace) = (chaos.power, chaos.disks, chaos.rot, chaos.pace);
        let (whom, what) = match chaos.strikes.next() {
            Some(chosen) => (usize::from(chosen / STRIKES), chosen % STRIKES),
            None => (self.chance.usize(..self.options.nodes.len()), self.chance.u8(..STRIKES)),
        };
        let node = self.options.nodes[whom % self.options.nodes.len()];
        match what {
            0..=2 => self.kill(node),
            3 | 4 if power => {
                let unsynced = self.any_loss();
                self.power_loss_that(node, unsynced);
            }
            5 => self.doom_somebody(node, power),
            6 => self.pause_for_a_while(node),
            7..=9 => self.part_for_a_while(node),
            10 => {
                let times = self.chance.u32(2..300);
                self.slow_disk(node, times);
            }
            11 => self.stick_for_a_while(node),
            12 => {
                let by = Duration::from_secs(self.chance.u64(1..400_000_000));
                let backwards = self.chance.bool();
                self.jump_clock(node, by, backwards);
            }
            13 => self.strike_controller(),
            14 => self.stop_cleanly(node),
            15 | 16 => self.order_election(node),
            17 if disks => self.break_disk(node, rot),
            18 if rot => self.rot_somewhere(node),
            // What is damaged on each of fewer replicas may be nowhere whole.
            20 | 21 if !rot => self.order_reassignment(),
            _ => self.undo_something(node),
        }
        let wait = self.some(pace);
        self.plan_in(wait, Happening::Chaos);
    }

    fn any_node(&mut self) -> NodeId {
        let at = self.chance.usize(..self.options.nodes.len());
        self.options.nodes[at]
    }

    fn any_loss(&mut self) -> Unsynced {
        match self.chance.u8(..4) {
            0 => Unsynced::Lost,
            1 => Unsynced::Kept,
            _ => Unsynced::Chosen,
        }
    }

    fn doom_somebody(&mut self, node: NodeId, power: bool) {
        let calls = self.chance.u64(..40);
        let unsynced = self.any_loss();
        let doom = if power && self.chance.bool() { Doom::Power(unsynced) } else { Doom::Kill };
        self.note(format!("{node} will crash {calls} calls of its disk later: {doom:?}"));
        self.doom(node, doom, calls);
    }

    fn pause_for_a_while(&mut self, node: NodeId) {
        self.pause(node);
    }

    fn part_for_a_while(&mut self, node: NodeId) {
        let other = match self.chance.u8(..3) {
            0 => End::Controller,
            _ => End::Node(self.any_node()),
        };
        if other == End::Node(node) {
            return;
        }
        match self.chance.u8(..4) {
            0 => self.cut(node, other),
            1 => self.cut_one_way(node, other),
            2 => self.cut_one_way(other, node),
            _ => {
                self.count("links held");
                self.hold(node, other);
            }
        }
    }

    fn stick_for_a_while(&mut self, node: NodeId) {
        self.stick_disk(node);
    }

    fn strike_controller(&mut self) {
        match self.chance.u8(..3) {
            0 => self.controller_crashes(None),
            1 => {
                let unsynced = self.any_loss();
                self.controller_crashes(Some(unsynced));
            }
            _ => {
                let calls = self.chance.u64(..20);
                self.doom_controller(calls);
            }
        }
    }

    fn order_election(&mut self, node: NodeId) {
        let at = self.chance.usize(..self.partitions.len());
        let partition = self.partitions[at].clone();
        self.note(format!("the operator wants {node} to lead {partition}"));
        let request = ControllerRequest::Elect { partition, election: Election::To(node) };
        self.tell_controller(Caller::Operator, ControllerCall { sender: None, request });
    }

    /// A partition is to lie on two or three of the nodes, or that is cancelled.
    fn order_reassignment(&mut self) {
        let at = self.chance.usize(..self.partitions.len());
        let partition = self.partitions[at].clone();
        let mut nodes = self.options.nodes.clone();
        for last in (1..nodes.len()).rev() {
            nodes.swap(last, self.chance.usize(..=last));
        }
        nodes.truncate(self.chance.usize(2..=3));
        let replicas = Some(nodes).filter(|_| self.chance.u8(..4) > 0);
        self.note(format!("the operator wants {partition} to lie on {replicas:?}"));
        let request = ControllerRequest::Reassign { partition, replicas, factor: FactorRule::MayChange };
        self.tell_controller(Caller::Operator, ControllerCall { sender: None, request });
    }

    fn break_disk(&mut self, node: NodeId, rot: bool) {
        let after = self.chance.u64(..20);
        match self.chance.u8(..8) {
            0 if rot => self.rot_somewhere(node),
            0 => self.replace_disk(node),
            1..=3 => self.fail_disk_call(node, after, Fault::Io),
            4 | 5 => self.fail_disk_call(node, after, Fault::NoSpace),
            _ => self.fail_disk_call(node, after, Fault::ShortWrite),
        }
    }

    /// One of the things that last is over.
    fn undo_something(&mut self, node: NodeId) {
        match self.chance.u8(..4) {
            0 => self.resume(node),
            1 => {
                self.node_mut(node).disk_slowness = 1;
                self.free_disk(node);
            }
            _ => {
                self.note("all links are whole".to_owned());
                for happening in self.network.open_all() {
                    self.agenda.plan(self.now, happening);
                }
            }
        }
    }
}
