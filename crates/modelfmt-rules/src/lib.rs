//! The options for opening, converting, editing and listing models: pins, options of a conversion, patterns
//! of tensor names, rules for dtypes, quantization presets, and the wording of errors about them. This crate
//! reads no file.
//!
//! ```
//! use modelfmt_rules::globs::Globs;
//! use modelfmt_rules::options::ConvertOptions;
//! use modelfmt_rules::options::rules::TypeRule;
//!
//! let mut options = ConvertOptions::default();
//! options.types.rules = vec!["quantize q4_k_m".parse()?, "cast *embed*=f16".parse()?]; // the last that matches decides
//! assert!("cast *embed*=f17".parse::<TypeRule>().is_err());
//!
//! let attention = Globs::new(["blk.*.attn_{q,k,v}.weight"])?;
//! assert!(attention.is_match("blk.0.attn_q.weight"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod globs;
pub mod options;
pub mod pin;
pub mod presets;
pub mod wording;

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
