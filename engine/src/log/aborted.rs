//! Sees to it that the indexes of aborted transactions (`.txnindex`) say what the batches say, for the Kafka that is given the directory next.
//!
//! ```text
//! opening: the mark proves the files ──> sure          a marker is appended, a cut, a repair ──> not sure
//!          anything else             ──> not sure      not sure ──> looked through, compared, written anew if it differs ──> sure
//! ```
//! Kafka's own files have no checksum and it makes none again at a clean start: one that is missing, cut or of an earlier time stays so, and its
//! readers of committed records are given what was aborted. A segment that is not sure is looked through by a job, a piece at a time, when it
//! grows no more; the rest is done by the stop. The mark then has the CRC of all of them, so that the next opening has nothing to look through.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::committed::Effort;
use super::inner::{Inner, View};
use super::truncate::{CutError, unread, walk_failed};
use crate::index::decode_aborted;
use crate::segment::{FileKind, Segment, aborted_difference};
use crate::state::Removed;
use crate::units::Offset;

/// What a log knows of its indexes of aborted transactions.
#[derive(Debug, Default)]
pub(crate) struct AbortedIndexes {
    /// The CRC of each that has entries, as it was read or written last.
    files: BTreeMap<Offset, u32>,
    unsure: BTreeMap<Offset, Since>,
}

/// Since when a file may not say what the batches say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// Whoever had the log before may have left it so.
    Opening,
    /// This process has changed the batches.
    Change,
}

impl AbortedIndexes {
    /// What an opening finds: these files have entries. `proof` is what the mark of a clean stop says of them.
    pub(crate) fn found(
        files: BTreeMap<Offset, u32>,
        segments: impl Iterator<Item = Offset>,
        proof: Option<u32>,
    ) -> Self {
        let found = Self { files, unsure: BTreeMap::new() };
        if proof == found.crc() {
            return found;
        }
        Self { unsure: segments.map(|base| (base, Since::Opening)).collect(), ..found }
    }

    /// The CRC of all of them; `None` if one is not sure.
    pub(crate) fn crc(&self) -> Option<u32> {
        let mut hasher = crc32fast::Hasher::new();
        for (base, crc) in &self.files {
            hasher.update(&base.value().to_be_bytes());
            hasher.update(&crc.to_be_bytes());
        }
        self.unsure.is_empty().then(|| hasher.finalize())
    }

    /// The batches of a segment have changed: there is another marker, or less of them.
    pub(crate) fn change(&mut self, base: Offset) {
        self.unsure.insert(base, Since::Change);
    }

    /// The segments behind `last`, which was cut, are gone.
    pub(crate) fn cut(&mut self, last: Offset) {
        self.files.retain(|base, _| *base <= last);
        self.unsure.retain(|base, _| *base <= last);
        if self.files.contains_key(&last) || self.unsure.contains_key(&last) {
            self.change(last);
        }
    }

    /// The segments in front of `first` are gone.
    pub(crate) fn begin_at(&mut self, first: Offset) {
        self.files.retain(|base, _| *base >= first);
        self.unsure.retain(|base, _| *base >= first);
    }

    /// A segment has taken the place of others: if one of those had aborted transactions, some of its may be left.
    pub(crate) fn exchange(&mut self, old: &[Offset], new: Offset) {
        let had = |base: &Offset| self.files.contains_key(base) || self.unsure.contains_key(base);
        let had_any = old.iter().any(had);
        for base in old {
            self.files.remove(base);
            self.unsure.remove(base);
        }
        if had_any {
            self.change(new);
        }
    }

    /// Since when a segment's file is not sure.
    pub(crate) fn unsure(&self, base: Offset) -> Option<Since> {
        self.unsure.get(&base).copied()
    }

    /// The segments whose files are not sure.
    pub(crate) fn all_unsure(&self) -> impl Iterator<Item = Offset> {
        self.unsure.keys().copied()
    }

    fn settle(&mut self, base: Offset, bytes: &[u8]) {
        self.unsure.remove(&base);
        if bytes.is_empty() {
            self.files.remove(&base);
        } else {
            self.files.insert(base, crc32fast::hash(bytes));
        }
    }
}

