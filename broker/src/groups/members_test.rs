//! Who is a member of which generation, and what each is told.

use highwater_replication::wire::ErrorCode;
use highwater_replication::wire::join_group::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse,
};
use highwater_replication::wire::sync_group::{SyncGroupRequest, SyncGroupResponse};

use super::fixture::{Bench, GROUP, join, ms, parts, subscription};

#[test]
fn the_first_members_make_one_generation_and_one_of_them_leads() {
    let mut bench = Bench::new();
    let joined = bench.stable(3);
    assert!(joined.iter().all(|member| member.generation_id == 1 && member.error_code.is_none()));
    let leaders: Vec<_> = joined.iter().filter(|member| member.leader == member.member_id).collect();
    assert_eq!(leaders.len(), 1);
    assert_eq!(leaders[0].members.len(), 3, "the leader knows all");
    assert_eq!(joined.iter().filter(|member| member.members.is_empty()).count(), 2);
    assert_eq!(bench.state(), "Stable");
    assert!(joined.iter().all(|member| bench.heartbeat(&member.member_id, 1).is_none()));
}

#[test]
fn nobody_has_a_part_before_the_log_has_it() {
    let mut bench = Bench::new();
    let joined = bench.generation_of(2);
    let asked: Vec<u32> = joined.iter().map(|member| bench.sync(&parts(member))).collect();
    assert!(asked.iter().all(|to| bench.answer::<SyncGroupResponse>(*to).is_none()));
    assert_eq!(bench.state(), "CompletingRebalance");
    bench.fail_writes(ErrorCode::CoordinatorNotAvailable);
    for to in asked {
        let told: SyncGroupResponse = bench.answer(to).unwrap();
        assert_eq!(told.error_code, ErrorCode::CoordinatorNotAvailable);
    }
    assert_eq!(bench.heartbeat(&joined[0].member_id, 1), ErrorCode::RebalanceInProgress);
}

#[test]
fn the_next_leader_of_the_partition_knows_members_and_parts() {
    let mut bench = Bench::new();
    let joined = bench.stable(2);
    bench.fail_over();
    assert_eq!(bench.state(), "Stable");
    for member in &joined {
        assert_eq!(bench.heartbeat(&member.member_id, 1), ErrorCode::None);
        let to = bench.sync(&SyncGroupRequest { assignments: Vec::new(), ..parts(member) });
        let part: SyncGroupResponse = bench.answer(to).unwrap();
        assert_eq!(part.assignment, member.member_id.clone());
    }
    bench.pass(ms(10_001));
    assert_eq!(bench.state(), "Empty", "their sessions began anew, and end");
}

#[test]
fn who_waits_when_leadership_goes_asks_the_next_leader() {
    let mut bench = Bench::new();
    let id = bench.new_id();
    let waiting = bench.join(join(&id, None));
    bench.fail_over();
    assert_eq!(bench.joined(waiting).error_code, ErrorCode::NotCoordinator);
    // Nothing was written of it, so it is nobody.
    let again = bench.join(join(&id, None));
    assert_eq!(bench.joined(again).error_code, ErrorCode::UnknownMemberId);
}

#[test]
fn a_silent_member_goes_and_the_others_join_again() {
    let mut bench = Bench::new();
    let joined = bench.stable(2);
    let (leader, other) = (&joined[0].member_id, &joined[1].member_id);
    bench.pass(ms(6_000));
    assert_eq!(bench.heartbeat(leader, 1), ErrorCode::None);
    bench.pass(ms(6_000));
    assert_eq!(bench.heartbeat(leader, 1), ErrorCode::RebalanceInProgress);
    assert_eq!(bench.heartbeat(other, 1), ErrorCode::UnknownMemberId);
    let again = bench.join(join(leader, None));
    let again = bench.joined(again);
    assert_eq!(
        (again.generation_id, again.members.len()),
        (2, 1),
        "nobody is missing, so nobody is waited for"
    );
    assert_eq!(bench.heartbeat(leader, 1), ErrorCode::IllegalGeneration);
}

