#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| listwatch_fuzz::gateway(data));
