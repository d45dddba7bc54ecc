//! See `highwater_tests::hostile::small`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| highwater_tests::hostile::small(data));
