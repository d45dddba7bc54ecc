//! Trouble with one disk of three: no room, a directory that fails, a log that cannot be read. The others serve, and it comes back by itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use highwater_engine::disk::SimulatedDisk;
use highwater_engine::disk::simulated::Fault;
use highwater_engine::units::{NodeId, TopicPartition};
use highwater_replication::controller::{self, ControllerReply, ControllerRequest};
use highwater_replication::wire::ErrorCode;

use super::cluster::{Cluster, open};

/// Three disks, and a cluster on them with these topics.
fn cluster_with(topics: &[&str], path: &Path) -> (Cluster, BTreeMap<i32, SimulatedDisk>) {
    let disks: BTreeMap<i32, SimulatedDisk> = (1..=3).map(|id| (id, SimulatedDisk::new(9))).collect();
    let mut cluster = Cluster::with(path, |id| Arc::new(disks[&id].clone()));
    cluster.run(50);
    for topic in topics {
        cluster.create_topic(topic);
    }
    cluster.run(1500);
    (cluster, disks)
}

fn name(topic: &str) -> TopicPartition {
    TopicPartition::new(topic, 0).unwrap()
}

fn isr(cluster: &Cluster, topic: &str) -> Vec<NodeId> {
    cluster.controller.state().partition(&name(topic)).unwrap().isr.clone()
}

#[test]
fn a_leadership_for_which_there_is_no_room_begins_when_there_is() {
    let directory = tempfile::tempdir().unwrap();
    let (mut cluster, disks) = cluster_with(&[], directory.path());
    let file = |id: &i32| directory.path().join(id.to_string()).join("topic-0/leader-epoch-checkpoint.tmp");
    for (id, disk) in &disks {
        disk.fail_below(&file(id), Some(Fault::NoSpace));
    }
    cluster.create_topic("topic");
    cluster.run(1500);
    let (error, _) = cluster.produce(&name("topic"), "too early");
    assert_eq!(error, ErrorCode::NotLeaderOrFollower, "{:#?}", cluster.log);
    for (id, disk) in &disks {
        disk.fail_below(&file(id), None);
    }
    cluster.run(2000);
    assert_eq!(cluster.produce(&name("topic"), "a"), (ErrorCode::None, 0), "{:#?}", cluster.log);
    assert!(cluster.log.iter().all(|line| !line.contains("LogFailed")), "{:#?}", cluster.log);
    assert_eq!(isr(&cluster, "topic").len(), 3);
}

#[test]
fn a_directory_that_fails_takes_its_replicas_offline_and_the_others_serve() {
    let directory = tempfile::tempdir().unwrap();
    let (mut cluster, disks) = cluster_with(&["a", "b", "c"], directory.path());
    for topic in ["a", "b", "c"] {
        assert_eq!(cluster.produce(&name(topic), "before"), (ErrorCode::None, 0), "{:#?}", cluster.log);
    }
    let failing = cluster.leader(&name("a"));
    let path = directory.path().join(failing.to_string());
    for fault in [Fault::ReadOnly, Fault::Io] {
        disks[&failing.value()].fail_below(&path, Some(fault));
    }
    // The first writes find it; some of them are the failing leader's.
    for topic in ["a", "b", "c"] {
        cluster.produce(&name(topic), "meanwhile");
    }
    cluster.run(3000);
    for topic in ["a", "b", "c"] {
        assert_ne!(cluster.leader(&name(topic)), failing, "{:#?}", cluster.log);
        assert!(!isr(&cluster, topic).contains(&failing), "{topic}: {:#?}", cluster.log);
        let (error, offset) = cluster.produce(&name(topic), "after");
        assert!(error == ErrorCode::None && offset >= 1, "{topic}: {error:?}, {:#?}", cluster.log);
    }
}

