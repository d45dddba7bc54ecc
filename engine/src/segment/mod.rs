//! One log file with its indexes: active, in which case it grows and its indexes are in the heap, or sealed.
//!
//! A segment refuses to know its neighbours, and what of it is durable.

mod aborted;
mod bound;
mod damage;
mod doubt;
mod files;
mod frame;
mod guess;
mod home;
mod lookup;
mod name;
mod rebuild;
mod search;
mod transactions;
mod walk;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use damage::DamagedRange;
pub use name::{FileKind, file_path, parse_file_name};

pub(crate) use aborted::{AbortedDifference, LongAborted, aborted_difference};
pub(crate) use files::{Exchanged, OpenFiles};
pub(crate) use frame::{Frame, crc_at, frame_at, is_whole};
pub(crate) use home::{FirstBatch, Home, IndexSettings};
pub(crate) use lookup::SegmentIndex;
pub(crate) use search::find_batch_in;
pub(crate) use transactions::{Open as OpenTransactions, Transactions};
pub(crate) use walk::{AtDamage, Walk, WalkError};

use bound::Closable;
use damage::Damage;
use doubt::Doubt;
use files::{Slot, Use};
use lookup::IndexSlot;

use crate::disk::{File, Open};
use crate::index::{ActiveIndex, OffsetEntry, Span, TimeEntry};
use crate::sync::MutexGuard;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::units::{Offset, Timestamp};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Segment {
    base: Offset,
    home: Home,
    file: Arc<Slot>,
    /// Bytes that are written; readers look at no more.
    size: AtomicU64,
    /// Then what became of its file meanwhile is found by whoever reads it; otherwise the next append would go to the wrong place.
    is_sealed: AtomicBool,
    index: Arc<IndexSlot>,
    transactions: transactions::Slot,
    damage: Damage,
    doubt: Doubt,
    /// How many offsets the batch had that was read last.
    batch_offsets: AtomicU64,
}

impl Segment {
    /// A segment that grows, with its open file.
    pub(crate) fn active(
        home: Home,
        base: Offset,
        file: &File,
        size: u64,
        index: ActiveIndex,
    ) -> io::Result<Self> {
        let segment = Self::new(home, base, size, SegmentIndex::Active(index));
        segment.file.file(&segment.home.files, Use::Once, || Ok(Arc::clone(file)))?;
        Ok(segment)
    }

    /// The segment of another process's log that is the newest: it may grow there, and here stays as it was seen.
    pub(crate) fn seen(
        home: Home,
        base: Offset,
        file: &File,
        size: u64,
        index: ActiveIndex,
    ) -> io::Result<Self> {
        let mut segment = Self::active(home, base, file, size, index)?;
        *segment.is_sealed.get_mut() = true;
        Ok(segment)
    }

    /// A segment that grows no more. File and indexes are opened when somebody reads.
    pub(crate) fn sealed(home: Home, base: Offset, size: u64) -> Self {
        let mut segment = Self::new(home, base, size, SegmentIndex::Unopened);
        *segment.is_sealed.get_mut() = true;
        segment
    }

    fn new(home: Home, base: Offset, size: u64, index: SegmentIndex) -> Self {
        Self {
            base,
            home,
            file: Slot::closed(),
            size: AtomicU64::new(size),
            is_sealed: AtomicBool::new(false),
            index: IndexSlot::new(index),
            transactions: transactions::Slot::default(),
            damage: Damage::default(),
            doubt: Doubt::default(),
            batch_offsets: AtomicU64::new(1),
        }
    }

    /// The offset in its name; nothing below it is in the segment.
    pub(crate) const fn base(&self) -> Offset {
        self.base
    }

    /// Bytes that are written.
    pub(crate) fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    pub(crate) fn set_size(&self, size: u64) {
        self.size.store(size, Ordering::Release);
    }

