//! Carries out each step on the store, and tells the model what came of it.

use std::path::Path;

use highwater_engine::batch::ReplicatedBatches;
use highwater_engine::disk::{Disk, Patience, Wait};
use highwater_engine::log::{AppendError, Log, Permit};
use highwater_engine::store::{Job, JobDone, JobError, Store};

use super::batches::{check, leader_epoch, offset, placed, sent, stamped};
use super::doors::{Door, asked, called, done, told};
use super::model::{Batch, Expected, Model, UnderWay};
use super::open::{check_newest, check_read, check_time, read};
use super::step::{Content, Step};
use super::transactions::{check_committed, settle_below};
use super::trial::{Open, Trial, Verdict};

/// Reads what anybody may read, and what is committed.
fn check_reads(store: &Store, log: &Log, model: &Model, asked: (i64, i64, i64, bool)) -> Verdict {
    let (from, ceiling, bytes_max, at_least_one) = asked;
    let found = read(store, log, from, ceiling, usize::try_from(bytes_max).unwrap_or(0), at_least_one);
    check_read(model, asked, &found)?;
    check_committed(store, log, model, (from, ceiling))
}

impl Trial {
    pub(super) fn perform(&mut self, step: &Step) -> Verdict {
        let Some(open) = &self.open else { return Ok(()) };
        let (store, log) = (open.store.clone(), open.log.clone());
        let id = log.id();
        self.now_ms += 7;
        if !self.is_made && !step.needs_no_log() {
            return Ok(());
        }
        match step {
            Step::Append(content) => self.append(content),
            Step::Replicate(batches) => self.replicate(batches),
            Step::BeginEpoch => {
                self.model.epoch += 1;
                match asked(Door::LogBeginEpoch, log.begin_epoch(leader_epoch(self.model.epoch))) {
                    Ok(()) => Ok(()),
                    Err(error) => self.excuse(&error.to_string()),
                }
            }
            Step::Turn { wait, may_block } => {
                let wait = if *wait { Wait::ForOne } else { Wait::Not };
                let patience = if *may_block { Patience::MayBlock } else { Patience::MustNotBlock };
                self.turn(&store, wait, patience)?;
                if self.disk.is_down() || self.model.under_way.is_some() {
                    return Ok(());
                }
                let seen = Model { written: log.written().value(), ..self.model.clone() };
                self.check_files(&seen, false)
            }
            Step::Complete => {
                self.disk.complete_next(&mut fastrand::Rng::with_seed(self.now_ms.unsigned_abs()));
                Ok(())
            }
            Step::WantDurable => {
                store.want_durable(&log);
                called(Door::StoreWantDurable);
                Ok(())
            }
            Step::Sync => self.run(Job::Sync { logs: store.logs().iter().map(Log::id).collect() }),
            Step::Seal => self.run(Job::Seal { log: id }),
            Step::DueJobs { after_ms } => {
                self.now_ms += after_ms;
                self.run_due(&store)
            }
            Step::Checkpoint => {
                let now = self.now();
                self.run(Job::Checkpoint { now })
            }
            Step::Retention { ceiling, after_ms } => {
                self.now_ms += after_ms;
                let now = self.now();
                if self.model.under_way.is_none() && log.closed().is_none() {
                    settle_below(&log, &mut self.model, (*ceiling).min(log.written().value()))?;
                }
                self.run(Job::Retention { log: id, ceiling: offset(*ceiling), now })
            }
            Step::Truncate(to) => {
                let anew = (*to <= self.model.start).then_some(*to);
                let end = self.model.end_below(*to).min(*to);
                self.begin(UnderWay::Cut { end, anew });
                self.run(Job::Truncate { log: id, to: offset(*to) })
            }
            Step::RestartAt(at) => {
                self.begin(UnderWay::Restart { at: *at });
                self.run(Job::RestartAt { log: id, offset: offset(*at) })
            }
            Step::RaiseStart(to) => self.run(Job::RaiseStart { log: id, to: offset(*to) }),
            // What a cut that failed has left is not looked at before it is opened again.
            Step::Read { .. } | Step::Find { .. } | Step::FindNewest { .. }
                if self.model.under_way.is_some() =>
            {
                Ok(())
            }
            Step::Read { from, ceiling, bytes_max, at_least_one } => {
                let asked = (*from, *ceiling, *bytes_max, *at_least_one);
                check_reads(&store, &log, &self.model, asked).or_else(|what| self.excuse_look(what))
            }
            Step::Find { time, ceiling } => {
                check_time(&log, &self.model, *time, *ceiling).or_else(|what| self.excuse_look(what))
            }
            Step::FindNewest { ceiling } => {
                check_newest(&log, &self.model, *ceiling).or_else(|what| self.excuse_look(what))
            }
            Step::TurnTo(number) => self.turn_to(*number, &store),
            Step::Delete => self.delete(&store),
            Step::Make => self.make_log(store),
            Step::Rot { batch } => self.rot(*batch),
            Step::Examine { segment } => self.examine(&store, id, *segment),
            Step::Repair => self.repair(id),
            Step::ReopenLog => self.reopen_log(&store, id),
            Step::Wide(step) => self.perform_wide(step, &store, id),
            Step::Room(bytes) => {
                self.limit(*bytes);
                Ok(())
            }
            Step::Reopen => {
                drop((store, log));
                self.limit(None);
                self.close()?;
                if self.disk.is_down() { Ok(()) } else { self.open().map_err(|violation| violation.what) }
            }
        }
    }

