//! Reads a segment for recovery: shows every batch to the scanner, goes on behind what is none, and builds the indexes on the way.

use std::io;

use super::read_ahead::{IdleHelpers, PIECE_BYTES, with_window};
use crate::batch::{Attributes, BatchHeader, Compression, LegacyMessage, ScanStop, StopReason, scan};
use crate::disk::File;
use crate::index::ActiveIndex;
use crate::recovery::{BadKind, Placed, SegmentContext, SegmentScan, SegmentScanner};
use crate::segment::{FirstBatch, crc_at, find_batch_in, frame_at};
use crate::units::Offset;

/// What reading a segment gave.
#[derive(Debug)]
pub(super) struct ScannedSegment {
    pub(super) scan: SegmentScan,
    /// The indexes, of all batches that are in their place.
    pub(super) index: ActiveIndex,
    /// The first batch that was read.
    pub(super) first: Option<FirstBatch>,
}

/// Where in a segment to begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) base: Offset,
    pub(super) log_bytes: u64,
    pub(super) from: u64,
    pub(super) expected: Offset,
}

/// Is shown a batch: its position, its header, its bytes. A legacy message has the header of a batch of one record.
pub(super) type Seen<'a> = dyn FnMut(u64, &BatchHeader, &[u8]) + 'a;

/// Checks every batch from `place` on, and what is known apart from them. Who is idle reads ahead.
pub(super) fn scan_segment(
    file: &File,
    place: Place,
    context: SegmentContext,
    index: ActiveIndex,
    batch_bytes_max: usize,
    idle: &IdleHelpers,
) -> io::Result<ScannedSegment> {
    scan_segment_seen(file, place, context, index, batch_bytes_max, idle, &mut |_, _, _| {})
}

/// As [`scan_segment`], and shows each batch that is in its place, by what is known when it is met, with its position.
pub(super) fn scan_segment_seen(
    file: &File,
    place: Place,
    context: SegmentContext,
    index: ActiveIndex,
    batch_bytes_max: usize,
    idle: &IdleHelpers,
    seen: &mut Seen<'_>,
) -> io::Result<ScannedSegment> {
    let mut reading = Reading {
        seen,
        log_bytes: place.log_bytes,
        batch_bytes_max,
        scanner: SegmentScanner::new(place.base, place.log_bytes, place.from, place.expected, context),
        index,
        last: None,
        first: None,
    };
    let read_at = |buffer: &mut [u8], position| file.read_at(buffer, position);
    with_window(&read_at, (place.from, place.log_bytes), idle, |window| {
        let mut position = place.from;
        let mut wanted = PIECE_BYTES;
        while position < place.log_bytes {
            window.move_to(position, wanted)?;
            (position, wanted) = match reading.batches(window.bytes(), position) {
                Next::At(next) => (next, PIECE_BYTES),
                Next::Larger { at, bytes } => (at, bytes.max(PIECE_BYTES)),
                Next::BehindBad(bad) => (find_batch_in(file, bad + 1, place.log_bytes)?, PIECE_BYTES),
            };
        }
        io::Result::Ok(())
    })?;
    Ok(reading.finish())
}

/// Looks at headers alone, for their epochs. What is no header ends it: the batches behind it are not needed to know epochs before.
pub(super) fn scan_headers(file: &File, place: Place) -> io::Result<SegmentScan> {
    let mut scanner =
        SegmentScanner::new(place.base, place.log_bytes, 0, place.base, SegmentContext::default());
    let mut position = 0;
    let mut header = [0; 64];
    while position < place.log_bytes {
        let count = file.read_at(&mut header, position)?;
        let bytes = header.get(..count).unwrap_or_default();
        match BatchHeader::parse(bytes) {
            Ok(header) => {
                let _ = scanner.batch(position, &header);
                position += header.size_bytes as u64;
            }
            Err(_) => match frame_at(bytes) {
                Some(legacy) => position += legacy.size as u64,
                None => break,
            },
        }
    }
    Ok(scanner.finish())
}

struct Reading<'a, 'b> {
    seen: &'a mut Seen<'b>,
    log_bytes: u64,
    batch_bytes_max: usize,
    scanner: SegmentScanner,
    index: ActiveIndex,
    /// The last batch that is in its place, unless what follows shows that it is not: not in the index yet.
    last: Option<(u64, BatchHeader)>,
    first: Option<FirstBatch>,
}

