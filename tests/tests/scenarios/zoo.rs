//! The bug zoo: each of sixteen rules is switched off, and the world has to notice within a bounded number of seeds. What a random run
//! finds is found by one; where the wrong moment is too rare, a script leads there.
//!
//! A rule that nobody misses is either not needed or not looked at. The table that is printed says which invariant saw it first.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use highwater_engine::Rule as EngineRule;
use highwater_engine::disk::simulated::Unsynced;
use highwater_engine::units::TopicPartition;
use highwater_replication::Rule;
use highwater_tests::world::{
    A, B, C, End, Options, ProducerOptions, RandomOptions, TopicOptions, World, random,
};

/// Seeds that a rule may take to be noticed.
const SEEDS: u64 = 60;

fn with(engine: highwater_engine::Rules, rules: highwater_replication::Rules) -> Options {
    Options { engine, rules, ..Options::default() }
}

fn without(rule: Rule) -> Options {
    with(highwater_engine::Rules::default(), highwater_replication::Rules::default().without(rule))
}

/// The same world with all rules in force.
fn sane(options: &Options) -> Options {
    let (engine, rules) = (highwater_engine::Rules::default(), highwater_replication::Rules::default());
    Options { engine, rules, ..options.clone() }
}

/// Random runs until one notices; panics if none does, or if the same run notices something with all rules in force.
fn noticed_at_random(name: &str, options: &Options) {
    let run = |seed: u64, options: &Options| {
        let world = Options { restart_after: Some(Duration::from_millis(800)), ..options.clone() };
        random(seed, &RandomOptions { world, disks: false, ..RandomOptions::default() })
    };
    for seed in 1..=SEEDS {
        if let Some(violation) = run(seed, options).violation {
            println!("{name:<32} I{:<3} at random, {seed} seeds", violation.invariant);
            let control = run(seed, &sane(options));
            assert!(control.violation.is_none(), "{name}, seed {seed} with all rules: {}", control.report);
            return;
        }
    }
    panic!("{name}: switched off, and {SEEDS} random runs saw nothing");
}

/// Scripts until one notices; the same script with all rules in force must not. One that gets stuck has noticed nothing.
fn noticed_by_script(name: &str, options: &Options, only: &[u8], script: impl Fn(u64, Options) -> World) {
    for seed in 1..=SEEDS {
        let Ok(world) = catch_unwind(AssertUnwindSafe(|| script(seed, options.clone()))) else { continue };
        if let Some(seen) =
            world.found().iter().find(|seen| only.is_empty() || only.contains(&seen.invariant))
        {
            println!("{name:<32} I{:<3} by script, {seed} seeds", seen.invariant);
            let control = script(seed, sane(options));
            assert!(control.found().is_empty(), "{name}, seed {seed} with all rules: {}", control.report());
            return;
        }
    }
    panic!("{name}: switched off, and {SEEDS} scripts saw nothing");
}

fn loose() -> ProducerOptions {
    ProducerOptions { acks: 1, idempotent: false, in_flight_max: 1, ..ProducerOptions::default() }
}

fn patient(rule: Rule) -> Options {
    Options { session_timeout: Duration::from_secs(20), lag_max: Duration::from_millis(500), ..without(rule) }
}

#[test]
fn hw_over_maximal_isr() {
    noticed_by_script("HwOverMaximalIsr", &patient(Rule::HwOverMaximalIsr), &[], |seed, options| {
        let mut world = World::new(seed, options);
        let topic = world.topic(&TopicOptions::default()).remove(0);
        world.watch();
        let producer = world.producer(&topic, ProducerOptions::default());
        world.produce(producer, 1);
        // A asks that C leave; the controller does not hear of it, and C may still be elected.
        world.hold(A, End::Controller);
        world.cut(A, C);
        world.send_batch(producer, 2);
        world.run_for(Duration::from_secs(3));
        world
    });
}

#[test]
fn hw_frozen_below_min_isr() {
    noticed_at_random("HwFrozenBelowMinIsr", &without(Rule::HwFrozenBelowMinIsr));
}

