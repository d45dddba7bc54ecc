//! One broker's machine: its disk, its clock, and the process on it with its shard, its jobs and its connections.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::checkpoint::{HIGH_WATERMARKS, OffsetCheckpoint, RECOVERY_POINTS, decode_offsets};
use highwater_engine::disk::simulated::Completing;
use highwater_engine::disk::{Disk, SimulatedDisk};
use highwater_engine::log::{LogConfig, LogId};
use highwater_engine::store::{Job, JobDone, Opened, Store, StoreConfig};
use highwater_engine::units::{NodeId, TopicPartition};
use highwater_replication::partition::PartitionConfig;
use highwater_replication::pending::ReplyOrder;
use highwater_replication::shard::{ControllerCallId, Event, Lane, Shard, ShardConfig};

use super::World;
use super::agenda::{Happening, Incarnation, Moment};
use super::faults::Doom;

pub(super) const DIRECTORY: &str = "/data";
/// Requests of one connection that may be open at once.
const OPEN_REQUESTS_MAX: usize = 100;

/// See the module's documentation.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not the states of one thing")]
pub(crate) struct Node {
    pub(crate) disk: SimulatedDisk,
    pub(crate) life: Incarnation,
    process: Option<Box<Process>>,
    /// What the monotonic clock is ahead of the world's.
    pub(crate) clock_ahead: Duration,
    /// What the wall clock is ahead of the world's.
    pub(crate) skew_ms: i64,
    /// Operations in flight do not complete.
    pub(crate) disk_is_stuck: bool,
    /// So many times slower than other disks.
    pub(crate) disk_slowness: u32,
    pub(crate) completing: bool,
    /// What the crash at a planned call of the disk will be.
    pub(crate) doom: Option<Doom>,
    /// A supervisor is about to start a process.
    start_is_planned: bool,
    /// It stays down until somebody starts it.
    pub(crate) is_kept_down: bool,
}

/// A process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) shard: Shard,
    pub(crate) order: ReplyOrder<Bytes>,
    pub(crate) jobs: BTreeMap<u64, Job>,
    pub(crate) next_job: u64,
    pub(crate) lanes: BTreeMap<Lane, u64>,
    /// Calls to the controller that have no answer yet.
    pub(crate) calls: BTreeSet<ControllerCallId>,
    pub(crate) paused: bool,
    /// What happened to it while it was paused.
    pub(crate) waiting: Vec<Happening>,
    turn_at: Option<Moment>,
}

impl Node {
    pub(crate) fn new(seed: u64) -> Self {
        let disk = SimulatedDisk::new(seed);
        disk.set_completing(Completing::WhenTold);
        disk.set_cold_percent(5);
        Self {
            disk,
            life: 0,
            process: None,
            clock_ahead: Duration::ZERO,
            skew_ms: 0,
            disk_is_stuck: false,
            disk_slowness: 1,
            completing: false,
            doom: None,
            start_is_planned: false,
            is_kept_down: false,
        }
    }

    pub(crate) fn process(&self) -> Option<&Process> {
        self.process.as_deref()
    }

    pub(crate) fn process_mut(&mut self) -> Option<&mut Process> {
        self.process.as_deref_mut()
    }

    pub(crate) fn take_process(&mut self) -> Option<Box<Process>> {
        self.process.take()
    }

    /// The process number that it shows.
    pub(crate) fn process_number(&self) -> u32 {
        u32::try_from(self.life).unwrap_or(u32::MAX)
    }
}

impl World {
    pub(crate) fn node(&self, node: NodeId) -> &Node {
        self.nodes.get(&node).unwrap_or_else(|| panic!("there is no node {node}"))
    }

    pub(crate) fn node_mut(&mut self, node: NodeId) -> &mut Node {
        self.nodes.get_mut(&node).unwrap_or_else(|| panic!("there is no node {node}"))
    }

    pub(crate) fn process_of(&mut self, node: NodeId, life: Incarnation) -> Option<&mut Process> {
        self.nodes.get_mut(&node).filter(|node| node.life == life)?.process_mut()
    }

