//! Inspects models: lists the content of a model ([`inspect`]), prints its values ([`show`]), finds
//! suspicious values ([`check`]), and compares it with another model ([`diff`]). With features, it also
//! writes bills of materials and HTML reports.
//!
//! ```
//! use modelfmt_core::Execution;
//! use modelfmt_inspect::inspect::{InspectOptions, inspect};
//! use modelfmt_model::Model;
//!
//! let model = Model::open("../../testdata/reference/one-shard.aero")?;
//! let found = inspect(&model, &InspectOptions::new(), &Execution::default())?;
//! println!("{}", serde_json::to_string_pretty(&found)?); // what `modelfmt inspect --json` prints
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "bom")]
#[cfg_attr(docsrs, doc(cfg(feature = "bom")))]
pub mod bom;
pub mod check;
pub mod diff;
pub mod inspect;
#[cfg(feature = "report")]
#[cfg_attr(docsrs, doc(cfg(feature = "report")))]
pub mod report;
pub mod show;

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
