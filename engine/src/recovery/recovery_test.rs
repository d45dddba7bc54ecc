//! Which facts lead to which plan, over directories that are values, so that every crash between two steps can be played.

use std::collections::BTreeMap;

use super::*;
use crate::batch::{Attributes, BatchHeader, Compression};
use crate::checkpoint::CleanPartition;
use crate::state::{EpochHistory, EpochStart};
use crate::units::{LeaderEpoch, Offset, OffsetRange, Timestamp};

const BATCH_BYTES: u64 = 100;

fn at(offset: i64) -> Offset {
    Offset::new(offset).unwrap()
}

fn range(start: i64, end: i64) -> OffsetRange {
    OffsetRange::new(at(start), at(end)).unwrap()
}

/// A stretch of a segment's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    /// A whole batch of 100 bytes: base offset, how many, leader epoch.
    Batch(i64, i32, i32),
    Bad(u64, BadKind),
}
use BadKind::{Corrupt, Torn, Zeros};
use Item::{Bad, Batch};

fn header(base: i64, count: i32, epoch: i32) -> BatchHeader {
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

fn bytes_of(items: &[Item]) -> u64 {
    items.iter().map(|item| if let Bad(bytes, _) = item { *bytes } else { BATCH_BYTES }).sum()
}

fn scan(base: i64, items: &[Item]) -> SegmentScan {
    let mut scanner = SegmentScanner::new(at(base), bytes_of(items), 0, at(base));
    let mut position = 0;
    for item in items {
        match item {
            Batch(base, count, epoch) => {
                scanner.batch(position, &header(*base, *count, *epoch));
            }
            Bad(_, kind) => scanner.bad(position, *kind),
        }
        position += bytes_of(&[*item]);
    }
    scanner.finish()
}

/// A partition's directory, and what is known around it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Directory {
    segments: BTreeMap<i64, Vec<Item>>,
    others: Vec<(String, u64)>,
    recovery_point: RecoveryPoint,
    log_start: Option<Offset>,
    stop: Stop,
    machine: Machine,
    epochs: Option<EpochHistory>,
}

impl Directory {
    /// After a kill on the same machine; nothing was synced for certain.
    fn new(segments: &[(i64, &[Item])]) -> Self {
        Self {
            segments: segments.iter().map(|(base, items)| (*base, items.to_vec())).collect(),
            others: Vec::new(),
            recovery_point: RecoveryPoint::Known(Offset::ZERO),
            log_start: None,
            stop: Stop::Unclean,
            machine: Machine::Same,
            epochs: None,
        }
    }

    fn synced_to(mut self, offset: i64) -> Self {
        self.recovery_point = RecoveryPoint::Known(at(offset));
        self
    }

    fn after_power_loss(mut self) -> Self {
        self.machine = Machine::OtherOrUnknown;
        self
    }

    fn with(mut self, name: &str, bytes: u64) -> Self {
        self.others.push((name.to_owned(), bytes));
        self
    }

    fn files(&self) -> Vec<FileFact> {
        let mut files = Vec::new();
        for (base, items) in &self.segments {
            files.push(FileFact { name: format!("{base:020}.log"), bytes: bytes_of(items) });
        }
        files.extend(self.others.iter().map(|(name, bytes)| FileFact { name: name.clone(), bytes: *bytes }));
        files
    }

    fn facts(&self) -> Facts {
        let orders = plan_scan(&self.files(), self.recovery_point, self.stop, self.epochs.is_some()).unwrap();
        let scans = orders
            .iter()
            .map(|order| (order.base, scan(order.base.value(), &self.segments[&order.base.value()])));
        let batches = self.segments.values().flatten().filter_map(|item| match item {
            Batch(base, count, epoch) => Some(header(*base, *count, *epoch)),
            Bad(..) => None,
        });
        let batches: Vec<BatchHeader> = batches.collect();
        let witnesses = self.epochs.iter().flat_map(EpochHistory::starts).filter_map(|entry| {
            let found = batches.iter().find(|batch| batch.last_offset() >= entry.start)?;
            Some(EpochWitness { start: entry.start, base: found.base_offset, epoch: found.leader_epoch })
        });
        Facts {
            files: self.files(),
            recovery_point: self.recovery_point,
            log_start: self.log_start,
            stop: self.stop,
            machine: self.machine,
            epochs: EpochFacts { file: self.epochs.clone(), witnesses: witnesses.collect() },
            scans: scans.collect(),
        }
    }

