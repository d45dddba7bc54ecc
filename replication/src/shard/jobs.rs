//! Cold work: what the engine asks for, what is due by time, and what came of it; and the way to a stop.

use highwater_engine::store::{Job, JobDone, JobKind};
use highwater_engine::units::{Monotonic, Now, Offset};

use super::event::{News, Out};
use super::registration::OnBehalf;
use super::{HIGH_WATERMARKS, ReplicaKey, Shard, ShardConfig};
use crate::controller::{ControllerReply, ControllerRequest};
use crate::partition::{FetchAnswer, FetchFailure, FetchOutcome, Input};

/// What is due by time.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not the states of one thing")]
pub(super) struct Due {
    watermarks_at: Monotonic,
    watermarks_moved: bool,
    watermarks_underway: bool,
    /// A high watermark's entry may replace the last session's only when the controller has persisted what it makes of that session.
    may_write_watermarks: bool,
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
        Self {
            watermarks_at: now.after(config.high_watermark_interval),
            watermarks_moved: false,
            watermarks_underway: false,
            may_write_watermarks: false,
            retention_at: now.after(config.retention_interval),
            store_failed: false,
        }
    }

    pub(super) fn watermarks_moved(&mut self) {
        self.watermarks_moved = true;
    }

    /// The file is written at once, so that from then on a missing one is a lost one.
    pub(super) fn session_began(&mut self, now: Monotonic) {
        self.may_write_watermarks = true;
        self.watermarks_moved = true;
        self.watermarks_at = now;
    }

    /// Whether this is the first time that the failure is seen.
    pub(super) fn store_fails_now(&mut self) -> bool {
        !std::mem::replace(&mut self.store_failed, true)
    }

    fn watermarks_due(&self) -> bool {
        self.watermarks_moved && !self.watermarks_underway && self.may_write_watermarks && !self.store_failed
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        let watermarks = self.watermarks_due().then_some(self.watermarks_at);
        watermarks.into_iter().chain([self.retention_at]).min()
    }
}

impl Shard {
    pub(super) fn emit_jobs(&mut self, now: Now) {
        let jobs = self.store.due_jobs(now);
        self.out.extend(jobs.into_iter().map(Out::Job));
        if self.due.watermarks_due() && self.due.watermarks_at <= now.monotonic {
            self.due.watermarks_at = now.monotonic.after(self.config.high_watermark_interval);
            self.due.watermarks_moved = false;
            self.due.watermarks_underway = true;
            self.out.push(Out::Job(Job::OffsetCheckpoint {
                name: HIGH_WATERMARKS.to_owned(),
                entries: self.high_watermarks(),
            }));
        }
        if self.due.retention_at <= now.monotonic {
            self.due.retention_at = now.monotonic.after(self.config.retention_interval);
            for replica in self.replicas.values() {
                let ceiling = replica.machine.high_watermark();
                self.out.push(Out::Job(Job::Retention { log: replica.log.id(), ceiling, now }));
            }
        }
    }

    /// What the checkpoint of high watermarks has to say: also of logs whose replica the controller has not spoken of.
    pub fn high_watermarks(&self) -> Vec<(highwater_engine::units::TopicPartition, Offset)> {
        let entry = |log: highwater_engine::log::Log| {
            let committed = match self.replica(log.name()) {
                Some(replica) => replica.machine.known_committed(),
                None => self.known.high_watermark(log.name()),
            };
            Some((log.name().clone(), committed?))
        };
        self.store.logs().into_iter().filter_map(entry).collect()
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
            JobDone::Read { asked, result } => self.on_cold_read(now, asked, result),
            JobDone::Deleted { log } => self.on_deleted(now, log),
            JobDone::OffsetCheckpointed { .. } => self.due.watermarks_underway = false,
            JobDone::Reopened { log, report } => self.on_reopened(now, log, report.map(|report| *report)),
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
        if kind == JobKind::OffsetCheckpoint {
            self.due.watermarks_underway = false;
        }
        let Some(key) = key else { return };
        if matches!(kind, JobKind::Truncate | JobKind::RestartAt) {
            // The machine waits for the cut and would wait for ever; what failed was the log.
            self.fail_log(now, key, why);
        }
        if kind == JobKind::Reopen {
            self.on_not_reopened(now, key, why);
        }
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
