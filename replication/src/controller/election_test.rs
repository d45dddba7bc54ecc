//! Who leads after what, by scenario.

use std::time::Duration;

use highwater_engine::units::LeaderEpoch;

use super::fixture::*;
use super::*;
use crate::partition::{LossCause, LossRecord};
use crate::rules::{Rule, Rules};

#[test]
fn a_dead_leader_is_followed_in_assignment_order() {
    let mut it = Fixture::three(&[]);
    assert_eq!(it.shape(), (Some(1), 0, vec![1, 2, 3], vec![1, 2, 3]));
    it.ended(1);
    assert_eq!(it.shape(), (Some(2), 1, vec![2, 3], vec![2, 3]));
    // Below the minimum of 2, who leaves stays eligible; the first one has left above it.
    it.ended(2);
    assert_eq!(it.shape(), (Some(3), 2, vec![3], vec![2, 3]));
    it.ended(3);
    assert_eq!(it.shape(), (None, 3, vec![], vec![2, 3]));
    let facts = it.facts(0, 5, 5);
    it.register(1, LastStop::Killed, std::slice::from_ref(&facts));
    assert_eq!(it.shape(), (None, 3, vec![], vec![2, 3]), "it was out of the ISR while others committed");
    it.register(2, LastStop::Killed, &[facts]);
    assert_eq!(it.shape(), (Some(2), 4, vec![2], vec![2, 3]));
    assert_eq!(it.p().out_of_sync[&node(1)].reason, OutReason::SessionEnded);
}

#[test]
fn followers_that_go_and_come_do_not_touch_the_leader_epoch() {
    let mut it = Fixture::three(&[]);
    it.ended(3);
    let facts = it.facts(0, 5, 5);
    it.register(3, LastStop::Killed, &[facts]);
    assert_eq!(it.shape(), (Some(1), 0, vec![1, 2], vec![1, 2]));
    it.isr(&[1, 2, 3]);
    assert_eq!(it.shape(), (Some(1), 0, vec![1, 2, 3], vec![1, 2, 3]));
    assert_eq!(it.p().partition_epoch, partition_epoch(2));
}

#[test]
fn s02_the_shorter_replica_waits_for_the_other() {
    let mut it = Fixture::with(config(), Rules::default());
    it.register(1, LastStop::Never, &[]);
    it.register(2, LastStop::Never, &[]);
    it.create(&[], vec![nodes(&[1, 2])]);
    it.ended(1);
    it.ended(2);
    // B is back first, with one record of two.
    let short = it.facts(0, 1, 1);
    it.register(2, LastStop::MachineCrash, &[short]);
    assert_eq!(it.shape(), (None, 2, vec![], vec![1, 2]));
    assert_eq!(it.p().suspects[&node(2)], Suspicion::MachineCrash);
    let long = it.facts(0, 2, 2);
    it.register(1, LastStop::MachineCrash, &[long]);
    assert_eq!(it.shape(), (Some(1), 3, vec![1], vec![1, 2]));
    assert_eq!(it.p().losses, []);
    assert_eq!(it.p().possible_losses, [PossibleLoss { epoch: epoch(3), from: offset(2) }]);
    assert!(!it.p().suspects.contains_key(&node(1)) && it.p().suspects.contains_key(&node(2)));
    it.isr(&[1, 2]);
    assert!(it.p().suspects.is_empty(), "back in the ISR");
}

#[test]
fn s02_an_order_elects_the_shorter_one_and_says_what_it_costs() {
    let mut it = Fixture::with(config(), Rules::default());
    it.register(1, LastStop::Never, &[]);
    it.register(2, LastStop::Never, &[]);
    it.create(&[], vec![nodes(&[1, 2])]);
    it.ended(1);
    it.ended(2);
    let unclean = |to| ControllerRequest::Elect { partition: p0(), election: Election::Unclean(node(to)) };
    let nobody = it.ask(None, unclean(2));
    assert!(
        matches!(nobody, ControllerReply::Elected { outcome: Err(ElectionRefusal::NobodyAvailable), .. }),
        "{nobody:?}"
    );
    let short = it.facts(0, 1, 1);
    it.register(2, LastStop::MachineCrash, &[short]);
    let elected = it.ask(None, unclean(2));
    assert_eq!(elected, ControllerReply::Elected { partition: p0(), outcome: Ok(node(2)) });
    assert_eq!(it.shape(), (Some(2), 3, vec![2], vec![2]));
    let loss = LossRecord { epoch: epoch(3), from: offset(1), to: None, by: LossCause::Order };
    assert_eq!(it.p().losses, [loss]);
    assert!(it.events.contains(&ControllerEvent::Lost { partition: p0(), from: offset(1), to: None }));
}

