//! One log, compared with itself: what recovery would say of it, every batch of every segment, what was derived from them, and what the small
//! files say.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::finding::{Fault, Finding};
use super::witness::{Derived, Witness};
use super::{LogVerified, TRIES_MAX};
use crate::checkpoint::{
    CLEANER_OFFSETS, GAPS_NOTE, HIGH_WATERMARKS, LEADER_EPOCH_CHECKPOINT, OffsetCheckpoint,
    PARTITION_METADATA, Reading, read_epochs, read_offsets, read_partition_metadata,
};
use crate::log::Cleanup;
use crate::recovery::{
    EpochRun, Facts, Plan, RecoveryPoint, Refusal, SegmentContext, SegmentScan, Stop, SuspectReason,
};
use crate::segment::{FileKind, Home, IndexSettings, Segment, file_path, parse_file_name};
use crate::state::{EpochHistory, Removed};
use crate::store::found::Found;
use crate::store::gather::{Gathering, LogSource};
use crate::store::read_ahead::IdleHelpers;
use crate::store::read_only::look::{is_gone, see};
use crate::store::read_only::sight::Sight;
use crate::store::read_only::{ReadOnlyError, ReadOnlyStore, failed};
use crate::store::scan::{Place, scan_segment_seen};
use crate::units::{LeaderEpoch, Offset, TopicPartition};

/// What is known of a log before its batches are read.
struct Known {
    plan: Plan,
    sight: Sight,
    stop: Stop,
    recovery_point: RecoveryPoint,
    /// The snapshots in its directory, ascending.
    snapshots: Vec<Offset>,
    /// What the file of epochs says of the log, as far as it goes; `None` where there is none that can be read.
    epochs: Option<EpochHistory>,
    /// Whether a Kafka has written its files.
    is_kafkas: bool,
    is_compacted: bool,
}

impl Known {
    /// Whether whoever has left the log has left an index of aborted transactions where there are any.
    fn leaves_aborted(&self) -> bool {
        let is_proven = matches!(self.stop, Stop::Clean { facts: Some(mark) } if mark.aborted_crc.is_some());
        self.is_kafkas || is_proven
    }
}

impl ReadOnlyStore {
    /// Reads all of a log and compares everything in it with everything else; see the module's documentation. `watch` is told how many bytes
    /// have been read since it was last told. Blocks meanwhile.
    ///
    /// Where something is found the log is read a second time, and what is not found again was on its way.
    pub fn verify_log(
        &self,
        name: &TopicPartition,
        watch: &dyn Fn(u64),
    ) -> Result<LogVerified, ReadOnlyError> {
        let mut verified = self.verify_unchanged(name, watch)?;
        if !verified.findings.is_empty() {
            let again = self.verify_unchanged(name, &|_| {})?;
            verified.findings.retain(|finding| again.findings.contains(finding));
        }
        Ok(verified)
    }

    /// A file that is removed meanwhile is no fault: then all is looked at once more.
    fn verify_unchanged(
        &self,
        name: &TopicPartition,
        watch: &dyn Fn(u64),
    ) -> Result<LogVerified, ReadOnlyError> {
        for _ in 0..TRIES_MAX {
            match self.verify_once(name, watch) {
                Err(ReadOnlyError::Io { source, .. }) if is_gone(&source) => std::thread::yield_now(),
                verified => return verified,
            }
        }
        Err(ReadOnlyError::Unsettled { name: name.clone() })
    }

