//! Reads what recovery decides by: a log's files, as far as they have to be read, and what the data directory says of the log. Changes
//! nothing, so that it serves whoever opens a log and whoever only looks.

mod epochs;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use super::read_ahead::IdleHelpers;
use super::scan::{Place, ScannedSegment, scan_headers, scan_segment};
use super::{Machine, Stop};
use crate::checkpoint::{
    CleanFacts, GAPS_NOTE, LEADER_EPOCH_CHECKPOINT, OffsetCheckpoint, Reading, read_epochs,
};
use crate::disk::{EntryKind, File, Open};
use crate::index::ActiveIndex;
use crate::recovery::{
    self, EpochFacts, Facts, FileFact, Gaps, Plan, RecoveryPoint, Refusal, ScanDepth, ScanOrder,
    SegmentContext, StartGuard, plan_recovery, plan_scan,
};
use crate::segment::{
    FileKind, FirstBatch, Home, IndexSettings, Segment, file_path, index_crc, parse_file_name,
};
use crate::units::{Offset, TopicPartition};

/// A log's directory, and what the data directory says of it.
#[derive(Debug)]
pub(super) struct LogSource<'a> {
    pub(super) name: TopicPartition,
    pub(super) directory: PathBuf,
    pub(super) trust: Trust<'a>,
}

/// What the data directory's files say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trust<'a> {
    pub(super) stop: Stop,
    pub(super) machine: Machine,
    pub(super) points: &'a Reading<OffsetCheckpoint>,
    pub(super) starts: &'a Reading<OffsetCheckpoint>,
    pub(super) facts: Option<&'a CleanFacts>,
}

impl Trust<'_> {
    fn recovery_point(&self, name: &TopicPartition) -> RecoveryPoint {
        match self.points {
            Reading::Known { value, .. } => {
                value.get(name).map_or(RecoveryPoint::NoEntry, |point| RecoveryPoint::Known(*point))
            }
            Reading::Missing | Reading::Damaged { .. } => RecoveryPoint::Unknown,
        }
    }

    fn log_start(&self, name: &TopicPartition) -> Option<Offset> {
        match self.starts {
            Reading::Known { value, .. } => value.get(name).copied(),
            Reading::Missing | Reading::Damaged { .. } => None,
        }
    }

    fn start_guard(&self) -> StartGuard {
        match self.starts {
            Reading::Known { guarded: true, .. } => StartGuard::Guarded,
            Reading::Known { guarded: false, .. } | Reading::Missing | Reading::Damaged { .. } => {
                StartGuard::Unguarded
            }
        }
    }

    /// The CRC of the last segment's index files, as the mark has it.
    fn index_crc(&self, name: &TopicPartition) -> Option<u32> {
        self.facts?.partition(name)?.index_crc
    }

    /// The CRC of the log's indexes of aborted transactions, as the mark has it.
    pub(super) fn aborted_crc(&self, name: &TopicPartition) -> Option<u32> {
        self.facts?.partition(name)?.aborted_crc
    }

    fn stop(&self, name: &TopicPartition) -> recovery::Stop {
        match self.stop {
            Stop::Clean => {
                match self.facts.map(|facts| facts.partition(name)) {
                    // It was left alone when the others were stopped.
                    Some(None) => recovery::Stop::Unclean,
                    facts => recovery::Stop::Clean { facts: facts.flatten().copied() },
                }
            }
            Stop::Unclean | Stop::FirstUse => recovery::Stop::Unclean,
        }
    }
}

/// What was read of a log before anything was decided.
pub(super) struct Gathered {
    pub(super) facts: Facts,
    pub(super) scanned: BTreeMap<Offset, ScannedSegment>,
}

/// One log, and how it is read.
pub(super) struct Gathering<'a> {
    pub(super) home: Home,
    pub(super) source: &'a LogSource<'a>,
    pub(super) batch_bytes_max: usize,
    pub(super) idle: &'a IdleHelpers,
}