/// A follower of topic "a" begins again, and its log of that topic cannot be read until the path that is returned is.
fn begin_again_without_a(
    cluster: &mut Cluster,
    disks: &mut BTreeMap<i32, SimulatedDisk>,
    path: &Path,
) -> (NodeId, PathBuf) {
    let leader = cluster.leader(&name("a"));
    let bad = *cluster.shards.keys().rev().find(|id| **id != leader).unwrap();
    drop(cluster.shards.remove(&bad));
    cluster.controller.tell(controller::Input::ProcessEnded { node: bad, process: None });
    cluster.run(50);
    assert_eq!(cluster.produce(&name("a"), "without it"), (ErrorCode::None, 1), "{:#?}", cluster.log);
    let disk = disks[&bad.value()].crash_kill(&mut fastrand::Rng::with_seed(1));
    let log = path.join(bad.to_string()).join("a-0").join(format!("{:020}.log", 0));
    disk.fail_below(&log, Some(Fault::Io));
    disks.insert(bad.value(), disk.clone());
    cluster.lanes.clear();
    let now = cluster.now;
    cluster.shards.insert(bad, open(Arc::new(disk), path, bad.value(), now));
    cluster.run(3000);
    let left_alone = cluster.shards[&bad].store().left_alone();
    assert_eq!(left_alone.len(), 1, "{left_alone:?} {:#?}", cluster.log);
    (bad, log)
}

#[test]
fn a_log_that_is_opened_late_is_not_taken_for_one_of_another_topic() {
    let directory = tempfile::tempdir().unwrap();
    let (mut cluster, mut disks) = cluster_with(&["a"], directory.path());
    assert_eq!(cluster.produce(&name("a"), "before"), (ErrorCode::None, 0), "{:#?}", cluster.log);
    let (bad, log) = begin_again_without_a(&mut cluster, &mut disks, directory.path());
    let delete = ControllerRequest::DeleteTopic { name: "a".to_owned(), id: None };
    assert!(matches!(cluster.ask(delete), Some(ControllerReply::TopicDeleted { outcome: Ok(_), .. })));
    cluster.create_topic("a");
    cluster.run(1500);
    disks[&bad.value()].fail_below(&log, None);
    cluster.run(5000);
    let id = cluster.controller.state().topics["a"].id;
    let log = cluster.shards[&bad].store().log(&name("a")).expect("a replica of the new topic");
    assert_eq!((log.topic_id(), log.written().value()), (Some(id), 0), "{:#?}", cluster.log);
    assert_eq!(isr(&cluster, "a").len(), 3, "{:#?}", cluster.log);
    assert_eq!(cluster.produce(&name("a"), "after"), (ErrorCode::None, 0), "{:#?}", cluster.log);
}

#[test]
fn a_log_that_cannot_be_read_at_the_start_counts_as_failed_and_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let (mut cluster, mut disks) = cluster_with(&["a", "b"], directory.path());
    for topic in ["a", "b"] {
        assert_eq!(cluster.produce(&name(topic), "before"), (ErrorCode::None, 0), "{:#?}", cluster.log);
    }
    let (bad, log) = begin_again_without_a(&mut cluster, &mut disks, directory.path());
    let store = cluster.shards[&bad].store().clone();
    let left_alone: Vec<_> = store.left_alone().into_iter().map(|(name, _)| name).collect();
    assert_eq!(left_alone, [name("a")], "{:#?}", cluster.log);
    assert!(!isr(&cluster, "a").contains(&bad) && isr(&cluster, "b").contains(&bad), "{:#?}", cluster.log);
    assert_eq!(cluster.produce(&name("a"), "beside it"), (ErrorCode::None, 2), "{:#?}", cluster.log);

    disks[&bad.value()].fail_below(&log, None);
    cluster.run(5000);
    assert!(store.left_alone().is_empty() && isr(&cluster, "a").contains(&bad), "{:#?}", cluster.log);
    assert_eq!(store.log(&name("a")).unwrap().written().value(), 3);
}
