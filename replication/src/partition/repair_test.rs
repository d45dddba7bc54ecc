//! What a replica does about damage in its log.

use highwater_engine::segment::DamagedRange;
use highwater_engine::units::OffsetRange;

use super::fixture::*;
use super::*;
use crate::rules::{Rule, Rules};

fn offsets(from: i64, to: i64) -> OffsetRange {
    OffsetRange::new(at(from), at(to)).unwrap()
}

fn damaged(segment: i64, from: i64, to: i64) -> DamagedRange {
    DamagedRange { segment: at(segment), offsets: offsets(from, to), bytes: (100, 200) }
}

/// A follower of A, in epoch 5, with ten records and damage.
fn damaged_follower(damage: &[DamagedRange], rules: Rules) -> Replica {
    let mut log = FakeLog::new(10, &[(2, 0)]);
    log.damaged = damage.to_vec();
    let mut b = Replica::with_rules(B, log, Some(10), rules);
    let mut assigned = assignment(A, 5, 10);
    assigned.damaged = vec![node(B)];
    b.tell(0, Input::Assigned(assigned));
    b
}

fn agree(b: &mut Replica, time: u64) -> Vec<Effect> {
    let outcome = FetchOutcome::Records { high_watermark: Some(at(10)), log_start: Some(at(0)) };
    b.tell(time, Input::FetchAnswered(FetchAnswer { epoch: epoch(5), from: at(10), outcome }))
}

fn fetch_range(from: i64, to: i64) -> Effect {
    Effect::FetchRange { leader: node(A), epoch: epoch(5), offsets: offsets(from, to) }
}

fn fetched(b: &mut Replica, time: u64, range: OffsetRange) -> Vec<Effect> {
    b.tell(time, Input::RangeFetched { offsets: range, epoch: epoch(5), outcome: Ok(()) })
}

#[test]
fn the_controller_is_told_once_of_each_change_by_whoever_holds_the_log() {
    for id in [A, B] {
        let mut it = Replica::new(id, FakeLog::new(10, &[(2, 0)]), Some(10));
        it.tell(0, Input::Assigned(assignment(A, 5, 10)));
        it.log.damaged = vec![damaged(0, 3, 4)];
        let (effects, events) = it.tell_all(1, Input::LogDamaged);
        assert!(effects.contains(&Effect::ReportIntegrity), "{effects:?}");
        assert_eq!(events, [PartitionEvent::Damaged { first: offsets(3, 4), ranges: 1 }]);
        assert_eq!(it.machine.integrity_to_report(&it.log.facts()), Some(Integrity::Damaged));
        assert!(!it.tell(2, Input::Tick).contains(&Effect::ReportIntegrity), "somebody sees to it already");
        let mut told = assignment(A, 5, 11);
        told.damaged = vec![node(id)];
        it.tell(3, Input::Assigned(told));
        assert_eq!(it.machine.integrity_to_report(&it.log.facts()), None);
        it.log.damaged.clear();
        assert!(it.tell(4, Input::LogDamaged).contains(&Effect::ReportIntegrity));
        assert_eq!(it.machine.integrity_to_report(&it.log.facts()), Some(Integrity::Whole));
    }
}

#[test]
fn a_damaged_leader_serves_on_and_repairs_nothing() {
    let mut a = Replica::leading(10, 0);
    a.log.damaged = vec![damaged(0, 3, 4)];
    assert_eq!(a.tell(1, Input::LogDamaged), [Effect::ReportIntegrity]);
    assert_eq!(a.machine.role_name(), RoleName::Leader);
    assert_eq!(a.machine.status(now(1), &a.log.facts()).damaged, [offsets(3, 4)]);
}

