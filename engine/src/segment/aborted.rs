//! A segment's index of aborted transactions. Kafka writes it, nobody here does yet; what is cut from the log goes from it as well, because
//! Kafka believes it: a client would not be given what has taken the place of the aborted records.

use std::io;

use super::{FileKind, Segment};
use crate::disk::{File, Open};
use crate::index::aborted_bytes_below;
use crate::units::Offset;

/// An index that has more than its log.
#[derive(Debug)]
pub(crate) struct LongAborted {
    file: File,
    /// What is left of it.
    bytes: u64,
}

impl LongAborted {
    /// Takes out what is too much. A crash leaves it as it was or as it should be.
    pub(crate) fn cut(self) -> io::Result<()> {
        self.file.set_size(self.bytes)?;
        self.file.sync()
    }
}

impl Segment {
    /// Looks for aborted transactions whose markers lie at or above `end`.
    pub(crate) fn aborted_above(&self, end: Offset) -> io::Result<Option<LongAborted>> {
        let file = match self.home.disk.open(&self.path(FileKind::AbortedIndex), Open::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut bytes = vec![0; usize::try_from(file.size()?).unwrap_or(usize::MAX)];
        let count = file.read_at(&mut bytes, 0)?;
        bytes.truncate(count);
        let kept = aborted_bytes_below(&bytes, end);
        Ok((kept < bytes.len()).then(|| LongAborted { file, bytes: kept as u64 }))
    }
}
