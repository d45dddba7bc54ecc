//! Several logs in one directory. Steps are about one of them at a time; what is done to it must not be seen in the others, each of which is
//! compared with a model of its own after every step.

use highwater_engine::checkpoint::{HIGH_WATERMARKS, OffsetCheckpoint, Reading};
use highwater_engine::log::Log;
use highwater_engine::store::{Job, JobDone, JobKind, Store};
use highwater_engine::units::{TopicId, TopicPartition};

use super::batches::offset;
use super::doors::{Door, asked, done, told};
use super::model::Model;
use super::trial::{Slot, Trial, Verdict};

/// What a named checkpoint may say: what was written last, and what was tried since. `None` is a file that is not there.
#[derive(Clone, Debug)]
pub(super) enum Watermarks {
    /// One of these.
    OneOf(Vec<Option<OffsetCheckpoint>>),
    /// A log was made, of which it says nothing any more; of the others it says what it said.
    Unknown,
}

impl Default for Watermarks {
    fn default() -> Self {
        Self::OneOf(vec![None])
    }
}

impl Watermarks {
    pub(super) fn forget(&mut self) {
        *self = Self::Unknown;
    }

    pub(super) fn check(&self, found: Reading<OffsetCheckpoint>) -> Verdict {
        let Self::OneOf(may_be) = self else { return Ok(()) };
        let found = match found {
            Reading::Known { value, .. } => Some(value),
            Reading::Missing => None,
            Reading::Damaged { why } => return Err(format!("the checkpoint of high watermarks: {why}")),
        };
        if may_be.contains(&found) { Ok(()) } else { Err(format!("{found:?} instead of one of {may_be:?}")) }
    }
}

pub(super) fn name_of(number: i32) -> TopicPartition {
    TopicPartition::new("t", number).expect("a topic may be called t")
}

/// Whose logs they are.
pub(super) fn topic() -> Option<TopicId> {
    TopicId::new([7; 16])
}

impl Trial {
    /// Every log's model.
    pub(super) fn models(&self) -> impl Iterator<Item = &Model> {
        std::iter::once(&self.model).chain(self.others.iter().map(|other| &other.model))
    }

    /// As [`Trial::models`].
    pub(super) fn models_mut(&mut self) -> impl Iterator<Item = &mut Model> {
        std::iter::once(&mut self.model).chain(self.others.iter_mut().map(|other| &mut other.model))
    }

    /// What steps are about takes the place of another log, and that log its place. Done twice it is undone.
    fn exchange(&mut self, index: usize, store: Option<&Store>) {
        let Some(Slot { model, number, is_made, tickets }) = self.others.get_mut(index) else { return };
        std::mem::swap(&mut self.model, model);
        std::mem::swap(&mut self.number, number);
        std::mem::swap(&mut self.is_made, is_made);
        std::mem::swap(&mut self.tickets, tickets);
        let log = store.and_then(|store| store.log(&self.name()));
        if let (Some(open), Some(log)) = (&mut self.open, log) {
            open.log = log;
        }
    }

    /// Calls for each log, as if steps were about it; for the one that they are about first. Of what is not made there is no log to look at.
    pub(super) fn each_log(
        &mut self,
        store: Option<&Store>,
        mut call: impl FnMut(&mut Self) -> Verdict,
    ) -> Verdict {
        call(self)?;
        for index in 0..self.others.len() {
            self.exchange(index, store);
            let called = call(self).map_err(|what| format!("{}: {what}", self.name()));
            self.exchange(index, store);
            called?;
        }
        Ok(())
    }

    /// From here on steps are about this log, which is made the first time.
    pub(super) fn turn_to(&mut self, number: i32, store: &Store) -> Verdict {
        if number == self.number {
            return Ok(());
        }
        self.looker = None;
        let index = self.others.iter().position(|other| other.number == number).unwrap_or_else(|| {
            self.others.push(Slot { number, ..Slot::default() });
            self.others.len() - 1
        });
        self.exchange(index, Some(store));
        if told(Door::StoreLog, store.log(&self.name())).is_some() {
            return Ok(());
        }
        let made = self.make_log(store.clone());
        if !self.is_made {
            // Steps stay with the log that is there.
            self.exchange(index, Some(store));
        }
        made
    }

    /// Runs a job, which may be about any log.
    pub(super) fn run(&mut self, job: Job) -> Verdict {
        let Some(open) = &self.open else { return Ok(()) };
        let (store, here) = (open.store.clone(), open.log.id());
        let is_its = |id, log: Option<Log>| log.is_some_and(|log| log.id() == id);
        let index = job.log().filter(|id| *id != here).and_then(|id| {
            self.others.iter().position(|other| is_its(id, store.log(&name_of(other.number))))
        });
        let Some(index) = index else { return self.run_here(job) };
        self.exchange(index, Some(&store));
        let ran = self.run_here(job);
        self.exchange(index, Some(&store));
        ran
    }

    /// The host writes down how far its logs are committed, which is as far as they are written.
    pub(super) fn write_watermarks(&mut self, store: &Store) -> Verdict {
        let mut entries = OffsetCheckpoint::new();
        self.each_log(None, |trial| {
            if trial.is_made {
                entries.insert(trial.name(), offset(trial.model.written));
            }
            Ok(())
        })?;
        if let Watermarks::OneOf(may_be) = &mut self.watermarks {
            may_be.push(Some(entries.clone()));
        }
        let job = Job::OffsetCheckpoint {
            name: HIGH_WATERMARKS.to_owned(),
            entries: entries.clone().into_iter().collect(),
        };
        match done(JobKind::OffsetCheckpoint, job.run(store)) {
            JobDone::OffsetCheckpointed { .. } => {
                self.watermarks = Watermarks::OneOf(vec![Some(entries)]);
                self.check_watermarks(store).or_else(|what| self.excuse_look(what))
            }
            other @ (JobDone::Failed { .. } | _) => self.excuse(&format!("a job gave {other:?}")),
        }
    }

    /// The checkpoint of high watermarks says what was written into it.
    pub(super) fn check_watermarks(&self, store: &Store) -> Verdict {
        let read = asked(Door::StoreReadOffsetCheckpoint, store.read_offset_checkpoint(HIGH_WATERMARKS));
        self.watermarks.check(read.map_err(|error| format!("the checkpoint of high watermarks: {error}"))?)
    }
}