#[test]
fn a_follower_fetches_what_is_damaged_when_it_has_seen_that_the_logs_agree_and_goes_on_fetching() {
    let mut b = damaged_follower(&[damaged(0, 3, 4), damaged(0, 7, 9)], Rules::default());
    assert_eq!(b.tell(1, Input::LogDamaged), [], "its own records may be others than the leader's");
    assert_eq!(agree(&mut b, 2), [fetch_range(3, 4)]);
    assert!(b.machine.fetch_request(&b.log.facts()).is_some());
    assert_eq!(fetched(&mut b, 3, offsets(3, 4)), [Effect::Repair { offsets: offsets(3, 4) }]);
    assert_eq!(fetched(&mut b, 3, offsets(3, 4)), [], "an answer that comes twice says nothing");
    b.log.damaged.remove(0);
    let (effects, events) = b.tell_all(4, Input::Repaired { offsets: offsets(3, 4) });
    assert_eq!(effects, [fetch_range(7, 9)]);
    assert_eq!(events, [PartitionEvent::Repaired { offsets: offsets(3, 4) }]);
}

#[test]
fn without_the_rule_a_follower_fetches_before_the_logs_agree() {
    let b = Rules::default().without(Rule::RepairWhereLogsAgree);
    let mut b = damaged_follower(&[damaged(0, 3, 4)], b);
    let outcome = Err(FetchFailure::Unreachable);
    b.tell(1, Input::RangeFetched { offsets: offsets(3, 4), epoch: epoch(5), outcome });
    assert_eq!(b.tell(100, Input::Tick), [fetch_range(3, 4)]);
}

#[test]
fn what_could_not_be_repaired_is_tried_again_later_each_time_and_the_others_have_their_turn() {
    let mut b = damaged_follower(&[damaged(0, 3, 4), damaged(0, 7, 9)], Rules::default());
    agree(&mut b, 0);
    let failed =
        Input::RangeFetched { offsets: offsets(3, 4), epoch: epoch(5), outcome: Err(FetchFailure::Corrupt) };
    let (_, events) = b.tell_all(1, failed);
    let pause = std::time::Duration::from_millis(50);
    let why = RepairProblem::Fetch(FetchFailure::Corrupt);
    assert_eq!(events, [PartitionEvent::RepairFailed { offsets: offsets(3, 4), why, pause }]);
    assert_eq!(b.machine.next_deadline(now(1), &b.log.facts()), Some(ms(51)));
    assert_eq!(b.tell(50, Input::Tick), []);
    assert_eq!(b.tell(51, Input::Tick), [fetch_range(7, 9)]);
    assert_eq!(fetched(&mut b, 52, offsets(7, 9)), [Effect::Repair { offsets: offsets(7, 9) }]);
    let (_, events) = b.tell_all(53, Input::NotRepaired { offsets: offsets(7, 9) });
    let [PartitionEvent::RepairFailed { why: RepairProblem::NotTaken, pause, .. }] = events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(pause.as_millis(), 100);
    assert_eq!(b.tell(153, Input::Tick), [fetch_range(3, 4)]);
}

#[test]
fn a_range_that_comes_from_another_leadership_or_is_gone_is_not_written() {
    let mut b = damaged_follower(&[damaged(0, 3, 4)], Rules::default());
    agree(&mut b, 0);
    b.log.damaged.clear();
    assert_eq!(fetched(&mut b, 1, offsets(3, 4)), [Effect::ReportIntegrity], "only that it is whole");
    let mut b = damaged_follower(&[damaged(0, 3, 4)], Rules::default());
    agree(&mut b, 0);
    let mut next = assignment(C, 6, 11);
    next.damaged = vec![node(B)];
    b.tell(1, Input::Assigned(next));
    assert_eq!(fetched(&mut b, 2, offsets(3, 4)), []);
    let outcome = FetchOutcome::Records { high_watermark: Some(at(10)), log_start: Some(at(0)) };
    let asked = b.tell(3, Input::FetchAnswered(FetchAnswer { epoch: epoch(6), from: at(10), outcome }));
    assert_eq!(asked, [Effect::FetchRange { leader: node(C), epoch: epoch(6), offsets: offsets(3, 4) }]);
}

