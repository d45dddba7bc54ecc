//! One thread of a writer: chooses a step for one of its logs by the log's model, says so, does it, and says what came of it.

use std::sync::Arc;

use highwater_engine::batch::ReplicatedBatches;
use highwater_engine::disk::{Patience, Wait};
use highwater_engine::log::{AppendError, Log, Permit, Step as Rung, TicketError};
use highwater_engine::store::{Job, JobDone};
use highwater_tests::recover::batches::{check, leader_epoch, offset, sent};
use highwater_tests::recover::open::{check_lookups, check_newest, check_read, check_time, read};
use highwater_tests::recover::{Choices, Content, Model, Step};

use crate::story::{Story, Verdict, replicated};
use crate::told::{Told, What};
use crate::writer::Room;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Hand {
    room: Arc<Room>,
    logs: Vec<(usize, Log, Story)>,
    choices: Choices,
    number: u64,
    tags: u64,
}

impl Hand {
    pub(crate) fn new(
        room: Arc<Room>,
        logs: Vec<(usize, Log, Story)>,
        seed: u64,
        life: u64,
        number: u64,
    ) -> Self {
        let choices = Choices::seeded(seed ^ (life << 8) ^ (number << 4));
        Self { room, logs, choices, number, tags: (life << 40) | (number << 32) }
    }

    /// Looks at what was found, then does so many steps.
    pub(crate) fn work(mut self, steps: u64) -> Verdict {
        for (_, log, story) in &self.logs {
            check_lookups(&self.room.store, log, &story.model)?;
        }
        for _ in 0..steps {
            let count = i64::try_from(self.logs.len()).unwrap_or(0);
            let at = usize::try_from(self.choices.below(count)).unwrap_or(0);
            let step = Step::draw(&mut self.choices, &self.logs[at].2.model, self.room.time_ms());
            self.step(at, step)?;
        }
        Ok(())
    }

    fn tell(&mut self, at: usize, what: What) -> Verdict {
        let (number, _, story) = &mut self.logs[at];
        self.room.tell(&Told::Of(*number, what.clone()));
        story.tell(what)
    }

    fn step(&mut self, at: usize, step: Step) -> Verdict {
        let log = self.logs[at].1.clone();
        let store = self.room.store.clone();
        let id = log.id();
        match step {
            Step::Append(content) => self.append(at, &log, content),
            Step::Replicate(batches) => self.replicate(at, &log, batches),
            Step::BeginEpoch => {
                let epoch = self.logs[at].2.model.epoch + 1;
                self.tell(at, What::BeginningEpoch(epoch))?;
                let begun = log.begin_epoch(leader_epoch(epoch));
                begun.unwrap_or_else(|error| self.room.fail(error.to_string()));
                Ok(())
            }
            Step::Turn { wait, may_block } => {
                let wait = if wait { Wait::ForOne } else { Wait::Not };
                store.turn(wait, if may_block { Patience::MayBlock } else { Patience::MustNotBlock });
                self.tell_marks(at, &log)
            }
            Step::WantDurable => {
                store.want_durable(&log);
                Ok(())
            }
            // There is nothing else that a real disk could be told to do here.
            Step::Complete
            | Step::Room(_)
            | Step::Reopen
            | Step::TurnTo(_)
            | Step::Delete
            | Step::Make
            | Step::Rot { .. }
            | Step::Examine { .. }
            | Step::Repair
            | Step::ReopenLog
            | Step::Wide(_) => self.wait(at, &log, step == Step::Complete),
            Step::Sync => self.run(at, Job::Sync { logs: vec![id] }),
            Step::Seal => self.run(at, Job::Seal { log: id }),
            Step::DueJobs { after_ms } => {
                let jobs = store.due_jobs(self.room.later(after_ms));
                jobs.into_iter().try_for_each(|job| self.run(at, job))
            }
            Step::Checkpoint => {
                let now = self.room.later(7);
                self.run(at, Job::Checkpoint { now })
            }
            Step::Retention { ceiling, after_ms } => {
                let now = self.room.later(after_ms);
                self.tell(at, What::Retaining(ceiling))?;
                self.run(at, Job::Retention { log: id, ceiling: offset(ceiling), now })
            }
            Step::Truncate(to) => {
                self.tell(at, What::Cutting(to))?;
                self.run(at, Job::Truncate { log: id, to: offset(to) })
            }
            Step::RestartAt(to) => {
                self.tell(at, What::Restarting(to))?;
                self.run(at, Job::RestartAt { log: id, offset: offset(to) })
            }
            Step::RaiseStart(to) => {
                let to = to.min(log.written().value());
                self.tell(at, What::Raising(to))?;
                self.run(at, Job::RaiseStart { log: id, to: offset(to) })
            }
            Step::Read { from, ceiling, bytes_max, at_least_one } => {
                let bytes = usize::try_from(bytes_max).unwrap_or(0);
                self.look(at, &log, |model, written| {
                    let ceiling = ceiling.min(written);
                    let found = read(&store, &log, from, ceiling, bytes, at_least_one);
                    check_read(model, (from, ceiling, bytes_max, at_least_one), &found)
                })
            }
            Step::Find { time, ceiling } => {
                self.look(at, &log, |model, written| check_time(&log, model, time, ceiling.min(written)))
            }
            Step::FindNewest { ceiling } => {
                self.look(at, &log, |model, written| check_newest(&log, model, ceiling.min(written)))
            }
        }
    }

