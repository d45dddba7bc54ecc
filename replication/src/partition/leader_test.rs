//! What a leader does: high watermark, in-sync replicas, acknowledgements. Named by what they show; S-numbers are scenarios.

use super::fixture::*;
use super::*;
use crate::ids::PartitionEpoch;
use crate::rules::{Rule, Rules};

#[test]
fn a_leader_notes_its_epoch_at_the_end_of_its_log_and_only_once() {
    let mut a = Replica::new(A, FakeLog::new(7, &[(0, 0)]), Some(3));
    let begun = a.tell(0, Input::Assigned(assignment(A, 5, 10)));
    // Nobody has fetched yet, so nothing new is known to be committed.
    assert_eq!((begun, a.hw()), (vec![Effect::BeginEpoch { epoch: epoch(5) }], 3));
    assert_eq!(a.tell(1, Input::Assigned(assignment(A, 5, 11))), []);
    assert_eq!(a.tell(1, Input::Assigned(assignment(A, 6, 12))), [Effect::BeginEpoch { epoch: epoch(6) }]);
}

#[test]
fn old_words_of_the_controller_are_not_taken() {
    let mut a = Replica::leading(7, 0);
    assert_eq!(a.tell(1, Input::Assigned(assignment(B, 4, 11))), []);
    assert_eq!(a.tell(1, Input::Assigned(with_isr(assignment(A, 5, 9), &[A]))), []);
    assert_eq!(a.machine.isr(), [node(A), node(B), node(C)]);
}

#[test]
fn the_controllers_word_must_fit() {
    let mut a = Replica::leading(7, 0);
    let two = a.tell_all(1, Input::Assigned(assignment(B, 5, 11)));
    let why = IgnoredReason::TwoLeadersInOneEpoch { epoch: epoch(5) };
    assert_eq!(two, (vec![], vec![PartitionEvent::AssignmentIgnored { why }]));

    let mut other = assignment(A, 6, 11);
    other.topic_id = highwater_engine::units::TopicId::new([8; 16]).unwrap();
    let recreated = a.tell_all(1, Input::Assigned(other));
    let why = IgnoredReason::OtherTopic;
    assert_eq!(recreated, (vec![], vec![PartitionEvent::AssignmentIgnored { why }]));

    let mut restored = Replica::new(A, FakeLog::new(7, &[(8, 0)]), Some(3));
    let back = restored.tell_all(1, Input::Assigned(assignment(A, 6, 11)));
    let why = IgnoredReason::EpochBelowLog { log: epoch(8), assigned: epoch(6) };
    assert_eq!(
        back,
        (vec![Effect::HighWatermark(at(3))][..0].to_vec(), vec![PartitionEvent::AssignmentIgnored { why }])
    );
}

#[test]
fn the_high_watermark_is_the_smallest_contribution_in_the_isr() {
    let mut a = Replica::leading(10, 0);
    a.fetched(1, B, 10);
    assert_eq!(a.hw(), 0, "C has not been heard of");
    assert_eq!(a.fetched(2, C, 6), [Effect::HighWatermark(at(6))]);
    assert_eq!(a.fetched(3, C, 10), [Effect::HighWatermark(at(10))]);
    assert_eq!(a.fetched(4, C, 8), [], "it does not go back");
    assert_eq!(a.hw(), 10);
}

#[test]
fn a_leaders_own_contribution_is_what_is_written_or_durable() {
    for (durability, high_watermark) in [(Durability::Written, 8), (Durability::Fsync, 5)] {
        let mut a = Replica::new(A, FakeLog::new(0, &[]), Some(0));
        let mut alone = with_isr(assignment(A, 5, 10), &[A]);
        (alone.min_isr, alone.durability) = (1, durability);
        a.tell(0, Input::Assigned(alone));
        (a.log.accepted, a.log.written, a.log.durable) = (at(10), at(8), at(5));
        let effects = a.tell(1, Input::LogMoved);
        assert_eq!(a.hw(), high_watermark, "{durability:?}");
        assert_eq!(effects.contains(&Effect::WantDurable), durability == Durability::Fsync);
        assert!(!a.tell(2, Input::Tick).contains(&Effect::WantDurable), "asked for once");
    }
}

