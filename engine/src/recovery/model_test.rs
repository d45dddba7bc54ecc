//! A partition's directory as a value, so that plans can be carried out, and interrupted, in memory.

use std::collections::BTreeMap;

use super::*;
use crate::batch::{Attributes, BatchHeader, Compression};
use crate::checkpoint::GAPS_NOTE;
use crate::state::{EpochHistory, EpochStart};
use crate::units::{LeaderEpoch, Offset, OffsetRange, Timestamp};

pub(super) const BATCH_BYTES: u64 = 100;

pub(super) fn at(offset: i64) -> Offset {
    Offset::new(offset).unwrap()
}

pub(super) fn range(start: i64, end: i64) -> OffsetRange {
    OffsetRange::new(at(start), at(end)).unwrap()
}

/// A stretch of a segment's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A whole batch of 100 bytes: base offset, how many, leader epoch.
    Batch(i64, i32, i32),
    Bad(u64, BadKind),
}
use Item::{Bad, Batch};

pub(super) fn header(base: i64, count: i32, epoch: i32) -> BatchHeader {
    BatchHeader {
        base_offset: at(base),
        size_bytes: usize::try_from(BATCH_BYTES).unwrap(),
        leader_epoch: LeaderEpoch::new(epoch),
        crc: u32::try_from(base).unwrap() + 7,
        attributes: Attributes::new(Compression::None),
        last_offset_delta: count - 1,
        base_timestamp: Timestamp::default(),
        max_timestamp: None,
        producer_id: None,
        producer_epoch: None,
        base_sequence: None,
        record_count: count,
    }
}

pub(super) fn bytes_of(items: &[Item]) -> u64 {
    items.iter().map(|item| if let Bad(bytes, _) = item { *bytes } else { BATCH_BYTES }).sum()
}

pub(super) fn scan(base: i64, items: &[Item]) -> SegmentScan {
    scan_in(base, items, SegmentContext::default())
}

fn scan_in(base: i64, items: &[Item], context: SegmentContext) -> SegmentScan {
    let mut scanner = SegmentScanner::new(at(base), bytes_of(items), 0, at(base), context);
    let mut position = 0;
    for item in items {
        match item {
            Batch(base, count, epoch) => {
                let _ = scanner.batch(position, &header(*base, *count, *epoch));
            }
            Bad(_, kind) => scanner.bad(position, *kind),
        }
        position += bytes_of(&[*item]);
    }
    scanner.finish()
}

/// A partition's directory, and what is known around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directory {
    pub(super) segments: BTreeMap<i64, Vec<Item>>,
    pub(super) others: Vec<(String, u64)>,
    pub(super) recovery_point: RecoveryPoint,
    pub(super) log_start: Option<Offset>,
    pub(super) stop: Stop,
    pub(super) machine: Machine,
    pub(super) epochs: Option<EpochHistory>,
    pub(super) gaps: Gaps,
}

impl Directory {
    /// After a kill on the same machine; nothing was synced for certain.
    pub(super) fn new(segments: &[(i64, &[Item])]) -> Self {
        Self {
            segments: segments.iter().map(|(base, items)| (*base, items.to_vec())).collect(),
            others: Vec::new(),
            recovery_point: RecoveryPoint::Known(Offset::ZERO),
            log_start: None,
            stop: Stop::Unclean,
            machine: Machine::Same,
            epochs: None,
            gaps: Gaps::Legal,
        }
    }

    pub(super) fn synced_to(mut self, offset: i64) -> Self {
        self.recovery_point = RecoveryPoint::Known(at(offset));
        self
    }

    pub(super) fn after_power_loss(mut self) -> Self {
        self.machine = Machine::OtherOrUnknown;
        self
    }

    pub(super) fn with(mut self, name: &str, bytes: u64) -> Self {
        self.others.push((name.to_owned(), bytes));
        self
    }

    pub(super) fn files(&self) -> Vec<FileFact> {
        let mut files = Vec::new();
        for (base, items) in &self.segments {
            files.push(FileFact { name: format!("{base:020}.log"), bytes: bytes_of(items) });
        }
        files.extend(self.others.iter().map(|(name, bytes)| FileFact { name: name.clone(), bytes: *bytes }));
        files
    }

