//! What is known of the bytes of one segment: which of them are no batch, and up to where somebody has looked at every one.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::units::{Offset, OffsetRange};

/// Offsets that are in the log and cannot be read. A part of [`LogFacts`](crate::log::LogFacts), and like those not `#[non_exhaustive]`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DamagedRange {
    /// The base offset of the segment.
    pub segment: Offset,
    /// The offsets. A fetch that begins inside gets an error; one that begins before ends there.
    pub offsets: OffsetRange,
    /// The bytes in the segment's file, from and until.
    pub bytes: (u64, u64),
}

impl fmt::Display for DamagedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, until) = self.bytes;
        write!(f, "damaged: offsets {}, bytes {from}..{until} of segment {}", self.offsets, self.segment)
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Damage {
    is_any: AtomicBool,
    ranges: Mutex<Arc<[DamagedRange]>>,
    /// One more than how many bytes were looked at; 0 if nobody has looked.
    examined: AtomicU64,
}

impl Damage {
    /// The ranges by their place in the file; `None` if there are none.
    pub(super) fn ranges(&self) -> Option<Arc<[DamagedRange]>> {
        let is_any = self.is_any.load(Ordering::Acquire);
        is_any.then(|| Arc::clone(&self.ranges.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    pub(super) fn set(&self, mut ranges: Vec<DamagedRange>) {
        ranges.sort_unstable_by_key(|range| (range.bytes, range.offsets.start()));
        let is_any = !ranges.is_empty();
        *self.ranges.lock().unwrap_or_else(PoisonError::into_inner) = ranges.into();
        self.is_any.store(is_any, Ordering::Release);
    }

    pub(super) fn examined_bytes(&self) -> Option<u64> {
        self.examined.load(Ordering::Acquire).checked_sub(1)
    }

    pub(super) fn set_examined(&self, bytes: Option<u64>) {
        self.examined.store(bytes.map_or(0, |bytes| bytes + 1), Ordering::Release);
    }

    /// The file ends at `size` now.
    pub(super) fn cut(&self, size: u64) {
        self.set_examined(self.examined_bytes().map(|examined| examined.min(size)));
        if let Some(ranges) = self.ranges() {
            self.set(ranges.iter().filter(|range| range.bytes.0 < size).cloned().collect());
        }
    }
}
