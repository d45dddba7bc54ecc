//! Enumerates crashes on two threads, prints what was enumerated, and fails where a kind is missing.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use highwater_engine::Rules;
use highwater_tests::recover::crashes::{BadState, Bounds, Table, enumerate, replay, scene_names};

pub(crate) const USAGE: &str =
    "highwater-fuzz crashes [--states N | --minutes N | --state NAME] [--scene NAME]
  every crash of every operation of a log, and of its recovery, three deep";

const THREADS: usize = 2;

#[derive(Debug)]
struct Order {
    states: u64,
    time: Option<Duration>,
    state: Option<String>,
    scene: Option<String>,
}

fn order(arguments: &[String]) -> Result<Order, String> {
    let mut order = Order { states: 100_000, time: None, state: None, scene: None };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or(format!("'{argument}' needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("'{argument}' needs a number"));
        match argument.as_str() {
            "--states" => order.states = number()?,
            "--minutes" => order.time = Some(Duration::from_secs(60 * number()?)),
            "--state" => order.state = Some(value.clone()),
            "--scene" => order.scene = Some(value.clone()),
            _ => return Err(format!("'{argument}' is not known")),
        }
    }
    Ok(order)
}

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let done = order(arguments).and_then(|order| match &order.state {
        Some(name) => replay_one(name),
        None => enumerate_all(&order),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn replay_one(name: &str) -> Result<(), String> {
    let name = name.parse().map_err(|error| format!("{error}"))?;
    replay(&name, Rules::default()).map_err(|bad| bad.to_string())?;
    println!("nothing is wrong in state '{name}'");
    Ok(())
}

/// Round after round, each with another seed, until there are enough states; what a round has begun it ends.
fn enumerate_all(order: &Order) -> Result<(), String> {
    let scenes: Vec<&str> = scene_names();
    let scenes: Vec<&str> =
        scenes.into_iter().filter(|name| order.scene.as_deref().is_none_or(|only| only == *name)).collect();
    let begun = now();
    let next = AtomicU64::new(0);
    let table = Mutex::new(Table::default());
    let wrong: Mutex<Option<Box<BadState>>> = Mutex::new(None);
    let count = u64::try_from(scenes.len()).unwrap_or(1).max(1);
    let is_enough = |round: u64| {
        let states = lock(&table).states();
        let enough = order.time.map_or(states >= order.states, |time| now().duration_since(begun) >= time);
        (round > 0 && enough) || lock(&wrong).is_some()
    };
    let bounds = Bounds {
        scene_states: usize::try_from(order.states / count).unwrap_or(usize::MAX),
        ..Bounds::default()
    };
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let (seed, scene) = (number / count, scenes[usize::try_from(number % count).unwrap_or(0)]);
            if is_enough(seed) {
                return;
            }
            match enumerate(scene, seed, &bounds) {
                Ok(one) => lock(&table).add(&one),
                Err(bad) => {
                    lock(&wrong).get_or_insert(bad);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(work);
        }
    });
    let table = lock(&table);
    println!("{table}");
    if let Some(bad) = lock(&wrong).take() {
        return Err(bad.to_string());
    }
    let missing = table.missing();
    if missing.is_empty() || order.scene.is_some() { Ok(()) } else { Err(format!("none of: {missing:?}")) }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a search lasts for real time; what is searched in has its own"
)]
fn now() -> Instant {
    Instant::now()
}
