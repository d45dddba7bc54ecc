//! Three replicas and a controller in one process: what a client of theirs sees when all is well, and when one is lost.

#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

mod cluster;
mod compaction;
mod deletion;
mod fetching;
mod trouble;

use std::collections::BTreeMap;
use std::sync::Arc;

use highwater_engine::batch::{
    BatchBuilder, Compression, ReplicatedBatches, TransactionEnd, transaction_marker,
};
use highwater_engine::disk::SimulatedDisk;
use highwater_engine::disk::simulated::Fault;
use highwater_engine::units::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TopicPartition};
use highwater_replication::controller;
use highwater_replication::wire::ErrorCode;

use cluster::{Cluster, open, posix};

#[test]
fn what_is_acknowledged_is_on_all_three_and_outlives_its_leader() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(directory.path());
    cluster.run(50);
    cluster.create_topic("topic");
    let name = TopicPartition::new("topic", 0).unwrap();
    cluster.run(1500);
    for (offset, value) in [(0, "a"), (1, "b"), (2, "c")] {
        let got = cluster.produce(&name, value);
        assert_eq!(got, (ErrorCode::None, offset), "{:#?}", cluster.log);
    }
    let isr = cluster.controller.state().partition(&name).unwrap().isr.clone();
    assert_eq!(isr.len(), 3, "{:#?}", cluster.log);
    for shard in cluster.shards.values() {
        assert_eq!(shard.store().log(&name).unwrap().written().value(), 3);
    }

    let gone = cluster.leader(&name);
    drop(cluster.shards.remove(&gone));
    cluster.controller.tell(controller::Input::ProcessEnded { node: gone, process: None });
    cluster.run(50);
    assert_ne!(cluster.leader(&name), gone);
    assert_eq!(cluster.produce(&name, "d"), (ErrorCode::None, 3), "{:#?}", cluster.log);

    let id = gone.value();
    let now = cluster.now;
    cluster.lanes.clear();
    cluster.shards.insert(gone, open(posix(), directory.path(), id, now));
    cluster.run(3000);
    let isr = cluster.controller.state().partition(&name).unwrap().isr.clone();
    assert_eq!(isr.len(), 3, "{:#?}", cluster.log);
    assert_eq!(cluster.shards[&gone].store().log(&name).unwrap().written().value(), 4);
}

#[test]
fn a_log_that_a_failed_write_closed_is_opened_again_by_the_same_process_and_catches_up() {
    for who_fails in [Who::Leader, Who::Follower] {
        let directory = tempfile::tempdir().unwrap();
        let disks: BTreeMap<i32, SimulatedDisk> = (1..=3).map(|id| (id, SimulatedDisk::new(7))).collect();
        let mut cluster = Cluster::with(directory.path(), |id| Arc::new(disks[&id].clone()));
        cluster.run(50);
        cluster.create_topic("topic");
        let name = TopicPartition::new("topic", 0).unwrap();
        cluster.run(1500);
        assert_eq!(cluster.produce(&name, "a"), (ErrorCode::None, 0), "{:#?}", cluster.log);

        let leader = cluster.leader(&name);
        let failing = match who_fails {
            Who::Leader => leader,
            Who::Follower => *cluster.shards.keys().find(|id| **id != leader).unwrap(),
        };
        let disk = &disks[&failing.value()];
        // The next call of this disk is the write of the next record.
        disk.fail_call(disk.next_call(), Fault::ShortWrite);
        cluster.resignations_lost = 1;
        let (error, _) = cluster.produce(&name, "b");
        let failed = cluster.log.iter().filter(|line| line.contains("LogFailed")).count();
        let reopened = cluster.log.iter().filter(|line| line.contains("LogReopened")).count();
        assert_eq!((failed, reopened), (1, 1), "{:#?}", cluster.log);
        assert_eq!(cluster.resignations_lost, 0, "it was said again: {:#?}", cluster.log);
        match who_fails {
            Who::Leader => assert_ne!(cluster.leader(&name), failing, "{error:?}"),
            Who::Follower => assert_eq!((cluster.leader(&name), error), (leader, ErrorCode::None)),
        }

        cluster.run(3000);
        let partition = cluster.controller.state().partition(&name).unwrap();
        assert_eq!((partition.isr.len(), partition.suspects.len()), (3, 0), "{:#?}", cluster.log);
        let (error, offset) = cluster.produce(&name, "c");
        assert_eq!(error, ErrorCode::None, "{:#?}", cluster.log);
        for shard in cluster.shards.values() {
            assert_eq!(shard.store().log(&name).unwrap().written().value(), offset + 1);
        }
    }
}

#[test]
fn a_log_that_does_not_say_its_topic_is_made_to_say_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(directory.path());
    cluster.run(50);
    cluster.create_topic("topic");
    let name = TopicPartition::new("topic", 0).unwrap();
    cluster.run(1500);
    let leader = cluster.leader(&name);
    let follower = *cluster.shards.keys().find(|id| **id != leader).unwrap();
    cluster.lanes.clear();
    // As a crash leaves a log that is just being made.
    let metadata = directory.path().join(follower.to_string()).join("topic-0/partition.metadata");
    std::fs::remove_file(&metadata).unwrap();
    for _ in 0..2 {
        drop(cluster.shards.remove(&follower));
        let now = cluster.now;
        cluster.shards.insert(follower, open(posix(), directory.path(), follower.value(), now));
        cluster.run(3000);
    }
    let topic = cluster.controller.state().topics["topic"].id;
    // Opened again, it has the id: a log without one counts as missing when its broker registers.
    let found = cluster.shards[&follower].store().log(&name).unwrap().topic_id();
    assert_eq!((found, metadata.exists()), (Some(topic), true), "{:#?}", cluster.log);
}

