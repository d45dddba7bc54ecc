//! Opening one log: facts are read, recovery plans, the plan's steps are carried out, and the log runs.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::recover::LoadedLog;
use super::scan::{Place, ScannedSegment, scan_headers, scan_segment};
use super::{JobError, LogReport, Machine, Stop, Store};
use crate::checkpoint::{
    CleanFacts, LEADER_EPOCH_CHECKPOINT, OffsetCheckpoint, PARTITION_METADATA, Reading, read_epochs,
    read_partition_metadata,
};
use crate::disk::{EntryKind, File, Open};
use crate::index::ActiveIndex;
use crate::log::{Active, Log, LogConfig, Unsealed, new_active, rebuild_producers};
use crate::recovery::{
    self, EpochFacts, EpochWitness, Facts, FileFact, Plan, RecoveryPoint, Refusal, ScanDepth, ScanOrder,
    Step, plan_recovery, plan_scan,
};
use crate::rules::Rule;
use crate::segment::{FileKind, FirstBatch, Home, IndexSettings, Segment, file_path, parse_file_name};
use crate::state::Producers;
use crate::units::{Now, Offset, TopicPartition};

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

impl Store {
    /// Recovers a log and lets it run; the inner error says why it was left alone.
    pub(super) fn load_log(
        &self,
        source: &LogSource<'_>,
        now: Now,
    ) -> io::Result<Result<LogReport, Refusal>> {
        let disk = self.disk().as_ref();
        let metadata = read_partition_metadata(disk, &source.directory.join(PARTITION_METADATA))?;
        let loading = Loading { store: self, source, config: self.inner.config.log.clone(), now };
        let (mut gathered, mut plan) = match loading.plan()? {
            Ok(planned) => planned,
            Err(why) => return Ok(Err(why)),
        };
        loading.apply(&plan)?;
        let mut loaded = loading.assemble(&plan, &mut gathered)?;
        loaded.topic_id = metadata.known();
        let log = self.add_log(loaded);
        let rebuilt = rebuild_producers(&log.0, plan.end, now.monotonic)
            .map_err(|error| io::Error::other(JobError::from(error)))?;
        log.0.writer().producers = rebuilt.producers;
        self.add_damage(&mut plan, &log.0, &rebuilt.damaged)?;
        self.add_name(&log);
        Ok(Ok(report(&log, &plan, gathered.facts.recovery_point)))
    }
}

impl Store {
    /// What recovery of a log would do; the inner error says why it would be left alone. Reads only.
    pub(super) fn plan_log(&self, source: &LogSource<'_>, now: Now) -> io::Result<Result<Plan, Refusal>> {
        let loading = Loading { store: self, source, config: self.inner.config.log.clone(), now };
        Ok(loading.plan()?.map(|(_, plan)| plan))
    }
}

fn report(log: &Log, plan: &Plan, point: RecoveryPoint) -> LogReport {
    LogReport {
        log: log.id(),
        name: log.name().clone(),
        topic_id: log.topic_id(),
        start: plan.start,
        end: plan.end,
        recovery_point: match point {
            RecoveryPoint::Known(point) => Some(point),
            // The file can be read and does not name the log: nothing of it was promised yet.
            RecoveryPoint::NoEntry => Some(Offset::ZERO),
            RecoveryPoint::Unknown => None,
        },
        cut_bytes: plan.cut_bytes(),
        hole: plan.has_hole(),
        suspect: !plan.suspect.is_empty(),
        plan: plan.clone(),
    }
}

/// What was read of a log before anything was decided.
struct Gathered {
    facts: Facts,
    scanned: BTreeMap<Offset, ScannedSegment>,
}

struct Loading<'a> {
    store: &'a Store,
    source: &'a LogSource<'a>,
    config: LogConfig,
    now: Now,
}