#[test]
fn s15_the_high_watermark_is_frozen_below_min_isr_also_while_others_are_proposed() {
    let mut a = Replica::new(A, FakeLog::new(10, &[(0, 0)]), Some(0));
    a.tell(0, Input::Assigned(with_isr(assignment(A, 5, 10), &[A])));
    let effects = a.fetched(1, B, 10);
    let (proposal, isr) = proposed(&effects).unwrap();
    assert_eq!((isr, a.hw()), (vec![A, B], 0), "the maximal ISR has two, the committed one has one");
    assert_eq!(
        a.machine.may_append(Acks::All, &a.log.facts()),
        Err(ProduceRefusal::NotEnoughReplicas { in_sync: 1, needed: 2 })
    );
    assert!(a.machine.may_append(Acks::Leader, &a.log.facts()).is_ok());
    assert_eq!(a.tell(2, granted(&proposal)), [Effect::HighWatermark(at(10))]);
    assert!(a.machine.may_append(Acks::All, &a.log.facts()).is_ok());

    let rules = Rules::default().without(Rule::HwFrozenBelowMinIsr);
    let mut thawed = Replica::with_rules(A, FakeLog::new(10, &[(0, 0)]), Some(0), rules);
    thawed.tell(0, Input::Assigned(with_isr(assignment(A, 5, 10), &[A])));
    assert_eq!(thawed.hw(), 10, "without the rule it would be one replica's word");
}

#[test]
fn min_isr_is_capped_by_the_number_of_replicas() {
    let mut a = Replica::new(A, FakeLog::new(4, &[(0, 0)]), Some(0));
    let mut alone = with_isr(assignment(A, 5, 10), &[A]);
    alone.replicas.truncate(1);
    a.tell(0, Input::Assigned(alone));
    assert_eq!(a.hw(), 4);
    assert!(a.machine.may_append(Acks::All, &a.log.facts()).is_ok());
}

#[test]
fn s17_a_proposed_member_counts_before_the_controller_answers() {
    let run = |rules: Rules| {
        let mut a = Replica::with_rules(A, FakeLog::new(0, &[]), Some(0), rules);
        a.tell(0, Input::Assigned(with_isr(assignment(A, 5, 10), &[A, B])));
        assert!(proposed(&a.fetched(1, C, 0)).is_some());
        a.grow(2, 10);
        a.fetched(30_000, B, 10);
        a.hw()
    };
    assert_eq!(run(Rules::default()), 0, "the controller may have taken C in, and C has nothing");
    assert_eq!(run(Rules::default().without(Rule::HwOverMaximalIsr)), 10);
}

#[test]
fn s18_a_member_that_is_proposed_to_leave_counts_until_it_has_left() {
    let mut a = Replica::leading(0, 0);
    for id in [B, C] {
        a.fetched(0, id, 0);
    }
    a.grow(100, 10);
    a.fetched(10_000, B, 10);
    let effects = a.tell(10_001, Input::Tick);
    let (proposal, isr) = proposed(&effects).unwrap();
    assert_eq!((isr, a.hw()), (vec![A, B], 0));
    let refused = Input::IsrAnswered { proposal: proposal.clone(), answer: IsrAnswer::Refused };
    assert_eq!(a.tell(10_002, refused), []);
    let again = a.tell(10_502, Input::Tick);
    assert_eq!(proposed(&again).unwrap().1, [A, B], "a refusal is tried again after a pause");
    let (effects, events) = a.tell_all(10_503, granted(&proposal));
    assert_eq!(effects, [Effect::HighWatermark(at(10))]);
    assert_eq!(events, [PartitionEvent::LeftIsr { node: node(C), reason: OutOfSyncReason::Lagging }]);
}

