//! Proves that a model was made from another model: derives it again, and compares every byte.
//!
//! ```
//! use modelfmt::prove::{ProveOptions, TensorResult, prove};
//! use modelfmt::{Conversion, DType, Execution, Model};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("small.gguf");
//! let base = Model::open("../../testdata/reference/one-shard.aero")?;
//! Conversion::new(&base, &path).cast(DType::F16).widen().lossy().rule("cast {double,int.*}=f32".parse()?).write()?;
//!
//! let proof = prove(&base, &Model::open(&path)?, &ProveOptions::default(), &Execution::default())?;
//! assert!(proof.tensors.iter().all(|tensor| tensor.result == TensorResult::Exact));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is proved
//!
//! Each tensor of DERIVED has one origin. If BASE has a tensor with the same name, or the family's map gives
//! one, then the tensor is derived from that one only. A tensor with another name is found by its digest: the
//! values that each tensor of BASE gives in its dtype and shape are hashed. Equal shapes or similar numbers
//! prove nothing: only equal bytes are `exact`.
//!
//! The step follows from the dtypes: a cast, [`quantize`](crate::convert#rules-of-types) or `dequantize`. Two
//! steps are tried where this is common: floats are often cast to f16 or bf16 before they are quantized. If
//! these steps give other blocks, the arithmetic of llama.cpp builds with fused operations is tried as well
//! ([`ProvedTensor::variant`]). A weight that is stored as several tensors (GPTQ, small floats with scales)
//! is decoded as in a conversion.
//!
//! The files next to the weights of a hub folder are compared as a whole. Bytes of DERIVED that belong to no
//! tensor are reported as keys that were added.
//!
//! Memory does not depend on the size of the tensors. Each tensor is derived once, and once more for each
//! further way that is tried.

mod base;
mod compare;
mod files;
mod json;
mod metadata;
mod renamed;
mod steps;
mod tensors;
mod ties;
mod unclaimed;

use std::path::PathBuf;

use modelfmt_core::Execution;
use modelfmt_rules::globs::Globs;
use modelfmt_rules::options::LoraRule;

use base::Base;
#[cfg(not(target_arch = "wasm32"))]
pub use files::files_of_hub;
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;
use tensors::{Results, Tensors};

/// The options of a proof.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ProveOptions {
    /// The map between the names of BASE and of DERIVED. See
    /// [`TensorOptions::map`](crate::convert::TensorOptions::map).
    pub map: Option<String>,
    /// The name of the pre-tokenizer. See [`MetadataOptions::pre`](crate::convert::MetadataOptions::pre).
    pub pre: Option<String>,
    /// The adapters that are merged into BASE first. See
    /// [`TensorOptions::lora`](crate::convert::TensorOptions::lora).
    pub lora: Vec<LoraRule>,
    /// The importance matrix with which DERIVED was quantized. See
    /// [`TypeOptions::imatrix`](crate::convert::TypeOptions::imatrix).
    pub imatrix: Option<PathBuf>,
    /// Requires that DERIVED contains everything of BASE. By default DERIVED may be made from only a part of
    /// BASE.
    pub require_all: bool,
    /// Metadata keys and tensors that BASE does not have and that are allowed in DERIVED.
    pub allow_added: Globs,
    /// Metadata keys whose values may differ from those of BASE.
    pub allow_changed: Globs,
}

/// The result of a proof: the object that `modelfmt prove --json` prints.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Proof {
    /// Whether DERIVED was made from BASE and from nothing else.
    pub is_ok: bool,
    /// The tensors of DERIVED in their order, followed by tensors of BASE that DERIVED does not have.
    pub tensors: Vec<ProvedTensor>,
    /// The metadata keys of DERIVED in their order, followed by keys of BASE that DERIVED does not have.
    pub metadata: Vec<ProvedKey>,
    /// Notes for people to read, such as which map was used.
    pub notes: Vec<String>,
}

/// Where a tensor comes from.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProvedTensor {
    /// The name in DERIVED; for a missing tensor, the name in BASE.
    pub name: String,
    /// The names of the tensors of BASE that it is derived from, each once.
    pub from: Vec<String>,
    /// The steps in their order, such as `map`, `rename`, `tie`, `permute`, `cast:f16`, `imatrix:FILE`,
    /// `quantize:q4_k`, `dequantize:f32`; empty for a copy.
    pub steps: Vec<String>,
    /// What the comparison found.
    pub result: TensorResult,
    /// The number of blocks of the tensor: of elements for types without blocks, and of bytes if neither is
    /// known.
    pub blocks: u64,
    /// Whether the dtype has blocks, so that blocks are counted and not elements.
    pub has_blocks: bool,
    /// The number of blocks that differ: all of them if there is nothing to compare with.
    pub different: u64,
    /// The largest difference between two numbers; infinite between a number and a NaN or an infinity. `None` if nothing differs,
    /// there is nothing to compare with, or the values are not numbers.
    pub max_abs: Option<f64>,
    /// How the arithmetic of the program that made DERIVED differs from ours, if it does: `contracted` if its
    /// compiler fused products and sums ([`encode_contracted`](ggml_quant::encode_contracted)).
    pub variant: Option<&'static str>,
}

/// What the comparison of a tensor found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorResult {
    /// Every byte matches the result of the steps.
    Exact,
    /// The steps give other bytes.
    Differs,
    /// Nothing in BASE gives a tensor of this name, dtype and shape.
    Foreign,
    /// BASE has the tensor, but DERIVED does not.
    Missing,
}

impl TensorResult {
    /// Returns the word for JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Differs => "differs",
            Self::Foreign => "foreign",
            Self::Missing => "missing",
        }
    }
}

/// Where a metadata key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProvedKey {
    /// The key. For a part that is not a key, its kind and name: a chunk of AERO, a file next to a folder's
    /// weights, or bytes that belong to nothing.
    pub key: String,
    /// What the comparison found.
    pub result: KeyResult,
}

/// What the comparison of a metadata key found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyResult {
    /// BASE has the key with this value.
    Same,
    /// The conversion, or the map, makes this value from the metadata of BASE.
    Mapped,
    /// BASE does not have the key.
    Added,
    /// BASE has another value.
    Changed,
    /// DERIVED does not have the key.
    Missing,
}

impl KeyResult {
    /// Returns the word for JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Mapped => "mapped",
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Missing => "missing",
        }
    }
}

/// Derives the tensors of `derived` from `base` again and compares them. Also compares the metadata.
///
/// # Errors
/// If a model cannot be read, values of `base` do not match the digests in its file, the map does not fit, or the progress callback
/// stops the work.
pub fn prove(base: &Model, derived: &Model, options: &ProveOptions, work: &Execution<'_>) -> Result<Proof> {
    base.expect_tensors()?;
    derived.expect_tensors()?;
    derived.open_all()?;
    let base = Base::new(base, derived, options)?;
    let mut tensors = Tensors::new(&base, derived)?;
    tensors.compare(work)?;
    tensors.find_others(work)?;
    let Results { tensors, is_ok, source } = tensors.results(options);
    let models = (base.model, base.source(source));
    let (metadata, are_keys_ok) = metadata::prove(models, &base.files, derived, options, work)?;
    Ok(Proof { is_ok: is_ok && are_keys_ok, tensors, metadata, notes: base.notes })
}
