//! Walks over the headers of a segment's batches, without reading what lies between.
//!
//! Checks no CRC; whoever hands bytes out does. Checks that offsets ascend, because they lie outside of it. Ranges that are known to be
//! damaged are passed over, or end the walk, as the caller chose.

use std::io;

use crate::batch::BatchHeader;
use crate::disk::File;
use crate::units::Offset;

use super::{DamagedRange, Frame, Segment, crc_at, frame_at};
use std::sync::Arc;

const WINDOW_BYTES: usize = 16 << 10;
/// Enough for a header. Between batches that are larger than a window nothing else is looked at.
pub(super) const HEADER_BYTES: usize = 128;

/// Why a walk ended before the segment did.
#[derive(Debug)]
pub(crate) enum WalkError {
    /// The file could not be read.
    Io(io::Error),
    /// There is no batch at this position, or none that fits there.
    Damaged(u64),
}

impl From<io::Error> for WalkError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What a walk does where a range is known to be damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtDamage {
    PassOver,
    Stop,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Walk {
    file: File,
    position: u64,
    end: u64,
    window: Vec<u8>,
    window_at: u64,
    /// The lowest offset that the next batch can have.
    lowest: Offset,
    damaged: Option<Arc<[DamagedRange]>>,
    at_damage: AtDamage,
    has_passed_damage: bool,
    /// How much is read at once, by the size of the last batch.
    window_bytes: usize,
}

impl Walk {
    /// From `position`, which is the beginning of a batch, to the end of what is written in the segment.
    pub(crate) fn new(segment: &Segment, position: u64, at_damage: AtDamage) -> io::Result<Self> {
        Ok(Self {
            end: segment.size(),
            file: segment.file()?,
            position,
            window: Vec::new(),
            window_at: 0,
            window_bytes: WINDOW_BYTES,
            lowest: segment.base(),
            damaged: segment.damaged(),
            at_damage,
            has_passed_damage: false,
        })
    }

    /// The next batch and its position; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Frame)>, WalkError> {
        self.has_passed_damage = false;
        while let Some(until) = self.known_damage() {
            self.has_passed_damage = true;
            match self.at_damage {
                AtDamage::Stop => return Err(WalkError::Damaged(self.position)),
                AtDamage::PassOver if until == self.position => break,
                AtDamage::PassOver => self.position = until,
            }
        }
        let position = self.position;
        if position >= self.end {
            return Ok(None);
        }
        let frame = if let Some(frame) = self.frame_in_window() {
            frame
        } else {
            self.fill().map_err(WalkError::Io)?;
            self.frame_in_window().ok_or(WalkError::Damaged(position))?
        };
        let behind = position + frame.size as u64;
        if behind > self.end || frame.base < self.lowest {
            return Err(WalkError::Damaged(position));
        }
        self.position = behind;
        self.lowest = frame.end();
        self.window_bytes = if frame.size > WINDOW_BYTES { HEADER_BYTES } else { WINDOW_BYTES };
        Ok(Some((position, frame)))
    }

    /// Whether known damage lies between what [`Walk::next`] gave last, or the end, and what it gave before.
    pub(crate) const fn has_passed_damage(&self) -> bool {
        self.has_passed_damage
    }

    /// Goes on at `position`, where no batch begins below `lowest`.
    pub(super) const fn go_on_at(&mut self, position: u64, lowest: Offset) {
        (self.position, self.lowest) = (position, lowest);
    }

    /// The header of the batch that [`Walk::next`] has just given; `None` for a legacy message.
    pub(crate) fn header(&self, position: u64) -> Option<BatchHeader> {
        let at = usize::try_from(position.checked_sub(self.window_at)?).ok()?;
        BatchHeader::parse(self.window.get(at..)?).ok()
    }

    /// The CRC field of the batch, or legacy message, that [`Walk::next`] has just given.
    pub(crate) fn crc(&self, position: u64) -> Option<u32> {
        let at = usize::try_from(position.checked_sub(self.window_at)?).ok()?;
        crc_at(self.window.get(at..)?)
    }

    /// The bytes of a whole batch.
    pub(crate) fn batch_bytes(&self, position: u64, size: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; size];
        let count = self.file.read_at(&mut bytes, position)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// Where the damage ends that is known to be here.
    fn known_damage(&self) -> Option<u64> {
        let ranges = self.damaged.as_deref()?.iter();
        let here = |range: &&DamagedRange| {
            let (from, until) = range.bytes;
            (from..until).contains(&self.position) || (from == until && from == self.position)
        };
        // One may begin where another ends.
        ranges.filter(here).map(|range| range.bytes.1).max()
    }

    fn frame_in_window(&self) -> Option<Frame> {
        let at = usize::try_from(self.position.checked_sub(self.window_at)?).ok()?;
        frame_at(self.window.get(at..)?)
    }

    fn fill(&mut self) -> io::Result<()> {
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        self.window.resize(left.min(self.window_bytes), 0);
        let count = self.file.read_at(&mut self.window, self.position)?;
        self.window.truncate(count);
        self.window_at = self.position;
        Ok(())
    }
}
