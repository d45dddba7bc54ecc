//! S18, S19, S22, S46, S52, S59, S60: the set in sync, and what goes wrong around it for a while.

use std::time::Duration;

use highwater_tests::world::{A, B, C, End, Options, ProducerOptions, TopicOptions, World};

/// Sessions outlast what happens to the links, and who lags is soon out of the ISR.
fn impatient(seed: u64) -> World {
    World::new(
        seed,
        Options {
            session_timeout: Duration::from_secs(20),
            lag_max: Duration::from_millis(500),
            ..Options::default()
        },
    )
}

/// A has asked for C to be taken out, and the controller has not heard of it: C may be elected at any time, and is.
#[test]
fn s18_who_is_about_to_leave_counts_until_the_controller_has_said_so() {
    let mut world = impatient(181);
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 1);
    world.hold(A, End::Controller);
    world.cut(A, C);
    let batches: Vec<u64> = (0..3).map(|_| world.send_batch(producer, 1)).collect();
    world.until_end(B, &topic, 4);
    world.run_for(Duration::from_secs(2));
    assert!(batches.iter().all(|batch| world.acknowledged(producer, *batch).is_none()), "{}", world.report());
    world.elect(&topic, C);
    world.until("C leads", |world| world.leads(C, &topic));
    world.heal_everything();
    world.until("all are answered in the end", |world| {
        batches.iter().all(|batch| world.acknowledged(producer, *batch).is_some())
    });
    world.settle();
}

/// B left below the smallest ISR and is eligible; A, alone in the ISR, has asked for C to be taken in, who lacks nothing.
#[test]
fn s19_it_is_the_committed_isr_that_has_to_be_large_enough() {
    let mut world = impatient(19);
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 3);
    world.cut(A, C);
    world.produce(producer, 1);
    assert_eq!(world.isr(&topic), [A, B]);
    world.until("B knows", |world| world.high_watermark(B, &topic) == 4);
    world.cut(A, B);
    let loose =
        ProducerOptions { acks: 1, idempotent: false, in_flight_max: 1, ..ProducerOptions::default() };
    let other = world.producer(&topic, loose);
    world.produce(other, 2);
    world.until("A is alone", |world| world.isr(&topic) == [A]);
    assert_eq!(world.state(&topic).eligible, [A, B], "C left when there were enough");
    world.hold(End::Controller, A);
    world.heal(A, C);
    world.until_end(C, &topic, 6);
    world.run_for(Duration::from_secs(1));
    // B may still be elected, and lacks them.
    assert_eq!(world.high_watermark(A, &topic), 4, "{}", world.report());
    world.heal_everything();
    world.settle();
    assert_eq!(world.end(B, &topic), 6);
}

/// Members leave and join, and the same leadership goes on.
#[test]
fn s22_another_isr_is_no_other_leadership() {
    let mut world = impatient(22);
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 2);
    let before = world.state(&topic).clone();
    for _ in 0..3 {
        world.cut(A, C);
        world.produce(producer, 1);
        assert_eq!(world.isr(&topic), [A, B]);
        world.heal(A, C);
        world.until("C is back", |world| world.isr(&topic) == [A, B, C]);
    }
    let after = world.state(&topic);
    assert_eq!(after.leader_epoch, before.leader_epoch);
    assert!(after.partition_epoch > before.partition_epoch);
    world.settle();
    let epochs: Vec<i32> = world.log(C, &topic).iter().map(|(_, epoch, _)| *epoch).collect();
    assert!(epochs.iter().all(|epoch| *epoch == epochs[0]), "{epochs:?}");
}

/// Nobody answers in time, and the producer sends again and again what is there already.
#[test]
fn s46_what_was_not_answered_in_time_is_there_once() {
    let mut world = World::new(46, Options { lag_max: Duration::from_secs(20), ..Options::default() });
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.hold(A, B);
    let batch = world.send_batch(producer, 1);
    world.until_end(A, &topic, 1);
    world.run_for(Duration::from_secs(4));
    assert_eq!(world.acknowledged(producer, batch), None);
    world.heal_everything();
    world.until("it is acknowledged", |world| world.acknowledged(producer, batch) == Some(0));
    world.settle();
    assert_eq!([A, B, C].map(|node| world.end(node, &topic)), [1; 3]);
}

/// A hears everybody, and its followers do not hear A.
#[test]
fn s52_a_leader_that_nobody_hears_loses_nothing() {
    let mut world = impatient(52);
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 3);
    let before = world.state(&topic).leader_epoch;
    world.cut_one_way(A, B);
    world.cut_one_way(A, C);
    let batches: Vec<u64> = (0..3).map(|_| world.send_batch(producer, 1)).collect();
    world.run_for(Duration::from_secs(10));
    assert!(batches.iter().all(|batch| world.acknowledged(producer, *batch).is_none()));
    let elections = world.state(&topic).leader_epoch.value() - before.value();
    assert!(elections < 3, "leadership went to and fro, {elections} times");
    world.heal_everything();
    world.until("all are answered in the end", |world| {
        batches.iter().all(|batch| world.acknowledged(producer, *batch).is_some())
    });
    world.settle();
    assert_eq!(world.end(B, &topic), 6);
}

/// What counts is durable, and the leader's disk does not answer.
#[test]
fn s59_a_leader_that_cannot_sync_counts_for_no_more_than_it_has_synced() {
    let mut world = impatient(59);
    let options = TopicOptions { durability: "fsync", ..TopicOptions::default() };
    let topic = world.topic(&options).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 3);
    world.stick_disk(A);
    let batches: Vec<u64> = (0..3).map(|_| world.send_batch(producer, 1)).collect();
    world.run_for(Duration::from_secs(3));
    assert!(batches.iter().all(|batch| world.acknowledged(producer, *batch).is_none()));
    assert_eq!(world.high_watermark(A, &topic), 3);
    world.free_disk(A);
    world.until("all are answered in the end", |world| {
        batches.iter().all(|batch| world.acknowledged(producer, *batch).is_some())
    });
    world.settle();
}

/// A follower that has to cut crashes again and again while it does.
#[test]
fn s60_many_crashes_are_one() {
    for seed in 60..70 {
        let mut world = impatient(seed);
        let topic = world.topic(&TopicOptions { min_isr: 1, ..TopicOptions::default() }).remove(0);
        let loose =
            ProducerOptions { acks: 1, idempotent: false, in_flight_max: 1, ..ProducerOptions::default() };
        let producer = world.producer(&topic, loose);
        world.produce(producer, 3);
        world.until_end(C, &topic, 3);
        world.hold(A, B);
        world.produce(producer, 3);
        world.until_end(C, &topic, 6);
        world.elect(&topic, B);
        world.until("B leads", |world| world.leads(B, &topic));
        for crash in 0..10 {
            if crash % 2 == 0 {
                world.kill(C);
            } else {
                world.power_loss(C);
            }
            world.start_node(C);
            world.run_for(Duration::from_millis(7 * (seed - 59)));
        }
        world.heal_everything();
        let last = world.producer(&topic, ProducerOptions::default());
        world.produce(last, 2);
        world.settle();
        assert_eq!(world.log(C, &topic), world.log(B, &topic));
    }
}
