//! What was found in one segment: whole batches in their order, and the bytes between and behind them that are none.
//!
//! Offsets and leader epochs lie outside a batch's CRC, so that they can be wrong in a batch that is whole. They are compared with their
//! neighbours here. Bytes that are no batch and leave no offset out were one all the same, so that a batch beside them is out of its place: the
//! one that nothing on its other side bears out.

use super::context::SegmentContext;
use crate::batch::{BatchHeader, StopReason};
use crate::units::{LeaderEpoch, Offset, OffsetRange};

/// What was found in one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentScan {
    /// The segment's base offset.
    pub base: Offset,
    /// Where the scan began, in bytes.
    pub from: u64,
    /// The file's size.
    pub log_bytes: u64,
    /// The position behind the last whole batch; `from` if there is none.
    pub good_bytes: u64,
    /// The first offset behind the last whole batch; if there is none, the one that the scan began with.
    pub end: Offset,
    /// How many whole batches there are.
    pub batches: u64,
    /// The CRC in the header of the last whole batch.
    pub last_batch_crc: Option<u32>,
    /// What is no whole batch, by position.
    pub bad: Vec<BadBytes>,
    /// The leader epochs of the batches, runs of equal ones together.
    pub runs: Vec<EpochRun>,
    /// Whether there is a gap in front of the last batch, and nothing says that this is wrong.
    pub leaps_at_end: bool,
    /// Whether there is a gap in front of any batch. A cut may make it the last one.
    pub has_gaps: bool,
}

/// A stretch of bytes that is no whole batch in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct BadBytes {
    /// Where it begins.
    pub position: u64,
    /// Where it ends: at the next whole batch, or at the end of the file.
    pub until: u64,
    /// The offset that the next batch would have had there.
    pub expected: Offset,
    /// The base offset of the next whole batch of the segment; `None` if there is none.
    pub next: Option<Offset>,
    /// What it looks like.
    pub kind: BadKind,
}

/// What bytes that are no batch look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub enum BadKind {
    /// The file ends before the batch does, as a write leaves it that was interrupted.
    Torn,
    /// Zeros and nothing else.
    Zeros,
    /// A batch that is not what was written, or no batch at all.
    Corrupt,
    /// A whole batch whose offset lies before the end of the one before it, or where it cannot have been appended.
    Disorder,
}

impl From<StopReason> for BadKind {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::TornHeader { .. } | StopReason::TornBatch { .. } => Self::Torn,
            StopReason::Zeros { .. } => Self::Zeros,
            StopReason::Length { .. }
            | StopReason::Legacy { .. }
            | StopReason::Magic { .. }
            | StopReason::Crc { .. }
            | StopReason::Nonsense(_) => Self::Corrupt,
        }
    }
}

/// Batches behind one another that carry the same leader epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EpochRun {
    /// The epoch; `None` in batches that no leader has stamped, and in legacy messages.
    pub epoch: Option<LeaderEpoch>,
    /// From the base of the first to behind the last of the batches.
    pub offsets: OffsetRange,
    /// Where the first begins and the last ends, in bytes.
    pub position: (u64, u64),
    /// How many there are.
    pub batches: u64,
    /// The epoch that the history has there, if there is one to compare with.
    pub known: Option<LeaderEpoch>,
}

/// Where a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Placed {
    /// In its place.
    Here,
    /// In its place, and the one before it was not.
    HereAndNotTheOneBefore,
    /// It counts among the bad bytes.
    Nowhere,
}

/// The account in front of the last batch.
#[derive(Clone, Copy, Debug)]
struct Before {
    end: Offset,
    good_bytes: u64,
    crc: Option<u32>,
    /// Where the batch begins.
    base: Offset,
    /// Whether bytes that are no batch lie between.
    is_behind_bad: bool,
    /// Whether they leave no offset out.
    is_behind_lost_place: bool,
    has_gaps: bool,
}

