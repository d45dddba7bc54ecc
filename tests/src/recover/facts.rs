//! What a store and a log say of themselves, against the model; and the small changes that say nothing of records.

use highwater_engine::batch::ReplicatedBatches;
use highwater_engine::log::{Cleanup, LogConfig, LogId};
use highwater_engine::store::{Job, JobDone, JobKind, Store};
use highwater_engine::units::{LeaderEpoch, Offset, OffsetRange};

use super::batches::{leader_epoch, offset};
use super::doors::{Door, asked, done, told};
use super::model::UnderWay;
use super::several::{name_of, topic};
use super::transactions::{check_unstable, is_of_a_transaction};
use super::trial::{Open, Trial, Verdict};

impl Trial {
    /// Everything that is told of the log, and of the epoch and the transactions at one offset.
    pub(super) fn check_facts(&mut self, store: &Store, at: i64) -> Verdict {
        self.check_store(store)?;
        let Some(Open { log, .. }) = &self.open else { return Ok(()) };
        let model = &self.model;
        let is = (told(Door::LogName, log.name()), told(Door::LogDirectory, log.directory()));
        let (name, directory) = (self.name(), self.log_directory());
        if is != (&name, directory.as_path()) {
            return Err(format!("{name} in {} is called {is:?}", directory.display()));
        }
        let found = store.log(&name).map(|log| log.id());
        if found != Some(told(Door::LogId, log.id())) {
            return Err(format!("{name} is {found:?}, and says that it is {:?}", log.id()));
        }
        if told(Door::LogTopicId, log.topic_id()).is_some_and(|id| Some(id) != topic()) {
            return Err(format!("{name} is of the topic {:?}", log.topic_id()));
        }
        if let Some(why) = told(Door::LogClosed, log.closed()) {
            return self.excuse(&format!("{name} is closed: {why}"));
        }
        if model.under_way.is_some() {
            return Ok(());
        }
        let ends = [told(Door::LogStart, log.start()), told(Door::LogAccepted, log.accepted())];
        if ends.map(Offset::value) != [model.start, model.end] {
            return Err(format!("{name} is {ends:?}"));
        }
        let damaged = told(Door::LogDamaged, log.damaged());
        if !damaged.is_empty() {
            return Err(format!("nothing of {name} is damaged, and {damaged:?} is said to be"));
        }
        let batch = model.from(at).first().filter(|batch| batch.base <= at && at >= model.start_high);
        let epoch = told(Door::LogEpochAt, log.epoch_at(offset(at))).map(LeaderEpoch::value);
        if batch.is_some_and(|batch| epoch != Some(batch.epoch)) {
            return Err(format!("offset {at} is said to be of epoch {epoch:?}, and is in {batch:?}"));
        }
        check_unstable(log, model, at)?;
        let size = told(Door::LogSizeBytes, log.size_bytes());
        let written = model.batches.iter().filter(|batch| batch.end <= model.written);
        let written: usize = written.map(|batch| batch.bytes.len()).sum();
        // Batches below the start may be deleted, and batches of which only producers are remembered are.
        if model.start_high == 0 && size != written as u64 {
            return Err(format!("{written} bytes are written, and {size} are said to be"));
        }
        let segments = told(Door::LogSegmentCount, log.segment_count());
        if segments == 0 || segments > model.batches.len() + 1 {
            return Err(format!("{} batches are in {segments} segments", model.batches.len()));
        }
        Ok(())
    }

    fn check_store(&mut self, store: &Store) -> Verdict {
        let (directory, config) = (told(Door::StoreDirectory, store.directory()), self.store_config());
        if directory != self.directory || told(Door::StoreConfig, store.config()).log != config.log {
            return Err(format!("{} is open with {:?}", directory.display(), store.config()));
        }
        told(Door::StoreDisk, store.disk());
        told(Door::StoreCounters, store.counters());
        let woken = asked(Door::StoreWakeDescriptor, store.wake_descriptor());
        woken.map_err(|error| format!("a descriptor for waking: {error}"))?;
        if let Some(failure) = told(Door::StoreFailure, store.failure()) {
            return self.excuse(&format!("the directory is given up: {failure}"));
        }
        let left_alone = told(Door::StoreLeftAlone, store.left_alone());
        if !left_alone.is_empty() {
            return Err(format!("{left_alone:?} were left alone"));
        }
        let mut numbers: Vec<i32> = Vec::new();
        self.each_log(None, |trial| {
            numbers.extend(trial.is_made.then_some(trial.number));
            Ok(())
        })?;
        numbers.sort_unstable();
        let logs = told(Door::StoreLogs, store.logs());
        let mut names: Vec<_> = logs.iter().map(|log| log.name().clone()).collect();
        names.sort_unstable();
        if names == numbers.iter().map(|number| name_of(*number)).collect::<Vec<_>>() {
            return Ok(());
        }
        Err(format!("the logs are {names:?}, and should be {numbers:?}"))
    }

