//! Opening one log: facts are read, recovery plans, the plan's steps are carried out, and the log runs.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::gather::{Gathered, Gathering, LogSource};
use super::half_done::{as_it_will_be, plan_half_done};
use super::read_ahead::IdleHelpers;
use super::recover::LoadedLog;
use super::refusal::{LoadError, LogRefusal};
use super::scan::ScannedSegment;
use super::{JobError, LogReport, Store};
use crate::checkpoint::{
    Certainty, GAPS_NOTE, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, note_gaps, read_partition_metadata,
    write_epochs,
};
use crate::disk::{Disk, File, Open};
use crate::log::{
    AbortedIndexes, Active, CutError, FileError, Log, LogConfig, ReadError, Unsealed, new_active,
    rebuild_producers,
};
use crate::recovery::{FileFact, Plan, RecoveryPoint, Step};
use crate::rules::Rule;
use crate::segment::{FileKind, Home, IndexSettings, Segment, file_path, parse_file_name};
use crate::state::{EpochHistory, Producers};
use crate::units::{Now, Offset};

impl Store {
    /// Recovers a log and lets it run. Only one that runs is known to the store: of another nothing is left but what recovery has done by
    /// then, which it does again.
    pub(super) fn load_log(
        &self,
        source: &LogSource<'_>,
        idle: &IdleHelpers,
        now: Now,
    ) -> Result<LogReport, LoadError> {
        let loading = Loading { store: self, source, config: self.inner.config.log.clone(), idle, now };
        let metadata_path = source.directory.join(PARTITION_METADATA);
        let metadata = loading.read(read_partition_metadata(self.disk().as_ref(), &metadata_path))?;
        let exchange = loading.plan_half_done()?;
        loading.apply(&exchange, None)?;
        let (mut gathered, mut plan) = loading.plan(self.disk())?;
        loading.apply(&plan.steps, Some(&plan.epochs))?;
        let mut loaded = loading.read(loading.assemble(&plan, &mut gathered))?;
        loaded.aborted = loading.aborted_indexes(&plan, &gathered, &loaded)?;
        loaded.topic_id = metadata.known();
        let log = self.make_log(loaded);
        let rebuilt = rebuild_producers(&log.0, plan.end, now.monotonic);
        let rebuilt = rebuilt.map_err(|error| loading.not_rebuilt(error))?;
        log.0.writer().producers = rebuilt.producers;
        loading.read(self.add_damage(&mut plan, &log.0, &rebuilt.damaged))?;
        if gathered.facts.log_start.is_some_and(|known| known < plan.start) {
            // Before anything is promised of what lies behind it.
            loading.read(self.write_start(&log.0).map_err(|error| error.source))?;
        }
        let lowered = self.lower_cleaned(&mut self.checkpoints(), &source.name, Some(plan.end));
        loading.read(lowered.map_err(|error| error.source))?;
        log.0.marks.cleaned.set(self.checkpoints().cleaned.get(&source.name).copied().unwrap_or_default());
        self.run_log(&log, now);
        plan.steps.splice(..0, exchange);
        Ok(report(&log, &plan, gathered.facts.recovery_point))
    }

    /// What recovery of a log would do. Reads only.
    pub(super) fn plan_log(&self, source: &LogSource<'_>, now: Now) -> Result<Plan, LoadError> {
        let idle = &IdleHelpers::default();
        let loading = Loading { store: self, source, config: self.inner.config.log.clone(), idle, now };
        let exchange = loading.plan_half_done()?;
        let (_, mut plan) = loading.plan(&as_it_will_be(self.disk(), &source.directory, &exchange))?;
        plan.steps.splice(..0, exchange);
        Ok(plan)
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

struct Loading<'a> {
    store: &'a Store,
    source: &'a LogSource<'a>,
    config: LogConfig,
    idle: &'a IdleHelpers,
    now: Now,
}

impl Loading<'_> {
    /// A look at the log's files; where it fails, this log alone is left alone.
    fn read<T>(&self, looked: io::Result<T>) -> Result<T, LoadError> {
        looked.map_err(|error| LogRefusal::unread(self.source.directory.clone(), error).into())
    }

