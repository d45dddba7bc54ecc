//! The file of leader epochs: written when a leadership begins, certain before the recovery point passes what was appended in it.

use std::sync::Arc;

use super::inner::Inner;
use super::room::NoRoom;
use super::shared::lock;
use super::trouble::{FileError, or_later};
use super::writer::{Phase, Writer};
use super::{BeginEpochError, Closed};
use crate::checkpoint::{Certainty, LEADER_EPOCH_CHECKPOINT, write_epochs};
use crate::state::EpochHistory;
use crate::units::{LeaderEpoch, Offset};

/// Why an epoch did not begin.
enum NotBegun {
    Stale { latest: LeaderEpoch },
    NoRoom(NoRoom),
}

impl From<NoRoom> for NotBegun {
    fn from(no_room: NoRoom) -> Self {
        Self::NoRoom(no_room)
    }
}

impl Inner {
    pub(crate) fn begin_epoch(self: &Arc<Self>, epoch: LeaderEpoch) -> Result<(), BeginEpochError> {
        self.write_down(epoch, None).map_err(|not_begun| match not_begun {
            NotBegun::Stale { latest } => BeginEpochError::Stale { asked: epoch, latest },
            NotBegun::NoRoom(NoRoom::OutOfSpace) => BeginEpochError::OutOfSpace,
            NotBegun::NoRoom(NoRoom::OutOfDescriptors) => BeginEpochError::OutOfDescriptors,
            NotBegun::NoRoom(NoRoom::Truncating) => BeginEpochError::Truncating,
            NotBegun::NoRoom(NoRoom::Closed(why)) => BeginEpochError::Closed(why),
        })
    }

    /// A follower has met an epoch. An entry without records, where the append then fails, does no harm: recovery drops it.
    pub(crate) fn note_epoch(&self, epoch: LeaderEpoch, start: Offset) -> Result<(), NoRoom> {
        self.write_down(epoch, Some(start)).or_else(|not_begun| match not_begun {
            // Somebody else has noted a later one; what follows from that the append finds out.
            NotBegun::Stale { .. } => Ok(()),
            NotBegun::NoRoom(no_room) => Err(no_room),
        })
    }

    /// Writes an epoch down that begins at `start`, or at the accepted end, and then lets the log have it: nothing is appended in an epoch
    /// that the file does not name, and one that found no room has not begun. Appends wait meanwhile.
    fn write_down(&self, epoch: LeaderEpoch, start: Option<Offset>) -> Result<(), NotBegun> {
        let _room = lock(&self.room);
        let _file = lock(&self.epoch_file);
        let (start, history) = {
            let mut writer = self.writer();
            self.check_takes_appends(&writer)?;
            if let Some(latest) = writer.epochs.latest().filter(|latest| latest.epoch > epoch) {
                return Err(NotBegun::Stale { latest: latest.epoch });
            }
            let start = start.unwrap_or_else(|| self.marks.accepted.get());
            let mut history = writer.epochs.clone();
            if !history.assign(epoch, start) {
                return Ok(());
            }
            writer.phase = Phase::Rolling;
            (start, history)
        };
        let written = self.put_history(&history, Certainty::Written);
        let mut writer = self.writer();
        if writer.phase == Phase::Rolling {
            writer.phase = Phase::Open;
        }
        match written {
            Ok(()) => {
                writer.epochs.assign(epoch, start);
                writer.epochs_unsynced = true;
                drop(writer);
                self.note_moved();
                Ok(())
            }
            Err(error) => {
                drop(writer);
                Err(self.refuse_room(&error.path, &error.source).into())
            }
        }
    }

    pub(crate) fn check_takes_appends(&self, writer: &Writer) -> Result<(), NoRoom> {
        if self.shared.has_failed() {
            return Err(NoRoom::Closed(Closed::StoreFailed));
        }
        match writer.phase {
            Phase::Open | Phase::Rolling => Ok(()),
            Phase::Truncating => Err(NoRoom::Truncating),
            Phase::Closing => Err(NoRoom::Closed(Closed::StoreClosed)),
            Phase::Closed(why) => Err(NoRoom::Closed(why)),
        }
    }

    /// Writes the history as it is now; the newest is always written last.
    pub(crate) fn write_epochs(&self, certainty: Certainty) -> Result<(), FileError> {
        let _file = lock(&self.epoch_file);
        let history = {
            let mut writer = self.writer();
            // Its directory may be gone by now.
            if writer.phase == Phase::Closed(Closed::Deleted) {
                return Ok(());
            }
            writer.epochs_unsynced = certainty == Certainty::Written;
            writer.uncut_epochs.as_ref().unwrap_or(&writer.epochs).clone()
        };
        self.put_history(&history, certainty).map_err(|error| {
            self.writer().epochs_unsynced = true;
            self.failed("write leader epochs", error.path, error.source)
        })
    }

    /// Takes epochs out of the file that the log has no more. Where there is no room they stay until the next checkpoint: recovery drops an
    /// entry that no batch confirms, and before the next epoch begins the file is written anew.
    pub(crate) fn withdraw_epochs(&self, certainty: Certainty) -> Result<(), FileError> {
        or_later(self.write_epochs(certainty))
    }

    /// Writes a history that the log is about to have. The caller holds the lock on the file.
    fn put_history(&self, history: &EpochHistory, certainty: Certainty) -> Result<(), FileError> {
        let path = self.directory.join(LEADER_EPOCH_CHECKPOINT);
        let disk = self.shared.disk.as_ref();
        let written = self.shared.with_reserve(|| write_epochs(disk, &path, history, certainty));
        written.map_err(|source| FileError { path, source })
    }

    /// Makes the file certain, if it is not. It says already what it has to, or too much; for want of room that is left to another time.
    pub(crate) fn sync_epochs(&self) -> Result<(), FileError> {
        if self.writer().epochs_unsynced { self.write_epochs(Certainty::Durable) } else { Ok(()) }
    }
}
