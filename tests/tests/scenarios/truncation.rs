//! S01 to S04, S06: where a follower's log and its leader's part, and what may be cut.

use std::time::Duration;

use highwater_engine::disk::simulated::{Fault, Unsynced};
use highwater_engine::units::TopicPartition;
use highwater_tests::world::{A, B, C, Options, ProducerOptions, TopicOptions, World};

fn loose() -> ProducerOptions {
    ProducerOptions { acks: 1, idempotent: false, in_flight_max: 1, ..ProducerOptions::default() }
}

/// B leads, A follows; both have [m1 m2], and A has not heard yet that m2 is committed.
fn m2_is_committed_and_a_has_not_heard(truncation: &'static str) -> (World, TopicPartition) {
    let mut world =
        World::new(11, Options { session_timeout: Duration::from_secs(20), ..Options::default() });
    let options =
        TopicOptions { assignment: vec![vec![B, A]], min_isr: 2, truncation, ..TopicOptions::default() };
    let topic = world.topic(&options).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 1);
    world.until("A knows that m1 is committed", |world| world.high_watermark(A, &topic) == 1);
    let m2 = world.send_batch(producer, 1);
    world.until_end(A, &topic, 2);
    // What B answers from now on does not get to A, but A's Fetch gets to B, and with it that A has m2.
    world.hold(B, A);
    world.until("m2 is acknowledged", |world| world.acknowledged(producer, m2).is_some());
    assert_eq!(world.high_watermark(A, &topic), 1, "A must not have heard of it yet");
    (world, topic)
}

/// A follows B in a new epoch, and before it has fetched anything in it B dies and A leads.
fn s01(truncation: &'static str) -> (World, TopicPartition) {
    let (mut world, topic) = m2_is_committed_and_a_has_not_heard(truncation);
    world.watch();
    world.elect(&topic, A);
    world.elect(&topic, B);
    let epoch = world.state(&topic).leader_epoch;
    world.until("A follows in the new epoch", |world| {
        world.status(A, &topic).is_some_and(|status| status.leader_epoch == Some(epoch))
    });
    world.run_for(Duration::from_millis(100));
    world.kill(B);
    world.until("A leads", |world| world.leads(A, &topic));
    (world, topic)
}

#[test]
fn s01_a_follower_keeps_what_it_does_not_know_to_be_committed() {
    let (mut world, topic) = s01("leader-epoch");
    assert_eq!(world.end(A, &topic), 2, "{}", world.report());
    world.heal_everything();
    world.settle();
    assert!(world.found().is_empty(), "{}", world.report());
}

#[test]
fn s01_with_the_high_watermark_rule_an_acknowledged_record_is_lost() {
    let (world, topic) = s01("high-watermark");
    assert_eq!(world.end(A, &topic), 1, "the rule is known to lose m2 here\n{}", world.report());
    assert!(world.saw(15) && world.saw(2), "{}", world.report());
}

#[test]
fn s01_a_follower_that_restarts_keeps_it_too() {
    let (mut world, topic) = m2_is_committed_and_a_has_not_heard("leader-epoch");
    world.kill(A);
    world.start_node(A);
    world.until("A follows again", |world| {
        world.status(A, &topic).is_some_and(|status| status.leader == Some(B))
    });
    world.kill(B);
    world.until("A leads, because it is eligible and no suspect", |world| world.leads(A, &topic));
    assert_eq!(world.end(A, &topic), 2, "{}", world.report());
    world.heal_everything();
    world.settle();
}

/// A leads and has [m1 m2], of which B has only m1 on its medium; both lose their power, and B is back first.
fn s02(truncation: &'static str, durability: &'static str) -> (World, TopicPartition) {
    let often = Duration::from_millis(50);
    let mut world = World::new(12, Options { high_watermark_interval: often, ..Options::default() });
    let options = TopicOptions {
        assignment: vec![vec![A, B]],
        min_isr: 2,
        truncation,
        durability,
        ..TopicOptions::default()
    };
    let topic = world.topic(&options).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 1);
    world.until("m1 is synced everywhere", |world| {
        world.durable(A, &topic) == 1 && world.durable(B, &topic) == 1
    });
    world.run_for(Duration::from_millis(600));
    world.produce(producer, 1);
    // A has written down that m2 is committed.
    world.run_for(Duration::from_millis(100));
    world.power_loss_that(B, Unsynced::Lost);
    world.power_loss_that(A, Unsynced::Kept);
    world.start_node(B);
    (world, topic)
}