#[test]
fn bytes_without_offsets_are_replaced_with_their_neighbour() {
    for (damage, from, to) in [(damaged(0, 4, 4), 3, 4), (damaged(4, 4, 4), 4, 5)] {
        let mut b = damaged_follower(&[damage], Rules::default());
        assert_eq!(agree(&mut b, 0), [fetch_range(from, to)]);
    }
}

/// A follower of A whose log was compacted, in these segments.
fn compacted_follower(damage: &[DamagedRange], parts: &[(i64, i64)]) -> Replica {
    let mut log = FakeLog::new(10, &[(2, 0)]);
    log.damaged = damage.to_vec();
    log.replaced_by_repair = parts.iter().map(|(from, to)| offsets(*from, *to)).collect();
    let mut b = Replica::with_rules(B, log, Some(10), Rules::default());
    let mut assigned = assignment(A, 5, 10);
    assigned.damaged = vec![node(B)];
    b.tell(0, Input::Assigned(assigned));
    b
}

#[test]
fn all_of_a_compacted_log_is_replaced_and_the_segments_with_damage_last() {
    let mut b = compacted_follower(&[damaged(3, 4, 5)], &[(0, 3), (3, 6), (6, 8)]);
    assert_eq!(agree(&mut b, 1), [fetch_range(0, 3)]);
    for (part, next) in [((0, 3), (6, 8)), ((6, 8), (3, 6))] {
        let part = offsets(part.0, part.1);
        assert_eq!(fetched(&mut b, 2, part), [Effect::Repair { offsets: part }]);
        assert_eq!(b.tell(3, Input::Repaired { offsets: part }), [fetch_range(next.0, next.1)]);
    }
    let last = offsets(3, 6);
    assert_eq!(fetched(&mut b, 4, last), [Effect::Repair { offsets: last }]);
    (b.log.damaged, b.log.replaced_by_repair) = (Vec::new(), Vec::new());
    assert_eq!(b.tell(5, Input::Repaired { offsets: last }), [Effect::ReportIntegrity]);
    // Damage that is found later has all of it replaced again.
    b.log.damaged = vec![damaged(6, 7, 8)];
    b.log.replaced_by_repair = vec![offsets(0, 6), offsets(6, 8)];
    assert_eq!(b.tell(6, Input::LogDamaged), [fetch_range(0, 6)]);
}

#[test]
fn another_leader_may_have_compacted_to_another_point_and_all_of_it_is_asked_of_it() {
    let mut b = compacted_follower(&[damaged(3, 4, 5)], &[(0, 3), (3, 6)]);
    agree(&mut b, 1);
    fetched(&mut b, 2, offsets(0, 3));
    assert_eq!(b.tell(3, Input::Repaired { offsets: offsets(0, 3) }), [fetch_range(3, 6)]);
    let mut next = assignment(C, 6, 11);
    next.damaged = vec![node(B)];
    b.tell(4, Input::Assigned(next));
    let outcome = FetchOutcome::Records { high_watermark: Some(at(10)), log_start: Some(at(0)) };
    let asked = b.tell(5, Input::FetchAnswered(FetchAnswer { epoch: epoch(6), from: at(10), outcome }));
    assert_eq!(asked, [Effect::FetchRange { leader: node(C), epoch: epoch(6), offsets: offsets(0, 3) }]);
}

#[test]
fn what_the_leader_of_a_compacted_log_cannot_give_stays_and_the_damage_is_repaired_all_the_same() {
    let mut b = compacted_follower(&[damaged(3, 4, 5)], &[(0, 3), (3, 6)]);
    agree(&mut b, 0);
    let outcome = Err(FetchFailure::Unreachable);
    b.tell(1, Input::RangeFetched { offsets: offsets(0, 3), epoch: epoch(5), outcome });
    assert_eq!(b.tell(60, Input::Tick), [fetch_range(0, 3)], "it is asked again");
    let outcome = Err(FetchFailure::Corrupt);
    b.tell(61, Input::RangeFetched { offsets: offsets(0, 3), epoch: epoch(5), outcome });
    assert_eq!(b.tell(300, Input::Tick), [fetch_range(3, 6)]);
}
