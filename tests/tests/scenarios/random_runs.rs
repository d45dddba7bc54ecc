//! Random runs: a few dozen seeds, or as many as `HIGHWATER_SEEDS` says, from `HIGHWATER_FIRST_SEED` on.

use std::collections::BTreeMap;

use highwater_tests::world::{RandomOptions, random};

/// What must have happened, or the runs prove little.
const RARE: &[&str] = &[
    "clean stops",
    "crashes in a job",
    "crashes of the controller",
    "crashes while opening",
    "cuts",
    "elections of the best of all",
    "exchanged disks",
    "failed directories",
    "failed logs",
    "frames lost",
    "holes on disk",
    "interrupted writes",
    "joins to the ISR",
    "jumps of a clock",
    "kills in a call of the disk",
    "kills",
    "links cut",
    "links held",
    "logs opened again",
    "lost names",
    "openings with a hole",
    "overtaking completions",
    "pauses",
    "planned errors of a disk",
    "possible losses",
    "power losses in a call of the disk",
    "power losses",
    "removals from the ISR",
    "reassignments begun",
    "reassignments ended",
    "reordered pages",
    "slow disks",
    "stuck disks",
    "suspicions",
    "torn pages",
];

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn run(options: &RandomOptions, seeds: std::ops::Range<u64>) -> BTreeMap<&'static str, u64> {
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in seeds {
        let outcome = random(seed, options);
        assert!(outcome.violation.is_none(), "seed {seed}: {}", outcome.report);
        for (what, count) in outcome.counts {
            *counts.entry(what).or_default() += count;
        }
    }
    counts
}

#[test]
fn whatever_goes_wrong_nothing_is_violated_and_all_come_to_rest() {
    let first = number("HIGHWATER_FIRST_SEED", 1);
    let counts = run(&RandomOptions::default(), first..first + number("HIGHWATER_SEEDS", 24));
    for (what, count) in &counts {
        println!("{count:>9}  {what}");
    }
    for rare in RARE {
        assert!(counts.contains_key(rare), "no run came to this: {rare}");
    }
}

#[test]
fn seed_436_a_stop_without_a_session_washes_off_no_suspicion() {
    let outcome = random(436, &RandomOptions::default());
    assert!(outcome.violation.is_none(), "{}", outcome.report);
}