impl Before {
    /// Whether offsets lie between, and nothing that is no batch.
    fn leaps(&self) -> bool {
        self.base > self.end && !self.is_behind_bad
    }

    /// Whether there is nothing between, neither offsets nor bytes.
    fn joins(&self) -> bool {
        self.base == self.end && !self.is_behind_bad
    }
}

/// Takes in what a scan finds, batch by batch, and keeps the account.
#[derive(Clone, Debug)]
pub(crate) struct SegmentScanner {
    scan: SegmentScan,
    context: SegmentContext,
    /// The last batch turns out to be the wrong one when its successor fits there, or when it ends where no batch can.
    before_last: Option<Before>,
    open: Option<(u64, Offset, BadKind)>,
}

impl SegmentScanner {
    /// A scan of the segment with this base and size from `from` on, where the batch with the offset `expected`, or a later one,
    /// begins: the base itself at position 0.
    pub(crate) const fn new(
        base: Offset,
        log_bytes: u64,
        from: u64,
        expected: Offset,
        context: SegmentContext,
    ) -> Self {
        let scan = SegmentScan {
            base,
            from,
            log_bytes,
            good_bytes: from,
            end: expected,
            batches: 0,
            last_batch_crc: None,
            bad: Vec::new(),
            runs: Vec::new(),
            leaps_at_end: false,
            has_gaps: false,
        };
        Self { scan, context, before_last: None, open: None }
    }

    /// Takes in a whole batch, and says whether it is in its place.
    pub(crate) fn batch(&mut self, position: u64, header: &BatchHeader) -> Placed {
        let behind = position + header.size_bytes as u64;
        let mut placed = Placed::Here;
        let is_behind_lost_place = self.has_lost_place(header);
        let has_leapt = header.base_offset < self.scan.end && self.has_leapt_before(header);
        if self.in_reach(header) && (has_leapt || self.is_borne_out_by_none(header)) {
            self.forget_the_last();
            placed = Placed::HereAndNotTheOneBefore;
        }
        if !self.in_reach(header) || header.base_offset < self.scan.end {
            self.bad(position, BadKind::Disorder);
            return Placed::Nowhere;
        }
        let leaps = header.base_offset > self.scan.end && self.open.is_none();
        self.before_last = Some(Before {
            end: self.scan.end,
            good_bytes: self.scan.good_bytes,
            crc: self.scan.last_batch_crc,
            base: header.base_offset,
            is_behind_bad: self.open.is_some(),
            is_behind_lost_place,
            has_gaps: self.scan.has_gaps,
        });
        self.scan.has_gaps |= leaps;
        self.close_bad(position, Some(header.base_offset));
        self.scan.good_bytes = behind;
        self.scan.end = header.next_offset();
        self.scan.last_batch_crc = Some(header.crc);
        self.scan.batches += 1;
        self.add_to_runs(position, behind, header);
        placed
    }

    /// Notes that there is no whole batch at `position`. The owner looks for the next one behind it
    /// ([`crate::batch::find_batch`]) and, if there is one, goes on with [`SegmentScanner::batch`].
    pub(crate) fn bad(&mut self, position: u64, kind: BadKind) {
        self.open.get_or_insert((position, self.scan.end, kind));
    }

    /// The account, at the end of the file.
    pub(crate) fn finish(mut self) -> SegmentScan {
        if self.before_last.is_some_and(|before| self.is_misplaced(before)) {
            self.forget_the_last();
        }
        self.scan.leaps_at_end = self.before_last.is_some_and(|before| before.leaps());
        let end = self.scan.log_bytes;
        self.close_bad(end, None);
        self.scan
    }

    fn in_reach(&self, header: &BatchHeader) -> bool {
        let reach = header.last_offset().distance_from(self.scan.base);
        reach.is_some_and(|distance| distance <= i64::from(i32::MAX))
            && header.base_offset >= self.scan.base
            && self.context.limit.is_none_or(|limit| header.next_offset() <= limit)
    }

