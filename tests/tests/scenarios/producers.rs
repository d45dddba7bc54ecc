//! S38 and S41: once, and in order, whatever is tried again.

use std::time::Duration;

use highwater_engine::units::TopicPartition;
use highwater_tests::world::{A, B, C, ClientId, Options, ProducerOptions, TopicOptions, World};

/// The batch is on A and B, its acknowledgement is lost, A dies.
#[test]
fn s38_a_repetition_is_recognized_by_the_next_leader() {
    let mut world =
        World::new(38, Options { session_timeout: Duration::from_secs(20), ..Options::default() });
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 5);
    world.cut_one_way(A, producer);
    let batch = world.send_batch(producer, 1);
    for node in [A, B, C] {
        world.until_end(node, &topic, 6);
    }
    assert_eq!(world.acknowledged(producer, batch), None);
    world.kill(A);
    world.until("another leads", |world| {
        world.leader(&topic).is_some_and(|leader| world.leads(leader, &topic))
    });
    world.until("the repetition is answered", |world| world.acknowledged(producer, batch).is_some());
    assert_eq!(world.acknowledged(producer, batch), Some(5), "with the offset that it had at first");
    world.heal_everything();
    world.settle();
    assert_eq!(world.end(B, &topic), 6, "it is there once");
}

fn in_order(world: &World, topic: &TopicPartition, producer: ClientId, batches: &[u64]) {
    let places: Vec<i64> = batches.iter().filter_map(|batch| world.acknowledged(producer, *batch)).collect();
    assert_eq!(places.len(), batches.len());
    assert!(places.is_sorted(), "{topic}: {places:?}");
}

/// Five are in flight, and the first of them fails.
#[test]
fn s41_what_is_in_flight_behind_a_failure_keeps_its_order() {
    let mut world = World::new(41, Options::default());
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 3);
    world.cut(A, B);
    world.cut(A, C);
    let batches: Vec<u64> = (0..12).map(|_| world.send_batch(producer, 1)).collect();
    world.run_for(Duration::from_secs(2));
    world.heal_everything();
    world.until("all are acknowledged", |world| {
        batches.iter().all(|batch| world.acknowledged(producer, *batch).is_some())
    });
    in_order(&world, &topic, producer, &batches);
    world.settle();
    assert_eq!(world.end(A, &topic), 15, "each is there once");
}
