use std::time::Duration;

use highwater_engine::units::{Monotonic, Offset};

use super::{Interest, Pending, TooManyRequests, Woken};
use crate::partition::{WaitId, WaitOutcome};

fn at(ms: u64) -> Monotonic {
    Monotonic::from_duration(Duration::from_millis(ms))
}

fn offset(value: i64) -> Offset {
    Offset::new(value).unwrap()
}

fn woken(parts: &[usize], over: bool) -> Woken {
    Woken { parts: parts.iter().copied().collect(), over }
}

type Requests = Pending<u8, u8>;

#[test]
fn a_follower_wakes_on_written_and_a_consumer_on_committed() {
    let mut pending = Requests::new(10);
    let follower = pending.begin(1).unwrap();
    let consumer = pending.begin(2).unwrap();
    pending.park(follower, &[(7, Interest::Written(offset(5)))], at(100));
    pending.park(consumer, &[(7, Interest::Committed(offset(5)))], at(100));

    pending.reached_written(7, offset(5));
    assert_eq!(pending.take_woken(at(0)), [], "nothing lies below 5 that was not there");
    pending.reached_written(7, offset(6));
    assert_eq!(pending.take_woken(at(0)), [(follower, woken(&[0], false))]);
    pending.reached_committed(7, offset(6));
    assert_eq!(pending.take_woken(at(0)), [(consumer, woken(&[0], false))]);
    pending.reached_written(7, offset(9));
    assert_eq!(pending.take_woken(at(0)), [], "what was woken is not parked any more");
}

#[test]
fn only_the_parts_that_may_have_more_are_named() {
    let mut pending = Requests::new(10);
    let request = pending.begin(1).unwrap();
    let parts = [
        (1, Interest::Committed(offset(0))),
        (2, Interest::Nothing),
        (3, Interest::Committed(offset(9))),
        (1, Interest::Committed(offset(4))),
    ];
    pending.park(request, &parts, at(100));
    pending.reached_committed(2, offset(50));
    pending.reached_committed(3, offset(9));
    pending.reached_committed(1, offset(4));
    assert_eq!(pending.take_woken(at(0)), [(request, woken(&[0], false))]);
}

#[test]
fn time_ends_a_wait_once() {
    let mut pending = Requests::new(10);
    let request = pending.begin(1).unwrap();
    pending.park(request, &[(1, Interest::Written(offset(0)))], at(100));
    assert_eq!(pending.next_deadline(), Some(at(100)));
    assert_eq!(pending.take_woken(at(99)), []);
    assert_eq!(pending.take_woken(at(100)), [(request, woken(&[], true))]);
    assert_eq!(pending.take_woken(at(200)), []);
    assert_eq!(pending.next_deadline(), None);
}

#[test]
fn a_fetch_behind_a_parked_one_releases_it() {
    let mut pending = Requests::new(10);
    let first = pending.begin(1).unwrap();
    pending.park(first, &[(1, Interest::Written(offset(0)))], at(100));
    let other = pending.begin(2).unwrap();
    pending.park(other, &[(1, Interest::Written(offset(0)))], at(100));
    pending.release(1);
    assert_eq!(pending.take_woken(at(0)), [(first, woken(&[], true))]);
}

#[test]
fn a_change_of_leadership_wakes_everybody_at_the_partition() {
    let mut pending = Requests::new(10);
    let request = pending.begin(1).unwrap();
    pending.park(
        request,
        &[(1, Interest::Committed(offset(50))), (2, Interest::Written(offset(0)))],
        at(100),
    );
    pending.look_again(1);
    assert_eq!(pending.take_woken(at(0)), [(request, woken(&[0], false))]);
}

#[test]
fn a_produce_is_over_with_its_last_part() {
    let mut pending = Requests::new(10);
    let request = pending.begin(1).unwrap();
    pending.await_acks(request, 2);
    let part = |part| WaitId { request, part };
    pending.acknowledged(part(4), WaitOutcome::Acknowledged);
    pending.acknowledged(part(4), WaitOutcome::TimedOut);
    assert_eq!(pending.take_acknowledged(), []);
    pending.acknowledged(part(0), WaitOutcome::LeadershipChanged);
    let over = pending.take_acknowledged();
    let outcomes: Vec<_> = over.iter().flat_map(|over| &over.outcomes).collect();
    assert_eq!(outcomes, [(&0, &WaitOutcome::LeadershipChanged), (&4, &WaitOutcome::Acknowledged)]);
}

#[test]
fn a_connection_has_a_bound_and_leaves_nothing_behind() {
    let mut pending = Requests::new(2);
    let parked = pending.begin(1).unwrap();
    let produce = pending.begin(1).unwrap();
    assert_eq!(pending.begin(1), Err(TooManyRequests { waiting: 2 }));
    pending.park(parked, &[(1, Interest::Written(offset(0)))], at(100));
    pending.await_acks(produce, 1);
    assert_eq!(pending.disconnected(1).into_iter().collect::<Vec<_>>(), [parked, produce]);
    pending.reached_written(1, offset(7));
    pending.acknowledged(WaitId { request: produce, part: 0 }, WaitOutcome::Acknowledged);
    assert_eq!((pending.take_woken(at(500)), pending.take_acknowledged()), (vec![], vec![]));
    assert_eq!((pending.waiting(), pending.next_deadline()), (0, None));
    assert!(pending.begin(1).is_ok());
}
