//! What opening, turning and failing tell.

use std::path::PathBuf;

use super::LogRefusal;
use crate::checkpoint::NotedDamage;
use crate::log::{LogId, ReserveReport};
use crate::recovery::Plan;
use crate::units::{Offset, TopicId, TopicPartition};

/// What was found at opening and what was done about it.
#[derive(Debug)]
#[non_exhaustive]
pub struct OpenReport {
    /// How the last user stopped.
    pub stop: Stop,
    /// Whether the page cache survived since.
    pub machine: Machine,
    /// Extra fields of the clean-shutdown mark, and its `brokerEpoch` if it names one; empty without a mark.
    pub mark_extra: serde_json::Map<String, serde_json::Value>,
    /// Each log, sorted by name.
    pub logs: Vec<LogReport>,
    /// Directories of logs that could not be opened, and why; they are left alone, until [`super::Store::reopen_log`] is called for one.
    pub refused: Vec<(PathBuf, LogRefusal)>,
    /// Directories of deleted topics whose removal was finished.
    pub deleted: Vec<String>,
    /// Directories that are not partitions; they are left alone.
    pub foreign: Vec<String>,
    /// Whether there is space in reserve for when the device is full. Without, the store works all the same.
    pub reserve: ReserveReport,
}

/// How the last user of the directory stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// With a mark.
    Clean,
    /// Without a mark.
    Unclean,
    /// There was none: the directory is new.
    FirstUse,
}

/// Whether what was written but not synced can have been lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// The same boot, device and mount as the last user: nothing that was written is lost.
    Same,
    /// Another, or it cannot be known: what was not durable may be gone.
    OtherOrUnknown,
}

/// What was found of one log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogReport {
    /// The log.
    pub log: LogId,
    /// Its name.
    pub name: TopicPartition,
    /// The id in its `partition.metadata`.
    pub topic_id: Option<TopicId>,
    /// Its start.
    pub start: Offset,
    /// Its end.
    pub end: Offset,
    /// The recovery point it had; `None` if the checkpoint was missing or damaged.
    pub recovery_point: Option<Offset>,
    /// Bytes that were cut behind the last whole batch.
    pub cut_bytes: u64,
    /// Whether the cut can have taken batches: more than the torn end of one write.
    pub hole: bool,
    /// Whether records that it once had may be gone: the machine crashed and not everything was durable, the clean mark does
    /// not fit the files, or a checkpoint was damaged.
    pub suspect: bool,
    /// What recovery found and did; printed, it is for people.
    pub plan: Plan,
}

/// What opening a data directory would do.
#[derive(Debug)]
#[non_exhaustive]
pub struct OpeningPlan {
    /// How the last user stopped.
    pub stop: Stop,
    /// Whether the page cache survived since.
    pub machine: Machine,
    /// For each log, sorted by name, the plan of its recovery, or why it would be left alone.
    pub logs: Vec<(TopicPartition, Result<Plan, LogRefusal>)>,
    /// What the last process knew to be damaged. The opening examines these segments again, and adds to the plan what it still finds there,
    /// and what it meets where it makes the state of producers. `None`: the note cannot be believed, and everything would be examined.
    pub noted: Option<Vec<NotedDamage>>,
}

/// What one turn of the driver did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnReport {
    /// Logs whose watermarks rose.
    pub moved: Vec<LogId>,
    /// Logs that were closed by a failed write.
    pub failed: Vec<LogId>,
    /// Logs in which damage was found that was not known before.
    pub damaged: Vec<LogId>,
    /// Operations that are under way.
    pub in_flight: usize,
    /// Set when the directory has failed.
    pub store_failed: bool,
}
