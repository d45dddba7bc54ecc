//! A trial written down: what was drawn, line by line, so that it can be played again, in part too, and read by people.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;
use highwater_engine::disk::SimulatedDisk;
use highwater_engine::disk::simulated::{Completing, Fault, SimulatedCounters, Tear, Unsynced};

use super::step::Step;
use super::trial::{Setting, Trial, Violation};
use super::wide::Breadth;

/// What a job, an opening and a reader have open beside the files of segments that may be.
const OTHER_FILES: usize = 8;

/// One line of a play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The crash comes so many calls later.
    CrashAt(u64),
    /// The call so many calls later fails.
    Fail(u64, Fault),
    /// The store is opened.
    Open,
    /// Those who must know of lost records have been told.
    Confirm,
    /// When the disk's operations complete from here on.
    Completing(Completing),
    /// A step, unless the store is closed or the disk down.
    Do(Step),
    /// The process is killed; the seed decides what of operations in flight is there.
    Kill(u64),
    /// The machine loses its power; the seed decides what is left.
    LosePower(Unsynced, u64),
    /// A copy is opened twice.
    OpenTwice(u64),
}

/// A whole trial.
#[derive(Clone, Debug)]
pub struct Play {
    /// What the disk decides by.
    pub disk_seed: u64,
    /// How it tears.
    pub tear: Tear,
    /// How much of it is not in memory.
    pub cold_percent: u8,
    /// The settings.
    pub setting: Setting,
    /// How much it goes through.
    pub breadth: Breadth,
    /// What is done.
    pub lines: Vec<Line>,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CrashAt(calls) => write!(f, "(the crash comes at call {calls} from here)"),
            Self::Fail(calls, fault) => write!(f, "(call {calls} from here fails: {fault:?})"),
            Self::Open => write!(f, "open"),
            Self::Confirm => write!(f, "confirm the incarnation"),
            Self::Completing(completing) => write!(f, "(the disk completes {completing:?})"),
            Self::Do(step) => write!(f, "{step}"),
            Self::Kill(seed) => write!(f, "-- killed (seed {seed})"),
            Self::LosePower(unsynced, seed) => {
                write!(f, "-- power lost, unsynced: {unsynced:?} (seed {seed})")
            }
            Self::OpenTwice(_) => write!(f, "(a copy is opened twice)"),
        }
    }
}

impl fmt::Display for Play {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log = &self.setting.log;
        writeln!(
            f,
            "  disk {}, tears {:?}, {} % cold; segments of {}, index every {}, retention {:?} {:?}",
            self.disk_seed,
            self.tear,
            self.cold_percent,
            log.segment_bytes_max,
            log.index_interval_bytes,
            log.retention_bytes,
            log.retention_age,
        )?;
        self.lines.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

impl Play {
    /// The trial before its first line.
    pub fn begin(&self) -> Trial {
        let disk = SimulatedDisk::new(self.disk_seed);
        disk.set_tear(self.tear);
        disk.set_cold_percent(self.cold_percent);
        disk.set_open_files_max(self.setting.open_files_max.map(|files| files + OTHER_FILES));
        Trial::new(disk, self.setting.clone())
    }

    /// Plays it. Gives what the disk did, or what does not hold.
    pub fn play(&self) -> Result<SimulatedCounters, Violation> {
        let mut trial = self.begin();
        self.lines.iter().try_for_each(|line| line.perform(&mut trial))?;
        Ok(trial.counters())
    }

    /// As [`Play::play`]; a panic of the product is a violation too.
    pub fn play_caught(&self) -> Result<SimulatedCounters, Violation> {
        caught(|| self.play())
    }
}

/// A panic of the product is a violation too.
pub(super) fn caught<T>(call: impl FnOnce() -> Result<T, Violation>) -> Result<T, Violation> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        Err(Violation { what: format!("panicked: {text}"), story: Vec::new() })
    })
}

impl Line {
    /// Does it.
    pub fn perform(&self, trial: &mut Trial) -> Result<(), Violation> {
        match self {
            Self::CrashAt(calls) => trial.crash_at(*calls),
            Self::Fail(calls, fault) => trial.fail(*calls, *fault),
            Self::Confirm => trial.confirm(),
            Self::Completing(completing) => trial.disk().set_completing(*completing),
            Self::Open | Self::OpenTwice(_) if trial.is_open() => {}
            // Nothing may fail in what is compared.
            Self::OpenTwice(_) if trial.is_down() || trial.trouble => {}
            Self::Open => return trial.open(),
            Self::Do(_) if trial.is_down() || !trial.is_open() => {}
            Self::Do(step) => return trial.apply(step),
            Self::Kill(seed) => trial.kill(&mut Rng::with_seed(*seed)),
            Self::LosePower(unsynced, seed) => trial.lose_power(*unsynced, &mut Rng::with_seed(*seed)),
            Self::OpenTwice(seed) => return trial.open_twice(&mut Rng::with_seed(*seed)),
        }
        if matches!(self, Self::Kill(_) | Self::LosePower(..)) {
            trial.disk().set_completing(Completing::AtOnce);
        }
        Ok(())
    }
}
