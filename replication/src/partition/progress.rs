//! What a leader knows of one follower, in its own epoch and the follower's present session.

use std::time::Duration;

use highwater_engine::units::{Monotonic, Offset};

use crate::ids::BrokerEpoch;

/// What a leader knows of one follower. Begins anew with each leadership and each session of the follower's broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Progress {
    /// The session that the last Fetch was of.
    pub(super) session: Option<BrokerEpoch>,
    /// The end of its log: the offset of its last Fetch. It may go down (P-03).
    pub(super) end: Option<Offset>,
    /// The start of its log, as it said.
    pub(super) log_start: Option<Offset>,
    /// When it last had everything that the leader had, by Kafka's rule; `None` if never.
    pub(super) caught_up: Option<Monotonic>,
    /// Its last Fetch.
    pub(super) last_fetch: Option<LastFetch>,
}

/// A Fetch, for the rule of the previous Fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LastFetch {
    /// When it came.
    pub(super) at: Monotonic,
    /// The leader's end then: whoever asks for it later had caught up with that moment.
    pub(super) leader_end: Offset,
}

impl Progress {
    /// A follower that has not fetched yet. A member of the ISR is given one lag time from now.
    pub(super) fn unheard(caught_up: Option<Monotonic>) -> Self {
        Self { caught_up, ..Self::default() }
    }

    /// Notes a Fetch at `offset`, which is the follower's end (`Replica.updateFetchState`).
    ///
    /// A follower that asks for the end that the leader had at the Fetch before was caught up at that time, though the leader has moved on
    /// since; otherwise a follower of a busy leader would never be caught up.
    pub(super) fn fetched(
        &mut self,
        now: Monotonic,
        offset: Offset,
        log_start: Option<Offset>,
        session: Option<BrokerEpoch>,
        leader_end: Offset,
    ) {
        let reached = match self.last_fetch {
            _ if offset >= leader_end => Some(now),
            Some(previous) if offset >= previous.leader_end => Some(previous.at),
            Some(_) | None => None,
        };
        self.caught_up = self.caught_up.max(reached);
        let leader_end_max = self.last_fetch.map_or(leader_end, |last| last.leader_end.max(leader_end));
        self.last_fetch = Some(LastFetch { at: now, leader_end: leader_end_max });
        self.end = Some(offset);
        self.log_start = log_start;
        self.session = session;
    }

    /// Whether it is caught up: it has the leader's end, or had it within the last `lag_max`.
    pub(super) fn is_caught_up(&self, now: Monotonic, leader_end: Offset, lag_max: Duration) -> bool {
        self.end == Some(leader_end) || self.caught_up.is_some_and(|at| now.since(at) <= lag_max)
    }

    /// The first moment at which it is not caught up any more, if nothing happens; `None` while it has the leader's end.
    pub(super) fn falls_behind_at(&self, leader_end: Offset, lag_max: Duration) -> Option<Monotonic> {
        if self.end == Some(leader_end) {
            return None;
        }
        // One tick of the clock later, because a lag of exactly `lag_max` is still in time.
        self.caught_up.map(|at| at.after(lag_max).after(Duration::from_millis(1)))
    }

    /// Forgets what was said in an older session. What the timer has counted so far stays.
    pub(super) fn begin_session(&mut self) {
        *self = Self::unheard(self.caught_up);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAG: Duration = Duration::from_secs(10);

    fn at(ms: u64) -> Monotonic {
        Monotonic::from_duration(Duration::from_millis(ms))
    }

    fn offset(value: i64) -> Offset {
        Offset::new(value).unwrap()
    }

    /// Kafka's `PartitionTest.shouldNotShrinkIsrIfPreviousFetchIsCaughtUp`: leader at 5, then 10.
    #[test]
    fn asking_for_the_end_of_the_fetch_before_counts_as_caught_up_then() {
        let mut follower = Progress::unheard(Some(at(0)));
        follower.fetched(at(5_000), offset(0), None, None, offset(5));
        assert_eq!(follower.caught_up, Some(at(0)), "it has nothing yet");
        follower.fetched(at(10_001), offset(5), None, None, offset(10));
        assert_eq!(follower.caught_up, Some(at(5_000)));
        assert!(follower.is_caught_up(at(15_000), offset(10), LAG));
        assert!(!follower.is_caught_up(at(15_001), offset(10), LAG));
        assert_eq!(follower.falls_behind_at(offset(10), LAG), Some(at(15_001)));
    }

    #[test]
    fn a_follower_at_the_end_never_lags() {
        let mut follower = Progress::default();
        follower.fetched(at(0), offset(7), None, None, offset(7));
        assert!(follower.is_caught_up(at(1_000_000), offset(7), LAG));
        assert_eq!(follower.falls_behind_at(offset(7), LAG), None);
        assert!(!follower.is_caught_up(at(1_000_000), offset(8), LAG));
    }

    #[test]
    fn a_follower_that_always_stays_behind_is_never_caught_up() {
        let mut follower = Progress::default();
        for round in 0..100 {
            let number = i64::try_from(round).unwrap();
            follower.fetched(at(round * 100), offset(number * 9), None, None, offset(number * 10 + 10));
        }
        assert_eq!(follower.caught_up, None);
    }

    #[test]
    fn an_end_may_go_down_and_a_session_forgets_it() {
        let mut follower = Progress::default();
        follower.fetched(at(1), offset(7), Some(offset(2)), BrokerEpoch::new(4), offset(7));
        follower.fetched(at(2), offset(3), Some(offset(2)), BrokerEpoch::new(4), offset(7));
        assert_eq!((follower.end, follower.caught_up), (Some(offset(3)), Some(at(1))));
        follower.begin_session();
        assert_eq!(follower, Progress::unheard(Some(at(1))));
    }
}