#[test]
fn s02_a_suspect_waits_for_the_one_that_may_have_more() {
    let (mut world, topic) = s02("leader-epoch", "written");
    world.run_for(Duration::from_secs(4));
    assert_eq!(world.end(B, &topic), 1);
    assert_eq!(world.leader(&topic), None, "B may have lost records and must wait for A");
    world.start_node(A);
    world.until("A leads and B has m2 again", |world| world.leads(A, &topic) && world.end(B, &topic) == 2);
    world.settle();
}

#[test]
fn s02_if_what_counts_is_durable_b_has_it_already() {
    let (mut world, topic) = s02("leader-epoch", "fsync");
    world.until("B leads with everything", |world| world.leads(B, &topic));
    assert_eq!(world.end(B, &topic), 2);
    world.start_node(A);
    world.settle();
}

#[test]
fn s02_an_operator_who_does_not_wait_for_a_is_told_what_is_lost() {
    let (mut world, topic) = s02("leader-epoch", "written");
    world.until("B has said what it has", |world| world.state(&topic).reports.contains_key(&B));
    world.elect_unclean(&topic, B);
    world.until("B leads", |world| world.leads(B, &topic));
    assert!(!world.state(&topic).losses.is_empty(), "the order is recorded");
    let other = world.producer(&topic, loose());
    world.produce(other, 1);
    world.start_node(A);
    world.until("A has what B has", |world| {
        world.log(A, &topic) == world.log(B, &topic) && world.end(A, &topic) == 2
    });
    world.settle();
}

#[test]
fn s02_with_the_high_watermark_rule_the_logs_fork() {
    let (mut world, topic) = s02("high-watermark", "written");
    world.until("B has said what it has", |world| world.state(&topic).reports.contains_key(&B));
    world.elect_unclean(&topic, B);
    world.until("B leads", |world| world.leads(B, &topic));
    world.watch();
    // A, which is not there, is not waited for.
    let other = world.producer(&topic, loose());
    world.produce(other, 1);
    world.start_node(A);
    world.within(Duration::from_secs(5), |world| {
        world.end(A, &topic) >= 2 && world.high_watermark(A, &topic) >= 2
    });
    let (a, b) = (world.log(A, &topic), world.log(B, &topic));
    assert_eq!((a.len(), b.len()), (2, 2), "{}", world.report());
    assert_ne!(
        a[1],
        b[1],
        "the rule is known to fork the logs at offset 1: m2 on A, m3 on B\n{}",
        world.report()
    );
}

/// A: [0@0 1@0]; B: [0@0] leads epoch 1 and writes 1@1, which nobody else gets, and dies; A leads epoch 2 and writes 2@2.
#[test]
fn s03_an_epoch_that_the_leader_never_saw_is_cut_to_the_end_of_the_last_common_one() {
    let mut world = World::new(13, Options::default());
    let topic = world.topic(&TopicOptions { min_isr: 1, ..TopicOptions::default() }).remove(0);
    let producer = world.producer(&topic, loose());
    world.produce(producer, 1);
    world.until_end(B, &topic, 1);
    world.hold(A, B);
    world.produce(producer, 1);
    assert_eq!((world.end(A, &topic), world.end(B, &topic)), (2, 1));
    world.elect(&topic, B);
    world.until("B leads", |world| world.leads(B, &topic));
    world.cut(B, A);
    world.cut(B, C);
    world.produce(producer, 1);
    assert_eq!(world.end(B, &topic), 2);
    world.kill(B);
    world.until("somebody else leads", |world| world.leader(&topic).is_some_and(|leader| leader != B));
    world.produce(producer, 1);
    world.heal_everything();
    world.settle();
    assert_eq!(world.log(B, &topic), world.log(A, &topic));
}