#[test]
fn a_rebalance_waits_as_long_as_its_most_patient_member_allows() {
    let mut bench = Bench::new();
    let joined = bench.stable(2);
    let third = bench.new_id();
    let waiting = bench.join(join(&third, None));
    for _ in 0..4 {
        bench.pass(ms(4_900));
        for member in &joined {
            assert_eq!(bench.heartbeat(&member.member_id, 1), ErrorCode::RebalanceInProgress);
        }
        assert!(bench.answer::<JoinGroupResponse>(waiting).is_none());
    }
    bench.pass(ms(500));
    let alone = bench.joined(waiting);
    assert_eq!((alone.generation_id, alone.leader, alone.members.len()), (2, third, 1));
    assert_eq!(bench.heartbeat(&joined[0].member_id, 2), ErrorCode::UnknownMemberId);
}

#[test]
fn who_joins_and_never_asks_for_its_part_is_dropped() {
    let mut bench = Bench::new();
    let joined = bench.generation_of(2);
    let asked = bench.sync(&SyncGroupRequest { assignments: Vec::new(), ..parts(&joined[1]) });
    for _ in 0..5 {
        bench.pass(ms(4_100));
        let _ = bench.heartbeat(&joined[0].member_id, 1);
    }
    let told: SyncGroupResponse = bench.answer(asked).unwrap();
    assert_eq!(told.error_code, ErrorCode::RebalanceInProgress);
    assert_eq!(bench.heartbeat(&joined[0].member_id, 1), ErrorCode::UnknownMemberId);
}

#[test]
fn a_repeated_request_gets_the_same_answer() {
    let mut bench = Bench::new();
    let joined = bench.generation_of(2);
    for member in &joined {
        let again = bench.join(join(&member.member_id, None));
        assert_eq!(&bench.joined(again), member, "while the assignment is waited for");
    }
    let asked: Vec<u32> = joined.iter().map(|member| bench.sync(&parts(member))).collect();
    let twice = bench.sync(&parts(&joined[1]));
    let first: SyncGroupResponse = bench.answer(asked[1]).unwrap();
    assert_eq!(first.error_code, ErrorCode::RebalanceInProgress, "the newer one counts");
    assert_eq!(bench.writes.len(), 1, "an assignment is written once");
    bench.commit_writes();
    let part: SyncGroupResponse = bench.answer(twice).unwrap();
    assert_eq!(part.assignment, joined[1].member_id.clone());
    let follower = joined.iter().find(|member| member.leader != member.member_id).unwrap();
    let again = bench.join(join(&follower.member_id, None));
    assert_eq!(&bench.joined(again), follower, "a follower that asks again changes nothing");
    let leader = joined.iter().find(|member| member.leader == member.member_id).unwrap();
    let again = bench.join(join(&leader.member_id, None));
    assert!(
        bench.answer::<JoinGroupResponse>(again).is_none(),
        "a leader that joins again wants a rebalance"
    );
}

#[test]
fn the_way_of_assigning_is_one_that_all_know_and_most_prefer() {
    let mut bench = Bench::new();
    let ways = |names: &[&str]| {
        let way = |name: &&str| JoinGroupRequestProtocol {
            name: (*name).to_owned(),
            metadata: subscription(&["t"]),
        };
        names.iter().map(way).collect::<Vec<_>>()
    };
    let known = [["a", "b", "c"].as_slice(), &["c", "b"], &["b", "c", "x"]];
    let ids = [bench.new_id(), bench.new_id(), bench.new_id()];
    let mut asked = Vec::new();
    for (names, id) in known.into_iter().zip(&ids) {
        asked.push(bench.join(JoinGroupRequest { protocols: ways(names), ..join(id, None) }));
    }
    bench.gather();
    let joined: Vec<_> = asked.into_iter().map(|to| bench.joined(to)).collect();
    assert!(joined.iter().all(|member| member.protocol_name.as_deref() == Some("b")));
    let stranger = bench.join(JoinGroupRequest { protocols: ways(&["a", "x"]), ..join("", None) });
    assert_eq!(bench.joined(stranger).error_code, ErrorCode::InconsistentGroupProtocol);
    let other = JoinGroupRequest { protocol_type: "connect".to_owned(), ..join("", None) };
    let stranger = bench.join(other);
    assert_eq!(bench.joined(stranger).error_code, ErrorCode::InconsistentGroupProtocol);
}

