//! What is in a model: its list ([`inspect`]), its values ([`show`]), what to know before it is used ([`check`]), and in what it differs from another
//! ([`diff`]).
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

pub mod check;
pub mod diff;
pub mod inspect;
pub mod show;

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
