//! A round on its way: which segments, how far it has come, and what it holds in memory.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::exchange::{Failed, exchange};
use super::output::{Output, remove_cleaned, remove_left_behind};
use super::pieces::Pieces;
use super::{CompactionRefusal, CompactionReport, JobError, Store};
use crate::batch::{BatchHeader, BatchView};
use crate::compaction::{
    Facts, KeyMap, LastOf, Place, Plan, SegmentFacts, Survivor, Survivors, Transactions, group_segments,
    map_batch,
};
use crate::index::AbortedTransaction;
use crate::log::{Cleanup, FileError, Inner, LogId, lock};
use crate::segment::{FileKind, Segment, parse_file_name};
use crate::units::{Now, Offset, ProducerId};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Round {
    log: LogId,
    now: Now,
    /// Where the log began, as it is written down: a start that a crash takes back must find the records that it lets be seen again.
    start: Offset,
    segment_bytes_max: u64,
    delete_retention_ms: i64,
    sources: Vec<Source>,
    aborted: Vec<AbortedTransaction>,
    pieces: Pieces,
    stage: Stage,
    report: CompactionReport,
}

/// A segment that is read, and replaced when its group is.
#[derive(Clone, Debug)]
struct Source {
    segment: Arc<Segment>,
    facts: SegmentFacts,
}

#[derive(Debug)]
enum Stage {
    Mapping {
        map: KeyMap,
        transactions: Transactions,
        number: usize,
        scratch: Vec<u8>,
    },
    Copying(Box<Copying>),
    /// Between two of them, and when it is over.
    None,
}

#[derive(Debug)]
struct Copying {
    survivors: Survivors,
    groups: VecDeque<Range<usize>>,
    number: usize,
    output: Option<Output>,
}

/// What a piece gave.
pub(super) enum Stepped {
    On { bytes: u64 },
    Over(CompactionReport),
}

impl Round {
    pub(super) fn begin(
        store: &Store,
        log: &Arc<Inner>,
        plan: &Plan,
        facts: &Facts,
        now: Now,
    ) -> Result<Self, JobError> {
        remove_left_behind(log)?;
        let (view, config) = (log.view(), log.config());
        let sources: Vec<Source> = (facts.segments.iter().filter(|facts| facts.end <= plan.until))
            .filter_map(|facts| {
                let segment = view.segments.iter().find(|segment| segment.base() == facts.base)?;
                Some(Source { segment: Arc::clone(segment), facts: *facts })
            })
            .collect();
        // What was aborted in front of it went with the rounds before.
        let aborted = store.aborted(log, plan.first_dirty, plan.until)?;
        let keys = plan.until.distance_from(plan.first_dirty).unwrap_or_default().unsigned_abs();
        let secret = {
            let mut random = lock(&log.shared.random);
            [random.u64(..), random.u64(..)]
        };
        let map = KeyMap::new(store.inner.config.key_map_bytes_max, keys, secret);
        let first = sources.iter().position(|source| source.facts.end > plan.first_dirty);
        let mut round = Self {
            log: log.id,
            now,
            start: facts.start,
            segment_bytes_max: u64::from(config.segment_bytes_max),
            delete_retention_ms: i64::try_from(config.delete_retention.as_millis()).unwrap_or(i64::MAX),
            stage: Stage::Mapping {
                map,
                transactions: Transactions::new(&aborted),
                number: first.unwrap_or(sources.len()),
                scratch: Vec::new(),
            },
            sources,
            aborted,
            pieces: Pieces::new(),
            report: CompactionReport {
                first_dirty: plan.first_dirty,
                cleaned_to: plan.until,
                ..CompactionReport::default()
            },
        };
        if let Some(source) = first.and_then(|first| round.sources.get(first)) {
            round.pieces.go_to(&source.segment, plan.first_dirty, source.facts.end)?;
        }
        Ok(round)
    }

    pub(crate) const fn log(&self) -> LogId {
        self.log
    }

    /// Whether the log is still one that is compacted, and what is still to be read is there as it was when the round began.
    pub(super) fn holds(&self, log: &Inner) -> bool {
        if log.config().cleanup == Cleanup::Delete {
            return false;
        }
        let view = log.view();
        let left = match &self.stage {
            Stage::Copying(copying) => copying.groups.front().map_or(self.sources.len(), |group| group.start),
            Stage::Mapping { .. } | Stage::None => 0,
        };
        let sealed = view.segments.split_last().map_or(&[][..], |(_, sealed)| sealed);
        let is_there = |source: &Source| {
            source.segment.size() == source.facts.bytes
                && sealed.iter().any(|there| Arc::ptr_eq(there, &source.segment))
        };
        self.sources.iter().skip(left).all(is_there) && log.writer().damaged.is_empty()
    }

