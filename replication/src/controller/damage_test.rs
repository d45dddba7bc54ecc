//! Who leads when logs are damaged: whoever is complete, if there is one.

use std::time::Duration;

use super::fixture::*;
use super::*;
use crate::rules::{Rule, Rules};

const MIN_2: &[(&str, &str)] = &[(MIN_ISR, "2")];

fn say(it: &mut Fixture, from: i32, integrity: Integrity) {
    let topic_id = it.machine.state().topics["t"].id;
    let said = ControllerRequest::ReportIntegrity { partition: p0(), topic_id, integrity };
    assert_eq!(it.ask(Some(from), said), ControllerReply::Heard);
}

#[test]
fn a_damaged_leader_gives_way_to_a_complete_member_of_the_isr_and_stays_in_it() {
    let mut it = Fixture::three(MIN_2);
    say(&mut it, 1, Integrity::Damaged);
    assert_eq!(it.shape(), (Some(2), 1, vec![1, 2, 3], vec![1, 2, 3]));
    let led = it.events.iter().any(|event| {
        matches!(event, ControllerEvent::Led { why: LeaderReason::LeaderDamaged, to: Some(to), .. } if *to == node(2))
    });
    assert!(led, "{:?}", it.events);
    say(&mut it, 2, Integrity::Damaged);
    say(&mut it, 3, Integrity::Damaged);
    assert_eq!(it.shape(), (Some(3), 2, vec![1, 2, 3], vec![1, 2, 3]), "nobody is complete, so it goes on");
    say(&mut it, 1, Integrity::Whole);
    assert_eq!(it.shape(), (Some(1), 3, vec![1, 2, 3], vec![1, 2, 3]), "whoever is complete first");
}

#[test]
fn without_the_rule_a_damaged_leader_stays() {
    let mut it = Fixture::three_with(MIN_2, Rules::default().without(Rule::DamagedDoNotLead));
    say(&mut it, 1, Integrity::Damaged);
    assert_eq!(it.shape(), (Some(1), 0, vec![1, 2, 3], vec![1, 2, 3]));
}

#[test]
fn nobody_gets_a_damaged_leader_for_a_complete_one() {
    let mut it = Fixture::three(MIN_2);
    say(&mut it, 1, Integrity::Damaged);
    for election in [Election::Preferred, Election::To(node(1))] {
        let outcome = Err(ElectionRefusal::Damaged { node: node(1) });
        let asked = ControllerRequest::Elect { partition: p0(), election };
        assert_eq!(it.ask(None, asked), ControllerReply::Elected { partition: p0(), outcome });
    }
    it.pass(Duration::from_secs(300), &[1, 2, 3]);
    assert_eq!(it.p().leader, Some(node(2)), "the balance does not either");
    it.ask(Some(2), ControllerRequest::ControlledStop);
    assert_eq!(it.p().leader, Some(node(3)), "nor does a stop");
    say(&mut it, 1, Integrity::Whole);
    it.pass(Duration::from_secs(300), &[1, 3]);
    assert_eq!(it.p().leader, Some(node(1)));
}

#[test]
fn below_the_smallest_isr_a_damaged_replica_waits_for_the_complete_one_that_is_away() {
    let mut it = Fixture::three(MIN_2);
    it.ended(3);
    say(&mut it, 2, Integrity::Damaged);
    it.ended(1);
    assert_eq!((it.p().leader, it.shape().3), (None, vec![1, 2]), "1 has what is damaged on 2");
    let facts = it.facts(0, 5, 5);
    it.register(1, LastStop::Killed, &[facts]);
    assert_eq!(it.p().leader, Some(node(1)));
}

/// Whoever waits for a complete replica that does not come may say that enough has been waited.
#[test]
fn while_nobody_leads_a_damaged_replica_that_lost_nothing_leads_by_order_and_nothing_is_given_up() {
    let mut it = Fixture::three(MIN_2);
    it.ended(3);
    say(&mut it, 2, Integrity::Damaged);
    it.ended(1);
    let order = |to| ControllerRequest::Elect { partition: p0(), election: Election::To(node(to)) };
    let refused = |to| ControllerReply::Elected {
        partition: p0(),
        outcome: Err(ElectionRefusal::NotInSync { node: node(to) }),
    };
    let preferred = ControllerRequest::Elect { partition: p0(), election: Election::Preferred };
    assert_eq!(it.ask(None, preferred), refused(1), "who is away does not lead");
    let facts = it.facts(0, 5, 5);
    it.register(3, LastStop::Killed, &[facts]);
    assert_eq!(it.ask(None, order(3)), refused(3), "who was out of the ISR may lack something");
    assert_eq!(it.ask(None, order(2)), ControllerReply::Elected { partition: p0(), outcome: Ok(node(2)) });
    assert_eq!(it.shape(), (Some(2), 2, vec![2], vec![1, 2]));
    assert!(it.p().losses.is_empty() && it.p().possible_losses.is_empty());
}

#[test]
fn where_one_replica_is_enough_a_damaged_one_leads_alone() {
    let mut it = Fixture::three(&[(MIN_ISR, "1")]);
    it.ended(3);
    say(&mut it, 2, Integrity::Damaged);
    it.ended(1);
    assert_eq!((it.p().leader, it.shape().3), (Some(node(2)), vec![2]));
    assert!(it.p().possible_losses.is_empty(), "all that is committed is there, and some of it is damaged");
}

#[test]
fn of_equals_that_may_have_lost_something_the_one_without_damage_leads() {
    let mut it = Fixture::three(MIN_2);
    for id in 1..=3 {
        it.ended(id);
    }
    let whole = it.facts(0, 5, 5);
    let damaged =
        ReplicaFacts { condition: Condition::Damaged, integrity: Integrity::Damaged, ..it.facts(0, 5, 5) };
    it.register(2, LastStop::MachineCrash, &[damaged]);
    assert_eq!((it.p().leader, it.p().damaged.len()), (None, 1));
    it.register(3, LastStop::MachineCrash, std::slice::from_ref(&whole));
    it.register(1, LastStop::MachineCrash, &[ReplicaFacts { end: offset(4), ..whole }]);
    assert_eq!(it.p().leader, Some(node(3)));
}

#[test]
fn a_registration_says_anew_what_is_damaged_and_another_topics_report_says_nothing() {
    let mut it = Fixture::three(MIN_2);
    say(&mut it, 2, Integrity::Damaged);
    let facts = it.facts(0, 5, 5);
    it.register(2, LastStop::Killed, &[facts]);
    assert!(it.p().damaged.is_empty());
    let topic_id = highwater_engine::units::TopicId::new([9; 16]).unwrap();
    let integrity = Integrity::Damaged;
    it.ask(Some(1), ControllerRequest::ReportIntegrity { partition: p0(), topic_id, integrity });
    assert!(it.p().damaged.is_empty());
}

#[test]
fn the_mark_is_part_of_the_state() {
    let mut it = Fixture::three(MIN_2);
    say(&mut it, 2, Integrity::Damaged);
    let state = it.machine.state();
    assert_eq!(ClusterState::decode(&state.encode()).as_ref(), Ok(state));
    assert_eq!(state.partition(&p0()).unwrap().damaged, [node(2)].into());
}
