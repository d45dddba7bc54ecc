//! Requests and facts in, answers out.

#![expect(clippy::wildcard_enum_match_arm, reason = "any other variant fails the test")]

use std::collections::BTreeMap;

use highwater_engine::units::{LeaderEpoch, TopicId};
use highwater_replication::controller::{
    CreatedTopic, ElectionRefusal, FORMAT_VERSION, FactorRule, PartitionState, ReassignRefusal, Topic,
    TopicRefusal,
};
use highwater_replication::ids::{BrokerEpoch, PartitionEpoch};
use highwater_replication::wire::ErrorCode;
use highwater_replication::wire::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use highwater_replication::wire::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use highwater_replication::wire::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use highwater_replication::wire::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use highwater_replication::wire::find_coordinator::FindCoordinatorRequest;
use highwater_replication::wire::init_producer_id::InitProducerIdRequest;
use highwater_replication::wire::metadata::{MetadataRequest, MetadataRequestTopic};

use super::*;

fn node(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn topic_id(byte: u8) -> TopicId {
    TopicId::new([byte; 16]).unwrap()
}

/// Three brokers, the third is down; topic `t` with two partitions, of which nobody leads the second.
fn cluster() -> ClusterState {
    let broker = |id: u16, status| Broker {
        session: BrokerEpoch::of_session(u32::from(id), 1),
        host: "127.0.0.1".to_owned(),
        port: 9091 + id,
        directory: None,
        process: None,
        status,
        registered_as: None,
    };
    let partition = |leader: Option<i32>| PartitionState {
        replicas: vec![node(2), node(3)],
        isr: vec![node(2)],
        eligible: vec![node(2)],
        leader: leader.map(node),
        leader_epoch: LeaderEpoch::new(4).unwrap(),
        partition_epoch: PartitionEpoch::ZERO,
        out_of_sync: BTreeMap::new(),
        suspects: BTreeMap::new(),
        damaged: std::collections::BTreeSet::new(),
        reports: BTreeMap::new(),
        losses: Vec::new(),
        possible_losses: Vec::new(),
        adding: if leader.is_none() { vec![node(3)] } else { Vec::new() },
        removing: if leader.is_none() { vec![node(2)] } else { Vec::new() },
    };
    let configs = BTreeMap::from([("min.insync.replicas".to_owned(), "1".to_owned())]);
    let topic = Topic { id: topic_id(7), configs, partitions: vec![partition(Some(2)), partition(None)] };
    ClusterState {
        format: FORMAT_VERSION,
        version: 9,
        cluster_id: "AAAAAAAAAAAAAAAAAAAAAQ".to_owned(),
        brokers: BTreeMap::from([
            (node(1), broker(1, BrokerStatus::Alive)),
            (node(2), broker(2, BrokerStatus::Alive)),
            (node(3), broker(3, BrokerStatus::Fenced)),
        ]),
        topics: BTreeMap::from([("t".to_owned(), topic)]),
        ..ClusterState::empty()
    }
}

fn ask(version: i16, request: impl Into<Request>) -> Answer {
    let (state, settings) = (cluster(), Settings::default());
    let facts = Facts { node: node(1), state: &state, settings: &settings, replicas: &Vec::new };
    answer(&facts, version, request.into()).unwrap()
}

fn now<T: TryFrom<Response>>(answer: Answer) -> T {
    match answer {
        Answer::Now(response) | Answer::NowAndCreate(response, _) => {
            T::try_from(response).ok().expect("the response of the API")
        }
        Answer::Ask { .. } | Answer::ProducerId => panic!("the controller is asked"),
    }
}

fn finished<T: TryFrom<Response>>(
    answer: Answer,
    reply: impl Fn(&ControllerRequest) -> Option<ControllerReply>,
) -> T {
    let Answer::Ask { requests, finish } = answer else { panic!("the controller is not asked") };
    let replies = requests.iter().map(reply).collect();
    T::try_from(finish(replies)).ok().expect("the response of the API")
}

fn metadata(name: &str) -> MetadataRequest {
    let topic = MetadataRequestTopic { name: Some(name.to_owned()), ..Default::default() };
    MetadataRequest { topics: Some(vec![topic]), ..Default::default() }
}

#[test]
fn metadata_shows_who_is_alive_and_who_leads() {
    use highwater_replication::wire::metadata::MetadataResponse;
    let all: MetadataResponse = now(ask(12, MetadataRequest { topics: None, ..Default::default() }));
    let brokers: Vec<_> = all.brokers.iter().map(|broker| (broker.node_id, broker.port)).collect();
    assert_eq!(brokers, [(1, 9092), (2, 9093)], "the third one is down");
    assert_eq!(all.controller_id, 1, "any broker takes requests for the controller");
    let [led, orphaned] = &all.topics[0].partitions[..] else { panic!("{:?}", all.topics) };
    assert_eq!((led.leader_id, led.leader_epoch, led.error_code), (2, 4, ErrorCode::None));
    assert_eq!((&led.isr_nodes[..], &led.offline_replicas[..]), (&[2][..], &[3][..]));
    assert_eq!((orphaned.leader_id, orphaned.error_code), (-1, ErrorCode::LeaderNotAvailable));
    let none: MetadataResponse = now(ask(12, MetadataRequest { topics: Some(vec![]), ..Default::default() }));
    assert!(none.topics.is_empty());
    let all_of_old: MetadataResponse =
        now(ask(0, MetadataRequest { topics: Some(vec![]), ..Default::default() }));
    assert_eq!(all_of_old.topics.len(), 1, "an empty list is all of them in version 0");
}

#[test]
fn a_question_for_a_topic_that_is_not_there_makes_it_unless_it_may_not() {
    let made = |answer| match answer {
        Answer::NowAndCreate(response, names) => {
            let Response::Metadata(response) = response else { panic!("{response:?}") };
            (response.topics[0].error_code, names)
        }
        _ => panic!("another answer"),
    };
    let unknown = ErrorCode::UnknownTopicOrPartition;
    assert_eq!(made(ask(12, metadata("new"))), (unknown, vec!["new".to_owned()]));
    assert_eq!(made(ask(12, metadata("t"))), (ErrorCode::None, vec![]));
    assert_eq!(made(ask(12, metadata("__consumer_offsets"))), (unknown, vec![]));
    assert_eq!(made(ask(12, metadata("not/legal"))), (ErrorCode::InvalidTopicException, vec![]));
    let only_asked = MetadataRequest { allow_auto_topic_creation: false, ..metadata("new") };
    assert_eq!(made(ask(12, only_asked)), (unknown, vec![]));
    let by_id = MetadataRequestTopic { topic_id: Some(topic_id(8)), name: None };
    let by_id = MetadataRequest { topics: Some(vec![by_id]), ..Default::default() };
    assert_eq!(made(ask(12, by_id)), (ErrorCode::UnknownTopicId, vec![]));
}

fn new_topic(name: &str) -> CreatableTopic {
    CreatableTopic { name: name.to_owned(), num_partitions: 2, replication_factor: 1, ..Default::default() }
}

#[test]
fn topics_are_checked_one_by_one_and_made_by_the_controller() {
    use highwater_replication::wire::create_topics::CreateTopicsResponse;
    let config = |name: &str, value: &str| CreatableTopicConfig {
        name: name.to_owned(),
        value: Some(value.to_owned()),
    };
    let assigned = |numbers: &[i32]| CreatableTopic {
        num_partitions: -1,
        replication_factor: -1,
        assignments: numbers
            .iter()
            .map(|number| CreatableReplicaAssignment { partition_index: *number, broker_ids: vec![2, 1] })
            .collect(),
        ..new_topic("assigned")
    };
    let topics = vec![
        new_topic("good"),
        CreatableTopic { configs: vec![config("retention.ms", "soon")], ..new_topic("bad-value") },
        CreatableTopic { configs: vec![config("no.such", "1")], ..new_topic("bad-key") },
        CreatableTopic { num_partitions: 0, ..new_topic("none") },
        new_topic("there"),
        new_topic("twice"),
        new_topic("twice"),
        assigned(&[1, 0]),
        CreatableTopic { name: "gap".to_owned(), ..assigned(&[0, 2]) },
    ];
    let request = CreateTopicsRequest { topics, timeout_ms: 500, validate_only: false };
    let response: CreateTopicsResponse = finished(ask(7, request), |request| {
        let ControllerRequest::CreateTopic(topic) = request else { panic!("{request:?}") };
        assert_eq!((topic.timeout_ms, topic.purpose), (500, CreationPurpose::Create));
        let outcome = match topic.name.as_str() {
            "there" => Err(TopicRefusal::Exists { name: "there".to_owned() }),
            "assigned" => {
                assert_eq!(topic.assignment, Some(vec![vec![node(2), node(1)]; 2]));
                return None;
            }
            _ => {
                assert_eq!((topic.partitions, topic.replication_factor), (Some(2), Some(1)));
                let assignment = vec![vec![node(1)]; 2];
                Ok(CreatedTopic { id: Some(topic_id(3)), assignment, configs: topic.configs.clone() })
            }
        };
        Some(ControllerReply::TopicCreated { name: topic.name.clone(), outcome })
    });
    let codes: Vec<_> = response.topics.iter().map(|topic| (topic.name.as_str(), topic.error_code)).collect();
    let expected = [
        ("good", ErrorCode::None),
        ("bad-value", ErrorCode::InvalidConfig),
        ("bad-key", ErrorCode::InvalidConfig),
        ("none", ErrorCode::InvalidPartitions),
        ("there", ErrorCode::TopicAlreadyExists),
        ("twice", ErrorCode::InvalidRequest),
        ("assigned", ErrorCode::RequestTimedOut),
        ("gap", ErrorCode::InvalidReplicaAssignment),
    ];
    assert_eq!(codes, expected);
    let good = &response.topics[0];
    assert_eq!((good.num_partitions, good.replication_factor, good.topic_id), (2, 1, Some(topic_id(3))));
}

#[test]
fn what_one_request_can_ask_for_is_bounded() {
    let topics = vec![
        CreatableTopic { num_partitions: 9_000, replication_factor: 1, ..new_topic("a") },
        CreatableTopic { num_partitions: 1_001, replication_factor: 1, ..new_topic("b") },
    ];
    let Answer::Ask { requests, finish } = ask(7, CreateTopicsRequest { topics, ..Default::default() })
    else {
        panic!("topics are made by the controller");
    };
    assert!(requests.is_empty());
    let Response::CreateTopics(response) = finish(Vec::new()) else { panic!("another response") };
    assert!(response.topics.iter().all(|topic| topic.error_code == ErrorCode::InvalidPartitions));

    let twice = MetadataRequest {
        topics: Some([metadata("t"), metadata("t")].into_iter().filter_map(|m| m.topics).flatten().collect()),
        ..metadata("t")
    };
    let Answer::NowAndCreate(Response::Metadata(response), _) = ask(12, twice) else { panic!("metadata") };
    assert_eq!(response.topics.len(), 1, "named twice, answered once");
}

#[test]
fn topics_are_deleted_by_name_and_by_id() {
    use highwater_replication::wire::delete_topics::DeleteTopicsResponse;
    let by = |name: Option<&str>, id| DeleteTopicState { name: name.map(str::to_owned), topic_id: id };
    let topics = vec![by(Some("a"), None), by(None, Some(topic_id(9))), by(None, Some(topic_id(7)))];
    let request = DeleteTopicsRequest { topics, ..Default::default() };
    let response: DeleteTopicsResponse = finished(ask(6, request), |request| {
        let ControllerRequest::DeleteTopic { name, id } = request else { panic!("{request:?}") };
        assert_eq!(*id, (name == "t").then(|| topic_id(7)), "what was named is asked for");
        let outcome = if name == "t" { Ok(topic_id(7)) } else { Err(TopicRefusal::Unknown) };
        Some(ControllerReply::TopicDeleted { name: name.clone(), outcome })
    });
    let outcomes: Vec<_> =
        response.responses.iter().map(|topic| (topic.name.as_deref(), topic.error_code)).collect();
    assert_eq!(
        outcomes,
        [
            (Some("a"), ErrorCode::UnknownTopicOrPartition),
            (None, ErrorCode::UnknownTopicId),
            (Some("t"), ErrorCode::None)
        ]
    );
}

#[test]
fn settings_say_where_they_come_from() {
    use highwater_replication::wire::describe_configs::DescribeConfigsResponse;
    let of = |resource_type, name: &str, keys: Option<&[&str]>| DescribeConfigsResource {
        resource_type,
        resource_name: name.to_owned(),
        configuration_keys: keys.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect()),
    };
    let resources = vec![
        of(2, "t", Some(&["min.insync.replicas", "retention.ms"])),
        of(2, "nowhere", None),
        of(4, "1", None),
        of(4, "2", None),
        of(8, "", None),
    ];
    let request = DescribeConfigsRequest { resources, include_synonyms: true, include_documentation: true };
    let response: DescribeConfigsResponse = now(ask(4, request));
    let codes: Vec<_> = response.results.iter().map(|result| result.error_code).collect();
    let (none, invalid) = (ErrorCode::None, ErrorCode::InvalidRequest);
    assert_eq!(codes, [none, ErrorCode::UnknownTopicOrPartition, none, invalid, invalid]);
    let shown: Vec<_> = response.results[0]
        .configs
        .iter()
        .map(|config| (config.name.as_str(), config.value.as_deref(), config.config_source))
        .collect();
    assert_eq!(shown, [("min.insync.replicas", Some("1"), 1), ("retention.ms", Some("604800000"), 5)]);
    assert_eq!(response.results[0].configs[0].synonyms.len(), 2);
    let listeners = response.results[2].configs.iter().any(|config| config.name == "listeners");
    assert!(listeners, "a broker shows all of its own");
}

