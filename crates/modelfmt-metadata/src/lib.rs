//! The metadata of a model in terms that all formats share, and its mapping to the metadata of another format.
//!
//! ```
//! use modelfmt_metadata::flattened::flat_metadata;
//! use modelfmt_model::Model;
//!
//! let model = Model::open("../../testdata/reference/one-shard.aero")?;
//! let keys = flat_metadata(&model)?; // one flat list, whatever the format
//! assert!(keys.len() > 2);
//! # Ok::<(), modelfmt_model::Error>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod card;
#[cfg(not(target_arch = "wasm32"))]
pub mod config;
pub mod file_type;
pub mod flattened;
mod long_values;
pub mod mapper;
pub mod names;
mod non_finite;
mod plain;
pub mod quants;
mod required;
pub mod reserved;
pub mod schemes;
mod several;
pub mod source;
mod typed_lists;

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
