//! Which replicas this node has: the controller's word turned into logs and machines.

use std::time::Duration;

use highwater_engine::batch::{BatchLimits, KeyRule, TimestampRule};
use highwater_engine::log::{Cleanup, Log, LogConfig, LogId, TimestampSource};
use highwater_engine::store::{CreateLogError, Job};
use highwater_engine::units::{Monotonic, Now, Offset, TopicId, TopicPartition};

use super::event::{News, Out};
use super::registration::ViewIs;
use super::replica::Replica;
use super::{ReplicaKey, Shard};
use crate::controller::{ControllerReply, ViewChange};
use crate::partition::{Assignment, Input, Partition};

/// Before a log that could not be made, or removed, is tried again.
const MAKE_AGAIN: Duration = Duration::from_secs(1);

/// A log whose files are being removed.
#[derive(Debug)]
pub(super) struct Deleting {
    name: TopicPartition,
    /// When it is tried again; `None` while the job runs.
    pub(super) again_at: Option<Monotonic>,
}

impl Shard {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other replies are not about the view")]
    pub(super) fn on_view(&mut self, now: Now, reply: ControllerReply) {
        let change = match reply {
            ControllerReply::Whole(state) => {
                self.known.set_view_is_fresh(ViewIs::Whole);
                self.view.apply_whole(*state)
            }
            ControllerReply::Changes { from, changes } => match self.view.apply_changes(from, &changes) {
                Ok(change) => change,
                // The next poll asks for the whole.
                Err(_) => return self.known.set_view_is_fresh(ViewIs::Stale),
            },
            // The link hands on nothing else.
            _ => return,
        };
        self.take_over(now, change);
        self.settle(now);
        self.report_replicas();
    }

    fn take_over(&mut self, now: Now, change: ViewChange) {
        for (name, id) in change.removed {
            self.remove_replica(&name, id);
        }
        for (name, assignment) in change.assigned {
            if let Some(key) = self.replica_for(now, &name, &assignment) {
                self.step(now, key, Input::Assigned(assignment));
            }
        }
    }

    /// The replica of an assignment; its log is opened or made if this node has none yet.
    fn replica_for(
        &mut self,
        now: Now,
        name: &TopicPartition,
        assignment: &Assignment,
    ) -> Option<ReplicaKey> {
        if let Some(key) = self.by_name.get(name) {
            return Some(*key);
        }
        let id = assignment.topic_id;
        if self.deleting.values().any(|deleting| deleting.name == *name) {
            return None;
        }
        let config = self.log_config(name.topic());
        let found = match self.store.log(name) {
            Some(log) => Ok(log),
            None => self.make_or_open(now, name, id, config.clone()),
        };
        if found.as_ref().is_ok_and(|log| log.topic_id().is_some_and(|found| found != id)) {
            // A topic of this name was deleted and made again while this node was away, or could not open the log (S55).
            self.known.forget(name);
            self.delete_log(name);
            return None;
        }
        let log = match found.and_then(|log| self.adopt(&log, id, config).map(|()| log)) {
            Ok(log) => log,
            Err(why) => {
                self.out.push(Out::News(News::LogFailed { name: name.clone(), why }));
                self.unmade.insert(name.clone(), now.monotonic.after(MAKE_AGAIN));
                return None;
            }
        };
        let known = self.known.high_watermark(name);
        Some(self.add_replica(now, name, id, log, known))
    }

    /// A new log; or the one of this name that could not be opened when the directory was, and can be by now.
    fn make_or_open(
        &mut self,
        now: Now,
        name: &TopicPartition,
        id: TopicId,
        config: LogConfig,
    ) -> Result<Log, String> {
        match self.store.create_log(name, Some(id), config, now) {
            Ok(log) => return Ok(log),
            Err(CreateLogError::LeftAlone { .. }) => {}
            Err(error) => return Err(error.to_string()),
        }
        let report = self.store.reopen_log(name, now).map_err(|error| error.to_string())?;
        let (Some(report), Some(log)) = (report, self.store.log(name)) else {
            return Err("it is not there".to_owned());
        };
        self.out.push(Out::News(News::LogReopened { name: name.clone(), end: report.end }));
        self.known.reopened(report);
        Ok(log)
    }

