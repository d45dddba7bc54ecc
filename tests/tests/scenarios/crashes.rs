//! S32, S33, S37, and clean stops: what is left after a crash, and who may lead with it.

use std::time::Duration;

use highwater_engine::disk::simulated::Unsynced;
use highwater_tests::world::{A, B, C, End, Options, ProducerOptions, TopicOptions, World};

/// All three lose their power at once.
fn s32(durability: &'static str) -> (World, highwater_engine::units::TopicPartition) {
    let mut world = World::new(32, Options::default());
    let topic = world.topic(&TopicOptions { durability, ..TopicOptions::default() }).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 9);
    for node in [A, B, C] {
        world.power_loss_that(node, Unsynced::Lost);
    }
    for node in [A, B, C] {
        world.start_node(node);
    }
    world.until("somebody leads", |world| {
        world.leader(&topic).is_some_and(|leader| world.leads(leader, &topic))
    });
    (world, topic)
}

#[test]
fn s32_what_was_only_written_may_be_lost_with_all_machines_and_that_is_shown() {
    let (mut world, topic) = s32("written");
    let state = world.state(&topic);
    assert!(!state.losses.is_empty() || !state.possible_losses.is_empty(), "{state:?}");
    assert_eq!(world.ghost().losses(&topic), 1);
    world.settle();
}

#[test]
fn s32_what_is_durable_where_it_counts_survives_all_machines() {
    let (mut world, topic) = s32("fsync");
    assert_eq!(world.ghost().losses(&topic), 0);
    world.settle();
    assert_eq!(world.end(A, &topic), 9);
}

/// The leader alone loses its power and is back before anybody has noticed.
#[test]
fn s33_a_leader_that_lost_records_does_not_spread_its_loss() {
    let mut world = World::new(
        33,
        Options { ends_are_seen: false, session_timeout: Duration::from_secs(20), ..Options::default() },
    );
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 9);
    world.power_loss_that(A, Unsynced::Lost);
    world.start_node(A);
    world.until("another leads", |world| world.leader(&topic).is_some_and(|leader| leader != A));
    assert!(world.end(A, &topic) < 9, "A must have lost something");
    world.produce(producer, 1);
    world.settle();
    assert_eq!(world.end(A, &topic), 10);
}

/// The leader's checkpoint of high watermarks is garbage after a kill.
#[test]
fn s37_an_unreadable_high_watermark_is_unknown_and_not_zero() {
    for damage in [&b"garbage garbage garbage"[..], &[0; 40][..]] {
        let mut world = World::new(37, Options::default());
        let topic = world.topic(&TopicOptions::default()).remove(0);
        let producer = world.producer(&topic, ProducerOptions::default());
        let consumer = world.consumer(&topic);
        world.produce(producer, 9);
        world.until("the consumer has them", |world| world.position(consumer) == 9);
        world.run_for(Duration::from_secs(2));
        assert!(world.file(A, "replication-offset-checkpoint").is_some());
        world.kill(A);
        world.damage(A, "replication-offset-checkpoint", 0, damage);
        world.start_node(A);
        world.until("A is back", |world| world.status(A, &topic).is_some());
        assert_ne!(world.leader(&topic), Some(A), "A cannot prove what it kept");
        world.produce(producer, 1);
        world.settle();
        assert_eq!(world.end(A, &topic), 10);
        world.until("the consumer goes on", |world| world.position(consumer) == 10);
    }
}

/// A clean stop hands leaderships over and leaves no suspicion.
#[test]
fn a_clean_stop_costs_nobody_anything() {
    let mut world = World::new(5, Options::default());
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 9);
    world.stop_cleanly(A);
    world.until("A has stopped", |world| !world.runs(A));
    world.until("another leads", |world| {
        world.leader(&topic).is_some_and(|leader| world.leads(leader, &topic))
    });
    world.produce(producer, 1);
    world.start_node(A);
    world.until("A is in sync again", |world| world.isr(&topic).len() == 3);
    assert_eq!(world.counts().get("suspicions"), None, "{}", world.report());
    world.settle();
}

/// A hears nothing from the controller. B and C lead after it and lose with their power what all three had counted.
#[test]
fn a_leader_that_hears_of_no_loss_keeps_what_it_has_counted() {
    let mut world = World::new(581, Options::default());
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.cut(A, End::Controller);
    // Late enough that nobody has synced it when A's session ends.
    world.run_for(Duration::from_millis(600));
    world.produce(producer, 9);
    world.until("A has counted it", |world| world.high_watermark(A, &topic) == 9);
    world.until("A is out", |world| !world.isr(&topic).contains(&A));
    for node in [B, C] {
        world.power_loss_that(node, Unsynced::Lost);
    }
    for node in [B, C] {
        world.start_node(node);
    }
    world.until("the loss is shown", |world| world.ghost().losses(&topic) == 1);
    world.run_for(Duration::from_millis(100));
    // I6 watches: it was right when A counted it, and A can know no better.
    assert!(world.leads(A, &topic) && world.high_watermark(A, &topic) == 9, "{}", world.report());
    world.heal_everything();
    world.settle();
}

/// C has lost what it had and fetches it again, and its disk is slow; then A loses it. What C is writing is all that is left.
fn the_rest_is_being_written(session: Session) {
    // Short enough for C to be let in again before a background sync waits for its disk.
    let session_timeout = Duration::from_millis(300);
    let mut world = World::new(1081, Options { session_timeout, ..Options::default() });
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 1);
    world.until("it is synced", |world| [A, C].iter().all(|node| world.durable(*node, &topic) == 1));
    world.kill(B);
    world.until("B does not count", |world| world.state(&topic).eligible == [A, C]);
    world.produce(producer, 8);
    world.power_loss_that(C, Unsynced::Lost);
    world.start_node(C);
    world.until("C is suspect", |world| world.state(&topic).suspects.contains_key(&C));
    world.stick_disk(C);
    world.run_for(Duration::from_millis(100));
    assert_eq!(world.end(C, &topic), 1, "{}", world.report());
    if session == Session::Another {
        world.cut(C, End::Controller);
    }
    world.power_loss_that(A, Unsynced::Lost);
    world.until("nobody leads", |world| world.leader(&topic).is_none());
    if session == Session::Another {
        world.run_for(Duration::from_millis(400));
        world.heal(C, End::Controller);
    }
    world.start_node(A);
    world.until("A has said what it has", |world| world.state(&topic).reports.contains_key(&A));
    assert_eq!(world.end(A, &topic), 1, "{}", world.report());
    world.run_for(Duration::from_millis(200));
    world.free_disk(C);
    world.until("somebody leads", |world| {
        world.leader(&topic).is_some_and(|leader| world.leads(leader, &topic))
    });
    assert_eq!((world.leader(&topic), world.end(C, &topic)), (Some(C), 9), "{}", world.report());
    assert_eq!(world.ghost().losses(&topic), 0);
    world.heal_everything();
    world.settle();
    assert_eq!(world.end(B, &topic), 9);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Session {
    Same,
    Another,
}

#[test]
fn whoever_is_still_writing_says_what_it_has_when_it_is_written() {
    the_rest_is_being_written(Session::Same);
}

#[test]
fn whoever_registers_again_while_it_is_writing_says_what_it_has_when_it_is_written() {
    the_rest_is_being_written(Session::Another);
}
