//! Reads of a log: the tail from memory, the rest from the page cache, and what is not there by a job.
//!
//! Every batch that is given out was checked, fits behind the one before it or where its index entry says, and has the epoch that the log's
//! history has there. What does not fit, and a gap that nobody has looked into, is *suspect*: a job examines the whole segment, and then it
//! is known what is damaged.

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::inner::{Inner, View};
use super::read::{ColdRead, Read, Records};
use super::shared::lock;
use super::{Cleanup, Closed, ReadError};
use crate::batch::HEADER_BYTES;
use crate::index::OffsetEntry;
use crate::segment::{DamagedRange, FileKind, Frame, Segment, WalkError, frame_at, is_whole};
use crate::state::EpochHistory;
use crate::units::{LeaderEpoch, Offset};

/// Read at most in front of the batch that is wanted, because the index is sparse.
const LEAD_BYTES_MAX: usize = 8 << 10;

/// Where bytes may come from.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// Memory alone.
    PageCache,
    /// The device too; and what is suspect is examined by this.
    Device { examine: &'a dyn Fn(&Arc<Segment>) -> Result<(), ReadError> },
}

/// What a log knows beside its segments, asked when a read has come to files.
pub(crate) trait Known {
    /// What happens to old segments.
    fn cleanup(&self) -> Cleanup;

    /// The leader epoch at an offset, in the history as it is when the batch there has been read.
    fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch>;
}

/// What the log knows at the time of a read.
struct KnownNow<'a> {
    log: &'a Inner,
    epochs: OnceCell<EpochHistory>,
}

impl Known for KnownNow<'_> {
    fn cleanup(&self) -> Cleanup {
        self.log.config().cleanup
    }

    fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        // What is below the ceiling of the read was appended before, and its epoch was in the history before that. Of a batch that lies across
        // the start the rest is known.
        let epochs = self.epochs.get_or_init(|| self.log.writer().epochs.clone());
        epochs.epoch_at(offset.max(self.log.marks.start.get()))
    }
}

/// What one attempt at a file gave.
enum Found {
    Records(Records),
    /// Everything in the segment lies below what is wanted.
    Below,
    /// The batch that is wanted is here and exceeds the bounds of the read.
    TooMuch,
    NotInMemory,
    /// Something at this place does not fit.
    Suspect(u64),
}

impl Inner {
    pub(crate) fn read(&self, asked: &ColdRead, source: Source<'_>) -> Result<Read, ReadError> {
        loop {
            let view = self.view();
            let read = self.read_view(&view, asked, source);
            let read = read.and_then(|read| self.with_aborted(&view, asked, read, source));
            // What was read while the log was cut may be a mixture: it is dropped, and the read begins anew.
            if self.is_told(&read, &view, asked.from) && self.marks.generation() == view.generation {
                return read;
            }
            crate::sync::yield_now();
        }
    }

    fn read_view(&self, view: &View, asked: &ColdRead, source: Source<'_>) -> Result<Read, ReadError> {
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
        let segments = view.segments.get(view.floor(asked.from)..).unwrap_or_default();
        read_segments(segments, asked, ceiling, &KnownNow { log: self, epochs: OnceCell::new() }, source)
    }

    /// Whether what came of a look at files from `from` on is told: not an error of one who met a file that was removed or replaced with
    /// its segment, or of one that is about to be. The start is raised before anything goes.
    pub(super) fn is_told<T>(&self, result: &Result<T, ReadError>, view: &Arc<View>, from: Offset) -> bool {
        let is_there = match result {
            Ok(_) => return true,
            Err(ReadError::Io { .. } | ReadError::Damaged { .. }) => from >= self.marks.start.get(),
            Err(ReadError::OutOfRange { .. } | ReadError::Closed(_)) => true,
        };
        is_there && Arc::ptr_eq(view, &self.view())
    }

    /// A failed write closes a log for appends only; a log without files is closed for reads too.
    fn gone(&self) -> Option<Closed> {
        self.closed().filter(|why| matches!(why, Closed::Deleted | Closed::StoreClosed))
    }
}

