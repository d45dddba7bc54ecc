//! A state made out of directories: what is known, what is above everything that was given out, and who leads then.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use highwater_engine::disk::SimulatedDisk;
use highwater_engine::units::{TopicId, TopicPartition};

use super::fixture::*;
use super::*;
use crate::ids::BrokerEpoch;
use crate::rules::Rules;

fn topic_id() -> TopicId {
    TopicId::new([7; 16]).unwrap()
}

fn log(number: i32, epoch_of_log: i32, producer_id: Option<i64>) -> FoundLog {
    FoundLog {
        partition: TopicPartition::new("t", number).unwrap(),
        topic_id: Some(topic_id()),
        epoch: Some(epoch(epoch_of_log)),
        producer_id,
    }
}

fn broker(id: i32, session: u32, logs: Vec<FoundLog>) -> FoundBroker {
    FoundBroker {
        node: node(id),
        cluster_id: "AAAAAAAAAAAAAAAAAAAAAQ".to_owned(),
        directory: None,
        session: Some(BrokerEpoch::of_session(session, 1)),
        logs,
    }
}

fn three() -> Vec<FoundBroker> {
    vec![
        broker(1, 40, vec![log(0, 3, Some(2_500)), log(1, 0, None)]),
        broker(2, 41, vec![log(0, 5, Some(17))]),
        broker(3, 39, vec![log(1, 0, None)]),
    ]
}

fn rebuilt(found: &[FoundBroker]) -> Result<ClusterState, RebuildRefusal> {
    rebuild(found, &BTreeMap::new(), &BTreeMap::from([(MIN_ISR.to_owned(), "2".to_owned())]), 1_000, 9)
}

#[test]
fn everything_that_was_given_out_lies_below_what_comes() {
    let state = rebuilt(&three()).unwrap();
    let p = state.partition(&p0()).unwrap();
    assert_eq!((p.replicas.clone(), p.leader_epoch), (nodes(&[1, 2]), epoch(1_005)));
    assert_eq!(state.topics["t"].partitions[1].replicas, nodes(&[1, 3]));
    assert_eq!((state.topics["t"].id, state.topics["t"].partitions.len()), (topic_id(), 2));
    assert_eq!(state.topics["t"].configs["retention.ms"], "-1");
    assert!(state.next_producer_id > 1_000_000 && state.next_producer_id % 1_000 == 0);
    assert!(state.sessions > 1_041);
    let sessions: Vec<u32> = state.brokers.values().map(|broker| broker.session.session()).collect();
    assert_eq!(sessions, [1_042, 1_043, 1_044]);
}

#[test]
fn what_cannot_be_one_cluster_is_refused() {
    let mut found = three();
    found[2].cluster_id = "B".to_owned();
    assert!(matches!(rebuilt(&found), Err(RebuildRefusal::AnotherCluster { .. })));
    let mut found = three();
    found[2].node = node(1);
    assert_eq!(rebuilt(&found), Err(RebuildRefusal::SameBroker { node: node(1) }));
    let mut found = three();
    found[2].logs[0].topic_id = TopicId::new([8; 16]);
    assert!(matches!(rebuilt(&found), Err(RebuildRefusal::TwoTopics { .. })));
    assert!(matches!(rebuilt(&[broker(1, 1, vec![log(1, 0, None)])]), Err(RebuildRefusal::Missing { .. })));
    assert_eq!(rebuilt(&[]), Err(RebuildRefusal::Nothing));
    assert_eq!(rebuilt(&[broker(1, 1, vec![log(0, i32::MAX - 5, None)])]), Err(RebuildRefusal::UsedUp));
    let ids = vec![log(0, 0, Some(i64::MAX - 5_000))];
    assert_eq!(rebuilt(&[broker(1, 1, ids)]), Err(RebuildRefusal::UsedUp));
    // What does not say of which topic it is belongs to none.
    let nameless = FoundLog { topic_id: None, ..log(0, 0, None) };
    assert!(rebuilt(&[broker(1, 1, vec![nameless])]).unwrap().topics.is_empty());
}

/// All replicas are waited for, also where one of them could prove that it lost nothing: nobody knows whether it counted.
#[test]
fn the_best_of_all_leads_when_all_are_there() {
    let mut state = ClusterState::empty();
    let whole = rebuilt(&three()).unwrap();
    state.apply(&Change::Rebuilt { state: Box::new(whole) }).unwrap();
    let now = Fixture::three(&[]).now;
    let mut it = Fixture::of(Controller::new(state, config(), Rules::default(), 3, now), now);
    let facts = |it: &Fixture, last, end| it.facts(last, end, 4);
    let one = facts(&it, 3, 9);
    it.register(1, LastStop::Killed, &[one]);
    assert_eq!(it.p().leader, None);
    let other = facts(&it, 5, 7);
    it.register(2, LastStop::Killed, &[other]);
    assert_eq!(it.shape(), (Some(2), 1_006, vec![2], vec![1, 2]));
    assert!(it.p().losses.is_empty());
}

#[test]
fn a_rebuilt_state_is_opened_and_not_written_over() {
    let disk = SimulatedDisk::new(1);
    let (directory, now) = (Path::new("/controller"), Fixture::three(&[]).now);
    let open = || ControllerNode::open(Arc::new(disk.clone()), directory, config(), Rules::default(), 5, now);
    let state = rebuilt(&three()).unwrap();
    write_rebuilt(Arc::new(disk.clone()), directory, state.clone(), now).unwrap();
    let opened = open().unwrap();
    assert_eq!(*opened.state(), ClusterState { version: 1, ..state.clone() });
    opened.close().unwrap();
    let again = write_rebuilt(Arc::new(disk.clone()), directory, state, now);
    assert!(matches!(again, Err(RebuildError::NotEmpty)), "{again:?}");
}
