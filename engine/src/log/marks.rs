//! The rungs of the ladder as atomics: raised under the writer's lock, read without any.

use std::sync::atomic::Ordering;

use crate::sync::atomic::{AtomicI64, AtomicU64};
use crate::units::Offset;

/// An offset that many read and few change.
#[derive(Debug)]
pub(crate) struct Mark(AtomicI64);

impl Mark {
    pub(crate) fn new(offset: Offset) -> Self {
        Self(AtomicI64::new(offset.value()))
    }

    pub(crate) fn get(&self) -> Offset {
        Offset::new(self.0.load(Ordering::Acquire)).unwrap_or_default()
    }

    pub(crate) fn set(&self, offset: Offset) {
        self.0.store(offset.value(), Ordering::Release);
    }

    /// Says whether it rose.
    pub(crate) fn raise(&self, offset: Offset) -> bool {
        self.0.fetch_max(offset.value(), Ordering::AcqRel) < offset.value()
    }

    pub(crate) fn lower(&self, offset: Offset) {
        self.0.fetch_min(offset.value(), Ordering::AcqRel);
    }
}

/// The marks of one log.
#[derive(Debug)]
pub(crate) struct Marks {
    pub(crate) start: Mark,
    pub(crate) accepted: Mark,
    pub(crate) written: Mark,
    pub(crate) durable: Mark,
    /// How far compaction has come, as the checkpoint says.
    pub(crate) cleaned: Mark,
    generation: AtomicU64,
}

impl Marks {
    /// A log that was just opened: everything in it is written, and durable up to its recovery point.
    pub(crate) fn opened(start: Offset, end: Offset, recovery_point: Offset) -> Self {
        Self {
            start: Mark::new(start),
            accepted: Mark::new(end),
            written: Mark::new(end),
            durable: Mark::new(recovery_point.min(end)),
            cleaned: Mark::new(Offset::ZERO),
            generation: AtomicU64::new(0),
        }
    }

    /// Counts truncations.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Everything at and above `end` goes. The generation changes first, so that a reader that sees an old mark drops what it read.
    pub(crate) fn cut(&self, end: Offset) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.accepted.set(end);
        self.written.set(end);
        self.durable.lower(end);
        self.cleaned.lower(end);
        self.start.lower(end);
    }
}