    pub(super) fn facts(&self) -> Facts {
        let orders = plan_scan(&self.files(), self.recovery_point, self.stop, self.epochs.is_some()).unwrap();
        let batches = self.segments.values().flatten().filter_map(|item| match item {
            Batch(base, count, epoch) => Some(header(*base, *count, *epoch)),
            Bad(..) => None,
        });
        let batches: Vec<BatchHeader> = batches.collect();
        let witnesses = self.epochs.iter().flat_map(EpochHistory::starts).filter_map(|entry| {
            let found = batches.iter().find(|batch| batch.last_offset() >= entry.start)?;
            Some(EpochWitness { start: entry.start, base: found.base_offset, epoch: found.leader_epoch })
        });
        let mut facts = Facts {
            files: self.files(),
            gaps: self.gaps,
            recovery_point: self.recovery_point,
            log_start: self.log_start,
            start_guard: StartGuard::Guarded,
            stop: self.stop,
            machine: self.machine,
            epochs: EpochFacts { file: self.epochs.clone(), witnesses: witnesses.collect() },
            scans: BTreeMap::new(),
        };
        for base in orders.iter().map(|order| order.base) {
            let context = SegmentContext::of(&facts, base);
            facts.scans.insert(base, scan_in(base.value(), &self.segments[&base.value()], context));
        }
        facts
    }

    pub(super) fn plan(&self) -> Plan {
        plan_recovery(&self.facts()).unwrap()
    }

    pub(super) fn apply(&mut self, step: &Step, plan: &Plan) {
        match step {
            Step::RemoveFile { name } => self.others.retain(|(other, _)| other != name),
            Step::RemoveSegment { base, aside } => {
                let items = self.segments.remove(&base.value()).unwrap_or_default();
                self.keep(aside.as_ref(), bytes_of(&items));
            }
            Step::CutSegment { base, from_bytes, to_bytes, aside } => {
                let items = self.segments.get_mut(&base.value()).unwrap();
                assert_eq!(bytes_of(items), *from_bytes);
                while bytes_of(items) > *to_bytes {
                    items.pop();
                }
                assert_eq!(bytes_of(items), *to_bytes, "cut between batches");
                self.keep(aside.as_ref(), from_bytes - to_bytes);
            }
            Step::RewriteSegment { base, .. } => assert!(self.segments.contains_key(&base.value())),
            Step::CreateSegment { base } => {
                self.segments.insert(base.value(), Vec::new());
            }
            Step::RebuildIndex { base } => {
                assert!(self.segments.contains_key(&base.value()));
                for (suffix, bytes) in [("index", 8), ("timeindex", 12)] {
                    let name = format!("{:020}.{suffix}", base.value());
                    self.others.retain(|(other, _)| *other != name);
                    self.others.push((name, bytes));
                }
            }
            Step::RemoveExchanged { .. } | Step::RenameFile { .. } | Step::SyncNames => {
                panic!("{step} is done before")
            }
            Step::RewriteEpochs => self.epochs = Some(plan.epochs.clone()),
            Step::NoteGaps => {
                self.keep(Some(&GAPS_NOTE.to_owned()), 0);
                self.gaps = Gaps::Legal;
            }
        }
    }

    pub(super) fn keep(&mut self, aside: Option<&String>, bytes: u64) {
        if let Some(name) = aside {
            self.others.retain(|(other, _)| other != name);
            self.others.push((name.clone(), bytes));
        }
    }

    pub(super) fn recovered(&self) -> (Self, Plan) {
        let (mut directory, plan) = (self.clone(), self.plan());
        for step in &plan.steps {
            directory.apply(step, &plan);
        }
        (directory, plan)
    }

    pub(super) fn logs(&self) -> Vec<(i64, &[Item])> {
        self.segments.iter().map(|(base, items)| (*base, items.as_slice())).collect()
    }
}

pub(super) fn epochs(starts: &[(i32, i64)]) -> EpochHistory {
    EpochHistory::from_starts(
        starts
            .iter()
            .map(|(epoch, start)| EpochStart { epoch: LeaderEpoch::new(*epoch).unwrap(), start: at(*start) }),
    )
}