#[test]
fn s14_the_last_one_standing_loses_power_and_an_eligible_one_leads() {
    let mut it = Fixture::three(&[]);
    it.isr(&[1, 2]);
    it.isr(&[1]);
    assert_eq!(it.shape(), (Some(1), 0, vec![1], vec![1, 2]));
    it.ended(1);
    assert_eq!(it.shape(), (Some(2), 1, vec![2], vec![1, 2]), "the high watermark stood still since it left");
    let facts = it.facts(0, 3, 3);
    it.register(1, LastStop::MachineCrash, &[facts]);
    assert_eq!(it.p().suspects[&node(1)], Suspicion::MachineCrash);
    // It does not lead before it has caught up, even if nobody else does.
    it.ended(2);
    assert_eq!(it.shape(), (None, 2, vec![], vec![1, 2]));
}

#[test]
fn s32_after_all_lost_power_the_best_of_all_leads_and_the_loss_is_recorded() {
    let mut it = Fixture::three(&[]);
    for id in 1..=3 {
        it.ended(id);
    }
    assert_eq!(it.shape(), (None, 3, vec![], vec![2, 3]));
    for (id, end, known) in [(1, 5, 4), (2, 6, 9)] {
        let facts = it.facts(0, end, known);
        it.register(id, LastStop::MachineCrash, &[facts]);
        assert_eq!(it.p().leader, None, "3 is eligible and has not registered");
    }
    let facts = it.facts(0, 4, 4);
    it.register(3, LastStop::MachineCrash, &[facts]);
    assert_eq!(it.shape(), (Some(2), 4, vec![2], vec![2, 3]));
    let loss = LossRecord { epoch: epoch(4), from: offset(6), to: Some(offset(9)), by: LossCause::BestOfAll };
    assert_eq!(it.p().losses, [loss]);
    assert_eq!(it.p().possible_losses, []);
    assert!(it.events.contains(&ControllerEvent::Lost {
        partition: p0(),
        from: offset(6),
        to: Some(offset(9))
    }));
}

#[test]
fn an_older_epoch_is_worse_than_a_shorter_log() {
    let mut it = Fixture::three(&[(MIN_ISR, "3")]);
    for id in 1..=3 {
        it.ended(id);
    }
    for (id, last_epoch, end) in [(1, 0, 90), (2, 1, 10), (3, 1, 10)] {
        let facts = it.facts(last_epoch, end, 0);
        it.register(id, LastStop::MachineCrash, &[facts]);
    }
    assert_eq!(it.shape(), (Some(2), 4, vec![2], vec![1, 2, 3]));
}

#[test]
fn a_suspect_reports_again_when_the_leader_it_followed_is_gone() {
    let mut it = Fixture::three(&[(MIN_ISR, "3")]);
    it.ended(2);
    it.ended(3);
    for id in [2, 3] {
        let facts = it.facts(0, 2, 2);
        it.register(id, LastStop::MachineCrash, &[facts]);
    }
    assert_eq!(it.shape(), (Some(1), 0, vec![1], vec![1, 2, 3]));
    it.ended(1);
    let facts = it.facts(0, 4, 2);
    it.register(1, LastStop::MachineCrash, &[facts]);
    assert_eq!(it.p().leader, None, "what 2 and 3 said when they registered is old");
    it.report(2, 0, 3, 2);
    // A report for another epoch is none.
    let old = ReportedReplica {
        partition: p0(),
        topic_id: it.topic_id(),
        leader_epoch: epoch(0),
        report: ReplicaReport { last_epoch: None, end: offset(0), known_committed: None },
    };
    it.ask(Some(3), ControllerRequest::Report(old));
    assert_eq!(it.p().leader, None);
    it.report(3, 0, 7, 2);
    assert_eq!(it.shape(), (Some(3), 2, vec![3], vec![1, 2, 3]));
}

