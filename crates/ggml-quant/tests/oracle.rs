//! Blocks as gguf 0.19 and ggml's C decode them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use std::fs;
use std::path::Path;

use ggml_quant::{DType, can_decode};

/// Blocks of each type, all of whose bits are random: of the scales in f16, one in 32 is not finite.
const BLOCKS: usize = 2_000;

/// Those that neither decodes: they are only what ggml's products need.
const NO_ORACLE: [DType; 1] = [DType::Q8_1];

/// The same numbers at each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn decoded_types() -> impl Iterator<Item = DType> {
    DType::ALL.iter().copied().filter(|&dtype| can_decode(dtype) && dtype.ggml_type().is_some())
}

#[test]
fn random_blocks_are_decoded_as_by_gguf_and_by_ggml() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(41);
    for dtype in decoded_types() {
        let nbytes = dtype.block().unwrap().nbytes as usize;
        let blocks: Vec<u8> = (0..BLOCKS * nbytes).map(|_| (random.next() >> 32) as u8).collect();
        fs::write(folder.path().join(format!("{dtype}.blocks")), blocks).unwrap();
    }
    run(folder.path());
    for dtype in decoded_types() {
        let blocks = fs::read(folder.path().join(format!("{dtype}.blocks"))).unwrap();
        let mut values = vec![0.0; BLOCKS * dtype.block().unwrap().elements as usize];
        ggml_quant::decode(dtype, &blocks, &mut values).unwrap();
        let mut compared = 0;
        for by in ["gguf", "c"] {
            let Ok(expected) = fs::read(folder.path().join(format!("{dtype}.decoded.{by}"))) else {
                continue;
            };
            compared += 1;
            let (expected, rest) = expected.as_chunks::<4>();
            assert_eq!((expected.len(), rest.len()), (values.len(), 0), "{dtype} by {by}");
            for (element, (&ours, &theirs)) in values.iter().zip(expected).enumerate() {
                let theirs = f32::from_le_bytes(theirs);
                let same = ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan());
                assert!(same, "{dtype}, element {element}: {ours}, {by} has {theirs}");
            }
        }
        assert_eq!(compared == 0, NO_ORACLE.contains(&dtype), "{dtype}");
    }
}

fn run(folder: &Path) {
    let library = testkit::ggml_library();
    let arguments = [folder.to_str().unwrap(), library.to_str().unwrap()];
    let _ = testkit::python(include_str!("oracle/blocks.py"), &arguments);
}
