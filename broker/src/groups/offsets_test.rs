//! How far a group has come, and what is forgotten.

use highwater_replication::wire::ErrorCode;
use highwater_replication::wire::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use highwater_replication::wire::list_groups::ListGroupsRequest;
use highwater_replication::wire::offset_commit::OffsetCommitRequest;
use highwater_replication::wire::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic, OffsetDeleteResponse,
};

use super::fixture::{Bench, GROUP, ms, offsets, topic_id};
use super::{Wanted, partition_of};

fn delete(bench: &mut Bench, names: &[&str]) -> Vec<ErrorCode> {
    let to = bench.ask();
    let groups_names = names.iter().map(|name| (*name).to_owned()).collect();
    bench.machine.delete_groups(bench.now, to, DeleteGroupsRequest { groups_names });
    bench.take_effects();
    bench.commit_writes();
    let response: DeleteGroupsResponse = bench.answer(to).unwrap();
    response.results.into_iter().map(|result| result.error_code).collect()
}

fn forget(bench: &mut Bench, topic: &str) -> (ErrorCode, ErrorCode) {
    let to = bench.ask();
    let partitions = vec![OffsetDeleteRequestPartition { partition_index: 0 }];
    let topics = vec![OffsetDeleteRequestTopic { name: topic.to_owned(), partitions }];
    let request = OffsetDeleteRequest { group_id: GROUP.to_owned(), topics };
    bench.machine.delete_offsets(bench.now, to, &request, |name| topic_id(name).is_some());
    bench.take_effects();
    bench.commit_writes();
    let response: OffsetDeleteResponse = bench.answer(to).unwrap();
    let partition = response.topics.first().map(|topic| topic.partitions[0].error_code);
    (response.error_code, partition.unwrap_or_default())
}

#[test]
fn a_commit_is_answered_and_seen_when_the_log_has_it() {
    let mut bench = Bench::new();
    let to = bench.commit(offsets(None, &[("t", 7), ("gone", 1)]));
    assert_eq!(bench.offset("t"), -1);
    bench.commit_writes();
    assert_eq!(bench.committed(to), [ErrorCode::None, ErrorCode::UnknownTopicOrPartition]);
    assert_eq!(bench.offset("t"), 7);
    let to = bench.commit(offsets(None, &[("t", 8)]));
    bench.fail_writes(ErrorCode::CoordinatorNotAvailable);
    assert_eq!(bench.committed(to), [ErrorCode::CoordinatorNotAvailable]);
    assert_eq!(bench.offset("t"), 7);
    bench.fail_over();
    assert_eq!(bench.offset("t"), 7);
    let all = bench.machine.fetch(GROUP, Wanted::All, topic_id).unwrap();
    assert_eq!((all.len(), all[0].0.as_str(), all[0].1.len()), (1, "t", 1));
}

#[test]
fn an_answer_that_comes_late_does_not_undo_a_newer_commit() {
    let mut bench = Bench::new();
    let first = bench.commit(offsets(None, &[("t", 1)]));
    let second = bench.commit(offsets(None, &[("t", 2)]));
    bench.writes.reverse();
    bench.commit_writes();
    assert_eq!(
        (bench.committed(first), bench.committed(second)),
        (vec![ErrorCode::None], vec![ErrorCode::None])
    );
    assert_eq!(bench.offset("t"), 2);
}

#[test]
fn only_members_of_this_generation_commit_for_a_group_that_has_members() {
    let mut bench = Bench::new();
    let joined = bench.generation_of(2);
    let mut told = |request| {
        let to = bench.commit(request);
        bench.commit_writes();
        bench.committed(to)[0]
    };
    let mine = offsets(Some(&joined[0]), &[("t", 5)]);
    assert_eq!(told(mine.clone()), ErrorCode::RebalanceInProgress, "it does not know its part yet");
    assert_eq!(told(offsets(None, &[("t", 5)])), ErrorCode::UnknownMemberId);
    let old = OffsetCommitRequest { generation_id_or_member_epoch: 0, ..mine.clone() };
    assert_eq!(told(old), ErrorCode::IllegalGeneration);
    let stranger = OffsetCommitRequest { member_id: "stranger".to_owned(), ..mine.clone() };
    assert_eq!(told(stranger), ErrorCode::UnknownMemberId);
    let nobody = OffsetCommitRequest { group_id: "other".to_owned(), ..mine };
    assert_eq!(told(nobody), ErrorCode::IllegalGeneration);

    let mut bench = Bench::new();
    let joined = bench.stable(1);
    let mut large = offsets(Some(&joined[0]), &[("t", 5), ("t2", 6)]);
    large.topics[0].partitions[0].committed_metadata = Some("x".repeat(11));
    let to = bench.commit(large);
    bench.commit_writes();
    assert_eq!(bench.committed(to), [ErrorCode::OffsetMetadataTooLarge, ErrorCode::None]);
    assert_eq!((bench.offset("t"), bench.offset("t2")), (-1, 6));
}

