//! Topics: where their replicas lie, what is refused, and who waits.

use std::time::Duration;

use super::fixture::*;
use super::*;
use crate::rules::Rules;

fn outcome(it: &mut Fixture, topic: NewTopic) -> Result<CreatedTopic, TopicRefusal> {
    let reply = it.ask(None, ControllerRequest::CreateTopic(topic));
    let ControllerReply::TopicCreated { outcome, .. } = reply else { panic!("{reply:?}") };
    outcome
}

fn brokers(count: i32) -> Fixture {
    let mut it = Fixture::with(ControllerConfig { brokers_configured: None, ..config() }, Rules::default());
    for id in 1..=count {
        it.register(id, LastStop::Never, &[]);
    }
    it
}

#[test]
fn replicas_are_spread_evenly_and_no_broker_holds_two_of_one_partition() {
    let mut it = brokers(4);
    let topic = NewTopic { partitions: Some(24), replication_factor: Some(3), ..new_topic("spread") };
    let created = outcome(&mut it, topic).unwrap();
    for replicas in &created.assignment {
        let mut distinct = replicas.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 3, "{replicas:?}");
    }
    for id in 1..=4 {
        let led = created.assignment.iter().filter(|replicas| replicas[0] == node(id)).count();
        let held = created.assignment.iter().filter(|replicas| replicas.contains(&node(id))).count();
        assert_eq!((led, held), (6, 18), "broker {id}");
    }
    // Who follows broker 1 is not always the same one.
    let seconds = created.assignment.iter().filter(|r| r[0] == node(1)).map(|r| r[1]);
    assert_eq!(seconds.collect::<std::collections::BTreeSet<_>>().len(), 3);
}

#[test]
fn a_topic_that_says_nothing_gets_the_defaults() {
    let mut it =
        Fixture::with(ControllerConfig { brokers_configured: Some(2), ..config() }, Rules::default());
    it.register(1, LastStop::Never, &[]);
    it.register(2, LastStop::Never, &[]);
    let created = outcome(&mut it, new_topic("plain")).unwrap();
    assert_eq!(
        created.assignment.iter().map(Vec::len).collect::<Vec<_>>(),
        [2],
        "at most the configured brokers"
    );
    assert_eq!(created.configs[MIN_ISR], "2");
    assert_eq!(
        (created.configs[DURABILITY].as_str(), created.configs[TRUNCATION].as_str()),
        ("written", "leader-epoch")
    );
    let topic = &it.machine.state().topics["plain"];
    assert_eq!(Some(topic.id), created.id);
    assert_eq!((topic.min_isr(2), topic.min_isr(1)), (2, 1), "at most the replicas");
}

#[test]
fn who_leads_a_new_topic_is_told() {
    let mut it = Fixture::three(&[]);
    it.events.clear();
    it.ask(None, ControllerRequest::CreateTopic(NewTopic { partitions: Some(2), ..new_topic("x") }));
    let led: Vec<_> = (it.events.iter())
        .filter_map(|event| {
            let ControllerEvent::Led { partition, to, why: LeaderReason::Created, .. } = event else {
                return None;
            };
            Some((partition, *to))
        })
        .collect();
    let leaders: Vec<_> = (it.machine.state().partitions())
        .filter(|(name, _, _)| name.topic() == "x")
        .map(|(name, _, partition)| (name, partition.leader))
        .collect();
    assert_eq!(led.len(), 2, "{:?}", it.events);
    assert!(
        led.iter().zip(&leaders).all(|((name, to), (expected, leader))| *name == expected && to == leader)
    );
}

type Check = fn(&TopicRefusal) -> bool;