#[test]
fn one_proposal_is_under_way_and_its_answers_are_told_apart() {
    let mut a = Replica::new(A, FakeLog::new(10, &[(0, 0)]), Some(0));
    a.tell(0, Input::Assigned(with_isr(assignment(A, 5, 10), &[A])));
    let (first, _) = proposed(&a.fetched(1, B, 10)).unwrap();
    assert_eq!(proposed(&a.fetched(2, C, 10)), None, "one at a time");
    let answer = |proposal: &IsrProposal, answer| Input::IsrAnswered { proposal: proposal.clone(), answer };
    // Unanswered: the same again, after a pause.
    a.tell(3, answer(&first, IsrAnswer::Unanswered));
    assert_eq!(proposed(&a.tell(502, Input::Tick)), None);
    assert_eq!(a.machine.next_deadline(now(502), &a.log.facts()), Some(ms(503)));
    assert_eq!(proposed(&a.tell(503, Input::Tick)).unwrap().0, first);
    // Outdated: nothing until the controller speaks.
    a.tell(504, answer(&first, IsrAnswer::Outdated));
    assert_eq!(proposed(&a.tell(5_000, Input::Tick)), None);
    // Its word settles it, and the next proposal builds on that word.
    let effects = a.tell(5_001, Input::Assigned(with_isr(assignment(A, 5, 12), &[A])));
    assert_eq!(proposed(&effects), None, "versions were missed, so both have to be heard of again");
    let (second, isr) = proposed(&a.fetched(5_002, C, 10)).unwrap();
    assert_eq!((isr, second.partition_epoch), (vec![A, C], PartitionEpoch::new(12).unwrap()));
    // An answer to the old one says nothing now.
    assert_eq!(a.tell(5_003, granted(&first)), []);
    assert_eq!(a.machine.isr(), [node(A)]);
}

#[test]
fn s08_a_replica_joins_only_with_the_start_of_the_leaders_epoch() {
    let run = |rules: Rules| {
        // The true high watermark is 5, this leader heard of 3; its epoch begins at 5.
        let mut b = Replica::with_rules(B, FakeLog::new(5, &[(0, 0)]), Some(3), rules);
        b.tell(0, Input::Assigned(with_isr(assignment(B, 5, 10), &[A, B])));
        let early = proposed(&b.fetched(1, C, 4)).is_some();
        let complete = proposed(&b.fetched(2, C, 5)).is_some();
        (early, complete)
    };
    assert_eq!(run(Rules::default()), (false, true));
    assert_eq!(run(Rules::default().without(Rule::ExpansionNeedsEpochStart)), (true, false));
}

#[test]
fn a_replica_below_the_high_watermark_does_not_join() {
    let mut a = Replica::new(A, FakeLog::new(10, &[(0, 0)]), Some(10));
    a.tell(0, Input::Assigned(with_isr(assignment(A, 5, 10), &[A, B])));
    a.grow(1, 20);
    a.fetched(2, B, 20);
    assert_eq!(proposed(&a.fetched(3, C, 19)), None);
    assert_eq!(proposed(&a.fetched(4, C, 20)).unwrap().1, [A, B, C]);
}

#[test]
fn s20_a_fetch_of_another_session_counts_for_nothing() {
    let mut a = Replica::new(A, FakeLog::new(10, &[(0, 0)]), Some(0));
    a.tell(0, Input::Assigned(with_isr(assignment(A, 5, 10), &[A])));
    let stale = a.claim(B, 10);
    a.tell(1, Input::MembersChanged(vec![member(B, 2, Standing::Alive)]));
    assert_eq!(proposed(&a.tell(2, Input::FollowerFetched(stale))), None);
    assert_eq!(
        a.machine.judge_fetch(&stale, &a.log.facts()),
        Err(FetchRefusal::OtherSession { node: node(B) })
    );
}

#[test]
fn s20_what_a_follower_said_in_an_older_session_is_forgotten() {
    let run = |rules: Rules| {
        let mut a = Replica::with_rules(A, FakeLog::new(10, &[(0, 0)]), Some(0), rules);
        let mut two = with_isr(assignment(A, 5, 10), &[A, B]);
        two.min_isr = 1;
        a.tell(0, Input::Assigned(two.clone()));
        a.fetched(1, B, 10);
        // B is fenced, comes back with an empty disk, and has not fetched yet.
        two = with_isr(two, &[A]);
        two.partition_epoch = PartitionEpoch::new(11).unwrap();
        two.replicas[1] = member(B, 1, Standing::Fenced);
        a.tell(2, Input::Assigned(two));
        proposed(&a.tell(3, Input::MembersChanged(vec![member(B, 2, Standing::Alive)]))).map(|(_, isr)| isr)
    };
    assert_eq!(run(Rules::default()), None);
    assert_eq!(run(Rules::default().without(Rule::ResetFollowerAtNewSession)), Some(vec![A, B]));
}

