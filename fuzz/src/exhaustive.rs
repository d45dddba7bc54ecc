//! Every state of a small cluster, within some bounds or within those that a run without flags goes through.

use std::process::ExitCode;
use std::time::Instant;

use highwater_replication::Rules;
use highwater_replication::partition::Durability;
use highwater_tests::exhaustive::{Bounds, search};

pub(crate) const USAGE: &str = "highwater-fuzz exhaustive [--replicas N] [--records N] [--kills N] [--power-cuts N] [--fences N]
               [--losses N] [--lags N] [--min-isr N] [--fsync]
  every state of a cluster of the real machines, within these bounds; without flags, within several small ones";

#[expect(
    clippy::disallowed_methods,
    reason = "the time that a search took is told; nothing is decided by it"
)]
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let Some(asked) = read(arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let searches = if arguments.is_empty() { Bounds::small() } else { vec![asked] };
    for bounds in searches {
        let began = Instant::now();
        let found = search(bounds, Rules::default());
        println!("{bounds}: {} states, {} events deep, {:.1?}", found.states, found.depth, began.elapsed());
        for (what, count) in &found.seen {
            println!("  {what:?} {count}");
        }
        if let Some((invariant, way)) = found.breach {
            println!("{invariant}: it does not hold after\n  {}", way.join("\n  "));
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn read(arguments: &[String]) -> Option<Bounds> {
    let mut bounds = Bounds { records: 1, ..Bounds::of(2) };
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        if flag == "--fsync" {
            bounds.durability = Durability::Fsync;
            continue;
        }
        let number = rest.next()?.parse::<u8>().ok()?;
        match flag.as_str() {
            "--replicas" if number > 0 => bounds.replicas = number.into(),
            "--min-isr" if number > 0 => bounds.min_isr = number.into(),
            "--records" => bounds.records = number,
            "--kills" => bounds.kills = number,
            "--power-cuts" => bounds.power_cuts = number,
            "--fences" => bounds.fences = number,
            "--losses" => bounds.losses = number,
            "--lags" => bounds.lags = number,
            _ => return None,
        }
    }
    Some(bounds)
}
