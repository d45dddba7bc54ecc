//! What the writer of a log owns, all of it behind one short lock: the order, the active segment, what waits to be written.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::Closed;
use super::aborted::AbortedIndexes;
use super::config::LogConfig;
use super::queue::WriteQueue;
use crate::segment::{DamagedRange, FirstBatch, Segment};
use crate::state::{EpochHistory, Producers};
use crate::units::{Now, Offset, Timestamp};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Writer {
    /// What `Inner::config` gives to everybody else.
    pub(crate) config: Arc<LogConfig>,
    pub(crate) phase: Phase,
    pub(crate) epochs: EpochHistory,
    /// While a cut is under way, and when it has failed: the history of the batches that may still be in the files. Their epochs stay in the
    /// file, because a last batch whose epoch is not there counts as damaged.
    pub(crate) uncut_epochs: Option<EpochHistory>,
    /// The same for the log's start, if the cut goes below it: what lies between is deleted until it is gone.
    pub(crate) uncut_start: Option<Offset>,
    /// Whether the file of epochs lags behind, or is not synced.
    pub(crate) epochs_unsynced: bool,
    pub(crate) producers: Producers,
    pub(crate) active: Active,
    pub(crate) queue: WriteQueue,
    pub(crate) sync: SyncState,
    /// Counts the files that were made in the directory, and those whose names are certain.
    pub(crate) names: Names,
    /// Segments that were rolled, or found at opening, and whose files are not yet as they will stay. Oldest first.
    pub(crate) unsealed: VecDeque<Unsealed>,
    /// What is known to be damaged, by segment and place; the segments know it too.
    pub(crate) damaged: Vec<DamagedRange>,
    /// Whether the segments' indexes of aborted transactions are right.
    pub(crate) aborted: AbortedIndexes,
    /// Whether its directory says that there may be gaps of offsets.
    pub(crate) gaps_noted: bool,
    /// The time of the last append.
    pub(crate) clock: Now,
    /// Whether the log is in the list of dirty ones.
    pub(crate) listed_dirty: bool,
}

impl Writer {
    /// Whether something has to be synced, or written again, before a sync of the active segment means anything.
    pub(crate) fn has_older_unsynced(&self) -> bool {
        !self.unsealed.is_empty() || !self.names.are_synced() || self.active.segment.is_in_doubt()
    }

    /// Whether a seal has to come before the active segment can be synced. It also opens the file of one that recovery found, if nothing
    /// has been written to it since.
    pub(crate) fn needs_seal(&self) -> bool {
        self.has_older_unsynced() || !self.active.segment.is_file_held()
    }

    /// A sync of the active segment has ended well. If it covered everything, the file need not stay open.
    pub(crate) fn note_synced(&self, accepted: Offset, durable: Offset) {
        if self.queue.is_idle() && durable >= accepted {
            self.active.segment.release_file();
        }
    }
}

/// Names in the log's directory; a sync of the directory makes those certain that were made before it began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Names {
    pub(crate) made: u64,
    pub(crate) synced: u64,
}

impl Names {
    pub(crate) const fn are_synced(self) -> bool {
        self.made == self.synced
    }
}

/// Whether the log takes appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It does.
    Open,
    /// The next segment is being made; appends wait.
    Rolling,
    /// The log is being cut; appends are refused.
    Truncating,
    /// The store is being closed; what was accepted is still written.
    Closing,
    /// Never again.
    Closed(Closed),
}

/// The segment that grows.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) segment: Arc<Segment>,
    /// Bytes that are accepted.
    pub(crate) size: u64,
    /// Room is certain up to here.
    pub(crate) reserved: u64,
    /// How much was reserved last; it doubles.
    pub(crate) reserve_step: u64,
    /// Its first batch; `None` if it is empty.
    pub(crate) first: Option<FirstBatch>,
    /// The file of the next one is there and could not be removed: nothing more goes into this one.
    pub(crate) next_is_there: bool,
    /// When its first batch came, for batches without timestamps.
    pub(crate) created: Timestamp,
    /// How long it may grow, its jitter taken off.
    pub(crate) age_max: Duration,
    /// Whether its index has room for no other batch.
    pub(crate) index_is_full: bool,
}

