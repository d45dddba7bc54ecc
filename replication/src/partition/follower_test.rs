//! What a follower does: fetching, matching histories, cutting, refusing to cut. S-numbers are scenarios.

use super::fixture::*;
use super::*;
use crate::rules::{Rule, Rules};

fn fetch_from(leader: i32, number: i32) -> Effect {
    Effect::FetchFrom { leader: node(leader), epoch: epoch(number) }
}

/// A follower of A in epoch 5.
fn following(log: FakeLog, known_committed: Option<i64>) -> Replica {
    let mut b = Replica::new(B, log, known_committed);
    b.tell(0, Input::Assigned(assignment(A, 5, 10)));
    b
}

fn answer(
    b: &mut Replica,
    time: u64,
    from: i64,
    outcome: FetchOutcome,
) -> (Vec<Effect>, Vec<PartitionEvent>) {
    let epoch = b.machine.leader_epoch().unwrap();
    b.tell_all(time, Input::FetchAnswered(FetchAnswer { epoch, from: at(from), outcome }))
}

fn records(high_watermark: i64) -> FetchOutcome {
    FetchOutcome::Records { high_watermark: Some(at(high_watermark)), log_start: Some(at(0)) }
}

fn parts_at(number: i32, end: i64) -> FetchOutcome {
    FetchOutcome::Diverging { epoch: epoch(number), end: at(end) }
}

fn truncate(to: i64) -> Effect {
    Effect::Truncate { to: at(to), why: TruncationReason::Diverged }
}

/// Does what the engine does for a truncation, and tells.
fn truncated(b: &mut Replica, to: i64) -> Vec<Effect> {
    b.log.set_end(to);
    b.log.epochs.truncate_from_end(at(to));
    b.tell(1, Input::Truncated { end: at(to) })
}

#[test]
fn a_follower_asks_from_its_end_and_takes_the_high_watermark_as_far_as_it_is_written() {
    let mut b = Replica::new(B, FakeLog::new(4, &[(2, 0)]), Some(1));
    assert_eq!(b.tell(0, Input::Assigned(assignment(A, 5, 10))), [fetch_from(A, 5)]);
    let request = FetchRequest {
        leader: node(A),
        epoch: epoch(5),
        offset: at(4),
        last_fetched_epoch: Some(epoch(2)),
        log_start: at(0),
    };
    assert_eq!(b.machine.fetch_request(&b.log.facts()), Some(request));
    assert!(b.machine.expects_records(epoch(5), at(4), &b.log.facts()));
    b.log.accepted = at(9);
    b.log.epochs.assign(epoch(5), at(4));
    assert_eq!(answer(&mut b, 1, 4, records(8)).0, [Effect::HighWatermark(at(4))]);
    assert_eq!(b.machine.fetch_request(&b.log.facts()), None, "not everything is written yet");
    b.log.written = at(9);
    assert_eq!(b.tell(2, Input::LogMoved), [Effect::HighWatermark(at(8))]);
    let next = b.machine.fetch_request(&b.log.facts()).unwrap();
    assert_eq!((next.offset, next.last_fetched_epoch), (at(9), Some(epoch(5))));
    // An empty answer changes nothing but the high watermark, and that not downwards.
    assert_eq!(answer(&mut b, 3, 9, records(7)).0, []);
    assert_eq!(b.machine.known_committed(), Some(at(8)));
    assert_eq!(b.machine.fetch_request(&b.log.facts()), Some(next));
}

#[test]
fn the_next_fetch_waits_for_what_the_topic_counts() {
    let run = |durability, rules| {
        let mut b = Replica::with_rules(B, FakeLog::new(0, &[]), Some(0), rules);
        let mut assigned = assignment(A, 5, 10);
        assigned.durability = durability;
        b.tell(0, Input::Assigned(assigned));
        (b.log.accepted, b.log.written) = (at(6), at(6));
        b.log.epochs.assign(epoch(5), at(0));
        let (effects, _) = answer(&mut b, 1, 0, records(0));
        (effects.contains(&Effect::WantDurable), b.machine.fetch_request(&b.log.facts()).is_some())
    };
    assert_eq!(run(Durability::Written, Rules::default()), (false, true));
    assert_eq!(run(Durability::Fsync, Rules::default()), (true, false));
    let rules = Rules::default().without(Rule::NextFetchWaitsForWritten);
    assert_eq!(run(Durability::Fsync, rules), (true, true));
}