    fn plan(&self) -> Plan {
        plan_recovery(&self.facts()).unwrap()
    }

    fn apply(&mut self, step: &Step, plan: &Plan) {
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
            Step::RewriteEpochs => self.epochs = Some(plan.epochs.clone()),
        }
    }

    fn keep(&mut self, aside: Option<&String>, bytes: u64) {
        if let Some(name) = aside {
            self.others.retain(|(other, _)| other != name);
            self.others.push((name.clone(), bytes));
        }
    }

    fn recovered(&self) -> (Self, Plan) {
        let (mut directory, plan) = (self.clone(), self.plan());
        for step in &plan.steps {
            directory.apply(step, &plan);
        }
        (directory, plan)
    }

    fn logs(&self) -> Vec<(i64, &[Item])> {
        self.segments.iter().map(|(base, items)| (*base, items.as_slice())).collect()
    }
}

fn cuts(plan: &Plan) -> Vec<&Step> {
    let destroys = |step: &&Step| matches!(step, Step::CutSegment { .. } | Step::RemoveSegment { .. });
    plan.steps.iter().filter(destroys).collect()
}

fn epochs(starts: &[(i32, i64)]) -> EpochHistory {
    EpochHistory::from_starts(
        starts
            .iter()
            .map(|(epoch, start)| EpochStart { epoch: LeaderEpoch::new(*epoch).unwrap(), start: at(*start) }),
    )
}

const THREE: [Item; 3] = [Batch(0, 4, 0), Batch(4, 4, 0), Batch(8, 4, 0)];

#[test]
fn a_whole_log_after_a_kill_keeps_everything_and_its_recovery_point() {
    let (directory, plan) = Directory::new(&[(0, &THREE)]).synced_to(4).recovered();
    assert_eq!((plan.start, plan.end, plan.recovery_point), (at(0), at(12), at(4)));
    assert!(plan.suspect.is_empty() && plan.damaged.is_empty() && cuts(&plan).is_empty(), "{plan}");
    assert_eq!(directory.logs(), [(0, THREE.as_slice())]);
    assert_eq!(plan.epochs, epochs(&[(0, 0)]));
}

#[test]
fn a_torn_tail_is_cut_on_every_start() {
    for bad in [Bad(40, Torn), Bad(17, Zeros), Bad(18, Zeros), Bad(3, Torn)] {
        let items = [THREE.as_slice(), &[bad]].concat();
        for stop in [Stop::Unclean, Stop::Clean { facts: None }] {
            let mut directory = Directory::new(&[(0, &items)]).synced_to(12);
            directory.stop = stop;
            let (directory, plan) = directory.recovered();
            assert_eq!(directory.logs(), [(0, THREE.as_slice())], "{bad:?} {stop:?}");
            assert_eq!((plan.end, plan.cut_bytes()), (at(12), bytes_of(&[bad])));
            assert!(plan.suspect.is_empty(), "{plan}");
        }
    }
}

#[test]
fn a_torn_tail_after_power_loss_is_cut_and_the_replica_is_suspect() {
    let items = [Batch(0, 4, 0), Batch(4, 4, 0), Bad(100, Corrupt)];
    let (directory, plan) = Directory::new(&[(0, &items)]).synced_to(4).after_power_loss().recovered();
    assert_eq!(directory.logs(), [(0, &items[..2])]);
    assert_eq!(plan.suspect, [SuspectReason::MachineCrash]);
    assert_eq!((plan.end, plan.has_hole()), (at(8), false));
}

#[test]
fn a_whole_but_wrong_last_batch_that_no_crash_explains_is_kept_aside() {
    let items = [Batch(0, 4, 0), Bad(100, Corrupt)];
    let (directory, plan) = Directory::new(&[(0, &items)]).recovered();
    assert_eq!(directory.logs(), [(0, &items[..1])]);
    assert!(matches!(plan.suspect[..], [SuspectReason::LastBatchLost { position: 100, .. }]), "{plan}");
    assert!(directory.others.contains(&("00000000000000000000-100.lost".to_owned(), 100)));
}

