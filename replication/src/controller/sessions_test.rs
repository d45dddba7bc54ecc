//! Brokers come, fall silent, stop and come back.

use std::time::Duration;

use super::fixture::*;
use super::proof::{Contributions, suspicion};
use super::*;
use crate::ids::BrokerEpoch;

#[test]
fn s33_s34_a_restarted_leader_leads_nothing_before_it_is_let_in() {
    for stop in [LastStop::Killed, LastStop::MachineCrash] {
        let mut it = Fixture::three(&[]);
        let old = it.sessions[&1];
        let facts = it.facts(0, 5, 5);
        // Faster than any timeout: nobody has noticed that it was gone.
        it.register(1, stop, &[facts]);
        assert_eq!(it.shape(), (Some(2), 1, vec![2, 3], vec![2, 3]), "{stop:?}");
        assert!(it.sessions[&1] > old);
    }
}

#[test]
fn s34_a_lone_leader_leads_again_in_another_epoch() {
    let mut it = Fixture::with(config(), crate::rules::Rules::default());
    it.register(1, LastStop::Never, &[]);
    it.create(&[], vec![nodes(&[1])]);
    let facts = it.facts(0, 5, 5);
    it.register(1, LastStop::Killed, &[facts]);
    // One epoch ends the old leadership, one begins the new.
    assert_eq!(it.shape(), (Some(1), 2, vec![1], vec![1]));
    let changes: Vec<&Change> = it.changes.iter().rev().take(4).rev().collect();
    assert!(matches!(changes[0], Change::PartitionChanged { state, .. } if state.leader.is_none()));
    assert!(matches!(changes[2], Change::SessionBegan { .. }), "fenced first, then let in: {changes:?}");
    assert!(matches!(changes[3], Change::PartitionChanged { state, .. } if state.leader == Some(node(1))));
}

#[test]
fn a_silent_broker_is_fenced_and_only_then() {
    let mut it = Fixture::three(&[]);
    it.pass(Duration::from_millis(8_999), &[2, 3]);
    assert_eq!(it.p().leader, Some(node(1)));
    it.pass(Duration::from_millis(1), &[2, 3]);
    assert_eq!(it.shape(), (Some(2), 1, vec![2, 3], vec![2, 3]));
    assert!(it.events.contains(&ControllerEvent::Fenced { node: node(1), why: FenceReason::Silent }));
    assert_eq!(it.ask(Some(1), ControllerRequest::Heartbeat), ControllerReply::SessionFenced);
    // It hung and comes back: the same process, its logs open all the time.
    let (session, facts) = (it.sessions[&1], it.facts(0, 5, 5));
    it.register(1, LastStop::StillRunning { session }, &[facts]);
    assert!(it.p().suspects.is_empty());
    assert_eq!(it.ask(Some(1), ControllerRequest::Heartbeat), ControllerReply::Heard);
}

#[test]
fn a_controller_that_was_asleep_does_not_fence_everybody() {
    let mut it = Fixture::three(&[]);
    it.now.monotonic = it.now.monotonic.after(Duration::from_secs(60));
    it.step(Input::Tick);
    assert_eq!(it.shape(), (Some(1), 0, vec![1, 2, 3], vec![1, 2, 3]));
    it.pass(Duration::from_secs(10), &[2, 3]);
    assert_eq!(it.p().leader, Some(node(2)), "but whoever stays silent is fenced");
}

