//! Looks at a log as a whole, by the facts and the plan of recovery, or only at what has come since.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use super::sight::{LastBatch, Sight, Still, bases_in, epochs_in};
use super::{ReadOnlyError, ReadOnlyStore, failed};
use crate::checkpoint::{LOG_STARTS, Reading, read_offsets};
use crate::disk::{File, LOCK_FILE, Open};
use crate::index::ActiveIndex;
use crate::recovery::{Plan, SegmentContext, Step};
use crate::segment::{FileKind, Home, Segment, file_path, parse_file_name};
use crate::state::EpochHistory;
use crate::store::Machine;
use crate::store::found::{Found, LockText};
use crate::store::gather::{Gathered, Gathering, LogSource};
use crate::store::read_ahead::IdleHelpers;
use crate::store::scan::{Place, scan_segment};
use crate::units::{Offset, OffsetRange, TopicPartition};

/// How often a log is looked at that changes meanwhile.
const TRIES_MAX: usize = 64;

/// What an attempt gave.
pub(super) enum Looked {
    At(Sight),
    /// It was changed meanwhile: once more.
    Changed,
}

/// What came since a sight.
pub(super) enum Since {
    Nothing,
    More(Sight),
    /// The sight holds no longer, or what came cannot be understood without the facts: to be looked at as a whole.
    Unknown,
    /// It was changed meanwhile: once more.
    Changed,
}

impl ReadOnlyStore {
    /// Looks at the whole log, until nobody changes it meanwhile.
    pub(super) fn look(&self, name: &TopicPartition) -> Result<Sight, ReadOnlyError> {
        let mut refused = None;
        for _ in 0..TRIES_MAX {
            match self.try_look(name) {
                Ok(Looked::At(sight)) => return Ok(sight),
                Ok(Looked::Changed) => refused = None,
                // A moment's state, perhaps: also what was cut or deleted between the listing and the look.
                Err(why @ ReadOnlyError::Refused { .. }) => refused = Some(why),
                Err(ReadOnlyError::Io { path, source }) if is_gone(&source) => {
                    refused = Some(ReadOnlyError::Io { path, source });
                }
                Err(why) => return Err(why),
            }
            std::thread::yield_now();
        }
        Err(refused.unwrap_or_else(|| ReadOnlyError::Unsettled { name: name.clone() }))
    }

    fn try_look(&self, name: &TopicPartition) -> Result<Looked, ReadOnlyError> {
        let home = self.home(name);
        let found = Found::read(self.disk.as_ref(), &self.directory, self.machine())
            .map_err(|(path, source)| ReadOnlyError::Io { path, source })?;
        if !found.entries.iter().any(|entry| entry.name == name.to_string()) {
            return Err(ReadOnlyError::NoSuchLog { name: name.clone() });
        }
        let source =
            LogSource { name: name.clone(), directory: home.directory.to_path_buf(), trust: found.trust() };
        let batch_bytes_max = self.config.batch_bytes_max;
        let idle = IdleHelpers::default();
        let gathering = Gathering { home: home.clone(), source: &source, batch_bytes_max, idle: &idle };
        let planned = gathering.plan().map_err(failed(&home.directory))?;
        let (gathered, plan) = planned.map_err(|why| ReadOnlyError::Refused { name: name.clone(), why })?;
        let start = gathered.facts.log_start;
        let sight = see(&home, gathered, plan).map_err(failed(&home.directory))?;
        let is_of_one_piece = || {
            let (epochs, bases) = (epochs_in(&home)?, bases_in(&home)?);
            // A start that was lowered meanwhile, for a cut below it, would hide what has come there.
            Ok(sight.is_there(&home, &bases, epochs.as_ref(), Still::Whole)? && self.start_of(name)? == start)
        };
        let is_of_one_piece = is_of_one_piece().map_err(failed(&home.directory))?;
        Ok(if is_of_one_piece { Looked::At(sight) } else { Looked::Changed })
    }

    /// The log's start, as it is written down.
    fn start_of(&self, name: &TopicPartition) -> io::Result<Option<Offset>> {
        Ok(match read_offsets(self.disk.as_ref(), &self.directory.join(LOG_STARTS))? {
            Reading::Known { value, .. } => value.get(name).copied(),
            Reading::Missing | Reading::Damaged { .. } => None,
        })
    }

