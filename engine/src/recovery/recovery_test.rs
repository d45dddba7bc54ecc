//! Which facts lead to which plan.

use super::*;
use crate::checkpoint::CleanPartition;
use crate::segment::DamagedRange;
use crate::units::OffsetRange;

use super::model_test::{Directory, Item, at, bytes_of, epochs, range};
use BadKind::{Corrupt, Torn, Zeros};
use Item::{Bad, Batch};

fn cuts(plan: &Plan) -> Vec<&Step> {
    let destroys = |step: &&Step| matches!(step, Step::CutSegment { .. } | Step::RemoveSegment { .. });
    plan.steps.iter().filter(destroys).collect()
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
    Stop::Clean {
        facts: Some(CleanPartition {
            end: at(end),
            last_batch_crc: crc,
            log_bytes,
            index_crc: None,
            aborted_crc: None,
        }),
    }
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
    assert_eq!(orders(known(8), Stop::Unclean, true), [(4, Whole), (8, Whole)], "(4) need not be sealed");
    assert_eq!(orders(known(12), Stop::Unclean, false), [(0, Epochs), (4, Epochs), (8, Whole)]);
    assert_eq!(orders(RecoveryPoint::NoEntry, Stop::Unclean, true), [(0, Whole), (4, Whole), (8, Whole)]);
    assert_eq!(orders(RecoveryPoint::Unknown, Stop::Unclean, true).len(), 3);
    assert_eq!(orders(known(12), Stop::Clean { facts: None }, true), [(8, Tail)]);
    assert_eq!(orders(known(5), Stop::Clean { facts: None }, true), [(4, Whole), (8, Tail)]);
    assert_eq!(orders(known(0), mark(12, None, 0), true), [(8, Tail)]);
    assert_eq!(orders(known(0), mark(12, None, 0), false), [(0, Epochs), (4, Epochs), (8, Whole)]);
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
    let plan = directory.plan();
    assert!(plan.has_hole() && plan.damaged.is_empty(), "records above the start are gone: {plan}");
    assert_eq!((plan.start, plan.end), (at(6), at(6)));
}

#[test]
fn a_hole_that_begins_below_the_start_and_below_what_is_synced_ends_the_log_at_the_start() {
    // Retention has removed what was synced; of the names one came back, and what was written above the start is gone.
    let mut directory = Directory::new(&[(0, &[Batch(0, 5, 0)]), (33, &[])]).synced_to(7).after_power_loss();
    directory.log_start = Some(at(11));
    let (recovered, plan) = directory.recovered();
    assert_eq!((plan.start, plan.end), (at(11), at(11)));
    assert_eq!(recovered.logs(), [(11, [].as_slice())]);
    let items = [Batch(0, 5, 0), Bad(100, Zeros), Batch(33, 4, 0)];
    let mut directory = Directory::new(&[(0, &items)]).synced_to(7).after_power_loss();
    directory.log_start = Some(at(11));
    let plan = directory.plan();
    assert_eq!((plan.start, plan.end, plan.damaged.len()), (at(11), at(11), 0), "{plan}");
}

#[test]
fn a_log_whose_beginning_a_power_loss_took_ends_at_its_start() {
    let mut directory = Directory::new(&[(47, &[Batch(47, 4, 0)])]).synced_to(3);
    directory.log_start = Some(at(17));
    assert_eq!(directory.plan().start, at(47), "after a kill nothing is missing");
    let (recovered, plan) = directory.clone().after_power_loss().recovered();
    assert_eq!((plan.start, plan.end, plan.has_hole()), (at(17), at(17), true), "{plan}");
    assert_eq!(recovered.logs(), [(17, [].as_slice())]);
    assert!(recovered.others.iter().any(|(name, _)| name == "00000000000000000047-0.lost"));
    let synced = directory.synced_to(47).after_power_loss().plan();
    let damaged: Vec<_> = synced.damaged.iter().map(|range| range.offsets).collect();
    assert_eq!(
        (synced.start, synced.end, damaged),
        (at(17), at(51), vec![OffsetRange::new(at(17), at(47)).unwrap()]),
        "what was synced was there, so that somebody else removed the rest"
    );
}

