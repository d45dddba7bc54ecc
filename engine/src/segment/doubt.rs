//! What recovery found in a segment and that may be in the page cache alone, clean, so that no sync brings it to the medium: a sync that
//! failed leaves it so. It is written again as it is before a sync of the file counts.

use std::io;
use std::ops::Range;
use std::sync::PoisonError;

use super::Segment;
use crate::sync::{Mutex, MutexGuard};

/// How much is read and written again at once.
const PIECE_BYTES: usize = 1 << 20;

/// The bytes in doubt; appends lie behind them.
#[derive(Debug, Default)]
pub(super) struct Doubt(Mutex<Option<Range<u64>>>);

impl Doubt {
    fn bytes(&self) -> MutexGuard<'_, Option<Range<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file ends at `size` now; what is behind it from now on is new.
    pub(super) fn cut(&self, size: u64) {
        let mut bytes = self.bytes();
        *bytes = bytes.take().map(|bytes| bytes.start..bytes.end.min(size)).filter(|bytes| !bytes.is_empty());
    }
}

impl Segment {
    /// Its bytes from `position` on are in doubt.
    pub(crate) fn doubt(&self, position: u64) {
        let size = self.size();
        *self.doubt.bytes() = (position < size).then_some(position..size);
    }

    /// Whether a sync of the file proves nothing before [`Segment::write_again`].
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.doubt.bytes().is_some()
    }

    /// Writes what is in doubt again, a piece at a time; the next sync makes it certain. Appends may go on meanwhile, a cut may not. A crash
    /// on the way changes nothing.
    pub(crate) fn write_again(&self) -> io::Result<()> {
        let Some(Range { start: mut at, end }) = self.doubt.bytes().clone() else { return Ok(()) };
        let file = self.held_file()?;
        let mut buffer = vec![0; PIECE_BYTES.min(usize::try_from(end - at).unwrap_or(PIECE_BYTES))];
        while at < end {
            let left = usize::try_from(end - at).unwrap_or(PIECE_BYTES).min(buffer.len());
            let piece = buffer.get_mut(..left).unwrap_or_default();
            let count = file.read_at(piece, at)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            file.write_all_at(piece.get(..count).unwrap_or_default(), at)?;
            at += count as u64;
        }
        *self.doubt.bytes() = None;
        Ok(())
    }
}
