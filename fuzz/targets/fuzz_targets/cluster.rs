//! The first bytes are the seed of a world of three brokers and a controller, the rest choose what strikes whom.

#![no_main]

use highwater_tests::world::{RandomOptions, random};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((seed, strikes)) = data.split_first_chunk() else { return };
    let options = RandomOptions { strikes: strikes.to_vec(), ..RandomOptions::default() };
    let outcome = random(u64::from_le_bytes(*seed), &options);
    if let Some(violation) = outcome.violation {
        panic!("{violation}\n{}", outcome.report);
    }
});