/// Reads from the first of these segments that has something at or behind what is asked for.
pub(crate) fn read_segments(
    segments: &[Arc<Segment>],
    asked: &ColdRead,
    ceiling: Offset,
    known: &dyn Known,
    source: Source<'_>,
) -> Result<Read, ReadError> {
    let mut before: Option<&Arc<Segment>> = None;
    for segment in segments {
        if segment.base() >= ceiling {
            break;
        }
        if let Some(before) = before.filter(|_| segment.base() > asked.from) {
            // Between two segments, too, there may be a gap.
            let found = examined(before, source, || gap_behind(before, asked.from, known))?;
            if matches!(found, Found::NotInMemory) {
                return Ok(Read::Cold(*asked));
            }
        }
        match examined(segment, source, || read_segment(segment, asked, ceiling, known, source))? {
            Found::Records(records) => return Ok(Read::Records(records)),
            Found::NotInMemory | Found::Suspect(_) => return Ok(Read::Cold(*asked)),
            Found::Below => {}
            // What follows must not be given in its place.
            Found::TooMuch => return Ok(Read::Empty),
        }
        before = Some(segment);
    }
    Ok(Read::Empty)
}

/// A log that is not compacted has no gaps between its segments.
fn gap_behind(segment: &Segment, from: Offset, log: &dyn Known) -> Result<Found, ReadError> {
    if let Some(range) = segment.damaged_between(from, segment.size()) {
        return Err(known(segment, &range));
    }
    let is_dense = log.cleanup() == Cleanup::Delete;
    Ok(if is_dense && !segment.is_all_examined() { Found::Suspect(segment.size()) } else { Found::Below })
}

/// Reads; if something is suspect, has the segment examined and reads again. What is suspect then stays so, and is an error.
fn examined(
    segment: &Arc<Segment>,
    source: Source<'_>,
    read: impl Fn() -> Result<Found, ReadError>,
) -> Result<Found, ReadError> {
    let found = read()?;
    let Found::Suspect(_) = found else { return Ok(found) };
    let Source::Device { examine } = source else { return Ok(Found::NotInMemory) };
    examine(segment)?;
    let found = read()?;
    let Found::Suspect(position) = found else { return Ok(found) };
    Err(ReadError::Damaged { path: segment.path(FileKind::Log), position, offsets: None })
}

/// Reads from one segment; a read never crosses its end.
fn read_segment(
    segment: &Arc<Segment>,
    asked: &ColdRead,
    ceiling: Offset,
    log: &dyn Known,
    source: Source<'_>,
) -> Result<Found, ReadError> {
    let from = asked.from.max(segment.base());
    if segment.damaged().is_some() {
        return read_found(segment, from, asked, ceiling, log, source);
    }
    let span = segment.span(from).map_err(|error| unreadable(segment, error))?;
    let mut begin = Begin::at_entry(segment, span.floor);
    // The batch begins where the next entry points at the latest.
    let latest = span.ceiling.map_or(segment.size(), |next| next.position);
    let is_far = latest.saturating_sub(begin.position) > LEAD_BYTES_MAX as u64;
    if is_far {
        let Some(behind) = step_over(segment, begin, from, source)? else { return Ok(Found::NotInMemory) };
        begin = behind;
    }
    let lead = if begin.expected == Some(from) {
        0
    } else {
        let lead = latest.saturating_sub(begin.position);
        usize::try_from(lead).map_or(LEAD_BYTES_MAX, |lead| lead.min(LEAD_BYTES_MAX))
    };
    let enough = asked.bytes_max.max(HEADER_BYTES).saturating_add(lead);
    // Where little is wanted, most of what is read would be what lies between it and the entry.
    let is_little = !is_far && asked.bytes_max < LEAD_BYTES_MAX;
    let guess = if is_little { segment.guess_end(from, &span) } else { None };
    let guess = guess.and_then(|end| usize::try_from(end).ok());
    let mut wanted = guess.map_or(enough, |end| enough.min(end.saturating_add(asked.bytes_max)));
    loop {
        let Some(buffer) = fill(segment, begin.position, wanted, source)? else {
            return Ok(Found::NotInMemory);
        };
        return match first_wanted(segment, &buffer, from, begin) {
            First::Here(skip, frame) => {
                segment.note_read(&frame);
                if buffer.has(skip, frame.size, asked.bytes_max) {
                    return Ok(gather(segment, &buffer, skip, &frame, asked, ceiling, log));
                }
                read_on(segment, begin.position + skip as u64, &frame, asked, ceiling, log, source)
            }
            First::Elsewhere if wanted < enough => {
                wanted = enough;
                continue;
            }
            // The index was far off: find it, and read again from there.
            First::Elsewhere => read_found(segment, from, asked, ceiling, log, source),
            First::End => Ok(Found::Below),
            First::Suspect(position) => Ok(Found::Suspect(position)),
        };
    }
}

/// Where to begin to look for a batch, and what is known of the one that lies there.
#[derive(Clone, Copy)]
struct Begin {
    position: u64,
    /// Its last offset, where an index entry has it.
    last: Option<Offset>,
    /// Where it begins, unless there is a gap.
    expected: Option<Offset>,
}