#[test]
fn a_hole_after_power_loss_is_cut_with_all_behind_it_kept_aside() {
    let first = [Batch(0, 4, 0), Bad(200, Zeros), Batch(12, 4, 0)];
    let second = [Batch(16, 4, 0)];
    let directory = Directory::new(&[(0, &first), (16, &second)]).synced_to(4).after_power_loss();
    let (recovered, plan) = directory.recovered();
    assert_eq!(recovered.logs(), [(0, &first[..1])]);
    let hole = SuspectReason::Hole { segment: at(0), position: 100, from: at(4) };
    assert_eq!(plan.suspect, [SuspectReason::MachineCrash, hole]);
    assert!(plan.damaged.is_empty() && plan.has_hole());
    assert!(matches!(cuts(&plan)[..], [Step::RemoveSegment { .. }, Step::CutSegment { .. }]), "last first");
    let kept: Vec<&str> = recovered.others.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(kept[..2], ["00000000000000000016-0.lost", "00000000000000000000-100.lost"]);
}

#[test]
fn after_power_loss_a_gap_between_unsynced_segments_is_a_hole() {
    let directory = Directory::new(&[(0, &[Batch(0, 4, 0)]), (8, &[Batch(8, 4, 0)])]);
    assert_eq!(directory.plan().end, at(12), "after a kill it is what compaction left");
    assert_eq!(
        directory.clone().synced_to(8).after_power_loss().plan().end,
        at(12),
        "it was synced like that"
    );
    let (recovered, plan) = directory.after_power_loss().recovered();
    assert_eq!((plan.end, recovered.segments.len()), (at(4), 1));
    assert!(plan.has_hole());
}

#[test]
fn bad_bytes_below_the_recovery_point_are_damage_and_nothing_is_cut() {
    for (items, offsets, bytes) in [
        (vec![Batch(0, 4, 0), Bad(100, Corrupt), Batch(8, 4, 0)], range(4, 8), (100, 200)),
        (vec![Bad(100, Zeros), Batch(4, 4, 0), Batch(8, 4, 0)], range(0, 4), (0, 100)),
        (vec![Batch(0, 4, 0), Batch(4, 4, 0), Bad(100, Corrupt)], range(8, 12), (200, 300)),
        (vec![Batch(0, 4, 0), Batch(4, 4, 0), Bad(60, Torn)], range(8, 12), (200, 260)),
    ] {
        for machine in [Machine::Same, Machine::OtherOrUnknown] {
            let mut directory = Directory::new(&[(0, &items)]).synced_to(12);
            directory.machine = machine;
            let (recovered, plan) = directory.recovered();
            assert_eq!(recovered.logs(), [(0, items.as_slice())]);
            assert_eq!(plan.damaged, [DamagedRange { segment: at(0), offsets, bytes }]);
            assert_eq!((plan.end, plan.recovery_point), (at(12), at(12)));
            assert!(plan.suspect.contains(&SuspectReason::Damaged { offsets }), "{plan}");
        }
    }
}

#[test]
fn after_a_kill_bad_bytes_with_batches_behind_them_are_damage_not_a_hole() {
    let first = [Batch(0, 4, 0), Bad(100, Zeros)];
    let (recovered, plan) = Directory::new(&[(0, &first), (8, &[Batch(8, 4, 0)])]).recovered();
    assert_eq!(recovered.segments.len(), 2);
    assert_eq!(plan.damaged[0].offsets, range(4, 8));
    assert_eq!((plan.end, plan.recovery_point), (at(12), at(0)));
}

#[test]
fn several_damaged_ranges_are_all_found() {
    let items = [Bad(10, Corrupt), Batch(2, 2, 0), Bad(20, Zeros), Batch(6, 2, 0), Batch(8, 2, 0)];
    let plan = Directory::new(&[(0, &items)]).synced_to(10).plan();
    let ranges: Vec<OffsetRange> = plan.damaged.iter().map(|damaged| damaged.offsets).collect();
    assert_eq!(ranges, [range(0, 2), range(4, 6)]);
}

