//! See `highwater_tests::hostile::batch`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| highwater_tests::hostile::batch(data));