    /// Whether the machine has crashed since the directory was last written, by what its lock file says. It is read, and not taken.
    pub(super) fn machine(&self) -> Machine {
        let read = || {
            let file = self.disk.open(&self.directory.join(LOCK_FILE), Open::Read)?;
            let mut text = vec![0; usize::try_from(file.size()?.min(64 << 10)).unwrap_or_default()];
            let count = file.read_at(&mut text, 0)?;
            text.truncate(count);
            Ok::<_, io::Error>(text)
        };
        match read() {
            Ok(text) => LockText::parse(&text).machine(self.disk.as_ref(), &self.directory),
            // This very process has the directory open.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Machine::Same,
            Err(_) => Machine::OtherOrUnknown,
        }
    }

    /// Looks at what came behind a sight, reading nothing twice.
    pub(super) fn look_on(&self, name: &TopicPartition, sight: &Sight) -> Result<Since, ReadOnlyError> {
        let home = self.home(name);
        match self.try_look_on(&home, name, sight) {
            Ok(since) => Ok(since),
            Err(error) if is_gone(&error) => Ok(Since::Unknown),
            Err(error) => Err(failed(&home.directory)(error)),
        }
    }

    fn try_look_on(&self, home: &Home, name: &TopicPartition, sight: &Sight) -> io::Result<Since> {
        let Some(epochs) = epochs_in(home)? else { return Ok(Since::Unknown) };
        // A start that was raised over the sight takes with it where epochs began behind the sight.
        if epochs.starts().first().is_some_and(|first| first.start > sight.end) {
            return Ok(Since::Unknown);
        }
        let bases = bases_in(home)?;
        if !sight.damaged.is_empty() || !sight.is_there(home, &bases, Some(&epochs), Still::ButTheOldest)? {
            return Ok(Since::Unknown);
        }
        let start = self.start_of(name)?;
        let Some(mut on) = On::begin(home, sight, &bases)? else { return Ok(Since::Unknown) };
        loop {
            let next = bases.range(on.base..).nth(1).copied();
            if !on.look(self.config.batch_bytes_max, next.is_none())? {
                return Ok(Since::Unknown);
            }
            let Some(next) = next else { break };
            on.step_over(home, next)?;
        }
        if epochs_in(home)?.as_ref() != Some(&epochs) {
            return Ok(Since::Changed);
        }
        let first = on.segments.first().map_or(on.base, |segment| segment.base());
        let start = sight.start.max(first).max(start.unwrap_or(first)).min(on.end);
        if on.end == sight.end && on.segments.len() + 1 == sight.segments.len() && start == sight.start {
            return Ok(Since::Nothing);
        }
        let log = OffsetRange::new(start, on.end).expect("a start is never above the end");
        let believed = history(sight, &epochs, log);
        on.into_sight(home, sight, start, (believed, epochs)).map(Since::More)
    }
}

/// The epochs that were seen, and those that have begun behind.
fn history(sight: &Sight, now: &EpochHistory, log: OffsetRange) -> EpochHistory {
    let mut epochs = sight.epochs.clone();
    for entry in now.starts().iter().filter(|entry| entry.start >= sight.end) {
        epochs.assign(entry.epoch, entry.start);
    }
    epochs.truncate_from_start(log.start());
    // As recovery does: begun ones that are empty are none.
    epochs.truncate_from_end(log.end());
    epochs
}

pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
}

/// The log as it would be after the plan; nothing of it is carried out.
pub(super) fn see(home: &Home, mut gathered: Gathered, plan: Plan) -> io::Result<Sight> {
    let mut sizes: BTreeMap<Offset, u64> = BTreeMap::new();
    for file in &gathered.facts.files {
        if let Some((base, FileKind::Log)) = parse_file_name(&file.name) {
            let scanned = gathered.facts.scans.get(&base).map(|scan| scan.log_bytes);
            sizes.insert(base, scanned.unwrap_or(file.bytes));
        }
    }
    for step in &plan.steps {
        match step {
            Step::RemoveSegment { base, .. } => drop(sizes.remove(base)),
            Step::CutSegment { base, to_bytes, .. } => drop(sizes.insert(*base, *to_bytes)),
            Step::RemoveFile { .. }
            | Step::RemoveExchanged { .. }
            | Step::RenameFile { .. }
            | Step::SyncNames
            | Step::RewriteSegment { .. }
            | Step::CreateSegment { .. }
            | Step::RebuildIndex { .. }
            | Step::RewriteEpochs
            | Step::NoteGaps => {}
        }
    }
    let newest = sizes.pop_last();
    let sealed = |(base, bytes): (Offset, u64)| Arc::new(Segment::sealed(home.clone(), base, bytes));
    let mut segments: Vec<_> = sizes.into_iter().map(sealed).collect();
    if let Some((base, bytes)) = newest {
        let file = home.disk.open(&file_path(&home.directory, base, FileKind::Log), Open::Read)?;
        let scanned = gathered.scanned.remove(&base).map(|found| found.index);
        let mut index = scanned.unwrap_or_else(|| home.settings.empty(base));
        index.truncate(plan.end);
        segments.push(Arc::new(Segment::seen(home.clone(), base, &file, bytes, index)?));
    }
    for segment in &segments {
        let damaged = plan.damaged.iter().filter(|range| range.segment == segment.base());
        segment.set_examined(None, damaged.cloned().collect());
    }
    let last = segments.last().map(|segment| LastBatch::of(segment, plan.end)).transpose()?;
    let Plan { start, end, epochs, damaged, .. } = plan;
    Ok(Sight { segments, start, end, epochs, epochs_said: gathered.facts.epochs.file, damaged, last })
}