#[test]
fn an_unknown_recovery_point_cuts_only_the_last_segment() {
    let sealed = [Batch(0, 4, 0), Bad(100, Corrupt), Batch(8, 2, 0)];
    let last = [Batch(10, 2, 0), Bad(100, Corrupt), Batch(14, 2, 0)];
    let mut directory = Directory::new(&[(0, &sealed), (10, &last)]).after_power_loss();
    directory.recovery_point = RecoveryPoint::Unknown;
    let (recovered, plan) = directory.recovered();
    assert_eq!(recovered.logs(), [(0, sealed.as_slice()), (10, &last[..1])]);
    assert_eq!(plan.damaged[0].offsets, range(4, 8));
    assert!(plan.suspect.contains(&SuspectReason::RecoveryPointUnknown));
    assert_eq!(plan.recovery_point, at(0));
}

#[test]
fn a_new_log_without_a_checkpoint_entry_is_not_suspect() {
    let mut directory = Directory::new(&[(0, &THREE)]);
    directory.recovery_point = RecoveryPoint::NoEntry;
    let plan = directory.plan();
    assert!(plan.suspect.is_empty(), "{plan}");
    assert_eq!((plan.end, plan.recovery_point), (at(12), at(0)));
}

#[test]
fn an_end_below_the_recovery_point_is_told_and_lowers_it() {
    let plan = Directory::new(&[(0, &THREE)]).synced_to(20).plan();
    assert_eq!((plan.end, plan.recovery_point), (at(12), at(12)));
    let reason = SuspectReason::EndBelowRecoveryPoint { end: at(12), recovery_point: at(20) };
    assert_eq!(plan.suspect, [reason]);
}

fn mark(end: i64, crc: Option<u32>, log_bytes: u64) -> Stop {
    Stop::Clean { facts: Some(CleanPartition { end: at(end), last_batch_crc: crc, log_bytes }) }
}

#[test]
fn a_mark_that_fits_proves_the_log() {
    let mut directory = Directory::new(&[(0, &THREE)]).synced_to(4).after_power_loss();
    directory.stop = mark(12, Some(15), 300);
    let plan = directory.plan();
    assert!(plan.suspect.is_empty(), "{plan}");
    assert_eq!(plan.recovery_point, at(12), "all was synced at the stop");
    for contradiction in [mark(16, Some(15), 300), mark(12, Some(16), 300), mark(12, Some(15), 400)] {
        directory.stop = contradiction;
        let plan = directory.plan();
        assert!(matches!(plan.suspect[..], [SuspectReason::MarkContradicted { .. }]), "{plan}");
        assert_eq!((plan.end, plan.recovery_point), (at(12), at(4)));
    }
}

#[test]
fn what_is_bad_below_the_end_of_the_mark_is_damage() {
    let items = [Batch(0, 4, 0), Batch(4, 4, 0), Bad(100, Corrupt)];
    let mut directory = Directory::new(&[(0, &items)]).synced_to(0);
    directory.stop = mark(12, Some(15), 300);
    let (recovered, plan) = directory.recovered();
    assert_eq!(recovered.logs(), [(0, items.as_slice())]);
    assert_eq!((plan.end, plan.damaged[0].offsets), (at(12), range(8, 12)));
}

#[test]
fn only_segments_from_the_recovery_point_on_are_read() {
    use ScanDepth::{Epochs, Tail, Whole};
    let items = |base| [Batch(base, 4, 0)];
    let (a, b, c) = (items(0), items(4), items(8));
    let files = Directory::new(&[(0, &a), (4, &b), (8, &c)]).files();
    let orders = |point, stop, epochs_known| {
        let orders = plan_scan(&files, point, stop, epochs_known).unwrap();
        orders.into_iter().map(|order| (order.base.value(), order.depth)).collect::<Vec<_>>()
    };
    let known = |offset| RecoveryPoint::Known(at(offset));
    assert_eq!(orders(known(5), Stop::Unclean, true), [(4, Whole), (8, Whole)]);
    assert_eq!(orders(known(12), Stop::Unclean, true), [(8, Whole)]);
    assert_eq!(orders(known(12), Stop::Unclean, false), [(0, Epochs), (4, Epochs), (8, Whole)]);
    assert_eq!(orders(RecoveryPoint::NoEntry, Stop::Unclean, true), [(0, Whole), (4, Whole), (8, Whole)]);
    assert_eq!(orders(RecoveryPoint::Unknown, Stop::Unclean, true).len(), 3);
    assert_eq!(orders(known(12), Stop::Clean { facts: None }, true), [(8, Tail)]);
    assert_eq!(orders(known(4), Stop::Clean { facts: None }, true), [(4, Whole), (8, Tail)]);
    assert_eq!(orders(known(0), mark(12, None, 0), true), [(8, Tail)]);
    assert_eq!(orders(known(0), mark(12, None, 0), false), [(0, Epochs), (4, Epochs), (8, Tail)]);
}

