//! Reads, writes and verifies MAG files (format version 1), the tensor container of magnetron.
//!
//! A MAG file is a header, metadata records (numbers by key), tensor records, and the tensors' values, each at a
//! multiple of 64 bytes. All numbers are little-endian.
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
//! The checksum covers header and records, not the values. Two kinds exist: CRC-32 as the document has it, and the
//! CRC-32C that magnetron writes; both are read and written ([`Checksum`]).
//!
//! # Writing
//!
//! Describe all tensors first; the [`Plan`] fixes every offset, then values are pulled in pieces, so memory does not
//! depend on the model's size. Values come from a list of byte slices, or from your own
//! [`TensorData`](tensor_core::write::TensorData).
//!
//! ```
//! use mag::tensor_core::write::MemoryFile;
//! use mag::{DType, Metadata, Number, Plan, TensorSpec, Work, WriteOptions};
//!
//! let mut metadata = Metadata::new();
//! metadata.push("epoch", Number::I64(7))?;
//! let specs = [TensorSpec::new("w", DType::F32, vec![2, 2])];
//! let values = [[1.0f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat()];
//!
//! let plan = Plan::new(specs, &metadata, &WriteOptions::new())?;
//! let file = MemoryFile::new(); // or plan.write_file("model.mag", …): the file appears when it is complete
//! plan.write(&values, &file, &Work::default())?;
//! # let bytes = file.into_bytes();
//! # assert_eq!(bytes.len() as u64, plan.file_len());
//! # let reader = mag::Reader::from_source(bytes)?;
//! # assert_eq!(reader.tensor("w")?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! magnetron itself expects `WriteOptions::new().checksum(Checksum::Crc32c)`.
//!
//! # Reading and verifying
//!
//! Opening reads header and records, never the values. A tensor reads one range; over a source in memory
//! ([`Source`]: a slice, a vector, a map) it is a slice of it, without a copy.
//!
//! ```
//! # let mut metadata = mag::Metadata::new();
//! # metadata.push("epoch", mag::Number::I64(7))?;
//! # let specs = [mag::TensorSpec::new("w", mag::DType::F32, vec![2, 2])];
//! # let values = [[1.0f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat()];
//! # let file = mag::tensor_core::write::MemoryFile::new();
//! # mag::Plan::new(specs, &metadata, &mag::WriteOptions::new())?.write(&values, &file, &mag::Work::default())?;
//! # let bytes = mag::tensor_core::AlignedBuf::copy_of(&file.into_bytes())?;
//! use mag::{Level, Number, Reader};
//!
//! let reader = Reader::from_source(bytes)?; // or Reader::open("model.mag")?
//! assert_eq!(reader.index().metadata().get("epoch"), Some(Number::I64(7)));
//! for tensor in reader.tensors() {
//!     println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
//! }
//! let w = reader.tensor("w")?;
//! # #[cfg(target_endian = "little")]
//! assert_eq!(w.as_slice::<f32>()?, [1.0, 2.0, 3.0, 4.0]); // zero-copy, or an error that says why not
//! assert_eq!(w.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]); // always works
//!
//! let mut last = [0; 4]; // a range: bytes 12 to 16 of the tensor at position 0
//! reader.read_into(0, 12, &mut last)?;
//! assert_eq!(f32::from_le_bytes(last), 4.0);
//!
//! reader.verify(Level::Full).into_result()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Sources of your own
//!
//! A browser's file handle or an object store implements [`Source`]: a length, and "fill this buffer from here".
//! Opening asks for little more than the records, and an [`Index`] that is kept makes the next open free.
//!
//! ```
//! # let specs = [mag::TensorSpec::new("w", mag::DType::I8, vec![2])];
//! # let file = mag::tensor_core::write::MemoryFile::new();
//! # let plan = mag::Plan::new(specs, &mag::Metadata::new(), &mag::WriteOptions::new())?;
//! # plan.write(&[[1, 2]], &file, &mag::Work::default())?;
//! # let bytes = file.into_bytes();
//! use mag::{Reader, Source};
//!
//! struct Bucket(Vec<u8>);
//!
//! impl Source for Bucket {
//!     fn len(&self) -> u64 {
//!         self.0.len() as u64
//!     }
//!     fn read_into(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
//!         self.0.read_into(offset, out) // fetch `offset..offset + out.len()`
//!     }
//! }
//!
//! let first = Reader::from_source(Bucket(bytes.clone()))?;
//! let again = Reader::with_index(first.index().clone(), Bucket(bytes))?; // reads nothing
//! assert_eq!(again.tensor("w")?.as_slice::<i8>()?, [1, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An asynchronous loader drives [`IndexParser`] itself: it says which range it needs next
//! ([`Parser`](tensor_core::Parser)).
//!
//! # Files that are not to be trusted
//!
//! No file makes this crate panic, and none makes it allocate more than a small multiple of the bytes that exist;
//! [`Limits`] lower that further. An error says which record, which byte and which rule ([`Fault`]). A file whose
//! checksum does not match is refused unless [`OpenOptions::ignore_checksum`] asks to look at what is left of it. What
//! can be read but should not be so (overlapping or unaligned buffers) is for [`Reader::verify`].
//!
//! # Features
//!
//! - `mmap` (default): `tensor_core::Mmap`, an explicit `unsafe` constructor of a source.
//! - `parallel` (default): writing uses more than one thread; the bytes do not depend on it.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod checksum;
mod error;
mod index;
mod layout;
mod reader;
mod verify;
mod wire;
mod writer;

pub use checksum::Checksum;
pub use error::{Error, Fault, Result};
pub use index::{Index, IndexParser, Metadata};
pub use layout::{Plan, WriteOptions, can_hold};
pub use reader::{OpenOptions, Reader};
pub use tensor_core::write::TensorSpec;
pub use tensor_core::{self, DType, Level, Limits, Report, Source, TensorInfo, TensorView, Work};
pub use wire::Number;

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
