//! Reads, writes and verifies OINF files: the Open Infer Neural Format, version 1.
//!
//! A file holds size variables (names for dimensions), typed metadata and tensors, each table sorted by name when we
//! write it:
//!
//! ```text
//! 0         72                                                       offset_data                      file_size
//! ├─ header ┼─ size variables ─┼─ metadata entries ─┼─ tensor entries ─┼─ metadata values ─┼─ tensors ─┤
//! │ OINF\0  │ name, value      │ key, type, extent  │ name, dtype,     │ each padded with zeros to a   │
//! │ counts, │                  │                    │ dims, extent or  │ multiple of 8 bytes           │
//! │ offsets │                  │                    │ no data          │                               │
//! ```
//!
//! # Reading
//!
//! Opening takes three reads: header, tables, metadata. A tensor is read when it is asked for.
//!
//! ```no_run
//! let model = oinf::Reader::open("model.oinf")?;
//! for (name, value) in model.index().sizevars().iter() {
//!     println!("{name} := {value}");
//! }
//! for (key, value) in model.index().metadata() {
//!     println!("{key}: {} = {value:?}", value.value_type());
//! }
//! let tensor = model.tensor("W.0")?;
//! let values: &[f32] = tensor.as_slice()?; // no copy, or an error that says why
//! # let _ = values;
//! model.verify(oinf::Level::Full).into_result()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Writing
//!
//! A [`Plan`] is made of descriptions, checks everything and fixes every offset; then values are pulled in pieces.
//!
//! ```
//! use oinf::tensor_core::write::MemoryFile;
//! use oinf::{DType, MetaValue, Metadata, Plan, Reader, TensorSpec, Work, WriteOptions};
//!
//! let metadata = Metadata::new().sizevar("D", 2).value("mode", "clamp_up").value("eps", 1e-5f32);
//! let specs = [
//!     TensorSpec::new("w", DType::U16, [2u64].to_vec()),
//!     TensorSpec::declared("y", DType::I16, Vec::new()),
//! ];
//! let plan = Plan::new(specs, &metadata, &WriteOptions::new())?;
//! let values: [&[u8]; 2] = [&[1, 0, 2, 0], &[]]; // little-endian, row-major; a declared tensor has none
//! let file = MemoryFile::new();
//! plan.write(&values, &file, &Work::default())?;
//!
//! let bytes = file.into_bytes();
//! assert_eq!(bytes.len() as u64, plan.file_len());
//! let model = Reader::from_source(&bytes[..])?; // from memory: tensors are borrowed
//! assert_eq!(model.index().sizevars().value("D"), Some(2));
//! assert_eq!(model.index().value("mode"), Some(MetaValue::from("clamp_up")));
//! assert_eq!(model.tensor("w")?.to_vec::<u16>()?, [1, 2]);
//! assert!(model.tensor("y").is_err()); // declared, without data
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Parts of tensors
//!
//! ```no_run
//! # let model = oinf::Reader::open("model.oinf")?;
//! let position = model.index().tensors().find("W.0").ok_or("no such tensor")?;
//! let mut row = [0; 512];
//! model.read_into(position, 4 * 512, &mut row)?; // the fifth row, and no other byte of the file
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is read and what is not
//!
//! Value types 1 to 15 are those of version 1. Later revisions write bf16, f8 and packed integers (16 to 25) under the
//! same version number; such a file is refused with an error that names the type.
//!
//! # Features
//!
//! `mmap` and `parallel` (both default) are those of [`tensor_core`].
#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
mod index;
mod layout;
mod metadata;
mod reader;
mod sizevars;
mod verify;
mod wire;
mod writer;

pub use error::{Error, Fault, Result};
pub use index::{Index, IndexParser};
pub use layout::{Plan, WriteOptions, can_hold, is_string};
pub use metadata::{Bitset, MetaValue, Metadata, NdArray, ValueError};
pub use reader::{OpenOptions, Reader};
pub use sizevars::SizeVars;
pub use tensor_core::write::TensorSpec;
pub use tensor_core::{
    self, Bytes, Container, DType, Level, Limits, Location, Parser, Report, Source, TensorInfo, TensorView,
    Work,
};
pub use wire::ValueType;

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
