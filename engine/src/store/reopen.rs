//! Trying logs again that are not open: those that a failed write or cut has closed, and those that were left alone when the directory was
//! opened.

use std::sync::PoisonError;

use super::gather::{LogSource, Trust};
use super::read_ahead::IdleHelpers;
use super::refusal::{LoadError, LogRefusal, ReopenLogError};
use super::{LogReport, Machine, Stop, Store};
use crate::checkpoint::{CleanFacts, OffsetCheckpoint, PARTITION_METADATA, Reading, read_partition_metadata};
use crate::disk::Disk;
use crate::log::{Closed, FileError, Log, lock};
use crate::units::{Now, TopicId, TopicPartition};

/// What the opening knew of a log that it left alone, for when it is tried again.
#[derive(Clone, Debug)]
pub(super) struct LeftAlone {
    stop: Stop,
    machine: Machine,
    topic_id: Option<TopicId>,
    /// Of this log alone.
    facts: Option<CleanFacts>,
}

impl LeftAlone {
    pub(super) fn new(disk: &dyn Disk, source: &LogSource<'_>) -> Self {
        let (name, trust) = (&source.name, &source.trust);
        let metadata = read_partition_metadata(disk, &source.directory.join(PARTITION_METADATA));
        let facts = trust.facts.map(|facts| {
            let mut partitions = facts.partitions.clone();
            partitions.retain(|partition, _| *partition == name.to_string());
            CleanFacts { partitions, extra: serde_json::Map::new() }
        });
        let topic_id = metadata.ok().and_then(Reading::known);
        Self { stop: trust.stop, machine: trust.machine, topic_id, facts }
    }
}

impl Store {
    /// Logs that are in the directory and could not be opened, sorted by name, with the ids of their topics, where those could be read. What
    /// is known of them is kept; [`Store::reopen_log`] tries one of them again.
    pub fn left_alone(&self) -> Vec<(TopicPartition, Option<TopicId>)> {
        let left_alone = lock(&self.inner.left_alone);
        left_alone.iter().map(|(name, known)| (name.clone(), known.topic_id)).collect()
    }

    /// Opens a log that is not open, as recovery finds it: one that was left alone at the opening, or that a failed write or truncation has
    /// closed. The owner of a closed one then begins a new epoch, so that offsets which were given out and not written are not used again in
    /// theirs; the old handle stays closed. `None` if there is no such log of this name. May block for as long as the scan takes.
    pub fn reopen_log(&self, name: &TopicPartition, now: Now) -> Result<Option<LogReport>, ReopenLogError> {
        let _making = lock(&self.inner.making);
        if let Some(failure) = self.failure() {
            return Err(failure.clone().into());
        }
        let left_alone = lock(&self.inner.left_alone).get(name).cloned();
        if let Some(known) = left_alone {
            let report = self.load_again(name, &known, now)?;
            lock(&self.inner.left_alone).remove(name);
            return Ok(Some(report));
        }
        let can_open = |log: &Log| {
            matches!(
                log.closed(),
                Some(Closed::WriteFailed | Closed::CutFailed | Closed::FileExchanged | Closed::Panicked)
            )
        };
        let Some(log) = self.log(name).filter(can_open) else { return Ok(None) };
        // Nothing of it may reach the files when another writes to them: no seal, no segment that somebody is about to make, no write.
        let (_maintenance, _room) = (lock(&log.0.maintenance), lock(&log.0.room));
        log.0.wait_until_landed();
        let known =
            LeftAlone { stop: Stop::Unclean, machine: Machine::Same, topic_id: log.topic_id(), facts: None };
        let report = self.load_again(name, &known, now)?;
        if let Some(reopened) = self.log(name) {
            *reopened.0.config.write().unwrap_or_else(PoisonError::into_inner) = log.config();
        }
        let mut logs = self.shared().logs.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = usize::try_from(log.id().number()).ok().and_then(|at| logs.get_mut(at)) {
            *slot = None;
        }
        Ok(Some(report))
    }

    /// Loads a log by what is known of it and what the checkpoints say.
    fn load_again(
        &self,
        name: &TopicPartition,
        known: &LeftAlone,
        now: Now,
    ) -> Result<LogReport, ReopenLogError> {
        let (points, starts) = {
            let checkpoints = self.checkpoints();
            let reading = |offsets: &Option<OffsetCheckpoint>| match offsets {
                Some(value) => Reading::Known { value: value.clone(), guarded: true },
                None => Reading::Missing,
            };
            (reading(&checkpoints.recovery_points), reading(&checkpoints.starts))
        };
        let trust = Trust {
            stop: known.stop,
            machine: known.machine,
            points: &points,
            starts: &starts,
            facts: known.facts.as_ref(),
        };
        let directory = self.directory().join(name.to_string());
        let source = LogSource { name: name.clone(), directory, trust };
        self.load_log(&source, &IdleHelpers::default(), now).map_err(|error| match error {
            LoadError::Log(refusal) => refusal.into(),
            LoadError::Directory(FileError { path, source }) => {
                self.shared().fail(&path, "recover a log", &source);
                let failure = self.failure().cloned();
                failure.map_or_else(|| LogRefusal::unread(path, source).into(), ReopenLogError::Failed)
            }
        })
    }

    /// Remembers a log that could not be opened.
    pub(super) fn leave_alone(&self, name: TopicPartition, what_is_known: LeftAlone) {
        lock(&self.inner.left_alone).insert(name, what_is_known);
    }
}
