//! Changes model files in place.
//!
//! ```
//! use modelfmt_core::Execution;
//! use modelfmt_edit::edit::{EditOptions, NewValue, edit};
//! use modelfmt_model::Model;
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("model.aero");
//! std::fs::copy("../../testdata/reference/one-shard.aero", &path)?;
//! let mut options = EditOptions::default();
//! options.set.push(("author".to_owned(), NewValue::Text("me".to_owned())));
//! edit(&path, &options, &Execution::default())?;
//! assert_eq!(Model::open(&path)?.container().flat_metadata()?.get("author"), Some(&"me".into()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(target_arch = "wasm32"))]
pub mod edit;
#[cfg(feature = "seal")]
#[cfg_attr(docsrs, doc(cfg(feature = "seal")))]
pub mod seal;

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
