//! What is committed, as far as this replica knows.
//!
//! ```text
//! start <= high <= written        what consumers may read here
//! high <= known_committed         what must never be cut; None: not known, which is not zero
//! ```

use highwater_engine::log::LogFacts;
use highwater_engine::units::Offset;

/// The high watermark and what is known to be committed. Both only rise, except by a loss that is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watermark {
    high: Offset,
    known_committed: Option<Offset>,
    /// What the leader said last. It counts here as far as this log is written.
    heard: Option<Offset>,
    /// This replica leads, and of what is known to be committed it lacks everything from here on.
    lacks_from: Option<Offset>,
}

impl Watermark {
    /// The watermark of a replica that begins with what its checkpoint says.
    pub(super) fn new(known_committed: Option<Offset>) -> Self {
        Self { high: known_committed.unwrap_or(Offset::ZERO), known_committed, heard: None, lacks_from: None }
    }

    pub(super) const fn high(&self) -> Offset {
        self.high
    }

    pub(super) const fn known_committed(&self) -> Option<Offset> {
        self.known_committed
    }

    /// Keeps the high watermark inside the log: a start that was raised takes it along (KAFKA-9491), and a checkpoint may name more than
    /// the log still has.
    pub(super) fn keep_inside(&mut self, log: &LogFacts<'_>) {
        self.high = self.high.min(log.written).max(log.start);
    }

    /// Everything below `to` is committed.
    pub(super) fn raise(&mut self, to: Offset, log: &LogFacts<'_>) {
        self.high = self.high.max(to.min(log.written));
        self.known_committed = Some(self.known_committed.map_or(self.high, |known| known.max(self.high)));
    }

    /// The leader of the present epoch said that everything below `to` is committed.
    pub(super) fn hear(&mut self, to: Offset) {
        self.heard = self.heard.max(Some(to));
    }

    /// Counts what was heard, as far as it is written here.
    pub(super) fn count_heard(&mut self, log: &LogFacts<'_>) {
        if let Some(heard) = self.heard {
            self.raise(heard, log);
        }
    }

    /// Another leadership: what the last leader said of its log says nothing of the next one's.
    pub(super) fn forget_heard(&mut self) {
        (self.heard, self.lacks_from) = (None, None);
    }

    /// A leadership begins without what is known to be committed from here on, and nothing permits to forget it yet.
    pub(super) const fn lack(&mut self, from: Offset) {
        self.lacks_from = Some(from);
    }

    /// Where this leader has put other records in the place of those it lacks, what was known of those says nothing of these.
    pub(super) fn forget_replaced(&mut self, log: &LogFacts<'_>) {
        if let Some(from) = self.lacks_from.take_if(|from| *from < log.accepted) {
            self.lose_from(from);
        }
    }

    /// A recorded loss: nothing at or above `to` counts as committed any more.
    pub(super) fn lose_from(&mut self, to: Offset) {
        self.high = self.high.min(to);
        self.known_committed = self.known_committed.map(|known| known.min(to));
        (self.heard, self.lacks_from) = (None, None);
    }
}