    /// Takes away what was written and not exchanged.
    pub(super) fn give_up(&self, log: &Inner) {
        if let Stage::Copying(copying) = &self.stage
            && let Some(source) = copying.groups.front().and_then(|group| self.sources.get(group.start))
            && !log.shared.has_failed()
            && log.closed().is_none()
        {
            remove_cleaned(log, source.facts.base);
        }
    }

    /// Goes on until so many bytes are read and written, or the round is over.
    pub(super) fn advance(
        &mut self,
        store: &Store,
        log: &Arc<Inner>,
        bytes_max: u64,
    ) -> Result<Stepped, JobError> {
        let mut bytes = 0;
        while bytes < bytes_max {
            let done = match &mut self.stage {
                Stage::Mapping { .. } => self.map_piece(store, log)?,
                Stage::Copying(_) => self.copy_piece(store, log)?,
                Stage::None => None,
            };
            match done {
                Some(done) => bytes += done,
                None => return Ok(Stepped::Over(CompactionReport { bytes, ..self.report })),
            }
        }
        Ok(Stepped::On { bytes })
    }

    /// Reads a piece for its keys.
    fn map_piece(&mut self, store: &Store, log: &Arc<Inner>) -> Result<Option<u64>, JobError> {
        let Stage::Mapping { map, transactions, number, scratch } = &mut self.stage else { return Ok(None) };
        let Some(source) = self.sources.get(*number) else {
            self.begin_copying(store, log)?;
            return Ok(Some(0));
        };
        let (segment, from) = (&source.segment, self.report.first_dirty);
        let read =
            self.pieces.next(segment, store.inner.config.batch_bytes_max, |position, batch| match map_batch(
                map,
                transactions,
                batch,
                from,
                scratch,
            ) {
                Ok(None) => Ok(ControlFlow::Continue(())),
                Ok(Some(full)) => Ok(ControlFlow::Break(full)),
                Err(why) => Err(unclear(segment, position, &why)),
            });
        match read? {
            (bytes, Some(full)) => {
                self.report.cleaned_to = full;
                *number = self.sources.len();
                Ok(Some(bytes))
            }
            (0, None) => {
                *number += 1;
                if let Some(next) = self.sources.get(*number) {
                    self.pieces.go_to(&next.segment, next.facts.base, next.facts.end)?;
                }
                Ok(Some(0))
            }
            (bytes, None) => Ok(Some(bytes)),
        }
    }

    fn begin_copying(&mut self, store: &Store, log: &Arc<Inner>) -> Result<(), JobError> {
        let Stage::Mapping { map, .. } = std::mem::replace(&mut self.stage, Stage::None) else {
            return Ok(());
        };
        (self.report.keys, self.report.key_map_bytes) = (map.keys(), map.bytes());
        let cleaned_to = self.report.cleaned_to;
        self.sources.retain(|source| source.facts.base < cleaned_to);
        let facts: Vec<SegmentFacts> = self.sources.iter().map(|source| source.facts).collect();
        self.stage = Stage::Copying(Box::new(Copying {
            survivors: Survivors {
                map,
                mapped_to: cleaned_to,
                transactions: Transactions::new(&self.aborted),
                producers: last_of_producers(log),
                now: self.now.wall,
                delete_retention_ms: self.delete_retention_ms,
                batch_bytes_max: store.inner.config.batch_bytes_max,
                last_marker_gone: None,
                scratch: Vec::new(),
                records_kept: 0,
                records_gone: 0,
            },
            groups: group_segments(&facts, self.segment_bytes_max).into(),
            number: 0,
            output: None,
        }));
        self.go_to_source(0)
    }

    /// Below the log's start nothing counts, and a power loss may have left holes.
    fn go_to_source(&mut self, number: usize) -> Result<(), JobError> {
        let Some(source) = self.sources.get(number) else { return Ok(()) };
        self.pieces.go_to(&source.segment, self.start.min(source.facts.end), source.facts.end)
    }

    /// Reads a piece and writes what stays of it; at the end of a group the segments are exchanged.
    fn copy_piece(&mut self, store: &Store, log: &Arc<Inner>) -> Result<Option<u64>, JobError> {
        let Stage::Copying(copying) = &mut self.stage else { return Ok(None) };
        let Some(group) = copying.groups.front().cloned() else {
            self.report.records_kept = copying.survivors.records_kept;
            self.report.records_gone = copying.survivors.records_gone;
            self.stage = Stage::None;
            return Ok(None);
        };
        let Some(source) = self.sources.get(copying.number) else { return Ok(None) };
        let segment = &source.segment;
        let created = |base| Output::create(log, base).map_err(|error| not_written(log, segment, error));
        let output = match &mut copying.output {
            Some(output) => output,
            none @ None => none.insert(created(source.facts.base)?),
        };
        let before = output.size();
        let (survivors, is_last) = (&mut copying.survivors, copying.number + 1 == group.end);
        let batch_bytes_max = store.inner.config.batch_bytes_max;
        let (read, _) = self.pieces.next(segment, batch_bytes_max, |position, batch| {
            let is_end = is_last && position + batch.bytes().len() as u64 == segment.size();
            let place = if is_end { Place::Last } else { Place::Any };
            let next = survivors.next(batch, place).map_err(|why| unclear(segment, position, &why))?;
            write(output, batch, &next).map_err(|error| not_written(log, segment, error))?;
            Ok(ControlFlow::<()>::Continue(()))
        })?;
        output.check_size()?;
        if read > 0 {
            return Ok(Some(read + (output.size() - before)));
        }
        let next = copying.number + 1;
        copying.number = next;
        if is_last {
            copying.groups.pop_front();
            let finished = copying.output.take();
            if let Some(marker) = copying.survivors.last_marker_gone {
                remove_open_snapshots(log, marker)?;
            }
            self.exchange_group(log, group, finished)?;
        }
        self.go_to_source(next)?;
        Ok(Some(0))
    }