    fn append(&mut self, at: usize, log: &Log, content: Content) -> Verdict {
        self.tags += 1;
        let (tag, epoch) = (self.tags, self.logs[at].2.model.epoch);
        let bytes = sent(&content, tag);
        self.tell(at, What::Appending { content, tag, epoch })?;
        match log.append(Permit::new(leader_epoch(epoch)), check(&bytes), self.room.later(7)) {
            Ok(appended) => {
                let (base, end) = (appended.offsets.start().value(), appended.offsets.end().value());
                self.tell(at, What::Appended { base, end, is_duplicate: appended.duplicate })
            }
            Err(AppendError::Producer(_)) => self.tell(at, What::Refused),
            Err(AppendError::TooLarge { bytes, bytes_max }) if bytes as u64 > u64::from(bytes_max) => {
                self.tell(at, What::TooLarge)
            }
            Err(error) => self.room.fail(format!("an append: {error}")),
        }
    }

    fn replicate(&mut self, at: usize, log: &Log, batches: Vec<(Content, i64, i32)>) -> Verdict {
        let (tag, model) = (self.tags + 1, &self.logs[at].2.model);
        self.tags += batches.len() as u64;
        let stamped = replicated(&batches, tag, model.epoch, model.end);
        let epoch = model.epoch;
        let bytes: Vec<u8> = stamped.iter().flat_map(|batch| batch.bytes.iter().copied()).collect();
        let (last, expected) = stamped.last().map_or((epoch, model.end), |batch| (batch.epoch, batch.end));
        let set =
            ReplicatedBatches::check(bytes.into(), leader_epoch(last)).map_err(|error| error.to_string())?;
        self.tell(at, What::Replicating { batches, tag, epoch })?;
        match log.append_replicated(&set, self.room.later(7)) {
            Ok(appended) if appended.offsets.end().value() < expected => {
                self.room.fail(format!("a follower's append ends at {:?}", appended.offsets))
            }
            Ok(appended) => self.tell(at, What::Replicated(appended.offsets.end().value())),
            Err(error) => self.room.fail(format!("a follower's append: {error}")),
        }
    }

    /// Waits for everything, in this thread.
    fn wait(&mut self, at: usize, log: &Log, for_durable: bool) -> Verdict {
        let (ticket, store) = (log.ticket(), self.room.store.clone());
        let rung = if for_durable { Rung::Durable } else { Rung::Written };
        match store.wait(ticket, rung) {
            Ok(()) if for_durable => self.tell(at, What::Durable(ticket.end().value())),
            Ok(()) => self.tell(at, What::Written(ticket.end().value())),
            Err(TicketError::Truncated) => Err("a ticket is void, and nobody has cut the log".to_owned()),
            Err(error) => self.room.fail(format!("a wait: {error}")),
        }
    }

    fn tell_marks(&mut self, at: usize, log: &Log) -> Verdict {
        let (durable, written) = (log.durable().value(), log.written().value());
        self.tell(at, What::Durable(durable))?;
        self.tell(at, What::Written(written))
    }

    fn run(&mut self, at: usize, job: Job) -> Verdict {
        let store = self.room.store.clone();
        let is_checkpoint = matches!(job, Job::Checkpoint { .. });
        if is_checkpoint {
            self.room.tell(&Told::Checkpointing(self.number));
            self.logs.iter_mut().for_each(|(_, _, story)| story.checkpointing(self.number));
        }
        let log = self.logs[at].1.clone();
        match job.run(&store) {
            JobDone::Truncated { end, .. } => self.tell(at, What::Cut(end.value())),
            JobDone::RestartedAt { offset, .. } => self.tell(at, What::Restarted(offset.value())),
            JobDone::StartRaised { start, .. } | JobDone::Retained { start, .. } => {
                self.tell(at, What::Started(start.value()))
            }
            JobDone::Checkpointed => {
                self.room.tell(&Told::Checkpointed(self.number));
                self.logs.iter_mut().for_each(|(_, _, story)| story.checkpointed(self.number));
                Ok(())
            }
            JobDone::Synced { .. }
            | JobDone::Sealed { .. }
            | JobDone::AbortedIndexed { .. }
            | JobDone::Examined { .. } => self.tell_marks(at, &log),
            JobDone::Failed { error, .. } => self.room.fail(format!("a job: {error}")),
            other @ (JobDone::OffsetCheckpointed { .. }
            | JobDone::Read { .. }
            | JobDone::Repaired { .. }
            | JobDone::Deleted { .. }
            | JobDone::Reopened { .. }
            | _) => Err(format!("a job gave {other:?}")),
        }
    }

    /// Looks below what was written when it began, because other threads write on.
    fn look(&mut self, at: usize, log: &Log, look: impl FnOnce(&Model, i64) -> Verdict) -> Verdict {
        let model = &mut self.logs[at].2.model;
        let written = log.written().value();
        model.written = model.written.max(written);
        look(model, written)
    }
}
