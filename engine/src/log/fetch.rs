//! Reads of a log: the tail from memory, the rest from the page cache, and what is not there by a job.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::inner::{Inner, View};
use super::read::{ColdRead, Read, Records};
use super::shared::lock;
use super::{Closed, ReadError};
use crate::batch::{BatchView, LegacyMessage, PREFIX_BYTES};
use crate::segment::{FileKind, Frame, Segment, WalkError, frame_at};
use crate::units::Offset;

/// Read in front of the batch that is wanted, because the index is sparse.
const LEAD_BYTES: u64 = 8 << 10;

/// Where bytes may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Memory alone.
    PageCache,
    /// The device too.
    Device,
}

/// What one attempt at a file gave.
enum Found {
    Records(Records),
    /// Everything in the segment lies below what is wanted.
    Below,
    /// The batch that is wanted is here and exceeds the bounds of the read.
    TooMuch,
    NotInMemory,
}

impl Inner {
    pub(crate) fn read(&self, asked: &ColdRead, source: Source) -> Result<Read, ReadError> {
        loop {
            let view = self.view();
            let read = self.read_view(&view, asked, source);
            // What was read while the log was cut may be a mixture: it is dropped, and the read begins anew.
            if self.marks.generation() == view.generation {
                return read;
            }
            std::thread::yield_now();
        }
    }

    fn read_view(&self, view: &View, asked: &ColdRead, source: Source) -> Result<Read, ReadError> {
        let (start, end) = (self.marks.start.get(), self.marks.accepted.get());
        if asked.from < start || asked.from > end {
            return match self.gone() {
                Some(why) => Err(why.into()),
                None => Err(ReadError::OutOfRange { from: asked.from, start, end }),
            };
        }
        let ceiling = asked.ceiling.min(self.marks.written.get());
        if asked.from >= ceiling {
            return Ok(Read::Empty);
        }
        let from_tail = lock(&self.tail).read(asked.from, ceiling, asked.bytes_max, asked.at_least_one);
        if let Ok(records) = from_tail {
            return Ok(records.map_or(Read::Empty, Read::Records));
        }
        if let Some(why) = self.gone() {
            return Err(why.into());
        }
        for segment in view.segments.iter().skip(view.floor(asked.from)) {
            if segment.base() >= ceiling {
                break;
            }
            match read_segment(segment, asked, ceiling, source)? {
                Found::Records(records) => return Ok(Read::Records(records)),
                Found::NotInMemory => return Ok(Read::Cold(*asked)),
                Found::Below => {}
                // What follows must not be given in its place.
                Found::TooMuch => return Ok(Read::Empty),
            }
        }
        Ok(Read::Empty)
    }

    /// A failed write closes a log for appends only; a log without files is closed for reads too.
    fn gone(&self) -> Option<Closed> {
        self.closed().filter(|why| matches!(why, Closed::Deleted | Closed::StoreClosed))
    }
}

/// Reads from one segment; a read never crosses its end.
fn read_segment(
    segment: &Arc<Segment>,
    asked: &ColdRead,
    ceiling: Offset,
    source: Source,
) -> Result<Found, ReadError> {
    let from = asked.from.max(segment.base());
    let at = segment.floor(from).map_err(|error| unreadable(segment, error))?;
    let wanted = usize::try_from(LEAD_BYTES).unwrap_or_default().saturating_add(asked.bytes_max);
    let Some(buffer) = fill(segment, at, wanted, source)? else { return Ok(Found::NotInMemory) };
    match first_wanted(&buffer, from) {
        First::Here(skip, frame) if skip + frame.size <= buffer.len() => {
            gather(segment, at, &buffer, skip, &frame, asked, ceiling)
        }
        First::BehindBuffer | First::Here(..) => {
            // The index was far off, or the batch is larger than the read: find it, and read again from there.
            let found = segment.find(from).map_err(|error| damaged(segment, from, error))?;
            let Some((position, frame)) = found else { return Ok(Found::Below) };
            let wanted = if asked.at_least_one { asked.bytes_max.max(frame.size) } else { asked.bytes_max };
            if wanted < frame.size {
                return Ok(Found::TooMuch);
            }
            let Some(buffer) = fill(segment, position, wanted, source)? else {
                return Ok(Found::NotInMemory);
            };
            gather(segment, position, &buffer, 0, &frame, asked, ceiling)
        }
        First::End => Ok(Found::Below),
    }
}

