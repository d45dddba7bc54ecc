//! The doors of the engine that trials go through: how often each was called, and how it was answered.
//!
//! A door that no trial goes through is compared with nothing, so a search of some length fails where one was never used. Which doors
//! there are is read out of the engine's sources by a test, so that a new one is not forgotten.

use std::cell::RefCell;
use std::fmt;
use std::io;

use highwater_engine::errors::Fate;
use highwater_engine::log::{AppendError, BeginEpochError, ReadError, ReplicaAppendError, TicketError};
use highwater_engine::store::{
    CloseError, CreateLogError, JobDone, JobError, JobKind, ReadOnlyError, ReadOnlyReadError, ReopenLogError,
    SetConfigError, StoreOpenError,
};

macro_rules! doors {
    ($($door:ident = $name:literal,)*) => {
        /// A public call of a store or of a log, or a kind of job.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Door { $(#[doc = concat!("`", $name, "`.")] $door,)* }

        impl Door {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$door,)*];

            /// As it is called.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$door => $name,)* }
            }
        }
    };
}

doors! {
    StoreOpen = "Store::open",
    StoreOpenWatched = "Store::open_watched",
    StorePlanOpening = "Store::plan_opening",
    StoreConfirmIncarnation = "Store::confirm_incarnation",
    StoreReadOffsetCheckpoint = "Store::read_offset_checkpoint",
    StoreTurn = "Store::turn",
    StoreTurnInto = "Store::turn_into",
    StoreWantDurable = "Store::want_durable",
    StoreWait = "Store::wait",
    StoreWaitAsync = "Store::wait_async",
    StoreWakeDescriptor = "Store::wake_descriptor",
    StoreCounters = "Store::counters",
    StoreDeleteLog = "Store::delete_log",
    StoreDueJobs = "Store::due_jobs",
    StoreNextDeadline = "Store::next_deadline",
    StoreClose = "Store::close",
    StoreDirectory = "Store::directory",
    StoreDisk = "Store::disk",
    StoreConfig = "Store::config",
    StoreFailure = "Store::failure",
    StoreLog = "Store::log",
    StoreLogs = "Store::logs",
    StoreLeftAlone = "Store::left_alone",
    StoreReopenLog = "Store::reopen_log",
    StoreCreateLog = "Store::create_log",
    StoreSetTopicId = "Store::set_topic_id",
    StoreSetConfig = "Store::set_config",
    StoreDirt = "Store::dirt",
    JobTruncate = "Job::Truncate",
    JobRestartAt = "Job::RestartAt",
    JobRaiseStart = "Job::RaiseStart",
    JobRetention = "Job::Retention",
    JobCompact = "Job::Compact",
    JobSeal = "Job::Seal",
    JobSync = "Job::Sync",
    JobCheckpoint = "Job::Checkpoint",
    JobOffsetCheckpoint = "Job::OffsetCheckpoint",
    JobColdRead = "Job::ColdRead",
    JobExamine = "Job::Examine",
    JobIndexAborted = "Job::IndexAborted",
    JobRepair = "Job::Repair",
    JobDeleteLog = "Job::DeleteLog",
    JobReopen = "Job::Reopen",
    LogName = "Log::name",
    LogId = "Log::id",
    LogTopicId = "Log::topic_id",
    LogConfig = "Log::config",
    LogDirectory = "Log::directory",
    LogWithProducers = "Log::with_producers",
    LogWithFacts = "Log::with_facts",
    LogStart = "Log::start",
    LogAccepted = "Log::accepted",
    LogWritten = "Log::written",
    LogDurable = "Log::durable",
    LogTicket = "Log::ticket",
    LogDamaged = "Log::damaged",
    LogClosed = "Log::closed",
    LogBeginEpoch = "Log::begin_epoch",
    LogAppend = "Log::append",
    LogAppendReplicated = "Log::append_replicated",
    LogRead = "Log::read",
    LogReadCommitted = "Log::read_committed",
    LogOffsetForTimestamp = "Log::offset_for_timestamp",
    LogMaxTimestamp = "Log::max_timestamp",
    LogEpochAt = "Log::epoch_at",
    LogFirstUnstable = "Log::first_unstable",
    LogSettleBelow = "Log::settle_below",
    LogSizeBytes = "Log::size_bytes",
    LogSegmentCount = "Log::segment_count",
    ReadOnlyStoreOpen = "ReadOnlyStore::open",
    ReadOnlyStoreDirectory = "ReadOnlyStore::directory",
    ReadOnlyStoreNames = "ReadOnlyStore::names",
    ReadOnlyStoreLog = "ReadOnlyStore::log",
    ReadOnlyStoreReadOffsetCheckpoint = "ReadOnlyStore::read_offset_checkpoint",
    ReadOnlyStoreVerifyLog = "ReadOnlyStore::verify_log",
    ReadOnlyStoreVerifyFiles = "ReadOnlyStore::verify_files",
    ReadOnlyStoreVerifyFile = "ReadOnlyStore::verify_file",
    ReadOnlyLogName = "ReadOnlyLog::name",
    ReadOnlyLogStart = "ReadOnlyLog::start",
    ReadOnlyLogEnd = "ReadOnlyLog::end",
    ReadOnlyLogEpochs = "ReadOnlyLog::epochs",
    ReadOnlyLogGeneration = "ReadOnlyLog::generation",
    ReadOnlyLogDamaged = "ReadOnlyLog::damaged",
    ReadOnlyLogRefresh = "ReadOnlyLog::refresh",
    ReadOnlyLogRead = "ReadOnlyLog::read",
    ReadOnlyLogExamine = "ReadOnlyLog::examine",
}

/// How calls were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// With what was asked for.
    pub given: u64,
    /// With an error that ends the call alone.
    pub refused: u64,
    /// With an error that ends a log or a directory, or the system's own.
    pub failed: u64,
}

