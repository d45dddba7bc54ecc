//! S54, S57 and S58: images of yesterday, clocks that are wrong, and a disk that is full.

use std::time::Duration;

use highwater_tests::world::{A, B, C, Options, ProducerOptions, TopicOptions, World};

/// B's machine is set back to an image that was taken when it had been stopped cleanly.
#[test]
fn s54_an_image_of_yesterday_leads_nobody() {
    let mut world = World::new(54, Options::default());
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 3);
    world.stop_cleanly(B);
    world.until("B has stopped", |world| !world.runs(B));
    let image = world.image_of(B);
    world.start_node(B);
    world.until("B is in sync", |world| world.isr(&topic).len() == 3);
    world.produce(producer, 5);
    world.until_end(B, &topic, 8);
    // Nobody but B is left whose word counts.
    world.kill(C);
    world.until("C is out", |world| !world.isr(&topic).contains(&C));
    world.set_back(B, &image);
    world.kill(A);
    world.until("nobody leads", |world| world.leader(&topic).is_none());
    world.start_node(B);
    world.run_for(Duration::from_secs(4));
    assert_eq!((world.end(B, &topic), world.leader(&topic)), (3, None), "{}", world.report());
    world.start_node(A);
    world.start_node(C);
    world.settle();
    assert_eq!(world.end(B, &topic), 8);
    assert_eq!(world.ghost().losses(&topic), 0);
}

/// The next leader's clock is an hour behind, and the one after it ten years ahead.
#[test]
fn s57_clocks_that_disagree_lose_and_reorder_nothing() {
    let mut world = World::new(57, Options::default());
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    let consumer = world.consumer(&topic);
    world.produce(producer, 3);
    world.jump_clock(B, Duration::from_secs(3_600), true);
    world.elect(&topic, B);
    world.produce(producer, 3);
    world.jump_clock(C, Duration::from_secs(315_360_000), false);
    world.elect(&topic, C);
    // Records that are ten years old are refused by nobody, and deleted by age on that broker alone, when its turn comes.
    world.produce(producer, 3);
    world.elect(&topic, A);
    world.produce(producer, 1);
    world.until("the consumer has all", |world| world.position(consumer) == 10);
    assert_eq!(world.isr(&topic).len(), 3, "who is in sync goes by the other clock");
    world.settle();
}

/// The disk of one follower is full.
#[test]
fn s58_a_follower_without_room_leaves_the_isr_and_comes_back_when_there_is_some() {
    let mut world = World::new(58, Options { lag_max: Duration::from_millis(500), ..Options::default() });
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let large = ProducerOptions { value_bytes_max: 12_000, ..ProducerOptions::default() };
    let producer = world.producer(&topic, large);
    world.produce(producer, 3);
    world.settle();
    world.set_room(C, Some(0));
    world.produce(producer, 50);
    assert!(world.end(C, &topic) < 53, "{}", world.report());
    assert!(!world.isr(&topic).contains(&C), "{}", world.report());
    world.set_room(C, None);
    world.settle();
    assert_eq!(world.end(C, &topic), 53);
    assert_eq!(world.counts().get("failed directories"), None, "{}", world.report());
}
