//! S10 to S16, S27: who leads next, what it lacks, and who may say so.

use std::time::Duration;

use highwater_engine::disk::simulated::Unsynced;
use highwater_engine::units::TopicPartition;
use highwater_tests::world::{A, B, C, ClientId, Options, ProducerOptions, TopicOptions, World};

fn loose() -> ProducerOptions {
    ProducerOptions { acks: 1, idempotent: false, in_flight_max: 1, ..ProducerOptions::default() }
}

/// Sessions outlast what happens to the links.
fn patient(seed: u64) -> World {
    World::new(seed, Options { session_timeout: Duration::from_secs(20), ..Options::default() })
}

/// A leads and hears of neither B nor C, nor they of A. The ISR is A alone; three records are on all of them, and a fourth is A's.
fn a_is_alone(seed: u64, min_isr: usize) -> (World, TopicPartition, ClientId) {
    let mut world = World::new(
        seed,
        Options {
            session_timeout: Duration::from_secs(20),
            lag_max: Duration::from_millis(500),
            ..Options::default()
        },
    );
    let topic = world.topic(&TopicOptions { min_isr, ..TopicOptions::default() }).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 3);
    world.until("all know", |world| [A, B, C].iter().all(|node| world.high_watermark(*node, &topic) == 3));
    world.cut(A, B);
    world.cut(A, C);
    world.send_batch(producer, 1);
    world.until("A is alone", |world| world.isr(&topic) == [A]);
    (world, topic, producer)
}

/// One leads after another, and none of them appends anything.
#[test]
fn s10_epochs_without_a_record_stay_with_nobody() {
    let mut world = patient(10);
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 10);
    for leader in [B, C, B, A, C, A] {
        world.elect(&topic, leader);
        world.until("it leads", |world| world.leads(leader, &topic));
        if leader == C {
            // B does not hear of this epoch before the next one.
            world.hold(C, B);
            world.run_for(Duration::from_millis(50));
        }
        world.heal(C, B);
    }
    // I12 watches the histories of epochs.
    world.produce(producer, 1);
    world.settle();
    assert_eq!([A, B, C].map(|node| world.end(node, &topic)), [11; 3]);
}

/// B has a record of its epoch that A lacks. A leads the next epoch and appends nothing.
#[test]
fn s11_a_leader_that_has_appended_nothing_knows_where_its_epoch_begins() {
    let mut world = patient(11);
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, loose());
    world.produce(producer, 2);
    world.until_end(B, &topic, 2);
    world.until_end(C, &topic, 2);
    world.elect(&topic, B);
    world.until("B leads", |world| world.leads(B, &topic));
    world.hold(B, A);
    world.hold(B, C);
    world.produce(producer, 1);
    assert_eq!(world.end(B, &topic), 3);
    world.elect(&topic, A);
    world.until("A leads", |world| world.leads(A, &topic));
    world.heal(B, A);
    world.heal(B, C);
    world.until_end(B, &topic, 2);
    world.settle();
    assert_eq!(world.log(B, &topic), world.log(A, &topic));
    assert_eq!(world.end(B, &topic), 2, "no more than that was to be cut");
}

/// The file of epochs of one who comes back is gone, or is of another time, and it leads.
#[test]
fn s12_a_history_that_cannot_be_believed_is_made_of_the_log() {
    for damage in [&b"garbage garbage garbage"[..], b"0\n1\n0 0\n"] {
        let mut world = patient(12);
        let topic = world.topic(&TopicOptions::default()).remove(0);
        let producer = world.producer(&topic, ProducerOptions::default());
        for leader in [B, C, A] {
            world.produce(producer, 2);
            world.elect(&topic, leader);
            world.until("it leads", |world| world.leads(leader, &topic));
        }
        world.produce(producer, 2);
        world.settle();
        world.kill(B);
        let file = "events-0/leader-epoch-checkpoint";
        assert!(world.file(B, file).is_some());
        world.damage(B, file, 0, damage);
        world.start_node(B);
        world.settle();
        // I12 compares the history with the log, I15 what is cut by it.
        world.elect(&topic, B);
        world.until("B leads", |world| world.leads(B, &topic));
        world.kill(C);
        world.start_node(C);
        world.produce(producer, 1);
        world.settle();
        assert_eq!([A, B, C].map(|node| world.end(node, &topic)), [9; 3]);
    }
}