#[test]
fn a_segment_that_was_not_read_is_no_ground_for_a_plan() {
    let mut facts = Directory::new(&[(0, &THREE)]).facts();
    facts.scans.clear();
    assert_eq!(plan_recovery(&facts), Err(Refusal::NotScanned { base: at(0) }));
}

#[test]
fn an_interrupted_compaction_is_left_alone() {
    let name = "00000000000000000000.log.swap";
    let files = Directory::new(&[(0, &THREE)]).with(name, 10).files();
    let refused = plan_scan(&files, RecoveryPoint::NoEntry, Stop::Unclean, true);
    assert_eq!(refused, Err(Refusal::UnfinishedCompaction { file: name.to_owned() }));
}

#[test]
fn a_log_that_ends_below_its_start_begins_anew_there() {
    let mut directory = Directory::new(&[(0, &[Batch(0, 2, 0), Bad(20, Torn)]), (4, &[])]);
    directory.log_start = Some(at(8));
    directory.epochs = Some(epochs(&[(0, 0)]));
    let (recovered, plan) = directory.recovered();
    assert_eq!(recovered.logs(), [(8, [].as_slice())]);
    assert_eq!((plan.start, plan.end), (at(8), at(8)));
    assert!(plan.damaged.is_empty());
}

#[test]
fn a_hole_below_the_start_costs_nothing_above_it() {
    let items = [Batch(0, 4, 0), Bad(100, Zeros), Batch(8, 4, 0), Batch(12, 4, 0)];
    let mut directory = Directory::new(&[(0, &items)]).after_power_loss();
    directory.log_start = Some(at(9));
    let (recovered, plan) = directory.recovered();
    assert_eq!(recovered.logs(), [(0, items.as_slice())]);
    assert_eq!((plan.start, plan.end), (at(9), at(16)));
    assert_eq!((plan.damaged.as_slice(), plan.suspect), ([].as_slice(), vec![SuspectReason::MachineCrash]));
    directory.log_start = Some(at(6));
    assert_eq!(directory.plan().damaged[0].offsets, range(4, 8));
}

#[test]
fn an_empty_directory_gets_a_segment() {
    let (recovered, plan) = Directory::new(&[]).recovered();
    assert_eq!((recovered.logs(), plan.end), (vec![(0, [].as_slice())], at(0)));
    let mut raised = Directory::new(&[]).synced_to(30);
    raised.log_start = Some(at(20));
    let plan = raised.plan();
    assert_eq!((plan.start, plan.end, plan.recovery_point), (at(20), at(20), at(20)));
    assert!(!plan.suspect.is_empty(), "the log had reached 30");
}

#[test]
fn an_empty_last_segment_names_the_end() {
    let plan = Directory::new(&[(0, &THREE), (12, &[])]).after_power_loss().plan();
    assert_eq!(plan.end, at(12));
    assert!(cuts(&plan).is_empty());
}

#[test]
fn leftovers_go_and_strangers_stay() {
    let (recovered, plan) = Directory::new(&[(0, &THREE)])
        .with("00000000000000000000.log.deleted", 5)
        .with("00000000000000000000.timeindex.cleaned", 5)
        .with("00000000000000000007.index", 8)
        .with("00000000000000000007.txnindex", 34)
        .with("00000000000000000012.snapshot", 10)
        .with("00000000000000000008.snapshot", 10)
        .with("00000000000000000013.snapshot", 10)
        .with("00000000000000000000-9.lost", 1)
        .with("partition.metadata", 43)
        .with("notes", 1)
        .recovered();
    let mut names: Vec<&str> = recovered.others.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "00000000000000000000-9.lost",
            "00000000000000000000.index",
            "00000000000000000000.timeindex",
            "00000000000000000008.snapshot",
            "00000000000000000012.snapshot",
            "notes",
            "partition.metadata",
        ]
    );
    assert_eq!(plan.snapshots, [at(12), at(8)]);
}