/// S04: seven shapes of a follower's log, each against the leader's.
#[test]
fn s04_whatever_a_followers_log_looks_like_the_common_prefix_stays_and_the_rest_follows() {
    // How many records: that all have; that only the follower has, led by itself; that only the others have, in one epoch and in another.
    for (seed, (common, own, theirs, later)) in
        [(3, 0, 2, 0), (3, 0, 0, 2), (3, 2, 0, 0), (3, 1, 2, 0), (3, 3, 1, 1), (3, 1, 0, 3), (0, 2, 1, 0)]
            .into_iter()
            .enumerate()
    {
        let mut world = World::new(40 + seed as u64, Options::default());
        let topic = world
            .topic(&TopicOptions { assignment: vec![vec![A, B, C]], min_isr: 1, ..TopicOptions::default() })
            .remove(0);
        let producer = world.producer(&topic, loose());
        world.produce(producer, common);
        for node in [B, C] {
            world.until_end(node, &topic, offset(common));
        }
        world.cut(A, B);
        world.cut(A, C);
        world.produce(producer, own);
        world.kill(A);
        world.until("somebody else leads", |world| world.leader(&topic).is_some_and(|leader| leader != A));
        world.produce(producer, theirs);
        if later > 0 {
            let (one, other) = if world.leader(&topic) == Some(B) { (B, C) } else { (C, B) };
            world.until("both have it", |world| {
                world.end(one, &topic) == world.end(other, &topic) && world.isr(&topic).len() == 2
            });
            world.elect(&topic, other);
            world.until("the other leads", |world| world.leads(other, &topic));
            world.produce(producer, later);
        }
        world.heal_everything();
        world.settle();
        assert_eq!(world.end(A, &topic), offset(common + theirs + later), "shape {seed}: {}", world.report());
        assert_eq!(world.log(A, &topic), world.log(B, &topic));
    }
}

/// The same node leads again under a later epoch, after it was cut meanwhile: its follower must not go on as if nothing had been.
#[test]
fn s06_every_new_epoch_is_reconciled_also_under_the_same_leader() {
    let mut world = World::new(16, Options::default());
    let topic = world.topic(&TopicOptions { min_isr: 1, ..TopicOptions::default() }).remove(0);
    let producer = world.producer(&topic, loose());
    // x@0 is on A and C, not on B.
    world.hold(A, B);
    world.produce(producer, 1);
    world.until_end(C, &topic, 1);
    world.elect(&topic, B);
    world.until("B leads without x", |world| world.leads(B, &topic));
    // C hears nothing of epoch 1.
    world.cut(B, C);
    world.heal(A, B);
    world.until_end(A, &topic, 0);
    world.elect(&topic, A);
    world.until("A leads again", |world| world.leads(A, &topic));
    world.produce(producer, 1);
    world.heal_everything();
    world.settle();
    assert_eq!(world.log(C, &topic), world.log(A, &topic));
}

/// A leads and has a record that nobody else has; B leads after it, and A has to cut that record off. Each call of A's disk fails once.
#[test]
fn whatever_call_fails_when_a_log_is_cut_it_is_cut_in_the_end() {
    let restart_after = Some(Duration::from_millis(800));
    for call in 0..24 {
        let mut world = World::new(60 + call, Options { restart_after, ..Options::default() });
        let topic = world.topic(&TopicOptions { min_isr: 1, ..TopicOptions::default() }).remove(0);
        let producer = world.producer(&topic, loose());
        world.produce(producer, 1);
        world.until_end(B, &topic, 1);
        world.cut(A, B);
        world.cut(A, C);
        world.produce(producer, 1);
        world.elect(&topic, B);
        world.until("B leads", |world| world.leads(B, &topic));
        world.produce(producer, 1);
        assert_ne!(world.log(A, &topic), world.log(B, &topic));
        world.fail_disk_call(A, call, Fault::Io);
        world.heal_everything();
        world.settle();
        assert_eq!(world.log(A, &topic), world.log(B, &topic), "call {call}: {}", world.report());
    }
}

fn offset(records: usize) -> i64 {
    i64::try_from(records).expect("few records")
}