/// The high watermark stands still below the minimum, and so nothing completes there: this rule is the second lock on that door. With the
/// first one open it is the only one, and an acknowledgement is what it keeps back.
#[test]
fn min_isr_again_at_completion() {
    let first_lock_open = highwater_replication::Rules::default().without(Rule::HwFrozenBelowMinIsr);
    let options =
        |rules: highwater_replication::Rules| Options { rules, ..patient(Rule::HwFrozenBelowMinIsr) };
    let script = |seed: u64, options: Options| {
        let mut world = World::new(seed, options);
        let topic =
            world.topic(&TopicOptions { assignment: vec![vec![A, B]], ..TopicOptions::default() }).remove(0);
        world.watch();
        let producer = world.producer(&topic, ProducerOptions::default());
        world.produce(producer, 3);
        world.hold(A, B);
        world.send_batch(producer, 1);
        world.until_end(A, &topic, 4);
        world.kill(B);
        world.run_for(Duration::from_secs(2));
        world
    };
    let with_it = script(1, options(first_lock_open));
    assert!(!with_it.saw(17), "the rule itself keeps the acknowledgement back: {}", with_it.report());
    let both_open = options(first_lock_open.without(Rule::MinIsrAgainAtCompletion));
    noticed_by_script("MinIsrAgainAtCompletion", &both_open, &[17], script);
}

#[test]
fn epoch_fence_on_fetch() {
    noticed_by_script("EpochFenceOnFetch", &patient(Rule::EpochFenceOnFetch), &[], |seed, options| {
        let mut world = World::new(seed, options);
        let topic = world.topic(&TopicOptions { min_isr: 1, ..TopicOptions::default() }).remove(0);
        world.watch();
        let producer = world.producer(&topic, loose());
        world.produce(producer, 2);
        world.until_end(C, &topic, 2);
        // C hears nothing from the controller, and goes by epoch 0.
        world.cut_one_way(End::Controller, C);
        world.elect(&topic, B);
        world.until("C has left", |world| !world.isr(&topic).contains(&C));
        world.elect(&topic, A);
        world.run_for(Duration::from_secs(3));
        world
    });
}

#[test]
fn divergence_check() {
    noticed_at_random("DivergenceCheck", &without(Rule::DivergenceCheck));
}

#[test]
fn reset_follower_at_new_session() {
    noticed_by_script(
        "ResetFollowerAtNewSession",
        &patient(Rule::ResetFollowerAtNewSession),
        &[],
        |seed, options| {
            let mut world = World::new(seed, options);
            let options =
                TopicOptions { assignment: vec![vec![A, B]], min_isr: 1, ..TopicOptions::default() };
            let topic = world.topic(&options).remove(0);
            world.watch();
            let producer = world.producer(&topic, ProducerOptions::default());
            world.produce(producer, 5);
            world.replace_disk(B);
            world.run_for(Duration::from_millis(30));
            // The empty B is there again before A has forgotten its last Fetch; what A sends does not get to it.
            world.hold(A, B);
            world.start_node(B);
            world.run_for(Duration::from_secs(2));
            world
        },
    );
}

#[test]
fn expansion_needs_epoch_start() {
    noticed_by_script(
        "ExpansionNeedsEpochStart",
        &patient(Rule::ExpansionNeedsEpochStart),
        &[],
        |seed, options| {
            let mut world = World::new(seed, options);
            let topic = world.topic(&TopicOptions { min_isr: 1, ..TopicOptions::default() }).remove(0);
            world.watch();
            let producer = world.producer(&topic, ProducerOptions::default());
            world.produce(producer, 3);
            world.until("all know", |world| {
                [A, B, C].iter().all(|node| world.high_watermark(*node, &topic) == 3)
            });
            world.hold(A, C);
            world.send_batch(producer, 2);
            world.until_end(B, &topic, 5);
            world.hold(A, B);
            world.until("C has left", |world| !world.isr(&topic).contains(&C));
            world.run_for(Duration::from_millis(300));
            world.hold(B, C);
            world.elect(&topic, B);
            world.run_for(Duration::from_secs(2));
            world
        },
    );
}

#[test]
fn waits_keyed_by_epoch() {
    noticed_by_script("WaitsKeyedByEpoch", &patient(Rule::WaitsKeyedByEpoch), &[], |seed, options| {
        let mut world = World::new(seed, options);
        let topic = world.topic(&TopicOptions::default()).remove(0);
        world.watch();
        let producer = world.producer(&topic, ProducerOptions::default());
        world.produce(producer, 3);
        world.hold(A, B);
        world.hold(A, C);
        world.send_batch(producer, 1);
        world.until_end(A, &topic, 4);
        world.cut(producer, End::Controller);
        world.elect(&topic, B);
        world.until("B leads", |world| world.leads(B, &topic));
        let other = world.producer(&topic, ProducerOptions::default());
        world.send_batch(other, 3);
        world.heal(A, B);
        world.heal(A, C);
        world.run_for(Duration::from_secs(2));
        world
    });
}

#[test]
fn suspects_do_not_lead() {
    noticed_at_random("SuspectsDoNotLead", &without(Rule::SuspectsDoNotLead));
}

