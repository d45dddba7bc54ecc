//! The checkpoint of high watermarks: when it is written, and what may not be done before it is.
//!
//! It has offsets and no epochs. A process that begins takes whatever its log has below such an offset for committed, so these have to be
//! the very records of which it was said. Therefore no log grows at an offset that is below the one which the file may name for it:
//!
//! ```text
//!                                                  a crash leaves
//! known to be committed ..9, the log ends at 6     (9, ..6)  nothing is there to be taken for committed
//! the log is about to grow: known ..6              (9, ..6)
//! the file is written                              (6, ..6)
//! the log grows                                    (6, ..8)  6 to 8 are not taken for committed
//! ```
//! All logs share the file, and all that wait for it wait for the same write.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use highwater_engine::checkpoint::{OffsetCheckpoint, Reading};
use highwater_engine::log::Log;
use highwater_engine::store::Job;
use highwater_engine::units::{Monotonic, Now, Offset, TopicPartition};

use super::event::Out;
use super::{HIGH_WATERMARKS, Shard};
use crate::rules::Rule;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Watermarks {
    interval: Duration,
    due_at: Monotonic,
    /// There is something to say that the file does not say.
    changed: bool,
    /// An entry may replace the last session's only when the controller has persisted what it makes of that session.
    session_began: bool,
    underway: Option<HashMap<TopicPartition, Offset>>,
    /// The most that the file may name of each log, whatever a crash leaves of the write that is under way. `None`: nobody can say, because
    /// what was found could not be read.
    may_name: Option<HashMap<TopicPartition, Offset>>,
}

impl Watermarks {
    /// What was found when the directory was opened stays until the file is written: opening makes its names certain.
    pub(super) fn new(
        now: Monotonic,
        interval: Duration,
        found: &io::Result<Reading<OffsetCheckpoint>>,
    ) -> Self {
        Self {
            interval,
            due_at: now.after(interval),
            changed: false,
            session_began: false,
            underway: None,
            may_name: match found {
                Ok(Reading::Known { value, .. }) => Some(value.clone().into_iter().collect()),
                Ok(Reading::Missing) => Some(HashMap::new()),
                Ok(Reading::Damaged { .. }) | Err(_) => None,
            },
        }
    }

    /// The file is written at once, so that from then on a missing one is a lost one.
    pub(super) fn session_began(&mut self, now: Monotonic) {
        self.session_began = true;
        self.changed = true;
        self.due_at = now;
    }

    /// Of this log so much is known to be committed now. Less than the file may name is written at once.
    pub(super) fn changed(&mut self, now: Monotonic, name: &TopicPartition, known: Option<Offset>) {
        self.changed = true;
        if !self.permit_growth(name, known.unwrap_or_default()) {
            self.due_at = now;
        }
    }

    /// Whether a log may grow from its end on.
    pub(super) fn permit_growth(&self, name: &TopicPartition, end: Offset) -> bool {
        self.may_name.as_ref().is_some_and(|named| named.get(name).is_none_or(|named| *named <= end))
    }

    fn begin(&mut self, now: Monotonic, entries: &[(TopicPartition, Offset)]) {
        self.due_at = now.after(self.interval);
        self.changed = false;
        if let Some(may_name) = &mut self.may_name {
            for (name, offset) in entries {
                let named = may_name.entry(name.clone()).or_default();
                *named = (*named).max(*offset);
            }
        }
        self.underway = Some(entries.iter().cloned().collect());
    }

    /// The file is written, and stays.
    pub(super) fn written(&mut self) {
        self.may_name = self.underway.take().or(self.may_name.take());
    }

    /// There was no room to write it: again when the next one is due.
    pub(super) fn not_written(&mut self) {
        self.underway = None;
        self.changed = true;
    }

    fn is_due(&self, now: Monotonic) -> bool {
        self.next_deadline().is_some_and(|at| at <= now)
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        (self.changed && self.underway.is_none() && self.session_began).then_some(self.due_at)
    }
}

impl Shard {
    pub(super) fn write_watermarks(&mut self, now: Now) {
        if self.watermarks.is_due(now.monotonic) {
            let entries = self.high_watermarks();
            self.watermarks.begin(now.monotonic, &entries);
            let name = HIGH_WATERMARKS.to_owned();
            self.out.push(Out::Job(Job::OffsetCheckpoint { name, entries }));
        }
    }

    /// What the checkpoint of high watermarks has to say: also of logs whose replica the controller has not spoken of.
    pub fn high_watermarks(&self) -> Vec<(TopicPartition, Offset)> {
        let entry = |log: Log| {
            let committed = match self.replica(log.name()) {
                Some(replica) => replica.machine.known_committed(),
                None => self.known.high_watermark(log.name()),
            };
            Some((log.name().clone(), committed?))
        };
        self.store.logs().into_iter().filter_map(entry).collect()
    }

    /// Whether records may be appended to this log, which ends at `end`; see the module's documentation.
    pub(super) fn may_grow(&self, name: &TopicPartition, end: Offset) -> bool {
        self.watermarks.permit_growth(name, end) || !self.rules.holds(Rule::GrowAboveCheckpoint)
    }
}
