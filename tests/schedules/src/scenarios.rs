//! The scenarios, each a few threads that want different things of one log at one moment.

use std::process::ExitCode;

use highwater_engine::disk::simulated::Unsynced;
use highwater_engine::disk::{Patience, Wait};
use highwater_engine::log::{Step, TicketError};
use highwater_engine::store::{Job, JobDone};
use highwater_engine::{Rule, Rules};
use shuttle::future::block_on;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::thread::{JoinHandle, spawn};
use shuttle::{Config, FailurePersistence, Runner};

use crate::world::{World, at, now};

struct Scenario {
    name: &'static str,
    run: fn(),
}

const SCENARIOS: &[Scenario] = &[
    Scenario { name: "append-wait-driver", run: append_beside_wait_beside_driver },
    Scenario { name: "cut-read-wait", run: cut_beside_readers_beside_waiters },
    Scenario { name: "cut-driver", run: cut_beside_a_waiter_who_drives },
    Scenario { name: "cut-checkpoint", run: cut_below_the_start_beside_a_checkpoint },
    Scenario { name: "two-tasks-one-goes", run: two_tasks_wait_and_one_goes },
    Scenario { name: "close-wait", run: close_beside_waiters },
    Scenario { name: "roll-read", run: roll_beside_reader },
    Scenario { name: "roll-wait-driver", run: rolls_beside_waiters_beside_an_event_loop },
    Scenario { name: "jobs-append", run: jobs_beside_appends },
    Scenario { name: "epochs-append", run: an_epoch_begins_beside_appends },
];

/// A record that somebody was told to be durable.
type Promise = (i64, i64);

/// Appends so many, each durable before the next. What was promised.
fn write_durably(world: &World, first_mark: i64, count: i64) -> JoinHandle<Vec<Promise>> {
    let world = world.clone();
    spawn(move || {
        let mut promises = Vec::new();
        for mark in first_mark..first_mark + count {
            let Some(appended) = world.append(mark) else { continue };
            match world.store.wait(appended.ticket, Step::Durable) {
                Ok(()) => promises.push((appended.offsets.start().value(), mark)),
                Err(TicketError::Truncated | TicketError::Closed(_)) => {}
                Err(error) => panic!("a ticket: {error}"),
            }
        }
        promises
    })
}

/// What was promised is there when everything that was not synced is lost, and the marks are in order.
fn check_promises(world: &World, promises: &[Promise]) {
    let marks = world.log.with_facts(|facts| (facts.start, facts.durable, facts.written, facts.accepted));
    let (start, durable, written, accepted) = marks;
    assert!(start <= written && durable <= written && written <= accepted, "marks out of order: {marks:?}");
    let disk = world.disk.fork(1);
    let left = World::after(disk.crash_power(Unsynced::Lost, &mut fastrand::Rng::with_seed(1)));
    for promise in promises {
        assert!(left.contains(promise), "{promise:?} was durable, and {left:?} is left");
    }
}

fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().expect("no thread panics")
}

fn append_beside_wait_beside_driver() {
    writers_and_a_driver(Rules::default());
}

fn writers_and_a_driver(rules: Rules) {
    let world = World::new(rules);
    let (first, second) = (write_durably(&world, 100, 2), write_durably(&world, 200, 2));
    let third = spawn({
        let world = world.clone();
        move || {
            let appended = world.append(300).expect("nobody cuts the log");
            world.store.wait(appended.ticket, Step::Written).expect("it is written");
            assert!(world.log.written() >= appended.offsets.end());
        }
    });
    let store = world.store.clone();
    for _ in 0..3 {
        store.turn(Wait::Not, Patience::MustNotBlock);
    }
    let promises = [joined(first), joined(second)].concat();
    joined(third);
    assert_eq!(promises.len(), 4);
    check_promises(&world, &promises);
}

fn cut_beside_readers_beside_waiters() {
    let world = World::new(Rules::default());
    for mark in 0..4 {
        world.append(mark);
    }
    let ticket = world.log.ticket();
    world.store.wait(ticket, Step::Written).expect("it is written");
    let writer = write_durably(&world, 100, 2);
    let reader = spawn({
        let world = world.clone();
        move || {
            for from in [0, 2, 3] {
                for (offset, mark) in world.read(from).unwrap_or_default() {
                    assert!(offset == mark || (offset >= 2 && mark >= 100), "{mark} was read at {offset}");
                }
            }
        }
    });
    let waiter = spawn({
        let world = world.clone();
        move || world.store.wait(ticket, Step::Durable)
    });
    let cut = Job::Truncate { log: world.log.id(), to: at(2) }.run(&world.store);
    assert!(matches!(cut, JobDone::Truncated { .. }), "{cut:?}");
    let outcome = joined(waiter);
    assert!(matches!(outcome, Ok(()) | Err(TicketError::Truncated)), "{outcome:?}");
    let promises = joined(writer);
    joined(reader);
    // What was promised before the cut may be cut.
    let end = world.log.accepted().value();
    let kept: Vec<Promise> = promises
        .into_iter()
        .filter(|(offset, mark)| {
            *offset < end && world.read(*offset).is_some_and(|read| read.contains(&(*offset, *mark)))
        })
        .collect();
    check_promises(&world, &kept);
    assert_eq!(world.read(0).and_then(|read| read.first().copied()), Some((0, 0)));
}