/// A acknowledges records that nobody else has, as the smallest ISR of one permits, and dies.
fn s13() -> (World, TopicPartition) {
    let (mut world, topic, producer) = a_is_alone(13, 1);
    world.produce(producer, 20);
    world.kill(A);
    world.until("nobody leads", |world| world.leader(&topic).is_none());
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.leader(&topic), None, "whoever lacks 20 acknowledged records must not lead by itself");
    (world, topic)
}

#[test]
fn s13_who_lacks_what_was_acknowledged_does_not_lead() {
    let (mut world, topic) = s13();
    world.heal_everything();
    world.settle();
    assert_eq!((world.end(B, &topic), world.ghost().losses(&topic)), (24, 0));
}

#[test]
fn s13_an_order_loses_it_and_says_how_much() {
    let (mut world, topic) = s13();
    let before = world.state(&topic).leader_epoch;
    world.elect_unclean(&topic, B);
    world.until("B leads", |world| world.leads(B, &topic));
    assert!(world.state(&topic).leader_epoch > before);
    assert_eq!(world.ghost().losses(&topic), 1, "{:?}", world.state(&topic));
    world.heal_everything();
    world.settle();
    assert_eq!(world.end(A, &topic), 3);
}

/// The last one in sync, below the smallest ISR, loses its power; the others have everything that is committed.
#[test]
fn s14_who_left_below_the_smallest_isr_may_still_lead() {
    let (mut world, topic, producer) = a_is_alone(14, 2);
    world.power_loss_that(A, Unsynced::Lost);
    world.until("another leads", |world| {
        world.leader(&topic).is_some_and(|leader| leader != A && world.leads(leader, &topic))
    });
    assert_eq!(world.ghost().losses(&topic), 0);
    world.start_node(A);
    world.heal_everything();
    world.produce(producer, 1);
    world.settle();
    assert_eq!([A, B, C].map(|node| world.end(node, &topic)), [5; 3]);
}

/// Below the smallest ISR records are appended, as acks=1 permits, and count for nothing.
#[test]
fn s15_below_the_smallest_isr_the_high_watermark_stands_still() {
    let (mut world, topic, _) = a_is_alone(15, 2);
    let consumer = world.consumer(&topic);
    let producer = world.producer(&topic, loose());
    world.produce(producer, 5);
    world.run_for(Duration::from_secs(2));
    assert_eq!((world.end(A, &topic), world.high_watermark(A, &topic)), (9, 3));
    assert_eq!(world.position(consumer), 3);
    world.heal_everything();
    world.settle();
    world.until("the consumer has them", |world| world.position(consumer) == 9);
}

/// All lose their power, and only C has what it had.
#[test]
fn s16_the_best_of_all_who_may_have_lost_something_leads() {
    let mut world = World::new(16, Options::default());
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 9);
    for (node, unsynced) in [(A, Unsynced::Lost), (B, Unsynced::Lost), (C, Unsynced::Kept)] {
        world.power_loss_that(node, unsynced);
    }
    for node in [A, B] {
        world.start_node(node);
    }
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.leader(&topic), None, "C has not said yet what it has");
    world.start_node(C);
    world.until("C leads", |world| world.leads(C, &topic));
    assert_eq!(world.ghost().losses(&topic), 0);
    world.settle();
    assert_eq!([A, B, C].map(|node| world.end(node, &topic)), [9; 3]);
}

/// C has more than the next leader, none of it committed.
#[test]
fn s27_a_follower_that_is_ahead_of_its_leader_cuts_and_goes_on() {
    let mut world = patient(27);
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, loose());
    world.produce(producer, 2);
    world.until_end(B, &topic, 2);
    world.hold(A, B);
    world.produce(producer, 3);
    world.until_end(C, &topic, 5);
    world.elect(&topic, B);
    world.until("B leads", |world| world.leads(B, &topic));
    world.until_end(C, &topic, 2);
    world.heal_everything();
    world.produce(producer, 1);
    world.settle();
    assert_eq!([A, B, C].map(|node| world.end(node, &topic)), [3; 3]);
}