    /// What is known of the transactions in it, for whoever looks on; waits for one who does.
    pub(crate) fn transactions(&self) -> MutexGuard<'_, Option<Transactions>> {
        self.transactions.lock()
    }

    /// The same for one who does not wait; `None` if somebody looks on.
    pub(crate) fn try_transactions(&self) -> Option<MutexGuard<'_, Option<Transactions>>> {
        self.transactions.try_lock()
    }

    /// What is known to be damaged in it, by its place in the file; `None` if nothing is.
    pub(crate) fn damaged(&self) -> Option<Arc<[DamagedRange]>> {
        self.damage.ranges()
    }

    /// Whether this and what lies before was looked at: offsets that are missing there were never there, or are known to be damaged.
    pub(crate) fn is_examined(&self, position: u64) -> bool {
        self.damage.examined_bytes().is_some_and(|examined| position < examined)
    }

    /// Whether all of it was looked at.
    pub(crate) fn is_all_examined(&self) -> bool {
        self.damage.examined_bytes().is_some_and(|examined| examined >= self.size())
    }

    /// This is damaged, and all of it if everything up to `size` was looked at.
    pub(crate) fn set_examined(&self, size: Option<u64>, damaged: Vec<DamagedRange>) {
        self.damage.set(damaged);
        self.damage.set_examined(size);
    }

    /// The first range known to be damaged that has an offset from `from` on and lies before `position`.
    pub(crate) fn damaged_between(&self, from: Offset, position: u64) -> Option<DamagedRange> {
        let ranges = self.damaged()?;
        let is_between = |range: &&DamagedRange| {
            range.offsets.end() > from && range.bytes.0 <= position && !range.offsets.is_empty()
        };
        ranges.iter().find(is_between).cloned()
    }

    /// The path of one of its files.
    pub(crate) fn path(&self, kind: FileKind) -> PathBuf {
        file_path(&self.home.directory, self.base, kind)
    }

    /// Keeps the log file open, which is; until [`Segment::release_file`].
    pub(crate) fn keep_file(&self) {
        self.file.hold(&self.home.files);
    }

    /// The log file, opened if it is not open.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.open_file_for(Use::Once)
    }

    /// The log file, which stays open from now on until [`Segment::release_file`].
    pub(crate) fn held_file(&self) -> io::Result<File> {
        self.open_file_for(Use::Held)
    }

    fn open_file_for(&self, wanted: Use) -> io::Result<File> {
        self.file.file(&self.home.files, wanted, || {
            // A sealed segment is opened for writing too: trimming and syncing it are writes.
            let file = self.home.disk.open(&self.path(FileKind::Log), Open::Write)?;
            if !self.is_sealed.load(Ordering::Acquire) && file.size()? != self.size() {
                return Err(io::Error::other(Exchanged));
            }
            Ok(file)
        })
    }

    /// The log file, if it is open. Touches no disk.
    pub(crate) fn open_file(&self) -> Option<File> {
        self.file.open_file()
    }

    /// Whether the log file is open.
    pub(crate) fn is_file_open(&self) -> bool {
        self.file.is_open()
    }

    /// Whether the log file stays open.
    pub(crate) fn is_file_held(&self) -> bool {
        Closable::is_held(&*self.file)
    }

    /// Keeps the log file open, because something is about to be written to it; `false` if it is closed. Touches no disk. Called under the
    /// lock of the log's writer.
    pub(crate) fn hold_file(&self) -> bool {
        self.file.hold(&self.home.files)
    }

    /// All that was written to the log file is synced: it may be closed. Called where nothing can be written meanwhile.
    pub(crate) fn release_file(&self) {
        self.file.release(&self.home.files);
    }

    /// The segment is sealed, and synced.
    pub(crate) fn set_sealed(&self) {
        self.is_sealed.store(true, Ordering::Release);
        self.release_file();
    }

    fn index(&self) -> MutexGuard<'_, SegmentIndex> {
        self.index.use_it();
        self.index.lock()
    }

    /// The active index takes in a batch that was accepted. Says whether it has no room for another one.
    #[inline]
    pub(crate) fn note(&self, frame: &Frame, position: u64) -> bool {
        let SegmentIndex::Active(index) = &mut *self.index() else { return false };
        index.note(frame.last, position, frame.size as u64, frame.max_timestamp);
        index.is_full()
    }

    /// Whether the index has no room for another batch.
    pub(crate) fn index_is_full(&self) -> bool {
        matches!(&*self.index(), SegmentIndex::Active(index) if index.is_full())
    }

    /// Where to begin to look for an offset: at or before the batch that holds it.
    pub(crate) fn floor(&self, offset: Offset) -> io::Result<u64> {
        Ok(self.floor_entry(offset)?.map_or(0, |entry| entry.position))
    }

    /// The index entry that [`Segment::floor`] goes by: the batch at its position has its last offset, or one of the two is wrong.
    pub(crate) fn floor_entry(&self, offset: Offset) -> io::Result<Option<OffsetEntry>> {
        Ok(self.span(offset)?.floor)
    }

    /// The index entries between which the batch that holds an offset begins.
    pub(crate) fn span(&self, offset: Offset) -> io::Result<Span> {
        let mut index = self.index();
        index.open(self)?;
        let (Span { floor, ceiling }, size) = (index.span(offset), self.size());
        Ok(Span { floor: floor.filter(|entry| entry.position < size), ceiling })
    }

    /// The index files are not what they should be: does without them. Says whether there were any.
    pub(crate) fn distrust_index(&self) -> io::Result<bool> {
        self.index().distrust(self)
    }

    /// The greatest timestamp and the last offset of the first batch that has it.
    pub(crate) fn latest_timestamp(&self) -> io::Result<Option<TimeEntry>> {
        let mut index = self.index();
        index.open(self)?;
        index.check_times(self)?;
        Ok(index.latest())
    }

    /// The offset from which to look for the first record that is not older than `timestamp`. It is that of the entry before the one that
    /// would do, so that no single wrong entry leads past the record.
    pub(crate) fn time_floor(&self, timestamp: Timestamp) -> io::Result<Offset> {
        let mut index = self.index();
        index.open(self)?;
        index.check_times(self)?;
        let before = |entry: TimeEntry| {
            index.time_floor(Timestamp::from_millis(entry.timestamp.millis().checked_sub(1)?))
        };
        Ok(index.time_floor(timestamp).and_then(before).map_or(self.base, |entry| entry.last_offset))
    }

    /// The first batch whose last offset is not below `offset`, and its position; `None` if all lie below. Passes over what is known to be
    /// damaged.
    pub(crate) fn find(&self, offset: Offset) -> Result<Option<(u64, Frame)>, WalkError> {
        match self.floor_entry(offset).map_err(WalkError::Io)? {
            None => self.find_from(offset, 0, None),
            Some(entry) => match self.find_from(offset, entry.position, Some(entry.last_offset)) {
                // An index that points into the middle of a batch, or behind what is looked for, is wrong: it is derived, so do without.
                Err(WalkError::Damaged(_)) => {
                    self.distrust_index().map_err(WalkError::Io)?;
                    self.find_from(offset, 0, None)
                }
                found => found,
            },
        }
    }

    /// As [`Segment::find`], and an error if something between is known to be damaged.
    pub(crate) fn find_unbroken(&self, offset: Offset) -> Result<Option<(u64, Frame)>, WalkError> {
        let found = self.find(offset)?;
        let position = found.map_or(self.size(), |(position, _)| position);
        match self.damaged_between(offset, position) {
            Some(range) => Err(WalkError::Damaged(range.bytes.0)),
            None => Ok(found),
        }
    }

    /// `named` is the last offset of the batch at `position`.
    fn find_from(
        &self,
        offset: Offset,
        position: u64,
        mut named: Option<Offset>,
    ) -> Result<Option<(u64, Frame)>, WalkError> {
        let mut walk = Walk::new(self, position, AtDamage::PassOver).map_err(WalkError::Io)?;
        while let Some((position, frame)) = walk.next()? {
            if named.take().is_some_and(|last| last != frame.last) {
                return Err(WalkError::Damaged(position));
            }
            if frame.last >= offset {
                return Ok(Some((position, frame)));
            }
        }
        Ok(None)
    }

    /// The last batch that begins below `position`, where the batch that holds `offset` begins, or the segment ends.
    pub(crate) fn last_frame_below(&self, offset: Offset, position: u64) -> Result<Option<Frame>, WalkError> {
        let from = match offset.checked_add(-1).filter(|before| *before >= self.base) {
            Some(before) => self.floor(before).map_err(WalkError::Io)?,
            None => 0,
        };
        match self.last_frame_between(from, position) {
            Err(WalkError::Damaged(_)) if from > 0 => self.last_frame_between(0, position),
            found => found,
        }
    }

    /// The CRC field of the last batch, if the segment, which ends at `end`, has one.
    pub(crate) fn last_crc(&self, end: Offset) -> Result<Option<u32>, WalkError> {
        let from = match end.checked_add(-1).filter(|before| *before >= self.base) {
            Some(before) => self.floor(before).map_err(WalkError::Io)?,
            None => 0,
        };
        let mut walk = Walk::new(self, from, AtDamage::PassOver).map_err(WalkError::Io)?;
        let mut crc = None;
        while let Some((position, _)) = walk.next()? {
            crc = walk.crc(position);
        }
        Ok(crc)
    }

    fn last_frame_between(&self, from: u64, position: u64) -> Result<Option<Frame>, WalkError> {
        let mut walk = Walk::new(self, from, AtDamage::PassOver).map_err(WalkError::Io)?;
        let mut last = None;
        while let Some((at, frame)) = walk.next()? {
            if at >= position {
                break;
            }
            last = Some(frame);
        }
        Ok(last)
    }

    /// Writes both index files as they have to be when the segment is closed, synced; from then on they are mapped.
    /// A crash leaves any part of them; recovery makes them again, because the segment is not yet below the recovery point.
    pub(crate) fn write_sealed_indexes(&self) -> io::Result<()> {
        let (offsets, times) = {
            let mut index = self.index();
            index.open(self)?;
            let SegmentIndex::Active(active) = &mut *index else { return Ok(()) };
            active.seal();
            (active.offset_bytes().to_vec(), active.time_bytes().to_vec())
        };
        self.write_index(FileKind::OffsetIndex, &offsets)?;
        self.write_index(FileKind::TimeIndex, &times)?;
        *self.index() = SegmentIndex::Unopened;
        Ok(())
    }

    /// Writes the index files of a segment that goes on growing, for the next process. Gives the CRC of their bytes; `None` if the segment
    /// grows no more.
    pub(crate) fn write_active_indexes(&self) -> io::Result<Option<u32>> {
        let (offsets, times) = match &*self.index() {
            SegmentIndex::Active(active) => {
                let mut closed = active.clone();
                closed.seal();
                (closed.offset_bytes().to_vec(), closed.time_bytes().to_vec())
            }
            SegmentIndex::Unopened | SegmentIndex::Sealed { .. } => return Ok(None),
        };
        self.write_index(FileKind::OffsetIndex, &offsets)?;
        self.write_index(FileKind::TimeIndex, &times)?;
        Ok(Some(index_crc(&offsets, &times)))
    }

    /// The index of a segment that grows, to go on with; `None` if it is in files.
    pub(crate) fn copy_of_active_index(&self) -> Option<ActiveIndex> {
        match &*self.index() {
            SegmentIndex::Active(active) => Some(active.clone()),
            SegmentIndex::Unopened | SegmentIndex::Sealed { .. } => None,
        }
    }

    fn write_index(&self, kind: FileKind, bytes: &[u8]) -> io::Result<()> {
        let file = self.home.disk.open(&self.path(kind), Open::Create)?;
        file.set_size(0)?;
        file.write_all_at(bytes, 0)?;
        file.sync()
    }

    /// Removes all its files. A crash leaves the log, or nothing.
    pub(crate) fn remove(&self) -> io::Result<()> {
        for kind in FileKind::OF_A_SEGMENT {
            match self.home.disk.remove_file(&self.path(kind)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The CRC-32 of both index files of a segment.
pub(crate) fn index_crc(offsets: &[u8], times: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(offsets);
    hasher.update(times);
    hasher.finalize()
}