    /// Starts a process over what its disk has.
    pub(crate) fn start(&mut self, id: NodeId) {
        self.node_mut(id).start_is_planned = false;
        if self.node(id).process().is_some() || self.node(id).is_kept_down {
            return;
        }
        let ahead = self.some(Duration::from_secs(100));
        let seed = self.chance.u64(..);
        let node = self.node_mut(id);
        node.life += 1;
        node.clock_ahead = ahead;
        (node.completing, node.disk_is_stuck) = (false, false);
        let (life, disk) = (node.life, node.disk.clone());
        let now = self.now_at(id);
        disk.set_time_ms(now.wall.millis());
        let config = self.store_config(seed);
        let opened = Store::open(Arc::new(disk.clone()) as Arc<dyn Disk>, Path::new(DIRECTORY), config, now);
        if disk.is_down() {
            self.note(format!("{id} crashes while it opens its directory"));
            self.count("crashes while opening");
            return self.meet_doom(id);
        }
        let Opened { store, report } = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.note(format!("{id} cannot open its directory: {error}"));
                self.count("failed openings");
                return self.start_again_later(id);
            }
        };
        let words: Vec<String> = report
            .logs
            .iter()
            .map(|log| {
                format!(
                    "{} {}..{}{}",
                    log.name,
                    log.start,
                    log.end,
                    if log.suspect { " suspect" } else { "" }
                )
            })
            .collect();
        self.note(format!("{id} starts: {:?}, {:?}, {}", report.stop, report.machine, words.join(", ")));
        if report.logs.iter().any(|log| log.hole) {
            self.count("openings with a hole");
        }
        let shard = Shard::new(store, &report, self.shard_config(id), self.options.rules, seed, now);
        self.ghost.opened(id, life, &shard, now);
        let process = Process {
            shard,
            order: ReplyOrder::new(OPEN_REQUESTS_MAX),
            jobs: BTreeMap::new(),
            next_job: 0,
            lanes: BTreeMap::new(),
            calls: BTreeSet::new(),
            paused: false,
            waiting: Vec::new(),
            turn_at: None,
        };
        self.node_mut(id).process = Some(Box::new(process));
        self.wake(id);
    }

    fn store_config(&self, seed: u64) -> StoreConfig {
        let mut config = StoreConfig::default();
        config.log = self.log_config();
        config.dirty_age_max = Duration::from_millis(700);
        config.checkpoint_interval = Duration::from_millis(900);
        config.seed = seed;
        config.rules = self.options.engine;
        config
    }

    fn log_config(&self) -> LogConfig {
        let mut config = LogConfig::default();
        config.segment_bytes_max = self.options.segment_bytes;
        config.index_interval_bytes = 512;
        config
    }

    fn shard_config(&self, id: NodeId) -> ShardConfig {
        ShardConfig {
            node: id,
            cluster_id: None,
            last_session: None,
            directory_id: None,
            host: format!("node-{id}"),
            port: 9092,
            process: Some(self.node(id).process_number()),
            log: self.log_config(),
            partition: PartitionConfig {
                lag_max: self.options.lag_max,
                fetch_backoff_max: Duration::from_millis(200),
                isr_retry: Duration::from_millis(100),
                ..PartitionConfig::default()
            },
            batch: highwater_engine::batch::BatchLimits::default(),
            fetch_partition_bytes_max: 64 << 10,
            fetch_bytes_max: 256 << 10,
            fetch_wait_max: Duration::from_millis(300),
            response_bytes_max: 1 << 20,
            catch_up_bytes_per_turn: 64 << 10,
            high_watermark_interval: self.options.high_watermark_interval,
            retention_interval: Duration::from_secs(60),
            compaction_interval: Duration::from_secs(15),
            compaction_bytes_per_second: None,
            peer_timeout: Duration::from_millis(800),
        }
    }

    /// A process has something to do.
    pub(crate) fn wake(&mut self, id: NodeId) {
        let wait = self.some(Duration::from_micros(50));
        self.turn_no_later(id, self.now.after(wait));
    }

    fn turn_no_later(&mut self, id: NodeId, at: Moment) {
        let life = self.node(id).life;
        let Some(process) = self.process_of(id, life) else { return };
        if process.turn_at.is_some_and(|planned| planned <= at) {
            return;
        }
        process.turn_at = Some(at);
        self.agenda.plan(at, Happening::Turn(id, life));
    }

    pub(crate) fn turn(&mut self, id: NodeId, life: Incarnation) {
        let (world_now, now) = (self.now, self.now_at(id));
        let Some(process) = self.process_of(id, life) else { return };
        if process.turn_at.is_none_or(|planned| planned > world_now) {
            return;
        }
        process.turn_at = None;
        let outs = process.shard.turn(now);
        if self.node(id).disk.is_down() {
            return self.meet_doom(id);
        }
        self.look(id);
        for out in outs {
            self.carry_out(id, life, out);
        }
        self.plan_next_turn(id, life);
    }

    /// Checks what must be true of a process and its logs, and sees to it that its disk goes on.
    pub(crate) fn look(&mut self, id: NodeId) {
        let now = self.now_at(id);
        if let Some(process) = self.nodes.get(&id).and_then(Node::process) {
            self.ghost.observe(id, &process.shard, now);
            let checkpoint = self.offsets_in(id, HIGH_WATERMARKS);
            self.ghost.check_growth(id, &checkpoint);
        }
        self.keep_disk_going(id);
    }

    fn plan_next_turn(&mut self, id: NodeId, life: Incarnation) {
        let ahead = self.node(id).clock_ahead;
        let Some(process) = self.process_of(id, life) else { return };
        let Some(deadline) = process.shard.next_deadline() else { return };
        let since_start = deadline.since_start().saturating_sub(ahead);
        // Rounded up: a turn before the deadline finds nothing to do and would come again at once.
        let micros = u64::try_from(since_start.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX);
        let at = Moment(micros.max(self.now.0 + 1));
        self.turn_no_later(id, at);
    }

    /// The disk has operations in flight: one of them completes, some time.
    pub(crate) fn keep_disk_going(&mut self, id: NodeId) {
        let latency = self.options.disk_latency_max;
        let node = self.node_mut(id);
        if node.completing || node.disk_is_stuck || node.disk.uncompleted() == 0 {
            return;
        }
        node.completing = true;
        let (life, slowness) = (node.life, node.disk_slowness);
        let wait = self.some(latency).saturating_mul(slowness);
        self.plan_in(wait, Happening::DiskCompletes(id, life));
    }

    pub(crate) fn disk_completes(&mut self, id: NodeId, life: Incarnation) {
        let mut chance = self.chance.fork();
        let node = self.node_mut(id);
        if node.life != life {
            return;
        }
        node.completing = false;
        if node.disk_is_stuck {
            return;
        }
        node.disk.complete_next(&mut chance);
        self.keep_disk_going(id);
        self.wake(id);
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other jobs need no looking after")]
    pub(crate) fn run_job(&mut self, id: NodeId, life: Incarnation, number: u64) {
        let Some(process) = self.process_of(id, life) else { return };
        let Some(job) = process.jobs.remove(&number) else { return };
        let store = process.shard.store().clone();
        let checkpoint = match &job {
            Job::OffsetCheckpoint { entries, .. } => entries.clone(),
            _ => Vec::new(),
        };
        let cut = match &job {
            Job::Truncate { log, to } => Some((*log, to.value())),
            Job::RestartAt { log, .. } => Some((*log, 0)),
            _ => None,
        };
        if let Some((log, to)) = cut
            && let Some(name) = name_of(&store, log)
        {
            self.ghost.cutting(id, &name, to);
        }
        let done = job.run(&store);
        if self.node(id).disk.is_down() {
            self.note(format!("{id} crashes in a job"));
            self.count("crashes in a job");
            return self.meet_doom(id);
        }
        for (name, offset) in checkpoint {
            // It may still name a log of a topic that was deleted and made again.
            if store.log(&name).is_some_and(|log| !self.ghost.is_of_now(&log)) {
                continue;
            }
            self.ghost.check_checkpoint(id, &name, offset.value());
        }
        if matches!(done, JobDone::Checkpointed) {
            self.check_recovery_points(id, &store);
        }
        self.note_done(id, &store, &done);
        if let Some(process) = self.process_of(id, life) {
            process.shard.tell(Event::JobDone(done));
        }
        self.look(id);
        self.wake(id);
    }

    /// What an offset checkpoint says, if it can be read.
    pub(super) fn offsets_in(&self, id: NodeId, file: &str) -> OffsetCheckpoint {
        let contents = self.node(id).disk.contents(&Path::new(DIRECTORY).join(file)).unwrap_or_default();
        decode_offsets(&contents).known().unwrap_or_default()
    }

    /// What was written down as synced is.
    fn check_recovery_points(&mut self, id: NodeId, store: &Store) {
        for (name, point) in self.offsets_in(id, RECOVERY_POINTS) {
            if let Some(log) = store.log(&name) {
                self.ghost.check_recovery_point(id, &name, point.value(), log.durable().value());
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other jobs change nothing that is looked at")]
    fn note_done(&mut self, id: NodeId, store: &Store, done: &JobDone) {
        match done {
            JobDone::Truncated { log, end } => {
                if let Some(name) = name_of(store, *log) {
                    self.note(format!("{id} cut {name} to {end}"));
                    self.count("cuts");
                    self.ghost.truncated(id, &name, end.value());
                }
            }
            JobDone::RestartedAt { log, offset } => {
                if let Some(name) = name_of(store, *log) {
                    self.note(format!("{id} began {name} again at {offset}"));
                    self.count("logs begun again");
                    self.ghost.restarted_at(id, &name, offset.value());
                }
            }
            JobDone::Repaired { log, offsets, .. } => {
                if let Some(name) = name_of(store, *log) {
                    self.note(format!("{id} repaired {name} at {offsets}"));
                    self.count("repaired ranges");
                    self.ghost.healed(id, &name, (offsets.start().value(), offsets.end().value()));
                }
            }
            JobDone::Failed { kind, error, log } => {
                if let Some(name) = log.and_then(|log| name_of(store, log)) {
                    self.ghost.cut_failed(id, &name);
                }
                self.note(format!("{id} could not do {kind:?}: {error}"));
                self.count("failed jobs");
            }
            _ => {}
        }
    }

    pub(crate) fn start_again_later(&mut self, id: NodeId) {
        if let Some(wait) = self.options.restart_after
            && !std::mem::replace(&mut self.node_mut(id).start_is_planned, true)
        {
            let wait = self.some(wait);
            self.plan_in(wait, Happening::Start(id));
        }
    }
}

fn name_of(store: &Store, log: LogId) -> Option<TopicPartition> {
    store.logs().into_iter().find(|known| known.id() == log).map(|known| known.name().clone())
}