#[test]
fn settings_are_described_once_however_often_they_are_asked_for() {
    use highwater_replication::wire::describe_configs::DescribeConfigsResponse;
    let of = |resource_type, name: &str, key: &str| DescribeConfigsResource {
        resource_type,
        resource_name: name.to_owned(),
        configuration_keys: Some(vec![key.to_owned()]),
    };
    let resources =
        vec![of(4, "1", "broker.id"), of(4, "1", "listeners"), of(2, "t", "retention.ms"), of(4, "01", "")];
    let response: DescribeConfigsResponse =
        now(ask(4, DescribeConfigsRequest { resources, ..Default::default() }));
    let results: Vec<_> =
        (response.results.iter()).map(|result| (result.resource_name.as_str(), result.error_code)).collect();
    let (none, invalid) = (ErrorCode::None, ErrorCode::InvalidRequest);
    assert_eq!(results, [("1", none), ("t", none), ("01", invalid)]);
}

#[test]
fn elections_are_the_controllers() {
    use highwater_replication::wire::elect_leaders::ElectLeadersResponse;
    let named = TopicPartitions { topic: "t".to_owned(), partitions: vec![0, -1] };
    let request = ElectLeadersRequest { topic_partitions: Some(vec![named]), ..Default::default() };
    let refuse = |request: &ControllerRequest| {
        let ControllerRequest::Elect { partition, .. } = request else { panic!("{request:?}") };
        let outcome = Err(ElectionRefusal::NotNeeded { leader: node(2) });
        Some(ControllerReply::Elected { partition: partition.clone(), outcome })
    };
    let response: ElectLeadersResponse = finished(ask(2, request), refuse);
    let results: Vec<_> = response.replica_election_results[0]
        .partition_result
        .iter()
        .map(|result| (result.partition_id, result.error_code))
        .collect();
    assert_eq!(results, [(0, ErrorCode::ElectionNotNeeded), (-1, ErrorCode::UnknownTopicOrPartition)]);
    let all = ElectLeadersRequest { election_type: 1, topic_partitions: None, ..Default::default() };
    let Answer::Ask { requests, .. } = ask(2, all) else { panic!("the controller is not asked") };
    assert_eq!(requests.len(), 1, "only the second one has no leader");
}

