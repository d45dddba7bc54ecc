//! See `highwater_tests::hostile::directory`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| highwater_tests::hostile::directory(data));
