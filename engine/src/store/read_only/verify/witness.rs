//! Sees the batches of a log pass by, once, from the first to the last, and compares with them what was derived from them: indexes, snapshots
//! of producers, aborted transactions.
//!
//! Behind bytes that are no batch nothing is known of producers any more; what is said of them from there on is not compared.

use std::cell::Cell;
use std::io;
use std::vec;

use super::finding::{Fault, Finding};
use super::indexes::{OffsetCheck, TimeCheck};
use crate::batch::BatchHeader;
use crate::disk::Open;
use crate::index::{AbortedTransaction, decode_aborted};
use crate::log::transaction_marker;
use crate::segment::{AbortedDifference, FileKind, Frame, Home, aborted_difference, file_path};
use crate::state::{MarkerKind, ProducerBatch, Producers, ProducersConfig, Removed};
use crate::units::{Monotonic, Offset, Timestamp};

/// How many bytes pass before somebody is told.
const TELL_BYTES: u64 = 4 << 20;

/// What is compared in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Derived {
    /// Its index files. Those of a segment whose deletion has begun may be gone; and the index of aborted transactions has to be there if there
    /// are any, where whoever wrote the log leaves one.
    Compared { indexes_needed: bool, aborted_needed: bool },
    /// Nobody believes its files: they are written when it is sealed, and made again until then.
    Unsettled,
}

/// Something that compaction may have caused, or not.
struct Told {
    finding: Finding,
    /// If the log is compacted, it is no fault.
    is_excused_by_compaction: bool,
}

/// The segment that passes by.
struct Passing {
    base: Offset,
    /// Behind the last batch.
    behind: u64,
    derived: Derived,
    offsets: Option<OffsetCheck>,
    times: Option<TimeCheck>,
    aborted: Vec<AbortedTransaction>,
}

/// See the module's documentation.
pub(super) struct Witness<'a> {
    home: &'a Home,
    /// The base of the first segment.
    first: Offset,
    producers: Producers,
    /// Those that are still to come, ascending.
    snapshots: vec::IntoIter<Offset>,
    next_snapshot: Option<Offset>,
    is_certain: bool,
    /// A batch without records passed: compaction has removed them, or somebody has given them up.
    has_met_removal: bool,
    passing: Option<Passing>,
    told: Vec<Told>,
    /// Snapshots that cannot be read, behind which none has come yet that can: a crash leaves such ones, and a later one says all that they
    /// would.
    torn: Vec<Finding>,
    failed: Option<io::Error>,
    watch: &'a dyn Fn(u64),
    untold: Cell<u64>,
}

impl<'a> Witness<'a> {
    /// `snapshots` ascend.
    pub(super) fn new(home: &'a Home, first: Offset, snapshots: Vec<Offset>, watch: &'a dyn Fn(u64)) -> Self {
        let mut snapshots = snapshots.into_iter();
        Self {
            home,
            first,
            producers: Producers::new(ProducersConfig::default()),
            next_snapshot: snapshots.next(),
            snapshots,
            is_certain: true,
            has_met_removal: false,
            passing: None,
            told: Vec::new(),
            torn: Vec::new(),
            failed: None,
            watch,
            untold: Cell::new(0),
        }
    }

    pub(super) fn begin(&mut self, base: Offset, log_bytes: u64, derived: Derived) -> io::Result<()> {
        let (mut offsets, mut times) = (None, None);
        if derived != Derived::Unsettled {
            offsets = self
                .file(base, FileKind::OffsetIndex)?
                .map(|bytes| OffsetCheck::new(&bytes, base, log_bytes));
            times = self.file(base, FileKind::TimeIndex)?.map(|bytes| TimeCheck::new(&bytes, base));
            for (kind, is_there) in
                [(FileKind::OffsetIndex, offsets.is_some()), (FileKind::TimeIndex, times.is_some())]
            {
                let is_needed = matches!(derived, Derived::Compared { indexes_needed: true, .. });
                if !is_there && is_needed && log_bytes > 0 {
                    self.tell(Finding::new(file_path(&self.home.directory, base, kind), Fault::NoFile));
                }
            }
        }
        self.passing = Some(Passing { base, behind: 0, derived, offsets, times, aborted: Vec::new() });
        Ok(())
    }

    pub(super) fn batch(&mut self, position: u64, header: &BatchHeader, bytes: &[u8]) {
        let frame = Frame::of(header);
        self.is_certain &= self.passing.as_ref().is_some_and(|passing| passing.behind == position);
        self.compare_snapshots_below(frame.base);
        self.has_met_removal |= header.record_count == 0;
        let Some(passing) = &mut self.passing else { return };
        passing.behind = position + frame.size as u64;
        if let Some(offsets) = &mut passing.offsets {
            offsets.batch(position, &frame);
        }
        if let Some(times) = &mut passing.times {
            times.batch(&frame);
        }
        let timestamp = header.max_timestamp.unwrap_or(Timestamp::from_millis(-1));
        if let Some(batch) = ProducerBatch::from_header(header) {
            self.producers.note(&batch, header.offsets(), timestamp, Monotonic::default());
        } else if let Some(marker) = transaction_marker(header, bytes) {
            let closed =
                self.producers.note_marker(&marker, header.base_offset, timestamp, Monotonic::default());
            if let Some(closed) = closed.filter(|_| marker.kind == MarkerKind::Abort) {
                passing.aborted.push(AbortedTransaction {
                    producer: marker.producer,
                    first: closed.first,
                    marker: closed.marker,
                    last_stable: closed.last_stable,
                });
            }
        }
        self.pass(frame.size as u64);
    }

