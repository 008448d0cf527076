//! Reads, writes and verifies OINF files: the Open Infer Neural Format, versions 1 and 2.
//!
//! An OINF file is a header, three tables (size variables, which are names for dimensions; metadata; tensors,
//! with or without data), and the values. This crate writes each table sorted by name. All numbers are
//! little-endian.
//!
//! ```text
//! ┌──────────────────────────────┐ 0
//! │ header (72 bytes)            │ magic "OINF\0", version, counts, offsets, file size
//! ├──────────────────────────────┤ 72
//! │ size variable × n            │ name, value
//! │ metadata entry × n           │ key, type, where its value is
//! │ tensor entry × n             │ name, dtype, dims, where its values are, if it has any
//! ├──────────────────────────────┤ zeros to a multiple of 8, here and behind each value
//! │ metadata values              │
//! ├──────────────────────────────┤
//! │ values of tensor 0           │
//! │ …                            │
//! └──────────────────────────────┘ the file size that the header states
//! ```
//!
//! The document of version 1 has the value types 1 to 15. The published package also writes bf16, f8_e5m2 and
//! packed integers (16 to 25) with the same version number. This crate reads them in both versions, and
//! writes them into version 1 only with [`WriteOptions::extended_types`]. In version 2, a tensor's values may
//! be followed by a quant payload with scales and zero points. [`Reader::quant`] reads it, and
//! [`WriteOptions::quant`] writes it.
//!
//! # Saving and reading
//!
//! [`save()`] writes tensors that are in memory. Opening a file takes three reads: the header, the tables,
//! the metadata. Each tensor is then one read.
//!
//! ```
//! use oinf::{MetaValue, Metadata, Reader, View};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.oinf");
//! let metadata = Metadata::new().sizevar("D", 2).value("mode", "tiny");
//! oinf::save(&path, [("w", View::new(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?)], &metadata)?;
//!
//! let model = Reader::open(&path)?;   // "model.oinf"
//! assert_eq!(model.metadata()?.get("mode").and_then(MetaValue::as_str), Some("tiny"));
//! assert_eq!(model.index().sizevars().value("D"), Some(2));
//! for tensor in model.tensors() {
//!     println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
//! }
//! let w = model.tensor("w")?;         // reads one range
//! assert_eq!(w.shape(), [2, 2]);
//! let values: Vec<f32> = w.to_vec()?; // always works; to_f32 also converts
//! assert_eq!(values, [1.0, 2.0, 3.0, 4.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Without a copy
//!
//! If the source is in memory (a slice, a buffer, a map), tensors borrow from it. The format aligns them to 8
//! bytes in the file. Mapping a file is `unsafe` (`modelfmt_core::Mmap`), because it relies on other
//! processes not changing the file.
//!
//! ```
//! # let path = "../../testdata/oinf/model.oinf";
//! use oinf::Reader;
//! use oinf::modelfmt_core::AlignedBuf;
//!
//! let bytes = AlignedBuf::copy_from_slice(&std::fs::read(path)?)?; // or a map: `unsafe { Mmap::open(path)? }`
//! let model = Reader::from_source(bytes)?;
//! let w = model.tensor("kernel")?;                         // a part of `bytes`
//! # #[cfg(target_endian = "little")]
//! assert_eq!(w.as_slice::<u8>()?.len(), 64);               // the same bytes, or an error that says why not
//! assert!(w.into_bytes().is_borrowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Ranges
//!
//! Anything that answers "give me this range" is a [`Source`]: a browser's file handle, an HTTP client, an object
//! store. A part of a tensor is a range of the file.
//!
//! ```
//! # let path = "../../testdata/oinf/model.oinf";
//! use std::io;
//!
//! use oinf::{Reader, Source};
//!
//! struct Remote {
//!     url: String,
//!     len: u64, // from a HEAD request
//! }
//!
//! impl Source for Remote {
//!     fn len(&self) -> u64 {
//!         self.len
//!     }
//!     fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
//!         get(&self.url, offset, out) // GET with `Range: bytes=offset-…`
//!     }
//! }
//!
//! # fn get(path: &str, offset: u64, out: &mut [u8]) -> io::Result<()> {
//! #     oinf::modelfmt_core::source::FileSource::open(path)?.read_into(offset, out)
//! # }
//! # let len = std::fs::metadata(path)?.len();
//! # let remote = || Remote { url: path.to_owned(), len };
//! let model = Reader::from_source(remote())?; // three ranges
//! let row = model.read_range("kernel", 8..16)?; // the second row of 8 u8, and no other byte of the file
//! assert_eq!(*row, model.tensor("kernel")?.bytes()[8..16]);
//!
//! let index = model.index().clone();          // can be shared: with it, the next open reads nothing
//! let again = Reader::with_index(index, remote())?;
//! # assert_eq!(again.tensors().len(), model.tensors().len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! If ranges arrive asynchronously, as from an object store, use [`AsyncReader`].
//!
//! # Verifying
//!
//! Opening checks the structure. The format has no checksum. [`Reader::verify`] also looks for nonzero
//! padding, overlaps, and values that the format forbids, such as a boolean of 2.
//!
//! ```
//! # let path = "../../testdata/oinf/model.oinf";
//! use oinf::{VerifyLevel, Reader};
//!
//! let model = Reader::open(path)?;
//! let report = model.verify(VerifyLevel::Full); // on all cores; every finding, not only the first
//! for check in &report.checks {
//!     println!("{}: {} ({})", check.name, check.status.name(), check.detail);
//! }
//! report.into_result()?;                  // an error if anything was found
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Writing
//!
//! Describe all tensors first. The [`Plan`] checks everything and fixes every offset. Values are then pulled
//! piece by piece, so memory use does not depend on the model's size. Values come from a list of byte slices,
//! or from your own [`TensorData`]. The same input gives the same bytes.
//!
//! ```
//! use oinf::write::MemoryFile;
//! use oinf::{DType, MetaValue, Metadata, Plan, Reader, TensorSpec, Execution, WriteOptions};
//!
//! let metadata = Metadata::new().sizevar("D", 2).value("mode", "clamp_up").value("eps", 1e-5f32);
//! let specs = [
//!     TensorSpec::new("w", DType::U16, vec![2]),
//!     TensorSpec::declared("y", DType::I16, vec![]),
//! ];
//! let values: [&[u8]; 2] = [&[1, 0, 2, 0], &[]]; // little-endian, row-major; a declared tensor has none
//!
//! let plan = Plan::new(specs, &metadata, &WriteOptions::new())?;
//! // To a path, where the file appears when it is complete (`Overwrite` says whether it may replace another):
//! // plan.write_file("model.oinf", Overwrite::Refuse, &values, &Execution::default())?;
//! let file = MemoryFile::new();
//! plan.write(&values, &file, &Execution::default())?;
//!
//! let model = Reader::from_source(file.into_bytes())?;
//! assert_eq!(model.index().sizevars().value("D"), Some(2));
//! assert_eq!(model.metadata()?.get("mode"), Some(&MetaValue::from("clamp_up")));
//! assert_eq!(model.tensor("w")?.to_vec::<u16>()?, [1, 2]);
//! assert!(model.tensor("y").is_err()); // declared, without data
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Untrusted files
//!
//! No file makes this crate panic, or allocate more than a small multiple of the bytes that exist. You can
//! lower [`Limits`] further. An error names the record, the byte and the rule that it breaks ([`Fault`]).
//!
//! # Features
//!
//! - `mmap` (default): `modelfmt_core::Mmap`, a source over a memory map; its constructor is `unsafe`.
//! - `parallel` (default): writing and verifying on more than one core. Results and bytes never depend on it.
//!
//! The crate builds for `wasm32-unknown-unknown`, without file access. Offsets are 64 bits wide there too.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod edit;
mod error;
mod index;
mod layout;
mod metadata;
mod parser;
mod payload;
mod quant;
mod reader;
#[cfg(not(target_arch = "wasm32"))]
mod save;
mod sizevars;
mod value_type;
mod verify;
mod wire;
mod writer;

pub use error::{EditError, Error, Fault, Result, WriteError};
pub use index::Index;
pub use layout::{Plan, WriteOptions, can_hold};
pub use metadata::{Bitset, MetaValue, Metadata, NdArray, SmallNumber};
pub use quant::{Quant, Scheme};
pub use reader::{AsyncReader, OpenOptions, Reader, ReaderExt};
#[cfg(not(target_arch = "wasm32"))]
pub use save::save;
pub use sizevars::SizeVars;
pub use wire::{ValueType, Version};

// The parts of modelfmt-core that every format crate re-exports.
#[cfg(all(feature = "mmap", not(target_arch = "wasm32")))]
pub use modelfmt_core::Mmap;
pub use modelfmt_core::{
    self, AlignedBuf, Bytes, Container, DType, Encoding, Execution, Limits, Location, Part, Report, Source,
    Status, TensorInfo, TensorTable, TensorView, VerifyLevel, View, source, value,
};
pub use modelfmt_write as write;
pub use modelfmt_write::{Overwrite, TensorData, TensorSpec};

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