/// Nothing is appended behind the cut, so that the marks show what a sync that began meanwhile was counted for.
fn cut_beside_a_waiter_who_drives() {
    let world = World::new(Rules::default());
    for mark in 0..4 {
        world.append(mark);
    }
    let ticket = world.log.ticket();
    world.store.wait(ticket, Step::Written).expect("it is written");
    let waiter = spawn({
        let world = world.clone();
        move || world.store.wait(ticket, Step::Durable)
    });
    Job::Truncate { log: world.log.id(), to: at(3) }.run(&world.store);
    Job::Truncate { log: world.log.id(), to: at(1) }.run(&world.store);
    let outcome = joined(waiter);
    assert!(matches!(outcome, Ok(()) | Err(TicketError::Truncated)), "{outcome:?}");
    check_promises(&world, &[]);
}

/// What is appended below the old start is seen after a crash, whatever was being written down meanwhile.
fn cut_below_the_start_beside_a_checkpoint() {
    let world = World::new(Rules::default());
    for mark in 0..4 {
        world.append(mark);
    }
    world.store.wait(world.log.ticket(), Step::Written).expect("it is written");
    Job::RaiseStart { log: world.log.id(), to: at(3) }.run(&world.store);
    let checkpoint = spawn({
        let world = world.clone();
        move || drop(Job::Checkpoint { now: now(2) }.run(&world.store))
    });
    Job::Truncate { log: world.log.id(), to: at(1) }.run(&world.store);
    let promises = joined(write_durably(&world, 100, 1));
    joined(checkpoint);
    check_promises(&world, &promises);
}

fn two_tasks_wait_and_one_goes() {
    let world = World::new(Rules::default());
    let first = world.append(0).expect("nobody cuts the log");
    let stays = spawn({
        let world = world.clone();
        move || block_on(world.store.wait_async(first.ticket, Step::Durable))
    });
    let goes = spawn({
        let world = world.clone();
        move || {
            let mut future = Box::pin(world.store.wait_async(first.ticket, Step::Durable));
            let once = |context: &mut std::task::Context<'_>| {
                let _early = future.as_mut().poll(context);
                std::task::Poll::Ready(())
            };
            block_on(std::future::poll_fn({
                let mut once = once;
                move |context| once(context)
            }));
        }
    });
    let thread = spawn({
        let world = world.clone();
        move || world.store.wait(first.ticket, Step::Durable)
    });
    joined(goes);
    joined(thread).expect("it is durable");
    joined(stays).expect("it is durable");
    check_promises(&world, &[(0, 0)]);
}

fn close_beside_waiters() {
    let world = World::new(Rules::default());
    let writers = [write_durably(&world, 100, 2), write_durably(&world, 200, 2)];
    let task = spawn({
        let world = world.clone();
        move || {
            let Some(appended) = world.append(300) else { return };
            let waited = block_on(world.store.wait_async(appended.ticket, Step::Durable));
            assert!(matches!(waited, Ok(()) | Err(TicketError::Closed(_))), "{waited:?}");
        }
    });
    world.store.clone().close(serde_json::Map::new(), None).expect("it closes");
    let promises: Vec<Promise> = writers.into_iter().flat_map(joined).collect();
    joined(task);
    check_promises(&world, &promises);
}

fn roll_beside_reader() {
    let world = World::new(Rules::default());
    let writer = write_durably(&world, 0, 6);
    let reader = spawn({
        let world = world.clone();
        move || {
            let mut next = 0;
            for _ in 0..6 {
                for (offset, mark) in world.read(next).unwrap_or_default() {
                    assert_eq!((offset, mark), (next, next), "the log is read in order");
                    next += 1;
                }
            }
        }
    });
    let promises = joined(writer);
    joined(reader);
    assert!(world.log.segment_count() > 1, "it was rolled");
    check_promises(&world, &promises);
}

/// Nobody runs jobs: whoever waits for durability seals what was rolled, whoever else has turned the driver meanwhile.
fn rolls_beside_waiters_beside_an_event_loop() {
    let world = World::new(Rules::default());
    let writers = [write_durably(&world, 100, 4), write_durably(&world, 200, 4)];
    for _ in 0..150 {
        world.disk.complete_next(&mut fastrand::Rng::with_seed(1));
        world.store.turn(Wait::Not, Patience::MustNotBlock);
        shuttle::thread::yield_now();
    }
    let promises: Vec<Promise> = writers.into_iter().flat_map(joined).collect();
    assert_eq!(promises.len(), 8);
    check_promises(&world, &promises);
}

