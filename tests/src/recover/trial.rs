//! The hands of a trial: a store on a simulated disk and the models of its logs, told the same and compared after every step.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use highwater_engine::Rules;
use highwater_engine::disk::simulated::{Fate, Fault, Interruption, SimulatedCounters, Unsynced};
use highwater_engine::disk::{Disk, SimulatedDisk};
use highwater_engine::log::{Log, LogConfig};
use highwater_engine::store::{ReadOnlyLog, Store, StoreConfig, TurnReport};
use highwater_engine::units::{Monotonic, Now, Timestamp, TopicPartition};

use super::doors::{Door, asked, told};
use super::files::check_files;
use super::model::{Ending, Model};
use super::open::epochs;
use super::several::{Watermarks, name_of};
use super::step::Step;
use super::tickets::Held;

const DIRECTORY: &str = "/data";
const STORY_STEPS: usize = 60;

/// What went wrong, and the steps that led there.
#[derive(Clone, Debug)]
pub struct Violation {
    /// What does not hold.
    pub what: String,
    /// The last steps, in words, the oldest first.
    pub story: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.story {
            writeln!(f, "  {line}")?;
        }
        write!(f, "{}", self.what)
    }
}

/// Whether everything holds; if not, what does not.
pub(super) type Verdict = Result<(), String>;

/// The settings of a trial.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Of the log.
    pub log: LogConfig,
    /// Of the engine.
    pub rules: Rules,
    /// How many files of segments may be open; with a bound the disk loses what is closed before it is synced.
    pub open_files_max: Option<usize>,
    /// Which breadths are drawn.
    pub breadth: Breadths,
}

/// How broad trials are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Breadths {
    /// Some go through everything; most have one log and what becomes of its records.
    #[default]
    Drawn,
    /// One log, and what becomes of its records.
    OneLog,
}

impl Default for Setting {
    fn default() -> Self {
        let mut log = LogConfig::default();
        log.segment_bytes_max = 8_192;
        log.index_interval_bytes = 300;
        log.retention_bytes = Some(30_000);
        log.retention_age = None;
        Self { log, rules: Rules::default(), open_files_max: None, breadth: Breadths::Drawn }
    }
}

/// A store that is open, and its log.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) store: Store,
    pub(super) log: Log,
}

/// What becomes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {
    /// The crash comes in it.
    Crash {
        /// Its number.
        call: u64,
        /// What becomes of it.
        interruption: Interruption,
    },
    /// It fails.
    Failure {
        /// Its number.
        call: u64,
        /// How.
        fault: Fault,
    },
}

impl Planned {
    fn call(self) -> u64 {
        match self {
            Self::Crash { call, .. } | Self::Failure { call, .. } => call,
        }
    }
}

/// A log that steps are not about at the moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    pub(super) model: Model,
    pub(super) number: i32,
    pub(super) is_made: bool,
    pub(super) tickets: Vec<Held>,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Trial {
    pub(super) disk: SimulatedDisk,
    /// Where nothing fails, in place of the simulated disk.
    pub(super) other_disk: Option<Arc<dyn Disk>>,
    pub(super) directory: PathBuf,
    pub(super) model: Model,
    /// The number of the log's partition.
    pub(super) number: i32,
    /// The tickets that were given out for it in this life, the newest last.
    pub(super) tickets: Vec<Held>,
    /// The other logs of the directory.
    pub(super) others: Vec<Slot>,
    /// Somebody who looks at the log, without opening the directory.
    pub(super) looker: Option<ReadOnlyLog>,
    /// What the driver told last.
    pub(super) turned: TurnReport,
    /// What the checkpoint of high watermarks may say.
    pub(super) watermarks: Watermarks,
    pub(super) setting: Setting,
    pub(super) open: Option<Open>,
    pub(super) now_ms: i64,
    pub(super) tags: u64,
    /// How the last life ended.
    pub(super) ending: Ending,
    /// Whether the log was made for certain.
    pub(super) is_made: bool,
    /// Whether this boot is written down: then nothing that was written can be gone.
    pub(super) is_confirmed: Option<bool>,
    /// Whether the mark of a clean stop may be there although the stop did not succeed, or be gone although it did.
    pub(super) is_mark_uncertain: bool,
    /// Whether a call was made to fail, or the medium is full: then steps may be refused.
    pub(super) trouble: bool,
    /// The number of the last call that will fail.
    last_fault: u64,
    /// What is to become of one call.
    planned: Option<Planned>,
    story: VecDeque<String>,
}