#[test]
fn what_the_leader_says_once_counts_also_when_two_fetches_were_under_way() {
    let mut b = following(FakeLog::new(4, &[(2, 0)]), Some(1));
    b.grow(1, 6);
    assert_eq!(answer(&mut b, 1, 4, records(4)).0, [Effect::HighWatermark(at(4))]);
    // The second one asked from 4 as well, and was answered later.
    assert_eq!(answer(&mut b, 2, 4, records(6)).0, [Effect::HighWatermark(at(6))]);
    assert_eq!(b.machine.fetch_request(&b.log.facts()).map(|request| request.offset), Some(at(6)));
}

#[test]
fn answers_of_another_epoch_offset_or_phase_say_nothing() {
    let mut b = following(FakeLog::new(4, &[(2, 0)]), Some(1));
    let stale = FetchAnswer { epoch: epoch(4), from: at(4), outcome: records(4) };
    assert_eq!(b.tell(1, Input::FetchAnswered(stale)), []);
    assert_eq!(answer(&mut b, 1, 5, parts_at(2, 1)).0, []);
    answer(&mut b, 2, 4, parts_at(2, 3));
    assert_eq!(answer(&mut b, 3, 4, records(4)).0, [], "it is cutting");
    assert!(!b.machine.expects_records(epoch(5), at(4), &b.log.facts()));
    assert_eq!(b.hw(), 1);
    assert_eq!(
        b.tell(4, Input::RangeAnswered { epoch: epoch(5), start: at(0), end: at(1) }),
        [],
        "it did not ask"
    );
}

#[test]
fn s01_a_restarted_follower_keeps_what_is_above_its_high_watermark() {
    // m2 is committed, but B had not heard so. It restarts, and becomes leader before it fetched anything.
    let mut b = following(FakeLog::new(2, &[(1, 0)]), Some(1));
    assert_eq!(b.machine.fetch_request(&b.log.facts()).unwrap().offset, at(2));
    let effects = b.tell(1, Input::Assigned(assignment(B, 6, 11)));
    assert!(effects.contains(&Effect::BeginEpoch { epoch: epoch(6) }));
    assert_eq!(b.log.accepted, at(2));
}

#[test]
fn s01_with_the_rule_high_watermark_it_is_lost() {
    let mut b = Replica::new(B, FakeLog::new(2, &[(1, 0)]), Some(1));
    let mut assigned = assignment(A, 5, 10);
    assigned.truncation = TruncationRule::HighWatermark;
    let effects = b.tell(0, Input::Assigned(assigned));
    assert_eq!(
        effects,
        [Effect::StopFetching, Effect::Truncate { to: at(1), why: TruncationReason::HighWatermark }]
    );
    assert_eq!(truncated(&mut b, 1), [fetch_from(A, 5)]);
    assert_eq!(b.machine.fetch_request(&b.log.facts()).unwrap().last_fetched_epoch, None);
}

#[test]
fn s02_with_the_rule_high_watermark_a_fork_is_kept() {
    // A comes back with its own m2 at offset 1 below its high watermark, while B has appended m3 there in epoch 2.
    let (a_log, b_log) = (FakeLog::new(2, &[(1, 0)]), FakeLog::new(2, &[(1, 0), (2, 1)]));
    let run = |rule| {
        let mut a = Replica::new(A, a_log.clone(), Some(2));
        let mut b = Replica::new(B, b_log.clone(), Some(1));
        for replica in [&mut a, &mut b] {
            let mut assigned = assignment(B, 3, 10);
            assigned.truncation = rule;
            replica.tell(0, Input::Assigned(assigned));
        }
        let request = a.machine.fetch_request(&a.log.facts()).unwrap();
        let claim = FetchClaim {
            last_fetched_epoch: request.last_fetched_epoch,
            ..b.claim(A, request.offset.value())
        };
        let claim =
            FetchClaim { fetcher: Fetcher::Follower { node: node(A), session: session(A, 1) }, ..claim };
        b.machine.judge_fetch(&claim, &b.log.facts())
    };
    assert_eq!(
        run(TruncationRule::HighWatermark),
        Ok(FetchVerdict::Read { ceiling: at(2) }),
        "nobody notices"
    );
    assert_eq!(run(TruncationRule::LeaderEpoch), Ok(FetchVerdict::Diverging { epoch: epoch(1), end: at(1) }));
}