/// What came of a look at a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Its file says what its batches say.
    Sure {
        /// It did not, and was written anew.
        rewritten: bool,
    },
    /// There is more to be looked through.
    NotYet,
    /// It has damage, which may be a marker: the file stays as it is.
    Damaged,
}

impl Inner {
    /// Looks through a segment to which nothing is appended meanwhile, and has its index say what its batches say. The caller holds
    /// `maintenance`.
    pub(crate) fn settle_aborted(
        &self,
        view: &View,
        number: usize,
        effort: Effort,
    ) -> Result<Settled, CutError> {
        let Some(segment) = view.segments.get(number) else { return Ok(Settled::Damaged) };
        let known = self.look_through(view, number, Offset::MAX, effort);
        let Some(known) = known.map_err(|error| walk_failed(segment, error))? else {
            return Ok(Settled::NotYet);
        };
        if segment.damaged().is_some() {
            return Ok(Settled::Damaged);
        }
        let path = || segment.path(FileKind::AbortedIndex);
        let there = segment.aborted_bytes().map_err(|error| unread(path(), error))?;
        let first = view.segments.first().map_or(segment.base(), |first| first.base());
        let fits = |bytes: &Vec<u8>| {
            decode_aborted(bytes, segment.base())
                .is_ok_and(|said| aborted_difference(&said, known.aborted(), first, Removed::None).is_none())
        };
        let (bytes, rewritten) = if let Some(bytes) = there.filter(fits) {
            (bytes, false)
        } else if self.begins_behind_damage(view, number).map_err(|error| unread(path(), error))? {
            return Ok(Settled::Damaged);
        } else {
            let written = self.shared.with_reserve(|| segment.write_aborted(known.aborted()));
            (written.map_err(|error| self.failed("write an index", path(), error))?, true)
        };
        self.writer().aborted.settle(segment.base(), &bytes);
        Ok(Settled::Sure { rewritten })
    }

    /// Whether what was open in front of a segment was read out of one with damage, which may hide a beginning or an end.
    fn begins_behind_damage(&self, view: &View, number: usize) -> io::Result<bool> {
        for (before, segment) in view.segments.iter().take(number + 1).enumerate().skip(1).rev() {
            if self.snapshot_at(segment.base())?.is_some() {
                return Ok(false);
            }
            if view.segments.get(before - 1).is_some_and(|before| before.damaged().is_some()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A segment was repaired: what was read out of it for those behind it is forgotten, up to one in front of which a snapshot lies.
    pub(crate) fn doubt_aborted_behind(&self, repaired: &Arc<Segment>) {
        let view = self.view();
        for segment in view.segments.iter().filter(|segment| segment.base() > repaired.base()) {
            if matches!(self.snapshot_at(segment.base()), Ok(Some(_))) {
                break;
            }
            *segment.transactions() = None;
            self.writer().aborted.change(segment.base());
            self.list_unsure(segment);
        }
    }

    /// What the stop does: all that this process has changed, and of what it found so no more than `bytes_max` bytes, which it takes off. What
    /// is damaged, or cannot be read, stays as it is.
    pub(crate) fn settle_all_aborted(&self, bytes_max: &mut u64) -> Result<(), CutError> {
        let view = self.view();
        for (number, segment) in view.segments.iter().enumerate() {
            let since = self.writer().aborted.unsure(segment.base());
            let allowed = match since {
                None => continue,
                Some(Since::Change) => true,
                Some(Since::Opening) => segment.size() <= *bytes_max,
            };
            if !allowed {
                continue;
            }
            if since == Some(Since::Opening) {
                *bytes_max -= segment.size();
            }
            match self.settle_aborted(&view, number, Effort::Whole) {
                Ok(_) | Err(CutError::Damaged(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A segment has been finished: if its index is not sure, a job is due.
    pub(crate) fn list_unsure(&self, segment: &Arc<Segment>) {
        let is_unsure = self.writer().aborted.unsure(segment.base()).is_some();
        if is_unsure {
            self.shared.unsure_aborted(self.id, segment.base());
        }
    }
}