    /// A change of the log's extent begins, unless the log is closed.
    fn begin(&mut self, change: UnderWay) {
        let is_closed = self.open.as_ref().is_none_or(|open| open.log.closed().is_some());
        if !is_closed && !self.disk.is_down() {
            self.model.under_way = Some(change);
            self.looker = None;
        }
    }

    /// A turn of the driver; every other one into the report of an earlier one.
    fn turn(&mut self, store: &Store, wait: Wait, patience: Patience) -> Verdict {
        if self.now_ms % 2 == 0 {
            told(Door::StoreTurn, store.turn(wait, patience));
            return Ok(());
        }
        let before = std::mem::take(&mut self.turned);
        store.turn_into(wait, patience, &mut self.turned);
        called(Door::StoreTurnInto);
        let is_left =
            before.moved.iter().any(|log| self.turned.moved.iter().filter(|is| *is == log).count() > 1);
        if is_left { Err(format!("{:?} behind {before:?}", self.turned)) } else { Ok(()) }
    }

    /// A look at the disk may fail where calls are made to fail; it must never show anything else than there is.
    pub(super) fn excuse_look(&mut self, what: String) -> Verdict {
        let is_error = what.contains("os error") || what.contains("crashed");
        if is_error { self.excuse(&what) } else { Err(what) }
    }

    fn limit(&mut self, left: Option<i64>) {
        self.trouble |= left.is_some();
        let used = || {
            const LARGE: u64 = 1 << 40;
            let copy = self.disk.fork(0);
            copy.crash_at(u64::MAX);
            copy.set_capacity(Some(LARGE));
            LARGE - copy.free_bytes(Path::new("/")).unwrap_or(LARGE)
        };
        self.disk.set_capacity(left.map(|left| used() + left.unsigned_abs()));
    }

    fn append(&mut self, content: &Content) -> Verdict {
        let Some(Open { log, .. }) = &self.open else { return Ok(()) };
        self.tags += 1;
        let bytes = sent(content, self.tags);
        let expected = content.sent.map_or(Expected::Append, |sent| self.model.expect(sent));
        let permit = Permit::new(leader_epoch(self.model.epoch));
        let appended = asked(Door::LogAppend, log.append(permit, check(&bytes), self.now()));
        let appended = match appended {
            Ok(appended) => appended,
            Err(AppendError::Producer(refusal)) => {
                return match expected {
                    Expected::Refused | Expected::DuplicateOrRefused(..) => Ok(()),
                    Expected::Append | Expected::Duplicate(..) => {
                        Err(format!("{expected:?} was expected of a producer: {refusal}"))
                    }
                };
            }
            Err(AppendError::TooLarge { bytes, bytes_max }) if bytes as u64 > u64::from(bytes_max) => {
                return Ok(());
            }
            Err(error) => return self.excuse(&format!("an append was refused: {error}")),
        };
        let (base, end) = (appended.offsets.start().value(), appended.offsets.end().value());
        if appended.duplicate {
            let is_right = match expected {
                Expected::Duplicate(from, to) | Expected::DuplicateOrRefused(from, to) => {
                    (from, to) == (base, end)
                }
                Expected::Append | Expected::Refused => false,
            };
            return if is_right {
                Ok(())
            } else {
                Err(format!("{expected:?} was expected, and a duplicate at {base}..{end} was found"))
            };
        }
        if expected != Expected::Append || base != self.model.end {
            return Err(format!("appended at {base}, expected {expected:?} at {}", self.model.end));
        }
        let batch = placed(content, &bytes, base, self.model.epoch);
        if batch.end != end {
            return Err(format!("appended to {end}, expected to {}", batch.end));
        }
        self.model.accept(batch);
        self.hold(appended.ticket);
        Ok(())
    }

    fn replicate(&mut self, contents: &[(Content, i64, i32)]) -> Verdict {
        let Some(Open { log, .. }) = &self.open else { return Ok(()) };
        let (mut next, mut epoch) = (self.model.end, self.model.epoch);
        let mut batches: Vec<Batch> = Vec::new();
        for (content, gap, up) in contents {
            self.tags += 1;
            epoch += up;
            let batch = stamped(content, self.tags, next + gap, epoch);
            next = batch.end;
            batches.push(batch);
        }
        let bytes: Vec<u8> = batches.iter().flat_map(|batch| batch.bytes.iter().copied()).collect();
        let set = ReplicatedBatches::check(bytes.into(), leader_epoch(epoch));
        let set = set.map_err(|error| format!("a follower refuses what a leader stamped: {error}"))?;
        match asked(Door::LogAppendReplicated, log.append_replicated(&set, self.now())) {
            Ok(appended) => {
                let end = appended.offsets.end().value();
                if end != next && !self.trouble && !self.disk.is_down() {
                    return Err(format!("appended to {end} of {next}"));
                }
                for batch in batches.into_iter().filter(|batch| batch.end <= end) {
                    self.model.epoch = batch.epoch;
                    self.model.accept(batch);
                }
                // An epoch may have been noted of which nothing was appended.
                self.model.epoch = epoch;
                self.model.noted = self.model.noted.max(next);
                Ok(())
            }
            Err(error) => {
                self.model.epoch = epoch;
                self.model.noted = self.model.noted.max(next);
                self.excuse(&format!("a follower's append was refused: {error}"))
            }
        }
    }

