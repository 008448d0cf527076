//! Reads, writes and verifies AERO files (version 0.1), the chunked container for model weights, and AEROSET, its
//! form with several files.
//!
//! An AERO file is a header, a table of contents with names, and chunks: metadata as JSON and MessagePack, an index of
//! the tensors, and the weights in shards. Each chunk has a BLAKE3 hash; a file may also have hashes of the control
//! region (IHSH), of the pages of a shard (PHSH), and of each tensor (`hash_b3`). All numbers are little-endian.
//!
//! ```text
//! ┌──────────────────────────────┐ 0
//! │ header (96 bytes)            │ magic "AERO", version, where TOC and names are, identity
//! ├──────────────────────────────┤ 96
//! │ TOC: one entry per chunk     │ type, flags, offset, lengths, name, BLAKE3 of the content
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
//! │ …                            │ a TIDX with hashes of the tensors is here instead
//! └──────────────────────────────┘
//! ```
//!
//! # Saving and reading
//!
//! [`save()`] writes tensors that are in memory. Opening a file reads the control region and the tensor
//! index, never a weight. Each tensor is then one read.
//!
//! ```
//! use aero::value::Object;
//! use aero::{Reader, View};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.aero");
//! let metadata = Object::from_iter([("model_name", "tiny"), ("architecture", "none")]);
//! aero::save(&path, [("w", View::new(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?)], &metadata)?;
//!
//! let model = Reader::open(&path)?;   // "model.aero"
//! assert_eq!(model.metadata()?.required_str("model_name")?, "tiny");
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
//! If the source is in memory (a slice, a buffer, a map), tensors borrow from it. In files that this crate
//! writes, tensors are aligned to 64 bytes. AERO's own tool puts tensors end to end; use `to_vec` for those,
//! which copies. Mapping a file is `unsafe` (`modelfmt_core::Mmap`), because it relies on other processes not
//! changing the file.
//!
//! ```
//! # let path = "../../testdata/aero/hashes.aero";
//! use aero::Reader;
//! use aero::modelfmt_core::AlignedBuf;
//!
//! let bytes = AlignedBuf::copy_from_slice(&std::fs::read(path)?)?; // or a map: `unsafe { Mmap::open(path)? }`
//! let model = Reader::from_source(bytes)?;
//! let w = model.tensor("t.f32")?;                          // a part of `bytes`
//! # #[cfg(target_endian = "little")]
//! assert_eq!(w.as_slice::<f32>()?.len(), 15);              // the same bytes, or an error that says why not
//! assert!(w.into_bytes().is_borrowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Ranges
//!
//! Anything that answers "give me this range" is a [`Source`]: a browser's file handle, an HTTP client, an object
//! store. A part of a tensor is a range of the file, and can be checked by the pages that it touches.
//!
//! ```
//! # let path = "../../testdata/aero/hashes.aero";
//! use std::io;
//!
//! use aero::{Reader, Source};
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
//! #     aero::modelfmt_core::source::FileSource::open(path)?.read_into(offset, out)
//! # }
//! # let len = std::fs::metadata(path)?.len();
//! # let remote = || Remote { url: path.to_owned(), len };
//! let model = Reader::from_source(remote())?; // at most four ranges
//! let row = model.read_range("t.f32", 20..40)?; // the second row of 5 f32, and no other byte of the file
//! assert_eq!(*row, model.tensor("t.f32")?.bytes()[20..40]);
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
//! Opening checks the structure, and the hashes of the parts of the index that it reads. [`Reader::verify`]
//! checks all hashes. You can check a single tensor or range if the file has hashes for it.
//!
//! ```
//! # let path = "../../testdata/aero/hashes.aero";
//! use aero::{VerifyLevel, Reader};
//!
//! let model = Reader::open(path)?;
//! let report = model.verify(VerifyLevel::Full);          // on all cores; every finding, not only the first
//! for check in &report.checks {
//!     println!("{}: {} ({})", check.name, check.status.name(), check.detail);
//! }
//! report.into_result()?;                           // an error if anything was found
//!
//! let w = model.checked().tensor("t.f32")?;         // by its hash_b3
//! let part = model.checked().read_range(1, 8..16)?; // by the pages that it touches
//! assert_eq!(*part, w.bytes()[8..16]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Writing
//!
//! Describe all tensors first. The [`Plan`] checks everything and fixes every offset. Values are then pulled
//! and hashed piece by piece, so memory use does not depend on the model's size. Values come from a list of
//! byte slices, or from your own [`TensorData`]. The same input gives the same bytes, except for the file's
//! random identity ([`WriteOptions::uuid`]).
//!
//! ```
//! use aero::modelfmt_core::value::Object;
//! use aero::write::MemoryFile;
//! use aero::{DType, Plan, Reader, TensorSpec, Execution, WriteOptions};
//!
//! let metadata = Object::from_iter([("model_name", "tiny"), ("architecture", "demo")]);
//! let specs = [TensorSpec::new("w", DType::F32, vec![2, 2])];
//! let values = [[1.0f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat()];
//!
//! let options = WriteOptions::new().control_hash(true).tensor_hashes(true).page_hashes(Some(4 << 20));
//! # let options = options.uuid([7; 16]).zstd(None);
//! let plan = Plan::new(specs, &metadata, &options)?;
//! // To a path, where the file appears when it is complete (`Overwrite` says whether it may replace another):
//! // plan.write_file("model.aero", Overwrite::Refuse, &values, &Execution::default())?;
//! let file = MemoryFile::new();
//! plan.write(&values, &file, &Execution::default())?;
//!
//! let model = Reader::from_source(file.into_bytes())?;
//! assert_eq!(model.tensor("w")?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Sets
//!
//! An AEROSET is an index in JSON with the SHA-256 of its files, an AERO file that lists all tensors, and AERO files with
//! the values, called parts. A `SetPlan` writes them; a `SetReader` opens a part when you ask for one of its tensors.
//!
//! ```
//! # #[cfg(feature = "set")] {
//! use aero::modelfmt_core::value::Object;
//! use aero::write::MemoryFolder;
//! use aero::{DType, Execution, SetPlan, SetReader, TensorSpec, WriteOptions};
//!
//! let metadata = Object::from_iter([("model_name", "tiny"), ("architecture", "demo")]);
//! let specs = ["a", "b"].map(|name| TensorSpec::new(name, DType::U8, vec![1000]));
//! let options = WriteOptions::new().part_size(1500);
//! # let options = options.uuid([7; 16]).zstd(None);
//! let plan = SetPlan::new("model.aeroset.json", specs, &metadata, &options)?;
//! let folder = MemoryFolder::default(); // or plan.write_folder("models/", …)
//! plan.write(&[[1u8; 1000], [2; 1000]], &folder, &Execution::default())?;
//!
//! let model = SetReader::from_files(folder.files(), "model.aeroset.json")?; // or SetReader::open("models/")
//! assert_eq!(model.index().parts()[1].file.path, "model.part-001.aero");
//! assert_eq!(model.tensor("b")?.bytes(), [2; 1000]); // opens the second part only
//! # assert!(model.verify(aero::VerifyLevel::Full).is_ok());
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Chunks of your own
//!
//! [`ChunkWriter`] writes files with chunks of your own, and [`Reader::chunk`] reads any chunk.
//!
//! # Untrusted files
//!
//! No file makes this crate panic, or allocate more than a small multiple of the bytes that exist. You can
//! lower [`Limits`] further. An error names the record, the byte and the rule that it breaks ([`Fault`]).
//!
//! # Features
//!
//! - `zstd` (default): compressed index and manifest. Natively this uses the C library. On wasm32 it is a
//!   decoder in Rust, and writing needs [`WriteOptions::zstd`]`(None)`.
//! - `set` (default): AEROSET.
//! - `uuid` (default): random identities; native only.
//! - `mmap` (default): `modelfmt_core::Mmap`, a source over a memory map; its constructor is `unsafe`.
//! - `parallel` (default): hashing and writing on more than one core. Results and bytes never depend on it.
//!
//! The crate builds for `wasm32-unknown-unknown`, without file access. Offsets are 64 bits wide there too.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod chunk_writer;
mod chunks;
mod claims;
mod compress;
mod contents;
mod control;
mod edit;
mod error;
mod fourcc;
mod hashes;
mod hex;
mod index;
mod layout;
mod manifest;
mod msgpack;
mod options;
mod origin;
mod pages;
mod parser;
mod pinned;
mod reader;
#[cfg(not(target_arch = "wasm32"))]
mod save;
#[cfg(feature = "set")]
mod set;
mod tidx;
mod tied_tensors;
mod verify;
mod wire;
mod writer;

pub use chunk_writer::{ChunkWriter, NewChunk};
pub use chunks::{Chunk, Content};
pub use error::{EditError, Error, Fault, Hex, Result, WriteError};
pub use index::Index;
pub use layout::Plan;
pub use options::{DEFAULT_SHARD_SIZE, WriteOptions};
pub use origin::is_from_gguf;
pub use pages::{DEFAULT_PAGE_SIZE, PageHashes};
pub use pinned::{HeadProof, open_pinned, open_pinned_async};
pub use reader::{AsyncReader, OpenOptions, Reader, ReaderExt};
#[cfg(not(target_arch = "wasm32"))]
pub use save::save;
#[cfg(feature = "set")]
pub use set::{
    AsyncSetReader, FileProofs, SetFile, SetIndex, SetPart, SetPlan, SetReader, SetReaderExt, VerifiedFiles,
    sha256,
};
pub use tidx::Entry;
pub use wire::{ChunkFlags, FourCC, can_hold};

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
