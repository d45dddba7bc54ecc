//! From facts to plan: what each stretch of bad bytes is, where the log ends, what has to be done.

use std::collections::BTreeMap;

use super::epochs::believed;
use super::facts::{Facts, Machine, RecoveryPoint, Refusal, SegmentFiles, Sorted, StartGuard, Stop};
use super::orders::{ScanDepth, plan_scan};
use super::plan::{Plan, Step, SuspectReason};
use super::scan::{BadBytes, BadKind, SegmentScan};
use crate::checkpoint::GAPS_NOTE;
use crate::index::{OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES};
use crate::segment::DamagedRange;
use crate::units::{Offset, OffsetRange};

/// Plans the recovery of one log. The same facts always give the same plan.
pub(crate) fn plan_recovery(facts: &Facts) -> Result<Plan, Refusal> {
    if let (Some(start), StartGuard::Unguarded) = (facts.log_start, facts.start_guard) {
        let mut plan = plan_by(&Facts { log_start: None, ..facts.clone() })?;
        if plan.end < start {
            plan.suspect.push(SuspectReason::StartAboveEnd { start, end: plan.end });
            return Ok(plan);
        }
    }
    plan_by(facts)
}

fn plan_by(facts: &Facts) -> Result<Plan, Refusal> {
    let sorted = Sorted::of(&facts.files);
    let orders = plan_scan(&facts.files, facts.recovery_point, facts.stop, true)?;
    if let Some(order) = orders.iter().find(|order| !facts.scans.contains_key(&order.base)) {
        return Err(Refusal::NotScanned { base: order.base });
    }
    let whole =
        |base: &Offset| orders.iter().any(|order| order.base == *base && order.depth == ScanDepth::Whole);
    let checked = |base: &Offset| orders.iter().any(|order| order.base == *base);

    let mut judgement = Judgement::begin(facts, &sorted);
    for (base, scan) in facts.scans.iter().filter(|(base, _)| checked(base)) {
        if judgement.cut.is_some() {
            break;
        }
        judgement.segment(*base, scan);
    }
    let end = judgement.end(&sorted);
    let mut plan = judgement.into_plan(facts, &sorted, end);
    let log = OffsetRange::new(plan.start, plan.end).expect("the end is never below the start");
    let believed = believed(facts, log);
    for (segment, run) in believed.damaged {
        // Batches that are cut need no further care.
        if run.offsets.end() <= plan.end {
            plan.damaged.push(DamagedRange { segment, offsets: run.offsets, bytes: run.position });
            plan.suspect.push(SuspectReason::Damaged { offsets: run.offsets });
        }
    }
    plan.epochs = believed.history;
    if facts.epochs.file.as_ref() != Some(&plan.epochs) || facts.stop == Stop::Unclean {
        plan.steps.push(Step::RewriteEpochs);
    }
    if facts.scans.values().any(|scan| scan.has_gaps)
        && !facts.files.iter().any(|file| file.name == GAPS_NOTE)
    {
        plan.steps.push(Step::NoteGaps);
    }
    if facts.stop == Stop::Unclean {
        plan_rewriting(&mut plan, &sorted.segments);
    }
    plan_indexes(&mut plan, &sorted.segments, whole);
    plan.snapshots = snapshots(&mut plan.steps, &sorted, plan.start, plan.end);
    Ok(plan)
}

/// Where the log is cut: everything from this position of this segment on goes.
struct Cut {
    segment: Offset,
    position: u64,
    /// Keep the bytes: whole batches may be among them.
    aside: bool,
}

/// What lies between a log's start as it was written down and its first segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Front {
    /// Nothing.
    Whole,
    /// A hole: what follows goes.
    Hole,
    /// Records that were synced, and that nobody has deleted: what follows stays.
    Damaged,
}