#[test]
fn what_nobody_may_ask_for_is_refused() {
    let mut bench = Bench::new();
    let mut told = |request| {
        let to = bench.join(request);
        bench.joined(to).error_code
    };
    let named = |name: &str| JoinGroupRequest { group_id: name.to_owned(), ..join("", None) };
    assert_eq!(told(named("")), ErrorCode::InvalidGroupId);
    for session_timeout_ms in [-1, 0, 5_999, 60_001] {
        assert_eq!(
            told(JoinGroupRequest { session_timeout_ms, ..join("", None) }),
            ErrorCode::InvalidSessionTimeout
        );
    }
    let nothing = JoinGroupRequest { protocols: Vec::new(), ..join("", None) };
    assert_eq!(told(nothing), ErrorCode::InconsistentGroupProtocol);
    assert_eq!(told(join("stranger", None)), ErrorCode::UnknownMemberId);
    // Ids that nobody comes back with keep nobody out.
    for _ in 0..12 {
        assert_eq!(told(join("", None)), ErrorCode::MemberIdRequired);
    }
    let mut ids = Vec::new();
    for _ in 0..5 {
        bench.pass(ms(1));
        ids.push(bench.new_id());
    }
    for id in &ids {
        let _waits = bench.join(join(id, None));
    }
    let sixth = bench.join(join("", None));
    assert_eq!(bench.joined(sixth).error_code, ErrorCode::GroupMaxSizeReached);
}

#[test]
fn members_that_would_not_wait_at_all_keep_nobody_busy() {
    let mut bench = Bench::new();
    let hasty = |name| JoinGroupRequest { rebalance_timeout_ms: 0, ..join("", Some(name)) };
    let asked: Vec<u32> = ["one", "two"].map(|name| bench.join(hasty(name))).into();
    bench.pass(ms(1_100));
    let joined: Vec<_> = asked.into_iter().map(|to| bench.joined(to)).collect();
    let named = |at: usize, name: &str| SyncGroupRequest {
        group_instance_id: Some(name.to_owned()),
        ..parts(&joined[at])
    };
    let _asked = [bench.sync(&named(0, "one")), bench.sync(&named(1, "two"))];
    bench.commit_writes();
    // One leaves and the other is away: it is waited for, a while at a time.
    assert_eq!(bench.leave("", Some("two")), ErrorCode::None);
    for _ in 0..3 {
        bench.machine.tick(bench.now);
        let next = bench.machine.next_deadline().unwrap();
        assert!(next > bench.now.monotonic, "something is due at once, again and again");
        bench.pass(ms(1_000));
    }
}

#[test]
fn a_static_member_whose_new_id_is_not_written_is_not_told_that_it_joined() {
    let mut bench = Bench::new();
    let one = bench.join(join("", Some("one")));
    bench.gather();
    let one = bench.joined(one);
    let _part = bench.sync(&SyncGroupRequest { group_instance_id: Some("one".to_owned()), ..parts(&one) });
    bench.commit_writes();
    let again = bench.join(join("", Some("one")));
    bench.fail_writes(ErrorCode::NotCoordinator);
    let again = bench.joined(again);
    assert_eq!((again.error_code, again.member_id.as_str()), (ErrorCode::NotCoordinator, ""));
    // By its name it is known, and joins the next generation.
    let third = bench.join(join("", Some("one")));
    bench.pass(ms(30_000));
    let third = bench.joined(third);
    assert_eq!((third.error_code, third.generation_id), (ErrorCode::None, 2));
}

