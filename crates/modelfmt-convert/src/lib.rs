//! Converts models to other formats ([`convert`](mod@convert)), extracts their tensors to separate files
//! ([`extract`]), and proves that one model was made from another ([`prove`]).
//!
//! ```
//! use modelfmt_convert::Conversion;
//! use modelfmt_model::{Format, Model};
//! use modelfmt_write::MemoryFile;
//!
//! let model = Model::open("../../testdata/reference/one-shard.aero")?;
//! let file = MemoryFile::new(); // or Conversion::new(&model, "model.apr")… .write()
//! Conversion::to_format(&model, Format::Apr2).rule("cast {double,int.*}=f32".parse()?).widen().write_to_sink(&file)?;
//! let apr2 = Model::from_source("model.apr", file.into_bytes())?;
//! assert_eq!(apr2.tensor("embed.weight")?.bytes(), model.tensor("embed.weight")?.bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod convert;
#[cfg(not(target_arch = "wasm32"))]
pub mod extract;
pub mod prove;

pub use convert::Conversion;
#[cfg(not(target_arch = "wasm32"))]
pub use convert::save;

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
