//! How a replica answers Fetch, `ListOffsets` and `OffsetForLeaderEpoch`: tables.

use highwater_engine::state::EpochEnd;

use super::fixture::*;
use super::*;
use crate::rules::{Rule, Rules};

/// Kafka's `PartitionTest` matrix: epochs 0, 3, 4, 7, 9 and the present one, 10, which is empty.
fn leader_of_ten(rules: Rules) -> Replica {
    let log = FakeLog::new(17, &[(0, 0), (3, 2), (4, 8), (7, 13), (9, 14)]);
    let mut a = Replica::with_rules(A, log, Some(17), rules);
    a.tell(0, Input::Assigned(assignment(A, 10, 1)));
    a
}

fn judge(a: &Replica, fetcher: Fetcher, last: i32, offset: i64) -> Result<FetchVerdict, FetchRefusal> {
    let claim = FetchClaim {
        fetcher,
        current_epoch: Some(epoch(10)),
        offset: at(offset),
        last_fetched_epoch: Some(epoch(last)),
        log_start: None,
    };
    a.machine.judge_fetch(&claim, &a.log.facts())
}

const CONSUMER: Fetcher = Fetcher::Consumer;

fn follower() -> Fetcher {
    Fetcher::Follower { node: node(B), session: session(B, 1) }
}

fn diverging(number: i32, end: i64) -> FetchVerdict {
    FetchVerdict::Diverging { epoch: epoch(number), end: at(end) }
}

fn out_of_range(offset: i64, start: i64) -> Result<FetchVerdict, FetchRefusal> {
    Err(FetchRefusal::OutOfRange { offset: at(offset), start: at(start), end: at(17) })
}

#[test]
fn a_fetch_whose_history_parts_is_told_where() {
    let a = leader_of_ten(Rules::default());
    let read = Ok(FetchVerdict::Read { ceiling: at(17) });
    for (last, offset, verdict) in [
        (2, 5, Ok(diverging(0, 2))),
        (0, 4, Ok(diverging(0, 2))),
        (6, 6, Ok(diverging(4, 13))),
        (5, 9, Ok(diverging(4, 13))),
        (10, 18, Ok(diverging(10, 17))),
        (0, 2, read),
        (7, 14, read),
        (9, 17, read),
        (10, 17, read),
        // Below its epoch's start: no divergence.
        (9, 3, read),
        (11, 5, out_of_range(5, 0)),
    ] {
        for fetcher in [CONSUMER, follower()] {
            assert_eq!(
                judge(&a, fetcher, last, offset),
                verdict,
                "{fetcher:?}: epoch {last}, offset {offset}"
            );
        }
    }
    let blind = leader_of_ten(Rules::default().without(Rule::DivergenceCheck));
    assert_eq!(judge(&blind, follower(), 2, 5), read);
}

#[test]
fn a_raised_start_comes_before_the_divergence() {
    let mut a = leader_of_ten(Rules::default());
    a.log.start = at(5);
    a.log.epochs.truncate_from_start(at(5));
    assert_eq!(judge(&a, follower(), 2, 8), Ok(diverging(2, 5)));
    assert_eq!(judge(&a, follower(), 0, 4), out_of_range(4, 5));
    assert_eq!(judge(&a, follower(), 2, 3), out_of_range(3, 5));
}

#[test]
fn s05_epochs_are_fenced_both_ways() {
    let a = leader_of_ten(Rules::default());
    let facts = a.log.facts();
    let current = epoch(10);
    let old = Fenced::OldEpoch { asked: epoch(9), current };
    let unknown = Fenced::UnknownEpoch { asked: epoch(11), current };
    for (asked, fenced) in [(9, old), (11, unknown)] {
        for fetcher in [CONSUMER, follower()] {
            let claim = FetchClaim { fetcher, current_epoch: Some(epoch(asked)), ..a.claim(B, 17) };
            assert_eq!(a.machine.judge_fetch(&claim, &facts), Err(FetchRefusal::Fenced(fenced)));
        }
        assert_eq!(a.machine.list_bound(Asker::Client, Some(epoch(asked)), &facts), Err(fenced));
        assert_eq!(a.machine.epoch_end(Some(epoch(asked)), epoch(4), &facts), Err(fenced));
    }
    let unfenced = leader_of_ten(Rules::default().without(Rule::EpochFenceOnFetch));
    let claim = FetchClaim { current_epoch: Some(epoch(9)), ..a.claim(B, 17) };
    assert_eq!(unfenced.machine.judge_fetch(&claim, &facts), Ok(FetchVerdict::Read { ceiling: at(17) }));
}

