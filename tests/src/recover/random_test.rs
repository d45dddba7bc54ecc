//! Seeds, and the rules of the engine switched off one by one.

use std::fmt::Write;

use highwater_engine::disk::simulated::SimulatedCounters;
use highwater_engine::{Rule, Rules};

use super::{Breadths, Setting, run_seed, run_seed_caught, take_calls};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn sum(total: &mut SimulatedCounters, one: &SimulatedCounters) {
    total.power_losses += one.power_losses;
    total.kills += one.kills;
    total.holes += one.holes;
    total.sizes_before_data += one.sizes_before_data;
    total.stale_pages += one.stale_pages;
    total.torn_pages += one.torn_pages;
    total.reorderings += one.reorderings;
    total.lost_sizes += one.lost_sizes;
    total.undone_cuts += one.undone_cuts;
    total.lost_names += one.lost_names;
    total.resurrected_names += one.resurrected_names;
    total.dropped_operations += one.dropped_operations;
    total.interrupted_writes += one.interrupted_writes;
    total.short_writes += one.short_writes;
    total.io_errors += one.io_errors;
    total.out_of_space += one.out_of_space;
    total.failed_syncs += one.failed_syncs;
    total.cold_reads += one.cold_reads;
    total.overtakings += one.overtakings;
}

/// Seeds of longer searches that found something, when trials had one log.
const FOUND: [u64; 10] = [
    24_463,
    34_744,
    18_735,
    44_160,
    34_055,
    50_400,
    10_570,
    26_656_802_977_151,
    237_401_828_264_847,
    182_444_009_086_247,
];

/// `HIGHWATER_SEED` replays one, `HIGHWATER_SEEDS` says how many.
#[test]
fn a_log_survives_crashes() {
    if let Some(seed) = number("HIGHWATER_SEED") {
        if let Err(violation) = run_seed(seed, Setting::default()) {
            panic!("HIGHWATER_SEED={seed}\n{violation}");
        }
        return;
    }
    let seeds = number("HIGHWATER_SEEDS").unwrap_or(1_000);
    let mut total = SimulatedCounters::default();
    drop(take_calls());
    let of_one_log = Setting { breadth: Breadths::OneLog, ..Setting::default() };
    let found = FOUND.into_iter().map(|seed| (seed, of_one_log.clone()));
    for (seed, setting) in found.chain((0..seeds).map(|seed| (seed, Setting::default()))) {
        let breadth = setting.breadth;
        match run_seed_caught(seed, setting) {
            Ok(counters) => sum(&mut total, &counters),
            Err(violation) => panic!("HIGHWATER_SEED={seed} ({breadth:?})\n{violation}"),
        }
    }
    let calls = take_calls();
    println!("{calls}");
    // Every kind of loss occurred: a kind that never does would be proved by nothing.
    let text = format!("{total:?}");
    println!("{seeds} seeds: {text}");
    if seeds >= 1_000 {
        assert!(!text.contains(": 0,") && !text.ends_with(": 0 }"), "{text}");
        assert!(calls.unused().is_empty(), "nobody has called {:?}", calls.unused());
    }
}

/// Each rule that is switched off is seen by the model.
#[test]
fn the_model_sees_every_planted_fault() {
    const SEEDS_MAX: u64 = 1_000;
    let rules = [
        Rule::NobodySeesAboveWritten,
        Rule::SyncOnlyAfterItsWrites,
        Rule::RecoveryPointBelowUnsynced,
        Rule::WriteAgainBeforeSync,
        Rule::EpochsFollowTruncation,
        Rule::ProducersFollowTruncation,
    ];
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut table = String::new();
    let mut unseen = Vec::new();
    for rule in rules {
        let setting = Setting { rules: Rules::default().without(rule), ..Setting::default() };
        let seen =
            (0..SEEDS_MAX).find_map(|seed| Some((seed, run_seed_caught(seed, setting.clone()).err()?)));
        match seen {
            Some((number, violation)) => {
                let what = violation.what.lines().next().unwrap_or_default().to_owned();
                writeln!(table, "{rule:?} | seen at seed {number} | {what}").expect("a string takes all");
            }
            None => unseen.push(rule),
        }
    }
    std::panic::set_hook(hook);
    println!("{table}");
    assert!(unseen.is_empty(), "not seen within {SEEDS_MAX} seeds: {unseen:?}\n{table}");
}