#[test]
fn a_stopping_broker_hands_over_and_leaves_where_somebody_else_is() {
    let mut it = Fixture::three(&[]);
    assert_eq!(it.ask(Some(1), ControllerRequest::ControlledStop), ControllerReply::MayStop { remaining: 0 });
    assert_eq!(it.shape(), (Some(2), 1, vec![2, 3], vec![2, 3]));
    assert_eq!(it.p().out_of_sync[&node(1)].reason, OutReason::Stopping);
    it.ask(Some(2), ControllerRequest::ControlledStop);
    assert_eq!(it.ask(Some(3), ControllerRequest::ControlledStop), ControllerReply::MayStop { remaining: 1 });
    assert_eq!(it.shape(), (Some(3), 2, vec![3], vec![2, 3]), "the last one leads until it is gone");
    let session = it.sessions[&3];
    it.ended(3);
    assert_eq!(it.shape(), (None, 3, vec![], vec![2, 3]), "2 stops too, so it does not lead");
    let facts = it.facts(2, 9, 9);
    it.register(3, LastStop::Clean { session: Some(session) }, &[facts]);
    assert_eq!(it.shape(), (Some(3), 4, vec![3], vec![2, 3]));
}

#[test]
fn an_end_of_an_earlier_process_is_not_this_ones() {
    let mut it = Fixture::three(&[]);
    it.step(Input::ProcessEnded { node: node(1), process: Some(77) });
    assert_eq!(it.p().leader, Some(node(1)));
    let ended = ControllerRequest::ProcessEnded { node: node(1), process: Some(1001) };
    assert_eq!(it.ask(None, ended), ControllerReply::Heard);
    assert_eq!(it.p().leader, Some(node(2)));
}

#[test]
fn a_directory_of_another_cluster_and_a_second_broker_of_one_id_are_refused() {
    let mut it = Fixture::three(&[]);
    let cluster_id = Some("AAAAAAAAAAAAAAAAAAAAAg".to_owned());
    let before = it.machine.state().clone();
    let wrong = Registration { cluster_id, ..registration(1) };
    let reply = it.ask(None, ControllerRequest::Register(wrong));
    assert!(
        matches!(reply, ControllerReply::Registered(Err(RegistrationRefusal::WrongCluster { .. }))),
        "{reply:?}"
    );
    assert_eq!(*it.machine.state(), before, "a refusal changes nothing");
    let of = |directory: &str| {
        ControllerRequest::Register(Registration { directory: Some(directory.to_owned()), ..registration(4) })
    };
    assert!(matches!(it.ask(None, of("one")), ControllerReply::Registered(Ok(_))));
    assert_eq!(
        it.ask(None, of("two")),
        ControllerReply::Registered(Err(RegistrationRefusal::DuplicateNode { node: node(4) }))
    );
    it.ended(4);
    assert!(matches!(it.ask(None, of("two")), ControllerReply::Registered(Ok(_))), "its disk was replaced");
}

#[test]
fn calls_of_no_session_and_of_an_old_one_are_fenced() {
    let mut it = Fixture::three(&[]);
    assert_eq!(it.ask(None, ControllerRequest::Heartbeat), ControllerReply::SessionFenced);
    assert_eq!(it.ask(None, ControllerRequest::ControlledStop), ControllerReply::SessionFenced);
    let poll = ControllerRequest::Poll { since: None, wait_ms: 0 };
    assert_eq!(it.ask(None, poll), ControllerReply::SessionFenced, "sessions are nobody else's business");
    let old = it.sessions[&2];
    it.register(2, LastStop::Killed, &[]);
    it.sessions.insert(2, old);
    let proposal = it.proposal(&[1, 2, 3]);
    assert_eq!(it.ask(Some(2), ControllerRequest::AlterIsr(proposal)), ControllerReply::SessionFenced);
    assert_eq!(it.ask(Some(2), ControllerRequest::AllocateProducerIds), ControllerReply::SessionFenced);
}

#[test]
fn suspicion_outlives_a_second_crash_and_ends_in_the_isr() {
    let mut it = Fixture::three(&[(MIN_ISR, "3")]);
    let facts = it.facts(0, 5, 5);
    it.register(3, LastStop::MachineCrash, std::slice::from_ref(&facts));
    it.register(3, LastStop::Killed, std::slice::from_ref(&facts));
    assert_eq!(it.p().suspects[&node(3)], Suspicion::MachineCrash, "this proof is of the time since");
    it.isr(&[1, 2, 3]);
    assert!(it.p().suspects.is_empty());
    it.register(3, LastStop::Killed, &[facts]);
    assert!(it.p().suspects.is_empty());
}

