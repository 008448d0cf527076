//! Reads, writes and verifies MAG files, the tensor container of magnetron.
//!
//! Each magnetron reads only its own generation of the format. This crate reads all generations that were
//! released ([`Version`]): version 1, which the format's document describes, 0.1.0 and 0.2.0, and 0.3.0,
//! which current versions of magnetron write. It writes versions 1 ([`Plan::new`]) and 0.3 ([`Plan::v0_3`]).
//!
//! A file of version 1 is a header, metadata records (numbers by key), tensor records, and the tensors'
//! values, each at a multiple of 64 bytes. All numbers are little-endian. Instead of the records, version 0.3
//! has a JSON manifest ([`Manifest`]) with any metadata. Its values are at multiples of 4,096, and it has no
//! checksum.
//!
//! ```text
//! ┌──────────────────────────────┐ 0
//! │ header (24 bytes)            │ magic "MAG!", version, checksum, counts
//! ├──────────────────────────────┤ 24
//! │ metadata record × n          │ i64 or f64 payload, key
//! │ tensor record × n            │ dtype, rank, numel, offset, shape, key
//! ├──────────────────────────────┤ padding (0xFF) to a multiple of 64
//! │ values of tensor 0           │
//! ├──────────────────────────────┤ padding to a multiple of 64
//! │ …                            │
//! └──────────────────────────────┘
//! ```
//!
//! The checksum covers the header and the records, not the values. There are two kinds: the CRC-32 of the
//! document, and the CRC-32C that magnetron writes. This crate reads and writes both ([`Checksum`]).
//!
//! # Saving and reading
//!
//! [`save()`] writes tensors that are in memory. Opening a file reads the header and the records, never the
//! values. Each tensor is then one read.
//!
//! ```
//! use mag::value::Object;
//! use mag::{Reader, View};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.mag");
//! let metadata = Object::from_iter([("epoch", 7)]);
//! mag::save(&path, [("w", View::new(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?)], &metadata)?;
//!
//! let model = Reader::open(&path)?;   // "model.mag"
//! assert_eq!(model.metadata()?.required_u64("epoch")?, 7);
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
//! If the source is in memory (a slice, a buffer, a map), tensors borrow from it. The format aligns them to
//! 64 bytes in the file. Mapping a file is `unsafe` (`modelfmt_core::Mmap`), because it relies on other
//! processes not changing the file.
//!
//! ```
//! # let path = "../../testdata/reference/trained.mag";
//! use mag::Reader;
//! use mag::modelfmt_core::AlignedBuf;
//!
//! let bytes = AlignedBuf::copy_from_slice(&std::fs::read(path)?)?; // or a map: `unsafe { Mmap::open(path)? }`
//! let model = Reader::from_source(bytes)?;
//! let w = model.tensor("fc1.weight")?;                     // a part of `bytes`
//! # #[cfg(target_endian = "little")]
//! assert_eq!(w.as_slice::<f32>()?.len(), 16);              // the same bytes, or an error that says why not
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
//! # let path = "../../testdata/reference/trained.mag";
//! use std::io;
//!
//! use mag::{Reader, Source};
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
//! #     mag::modelfmt_core::source::FileSource::open(path)?.read_into(offset, out)
//! # }
//! # let len = std::fs::metadata(path)?.len();
//! # let remote = || Remote { url: path.to_owned(), len };
//! let model = Reader::from_source(remote())?; // little more than the records
//! let row = model.read_range("fc1.weight", 16..32)?; // the second row of 4 f32, and no other byte of the file
//! assert_eq!(*row, model.tensor("fc1.weight")?.bytes()[16..32]);
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
//! Opening refuses a file with a tensor that cannot be read, or with a checksum that does not match.
//! [`Reader::verify`] also reports faults that do not prevent reading, such as overlapping or unaligned
//! buffers. No checksum covers the values.
//!
//! ```
//! # let path = "../../testdata/reference/trained.mag";
//! use mag::{VerifyLevel, Reader};
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
//! use mag::value::Object;
//! use mag::write::MemoryFile;
//! use mag::{DType, Plan, Reader, TensorSpec, Execution, WriteOptions};
//!
//! let metadata = Object::from_iter([("epoch", 7)]);
//! let specs = [TensorSpec::new("w", DType::F32, vec![2, 2])];
//! let values = [[1.0f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat()];
//!
//! let plan = Plan::new(specs, &metadata, &WriteOptions::new())?;
//! // To a path, where the file appears when it is complete (`Overwrite` says whether it may replace another):
//! // plan.write_file("model.mag", Overwrite::Refuse, &values, &Execution::default())?;
//! let file = MemoryFile::new();
//! plan.write(&values, &file, &Execution::default())?;
//!
//! let model = Reader::from_source(file.into_bytes())?;
//! assert_eq!(model.tensor("w")?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! magnetron up to 0.1.2 needs `WriteOptions::new().checksum(Checksum::Crc32c)`. For magnetron 0.2, write
//! version 0.3:
//!
//! ```
//! # #[cfg(feature = "v0_3")] {
//! use mag::modelfmt_core::value::Object;
//! use mag::write::MemoryFile;
//! use mag::{DType, Execution, ManifestOptions, Plan, Reader, TensorSpec};
//!
//! let metadata = Object::from_iter([("arch", "qwen3")]);
//! let specs = [TensorSpec::new("w", DType::BF16, vec![3])];
//! let options = ManifestOptions::new().timestamp("2026-01-31T12:00:00+00:00");
//! let plan = Plan::v0_3(specs, &metadata, &options)?;
//! let file = MemoryFile::new();
//! plan.write(&[[0u8; 6]], &file, &Execution::default())?;
//!
//! let model = Reader::from_source(file.into_bytes())?;
//! assert_eq!(model.metadata()?.required_str("arch")?, "qwen3");
//! let manifest = model.index().manifest().ok_or("not version 0.3")?;
//! assert_eq!(manifest.timestamp(), "2026-01-31T12:00:00+00:00");
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Untrusted files
//!
//! No file makes this crate panic, or allocate more than a small multiple of the bytes that exist. You can
//! lower [`Limits`] further. An error names the record, the byte and the rule that it breaks ([`Fault`]). A
//! file whose checksum does not match is refused, unless you open it with [`OpenOptions::ignore_checksum`] to
//! rescue what is left of it.
//!
//! # Features
//!
//! - `mmap` (default): `modelfmt_core::Mmap`, a source over a memory map; its constructor is `unsafe`.
//! - `v0_3` (default): version 0.3, whose manifest is JSON. Without it, such a file is refused with an error
//!   that says so, and the crate builds without serde.
//! - `parallel` (default): writing on more than one core. Results and bytes never depend on it.
//!
//! The crate builds for `wasm32-unknown-unknown`, without file access. Offsets are 64 bits wide there too.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod checksum;
mod dtypes;
mod edit;
mod error;
mod index;
mod layout;
#[cfg(feature = "v0_3")]
mod manifest;
mod metadata;
mod options;
mod parser;
mod preamble;
mod reader;
#[cfg(not(target_arch = "wasm32"))]
mod save;
mod v0_1;
#[cfg(feature = "v0_3")]
mod v0_3;
mod v1;
mod verify;
mod version;
mod writer;

pub use checksum::Checksum;
pub use error::{EditError, Error, Fault, Result, WriteError};
pub use index::Index;
pub use layout::{Plan, can_hold};
#[cfg(feature = "v0_3")]
pub use manifest::Manifest;
#[cfg(feature = "v0_3")]
pub use options::ManifestOptions;
pub use options::WriteOptions;
pub use reader::{AsyncReader, OpenOptions, Reader};
#[cfg(not(target_arch = "wasm32"))]
pub use save::save;
pub use version::Version;

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