    /// The segment has passed. Where bytes of it are no batch, its indexes lead there rightly, and nothing is told of them.
    pub(super) fn end(&mut self, is_whole: bool) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let Some(passing) = self.passing.take() else { return Ok(()) };
        self.is_certain &= is_whole;
        let Passing { base, derived, offsets, times, aborted, .. } = passing;
        if is_whole {
            let faults = [
                (FileKind::OffsetIndex, offsets.and_then(OffsetCheck::finish)),
                (FileKind::TimeIndex, times.and_then(TimeCheck::finish)),
            ];
            for (kind, fault) in faults {
                if let Some(fault) = fault {
                    self.tell(Finding::new(file_path(&self.home.directory, base, kind), fault));
                }
            }
        }
        if let Derived::Compared { aborted_needed, .. } = derived {
            self.compare_aborted(base, &aborted, aborted_needed)?;
        }
        Ok(())
    }

    /// All segments have passed, and the log ends here.
    pub(super) fn finish(mut self, end: Offset, removed: Removed) -> io::Result<Vec<Finding>> {
        self.compare_snapshots_below(end);
        (self.watch)(self.untold.get());
        if let Some(error) = self.failed {
            return Err(error);
        }
        let nothing_is_removed = removed == Removed::None && !self.has_met_removal;
        let counts = |told: &Told| nothing_is_removed || !told.is_excused_by_compaction;
        let told = self.told.into_iter().filter(counts).map(|told| told.finding);
        Ok(told.chain(self.torn).collect())
    }

    fn tell(&mut self, finding: Finding) {
        self.told.push(Told { finding, is_excused_by_compaction: false });
    }

    fn pass(&self, bytes: u64) {
        let untold = self.untold.get() + bytes;
        if untold >= TELL_BYTES {
            (self.watch)(untold);
        }
        self.untold.set(if untold >= TELL_BYTES { 0 } else { untold });
    }

    /// Everything below `offset` has passed: a snapshot of what is below it, or of what is in front of it, can be compared.
    fn compare_snapshots_below(&mut self, offset: Offset) {
        while let Some(at) = self.next_snapshot.filter(|at| *at <= offset) {
            self.next_snapshot = self.snapshots.next();
            if let Err(error) = self.compare_snapshot(at) {
                self.failed.get_or_insert(error);
            }
        }
    }

    fn compare_snapshot(&mut self, at: Offset) -> io::Result<()> {
        let path = file_path(&self.home.directory, at, FileKind::Snapshot);
        // It may have been removed since, with what it told of.
        let Some(bytes) = self.file(at, FileKind::Snapshot)? else { return Ok(()) };
        let said = Producers::decode_snapshot(&bytes, ProducersConfig::default(), Monotonic::default());
        if said.is_ok() {
            self.torn.clear();
        }
        match said {
            Err(damage) => self.torn.push(Finding::new(path, damage.into())),
            Ok(said) if self.is_certain && at >= self.first => {
                let contradicted = |removed| said.contradicted_by(&self.producers, self.first, removed);
                if let Some(producer) = contradicted(Removed::None) {
                    let is_excused_by_compaction = contradicted(Removed::Any).is_none();
                    let finding = Finding::new(path, Fault::Producer { producer });
                    self.told.push(Told { finding, is_excused_by_compaction });
                }
            }
            Ok(_) => {}
        }
        Ok(())
    }

    fn compare_aborted(
        &mut self,
        base: Offset,
        seen: &[AbortedTransaction],
        is_needed: bool,
    ) -> io::Result<()> {
        let path = file_path(&self.home.directory, base, FileKind::AbortedIndex);
        let said = match self.file(base, FileKind::AbortedIndex)? {
            Some(bytes) => match decode_aborted(&bytes, base) {
                Ok(said) => said,
                Err(damage) => {
                    self.tell(Finding::new(path, damage.into()));
                    return Ok(());
                }
            },
            None if self.is_certain && is_needed && !seen.is_empty() => {
                self.tell(Finding::new(path, Fault::NoFile));
                return Ok(());
            }
            None => return Ok(()),
        };
        if !self.is_certain {
            return Ok(());
        }
        let difference = |removed| aborted_difference(&said, seen, self.first, removed);
        if let Some(AbortedDifference { expected, found }) = difference(Removed::None) {
            let finding = Finding::new(path, Fault::Aborted { expected, found });
            let is_excused_by_compaction = difference(Removed::Any).is_none();
            self.told.push(Told { finding, is_excused_by_compaction });
        }
        Ok(())
    }

    fn file(&self, offset: Offset, kind: FileKind) -> io::Result<Option<Vec<u8>>> {
        let path = file_path(&self.home.directory, offset, kind);
        let file = match self.home.disk.open(&path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = vec![0; usize::try_from(file.size()?).unwrap_or_default()];
        let count = file.read_at(&mut bytes, 0)?;
        bytes.truncate(count);
        Ok(Some(bytes))
    }
}
