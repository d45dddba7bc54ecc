//! The indexes of a segment in their three states. What is missing or damaged is made again from the log; maps that nobody has used for
//! longest are given up when there are too many.

use std::io;
use std::sync::{Arc, PoisonError};

use super::bound::{Closable, Close, Counted, Mark};
use super::{AtDamage, FileKind, Segment, Walk, WalkError};
use crate::disk::Open;
use crate::index::{ActiveIndex, SealedOffsetIndex, SealedTimeIndex, Span, TimeEntry};
use crate::sync::{Mutex, MutexGuard};
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
        /// The last entry of the time index, once the log has borne it out; see [`SegmentIndex::check_times`].
        borne_out: Option<TimeEntry>,
        /// The two maps count as long as they are there.
        _counted: Counted,
    },
    /// Files that nobody needs at the moment.
    Unopened,
}

/// Where the indexes of a segment are.
#[derive(Debug)]
pub(crate) struct IndexSlot {
    index: Mutex<SegmentIndex>,
    mark: Mark,
}

impl IndexSlot {
    pub(super) fn new(index: SegmentIndex) -> Arc<Self> {
        Arc::new(Self { index: Mutex::new(index), mark: Mark::default() })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SegmentIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn use_it(&self) {
        self.mark.use_it();
    }
}

impl Closable for IndexSlot {
    type Thing = SegmentIndex;

    fn mark(&self) -> &Mark {
        &self.mark
    }

    fn is_held(&self) -> bool {
        false
    }

    fn close(&self) -> Close<SegmentIndex> {
        match self.index.try_lock() {
            Ok(mut index) if matches!(&*index, SegmentIndex::Sealed { .. }) => {
                Close::Closed(std::mem::replace(&mut *index, SegmentIndex::Unopened))
            }
            Ok(_) => Close::Not,
            Err(_) => Close::InUse,
        }
    }
}

impl SegmentIndex {
    /// Maps the files, or makes the indexes again if they are not what they should be.
    pub(super) fn open(&mut self, segment: &Segment) -> io::Result<()> {
        if matches!(self, Self::Unopened) {
            *self = match mapped(segment) {
                Some(sealed) => sealed,
                None => Self::Active(segment.rebuilt_index()?),
            };
            if matches!(self, Self::Sealed { .. }) {
                segment.home.files.indexes.list(&segment.index);
            }
        }
        Ok(())
    }

    /// To be called before times are asked for: makes the indexes again where the log does not bear the time index out. An offset that
    /// is found shows whether it is right; a time that is not found, and an age by which retention deletes, do not.
    pub(super) fn check_times(&mut self, segment: &Segment) -> io::Result<()> {
        let Self::Sealed { offsets, times, borne_out, .. } = self else { return Ok(()) };
        let Some(latest) = times.latest() else { return Ok(()) };
        // It is another one where somebody has cut the file: what is left of a page then is zeros.
        if *borne_out != Some(latest) {
            let floor = offsets.span(latest.last_offset).floor;
            if segment.bears_out(latest, floor.map_or(0, |entry| entry.position))? {
                *borne_out = Some(latest);
            } else {
                *self = Self::Active(segment.rebuilt_index()?);
            }
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
            *self = Self::Active(segment.rebuilt_index()?);
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
    let counted = segment.home.files.indexes.count();
    Some(SegmentIndex::Sealed { offsets, times, borne_out: None, _counted: counted })
}

impl Segment {
    /// Whether a time index that ends with `latest` can be that of this segment: the batch that the entry names has its timestamp, and none
    /// behind it has a later one. Where bytes that are no batch leave it open, it can. `floor` is a position at or before the batch, if the
    /// offset index is right.
    pub(crate) fn bears_out(&self, latest: TimeEntry, floor: u64) -> io::Result<bool> {
        let mut found = self.compare_latest(latest, floor)?;
        if found == Comparison::Open && floor > 0 {
            found = self.compare_latest(latest, 0)?;
        }
        Ok(found != Comparison::Wrong)
    }

    fn compare_latest(&self, latest: TimeEntry, from: u64) -> io::Result<Comparison> {
        let mut walk = Walk::new(self, from, AtDamage::PassOver)?;
        let mut is_named = false;
        loop {
            match walk.next() {
                Ok(Some((_, frame))) if frame.last < latest.last_offset => {}
                Ok(Some((_, frame))) if is_named => {
                    if frame.max_timestamp > Some(latest.timestamp) {
                        return Ok(Comparison::Wrong);
                    }
                }
                Ok(Some((_, frame))) => {
                    is_named =
                        frame.base <= latest.last_offset && frame.max_timestamp == Some(latest.timestamp);
                    if !is_named {
                        return Ok(Comparison::Wrong);
                    }
                }
                Ok(None) => return Ok(if is_named { Comparison::Right } else { Comparison::Wrong }),
                Err(WalkError::Damaged(_)) => return Ok(Comparison::Open),
                Err(WalkError::Io(error)) => return Err(error),
            }
        }
    }
}

/// What the log says to the last entry of a time index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Right,
    Wrong,
    /// Not all of the log could be read.
    Open,
}
