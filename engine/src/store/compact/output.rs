//! The segment that takes the place of others, under names that every recovery, Kafka's too, removes: `NAME.cleaned`.

use std::io;
use std::path::{Path, PathBuf};

use super::CompactionRefusal;
use crate::batch::BatchHeader;
use crate::disk::{Disk, File, Open};
use crate::index::ActiveIndex;
use crate::log::{FileError, Inner};
use crate::segment::{FileKind, file_path};
use crate::units::Offset;

/// How much is written at once.
const WRITE_BYTES: usize = 1 << 20;

/// What stands behind the names of files that are being written, and of those that are complete.
pub(super) const CLEANED: &str = ".cleaned";
pub(super) const SWAP: &str = ".swap";

/// The files that are written, the log last.
pub(super) const KINDS: [FileKind; 3] = [FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::Log];

/// A segment that is being written.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) base: Offset,
    file: File,
    written: u64,
    buffer: Vec<u8>,
    index: ActiveIndex,
}

/// A segment that is written, with all that belongs to it, and synced.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) base: Offset,
    pub(super) file: File,
    pub(super) size: u64,
    pub(super) index: ActiveIndex,
}

impl Output {
    pub(super) fn create(log: &Inner, base: Offset) -> io::Result<Self> {
        let file =
            log.shared.disk.open(&named(&log.directory, base, FileKind::Log, CLEANED), Open::Create)?;
        file.set_size(0)?;
        let index = log.config().index_settings().empty(base);
        Ok(Self { base, file, written: 0, buffer: Vec::new(), index })
    }

    /// Its size so far.
    pub(super) fn size(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Adds a batch behind the last one.
    pub(super) fn push(&mut self, header: &BatchHeader, bytes: &[u8]) -> io::Result<()> {
        let position = self.size();
        self.index.note(header.last_offset(), position, bytes.len() as u64, header.max_timestamp);
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    /// No index could point behind this.
    pub(super) fn check_size(&self) -> Result<(), CompactionRefusal> {
        let bytes = self.size();
        if bytes > u64::from(i32::MAX.unsigned_abs()) {
            return Err(CompactionRefusal::TooLarge { bytes });
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes what is left and the indexes; all of it, and its names, are certain when this returns.
    pub(super) fn finish(mut self, log: &Inner) -> io::Result<Finished> {
        let disk = log.shared.disk.as_ref();
        self.flush()?;
        self.file.sync()?;
        self.index.seal();
        let path = |kind| named(&log.directory, self.base, kind, CLEANED);
        write_synced(disk, &path(FileKind::OffsetIndex), self.index.offset_bytes())?;
        write_synced(disk, &path(FileKind::TimeIndex), self.index.time_bytes())?;
        disk.sync_directory(&log.directory)?;
        Ok(Finished { base: self.base, file: self.file, size: self.written, index: self.index })
    }
}

/// A file of a segment under another name.
pub(super) fn named(directory: &Path, base: Offset, kind: FileKind, behind: &str) -> PathBuf {
    let mut name = file_path(directory, base, kind).into_os_string();
    name.push(behind);
    PathBuf::from(name)
}

/// Removes what was written of a segment, as far as that goes: the next opening removes the rest.
pub(super) fn remove_cleaned(log: &Inner, base: Offset) {
    for kind in FileKind::OF_A_SEGMENT {
        drop(log.shared.disk.remove_file(&named(&log.directory, base, kind, CLEANED)));
    }
}

/// Removes what a round that was given up, or a repair, has left. Recovery takes an exchange back in front of which something is being written,
/// and that has to be something of the same round.
pub(super) fn remove_left_behind(log: &Inner) -> Result<(), FileError> {
    let disk = log.shared.disk.as_ref();
    let fail = |error| log.failed("remove what a compaction left", log.directory.to_path_buf(), error);
    let entries = disk.list(&log.directory).map_err(fail)?;
    let left: Vec<_> = entries.into_iter().filter(|entry| entry.name.ends_with(CLEANED)).collect();
    for entry in &left {
        disk.remove_file(&log.directory.join(&entry.name)).map_err(fail)?;
    }
    if left.is_empty() { Ok(()) } else { disk.sync_directory(&log.directory).map_err(fail) }
}

/// Writes a small file, which is certain then; its name is not.
pub(in crate::store) fn write_synced(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = disk.open(path, Open::Create)?;
    file.set_size(0)?;
    file.write_all_at(bytes, 0)?;
    file.sync()
}