    /// A change of the log's files; where it fails, nothing more is to be believed of the directory.
    fn change<T>(&self, changed: io::Result<T>) -> Result<T, LoadError> {
        changed.map_err(|error| LoadError::unchanged(self.source.directory.clone(), error))
    }

    fn not_rebuilt(&self, error: CutError) -> LoadError {
        match error {
            CutError::File(FileError { path, source })
            | CutError::Damaged(ReadError::Io { path, source }) => LogRefusal::unread(path, source).into(),
            error @ (CutError::Damaged(_) | CutError::Closed(_) | CutError::Truncating) => {
                let source = io::Error::other(JobError::from(error));
                LogRefusal::unread(self.source.directory.clone(), source).into()
            }
        }
    }

    fn plan_half_done(&self) -> Result<Vec<Step>, LoadError> {
        let batch_bytes_max = self.store.config().batch_bytes_max;
        let planned = plan_half_done(self.store.disk().as_ref(), &self.source.directory, batch_bytes_max);
        Ok(self.read(planned)??)
    }

    /// The indexes of aborted transactions, that of the last segment without what its log does not have.
    fn aborted_indexes(
        &self,
        plan: &Plan,
        gathered: &Gathered,
        loaded: &LoadedLog,
    ) -> Result<AbortedIndexes, LoadError> {
        let is_there = |base| {
            let is_its = |file: &FileFact| {
                file.bytes > 0 && parse_file_name(&file.name) == Some((base, FileKind::AbortedIndex))
            };
            gathered.facts.files.iter().any(is_its)
        };
        let mut files = BTreeMap::new();
        let mut proof = self.source.trust.aborted_crc(&self.source.name).filter(|_| plan.suspect.is_empty());
        for segment in loaded.segments.iter().filter(|segment| is_there(segment.base())) {
            let Some(bytes) = self.read(segment.aborted_bytes())? else {
                proof = None;
                continue;
            };
            files.insert(segment.base(), crc32fast::hash(&bytes));
            if Arc::ptr_eq(segment, &loaded.active.segment)
                && let Some(long) = self.read(segment.aborted_above(plan.end))?
            {
                proof = None;
                self.change(long.cut())?;
            }
        }
        let bases = loaded.segments.iter().map(|segment| segment.base());
        Ok(AbortedIndexes::found(files, bases, proof))
    }

    /// What is to be done to the directory as this disk shows it.
    fn plan(&self, disk: &Arc<dyn Disk>) -> Result<(Gathered, Plan), LoadError> {
        let mut gathering = self.gathering();
        gathering.home.disk = Arc::clone(disk);
        Ok(self.read(gathering.plan())??)
    }

