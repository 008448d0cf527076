//! Models that are computed from other models, before a byte of them is written.
//!
//! A hub folder becomes what llama.cpp loads, a GGUF becomes a hub folder again, and an adapter is added to
//! its base or becomes a GGUF itself. Each result is a [`Model`](modelfmt_model::Model) whose tensors are
//! programs over the tensors of the source model. Their values are computed piece by piece when they are
//! read.
//!
//! | from | to | in |
//! | --- | --- | --- |
//! | a hub folder | the tensors and metadata of a GGUF | `gguf_of_hub`, `tokenizer` |
//! | a PEFT adapter | an adapter of llama.cpp | `gguf_of_adapter` |
//! | a GGUF | the weights and files of a hub folder | `hub_of_gguf`; data that the GGUF carries for that: `extra_keys` |
//! | a hub folder | the same with weights of another type or with adapters merged | `hub_of_hub` |
//! | a base and adapters | the base with the adapters merged | `lora` |
//!
//! ```
//! use std::borrow::Cow;
//!
//! use modelfmt_model::{Format, Model};
//! use modelfmt_rules::options::ConvertOptions;
//!
//! let model = Model::open("../../testdata/reference/one-shard.aero")?; // or the path of a folder of the hub
//! let options = ConvertOptions::default();
//! let takes = modelfmt_derived::takes(&model, Format::Gguf, &options); // of a folder, which tensors its map takes
//! let gguf = modelfmt_derived::derived(Cow::Borrowed(&model), Format::Gguf, takes.is_some(), &options)?;
//! assert!(takes.is_none() && !gguf.is_mapped);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Without the feature `gguf` there are no maps. On `wasm32`, which has no files, there are no adapters
//! either, and a model stays unchanged.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
mod block_scales;
mod derived;
#[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
mod extra_keys;
#[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
mod gguf_of_adapter;
#[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
mod gguf_of_hub;
#[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
mod hub_of_gguf;
#[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
mod hub_of_hub;
#[cfg(not(target_arch = "wasm32"))]
mod lora;
mod mapping;
#[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
mod maps;
#[cfg(all(any(feature = "apr", feature = "gguf"), not(target_arch = "wasm32")))]
mod tokenizer;

pub use derived::{Derived, derived, restored, takes};
#[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
pub use gguf_of_hub::{as_gguf, mapped};
pub use mapping::{NONE, Restored, Takes, is_gguf};
#[cfg(all(feature = "apr", not(target_arch = "wasm32")))]
pub use tokenizer::apr::keys as apr_tokenizer;

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