/// The decisions as they are made, from the oldest scanned segment on.
struct Judgement<'a> {
    facts: &'a Facts,
    last: Option<Offset>,
    /// Everything below is known to have been synced, so nothing below is ever cut.
    settled: Offset,
    end: Option<Offset>,
    cut: Option<Cut>,
    /// Whether the log's start as it was written down lies below the first segment, and why.
    front: Front,
    /// Empty segments inside of others.
    stray: Vec<Offset>,
    damaged: Vec<DamagedRange>,
    suspect: Vec<SuspectReason>,
}

impl<'a> Judgement<'a> {
    fn begin(facts: &'a Facts, sorted: &Sorted) -> Self {
        let last = sorted.segments.keys().next_back().copied();
        let synced = match facts.recovery_point {
            RecoveryPoint::Known(point) => point,
            RecoveryPoint::NoEntry => Offset::ZERO,
            // Nobody knows what was synced; at a roll the old segment is, before anything of the new one.
            RecoveryPoint::Unknown => last.unwrap_or(Offset::ZERO),
        };
        let settled = match facts.stop {
            Stop::Clean { facts: Some(mark) } => synced.max(mark.end),
            Stop::Clean { facts: None } | Stop::Unclean => synced,
        };
        let mut suspect = Vec::new();
        if facts.stop == Stop::Unclean && facts.machine == Machine::OtherOrUnknown {
            suspect.push(SuspectReason::MachineCrash);
        }
        if facts.recovery_point == RecoveryPoint::Unknown
            && !matches!(facts.stop, Stop::Clean { facts: Some(_) })
        {
            suspect.push(SuspectReason::RecoveryPointUnknown);
        }
        let mut judgement = Self {
            facts,
            last,
            settled,
            end: None,
            cut: None,
            front: Front::Whole,
            stray: Vec::new(),
            damaged: Vec::new(),
            suspect,
        };
        judgement.look_before_the_first(sorted);
        judgement
    }

    fn segment(&mut self, base: Offset, scan: &SegmentScan) {
        if scan.log_bytes == 0 && self.end.is_some_and(|end| base < end) {
            // It was made and given up again, for lack of room, before the segment in front of it grew on; a power loss brought its name back.
            self.stray.push(base);
            return;
        }
        if self.a_segment_is_missing_before(base) {
            return;
        }
        for bad in &scan.bad {
            self.bad_bytes(base, scan, bad);
            if self.cut.is_some() {
                return;
            }
        }
        self.end = Some(self.end.map_or(scan.end, |end| end.max(scan.end)));
    }

    /// A start is written down before anything below it is removed, and before anything is appended to a first segment there. Where the
    /// first segment begins above it, a machine crash has taken what was between, and what follows is behind a hole; or it was synced, and
    /// then somebody has taken the files away. But not where that is farther than a segment reaches: so far ahead a follower's log may go on
    /// whose segment had nothing in it. Kafka writes no start down that is a segment's base.
    fn look_before_the_first(&mut self, sorted: &Sorted) {
        let (Some(start), Some(first)) = (self.facts.log_start, sorted.segments.keys().next()) else {
            return;
        };
        let is_near = first.distance_from(start).is_some_and(|distance| distance <= i64::from(i32::MAX));
        let is_ours = self.facts.start_guard == StartGuard::Guarded;
        if start >= *first || !is_near || !is_ours {
            return;
        }
        if self.pages_may_be_missing_from(start) {
            self.suspect.push(SuspectReason::Hole { segment: *first, position: 0, from: start });
            self.cut = Some(Cut { segment: *first, position: 0, aside: true });
            (self.end, self.front) = (Some(start), Front::Hole);
        } else if start < self.settled {
            let offsets = OffsetRange::new(start, *first).unwrap_or_else(|| empty(start));
            self.damaged.push(DamagedRange { segment: start, offsets, bytes: (0, 0) });
            self.front = Front::Damaged;
        }
    }

