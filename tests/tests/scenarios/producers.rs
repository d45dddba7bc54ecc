//! S38 and S41 to S43: once, and in order, whatever is tried again.

use std::time::Duration;

use highwater_engine::units::TopicPartition;
use highwater_replication::wire::ErrorCode;
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

/// Behind the greatest sequence comes zero, also on the next leader; and a new epoch begins with it.
#[test]
fn s42_sequences_begin_again_at_their_end_and_with_an_epoch() {
    let mut world = World::new(42, Options::default());
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let one_by_one = ProducerOptions { in_flight_max: 1, ..ProducerOptions::default() };
    let producer = world.producer(&topic, one_by_one);
    world.become_producer(producer, 700, 0, i32::MAX - 1);
    world.produce(producer, 2);
    world.elect(&topic, B);
    world.produce(producer, 2);
    world.become_producer(producer, 700, 1, 1);
    world.send_batch(producer, 1);
    world.until("the new epoch has to begin at zero", |world| {
        world.last_error(producer) == Some(ErrorCode::OutOfOrderSequenceNumber)
    });
    world.become_producer(producer, 700, 1, 0);
    world.produce(producer, 1);
    world.settle();
    assert_eq!(world.end(A, &topic), 5);
}

/// A producer that was replaced writes no more: not to this leader, not to the next one, and not to one that was killed and is back.
#[test]
fn s43_a_producer_of_an_old_epoch_is_fenced_also_by_the_next_leader() {
    let mut world = World::new(43, Options::default());
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let zombie = world.producer(&topic, ProducerOptions::default());
    world.become_producer(zombie, 800, 5, 0);
    world.produce(zombie, 2);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.become_producer(producer, 800, 6, 0);
    world.produce(producer, 2);
    let refused = |world: &mut World| {
        world.forget_error(zombie);
        world.send_batch(zombie, 1);
        world.until("the old epoch is refused", |world| {
            world.last_error(zombie) == Some(ErrorCode::InvalidProducerEpoch)
        });
    };
    refused(&mut world);
    world.elect(&topic, B);
    refused(&mut world);
    for node in [A, B, C] {
        world.kill(node);
        world.start_node(node);
    }
    world.until("somebody leads", |world| {
        world.leader(&topic).is_some_and(|leader| world.leads(leader, &topic))
    });
    refused(&mut world);
    world.settle();
    assert_eq!(world.end(A, &topic), 4);
}
