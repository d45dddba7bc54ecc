//! What is committed, as far as this replica knows.
//!
//! ```text
//! start <= high <= written        what consumers may read here
//! high <= known_committed         what must never be cut; None: not known, which is not zero
//! ```

use highwater_engine::log::LogFacts;
use highwater_engine::units::Offset;

/// The high watermark and what is known to be committed. Both only rise, except by a loss that is recorded, or where this log lacks what is
/// known and is about to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Watermark {
    high: Offset,
    known_committed: Option<Offset>,
    /// What the leader said last. It counts here as far as this log is written.
    heard: Option<Offset>,
}

impl Watermark {
    /// The watermark of a replica that begins with what its checkpoint says.
    pub(super) fn new(known_committed: Option<Offset>) -> Self {
        Self { high: known_committed.unwrap_or(Offset::ZERO), known_committed, heard: None }
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
        self.heard = None;
    }

    /// What is known of records that this log lacks. It says nothing of those that are about to be appended there, which may be others.
    pub(super) fn known_beyond(&self, log: &LogFacts<'_>) -> Option<Offset> {
        self.known_committed.filter(|known| *known > log.accepted)
    }

    /// Nothing at or above `to` counts as committed any more: it is lost, or it is not here.
    pub(super) fn lose_from(&mut self, to: Offset) {
        self.high = self.high.min(to);
        self.known_committed = self.known_committed.map(|known| known.min(to));
        self.heard = None;
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{FakeLog, at};
    use super::*;

    #[test]
    fn a_high_watermark_below_the_start_is_the_start_and_one_above_the_end_the_end() {
        let mut log = FakeLog::new(20, &[(0, 0)]);
        log.start = at(8);
        for (known, high) in
            [(None, 8), (Some(3), 8), (Some(8), 8), (Some(12), 12), (Some(20), 20), (Some(90), 20)]
        {
            let mut watermark = Watermark::new(known.map(at));
            watermark.keep_inside(&log.facts());
            assert_eq!(watermark.high(), at(high), "{known:?}");
            assert_eq!(watermark.known_committed(), known.map(at), "what is known stays known");
        }
    }
}
