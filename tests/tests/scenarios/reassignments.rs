//! S09, and partitions that move to other brokers while they are written (KIP-455).

use std::time::Duration;

use highwater_engine::units::{NodeId, TopicPartition};
use highwater_tests::world::{A, B, C, ClientId, D, End, Options, ProducerOptions, TopicOptions, World};

fn four(seed: u64) -> World {
    World::new(
        seed,
        Options { nodes: vec![A, B, C, D], session_timeout: Duration::from_secs(20), ..Options::default() },
    )
}

fn written(world: &mut World, assignment: &[NodeId], min_isr: usize) -> (TopicPartition, ClientId) {
    let options = TopicOptions { assignment: vec![assignment.to_vec()], min_isr, ..TopicOptions::default() };
    let topic = world.topic(&options).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 5);
    world.settle();
    (topic, producer)
}

fn log_of(topic: &TopicPartition) -> String {
    format!("{topic}/00000000000000000000.log")
}

/// C is removed, its directory deleted, and C is added again, empty, all before A hears of any of it. A hears of both at once: as if
/// nothing had been, and with what C had said before in its memory.
#[test]
fn s09_who_was_removed_and_came_back_empty_is_not_who_it_was() {
    let mut world = four(9);
    let (topic, producer) = written(&mut world, &[A, B, C], 1);
    world.hold(End::Controller, A);
    world.hold(C, A);
    world.reassign(&topic, &[A, B]);
    world.until("C has nothing any more", |world| world.status(C, &topic).is_none());
    world.reassign(&topic, &[A, B, C]);
    world.until("C is there again", |world| world.status(C, &topic).is_some());
    assert_eq!((world.end(C, &topic), world.end(A, &topic)), (0, 5));
    world.heal(End::Controller, A);
    world.until("A has heard of both", |world| {
        world.status(A, &topic).and_then(|status| status.partition_epoch)
            == Some(world.state(&topic).partition_epoch)
    });
    world.run_for(Duration::from_millis(300));
    assert_eq!(world.isr(&topic), [A, B], "{}", world.report());
    world.heal_everything();
    world.produce(producer, 1);
    world.settle();
    assert_eq!(world.end(C, &topic), 6);
    assert!(!world.state(&topic).is_moving());
}

/// From A, B to C, D, under load: the leader goes as well, and nothing that was acknowledged is missing.
#[test]
fn all_replicas_are_exchanged_under_load() {
    let mut world = four(455);
    let (topic, _) = written(&mut world, &[A, B], 2);
    let every = Some(Duration::from_millis(5));
    let producer = world.producer(&topic, ProducerOptions { every, ..ProducerOptions::default() });
    world.consumer(&topic);
    world.run_for(Duration::from_millis(200));
    world.reassign(&topic, &[C, D]);
    world.until("C and D hold it alone", |world| world.state(&topic).replicas == [C, D]);
    assert_eq!((world.leader(&topic), world.isr(&topic)), (Some(C), vec![C, D]));
    world.run_for(Duration::from_millis(500));
    world.stop_producing(producer);
    world.settle();
    assert_eq!(world.end(C, &topic), world.end(D, &topic));
    assert!(world.end(C, &topic) > 50, "{}", world.report());
    for gone in [A, B] {
        world.until("its directory is gone", |world| world.file(gone, &log_of(&topic)).is_none());
        assert_eq!(world.status(gone, &topic), None);
    }
}

/// The controller crashes at each stage, and goes on.
#[test]
fn a_reassignment_outlives_the_controller_and_the_replica_that_is_added() {
    let mut world = four(1455);
    let (topic, producer) = written(&mut world, &[A, B], 2);
    world.kill(C);
    world.reassign(&topic, &[C, B]);
    assert_eq!(world.state(&topic).adding, [C]);
    world.crash_controller();
    world.until("the controller runs again", World::controller_runs);
    world.produce(producer, 1);
    assert_eq!((world.state(&topic).replicas.as_slice(), world.leader(&topic)), (&[C, B, A][..], Some(A)));
    world.start_node(C);
    world.until("it is there", |world| world.state(&topic).replicas == [C, B]);
    world.crash_controller();
    world.until("the controller runs again", World::controller_runs);
    world.produce(producer, 1);
    world.settle();
    assert_eq!((world.leader(&topic).is_some(), world.end(C, &topic)), (true, 7));
}

/// A was away when it was taken off, and comes back when it is wanted again: what it has is old, and is cut like any follower's.
#[test]
fn who_was_away_when_it_was_removed_is_a_follower_when_it_is_added_again() {
    let mut world = four(2455);
    let (topic, producer) = written(&mut world, &[A, B], 1);
    world.kill(A);
    world.until("B leads", |world| world.leader(&topic) == Some(B));
    world.reassign(&topic, &[B]);
    assert_eq!(world.state(&topic).replicas, [B]);
    world.produce(producer, 3);
    world.start_node(A);
    world.run_for(Duration::from_secs(1));
    world.reassign(&topic, &[B, A]);
    world.settle();
    assert_eq!(world.log(A, &topic), world.log(B, &topic));
    assert_eq!(world.isr(&topic), [B, A]);
}
