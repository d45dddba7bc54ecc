//! Which old segments go: by the log's start, by size, by age (`UnifiedLog.deleteOldSegments`). Facts -> plan; the owner carries it out.
//!
//! Only whole segments go, from the oldest on, and none that holds anything at or above the caller's ceiling. The owner raises the log's
//! start first, for certain, and then removes the segments, the oldest first, so that a crash in between leaves segments below the
//! start, which the next plan removes.

use crate::units::{Offset, Timestamp};

/// One segment of a log, as retention sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentFacts {
    /// Its base offset.
    pub base: Offset,
    /// The size of its log file.
    pub bytes: u64,
    /// The greatest timestamp of its records; where none has one, when the file was last written. `None` where that is unknown: then
    /// its age deletes nothing.
    pub latest: Option<Timestamp>,
}

/// What is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RetentionRules {
    /// As many bytes at least (`retention.bytes`); `None` for no bound.
    pub bytes_min: Option<u64>,
    /// Records that are not older than this, in milliseconds (`retention.ms`); `None` for no bound.
    pub age_ms: Option<i64>,
}

/// Which segments go.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct RetentionPlan {
    /// The log's start from then on; never lower than before.
    pub start: Offset,
    /// Base offsets of the segments to remove, the oldest first, and why.
    pub remove: Vec<(Offset, RemovalReason)>,
    /// Whether all segments go, so that a new empty one is needed at the log's end first.
    pub roll: bool,
}

/// Why a segment goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) enum RemovalReason {
    /// It lies below the log's start.
    BelowStart,
    /// Enough bytes are left without it.
    Size,
    /// Its youngest record is too old.
    Age,
}

/// Plans what goes from a log of these segments (ascending, without gaps between one's end and the next one's base) that ends at
/// `end`.
///
/// `start` is the log's start, `ceiling` the offset up to which records may go: the high watermark, where there are replicas. Without
/// rules (a log that is only compacted) only what lies below the start goes. A record dated into the future keeps its segment and all
/// behind it.
pub(crate) fn plan_retention(
    segments: &[SegmentFacts],
    (start, end): (Offset, Offset),
    ceiling: Offset,
    rules: RetentionRules,
    now: Timestamp,
) -> RetentionPlan {
    let mut left: u64 = segments.iter().map(|segment| segment.bytes).sum();
    let mut plan = RetentionPlan { start, remove: Vec::new(), roll: false };
    for (at, segment) in segments.iter().enumerate() {
        let next = segments.get(at + 1).map(|next| next.base);
        let upper = next.unwrap_or(end);
        let empty_last = next.is_none() && segment.bytes == 0;
        if upper > ceiling || empty_last {
            break;
        }
        let Some(reason) = reason_to_remove(segment, next, left, start, rules, now) else { break };
        left -= segment.bytes;
        plan.start = plan.start.max(upper);
        plan.remove.push((segment.base, reason));
    }
    plan.roll = !segments.is_empty() && plan.remove.len() == segments.len();
    plan
}

