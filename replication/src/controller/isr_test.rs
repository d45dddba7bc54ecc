//! Proposals for another ISR: taken, and refused for each reason.

use super::fixture::*;
use super::*;
use crate::partition;

#[test]
fn a_good_proposal_is_taken_and_its_version_grows() {
    let mut it = Fixture::three(&[]);
    let shrunk = it.proposal(&[1, 3]);
    assert_eq!(
        it.alter(1, shrunk.clone()),
        Ok(IsrGranted { isr: nodes(&[1, 3]), eligible: nodes(&[1, 3]), partition_epoch: partition_epoch(1) })
    );
    assert_eq!(it.p().out_of_sync[&node(2)], OutOfSync { since_ms: 1_000_000, reason: OutReason::Lagging });
    assert_eq!(it.alter(1, shrunk), Err(IsrRefusal::InvalidUpdateVersion), "the same once more is too late");
    let same = it.proposal(&[3, 1]);
    assert_eq!(it.alter(1, same).unwrap().partition_epoch, partition_epoch(1), "nothing changed");
    // The order of the proposal does not matter.
    let whole = it.proposal(&[3, 2, 1]);
    assert_eq!(it.alter(1, whole).unwrap().isr, nodes(&[1, 2, 3]));
    assert!(it.p().out_of_sync.is_empty());
}

#[test]
fn each_wrong_proposal_is_refused_for_its_reason_and_changes_nothing() {
    let mut it = Fixture::three(&[]);
    it.ask(None, ControllerRequest::Elect { partition: p0(), election: Election::To(node(2)) });
    let good = it.proposal(&[1, 2]);
    let before = it.machine.state().clone();
    let other = highwater_engine::units::TopicPartition::new("t", 1).unwrap();
    let twice = IsrProposal { isr: vec![good.isr[1]; 2], ..good.clone() };
    let mut strange = good.clone();
    strange.isr.push(IsrMember { node: node(4), session: None });
    let mut leaderless = good.clone();
    leaderless.isr.remove(1);
    let cases = [
        (2, IsrProposal { partition: other, ..good.clone() }, IsrRefusal::UnknownPartition),
        (
            2,
            IsrProposal { topic_id: highwater_engine::units::TopicId::new([1; 16]).unwrap(), ..good.clone() },
            IsrRefusal::UnknownTopicId,
        ),
        (2, IsrProposal { leader_epoch: epoch(2), ..good.clone() }, IsrRefusal::UnknownEpoch),
        (2, IsrProposal { partition_epoch: partition_epoch(2), ..good.clone() }, IsrRefusal::UnknownEpoch),
        (2, IsrProposal { leader_epoch: epoch(0), ..good.clone() }, IsrRefusal::FencedLeaderEpoch),
        (1, good.clone(), IsrRefusal::NotLeader),
        (
            2,
            IsrProposal { partition_epoch: partition_epoch(0), ..good.clone() },
            IsrRefusal::InvalidUpdateVersion,
        ),
        (2, twice, IsrRefusal::InvalidIsr),
        (2, strange, IsrRefusal::InvalidIsr),
        (2, leaderless, IsrRefusal::InvalidIsr),
        (2, IsrProposal { isr: vec![], ..good.clone() }, IsrRefusal::InvalidIsr),
    ];
    for (from, proposal, expected) in cases {
        assert_eq!(it.alter(from, proposal), Err(expected));
    }
    assert_eq!(*it.machine.state(), before);
    assert!(it.alter(2, good).is_ok());
}

#[test]
fn s20_a_member_caught_up_in_an_earlier_session_does_not_join() {
    let mut it = Fixture::three(&[]);
    it.isr(&[1, 3]);
    let delayed = it.proposal(&[1, 2, 3]);
    // 2 comes back with another disk while the proposal is under way.
    it.register(2, LastStop::Never, &[]);
    // Its state did not change by that, so only the session tells.
    let late = IsrProposal { partition_epoch: it.p().partition_epoch, ..delayed };
    assert_eq!(it.alter(1, late), Err(IsrRefusal::IneligibleReplica { node: node(2) }));
    let without = |it: &Fixture| {
        let mut proposal = it.proposal(&[1, 2, 3]);
        proposal.isr[1].session = None;
        proposal
    };
    let proposal = without(&it);
    assert_eq!(it.alter(1, proposal), Err(IsrRefusal::IneligibleReplica { node: node(2) }));
    it.isr(&[1, 2, 3]);
    // Who is in it may stay without having fetched in this epoch.
    let proposal = without(&it);
    assert!(it.alter(1, proposal).is_ok());
}

#[test]
fn s21_fenced_and_stopping_brokers_do_not_join() {
    let mut it = Fixture::three(&[]);
    it.ended(2);
    let proposal = it.proposal(&[1, 2, 3]);
    assert_eq!(it.alter(1, proposal), Err(IsrRefusal::IneligibleReplica { node: node(2) }));
    it.ask(Some(3), ControllerRequest::ControlledStop);
    let proposal = it.proposal(&[1, 3]);
    assert_eq!(it.alter(1, proposal), Err(IsrRefusal::IneligibleReplica { node: node(3) }));
}

#[test]
fn s17_who_was_just_granted_may_lead_at_once() {
    // The leader counts the proposed member before it is granted, so the controller may elect it after.
    let mut it = Fixture::three(&[]);
    it.isr(&[1, 2]);
    it.isr(&[1, 2, 3]);
    it.ended(1);
    it.ended(2);
    assert_eq!(it.shape(), (Some(3), 2, vec![3], vec![2, 3]));
}

#[test]
fn below_the_minimum_those_who_leave_stay_eligible_until_it_is_reached_again() {
    let mut it = Fixture::three(&[]);
    it.isr(&[1]);
    assert_eq!(
        it.shape(),
        (Some(1), 0, vec![1], vec![1, 2, 3]),
        "both left in one step, both have everything"
    );
    it.isr(&[1, 3]);
    assert_eq!(it.shape(), (Some(1), 0, vec![1, 3], vec![1, 3]), "2 may miss what is committed from now on");
}

#[test]
fn the_replica_machine_gets_its_own_words_back() {
    let mut it = Fixture::three(&[]);
    let proposal = it.proposal(&[1, 3]);
    let wish = proposal.to_machine();
    assert_eq!(IsrProposal::of_machine(p0(), proposal.topic_id, &wish), proposal);
    let ControllerReply::Isr(answer) = it.ask(Some(1), ControllerRequest::AlterIsr(proposal.clone())) else {
        panic!()
    };
    let granted = partition::IsrAnswer::Granted {
        isr: nodes(&[1, 3]),
        eligible: nodes(&[1, 3]),
        partition_epoch: partition_epoch(1),
    };
    assert_eq!(answer.to_machine(), granted);
    let answer_of = |refusal| IsrAnswer { outcome: Err(refusal), ..answer.clone() }.to_machine();
    assert_eq!(answer_of(IsrRefusal::IneligibleReplica { node: node(3) }), partition::IsrAnswer::Refused);
    assert_eq!(answer_of(IsrRefusal::InvalidUpdateVersion), partition::IsrAnswer::Outdated);
    assert_eq!(answer_of(IsrRefusal::UnknownEpoch), partition::IsrAnswer::Unanswered);
}