    fn verify_once(&self, name: &TopicPartition, watch: &dyn Fn(u64)) -> Result<LogVerified, ReadOnlyError> {
        let home = self.home(name);
        let io = |error| failed(&home.directory)(error);
        // Before the log is looked at, which grows.
        let high_watermark = self.offset_in(HIGH_WATERMARKS, name).map_err(io)?;
        let known = match self.know(name, &home)? {
            Ok(known) => known,
            Err(why) => {
                let finding = Finding::new(home.directory.to_path_buf(), Fault::Refused { why });
                return Ok(LogVerified::refused(name, finding));
            }
        };
        let mut findings = self.small_files(&home).map_err(io)?;
        findings.extend(of_plan(&known, &home));
        if let Some(expected) = high_watermark.filter(|high| *high > known.plan.end) {
            let (path, found) = (self.directory.join(HIGH_WATERMARKS), known.plan.end);
            findings
                .push(Finding::new(path, Fault::BelowHighWatermark { expected, found }).of(found, expected));
        }
        let (mut bytes, mut batches) = (0, 0);
        let segments = &known.sight.segments;
        let first = segments.first().map_or(known.plan.start, |first| first.base());
        let mut witness = Witness::new(&home, first, known.snapshots.clone(), watch);
        let (mut has_gaps, mut missing, mut runs) = (known.is_compacted, Vec::new(), Vec::new());
        for (number, segment) in segments.iter().enumerate() {
            let next = segments.get(number + 1).map_or(known.plan.end, |next| next.base());
            let scan = self.read_segment(&known, segment, next, &mut witness).map_err(io)?;
            has_gaps |= scan.has_gaps;
            bytes += scan.log_bytes;
            batches += scan.batches;
            findings.extend(of_scan(&home, &scan, known.plan.start, next));
            let end = scan.bad.iter().map(|bad| bad.next.unwrap_or(next)).fold(scan.end, Offset::max);
            if end.max(known.plan.start) < next {
                let path = file_path(&home.directory, segment.base(), FileKind::Log);
                let fault = Fault::Missing { expected: end, found: next };
                missing.push(Finding::new(path, fault).at(scan.log_bytes).of(end, next));
            }
            let path = file_path(&home.directory, scan.base, FileKind::Log);
            runs.extend(scan.runs.into_iter().map(|run| (path.clone(), run)));
        }
        if !has_gaps && self.config.log.cleanup == Cleanup::Delete {
            findings.extend(missing);
        }
        findings.extend(of_epochs(&home, &known, &runs));
        let epochs_file = home.directory.join(LEADER_EPOCH_CHECKPOINT);
        let has_epochs = runs.iter().any(|(_, run)| run.epoch.is_some());
        if has_epochs && known.epochs.is_none() && findings.iter().all(|finding| finding.path != epochs_file)
        {
            findings.push(Finding::new(epochs_file, Fault::NoFile));
        }
        let removed = if has_gaps { Removed::Any } else { Removed::None };
        findings.extend(witness.finish(known.plan.end, removed).map_err(io)?);
        for finding in &mut findings {
            finding.log = Some(name.clone());
        }
        let segments = segments.len();
        let Plan { start, end, .. } = known.plan;
        Ok(LogVerified { name: name.clone(), start, end, segments, bytes, batches, findings })
    }

    fn offset_in(&self, file: &str, name: &TopicPartition) -> io::Result<Option<Offset>> {
        let read: Reading<OffsetCheckpoint> = read_offsets(self.disk.as_ref(), &self.directory.join(file))?;
        Ok(read.known().and_then(|offsets| offsets.get(name).copied()))
    }

    fn know(&self, name: &TopicPartition, home: &Home) -> Result<Result<Known, Refusal>, ReadOnlyError> {
        let found = Found::read(self.disk.as_ref(), &self.directory, self.machine())
            .map_err(|(path, source)| ReadOnlyError::Io { path, source })?;
        if !found.entries.iter().any(|entry| entry.name == name.to_string()) {
            return Err(ReadOnlyError::NoSuchLog { name: name.clone() });
        }
        let directory = home.directory.to_path_buf();
        let source = LogSource { name: name.clone(), directory, trust: found.trust() };
        let batch_bytes_max = self.config.batch_bytes_max;
        let idle = IdleHelpers::default();
        let gathering = Gathering { home: home.clone(), source: &source, batch_bytes_max, idle: &idle };
        let planned = gathering.plan().map_err(failed(&home.directory))?;
        let (gathered, plan) = match planned {
            Ok(planned) => planned,
            Err(why) => return Ok(Err(why)),
        };
        let Facts { stop, recovery_point, .. } = gathered.facts;
        let names = gathered.facts.files.iter().filter_map(|file| parse_file_name(&file.name));
        let mut snapshots: Vec<Offset> =
            names.filter(|(_, kind)| *kind == FileKind::Snapshot).map(|(at, _)| at).collect();
        snapshots.retain(|at| *at <= plan.end && (is_settled(stop, recovery_point, *at)));
        snapshots.sort_unstable();
        let is_compacted = gathered.facts.files.iter().any(|file| file.name == GAPS_NOTE)
            || self.offset_in(CLEANER_OFFSETS, name).map_err(failed(&self.directory))?.is_some();
        let epochs = gathered.facts.epochs.file.clone().map(|mut epochs| {
            epochs.truncate_from_start(plan.start);
            epochs.truncate_from_end(plan.end);
            epochs
        });
        let is_kafkas = matches!(found.points, Reading::Known { guarded: false, .. });
        let sight = see(home, gathered, plan.clone()).map_err(failed(&home.directory))?;
        Ok(Ok(Known { plan, sight, stop, recovery_point, snapshots, epochs, is_kafkas, is_compacted }))
    }

