//! S23 and S55: topics that are deleted and made again while somebody is away.

use std::time::Duration;

use highwater_engine::units::TopicPartition;
use highwater_tests::world::{A, B, C, End, Options, ProducerOptions, TopicOptions, World};

/// Five records of a topic that is deleted and made again, with two records.
fn made_again(world: &mut World, away: impl Fn(&mut World)) -> TopicPartition {
    let options = TopicOptions { min_isr: 1, ..TopicOptions::default() };
    let topic = world.topic(&options).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 5);
    world.settle();
    away(world);
    world.delete_topic(&topic);
    world.topic_again(&options, &topic);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 2);
    topic
}

/// B is down meanwhile, and comes back with records of the topic that is no more.
#[test]
fn s55_records_of_a_topic_that_was_deleted_are_not_those_of_its_name() {
    let mut world = World::new(55, Options::default());
    let topic = made_again(&mut world, |world| world.kill(B));
    assert!(world.file(B, &format!("{topic}/00000000000000000000.log")).is_some());
    world.start_node(B);
    world.settle();
    assert_eq!(world.log(B, &topic), world.log(A, &topic));
    assert_eq!(world.end(B, &topic), 2);
}

/// As long as the controller has not said that the topic is gone, what B has of it stays.
#[test]
fn s55_a_stray_log_is_removed_only_when_the_controller_has_spoken() {
    let mut world = World::new(155, Options::default());
    let options = TopicOptions { min_isr: 1, ..TopicOptions::default() };
    let topic = world.topic(&options).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 5);
    world.settle();
    world.kill(B);
    world.delete_topic(&topic);
    world.cut(B, End::Controller);
    world.start_node(B);
    world.run_for(Duration::from_secs(5));
    let log = format!("{topic}/00000000000000000000.log");
    assert!(world.file(B, &log).is_some_and(|bytes| !bytes.is_empty()), "it may be all that is left");
    world.heal(B, End::Controller);
    world.topic_again(&options, &topic);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 1);
    world.settle();
    assert_eq!(world.end(B, &topic), 1);
}

/// A hears of the deletion late, when the topic has long been made again and A leads it.
#[test]
fn s23_a_deletion_that_is_heard_late_takes_nothing_of_what_came_after_it() {
    let mut world =
        World::new(23, Options { session_timeout: Duration::from_secs(20), ..Options::default() });
    let options = TopicOptions { assignment: vec![vec![B, A, C]], min_isr: 1, ..TopicOptions::default() };
    let topic = world.topic(&options).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 5);
    world.settle();
    world.hold(End::Controller, A);
    world.delete_topic(&topic);
    world.topic_again(&options, &topic);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 2);
    world.heal(End::Controller, A);
    world.settle();
    assert_eq!((world.end(A, &topic), world.end(B, &topic)), (2, 2));
    world.elect(&topic, A);
    world.produce(producer, 1);
    world.settle();
}
