//! One API for all formats: [`Model`] is an open file of any of them.
//!
//! ```
//! use modelfmt_model::{Format, Model};
//!
//! let model = Model::open("../../testdata/reference/one-shard.aero")?; // reads the index, no values
//! assert_eq!(model.format(), Format::Aero);
//! let w = model.tensor("embed.weight")?; // reads one range
//! assert_eq!(w.shape(), [16, 8]);
//! # Ok::<(), modelfmt_model::Error>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

mod async_model;
pub mod checked;
mod damage;
#[cfg(not(target_arch = "wasm32"))]
mod edit_guard;
pub mod error;
pub mod folder;
#[cfg(not(target_arch = "wasm32"))]
mod foreign_folder;
pub mod formats;
mod hashes;
pub mod hub_names;
pub mod job;
pub mod model;
pub mod open;
#[cfg(not(target_arch = "wasm32"))]
pub mod outboard;
mod plan;
#[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
#[cfg_attr(docsrs, doc(cfg(feature = "policy")))]
pub mod policy;
pub mod quant;
mod readers;
#[cfg(feature = "seal")]
pub mod seal_keys;
#[cfg(feature = "seal")]
mod sealed;
#[cfg(not(target_arch = "wasm32"))]
mod set_members;
#[cfg(not(target_arch = "wasm32"))]
pub mod sidecars;
#[cfg(all(feature = "sign", not(target_arch = "wasm32")))]
#[cfg_attr(docsrs, doc(cfg(feature = "sign")))]
pub mod signed;
#[cfg(feature = "sign")]
mod signed_report;
#[cfg(feature = "sign")]
mod signed_source;
#[cfg(not(target_arch = "wasm32"))]
pub mod stale_sidecars;
pub mod tied_weights;
mod unrecognized;
pub mod values;
pub mod verify;

// Both crates have the same names; with `seal` there is also code that signs and encrypts.
#[cfg(all(feature = "apr2", not(feature = "seal")))]
pub use apr2;
#[cfg(feature = "seal")]
pub use apr2_seal as apr2;

pub use async_model::{AsyncCheckedModel, AsyncModel};
pub use error::{Error, Result};
pub use formats::{Format, Target};
pub use model::Model;
pub use modelfmt_rules::pin::Pin;
pub use open::OpenOptions;

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