#[test]
fn the_rule_high_watermark_needs_one_and_a_leader_and_is_not_for_fsync() {
    let run = |known, leader: Option<i32>, durability| {
        let mut b = Replica::new(B, FakeLog::new(4, &[(1, 0)]), known);
        let mut assigned = assignment(A, 5, 10);
        assigned.truncation = TruncationRule::HighWatermark;
        (assigned.leader, assigned.durability) = (leader.map(node), durability);
        let (effects, events) = b.tell_all(0, Input::Assigned(assigned));
        let cuts = effects.iter().any(|effect| matches!(effect, Effect::Truncate { .. }));
        (cuts, events.contains(&PartitionEvent::HighWatermarkUnknown))
    };
    assert_eq!(run(Some(1), Some(A), Durability::Written), (true, false));
    assert_eq!(run(None, Some(A), Durability::Written), (false, true));
    assert_eq!(run(Some(1), None, Durability::Written), (false, false));
    assert_eq!(run(Some(1), Some(A), Durability::Fsync), (false, false));
    assert_eq!(run(Some(1), Some(B), Durability::Written), (false, false), "never as leader");
}

/// Runs a follower against a leader until it fetches without divergence; the ends that it was cut to.
fn reconcile(leader_log: FakeLog, follower_log: FakeLog, leader_epoch: i32) -> (Vec<i64>, Replica) {
    let mut a = Replica::new(A, leader_log, Some(0));
    a.tell(0, Input::Assigned(assignment(A, leader_epoch, 10)));
    let mut b = Replica::new(B, follower_log, Some(0));
    b.tell(0, Input::Assigned(assignment(A, leader_epoch, 10)));
    let mut cuts = Vec::new();
    for _ in 0..10 {
        let request = b.machine.fetch_request(&b.log.facts()).expect("it fetches");
        let claim = FetchClaim {
            last_fetched_epoch: request.last_fetched_epoch,
            ..a.claim(B, request.offset.value())
        };
        match a.machine.judge_fetch(&claim, &a.log.facts()) {
            Ok(FetchVerdict::Read { .. }) => return (cuts, b),
            Ok(FetchVerdict::Diverging { epoch, end }) => {
                let from = request.offset.value();
                let (effects, _) = answer(&mut b, 0, from, FetchOutcome::Diverging { epoch, end });
                let to = effects.iter().find_map(|effect| {
                    let Effect::Truncate { to, .. } = effect else { return None };
                    Some(to.value())
                });
                let to = to.expect("it cuts");
                cuts.push(to);
                assert_eq!(truncated(&mut b, to), [fetch_from(A, leader_epoch)]);
            }
            Err(refusal) => panic!("{refusal}"),
        }
    }
    panic!("no end of cutting: {cuts:?}");
}