    /// A log that was found, and that says no other topic, is this topic's.
    fn adopt(&self, log: &Log, id: TopicId, config: LogConfig) -> Result<(), String> {
        if log.topic_id().is_none() {
            // At the next registration it would count as missing.
            self.store.set_topic_id(log, id).map_err(|error| error.to_string())?;
        }
        self.store.set_config(log.id(), config).map_err(|error| error.to_string())
    }

    pub(super) fn add_replica(
        &mut self,
        now: Now,
        name: &TopicPartition,
        id: TopicId,
        log: Log,
        known_committed: Option<Offset>,
    ) -> ReplicaKey {
        // The file may still name more of a log that had this name before.
        self.watermarks.changed(now.monotonic, name, known_committed);
        let (node, config) = (self.config.node, self.config.partition);
        let machine = Partition::new(node, name.clone(), id, config, self.rules, known_committed);
        let limits = self.batch_limits(name.topic(), &log.config());
        let replica = Replica::new(id, log, machine, limits);
        let key = ReplicaKey(self.next_key);
        self.next_key += 1;
        self.by_name.insert(name.clone(), key);
        self.by_id.insert((id, name.partition()), key);
        self.by_log.insert(replica.log.id(), key);
        self.replicas.insert(key, replica);
        key
    }

    /// The topic was deleted, or the partition lies on others: so is its log.
    fn remove_replica(&mut self, name: &TopicPartition, id: TopicId) {
        let Some(key) = self.by_name.get(name).copied() else { return };
        if self.replicas.get(&key).is_none_or(|replica| replica.topic_id != id) {
            return;
        }
        self.take_offline(key);
        self.known.forget(name);
        self.delete_log(name);
    }

    /// Its name is free again when the job is done.
    fn delete_log(&mut self, name: &TopicPartition) {
        let Some(job) = self.store.delete_log(name) else { return };
        if let Job::DeleteLog { log } = &job {
            self.deleting.insert(*log, Deleting { name: name.clone(), again_at: None });
        }
        self.out.push(Out::Job(job));
    }

    /// A name is free: if the cluster has a topic of that name by now, its replica is made.
    pub(super) fn on_deleted(&mut self, now: Now, log: LogId) {
        if let Some(deleting) = self.deleting.remove(&log) {
            self.make_replica(now, &deleting.name);
        }
    }

    /// A log could not be removed, for want of room perhaps: until it is, its name is not free.
    pub(super) fn on_not_deleted(&mut self, now: Now, log: LogId) {
        if let Some(deleting) = self.deleting.get_mut(&log)
            && self.store.failure().is_none()
        {
            deleting.again_at = Some(now.monotonic.after(MAKE_AGAIN));
        }
    }

    /// Logs that could not be removed are tried again.
    pub(super) fn delete_again(&mut self, now: Now) {
        for (log, deleting) in &mut self.deleting {
            if deleting.again_at.take_if(|at| *at <= now.monotonic).is_some() {
                self.out.push(Out::Job(Job::DeleteLog { log: *log }));
            }
        }
    }