impl Loading<'_> {
    fn plan(&self) -> io::Result<Result<(Gathered, Plan), Refusal>> {
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
        let disk = self.store.disk();
        let (name, trust) = (&self.source.name, &self.source.trust);
        let mut files = Vec::new();
        for entry in disk.list(&self.source.directory)? {
            if entry.kind == EntryKind::File {
                let bytes = disk.open(&self.source.directory.join(&entry.name), Open::Read)?.size()?;
                files.push(FileFact { name: entry.name, bytes });
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
            files,
            recovery_point,
            log_start: trust.log_start(name),
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
            ScanDepth::Whole => (whole, self.settings().empty(base)),
            ScanDepth::Tail => {
                self.tail(&file, whole).unwrap_or_else(|| (whole, self.settings().empty(base)))
            }
        };
        let mut found = scan_segment(&file, place, index, self.store.config().batch_bytes_max)?;
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

    /// Near the end of a segment that was closed cleanly; `None` if its indexes cannot be believed.
    fn tail(&self, file: &File, whole: Place) -> Option<(Place, ActiveIndex)> {
        let files =
            (self.bytes(whole.base, FileKind::OffsetIndex)?, self.bytes(whole.base, FileKind::TimeIndex)?);
        let IndexSettings { interval_bytes, bytes_max } = self.settings();
        let reopened = ActiveIndex::reopen(whole.base, interval_bytes, bytes_max, files, whole.log_bytes);
        let (index, from) = reopened.ok()?;
        if from == 0 {
            return Some((whole, index));
        }
        let mut header = [0; 64];
        let count = file.read_at(&mut header, from).ok()?;
        let frame = crate::segment::frame_at(header.get(..count)?)?;
        let named = index.last_entry().is_some_and(|entry| entry.last_offset == frame.last);
        named.then_some((Place { from, expected: frame.base, ..whole }, index))
    }

    /// What the log says where the epoch checkpoint lets an epoch begin, in segments that were not read.
    fn witnesses(&self, facts: &Facts) -> Vec<EpochWitness> {
        let Some(history) = &facts.epochs.file else { return Vec::new() };
        let mut bases: Vec<(Offset, u64)> = facts
            .files
            .iter()
            .filter_map(|file| Some((parse_file_name(&file.name)?, file.bytes)))
            .filter_map(|((base, kind), bytes)| (kind == FileKind::Log).then_some((base, bytes)))
            .collect();
        bases.sort_unstable();
        let mut witnesses = Vec::new();
        for entry in history.starts() {
            let from = bases.partition_point(|(base, _)| *base <= entry.start).saturating_sub(1);
            for (base, bytes) in bases.iter().skip(from) {
                if facts.scans.get(base).is_some_and(|scan| scan.from == 0) {
                    break;
                }
                let segment = self.sealed(*base, *bytes);
                if let Ok(Some((_, frame))) = segment.find(entry.start) {
                    witnesses.push(EpochWitness { start: entry.start, base: frame.base, epoch: frame.epoch });
                    break;
                }
            }
        }
        witnesses
    }

    fn apply(&self, plan: &Plan) -> io::Result<()> {
        let disk = self.store.disk();
        for step in &plan.steps {
            match step {
                Step::RemoveFile { name } => remove(disk.remove_file(&self.source.directory.join(name)))?,
                Step::RemoveSegment { base, aside } => self.remove_segment(*base, aside.as_deref())?,
                Step::CutSegment { base, to_bytes, aside, .. } => {
                    self.cut(*base, *to_bytes, aside.as_deref())?;
                }
                // The bytes are written again behind serving; the size cannot be, once the log grows.
                Step::RewriteSegment { base, .. } => {
                    let file = self.open(*base, FileKind::Log)?;
                    file.set_size(file.size()?)?;
                }
                Step::CreateSegment { base } => {
                    new_active(
                        self.store.shared(),
                        &self.source.directory,
                        *base,
                        &self.config,
                        self.now.wall,
                    )?;
                }
                Step::RewriteEpochs => crate::checkpoint::write_epochs(
                    disk.as_ref(),
                    &self.source.directory.join(LEADER_EPOCH_CHECKPOINT),
                    &plan.epochs,
                    crate::checkpoint::Certainty::Durable,
                )?,
                // Made in memory from what was read, and written when the segment is sealed; a file that is wrong goes now.
                Step::RebuildIndex { base } => {
                    for kind in [FileKind::OffsetIndex, FileKind::TimeIndex] {
                        remove(disk.remove_file(&file_path(&self.source.directory, *base, kind)))?;
                    }
                }
            }
        }
        if plan.steps.is_empty() { Ok(()) } else { disk.sync_directory(&self.source.directory) }
    }

    fn remove_segment(&self, base: Offset, aside: Option<&str>) -> io::Result<()> {
        let disk = self.store.disk();
        if let Some(aside) = aside {
            let log = file_path(&self.source.directory, base, FileKind::Log);
            remove(disk.rename(&log, &self.source.directory.join(aside)))?;
        }
        for kind in FileKind::OF_A_SEGMENT {
            remove(disk.remove_file(&file_path(&self.source.directory, base, kind)))?;
        }
        Ok(())
    }

    fn cut(&self, base: Offset, to_bytes: u64, aside: Option<&str>) -> io::Result<()> {
        let file =
            self.store.disk().open(&file_path(&self.source.directory, base, FileKind::Log), Open::Write)?;
        if let Some(aside) = aside {
            let copy = self.store.disk().open(&self.source.directory.join(aside), Open::Create)?;
            let mut at = to_bytes;
            let mut buffer = vec![0; 1 << 20];
            loop {
                let count = file.read_at(&mut buffer, at)?;
                if count == 0 {
                    break;
                }
                copy.write_all_at(buffer.get(..count).unwrap_or_default(), at - to_bytes)?;
                at += count as u64;
            }
            copy.sync()?;
            self.store.disk().sync_directory(&self.source.directory)?;
        }
        file.set_size(to_bytes)?;
        file.sync()
    }

    /// From where on the bytes of a segment have to be written again.
    fn in_doubt(&self, plan: &Plan, base: Offset, found: Option<&ScannedSegment>) -> Option<u64> {
        let is_certain = plan.recovery_point >= plan.end;
        if is_certain || !self.store.shared().limits.rules.holds(Rule::WriteAgainBeforeSync) {
            return None;
        }
        plan.steps.iter().find_map(|step| {
            let Step::RewriteSegment { base: again, from } = step else { return None };
            (*again == base).then(|| found.map_or(0, |found| found.index.floor(*from)))
        })
    }

    /// The log as it is after the plan was carried out.
    fn assemble(&self, plan: &Plan, gathered: &mut Gathered) -> io::Result<LoadedLog> {
        let shared = self.store.shared();
        let directory: Arc<Path> = self.source.directory.as_path().into();
        let mut bases = Vec::new();
        for entry in shared.disk.list(&directory)? {
            if let Some((base, FileKind::Log)) = parse_file_name(&entry.name) {
                bases.push(base);
            }
        }
        let Some(last) = bases.pop() else {
            return Err(io::Error::other("recovery has left no segment"));
        };
        let mut segments = Vec::new();
        let mut unsealed = Vec::new();
        for base in bases {
            let rebuilt = plan.steps.contains(&Step::RebuildIndex { base });
            let file = self.open(base, FileKind::Log)?;
            let found = gathered.scanned.remove(&base);
            let in_doubt = self.in_doubt(plan, base, found.as_ref());
            let segment = match found.filter(|_| rebuilt) {
                Some(found) => {
                    let size = file.size()?;
                    Segment::active(self.home(), base, file, size, found.index)
                }
                None => self.sealed(base, file.size()?),
            };
            if let Some(position) = in_doubt {
                segment.doubt(position);
            }
            let segment = Arc::new(segment);
            if rebuilt || in_doubt.is_some() {
                unsealed.push(Unsealed { segment: Arc::clone(&segment), snapshot: None });
            }
            segments.push(segment);
        }
        let found = gathered.scanned.remove(&last);
        let in_doubt = self.in_doubt(plan, last, found.as_ref());
        let active = self.active(last, plan.end, found)?;
        if let Some(position) = in_doubt {
            active.segment.doubt(position);
        }
        segments.push(Arc::clone(&active.segment));
        let point = plan.recovery_point;
        Ok(LoadedLog {
            name: self.source.name.clone(),
            directory,
            topic_id: None,
            config: self.config.clone(),
            segments,
            active,
            start: plan.start,
            end: plan.end,
            recovery_point: point,
            epochs: plan.epochs.clone(),
            epochs_unsynced: false,
            producers: Producers::new(shared.limits.producers),
            unsealed,
            names_unsynced: point < plan.end,
            is_dirty: point < plan.end,
            now: self.now,
        })
    }

    fn active(&self, base: Offset, end: Offset, found: Option<ScannedSegment>) -> io::Result<Active> {
        let shared = self.store.shared();
        let file = shared.disk.open(&file_path(&self.source.directory, base, FileKind::Log), Open::Write)?;
        let size = file.size()?;
        let settings = self.settings();
        let cut = found.as_ref().is_none_or(|found| found.scan.log_bytes != size);
        let (index, first) = match found {
            Some(found) => (found.index, found.first.filter(|_| size > 0)),
            None => (settings.empty(base), None),
        };
        let segment = Segment::active(self.home(), base, file, size, index);
        if cut && segment.reactivate(end, size).is_err() {
            return Err(io::Error::other("a segment that was read cannot be read again"));
        }
        Ok(Active {
            segment: Arc::new(segment),
            size,
            reserved: size,
            reserve_step: 64 << 10,
            first,
            created: self.now.wall,
            age_max: shared.age_max(&self.config),
        })
    }

    fn home(&self) -> Home {
        self.store.shared().home(self.source.directory.as_path().into(), &self.config)
    }

    fn settings(&self) -> IndexSettings {
        self.config.index_settings()
    }

    fn sealed(&self, base: Offset, bytes: u64) -> Segment {
        Segment::sealed(self.home(), base, bytes)
    }

    fn open(&self, base: Offset, kind: FileKind) -> io::Result<File> {
        let how = if kind == FileKind::Log { Open::Write } else { Open::Read };
        self.store.disk().open(&file_path(&self.source.directory, base, kind), how)
    }

    fn bytes(&self, base: Offset, kind: FileKind) -> Option<Vec<u8>> {
        let file = self.open(base, kind).ok()?;
        let mut bytes = vec![0; usize::try_from(file.size().ok()?).ok()?];
        let count = file.read_at(&mut bytes, 0).ok()?;
        bytes.truncate(count);
        Some(bytes)
    }
}

/// What is gone already need not be removed again.
fn remove(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