#[test]
fn names_counts_assignments_and_settings_are_checked() {
    let mut it = brokers(3);
    outcome(&mut it, new_topic("a.b")).unwrap();
    let before = it.machine.state().clone();
    let with = |key: &str, value: &str| NewTopic {
        configs: [(key.to_owned(), value.to_owned())].into(),
        ..new_topic("x")
    };
    let assigned = |assignment: Vec<Vec<highwater_engine::units::NodeId>>| NewTopic {
        assignment: Some(assignment),
        ..new_topic("x")
    };
    let cases: Vec<(NewTopic, Check)> = vec![
        (new_topic("a/b"), |r| matches!(r, TopicRefusal::InvalidName { .. })),
        (new_topic("__highwater_guard"), |r| matches!(r, TopicRefusal::InvalidName { .. })),
        (new_topic("a.b"), |r| matches!(r, TopicRefusal::Exists { .. })),
        (new_topic("a_b"), |r| matches!(r, TopicRefusal::Collides { name } if name == "a.b")),
        (NewTopic { partitions: Some(0), ..new_topic("x") }, |r| {
            matches!(r, TopicRefusal::InvalidPartitions { partitions: 0, .. })
        }),
        (NewTopic { partitions: Some(10_001), ..new_topic("x") }, |r| {
            matches!(r, TopicRefusal::InvalidPartitions { max: 10_000, .. })
        }),
        (NewTopic { replication_factor: Some(0), ..new_topic("x") }, |r| {
            matches!(r, TopicRefusal::InvalidReplicationFactor { factor: 0, .. })
        }),
        (assigned(vec![]), |r| matches!(r, TopicRefusal::InvalidPartitions { .. })),
        (assigned(vec![vec![]]), |r| matches!(r, TopicRefusal::InvalidAssignment { .. })),
        (assigned(vec![nodes(&[1, 1])]), |r| matches!(r, TopicRefusal::InvalidAssignment { .. })),
        (assigned(vec![nodes(&[1, 2]), nodes(&[1])]), |r| {
            matches!(r, TopicRefusal::InvalidAssignment { .. })
        }),
        (with(MIN_ISR, "0"), |r| matches!(r, TopicRefusal::InvalidConfig { key, .. } if key == MIN_ISR)),
        (
            with(DURABILITY, "maybe"),
            |r| matches!(r, TopicRefusal::InvalidConfig { key, .. } if key == DURABILITY),
        ),
        (
            with(TRUNCATION, "none"),
            |r| matches!(r, TopicRefusal::InvalidConfig { key, .. } if key == TRUNCATION),
        ),
    ];
    for (topic, expected) in cases {
        let refusal = outcome(&mut it, topic.clone()).unwrap_err();
        assert!(expected(&refusal), "{topic:?}: {refusal:?}");
    }
    let mut lossy = with(TRUNCATION, "high-watermark");
    lossy.configs.insert(DURABILITY.to_owned(), "fsync".to_owned());
    assert!(matches!(outcome(&mut it, lossy), Err(TopicRefusal::InvalidConfig { .. })));
    let checked = NewTopic { purpose: CreationPurpose::Validate, ..new_topic("x") };
    assert_eq!(outcome(&mut it, checked).map(|plan| plan.id), Ok(None));
    assert_eq!(*it.machine.state(), before, "nothing was created");
}

#[test]
fn more_replicas_than_configured_brokers_are_refused_at_once() {
    let mut it = Fixture::with(config(), Rules::default());
    let topic = NewTopic { replication_factor: Some(4), ..new_topic("x") };
    assert_eq!(
        outcome(&mut it, topic),
        Err(TopicRefusal::InvalidReplicationFactor { factor: 4, brokers: 3 })
    );
}

#[test]
fn an_assignment_to_a_stranger_waits_only_while_brokers_are_missing() {
    let mut it = Fixture::with(config(), Rules::default());
    it.register(1, LastStop::Never, &[]);
    it.register(2, LastStop::Never, &[]);
    let topic = |name: &str| NewTopic { assignment: Some(vec![nodes(&[1, 9])]), ..new_topic(name) };
    let early = it.send(Some(1), ControllerRequest::CreateTopic(topic("early")));
    assert!(!it.replies.contains_key(&early));
    it.register(3, LastStop::Never, &[]);
    let names_it = |r: &TopicRefusal| r.to_string().contains("partition 0 names broker 9");
    assert!(outcome(&mut it, topic("x")).is_err_and(|refusal| names_it(&refusal)));
    let ControllerReply::TopicCreated { outcome, .. } = &it.replies[&early] else { panic!() };
    assert!(outcome.as_ref().is_err_and(names_it), "{outcome:?}");
}

#[test]
fn a_creation_waits_for_brokers_until_its_time_is_over() {
    let mut it = Fixture::with(config(), Rules::default());
    it.register(1, LastStop::Never, &[]);
    let late =
        it.send(Some(1), ControllerRequest::CreateTopic(NewTopic { timeout_ms: 1_000, ..new_topic("late") }));
    let id = it.send(Some(1), ControllerRequest::CreateTopic(new_topic("t")));
    let again = it.send(Some(1), ControllerRequest::CreateTopic(new_topic("t")));
    it.register(2, LastStop::Never, &[]);
    it.pass(Duration::from_secs(1), &[1, 2]);
    let refusal = TopicRefusal::TooFewBrokers { needed: 3, registered: 2 };
    assert_eq!(
        it.replies[&late],
        ControllerReply::TopicCreated { name: "late".to_owned(), outcome: Err(refusal) }
    );
    assert!(!it.replies.contains_key(&id));
    it.register(3, LastStop::Never, &[]);
    assert!(matches!(&it.replies[&id], ControllerReply::TopicCreated { outcome: Ok(_), .. }));
    let exists = TopicRefusal::Exists { name: "t".to_owned() };
    assert_eq!(
        it.replies[&again],
        ControllerReply::TopicCreated { name: "t".to_owned(), outcome: Err(exists) }
    );
    assert_eq!(it.p().isr.len(), 3);
}