#[test]
fn who_lives_and_never_asks_for_its_part_does_not_keep_it() {
    let mut bench = Bench::new();
    let joined = bench.generation_of(2);
    let leader = joined.iter().position(|member| member.leader == member.member_id).unwrap();
    let _part = bench.sync(&parts(&joined[leader]));
    bench.commit_writes();
    assert_eq!(bench.state(), "Stable");
    let silent = &joined[1 - leader].member_id;
    for _ in 0..5 {
        bench.pass(ms(4_100));
        let _ = bench.heartbeat(&joined[leader].member_id, 1);
        let _ = bench.heartbeat(silent, 1);
    }
    assert_eq!(bench.heartbeat(silent, 1), ErrorCode::UnknownMemberId);
}

#[test]
fn a_static_member_that_is_restarted_keeps_its_part_and_fences_what_it_was() {
    let mut bench = Bench::new();
    let asked: Vec<u32> = ["one", "two"].map(|name| bench.join(join("", Some(name)))).into();
    bench.gather();
    let joined: Vec<_> = asked.into_iter().map(|to| bench.joined(to)).collect();
    let named = |member: usize, name: &str| SyncGroupRequest {
        group_instance_id: Some(name.to_owned()),
        ..parts(&joined[member])
    };
    let asked = [bench.sync(&named(0, "one")), bench.sync(&named(1, "two"))];
    bench.commit_writes();
    for to in asked {
        assert!(bench.answer::<SyncGroupResponse>(to).unwrap().error_code.is_none());
    }

    let again = bench.join(join("", Some("one")));
    assert!(bench.answer::<JoinGroupResponse>(again).is_none(), "its new id is written down first");
    bench.commit_writes();
    let again = bench.joined(again);
    assert_eq!((again.generation_id, again.error_code), (1, ErrorCode::None), "nobody else has to know");
    assert_ne!(again.member_id, joined[0].member_id);
    assert_eq!(again.skip_assignment, joined[0].leader == joined[0].member_id);
    let old = bench.join(join(&joined[0].member_id, Some("one")));
    assert_eq!(bench.joined(old).error_code, ErrorCode::FencedInstanceId);
    let part = bench.sync(&SyncGroupRequest { assignments: Vec::new(), ..parts(&again) });
    let part: SyncGroupResponse = bench.answer(part).unwrap();
    assert_eq!(part.assignment, joined[0].member_id.clone(), "the part is what it was");

    bench.fail_over();
    assert_eq!(bench.heartbeat(&again.member_id, 1), ErrorCode::None, "the next leader knows the new id");
    assert_eq!(bench.leave("", Some("one")), ErrorCode::None, "it is taken out by its name");
    assert_eq!(bench.leave("", Some("one")), ErrorCode::UnknownMemberId);
    assert_eq!(bench.leave("somebody", Some("two")), ErrorCode::FencedInstanceId);
}

#[test]
fn members_leave_one_by_one_until_the_group_is_empty() {
    let mut bench = Bench::new();
    let joined = bench.stable(2);
    assert_eq!(bench.leave(&joined[0].member_id, None), ErrorCode::None);
    assert_eq!(bench.leave(&joined[0].member_id, None), ErrorCode::UnknownMemberId);
    assert_eq!(bench.heartbeat(&joined[1].member_id, 1), ErrorCode::RebalanceInProgress);
    assert_eq!(bench.leave(&joined[1].member_id, None), ErrorCode::None);
    bench.commit_writes();
    assert_eq!(bench.state(), "Empty");
    bench.fail_over();
    assert_eq!(bench.state(), "Empty", "as the log says");
    // Its generations go on where they were.
    let joined = bench.generation_of(1);
    assert_eq!(joined[0].generation_id, 3);
    let to = bench.sync(&SyncGroupRequest { group_id: String::new(), ..parts(&joined[0]) });
    let told: SyncGroupResponse = bench.answer(to).unwrap();
    assert_eq!(told.error_code, ErrorCode::InvalidGroupId);
    assert_eq!(bench.machine.describe(6, "other", false).error_code, ErrorCode::GroupIdNotFound);
    assert_eq!(bench.machine.describe(6, GROUP, false).members.len(), 1);
}
