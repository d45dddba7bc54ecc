//! Which segments are cleaned, and which of them become one.

use std::ops::Range;

use crate::units::{Offset, Timestamp};

/// What is known of a log before it is decided whether it is compacted.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// All segments but the one that grows, ascending, as far as they are synced and sealed.
    pub(crate) segments: Vec<SegmentFacts>,
    /// The log's start.
    pub(crate) start: Offset,
    /// Where the last round ended; `None` where that is not known.
    pub(crate) first_dirty: Option<Offset>,
    /// Nothing at or above it is decided: the last stable offset, which is at most the high watermark.
    pub(crate) ceiling: Offset,
    pub(crate) now: Timestamp,
}

/// A segment that grows no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentFacts {
    pub(crate) base: Offset,
    /// The next segment's base.
    pub(crate) end: Offset,
    pub(crate) bytes: u64,
    /// The greatest timestamp in it; asked for where there is a minimal lag.
    pub(crate) latest: Option<Timestamp>,
    /// The greatest timestamp of its first batch; asked for where there is a maximal lag.
    pub(crate) first: Option<Timestamp>,
}

/// The settings that decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// More than this part of the bytes is dirty (`min.cleanable.dirty.ratio`), in millionths.
    pub(crate) dirty_ppm_min: u32,
    /// Records stay untouched for so long (`min.compaction.lag.ms`).
    pub(crate) lag_ms_min: i64,
    /// Behind it dirty records are compacted whatever part they are (`max.compaction.lag.ms`); `None` for never.
    pub(crate) lag_ms_max: Option<i64>,
}

/// A round that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Keys are gathered from here on,
    pub(crate) first_dirty: Offset,
    /// to here, where a segment begins.
    pub(crate) until: Offset,
    pub(crate) clean_bytes: u64,
    pub(crate) dirty_bytes: u64,
}

/// Says whether a round is due.
///
/// A place where the last round ended that lies below the start or above everything is not believed, and counting begins at the start.
pub(crate) fn plan_compaction(facts: &Facts, rules: &Rules) -> Option<Plan> {
    let end = facts.segments.last()?.end;
    let is_inside = |dirty: &Offset| *dirty >= facts.start && *dirty <= end;
    let first_dirty = facts.first_dirty.filter(is_inside).unwrap_or(facts.start);
    let is_young = |segment: &&SegmentFacts| {
        let youngest = facts.now.millis().saturating_sub(rules.lag_ms_min);
        segment.end > first_dirty && segment.latest.is_some_and(|latest| latest.millis() > youngest)
    };
    let lagging = if rules.lag_ms_min > 0 { facts.segments.iter().find(is_young) } else { None };
    let bound = lagging.map_or(end, |segment| segment.base).min(facts.ceiling);
    // A segment is cleaned as a whole or not at all.
    let cleanable: Vec<&SegmentFacts> =
        facts.segments.iter().take_while(|segment| segment.end <= bound).collect();
    let until = cleanable.last()?.end;
    let bytes = |is_dirty: &dyn Fn(&SegmentFacts) -> bool| -> u64 {
        cleanable.iter().filter(|segment| is_dirty(segment)).map(|segment| segment.bytes).sum()
    };
    let dirty_bytes = bytes(&|segment| segment.end > first_dirty);
    let clean_bytes = bytes(&|segment| segment.end <= first_dirty);
    if dirty_bytes == 0 {
        return None;
    }
    let is_overdue = rules.lag_ms_max.is_some_and(|lag| {
        let dirty = facts.segments.iter().filter(|segment| segment.end > first_dirty);
        let oldest = dirty.filter_map(|segment| segment.first).filter(|first| first.millis() > 0).min();
        oldest.is_some_and(|oldest| oldest.millis() < facts.now.millis().saturating_sub(lag))
    });
    let ppm = u128::from(dirty_bytes) * 1_000_000 / u128::from(clean_bytes + dirty_bytes);
    let is_due = is_overdue || ppm > u128::from(rules.dirty_ppm_min);
    is_due.then_some(Plan { first_dirty, until, clean_bytes, dirty_bytes })
}

