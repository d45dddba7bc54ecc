//! Compaction of one log at a time: the round, a piece for each job, so that its owner decides how many bytes a second it takes.
//!
//! ```text
//! Job::Compact ─> no round: facts, plan ─────────────────> not due
//!              └> round ─> keys gathered ─> group by group: batches copied, exchanged ─> place written down ─> done
//!                          └────────── at most `bytes_max` read at once ──────────┘
//! ```
//! Between two pieces the log goes on; when the round meets segments that were cut, deleted or repaired meanwhile it is given up, and the next
//! one begins anew. A store has one round under way, and so one map of keys. Each group is exchanged for itself: a crash leaves groups that are
//! cleaned and groups that are not, which is a log of the same records to whoever reads it by key.

mod exchange;
mod output;
mod pieces;
mod round;

use std::sync::Arc;

pub(super) use self::output::write_synced;
pub(super) use self::round::Round;
use self::round::Stepped;
use super::{JobDone, JobError, Store};
use crate::compaction::{Facts, Rules, SegmentFacts, plan_compaction};
use crate::log::{Cleanup, CutError, Inner, LogConfig, LogId, lock, try_lock, walk_failed};
use crate::segment::{AtDamage, Segment, Walk};
use crate::units::{Now, Offset, Timestamp};

/// How far a compaction has come.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compaction {
    /// Too little is dirty, or none of it may be cleaned yet; or something of the log is damaged, which is to be repaired before.
    NotDue,
    /// A piece is done; another job goes on.
    UnderWay {
        /// Bytes that were read and written.
        bytes: u64,
    },
    /// The log was cut, deleted from or repaired meanwhile. What is done is done; the next job begins anew.
    GivenUp,
    /// The round is over.
    Done {
        /// What came of it.
        report: CompactionReport,
    },
}

/// What a round of compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionReport {
    /// Keys were gathered from here on,
    pub first_dirty: Offset,
    /// to here, where the next round begins.
    pub cleaned_to: Offset,
    /// Bytes of the segments that were replaced,
    pub bytes_before: u64,
    /// and of those that took their place.
    pub bytes_after: u64,
    /// How many there were,
    pub segments_before: usize,
    /// and are.
    pub segments_after: usize,
    /// Records that stay.
    pub records_kept: u64,
    /// Records that went.
    pub records_gone: u64,
    /// Different keys in the dirty part.
    pub keys: usize,
    /// What the map of keys took, in bytes.
    pub key_map_bytes: usize,
    /// Bytes that were read and written in the last piece.
    pub bytes: u64,
}

/// Why a log is not compacted. Nothing of it has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionRefusal {
    /// A message of magic 0 or 1, which is read and never written: a log has to be copied to be rid of them.
    #[error("{path} has a message of a legacy format at position {position}")]
    LegacyFormat {
        /// The segment's file.
        path: std::path::PathBuf,
        /// Where in it.
        position: u64,
    },
    /// The records of a batch whose CRC is right are no records, or cannot be written again; so nobody can say which of them stay.
    #[error("{path}: the records of the batch at position {position} cannot be told apart: {why}")]
    Unclear {
        /// The segment's file.
        path: std::path::PathBuf,
        /// Where in it.
        position: u64,
        /// What is wrong with them.
        why: String,
    },
    /// The segment that would be written has more bytes than an index can point into.
    #[error("a segment of more than {bytes} bytes would be written")]
    TooLarge {
        /// How many bytes it has.
        bytes: u64,
    },
}

/// How many bytes of a log that is compacted were cleaned before, and how many are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirt {
    /// Cleaned before.
    pub clean_bytes: u64,
    /// To be cleaned.
    pub dirty_bytes: u64,
}

impl Store {
    /// How much of a compacted log could be cleaned below `ceiling`; `None` where nothing can. Touches no disk, and knows of no lag.
    pub fn dirt(&self, log: LogId, ceiling: Offset) -> Option<Dirt> {
        let log = self.shared().log(log)?;
        if log.config().cleanup == Cleanup::Delete {
            return None;
        }
        let facts = self.facts(&log, ceiling, Timestamp::default());
        let any = Rules { dirty_ppm_min: 0, lag_ms_min: 0, lag_ms_max: None };
        let plan = plan_compaction(&facts, &any)?;
        Some(Dirt { clean_bytes: plan.clean_bytes, dirty_bytes: plan.dirty_bytes })
    }