/// A segment to seal.
#[derive(Clone, Debug)]
pub(crate) struct Unsealed {
    pub(crate) segment: Arc<Segment>,
    /// Where the next segment begins, and the state of producers there.
    pub(crate) snapshot: Option<(Offset, Vec<u8>)>,
}

/// Who wants a sync, and whether one is under way: never two at once, because of two that cover the same bytes and fail the system tells one
/// alone.
#[derive(Debug, Default)]
pub(crate) struct SyncState {
    /// The smallest and the greatest end that somebody waits for.
    wanted: Option<(Offset, Offset)>,
    pub(crate) under_way: Option<SyncedBy>,
    /// A write was let go first, so that it is covered too; the sync waits for no second one.
    pub(crate) waited: bool,
}

/// Who syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncedBy {
    Driver,
    Job,
}

impl SyncState {
    pub(crate) fn want(&mut self, end: Offset) {
        self.wanted = Some(match self.wanted {
            Some((low, high)) => (low.min(end), high.max(end)),
            None => (end, end),
        });
    }

    /// Whether a sync would help somebody, now that everything below `written` is written.
    pub(crate) fn is_due(&self, written: Offset) -> bool {
        self.under_way.is_none() && self.wanted.is_some_and(|(low, _)| low <= written)
    }

    pub(crate) const fn is_wanted(&self) -> bool {
        self.wanted.is_some()
    }

    /// Everything below `end` is, or is about to be, synced.
    pub(crate) fn covers(&mut self, end: Offset) {
        self.wanted = self.wanted.filter(|(_, high)| *high > end);
        // Of those between the two nobody knows; they get what the last one gets.
        self.wanted = self.wanted.map(|(low, high)| if low > end { (low, high) } else { (high, high) });
    }

    /// Nobody can wait for more than this any longer.
    pub(crate) fn cut(&mut self, end: Offset) {
        self.wanted = self.wanted.map(|(low, high)| (low.min(end), high.min(end)));
    }
}

/// What stands between a batch and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Room in the active segment, or its file, which was closed.
    Room,
    /// Another segment.
    Roll,
}

/// What a batch, or a run of them, asks of its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) bytes: usize,
    pub(crate) first: Offset,
    pub(crate) last: Offset,
    pub(crate) max_timestamp: Option<Timestamp>,
    pub(crate) now: Timestamp,
}

impl Active {
    /// What has to be done before a batch can have its place; the rules are those of `LogSegment.shouldRoll`.
    #[inline]
    pub(crate) fn need(&self, demand: &Demand, config: &LogConfig) -> Option<Need> {
        let end = self.size + demand.bytes as u64;
        // Below the base lies what somebody asked for before another thread has rolled. It will be asked for anew.
        let relative = demand.last.distance_from(self.segment.base());
        if self.next_is_there || relative.is_some_and(|relative| relative > i64::from(i32::MAX)) {
            return Some(Need::Roll);
        }
        let full = end > u64::from(config.segment_bytes_max.min(i32::MAX.unsigned_abs()));
        if self.size > 0 && (full || self.is_too_old(demand) || self.index_is_full) {
            return Some(Need::Roll);
        }
        (end > self.reserved || !self.segment.is_file_open()).then_some(Need::Room)
    }

    fn is_too_old(&self, demand: &Demand) -> bool {
        let age_ms = match self.first.and_then(|first| first.max_timestamp) {
            Some(first) => match demand.max_timestamp {
                Some(incoming) => incoming.millis().saturating_sub(first.millis()),
                None => return false,
            },
            None => demand.now.millis().saturating_sub(self.created.millis()),
        };
        u128::try_from(age_ms).is_ok_and(|age_ms| age_ms > self.age_max.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: i64) -> Offset {
        Offset::new(offset).unwrap()
    }

    #[test]
    fn whoever_waits_for_less_is_not_forgotten_for_one_who_waits_for_more() {
        let mut sync = SyncState::default();
        sync.want(at(3));
        sync.want(at(7));
        sync.covers(at(2));
        assert!(!sync.is_due(at(2)) && sync.is_due(at(3)));
        sync.covers(at(5));
        assert!(!sync.is_due(at(6)) && sync.is_due(at(7)));
        sync.covers(at(7));
        assert!(!sync.is_wanted());
    }
}