#[test]
fn a_caller_that_went_away_gets_no_topic_and_no_reply() {
    let mut it = Fixture::with(config(), Rules::default());
    let id = it.send(None, ControllerRequest::CreateTopic(new_topic("t")));
    it.step(Input::CallerGone { id: CallId(id) });
    for id in 1..=3 {
        it.register(id, LastStop::Never, &[]);
    }
    assert!(it.machine.state().topics.is_empty() && !it.replies.contains_key(&id));
}

#[test]
fn a_topic_made_again_is_another_one() {
    let mut it = Fixture::three(&[]);
    let id = it.machine.state().topics["t"].id;
    let delete = ControllerRequest::DeleteTopic { name: "t".to_owned(), id: None };
    assert_eq!(
        it.ask(None, delete.clone()),
        ControllerReply::TopicDeleted { name: "t".to_owned(), outcome: Ok(id) }
    );
    let gone = ControllerReply::TopicDeleted { name: "t".to_owned(), outcome: Err(TopicRefusal::Unknown) };
    assert_eq!(it.ask(None, delete), gone);
    it.create(&[], vec![nodes(&[1, 2, 3])]);
    assert_ne!(it.topic_id(), id);
    // Who names the id means the one that is gone: an order that is repeated takes nothing from the new one.
    let name = "t".to_owned();
    let refused = ControllerReply::TopicDeleted { name: name.clone(), outcome: Err(TopicRefusal::UnknownId) };
    let delete = |id| ControllerRequest::DeleteTopic { name: name.clone(), id: Some(id) };
    assert_eq!(it.ask(None, delete(id)), refused);
    // Nor does what a replica of the one that is gone has to say.
    let leader_epoch = it.p().leader_epoch;
    let why = ResignCause::LogFailed;
    let resign = |topic_id| ControllerRequest::Resign { partition: p0(), topic_id, leader_epoch, why };
    it.ask(Some(1), resign(id));
    assert_eq!(it.shape(), (Some(1), 0, vec![1, 2, 3], vec![1, 2, 3]));
    let now = it.topic_id();
    it.ask(Some(1), resign(now));
    assert_eq!(it.p().leader, Some(node(2)));
    assert_eq!(it.ask(None, delete(now)), ControllerReply::TopicDeleted { name, outcome: Ok(now) });
}

#[test]
fn what_a_replica_of_a_deleted_topic_reports_elects_nobody_in_the_one_that_has_its_name() {
    let mut it = Fixture::three(&[(MIN_ISR, "1")]);
    let topic_id = it.topic_id();
    it.ask(None, ControllerRequest::DeleteTopic { name: "t".to_owned(), id: None });
    it.create(&[(MIN_ISR, "1")], vec![nodes(&[1, 2, 3])]);
    for id in 1..=3 {
        it.ended(id);
    }
    let facts = it.facts(0, 5, 5);
    it.register(1, LastStop::MachineCrash, &[facts]);
    let before = it.p().clone();
    let report = ReplicaReport { last_epoch: None, end: offset(900), known_committed: Some(offset(900)) };
    let reported = ReportedReplica { partition: p0(), topic_id, leader_epoch: before.leader_epoch, report };
    it.ask(Some(1), ControllerRequest::Report(reported));
    assert_eq!(*it.p(), before);
}

#[test]
fn who_is_down_when_a_topic_is_created_is_not_in_sync() {
    let mut it = Fixture::three(&[]);
    it.ended(1);
    it.ask(None, ControllerRequest::DeleteTopic { name: "t".to_owned(), id: None });
    it.create(&[], vec![nodes(&[1, 2, 3])]);
    assert_eq!(it.shape(), (Some(2), 0, vec![2, 3], vec![2, 3]));
    assert_eq!(it.p().out_of_sync[&node(1)].reason, OutReason::NotThereYet);
    let topic = NewTopic { partitions: Some(6), replication_factor: Some(2), ..new_topic("other") };
    let created = outcome(&mut it, topic).unwrap();
    assert!(
        created.assignment.iter().flatten().all(|holder| *holder != node(1)),
        "two are alive, two are enough"
    );
}

#[test]
fn producer_ids_are_never_granted_twice() {
    let mut it = Fixture::three(&[]);
    let mut next = 0;
    for from in [Some(1), None, Some(2)] {
        let block = ProducerIdBlock { first: next, count: 1_000 };
        assert_eq!(
            it.ask(from, ControllerRequest::AllocateProducerIds),
            ControllerReply::ProducerIds(Some(block))
        );
        next += 1_000;
    }
    let state = ClusterState { next_producer_id: i64::MAX - 10, ..it.machine.state().clone() };
    let machine = Controller::new(state, config(), Rules::default(), 1, it.now);
    let mut it = Fixture::of(machine, it.now);
    assert_eq!(it.ask(None, ControllerRequest::AllocateProducerIds), ControllerReply::ProducerIds(None));
}