/// The way from the end of a sight to the end of the log.
struct On {
    segments: Vec<Arc<Segment>>,
    /// The segment in which the sight ended, as long as nothing has come in it.
    seen: Option<Arc<Segment>>,
    file: File,
    base: Offset,
    size: u64,
    end: Offset,
    index: ActiveIndex,
}

impl On {
    fn begin(home: &Home, sight: &Sight, bases: &BTreeSet<Offset>) -> io::Result<Option<Self>> {
        let Some((last, before)) = sight.segments.split_last() else { return Ok(None) };
        Ok(Some(Self {
            segments: before.iter().filter(|segment| bases.contains(&segment.base())).cloned().collect(),
            seen: Some(Arc::clone(last)),
            file: home.disk.open(&file_path(&home.directory, last.base(), FileKind::Log), Open::Read)?,
            base: last.base(),
            size: last.size(),
            end: sight.end,
            index: home.settings.empty(last.base()),
        }))
    }

    /// Reads what has come in this segment, up to the first that is no whole batch. `false` if anything follows behind that, be it in the
    /// next segment, or the last one is behind a gap, which is for recovery to judge.
    fn look(&mut self, batch_bytes_max: usize, is_last: bool) -> io::Result<bool> {
        let log_bytes = self.file.size()?;
        if log_bytes <= self.size {
            return Ok(true);
        }
        if let Some(index) = self.seen.take().and_then(|seen| seen.copy_of_active_index()) {
            self.index = index;
        }
        let place = Place { base: self.base, log_bytes, from: self.size, expected: self.end };
        let index = std::mem::replace(&mut self.index, ActiveIndex::new(self.base, 0, 0));
        let (context, idle) = (SegmentContext::default(), IdleHelpers::default());
        let found = scan_segment(&self.file, place, context, index, batch_bytes_max, &idle)?;
        if found.scan.leaps_at_end {
            return Ok(false);
        }
        let (size, end) = match found.scan.bad.first() {
            Some(bad) if bad.next.is_some() || !is_last => return Ok(false),
            Some(bad) => (bad.position, bad.expected),
            None => (found.scan.good_bytes, found.scan.end),
        };
        self.index = found.index;
        (self.size, self.end) = (size, end);
        Ok(true)
    }

    /// The next segment has begun: this one grows no more.
    fn step_over(&mut self, home: &Home, next: Offset) -> io::Result<()> {
        self.segments.push(Arc::new(Segment::sealed(home.clone(), self.base, self.size)));
        self.file = home.disk.open(&file_path(&home.directory, next, FileKind::Log), Open::Read)?;
        self.seen = None;
        (self.base, self.size, self.end) = (next, 0, self.end.max(next));
        self.index = home.settings.empty(next);
        Ok(())
    }

    fn into_sight(
        mut self,
        home: &Home,
        sight: &Sight,
        start: Offset,
        (epochs, said): (EpochHistory, EpochHistory),
    ) -> io::Result<Sight> {
        let end = self.end;
        let (last, batch) = if let Some(seen) = self.seen {
            (seen, sight.last.clone())
        } else {
            let last = Segment::seen(home.clone(), self.base, &self.file, self.size, self.index)?;
            let batch = LastBatch::of(&last, end)?;
            (Arc::new(last), Some(batch))
        };
        self.segments.push(last);
        Ok(Sight {
            segments: self.segments,
            start,
            end,
            epochs,
            epochs_said: Some(said),
            damaged: Vec::new(),
            last: batch,
        })
    }
}
