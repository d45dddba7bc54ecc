//! What a log knows of its damage: the list that its owner is told, and what each segment has to know to read beside it.

use std::sync::Arc;

use super::inner::Inner;
use super::shared::lock;
use super::writer::Writer;
use super::{Cleanup, ReadError};
use crate::segment::{DamagedRange, FileKind, Segment};
use crate::units::{Offset, OffsetRange};

impl Inner {
    /// Takes in what is damaged in a segment, as an examination of its first `size` bytes has found it. Says whether that is a change.
    pub(crate) fn set_damaged(
        &self,
        segment: &Arc<Segment>,
        size: Option<u64>,
        found: Vec<DamagedRange>,
    ) -> bool {
        let mut writer = self.writer();
        // It may have been deleted, cut or repaired meanwhile.
        let is_there = self.view().segments.iter().any(|there| Arc::ptr_eq(there, segment));
        if !is_there || size.is_some_and(|size| segment.size() < size) {
            return false;
        }
        let known: Vec<DamagedRange> =
            writer.damaged.extract_if(.., |range| range.segment == segment.base()).collect();
        let missed: Vec<DamagedRange> = found.iter().filter(|range| self.is_missed(range)).cloned().collect();
        let is_news = missed.iter().any(|range| !known.contains(range));
        let is_change = is_news || known.len() != missed.len();
        writer.damaged.extend(missed);
        writer.damaged.sort_unstable_by_key(|range| (range.segment, range.bytes, range.offsets.start()));
        segment.set_examined(size, found);
        drop(writer);
        if is_news {
            lock(&self.shared.news).damaged.push(self.id);
        }
        is_change
    }

    /// What an examination has to compare a segment with: its written size, and the offset at which whatever follows it begins. `None` if
    /// the log has it no more.
    pub(crate) fn bounds_of(&self, segment: &Arc<Segment>) -> Option<(u64, Offset)> {
        // A write that lands raises both under this lock.
        let _writer = self.writer();
        let view = self.view();
        let number = view.segments.iter().position(|there| Arc::ptr_eq(there, segment))?;
        let next = view.segments.get(number + 1).map(|next| next.base());
        Some((segment.size(), next.unwrap_or_else(|| self.marks.written.get())))
    }

    /// The segment with this base.
    pub(crate) fn segment(&self, base: Offset) -> Option<Arc<Segment>> {
        self.view().segments.iter().find(|segment| segment.base() == base).cloned()
    }

    /// Something did not fit that nobody has examined yet: it becomes a job.
    pub(crate) fn note_suspect(&self, error: &ReadError) {
        if let ReadError::Damaged { path, offsets: None, .. } = error {
            let view = self.view();
            let segment = view.segments.iter().find(|segment| segment.path(FileKind::Log) == *path);
            lock(&self.shared.suspect).extend(segment.map(|segment| (self.id, segment.base())));
        }
    }

    /// See [`super::LogFacts::replaced_by_repair`]: whole segments, and of the one that grows what is damaged and all before it.
    pub(super) fn replaced_by_repair(&self, writer: &Writer) -> Vec<OffsetRange> {
        if writer.damaged.is_empty() || writer.config.cleanup == Cleanup::Delete {
            return Vec::new();
        }
        // Bytes without offsets of their own go with their neighbour.
        let end = |range: &DamagedRange| {
            let is_bare = range.offsets.is_empty() && range.offsets.start() == range.segment;
            if is_bare { range.segment.next().unwrap_or(range.segment) } else { range.offsets.end() }
        };
        let damaged_to = writer.damaged.iter().map(end).max().unwrap_or_default();
        let until = damaged_to.max(self.marks.cleaned.get());
        let (view, start) = (self.view(), self.marks.start.get());
        let next_bases = view.segments.iter().skip(1).map(|next| next.base()).chain([damaged_to]);
        let parts = view.segments.iter().zip(next_bases).filter(|(segment, _)| segment.base() < until);
        parts
            .filter_map(|(segment, end)| OffsetRange::new(segment.base().max(start), end))
            .filter(|part| !part.is_empty())
            .collect()
    }

    /// Whether anybody misses what is damaged: what lies below the start is deleted. A range without offsets of its own still has bytes that
    /// are not served.
    pub(crate) fn is_missed(&self, range: &DamagedRange) -> bool {
        let start = self.marks.start.get();
        range.offsets.end() > start || (range.offsets.is_empty() && range.offsets.start() == start)
    }
}