#[test]
fn reassignments_are_the_controllers_and_shown_while_they_are_under_way() {
    use highwater_replication::wire::alter_partition_reassignments::{
        AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ReassignablePartition,
        ReassignableTopic,
    };
    use highwater_replication::wire::list_partition_reassignments::{
        ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
        ListPartitionReassignmentsTopics, OngoingPartitionReassignment,
    };
    let wanted = |partition_index, replicas| ReassignablePartition { partition_index, replicas };
    let partitions =
        vec![wanted(0, Some(vec![3])), wanted(-1, None), wanted(1, Some(vec![-1])), wanted(1, None)];
    let topics = vec![ReassignableTopic { name: "t".to_owned(), partitions }];
    let request = AlterPartitionReassignmentsRequest {
        allow_replication_factor_change: false,
        topics,
        ..Default::default()
    };
    let refuse = |request: &ControllerRequest| {
        let ControllerRequest::Reassign { partition, replicas, factor } = request else {
            panic!("{request:?}")
        };
        assert_eq!(*factor, FactorRule::Stays);
        let outcome = match replicas {
            Some(_) => Err(ReassignRefusal::FactorChanges { from: 2, to: 1 }),
            None => Err(ReassignRefusal::NotUnderWay),
        };
        Some(ControllerReply::Reassigned { partition: partition.clone(), outcome })
    };
    let response: AlterPartitionReassignmentsResponse = finished(ask(1, request), refuse);
    assert!(!response.allow_replication_factor_change);
    let codes: Vec<_> = (response.responses[0].partitions.iter())
        .map(|result| (result.partition_index, result.error_code))
        .collect();
    assert_eq!(
        codes,
        [
            (0, ErrorCode::InvalidReplicationFactor),
            (-1, ErrorCode::UnknownTopicOrPartition),
            (1, ErrorCode::InvalidReplicaAssignment),
            (1, ErrorCode::NoReassignmentInProgress)
        ]
    );
    let of = |topics| ListPartitionReassignmentsRequest { topics, ..Default::default() };
    let named =
        |number| ListPartitionReassignmentsTopics { name: "t".to_owned(), partition_indexes: vec![number] };
    let all: ListPartitionReassignmentsResponse = now(ask(0, of(None)));
    let under_way = OngoingPartitionReassignment {
        partition_index: 1,
        replicas: vec![2, 3],
        adding_replicas: vec![3],
        removing_replicas: vec![2],
    };
    assert_eq!(all.topics[0].partitions, [under_way]);
    assert_eq!(now::<ListPartitionReassignmentsResponse>(ask(0, of(Some(vec![named(1)])))), all);
    assert_eq!(now::<ListPartitionReassignmentsResponse>(ask(0, of(Some(vec![named(0)])))).topics, []);
}