    fn exchange_group(
        &mut self,
        log: &Arc<Inner>,
        group: Range<usize>,
        output: Option<Output>,
    ) -> Result<(), JobError> {
        let (Some(sources), Some(output)) = (self.sources.get(group), output) else { return Ok(()) };
        let old: Vec<Arc<Segment>> = sources.iter().map(|source| Arc::clone(&source.segment)).collect();
        let Some(first) = old.first() else { return Ok(()) };
        let base = output.base;
        let undo = |error: FileError| {
            if error.passes() {
                remove_cleaned(log, base);
            }
            JobError::from(error)
        };
        let finished = output.finish(log);
        let finished = finished
            .map_err(|error| undo(log.failed("write a segment", first.path(FileKind::Log), error)))?;
        exchange(log, &finished, &old).map_err(|failed| match failed {
            Failed::Before(error) => undo(error),
            Failed::Amid(error) => error.into(),
        })?;
        self.report.segments_before += old.len();
        self.report.segments_after += 1;
        self.report.bytes_before += old.iter().map(|old| old.size()).sum::<u64>();
        self.report.bytes_after += finished.size;
        Ok(())
    }
}

/// Adds what became of a batch.
fn write(output: &mut Output, batch: &BatchView<'_>, survivor: &Survivor) -> std::io::Result<()> {
    match survivor {
        Survivor::Gone => Ok(()),
        Survivor::AsItIs => output.push(batch.header(), batch.bytes()),
        Survivor::Rewritten(bytes) => {
            output.push(&BatchHeader::parse(bytes).map_err(std::io::Error::other)?, bytes)
        }
    }
}

/// What is to be kept of each producer that is known at this moment.
fn last_of_producers(log: &Inner) -> BTreeMap<ProducerId, LastOf> {
    let writer = log.writer();
    let last = |known: crate::state::ProducerSummary| {
        let last = match known.last_batch {
            Some((.., last)) => LastOf::Batch(last),
            None => LastOf::Marker(known.epoch?),
        };
        Some((known.id, last))
    };
    writer.producers.summaries().filter_map(last).collect()
}

/// A marker goes that an older snapshot of producers still waits for: behind it, where newer ones cannot be read, its transaction would be open
/// for ever. Of what such a snapshot says nothing is lost: the batches of producers that are known stay.
fn remove_open_snapshots(log: &Inner, marker: Offset) -> Result<(), FileError> {
    let disk = log.shared.disk.as_ref();
    let fail = |error| log.failed("remove a snapshot", log.directory.to_path_buf(), error);
    let mut is_changed = false;
    for entry in disk.list(&log.directory).map_err(fail)? {
        let Some((offset, FileKind::Snapshot)) = parse_file_name(&entry.name) else { continue };
        let is_older = offset <= marker;
        if is_older && log.snapshot_at(offset).map_err(fail)?.is_some_and(|known| known.has_open()) {
            disk.remove_file(&log.directory.join(&entry.name)).map_err(fail)?;
            is_changed = true;
        }
    }
    if is_changed { disk.sync_directory(&log.directory).map_err(fail) } else { Ok(()) }
}

fn unclear(segment: &Segment, position: u64, why: &dyn std::fmt::Display) -> JobError {
    let path = segment.path(FileKind::Log);
    CompactionRefusal::Unclear { path, position, why: why.to_string() }.into()
}

fn not_written(log: &Inner, segment: &Segment, error: std::io::Error) -> JobError {
    log.failed("write a segment", segment.path(FileKind::Log), error).into()
}

impl Store {
    /// The aborted transactions with records from `from` on and below `end`.
    fn aborted(&self, log: &Inner, from: Offset, end: Offset) -> Result<Vec<AbortedTransaction>, JobError> {
        let examine = |segment: &Arc<Segment>| match self.examine(log, segment) {
            Err(JobError::Damaged(error)) => Err(error),
            _ => Ok(()),
        };
        Ok(log.aborted_between(from, end, crate::log::Source::Device { examine: &examine })?)
    }
}