#[test]
fn s03_s04_s10_histories_are_matched_to_their_longest_common_prefix() {
    type Shape = (&'static str, i64, &'static [(i32, i64)], i64, &'static [(i32, i64)], &'static [i64]);
    let shapes: [Shape; 11] = [
        ("behind, same epoch", 6, &[(1, 0)], 4, &[(1, 0)], &[]),
        ("behind, leader has newer epochs", 6, &[(1, 0), (2, 4)], 4, &[(1, 0)], &[]),
        ("ahead in the same epoch, which another ended", 4, &[(1, 0)], 6, &[(1, 0)], &[4]),
        ("ahead with a higher epoch", 4, &[(1, 0)], 6, &[(1, 0), (2, 4)], &[4]),
        ("fork", 6, &[(1, 0), (3, 4)], 6, &[(1, 0), (2, 4)], &[4]),
        ("fork below the leader's older end", 6, &[(1, 0), (3, 5)], 6, &[(1, 0), (2, 3)], &[3]),
        (
            "fork of several epochs, walked back",
            9,
            &[(1, 0), (4, 4), (6, 7)],
            9,
            &[(1, 0), (2, 3), (3, 5), (5, 7)],
            &[7, 3],
        ),
        ("nothing in common", 5, &[(4, 0)], 5, &[(1, 0)], &[0]),
        ("S03: the epoch is unknown to the leader", 3, &[(0, 0), (2, 2)], 2, &[(0, 0), (1, 1)], &[1]),
        ("S10: equal logs, an empty epoch too many", 10, &[(1, 0), (2, 10)], 10, &[(1, 0), (3, 10)], &[10]),
        ("empty", 5, &[(1, 0)], 0, &[], &[]),
    ];
    for (name, leader_end, leader_epochs, follower_end, follower_epochs, expected) in shapes {
        let (leader_log, follower_log) =
            (FakeLog::new(leader_end, leader_epochs), FakeLog::new(follower_end, follower_epochs));
        let (cuts, b) = reconcile(leader_log, follower_log, 9);
        assert_eq!(cuts, expected, "{name}");
        assert!(b.log.accepted <= at(follower_end), "{name}");
    }
}

#[test]
fn s06_histories_are_matched_at_every_epoch_also_under_the_same_leader() {
    let mut b = following(FakeLog::new(4, &[(2, 0)]), Some(1));
    answer(&mut b, 1, 4, records(2));
    let effects = b.tell(2, Input::Assigned(assignment(A, 6, 11)));
    assert_eq!(effects, [Effect::StopFetching, fetch_from(A, 6)]);
    assert_eq!(b.machine.fetch_request(&b.log.facts()).unwrap().epoch, epoch(6));
    // The same epoch again is no new leadership.
    assert_eq!(b.tell(3, Input::Assigned(assignment(A, 6, 12))), []);
}

#[test]
fn a_diverging_answer_does_not_raise_the_high_watermark() {
    let mut b = following(FakeLog::new(6, &[(2, 0), (3, 4)]), Some(1));
    assert_eq!(answer(&mut b, 1, 6, parts_at(2, 5)).0, [Effect::StopFetching, truncate(4)]);
    assert_eq!(b.hw(), 1);
    assert_eq!(truncated(&mut b, 4), [fetch_from(A, 5)]);
}

#[test]
fn a_divergence_that_cutting_does_not_cure_is_not_cut_for_ever() {
    let mut b = following(FakeLog::new(4, &[(2, 0)]), Some(1));
    // A leader that says: epoch 2 parts, at an end that this log does not even reach.
    assert_eq!(answer(&mut b, 1, 4, parts_at(2, 9)).0, [Effect::StopFetching, truncate(4)]);
    truncated(&mut b, 4);
    let (effects, events) = answer(&mut b, 2, 4, parts_at(2, 9));
    assert_eq!(effects, [Effect::StopFetching]);
    assert!(matches!(
        events[..],
        [PartitionEvent::FetchFailed { failure: FetchProblem::DivergenceWithoutEnd, .. }]
    ));
}

