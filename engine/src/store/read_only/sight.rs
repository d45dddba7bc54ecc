//! A log as it was at one moment, and whether it still is.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use crate::batch::HEADER_BYTES;
use crate::checkpoint::{LEADER_EPOCH_CHECKPOINT, read_epochs};
use crate::disk::{File, Open};
use crate::segment::{
    AtDamage, DamagedRange, FileKind, Home, Segment, Walk, WalkError, file_path, parse_file_name,
};
use crate::state::{EpochHistory, EpochStart};
use crate::units::Offset;

/// See the module's documentation. The segments lie behind one another, and their sizes do not change any more; there is none in a log that
/// is being made.
#[derive(Debug)]
pub(super) struct Sight {
    pub(super) segments: Vec<Arc<Segment>>,
    pub(super) start: Offset,
    pub(super) end: Offset,
    pub(super) epochs: EpochHistory,
    /// What the file of epochs said, whether the batches bore it out or not.
    pub(super) epochs_said: Option<EpochHistory>,
    pub(super) damaged: Vec<DamagedRange>,
    /// Of the last segment.
    pub(super) last: Option<LastBatch>,
}

/// By this the log is known again: the header of its last batch, with the CRC of what follows in it; where no batch is found, what the
/// segment begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastBatch {
    position: u64,
    header: Vec<u8>,
}

/// What of a sight has to be there still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Still {
    /// All of it.
    Whole,
    /// What the oldest segments had may have been deleted.
    ButTheOldest,
}

impl LastBatch {
    /// The last batch of a segment that ends at `end`.
    pub(super) fn of(segment: &Segment, end: Offset) -> io::Result<Self> {
        let from = match end.checked_add(-1).filter(|last| *last >= segment.base()) {
            Some(last) => segment.floor_entry(last)?.map_or(0, |entry| entry.position),
            None => 0,
        };
        let mut walk = Walk::new(segment, from, AtDamage::PassOver)?;
        let mut position = 0;
        loop {
            match walk.next() {
                Ok(Some((at, _))) => position = at,
                Ok(None) | Err(WalkError::Damaged(_)) => break,
                Err(WalkError::Io(error)) => return Err(error),
            }
        }
        let seen = usize::try_from(segment.size() - position).unwrap_or(usize::MAX);
        let file = segment.file()?;
        let header = bytes_at(&file, position, seen.min(HEADER_BYTES))?;
        if file.size()? < segment.size() {
            // It was cut since it was seen. What was found is another batch, perhaps, by which nobody would notice.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Self { position, header })
    }
}

fn bytes_at(file: &File, position: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut header = vec![0; length];
    let count = file.read_at(&mut header, position)?;
    header.truncate(count);
    Ok(header)
}

impl Sight {
    /// Whether the files say so still. `bases` are the segments that are there now, `epochs` what the file of epochs says now. Where nothing
    /// was seen everything of it is there.
    pub(super) fn is_there(
        &self,
        home: &Home,
        bases: &BTreeSet<Offset>,
        epochs: Option<&EpochHistory>,
        still: Still,
    ) -> io::Result<bool> {
        let mut there = self.segments.iter().map(|segment| bases.contains(&segment.base()));
        let is_complete = match still {
            Still::Whole => there.all(|is_there| is_there),
            Still::ButTheOldest => there.skip_while(|is_there| !is_there).all(|is_there| is_there),
        };
        let (Some(last), Some(batch)) = (self.segments.last(), &self.last) else { return Ok(true) };
        let agrees = epochs.is_none_or(|epochs| self.agrees_with(epochs));
        if !is_complete || !bases.contains(&last.base()) || !agrees {
            return Ok(false);
        }
        // By its name, because what is open may have been removed.
        let file = match home.disk.open(&file_path(&home.directory, last.base(), FileKind::Log), Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        Ok(bytes_at(&file, batch.position, batch.header.len())? == batch.header)
    }

    /// Whether a later sight has its last batch, wherever it lies by now: a compaction puts segments together, and cuts nothing.
    pub(super) fn is_kept_in(&self, later: &Self) -> io::Result<bool> {
        let Some(batch) = self.last.as_ref().filter(|batch| batch.header.len() == HEADER_BYTES) else {
            return Ok(false);
        };
        let Some(last) = self.end.checked_add(-1) else { return Ok(false) };
        let Some(segment) = later.segments.get(later.floor(last)) else { return Ok(false) };
        match segment.find(last) {
            Ok(Some((position, _))) => {
                Ok(bytes_at(&segment.file()?, position, HEADER_BYTES)? == batch.header)
            }
            Ok(None) | Err(WalkError::Damaged(_)) => Ok(false),
            Err(WalkError::Io(error)) => Err(error),
        }
    }

    /// Whether no epoch begins below the end that was not seen. What the file said already then is nothing new, though no batch bore it out.
    fn agrees_with(&self, epochs: &EpochHistory) -> bool {
        let said = self.epochs_said.as_ref().map_or(&[][..], EpochHistory::starts);
        let known = |start: &EpochStart| {
            start.start >= self.end
                || self.epochs.epoch_at(start.start).is_none_or(|epoch| epoch == start.epoch)
                || said.contains(start)
        };
        epochs.starts().iter().all(known)
    }

    /// Up to where another sight of the log shows the same, by the epochs of both.
    pub(super) fn common_end(&self, other: &Self) -> Offset {
        let mut shared = other.start.min(self.end);
        for entry in self.epochs.starts() {
            let ends =
                (self.epochs.end_of(entry.epoch, self.end), other.epochs.end_of(entry.epoch, other.end));
            let (Some(mine), Some(theirs)) = ends else { continue };
            // Of epochs that lie below its start the other one knows nothing.
            if mine.end <= shared {
                continue;
            }
            if mine.epoch != theirs.epoch {
                break;
            }
            shared = shared.max(mine.end.min(theirs.end));
            if mine.end != theirs.end {
                break;
            }
        }
        shared
    }

    /// The number of the segment that an offset lies in, or the first one.
    pub(super) fn floor(&self, offset: Offset) -> usize {
        self.segments.partition_point(|segment| segment.base() <= offset).saturating_sub(1)
    }
}

/// The segments that are there now.
pub(super) fn bases_in(home: &Home) -> io::Result<BTreeSet<Offset>> {
    let entries = home.disk.list(&home.directory)?;
    let names = entries.iter().filter_map(|entry| parse_file_name(&entry.name));
    Ok(names.filter(|(_, kind)| *kind == FileKind::Log).map(|(base, _)| base).collect())
}

/// What the file of epochs says now; `None` where it cannot be believed.
pub(super) fn epochs_in(home: &Home) -> io::Result<Option<EpochHistory>> {
    Ok(read_epochs(home.disk.as_ref(), &home.directory.join(LEADER_EPOCH_CHECKPOINT))?.known())
}