    /// A batch that begins too low either is wrong itself, or the one before it was: that one leapt, and this one fits where it began.
    fn has_leapt_before(&self, header: &BatchHeader) -> bool {
        self.before_last.is_some_and(|before| before.base > before.end && header.base_offset >= before.end)
    }

    /// Whether bytes that are no batch lie in front of this one, and no offset is left for what they were. Of a batch that was written twice
    /// none need be.
    fn has_lost_place(&self, header: &BatchHeader) -> bool {
        header.base_offset == self.scan.end && self.open.is_some_and(|(_, _, kind)| kind != BadKind::Disorder)
    }

    /// Whether bytes without a place lie on one side of the last batch, and on its other side is none that it joins: `next` is behind it.
    fn is_borne_out_by_none(&self, next: &BatchHeader) -> bool {
        let is_joined = next.base_offset == self.scan.end && self.open.is_none();
        self.before_last.is_some_and(|before| {
            let is_wrong_behind = next.base_offset >= before.end && before.is_behind_lost_place && !is_joined;
            is_wrong_behind || (self.has_lost_place(next) && !before.joins())
        })
    }

    /// Whether the last batch ends where none can.
    fn is_misplaced(&self, before: Before) -> bool {
        let SegmentScan { log_bytes, last_batch_crc, end, .. } = self.scan;
        if before.is_behind_lost_place && (self.open.is_some() || !self.context.is_known_end(end)) {
            return true;
        }
        before.leaps()
            && (self.context.contradicts_end(log_bytes, last_batch_crc, end)
                || self.context.contradicts_leap(before.end, end))
    }

    /// Takes the account of the last batch back: it is not in its place.
    fn forget_the_last(&mut self) {
        let Some(before) = self.before_last.take() else { return };
        let Before { end, good_bytes, crc, has_gaps, .. } = before;
        self.scan.has_gaps = has_gaps;
        let last_end = self.scan.end;
        (self.scan.end, self.scan.good_bytes, self.scan.last_batch_crc) = (end, good_bytes, crc);
        self.scan.batches -= 1;
        self.take_from_runs(last_end, end, good_bytes);
        // What lies in front of it, and is no batch either, goes on.
        let before = self.scan.bad.pop_if(|bad| bad.position >= good_bytes);
        let kind = before.map_or(BadKind::Disorder, |before| before.kind);
        self.open = Some((good_bytes, end, kind));
    }

    fn close_bad(&mut self, until: u64, next: Option<Offset>) {
        if let Some((position, expected, kind)) = self.open.take() {
            self.scan.bad.push(BadBytes { position, until, expected, next, kind });
        }
    }

    fn add_to_runs(&mut self, position: u64, behind: u64, header: &BatchHeader) {
        let epochs = &self.context.epochs;
        // Of a batch that lies across the log's start the rest is known.
        let known = epochs.epoch_at(header.base_offset).or_else(|| epochs.epoch_at(header.last_offset()));
        match self.scan.runs.last_mut() {
            Some(run) if run.epoch == header.leader_epoch && run.known == known => {
                run.offsets =
                    OffsetRange::new(run.offsets.start(), header.next_offset()).unwrap_or(run.offsets);
                run.position.1 = behind;
                run.batches += 1;
            }
            _ => self.scan.runs.push(EpochRun {
                epoch: header.leader_epoch,
                offsets: header.offsets(),
                position: (position, behind),
                batches: 1,
                known,
            }),
        }
    }

    fn take_from_runs(&mut self, last_end: Offset, end: Offset, good_bytes: u64) {
        let Some(run) = self.scan.runs.last_mut().filter(|run| run.offsets.end() == last_end) else { return };
        run.batches -= 1;
        run.position.1 = good_bytes;
        run.offsets = OffsetRange::new(run.offsets.start(), end).unwrap_or(run.offsets);
        if run.batches == 0 {
            self.scan.runs.pop();
        }
    }
}