    /// A machine crash may lose the end of a segment exactly behind a batch, or its whole contents. What follows is then behind a
    /// hole. Elsewhere a gap between segments is what compaction left.
    fn a_segment_is_missing_before(&mut self, base: Offset) -> bool {
        let is_missing = |end: &Offset| {
            *end < base && self.pages_may_be_missing_from(self.missed(*end)) && !self.is_deleted(base)
        };
        let Some(end) = self.end.filter(is_missing) else { return false };
        let Some((before, scan)) = self.facts.scans.range(..base).next_back() else { return false };
        self.suspect.push(SuspectReason::Hole { segment: *before, position: scan.log_bytes, from: end });
        self.cut = Some(Cut { segment: *before, position: scan.log_bytes, aside: true });
        true
    }

    fn bad_bytes(&mut self, base: Offset, scan: &SegmentScan, bad: &BadBytes) {
        let something_follows = bad.next.is_some() || self.a_later_segment_has_batches(base);
        let next = bad.next.or(self.next_segment(base));
        let missed = self.missed(bad.expected);
        if missed < self.settled || next.is_some_and(|next| self.is_deleted(next)) {
            self.damage(base, bad);
        } else if !something_follows {
            self.cut_the_tail(base, scan, bad);
        } else if self.pages_may_be_missing_from(missed) {
            self.suspect.push(SuspectReason::Hole {
                segment: base,
                position: bad.position,
                from: bad.expected,
            });
            self.cut = Some(Cut { segment: base, position: bad.position, aside: true });
            self.end = Some(bad.expected);
        } else {
            self.damage(base, bad);
        }
    }

    /// What lies below the start is deleted: a hole that ends there is no reason to cut what lies above.
    fn is_deleted(&self, until: Offset) -> bool {
        self.facts.log_start.is_some_and(|start| until <= start)
    }

    /// The first offset that anybody misses where a hole begins.
    fn missed(&self, from: Offset) -> Offset {
        self.facts.log_start.map_or(from, |start| start.max(from))
    }

    fn pages_may_be_missing_from(&self, offset: Offset) -> bool {
        offset >= self.settled
            && self.facts.stop == Stop::Unclean
            && self.facts.machine == Machine::OtherOrUnknown
    }

    fn next_segment(&self, base: Offset) -> Option<Offset> {
        let later = (std::ops::Bound::Excluded(base), std::ops::Bound::Unbounded);
        self.facts.scans.range(later).next().map(|(base, _)| *base)
    }

    fn a_later_segment_has_batches(&self, base: Offset) -> bool {
        let later = (std::ops::Bound::Excluded(base), std::ops::Bound::Unbounded);
        self.facts.scans.range(later).any(|(_, scan)| scan.batches > 0)
    }

    /// The end of the last write. Where the write was complete, and no machine crash explains its bytes, somebody may have been told
    /// that it was written.
    fn cut_the_tail(&mut self, base: Offset, scan: &SegmentScan, bad: &BadBytes) {
        let whole_but_wrong = matches!(bad.kind, BadKind::Corrupt | BadKind::Disorder);
        let unexplained = whole_but_wrong && !self.pages_may_be_missing_from(bad.expected);
        if unexplained {
            self.suspect.push(SuspectReason::LastBatchLost {
                segment: base,
                position: bad.position,
                kind: bad.kind,
            });
        }
        debug_assert!(bad.until == scan.log_bytes, "nothing follows");
        self.cut = Some(Cut { segment: base, position: bad.position, aside: unexplained });
        self.end = Some(bad.expected);
    }

    /// Bytes that must not be cut. The range ends where the next batch begins, or at what is known to have been there.
    fn damage(&mut self, base: Offset, bad: &BadBytes) {
        let until = bad.next.or(self.next_segment(base)).unwrap_or(self.settled);
        // A batch in the wrong place may leave no offset of its own; its bytes must not be served all the same.
        let offsets =
            OffsetRange::new(bad.expected, until.max(bad.expected)).unwrap_or_else(|| empty(bad.expected));
        self.damaged.push(DamagedRange { segment: base, offsets, bytes: (bad.position, bad.until) });
        self.end = Some(self.end.map_or(until, |end| end.max(until)));
    }