#[test]
fn s37_what_proves_a_replica_and_what_does_not() {
    use Contributions::{Durable, Written};
    let it = Fixture::three(&[]);
    let good = ReplicaFacts { recovery_point: Some(offset(4)), ..it.facts(0, 5, 5) };
    let (mine, other) = (BrokerEpoch::new(8), BrokerEpoch::new(9));
    let session = mine.unwrap();
    let clean = LastStop::Clean { session: mine };
    let crash = LastStop::MachineCrash;
    let no_hw = ReplicaFacts { known_committed: None, ..good.clone() };
    let no_recovery = ReplicaFacts { recovery_point: None, ..good.clone() };
    let short = ReplicaFacts { end: offset(4), ..good.clone() };
    let below_recovery = ReplicaFacts { recovery_point: Some(offset(6)), ..good.clone() };
    let damaged = ReplicaFacts { condition: Condition::Damaged, ..good.clone() };
    let differs = ReplicaFacts { condition: Condition::DiffersFromMark, ..good.clone() };
    let cases = [
        (clean, Written, &good, None),
        (clean, Written, &differs, Some(Suspicion::MarkDoesNotFit)),
        (clean, Written, &no_hw, None),
        (clean, Written, &short, Some(Suspicion::TooShort)),
        (LastStop::Clean { session: other }, Written, &good, Some(Suspicion::MarkDoesNotFit)),
        (LastStop::Clean { session: None }, Written, &good, Some(Suspicion::MarkDoesNotFit)),
        (LastStop::Killed, Written, &good, None),
        (LastStop::Killed, Written, &no_hw, Some(Suspicion::CheckpointsUnreadable)),
        (LastStop::Killed, Written, &no_recovery, Some(Suspicion::CheckpointsUnreadable)),
        (LastStop::Killed, Written, &short, Some(Suspicion::TooShort)),
        (LastStop::Killed, Written, &below_recovery, Some(Suspicion::TooShort)),
        (LastStop::Killed, Written, &damaged, Some(Suspicion::Damaged)),
        (crash, Written, &good, Some(Suspicion::MachineCrash)),
        (crash, Durable, &good, None),
        (crash, Durable, &no_hw, Some(Suspicion::CheckpointsUnreadable)),
        (crash, Durable, &short, Some(Suspicion::TooShort)),
        (crash, Durable, &damaged, Some(Suspicion::Damaged)),
        (LastStop::StillRunning { session }, Written, &no_hw, None),
        (LastStop::StillRunning { session }, Written, &damaged, Some(Suspicion::Damaged)),
        (LastStop::Never, Durable, &good, Some(Suspicion::MachineCrash)),
    ];
    for (stop, contributions, facts, expected) in cases {
        assert_eq!(suspicion(stop, mine, contributions, Some(facts)), expected, "{stop:?} {facts:?}");
    }
    assert_eq!(suspicion(clean, mine, Durable, None), Some(Suspicion::Missing));
    let running = LastStop::StillRunning { session };
    assert_eq!(suspicion(running, other, Written, Some(&good)), Some(Suspicion::MarkDoesNotFit));
}

#[test]
fn s37_a_leader_without_its_high_watermark_waits_for_the_others() {
    let mut it = Fixture::three(&[]);
    it.isr(&[1, 2]);
    it.ended(2);
    it.ended(1);
    let facts = ReplicaFacts { known_committed: None, ..it.facts(0, 5, 5) };
    it.register(1, LastStop::Killed, &[facts]);
    assert_eq!(it.p().suspects[&node(1)], Suspicion::CheckpointsUnreadable);
    assert_eq!(it.shape(), (None, 1, vec![], vec![1, 2]));
    let facts = it.facts(0, 5, 5);
    it.register(2, LastStop::Killed, &[facts]);
    assert_eq!(it.shape(), (Some(2), 2, vec![2], vec![1, 2]));
    assert_eq!(it.p().possible_losses, [], "2 is proven, so nothing may be lost");
}

