//! Reads, writes and verifies AERO files (version 0.1), the chunked container for model weights, and AEROSET, its
//! many-file form.
//!
//! An AERO file is a header, a table of contents with names, and chunks: metadata as JSON and MessagePack, an index of
//! the tensors, and the weights in shards. Each chunk has a BLAKE3 hash; a file may also have hashes of the
//! control region (IHSH), of the pages of a shard (PHSH), and of each tensor (`hash_b3`). All numbers are little-endian.
//!
//! ```text
//! ┌──────────────────────────────┐ 0
//! │ header (96 bytes)            │ magic "AERO", version, where TOC and names stand, identity
//! ├──────────────────────────────┤ 96
//! │ TOC: one entry a chunk       │ type, flags, offset, lengths, name, BLAKE3 of the content
//! ├──────────────────────────────┤
//! │ names of the chunks          │
//! ├──────────────────────────────┤ zeros to a multiple of 16 before each chunk, of 64 before a shard
//! │ IHSH  ihsh                   │ hash of everything above (if asked for)
//! │ MJSN  meta.json              │ the model's metadata
//! │ MMSG  manifest               │ what the file consists of
//! │ TIDX  tensors                │ name, dtype, shape, shard, offset of each tensor
//! │ WTSH  weights.shard0         │ values, each tensor at a multiple of 64
//! │ WTSH  weights.shard1         │
//! │ PHSH  weights.shard0.phsh    │ hashes of the shard's pages (if asked for)
//! │ …                            │ a TIDX with hashes of the tensors stands here instead
//! └──────────────────────────────┘
//! ```
//!
//! # Writing
//!
//! Describe all tensors first; the [`Plan`] checks everything, then values are pulled in pieces and hashed as they pass,
//! on several cores. Memory does not depend on the model's size.
//!
//! ```
//! use aero::{DType, Plan, TensorSpec, WriteOptions, Work};
//! use tensor_core::value::{Object, Value};
//! use tensor_core::write::MemoryFile;
//!
//! let metadata = Object::from_iter([("model_name", "tiny"), ("architecture", "demo")]);
//! let specs = [TensorSpec::new("w", DType::F32, vec![2, 2])];
//! let values = [[1.0f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat()];
//!
//! let options = WriteOptions::new().control_hash(true).tensor_hashes(true).page_hashes(Some(4 << 20));
//! # let options = options.uuid([7; 16]).zstd(None);
//! let plan = Plan::new(specs, &metadata, &options)?;
//! let file = MemoryFile::new(); // or plan.write_file("model.aero", …): the file appears when it is complete
//! plan.write(&values, &file, &Work::default())?;
//! # let reader = aero::Reader::from_source(file.into_bytes())?;
//! # assert_eq!(reader.tensor("w")?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`ChunkWriter`] writes files of chunks of your own.
//!
//! # Reading and verifying
//!
//! Opening reads the control region and the tensor index, never a weight. A tensor reads one range; over a source in
//! memory ([`Source`]: a slice, a vector, a map) it is a slice of it, without a copy.
//!
//! ```
//! # use aero::{DType, Plan, TensorSpec, WriteOptions, Work};
//! # let metadata = tensor_core::value::Object::from_iter([("model_name", "tiny"), ("architecture", "demo")]);
//! # let specs = [TensorSpec::new("w", DType::F32, vec![2, 2])];
//! # let values = [[1.0f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat()];
//! # let options = WriteOptions::new().control_hash(true).tensor_hashes(true).page_hashes(Some(4 << 20));
//! # let options = options.uuid([7; 16]).zstd(None);
//! # let file = tensor_core::write::MemoryFile::new();
//! # Plan::new(specs, &metadata, &options)?.write(&values, &file, &Work::default())?;
//! # let bytes = tensor_core::AlignedBuf::copy_of(&file.into_bytes())?;
//! use aero::{Level, Reader};
//!
//! let reader = Reader::from_source(bytes)?; // or Reader::open("model.aero")?
//! for tensor in reader.tensors() {
//!     println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
//! }
//! let w = reader.tensor("w")?;
//! # #[cfg(target_endian = "little")]
//! assert_eq!(w.as_slice::<f32>()?, [1.0, 2.0, 3.0, 4.0]); // zero-copy; files by others may not be aligned: to_vec
//!
//! let w = reader.tensor_verified("w")?; // by its hash_b3
//! let last = reader.read_range_verified(0, 12..16)?; // by the pages that it touches
//! assert_eq!(*last, 4.0f32.to_le_bytes());
//!
//! reader.verify(Level::Full).into_result()?;
//! assert_eq!(reader.json()?.unwrap_or_default().required_str("model_name")?, "tiny");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Reading over a network
//!
//! Anything that answers "give me this range" is a [`Source`]: two methods. Opening a file takes at most four ranges.
//!
//! ```
//! use std::io;
//!
//! use aero::{Reader, Source};
//! # use aero::{DType, Plan, TensorSpec, WriteOptions, Work};
//!
//! struct Remote {
//!     len: u64, // from a HEAD request
//! #   bytes: Vec<u8>,
//! }
//!
//! # impl Remote {
//! #     fn get(&self, offset: u64, out: &mut [u8]) -> io::Result<()> { self.bytes.read_into(offset, out) }
//! # }
//! impl Source for Remote {
//!     fn len(&self) -> u64 {
//!         self.len
//!     }
//!     fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
//!         // GET with `Range: bytes=offset-…`
//!         self.get(offset, out)
//!     }
//! }
//!
//! # let metadata = tensor_core::value::Object::from_iter([("model_name", "tiny"), ("architecture", "demo")]);
//! # let specs = [TensorSpec::new("w", DType::U8, vec![2])];
//! # let file = tensor_core::write::MemoryFile::new();
//! # let options = WriteOptions::new().uuid([7; 16]).zstd(None).page_hashes(Some(1));
//! # Plan::new(specs, &metadata, &options)?.write(&[[1u8, 2]], &file, &Work::default())?;
//! # let bytes = file.into_bytes();
//! # let remote = Remote { len: bytes.len() as u64, bytes };
//! let reader = Reader::from_source(remote)?;
//! let part = reader.read_range_verified(0, 1..2)?; // reads and hashes one page
//! # assert_eq!(*part, [2]);
//!
//! let index = reader.index().clone(); // shareable: with it, the next open reads nothing
//! # let bytes = reader.source().bytes.clone();
//! # let remote = Remote { len: bytes.len() as u64, bytes };
//! let again = Reader::with_index(index, remote)?;
//! # assert_eq!(again.tensor("w")?.bytes(), [1, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An asynchronous loader drives [`IndexParser`] itself: it says which range it needs next.
//!
//! # Features
//!
//! - `zstd` (default): compressed index and manifest. Natively the C library; on wasm32 a decoder in Rust, and writing
//!   needs [`WriteOptions::zstd`]`(None)`.
//! - `set` (default): AEROSET.
//! - `uuid` (default): random identities; native only.
//! - `mmap` (default): `tensor_core::Mmap`, an explicit `unsafe` constructor.
//! - `parallel` (default): hashing and writing use more than one thread; the bytes do not depend on it.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod chunk_writer;
mod chunks;
mod compress;
mod control;
mod error;
mod hashes;
mod index;
mod layout;
mod manifest;
mod msgpack;
mod pages;
mod parser;
mod reader;
#[cfg(feature = "set")]
mod set;
mod tidx;
mod verify;
mod wire;
mod writer;

pub use chunk_writer::{ChunkWriter, NewChunk};
pub use chunks::{Chunk, Content};
pub use error::{Error, Fault, Hex, Result};
pub use index::Index;
pub use layout::{DEFAULT_SHARD_SIZE, Plan, WriteOptions};
pub use pages::{DEFAULT_PAGE_SIZE, PageHashes};
pub use parser::IndexParser;
pub use reader::{OpenOptions, Reader};
#[cfg(feature = "set")]
pub use set::{SetFile, SetIndex, SetPart, SetPlan, SetReader};
pub use tensor_core::write::TensorSpec;
pub use tensor_core::{self, DType, Level, Limits, Report, Source, TensorInfo, TensorView, Work};
pub use tidx::Entry;
pub use wire::{ChunkFlags, FourCC, MAX_ENTRY_COUNT, MAX_METADATA_ULEN, MAX_STRING_TABLE, can_hold};

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
