//! S21, S26, S48 and S53: what is said too late, or by somebody who knows less.

use std::time::Duration;

use highwater_engine::disk::simulated::Unsynced;
use highwater_replication::{Rule, Rules};
use highwater_tests::world::{A, B, C, End, Options, ProducerOptions, TopicOptions, World};

fn patient() -> Options {
    Options { session_timeout: Duration::from_secs(20), ..Options::default() }
}

/// B is about to stop. A has not heard of it, and wants B, which has just caught up, in the ISR.
#[test]
fn s21_who_stops_does_not_join() {
    let mut world = World::new(21, Options { lag_max: Duration::from_millis(500), ..patient() });
    let topic = world.topic(&TopicOptions { min_isr: 1, ..TopicOptions::default() }).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 1);
    world.hold(A, B);
    world.produce(producer, 1);
    world.until("B has left", |world| !world.isr(&topic).contains(&B));
    world.run_for(Duration::from_millis(300));
    world.hold(End::Controller, A);
    world.stop_cleanly(B);
    world.heal(A, B);
    for _ in 0..100 {
        world.run_for(Duration::from_millis(20));
        assert!(!world.isr(&topic).contains(&B), "{}", world.report());
    }
    world.heal(End::Controller, A);
    world.until("B has stopped", |world| !world.runs(B));
    world.start_node(B);
    world.settle();
}

/// B lost with its power what all three had counted, and leads all the same, because a rule is off. Nobody helps it.
#[test]
fn s26_a_follower_does_not_cut_what_it_knows_to_be_committed() {
    let (rules, often) = (Rules::default().without(Rule::SuspectsDoNotLead), Duration::from_millis(50));
    let mut world = World::new(26, Options { rules, high_watermark_interval: often, ..Options::default() });
    let topic = world.topic(&TopicOptions { min_isr: 3, ..TopicOptions::default() }).remove(0);
    world.watch();
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 9);
    world.until("all know", |world| [A, B, C].iter().all(|node| world.high_watermark(*node, &topic) == 9));
    // Late enough that it is written down, and early enough that nobody has synced it.
    world.run_for(Duration::from_millis(100));
    world.kill(C);
    world.power_loss_that(B, Unsynced::Lost);
    world.kill(A);
    world.until("nobody leads", |world| world.leader(&topic).is_none());
    world.start_node(B);
    world.until("B leads with less", |world| world.leads(B, &topic));
    assert!(world.end(B, &topic) < 9, "{}", world.report());
    for node in [A, C] {
        world.start_node(node);
    }
    world.run_for(Duration::from_secs(3));
    assert_eq!((world.end(A, &topic), world.end(C, &topic)), (9, 9), "{}", world.report());
    assert!(!world.saw(15), "{}", world.report());
}

/// A's answer to C is on its way when B leads and C cuts: the bytes are of another history by then.
#[test]
fn s48_an_answer_that_arrives_in_another_leadership_is_not_appended() {
    let mut world = World::new(48, patient());
    let topic = world.topic(&TopicOptions { min_isr: 1, ..TopicOptions::default() }).remove(0);
    let loose =
        ProducerOptions { acks: 1, idempotent: false, in_flight_max: 1, ..ProducerOptions::default() };
    let producer = world.producer(&topic, loose);
    world.produce(producer, 3);
    world.settle();
    world.hold(A, C);
    world.cut(A, B);
    world.produce(producer, 2);
    // Now A's answer with the two records waits on its way to C.
    world.run_for(Duration::from_millis(400));
    world.elect(&topic, B);
    world.until("B leads", |world| world.leads(B, &topic));
    let other = world.producer(&topic, loose);
    world.produce(other, 3);
    world.until_end(C, &topic, 6);
    world.heal(A, C);
    world.run_for(Duration::from_millis(500));
    world.heal_everything();
    world.settle();
    assert_eq!(world.log(C, &topic), world.log(B, &topic));
}

/// The words of two leaderships reach C late, and the controller has crashed meanwhile.
#[test]
fn s53_words_of_an_earlier_leadership_change_nothing() {
    let mut world = World::new(53, patient());
    let topic = world.topic(&TopicOptions::default()).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 3);
    world.hold(End::Controller, C);
    world.elect(&topic, B);
    world.until("B leads", |world| world.leads(B, &topic));
    world.crash_controller();
    world.until("the controller is back", World::controller_runs);
    world.elect(&topic, A);
    world.produce(producer, 1);
    let epoch = world.state(&topic).leader_epoch;
    world.heal(End::Controller, C);
    world.until("C goes by the newest", |world| {
        world.status(C, &topic).is_some_and(|status| status.leader_epoch == Some(epoch))
    });
    world.settle();
}