    /// What is due is done, and then nothing is due before later.
    pub(super) fn run_due(&mut self, store: &Store) -> Verdict {
        let now = self.now();
        let due = told(Door::StoreDueJobs, store.due_jobs(now));
        let next = told(Door::StoreNextDeadline, store.next_deadline());
        if next.is_some_and(|next| next <= now.monotonic) {
            return Err(format!("what was due at {now:?} is taken, and more is due at {next:?}"));
        }
        due.into_iter().try_for_each(|job| self.run(job))
    }

    /// The log has other settings from here on.
    pub(super) fn set_config(
        &mut self,
        store: &Store,
        log: LogId,
        segment_bytes: u32,
        index_interval_bytes: u32,
    ) -> Verdict {
        let mut config = self.setting.log.clone();
        config.segment_bytes_max = segment_bytes;
        config.index_interval_bytes = index_interval_bytes;
        config.retention_bytes = config.retention_bytes.map(|bytes| bytes / 2);
        let set = asked(Door::StoreSetConfig, store.set_config(log, config.clone()));
        set.map_err(|error| format!("settings were refused: {error}"))?;
        let is = self.open.as_ref().map(|open| told(Door::LogConfig, open.log.config()));
        if is.as_deref() == Some(&config) {
            Ok(())
        } else {
            Err(format!("{config:?} was set, and is {is:?}"))
        }
    }

    /// A piece of a compaction in which every record stays. Records of transactions might not, so that it ends in front of the first.
    pub(super) fn compact(&mut self, store: &Store, log: LogId, ceiling: i64, bytes_max: u64) -> Verdict {
        let transactional = self.model.batches.iter().find(|batch| is_of_a_transaction(batch));
        let ceiling = transactional.map_or(ceiling, |first| ceiling.min(first.base));
        let Some(before) = self.open.as_ref().map(|open| told(Door::LogConfig, open.log.config())) else {
            return Ok(());
        };
        let mut compacted = LogConfig::clone(&before);
        (compacted.cleanup, compacted.dirty_ppm_min) = (Cleanup::Compact, 0);
        let set = |config| asked(Door::StoreSetConfig, store.set_config(log, config));
        set(compacted).map_err(|error| format!("settings were refused: {error}"))?;
        let dirt = told(Door::StoreDirt, store.dirt(log, offset(ceiling)));
        let now = self.now();
        let ran = self.run(Job::Compact { log, ceiling: offset(ceiling), now, bytes_max });
        set(LogConfig::clone(&before)).map_err(|error| format!("settings were refused: {error}"))?;
        if dirt.is_some_and(|dirt| dirt.dirty_bytes == 0) {
            return Err("nothing is dirty, and is to be compacted".to_owned());
        }
        ran
    }

    /// It is said of which topic the log is.
    pub(super) fn set_topic(&mut self, store: &Store) -> Verdict {
        let Some(Open { log, .. }) = &self.open else { return Ok(()) };
        let (log, Some(id)) = (log.clone(), topic()) else { return Ok(()) };
        match asked(Door::StoreSetTopicId, store.set_topic_id(&log, id)) {
            Ok(()) if told(Door::LogTopicId, log.topic_id()) == Some(id) => Ok(()),
            Ok(()) => Err(format!("the topic is {:?}", log.topic_id())),
            Err(error) => self.excuse(&format!("the topic could not be said: {error}")),
        }
    }

    /// A segment that nothing has happened to is read for damage.
    pub(super) fn examine(&mut self, store: &Store, log: LogId, segment: i64) -> Verdict {
        match done(JobKind::Examine, Job::Examine { log, segment: offset(segment) }.run(store)) {
            JobDone::Examined { damaged, .. } if damaged.is_empty() || self.model.damaged.is_some() => Ok(()),
            JobDone::Examined { damaged, .. } => Err(format!("a crash was taken for damage: {damaged:?}")),
            other @ (JobDone::Failed { .. } | _) => self.excuse(&format!("a job gave {other:?}")),
        }
    }

    /// A batch is replaced by itself.
    pub(super) fn replace(&mut self, log: LogId, at: i64) -> Verdict {
        let model = &self.model;
        let batch = model.from(at).iter().find(|batch| batch.base >= model.start);
        let Some(batch) = batch.filter(|batch| batch.end <= model.written).cloned() else { return Ok(()) };
        if model.under_way.is_some() || model.damaged.is_some() {
            return Ok(());
        }
        let batches = ReplicatedBatches::check(batch.bytes, leader_epoch(i32::MAX))
            .map_err(|error| format!("what was appended is refused: {error}"))?;
        let offsets = OffsetRange::new(offset(batch.base), offset(batch.end)).ok_or("a batch has offsets")?;
        self.model.under_way = Some(UnderWay::Repair);
        let now = self.now();
        self.run(Job::Repair { log, offsets, batches, now })
    }
}
