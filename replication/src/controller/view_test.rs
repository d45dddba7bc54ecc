//! A broker's copy follows by changes and by the whole, and says what each means for its node.

use std::time::Duration;

use super::fixture::*;
use super::*;
use crate::partition::{Durability, Standing};

fn poll(it: &mut Fixture, from: i32, since: Option<u64>) -> u64 {
    it.send(Some(from), ControllerRequest::Poll { since, wait_ms: 500 })
}

fn follow(it: &mut Fixture, view: &mut ClusterView) -> ViewChange {
    let id = poll(it, view.node().value(), view.since());
    let Some(reply) = it.replies.get(&id).cloned() else { return ViewChange::default() };
    if let ControllerReply::Whole(whole) = reply {
        return view.apply_whole(*whole);
    }
    let ControllerReply::Changes { from, changes } = reply else { panic!("{reply:?}") };
    view.apply_changes(from, &changes).unwrap()
}

#[test]
fn polls_wait_for_news_and_say_nothing_when_there_is_none() {
    let mut it = Fixture::three(&[]);
    let version = it.machine.state().version;
    let id = poll(&mut it, 2, Some(version));
    assert!(!it.replies.contains_key(&id));
    it.isr(&[1, 2]);
    let ControllerReply::Changes { from, changes } = &it.replies[&id] else { panic!() };
    assert_eq!((*from, changes.len()), (version, 1));
    let id = poll(&mut it, 2, Some(version + 1));
    it.pass(Duration::from_millis(499), &[]);
    assert!(!it.replies.contains_key(&id));
    it.pass(Duration::from_millis(1), &[]);
    assert_eq!(it.replies[&id], ControllerReply::Changes { from: version + 1, changes: vec![] });
    // A version that never was, or is no longer kept.
    let id = poll(&mut it, 2, Some(version + 9));
    assert!(matches!(it.replies[&id], ControllerReply::Whole(_)));
    // A broker that is fenced hears of it at once.
    let id = poll(&mut it, 3, Some(version + 1));
    it.ended(3);
    assert_eq!(it.replies[&id], ControllerReply::SessionFenced);
}

#[test]
fn a_copy_made_of_changes_is_the_state() {
    let mut it = Fixture::three(&[]);
    let mut view = ClusterView::new(node(3));
    assert_eq!(view.since(), None);
    let first = follow(&mut it, &mut view);
    assert_eq!(first.assigned.len(), 1);
    it.isr(&[1, 3]);
    it.ended(2);
    it.ask(None, ControllerRequest::AllocateProducerIds);
    let change = follow(&mut it, &mut view);
    assert_eq!(view.state(), it.machine.state());
    let [(name, assignment)] = change.assigned.as_slice() else { panic!("{change:?}") };
    assert_eq!((name, &assignment.isr), (&p0(), &nodes(&[1, 3])));
    assert_eq!(assignment.member(node(2)).unwrap().standing, Standing::Fenced);
    assert_eq!(assignment.member(node(3)).unwrap().session, Some(it.sessions[&3]));
    assert_eq!((assignment.min_isr, assignment.durability), (2, Durability::Written));
    // What it has already does no harm; what is missing is noticed.
    let version = view.state().version;
    assert_eq!(view.apply_changes(0, &it.changes.clone()), Ok(ViewChange::default()));
    assert_eq!(view.apply_changes(version + 1, &[]), Err(ViewError::Gap { from: version + 1, version }));
    assert_eq!(view.state(), it.machine.state());
}

#[test]
fn only_replicas_of_the_own_node_are_told() {
    let mut it = Fixture::three(&[]);
    it.ask(None, ControllerRequest::DeleteTopic { name: "t".to_owned(), id: None });
    it.create(&[], vec![nodes(&[1, 2])]);
    let mut view = ClusterView::new(node(3));
    assert_eq!(follow(&mut it, &mut view), ViewChange::default());
    it.ended(1);
    assert_eq!(follow(&mut it, &mut view), ViewChange::default());
    assert_eq!(view.assignment(&p0()).unwrap().leader, Some(node(2)), "but it knows where they are");
    assert_eq!(view.local_partitions().count(), 0);
}

#[test]
fn a_topic_made_again_between_two_polls_is_removed_and_assigned() {
    for whole in [false, true] {
        let mut it = Fixture::three(&[]);
        let mut view = ClusterView::new(node(3));
        follow(&mut it, &mut view);
        let old = it.machine.state().topics["t"].id;
        it.ask(None, ControllerRequest::DeleteTopic { name: "t".to_owned(), id: None });
        it.create(&[], vec![nodes(&[3])]);
        let change =
            if whole { view.apply_whole(it.machine.state().clone()) } else { follow(&mut it, &mut view) };
        assert_eq!(change.removed, [(p0(), old)]);
        assert_eq!(change.assigned.len(), 1);
        it.ask(None, ControllerRequest::DeleteTopic { name: "t".to_owned(), id: None });
        let new = change.assigned[0].1.topic_id;
        assert_eq!(follow(&mut it, &mut view), ViewChange { removed: vec![(p0(), new)], assigned: vec![] });
    }
}

#[test]
fn reports_are_wanted_while_nobody_leads() {
    let mut it = Fixture::three(&[(MIN_ISR, "3")]);
    let mut view = ClusterView::new(node(3));
    it.ended(3);
    let facts = it.facts(0, 1, 1);
    it.register(3, LastStop::MachineCrash, &[facts]);
    it.ended(2);
    follow(&mut it, &mut view);
    assert_eq!(view.reports_wanted(), []);
    it.ended(1);
    follow(&mut it, &mut view);
    assert_eq!(view.reports_wanted(), [(p0(), epoch(1))]);
    it.report(3, 0, 1, 1);
    follow(&mut it, &mut view);
    assert_eq!(view.reports_wanted(), []);
}