/// The calls of all doors.
#[derive(Clone, Debug)]
pub struct Calls(Vec<Answers>);

impl Default for Calls {
    fn default() -> Self {
        Self(vec![Answers::default(); Door::ALL.len()])
    }
}

impl Calls {
    /// The doors that were not used.
    pub fn unused(&self) -> Vec<&'static str> {
        let unused = Door::ALL.iter().filter(|door| self.of(**door) == Answers::default());
        unused.map(|door| door.name()).collect()
    }

    fn of(&self, door: Door) -> Answers {
        self.0[door as usize]
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>12} {:>9} {:>9}", "given", "refused", "failed")?;
        Door::ALL.iter().try_for_each(|door| {
            let Answers { given, refused, failed } = self.of(*door);
            writeln!(f, "{given:>12} {refused:>9} {failed:>9}  {}", door.name())
        })
    }
}

thread_local! {
    /// Of this thread: trials run from their beginning to their end in one.
    static CALLS: RefCell<Calls> = RefCell::default();
}

/// What this thread has called since it last asked.
pub fn take_calls() -> Calls {
    CALLS.take()
}

/// A call that gives nothing was made.
pub(super) fn called(door: Door) {
    note(door, None);
}

fn note(door: Door, fate: Option<Fate>) {
    CALLS.with_borrow_mut(|calls| {
        let answers = &mut calls.0[door as usize];
        match fate {
            None => answers.given += 1,
            Some(Fate::Call | Fate::CallForNow) => answers.refused += 1,
            Some(Fate::Log | Fate::Directory) => answers.failed += 1,
        }
    });
}

/// A call that always gives something has given this.
pub(super) fn told<T>(door: Door, answer: T) -> T {
    note(door, None);
    answer
}

/// A call has given this.
pub(super) fn asked<T, E: Fated>(door: Door, answer: Result<T, E>) -> Result<T, E> {
    note(door, answer.as_ref().err().map(Fated::fate));
    answer
}

/// A job of this kind has ended like this.
pub(super) fn done(kind: JobKind, done: JobDone) -> JobDone {
    let fate = if let JobDone::Failed { error, .. } = &done {
        Some(error.fate())
    } else if let JobDone::Read { result, .. } = &done {
        result.as_ref().err().map(ReadError::fate)
    } else {
        None
    };
    note(door_of(kind), fate);
    done
}

fn door_of(kind: JobKind) -> Door {
    match kind {
        JobKind::Truncate => Door::JobTruncate,
        JobKind::RestartAt => Door::JobRestartAt,
        JobKind::RaiseStart => Door::JobRaiseStart,
        JobKind::Retention => Door::JobRetention,
        JobKind::Compact => Door::JobCompact,
        JobKind::Seal => Door::JobSeal,
        JobKind::Sync => Door::JobSync,
        JobKind::Checkpoint => Door::JobCheckpoint,
        JobKind::OffsetCheckpoint => Door::JobOffsetCheckpoint,
        JobKind::ColdRead => Door::JobColdRead,
        JobKind::Examine => Door::JobExamine,
        JobKind::IndexAborted => Door::JobIndexAborted,
        JobKind::Repair => Door::JobRepair,
        JobKind::DeleteLog => Door::JobDeleteLog,
        JobKind::Reopen => Door::JobReopen,
        _ => panic!("{kind:?} is no door yet"),
    }
}

/// An error that says what it ends.
pub(super) trait Fated {
    fn fate(&self) -> Fate;
}

macro_rules! fated {
    ($($error:ty),*) => { $(impl Fated for $error {
        fn fate(&self) -> Fate { <$error>::fate(self) }
    })* };
}

fated!(
    AppendError,
    BeginEpochError,
    CloseError,
    CreateLogError,
    JobError,
    ReadError,
    ReadOnlyError,
    ReadOnlyReadError,
    ReopenLogError,
    ReplicaAppendError,
    SetConfigError,
    StoreOpenError,
    TicketError
);

impl Fated for io::Error {
    fn fate(&self) -> Fate {
        Fate::Directory
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::Door;

    /// The public methods of these types, and the kinds of jobs.
    fn doors_in(source: &str, found: &mut BTreeSet<String>) {
        let mut of = None;
        for line in source.lines() {
            if line.starts_with('}') {
                of = None;
            }
            let types = ["Store", "Log", "ReadOnlyStore", "ReadOnlyLog"];
            if let Some(known) = types.iter().find(|of| line == format!("impl {of} {{")) {
                of = Some(*known);
            } else if line == "pub enum Job {" {
                of = Some("Job");
            }
            let Some(of) = of else { continue };
            let text = if of == "Job" {
                line.strip_prefix("    ").filter(|rest| rest.starts_with(char::is_uppercase))
            } else {
                line.strip_prefix("    pub fn ").or_else(|| line.strip_prefix("    pub const fn "))
            };
            if let Some(text) = text {
                let name: String =
                    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
                found.insert(format!("{of}::{name}"));
            }
        }
    }

    fn look_through(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                look_through(&path, found);
            } else if !path.to_string_lossy().ends_with("_test.rs") {
                doors_in(&std::fs::read_to_string(&path).unwrap(), found);
            }
        }
    }

    #[test]
    fn every_public_call_of_a_store_and_of_a_log_is_a_door() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src");
        let mut found = BTreeSet::new();
        for floor in ["store", "log"] {
            look_through(&sources.join(floor), &mut found);
        }
        let known: BTreeSet<String> = Door::ALL.iter().map(|door| door.name().to_owned()).collect();
        assert_eq!(known.len(), Door::ALL.len());
        assert_eq!(found, known, "the sources of the engine have the ones on the left");
    }
}