#[test]
fn s26_committed_records_are_not_cut_without_a_loss_record() {
    let mut b = following(FakeLog::new(10, &[(2, 0)]), Some(8));
    let (effects, events) = answer(&mut b, 1, 10, parts_at(2, 7));
    let refused = PartitionEvent::TruncationRefused {
        target: at(7),
        known_committed: at(8),
        leader: node(A),
        epoch: epoch(5),
    };
    assert_eq!((effects, events), (vec![Effect::StopFetching], vec![refused]));
    assert_eq!(b.machine.fetch_request(&b.log.facts()), None);
    // What permits it: a record of this or an unseen earlier election, from there on; or an operator's order.
    let loss = |number, from, by| LossRecord { epoch: epoch(number), from: at(from), to: Some(at(8)), by };
    for (record, permitted) in [
        (loss(5, 7, LossCause::BestOfAll), true),
        (loss(4, 3, LossCause::BestOfAll), true),
        (loss(5, 8, LossCause::BestOfAll), false),
        (loss(6, 7, LossCause::BestOfAll), false),
        (loss(2, 0, LossCause::Order), false),
        (loss(5, 9, LossCause::Order), true),
    ] {
        let mut b = following(FakeLog::new(10, &[(2, 0)]), Some(8));
        answer(&mut b, 1, 10, parts_at(2, 7));
        let mut recorded = assignment(A, 5, 11);
        recorded.losses.push(record);
        assert_eq!(b.tell(2, Input::Assigned(recorded)), [fetch_from(A, 5)], "it looks again");
        let (effects, events) = answer(&mut b, 3, 10, parts_at(2, 7));
        assert_eq!(effects.contains(&truncate(7)), permitted, "{record:?}");
        assert_eq!(events.contains(&PartitionEvent::LossAccepted { from: at(7), to: at(8) }), permitted);
        let known = if permitted { 7 } else { 8 };
        assert_eq!((b.hw(), b.machine.known_committed()), (known, Some(at(known))));
    }
}

#[test]
fn what_was_given_up_is_known_to_be_committed_no_more() {
    for (latest, end, expected) in [(2, 6, 6), (2, 5, 6), (2, 7, 7), (5, 6, 9)] {
        let mut b = Replica::new(B, FakeLog::new(end, &[(latest, 0)]), Some(9));
        let mut lossy = assignment(A, 5, 11);
        lossy.leader = None;
        let (from, to) = (at(6), Some(at(9)));
        lossy.losses.push(LossRecord { epoch: epoch(5), from, to, by: LossCause::BestOfAll });
        let (_, events) = b.tell_all(0, Input::Assigned(lossy));
        assert_eq!(b.machine.known_committed(), Some(at(expected)), "epoch {latest}, end {end}");
        let accepted = events.contains(&PartitionEvent::LossAccepted { from: at(expected), to: at(9) });
        assert_eq!(accepted, expected < 9, "{events:?}");
    }
}

#[test]
fn what_is_known_of_records_that_are_not_here_says_nothing_of_those_that_are_fetched() {
    let mut b = Replica::new(B, FakeLog::new(6, &[(2, 0)]), Some(9));
    let mut leaderless = assignment(A, 4, 10);
    leaderless.leader = None;
    b.tell(0, Input::Assigned(leaderless));
    assert_eq!(b.machine.known_committed(), Some(at(9)), "whoever is elected should know of it");
    let effects = b.tell(1, Input::Assigned(assignment(A, 5, 11)));
    assert!(effects.contains(&Effect::HighWatermark(at(6))), "the checkpoint has news: {effects:?}");
    assert_eq!((b.hw(), b.machine.known_committed()), (6, Some(at(6))));
    b.grow(2, 8);
    answer(&mut b, 3, 6, records(7));
    assert_eq!((b.hw(), b.machine.known_committed()), (7, Some(at(7))));
}

#[test]
fn what_is_not_known_to_be_committed_may_be_cut_down_to_it() {
    let mut b = following(FakeLog::new(10, &[(2, 0)]), Some(8));
    assert!(answer(&mut b, 1, 10, parts_at(2, 8)).0.contains(&truncate(8)));
    let mut unknown = following(FakeLog::new(10, &[(2, 0)]), None);
    assert!(answer(&mut unknown, 1, 10, parts_at(2, 0)).0.contains(&truncate(0)));
}

#[test]
fn out_of_range_asks_where_the_leaders_log_is() {
    let ask = Effect::AskRange { leader: node(A), epoch: epoch(5) };
    let beyond = Effect::Truncate { to: at(6), why: TruncationReason::BeyondLeaderEnd };
    for (start, end, follows) in [
        (0, 6, vec![Effect::StopFetching, beyond]),
        (20, 30, vec![Effect::StopFetching, Effect::RestartAt { offset: at(20) }]),
        (5, 30, vec![fetch_from(A, 5)]),
    ] {
        let mut b = following(FakeLog::new(10, &[(2, 0)]), Some(3));
        let (effects, _) = answer(&mut b, 1, 10, FetchOutcome::Failed(FetchFailure::OutOfRange));
        assert_eq!(effects, [Effect::StopFetching, ask.clone()]);
        let range = Input::RangeAnswered { epoch: epoch(5), start: at(start), end: at(end) };
        assert_eq!(b.tell(2, range), follows, "{start}..{end}");
    }
}

