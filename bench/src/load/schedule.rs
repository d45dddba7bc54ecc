//! When each record of a lane should be sent. Pure: the times are fixed before the first one is sent.

use std::time::{Duration, Instant};

/// The times of one lane's records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    start: Instant,
    /// This many records ...
    records: u128,
    /// ... in this many nanoseconds.
    nanos: u128,
}

impl Schedule {
    /// For a lane that has `partitions` of the topic's `of`, and so its share of `rate` records a second over the whole topic. Lanes begin
    /// one after another, so that they do not all send at the same moments.
    pub(super) fn new(start: Instant, lane: usize, rate: u64, partitions: usize, of: usize) -> Self {
        let rate = u128::from(rate.max(1));
        let stagger = u64::try_from(lane as u128 * 1_000_000_000 / rate).unwrap_or(0);
        Self {
            start: start + Duration::from_nanos(stagger),
            records: rate * partitions as u128,
            nanos: 1_000_000_000 * of as u128,
        }
    }

    /// When the record with this number should be sent.
    pub(super) fn time_of(&self, record: u64) -> Instant {
        let nanos = (u128::from(record) * self.nanos).div_ceil(self.records);
        self.start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How many records should have been sent by then.
    pub(super) fn due(&self, at: Instant) -> u64 {
        let Some(since) = at.checked_duration_since(self.start) else { return 0 };
        u64::try_from(since.as_nanos() * self.records / self.nanos + 1).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_record_is_due_from_its_time_on_and_not_before() {
        let start = clock::now();
        for (rate, partitions, of) in [(5_000, 2, 6), (1, 1, 1), (1_000_000, 6, 6), (7, 1, 3), (999, 5, 6)] {
            let schedule = Schedule::new(start, 0, rate, partitions, of);
            for record in [0, 1, 2, 10, 999, 123_456] {
                let at = schedule.time_of(record);
                assert!(schedule.due(at) > record, "record {record} at {rate} records/s");
                if record > 0 {
                    assert!(schedule.due(at.checked_sub(Duration::from_nanos(1)).unwrap()) <= record);
                }
            }
        }
    }

    #[test]
    fn lanes_together_send_at_the_rate() {
        let start = clock::now();
        let lanes = [(0, 2), (1, 3), (2, 1)]
            .map(|(lane, partitions)| Schedule::new(start, lane, 6_000, partitions, 6));
        let due: u64 = lanes.iter().map(|lane| lane.due(start + Duration::from_secs(10))).sum();
        assert!((60_000 - 3..=60_000 + 3).contains(&due), "{due}");
    }
}
