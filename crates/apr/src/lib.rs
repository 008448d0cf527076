//! Reads, writes and verifies APR files, the model format of aprender and its tools (version 2.0).
//!
//! An APR file is a header, metadata as a JSON object, an index of the tensors that is sorted by name, their
//! values at multiples of 64 bytes, and the CRC of everything before it. All numbers are little-endian. Do
//! not confuse it with the draft APR2 (the crate `modelfmt-apr2`), which no published tool writes, although
//! aprender 0.20 to 0.24 began files of this format with the letters `APR2`.
//!
//! ```text
//! ┌──────────────────────────────┐ 0
//! │ header (64 bytes)            │ magic "APR\0" (once "APR2"), version, flags, counts, offsets, CRC-32 of the header
//! ├──────────────────────────────┤ 64
//! │ metadata                     │ a JSON object
//! ├──────────────────────────────┤ zeros to a multiple of 64
//! │ tensor index                 │ name, dtype, dims, offset, size of each
//! ├──────────────────────────────┤ zeros to a multiple of 64
//! │ values of a tensor           │
//! ├──────────────────────────────┤ zeros to a multiple of 64, behind the last one too
//! │ …                            │
//! ├──────────────────────────────┤
//! │ footer (4 bytes)             │ CRC-32 of all before it; some files lack it
//! └──────────────────────────────┘
//! ```
//!
//! # Saving and reading
//!
//! [`save()`] writes tensors that are in memory. Opening a file reads the header, the metadata and the index,
//! and checks everything that they claim. Each tensor is then one read.
//!
//! ```
//! use apr::value::Object;
//! use apr::{Metadata, Reader, View};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.apr");
//! let metadata = Metadata::new("llama", Object::new());
//! apr::save(&path, [("w", View::new(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?)], &metadata)?;
//!
//! let model = Reader::open(&path)?;   // "model.apr"
//! assert_eq!(model.metadata()?.model_type()?, "llama");
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
//! The crate `ggml-quant` decodes the quantized types (`apr_q4`, `apr_q8`, `q4_k`, `q6_k`). Each row of a
//! `q4_k` matrix is padded to whole blocks, so such a tensor can have more bytes than its elements need;
//! [`nbytes`] says how many.
//!
//! # Without a copy
//!
//! If the source is in memory (a slice, a buffer, a map), tensors borrow from it. The format aligns them to
//! 64 bytes in the file. Mapping a file is `unsafe` (`modelfmt_core::Mmap`), because it relies on other
//! processes not changing the file.
//!
//! ```
//! # let path = "../../testdata/apr/dtypes.apr";
//! use apr::Reader;
//! use apr::modelfmt_core::AlignedBuf;
//!
//! let bytes = AlignedBuf::copy_from_slice(&std::fs::read(path)?)?; // or a map: `unsafe { Mmap::open(path)? }`
//! let model = Reader::from_source(bytes)?;
//! let w = model.tensor("t.f32")?;                          // a part of `bytes`
//! # #[cfg(target_endian = "little")]
//! assert_eq!(w.as_slice::<f32>()?.len(), 512);             // the same bytes, or an error that says why not
//! assert!(w.into_bytes().is_borrowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Ranges
//!
//! Anything that answers "give me this range" is a [`Source`]; `modelfmt_core` has an example of one over HTTP. A part of a
//! tensor is a range of the file:
//!
//! ```
//! # let path = "../../testdata/apr/dtypes.apr";
//! use apr::Reader;
//!
//! let model = Reader::open(path)?;
//! let row = model.read_range("t.f32", 1024..2048)?; // the second row of 256 f32, and no other byte of the file
//! assert_eq!(*row, model.tensor("t.f32")?.bytes()[1024..]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! If ranges arrive asynchronously, as from an object store, use [`AsyncReader`].
//!
//! # Verifying
//!
//! Opening checks the structure. [`Reader::verify`] also checks the CRC of all bytes, and looks for nonzero
//! padding, overlaps, and anything that aprender's tools would refuse.
//!
//! ```
//! # let path = "../../testdata/apr/dtypes.apr";
//! use apr::{Reader, VerifyLevel};
//!
//! let model = Reader::open(path)?;
//! let report = model.verify(VerifyLevel::Full); // on all cores; every finding, not only the first
//! for check in &report.checks {
//!     println!("{}: {} ({})", check.name, check.status.name(), check.detail);
//! }
//! report.into_result()?;                        // an error if anything was found
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Writing
//!
//! Describe all tensors first. The [`Plan`] checks everything and fixes every offset. Values are then pulled
//! piece by piece, so memory use does not depend on the model's size. Values come from a list of byte slices,
//! or from your own [`TensorData`]. The same input gives the same bytes, and aprender's tools can read them.
//!
//! ```
//! use apr::write::MemoryFile;
//! use apr::{DType, Execution, Metadata, Plan, Reader, TensorSpec, WriteOptions};
//!
//! let metadata = Metadata::new("llama", [("hidden_size", 80)].into_iter().collect());
//! let specs = [TensorSpec::new("b", DType::F32, vec![256]), TensorSpec::new("a", DType::I8, vec![3])];
//! let values: [&[u8]; 2] = [&[0; 1024], &[1, 2, 3]];
//!
//! let plan = Plan::new(specs, &metadata, &WriteOptions::new())?;
//! // To a path, where the file appears when it is complete (`Overwrite` says whether it may replace another):
//! // plan.write_file("model.apr", Overwrite::Refuse, &values, &Execution::default())?;
//! let file = MemoryFile::new();
//! plan.write(&values, &file, &Execution::default())?;
//!
//! let model = Reader::from_source(file.into_bytes())?;
//! assert!(model.tensors().iter().map(|tensor| tensor.name).eq(["a", "b"])); // the index is sorted
//! assert_eq!(model.tensor("a")?.to_vec::<i8>()?, [1, 2, 3]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Untrusted files
//!
//! No file makes this crate panic, or allocate more than a small multiple of the bytes that exist. You can
//! lower [`Limits`] further. An error names the record, the byte and the rule that it breaks ([`Fault`]). A
//! file whose content is compressed as a whole is expanded when it is opened, by at most
//! [`Limits::expansion`].
//!
//! # Features
//!
//! - `lz4`, `zstd` (default): files whose content is compressed as a whole. Without them, opening such a file is an error.
//! - `mmap` (default): `modelfmt_core::Mmap`, a source over a memory map; its constructor is `unsafe`.
//! - `parallel` (default): CRCs on more than one core. Results and bytes never depend on it.
//!
//! The crate builds for `wasm32-unknown-unknown`, without file access. Offsets are 64 bits wide there too.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod claims;
mod edit;
mod error;
mod index;
mod layout;
mod metadata;
mod parser;
mod payload;
mod reader;
#[cfg(not(target_arch = "wasm32"))]
mod save;
pub mod v1;
mod verify;
mod wire;
mod writer;

pub use error::{EditError, Error, Fault, Result, WriteError};
pub use index::{Index, Sections};
pub use layout::{Plan, WriteOptions, can_hold, nbytes};
pub use metadata::Metadata;
pub use reader::{AsyncReader, OpenOptions, Reader};
#[cfg(not(target_arch = "wasm32"))]
pub use save::save;
pub use wire::{Flags, Magic, dtypes};

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
