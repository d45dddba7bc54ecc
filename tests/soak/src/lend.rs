//! A medium for somebody else's processes: mounted, and its power lost by order.
//!
//! Prints the path of the mount, then what was lost at each loss, a line each. Orders are lines of the standard input; at its end the
//! medium is taken down, and what is on it is gone.

use std::io::BufRead;
use std::process::ExitCode;

use fastrand::Rng;

use crate::medium::{Medium, Sync};

/// The only order.
const LOSE_POWER: &str = "lose power";

pub(crate) fn run(seed: Option<String>) -> ExitCode {
    let Some(seed) = seed.and_then(|text| text.parse().ok()) else {
        eprintln!(
            "highwater-soak medium SEED; then, on the standard input, '{LOSE_POWER}' whenever it is to"
        );
        return ExitCode::from(2);
    };
    match lend(&mut Rng::with_seed(seed)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the medium: {error}");
            ExitCode::FAILURE
        }
    }
}

fn lend(rng: &mut Rng) -> std::io::Result<()> {
    let mut medium = Medium::new(rng, Sync::Honest)?;
    println!("{}", medium.root().display());
    for order in std::io::stdin().lock().lines() {
        let order = order?;
        if order != LOSE_POWER {
            return Err(std::io::Error::other(format!("there is no order '{order}'")));
        }
        medium.lose_power(rng)?;
        let lost: Vec<_> = medium.counted().0.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        println!("{}", lost.join(", "));
    }
    Ok(())
}