    fn apply(&self, steps: &[Step], epochs: Option<&EpochHistory>) -> Result<(), LoadError> {
        let disk = self.store.disk();
        for step in steps {
            match step {
                Step::RenameFile { from, to } => {
                    let directory = &self.source.directory;
                    self.change(remove(disk.rename(&directory.join(from), &directory.join(to))))?;
                }
                Step::SyncNames => self.change(disk.sync_directory(&self.source.directory))?,
                Step::RemoveFile { name } | Step::RemoveExchanged { name } => {
                    self.change(remove(disk.remove_file(&self.source.directory.join(name))))?;
                }
                Step::RemoveSegment { base, aside } => {
                    self.change(self.remove_segment(*base, aside.as_deref()))?;
                }
                Step::CutSegment { base, to_bytes, aside, .. } => {
                    self.cut(*base, *to_bytes, aside.as_deref())?;
                }
                // The bytes are written again behind serving; the size cannot be, once the log grows.
                Step::RewriteSegment { base, .. } => {
                    let file = self.read(self.open_log(*base))?;
                    let size = self.read(file.size())?;
                    self.change(file.set_size(size))?;
                }
                Step::CreateSegment { base } => {
                    let (shared, directory) = (self.store.shared(), &self.source.directory);
                    // Nothing of the old log may come back beside the new one.
                    self.change(disk.sync_directory(directory))?;
                    self.change(new_active(shared, directory, *base, &self.config, self.now.wall))?;
                }
                Step::RewriteEpochs => {
                    let path = self.source.directory.join(LEADER_EPOCH_CHECKPOINT);
                    let Some(epochs) = epochs else { continue };
                    self.change(write_epochs(disk.as_ref(), &path, epochs, Certainty::Durable))?;
                }
                Step::NoteGaps => {
                    self.change(note_gaps(disk.as_ref(), &self.source.directory))?;
                }
                // Made in memory from what was read, and written when the segment is sealed; a file that is wrong goes now.
                Step::RebuildIndex { base } => {
                    for kind in [FileKind::OffsetIndex, FileKind::TimeIndex] {
                        let path = file_path(&self.source.directory, *base, kind);
                        self.change(remove(disk.remove_file(&path)))?;
                    }
                }
            }
        }
        if steps.is_empty() { Ok(()) } else { self.change(disk.sync_directory(&self.source.directory)) }
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

    fn cut(&self, base: Offset, to_bytes: u64, aside: Option<&str>) -> Result<(), LoadError> {
        let disk = self.store.disk();
        let file =
            self.read(disk.open(&file_path(&self.source.directory, base, FileKind::Log), Open::Write))?;
        if let Some(aside) = aside {
            let copy = self.change(disk.open(&self.source.directory.join(aside), Open::Create))?;
            let mut at = to_bytes;
            let mut buffer = vec![0; 1 << 20];
            loop {
                let count = self.read(file.read_at(&mut buffer, at))?;
                if count == 0 {
                    break;
                }
                let part = buffer.get(..count).unwrap_or_default();
                self.change(copy.write_all_at(part, at - to_bytes))?;
                at += count as u64;
            }
            self.change(copy.sync())?;
            self.change(disk.sync_directory(&self.source.directory))?;
        }
        self.change(file.set_size(to_bytes))?;
        self.change(file.sync())
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
            let file = self.open_log(base)?;
            let found = gathered.scanned.remove(&base);
            let in_doubt = self.in_doubt(plan, base, found.as_ref());
            let segment = match found.filter(|_| rebuilt) {
                Some(found) => {
                    let size = file.size()?;
                    Segment::active(self.home(), base, &file, size, found.index)?
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
            producers: Producers::new(shared.limits.producers),
            unsealed,
            aborted: AbortedIndexes::default(),
            names_unsynced: point < plan.end,
            gaps_noted: gathered.facts.files.iter().any(|file| file.name == GAPS_NOTE)
                || plan.steps.contains(&Step::NoteGaps),
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
        let segment = Segment::active(self.home(), base, &file, size, index)?;
        if cut && segment.reactivate(end, size).is_err() {
            return Err(io::Error::other("a segment that was read cannot be read again"));
        }
        Ok(Active {
            index_is_full: segment.index_is_full(),
            segment: Arc::new(segment),
            size,
            reserved: size,
            reserve_step: 64 << 10,
            first,
            next_is_there: false,
            created: self.now.wall,
            age_max: shared.age_max(&self.config),
        })
    }

    fn gathering(&self) -> Gathering<'_> {
        let batch_bytes_max = self.store.config().batch_bytes_max;
        Gathering { home: self.home(), source: self.source, batch_bytes_max, idle: self.idle }
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

    fn open_log(&self, base: Offset) -> io::Result<File> {
        self.store.disk().open(&file_path(&self.source.directory, base, FileKind::Log), Open::Write)
    }
}

/// What is gone already need not be removed again.
fn remove(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