enum Next {
    /// The window was used up.
    At(u64),
    /// A batch goes on behind the window.
    Larger { at: u64, bytes: usize },
    /// There is no batch here.
    BehindBad(u64),
}

impl Reading<'_, '_> {
    fn batches(&mut self, window: &[u8], position: u64) -> Next {
        let mut from = 0;
        loop {
            let Some(rest) = window.get(from..) else { return Next::At(position + window.len() as u64) };
            let Some(stop) = self.whole_batches(rest, position + from as u64) else {
                return Next::At(position + window.len() as u64);
            };
            let at = usize::try_from(stop.position - position).unwrap_or(usize::MAX);
            let rest = window.get(at..).unwrap_or_default();
            if let StopReason::Legacy { size_bytes, .. } = stop.reason
                && self.legacy(rest, stop.position)
            {
                from = at + size_bytes;
                continue;
            }
            let reaches_end = position + window.len() as u64 >= self.log_bytes;
            if let Some(bytes) =
                self.may_go_on(stop.reason).filter(|bytes| !reaches_end && *bytes > rest.len())
            {
                return Next::Larger { at: stop.position, bytes };
            }
            self.scanner.bad(stop.position, self.kind(stop));
            return Next::BehindBad(stop.position);
        }
    }

    /// Shows the batches at the beginning of `bytes`; gives where and why there are no more.
    fn whole_batches(&mut self, bytes: &[u8], position: u64) -> Option<ScanStop> {
        for item in scan(bytes, position) {
            match item {
                Ok((at, batch)) => self.found(at, batch.header(), batch.bytes()),
                Err(stop) => return Some(stop),
            }
        }
        None
    }

    /// Shows a legacy message as a batch of one record without epoch or producer; says whether it is whole.
    fn legacy(&mut self, bytes: &[u8], position: u64) -> bool {
        let (Some(frame), Ok(_)) = (frame_at(bytes), LegacyMessage::parse(bytes)) else { return false };
        let header = BatchHeader {
            base_offset: frame.base,
            size_bytes: frame.size,
            leader_epoch: None,
            crc: crc_at(bytes).unwrap_or_default(),
            attributes: Attributes::new(Compression::None),
            last_offset_delta: 0,
            base_timestamp: frame.max_timestamp.unwrap_or_default(),
            max_timestamp: frame.max_timestamp,
            producer_id: None,
            producer_epoch: None,
            base_sequence: None,
            record_count: 1,
        };
        self.found(position, &header, bytes.get(..frame.size).unwrap_or_default());
        true
    }

    fn found(&mut self, position: u64, header: &BatchHeader, bytes: &[u8]) {
        match self.scanner.batch(position, header) {
            Placed::Here => self.note_last(),
            Placed::HereAndNotTheOneBefore => {}
            Placed::Nowhere => return,
        }
        (self.seen)(position, header, bytes);
        self.last = Some((position, *header));
        self.first.get_or_insert(FirstBatch { max_timestamp: header.max_timestamp });
    }

    fn note_last(&mut self) {
        if let Some((position, header)) = self.last.take() {
            self.index.note(header.last_offset(), position, header.size_bytes as u64, header.max_timestamp);
        }
    }

    fn finish(mut self) -> ScannedSegment {
        let last = self.last.take();
        let scan = self.scanner.finish();
        let mut index = self.index;
        if let Some((position, header)) = last.filter(|(_, header)| header.next_offset() == scan.end) {
            index.note(header.last_offset(), position, header.size_bytes as u64, header.max_timestamp);
        }
        ScannedSegment { scan, index, first: self.first }
    }

    /// What it looks like. A batch that is too large to be read is not torn: the file goes on to its end.
    fn kind(&self, stop: ScanStop) -> BadKind {
        if let StopReason::TornBatch { needs, .. } = stop.reason
            && stop.position + needs as u64 <= self.log_bytes
        {
            return BadKind::Corrupt;
        }
        stop.reason.into()
    }

    /// How many bytes tell whether it is the window that ends or the batch.
    fn may_go_on(&self, reason: StopReason) -> Option<usize> {
        match reason {
            StopReason::TornHeader { .. } | StopReason::Zeros { .. } => Some(PIECE_BYTES),
            StopReason::TornBatch { needs, .. } => Some(needs).filter(|needs| *needs <= self.batch_bytes_max),
            StopReason::Length { .. }
            | StopReason::Legacy { .. }
            | StopReason::Magic { .. }
            | StopReason::Crc { .. }
            | StopReason::Nonsense(_) => None,
        }
    }
}
