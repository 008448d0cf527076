//! Reads, writes and verifies [GGUF](https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) files of versions 2 and 3.
//!
//! A GGUF file is a header, typed metadata, tensor records, and the tensors' values. Numbers are
//! little-endian. Files with big-endian numbers are also read, and their metadata and values are returned
//! little-endian. (Blocks have no big-endian form.)
//!
//! ```text
//! ┌──────────────────────────────┐ 0
//! │ header (24 bytes)            │ magic "GGUF", u32 version, u64 tensors, u64 metadata entries
//! ├──────────────────────────────┤ 24
//! │ metadata entry × n           │ key, type, value; text and arrays with their lengths before them
//! │ tensor record × n            │ name, u32 rank, u64 dimensions (fastest first), u32 type, u64 offset
//! ├──────────────────────────────┤ zeros to a multiple of general.alignment (32 without it): offsets count from here
//! │ values of tensor 0           │
//! ├──────────────────────────────┤ zeros to a multiple of the alignment
//! │ …                            │
//! └──────────────────────────────┘
//! ```
//!
//! Shapes list the slowest dimension first, as everywhere in these crates: ggml's `[4096, 32]` is `[32,
//! 4096]` here. Quantized types are read as blocks, which `to_f32` of the crate `ggml-quant` decodes. All
//! types of ggml are supported.
//!
//! # Saving and reading
//!
//! [`save()`] writes tensors that are in memory. Opening a file reads the header, the metadata and the
//! records, never the values. Each tensor is then one read.
//!
//! ```
//! use modelfmt_gguf::{MetaValue, Metadata, Reader, View};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.gguf");
//! let mut metadata = Metadata::new();
//! metadata.push("general.architecture", MetaValue::String("llama"))?;
//! modelfmt_gguf::save(&path, [("w", View::new(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?)], &metadata)?;
//!
//! let model = Reader::open(&path)?;   // "model.gguf"
//! assert_eq!(model.metadata()?.get("general.architecture"), Some(MetaValue::String("llama")));
//! for tensor in model.tensors() {
//!     println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
//! }
//! let w = model.tensor("w")?;         // reads one range
//! assert_eq!(w.shape(), [2, 2]);
//! let values: Vec<f32> = w.to_vec()?; // always works; to_f32 also converts; blocks: crate ggml-quant
//! assert_eq!(values, [1.0, 2.0, 3.0, 4.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Without a copy
//!
//! If the source is in memory (a slice, a buffer, a map), tensors borrow from it. The format aligns them in
//! the file to 32 bytes, or to `general.alignment`. Mapping a file is `unsafe` (`modelfmt_core::Mmap`),
//! because it relies on other processes not changing the file.
//!
//! ```
//! # let path = "../../testdata/gguf/types.gguf";
//! use modelfmt_gguf::Reader;
//! use modelfmt_gguf::modelfmt_core::AlignedBuf;
//!
//! let bytes = AlignedBuf::copy_from_slice(&std::fs::read(path)?)?; // or a map: `unsafe { Mmap::open(path)? }`
//! let model = Reader::from_source(bytes)?;
//! let w = model.tensor("f32")?;                            // a part of `bytes`
//! # #[cfg(target_endian = "little")]
//! assert_eq!(w.as_slice::<f32>()?.len(), 512);             // the same bytes, or an error that says why not
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
//! # let path = "../../testdata/gguf/types.gguf";
//! use std::io;
//!
//! use modelfmt_gguf::{Reader, Source};
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
//! #     modelfmt_gguf::modelfmt_core::source::FileSource::open(path)?.read_into(offset, out)
//! # }
//! # let len = std::fs::metadata(path)?.len();
//! # let remote = || Remote { url: path.to_owned(), len };
//! let model = Reader::from_source(remote())?; // everything before the values
//! let row = model.read_range("f32", 1024..2048)?; // the second row of 256 f32, and no other byte of the file
//! assert_eq!(*row, model.tensor("f32")?.bytes()[1024..2048]);
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
//! Opening refuses everything that would make a tensor unreadable. The format has no checksum.
//! [`Reader::verify`] checks the rest: alignment, overlaps, padding, names, booleans.
//!
//! ```
//! # let path = "../../testdata/gguf/types.gguf";
//! use modelfmt_gguf::{VerifyLevel, Reader};
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
//! # Split models
//!
//! A model may be split into files `NAME-00001-of-00003.gguf` and so on. [`SetReader`] opens the model by any
//! of these files. A [`Reader`] opens a single file, and [`Index::is_split`] returns whether it is only a
//! part of a model.
//!
//! # Writing
//!
//! Describe all tensors first. The [`Plan`] checks everything and fixes every offset. Values are then pulled
//! piece by piece, so memory use does not depend on the model's size. gguf-py writes the same bytes for the
//! same tensors, keys and types in the same order. [`SetPlan`] writes a split model. [`Metadata::push_tree`]
//! accepts JSON values.
//!
//! ```
//! use modelfmt_gguf::write::MemoryFile;
//! use modelfmt_gguf::{DType, Execution, MetaValue, Metadata, Plan, Reader, TensorSpec, WriteOptions};
//!
//! let mut metadata = Metadata::new();
//! metadata.push("general.architecture", MetaValue::String("llama"))?;
//! metadata.push("llama.block_count", MetaValue::U32(1))?;
//! let specs = [TensorSpec::new("w", DType::F32, &[2, 1]), TensorSpec::new("b", DType::I8, &[3])];
//! let values: [&[u8]; 2] = [&[0, 0, 128, 63, 0, 0, 0, 64], &[1, 2, 3]];
//!
//! let plan = Plan::new(specs, &metadata, &WriteOptions::new())?;
//! let file = MemoryFile::new();
//! plan.write(&values, &file, &Execution::default())?;
//!
//! let model = Reader::from_source(file.into_bytes())?;
//! assert_eq!(model.tensor("w")?.to_vec::<f32>()?, [1.0, 2.0]);
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
//! - `parallel` (default): verifying on more than one core. Results and bytes never depend on it.
//!
//! The crate builds for `wasm32-unknown-unknown`, without file access. Offsets are 64 bits wide there too.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod edit;
mod error;
mod index;
mod layout;
mod metadata;
mod options;
mod parser;
mod reader;
#[cfg(not(target_arch = "wasm32"))]
mod save;
mod set;
mod verify;
mod wire;
mod writer;

pub use error::{EditError, Error, Fault, Result, WriteError};
pub use index::Index;
pub use layout::{Plan, can_hold};
pub use metadata::{Array, ArrayBuf, Hints, MetaValue, Metadata, llama_type};
pub use options::WriteOptions;
pub use reader::{AsyncReader, OpenOptions, Reader};
#[cfg(not(target_arch = "wasm32"))]
pub use save::save;
pub use set::{AsyncSetReader, SetIndex, SetPlan, SetReader, SplitName, later_files};
pub use wire::{PADDING, ValueType};

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
