#![no_main]

use modelfmt_fuzz::{Depth, targets};

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::hub_folder(input, Depth::of(input)));
