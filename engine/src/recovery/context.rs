//! What tells of a segment's last batch whether its offset is right. Of any other batch its successor tells.
//!
//! | what | what it says |
//! |---|---|
//! | the next segment with batches | no batch reaches beyond its base |
//! | the recovery point, and the base of an empty segment | a batch ended there, so that the last one has not leapt across |
//! | the mark of a clean stop | where the last batch ends, if it is the same one |
//! | a log to which no gap was ever appended | the last batch begins where the one before it ends |
//!
//! What is left: the last batch of a log with gaps, killed or without power, that was written behind the recovery point. There a greater offset is
//! believed, because a follower of a compacted log has written just that.

use super::facts::{Facts, RecoveryPoint, Stop};
use crate::checkpoint::CleanPartition;
use crate::segment::{FileKind, parse_file_name};
use crate::state::EpochHistory;
use crate::units::Offset;

/// Whether a follower may have left a gap of offsets in front of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Gaps {
    /// Its leader's log was compacted, or nobody knows.
    #[default]
    Legal,
    /// Each batch that was appended began where the log ended.
    Never,
}

/// What is known of a segment apart from its batches.
#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentContext {
    /// No batch reaches beyond: the next batch of the log begins there, or nothing more is written.
    pub(super) limit: Option<Offset>,
    /// Where a batch ended once.
    ends: Vec<Offset>,
    /// What a clean stop has said of the log whose last segment this is.
    mark: Option<CleanPartition>,
    gaps: Gaps,
    /// The epochs that the log's history has here.
    pub(super) epochs: EpochHistory,
}

impl SegmentContext {
    /// What a log's facts say of the segment with this base.
    pub(crate) fn of(facts: &Facts, base: Offset) -> Self {
        let named = facts.files.iter().filter_map(|file| Some((parse_file_name(&file.name)?, file.bytes)));
        let later = named.filter(|((other, kind), _)| *kind == FileKind::Log && *other > base);
        let mut later: Vec<(Offset, u64)> = later.map(|((other, _), bytes)| (other, bytes)).collect();
        later.sort_unstable();
        let limit = later.iter().find(|(_, bytes)| *bytes > 0).map(|(next, _)| *next);
        let empty = later.iter().take_while(|(_, bytes)| *bytes == 0);
        let mut ends: Vec<Offset> = empty.map(|(empty, _)| *empty).collect();
        let mut mark = None;
        if limit.is_none() {
            if let RecoveryPoint::Known(point) = facts.recovery_point {
                ends.push(point);
            }
            if let Stop::Clean { facts: Some(marked) } = facts.stop {
                ends.push(marked.end);
                mark = Some(marked).filter(|_| later.is_empty());
            }
        }
        Self { limit, ends, mark, gaps: facts.gaps, epochs: EpochHistory::default() }
    }

    /// What is known of a segment of a log that is open and goes on at `next`.
    pub(crate) fn examined(next: Offset, epochs: EpochHistory) -> Self {
        Self { limit: Some(next), epochs, ..Self::default() }
    }

    /// Whether a segment of this size, with this last batch, cannot end here.
    pub(super) fn contradicts_end(&self, log_bytes: u64, last_crc: Option<u32>, end: Offset) -> bool {
        self.mark.is_some_and(|mark| {
            mark.log_bytes == log_bytes && mark.last_batch_crc == last_crc && mark.end != end
        })
    }

    /// Whether something else says that a batch ends here.
    pub(super) fn is_known_end(&self, end: Offset) -> bool {
        self.limit == Some(end) || self.ends.contains(&end)
    }

    /// Whether the last batch cannot end at `to`, behind a gap that begins at `from`.
    pub(super) fn contradicts_leap(&self, from: Offset, to: Offset) -> bool {
        self.gaps == Gaps::Never || self.ends.iter().any(|end| from < *end && *end < to)
    }
}
