//! Partitions grow, catch up and shrink, and what may not happen meanwhile.

use highwater_engine::units::NodeId;

use super::fixture::*;
use super::*;
use crate::rules::Rules;

/// Five brokers, and `t-0` on these.
fn five(replicas: &[i32], min_isr: &str) -> Fixture {
    let config = ControllerConfig { brokers_configured: Some(5), ..config() };
    let mut it = Fixture::with(config, Rules::default());
    for id in 1..=5 {
        it.register(id, LastStop::Never, &[]);
    }
    it.create(&[(MIN_ISR, min_isr)], vec![nodes(replicas)]);
    it
}

fn reassign(it: &mut Fixture, replicas: Option<&[i32]>, factor: FactorRule) -> Result<(), ReassignRefusal> {
    let replicas = replicas.map(nodes);
    let reply = it.ask(None, ControllerRequest::Reassign { partition: p0(), replicas, factor });
    let ControllerReply::Reassigned { outcome, .. } = reply else { panic!("{reply:?}") };
    outcome
}

fn begin(it: &mut Fixture, replicas: &[i32]) {
    assert_eq!(reassign(it, Some(replicas), FactorRule::MayChange), Ok(()));
}

fn cancel(it: &mut Fixture) -> Result<(), ReassignRefusal> {
    reassign(it, None, FactorRule::MayChange)
}

/// Replicas, those that are added, those that go.
fn moving(it: &Fixture) -> (Vec<i32>, Vec<i32>, Vec<i32>) {
    let ids = |nodes: &[NodeId]| nodes.iter().map(|node| node.value()).collect();
    let p = it.p();
    (ids(&p.replicas), ids(&p.adding), ids(&p.removing))
}

/// The leader takes these into the ISR, and is told to wait for the whole state where more followed.
fn joined(it: &mut Fixture, isr: &[i32]) -> Result<IsrGranted, IsrRefusal> {
    let (leader, proposal) = (it.p().leader.unwrap().value(), it.proposal(isr));
    it.alter(leader, proposal)
}

#[test]
fn a_partition_grows_catches_up_and_shrinks_and_its_leader_hands_over() {
    let mut it = five(&[1, 2, 3], "2");
    begin(&mut it, &[4, 5, 2]);
    assert_eq!(moving(&it), (vec![4, 5, 2, 1, 3], vec![4, 5], vec![1, 3]));
    assert_eq!(it.shape(), (Some(1), 0, vec![2, 1, 3], vec![2, 1, 3]));
    assert_eq!(it.p().out_of_sync[&node(4)].reason, OutReason::BeingAdded);
    it.isr(&[1, 2, 3, 5]);
    assert_eq!(moving(&it).1, [4, 5], "until all are there");
    // The proposal is taken, and the partition shrinks in the same moment: the leader leads no more.
    assert_eq!(joined(&mut it, &[1, 2, 3, 4, 5]), Err(IsrRefusal::FencedLeaderEpoch));
    assert_eq!(moving(&it), (vec![4, 5, 2], vec![], vec![]));
    assert_eq!(it.shape(), (Some(4), 1, vec![4, 5, 2], vec![4, 5, 2]));
    assert!(it.p().out_of_sync.is_empty());
    let last: Vec<String> = it.events.iter().rev().take(2).map(ToString::to_string).collect();
    assert_eq!(
        last,
        [
            "t-0: broker 4 leads in epoch 1: the leader holds the partition no more",
            "t-0 lies on broker 4, 5, 2"
        ]
    );
}

/// Told of the ISR alone, a leader would know the old replicas under the new version of the state; if one of those that went came back
/// with the next version, empty, it would take it for the one that had everything (S09).
#[test]
fn a_leader_that_stays_learns_of_a_completion_from_the_whole_state() {
    let mut it = five(&[1, 2], "1");
    begin(&mut it, &[1, 3]);
    assert_eq!(joined(&mut it, &[1, 2, 3]), Err(IsrRefusal::InvalidUpdateVersion));
    assert_eq!(it.shape(), (Some(1), 0, vec![1, 3], vec![1, 3]));
}

#[test]
fn fewer_and_another_order_are_so_at_once() {
    let mut it = five(&[1, 2, 3], "2");
    begin(&mut it, &[3, 2, 1]);
    assert_eq!(moving(&it), (vec![3, 2, 1], vec![], vec![]));
    assert_eq!(it.shape().0, Some(1), "the preferred one leads when it is asked to");
    begin(&mut it, &[3, 2]);
    assert_eq!(it.shape(), (Some(3), 1, vec![3, 2], vec![3, 2]));
}