enum First {
    /// At this place of the buffer; the batch need not be there in full.
    Here(usize, Frame),
    /// Everything in the buffer lies below, or the next header is not in it.
    BehindBuffer,
    /// Everything in the segment lies below.
    End,
}

fn first_wanted(buffer: &Filled, from: Offset) -> First {
    let mut at = 0;
    loop {
        let Some(rest) = buffer.bytes.get(at..).filter(|rest| !rest.is_empty()) else {
            return if buffer.reaches_end && at == buffer.len() { First::End } else { First::BehindBuffer };
        };
        match frame_at(rest) {
            Some(frame) if frame.last >= from => return First::Here(at, frame),
            Some(frame) => at += frame.size,
            None => return First::BehindBuffer,
        }
    }
}

/// Takes whole batches, each with its CRC checked, up to the ceiling and the bound.
fn gather(
    segment: &Segment,
    position: u64,
    buffer: &Filled,
    skip: usize,
    first: &Frame,
    asked: &ColdRead,
    ceiling: Offset,
) -> Result<Found, ReadError> {
    let mut at = skip;
    let mut end = first.base;
    while let Some(frame) = buffer.bytes.get(at..).and_then(frame_at) {
        let behind = at + frame.size;
        let forced = asked.at_least_one && at == skip;
        if frame.last >= ceiling || (behind - skip > asked.bytes_max && !forced) {
            break;
        }
        let Some(bytes) = buffer.bytes.get(at..behind) else { break };
        if !is_whole(bytes) {
            let offset = frame.base.max(segment.base());
            return Err(damaged(segment, offset, WalkError::Damaged(position + at as u64)));
        }
        at = behind;
        end = frame.end();
    }
    if at == skip {
        return Ok(Found::TooMuch);
    }
    let part = buffer.bytes.slice(skip..at);
    let (size, first_epoch) = (part.len(), first.epoch);
    Ok(Found::Records(Records { parts: vec![part], size, first: first.base, end, first_epoch }))
}

/// Whether the batch, or the message of a legacy format, is as it was written.
fn is_whole(batch: &[u8]) -> bool {
    match batch.get(PREFIX_BYTES - 1) {
        Some(0 | 1) => LegacyMessage::parse(batch).is_ok(),
        Some(_) | None => BatchView::parse(batch).is_ok(),
    }
}

/// Bytes of a segment.
struct Filled {
    bytes: Bytes,
    reaches_end: bool,
}

impl Filled {
    fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// Reads up to `wanted` bytes; `None` if they are not in memory and the device is not to be asked.
fn fill(
    segment: &Segment,
    position: u64,
    wanted: usize,
    source: Source,
) -> Result<Option<Filled>, ReadError> {
    let left = usize::try_from(segment.size().saturating_sub(position)).unwrap_or(usize::MAX);
    let mut bytes = BytesMut::zeroed(left.min(wanted));
    let file = segment.file().map_err(|error| unreadable(segment, error))?;
    let count = match source {
        Source::PageCache => file.read_cached(&mut bytes, position),
        Source::Device => file.read_at(&mut bytes, position).map(Some),
    };
    let Some(count) = count.map_err(|error| unreadable(segment, error))? else { return Ok(None) };
    bytes.truncate(count);
    Ok(Some(Filled { bytes: bytes.freeze(), reaches_end: left <= wanted }))
}

fn unreadable(segment: &Segment, source: io::Error) -> ReadError {
    ReadError::Io { path: segment.path(FileKind::Log), source }
}

pub(crate) fn damaged(segment: &Segment, offset: Offset, error: WalkError) -> ReadError {
    match error {
        WalkError::Io(source) => unreadable(segment, source),
        WalkError::Damaged(position) => {
            ReadError::Damaged { path: segment.path(FileKind::Log), position, offset }
        }
    }
}