    /// The end of the log, and whether that is less than it should be.
    fn end(&mut self, sorted: &Sorted) -> Offset {
        let first = sorted.segments.keys().next().copied().or(self.facts.log_start);
        let end = self.end.or(self.last).or(first).unwrap_or(Offset::ZERO);
        match self.facts.stop {
            Stop::Clean { facts: Some(mark) } => {
                let scan = self.last.and_then(|last| self.facts.scans.get(&last));
                let same_bytes = scan.map_or(0, |scan| scan.log_bytes) == mark.log_bytes;
                let crc = scan.and_then(|scan| scan.last_batch_crc);
                let same_batch = crc.is_none() || crc == mark.last_batch_crc;
                if end != mark.end || !same_bytes || !same_batch {
                    self.suspect.push(SuspectReason::MarkContradicted { mark, end });
                }
            }
            Stop::Clean { facts: None } | Stop::Unclean => {}
        }
        if let RecoveryPoint::Known(recovery_point) = self.facts.recovery_point
            && end < recovery_point
        {
            self.suspect.push(SuspectReason::EndBelowRecoveryPoint { end, recovery_point });
        }
        end
    }

    fn into_plan(self, facts: &Facts, sorted: &Sorted, end: Offset) -> Plan {
        let mut steps: Vec<Step> =
            sorted.leftovers.iter().map(|name| Step::RemoveFile { name: name.clone() }).collect();
        let first = sorted.segments.keys().next().copied();
        let log_start = facts.log_start.unwrap_or(Offset::ZERO);
        let start = first.filter(|_| self.front == Front::Whole);
        let start = start.map_or(log_start, |first| first.max(log_start));
        let (mut damaged, mut suspect) = (self.damaged, self.suspect);
        // Nobody misses what lies below the start. A range without offsets of its own still has bytes that are not served.
        damaged.retain(|range| range.offsets.end() > start || range.offsets == empty(start));
        let end = if first.is_none() || self.front == Front::Hole || end < start {
            match self.cut.as_ref().filter(|cut| cut.aside) {
                // What lies behind a hole goes before the hole does, so that what is left by a crash still has it.
                Some(_) => steps.extend(sorted.segments.iter().rev().map(|(base, files)| {
                    Step::RemoveSegment { base: *base, aside: (files.log > 0).then(|| aside_name(*base, 0)) }
                })),
                // Everything that is left lies below the start, and was deleted by that. The first goes first, so that what is left
                // by a crash still ends where it does.
                None => steps.extend(
                    sorted.segments.keys().map(|base| Step::RemoveSegment { base: *base, aside: None }),
                ),
            }
            steps.push(Step::CreateSegment { base: start });
            damaged.clear();
            start
        } else {
            if let Some(cut) = &self.cut {
                cut_steps(&mut steps, cut, sorted);
            }
            let strays = self.stray.iter().map(|base| Step::RemoveSegment { base: *base, aside: None });
            let strays: Vec<_> = strays.filter(|step| !steps.contains(step)).collect();
            steps.extend(strays);
            if self.front == Front::Damaged {
                steps.extend([Step::CreateSegment { base: start }, Step::RebuildIndex { base: start }]);
            }
            end
        };
        suspect.extend(damaged.iter().map(|range| SuspectReason::Damaged { offsets: range.offsets }));
        let recovery_point = match (facts.recovery_point, facts.stop) {
            (_, Stop::Clean { facts: Some(mark) }) if !suspect.iter().any(contradicts) => mark.end.min(end),
            (RecoveryPoint::Known(point), _) => point.min(end),
            (RecoveryPoint::NoEntry | RecoveryPoint::Unknown, _) => first.unwrap_or(start).min(end),
        };
        let (epochs, snapshots) = Default::default();
        Plan { steps, start, end, recovery_point, epochs, snapshots, damaged, suspect }
    }
}

