//! The exchange: a segment that is written and synced takes the place of those that it was made from.
//!
//! ```text
//! X.cleaned, synced, named ─> X.swap, names certain ─> readers ─> old files away, certain ─> indexes in place, certain ─> log in place
//!  nothing has changed        from here on: the new one                                                             the last name to go
//! ```
//! As long as a `.cleaned` is there recovery removes what was written; when all of it is called `.swap`, it finishes the exchange
//! ([`crate::recovery`]). The names are Kafka's, which does the same with what it finds. Kafka removes and renames with one sync at the end,
//! so that a power loss may leave its old segments beside the new one.

use std::io;
use std::sync::Arc;

use super::output::{CLEANED, Finished, KINDS, SWAP, named};
use crate::checkpoint::note_gaps;
use crate::log::{Closed, FileError, Inner, lock};
use crate::segment::{FileKind, Segment, file_path};
use crate::units::Offset;

/// Whether the files of the old segments were touched when it failed.
pub(super) enum Failed {
    Before(FileError),
    /// The log is closed: what its files are only recovery knows.
    Amid(FileError),
}

/// Puts the new segment in the place of `old`, which are neighbours in the log's view.
pub(super) fn exchange(
    log: &Arc<Inner>,
    new: &Finished,
    old: &[Arc<Segment>],
) -> Result<Arc<Segment>, Failed> {
    let path = file_path(&log.directory, new.base, FileKind::Log);
    let fail = |error| log.failed("exchange segments", path.clone(), error);
    let shown = prepare(log, new).map_err(|error| Failed::Before(fail(error)))?;
    let exchanged = exchange_files(log, new, old, &shown);
    exchanged.map_err(|error| {
        let failed = fail(error);
        log.close(Closed::CutFailed);
        lock(&log.shared.news).failed.push(log.id);
        Failed::Amid(failed)
    })?;
    // Its index is mapped like that of any other from now on.
    let home = log.shared.home(Arc::clone(&log.directory), &log.config());
    let sealed = Arc::new(Segment::sealed(home, new.base, new.size));
    show(log, std::slice::from_ref(&shown), &sealed);
    shown.release_file();
    log.set_damaged(&sealed, Some(new.size), Vec::new());
    let bases: Vec<Offset> = old.iter().map(|old| old.base()).collect();
    log.writer().aborted.exchange(&bases, new.base);
    log.list_unsure(&sealed);
    Ok(sealed)
}

/// What readers have until the new files have their names: open, with its index in memory.
fn prepare(log: &Arc<Inner>, new: &Finished) -> io::Result<Arc<Segment>> {
    let disk = log.shared.disk.as_ref();
    if !log.writer().gaps_noted {
        note_gaps(disk, &log.directory)?;
        disk.sync_directory(&log.directory)?;
        log.writer().gaps_noted = true;
    }
    let home = log.shared.home(Arc::clone(&log.directory), &log.config());
    let shown = Segment::seen(home, new.base, &new.file, new.size, new.index.clone())?;
    shown.keep_file();
    Ok(Arc::new(shown))
}

fn exchange_files(
    log: &Arc<Inner>,
    new: &Finished,
    old: &[Arc<Segment>],
    shown: &Arc<Segment>,
) -> io::Result<()> {
    let (shared, directory) = (&log.shared, &log.directory);
    let disk = shared.disk.as_ref();
    let rename = |kind, from: &str, to: &str| {
        let (from, to) = (named(directory, new.base, kind, from), named(directory, new.base, kind, to));
        shared.with_reserve(|| disk.rename(&from, &to))
    };
    for kind in KINDS {
        rename(kind, CLEANED, SWAP)?;
    }
    disk.sync_directory(directory)?;
    // Who reads the new segments must not have beside them what went with the old ones: records that were aborted, say.
    lock(&log.tail).clear();
    show(log, old, shown);
    for segment in old.iter().filter(|segment| segment.base() != new.base) {
        remove(segment.remove())?;
        remove(disk.remove_file(&segment.path(FileKind::Snapshot)))?;
    }
    // Records that were aborted are gone with the old segments, and it says nothing of the new one.
    remove(disk.remove_file(&file_path(directory, new.base, FileKind::AbortedIndex)))?;
    disk.sync_directory(directory)?;
    for kind in KINDS.into_iter().filter(|kind| *kind != FileKind::Log) {
        rename(kind, SWAP, "")?;
    }
    disk.sync_directory(directory)?;
    rename(FileKind::Log, SWAP, "")?;
    disk.sync_directory(directory)
}

/// From now on readers have `new` in the place of `old`.
fn show(log: &Inner, old: &[Arc<Segment>], new: &Arc<Segment>) {
    let _writer = log.writer();
    let is_old = |there: &Arc<Segment>| old.iter().any(|old| Arc::ptr_eq(old, there));
    let mut segments = Vec::new();
    for segment in &log.view().segments {
        if !is_old(segment) {
            segments.push(Arc::clone(segment));
        } else if segments.last().is_none_or(|last| !Arc::ptr_eq(last, new)) {
            segments.push(Arc::clone(new));
        }
    }
    log.set_segments(segments);
}

fn remove(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