impl Begin {
    fn at_entry(segment: &Segment, entry: Option<OffsetEntry>) -> Self {
        match entry {
            Some(entry) => Self { position: entry.position, last: Some(entry.last_offset), expected: None },
            None => Self { position: 0, last: None, expected: Some(segment.base()) },
        }
    }

    /// Whether this is the batch that is meant to lie here.
    fn has(&self, segment: &Segment, frame: &Frame) -> bool {
        let fits = |expected| fits(segment, self.position, frame, expected);
        self.last.is_none_or(|last| last == frame.last) && self.expected.is_none_or(fits)
    }
}

/// An index entry has the last offset of its batch, so that the batch lies below what is wanted, as a rule. A large one is not read for
/// nothing: its header says where the next begins. Anything odd is left to the one who reads. `None` if the header is not in memory.
fn step_over(
    segment: &Segment,
    begin: Begin,
    from: Offset,
    source: Source<'_>,
) -> Result<Option<Begin>, ReadError> {
    let Some(header) = fill(segment, begin.position, HEADER_BYTES, source)? else { return Ok(None) };
    let Some(frame) = frame_at(&header.bytes) else { return Ok(Some(begin)) };
    let position = begin.position + frame.size as u64;
    let is_below = frame.last < from && position <= segment.size() && begin.has(segment, &frame);
    let behind = Begin { position, last: None, expected: Some(frame.end()) };
    Ok(Some(if is_below { behind } else { begin }))
}

/// Walks to the batch, over what is known to be damaged, and reads from there.
fn read_found(
    segment: &Arc<Segment>,
    from: Offset,
    asked: &ColdRead,
    ceiling: Offset,
    log: &dyn Known,
    source: Source<'_>,
) -> Result<Found, ReadError> {
    let found = match segment.find(from) {
        Ok(found) => found,
        Err(WalkError::Io(error)) => return Err(unreadable(segment, error)),
        Err(WalkError::Damaged(position)) => return Ok(Found::Suspect(position)),
    };
    let position = found.map_or(segment.size(), |(position, _)| position);
    if let Some(range) = segment.damaged_between(from, position) {
        return Err(known(segment, &range));
    }
    let Some((position, frame)) = found else { return Ok(Found::Below) };
    if frame.base > from && !segment.is_examined(position) {
        return Ok(Found::Suspect(position));
    }
    read_on(segment, position, &frame, asked, ceiling, log, source)
}

/// Reads from the batch that is wanted up to the next damage.
fn read_on(
    segment: &Arc<Segment>,
    position: u64,
    frame: &Frame,
    asked: &ColdRead,
    ceiling: Offset,
    log: &dyn Known,
    source: Source<'_>,
) -> Result<Found, ReadError> {
    if frame.size as u64 > segment.size().saturating_sub(position) {
        return Ok(Found::Suspect(position));
    }
    let mut wanted = if asked.at_least_one { asked.bytes_max.max(frame.size) } else { asked.bytes_max };
    if wanted < frame.size {
        return Ok(Found::TooMuch);
    }
    let damaged = segment.damaged();
    let next_damage = damaged.iter().flat_map(|ranges| ranges.iter()).find(|range| range.bytes.0 > position);
    if let Some(range) = next_damage {
        wanted = wanted.min(usize::try_from(range.bytes.0 - position).unwrap_or(usize::MAX));
    }
    let Some(buffer) = fill(segment, position, wanted, source)? else { return Ok(Found::NotInMemory) };
    Ok(gather(segment, &buffer, 0, frame, asked, ceiling, log))
}

enum First {
    /// At this place of the buffer; the batch need not be there in full.
    Here(usize, Frame),
    /// Everything in the buffer lies below, or the next header is not in it; or the index is wrong.
    Elsewhere,
    /// Everything in the segment lies below.
    End,
    /// An offset does not fit.
    Suspect(u64),
}

fn first_wanted(segment: &Segment, buffer: &Filled, from: Offset, begin: Begin) -> First {
    let mut at = 0;
    let mut expected = begin.expected;
    loop {
        let Some(rest) = buffer.bytes.get(at..).filter(|rest| !rest.is_empty()) else {
            return if buffer.reaches_end && at == buffer.len() { First::End } else { First::Elsewhere };
        };
        let Some(frame) = frame_at(rest) else { return First::Elsewhere };
        if at == 0 && begin.last.is_some_and(|last| last != frame.last) {
            return First::Elsewhere;
        }
        let position = buffer.position + at as u64;
        if expected.is_some_and(|expected| !fits(segment, position, &frame, expected)) {
            return First::Suspect(position);
        }
        if frame.last >= from {
            return First::Here(at, frame);
        }
        at += frame.size;
        expected = Some(frame.end());
    }
}

