//! Which log is compacted when: one at a time, the dirtiest first, a piece for each job, at so many bytes a second. Replicas compact alone, each
//! below the high watermark that it knows.

use std::collections::BTreeSet;
use std::time::Duration;

use highwater_engine::log::LogId;
use highwater_engine::store::{Compaction, Dirt, Job};
use highwater_engine::units::{Monotonic, Now, Offset};

use super::event::{News, Out};
use super::{Shard, ShardConfig};

/// How much a job reads and writes: a pool of one thread has other things to do in between.
const PIECE_BYTES: u64 = 4 << 20;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Compacting {
    at: Monotonic,
    /// The log whose round is under way.
    current: Option<LogId>,
    /// Logs that have been asked since the last pause.
    asked: BTreeSet<LogId>,
    job: Asked,
}

/// Whether a job is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Nothing,
    ForAPiece,
}

impl Compacting {
    pub(super) fn new(now: Monotonic, config: &ShardConfig) -> Self {
        Self {
            at: now.after(config.compaction_interval),
            current: None,
            asked: BTreeSet::new(),
            job: Asked::Nothing,
        }
    }

    /// When something is to be asked for; `None` while a job is out.
    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        (self.job == Asked::Nothing).then_some(self.at)
    }
}

impl Shard {
    /// Asks for the next piece, if it is time.
    pub(super) fn emit_compaction(&mut self, now: Now) {
        if self.compacting.job == Asked::ForAPiece || self.compacting.at > now.monotonic {
            return;
        }
        let going_on = self.compacting.current.and_then(|log| Some((log, self.settled_below(log)?)));
        if let Some((log, ceiling)) = going_on.or_else(|| self.dirtiest()) {
            let bytes_max = self.config.compaction_bytes_per_second.map_or(PIECE_BYTES, |rate| {
                // Of a low rate a piece is one second.
                rate.clamp(1, PIECE_BYTES)
            });
            self.compacting.job = Asked::ForAPiece;
            self.out.push(Out::Job(Job::Compact { log, ceiling, now, bytes_max }));
        } else {
            self.compacting.asked.clear();
            self.compacting.current = None;
            self.compacting.at = now.monotonic.after(self.config.compaction_interval);
        }
    }

    /// Below it everything is committed and no transaction is undecided.
    fn settled_below(&self, log: LogId) -> Option<Offset> {
        let replica = self.replicas.get(self.by_log.get(&log)?)?;
        Some(replica.last_stable(replica.machine.high_watermark()))
    }

    /// The log with the greatest part that is dirty, of those that have not been asked.
    fn dirtiest(&self) -> Option<(LogId, Offset)> {
        let dirty = |log: &LogId| {
            let ceiling = self.settled_below(*log)?;
            Some((self.store.dirt(*log, ceiling)?, *log, ceiling))
        };
        let logs = self.replicas.values().map(|replica| replica.log.id());
        let dirty = logs.filter(|log| !self.compacting.asked.contains(log)).filter_map(|log| dirty(&log));
        let (_, log, ceiling) =
            dirty.max_by_key(|(dirt, log, _)| (per_million(dirt), std::cmp::Reverse(*log)))?;
        Some((log, ceiling))
    }

    pub(super) fn on_compacted(&mut self, now: Now, log: LogId, step: &Compaction) {
        let bytes = match step {
            Compaction::UnderWay { bytes } => {
                self.compacting.current = Some(log);
                *bytes
            }
            Compaction::Done { report } => {
                let name = self.by_log.get(&log).and_then(|key| self.replicas.get(key));
                if let Some(name) = name.map(|replica| replica.name.clone()) {
                    self.out.push(Out::News(News::Compacted { name, report: *report }));
                }
                self.compaction_ends(log);
                report.bytes
            }
            Compaction::NotDue | Compaction::GivenUp | _ => {
                self.compaction_ends(log);
                0
            }
        };
        self.compacting.job = Asked::Nothing;
        self.compacting.at = now.monotonic.after(self.pause_behind(bytes));
    }

    /// A log that cannot be compacted is asked again after a pause.
    pub(super) fn on_not_compacted(&mut self, now: Now, log: Option<LogId>, why: &str) {
        self.compacting.job = Asked::Nothing;
        self.compacting.at = now.monotonic;
        let Some(log) = log else { return };
        self.compaction_ends(log);
        if let Some(replica) = self.by_log.get(&log).and_then(|key| self.replicas.get(key)) {
            let (name, why) = (replica.name.clone(), why.to_owned());
            self.out.push(Out::News(News::NotCompacted { name, why }));
        }
    }

    fn compaction_ends(&mut self, log: LogId) {
        self.compacting.current = None;
        self.compacting.asked.insert(log);
    }

    fn pause_behind(&self, bytes: u64) -> Duration {
        let Some(rate) = self.config.compaction_bytes_per_second else { return Duration::ZERO };
        let micros = u128::from(bytes) * 1_000_000 / u128::from(rate.max(1));
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}

fn per_million(dirt: &Dirt) -> u128 {
    u128::from(dirt.dirty_bytes) * 1_000_000 / u128::from((dirt.dirty_bytes + dirt.clean_bytes).max(1))
}
