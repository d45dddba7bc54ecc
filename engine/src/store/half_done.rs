//! Exchanges of segments that were interrupted: what there is to do about them, and a directory as it will be when that is done, for whoever
//! only looks.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::read_ahead::IdleHelpers;
use super::scan::{Place, scan_segment};
use crate::disk::{Disk, EntryKind, Open, ReadOnlyDisk};
use crate::recovery::{FileFact, Refusal, SegmentContext, Step, names_behind, plan_exchange, swapped_logs};
use crate::segment::{FileKind, IndexSettings, file_path};
use crate::units::Offset;

/// What is to be done before the log is looked at; no step where no exchange was interrupted. The inner error says why it is left alone.
pub(super) fn plan_half_done(
    disk: &dyn Disk,
    directory: &Path,
    batch_bytes_max: usize,
) -> io::Result<Result<Vec<Step>, Refusal>> {
    let entries = disk.list(directory)?;
    let files = entries.into_iter().filter(|entry| entry.kind == EntryKind::File);
    let files: Vec<FileFact> = files.map(|entry| FileFact { name: entry.name, bytes: 0 }).collect();
    let mut ends = BTreeMap::new();
    for base in swapped_logs(&files) {
        ends.insert(base, end_of(disk, directory, base, batch_bytes_max)?);
    }
    Ok(plan_exchange(&files, &ends))
}

/// Behind the last batch of a log that waits for its name, if every byte of it is one of a batch.
fn end_of(
    disk: &dyn Disk,
    directory: &Path,
    base: Offset,
    batch_bytes_max: usize,
) -> io::Result<Option<Offset>> {
    let mut name = file_path(directory, base, FileKind::Log).into_os_string();
    name.push(".swap");
    let file = disk.open(Path::new(&name), Open::Read)?;
    let place = Place { base, log_bytes: file.size()?, from: 0, expected: base };
    let context = SegmentContext::default();
    let index = IndexSettings { interval_bytes: u64::MAX, bytes_max: 0 }.empty(base);
    let scan = scan_segment(&file, place, context, index, batch_bytes_max, &IdleHelpers::default())?.scan;
    Ok((scan.bad.is_empty() && scan.good_bytes == place.log_bytes).then_some(scan.end))
}

/// The directory as it will be when these steps are done. Nothing can be changed through it.
pub(super) fn as_it_will_be(disk: &Arc<dyn Disk>, directory: &Path, steps: &[Step]) -> Arc<dyn Disk> {
    let (gone, renamed) = names_behind(steps);
    Arc::new(ReadOnlyDisk::with_names(Arc::clone(disk), directory, gone, renamed))
}