#[test]
fn an_empty_segment_inside_of_another_goes() {
    let items = [Batch(0, 4, 0), Batch(4, 4, 0), Batch(8, 4, 0)];
    for others in [vec![(8, [].as_slice())], vec![(8, [].as_slice()), (12, &[Batch(12, 4, 0)])]] {
        let segments = [vec![(0, items.as_slice())], others.clone()].concat();
        let (recovered, plan) = Directory::new(&segments).after_power_loss().recovered();
        let kept: Vec<_> = segments.iter().copied().filter(|(base, _)| *base != 8).collect();
        assert_eq!(recovered.logs(), kept, "{plan}");
        assert_eq!(plan.suspect, [SuspectReason::MachineCrash]);
    }
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
        let mut directory = Directory::new(&[(0, &sealed), (4, &[Batch(4, 1, 0)])]).synced_to(5);
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
    let new = [Batch(8, 4, 3), Batch(12, 2, 5), Batch(14, 2, 5)];
    let plan = |file: Option<&[(i32, i64)]>| {
        let mut directory = Directory::new(&[(0, &old), (8, &new)]).synced_to(9);
        directory.epochs = file.map(epochs);
        let (recovered, plan) = directory.recovered();
        assert_eq!(recovered.epochs.as_ref(), Some(&plan.epochs));
        plan.epochs
    };
    let right = epochs(&[(1, 0), (2, 4), (3, 8), (5, 12)]);
    assert_eq!(plan(Some(&[(1, 0), (2, 4), (3, 8), (5, 12)])), right);
    assert_eq!(plan(Some(&[(1, 0), (2, 4)])), right, "the file is older than the log");
    assert_eq!(plan(Some(&[(1, 0), (2, 4), (3, 8), (4, 12), (6, 16)])), right, "a lie and an empty epoch");
    assert_eq!(
        plan(Some(&[(1, 0), (3, 4)])),
        epochs(&[(1, 0), (3, 8), (5, 12)]),
        "a lie about what is not read"
    );
    assert_eq!(plan(None), right, "made from the batches");
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
fn after_an_unclean_stop_what_is_not_known_to_be_synced_is_written_again() {
    let mut directory =
        Directory::new(&[(0, &THREE), (12, &[Batch(12, 4, 0)]), (16, &[Batch(16, 4, 0)])]).synced_to(14);
    let rewritten = |plan: &Plan| -> Vec<(i64, i64)> {
        let rewritten = |step: &Step| {
            let Step::RewriteSegment { base, from } = step else { return None };
            Some((base.value(), from.value()))
        };
        plan.steps.iter().filter_map(rewritten).collect()
    };
    for machine in [Machine::Same, Machine::OtherOrUnknown] {
        directory.machine = machine;
        let plan = directory.plan();
        assert_eq!(rewritten(&plan), [(12, 14), (16, 16)]);
        assert!(plan.steps.contains(&Step::RewriteEpochs), "also if nothing in it is wrong");
    }
    let all_synced = directory.clone().synced_to(20).plan();
    assert_eq!(rewritten(&all_synced), [(16, 20)], "the last one's size");
    directory.stop = mark(20, Some(23), 100);
    let plan = directory.plan();
    assert!(plan.suspect.is_empty() && rewritten(&plan).is_empty(), "{plan}");
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
         \x20 write segment 0 again from offset 0 on, byte for byte\n\
         \x20 make the indexes of segment 0 again\n\
         \x20 suspect: the machine crashed or may have, and what was not synced may be gone\n\
         \x20 suspect: a hole at byte 100 of segment 0; what was written from offset 4 on is cut\n"
    );
    let json = serde_json::to_value(&plan).unwrap();
    assert_eq!(json["end"], 4);
    assert_eq!(json["steps"][0]["CutSegment"]["to_bytes"], 100);
    assert_eq!(json["epochs"][0]["epoch"], 0);
}

#[test]
fn a_checkpoint_older_than_the_log_does_not_evict_its_epochs() {
    let items = [Batch(0, 4, 2), Batch(4, 4, 4)];
    let mut directory = Directory::new(&[(0, &items)]).after_power_loss();
    directory.epochs = Some(epochs(&[(0, 0), (1, 2), (2, 43)]));
    assert_eq!(directory.plan().epochs, epochs(&[(2, 0), (4, 4)]));
}