#[test]
fn s21_who_is_fenced_or_stopping_does_not_join_and_the_fenced_leave_at_once() {
    for standing in [Standing::Fenced, Standing::Stopping] {
        let mut a = Replica::new(A, FakeLog::new(10, &[(0, 0)]), Some(0));
        let mut two = with_isr(assignment(A, 5, 10), &[A, B]);
        two.replicas[2] = member(C, 1, standing);
        a.tell(0, Input::Assigned(two));
        assert_eq!(proposed(&a.fetched(1, C, 10)), None, "{standing:?}");
        let effects = a.tell(2, Input::MembersChanged(vec![member(B, 1, standing)]));
        let leaves = proposed(&effects).map(|(_, isr)| isr);
        assert_eq!(leaves, (standing == Standing::Fenced).then(|| vec![A]));
    }
}

#[test]
fn a_replica_that_keeps_up_outside_the_isr_holds_the_high_watermark_while_it_may_join() {
    let mut a = Replica::new(A, FakeLog::new(10, &[(0, 0)]), Some(0));
    a.tell(0, Input::Assigned(with_isr(assignment(A, 5, 10), &[A, B])));
    a.fetched(1, B, 10);
    assert_eq!(a.hw(), 10, "C has not been heard of in this epoch");
    // The proposal to take C in is refused, so it is outside, and keeps up.
    let (proposal, _) = proposed(&a.fetched(2, C, 10)).unwrap();
    a.tell(3, Input::IsrAnswered { proposal, answer: IsrAnswer::Refused });
    a.grow(4, 20);
    a.fetched(5, B, 20);
    assert_eq!(a.hw(), 10);
    // Fenced, it holds nothing any more.
    let effects = a.tell(6, Input::MembersChanged(vec![member(C, 1, Standing::Fenced)]));
    assert_eq!(effects, [Effect::HighWatermark(at(20))]);
}

#[test]
fn who_ceases_to_keep_up_outside_the_isr_ceases_to_hold_the_high_watermark() {
    let mut a = Replica::new(A, FakeLog::new(10, &[(0, 0)]), Some(0));
    a.tell(0, Input::Assigned(with_isr(assignment(A, 5, 10), &[A, B])));
    let (proposal, _) = proposed(&a.fetched(2, C, 10)).unwrap();
    a.tell(3, Input::IsrAnswered { proposal, answer: IsrAnswer::Refused });
    a.grow(4, 20);
    a.fetched(9_000, B, 20);
    assert_eq!(a.hw(), 10);
    assert_eq!(a.machine.next_deadline(now(9_000), &a.log.facts()), Some(ms(10_003)));
    assert_eq!(a.tell(10_003, Input::Tick), [Effect::HighWatermark(at(20))]);
}

#[test]
fn a_member_leaves_after_the_lag_time_and_not_before() {
    let mut a = Replica::leading(10, 0);
    a.fetched(1, B, 10);
    a.fetched(1, C, 5);
    // C had nothing of this leader's yet, so its time runs from the beginning of the leadership.
    assert_eq!(a.machine.next_deadline(now(1), &a.log.facts()), Some(ms(10_001)));
    assert_eq!(proposed(&a.tell(10_000, Input::Tick)), None);
    assert_eq!(proposed(&a.tell(10_001, Input::Tick)).unwrap().1, [A, B]);
}

#[test]
fn an_idle_partition_never_shrinks() {
    let mut a = Replica::leading(10, 0);
    a.fetched(1, B, 10);
    a.fetched(1, C, 10);
    assert_eq!(a.machine.next_deadline(now(1), &a.log.facts()), None);
    assert_eq!(proposed(&a.tell(100_000_000, Input::Tick)), None);
}