#[test]
fn a_commit_keeps_its_member_alive() {
    let mut bench = Bench::new();
    let joined = bench.stable(1);
    for offset in 0..5 {
        bench.pass(ms(9_000));
        let to = bench.commit(offsets(Some(&joined[0]), &[("t", offset)]));
        bench.commit_writes();
        assert_eq!(bench.committed(to), [ErrorCode::None]);
    }
}

#[test]
fn a_group_is_deleted_with_its_offsets_when_nobody_is_in_it() {
    let mut bench = Bench::new();
    let joined = bench.stable(1);
    let to = bench.commit(offsets(Some(&joined[0]), &[("t", 5)]));
    bench.commit_writes();
    assert_eq!(bench.committed(to), [ErrorCode::None]);
    assert_eq!(delete(&mut bench, &[GROUP, "other"]), [ErrorCode::NonEmptyGroup, ErrorCode::GroupIdNotFound]);
    let _ = bench.leave(&joined[0].member_id, None);
    bench.commit_writes();
    assert_eq!(delete(&mut bench, &[GROUP]), [ErrorCode::None]);
    assert_eq!((bench.offset("t"), bench.state()), (-1, "Dead".to_owned()));
    bench.fail_over();
    assert_eq!((bench.offset("t"), bench.state()), (-1, "Dead".to_owned()), "as the log says");
    assert!(bench.records().ends_with(&[(false, false), (true, false)]));
}

#[test]
fn a_commit_behind_a_deletion_stays() {
    let mut bench = Bench::new();
    let _ = bench.commit(offsets(None, &[("t", 5)]));
    bench.commit_writes();
    let to = bench.ask();
    bench.machine.delete_groups(bench.now, to, DeleteGroupsRequest { groups_names: vec![GROUP.to_owned()] });
    bench.take_effects();
    let behind = bench.commit(offsets(None, &[("t", 6)]));
    bench.commit_writes();
    assert_eq!(bench.committed(behind), [ErrorCode::None]);
    assert_eq!(bench.offset("t"), 6);
    bench.fail_over();
    assert_eq!(bench.offset("t"), 6);
}

#[test]
fn offsets_that_a_member_reads_are_not_deleted() {
    let mut bench = Bench::new();
    let joined = bench.stable(1);
    let to = bench.commit(offsets(Some(&joined[0]), &[("t", 5), ("t2", 6)]));
    bench.commit_writes();
    assert_eq!(bench.committed(to).len(), 2);
    assert_eq!(forget(&mut bench, "t"), (ErrorCode::None, ErrorCode::GroupSubscribedToTopic));
    assert_eq!(forget(&mut bench, "t2"), (ErrorCode::None, ErrorCode::None));
    assert_eq!((bench.offset("t"), bench.offset("t2")), (5, -1));
    bench.fail_over();
    assert_eq!((bench.offset("t"), bench.offset("t2")), (5, -1));
}

#[test]
fn offsets_of_a_topic_that_is_gone_are_forgotten() {
    let mut bench = Bench::new();
    for _ in 0..2 {
        let _ = bench.commit(offsets(None, &[("t", 5), ("t2", 6)]));
        bench.commit_writes();
        bench.fail_over();
        bench.machine.topics_changed(bench.now, topic_id);
        bench.take_effects();
        bench.commit_writes();
        assert_eq!((bench.offset("t"), bench.offset("t2")), (5, 6));
    }
    bench.machine.topics_changed(bench.now, |name| topic_id(name).filter(|_| name != "t"));
    bench.take_effects();
    bench.commit_writes();
    assert_eq!((bench.offset("t"), bench.offset("t2")), (-1, 6));
}

#[test]
fn offsets_of_another_topic_of_the_same_name_are_not_given_out() {
    let mut bench = Bench::new();
    let _ = bench.commit(offsets(None, &[("t", 5)]));
    bench.commit_writes();
    let other = |_: &str| highwater_engine::units::TopicId::new([9; 16]);
    bench.machine.topics_changed(bench.now, other);
    bench.take_effects();
    bench.fail_writes(ErrorCode::CoordinatorNotAvailable);
    let fetched = bench.machine.fetch(GROUP, Wanted::Some(vec![("t".to_owned(), vec![0])]), other).unwrap();
    assert_eq!(fetched[0].1[0].committed_offset, -1, "though it could not be forgotten");
    assert_eq!(bench.machine.fetch(GROUP, Wanted::All, other).unwrap(), []);
    bench.machine.topics_changed(bench.now, other);
    bench.take_effects();
    bench.commit_writes();
    assert_eq!(bench.offset("t"), -1, "it was tried again");
}

