//! Finishes segments that grow no more, in their order: trimmed, indexed, synced, and only then is anything behind them durable. What
//! recovery found is written again before, also in the segment that goes on growing.

use std::io;
use std::sync::Arc;

use super::inner::Inner;
use super::shared::lock;
use super::trouble::FileError;
use super::writer::{Phase, Unsealed};
use crate::disk::Open;
use crate::segment::{FileKind, file_path};
use crate::units::Offset;

impl Inner {
    /// Whether something older than the active segment has to be synced before it, and can be: when a sync that is under way ends, the
    /// question is asked again.
    pub(crate) fn needs_seal_before_sync(&self) -> bool {
        let writer = self.writer();
        writer.sync.is_wanted() && writer.needs_seal() && writer.sync.under_way.is_none()
    }

    /// Seals what was rolled. Each step may be repeated: a crash leaves segments that recovery finds above the recovery point. What finds no
    /// room is done later.
    pub(crate) fn seal_rolled(self: &Arc<Self>) -> Result<(), FileError> {
        let _watch = self.watch();
        let _maintenance = lock(&self.maintenance);
        self.seal_rolled_held()
    }

    /// As [`Inner::seal_rolled`], for a caller who holds `maintenance`.
    pub(crate) fn seal_rolled_held(self: &Arc<Self>) -> Result<(), FileError> {
        self.seal_all().inspect_err(|error| {
            if error.passes() {
                self.shared.put_off(self.id);
                // Whoever waits for it is to meet the error too.
                self.wake_sleepers();
            }
        })
    }

    fn seal_all(self: &Arc<Self>) -> Result<(), FileError> {
        loop {
            // One of a file that is to be sealed, from when it grew; another is not begun before the seal.
            self.wait_for_sync();
            if let Some(failure) = self.shared.failure() {
                // A sync that failed is not tried again: the second one would succeed and prove nothing.
                return Err(FileError {
                    path: failure.path.clone(),
                    source: io::Error::other(failure.clone()),
                });
            }
            let (next, names, active) = {
                let writer = self.writer();
                if let Phase::Closed(why) = writer.phase {
                    // Its files may be another's by now: the log may have been opened again, and cut, and have grown. Where a cut has failed
                    // a segment that is known to be shorter than its file would be cut there, and those behind it stay. Files of a
                    // deleted log are not missed, also where somebody still waits for it.
                    let path = self.directory.to_path_buf();
                    return Err(FileError { path, source: io::Error::other(why) });
                }
                (writer.unsealed.front().cloned(), writer.names, Arc::clone(&writer.active.segment))
            };
            if let Some(unsealed) = next {
                self.seal_one(&unsealed)?;
                let mut writer = self.writer();
                if writer.unsealed.front().is_some_and(|first| Arc::ptr_eq(&first.segment, &unsealed.segment))
                {
                    writer.unsealed.pop_front();
                    unsealed.segment.set_sealed();
                    writer.names.made += 1;
                }
                drop(writer);
                self.list_unsure(&unsealed.segment);
                continue;
            }
            if !names.are_synced() {
                self.sync_directory()?;
            }
            let again = active.write_again();
            again.map_err(|error| self.failed("write again", active.path(FileKind::Log), error))?;
            let mut writer = self.writer();
            writer.names.synced = names.made;
            if !writer.has_older_unsynced() {
                let sealed_to = writer.active.segment.base();
                self.raise_durable(sealed_to.min(self.marks.written.get()));
                let is_behind = self.marks.durable.get() < self.marks.accepted.get();
                drop(writer);
                if is_behind {
                    let open = active.held_file();
                    open.map_err(|error| self.failed("open", active.path(FileKind::Log), error))?;
                }
                self.tell_ready();
                self.wake_reached();
                return Ok(());
            }
        }
    }

    fn seal_one(&self, unsealed: &Unsealed) -> Result<(), FileError> {
        let segment = &unsealed.segment;
        let path = segment.path(FileKind::Log);
        let log = || -> io::Result<()> {
            segment.write_again()?;
            let file = segment.file()?;
            // Gives the room behind the last byte back.
            file.set_size(segment.size())?;
            segment.write_sealed_indexes()?;
            file.sync()
        };
        self.shared.with_reserve(log).map_err(|error| self.failed("seal", path, error))?;
        if let Some((offset, bytes)) = &unsealed.snapshot {
            self.write_snapshot(*offset, bytes)?;
        }
        Ok(())
    }

    /// Writes the state of producers at `offset`, synced. Under its final name, as Kafka does; a torn one fails its CRC.
    pub(crate) fn write_snapshot(&self, offset: Offset, bytes: &[u8]) -> Result<(), FileError> {
        let path = file_path(&self.directory, offset, FileKind::Snapshot);
        let write = || -> io::Result<()> {
            let file = self.shared.disk.open(&path, Open::Create)?;
            file.set_size(0)?;
            file.write_all_at(bytes, 0)?;
            file.sync()
        };
        self.shared.with_reserve(write).map_err(|error| self.failed("write a snapshot", path.clone(), error))
    }

    pub(crate) fn sync_directory(&self) -> Result<(), FileError> {
        let synced = self.shared.disk.sync_directory(&self.directory);
        synced.map_err(|error| self.failed("sync a directory", self.directory.to_path_buf(), error))
    }
}
