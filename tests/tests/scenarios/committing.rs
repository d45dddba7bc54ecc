//! S08, S17, S44, S45: what counts as committed, and what may be said of it.

use std::time::Duration;

use highwater_replication::wire::ErrorCode;
use highwater_tests::world::{A, B, C, D, End, Options, ProducerOptions, TopicOptions, World};

/// B leads a new epoch with a high watermark that is behind the true one; C has reached that, but not the start of the epoch.
#[test]
fn s08_who_joins_has_reached_the_start_of_the_leaders_epoch() {
    let mut world = World::new(
        8,
        Options {
            session_timeout: Duration::from_secs(20),
            lag_max: Duration::from_millis(700),
            ..Options::default()
        },
    );
    let topic = world.topic(&TopicOptions { min_isr: 1, ..TopicOptions::default() }).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 3);
    world.until("all know", |world| [A, B, C].iter().all(|node| world.high_watermark(*node, &topic) == 3));
    world.hold(A, C);
    let more: Vec<u64> = (0..2).map(|_| world.send_batch(producer, 1)).collect();
    world.until_end(B, &topic, 5);
    world.hold(A, B);
    world.until("C has left", |world| !world.isr(&topic).contains(&C));
    world.until("committed by A and B", |world| {
        more.iter().all(|batch| world.acknowledged(producer, *batch).is_some())
    });
    assert_eq!(world.high_watermark(B, &topic), 3, "B must not know yet");
    // C's Fetches get to B, B's answers do not get to C.
    world.hold(B, C);
    world.elect(&topic, B);
    world.until("B leads", |world| world.leads(B, &topic));
    world.run_for(Duration::from_secs(1));
    assert!(!world.isr(&topic).contains(&C), "C has 3 of 5 committed records: {}", world.report());
    world.heal_everything();
    world.settle();
}

/// A has asked for C to be taken in, the controller has done so, and A has not heard of it yet.
#[test]
fn s17_the_high_watermark_counts_who_may_be_in_sync_already() {
    let mut world = World::new(
        18,
        Options {
            session_timeout: Duration::from_secs(20),
            lag_max: Duration::from_millis(500),
            ..Options::default()
        },
    );
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 1);
    world.cut(A, C);
    let second = world.send_batch(producer, 1);
    world.until("C has left", |world| world.isr(&topic) == [A, B]);
    world.until("the second is acknowledged", |world| world.acknowledged(producer, second).is_some());
    world.run_for(Duration::from_millis(200));
    world.hold(End::Controller, A);
    world.heal(A, C);
    world.until("the controller has taken C in", |world| world.isr(&topic).contains(&C));
    assert!(
        !world.status(A, &topic).is_some_and(|status| status.isr.contains(&C)),
        "A must not have heard of it yet"
    );
    world.hold(A, C);
    let batches: Vec<u64> = (0..5).map(|_| world.send_batch(producer, 1)).collect();
    world.until_end(B, &topic, 7);
    world.run_for(Duration::from_millis(300));
    // I6 watches: what C lacks is not committed. C may be elected at any time, and is.
    assert!(batches.iter().all(|batch| world.acknowledged(producer, *batch).is_none()), "{}", world.report());
    world.elect(&topic, C);
    world.until("C leads", |world| world.leads(C, &topic));
    world.heal_everything();
    world.until("all are answered in the end", |world| {
        batches.iter().all(|batch| world.acknowledged(producer, *batch).is_some())
    });
    world.settle();
}

/// A appends m, which nobody else gets, and waits; it loses its leadership, and other records come to stand where m was.
#[test]
fn s44_who_waits_when_a_leadership_ends_is_told_so() {
    let mut world =
        World::new(44, Options { session_timeout: Duration::from_secs(20), ..Options::default() });
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 3);
    world.hold(A, B);
    world.hold(A, C);
    let m = world.send_batch(producer, 1);
    world.until_end(A, &topic, 4);
    // The producer does not hear of the new leader, and so does not send m again.
    world.cut(producer, End::Controller);
    world.elect(&topic, B);
    world.until("B leads", |world| world.leads(B, &topic));
    let other = world.producer(&topic, ProducerOptions::default());
    world.heal(A, B);
    world.heal(A, C);
    world.produce(other, 5);
    // I17 watches what A answers.
    world.until("A has the others' records", |world| world.high_watermark(A, &topic) == 8);
    assert_eq!(world.acknowledged(producer, m), None);
    assert_eq!(world.last_error(producer), Some(ErrorCode::NotLeaderOrFollower));
    world.heal_everything();
    world.until("m is acknowledged by B", |world| world.acknowledged(producer, m).is_some());
    world.settle();
}

/// Two are in sync when m is appended, one when it would be committed.
#[test]
fn s45_what_was_enough_at_the_append_is_looked_at_again() {
    let mut world = World::new(45, Options { lag_max: Duration::from_millis(600), ..Options::default() });
    let topic =
        world.topic(&TopicOptions { assignment: vec![vec![A, B]], ..TopicOptions::default() }).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 3);
    world.hold(A, B);
    let m = world.send_batch(producer, 1);
    world.until_end(A, &topic, 4);
    world.kill(B);
    world.until("B has left", |world| world.isr(&topic) == [A]);
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.acknowledged(producer, m), None, "one replica is not two");
    assert_eq!(world.high_watermark(A, &topic), 3, "nothing is committed below the minimum");
    assert!(world.last_error(producer).is_some_and(|error| matches!(
        error,
        ErrorCode::NotEnoughReplicas | ErrorCode::NotEnoughReplicasAfterAppend | ErrorCode::RequestTimedOut
    )));
    world.heal_everything();
    world.until("m is acknowledged in the end", |world| world.acknowledged(producer, m).is_some());
    world.settle();
}

/// Four brokers, of which one has no replica, make no difference.
#[test]
fn a_broker_without_a_replica_takes_no_part() {
    let mut world = World::new(46, Options { nodes: vec![A, B, C, D], ..Options::default() });
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 3);
    world.kill(D);
    world.produce(producer, 3);
    world.settle();
    assert_eq!(world.end(D, &topic), 0);
}
