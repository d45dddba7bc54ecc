//! S05, S07, S20, S24, S34: words of the past are refused, be it of an epoch or of a session.

use std::time::Duration;

use highwater_replication::wire::ErrorCode;
use highwater_tests::world::{A, B, C, End, Options, ProducerOptions, TopicOptions, World};

fn loose() -> ProducerOptions {
    ProducerOptions { acks: 1, idempotent: false, in_flight_max: 1, ..ProducerOptions::default() }
}

/// C hears nothing from the controller and follows A in epoch 0, while B leads epoch 1, A is cut, and A leads again in epoch 2.
#[test]
fn s05_a_fetch_of_an_old_epoch_is_fenced() {
    let mut world =
        World::new(15, Options { session_timeout: Duration::from_secs(20), ..Options::default() });
    let topic = world.topic(&TopicOptions { min_isr: 1, ..TopicOptions::default() }).remove(0);
    let producer = world.producer(&topic, loose());
    world.produce(producer, 2);
    world.until_end(C, &topic, 2);
    world.hold(End::Controller, C);
    world.hold(A, B);
    world.produce(producer, 1);
    world.until_end(C, &topic, 3);
    world.elect(&topic, B);
    world.until("B leads", |world| world.leads(B, &topic));
    world.heal(A, B);
    world.until_end(A, &topic, 2);
    world.elect(&topic, A);
    world.until("A leads again", |world| world.leads(A, &topic));
    world.produce(producer, 1);
    world.run_for(Duration::from_secs(2));
    assert!(!world.isr(&topic).contains(&C), "C goes by epoch 0 and must not be in sync in epoch 2");
    assert_ne!(world.log(C, &topic), world.log(A, &topic));
    world.heal_everything();
    world.settle();
    assert_eq!(world.log(C, &topic), world.log(A, &topic));
}

/// A does not know yet that it leads epoch 2 when its follower, which does, asks where to cut.
#[test]
fn s07_a_leader_that_is_behind_says_nothing_of_where_to_cut() {
    let mut world =
        World::new(17, Options { session_timeout: Duration::from_secs(20), ..Options::default() });
    let topic = world.topic(&TopicOptions { min_isr: 1, ..TopicOptions::default() }).remove(0);
    let producer = world.producer(&topic, loose());
    world.produce(producer, 2);
    world.until_end(B, &topic, 2);
    world.until_end(C, &topic, 2);
    world.hold(End::Controller, A);
    world.elect(&topic, B);
    world.until("B leads", |world| world.leads(B, &topic));
    let other = world.producer(&topic, loose());
    world.produce(other, 1);
    world.until_end(C, &topic, 3);
    // A still takes itself for the leader of epoch 0.
    assert!(world.leads(A, &topic));
    world.elect(&topic, C);
    world.until("C leads", |world| world.leads(C, &topic));
    world.run_for(Duration::from_millis(500));
    assert_eq!(world.end(B, &topic), 3, "nobody may have cut by A's word");
    world.heal_everything();
    world.settle();
    assert_eq!(world.end(A, &topic), 3);
}

/// B is caught up, A asks for B to be taken in, and before the controller hears of it B is back with an empty disk.
#[test]
fn s20_a_replica_joins_only_in_the_session_in_which_it_was_caught_up() {
    let mut world =
        World::new(20, Options { session_timeout: Duration::from_secs(20), ..Options::default() });
    let options = TopicOptions { assignment: vec![vec![A, B]], min_isr: 1, ..TopicOptions::default() };
    let topic = world.topic(&options).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 5);
    world.kill(B);
    world.until("B has left", |world| world.isr(&topic) == [A]);
    world.produce(producer, 5);
    world.hold(A, End::Controller);
    world.start_node(B);
    world.until_end(B, &topic, 10);
    world.run_for(Duration::from_millis(100));
    world.replace_disk(B);
    world.start_node(B);
    world.run_for(Duration::from_millis(20));
    world.heal(A, End::Controller);
    world.run_for(Duration::from_millis(5));
    // I13 and I3 watch: B may join, but only with everything, in its new session.
    world.settle();
    assert_eq!(world.end(B, &topic), 10);
}

/// The true high watermark is 10, the new leader knows of less.
#[test]
fn s24_the_latest_offset_waits_until_the_new_leader_knows_it() {
    let mut world = World::new(
        24,
        Options {
            session_timeout: Duration::from_secs(20),
            lag_max: Duration::from_secs(20),
            ..Options::default()
        },
    );
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    let consumer = world.consumer(&topic);
    world.produce(producer, 7);
    world.until("the consumer has them", |world| world.position(consumer) == 7);
    world.run_for(Duration::from_millis(400));
    let more: Vec<u64> = (0..3).map(|_| world.send_batch(producer, 1)).collect();
    world.until_end(B, &topic, 10);
    world.hold(A, B);
    world.until("they are acknowledged", |world| {
        more.iter().all(|batch| world.acknowledged(producer, *batch).is_some())
    });
    world.until("the consumer has them", |world| world.position(consumer) == 10);
    assert!(world.high_watermark(B, &topic) < 10, "B must not know yet");
    // Nobody can tell B: it leads alone for a while.
    world.hold(C, B);
    world.hold(A, B);
    world.elect(&topic, B);
    world.until("B leads", |world| world.leads(B, &topic));
    world.run_for(Duration::from_secs(1));
    assert!(world.high_watermark(B, &topic) < 10);
    assert_eq!(world.position(consumer), 10, "the consumer was not sent back");
    assert_ne!(world.last_error(consumer), Some(ErrorCode::OffsetOutOfRange));
    world.heal_everything();
    world.settle();
    world.until("the consumer is told the latest offset", |world| world.latest_told(consumer) == Some(10));
}

/// `kill -9` and a start before anybody notices: the new process must not go on in the old one's epoch.
#[test]
fn s34_an_epoch_belongs_to_one_incarnation() {
    let mut world = World::new(
        34,
        Options { ends_are_seen: false, session_timeout: Duration::from_secs(20), ..Options::default() },
    );
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 5);
    let before = world.state(&topic).leader_epoch;
    world.kill(A);
    world.start_node(A);
    world.until("a later epoch has begun", |world| world.state(&topic).leader_epoch > before);
    world.produce(producer, 5);
    world.settle();
    assert_eq!(world.end(A, &topic), 10);
}
