//! Walks over the headers of a segment's batches, without reading what lies between.
//!
//! Checks no CRC; whoever hands bytes out does.

use std::io;

use crate::batch::BatchHeader;
use crate::disk::File;

use super::{Frame, Segment, frame_at};

const WINDOW_BYTES: usize = 16 << 10;

/// Why a walk ended before the segment did.
#[derive(Debug)]
pub(crate) enum WalkError {
    /// The file could not be read.
    Io(io::Error),
    /// There is no batch at this position.
    Damaged(u64),
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Walk {
    file: File,
    position: u64,
    end: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl Walk {
    /// From `position`, which is the beginning of a batch, to the end of what is written in the segment.
    pub(crate) fn new(segment: &Segment, position: u64) -> io::Result<Self> {
        let end = segment.size();
        Ok(Self { file: segment.file()?, position, end, window: Vec::new(), window_at: 0 })
    }

    /// The next batch and its position; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Frame)>, WalkError> {
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
        if behind > self.end {
            return Err(WalkError::Damaged(position));
        }
        self.position = behind;
        Ok(Some((position, frame)))
    }

    /// The header of the batch that [`Walk::next`] has just given; `None` for a legacy message.
    pub(crate) fn header(&self, position: u64) -> Option<BatchHeader> {
        let at = usize::try_from(position.checked_sub(self.window_at)?).ok()?;
        BatchHeader::parse(self.window.get(at..)?).ok()
    }

    /// The bytes of a whole batch.
    pub(crate) fn batch_bytes(&self, position: u64, size: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; size];
        let count = self.file.read_at(&mut bytes, position)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    fn frame_in_window(&self) -> Option<Frame> {
        let at = usize::try_from(self.position.checked_sub(self.window_at)?).ok()?;
        frame_at(self.window.get(at..)?)
    }

    fn fill(&mut self) -> io::Result<()> {
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        self.window.resize(left.min(WINDOW_BYTES), 0);
        let count = self.file.read_at(&mut self.window, self.position)?;
        self.window.truncate(count);
        self.window_at = self.position;
        Ok(())
    }
}