#[test]
fn a_growing_partition_asks_for_no_more_in_sync_than_it_had() {
    let mut it = five(&[1], "2");
    begin(&mut it, &[1, 2, 3]);
    let mut view = ClusterView::new(node(1));
    view.apply_whole(it.machine.state().clone());
    assert_eq!(view.assignment(&p0()).unwrap().min_isr_effective(), 1);
    assert_eq!(it.shape(), (Some(1), 0, vec![1], vec![1]), "nobody else could lead");
    it.isr(&[1, 2]);
    assert_eq!(joined(&mut it, &[1, 2, 3]).map(|granted| granted.isr), Ok(nodes(&[1, 2, 3])));
    view.apply_whole(it.machine.state().clone());
    assert_eq!(view.assignment(&p0()).unwrap().min_isr_effective(), 2);
}

#[test]
fn a_cancelled_one_is_as_before_and_who_led_meanwhile_hands_over() {
    let mut it = five(&[1, 2], "1");
    assert_eq!(cancel(&mut it), Err(ReassignRefusal::NotUnderWay));
    begin(&mut it, &[4, 5]);
    it.isr(&[1, 4]);
    it.ended(1);
    assert_eq!(it.shape(), (Some(4), 1, vec![4], vec![4]));
    // Whatever 4 has committed since, nobody else has.
    assert_eq!(cancel(&mut it), Err(ReassignRefusal::NobodyWouldBeLeft));
    it.isr(&[4, 2]);
    assert_eq!(cancel(&mut it), Ok(()));
    assert_eq!(moving(&it), (vec![1, 2], vec![], vec![]));
    assert_eq!(it.shape(), (Some(2), 2, vec![2], vec![2]));
}

#[test]
fn another_target_leaves_nobody_behind() {
    let mut it = five(&[1], "1");
    begin(&mut it, &[1, 4]);
    begin(&mut it, &[1, 5]);
    assert_eq!(moving(&it), (vec![1, 5], vec![5], vec![]));
    // What is wanted still is not new a second time.
    begin(&mut it, &[5, 2]);
    assert_eq!(moving(&it), (vec![5, 2, 1], vec![5, 2], vec![1]));
    assert_eq!(cancel(&mut it), Ok(()));
    assert_eq!(moving(&it), (vec![1], vec![], vec![]));
}

#[test]
fn it_does_not_shrink_below_what_producers_wait_for() {
    let mut it = five(&[1, 2, 3], "2");
    it.isr(&[1, 3]);
    begin(&mut it, &[1, 2]);
    assert_eq!(moving(&it), (vec![1, 2, 3], vec![], vec![3]));
    assert!(joined(&mut it, &[1, 2, 3]).is_err());
    assert_eq!(moving(&it), (vec![1, 2], vec![], vec![]));
    // Who is away is not waited for to go.
    let mut it = five(&[1, 2, 3], "2");
    it.isr(&[1, 3]);
    begin(&mut it, &[1, 3]);
    assert_eq!(moving(&it), (vec![1, 3], vec![], vec![]));
}

#[test]
fn the_only_whole_copy_does_not_go() {
    let mut it = five(&[1, 2], "1");
    let topic_id = it.machine.state().topics["t"].id;
    let integrity = |integrity| ControllerRequest::ReportIntegrity { partition: p0(), topic_id, integrity };
    it.ask(Some(2), integrity(Integrity::Damaged));
    begin(&mut it, &[2]);
    assert_eq!(moving(&it), (vec![2, 1], vec![], vec![1]));
    it.ask(Some(2), integrity(Integrity::Whole));
    assert_eq!(it.shape(), (Some(2), 1, vec![2], vec![2]));
}

#[test]
fn who_goes_leads_until_somebody_can() {
    let mut it = five(&[1, 2], "1");
    it.ask(Some(2), ControllerRequest::ControlledStop);
    begin(&mut it, &[3]);
    it.ask(Some(3), ControllerRequest::ControlledStop);
    let refused = joined(&mut it, &[1, 3]);
    assert_eq!(refused, Err(IsrRefusal::IneligibleReplica { node: node(3) }));
    assert_eq!(moving(&it), (vec![3, 1, 2], vec![3], vec![1, 2]));
}

#[test]
fn what_cannot_be_is_refused_as_kafka_refuses_it() {
    let mut it = five(&[1, 2], "1");
    for (target, why) in [
        (&[][..], "it names no broker"),
        (&[1, 3, 1], "it names broker 1 twice"),
        (&[1, 6], "it names broker 6, and no such broker has registered"),
    ] {
        let refusal = ReassignRefusal::InvalidAssignment { why: why.to_owned() };
        assert_eq!(reassign(&mut it, Some(target), FactorRule::MayChange), Err(refusal));
    }
    let changes = ReassignRefusal::FactorChanges { from: 2, to: 3 };
    assert_eq!(reassign(&mut it, Some(&[1, 2, 3]), FactorRule::Stays), Err(changes));
    assert_eq!(reassign(&mut it, Some(&[1, 3]), FactorRule::Stays), Ok(()));
    assert_eq!(moving(&it).1, [3]);
    it.ask(None, ControllerRequest::DeleteTopic { name: "t".to_owned(), id: None });
    assert_eq!(reassign(&mut it, Some(&[1]), FactorRule::Stays), Err(ReassignRefusal::UnknownPartition));
}