#[test]
fn indexes_are_made_again_where_they_cannot_be_right() {
    let sealed = [Batch(0, 4, 0)];
    let rebuilt = |index: Option<u64>, times: Option<u64>| {
        let mut directory = Directory::new(&[(0, &sealed), (4, &[])]).synced_to(4);
        for (name, bytes) in [("index", index), ("timeindex", times)] {
            if let Some(bytes) = bytes {
                directory = directory.with(&format!("{:020}.{name}", 0), bytes);
            }
        }
        directory.plan().steps.contains(&Step::RebuildIndex { base: at(0) })
    };
    assert!(!rebuilt(Some(0), Some(12)));
    assert!(rebuilt(None, Some(12)) && rebuilt(Some(0), None), "missing");
    assert!(rebuilt(Some(2), Some(12)) && rebuilt(Some(8), Some(13)), "not whole entries");
    assert!(rebuilt(Some(8), Some(0)), "times unknown");
}

#[test]
fn the_epoch_checkpoint_is_believed_entry_by_entry() {
    let old = [Batch(0, 4, 1), Batch(4, 4, 2)];
    let new = [Batch(8, 4, 3), Batch(12, 4, 5)];
    let plan = |file: Option<&[(i32, i64)]>| {
        let mut directory = Directory::new(&[(0, &old), (8, &new)]).synced_to(8);
        directory.epochs = file.map(epochs);
        let (recovered, plan) = directory.recovered();
        assert_eq!(recovered.epochs.as_ref(), Some(&plan.epochs));
        (plan.epochs.clone(), plan.steps.contains(&Step::RewriteEpochs))
    };
    let right = epochs(&[(1, 0), (2, 4), (3, 8), (5, 12)]);
    assert_eq!(plan(Some(&[(1, 0), (2, 4), (3, 8), (5, 12)])), (right.clone(), false));
    assert_eq!(plan(Some(&[(1, 0), (2, 4)])), (right.clone(), true), "the file is older than the log");
    assert_eq!(
        plan(Some(&[(1, 0), (2, 4), (3, 8), (4, 12), (6, 16)])),
        (right.clone(), true),
        "a lie and an empty epoch"
    );
    assert_eq!(
        plan(Some(&[(1, 0), (3, 4)])),
        (epochs(&[(1, 0), (3, 8), (5, 12)]), true),
        "a lie about what is not read"
    );
    assert_eq!(plan(None), (right, true), "made from the batches");
}

#[test]
fn epochs_follow_a_cut_and_a_raised_start() {
    let items = [Batch(0, 4, 1), Batch(4, 4, 2), Batch(8, 4, 3), Bad(10, Zeros), Batch(16, 4, 4)];
    let mut directory = Directory::new(&[(0, &items)]).after_power_loss();
    directory.log_start = Some(at(6));
    directory.epochs = Some(epochs(&[(1, 0), (2, 4), (3, 8), (4, 16)]));
    let plan = directory.plan();
    assert_eq!((plan.start, plan.end), (at(6), at(12)));
    assert_eq!(plan.epochs, epochs(&[(2, 6), (3, 8)]));
}

#[test]
fn an_epoch_whose_batches_compaction_removed_is_kept() {
    let items = [Batch(0, 4, 1), Batch(20, 4, 3)];
    let mut directory = Directory::new(&[(0, &items), (30, &[Batch(30, 1, 3)])]).synced_to(30);
    directory.epochs = Some(epochs(&[(1, 0), (2, 10), (3, 15)]));
    assert_eq!(directory.plan().epochs, epochs(&[(1, 0), (2, 10), (3, 15)]));
}