fn contradicts(reason: &SuspectReason) -> bool {
    matches!(reason, SuspectReason::MarkContradicted { .. } | SuspectReason::Damaged { .. })
}

fn empty(at: Offset) -> OffsetRange {
    OffsetRange::new(at, at).expect("an empty range is one")
}

/// Later segments go first, the last one first: a crash in between leaves bad bytes with fewer batches behind them, never a log that
/// looks whole and has a gap.
fn cut_steps(steps: &mut Vec<Step>, cut: &Cut, sorted: &Sorted) {
    for (base, files) in sorted.segments.iter().rev().filter(|(base, _)| **base > cut.segment) {
        let keep = cut.aside && files.log > 0;
        steps.push(Step::RemoveSegment { base: *base, aside: keep.then(|| aside_name(*base, 0)) });
    }
    let from_bytes = sorted.segments.get(&cut.segment).map_or(cut.position, |files| files.log);
    if from_bytes > cut.position {
        steps.push(Step::CutSegment {
            base: cut.segment,
            from_bytes,
            to_bytes: cut.position,
            aside: cut.aside.then(|| aside_name(cut.segment, cut.position)),
        });
    }
}

/// The name of a plain file that Kafka leaves alone.
fn aside_name(base: Offset, position: u64) -> String {
    format!("{:020}-{position}.lost", base.value())
}

/// What is not known to be synced is written again, the same bytes at the same places. What reads as written may be in the page cache alone,
/// and not on its way to the medium any more: a sync that failed leaves it so, and whoever was told of that is gone. The last segment in any
/// case, because its size may be such a thing.
fn plan_rewriting(plan: &mut Plan, segments: &BTreeMap<Offset, SegmentFiles>) {
    let removed = removed(plan);
    let bases: Vec<Offset> = segments.keys().copied().filter(|base| !removed.contains(base)).collect();
    for (at, base) in bases.iter().enumerate() {
        if bases.get(at + 1).is_none_or(|next| *next > plan.recovery_point) {
            plan.steps.push(Step::RewriteSegment { base: *base, from: plan.recovery_point.max(*base) });
        }
    }
}

fn removed(plan: &Plan) -> Vec<Offset> {
    let removed = |step: &Step| if let Step::RemoveSegment { base, .. } = step { Some(*base) } else { None };
    plan.steps.iter().filter_map(removed).collect()
}

/// Indexes are made again where the segment was read whole, or where their files cannot be right.
fn plan_indexes(plan: &mut Plan, segments: &BTreeMap<Offset, SegmentFiles>, whole: impl Fn(&Offset) -> bool) {
    let removed = removed(plan);
    for (base, files) in segments {
        let index = files.offsets.is_some_and(|bytes| bytes % OFFSET_ENTRY_BYTES as u64 == 0);
        // Without an entry the times of a segment are unknown, and retention would go wrong.
        let times = files
            .times
            .is_some_and(|bytes| bytes % TIME_ENTRY_BYTES as u64 == 0 && (bytes > 0 || files.log == 0));
        if !removed.contains(base) && (whole(base) || !index || !times) {
            plan.steps.push(Step::RebuildIndex { base: *base });
        }
    }
}

/// Snapshots above the end tell of batches that are gone, those below the first segment of batches that were deleted.
fn snapshots(steps: &mut Vec<Step>, sorted: &Sorted, start: Offset, end: Offset) -> Vec<Offset> {
    let first = sorted.segments.keys().next().copied().unwrap_or(start);
    let (usable, stray): (Vec<Offset>, Vec<Offset>) =
        sorted.snapshots.iter().partition(|offset| first <= **offset && **offset <= end);
    for offset in stray {
        steps.push(Step::RemoveFile { name: format!("{:020}.snapshot", offset.value()) });
    }
    usable.into_iter().rev().collect()
}
