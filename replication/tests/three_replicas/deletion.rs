//! Topics are deleted while somebody waits at them, and made again under the same name.

use std::collections::BTreeMap;
use std::sync::Arc;

use highwater_engine::disk::SimulatedDisk;
use highwater_engine::disk::simulated::Fault;
use highwater_engine::units::TopicPartition;
use highwater_replication::controller::{ControllerReply, ControllerRequest};
use highwater_replication::wire::ErrorCode;

use super::cluster::{Cluster, node};

fn delete(cluster: &mut Cluster, name: &str) {
    let reply = cluster.ask(ControllerRequest::DeleteTopic { name: name.to_owned(), id: None });
    assert!(matches!(reply, Some(ControllerReply::TopicDeleted { outcome: Ok(_), .. })), "{reply:?}");
}

#[test]
fn who_waits_for_all_at_a_topic_that_is_deleted_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(directory.path());
    cluster.run(50);
    cluster.create_topic("topic");
    let name = TopicPartition::new("topic", 0).unwrap();
    cluster.run(1500);
    // A follower is silent and still in the ISR.
    let leader = cluster.leader(&name);
    let silent = *cluster.shards.keys().rev().find(|id| **id != leader).unwrap();
    let shard = cluster.shards.remove(&silent).unwrap();
    let slot = cluster.send_produce(&name, &[(None, Some("a"))]);
    cluster.run(100);
    assert_eq!(cluster.produced(slot), None, "it waits for the silent one");
    delete(&mut cluster, "topic");
    cluster.run(100);
    assert_eq!(cluster.produced(slot), Some((ErrorCode::NotLeaderOrFollower, 0)), "{:#?}", cluster.log);
    drop(shard);
}

#[test]
fn a_deletion_that_finds_no_room_is_tried_again_and_the_name_is_free_then() {
    let directory = tempfile::tempdir().unwrap();
    let disks: BTreeMap<i32, SimulatedDisk> = (1..=3).map(|id| (id, SimulatedDisk::new(7))).collect();
    let mut cluster = Cluster::with(directory.path(), |id| Arc::new(disks[&id].clone()));
    cluster.run(50);
    cluster.create_topic("topic");
    let name = TopicPartition::new("topic", 0).unwrap();
    cluster.run(1500);
    assert_eq!(cluster.produce(&name, "a"), (ErrorCode::None, 0), "{:#?}", cluster.log);
    let of = |id: i32| directory.path().join(id.to_string()).join("topic-0");
    disks[&2].fail_below(&of(2), Some(Fault::NoSpace));
    delete(&mut cluster, "topic");
    cluster.create_topic("topic");
    cluster.run(1500);
    assert!(cluster.shards[&node(2)].store().log(&name).is_none(), "its name is not free yet");
    disks[&2].fail_below(&of(2), None);
    cluster.run(3000);
    let partition = cluster.controller.state().partition(&name).unwrap();
    assert_eq!(partition.isr.len(), 3, "{:#?}", cluster.log);
    assert_eq!(cluster.produce(&name, "b"), (ErrorCode::None, 0), "{:#?}", cluster.log);
}

#[test]
fn followers_of_a_deleted_topic_do_not_fetch_it_on_and_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(directory.path());
    cluster.run(50);
    // Each broker leads one that is deleted and one that stays, so that all connections and their sessions stay.
    for name in ["a", "b", "c", "d", "e", "f"] {
        cluster.create_topic(name);
    }
    cluster.run(1500);
    for name in ["a", "b", "c"] {
        let reply = cluster.ask(ControllerRequest::DeleteTopic { name: name.to_owned(), id: None });
        assert!(matches!(reply, Some(ControllerReply::TopicDeleted { outcome: Ok(_), .. })), "{reply:?}");
    }
    cluster.run(1500);
    let before = cluster.requests_sent;
    cluster.run(5000);
    // Six pairs of a follower and a leader, each with one Fetch in half a second.
    let sent = cluster.requests_sent - before;
    assert!((50..=70).contains(&sent), "{sent} Fetches in 5 s");
}