/// Whether the batch at `position` can be the next one behind `expected`. A gap is what compaction left, where somebody has looked.
fn fits(segment: &Segment, position: u64, frame: &Frame, expected: Offset) -> bool {
    frame.base == expected || (frame.base > expected && segment.is_examined(position))
}

/// Takes whole batches, each checked, up to the ceiling, the bound, and the first that does not fit.
fn gather(
    segment: &Segment,
    buffer: &Filled,
    skip: usize,
    first: &Frame,
    asked: &ColdRead,
    ceiling: Offset,
    log: &dyn Known,
) -> Found {
    let mut at = skip;
    let mut end = first.base;
    while let Some(frame) = buffer.bytes.get(at..).and_then(frame_at) {
        let behind = at + frame.size;
        let forced = asked.at_least_one && at == skip;
        if behind - skip > asked.bytes_max && !forced {
            break;
        }
        let Some(bytes) = buffer.bytes.get(at..behind) else { break };
        let position = buffer.position + at as u64;
        if frame.last >= ceiling && (at > skip || is_whole(bytes)) {
            break;
        }
        let has_its_epoch = || {
            let known = log.epoch_at(frame.base);
            known.is_none() || known == frame.epoch || segment.is_examined(position)
        };
        if !is_whole(bytes) || !fits(segment, position, &frame, end) || !has_its_epoch() {
            if at == skip {
                return Found::Suspect(position);
            }
            break;
        }
        at = behind;
        end = frame.end();
    }
    if at == skip {
        return Found::TooMuch;
    }
    let part = buffer.bytes.slice(skip..at);
    let (size, first_epoch) = (part.len(), first.epoch);
    Found::Records(Records {
        parts: vec![part],
        size,
        first: first.base,
        end,
        first_epoch,
        aborted: Vec::new(),
    })
}

/// Bytes of a segment.
struct Filled {
    position: u64,
    bytes: Bytes,
    reaches_end: bool,
}

impl Filled {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the batch behind the first bytes is there, and all of what is wanted with it that there is.
    fn has(&self, skip: usize, batch_bytes: usize, wanted: usize) -> bool {
        let there = self.len().saturating_sub(skip);
        batch_bytes <= there && (self.reaches_end || wanted <= there)
    }
}

/// Reads up to `wanted` bytes; `None` if they are not in memory and the device is not to be asked.
fn fill(
    segment: &Segment,
    position: u64,
    wanted: usize,
    source: Source<'_>,
) -> Result<Option<Filled>, ReadError> {
    let left = usize::try_from(segment.size().saturating_sub(position)).unwrap_or(usize::MAX);
    let length = left.min(wanted);
    let mut bytes = BytesMut::with_capacity(length);
    let file = segment.file().map_err(|error| unreadable(segment, error))?;
    let count = match source {
        Source::PageCache => file.read_cached(&mut bytes, length, position),
        Source::Device { .. } => {
            bytes.resize(length, 0);
            file.read_at(&mut bytes, position).map(Some)
        }
    };
    let Some(count) = count.map_err(|error| unreadable(segment, error))? else { return Ok(None) };
    // A file that somebody has cut does not end where the segment does.
    let reaches_end = left <= wanted && count == left;
    bytes.truncate(count);
    Ok(Some(Filled { position, bytes: bytes.freeze(), reaches_end }))
}

fn unreadable(segment: &Segment, source: io::Error) -> ReadError {
    ReadError::Io { path: segment.path(FileKind::Log), source }
}

fn known(segment: &Segment, range: &DamagedRange) -> ReadError {
    let path = segment.path(FileKind::Log);
    ReadError::Damaged { path, position: range.bytes.0, offsets: Some(range.offsets) }
}

/// What a walk over a segment failed for, as a reader is told it.
pub(crate) fn damaged(segment: &Segment, error: WalkError) -> ReadError {
    match error {
        WalkError::Io(source) => unreadable(segment, source),
        WalkError::Damaged(position) => {
            let known = segment.damaged();
            let ranges = known.iter().flat_map(|ranges| ranges.iter());
            let mut here = ranges.filter(|range| range.bytes.0 <= position && position <= range.bytes.1);
            let offsets = here.next().map(|range| range.offsets);
            ReadError::Damaged { path: segment.path(FileKind::Log), position, offsets }
        }
    }
}
