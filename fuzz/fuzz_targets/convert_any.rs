#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| modelfmt_fuzz::run("convert_any", input));
