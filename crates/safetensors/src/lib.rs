//! Reads, writes and verifies [safetensors](https://github.com/huggingface/safetensors) files, alone or as a sharded set.
//!
//! ```text
//! byte 0      u64, little-endian: length of the header
//!      8      JSON: {"__metadata__": {text: text, …}, name: {"dtype", "shape", "data_offsets": [begin, end]}, …}
//!             spaces to a multiple of 8 (when we write)
//!      8 + n  the data: every byte belongs to one tensor; offsets count from here
//! ```
//!
//! A set is such files, `STEM-00001-of-0000N.safetensors` and so on, and a `STEM.safetensors.index.json` that says which
//! tensor is in which: [`SetReader`], [`SetPlan`].
//!
//! The reference implementation sorts tensors, keeps the last of two with the same name and writes from memory. Here
//! order is kept, duplicates are refused, and writing streams. What it reads is read here but for duplicates, and it
//! reads what is written here. A tensor may begin at any byte; then [`TensorView::as_slice`] says so, and
//! [`TensorView::to_vec`] works.
//!
//! # Writing and reading
//!
//! ```
//! use modelfmt_safetensors::write::MemoryFile;
//! use modelfmt_safetensors::{DType, Plan, Reader, TensorSpec, Work, WriteOptions};
//!
//! let specs = [TensorSpec::new("w", DType::F32, &[2, 1]), TensorSpec::new("b", DType::U8, &[3])];
//! let plan = Plan::new(specs, None, &WriteOptions::new())?;
//! let values: [&[u8]; 2] = [&[0, 0, 128, 63, 0, 0, 0, 64], &[1, 2, 3]];
//! let file = MemoryFile::new();
//! plan.write(&values, &file, &Work::default())?;
//!
//! let bytes = file.into_bytes();
//! let reader = Reader::from_source(&bytes[..])?; // Reader::open(path) for a file
//! let names: Vec<&str> = reader.tensors().iter().map(|t| t.name).collect();
//! assert_eq!(names, ["w", "b"]);
//! let w = reader.tensor("w")?; // borrowed: `bytes` are in memory
//! assert_eq!(w.to_vec::<f32>()?, [1.0, 2.0]);
//!
//! let mut two = [0; 2];
//! reader.read_into(1, 1, &mut two)?; // a part of the second tensor
//! assert_eq!(two, [2, 3]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Verifying
//!
//! The format has no checksum: what opens is sound. [`Reader::verify`] says so; [`SetReader::verify`] also looks whether
//! the index and the files agree.
//!
//! ```
//! # use modelfmt_safetensors::{Level, Reader};
//! # let bytes = b"\x02\0\0\0\0\0\0\0{}";
//! let report = Reader::from_source(&bytes[..])?.verify(Level::Full);
//! assert!(report.is_ok());
//! # Ok::<(), modelfmt_safetensors::Error>(())
//! ```
//!
//! # Without I/O
//!
//! [`Index`] is what a header says: owned, checked, shareable. [`IndexParser`] makes one from ranges that somebody else
//! fetches, and [`Reader::with_index`] opens a source with one for free.
//!
//! # Features
//!
//! - `mmap` (default): [`tensor_core::Mmap`], to read from a memory map.
//! - `parallel` (default): writing uses more than one thread. The bytes never depend on it.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
mod header;
mod index;
mod layout;
mod reader;
mod set;
mod text;
mod verify;
mod wire;
mod writer;

pub use error::{Error, Fault, Result};
pub use index::{Index, IndexParser, default_limits};
pub use layout::{Plan, WriteOptions, can_hold};
pub use reader::{OpenOptions, Reader};
pub use set::{SetIndex, SetPlan, SetReader};
pub use tensor_core::write::TensorSpec;
pub use tensor_core::{
    self, Bytes, Container, DType, Level, Limits, Location, Parser, Part, Report, Source, TensorInfo,
    TensorView, Work, source, value, write,
};
pub use wire::MAX_HEADER_LEN;

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
