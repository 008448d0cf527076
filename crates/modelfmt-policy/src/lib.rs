//! Policies: rules in a TOML file, over absolute paths and URLs, that say which files may be read and what
//! they have to prove. This crate judges a [`Place`], and what is known of the file there. It opens no model.
//!
//! ```
//! use modelfmt_keys::PublicKey;
//! use modelfmt_policy::{Place, Rules, Verdict};
//!
//! let text = "[[rule]]\nmatch = ['https://example.org/models/**']\nformats = ['gguf']";
//! let family = |format: &str| ["gguf", "aero"].into_iter().find(|known| *known == format);
//! let key = |name: &str| PublicKey::read(name.as_ref());
//! let rules = Rules::parse("policy.toml".as_ref(), text, &family, &key)?;
//!
//! let place = Place::of_url("https://user:secret@EXAMPLE.org:443/models/m?token=1")?;
//! assert_eq!(place.to_string(), "https://example.org/models/m");
//! let Verdict::By(rule) = rules.judge(&place)? else { panic!("a rule matches") };
//! assert!(rule.check_family(Some("aero")).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
mod parse;
mod pattern;
mod place;
mod rule;
mod rules;

pub use error::{Error, Result};
pub use parse::{Families, Keys};
pub use place::Place;
pub use rule::{NO_SIGNATURE, Rule};
pub use rules::{Rules, Verdict, shown};

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
