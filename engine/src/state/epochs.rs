//! The leader epochs of a log and where each begins (KIP-101, KIP-279; Kafka's `LeaderEpochFileCache`).
//!
//! Pure. It refuses to know where the log ends: the end is an argument where an answer depends on it.

use std::sync::Arc;

use crate::units::{LeaderEpoch, Offset};

/// The beginning of a leader epoch in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct EpochStart {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// The offset of its first record, or where that would go.
    pub start: Offset,
}

/// The end of a leader epoch in a log, as answered to a follower or consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct EpochEnd {
    /// The epoch that ends there; it is lower than the one asked for where the log has no records of that one.
    pub epoch: LeaderEpoch,
    /// The first offset behind its records.
    pub end: Offset,
}

/// The history of the leader epochs of one log: epochs and starts both strictly ascend.
///
/// ```
/// use highwater_engine::state::EpochHistory;
/// use highwater_engine::units::{LeaderEpoch, Offset};
///
/// let mut history = EpochHistory::default();
/// history.assign(LeaderEpoch::ZERO, Offset::ZERO);
/// assert_eq!(history.epoch_at(Offset::ZERO), Some(LeaderEpoch::ZERO));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct EpochHistory {
    /// Shared by those who have copied it, until one of them changes it: a read holds each batch against it.
    entries: Arc<Vec<EpochStart>>,
}

impl EpochHistory {
    /// The history that these beginnings make, each through [`EpochHistory::assign`] in turn.
    pub fn from_starts(starts: impl IntoIterator<Item = EpochStart>) -> Self {
        let mut history = Self::default();
        for EpochStart { epoch, start } in starts {
            history.assign(epoch, start);
        }
        history
    }

    /// All beginnings, ascending.
    pub fn starts(&self) -> &[EpochStart] {
        &self.entries
    }

    /// Notes that `epoch` begins at `start`; says whether the history changed.
    ///
    /// Nothing changes if the newest entry already has this epoch from there or before. Otherwise every entry at its end that
    /// is not older in both respects gives way.
    #[inline]
    pub fn assign(&mut self, epoch: LeaderEpoch, start: Offset) -> bool {
        if self.latest().is_some_and(|last| last.epoch == epoch && last.start <= start) {
            return false;
        }
        let entries = Arc::make_mut(&mut self.entries);
        while entries.last().is_some_and(|last| last.epoch >= epoch || last.start >= start) {
            entries.pop();
        }
        entries.push(EpochStart { epoch, start });
        true
    }

    /// The newest epoch and its beginning.
    #[inline]
    pub fn latest(&self) -> Option<EpochStart> {
        self.entries.last().copied()
    }

    /// The oldest epoch that is still known and its beginning.
    pub fn earliest(&self) -> Option<EpochStart> {
        self.entries.first().copied()
    }

