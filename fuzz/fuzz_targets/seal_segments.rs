#![no_main]

use modelfmt_fuzz::{Depth, targets};

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::seal_segments(input, Depth::of(input)));
