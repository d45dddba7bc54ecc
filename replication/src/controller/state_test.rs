//! The format of the state: replayed, cut anywhere, and pinned by files.

use std::collections::{BTreeMap, BTreeSet};

use highwater_engine::units::TopicId;

use super::fixture::*;
use super::*;
use crate::ids::BrokerEpoch;
use crate::partition::{LossCause, LossRecord};
use crate::rules::Rules;

/// Something of everything.
fn eventful() -> Fixture {
    let mut it = Fixture::three(&[("retention.ms", "1000")]);
    it.isr(&[1, 2]);
    it.ask(Some(1), ControllerRequest::AllocateProducerIds);
    for id in 1..=3 {
        it.ended(id);
    }
    for id in 1..=3 {
        let facts = it.facts(0, 6, 9);
        it.register(id, LastStop::MachineCrash, &[facts]);
    }
    it.ask(Some(2), ControllerRequest::ControlledStop);
    it.create_named("u");
    it.ask(None, ControllerRequest::DeleteTopic { name: "u".to_owned(), id: None });
    it
}

#[test]
fn the_state_is_the_sum_of_its_changes() {
    let it = eventful();
    let mut replayed = ClusterState::empty();
    for (version, change) in (0..).zip(&it.changes) {
        let read = Change::decode(&change.encode(), version).unwrap();
        assert_eq!(read, *change);
        replayed.apply(&read).unwrap();
    }
    assert_eq!(replayed, *it.machine.state());
    assert_eq!(ClusterState::decode(&replayed.encode()).unwrap(), replayed);
}

#[test]
fn a_snapshot_anywhere_and_the_tail_are_the_state() {
    let it = eventful();
    let mut prefix = ClusterState::empty();
    for cut in 0..it.changes.len() {
        let mut state = ClusterState::decode(&prefix.encode()).unwrap();
        for change in &it.changes[cut..] {
            state.apply(change).unwrap();
        }
        assert_eq!(state, *it.machine.state(), "cut at {cut}");
        prefix.apply(&it.changes[cut]).unwrap();
    }
}