    /// Logs that could not be made are tried again.
    pub(super) fn make_again(&mut self, now: Now) {
        let due: Vec<TopicPartition> = (self.unmade.iter())
            .filter(|(_, at)| **at <= now.monotonic)
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            self.unmade.remove(&name);
            self.make_replica(now, &name);
        }
    }

    fn make_replica(&mut self, now: Now, name: &TopicPartition) {
        let assigned = self.view.assignment(name);
        let is_here = |assignment: &Assignment| assignment.member(self.config.node).is_some();
        if let Some(assignment) = assigned.filter(is_here)
            && let Some(key) = self.replica_for(now, name, &assignment)
        {
            self.step(now, key, Input::Assigned(assignment));
            // What it has was not known while it could not be opened.
            self.report_replicas();
        }
    }

    /// Forgets a replica. What waits at it is answered: Fetches are looked at again and find nothing, producers are sent to look for the
    /// leader, because the machine that would have told them, and its deadlines, go.
    pub(super) fn take_offline(&mut self, key: ReplicaKey) {
        self.stop_fetching(key);
        self.requests.fetches.changed(&key);
        self.requests.end_waits_at(key);
        self.mending.forget(key);
        self.repairs.forget(key);
        let Some(replica) = self.replicas.remove(&key) else { return };
        if let Some(at) = replica.timer {
            self.timers.remove(&(at, key));
        }
        self.by_name.remove(&replica.name);
        self.by_id.remove(&(replica.topic_id, replica.name.partition()));
        self.by_log.remove(&replica.log.id());
    }

    /// What is asked of the batches that producers send: the broker's settings, as far as the topic does not say otherwise.
    fn batch_limits(&self, topic: &str, log: &LogConfig) -> BatchLimits {
        let mut limits = self.config.batch;
        let configs = self.view.state().topics.get(topic).map(|topic| &topic.configs);
        let said = |key: &str| configs.and_then(|configs| configs.get(key));
        set(&mut limits.batch_bytes_max, said("max.message.bytes").and_then(|value| value.parse().ok()));
        if log.timestamps == TimestampSource::Append {
            limits.timestamps = TimestampRule::LogAppendTime;
        } else if let TimestampRule::CreateTime { before_ms_max, after_ms_max } = &mut limits.timestamps {
            let ms = |key| said(key).and_then(|value| value.parse().ok());
            set(before_ms_max, ms("message.timestamp.before.max.ms"));
            set(after_ms_max, ms("message.timestamp.after.max.ms"));
        }
        if log.cleanup != Cleanup::Delete {
            limits.keys = KeyRule::Required;
        }
        limits
    }

    /// The broker's settings, as far as the topic does not say otherwise.
    fn log_config(&self, topic: &str) -> LogConfig {
        let mut config = self.config.log.clone();
        let Some(topic) = self.view.state().topics.get(topic) else { return config };
        let ms = |value: &str| value.parse().ok().map(std::time::Duration::from_millis);
        for (key, value) in &topic.configs {
            match key.as_str() {
                "segment.bytes" => set(&mut config.segment_bytes_max, value.parse().ok()),
                "segment.ms" => set(&mut config.segment_age_max, ms(value)),
                "segment.jitter.ms" => set(&mut config.segment_jitter_max, ms(value)),
                "segment.index.bytes" => set(&mut config.index_bytes_max, value.parse().ok()),
                "index.interval.bytes" => set(&mut config.index_interval_bytes, value.parse().ok()),
                // -1 is no bound: it does not parse as an unsigned number.
                "retention.bytes" => config.retention_bytes = value.parse().ok(),
                "retention.ms" => config.retention_age = ms(value),
                "message.timestamp.type" if value == "LogAppendTime" => {
                    config.timestamps = TimestampSource::Append;
                }
                "message.timestamp.type" => config.timestamps = TimestampSource::Create,
                "cleanup.policy" => config.cleanup = cleanup(value),
                "min.cleanable.dirty.ratio" => set(&mut config.dirty_ppm_min, parts_per_million(value)),
                "min.compaction.lag.ms" => set(&mut config.compaction_lag_min, ms(value)),
                // The greatest number is Kafka's word for never.
                "max.compaction.lag.ms" => {
                    config.compaction_lag_max = ms(value).filter(|_| value != "9223372036854775807");
                }
                "delete.retention.ms" => set(&mut config.delete_retention, ms(value)),
                _ => {}
            }
        }
        config
    }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// A part of one, as a number with decimals.
fn parts_per_million(value: &str) -> Option<u32> {
    let part: f64 = value.parse().ok()?;
    // Rounded, and within the bounds of what it is cast to.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a million")]
    (0.0..=1.0).contains(&part).then(|| (part * 1e6).round() as u32)
}

fn cleanup(value: &str) -> Cleanup {
    match (value.contains("compact"), value.contains("delete")) {
        (true, true) => Cleanup::CompactAndDelete,
        (true, false) => Cleanup::Compact,
        (false, _) => Cleanup::Delete,
    }
}
