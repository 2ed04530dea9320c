#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| symlease_fuzz::json::check(data));