    pub(super) fn run_here(&mut self, job: Job) -> Verdict {
        let Some(Open { store, log }) = &self.open else { return Ok(()) };
        let is_of_another = job.log().is_some_and(|of| of != log.id());
        let is_checkpoint = matches!(job, Job::Checkpoint { .. });
        let raised = if let Job::RaiseStart { to, .. } = &job { Some(to.value()) } else { None };
        let cut = if let Job::Truncate { to, .. } = &job { Some(to.value()) } else { None };
        let done = done(job.kind(), job.run(store));
        let model = &mut self.model;
        match done {
            JobDone::Truncated { end, .. } => {
                let cut = cut.unwrap_or(0);
                if cut < model.end {
                    self.void_tickets();
                }
                self.model.truncated(cut, end.value())
            }
            JobDone::RestartedAt { offset, .. } => {
                model.restart(offset.value());
                self.void_tickets();
                Ok(())
            }
            // Where a restart that has failed leaves the start is not looked at before it is opened again.
            JobDone::StartRaised { .. } | JobDone::Retained { .. }
                if matches!(model.under_way, Some(UnderWay::Restart { .. })) =>
            {
                Ok(())
            }
            JobDone::StartRaised { start, .. } | JobDone::Retained { start, .. } => {
                let start = start.value();
                let expected = raised.map(|to| model.start.max(to));
                if start < model.start || expected.is_some_and(|expected| expected != start) {
                    return Err(format!("the start is {start} after it was {}", model.start));
                }
                model.start = start;
                model.start_high = model.start_high.max(start);
                Ok(())
            }
            JobDone::Checkpointed => {
                if is_checkpoint {
                    for model in self.models_mut() {
                        model.start_sure = model.start;
                    }
                }
                Ok(())
            }
            JobDone::Failed { error: JobError::AboveEnd { .. }, .. } if raised > Some(model.written) => {
                Ok(())
            }
            // It was due, and then its log went.
            JobDone::Failed { error: JobError::UnknownLog, .. } if is_of_another => Ok(()),
            JobDone::Failed { error, .. } => self.job_failed(&error),
            JobDone::Sealed { .. }
            | JobDone::Compacted { .. }
            | JobDone::Synced { .. }
            | JobDone::OffsetCheckpointed { .. }
            | JobDone::Read { .. }
            | JobDone::Deleted { .. }
            | JobDone::AbortedIndexed { .. }
            | JobDone::Examined { .. } => Ok(()),
            JobDone::Reopened { log, .. } => Err(format!("nobody asked for {log:?} to be opened again")),
            JobDone::Repaired { damaged, .. } => {
                model.under_way = None;
                model.damaged = None;
                if damaged.is_empty() { Ok(()) } else { Err(format!("repaired, and damaged: {damaged:?}")) }
            }
            other => Err(format!("a job gave {other:?}")),
        }
    }

    /// The start may have been raised, and nothing more.
    fn job_failed(&mut self, error: &JobError) -> Verdict {
        if let Some(Open { log, .. }) = &self.open {
            if !matches!(self.model.under_way, Some(UnderWay::Restart { .. })) {
                let start = log.start().value().max(self.model.start);
                self.model.start = start;
                self.model.start_high = self.model.start_high.max(start);
            }
            if log.closed().is_none() && self.model.under_way != Some(UnderWay::Repair) {
                // A log that goes on was not changed.
                self.model.under_way = None;
            }
        }
        self.excuse(&format!("a job failed: {error}"))
    }
}

impl Model {
    /// A truncation to `to` says that it has ended at `end`.
    pub fn truncated(&mut self, to: i64, end: i64) -> Result<(), String> {
        let below = self.end_below(to).min(to);
        let is_right = match to {
            _ if to >= self.end => end == self.end,
            // How far below the start the files reach is not to be known from outside: a power loss may have taken what is there.
            _ if to <= self.start => end <= to,
            // Nor what is left of what nobody sees, if that is all that stays.
            _ if below <= self.start => end <= below,
            _ => end == below,
        };
        if !is_right {
            return Err(format!("truncated to {end}, expected {below}"));
        }
        if to >= self.end {
            self.under_way = None;
        } else {
            self.cut(end);
        }
        Ok(())
    }
}