#[test]
fn an_epoch_that_both_neighbours_and_the_file_contradict_is_a_damaged_batch() {
    let items = [Batch(0, 4, 1), Batch(4, 4, 1), Batch(8, 4, 77), Batch(12, 4, 1), Batch(16, 4, 2)];
    let mut directory = Directory::new(&[(0, &items)]);
    directory.epochs = Some(epochs(&[(1, 0), (2, 16)]));
    let plan = directory.plan();
    assert_eq!(plan.epochs, epochs(&[(1, 0), (2, 16)]));
    assert_eq!(plan.damaged, [DamagedRange { segment: at(0), offsets: range(8, 12), bytes: (200, 300) }]);
    assert_eq!(plan.end, at(20));
}

#[test]
fn a_batch_out_of_its_place_is_bad_and_so_is_one_that_leapt() {
    let lower = scan(0, &[Batch(0, 4, 0), Batch(2, 4, 0), Batch(8, 4, 0)]);
    let expected =
        BadBytes { position: 100, until: 200, expected: at(4), next: Some(at(8)), kind: BadKind::Disorder };
    assert_eq!((lower.bad, lower.end), (vec![expected], at(12)));

    let leapt = scan(0, &[Batch(0, 4, 0), Batch(1_000_004, 4, 0), Batch(8, 4, 0)]);
    assert_eq!((leapt.bad, leapt.end), (vec![expected], at(12)));
    assert_eq!(leapt.runs.len(), 1);
    assert_eq!((leapt.runs[0].batches, leapt.runs[0].offsets), (2, range(0, 12)));

    let twice = scan(0, &[Batch(0, 4, 0), Batch(0, 4, 0)]);
    assert_eq!((twice.bad[0].next, twice.end, twice.good_bytes), (None, at(4), 100));
    let below = scan(10, &[Batch(5, 2, 0), Batch(10, 1, 0)]);
    assert_eq!((below.bad[0].expected, below.end), (at(10), at(11)));
    let far = scan(0, &[Batch(i64::from(i32::MAX), 1, 0), Batch(i64::from(i32::MAX) + 1, 1, 0)]);
    assert_eq!((far.bad.len(), far.end), (1, at(i64::from(i32::MAX) + 1)));
}

#[test]
fn a_plan_can_be_read_by_people_and_programs() {
    let items = [Batch(0, 4, 0), Bad(200, Zeros), Batch(12, 4, 0)];
    let plan = Directory::new(&[(0, &items)]).after_power_loss().plan();
    assert_eq!(
        plan.to_string(),
        "log 0..4, recovery point 0\n\
         \x20 cut segment 0 from 400 to 100 bytes, kept aside in 00000000000000000000-100.lost\n\
         \x20 write the epoch checkpoint again\n\
         \x20 make the indexes of segment 0 again\n\
         \x20 suspect: the machine crashed or may have, and what was not synced may be gone\n\
         \x20 suspect: a hole at byte 100 of segment 0; what was written from offset 4 on is cut\n"
    );
    let json = serde_json::to_value(&plan).unwrap();
    assert_eq!(json["end"], 4);
    assert_eq!(json["steps"][0]["CutSegment"]["to_bytes"], 100);
    assert_eq!(json["epochs"][0]["epoch"], 0);
}

/// An epoch checkpoint of this log, perhaps an old one; but what lies below the recovery point was synced before that.
fn any_epoch_file(
    chance: &mut fastrand::Rng,
    segments: &BTreeMap<i64, Vec<Item>>,
    log_start: Option<Offset>,
    recovery_point: i64,
) -> EpochHistory {
    let mut starts = Vec::new();
    for item in segments.values().flatten() {
        if let Batch(base, _, epoch) = item {
            starts.push(EpochStart { epoch: LeaderEpoch::new(*epoch).unwrap(), start: at(*base) });
        }
    }
    let mut history = EpochHistory::from_starts(starts);
    history.truncate_from_end(at(recovery_point + chance.i64(0..20)));
    if let Some(start) = log_start.filter(|_| chance.bool()) {
        history.truncate_from_start(start);
    }
    history
}