#[test]
fn a_disk_that_was_replaced_under_a_topic_id_that_is_gone_is_missing() {
    let mut it = Fixture::three(&[(MIN_ISR, "3")]);
    let stale =
        ReplicaFacts { topic_id: highwater_engine::units::TopicId::new([9; 16]), ..it.facts(0, 5, 5) };
    it.register(2, LastStop::Killed, &[stale]);
    assert_eq!(it.p().suspects[&node(2)], Suspicion::Missing);
}

#[test]
fn a_registration_whose_answer_was_lost_is_judged_as_the_one_before_and_another_process_is_not() {
    for stop in
        [|session| LastStop::StillRunning { session }, |session| LastStop::Clean { session: Some(session) }]
    {
        // Below the minimum who left stays eligible, and so can be suspect.
        let mut it = Fixture::three(&[(MIN_ISR, "3")]);
        let (stop, facts) = (stop(it.sessions[&2]), it.facts(0, 5, 5));
        let mut say = |run| {
            let registration =
                Registration { run, last_stop: stop, replicas: vec![facts.clone()], ..registration(2) };
            let reply = it.ask(None, ControllerRequest::Register(registration));
            assert!(matches!(reply, ControllerReply::Registered(Ok(_))), "{reply:?}");
            it.p().suspects.get(&node(2)).copied()
        };
        for _ in 0..3 {
            assert_eq!(say(Some(7)), None, "{stop:?}");
        }
        // As one would from a copy of the directory.
        assert_eq!(say(Some(8)), Some(Suspicion::MarkDoesNotFit), "{stop:?}");
    }
}

#[test]
fn a_broker_of_a_state_without_what_its_registration_said_is_read() {
    let mut it = Fixture::three(&[]);
    let last_stop = LastStop::Killed;
    let registration = Registration { run: Some(7), last_stop, ..registration(2) };
    it.ask(None, ControllerRequest::Register(registration));
    let state = it.machine.state();
    assert_eq!(ClusterState::decode(&state.encode()).as_ref(), Ok(state));
    let broker = &state.brokers[&node(2)];
    let said = broker.registered_as.expect("it is kept");
    assert_eq!((said.run, said.last_stop), (7, last_stop));
    let text = serde_json::to_string(&Broker { registered_as: None, ..broker.clone() }).unwrap();
    assert!(!text.contains("registered_as"), "as before: {text}");
    assert_eq!(serde_json::from_str::<Broker>(&text).unwrap().registered_as, None);
}

#[test]
fn a_controller_whose_state_is_older_than_a_broker_refuses_it_and_says_what_to_do() {
    let mut it = Fixture::three(&[]);
    let next = BrokerEpoch::of_session(it.machine.state().sessions + 1, 0);
    let noted = Registration { last_session: Some(next), ..registration(1) };
    let marked = Registration { last_stop: LastStop::Clean { session: Some(next) }, ..registration(1) };
    for old_state in [noted, marked] {
        let reply = it.ask(None, ControllerRequest::Register(old_state));
        let ControllerReply::Registered(Err(refusal)) = reply else { panic!("{reply:?}") };
        assert!(matches!(refusal, RegistrationRefusal::StateIsOld { found: 4, known: 3, .. }), "{refusal:?}");
        assert!(refusal.to_string().contains("`highwater controller rebuild`"), "{refusal}");
    }
    let own = it.sessions[&1];
    let reply = it
        .ask(None, ControllerRequest::Register(Registration { last_session: Some(own), ..registration(1) }));
    assert!(matches!(reply, ControllerReply::Registered(Ok(_))), "{reply:?}");
}