#[test]
fn s29_a_log_that_was_passed_by_begins_again_and_its_high_watermark_with_it() {
    let mut b = following(FakeLog::new(10, &[(2, 0)]), Some(3));
    answer(&mut b, 1, 10, FetchOutcome::Failed(FetchFailure::OutOfRange));
    b.tell(2, Input::RangeAnswered { epoch: epoch(5), start: at(20), end: at(30) });
    b.log = FakeLog::new(20, &[]);
    b.log.start = at(20);
    let effects = b.tell(3, Input::RestartedAt { offset: at(20) });
    assert_eq!(effects, [fetch_from(A, 5), Effect::HighWatermark(at(20))]);
    assert_eq!(b.machine.fetch_request(&b.log.facts()).unwrap().last_fetched_epoch, None);
    // The leader's start lies inside a batch: the log begins again at that batch (KAFKA-6975).
    let straddles = FetchOutcome::StraddlesStart { base: at(18), end: at(25) };
    let (effects, _) = answer(&mut b, 4, 20, straddles);
    assert_eq!(effects, [Effect::StopFetching, Effect::RestartAt { offset: at(18) }]);
}

#[test]
fn a_compacted_log_that_is_cut_below_what_is_cleaned_begins_again() {
    for (cleaned, expected) in [(8, truncate(8)), (9, Effect::RestartAt { offset: at(2) })] {
        let mut log = FakeLog::new(10, &[(2, 0)]);
        (log.start, log.cleaned_to) = (at(2), at(cleaned));
        let mut b = following(log, Some(3));
        let (effects, _) = answer(&mut b, 1, 10, parts_at(2, 8));
        assert!(effects.contains(&expected), "{cleaned}: {effects:?}");
    }
}

#[test]
fn failures_pause_longer_each_time_and_a_success_forgets_them() {
    let mut b = following(FakeLog::new(4, &[(2, 0)]), Some(1));
    let (mut time, mut pauses) = (0, Vec::new());
    for _ in 0..7 {
        let (effects, events) = answer(&mut b, time, 4, FetchOutcome::Failed(FetchFailure::UnknownEpoch));
        assert_eq!(effects, [Effect::StopFetching]);
        let [PartitionEvent::FetchFailed { pause, .. }] = events[..] else { panic!("{events:?}") };
        let pause = u64::try_from(pause.as_millis()).unwrap();
        assert_eq!(b.machine.next_deadline(now(time), &b.log.facts()), Some(ms(time + pause)));
        assert_eq!(b.tell(time + pause - 1, Input::Tick), []);
        time += pause;
        assert_eq!(b.tell(time, Input::Tick), [fetch_from(A, 5)]);
        pauses.push(pause);
    }
    assert_eq!(pauses, [50, 100, 200, 400, 800, 1_000, 1_000]);
    answer(&mut b, time, 4, records(1));
    let (_, events) = answer(&mut b, time, 4, FetchOutcome::Failed(FetchFailure::Unreachable));
    assert!(matches!(events[..], [PartitionEvent::FetchFailed { pause, .. }] if pause.as_millis() == 50));
}

#[test]
fn s05_a_fenced_follower_waits_for_the_controller() {
    let mut b = following(FakeLog::new(4, &[(2, 0)]), Some(1));
    let fenced = FetchOutcome::Failed(FetchFailure::FencedEpoch);
    assert_eq!(answer(&mut b, 1, 4, fenced).0, [Effect::StopFetching]);
    assert_eq!(b.machine.next_deadline(now(1), &b.log.facts()), None);
    assert_eq!(b.tell(100_000, Input::Tick), []);
    assert!(b.tell(2, Input::Assigned(assignment(C, 6, 11))).contains(&fetch_from(C, 6)));
}