#[test]
fn a_machine_goes_on_where_its_state_was_left() {
    let it = eventful();
    let machine = Controller::new(it.machine.state().clone(), config(), Rules::default(), 99, it.now);
    let mut on = Fixture::of(machine, it.now);
    on.sessions.clone_from(&it.sessions);
    assert_eq!(on.changes, []);
    assert_eq!(on.ask(Some(3), ControllerRequest::Heartbeat), ControllerReply::Heard, "sessions last");
    let block = ProducerIdBlock { first: 1_000, count: 1_000 };
    assert_eq!(
        on.ask(None, ControllerRequest::AllocateProducerIds),
        ControllerReply::ProducerIds(Some(block))
    );
    on.register(1, LastStop::Killed, &[]);
    assert!(on.sessions[&1] > *it.sessions.values().max().unwrap());
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let newer = br#"{"cluster_created":{"format":3,"something":"new"}}"#;
    assert_eq!(Change::decode(newer, 0), Err(StateError::NewerFormat { found: 3 }));
    let newer = br#"{"rebuilt":{"state":{"format":3,"something":"new"}}}"#;
    assert_eq!(Change::decode(newer, 0), Err(StateError::NewerFormat { found: 3 }));
    let newer = br#"{"format":3,"something":"new"}"#;
    assert_eq!(ClusterState::decode(newer), Err(StateError::NewerFormat { found: 3 }));
    let unknown = Change::decode(br#"{"moon_landed":{}}"#, 5);
    assert!(matches!(unknown, Err(StateError::Unreadable { version: 5, .. })), "{unknown:?}");
    let extra = br#"{"producer_ids_granted":{"next":5,"and":1}}"#;
    assert!(matches!(Change::decode(extra, 5), Err(StateError::Unreadable { .. })));
}

#[test]
fn changes_that_do_not_fit_are_refused_and_change_nothing() {
    let created = Change::ClusterCreated { format: 1, cluster_id: "c".to_owned() };
    let ids = |next| Change::ProducerIdsGranted { next };
    let mut state = ClusterState::empty();
    assert!(state.apply(&ids(5)).is_err());
    state.apply(&created).unwrap();
    state.apply(&ids(5)).unwrap();
    let before = state.clone();
    let bad = [
        created,
        ids(4),
        Change::BrokerChanged { node: node(1), status: BrokerStatus::Alive },
        Change::TopicDeleted { name: "t".to_owned(), id: TopicId::new([1; 16]).unwrap() },
        Change::PartitionChanged { partition: p0(), state: full_partition() },
    ];
    for change in bad {
        assert!(matches!(state.apply(&change), Err(StateError::DoesNotFit { version: 2, .. })), "{change:?}");
        assert_eq!(state, before);
    }
}

fn full_partition() -> PartitionState {
    PartitionState {
        replicas: nodes(&[1, 2, 3]),
        adding: nodes(&[3]),
        removing: nodes(&[2]),
        isr: nodes(&[1]),
        eligible: nodes(&[1, 2]),
        leader: Some(node(1)),
        leader_epoch: epoch(4),
        partition_epoch: partition_epoch(9),
        out_of_sync: [
            (node(2), OutOfSync { since_ms: 1_000, reason: OutReason::SessionEnded }),
            (node(3), OutOfSync { since_ms: -1, reason: OutReason::Lagging }),
        ]
        .into(),
        suspects: [(node(2), Suspicion::MachineCrash)].into(),
        damaged: [node(1)].into(),
        reports: [(
            node(3),
            ReplicaReport { last_epoch: Some(epoch(3)), end: offset(7), known_committed: None },
        )]
        .into(),
        losses: vec![LossRecord {
            epoch: epoch(4),
            from: offset(5),
            to: Some(offset(9)),
            by: LossCause::BestOfAll,
        }],
        possible_losses: vec![PossibleLoss { epoch: epoch(2), from: offset(3) }],
    }
}

fn every_change() -> Vec<Change> {
    let bare = PartitionState {
        adding: vec![],
        removing: vec![],
        out_of_sync: BTreeMap::new(),
        suspects: BTreeMap::new(),
        damaged: BTreeSet::new(),
        reports: BTreeMap::new(),
        losses: vec![],
        possible_losses: vec![],
        leader: None,
        ..full_partition()
    };
    let broker = Broker {
        session: BrokerEpoch::of_session(1, 2),
        host: "localhost".to_owned(),
        port: 9092,
        directory: Some("AAAAAAAAAAAAAAAAAAAAAw".to_owned()),
        process: None,
        status: BrokerStatus::Alive,
        registered_as: None,
    };
    let id = TopicId::new([3; 16]).unwrap();
    let configs = [(MIN_ISR.to_owned(), "2".to_owned())].into();
    let topic = Topic { id, configs, partitions: vec![bare] };
    vec![
        Change::ClusterCreated { format: FORMAT_VERSION, cluster_id: "AAAAAAAAAAAAAAAAAAAAAQ".to_owned() },
        Change::SessionBegan { node: node(1), broker },
        Change::BrokerChanged { node: node(1), status: BrokerStatus::Stopping },
        Change::TopicCreated { name: "t".to_owned(), topic },
        Change::PartitionChanged { partition: p0(), state: full_partition() },
        Change::ProducerIdsGranted { next: 1_000 },
        Change::TopicDeleted { name: "t".to_owned(), id },
    ]
}

fn lines_of(text: &'static str) -> Vec<&'static str> {
    text.lines().collect()
}

/// What these files hold has to be written as it is for ever, or the format is another one.
#[test]
fn the_format_is_the_one_of_the_files() {
    let mut changes = every_change();
    let lines = lines_of(include_str!("../../testdata/controller/changes-2.jsonl"));
    let written: Vec<String> =
        changes.iter().map(|change| String::from_utf8(change.encode().to_vec()).unwrap()).collect();
    assert_eq!(written, lines);
    let mut state = ClusterState::empty();
    for ((version, line), change) in (0..).zip(&lines).zip(&changes) {
        assert_eq!(Change::decode(line.as_bytes(), version).as_ref(), Ok(change));
        if !matches!(change, Change::TopicDeleted { .. }) {
            state.apply(change).unwrap();
        }
    }
    let snapshot = include_str!("../../testdata/controller/state-2.json").trim_end();
    assert_eq!(String::from_utf8(state.encode().to_vec()).unwrap(), snapshot);
    assert_eq!(ClusterState::decode(snapshot.as_bytes()).as_ref(), Ok(&state));
    // What was rebuilt is a state in the place of the first change.
    let rebuilt = ClusterState { version: 0, ..state };
    let line = format!(r#"{{"rebuilt":{{"state":{}}}}}"#, String::from_utf8_lossy(&rebuilt.encode()));
    changes.push(Change::Rebuilt { state: Box::new(rebuilt.clone()) });
    assert_eq!(changes.last().unwrap().encode(), line);
    assert_eq!(Change::decode(line.as_bytes(), 0).as_ref(), Ok(changes.last().unwrap()));
    let mut read = ClusterState::empty();
    read.apply(changes.last().unwrap()).unwrap();
    assert_eq!(read, ClusterState { version: 1, ..rebuilt });
    let mut kinds: Vec<_> = changes.iter().map(std::mem::discriminant).collect();
    kinds.dedup();
    assert_eq!(kinds.len(), 8, "an example of every kind of change");
}

/// A state of the first format stays readable.
#[test]
fn the_first_format_is_read() {
    let lines = lines_of(include_str!("../../testdata/controller/changes-1.jsonl"));
    let mut state = ClusterState::empty();
    for (version, line) in (0..).zip(&lines[..lines.len() - 1]) {
        state.apply(&Change::decode(line.as_bytes(), version).unwrap()).unwrap();
    }
    let snapshot = include_str!("../../testdata/controller/state-1.json").trim_end();
    assert_eq!(ClusterState::decode(snapshot.as_bytes()).as_ref(), Ok(&state));
    assert_eq!((state.format, state.version), (1, 6));
    let bare =
        PartitionState { adding: vec![], removing: vec![], damaged: BTreeSet::new(), ..full_partition() };
    assert_eq!(state.partition(&p0()), Some(&bare));
}

#[test]
fn calls_and_replies_go_through_json() {
    let it = eventful();
    let calls = [
        ControllerRequest::Register(Registration { replicas: vec![it.facts(1, 2, 1)], ..registration(1) }),
        ControllerRequest::Heartbeat,
        ControllerRequest::Poll { since: None, wait_ms: 5 },
        ControllerRequest::AlterIsr(it.proposal(&[1, 2])),
        ControllerRequest::CreateTopic(new_topic("x")),
        ControllerRequest::Elect { partition: p0(), election: Election::To(node(2)) },
        ControllerRequest::Reassign {
            partition: p0(),
            replicas: Some(nodes(&[2, 3])),
            factor: FactorRule::Stays,
        },
        ControllerRequest::ProcessEnded { node: node(1), process: Some(3) },
    ];
    for request in calls {
        let call =
            ControllerCall { sender: Some(Sender { node: node(1), session: it.sessions[&1] }), request };
        assert_eq!(ControllerCall::decode(&call.encode()).unwrap(), call);
    }
    let mut replies: Vec<ControllerReply> = it.replies.values().cloned().collect();
    replies.push(ControllerReply::Whole(Box::new(it.machine.state().clone())));
    replies.push(ControllerReply::Changes { from: 0, changes: it.changes.clone() });
    for reply in replies {
        assert_eq!(ControllerReply::decode(&reply.encode()).unwrap(), reply);
    }
    assert!(ControllerCall::decode(b"{}").is_err() && ControllerReply::decode(b"").is_err());
    let negative = br#"{"sender":null,"request":{"process_ended":{"node":-1,"process":null}}}"#;
    assert!(ControllerCall::decode(negative).is_err());
}
