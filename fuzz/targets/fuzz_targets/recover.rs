//! The bytes choose what is done with a log and when it crashes.

#![no_main]

use highwater_tests::recover::{Choices, Setting, run};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(violation) = run(&mut Choices::bytes(data), Setting::default()) {
        panic!("{violation}");
    }
});