impl Trial {
    /// Begins on an empty disk.
    pub fn new(disk: SimulatedDisk, setting: Setting) -> Self {
        Self {
            disk,
            other_disk: None,
            directory: PathBuf::from(DIRECTORY),
            model: Model::default(),
            number: 0,
            tickets: Vec::new(),
            others: Vec::new(),
            looker: None,
            turned: TurnReport::default(),
            watermarks: Watermarks::default(),
            setting,
            open: None,
            now_ms: 1_000_000,
            tags: 0,
            ending: Ending::Kill,
            is_made: false,
            is_confirmed: Some(false),
            is_mark_uncertain: false,
            trouble: false,
            last_fault: 0,
            planned: None,
            story: VecDeque::new(),
        }
    }

    /// Begins in an empty directory of any disk, where nothing is made to fail.
    pub fn on(disk: Arc<dyn Disk>, directory: &Path, setting: Setting) -> Self {
        let trial = Self::new(SimulatedDisk::new(0), setting);
        Self { other_disk: Some(disk), directory: directory.to_owned(), is_confirmed: None, ..trial }
    }

    /// The time of this moment, in milliseconds.
    pub fn time_ms(&self) -> i64 {
        self.now_ms
    }

    /// The disk of this moment.
    pub fn disk(&self) -> &SimulatedDisk {
        &self.disk
    }

    /// The model of this moment.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What the disk has done so far.
    pub fn counters(&self) -> SimulatedCounters {
        self.disk.counters()
    }

    /// Adds a line to the story.
    pub(super) fn tell(&mut self, line: impl Into<String>) {
        if self.story.len() == STORY_STEPS {
            self.story.pop_front();
        }
        self.story.push_back(line.into());
    }

    /// The violation, with the story so far.
    pub(super) fn violation(&self, what: String) -> Violation {
        Violation { what, story: self.story.iter().cloned().collect() }
    }

    /// Lets the call of this number, counted from now, fail once.
    pub fn fail(&mut self, calls: u64, fault: Fault) {
        self.trouble = true;
        self.tell(format!("(call {calls} from here on fails: {fault:?})"));
        let call = self.disk.next_call() + calls;
        self.last_fault = self.last_fault.max(call);
        self.disk.fail_call(call, fault);
    }

    /// Lets the crash come at the call of this number, counted from now.
    pub fn crash_at(&mut self, calls: u64) {
        self.tell(format!("(the crash comes at call {calls} from here)"));
        self.disk.crash_at(self.disk.next_call() + calls);
    }

    /// Lets the call of this number, of all there were, crash or fail, in whatever life it comes; but not while things are only looked at.
    pub fn plan(&mut self, planned: Planned) {
        self.tell(format!("({planned:?})"));
        self.planned = Some(planned);
        self.arm();
    }

    /// What is planned and has not come yet is told to the disk, which forgets it with each life.
    pub(super) fn arm(&mut self) {
        match self.planned.filter(|planned| planned.call() >= self.disk.next_call()) {
            Some(Planned::Crash { call, interruption }) => self.disk.crash_in(call, interruption),
            Some(Planned::Failure { call, fault }) => {
                self.trouble = true;
                self.disk.fail_call(call, fault);
            }
            None => {}
        }
    }

    /// Whether the crash has come.
    pub fn is_down(&self) -> bool {
        self.disk.is_down()
    }