#[test]
fn s44_waits_end_with_their_leadership() {
    let mut a = Replica::leading(0, 0);
    a.grow(1, 5);
    assert_eq!(a.tell(2, wait(0, 5, 5, Acks::All, 1_000)), []);
    let effects = a.tell(3, Input::Assigned(assignment(B, 6, 11)));
    assert!(effects.contains(&acknowledged(0, WaitOutcome::LeadershipChanged)), "{effects:?}");
    // And one that comes late is told the same.
    assert_eq!(a.tell(4, wait(1, 5, 5, Acks::All, 1_000)), [acknowledged(1, WaitOutcome::LeadershipChanged)]);

    // Without the rule, another record at the same offset would acknowledge it.
    let rules = Rules::default().without(Rule::WaitsKeyedByEpoch);
    let mut forgetful = Replica::with_rules(A, FakeLog::new(0, &[]), Some(0), rules);
    forgetful.tell(0, Input::Assigned(assignment(A, 5, 10)));
    forgetful.grow(1, 5);
    forgetful.tell(2, wait(0, 5, 5, Acks::All, 1_000));
    forgetful.tell(3, Input::Assigned(assignment(B, 6, 11)));
    let heard = FetchOutcome::Records { high_watermark: Some(at(5)), log_start: None };
    let answer = FetchAnswer { epoch: epoch(6), from: at(5), outcome: heard };
    let effects = forgetful.tell(4, Input::FetchAnswered(answer));
    assert!(effects.contains(&acknowledged(0, WaitOutcome::Acknowledged)));
}

#[test]
fn acknowledgements_come_with_the_high_watermark_or_the_leaders_own_write() {
    let mut a = Replica::leading(0, 0);
    a.log.accepted = at(10);
    assert_eq!(a.tell(1, wait(0, 5, 4, Acks::All, 1_000)), []);
    assert_eq!(a.tell(1, wait(1, 5, 8, Acks::All, 1_000)), []);
    assert_eq!(a.tell(1, wait(2, 5, 6, Acks::Leader, 1_000)), []);
    assert_eq!(a.tell(1, wait(3, 5, 6, Acks::None, 1_000)), [acknowledged(3, WaitOutcome::Acknowledged)]);
    assert_eq!(a.grow(2, 10), [acknowledged(2, WaitOutcome::Acknowledged)]);
    a.fetched(3, B, 10);
    let effects = a.fetched(4, C, 6);
    assert_eq!(effects, [acknowledged(0, WaitOutcome::Acknowledged), Effect::HighWatermark(at(6))]);
    // A duplicate of what is committed already is acknowledged at once; one of what is not, waits.
    assert_eq!(a.tell(5, wait(4, 5, 5, Acks::All, 1_000)), [acknowledged(4, WaitOutcome::Acknowledged)]);
    assert_eq!(a.tell(5, wait(5, 5, 7, Acks::All, 900)), []);
    assert_eq!(a.machine.next_deadline(now(5), &a.log.facts()), Some(ms(900)));
    assert_eq!(a.tell(900, Input::Tick), [acknowledged(5, WaitOutcome::TimedOut)]);
    a.tell(901, Input::Forget(WaitId { request: 1, part: 1 }));
    assert_eq!(a.fetched(902, C, 10), [Effect::HighWatermark(at(10))], "nobody waits any more");
}

#[test]
fn s45_min_isr_is_looked_at_again_when_a_wait_completes() {
    let run = |rules: Rules| {
        let mut a = Replica::with_rules(A, FakeLog::new(5, &[(0, 0)]), Some(5), rules);
        a.tell(0, Input::Assigned(assignment(A, 5, 10)));
        a.tell(1, Input::Assigned(with_isr(assignment(A, 5, 11), &[A])));
        a.tell(2, wait(0, 5, 5, Acks::All, 1_000))
    };
    assert_eq!(run(Rules::default()), [acknowledged(0, WaitOutcome::NotEnoughReplicasAfterAppend)]);
    let rules = Rules::default().without(Rule::MinIsrAgainAtCompletion);
    assert_eq!(run(rules), [acknowledged(0, WaitOutcome::Acknowledged)]);
}

