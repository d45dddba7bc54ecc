//! The hands of a trial: a store on a simulated disk and the model of its one log, told the same and compared after every step.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use highwater_engine::Rules;
use highwater_engine::disk::simulated::{Fault, SimulatedCounters, Unsynced};
use highwater_engine::disk::{Disk, SimulatedDisk};
use highwater_engine::log::{Log, LogConfig};
use highwater_engine::store::{Machine, OpenReport, Opened, Stop, Store, StoreConfig};
use highwater_engine::units::{Monotonic, Now, Timestamp, TopicPartition};

use super::files::check_files;
use super::model::{Ending, Model};
use super::open::{check_lookups, epochs, everything};
use super::step::Step;

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
}

impl Default for Setting {
    fn default() -> Self {
        let mut log = LogConfig::default();
        log.segment_bytes_max = 8_192;
        log.index_interval_bytes = 300;
        log.retention_bytes = Some(30_000);
        log.retention_age = None;
        Self { log, rules: Rules::default(), open_files_max: None }
    }
}

/// A store that is open, and its log.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) store: Store,
    pub(super) log: Log,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Trial {
    pub(super) disk: SimulatedDisk,
    /// Where nothing fails, in place of the simulated disk.
    other_disk: Option<Arc<dyn Disk>>,
    directory: PathBuf,
    pub(super) model: Model,
    pub(super) setting: Setting,
    pub(super) open: Option<Open>,
    pub(super) now_ms: i64,
    pub(super) tags: u64,
    /// How the last life ended.
    ending: Ending,
    /// Whether the log was made for certain.
    is_made: bool,
    /// Whether this boot is written down: then nothing that was written can be gone.
    is_confirmed: Option<bool>,
    /// Whether the mark of a clean stop may be there although the stop did not succeed, or be gone although it did.
    is_mark_uncertain: bool,
    /// Whether a call was made to fail, or the medium is full: then steps may be refused.
    pub(super) trouble: bool,
    /// The number of the last call that will fail.
    last_fault: u64,
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
    fn settle(&mut self) {
        self.disk.crash_at(u64::MAX);
        self.disk.set_capacity(None);
        while self.disk.next_call() <= self.last_fault {
            drop(self.disk.list(Path::new("/")));
        }
        self.last_fault = 0;
        self.trouble = false;
    }

    /// The machine loses its power.
    pub fn lose_power(&mut self, unsynced: Unsynced, rng: &mut Rng) {
        self.tell(format!("-- power lost, unsynced: {unsynced:?}"));
        let was_clean = self.ending == Ending::Clean && self.open.is_none();
        self.drop_store();
        self.disk = self.disk.crash_power(unsynced, rng);
        if !was_clean {
            self.ending = Ending::Power;
            self.model.written = self.model.durable;
        }
        self.is_confirmed = Some(false);
        self.settle();
    }

    fn drop_store(&mut self) {
        if let Some(open) = self.open.take() {
            self.note_failure(&open.store);
            self.ending = Ending::Kill;
        }
    }

    /// A directory that has failed has withdrawn its proof, unless the crash or another failure came before that.
    fn note_failure(&mut self, store: &Store) {
        if store.failure().is_some() {
            let is_certain = !self.disk.is_down() && self.disk.next_call() > self.last_fault;
            self.is_confirmed = is_certain.then_some(false);
        }
    }

    fn any_disk(&self) -> Arc<dyn Disk> {
        self.other_disk.clone().unwrap_or_else(|| Arc::new(self.disk.clone()))
    }

    /// The files against the model; see [`check_files`].
    pub(super) fn check_files(&self, model: &Model, is_at_rest: bool) -> Verdict {
        // A copy, so that looking is no call of the trial's. A failure that was meant for the trial comes at most once.
        let copy = self.disk.fork(0);
        copy.crash_at(u64::MAX);
        let disk = self.other_disk.clone().unwrap_or_else(|| Arc::new(copy));
        let directory = self.directory.join(Self::name().to_string());
        let looked = check_files(disk.as_ref(), &directory, model, is_at_rest);
        let looked = looked.or_else(|_| check_files(disk.as_ref(), &directory, model, is_at_rest));
        looked.map_err(|error| format!("looking at the files: {error}"))?
    }

    /// The log's name.
    pub(super) fn name() -> TopicPartition {
        TopicPartition::new("t", 0).expect("a topic may be called t")
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

    fn open_store(&self, disk: Arc<dyn Disk>) -> Result<Opened, String> {
        let opened = Store::open(disk, &self.directory, self.store_config(), self.now());
        opened.map_err(|error| error.to_string())
    }

    /// Opens the store, makes the log if it is not there, and compares what is found with the model. Without a crash or an injected error
    /// it must succeed.
    pub fn open(&mut self) -> Result<(), Violation> {
        self.tell("open");
        self.try_open().map_err(|what| self.violation(what))
    }

    fn try_open(&mut self) -> Verdict {
        let opened = match self.open_store(self.any_disk()) {
            Ok(opened) if !self.disk.is_down() => Some(opened),
            Ok(_) => None,
            Err(error) => {
                self.excuse(&format!("opening failed: {error}"))?;
                None
            }
        };
        let Some(Opened { store, mut report }) = opened else {
            self.is_mark_uncertain |= self.ending == Ending::Clean;
            self.is_confirmed = None;
            return Ok(());
        };
        // What is looked at from here on is not part of the life.
        let was_trouble = self.trouble;
        if was_trouble {
            // A lock file that cannot be read is one of another machine, and a mark that cannot be is none.
            self.is_confirmed = None;
            self.is_mark_uncertain |= self.ending == Ending::Clean;
        }
        self.settle();
        if let Some((_, why)) = report.refused.first() {
            if !was_trouble {
                return Err(format!("the log was left alone: {why}"));
            }
            self.tell(format!("  the log was left alone: {why}"));
            // It can be read by now.
            match store.reopen_log(&Self::name(), self.now()) {
                Ok(Some(log)) => report.logs.push(log),
                other => return Err(format!("the log was left alone, and then {other:?}")),
            }
        }
        let Some(log) = store.log(&Self::name()) else {
            if self.is_made {
                return Err(format!("the log is gone: {report:?}"));
            }
            self.trouble = was_trouble;
            return self.make_log(store);
        };
        self.is_made = true;
        let context = |what: String| {
            let plan = report.logs.first().map(|log| log.plan.to_string()).unwrap_or_default();
            format!("{what}\n{:?}, {:?} machine, {plan}", report.stop, report.machine)
        };
        let found = everything(&store, &log).map_err(context)?;
        let began_anew = self.model.may_begin_anew();
        self.model.survive(self.ending, &found).map_err(context)?;
        // Of a checkpoint that cannot be read nothing is known.
        let is_unknown = was_trouble && report.logs.iter().any(|log| log.recovery_point.is_none());
        self.check_report(&report, began_anew || is_unknown).map_err(context)?;
        self.model.durable = log.durable().value();
        self.model.check_epochs(&found.epochs, false).map_err(context)?;
        check_lookups(&store, &log, &self.model).map_err(context)?;
        self.check_files(&self.model, true).map_err(context)?;
        let told = report.stop != Stop::Unclean || report.machine == Machine::Same;
        let told = told && self.other_disk.is_none();
        self.is_confirmed = if told { Some(true) } else { self.is_confirmed };
        self.is_mark_uncertain = false;
        self.open = Some(Open { store, log });
        self.ending = Ending::Kill;
        self.look().map_err(context)
    }

    fn make_log(&mut self, store: Store) -> Verdict {
        match store.create_log(&Self::name(), None, self.setting.log.clone(), self.now()) {
            Ok(log) => {
                self.is_made = true;
                self.is_confirmed = None;
                self.is_mark_uncertain = false;
                self.open = Some(Open { store, log });
                self.ending = Ending::Kill;
                Ok(())
            }
            Err(error) => self.excuse(&format!("the log could not be made: {error}")),
        }
    }

    /// What recovery says of itself must fit to what happened.
    fn check_report(&self, report: &OpenReport, may_suspect: bool) -> Verdict {
        let [log] = &report.logs[..] else { return Err(format!("one log is there: {report:?}")) };
        if !log.plan.damaged.is_empty() {
            return Err("a crash was taken for damage".to_owned());
        }
        let is_clean = report.stop == Stop::Clean;
        if is_clean != (self.ending == Ending::Clean) && !self.is_mark_uncertain {
            return Err(format!("after {:?} the stop is called {:?}", self.ending, report.stop));
        }
        let is_same = report.machine == Machine::Same;
        if self.is_confirmed.is_some_and(|confirmed| confirmed != is_same) {
            return Err(format!("the machine is called {:?}", report.machine));
        }
        let must_suspect = !is_clean && !is_same;
        // A restart that was interrupted has thrown records away that were wanted no more; it says so.
        if log.suspect != must_suspect && !(log.suspect && may_suspect) {
            return Err(format!("suspect is {} instead of {must_suspect}", log.suspect));
        }
        Ok(())
    }

    /// Those who must know of lost records have been told.
    pub fn confirm(&mut self) {
        let Some(open) = &self.open else { return };
        let confirmed = open.store.confirm_incarnation();
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
        let done = self.perform(step).and_then(|()| self.look());
        done.map_err(|what| self.violation(what))
    }

    /// What holds at every moment.
    pub(super) fn look(&mut self) -> Verdict {
        let Some(Open { log, .. }) = &self.open else { return Ok(()) };
        let (start, accepted, written, durable) = log.with_facts(|facts| {
            (facts.start.value(), facts.accepted.value(), facts.written.value(), facts.durable.value())
        });
        let point = log.with_facts(|facts| facts.recovery_point.value());
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
        let Some(Open { store, .. }) = self.open.take() else { return Ok(()) };
        self.ending = Ending::Kill;
        let closed = store.clone().close(serde_json::Map::new(), None);
        self.note_failure(&store);
        match closed {
            Ok(()) => {
                self.ending = Ending::Clean;
                let model = &mut self.model;
                (model.written, model.durable, model.start_sure) = (model.end, model.end, model.start);
                self.check_files(&self.model, true)
            }
            Err(error) => {
                self.is_mark_uncertain = true;
                self.excuse(&format!("closing failed: {error}"))
            }
        }
    }

    /// Opens twice on a copy of the disk: what the first opening leaves is what the second finds.
    pub fn open_twice(&mut self, rng: &mut Rng) -> Result<(), Violation> {
        let twin = self.disk.fork(rng.u64(..));
        // A crash that is meant for the trial does not come in what is compared.
        twin.crash_at(u64::MAX);
        self.compare_openings(&twin, rng).map_err(|what| self.violation(what))
    }

    fn compare_openings(&self, twin: &SimulatedDisk, rng: &mut Rng) -> Verdict {
        let look = |disk: SimulatedDisk| -> Result<_, String> {
            let Opened { store, .. } = self.open_store(Arc::new(disk))?;
            let Some(log) = store.log(&Self::name()) else { return Ok(None) };
            everything(&store, &log).map(Some)
        };
        let first = look(twin.clone())?;
        let second = look(twin.crash_kill(rng))?;
        if first == second { Ok(()) } else { Err(format!("opened twice: {first:?}, then {second:?}")) }
    }
}