#[test]
fn with_the_rule_off_a_suspect_leads() {
    let mut it = Fixture::three_with(&[], Rules::default().without(Rule::SuspectsDoNotLead));
    it.ended(2);
    it.ended(3);
    it.ended(1);
    let facts = it.facts(0, 0, 0);
    it.register(1, LastStop::MachineCrash, &[facts]);
    assert_eq!(it.shape(), (Some(1), 2, vec![1], vec![1, 3]));
}

#[test]
fn leaders_are_elected_by_order_from_the_isr_only() {
    let mut it = Fixture::three(&[]);
    let to = |id| ControllerRequest::Elect { partition: p0(), election: Election::To(node(id)) };
    let elected = |outcome| ControllerReply::Elected { partition: p0(), outcome };
    assert_eq!(it.ask(None, to(3)), elected(Ok(node(3))));
    assert_eq!(it.shape(), (Some(3), 1, vec![1, 2, 3], vec![1, 2, 3]));
    assert_eq!(it.ask(None, to(3)), elected(Err(ElectionRefusal::NotNeeded { leader: node(3) })));
    it.isr(&[1, 3]);
    assert_eq!(it.ask(None, to(2)), elected(Err(ElectionRefusal::NotInSync { node: node(2) })));
    let unclean = ControllerRequest::Elect { partition: p0(), election: Election::UncleanAny };
    assert_eq!(it.ask(None, unclean), elected(Err(ElectionRefusal::NotNeeded { leader: node(3) })));
}

#[test]
fn preferred_leaders_get_theirs_back_when_it_is_time_and_not_sooner() {
    let mut it = Fixture::three(&[]);
    it.ask(None, ControllerRequest::Elect { partition: p0(), election: Election::To(node(2)) });
    it.pass(Duration::from_secs(299), &[1, 2, 3]);
    assert_eq!(it.p().leader, Some(node(2)));
    it.pass(Duration::from_secs(1), &[1, 2, 3]);
    assert_eq!(it.shape(), (Some(1), 2, vec![1, 2, 3], vec![1, 2, 3]));
}

#[test]
fn who_resigns_because_of_its_log_is_out_and_who_resigns_its_epoch_leads_in_another() {
    let mut it = Fixture::three(&[]);
    let resign = |it: &mut Fixture, from: i32, why| {
        let (leader_epoch, topic_id) = (it.p().leader_epoch, it.topic_id());
        it.ask(Some(from), ControllerRequest::Resign { partition: p0(), topic_id, leader_epoch, why });
    };
    resign(&mut it, 1, ResignCause::SecondIncarnation);
    assert_eq!(it.shape(), (Some(1), 2, vec![1, 2, 3], vec![1, 2, 3]), "the same leader in another epoch");
    resign(&mut it, 1, ResignCause::LogFailed);
    assert_eq!(it.shape(), (Some(2), 3, vec![2, 3], vec![2, 3]));
    assert_eq!(it.p().suspects[&node(1)], Suspicion::LogFailed);
    it.ended(3);
    resign(&mut it, 2, ResignCause::LogFailed);
    assert_eq!(it.shape(), (None, 4, vec![], vec![2, 3]));
    assert_eq!(it.p().suspects[&node(2)], Suspicion::LogFailed);
}

#[test]
fn a_replica_whose_log_failed_counts_no_more_and_is_not_the_best_before_it_is_open_again() {
    let mut it = Fixture::three(&[(MIN_ISR, "1")]);
    let resign = |it: &mut Fixture, from: i32, leader_epoch| {
        let (why, topic_id) = (ResignCause::LogFailed, it.topic_id());
        it.ask(Some(from), ControllerRequest::Resign { partition: p0(), topic_id, leader_epoch, why });
    };
    resign(&mut it, 3, epoch(7));
    assert_eq!(it.shape(), (Some(1), 0, vec![1, 2, 3], vec![1, 2, 3]), "of another epoch");
    resign(&mut it, 3, epoch(0));
    assert_eq!(it.shape(), (Some(1), 0, vec![1, 2], vec![1, 2]));
    assert_eq!(it.p().suspects[&node(3)], Suspicion::LogFailed);
    it.ended(1);
    resign(&mut it, 2, epoch(1));
    assert_eq!(it.shape(), (None, 2, vec![], vec![2]), "3 was not eligible any more");
    let (session, facts) = (it.sessions[&2], it.facts(0, 5, 5));
    let failed = ReplicaFacts { condition: Condition::LogFailed, ..facts.clone() };
    it.register(2, LastStop::StillRunning { session }, &[failed]);
    assert_eq!(it.p().leader, None, "nobody knows what it has");
    let (session, writing) = (it.sessions[&2], ReplicaFacts { condition: Condition::Writing, ..facts });
    it.register(2, LastStop::StillRunning { session }, &[writing]);
    assert_eq!(it.p().leader, None, "nobody knows what it will have");
    it.report(2, 0, 5, 5);
    assert_eq!(it.p().leader, Some(node(2)), "it is open again, and the best that is left");
}