    /// The epoch of a record at this offset; `None` below the first beginning. The caller knows whether the log reaches so far.
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let behind = self.entries.partition_point(|entry| entry.start <= offset);
        behind.checked_sub(1).and_then(|at| self.entries.get(at)).map(|entry| entry.epoch)
    }

    /// Where the records of `epoch`, or of the largest lower epoch that the log has, end (`endOffsetFor`).
    ///
    /// | asked | answer |
    /// |---|---|
    /// | the newest epoch | it, and `log_end` |
    /// | a newer one, or the history is empty | `None`: unknown here |
    /// | older than all | it, and the first beginning |
    /// | any other | the largest epoch not above it, and where the next begins |
    pub fn end_of(&self, epoch: LeaderEpoch, log_end: Offset) -> Option<EpochEnd> {
        if self.latest()?.epoch == epoch {
            return Some(EpochEnd { epoch, end: log_end });
        }
        let behind = self.entries.partition_point(|entry| entry.epoch <= epoch);
        let next = self.entries.get(behind)?;
        let floor = behind.checked_sub(1).and_then(|at| self.entries.get(at));
        Some(EpochEnd { epoch: floor.map_or(epoch, |entry| entry.epoch), end: next.start })
    }

    /// Forgets the epochs that begin at `end` or behind it; says whether the history changed.
    pub fn truncate_from_end(&mut self, end: Offset) -> bool {
        let kept = self.entries.partition_point(|entry| entry.start < end);
        let changed = kept < self.entries.len();
        if changed {
            Arc::make_mut(&mut self.entries).truncate(kept);
        }
        changed
    }

    /// Forgets the epochs that end before `start`, and lets the one that `start` lies in begin there; says whether the history
    /// changed. The newest epoch is never forgotten.
    pub fn truncate_from_start(&mut self, start: Offset) -> bool {
        let behind = self.entries.partition_point(|entry| entry.start <= start);
        let Some(last_below) = behind.checked_sub(1) else { return false };
        let changed = last_below > 0 || self.entries.first().is_some_and(|first| first.start < start);
        if changed {
            let entries = Arc::make_mut(&mut self.entries);
            entries.drain(..last_below);
            if let Some(first) = entries.first_mut() {
                first.start = start;
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(number: i32) -> LeaderEpoch {
        LeaderEpoch::new(number).unwrap()
    }

    fn at(number: i64) -> Offset {
        Offset::new(number).unwrap()
    }

    fn history(starts: &[(i32, i64)]) -> EpochHistory {
        let mut history = EpochHistory::default();
        for (number, start) in starts {
            assert!(history.assign(epoch(*number), at(*start)));
        }
        history
    }

    fn pairs(history: &EpochHistory) -> Vec<(i32, i64)> {
        history.starts().iter().map(|entry| (entry.epoch.value(), entry.start.value())).collect()
    }

    fn end_of(history: &EpochHistory, number: i32, log_end: i64) -> Option<(i32, i64)> {
        history.end_of(epoch(number), at(log_end)).map(|end| (end.epoch.value(), end.end.value()))
    }

    #[test]
    fn the_end_of_an_epoch_is_where_the_next_begins() {
        let history = history(&[(0, 10), (2, 13), (4, 17)]);
        assert_eq!(end_of(&history, 4, 20), Some((4, 20)));
        assert_eq!(end_of(&history, 2, 20), Some((2, 17)));
        assert_eq!(end_of(&history, 1, 20), Some((0, 13)));
        assert_eq!(end_of(&history, 3, 20), Some((2, 17)));
        assert_eq!(end_of(&history, 5, 20), None);
        assert_eq!(end_of(&EpochHistory::default(), 0, 20), None);
    }

    #[test]
    fn an_epoch_below_the_first_ends_at_the_first_beginning() {
        let history = history(&[(5, 11), (6, 12)]);
        assert_eq!(end_of(&history, 4, 20), Some((4, 11)));
    }

    #[test]
    fn assigning_an_epoch_again_is_ignored_unless_it_begins_earlier() {
        let mut history = history(&[(6, 12), (7, 13)]);
        assert!(!history.assign(epoch(7), at(14)));
        assert!(!history.assign(epoch(7), at(13)));
        assert_eq!(pairs(&history), [(6, 12), (7, 13)]);
        assert!(history.assign(epoch(7), at(12)));
        assert_eq!(pairs(&history), [(7, 12)]);
    }

    #[test]
    fn assigning_an_older_epoch_drops_the_later_ones() {
        let mut history = history(&[(1, 5), (2, 9), (3, 11)]);
        assert!(history.assign(epoch(2), at(10)));
        assert_eq!(pairs(&history), [(1, 5), (2, 10)]);
    }

    #[test]
    fn a_higher_epoch_at_the_same_start_takes_its_place() {
        let mut history = history(&[(2, 9)]);
        assert!(history.assign(epoch(3), at(9)));
        assert_eq!(pairs(&history), [(3, 9)]);
    }

    #[test]
    fn truncation_from_the_end_keeps_what_begins_before() {
        let mut history = history(&[(2, 6), (3, 8), (4, 11)]);
        assert!(!history.truncate_from_end(at(12)));
        assert!(history.truncate_from_end(at(8)));
        assert_eq!(pairs(&history), [(2, 6)]);
        assert!(history.truncate_from_end(Offset::ZERO));
        assert_eq!(pairs(&history), []);
    }

    #[test]
    fn truncation_from_the_start_moves_the_first_beginning() {
        let whole = [(2, 6), (3, 8), (4, 11)];
        for (start, changes, rest) in [
            (8, true, vec![(3, 8), (4, 11)]),
            (9, true, vec![(3, 9), (4, 11)]),
            (6, false, whole.to_vec()),
            (1, false, whole.to_vec()),
            (11, true, vec![(4, 11)]),
            (50, true, vec![(4, 50)]),
        ] {
            let mut history = history(&whole);
            assert_eq!(history.truncate_from_start(at(start)), changes, "start {start}");
            assert_eq!(pairs(&history), rest, "start {start}");
        }
    }

    #[test]
    fn a_record_belongs_to_the_last_epoch_that_begins_at_or_before_it() {
        let history = history(&[(0, 10), (2, 13)]);
        let number = |offset| history.epoch_at(at(offset)).map(LeaderEpoch::value);
        assert_eq!(
            [number(9), number(10), number(12), number(13), number(99)],
            [None, Some(0), Some(0), Some(2), Some(2)]
        );
    }

    #[test]
    fn random_histories_always_ascend() {
        let seed = std::env::var("HIGHWATER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut history = EpochHistory::default();
        for step in 0..5_000 {
            let offset = at(chance.i64(0..60));
            let changed_from = pairs(&history);
            let changed = match chance.u8(0..8) {
                0 => history.truncate_from_end(offset),
                1 => history.truncate_from_start(offset),
                _ => history.assign(epoch(chance.i32(0..60)), offset),
            };
            let ascending = history
                .starts()
                .windows(2)
                .all(|two| two[0].epoch < two[1].epoch && two[0].start < two[1].start);
            assert!(ascending, "seed {seed} step {step}: {:?}", pairs(&history));
            assert_eq!(changed, changed_from != pairs(&history), "seed {seed} step {step}");
        }
    }
}