#[test]
fn waits_are_bounded_and_a_leadership_begins_before_it_appends() {
    let mut a = Replica::leading(0, 0);
    a.machine.settings.config.waits_max = 1;
    assert!(a.machine.may_append(Acks::All, &a.log.facts()).is_ok());
    a.tell(1, wait(0, 5, 5, Acks::All, 1_000));
    let refused = Err(ProduceRefusal::TooManyWaits { waiting: 1 });
    assert_eq!(a.machine.may_append(Acks::All, &a.log.facts()), refused);
    assert!(a.machine.may_append(Acks::None, &a.log.facts()).is_ok());
    let before = FakeLog::new(0, &[(4, 0)]);
    assert_eq!(a.machine.may_append(Acks::None, &before.facts()), Err(ProduceRefusal::EpochNotBegun));
}

#[test]
fn s09_a_replica_that_may_have_been_removed_and_added_again_is_heard_of_anew() {
    let mut a = Replica::new(A, FakeLog::new(10, &[(0, 0)]), Some(0));
    a.tell(0, Input::Assigned(assignment(A, 5, 10)));
    a.fetched(1, C, 10);
    let effects = a.tell(2, Input::Assigned(with_isr(assignment(A, 5, 13), &[A, B])));
    assert_eq!(proposed(&effects), None);
    assert_eq!(proposed(&a.fetched(3, C, 10)).unwrap().1, [A, B, C]);
}

#[test]
fn s22_the_same_epoch_in_a_later_version_is_the_same_leadership() {
    let mut a = Replica::leading(10, 0);
    a.fetched(1, B, 10);
    a.grow(2, 12);
    assert_eq!(
        a.tell(3, Input::Assigned(with_isr(assignment(A, 5, 11), &[A, B]))),
        [Effect::HighWatermark(at(10))]
    );
    assert_eq!(a.log.epochs, FakeLog::new(12, &[(0, 0), (5, 10)]).epochs);
}

#[test]
fn s34_an_epoch_belongs_to_one_incarnation() {
    let mut a = Replica::new(A, FakeLog::new(10, &[(0, 0), (5, 8)]), Some(8));
    let effects = a.tell(0, Input::Assigned(assignment(A, 5, 10)));
    assert!(effects.contains(&Effect::Resign { epoch: epoch(5), why: ResignReason::SecondIncarnation }));
    assert_eq!(a.machine.may_append(Acks::Leader, &a.log.facts()), Err(ProduceRefusal::NotLeader));
    let effects = a.tell(1, Input::Assigned(assignment(A, 6, 11)));
    assert!(effects.contains(&Effect::BeginEpoch { epoch: epoch(6) }));
}

#[test]
fn s37_an_unknown_high_watermark_is_not_zero_and_is_proven_again() {
    let mut a = Replica::new(A, FakeLog::new(10, &[(0, 0)]), None);
    a.log.start = at(4);
    a.tell(0, Input::Assigned(assignment(A, 5, 10)));
    assert_eq!(
        (a.hw(), a.machine.known_committed()),
        (4, None),
        "consumers read nothing, the checkpoint says nothing"
    );
    let latest = |a: &Replica| a.machine.list_bound(Asker::Client, None, &a.log.facts());
    assert_eq!(latest(&a), Ok(ListBound::Unsettled(at(4))));
    a.fetched(1, B, 10);
    a.fetched(2, C, 10);
    assert_eq!((a.hw(), a.machine.known_committed()), (10, Some(at(10))));
    assert_eq!(latest(&a), Ok(ListBound::Settled(at(10))));
}

