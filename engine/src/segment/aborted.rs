//! A segment's index of aborted transactions. Nobody here asks it (see [`super::Transactions`]); a Kafka does and believes it: one that lacks an
//! entry has it give out what was aborted, and one that has too much keeps from its clients what has taken the place of the aborted records.

use std::io;

use super::{FileKind, Segment};
use crate::checkpoint::{Certainty, replace_file};
use crate::disk::{File, Open, is_bad_medium};
use crate::index::{AbortedTransaction, aborted_bytes_below, append_aborted};
use crate::state::Removed;
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
        let bytes = whole(&file)?;
        let kept = aborted_bytes_below(&bytes, end);
        Ok((kept < bytes.len()).then(|| LongAborted { file, bytes: kept as u64 }))
    }

    /// The bytes of the file: none where there is no file, as where it has no entry; `None` where the medium does not give them.
    pub(crate) fn aborted_bytes(&self) -> io::Result<Option<Vec<u8>>> {
        let read = || whole(&self.home.disk.open(&self.path(FileKind::AbortedIndex), Open::Read)?);
        match read() {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(Vec::new())),
            Err(error) if is_bad_medium(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Has the file say this, for certain; gives its bytes. Without transactions there is no file, as in Kafka. A crash leaves the old or the
    /// new one.
    pub(crate) fn write_aborted(&self, aborted: &[AbortedTransaction]) -> io::Result<Vec<u8>> {
        let (disk, path) = (self.home.disk.as_ref(), self.path(FileKind::AbortedIndex));
        let mut bytes = Vec::new();
        for one in aborted {
            append_aborted(&mut bytes, one);
        }
        if bytes.is_empty() {
            match disk.remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => disk.sync_directory(&self.home.directory)?,
            }
        } else {
            replace_file(disk, &path, &bytes, Certainty::Durable)?;
        }
        Ok(bytes)
    }
}

fn whole(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.size()?).unwrap_or(usize::MAX)];
    let count = file.read_at(&mut bytes, 0)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// A transaction that an index and the batches say differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AbortedDifference {
    /// As the batches have it.
    pub(crate) expected: Option<AbortedTransaction>,
    /// As the index has it.
    pub(crate) found: Option<AbortedTransaction>,
}

/// The first difference between what an index says and what was seen in the batches of its segment. Of what began below `first`, the log's
/// first batch, the log knows no beginning.
pub(crate) fn aborted_difference(
    said: &[AbortedTransaction],
    seen: &[AbortedTransaction],
    first: Offset,
    removed: Removed,
) -> Option<AbortedDifference> {
    let is_any = removed == Removed::Any;
    for one in said {
        let expected = seen.iter().find(|other| other.marker == one.marker).copied();
        let fits = match expected {
            Some(other) => {
                one.producer == other.producer
                    && (one.first == other.first
                        || ((is_any || one.first < first) && one.first < other.first))
                    && (one.last_stable == other.last_stable || is_any || one.last_stable < first)
            }
            None => is_any || one.first < first,
        };
        if !fits {
            return Some(AbortedDifference { expected, found: Some(*one) });
        }
    }
    let lacking = seen.iter().find(|one| said.iter().all(|other| other.marker != one.marker));
    lacking.map(|one| AbortedDifference { expected: Some(*one), found: None })
}
