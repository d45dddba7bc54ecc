//! Makes a segment's index again from its log.
//!
//! An index that lacks a batch has it found by walking, as long as offsets are asked for; a time that is not in it is not found at all. So
//! this goes on behind bytes that are no batch, known or not: below the log's start a power loss may leave them, and nobody is told.

use std::io;
use std::sync::atomic::Ordering;

use super::walk::HEADER_BYTES;
use super::{
    AtDamage, FileKind, Frame, IndexSettings, Segment, SegmentIndex, Walk, WalkError, find_batch_in,
    frame_at, is_whole,
};
use crate::disk::Open;
use crate::index::ActiveIndex;
use crate::units::Offset;

/// Whether the log had a batch wherever one was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    BatchesAlone,
    Damage,
}

impl Segment {
    /// The index of all batches.
    pub(super) fn rebuilt_index(&self) -> io::Result<ActiveIndex> {
        let mut index = self.home.settings.empty(self.base);
        self.note_all(&mut index, 0)?;
        Ok(index)
    }

    /// The segment grows again from `size` on, because what was behind it is cut off: its index forgets everything from `end` on.
    /// The caller cuts the file, which he holds.
    pub(crate) fn reactivate(&self, end: Offset, size: u64) -> io::Result<()> {
        let mut active = {
            let mut index = self.index();
            match std::mem::replace(&mut *index, SegmentIndex::Unopened) {
                SegmentIndex::Active(active) => active,
                SegmentIndex::Unopened | SegmentIndex::Sealed { .. } => self.index_from_files(),
            }
        };
        self.is_sealed.store(false, Ordering::Release);
        self.set_size(size);
        self.transactions.cut(size);
        self.damage.cut(size);
        self.doubt.cut(size);
        let from = active.truncate(end);
        // Either the index was wrong, which is derived, so that it is done without; or the segment is damaged.
        if self.note_all(&mut active, from)? == Met::Damage {
            active = self.rebuilt_index()?;
        }
        *self.index() = SegmentIndex::Active(active);
        Ok(())
    }

    /// Shows an index the batches from `from` on, each when the next one bears it out.
    fn note_all(&self, index: &mut ActiveIndex, from: u64) -> io::Result<Met> {
        let mut note = |(position, frame): (u64, Frame)| {
            index.note(frame.last, position, frame.size as u64, frame.max_timestamp);
        };
        let mut walk = Walk::new(self, from, AtDamage::PassOver)?;
        let (mut met, mut lowest, mut last) = (Met::BatchesAlone, self.base, None::<(u64, Frame)>);
        loop {
            let next = match walk.next() {
                Ok(next) => next,
                Err(WalkError::Io(error)) => return Err(error),
                Err(WalkError::Damaged(position)) => {
                    met = Met::Damage;
                    let behind = match last.take() {
                        // Its header led here, and may be what is wrong.
                        Some((at, frame)) if !self.fits(&walk, (at, frame), lowest, position)? => at + 1,
                        Some(whole) => {
                            lowest = whole.1.end();
                            note(whole);
                            position + 1
                        }
                        None => position + 1,
                    };
                    walk.go_on_at(find_batch_in(&self.file()?, behind, self.size())?, lowest);
                    continue;
                }
            };
            if let Some(whole) = std::mem::replace(&mut last, next) {
                lowest = whole.1.end();
                note(whole);
            }
            if next.is_none() {
                return Ok(met);
            }
        }
    }

    /// Whether a batch in front of damage, which begins at `behind`, is whole, and has not leapt: then a whole one there fits where it begins.
    fn fits(&self, walk: &Walk, last: (u64, Frame), lowest: Offset, behind: u64) -> io::Result<bool> {
        let (position, frame) = last;
        if !is_whole(&walk.batch_bytes(position, frame.size)?) {
            return Ok(false);
        }
        let next = frame_at(&walk.batch_bytes(behind, HEADER_BYTES)?);
        let Some(next) = next.filter(|next| frame.base > lowest && next.base >= lowest) else {
            return Ok(true);
        };
        let is_there = behind + next.size as u64 <= self.size();
        Ok(!is_there || !is_whole(&walk.batch_bytes(behind, next.size)?))
    }

    /// The index that the files hold, to go on with; an empty one if they cannot be believed.
    fn index_from_files(&self) -> ActiveIndex {
        let read = |kind| -> io::Result<Vec<u8>> {
            let file = self.home.disk.open(&self.path(kind), Open::Read)?;
            let mut bytes = vec![0; usize::try_from(file.size()?).unwrap_or_default()];
            let count = file.read_at(&mut bytes, 0)?;
            bytes.truncate(count);
            Ok(bytes)
        };
        let IndexSettings { interval_bytes, bytes_max } = self.home.settings;
        read(FileKind::OffsetIndex)
            .and_then(|offsets| Ok((offsets, read(FileKind::TimeIndex)?)))
            .ok()
            .and_then(|files| {
                ActiveIndex::reopen(self.base, interval_bytes, bytes_max, files, self.size()).ok()
            })
            .map(|(index, _)| index)
            .filter(|index| self.bears_out_index(index).unwrap_or(false))
            .unwrap_or_else(|| self.home.settings.empty(self.base))
    }

    /// Whether the log bears out what an index from files says of times.
    pub(crate) fn bears_out_index(&self, index: &ActiveIndex) -> io::Result<bool> {
        match index.latest() {
            Some(latest) => self.bears_out(latest, index.floor(latest.last_offset)),
            None => Ok(false),
        }
    }
}