impl Gathering<'_> {
    /// Reads, and plans; the inner error says why the log is to be left alone.
    pub(super) fn plan(&self) -> io::Result<Result<(Gathered, Plan), Refusal>> {
        let gathered = match self.gather()? {
            Ok(gathered) => gathered,
            Err(why) => return Ok(Err(why)),
        };
        match plan_recovery(&gathered.facts) {
            Ok(plan) => Ok(Ok((gathered, plan))),
            Err(why) => Ok(Err(why)),
        }
    }

    fn gather(&self) -> io::Result<Result<Gathered, Refusal>> {
        let disk = &self.home.disk;
        let (name, trust) = (&self.source.name, &self.source.trust);
        let mut files = Vec::new();
        for entry in disk.list(&self.source.directory)? {
            if entry.kind == EntryKind::File {
                let bytes = disk.open(&self.source.directory.join(&entry.name), Open::Read)?.size()?;
                files.push(FileFact { name: entry.name, bytes });
            } else if parse_file_name(&entry.name).is_some() {
                return Ok(Err(Refusal::NotAFile { name: entry.name }));
            }
        }
        let (recovery_point, stop) = (trust.recovery_point(name), trust.stop(name));
        let epochs =
            read_epochs(disk.as_ref(), &self.source.directory.join(LEADER_EPOCH_CHECKPOINT))?.known();
        let orders = match plan_scan(&files, recovery_point, stop, epochs.is_some()) {
            Ok(orders) => orders,
            Err(why) => return Ok(Err(why)),
        };
        let mut facts = Facts {
            gaps: self.gaps(&files, recovery_point),
            files,
            recovery_point,
            log_start: trust.log_start(name),
            start_guard: trust.start_guard(),
            stop,
            machine: match trust.machine {
                Machine::Same => recovery::Machine::Same,
                Machine::OtherOrUnknown => recovery::Machine::OtherOrUnknown,
            },
            scans: BTreeMap::new(),
            epochs: EpochFacts { witnesses: Vec::new(), file: epochs },
        };
        let mut scanned = BTreeMap::new();
        for order in orders {
            self.scan(order, &mut facts, &mut scanned)?;
        }
        facts.epochs.witnesses = self.witnesses(&facts);
        if self.checkpoint_is_contradicted(&facts) {
            let orders = plan_scan(&facts.files, recovery_point, stop, false).unwrap_or_default();
            for order in orders {
                if facts.scans.get(&order.base).is_none_or(|scan| scan.from > 0) {
                    self.scan(order, &mut facts, &mut scanned)?;
                }
            }
            facts.epochs.witnesses = self.witnesses(&facts);
        }
        Ok(Ok(Gathered { facts, scanned }))
    }

    fn scan(
        &self,
        order: ScanOrder,
        facts: &mut Facts,
        scanned: &mut BTreeMap<Offset, ScannedSegment>,
    ) -> io::Result<()> {
        let ScanOrder { base, depth } = order;
        let file = self.open(base, FileKind::Log)?;
        let log_bytes = file.size()?;
        let whole = Place { base, log_bytes, from: 0, expected: base };
        let (place, index) = match depth {
            ScanDepth::Epochs => {
                facts.scans.insert(base, scan_headers(&file, whole)?);
                return Ok(());
            }
            ScanDepth::Whole => (whole, self.home.settings.empty(base)),
            ScanDepth::Tail => {
                self.tail(&file, whole).unwrap_or_else(|| (whole, self.home.settings.empty(base)))
            }
        };
        let context = SegmentContext::of(facts, base);
        let mut found = scan_segment(&file, place, context, index, self.batch_bytes_max, self.idle)?;
        if place.from > 0 {
            let mut first = [0; 64];
            let count = file.read_at(&mut first, 0)?;
            let frame = crate::segment::frame_at(first.get(..count).unwrap_or_default());
            found.first = frame.map(|frame| FirstBatch { max_timestamp: frame.max_timestamp });
        }
        facts.scans.insert(base, found.scan.clone());
        scanned.insert(base, found);
        Ok(())
    }

    /// A note says that the log has gaps, and is there before the first of them. Whoever else has written the log has written no note.
    fn gaps(&self, files: &[FileFact], recovery_point: RecoveryPoint) -> Gaps {
        let is_ours = matches!(self.source.trust.points, Reading::Known { guarded: true, .. })
            && matches!(recovery_point, RecoveryPoint::Known(_));
        let is_noted = files.iter().any(|file| file.name == GAPS_NOTE);
        if is_ours && !is_noted { Gaps::Never } else { Gaps::Legal }
    }

    /// Near the end of a segment that was closed cleanly; `None` if its indexes cannot be believed.
    fn tail(&self, file: &File, whole: Place) -> Option<(Place, ActiveIndex)> {
        let files =
            (self.bytes(whole.base, FileKind::OffsetIndex)?, self.bytes(whole.base, FileKind::TimeIndex)?);
        let is_marked = self.source.trust.index_crc(&self.source.name) == Some(index_crc(&files.0, &files.1));
        let IndexSettings { interval_bytes, bytes_max } = self.home.settings;
        let reopened = ActiveIndex::reopen(whole.base, interval_bytes, bytes_max, files, whole.log_bytes);
        let (index, from) = reopened.ok().filter(|(_, from)| *from > 0)?;
        let whole_segment = Segment::sealed(self.home.clone(), whole.base, whole.log_bytes);
        if !is_marked && !whole_segment.bears_out_index(&index).ok()? {
            return None;
        }
        let mut header = [0; 64];
        let count = file.read_at(&mut header, from).ok()?;
        let frame = crate::segment::frame_at(header.get(..count)?)?;
        let named = index.last_entry().is_some_and(|entry| entry.last_offset == frame.last);
        named.then_some((Place { from, expected: frame.base, ..whole }, index))
    }

    fn bytes(&self, base: Offset, kind: FileKind) -> Option<Vec<u8>> {
        let file = self.open(base, kind).ok()?;
        let mut bytes = vec![0; usize::try_from(file.size().ok()?).ok()?];
        let count = file.read_at(&mut bytes, 0).ok()?;
        bytes.truncate(count);
        Some(bytes)
    }

    fn open(&self, base: Offset, kind: FileKind) -> io::Result<File> {
        self.home.disk.open(&file_path(&self.home.directory, base, kind), Open::Read)
    }
}
