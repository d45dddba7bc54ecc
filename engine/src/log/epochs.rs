//! The file of leader epochs: written when a leadership begins, certain before the recovery point passes what was appended in it.

use std::sync::Arc;

use super::inner::Inner;
use super::seal::FileError;
use super::shared::lock;
use super::writer::Phase;
use super::{BeginEpochError, Closed};
use crate::checkpoint::{Certainty, LEADER_EPOCH_CHECKPOINT, is_passing, write_epochs};
use crate::units::{LeaderEpoch, Offset};

impl Inner {
    pub(crate) fn begin_epoch(self: &Arc<Self>, epoch: LeaderEpoch) -> Result<(), BeginEpochError> {
        {
            let mut writer = self.writer();
            if self.shared.has_failed() {
                return Err(Closed::StoreFailed.into());
            }
            match writer.phase {
                Phase::Open | Phase::Rolling => {}
                Phase::Truncating => return Err(BeginEpochError::Truncating),
                Phase::Closing => return Err(Closed::StoreClosed.into()),
                Phase::Closed(why) => return Err(why.into()),
            }
            if let Some(latest) = writer.epochs.latest().filter(|latest| latest.epoch > epoch) {
                return Err(BeginEpochError::Stale { asked: epoch, latest: latest.epoch });
            }
            if !writer.epochs.assign(epoch, self.marks.accepted.get()) {
                return Ok(());
            }
            writer.epochs_unsynced = true;
        }
        self.note_moved();
        self.write_epochs(Certainty::Written).map_err(|_| Closed::StoreFailed.into())
    }

    /// A follower has met an epoch. An entry without records, where the append then fails, does no harm: recovery drops it.
    pub(crate) fn note_epoch(&self, epoch: LeaderEpoch, start: Offset) -> Result<(), FileError> {
        {
            let mut writer = self.writer();
            if !writer.epochs.assign(epoch, start) {
                return Ok(());
            }
            writer.epochs_unsynced = true;
        }
        self.note_moved();
        self.write_epochs(Certainty::Written)
    }

    /// Writes the history as it is now; the newest is always written last.
    pub(crate) fn write_epochs(&self, certainty: Certainty) -> Result<(), FileError> {
        let written = self.put_epochs(certainty);
        written.map_err(|error| self.failed("write leader epochs", error.path, error.source))
    }

    fn put_epochs(&self, certainty: Certainty) -> Result<(), FileError> {
        let _file = lock(&self.epoch_file);
        let history = {
            let mut writer = self.writer();
            if certainty == Certainty::Durable {
                writer.epochs_unsynced = false;
            }
            writer.epochs.clone()
        };
        let path = self.directory.join(LEADER_EPOCH_CHECKPOINT);
        write_epochs(self.shared.disk.as_ref(), &path, &history, certainty)
            .map_err(|source| FileError { path, source })
    }

    /// Makes the file certain, if it is not. It says already what it has to; for want of room that is left to another time.
    pub(crate) fn sync_epochs(&self) -> Result<(), FileError> {
        if !self.writer().epochs_unsynced {
            return Ok(());
        }
        self.put_epochs(Certainty::Durable).map_err(|error| {
            if is_passing(&error.source) {
                self.writer().epochs_unsynced = true;
                return error;
            }
            self.failed("write leader epochs", error.path, error.source)
        })
    }
}
