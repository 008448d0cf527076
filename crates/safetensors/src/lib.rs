//! Reads, writes and verifies [safetensors](https://github.com/huggingface/safetensors) files, alone or as a
//! sharded set.
//!
//! A safetensors file is the length of a header, the header as JSON, and the values. All numbers are little-endian.
//!
//! ```text
//! ┌──────────────────────────────┐ 0
//! │ length of the header n       │ u64
//! ├──────────────────────────────┤ 8
//! │ header: JSON                 │ {"__metadata__": {text: text, …},
//! │                              │  name: {"dtype", "shape", "data_offsets": [begin, end]}, …}
//! │                              │ spaces to a multiple of 8 (when we write)
//! ├──────────────────────────────┤ 8 + n: offsets count from here
//! │ values of tensor 0           │ every byte belongs to one tensor: no holes, no overlaps
//! │ values of tensor 1           │
//! │ …                            │
//! └──────────────────────────────┘
//! ```
//!
//! The reference implementation sorts tensors, keeps the last of two tensors with the same name, and writes
//! from memory. This crate keeps the order, refuses duplicates, and streams when it writes. It reads what the
//! reference implementation reads, except for duplicates, and the reference implementation reads what this
//! crate writes (docs/formats/safetensors.md#own-reader-and-writer).
//!
//! # Saving and reading
//!
//! [`save()`] writes tensors that are in memory. Opening a file reads the header, never the values. Each
//! tensor is then one read.
//!
//! ```
//! use modelfmt_safetensors::value::Object;
//! use modelfmt_safetensors::{Reader, View};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.safetensors");
//! let metadata = Object::from_iter([("format", "pt")]);
//! modelfmt_safetensors::save(&path, [("w", View::new(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?)], &metadata)?;
//!
//! let model = Reader::open(&path)?;   // "model.safetensors"
//! assert_eq!(model.metadata()?, Some(&metadata));
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
//! If the source is in memory (a slice, a buffer, a map), tensors borrow from it. A tensor may begin at any
//! byte. If it is not aligned, [`as_slice`](TensorView::as_slice) returns an error that says so, and
//! [`to_vec`](TensorView::to_vec) copies. Mapping a file is `unsafe` (`modelfmt_core::Mmap`), because it
//! relies on other processes not changing the file.
//!
//! ```
//! # let path = "../../testdata/safetensors/dtypes.safetensors";
//! use modelfmt_safetensors::Reader;
//! use modelfmt_safetensors::modelfmt_core::AlignedBuf;
//!
//! let bytes = AlignedBuf::copy_from_slice(&std::fs::read(path)?)?; // or a map: `unsafe { Mmap::open(path)? }`
//! let model = Reader::from_source(bytes)?;
//! let w = model.tensor("f32.x")?;                          // a part of `bytes`
//! # #[cfg(target_endian = "little")]
//! assert_eq!(w.as_slice::<f32>()?.len(), 12);              // the same bytes, or an error that says why not
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
//! # let path = "../../testdata/safetensors/dtypes.safetensors";
//! use std::io;
//!
//! use modelfmt_safetensors::{Reader, Source};
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
//! #     modelfmt_safetensors::modelfmt_core::source::FileSource::open(path)?.read_into(offset, out)
//! # }
//! # let len = std::fs::metadata(path)?.len();
//! # let remote = || Remote { url: path.to_owned(), len };
//! let model = Reader::from_source(remote())?; // two ranges: the length, the header
//! let row = model.read_range("f32.x", 16..32)?; // the second row of 4 f32, and no other byte of the file
//! assert_eq!(*row, model.tensor("f32.x")?.bytes()[16..32]);
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
//! The format has no checksum: a file that opens is well-formed, and [`Reader::verify`] adds nothing to that.
//! [`SetReader::verify`] also checks that the index and the files agree.
//!
//! ```
//! # let path = "../../testdata/safetensors/dtypes.safetensors";
//! use modelfmt_safetensors::{VerifyLevel, Reader};
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
//! use modelfmt_safetensors::modelfmt_core::value::Object;
//! use modelfmt_safetensors::write::MemoryFile;
//! use modelfmt_safetensors::{DType, Plan, Reader, TensorSpec, Execution, WriteOptions};
//!
//! let metadata = Object::from_iter([("format", "pt")]);
//! let specs = [TensorSpec::new("w", DType::F32, &[2, 1]), TensorSpec::new("b", DType::U8, &[3])];
//! let values: [&[u8]; 2] = [&[0, 0, 128, 63, 0, 0, 0, 64], &[1, 2, 3]];
//!
//! let plan = Plan::new(specs, Some(&metadata), &WriteOptions::new())?;
//! // To a path, where the file appears when it is complete (`Overwrite` says whether it may replace another):
//! // plan.write_file("model.safetensors", Overwrite::Refuse, &values, &Execution::default())?;
//! let file = MemoryFile::new();
//! plan.write(&values, &file, &Execution::default())?;
//!
//! let model = Reader::from_source(file.into_bytes())?;
//! let names: Vec<&str> = model.tensors().iter().map(|tensor| tensor.name).collect();
//! assert_eq!(names, ["w", "b"]);
//! assert_eq!(model.tensor("w")?.to_vec::<f32>()?, [1.0, 2.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Sets
//!
//! A sharded model has files `STEM-00001-of-0000N.safetensors` and so on, and a `STEM.safetensors.index.json`
//! that lists the file of each tensor. [`SetReader`] reads such a model, and [`SetPlan`] writes it.
//!
//! # Untrusted files
//!
//! No file makes this crate panic, or allocate more than a small multiple of the bytes that exist. You can
//! lower [`Limits`] further. An error names the record, the byte and the rule that it breaks ([`Fault`]).
//!
//! # Features
//!
//! - `mmap` (default): `modelfmt_core::Mmap`, a source over a memory map; its constructor is `unsafe`.
//! - `parallel` (default): writing on more than one core. Results and bytes never depend on it.
//!
//! The crate builds for `wasm32-unknown-unknown`, without file access. Offsets are 64 bits wide there too.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod edit;
mod error;
mod fast_header;
mod header;
mod index;
mod layout;
mod metadata;
mod parser;
mod reader;
#[cfg(not(target_arch = "wasm32"))]
mod save;
mod set;
mod state;
mod text;
mod verify;
mod wire;
mod writer;

pub use error::{EditError, Error, Fault, Result, WriteError};
pub use index::Index;
pub use layout::{Plan, WriteOptions, can_hold};
pub use reader::{AsyncReader, OpenOptions, Reader};
#[cfg(not(target_arch = "wasm32"))]
pub use save::save;
pub use set::{AsyncSetReader, SetIndex, SetPlan, SetReader};
pub use wire::MAX_HEADER_LEN;

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