/// 3 is out of the ISR; then 1 and 2 lose their machines, and 1 leads from 6 on. Nobody knows of a loss.
fn a_possible_loss() -> (Fixture, LeaderEpoch) {
    let mut it = Fixture::three(&[]);
    it.isr(&[1, 2]);
    for id in [3, 1, 2] {
        it.ended(id);
    }
    for id in [1, 2] {
        let facts = it.facts(0, 6, 6);
        it.register(id, LastStop::MachineCrash, &[facts]);
    }
    let led = it.p().leader_epoch;
    assert_eq!(it.p().possible_losses, [PossibleLoss { epoch: led, from: offset(6) }]);
    (it, led)
}

#[test]
fn whoever_comes_back_with_more_that_was_committed_proves_a_possible_loss() {
    let (mut it, led) = a_possible_loss();
    let facts = it.facts(0, 9, 8);
    it.register(3, LastStop::Killed, &[facts]);
    let loss = LossRecord { epoch: led, from: offset(6), to: Some(offset(8)), by: LossCause::BestOfAll };
    assert_eq!((it.p().losses.as_slice(), it.p().possible_losses.len()), ([loss].as_slice(), 0));
    let recorded = ControllerEvent::Lost { partition: p0(), from: offset(6), to: Some(offset(8)) };
    assert_eq!(it.events.iter().filter(|event| **event == recorded).count(), 1);
    let facts = it.facts(0, 9, 8);
    it.register(3, LastStop::Killed, &[facts]);
    assert_eq!(it.p().losses, [loss], "once");

    let (mut it, _) = a_possible_loss();
    it.register(3, LastStop::Never, &[]);
    it.report(3, 0, 9, 8);
    assert_eq!(it.p().losses, [loss], "it was there all the time, and says so when it refuses to be cut");
    assert!(it.p().leader.is_some() && it.p().reports.is_empty());
}

#[test]
fn what_a_possible_loss_does_not_cover_stays_possible() {
    let (_, began) = a_possible_loss();
    let began = began.value();
    for (last_epoch, end, known) in [(0, 9, 6), (0, 6, 9), (began, 9, 9), (0, 5, 5)] {
        let (mut it, _) = a_possible_loss();
        let facts = it.facts(last_epoch, end, known);
        it.register(3, LastStop::Killed, &[facts]);
        assert_eq!(it.p().losses, [], "epoch {last_epoch}, ..{end}, committed ..{known}");
        assert_eq!(it.p().possible_losses.len(), 1);
    }
}

#[test]
fn loss_records_are_bounded_and_cover_all_they_stand_for() {
    let mut it = Fixture::three(&[]);
    for _ in 0..PartitionState::LOSSES_MAX + 3 {
        for id in 1..=3 {
            it.ended(id);
        }
        for id in 1..=3 {
            let facts = it.facts(0, 6, 9);
            it.register(id, LastStop::MachineCrash, &[facts]);
        }
        it.isr(&[2, 3]);
        let leader = it.p().leader.unwrap().value();
        assert_eq!(leader, 2);
    }
    let losses = &it.p().losses;
    assert_eq!(losses.len(), PartitionState::LOSSES_MAX);
    assert!(losses.is_sorted_by_key(|loss| loss.epoch));
    assert!(losses.iter().all(|loss| loss.from == offset(6) && loss.to == Some(offset(9))));
}
