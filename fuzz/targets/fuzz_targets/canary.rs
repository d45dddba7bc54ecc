//! As `recover`, on an engine whose truncations leave the epochs of what they cut: whoever fuzzes has to find it.

#![no_main]

use highwater_engine::{Rule, Rules};
use highwater_tests::recover::{Choices, Setting, run};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let rules = Rules::default().without(Rule::EpochsFollowTruncation);
    if let Err(violation) = run(&mut Choices::bytes(data), Setting { rules, ..Setting::default() }) {
        panic!("{violation}");
    }
});