#[test]
fn s32_a_leader_that_ends_below_what_it_knew_to_be_committed_says_so() {
    let mut a = Replica::new(A, FakeLog::new(6, &[(0, 0)]), Some(9));
    let (_, events) = a.tell_all(0, Input::Assigned(assignment(A, 5, 10)));
    assert!(events.contains(&PartitionEvent::PossibleLoss { from: at(6), to: at(9) }));
    // Other records will stand there. A process that begins with 9 would give them out as committed.
    assert_eq!((a.hw(), a.machine.known_committed()), (6, Some(at(6))));
    a.grow(1, 12);
    a.fetched(2, B, 8);
    a.fetched(3, C, 8);
    assert_eq!((a.hw(), a.machine.known_committed()), (8, Some(at(8))), "what is counted now is kept");

    let mut recorded = Replica::new(A, FakeLog::new(6, &[(0, 0)]), Some(9));
    let mut lossy = assignment(A, 5, 10);
    let loss = LossRecord { epoch: epoch(5), from: at(6), to: Some(at(9)), by: LossCause::BestOfAll };
    lossy.losses.push(loss);
    let (_, events) = recorded.tell_all(0, Input::Assigned(lossy));
    assert!(events.contains(&PartitionEvent::LossAccepted { from: at(6), to: at(9) }));
    assert_eq!(recorded.machine.known_committed(), Some(at(6)));
}

#[test]
fn a_failed_log_resigns_and_answers_everybody() {
    let mut a = Replica::leading(0, 0);
    a.tell(1, wait(0, 5, 5, Acks::All, 1_000));
    let effects = a.tell(2, Input::LogFailed);
    let resigned = Effect::Resign { epoch: epoch(5), why: ResignReason::LogFailed };
    assert_eq!(effects, [resigned, acknowledged(0, WaitOutcome::LogFailed)]);
    assert_eq!(a.machine.may_append(Acks::Leader, &a.log.facts()), Err(ProduceRefusal::Offline));
    assert_eq!(a.tell(3, Input::Assigned(assignment(A, 6, 11))), []);
    assert_eq!(a.tell(3, Input::LogFailed), []);
    assert_eq!(a.machine.role_name(), RoleName::Offline);
}

#[test]
fn the_status_says_who_is_out_of_sync_since_when_and_why() {
    let mut a = Replica::new(A, FakeLog::new(10, &[(0, 0)]), Some(0));
    let mut alone = with_isr(assignment(A, 5, 10), &[A]);
    alone.replicas[2] = member(C, 1, Standing::Fenced);
    a.tell(1_000, Input::Assigned(alone));
    a.fetched(2_000, B, 3);
    let status = a.machine.status(now(4_000), &a.log.facts());
    let out =
        |id, reason, end| OutOfSync { node: node(id), since: std::time::Duration::from_secs(3), reason, end };
    assert_eq!(
        status.out_of_sync,
        [out(B, OutOfSyncReason::Lagging, Some(at(3))), out(C, OutOfSyncReason::BrokerDown, None)]
    );
    assert_eq!((status.leader, status.role), (Some(node(A)), RoleName::Leader));
    assert_eq!((status.high_watermark, status.log_end), (at(0), at(10)));
}

#[test]
fn a_member_that_is_not_assigned_holds_nothing_and_is_proposed_away() {
    let mut a = Replica::new(A, FakeLog::new(10, &[(0, 0)]), Some(0));
    let mut strange = with_isr(assignment(A, 5, 10), &[A, B, 9]);
    strange.replicas.truncate(2);
    let effects = a.tell(0, Input::Assigned(strange));
    assert_eq!(proposed(&effects).unwrap().1, [A, B]);
    assert_eq!(a.fetched(1, B, 10), [Effect::HighWatermark(at(10))]);
}

/// A follower whose disk is full asks again and again for the same; the others go on without it.
#[test]
fn s58_who_has_just_left_does_not_join_again_because_the_high_watermark_stood_still_for_it() {
    let mut a = Replica::leading(5, 0);
    for id in [B, C] {
        a.fetched(0, id, 5);
    }
    a.grow(1, 10);
    let mut asked = None;
    for time in (100..=10_200).step_by(100) {
        asked = asked.or(proposed(&a.fetched(time, B, 10)));
        asked = asked.or(proposed(&a.fetched(time, C, 5)));
        asked = asked.or(proposed(&a.tell(time, Input::Tick)));
    }
    let (proposal, isr) = asked.unwrap();
    assert_eq!((isr, a.hw()), (vec![A, B], 5));
    let effects = a.tell(10_201, granted(&proposal));
    assert_eq!(effects, [Effect::HighWatermark(at(10))], "and nobody is asked for");
    assert_eq!(proposed(&a.fetched(10_300, C, 5)), None);
}