#[test]
fn a_new_word_waits_until_the_log_is_cut() {
    let mut b = following(FakeLog::new(10, &[(2, 0)]), Some(1));
    answer(&mut b, 1, 10, parts_at(2, 7));
    // B is to lead; but where its log ends is not settled yet.
    assert_eq!(b.tell(2, Input::Assigned(assignment(B, 6, 11))), []);
    assert_eq!(b.tell(2, Input::Assigned(assignment(B, 5, 10))), []);
    assert_eq!(b.machine.may_append(Acks::Leader, &b.log.facts()), Err(ProduceRefusal::NotLeader));
    let effects = truncated(&mut b, 7);
    assert_eq!(effects, [Effect::StopFetching, Effect::BeginEpoch { epoch: epoch(6) }]);
    assert_eq!(b.log.epochs, FakeLog::new(7, &[(2, 0), (6, 7)]).epochs);
}

#[test]
fn what_could_not_be_cut_is_cut_after_a_pause() {
    let mut b = following(FakeLog::new(10, &[(2, 0)]), Some(4));
    assert!(answer(&mut b, 1, 10, parts_at(2, 8)).0.contains(&truncate(8)));
    let (effects, events) = b.tell_all(2, Input::NotCut);
    assert_eq!(effects, []);
    assert!(
        matches!(events[..], [PartitionEvent::FetchFailed { failure: FetchProblem::NotCut, .. }]),
        "{events:?}"
    );
    assert_eq!(b.machine.fetch_request(&b.log.facts()), None, "its log is no prefix of the leader's");
    let pause = b.machine.next_deadline(now(2), &b.log.facts()).unwrap();
    let effects = b.tell(pause.since_start().as_millis().try_into().unwrap(), Input::Tick);
    assert!(effects.contains(&truncate(8)), "{effects:?}");
    assert!(truncated(&mut b, 8).contains(&fetch_from(A, 5)));

    // A newer word of the controller waits no longer.
    let mut c = following(FakeLog::new(10, &[(2, 0)]), Some(4));
    answer(&mut c, 1, 10, parts_at(2, 8));
    c.tell(2, Input::Assigned(assignment(C, 6, 11)));
    assert!(c.tell(3, Input::NotCut).contains(&fetch_from(C, 6)));
}

#[test]
fn without_a_leader_nothing_is_fetched_or_cut() {
    let mut b = following(FakeLog::new(4, &[(2, 0)]), Some(1));
    let mut leaderless = assignment(A, 6, 11);
    leaderless.leader = None;
    assert_eq!(b.tell(1, Input::Assigned(leaderless)), [Effect::StopFetching]);
    assert_eq!(b.machine.fetch_request(&b.log.facts()), None);
    assert_eq!(b.machine.role_name(), RoleName::Follower);
}

#[test]
fn a_replica_that_is_assigned_no_longer_stops() {
    let mut b = following(FakeLog::new(4, &[(2, 0)]), Some(1));
    let mut without = with_isr(assignment(A, 5, 11), &[A, C]);
    without.replicas.remove(1);
    assert_eq!(b.tell(1, Input::Assigned(without)), [Effect::StopFetching]);
    assert_eq!(b.machine.role_name(), RoleName::Unassigned);
    assert!(b.tell(2, Input::Assigned(assignment(A, 5, 12))).contains(&fetch_from(A, 5)), "added again");
}

#[test]
fn the_start_follows_the_leaders_as_far_as_records_are_committed() {
    let mut b = following(FakeLog::new(10, &[(2, 0)]), Some(3));
    let with_start =
        |start| FetchOutcome::Records { high_watermark: Some(at(6)), log_start: Some(at(start)) };
    let (effects, _) = answer(&mut b, 1, 10, with_start(8));
    assert_eq!(effects, [Effect::RaiseStart { to: at(6) }, Effect::HighWatermark(at(6))]);
    assert_eq!(answer(&mut b, 2, 10, with_start(8)).0, [], "asked for once");
    b.log.start = at(6);
    assert_eq!(answer(&mut b, 3, 10, with_start(2)).0, [], "a start does not go back");
}
