//! What passes between a follower and its leader: sessions, refusals, and what is said only once.

use highwater_engine::units::{NodeId, TopicPartition};
use highwater_replication::wire::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState,
};
use highwater_replication::wire::{ApiKey, ErrorCode, Response};

use super::cluster::Cluster;

/// A cluster with one topic, and its partition.
fn with_topic(path: &std::path::Path) -> (Cluster, TopicPartition) {
    let mut cluster = Cluster::new(path);
    cluster.run(50);
    cluster.create_topic("topic");
    cluster.run(1500);
    (cluster, TopicPartition::new("topic", 0).unwrap())
}

fn followers(cluster: &Cluster, name: &TopicPartition) -> Vec<NodeId> {
    let leader = cluster.leader(name);
    cluster.shards.keys().copied().filter(|id| *id != leader).collect()
}

/// A Fetch of so many partitions by somebody who says that he is this replica in this session.
fn fetch_of(node: NodeId, session: i64, parts: usize) -> FetchRequest {
    let partitions = vec![FetchPartition { partition_max_bytes: 1, ..Default::default() }; parts];
    let topics = vec![FetchTopic { topic_id: None, partitions, ..Default::default() }];
    let replica_state = ReplicaState { replica_id: node.value(), replica_epoch: session };
    FetchRequest { replica_state, session_id: 0, session_epoch: 0, topics, ..Default::default() }
}

fn fetched(cluster: &mut Cluster, to: NodeId, request: FetchRequest) -> FetchResponse {
    let slot = cluster.send(to, 17, &request.into());
    cluster.run(2);
    let Some(Response::Fetch(response)) = cluster.answered(slot, ApiKey::Fetch, 17) else {
        panic!("no answer")
    };
    response
}

#[test]
fn only_a_follower_that_names_its_session_with_the_controller_has_a_fetch_session() {
    let directory = tempfile::tempdir().unwrap();
    let (mut cluster, name) = with_topic(directory.path());
    let (leader, follower) = (cluster.leader(&name), followers(&cluster, &name)[0]);
    let session = cluster.controller.state().brokers[&follower].session.value();
    for (claimed, begins) in [(session, true), (session + 1, false), (-1, false)] {
        let response = fetched(&mut cluster, leader, fetch_of(follower, claimed, 1));
        assert_eq!((response.error_code, response.session_id != 0), (ErrorCode::None, begins), "{claimed}");
    }
    // Nor may anybody else name more than a client.
    for (claimed, error) in [(session, ErrorCode::None), (session + 1, ErrorCode::InvalidRequest)] {
        let response = fetched(&mut cluster, leader, fetch_of(follower, claimed, 10_001));
        assert_eq!(response.error_code, error);
    }
}

#[test]
fn a_follower_whose_fetches_are_refused_asks_again_after_a_pause() {
    let directory = tempfile::tempdir().unwrap();
    let (mut cluster, name) = with_topic(directory.path());
    cluster.fetches_refused = Some(ErrorCode::InvalidRequest);
    let before = cluster.requests_sent;
    cluster.run(3000);
    let sent = cluster.requests_sent - before;
    assert!((2..=20).contains(&sent), "two followers sent {sent} Fetches in 3 s");
    cluster.fetches_refused = None;
    cluster.run(2000);
    assert_eq!(cluster.produce(&name, "a"), (ErrorCode::None, 0), "{:#?}", cluster.log);
}

#[test]
fn the_high_watermark_that_came_with_a_divergence_is_said_again() {
    let directory = tempfile::tempdir().unwrap();
    let (mut cluster, name) = with_topic(directory.path());
    for (offset, value) in [(0, "a"), (1, "b")] {
        assert_eq!(cluster.produce(&name, value), (ErrorCode::None, offset), "{:#?}", cluster.log);
    }
    let (leader, follower) = (cluster.leader(&name), followers(&cluster, &name)[0]);
    let state = cluster.controller.state();
    let (session, topic_id) = (state.brokers[&follower].session.value(), state.topics["topic"].id);
    let at = |session_id, session_epoch, fetch_offset| {
        let mut request = fetch_of(follower, session, 1);
        (request.session_id, request.session_epoch) = (session_id, session_epoch);
        request.topics[0].topic_id = Some(topic_id);
        let partition = &mut request.topics[0].partitions[0];
        (partition.fetch_offset, partition.last_fetched_epoch) = (fetch_offset, 0);
        partition.current_leader_epoch = 0;
        request
    };
    // It has a record that its leader has lost, so it does not take the high watermark that comes with the divergence.
    let diverging = fetched(&mut cluster, leader, at(0, 0, 3));
    let part = &diverging.responses[0].partitions[0];
    assert_eq!((part.diverging_epoch.end_offset, part.high_watermark), (2, 2));
    // It has cut its log.
    let answer = fetched(&mut cluster, leader, at(diverging.session_id, 1, 2));
    let said: Vec<i64> = (answer.responses.iter().flat_map(|topic| &topic.partitions))
        .map(|part| part.high_watermark)
        .collect();
    assert_eq!(said, [2]);
    let again = fetched(&mut cluster, leader, at(diverging.session_id, 2, 2));
    assert!(again.responses.is_empty(), "once is enough");
}