/// Segments that become one: as many neighbours as fit, by their sizes now, into one of `bytes_max` whose offsets an index can express.
pub(crate) fn group_segments(segments: &[SegmentFacts], bytes_max: u64) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let (mut base, mut bytes) = (Offset::ZERO, 0);
    for (number, segment) in segments.iter().enumerate() {
        let span = segment.end.distance_from(base).unwrap_or(i64::MAX);
        match groups.last_mut() {
            Some(group) if bytes + segment.bytes <= bytes_max && span <= i64::from(i32::MAX) => {
                group.end = number + 1;
                bytes += segment.bytes;
            }
            _ => {
                groups.push(number..number + 1);
                (base, bytes) = (segment.base, segment.bytes);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: i64) -> Offset {
        Offset::new(offset).unwrap()
    }

    /// Segments of ten offsets and a hundred bytes, dated by their number.
    fn facts(segments: i64) -> Facts {
        let segment = |number: i64| SegmentFacts {
            base: at(number * 10),
            end: at(number * 10 + 10),
            bytes: 100,
            latest: Some(Timestamp::from_millis(number * 1000 + 900)),
            first: Some(Timestamp::from_millis(number * 1000 + 1)),
        };
        Facts {
            segments: (0..segments).map(segment).collect(),
            start: at(0),
            first_dirty: None,
            ceiling: Offset::MAX,
            now: Timestamp::from_millis(10_000),
        }
    }

    const RULES: Rules = Rules { dirty_ppm_min: 500_000, lag_ms_min: 0, lag_ms_max: None };

    fn range(facts: &Facts, rules: &Rules) -> Option<(i64, i64)> {
        plan_compaction(facts, rules).map(|plan| (plan.first_dirty.value(), plan.until.value()))
    }

    #[test]
    fn a_round_ends_at_the_ceiling_the_minimal_lag_and_the_last_sealed_segment_whichever_comes_first() {
        let mut log = facts(8);
        assert_eq!(range(&log, &RULES), Some((0, 80)));
        log.ceiling = at(45);
        assert_eq!(range(&log, &RULES), Some((0, 40)), "a segment that holds the ceiling is left alone");
        let lag = Rules { lag_ms_min: 7_000, ..RULES };
        assert_eq!(range(&log, &lag), Some((0, 30)), "a record as old as the lag may go");
        log.ceiling = at(9);
        assert_eq!(range(&log, &RULES), None);
        assert_eq!(range(&facts(0), &RULES), None);
    }

    #[test]
    fn it_is_due_by_the_part_that_is_dirty_or_by_the_oldest_dirty_record() {
        let mut log = facts(8);
        log.first_dirty = Some(at(40));
        assert_eq!(range(&log, &RULES), None, "half of it is not more than half");
        log.first_dirty = Some(at(39));
        assert_eq!(range(&log, &RULES), Some((39, 80)));
        log.first_dirty = Some(at(70));
        let overdue = |lag| Rules { lag_ms_max: Some(lag), ..RULES };
        assert_eq!(range(&log, &overdue(2_999)), None, "the first dirty batch is of 7001");
        assert_eq!(range(&log, &overdue(2_998)), Some((70, 80)));
        log.first_dirty = Some(at(80));
        assert_eq!(range(&log, &overdue(0)), None, "nothing is dirty");
    }

    #[test]
    fn a_place_outside_of_the_log_is_not_believed() {
        let mut log = facts(4);
        log.start = at(15);
        for dirty in [5, 41] {
            log.first_dirty = Some(at(dirty));
            assert_eq!(range(&log, &RULES), Some((15, 40)), "{dirty}");
        }
    }

    #[test]
    fn neighbours_become_one_as_far_as_their_bytes_and_offsets_go() {
        let mut log = facts(5);
        assert_eq!(group_segments(&log.segments, 250), [0..2, 2..4, 4..5]);
        assert_eq!(
            group_segments(&log.segments, 50),
            [0..1, 1..2, 2..3, 3..4, 4..5],
            "one that is too large stays alone"
        );
        log.segments[1].bytes = 0;
        assert_eq!(group_segments(&log.segments, 200), [0..3, 3..5]);
        let far = i64::from(i32::MAX);
        log.segments[2].end = at(far);
        (log.segments[3].base, log.segments[3].end) = (at(far), at(far + 1));
        assert_eq!(group_segments(&log.segments[..4], 1_000), [0..3, 3..4]);
    }
}