#[test]
fn strangers_and_other_sessions_are_refused() {
    let a = leader_of_ten(Rules::default());
    let facts = a.log.facts();
    let claim = |fetcher| FetchClaim { fetcher, ..a.claim(B, 17) };
    let stranger = Fetcher::Follower { node: node(9), session: session(9, 1) };
    let refused = a.machine.judge_fetch(&claim(stranger), &facts);
    assert_eq!(refused, Err(FetchRefusal::UnknownReplica { node: node(9) }));
    for other in [None, session(B, 0), session(B, 2), session(C, 1)] {
        let fetcher = Fetcher::Follower { node: node(B), session: other };
        let refused = a.machine.judge_fetch(&claim(fetcher), &facts);
        assert_eq!(refused, Err(FetchRefusal::OtherSession { node: node(B) }), "{other:?}");
    }
}

#[test]
fn consumers_read_below_the_high_watermark_and_wait_above_it() {
    let mut a = leader_of_ten(Rules::default());
    (a.log.accepted, a.log.written) = (at(25), at(20));
    let ceiling = |a: &Replica, fetcher, offset| {
        let claim = FetchClaim { fetcher, last_fetched_epoch: None, ..a.claim(B, offset) };
        a.machine.judge_fetch(&claim, &a.log.facts())
    };
    assert_eq!(ceiling(&a, CONSUMER, 3), Ok(FetchVerdict::Read { ceiling: at(17) }));
    assert_eq!(ceiling(&a, follower(), 3), Ok(FetchVerdict::Read { ceiling: at(20) }), "never above written");
    // S24: between the high watermark and the end is no error.
    assert_eq!(ceiling(&a, CONSUMER, 19), Ok(FetchVerdict::Read { ceiling: at(17) }));
    assert!(matches!(ceiling(&a, CONSUMER, 26), Err(FetchRefusal::OutOfRange { .. })));
    // S25: a follower serves consumers, up to what it knows, and nobody else.
    let mut c = Replica::new(C, a.log.clone(), Some(9));
    c.tell(0, Input::Assigned(assignment(A, 10, 1)));
    assert_eq!(ceiling(&c, CONSUMER, 15), Ok(FetchVerdict::Read { ceiling: at(9) }));
    assert_eq!(
        ceiling(&c, CONSUMER, 26),
        Err(FetchRefusal::Fenced(Fenced::NotLeader)),
        "the leader may have it"
    );
    assert_eq!(ceiling(&c, follower(), 15), Err(FetchRefusal::Fenced(Fenced::NotLeader)));
}

#[test]
fn s24_latest_waits_until_the_leadership_has_proven_itself() {
    let mut a = Replica::new(A, FakeLog::new(10, &[(0, 0)]), Some(7));
    a.tell(0, Input::Assigned(assignment(A, 5, 1)));
    let bound = |a: &Replica, asker| a.machine.list_bound(asker, None, &a.log.facts());
    assert_eq!(bound(&a, Asker::Client), Ok(ListBound::Unsettled(at(7))));
    assert_eq!(bound(&a, Asker::Replica), Ok(ListBound::Settled(at(10))));
    assert_eq!(bound(&a, Asker::Debugger), Ok(ListBound::Settled(at(10))));
    a.fetched(1, B, 10);
    a.fetched(1, C, 10);
    assert_eq!(bound(&a, Asker::Client), Ok(ListBound::Settled(at(10))));
    a.tell(2, Input::Assigned(assignment(B, 6, 2)));
    assert_eq!(bound(&a, Asker::Client), Err(Fenced::NotLeader));
    assert_eq!(bound(&a, Asker::Replica), Err(Fenced::NotLeader));
    assert_eq!(bound(&a, Asker::Debugger), Ok(ListBound::Settled(at(10))));
}

#[test]
fn s11_the_end_of_an_epoch_is_known_to_a_leader_that_has_written_nothing() {
    let a = leader_of_ten(Rules::default());
    let end_of = |asked| a.machine.epoch_end(None, epoch(asked), &a.log.facts());
    assert_eq!(end_of(9), Ok(Some(EpochEnd { epoch: epoch(9), end: at(17) })));
    assert_eq!(end_of(10), Ok(Some(EpochEnd { epoch: epoch(10), end: at(17) })));
    assert_eq!(end_of(11), Ok(None));
}

#[test]
fn nobody_is_answered_before_the_controller_speaks_or_after_the_log_failed() {
    let mut a = Replica::new(A, FakeLog::new(3, &[(0, 0)]), Some(3));
    let claim = FetchClaim { fetcher: CONSUMER, current_epoch: None, ..a.claim(B, 0) };
    let fetch = |a: &Replica| a.machine.judge_fetch(&claim, &a.log.facts());
    assert_eq!(fetch(&a), Err(FetchRefusal::Fenced(Fenced::NotLeader)));
    a.tell(0, Input::Assigned(assignment(A, 5, 1)));
    assert!(fetch(&a).is_ok());
    a.tell(1, Input::LogFailed);
    assert_eq!(fetch(&a), Err(FetchRefusal::Fenced(Fenced::Offline)));
}
