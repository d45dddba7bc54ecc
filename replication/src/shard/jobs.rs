//! Cold work: what the engine asks for, what is due by time, and what came of it; and the way to a stop.

use highwater_engine::store::{CloseError, Job, JobDone, JobKind};
use highwater_engine::units::{Monotonic, Now};

use super::event::{News, Out};
use super::registration::OnBehalf;
use super::{HIGH_WATERMARKS, ReplicaKey, Shard, ShardConfig};
use crate::controller::{ControllerReply, ControllerRequest};
use crate::ids::BrokerEpoch;
use crate::partition::{FetchAnswer, FetchFailure, FetchOutcome, Input};

/// What is due by time.
#[derive(Debug)]
pub(super) struct Due {
    retention_at: Monotonic,
    store_failed: bool,
}

/// The way to a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopping {
    /// Not asked for.
    No,
    /// The controller was asked to give the leaderships to others.
    Asked,
    /// They are given, as far as it goes.
    MayStop,
}

impl Due {
    pub(super) fn new(now: Monotonic, config: &ShardConfig) -> Self {
        Self { retention_at: now.after(config.retention_interval), store_failed: false }
    }

    /// Whether this is the first time that the failure is seen.
    pub(super) fn store_fails_now(&mut self) -> bool {
        !std::mem::replace(&mut self.store_failed, true)
    }

    pub(super) const fn next_deadline(&self) -> Monotonic {
        self.retention_at
    }
}

impl Shard {
    pub(super) fn emit_jobs(&mut self, now: Now) {
        let jobs = self.store.due_jobs(now);
        self.out.extend(jobs.into_iter().map(Out::Job));
        self.write_watermarks(now);
        self.emit_compaction(now);
        if self.due.retention_at <= now.monotonic {
            self.due.retention_at = now.monotonic.after(self.config.retention_interval);
            for replica in self.replicas.values() {
                let ceiling = replica.machine.high_watermark();
                self.out.push(Out::Job(Job::Retention { log: replica.log.id(), ceiling, now }));
            }
        }
    }

    pub(super) fn on_job_done(&mut self, now: Now, done: JobDone) {
        match done {
            JobDone::Truncated { log, end } => {
                if let Some(key) = self.by_log.get(&log).copied() {
                    if let Some(replica) = self.replicas.get(&key) {
                        let name = replica.name.clone();
                        self.out.push(Out::News(News::Truncated { name, end }));
                    }
                    self.step(now, key, Input::Truncated { end });
                }
            }
            JobDone::RestartedAt { log, offset } => self.tell_log(now, log, Input::RestartedAt { offset }),
            JobDone::StartRaised { log, .. } | JobDone::Retained { log, .. } => {
                self.tell_log(now, log, Input::LogMoved);
            }
            JobDone::Synced { logs } => {
                for log in logs {
                    self.tell_log(now, log, Input::LogMoved);
                }
            }
            JobDone::Compacted { log, step } => self.on_compacted(now, log, &step),
            JobDone::Read { asked, result } => self.on_cold_read(now, asked, result),
            JobDone::Deleted { log } => self.on_deleted(now, log),
            JobDone::OffsetCheckpointed { .. } => self.watermarks.written(),
            JobDone::Repaired { log, .. } => self.on_repaired(now, log),
            JobDone::Reopened { log, report } => self.on_reopened(now, log, report.map(|report| *report)),
            JobDone::Failed { kind: JobKind::Compact, log, error } => {
                self.on_not_compacted(now, log, &error.to_string());
            }
            JobDone::Failed { kind: JobKind::DeleteLog, log: Some(log), .. } => self.on_not_deleted(now, log),
            JobDone::Failed { kind, log, error } => {
                let key = log.and_then(|log| self.by_log.get(&log).copied());
                self.on_job_failed(now, kind, key, &error.to_string());
            }
            JobDone::Sealed { .. } | JobDone::Checkpointed | _ => {}
        }
    }

    fn tell_log(&mut self, now: Now, log: highwater_engine::log::LogId, input: Input) {
        if let Some(key) = self.by_log.get(&log).copied() {
            self.step(now, key, input);
        }
    }

    fn on_job_failed(&mut self, now: Now, kind: JobKind, key: Option<ReplicaKey>, why: &str) {
        if kind == JobKind::OffsetCheckpoint && self.store.failure().is_none() {
            self.watermarks.not_written();
        }
        let Some(key) = key else { return };
        if matches!(kind, JobKind::Truncate | JobKind::RestartAt) {
            // The machine waits for the cut and would wait for ever.
            self.on_not_cut(now, key, why);
        }
        if kind == JobKind::Repair {
            self.on_not_repaired(now, key, why);
        }
        if kind == JobKind::Reopen {
            self.on_not_reopened(now, key, why);
        }
    }

    /// What failed was the log, unless it was not touched yet.
    fn on_not_cut(&mut self, now: Now, key: ReplicaKey, why: &str) {
        let Some(replica) = self.replicas.get(&key) else { return };
        if replica.log.closed().is_some() {
            return self.fail_log(now, key, why);
        }
        let name = replica.name.clone();
        self.out.push(Out::News(News::NotCut { name, why: why.to_owned() }));
        self.step(now, key, Input::NotCut);
    }

    pub(super) fn on_stop(&mut self, now: Now) {
        if self.stopping != Stopping::No {
            return;
        }
        self.stopping = Stopping::Asked;
        if self.link.ask(ControllerRequest::ControlledStop, OnBehalf::Stop).is_err() {
            self.on_stop_answered(now, None);
        }
    }

    pub(super) fn on_stop_answered(&mut self, _now: Now, _reply: Option<&ControllerReply>) {
        if self.stopping == Stopping::Asked {
            self.stopping = Stopping::MayStop;
            self.out.push(Out::MayStop);
        }
    }

    /// Closes the data directory, behind [`Out::MayStop`] and when no job of its own runs any more. The next start has nothing to recover,
    /// and proves by the mark that it kept everything.
    pub fn close(self) -> Result<(), CloseError> {
        // Not the view's: one that began before the last poll is not in it.
        let session = self.last_session().map(BrokerEpoch::value);
        if session.is_none() && !self.store.logs().is_empty() {
            // Nobody was told how the last process stopped. A mark would replace that proof by one of a session that never was.
            return Ok(());
        }
        // Safe when stale: what cannot be written now is found by the close as well.
        let name = HIGH_WATERMARKS.to_owned();
        let _done = Job::OffsetCheckpoint { name, entries: self.high_watermarks() }.run(&self.store);
        let store = self.store.clone();
        drop(self);
        store.close(serde_json::Map::new(), session)
    }

    /// A Fetch of a follower that cannot be answered, for one partition.
    pub(super) fn fetch_failed(
        &mut self,
        now: Now,
        key: ReplicaKey,
        asked: super::follow::Asked,
        why: FetchFailure,
    ) {
        let answer =
            FetchAnswer { epoch: asked.epoch, from: asked.offset, outcome: FetchOutcome::Failed(why) };
        self.step(now, key, Input::FetchAnswered(answer));
    }
}
