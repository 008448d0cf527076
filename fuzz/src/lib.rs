//! The code of the fuzz targets. `fuzz_targets/NAME.rs` passes its bytes to the function with that name in
//! [`targets`]; `crates/modelfmt/tests/it/robustness/corpus.rs` does the same with the kept inputs of
//! `corpus/NAME/`.

mod checked;
mod convert;
mod differ;
mod drill;
mod drivers;
mod edits;
mod ggufs;
mod hub;
mod ledger;
mod model;
mod mutate;
mod outboards;
mod plan;
mod quant;
mod readers;
mod roundtrips;
mod samples;
mod seals;
mod sets;
mod tokenizers;
mod values;
mod writers;

pub use drill::{Depth, Seen, drill, limits};
pub use readers::open_bound;
pub use samples::{Sample, sample_of, samples};

/// A target, which takes any bytes. A finding is a panic.
pub type Target = fn(&[u8], Depth);

/// The targets. Each program names only the one that it runs, so that it contains and instruments no other
/// code.
pub mod targets {
    pub use super::checked::checked as convert_checked;
    pub use super::convert::{any as convert_any, there_and_back as convert_roundtrip};
    pub use super::differ::any as diff_any;
    pub use super::drivers::any as drivers_any;
    pub use super::edits::any as edit_any;
    pub use super::hub::folder as hub_folder;
    pub use super::ledger::any as ledger;
    pub use super::mutate::{
        aero as aero_mutate, apr as apr_mutate, apr2 as apr2_mutate, gguf as gguf_mutate, mag as mag_mutate,
        oinf as oinf_mutate, safetensors as safetensors_mutate,
    };
    pub use super::outboards::any as outboard;
    pub use super::plan::any as plan;
    pub use super::quant::{decode as quant_decode, encode as quant_encode};
    pub use super::readers::{
        aero as aero_parse, apr as apr_parse, apr2 as apr2_parse, gguf as gguf_parse, mag as mag_parse,
        model as model_parse, npy as npy_parse, oinf as oinf_parse, pickle as pytorch_pickle,
        pytorch as pytorch_parse, safetensors as safetensors_parse,
    };
    pub use super::roundtrips::{
        aero as aero_roundtrip, apr as apr_roundtrip, apr2 as apr2_roundtrip, gguf as gguf_roundtrip,
        mag as mag_roundtrip, oinf as oinf_roundtrip, safetensors as safetensors_roundtrip,
    };
    pub use super::seals::{section as seal_section, segments as seal_segments, slots as seal_slots};
    pub use super::sets::{aeroset_index, apr2_manifest, gguf_split, safetensors_index};
    pub use super::tokenizers::any as tokenizer_files;
    pub use super::values::{list as value_list, text as user_text};
}

/// Every target by its name.
pub const TARGETS: &[(&str, Target)] = &[
    ("aero_mutate", targets::aero_mutate),
    ("aero_parse", targets::aero_parse),
    ("aero_roundtrip", targets::aero_roundtrip),
    ("aeroset_index", targets::aeroset_index),
    ("apr_mutate", targets::apr_mutate),
    ("apr_parse", targets::apr_parse),
    ("apr_roundtrip", targets::apr_roundtrip),
    ("apr2_manifest", targets::apr2_manifest),
    ("apr2_mutate", targets::apr2_mutate),
    ("apr2_parse", targets::apr2_parse),
    ("apr2_roundtrip", targets::apr2_roundtrip),
    ("convert_any", targets::convert_any),
    ("convert_checked", targets::convert_checked),
    ("convert_roundtrip", targets::convert_roundtrip),
    ("diff_any", targets::diff_any),
    ("drivers_any", targets::drivers_any),
    ("edit_any", targets::edit_any),
    ("gguf_mutate", targets::gguf_mutate),
    ("gguf_parse", targets::gguf_parse),
    ("gguf_roundtrip", targets::gguf_roundtrip),
    ("gguf_split", targets::gguf_split),
    ("hub_folder", targets::hub_folder),
    ("ledger", targets::ledger),
    ("mag_mutate", targets::mag_mutate),
    ("mag_parse", targets::mag_parse),
    ("mag_roundtrip", targets::mag_roundtrip),
    ("model_parse", targets::model_parse),
    ("npy_parse", targets::npy_parse),
    ("oinf_mutate", targets::oinf_mutate),
    ("oinf_parse", targets::oinf_parse),
    ("oinf_roundtrip", targets::oinf_roundtrip),
    ("outboard", targets::outboard),
    ("plan", targets::plan),
    ("pytorch_parse", targets::pytorch_parse),
    ("pytorch_pickle", targets::pytorch_pickle),
    ("quant_decode", targets::quant_decode),
    ("quant_encode", targets::quant_encode),
    ("safetensors_index", targets::safetensors_index),
    ("safetensors_mutate", targets::safetensors_mutate),
    ("safetensors_parse", targets::safetensors_parse),
    ("safetensors_roundtrip", targets::safetensors_roundtrip),
    ("seal_section", targets::seal_section),
    ("seal_segments", targets::seal_segments),
    ("seal_slots", targets::seal_slots),
    ("tokenizer_files", targets::tokenizer_files),
    ("user_text", targets::user_text),
    ("value_list", targets::value_list),
];

/// Runs a target on an input, with the whole drill.
///
/// # Panics
/// If there is no such target, and for every finding.
pub fn run(target: &str, input: &[u8]) {
    let found = TARGETS.iter().find(|(name, _)| *name == target);
    let (_, run) = found.unwrap_or_else(|| panic!("no fuzz target is named {target}"));
    run(input, Depth::Whole);
}
