#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| millrace_fuzz::run("placement", input));
