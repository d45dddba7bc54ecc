//! Looks at the files behind the engine's back: the segments are the log's bytes, no more and no less.

use std::io;
use std::path::Path;

use highwater_engine::disk::{Disk, Open};
use highwater_engine::segment::{FileKind, parse_file_name};

use super::model::{Batch, Model};
use super::trial::Verdict;

/// Each segment holds exactly the batches of its offsets. With `is_at_rest` no write is under way and nothing waits, so that the last
/// one ends with the log, too; otherwise it reaches at least as far as is written.
pub(super) fn check_files(
    disk: &dyn Disk,
    directory: &Path,
    model: &Model,
    is_at_rest: bool,
) -> io::Result<Verdict> {
    let mut bases = Vec::new();
    for entry in &disk.list(directory)? {
        if let Some((base, FileKind::Log)) = parse_file_name(&entry.name) {
            bases.push((base.value(), directory.join(&entry.name)));
        }
    }
    for (number, (base, path)) in bases.iter().enumerate() {
        let next = bases.get(number + 1).map(|(next, _)| *next);
        // What lies below the start may have been deleted and not be gone yet, or be in the model no more.
        if next.is_some_and(|next| next <= model.start) {
            continue;
        }
        let file = disk.open(path, Open::Read)?;
        let mut held = vec![0; usize::try_from(file.size()?).unwrap_or(usize::MAX)];
        let count = file.read_at(&mut held, 0)?;
        held.truncate(count);
        let inside = |batch: &&Batch| batch.base >= *base && next.is_none_or(|next| batch.base < next);
        let written = |batch: &&Batch| is_at_rest || batch.end <= model.written;
        let batches = || model.batches.iter().filter(inside).filter(written);
        let expected: Vec<u8> = batches().flat_map(|batch| batch.bytes.iter().copied()).collect();
        // What lies below the start and was never synced may be full of holes, which nobody sees.
        let unseen: usize =
            batches().filter(|batch| batch.end <= model.start).map(|batch| batch.bytes.len()).sum();
        // And a compaction may have left any number of the first of them out.
        let below = batches().filter(|batch| batch.end <= model.start);
        let ends = below.scan(0, |end, batch| {
            *end += batch.bytes.len();
            Some(*end)
        });
        let is_right = |left_out: usize| {
            let (expected, unseen) = (&expected[left_out..], unseen - left_out);
            let is_long_enough =
                if is_at_rest { held.len() == expected.len() } else { held.len() >= expected.len() };
            is_long_enough && held[unseen..expected.len()] == expected[unseen..]
        };
        if !std::iter::once(0).chain(ends).any(is_right) {
            let (have, want) = (held.len(), expected.len());
            return Ok(Err(format!("segment {base} holds {have} bytes that are not its {want}")));
        }
    }
    Ok(Ok(()))
}
