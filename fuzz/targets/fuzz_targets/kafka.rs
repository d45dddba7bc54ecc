//! See `highwater_tests::hostile::kafka`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| highwater_tests::hostile::kafka(data));