#[test]
fn a_log_that_could_not_be_made_is_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let disks: BTreeMap<i32, SimulatedDisk> = (1..=3).map(|id| (id, SimulatedDisk::new(7))).collect();
    let mut cluster = Cluster::with(directory.path(), |id| Arc::new(disks[&id].clone()));
    cluster.run(50);
    // The next calls of these disks are those that make the log.
    for id in [1, 2] {
        disks[&id].fail_call(disks[&id].next_call(), Fault::NoSpace);
    }
    cluster.create_topic("topic");
    let name = TopicPartition::new("topic", 0).unwrap();
    cluster.run(50);
    assert_eq!(cluster.log.iter().filter(|line| line.contains("LogFailed")).count(), 2, "{:#?}", cluster.log);
    cluster.run(3000);
    let partition = cluster.controller.state().partition(&name).unwrap();
    assert_eq!((partition.isr.len(), partition.suspects.len()), (3, 0), "{:#?}", cluster.log);
    assert_eq!(cluster.produce(&name, "a"), (ErrorCode::None, 0), "{:#?}", cluster.log);
}

#[test]
fn high_watermarks_that_found_no_room_are_written_later() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(directory.path());
    cluster.run(50);
    cluster.create_topic("topic");
    cluster.run(1500);
    let name = TopicPartition::new("topic", 0).unwrap();
    let before = cluster.checkpoints_written;
    cluster.checkpoints_refused = 3;
    assert_eq!(cluster.produce(&name, "a"), (ErrorCode::None, 0), "{:#?}", cluster.log);
    cluster.run(12_000);
    assert_eq!(cluster.checkpoints_refused, 0);
    assert_eq!(cluster.checkpoints_written - before, 3, "one of each");
}

#[test]
fn a_transaction_that_is_decided_below_the_high_watermark_is_forgotten_on_every_replica() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(directory.path());
    cluster.run(50);
    cluster.create_topic("topic");
    cluster.run(1500);
    let name = TopicPartition::new("topic", 0).unwrap();
    let leader = cluster.leader(&name);
    let log = cluster.shards[&leader].store().log(&name).unwrap();
    // As a log that Kafka wrote may have it.
    let epoch = log.with_facts(|facts| facts.epochs.latest()).unwrap().epoch;
    let (producer, producer_epoch) = (ProducerId::new(7).unwrap(), ProducerEpoch::new(0).unwrap());
    let mut records = BatchBuilder::new(Compression::None)
        .leader_epoch(epoch)
        .producer(producer, producer_epoch, Sequence::new(0).unwrap())
        .transactional();
    records.push(Some(cluster.now.wall), None, Some(b"a"), &[]).unwrap();
    let end = TransactionEnd::Commit;
    let mut marker = transaction_marker(end, producer, producer_epoch, 0, cluster.now.wall).unwrap().to_vec();
    marker[..8].copy_from_slice(&1_i64.to_be_bytes());
    marker[12..16].copy_from_slice(&epoch.value().to_be_bytes());
    let batches = ReplicatedBatches::check([&records.finish().unwrap()[..], &marker].concat().into(), epoch);
    log.append_replicated(&batches.unwrap(), cluster.now).unwrap();
    assert_eq!(log.first_unstable(Offset::ZERO), Some(Offset::ZERO));

    assert_eq!(cluster.produce(&name, "b"), (ErrorCode::None, 2), "{:#?}", cluster.log);
    cluster.run(1500);
    for shard in cluster.shards.values() {
        let log = shard.store().log(&name).unwrap();
        assert_eq!((log.first_unstable(Offset::ZERO), log.written().value()), (None, 3));
    }
}

#[derive(Clone, Copy)]
enum Who {
    Leader,
    Follower,
}

#[test]
fn only_the_broker_itself_writes_the_records_of_groups() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(directory.path());
    cluster.run(50);
    cluster.create_topic("__consumer_offsets");
    let name = TopicPartition::new("__consumer_offsets", 0).unwrap();
    cluster.run(1500);
    let records = [(Some("key"), Some("value"))];
    assert_eq!(cluster.produce_records(&name, &records), (ErrorCode::InvalidTopicException, -1));
    let epoch = cluster.controller.state().partition(&name).unwrap().leader_epoch;
    let slot = cluster.send_own_produce(&name, &records, epoch);
    cluster.run(1500);
    assert_eq!(cluster.produced(slot), Some((ErrorCode::None, 0)), "{:#?}", cluster.log);
    let other = LeaderEpoch::new(epoch.value() + 1).unwrap();
    let slot = cluster.send_own_produce(&name, &records, other);
    cluster.run(1500);
    let refused = cluster.produced(slot).map(|(error, _)| error);
    assert_eq!(refused, Some(ErrorCode::NotLeaderOrFollower), "it was read in another leadership");
}