#[test]
fn a_group_is_coordinated_by_the_leader_of_its_partition_and_the_first_question_makes_the_topic() {
    use highwater_replication::wire::find_coordinator::FindCoordinatorResponse;
    let request = FindCoordinatorRequest { key: "g".to_owned(), ..Default::default() };
    let Answer::NowAndCreate(_, made) = ask(3, request.clone()) else { panic!("the topic is not made") };
    assert_eq!(made, ["__consumer_offsets"]);
    let settings = Settings::default();
    let ControllerRequest::CreateTopic(topic) = automatic_topic(&settings, made[0].clone()) else { panic!() };
    assert_eq!((topic.partitions, topic.configs["cleanup.policy"].as_str()), (Some(50), "compact"));
    assert_eq!(
        automatic_topic(&settings, "t".to_owned()),
        ControllerRequest::CreateTopic(NewTopic {
            name: "t".to_owned(),
            partitions: None,
            configs: BTreeMap::new(),
            ..topic
        })
    );

    let mut state = cluster();
    let topic = state.topics["t"].clone();
    state.topics.insert("__consumer_offsets".to_owned(), topic);
    let facts = Facts { node: node(1), state: &state, settings: &settings, replicas: &Vec::new };
    let find = |key: &str| {
        let request = FindCoordinatorRequest { coordinator_keys: vec![key.to_owned()], ..Default::default() };
        let found: FindCoordinatorResponse = now(answer(&facts, 4, request.into()).unwrap());
        (found.coordinators[0].node_id, found.coordinators[0].port, found.coordinators[0].error_code)
    };
    // Broker 2 leads partition 0, and nobody leads partition 1.
    assert_eq!(find("b"), (2, 9093, ErrorCode::None));
    assert_eq!(find("a"), (-1, -1, ErrorCode::CoordinatorNotAvailable));
    let transaction = FindCoordinatorRequest { key_type: 1, ..request };
    let refused: FindCoordinatorResponse = now(ask(3, transaction));
    assert_eq!(refused.error_code, ErrorCode::TransactionalIdAuthorizationFailed);
}

#[test]
fn what_does_not_exist_yet_is_refused_by_name() {
    use highwater_replication::wire::init_producer_id::InitProducerIdResponse;
    let transactional =
        InitProducerIdRequest { transactional_id: Some("x".to_owned()), ..Default::default() };
    let response: InitProducerIdResponse = now(ask(4, transactional));
    assert_eq!(response.error_code, ErrorCode::UnsupportedVersion);
    assert!(matches!(ask(4, InitProducerIdRequest::default()), Answer::ProducerId));
}

#[test]
fn a_version_of_api_versions_that_is_not_known_is_answered_in_version_0() {
    let mut frame = vec![0, 18, 0, 99, 0, 0, 0, 5, 0xff, 0xff, 0];
    frame.extend([9; 20]);
    let Ok(Read::Response(header, version, Response::ApiVersions(response))) = read(frame.into()) else {
        panic!("it is not answered")
    };
    assert_eq!((header.correlation_id, version), (5, 0));
    assert_eq!(response.error_code, ErrorCode::UnsupportedVersion);
    assert!(read(Bytes::from_static(&[0, 3, 0, 99, 0, 0, 0, 5, 0xff, 0xff])).is_err(), "others are closed");
}
