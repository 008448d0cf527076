#![no_main]

use modelfmt_fuzz::{Depth, targets};

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::tokenizer_files(input, Depth::of(input)));