    /// Does a piece of the log's round, or begins one if it is due.
    pub(super) fn compact(
        &self,
        id: LogId,
        ceiling: Offset,
        now: Now,
        bytes_max: u64,
    ) -> Result<JobDone, JobError> {
        let log = self.open_log(id)?;
        let _maintenance = lock(&log.maintenance);
        log.refuse_if_closed()?;
        let done = |step| Ok(JobDone::Compacted { log: id, step });
        let Some(mut slot) = try_lock(&self.inner.compaction) else { return done(Compaction::NotDue) };
        let round = match slot.take().filter(|round| round.log() == id) {
            Some(round) if !round.holds(&log) => {
                round.give_up(&log);
                return done(Compaction::GivenUp);
            }
            Some(round) => Some(round),
            None => self.begin(&log, ceiling, now)?,
        };
        let Some(mut round) = round else { return done(Compaction::NotDue) };
        match round.advance(self, &log, bytes_max) {
            Ok(Stepped::On { bytes }) => {
                *slot = Some(round);
                done(Compaction::UnderWay { bytes })
            }
            Ok(Stepped::Over(report)) => {
                self.note_cleaned(&log, report.cleaned_to)?;
                done(Compaction::Done { report })
            }
            Err(error) => {
                round.give_up(&log);
                Err(error)
            }
        }
    }

    fn begin(&self, log: &Arc<Inner>, ceiling: Offset, now: Now) -> Result<Option<Box<Round>>, JobError> {
        let config = log.config();
        // What is damaged cannot be written anew, and hides nobody knows which keys.
        if config.cleanup == Cleanup::Delete || !log.writer().damaged.is_empty() {
            return Ok(None);
        }
        let mut facts = self.facts(log, ceiling, now.wall);
        add_times(log, &mut facts, &config)?;
        let Some(plan) = plan_compaction(&facts, &rules(&config)) else { return Ok(None) };
        // From now on what is cleaned is never cut as a torn end: older records of its keys are gone.
        self.write_checkpoints()?;
        Round::begin(self, log, &plan, &facts, now).map(|round| Some(Box::new(round)))
    }

    fn facts(&self, log: &Inner, ceiling: Offset, now: Timestamp) -> Facts {
        let view = log.view();
        let next_bases = view.segments.iter().skip(1).map(|next| next.base());
        let sealed_to = super::checkpoints::recovery_point(log);
        let facts = |(segment, end): (&Arc<Segment>, Offset)| SegmentFacts {
            base: segment.base(),
            end,
            bytes: segment.size(),
            latest: None,
            first: None,
        };
        let start = log.marks.start.get();
        let sealed = view.segments.iter().zip(next_bases).take_while(|(_, end)| *end <= sealed_to);
        Facts {
            // Those that lie below the start are retention's.
            segments: sealed.filter(|(_, end)| *end > start).map(facts).collect(),
            start,
            first_dirty: self.checkpoints().cleaned.get(&log.name).copied(),
            ceiling,
            now,
        }
    }
}

fn rules(config: &LogConfig) -> Rules {
    let ms = |lag: std::time::Duration| i64::try_from(lag.as_millis()).unwrap_or(i64::MAX);
    Rules {
        dirty_ppm_min: config.dirty_ppm_min,
        lag_ms_min: ms(config.compaction_lag_min),
        lag_ms_max: config.compaction_lag_max.map(ms),
    }
}

/// Times are read only where a lag is set.
fn add_times(log: &Inner, facts: &mut Facts, config: &LogConfig) -> Result<(), JobError> {
    let view = log.view();
    for segment in &mut facts.segments {
        let Some(there) = view.segments.get(view.floor(segment.base)) else { continue };
        let fail = |error| JobError::from(walk_failed(there, error));
        if !config.compaction_lag_min.is_zero() {
            let latest = there.latest_timestamp().map_err(|error| fail(error.into()))?;
            segment.latest = Some(if let Some(latest) = latest {
                latest.timestamp
            } else {
                // Without timestamps the file's own age counts.
                let identity = there.file().and_then(|file| file.identity());
                Timestamp::from_millis(identity.map_err(|error| fail(error.into()))?.modified_ms)
            });
        }
        if config.compaction_lag_max.is_some() {
            let mut walk = Walk::new(there, 0, AtDamage::PassOver).map_err(|error| fail(error.into()))?;
            segment.first = walk.next().map_err(fail)?.and_then(|(_, frame)| frame.max_timestamp);
        }
    }
    Ok(())
}

/// A batch could not be read, or is none.
fn unread(segment: &Segment, error: crate::segment::WalkError) -> JobError {
    let error: CutError = walk_failed(segment, error);
    error.into()
}
