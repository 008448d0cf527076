//! APRN, the container of aprender's first generation (`format::save`), for classical models: a header,
//! metadata and a CRC. The payload is one structure of a Rust program that only this program can decode, so
//! there are no tensors to list (docs/formats/apr.md#aprn).
//!
//! ```text
//! ┌─────────────────────┐ 0
//! │ header (32 bytes)   │ magic "APRN", version, kind of model, lengths, compression, flags
//! ├─────────────────────┤ 32
//! │ metadata            │ a map in MessagePack
//! ├─────────────────────┤
//! │ payload             │ bincode of a Rust structure, perhaps compressed or encrypted
//! ├─────────────────────┤
//! │ signature (96 bytes)│ if the flag SIGNED is set
//! ├─────────────────────┤
//! │ footer (4 bytes)    │ CRC-32 of all before it
//! └─────────────────────┘
//! ```
//!
//! ```
//! # let path = "../../testdata/apr/v1-linear-regression.aprn";
//! use apr::VerifyLevel;
//! use apr::v1::Reader;
//!
//! let model = Reader::open(path)?; // "model.apr"
//! assert_eq!(model.index().model_type().name(), Some("linear_regression"));
//! assert!(model.metadata()?.get("aprender_version").is_some());
//! assert_eq!(model.tensors().len(), 0);
//! model.verify(VerifyLevel::Full).into_result()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod index;
mod metadata;
mod parser;
mod reader;
mod verify;
mod wire;

pub use index::Index;
pub use reader::{AsyncReader, OpenOptions, Reader};
pub use wire::{Compression, Flags, ModelType};