    /// Whether a log is there to work with.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    pub(super) fn now(&self) -> Now {
        Now {
            monotonic: Monotonic::from_duration(Duration::from_millis(self.now_ms.unsigned_abs())),
            wall: Timestamp::from_millis(self.now_ms),
        }
    }

    /// The process is killed.
    pub fn kill(&mut self, rng: &mut Rng) {
        self.tell("-- killed");
        self.drop_store();
        self.disk = self.disk.crash_kill(rng);
        self.settle();
    }

    /// From here on nothing fails.
    pub(super) fn settle(&mut self) {
        self.disk.crash_at(u64::MAX);
        self.disk.set_capacity(None);
        while self.disk.next_call() <= self.last_fault {
            drop(self.disk.list(Path::new("/")));
        }
        self.last_fault = 0;
        self.disk.fail_no_more();
        self.trouble = false;
    }

    /// The machine loses its power.
    pub fn lose_power(&mut self, unsynced: Unsynced, rng: &mut Rng) {
        self.tell(format!("-- power lost, unsynced: {unsynced:?}"));
        let was_clean = self.ending == Ending::Clean && self.open.is_none();
        self.drop_store();
        self.disk = self.disk.crash_power(unsynced, rng);
        self.note_power_loss(was_clean);
    }

    /// The machine loses its power, and these are the fates of what is not synced; see [`SimulatedDisk::crash_power_as`].
    pub fn lose_power_as(&mut self, fates: &[Fate]) {
        self.tell("-- power lost, as was decided");
        let was_clean = self.ending == Ending::Clean && self.open.is_none();
        self.drop_store();
        self.disk = self.disk.crash_power_as(fates);
        self.note_power_loss(was_clean);
    }

    fn note_power_loss(&mut self, was_clean: bool) {
        if !was_clean {
            self.ending = Ending::Power;
            for model in self.models_mut() {
                model.written = model.durable;
            }
        }
        self.is_confirmed = Some(false);
        self.settle();
    }

    /// The store goes without being closed; the disk stays as it is.
    pub(super) fn drop_store(&mut self) {
        self.looker = None;
        if let Some(open) = self.open.take() {
            self.note_failure(&open.store);
            self.ending = Ending::Kill;
        }
    }

    /// A directory that has failed has withdrawn its proof, unless the crash or another failure came before that.
    fn note_failure(&mut self, store: &Store) {
        if told(Door::StoreFailure, store.failure()).is_some() {
            let is_certain = !self.disk.is_down() && self.disk.next_call() > self.last_fault;
            self.is_confirmed = is_certain.then_some(false);
        }
    }

    pub(super) fn any_disk(&self) -> Arc<dyn Disk> {
        self.other_disk.clone().unwrap_or_else(|| Arc::new(self.disk.clone()))
    }

    /// The files against the model; see [`check_files`].
    pub(super) fn check_files(&self, model: &Model, is_at_rest: bool) -> Verdict {
        if model.damaged.is_some() || !self.is_made {
            return Ok(());
        }
        // A copy, so that looking is no call of the trial's. A failure that was meant for the trial comes at most once.
        let copy = self.disk.fork(0);
        copy.crash_at(u64::MAX);
        let disk = self.other_disk.clone().unwrap_or_else(|| Arc::new(copy));
        let directory = self.log_directory();
        let looked = check_files(disk.as_ref(), &directory, model, is_at_rest);
        let looked = looked.or_else(|_| check_files(disk.as_ref(), &directory, model, is_at_rest));
        looked.map_err(|error| format!("looking at the files: {error}"))?
    }

    /// The log's name.
    pub(super) fn name(&self) -> TopicPartition {
        name_of(self.number)
    }

    /// Where its files are.
    pub(super) fn log_directory(&self) -> PathBuf {
        self.directory.join(self.name().to_string())
    }

    /// A trial that goes its own way from here, on a copy of the disk. Nothing is open in it.
    pub fn fork(&self, seed: u64) -> Self {
        Self {
            disk: self.disk.fork(seed),
            other_disk: None,
            directory: self.directory.clone(),
            model: self.model.clone(),
            tickets: Vec::new(),
            others: self.others.clone(),
            looker: None,
            turned: TurnReport::default(),
            watermarks: self.watermarks.clone(),
            setting: self.setting.clone(),
            open: None,
            planned: None,
            story: self.story.clone(),
            ..*self
        }
    }

    pub(super) fn store_config(&self) -> StoreConfig {
        let mut config = StoreConfig::default();
        config.log = self.setting.log.clone();
        config.rules = self.setting.rules;
        config.open_files_max = self.setting.open_files_max;
        config.mapped_indexes_max = self.setting.open_files_max.unwrap_or(100);
        // Small, so that it is given back and taken again.
        config.reserve_bytes = Some(32 << 10);
        // Small, so that readers are sent to the files.
        config.tail_bytes_max = 5_000;
        config
    }

    /// Those who must know of lost records have been told.
    pub fn confirm(&mut self) {
        let Some(open) = &self.open else { return };
        let confirmed = asked(Door::StoreConfirmIncarnation, open.store.confirm_incarnation());
        self.is_confirmed = confirmed.is_ok().then_some(true);
    }

    /// An error is right only where something was made to fail.
    pub(super) fn excuse(&mut self, what: &str) -> Verdict {
        if self.disk.is_down() || self.trouble {
            self.tell(format!("  {what}"));
            return Ok(());
        }
        Err(what.to_owned())
    }

    /// Does one step, and compares.
    pub fn apply(&mut self, step: &Step) -> Result<(), Violation> {
        self.tell(step.to_string());
        let done = self.perform(step).and_then(|()| {
            let store = self.open.as_ref().map(|open| open.store.clone());
            self.each_log(store.as_ref(), Self::look)
        });
        done.map_err(|what| self.violation(what))
    }

    /// What holds at every moment.
    pub(super) fn look(&mut self) -> Verdict {
        let Some(Open { log, .. }) = &self.open else { return Ok(()) };
        if !self.is_made {
            return Ok(());
        }
        let (start, accepted, written, durable) = log.with_facts(|facts| {
            (facts.start.value(), facts.accepted.value(), facts.written.value(), facts.durable.value())
        });
        let point = told(Door::LogWithFacts, log.with_facts(|facts| facts.recovery_point.value()));
        let marks = format!("start {start}, recovery point {point}, {durable}, {written}, {accepted}");
        if !(point <= durable && durable <= written && written <= accepted && start <= written) {
            return Err(format!("marks out of order: {marks}"));
        }
        if self.model.under_way.is_some() {
            return Ok(());
        }
        let model = &mut self.model;
        if accepted != model.end || written < model.written || durable < model.durable || start != model.start
        {
            return Err(format!(
                "marks are not as they were or were moved: {marks}; start {}, {}, {}, end {}",
                model.start, model.durable, model.written, model.end
            ));
        }
        if durable > model.durable {
            model.before_cut = None;
        }
        let has_risen = durable > model.durable;
        (model.written, model.durable) = (written, durable);
        if has_risen {
            self.tell(format!("  durable up to {durable}"));
        }
        let epochs = self.open.as_ref().map(|open| epochs(&open.log)).unwrap_or_default();
        self.model.check_epochs(&epochs, true)
    }

    /// Ends the life of the store by closing it.
    pub(super) fn close(&mut self) -> Verdict {
        self.looker = None;
        let Some(Open { store, .. }) = self.open.take() else { return Ok(()) };
        self.ending = Ending::Kill;
        let closed = asked(Door::StoreClose, store.clone().close(serde_json::Map::new(), None));
        self.note_failure(&store);
        match closed {
            Ok(()) => {
                self.ending = Ending::Clean;
                for model in self.models_mut() {
                    (model.written, model.durable, model.start_sure) = (model.end, model.end, model.start);
                }
                self.each_log(None, |trial| trial.check_files(&trial.model, true))
            }
            Err(error) => {
                self.is_mark_uncertain = true;
                self.excuse(&format!("closing failed: {error}"))
            }
        }
    }
}