#[test]
fn next_fetch_waits_for_written() {
    noticed_at_random("NextFetchWaitsForWritten", &without(Rule::NextFetchWaitsForWritten));
}

/// Of three records everybody has written down that they are committed, and two of them are synced nowhere.
fn three_are_committed_and_one_is_synced(seed: u64, options: Options) -> (World, TopicPartition) {
    let often = options.high_watermark_interval;
    let mut world = World::new(seed, options);
    let topic = world.topic(&TopicOptions::default()).remove(0);
    world.watch();
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, 1);
    world.until("it is synced everywhere", |world| {
        [A, B, C].iter().all(|node| world.durable(*node, &topic) == 1)
    });
    world.run_for(Duration::from_millis(600));
    world.produce(producer, 2);
    world.run_for(often + often / 10);
    (world, topic)
}

fn checkpoints_every_300_ms() -> Options {
    let interval = Duration::from_millis(300);
    Options { high_watermark_interval: interval, ..without(Rule::GrowAboveCheckpoint) }
}

#[test]
fn grow_above_checkpoint_as_a_follower() {
    noticed_by_script("GrowAboveCheckpoint", &checkpoints_every_300_ms(), &[22], |seed, options| {
        let (mut world, topic) = three_are_committed_and_one_is_synced(seed, options);
        world.power_loss_that(B, Unsynced::Lost);
        world.start_node(B);
        world.until_end(B, &topic, 3);
        world
    });
}

/// All three lose what was committed. One leads without it, appends something else that nobody gets, and is killed.
#[test]
fn grow_above_checkpoint_as_a_leader() {
    noticed_by_script("GrowAboveCheckpoint", &checkpoints_every_300_ms(), &[6], |seed, options| {
        let (mut world, topic) = three_are_committed_and_one_is_synced(seed, options);
        for node in [A, B, C] {
            world.power_loss_that(node, Unsynced::Lost);
        }
        for node in [A, B, C] {
            world.start_node(node);
        }
        let leading = |world: &World| [A, B, C].into_iter().find(|node| world.leads(*node, &topic));
        world.until("somebody leads without them", |world| leading(world).is_some());
        let leader = leading(&world).expect("it has just been seen");
        for other in [A, B, C].into_iter().filter(|other| *other != leader) {
            world.cut(leader, other);
        }
        let other = world.producer(&topic, loose());
        world.send_batch(other, 2);
        world.until_end(leader, &topic, 3);
        world.kill(leader);
        world.start_node(leader);
        world.until("it leads again", |world| world.leads(leader, &topic));
        world.run_for(Duration::from_millis(100));
        world
    });
}

fn engine(rule: EngineRule) -> Options {
    with(highwater_engine::Rules::default().without(rule), highwater_replication::Rules::default())
}

#[test]
fn nobody_sees_above_written() {
    noticed_at_random("NobodySeesAboveWritten", &engine(EngineRule::NobodySeesAboveWritten));
}

#[test]
fn sync_only_after_its_writes() {
    noticed_at_random("SyncOnlyAfterItsWrites", &engine(EngineRule::SyncOnlyAfterItsWrites));
}

#[test]
fn recovery_point_below_unsynced() {
    noticed_at_random("RecoveryPointBelowUnsynced", &engine(EngineRule::RecoveryPointBelowUnsynced));
}

#[test]
fn epochs_follow_truncation() {
    noticed_at_random("EpochsFollowTruncation", &engine(EngineRule::EpochsFollowTruncation));
}

#[test]
fn producers_follow_truncation() {
    let options =
        Options { session_timeout: Duration::from_secs(20), ..engine(EngineRule::ProducersFollowTruncation) };
    noticed_by_script("ProducersFollowTruncation", &options, &[], |seed, options| {
        let mut world = World::new(seed, options);
        let topic = world.topic(&TopicOptions::default()).remove(0);
        world.watch();
        let producer = world.producer(&topic, ProducerOptions::default());
        world.produce(producer, 3);
        world.hold(A, B);
        world.hold(A, C);
        // Only A gets it; B leads, and A cuts it.
        world.send_batch(producer, 1);
        world.until_end(A, &topic, 4);
        world.cut(producer, End::Controller);
        world.elect(&topic, B);
        world.until("B leads", |world| world.leads(B, &topic));
        let other = world.producer(&topic, ProducerOptions::default());
        world.send_batch(other, 1);
        world.run_for(Duration::from_millis(300));
        world.heal(A, B);
        world.heal(A, C);
        world.run_for(Duration::from_secs(1));
        world.elect(&topic, A);
        world.until("A leads", |world| world.leads(A, &topic));
        world.heal(producer, End::Controller);
        world.run_for(Duration::from_secs(3));
        world
    });
}