    fn read_segment(
        &self,
        known: &Known,
        segment: &Arc<Segment>,
        next: Offset,
        witness: &mut Witness<'_>,
    ) -> io::Result<SegmentScan> {
        let (base, file) = (segment.base(), segment.file()?);
        let log_bytes = segment.size().min(file.size()?);
        // The segment that the recovery point lies in, or at the end of, may not have been sealed.
        let is_sealed = matches!(known.recovery_point, RecoveryPoint::Known(point) if next < point);
        let derived = if known.is_clean() || is_sealed {
            // From the oldest segment on they are deleted, the log of each last, and the start that says so may not be written down yet.
            let is_oldest = known.sight.segments.first().is_some_and(|first| first.base() == base);
            let may_be_going = is_oldest && (!known.is_clean() || next <= known.plan.start);
            Derived::Compared { indexes_needed: !may_be_going, aborted_needed: known.leaves_aborted() }
        } else {
            Derived::Unsettled
        };
        witness.begin(base, log_bytes, derived)?;
        let place = Place { base, log_bytes, from: 0, expected: base };
        let context = SegmentContext::examined(next, known.plan.epochs.clone());
        // Its index is of no use here, and stays empty.
        let index = IndexSettings { interval_bytes: u64::MAX, bytes_max: 0 }.empty(base);
        let idle = IdleHelpers::new(self.config.opening_threads);
        let batch_bytes_max = self.config.batch_bytes_max;
        let mut seen = |position, header: &_, bytes: &[u8]| witness.batch(position, header, bytes);
        let found = scan_segment_seen(&file, place, context, index, batch_bytes_max, &idle, &mut seen)?;
        witness.end(found.scan.bad.is_empty())?;
        Ok(found.scan)
    }

    fn small_files(&self, home: &Home) -> io::Result<Vec<Finding>> {
        let (disk, directory) = (self.disk.as_ref(), &home.directory);
        let metadata = directory.join(PARTITION_METADATA);
        let epochs = directory.join(LEADER_EPOCH_CHECKPOINT);
        let whys = [
            (read_partition_metadata(disk, &metadata)?.damage(), metadata),
            (read_epochs(disk, &epochs)?.damage(), epochs),
        ];
        Ok(whys.into_iter().filter_map(|(why, path)| Some(Finding::new(path, why?.into()))).collect())
    }
}

impl Known {
    fn is_clean(&self) -> bool {
        matches!(self.stop, Stop::Clean { .. })
    }
}

/// Whether everything below an offset was at rest when it was looked at: then what was derived of it is in its files.
fn is_settled(stop: Stop, point: RecoveryPoint, offset: Offset) -> bool {
    match (stop, point) {
        (Stop::Clean { .. }, _) => true,
        (Stop::Unclean, RecoveryPoint::Known(point)) => offset <= point,
        (Stop::Unclean, RecoveryPoint::NoEntry | RecoveryPoint::Unknown) => false,
    }
}