/// A directory with any kind of trouble.
fn any_directory(chance: &mut fastrand::Rng) -> Directory {
    let mut segments = BTreeMap::new();
    let (mut offset, mut epoch) = (0, 0);
    for _ in 0..chance.usize(0..4) {
        let mut items = Vec::new();
        let base = offset;
        for _ in 0..chance.usize(0..5) {
            let count = chance.i32(1..5);
            epoch += i32::from(chance.u8(0..6) == 0);
            items.push(match chance.u8(0..8) {
                0 => Bad(chance.u64(1..150), [Torn, Zeros, Corrupt][chance.usize(0..3)]),
                _ => Batch(offset, count, epoch),
            });
            offset += i64::from(count);
        }
        segments.insert(base, items);
    }
    // Two stretches of bad bytes behind one another are one to a scan, and are cut as one.
    for items in segments.values_mut() {
        items.dedup_by(|item, before| matches!((item, before), (Bad(..), Bad(..))));
    }
    let point = chance.i64(0..offset + 2);
    let log_start = chance.bool().then(|| at(chance.i64(0..6)));
    let epochs = chance.bool().then(|| any_epoch_file(chance, &segments, log_start, point));
    let points = [RecoveryPoint::Known(at(point)), RecoveryPoint::NoEntry, RecoveryPoint::Unknown];
    Directory {
        segments,
        others: vec![("00000000000000000003.snapshot".to_owned(), 10)],
        recovery_point: points[chance.usize(0..3)],
        log_start,
        stop: if chance.u8(0..4) == 0 { Stop::Clean { facts: None } } else { Stop::Unclean },
        machine: if chance.bool() { Machine::Same } else { Machine::OtherOrUnknown },
        epochs,
    }
}

#[test]
fn a_crash_between_any_two_steps_is_cured_by_recovering_again() {
    let seed = std::env::var("HIGHWATER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(17);
    let mut chance = fastrand::Rng::with_seed(seed);
    let (mut interrupted, mut damaged, mut holes) = (0, 0, 0);
    for round in 0..3_000 {
        let directory = any_directory(&mut chance);
        let (whole, plan) = directory.recovered();
        damaged += usize::from(!plan.damaged.is_empty());
        holes += usize::from(plan.has_hole());
        let context = format!("seed {seed} round {round}: {directory:?}\n{plan}");
        assert!(plan.start <= plan.end && plan.recovery_point <= plan.end, "{context}");
        if let RecoveryPoint::Known(point) = directory.recovery_point {
            assert!(plan.recovery_point <= point, "recovery advanced it: {context}");
        }
        for crashed_after in 0..=plan.steps.len() {
            let mut again = directory.clone();
            for step in &plan.steps[..crashed_after] {
                again.apply(step, &plan);
            }
            if crashed_after > 0 && directory.stop != Stop::Unclean {
                // A kill during recovery is a stop without a mark, on the machine that began it. What an unclean stop made
                // suspect stays so: the stored incarnation is replaced only when somebody knows of the suspicion.
                (again.stop, again.machine) = (Stop::Unclean, Machine::Same);
            }
            let (recovered, second) = again.recovered();
            interrupted += 1;
            assert_eq!(recovered.logs(), whole.logs(), "after {crashed_after} steps: {context}\n{second}");
            assert_eq!(
                (second.start, second.end),
                (plan.start, plan.end),
                "after {crashed_after} steps: {context}\n{second}"
            );
            assert_eq!(second.epochs, plan.epochs, "after {crashed_after} steps: {context}\n{second}");
            assert_eq!(second.damaged, plan.damaged, "after {crashed_after} steps: {context}\n{second}");
        }
    }
    assert!(interrupted > 5_000 && damaged > 300 && holes > 30, "{interrupted} {damaged} {holes}");
}

#[test]
fn what_was_synced_is_never_cut() {
    let seed = std::env::var("HIGHWATER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(19);
    let mut chance = fastrand::Rng::with_seed(seed);
    for round in 0..3_000 {
        let mut directory = any_directory(&mut chance);
        directory.log_start = None;
        let RecoveryPoint::Known(point) = directory.recovery_point else { continue };
        let (recovered, plan) = directory.recovered();
        for (base, items) in &directory.segments {
            let left = recovered.segments.get(base).cloned().unwrap_or_default();
            let synced = items.iter().rposition(|item| matches!(item, Batch(base, ..) if at(*base) < point));
            let kept = synced.map_or(0, |last| last + 1);
            assert_eq!(
                left.get(..kept),
                items.get(..kept),
                "seed {seed} round {round}: {directory:?}\n{plan}"
            );
        }
    }
}
