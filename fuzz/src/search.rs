//! Seeded searches: fresh seeds for a time, or seeds one behind the other. A failure prints its seed, which replays it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use highwater_tests::recover::{Setting, explain_seed, run_seed_caught, take_calls};
use highwater_tests::world::{RandomOptions, random};

/// Something to search in. A seed gives nothing, or a report of what is wrong.
struct Search {
    name: &'static str,
    about: &'static str,
    run: fn(u64) -> Result<(), String>,
    /// What so many runs, one behind the other, have done; or what they should have done and have not.
    summary: fn(u64) -> Result<String, String>,
}

const SEARCHES: &[Search] = &[
    Search {
        name: "cluster",
        about: "a controller, three brokers and their clients, under kills, power losses, partitions and failing disks",
        run: cluster,
        summary: |_| Ok(String::new()),
    },
    Search {
        name: "recover",
        about: "one log or a few against models of them, under kills, power losses and failing calls, again and again",
        run: recover,
        summary: doors,
    },
];

fn recover(seed: u64) -> Result<(), String> {
    run_seed_caught(seed, Setting::default()).map(drop).map_err(|violation| {
        // The story has the last steps alone, and what made it fail may lie long before.
        format!("{violation}\n{}", explain_seed(seed, Setting::default()))
    })
}

/// From so many runs on each door is used.
const RUNS_OF_ALL_DOORS: u64 = 1_000;

fn doors(runs: u64) -> Result<String, String> {
    let calls = take_calls();
    let unused = calls.unused();
    if runs >= RUNS_OF_ALL_DOORS && !unused.is_empty() {
        return Err(format!("{calls}nobody has called {unused:?}"));
    }
    Ok(calls.to_string())
}

fn cluster(seed: u64) -> Result<(), String> {
    let options = RandomOptions { chaos: Duration::from_secs(15), ..RandomOptions::default() };
    let outcome = random(seed, &options);
    outcome.violation.map_or(Ok(()), |violation| Err(format!("{violation}\n{}", outcome.report)))
}

/// What was asked for.
struct Order {
    search: &'static Search,
    seed: Option<u64>,
    /// The first of seeds one behind the other, instead of fresh ones.
    first: Option<u64>,
    time: Duration,
    /// How many, instead of how long.
    runs: Option<u64>,
}

fn order(name: &str, mut arguments: impl Iterator<Item = String>) -> Result<Order, String> {
    let search =
        SEARCHES.iter().find(|search| search.name == name).ok_or(format!("there is no search '{name}'"))?;
    let mut order = Order { search, seed: None, first: None, time: Duration::from_secs(60), runs: None };
    while let Some(argument) = arguments.next() {
        let number = |text: Option<String>| {
            text.and_then(|text| text.parse::<u64>().ok()).ok_or(format!("'{argument}' needs a number"))
        };
        if argument == "--minutes" {
            order.time = Duration::from_secs(60 * number(arguments.next())?);
        } else if argument == "--runs" {
            order.runs = Some(number(arguments.next())?);
        } else if argument == "--first" {
            order.first = Some(number(arguments.next())?);
        } else {
            order.seed = Some(number(Some(argument.clone()))?);
        }
    }
    Ok(order)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a search lasts for real time; what is searched in has its own"
)]
fn search(order: &Order) -> ExitCode {
    let begun = Instant::now();
    let mut seeds = fastrand::Rng::new();
    let mut runs = 0_u64;
    loop {
        let seed = match (order.seed, order.first) {
            (Some(seed), _) => seed,
            (None, Some(first)) => first.wrapping_add(runs),
            (None, None) => seeds.u64(..1 << 48),
        };
        if let Err(report) = (order.search.run)(seed) {
            println!("{} {seed} fails, after {runs} that do not:\n{report}", order.search.name);
            return ExitCode::FAILURE;
        }
        runs += 1;
        let enough = order.runs.map_or_else(|| begun.elapsed() >= order.time, |wanted| runs >= wanted);
        if order.seed.is_some() || enough {
            return match (order.search.summary)(runs) {
                Ok(done) => {
                    println!("{done}{}: {runs} runs, nothing found", order.search.name);
                    ExitCode::SUCCESS
                }
                Err(why) => {
                    println!("{why}");
                    ExitCode::FAILURE
                }
            };
        }
    }
}

/// Runs the search that the arguments ask for.
pub(crate) fn run(name: &str, arguments: &[String]) -> ExitCode {
    match order(name, arguments.iter().cloned()) {
        Ok(order) => search(&order),
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

/// The name of each search and what it is about.
pub(crate) fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    SEARCHES.iter().map(|search| (search.name, search.about))
}
