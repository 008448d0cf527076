//! What the fuzz targets do. `fuzz_targets/NAME.rs` hands its bytes to the function of that name in [`TARGETS`];
//! `crates/modelfmt/tests/robustness/corpus.rs` does the same with the kept inputs of `corpus/NAME/`.

mod convert;
mod drill;
mod model;
mod mutate;
mod readers;
mod roundtrips;
mod samples;
mod sets;
mod writers;

pub use drill::{drill, limits};
pub use readers::open_bound;
pub use samples::{Sample, sample_of, samples};

/// What a target does with any bytes. A finding is a panic.
pub type Target = fn(&[u8]);

/// Every target by its name.
pub const TARGETS: &[(&str, Target)] = &[
    ("aero_parse", readers::aero),
    ("apr2_parse", readers::apr2),
    ("gguf_parse", readers::gguf),
    ("mag_parse", readers::mag),
    ("model_parse", readers::model),
    ("oinf_parse", readers::oinf),
    ("safetensors_parse", readers::safetensors),
    ("aeroset_index", sets::aeroset_index),
    ("apr2_manifest", sets::apr2_manifest),
    ("safetensors_index", sets::safetensors_index),
    ("aero_mutate", mutate::aero),
    ("apr2_mutate", mutate::apr2),
    ("gguf_mutate", mutate::gguf),
    ("mag_mutate", mutate::mag),
    ("oinf_mutate", mutate::oinf),
    ("safetensors_mutate", mutate::safetensors),
    ("aero_roundtrip", roundtrips::aero),
    ("apr2_roundtrip", roundtrips::apr2),
    ("convert_any", convert::any),
    ("convert_roundtrip", convert::there_and_back),
    ("mag_roundtrip", roundtrips::mag),
    ("oinf_roundtrip", roundtrips::oinf),
    ("safetensors_roundtrip", roundtrips::safetensors),
];

/// Runs a target on its input.
///
/// # Panics
/// If there is no such target, and for every finding.
pub fn run(target: &str, input: &[u8]) {
    let found = TARGETS.iter().find(|(name, _)| *name == target);
    let (_, run) = found.unwrap_or_else(|| panic!("no fuzz target is named {target}"));
    run(input);
}
