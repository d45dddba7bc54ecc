//! The note that a log has gaps of offsets. A base offset lies outside of its batch's CRC, and behind the last batch there is no other that
//! shows whether it is right: where no gap was ever appended, one is damage.

use super::inner::Inner;
use super::room::NoRoom;
use super::shared::lock;
use super::writer::Phase;
use crate::checkpoint::note_gaps;

impl Inner {
    /// Makes the note before the first batch behind a gap is appended. Its name is certain before that batch is durable. A note without a
    /// gap, where the append then fails, costs no more than that one at the end is believed.
    pub(crate) fn note_gaps(&self) -> Result<(), NoRoom> {
        let _room = lock(&self.room);
        {
            let mut writer = self.writer();
            self.check_takes_appends(&writer)?;
            if writer.gaps_noted {
                return Ok(());
            }
            writer.phase = Phase::Rolling;
        }
        let made = note_gaps(self.shared.disk.as_ref(), &self.directory);
        let mut writer = self.writer();
        if writer.phase == Phase::Rolling {
            writer.phase = Phase::Open;
        }
        match made {
            Ok(()) => {
                writer.gaps_noted = true;
                writer.names.made += 1;
                Ok(())
            }
            Err(error) => {
                drop(writer);
                Err(self.refuse_room(&self.directory, &error))
            }
        }
    }
}
