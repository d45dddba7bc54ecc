//! Makes the state of producers again: the newest snapshot that is left, and the batches behind it.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::inner::Inner;
use super::noting::transaction_marker;
use super::truncate::{CutError, unread, walk_failed};
use super::windows::recall_windows;
use crate::batch::BatchView;
use crate::disk::{Disk, Open, is_bad_medium};
use crate::segment::{
    AtDamage, FileKind, Segment, Walk, WalkError, file_path, find_batch_in, frame_at, parse_file_name,
};
use crate::state::{ProducerBatch, Producers};
use crate::units::{Monotonic, Offset, Timestamp};

/// What came of it.
#[derive(Debug)]
pub(crate) struct Rebuilt {
    pub(crate) producers: Producers,
    /// Segments with bytes that are no batch.
    pub(crate) damaged: Vec<Arc<Segment>>,
}

/// The state at `end`. Reads the log's directory and the batches behind the snapshot that it finds.
///
/// Behind damage nothing is known of producers but what the next segments say: what an earlier batch said may be out of date.
pub(crate) fn rebuild_producers(log: &Inner, end: Offset, now: Monotonic) -> Result<Rebuilt, CutError> {
    let (mut producers, from) = newest_snapshot(log, end, now)?;
    let mut damaged = recall_windows(log, &mut producers, from, now)?;
    let view = log.view();
    for (number, segment) in view.segments.iter().enumerate() {
        let next_base = view.segments.get(number + 1).map(|next| next.base());
        if next_base.is_some_and(|next| next <= from) || segment.base() >= end {
            continue;
        }
        let mut replayed = replay(log, &mut producers, segment, from..end, now);
        while let Err(WalkError::Damaged(position)) = replayed {
            damaged.push(Arc::clone(segment));
            let behind = below_start(log, segment, position)
                .map_err(|error| walk_failed(segment, WalkError::Io(error)))?;
            let Some((position, base)) = behind else {
                producers = Producers::new(log.shared.limits.producers);
                let until = next_base.unwrap_or(end);
                if until > log.marks.start.get() {
                    producers.note_lost(until);
                }
                break;
            };
            if base > from {
                producers = Producers::new(log.shared.limits.producers);
            }
            replayed = replay_at(log, &mut producers, segment, position, from..end, now);
        }
        if let Err(error @ WalkError::Io(_)) = replayed {
            return Err(walk_failed(segment, error));
        }
    }
    Ok(Rebuilt { producers, damaged })
}

/// The first whole batch behind a place where there is none, and its offset, if nobody misses what was between: all of it lies below the
/// log's start, where a power loss may leave holes.
fn below_start(log: &Inner, segment: &Segment, position: u64) -> io::Result<Option<(u64, Offset)>> {
    let start = log.marks.start.get();
    if segment.base() >= start {
        return Ok(None);
    }
    let file = segment.file()?;
    let position = find_batch_in(&file, position + 1, segment.size())?;
    let mut header = [0; 64];
    let count = file.read_at(&mut header, position)?;
    let frame = header.get(..count).and_then(frame_at);
    Ok(frame.filter(|frame| frame.base <= start).map(|frame| (position, frame.base)))
}

fn newest_snapshot(log: &Inner, end: Offset, now: Monotonic) -> Result<(Producers, Offset), CutError> {
    let disk = &log.shared.disk;
    let mut offsets: Vec<Offset> = disk
        .list(&log.directory)
        .map_err(|error| unread(log.directory.to_path_buf(), error))?
        .iter()
        .filter_map(|entry| parse_file_name(&entry.name))
        .filter_map(|(offset, kind)| (kind == FileKind::Snapshot && offset <= end).then_some(offset))
        .collect();
    offsets.sort_unstable();
    let limits = log.shared.limits.producers;
    while let Some(offset) = offsets.pop() {
        let path = file_path(&log.directory, offset, FileKind::Snapshot);
        match read_snapshot(disk.as_ref(), &path) {
            Ok(bytes) => {
                if let Ok(producers) = Producers::decode_snapshot(&bytes, limits, now) {
                    return Ok((producers, offset));
                }
                // It says nothing to anybody, and goes, as a Kafka removes it; one that stays is passed over again.
                let _stays = disk.remove_file(&path);
            }
            Err(error) if is_bad_medium(&error) => {}
            Err(error) => return Err(unread(path, error)),
        }
        // A damaged one is passed over: an older one and more of the log say the same.
    }
    Ok((Producers::new(limits), Offset::ZERO))
}

pub(super) fn read_snapshot(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Open::Read)?;
    let mut bytes = vec![0; usize::try_from(file.size()?).unwrap_or_default()];
    let count = file.read_at(&mut bytes, 0)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// Takes in the batches of a segment that lie in `from..end`.
pub(super) fn replay(
    log: &Inner,
    producers: &mut Producers,
    segment: &Arc<Segment>,
    offsets: Range<Offset>,
    now: Monotonic,
) -> Result<(), WalkError> {
    let position = segment.find_unbroken(offsets.start.max(segment.base()))?;
    let Some((position, _)) = position else { return Ok(()) };
    replay_at(log, producers, segment, position, offsets, now)
}

/// As [`replay`], from the batch at `position` on.
fn replay_at(
    log: &Inner,
    producers: &mut Producers,
    segment: &Arc<Segment>,
    position: u64,
    offsets: Range<Offset>,
    now: Monotonic,
) -> Result<(), WalkError> {
    let start = log.marks.start.get();
    let mut walk = Walk::new(segment, position, AtDamage::Stop).map_err(WalkError::Io)?;
    while let Some((position, frame)) = walk.next()? {
        if frame.base >= offsets.end {
            break;
        }
        if frame.last < offsets.start {
            continue;
        }
        let Some(header) = walk.header(position) else { continue };
        if frame.base < start {
            // Nobody else has looked: what a power loss leaves there may begin like a batch, and its producer be zeros.
            let bytes = walk.batch_bytes(position, frame.size).map_err(WalkError::Io)?;
            if BatchView::parse(&bytes).is_err() {
                return Err(WalkError::Damaged(position));
            }
        }
        let timestamp = header.max_timestamp.unwrap_or(Timestamp::from_millis(-1));
        if let Some(batch) = ProducerBatch::from_header(&header) {
            producers.note(&batch, header.offsets(), timestamp, now);
        } else if header.attributes.is_control() {
            let bytes = walk.batch_bytes(position, frame.size).map_err(WalkError::Io)?;
            if let Some(marker) = transaction_marker(&header, &bytes) {
                producers.note_marker(&marker, header.base_offset, timestamp, now);
            }
        }
    }
    Ok(())
}
