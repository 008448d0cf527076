//! Converts model folders of the hub (Hugging Face) to GGUF, with what llama.cpp needs to run them.
//!
//! A [`Map`] is a file that a person can read (`maps/*.toml`). It says which tensor becomes which, by which
//! steps, and which key of `config.json` becomes which key of the metadata. [`Map::apply`] takes a config and
//! the tensors of a folder, and returns programs ([`tensor_program::Program`]) and metadata.
//! [`Tokenizer::read`] makes metadata from the files of a tokenizer. This crate reads and writes no files.
//!
//! [`back`] goes the other way: from the metadata and the tensors of a GGUF to `config.json`, tokenizer files and programs that undo
//! those of the map.
//!
//! ```
//! use modelfmt_hub::{Config, HubTensor, Map};
//! use tensor_core::DType;
//!
//! let config = Config::parse(br#"{"model_type": "gemma", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 0,
//!     "intermediate_size": 16, "max_position_embeddings": 32, "vocab_size": 4}"#)?;
//! let map = Map::of_family(config.model_type().unwrap_or_default())?;
//! let tensors = [
//!     HubTensor { name: "model.embed_tokens.weight", dtype: DType::BF16, shape: &[4, 8] },
//!     HubTensor { name: "model.norm.weight", dtype: DType::BF16, shape: &[8] },
//! ];
//! let mapped = map.apply(&config, &tensors)?;
//! let steps: Vec<_> = mapped.tensors.iter().map(|made| format!("{}: {}", made.name, made.program)).collect();
//! assert_eq!(steps, ["token_embd.weight: ", "output_norm.weight: cast f32, add 1"]);
//! # Ok::<(), modelfmt_hub::MapError>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod back;
mod config;
mod error;
mod key;
pub mod maps;
mod number;
mod pooling;
pub mod tokenizer;

pub use config::Config;
pub use error::MapError;
pub use key::Key;
pub use maps::Map;
pub use maps::apply::{HubTensor, MadeTensor, Mapped};
pub use pooling::{POOLING, pooling};
pub use tokenizer::pre::PRE_TOKENIZERS;
pub use tokenizer::{Files as TokenizerFiles, Options as TokenizerOptions, Tokenizer, Vocabulary};

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
