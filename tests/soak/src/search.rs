//! Trial after trial, for a time or a number, and what was seen in them: a kind that never came up proves nothing, and is a failure.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use fastrand::Rng;

#[cfg(target_os = "linux")]
use crate::medium::{Medium, Sync};
use crate::place::{Counted, Place};
use crate::trial::Trial;

/// Trials in which a lie has to be seen.
const CANARY_TRIALS_MAX: u64 = 200;

/// What was asked for.
#[derive(Debug)]
struct Order {
    first: u64,
    time: Duration,
    runs: Option<u64>,
}

pub(crate) fn usage(why: &str) -> ExitCode {
    eprintln!("{why}\nhighwater-soak kill | power | canary [--first SEED] [--seconds N | --runs N]");
    ExitCode::from(2)
}

/// Carries out a search by its name.
pub(crate) fn run(name: &str, arguments: impl Iterator<Item = String>) -> ExitCode {
    let order = match order(arguments) {
        Ok(order) => order,
        Err(why) => return usage(&why),
    };
    let place: fn(&mut Rng) -> std::io::Result<Place> = match name {
        "kill" => |_| Place::own(),
        #[cfg(target_os = "linux")]
        "power" => |rng| Ok(Place::Medium(Box::new(Medium::new(rng, Sync::Honest)?))),
        #[cfg(target_os = "linux")]
        "canary" => |rng| Ok(Place::Medium(Box::new(Medium::new(rng, Sync::Lying)?))),
        _ => return usage(&format!("there is no search '{name}' on this system")),
    };
    if name == "canary" { canary(&order, place) } else { search(name, &order, place) }
}

fn trial(seed: u64, place: fn(&mut Rng) -> std::io::Result<Place>) -> Result<Counted, String> {
    let place =
        place(&mut Rng::with_seed(seed)).map_err(|error| format!("there is no such place: {error}"))?;
    Trial::new(place, seed).run()
}

#[expect(clippy::disallowed_methods, reason = "a search lasts for real time")]
fn search(name: &str, order: &Order, place: fn(&mut Rng) -> std::io::Result<Place>) -> ExitCode {
    let begun = Instant::now();
    let mut counted = Counted::default();
    let mut runs = 0;
    while order.runs.map_or_else(|| begun.elapsed() < order.time, |wanted| runs < wanted) {
        let seed = order.first.wrapping_add(runs);
        match trial(seed, place) {
            Ok(one) => counted.add(&one),
            Err(wrong) => {
                println!("{name} --first {seed} --runs 1 fails, after {runs} that do not:\n{wrong}");
                return ExitCode::FAILURE;
            }
        }
        runs += 1;
    }
    println!(
        "{name}: seeds {} and {} behind it, nothing found\n{counted}",
        order.first,
        runs.saturating_sub(1)
    );
    let missing = counted.missing();
    if missing.is_empty() || order.runs.is_some() {
        return ExitCode::SUCCESS;
    }
    println!("{name}: never seen, so that nothing is proved of it: {missing:?}");
    ExitCode::FAILURE
}

fn canary(order: &Order, place: fn(&mut Rng) -> std::io::Result<Place>) -> ExitCode {
    for runs in 0..CANARY_TRIALS_MAX {
        let seed = order.first.wrapping_add(runs);
        if let Err(wrong) = trial(seed, place) {
            let what = wrong.lines().find(|line| !line.starts_with("  life")).unwrap_or_default();
            println!("canary: an fsync that does nothing is seen at seed {seed}: {what}");
            return ExitCode::SUCCESS;
        }
    }
    println!("canary: an fsync that does nothing is not seen within {CANARY_TRIALS_MAX} trials");
    ExitCode::FAILURE
}

fn order(mut arguments: impl Iterator<Item = String>) -> Result<Order, String> {
    let mut order = Order { first: Rng::new().u64(..1 << 48), time: Duration::from_secs(60), runs: None };
    while let Some(argument) = arguments.next() {
        let number = arguments.next().and_then(|text| text.parse::<u64>().ok());
        let number = number.ok_or_else(|| format!("'{argument}' needs a number"))?;
        match argument.as_str() {
            "--first" => order.first = number,
            "--seconds" => order.time = Duration::from_secs(number),
            "--runs" => order.runs = Some(number),
            _ => return Err(format!("'{argument}' means nothing")),
        }
    }
    Ok(order)
}