/// What recovery would find, apart from what is found in the segments.
fn of_plan(known: &Known, home: &Home) -> Vec<Finding> {
    let directory = home.directory.to_path_buf();
    let mut findings = Vec::new();
    for reason in &known.plan.suspect {
        let finding = |fault| Finding::new(directory.clone(), fault);
        let fault = Fault::Recovery { reason: reason.clone() };
        match reason {
            // That is so in every directory that was copied, or is in use.
            SuspectReason::MachineCrash | SuspectReason::RecoveryPointUnknown => {}
            SuspectReason::EndBelowRecoveryPoint { end, recovery_point } => {
                findings.push(finding(fault).of(*end, *recovery_point));
            }
            SuspectReason::StartAboveEnd { .. } | SuspectReason::MarkContradicted { .. } => {
                findings.push(finding(fault));
            }
            SuspectReason::Hole { segment, position, .. }
            | SuspectReason::LastBatchLost { segment, position, .. } => {
                let path = file_path(&home.directory, *segment, FileKind::Log);
                findings.push(Finding::new(path, fault).at(*position));
            }
            SuspectReason::Damaged { offsets } => {
                let in_segment = |segment: &Arc<Segment>| {
                    segment.base() <= offsets.start() && offsets.start() < known.plan.end
                };
                // Of what is left of the log, its segments say more.
                if !known.sight.segments.iter().any(in_segment) {
                    findings.push(finding(fault).of(offsets.start(), offsets.end()));
                }
            }
        }
    }
    if known.is_clean() && known.plan.cut_bytes() > 0 && findings.is_empty() {
        findings.push(Finding::new(directory, Fault::Torn { bytes: known.plan.cut_bytes() }));
    }
    findings
}

/// Bytes that are no batch, as far as anybody misses them; the segment's offsets end at `end`.
fn of_scan(home: &Home, scan: &SegmentScan, start: Offset, end: Offset) -> Vec<Finding> {
    let path = file_path(&home.directory, scan.base, FileKind::Log);
    let is_missed = |next: Offset, expected: Offset| next > start || (next == expected && next >= start);
    let bad =
        scan.bad.iter().filter(|bad| bad.next.map_or(end > start, |next| is_missed(next, bad.expected)));
    let finding = bad.map(|bad| {
        let (from, until, expected) = (bad.position, bad.until, bad.expected);
        let fault = Fault::NoBatch { from, until, looks: bad.kind, expected, found: bad.next };
        Finding::new(path.clone(), fault).at(from).of(expected, bad.next.unwrap_or(expected))
    });
    finding.collect()
}

/// Batches whose epoch is not that of the log there, or not that of the file.
fn of_epochs(home: &Home, known: &Known, runs: &[(PathBuf, EpochRun)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let start = known.plan.start;
    for (path, run) in runs.iter().filter(|(_, run)| run.offsets.end() > start) {
        let (from, until) = (run.offsets.start(), run.offsets.end());
        let at = from.max(start);
        if let Some(expected) = known.plan.epochs.epoch_at(at).filter(|known| Some(*known) != run.epoch) {
            let fault = Fault::Epoch { expected, found: run.epoch };
            findings.push(Finding::new(path.clone(), fault).at(run.position.0).of(from, until));
            continue;
        }
        let Some(epochs) = &known.epochs else { continue };
        let differs = |at: Offset, found: Option<LeaderEpoch>| {
            let path = home.directory.join(LEADER_EPOCH_CHECKPOINT);
            Finding::new(path, Fault::EpochFile { expected: run.epoch, found }).of(at, until)
        };
        let found = epochs.epoch_at(at);
        // Where the start was about to be raised, what lies below is forgotten first.
        let is_forgotten = found.is_none() && !known.is_clean();
        if found != run.epoch && !is_forgotten {
            findings.push(differs(at, found));
        } else {
            // No epoch begins among batches of one.
            let mut begun = epochs.starts().iter().filter(|entry| Some(entry.epoch) != run.epoch);
            let inside = begun.find(|entry| at < entry.start && entry.start < until);
            findings.extend(inside.map(|entry| differs(entry.start, Some(entry.epoch))));
        }
    }
    findings
}
