//! Opening one log: facts are read, recovery plans, the plan's steps are carried out, and the log runs.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::gather::{Gathered, Gathering, LogSource};
use super::recover::LoadedLog;
use super::scan::ScannedSegment;
use super::{JobError, LogReport, Store};
use crate::checkpoint::{LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, read_partition_metadata};
use crate::disk::{File, Open};
use crate::log::{Active, Log, LogConfig, Unsealed, new_active, rebuild_producers};
use crate::recovery::{Plan, RecoveryPoint, Refusal, Step};
use crate::rules::Rule;
use crate::segment::{FileKind, Home, IndexSettings, Segment, file_path, parse_file_name};
use crate::state::Producers;
use crate::units::{Now, Offset};

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
        let (mut gathered, mut plan) = match loading.gathering().plan()? {
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
        Ok(loading.gathering().plan()?.map(|(_, plan)| plan))
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
    now: Now,
}

impl Loading<'_> {
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
                    let file = self.open_log(*base)?;
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
        let segment = Segment::active(self.home(), base, &file, size, index)?;
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

    fn gathering(&self) -> Gathering<'_> {
        let batch_bytes_max = self.store.config().batch_bytes_max;
        Gathering { home: self.home(), source: self.source, batch_bytes_max }
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
