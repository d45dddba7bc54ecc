//! The job that has a segment's index of aborted transactions say what its batches say; see [`crate::log`]'s `aborted`.

use super::{JobDone, JobError, Store};
use crate::log::{CutError, Effort, LogId, Settled, lock};
use crate::units::Offset;

/// So much is looked through before other jobs have their turn.
const PIECE_BYTES: u64 = 64 << 20;

impl Store {
    pub(super) fn index_aborted(&self, id: LogId, base: Offset) -> Result<JobDone, JobError> {
        let log = self.open_log(id)?;
        let _maintenance = lock(&log.maintenance);
        log.refuse_if_closed()?;
        let view = log.view();
        let done = |rewritten| JobDone::AbortedIndexed { log: id, segment: base, rewritten };
        let number = view.segments.iter().position(|segment| segment.base() == base);
        // That of the segment that grows is written when it grows no more.
        let Some(number) = number.filter(|number| number + 1 < view.segments.len()) else {
            return Ok(done(false));
        };
        if log.writer().aborted.unsure(base).is_none() {
            return Ok(done(false));
        }
        match log.settle_aborted(&view, number, Effort::Piece(PIECE_BYTES)) {
            Ok(Settled::Sure { rewritten }) => Ok(done(rewritten)),
            Ok(Settled::Damaged) => Ok(done(false)),
            Ok(Settled::NotYet) => {
                self.shared().unsure_aborted(id, base);
                Ok(done(false))
            }
            Err(CutError::Damaged(error)) => {
                // Below the start a power loss may leave holes, which nobody misses.
                if base >= log.marks.start.get() {
                    log.note_suspect(&error);
                }
                Ok(done(false))
            }
            Err(error) => Err(error.into()),
        }
    }
}
