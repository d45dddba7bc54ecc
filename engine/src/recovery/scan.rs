//! What was found in one segment: whole batches in their order, and the bytes between and behind them that are none.
//!
//! Offsets and leader epochs lie outside a batch's CRC, so that they can be wrong in a batch that is whole. They are compared with their
//! neighbours here.

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
pub enum BadKind {
    /// The file ends before the batch does, as a write leaves it that was interrupted.
    Torn,
    /// Zeros and nothing else.
    Zeros,
    /// A batch that is not what was written, or no batch at all.
    Corrupt,
    /// A whole batch whose offset lies before the end of the one before it, or too far from the segment's base.
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
}

/// Takes in what a scan finds, batch by batch, and keeps the account.
#[derive(Clone, Debug)]
pub(crate) struct SegmentScanner {
    scan: SegmentScan,
    /// The state before the last batch, which turns out to be the wrong one when its successor fits there.
    before_last: Option<(Offset, u64, Option<u32>)>,
    last_base: Offset,
    open: Option<(u64, Offset, BadKind)>,
}

impl SegmentScanner {
    /// A scan of the segment with this base and size from `from` on, where the batch with the offset `expected`, or a later one,
    /// begins: the base itself at position 0.
    pub(crate) const fn new(base: Offset, log_bytes: u64, from: u64, expected: Offset) -> Self {
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
        };
        Self { scan, before_last: None, last_base: expected, open: None }
    }

    /// Takes in a whole batch. Gives `false` if it is not in its place, and then it counts among the bad bytes.
    pub(crate) fn batch(&mut self, position: u64, header: &BatchHeader) -> bool {
        let behind = position + header.size_bytes as u64;
        if !self.in_reach(header) {
            self.bad(position, BadKind::Disorder);
            return false;
        }
        if header.base_offset < self.scan.end && !self.forget_a_leap_before(header) {
            self.bad(position, BadKind::Disorder);
            return false;
        }
        self.close_bad(position, Some(header.base_offset));
        self.before_last = Some((self.scan.end, self.scan.good_bytes, self.scan.last_batch_crc));
        self.last_base = header.base_offset;
        self.scan.good_bytes = behind;
        self.scan.end = header.next_offset();
        self.scan.last_batch_crc = Some(header.crc);
        self.scan.batches += 1;
        self.add_to_runs(position, behind, header);
        true
    }

    /// Notes that there is no whole batch at `position`. The owner looks for the next one behind it
    /// ([`crate::batch::find_batch`]) and, if there is one, goes on with [`SegmentScanner::batch`].
    pub(crate) fn bad(&mut self, position: u64, kind: BadKind) {
        self.open.get_or_insert((position, self.scan.end, kind));
    }

    /// The account, at the end of the file.
    pub(crate) fn finish(mut self) -> SegmentScan {
        let end = self.scan.log_bytes;
        self.close_bad(end, None);
        self.scan
    }

    fn in_reach(&self, header: &BatchHeader) -> bool {
        let reach = header.last_offset().distance_from(self.scan.base);
        reach.is_some_and(|distance| distance <= i64::from(i32::MAX)) && header.base_offset >= self.scan.base
    }

    /// A batch that begins too low either is wrong itself, or the one before it was: that one leapt, and this one fits where it
    /// began. Then the account of that one is taken back.
    fn forget_a_leap_before(&mut self, header: &BatchHeader) -> bool {
        let Some((end, good_bytes, crc)) = self.before_last else { return false };
        if self.open.is_some() || self.last_base <= end || header.base_offset < end {
            return false;
        }
        self.before_last = None;
        let (position, last_end) = (good_bytes, self.scan.end);
        (self.scan.end, self.scan.good_bytes, self.scan.last_batch_crc) = (end, good_bytes, crc);
        self.scan.batches -= 1;
        self.take_from_runs(last_end, end, good_bytes);
        self.bad(position, BadKind::Disorder);
        true
    }

    fn close_bad(&mut self, until: u64, next: Option<Offset>) {
        if let Some((position, expected, kind)) = self.open.take() {
            self.scan.bad.push(BadBytes { position, until, expected, next, kind });
        }
    }

    fn add_to_runs(&mut self, position: u64, behind: u64, header: &BatchHeader) {
        match self.scan.runs.last_mut() {
            Some(run) if run.epoch == header.leader_epoch => {
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