#[test]
fn a_commit_that_is_under_way_is_not_forgotten_for_its_predecessors_age() {
    let mut bench = Bench::new();
    let _ = bench.commit(offsets(None, &[("t", 5)]));
    bench.commit_writes();
    bench.pass(ms(999_000));
    let newer = bench.commit(offsets(None, &[("t", 6)]));
    bench.pass(ms(150_000));
    bench.commit_writes();
    assert_eq!(bench.committed(newer), [ErrorCode::None]);
    assert_eq!(bench.offset("t"), 6);
    bench.fail_over();
    assert_eq!(bench.offset("t"), 6);
}

#[test]
fn a_group_with_many_offsets_is_deleted_in_several_batches() {
    let mut bench = Bench::new();
    let name = format!("t{}", "x".repeat(200));
    for partition in 0..5_000 {
        let mut request = offsets(None, &[(name.as_str(), 1)]);
        request.topics[0].partitions[0].partition_index = partition;
        let _ = bench.commit(request);
    }
    bench.commit_writes();
    let to = bench.ask();
    bench.machine.delete_groups(bench.now, to, DeleteGroupsRequest { groups_names: vec![GROUP.to_owned()] });
    bench.take_effects();
    let sizes: Vec<usize> = bench
        .writes
        .iter()
        .map(|(_, _, records)| records.iter().map(|record| record.key.len()).sum())
        .collect();
    assert!(sizes.len() > 1 && sizes.iter().all(|bytes| *bytes < 1 << 20), "{sizes:?}");
    bench.commit_writes();
    bench.fail_over();
    assert_eq!(bench.state(), "Dead");
}

#[test]
fn what_nobody_has_needed_for_long_is_forgotten() {
    let mut bench = Bench::new();
    let joined = bench.stable(1);
    let to = bench.commit(offsets(Some(&joined[0]), &[("t", 5), ("t2", 6)]));
    bench.commit_writes();
    assert_eq!(bench.committed(to).len(), 2);
    for _ in 0..130 {
        bench.pass(ms(9_000));
        assert_eq!(bench.heartbeat(&joined[0].member_id, 1), ErrorCode::None);
    }
    bench.commit_writes();
    assert_eq!((bench.offset("t"), bench.offset("t2")), (5, -1), "nobody reads the second topic");
    let _ = bench.leave(&joined[0].member_id, None);
    bench.commit_writes();
    bench.pass(ms(990_000));
    bench.commit_writes();
    assert_eq!(bench.offset("t"), 5, "it counts from when the last member left");
    bench.pass(ms(200_000));
    bench.commit_writes();
    assert_eq!(bench.offset("t"), -1);
    bench.pass(ms(200_000));
    bench.commit_writes();
    assert_eq!(bench.state(), "Dead");
    bench.fail_over();
    assert_eq!(bench.state(), "Dead", "as the log says");
}

#[test]
fn groups_are_listed_by_state_and_type() {
    let mut bench = Bench::new();
    let _ = bench.stable(1);
    let to = bench.commit(OffsetCommitRequest { group_id: "b".to_owned(), ..offsets(None, &[("t", 1)]) });
    bench.commit_writes();
    assert_eq!(bench.committed(to), [ErrorCode::None]);
    let listed = |states: &[&str], types: &[&str]| {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let request = ListGroupsRequest { states_filter: words(states), types_filter: words(types) };
        let mut groups: Vec<_> =
            bench.machine.list(&request).groups.into_iter().map(|group| group.group_id).collect();
        groups.sort();
        groups
    };
    assert_eq!(listed(&[], &[]), ["b", GROUP]);
    assert_eq!(listed(&["stable"], &["Classic"]), [GROUP]);
    assert_eq!(listed(&["Empty"], &[]), ["b"]);
    assert!(listed(&[], &["share"]).is_empty());
}

#[test]
fn a_partition_that_is_loaded_or_led_elsewhere_answers_nothing() {
    let mut bench = Bench::new();
    let number = partition_of(GROUP, super::fixture::PARTITIONS);
    let epoch = highwater_engine::units::LeaderEpoch::new(9).unwrap();
    bench.machine.lead(number, epoch);
    let fetched = bench.machine.fetch(GROUP, Wanted::All, topic_id);
    assert_eq!(fetched.unwrap_err(), ErrorCode::CoordinatorLoadInProgress);
    assert_eq!(
        bench.machine.list(&ListGroupsRequest::default()).error_code,
        ErrorCode::CoordinatorLoadInProgress
    );
    let to = bench.commit(offsets(None, &[("t", 1)]));
    assert_eq!(bench.committed(to), [ErrorCode::CoordinatorLoadInProgress]);
    bench.machine.lose(bench.now, number);
    let to = bench.commit(offsets(None, &[("t", 1)]));
    assert_eq!(bench.committed(to), [ErrorCode::NotCoordinator]);
    assert_eq!(delete(&mut bench, &[GROUP]), [ErrorCode::NotCoordinator]);
}
