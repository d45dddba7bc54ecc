//! The indexes of a segment in their three states. What is missing or damaged is made again from the log.

use std::io;

use super::{AtDamage, FileKind, Segment, Walk, WalkError};
use crate::disk::Open;
use crate::index::{ActiveIndex, SealedOffsetIndex, SealedTimeIndex, Span, TimeEntry};
use crate::units::{Offset, Timestamp};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) enum SegmentIndex {
    /// In the heap: the segment grows, or its files were damaged.
    Active(ActiveIndex),
    /// Files, mapped.
    Sealed {
        /// The offset index.
        offsets: SealedOffsetIndex,
        /// The time index.
        times: SealedTimeIndex,
    },
    /// Files that nobody has needed yet.
    Unopened,
}

impl SegmentIndex {
    /// Maps the files, or makes the indexes again if they are not what they should be.
    pub(super) fn open(&mut self, segment: &Segment) -> io::Result<()> {
        if matches!(self, Self::Unopened) {
            *self = match mapped(segment) {
                Some(sealed) => sealed,
                None => Self::Active(rebuilt(segment)?),
            };
        }
        Ok(())
    }

    pub(super) fn span(&self, offset: Offset) -> Span {
        match self {
            Self::Active(index) => index.span(offset),
            Self::Sealed { offsets, .. } => offsets.span(offset),
            Self::Unopened => Span::default(),
        }
    }

    /// Makes the indexes again if they are files; says whether they were.
    pub(super) fn distrust(&mut self, segment: &Segment) -> io::Result<bool> {
        let are_files = matches!(self, Self::Sealed { .. });
        if are_files {
            *self = Self::Active(rebuilt(segment)?);
        }
        Ok(are_files)
    }

    pub(super) fn latest(&self) -> Option<TimeEntry> {
        match self {
            Self::Active(index) => index.latest(),
            Self::Sealed { times, .. } => times.latest(),
            Self::Unopened => None,
        }
    }

    pub(super) fn time_floor(&self, timestamp: Timestamp) -> Option<TimeEntry> {
        match self {
            Self::Active(index) => index.time_floor(timestamp),
            Self::Sealed { times, .. } => times.floor(timestamp),
            Self::Unopened => None,
        }
    }
}

fn mapped(segment: &Segment) -> Option<SegmentIndex> {
    let map = |kind| {
        let file = segment.home.disk.open(&segment.path(kind), Open::Read).ok()?;
        file.map(usize::try_from(file.size().ok()?).ok()?).ok()
    };
    let offsets = SealedOffsetIndex::open(segment.base, map(FileKind::OffsetIndex)?, segment.size()).ok()?;
    let times = SealedTimeIndex::open(segment.base, map(FileKind::TimeIndex)?).ok()?;
    // A time index without entries says nothing of the segment's timestamps, so the log is asked.
    if times.is_empty() && segment.size() > 0 {
        return None;
    }
    Some(SegmentIndex::Sealed { offsets, times })
}

fn rebuilt(segment: &Segment) -> io::Result<ActiveIndex> {
    let mut index = segment.home.settings.empty(segment.base);
    let mut walk = Walk::new(segment, 0, AtDamage::PassOver)?;
    loop {
        match walk.next() {
            Ok(Some((position, frame))) => {
                index.note(frame.last, position, frame.size as u64, frame.max_timestamp);
            }
            // What lies behind damage is found by walking, and then the damage is what the reader is told.
            Ok(None) | Err(WalkError::Damaged(_)) => return Ok(index),
            Err(WalkError::Io(error)) => return Err(error),
        }
    }
}