fn jobs_beside_appends() {
    let world = World::new(Rules::default());
    let writer = write_durably(&world, 0, 5);
    let jobs = spawn({
        let world = world.clone();
        move || {
            let id = world.log.id();
            let start = world.log.written();
            let jobs = [
                Job::Checkpoint { now: now(2) },
                Job::Seal { log: id },
                Job::RaiseStart { log: id, to: start },
                Job::Sync { logs: vec![id] },
                Job::Retention { log: id, ceiling: start, now: now(3) },
                Job::Checkpoint { now: now(4) },
            ];
            for job in jobs {
                let done = job.run(&world.store);
                assert!(!matches!(done, JobDone::Failed { .. }), "{done:?}");
            }
            start.value()
        }
    });
    let promises = joined(writer);
    let start = joined(jobs);
    let kept: Vec<Promise> = promises.into_iter().filter(|(offset, _)| *offset >= start).collect();
    check_promises(&world, &kept);
}

fn an_epoch_begins_beside_appends() {
    let world = World::new(Rules::default());
    let writer = spawn({
        let world = world.clone();
        move || {
            for mark in 0..3 {
                // The epoch may have begun before: then this one is not the leader any more.
                let permit = highwater_engine::log::Permit::new(highwater_engine::units::LeaderEpoch::ZERO);
                drop(world.log.append(permit, crate::world::batch(mark, 400), now(1)));
            }
        }
    });
    let epoch = highwater_engine::units::LeaderEpoch::new(1).expect("1 is an epoch");
    world.log.begin_epoch(epoch).expect("a leadership begins");
    let end = world.log.accepted();
    joined(writer);
    assert_eq!(world.log.accepted(), end, "nothing is appended under an epoch that is over");
}

struct Order {
    first: u64,
    schedules: usize,
    name: Option<String>,
    /// A file with a schedule as a failure prints it, to be played again.
    replay: Option<String>,
}

fn order(mut arguments: impl Iterator<Item = String>) -> Result<Order, String> {
    let mut order = Order { first: 1, schedules: 300, name: None, replay: None };
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse::<u64>().ok());
        match argument.as_str() {
            "--first" => order.first = number().ok_or("--first needs a number")?,
            "--schedules" => {
                let schedules = number().and_then(|number| usize::try_from(number).ok());
                order.schedules = schedules.ok_or("--schedules needs a number")?;
            }
            "--replay" => order.replay = Some(arguments.next().ok_or("--replay needs a file")?),
            _ => order.name = Some(argument),
        }
    }
    Ok(order)
}

/// Runs a scenario under so many orders. A panic is what it finds.
fn run_under(scheduler: impl Scheduler + 'static, run: fn(), persistence: FailurePersistence) {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.failure_persistence = persistence;
    // What weaker orderings of memory allow is not to be seen this way.
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(run);
}

/// A sync that is submitted beside the writes it has to cover: the promises of the first scenario do not hold, in some order.
fn planted() {
    writers_and_a_driver(Rules::default().without(Rule::SyncOnlyAfterItsWrites));
}

fn is_planted_fault_seen(order: &Order) -> bool {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let schedules = order.schedules.max(300);
    let seen = std::panic::catch_unwind(|| {
        run_under(RandomScheduler::new_from_seed(order.first, schedules), planted, FailurePersistence::None);
    });
    std::panic::set_hook(hook);
    seen.is_err()
}

pub(crate) fn run(arguments: impl Iterator<Item = String>) -> ExitCode {
    let order = match order(arguments) {
        Ok(order) => order,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    for scenario in
        SCENARIOS.iter().filter(|scenario| order.name.as_ref().is_none_or(|name| name == scenario.name))
    {
        if let Some(file) = &order.replay {
            shuttle::replay_from_file(scenario.run, file);
            return ExitCode::SUCCESS;
        }
        println!(
            "{}: {} random orders from seed {}, as many under PCT",
            scenario.name, order.schedules, order.first
        );
        run_under(
            RandomScheduler::new_from_seed(order.first, order.schedules),
            scenario.run,
            FailurePersistence::Print,
        );
        run_under(
            PctScheduler::new_from_seed(order.first, 3, order.schedules),
            scenario.run,
            FailurePersistence::Print,
        );
    }
    if !is_planted_fault_seen(&order) {
        println!("a sync beside its writes is not seen in any order, so that nothing is proved");
        return ExitCode::FAILURE;
    }
    println!("a sync beside its writes is seen");
    ExitCode::SUCCESS
}
