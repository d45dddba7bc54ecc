//! Nodes in threads of their own: what those see who embed them.

#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::batch::{BatchBuilder, Compression};
use highwater_engine::units::{NodeId, Offset, TopicPartition};
use highwater_replication::controller::{ControllerConfig, NewTopic};
use highwater_replication::node::{Acks, CallError, LocalController, Node, leader_of};
use highwater_replication::shard::ShardConfig;
use highwater_replication::transport::Switch;

const TIME: Duration = Duration::from_secs(30);

fn start(home: &Path, ids: &[i32]) -> (LocalController, Vec<Node>) {
    let config = ControllerConfig { brokers_configured: Some(ids.len()), ..ControllerConfig::default() };
    let controller = LocalController::start(&home.join("controller"), config).unwrap();
    let switch = Switch::new();
    let node = |id: &i32| {
        let (id, directory) = (NodeId::new(*id).unwrap(), home.join(id.to_string()));
        Node::start(&directory, ShardConfig::new(id), controller.link(), |inbox| Ok(switch.join(id, inbox)))
            .unwrap()
    };
    let nodes = ids.iter().map(node).collect();
    (controller, nodes)
}

fn stop(controller: LocalController, nodes: Vec<Node>) {
    for node in nodes {
        node.stop().unwrap();
    }
    controller.stop().unwrap();
}

fn batch(text: &str) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(None, None, Some(text.as_bytes()), &[]).unwrap();
    builder.finish().unwrap()
}

#[test]
fn who_does_not_lead_says_so_and_the_leader_gives_back_what_it_was_given() {
    let home = tempfile::tempdir().unwrap();
    let (controller, nodes) = start(home.path(), &[1, 2, 3]);
    nodes[0].create_topic(NewTopic::new("topic")).unwrap().unwrap();
    let name = TopicPartition::new("topic", 0).unwrap();
    let leader = leader_of(&nodes, &name, TIME).unwrap();
    let follower = nodes.iter().find(|node| node.id() != leader.id()).unwrap();
    let refused = follower.append(&name, batch("a"), Acks::All, TIME).unwrap_err();
    assert!(refused.is_elsewhere(), "{refused}");
    for (offset, acks) in [(0, Acks::Leader), (1, Acks::All)] {
        assert_eq!(leader.append(&name, batch("a"), acks, TIME).unwrap().value(), offset);
    }
    let fetched = leader.read(&name, Offset::ZERO, 1 << 20, TIME).unwrap();
    assert_eq!((fetched.records.len(), fetched.high_watermark.value()), (2 * batch("a").len(), 2));
    let damaged = Bytes::from_static(b"no batch");
    let refused = leader.append(&name, damaged, Acks::All, TIME).unwrap_err();
    assert!(matches!(refused, CallError::Refused { .. }) && !refused.is_elsewhere(), "{refused}");
    stop(controller, nodes);
}

#[test]
fn what_a_node_had_when_it_stopped_it_has_when_it_starts() {
    let home = tempfile::tempdir().unwrap();
    let name = TopicPartition::new("topic", 0).unwrap();
    for life in 0..3 {
        let (controller, nodes) = start(home.path(), &[1]);
        if life == 0 {
            nodes[0].create_topic(NewTopic::new("topic")).unwrap().unwrap();
        }
        let leader = leader_of(&nodes, &name, TIME).unwrap();
        assert_eq!(leader.append(&name, batch("a"), Acks::All, TIME).unwrap().value(), life);
        stop(controller, nodes);
    }
}