fn reason_to_remove(
    segment: &SegmentFacts,
    next: Option<Offset>,
    left: u64,
    start: Offset,
    rules: RetentionRules,
    now: Timestamp,
) -> Option<RemovalReason> {
    if next.is_some_and(|next| next <= start) {
        return Some(RemovalReason::BelowStart);
    }
    let spare = left.checked_sub(segment.bytes);
    if rules.bytes_min.is_some_and(|bytes| spare.is_some_and(|spare| spare >= bytes)) {
        return Some(RemovalReason::Size);
    }
    let age = segment.latest.and_then(|latest| now.millis().checked_sub(latest.millis()));
    if rules.age_ms.is_some_and(|limit| age.is_some_and(|age| age > limit)) {
        return Some(RemovalReason::Age);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: i64) -> Offset {
        Offset::new(offset).unwrap()
    }

    /// Segments of 10 offsets and 100 bytes with these timestamps.
    fn segments(times: &[i64]) -> Vec<SegmentFacts> {
        let segment = |(number, time): (i64, &i64)| SegmentFacts {
            base: at(number * 10),
            bytes: 100,
            latest: Some(Timestamp::from_millis(*time)),
        };
        (0..).zip(times).map(segment).collect()
    }

    fn plan(
        segments: &[SegmentFacts],
        start: i64,
        ceiling: i64,
        rules: RetentionRules,
    ) -> (i64, usize, bool) {
        let end = at(i64::try_from(segments.len()).unwrap() * 10);
        let now = Timestamp::from_millis(1_000);
        let plan = plan_retention(segments, (at(start), end), at(ceiling), rules, now);
        (plan.start.value(), plan.remove.len(), plan.roll)
    }

    const SIZE: RetentionRules = RetentionRules { bytes_min: Some(200), age_ms: None };
    const AGE: RetentionRules = RetentionRules { bytes_min: None, age_ms: Some(500) };
    const NONE: RetentionRules = RetentionRules { bytes_min: None, age_ms: None };

    #[test]
    fn size_keeps_at_least_the_limit() {
        assert_eq!(plan(&segments(&[0; 5]), 0, 50, SIZE), (30, 3, false));
        assert_eq!(plan(&segments(&[0; 2]), 0, 20, SIZE), (0, 0, false));
        let rules = RetentionRules { bytes_min: Some(201), ..SIZE };
        assert_eq!(plan(&segments(&[0; 5]), 0, 50, rules), (20, 2, false));
        let rules = RetentionRules { bytes_min: Some(0), ..SIZE };
        assert_eq!(plan(&segments(&[0; 2]), 0, 20, rules), (20, 2, true), "all go, an empty one is rolled");
    }

    #[test]
    fn age_is_that_of_the_youngest_record_and_stops_at_the_first_that_stays() {
        assert_eq!(
            plan(&segments(&[499, 500, 100]), 0, 30, AGE),
            (10, 1, false),
            "500 is not older than 500"
        );
        assert_eq!(plan(&segments(&[1; 3]), 0, 30, AGE), (30, 3, true));
        assert_eq!(plan(&segments(&[1, 1, 9_999, 1]), 0, 40, AGE), (20, 2, false), "dated into the future");
        let mut unknown = segments(&[1; 3]);
        unknown[1].latest = None;
        assert_eq!(plan(&unknown, 0, 30, AGE), (10, 1, false));
        let extreme = segments(&[i64::MIN, i64::MAX]);
        assert_eq!(plan(&extreme, 0, 20, AGE), (0, 0, false), "an age that cannot be expressed is none");
    }

    #[test]
    fn what_lies_below_the_start_goes_without_rules() {
        for (start, removed) in [(0, 0), (9, 0), (10, 1), (29, 2), (30, 2)] {
            assert_eq!(plan(&segments(&[0; 3]), start, 30, NONE), (start, removed, false), "start {start}");
        }
    }

    #[test]
    fn nothing_goes_at_or_above_the_ceiling() {
        for ceiling in 0..=50 {
            for rules in [AGE, RetentionRules { bytes_min: Some(0), age_ms: None }] {
                let (start, removed, roll) = plan(&segments(&[0; 5]), 0, ceiling, rules);
                assert_eq!((start, roll), (ceiling / 10 * 10, ceiling == 50), "ceiling {ceiling}");
                assert_eq!(i64::try_from(removed).unwrap(), ceiling / 10);
            }
        }
    }

    #[test]
    fn an_empty_last_segment_stays_and_a_plan_carried_out_leaves_nothing_to_do() {
        let mut all = segments(&[1; 3]);
        all.push(SegmentFacts { base: at(30), bytes: 0, latest: None });
        let now = Timestamp::from_millis(1_000);
        let plan = plan_retention(&all, (at(0), at(30)), at(30), AGE, now);
        assert_eq!((plan.start, plan.remove.len(), plan.roll), (at(30), 3, false));
        assert_eq!(plan.remove[0], (at(0), RemovalReason::Age));
        let again = plan_retention(&all[3..], (at(30), at(30)), at(30), AGE, now);
        assert_eq!((again.start, again.remove, again.roll), (at(30), vec![], false));
        let interrupted = plan_retention(&all[1..], (at(30), at(30)), at(30), NONE, now);
        assert_eq!(interrupted.remove.len(), 2, "below the start already");
    }

    #[test]
    fn sizes_beyond_four_gib_add_up() {
        let mut large = segments(&[0; 5]);
        for segment in &mut large {
            segment.bytes = 3 << 30;
        }
        let rules = RetentionRules { bytes_min: Some(8 << 30), age_ms: None };
        assert_eq!(plan(&large, 0, 50, rules), (20, 2, false));
    }
}
