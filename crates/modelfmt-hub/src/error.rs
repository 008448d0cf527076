//! Why a folder cannot be mapped.

use tensor_core::DType;
use tensor_program::ProgramError;

/// Why a hub folder cannot become a GGUF, or a GGUF a hub folder.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// `config.json` is not what it should be.
    #[error("config.json: {0}")]
    Config(String),
    /// `config.json` lacks a value that the map needs.
    #[error("config.json has no `{path}`")]
    Missing {
        /// Where it should be.
        path: String,
    },
    /// A value of `config.json` has another type, or does not fit.
    #[error("config.json: `{path}` is {found}, not {wants}")]
    Wrong {
        /// Where it is.
        path: String,
        /// The kind of the value.
        found: &'static str,
        /// What the map needs.
        wants: &'static str,
    },
    /// A value of `config.json` has no counterpart in llama.cpp.
    #[error("config.json: `{path}` is {found}, and {why}")]
    Unsupported {
        /// Where it is.
        path: String,
        /// The value.
        found: String,
        /// Why it cannot be mapped.
        why: String,
    },
    /// No map is known for the family.
    #[error("there is no map for the family {family:?}; these have one: {known}")]
    UnknownFamily {
        /// `model_type` of `config.json`.
        family: String,
        /// The families with a map.
        known: String,
    },
    /// A tensor that the map does not know.
    #[error("tensor {name:?}: the map {map} does not know it")]
    UnknownTensor {
        /// The name of the tensor.
        name: String,
        /// The name of the map.
        map: String,
    },
    /// A tensor that the map needs does not exist.
    #[error("tensor {name:?} is not there, and {output:?} is made of it")]
    MissingTensor {
        /// The name of the tensor.
        name: String,
        /// The name in the output.
        output: String,
    },
    /// Two tensors would become the same one.
    #[error("tensors {first:?} and {second:?} are both {output:?}")]
    Twice {
        /// The name of one of them.
        first: String,
        /// The name of the other.
        second: String,
        /// The name in the output.
        output: String,
    },
    /// An adapter for a tensor has no counterpart in llama.cpp.
    #[error("tensor {name:?}: its adapter has no counterpart: {why}")]
    NoAdapter {
        /// The name of the tensor.
        name: String,
        /// Why.
        why: String,
    },
    /// A tensor belongs to a layer or an expert that the config does not count.
    #[error("tensor {name:?}: config.json says that `{key}` is {count}")]
    BeyondCount {
        /// The name of the tensor.
        name: String,
        /// The key with the count.
        key: String,
        /// The count.
        count: u64,
    },
    /// A tensor does not have the shape that follows from `config.json`.
    #[error("tensor {name:?} has the shape {found:?}; by config.json it is {wants}")]
    WrongShape {
        /// The name of the tensor.
        name: String,
        /// Its shape.
        found: Vec<u64>,
        /// The shape that it should have; `?` stands for any size.
        wants: String,
    },
    /// A tensor has values that llama.cpp does not compute with.
    #[error("tensor {name:?} is {dtype}, and llama.cpp takes floating-point numbers there")]
    WrongType {
        /// The name of the tensor.
        name: String,
        /// Its dtype.
        dtype: DType,
    },
    /// A step of the map does not fit a tensor.
    #[error("tensor {name:?}: {error}")]
    Step {
        /// The name of the tensor.
        name: String,
        /// Why it does not fit.
        error: ProgramError,
    },
    /// A tensor of a GGUF comes from no tensor of a folder.
    #[error("tensor {name:?}: {why}")]
    Unfit {
        /// The name of the tensor.
        name: String,
        /// Why not.
        why: String,
    },
    /// A metadata key of a GGUF that is not what it should be.
    #[error("metadata key {key:?}: {why}")]
    Key {
        /// The key.
        key: String,
        /// What is wrong.
        why: String,
    },
    /// A file of a tokenizer is not what it should be, or has no counterpart in llama.cpp.
    #[error("{file}: {why}")]
    Tokenizer {
        /// The name of the file.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// A way to cut texts for which no name in llama.cpp is known here.
    #[error("{what} has no name in llama.cpp that is known here")]
    UnknownPreTokenizer {
        /// What it is.
        what: String,
    },
    /// A map that breaks the rules of maps.
    #[error("the map {map}: {why}")]
    BadMap {
        /// The name of the map.
        map: String,
        /// What is wrong.
        why: String,
    },
}

tensor_core::debug_as_sentence!(MapError);
