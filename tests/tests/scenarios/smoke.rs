//! Three brokers, a producer, a consumer, and nothing that goes wrong.

use std::time::Duration;

use highwater_tests::world::{A, Options, ProducerOptions, TopicOptions, World};

#[test]
fn what_is_produced_is_on_all_three_and_is_consumed() {
    let mut world = World::new(1, Options::default());
    let events = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&events, ProducerOptions::default());
    let consumer = world.consumer(&events);
    assert_eq!(world.leader(&events), Some(A));
    world.produce(producer, 50);
    world.until("the consumer has read them", |world| world.position(consumer) == 50);
    world.run_for(Duration::from_secs(1));
    world.settle();
}
