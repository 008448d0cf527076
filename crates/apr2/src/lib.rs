//! Reads, writes and verifies APR2 model files (version 2.0), alone or sharded. APR1 files are read through
//! the same types.
//!
//! An APR2 file is a header, metadata as a JSON object, an index of the tensors, their values at multiples of 64 (or
//! 32) bytes, raw or in LZ4 blocks of 64 KiB, and a footer with the CRC of all before it. All numbers are
//! little-endian.
//!
//! ```text
//! ┌──────────────────────────────┐ 0
//! │ header (32 bytes)            │ magic "APR2", version, flags, offsets
//! ├──────────────────────────────┤ 32
//! │ metadata                     │ a JSON object
//! │ tensor index                 │ count, then name, dtype, dims, offset, sizes of each
//! ├──────────────────────────────┤ zeros to a multiple of 64 (or 32)
//! │ values of tensor 0           │ raw, or LZ4 blocks
//! ├──────────────────────────────┤ zeros to a multiple of 64 (or 32)
//! │ …                            │
//! ├──────────────────────────────┤ right behind the last value
//! │ footer (16 bytes)            │ CRC-32 of all before it, magic "2RPA", file size
//! └──────────────────────────────┘
//! ```
//!
//! # Saving and reading
//!
//! [`save()`] writes tensors that are in memory. Opening a file reads the header, the metadata, the index and
//! the footer, and checks everything that they claim. Each tensor is then one read, and is decompressed if
//! necessary.
//!
//! ```
//! use apr2::value::Object;
//! use apr2::{Metadata, Reader, View};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.apr");
//! let metadata = Metadata::new("whisper", Object::from_iter([("n_mels", 80)]));
//! apr2::save(&path, [("w", View::new(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?)], &metadata)?;
//!
//! let model = Reader::open(&path)?;   // "model.apr"
//! assert_eq!(model.metadata()?.model_type()?, "whisper");
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
//! If the source is in memory (a slice, a buffer, a map), tensors borrow from it. The format aligns them to
//! 64 or 32 bytes in the file. A compressed tensor is decoded into a buffer of its own. Mapping a file is
//! `unsafe` (`apr2::Mmap`), because it relies on other processes not changing the file.
//!
//! ```
//! # let path = "../../testdata/apr2/dtypes.apr";
//! use apr2::Reader;
//! use apr2::modelfmt_core::AlignedBuf;
//!
//! let bytes = AlignedBuf::copy_from_slice(&std::fs::read(path)?)?; // or a map: `unsafe { Mmap::open(path)? }`
//! let model = Reader::from_source(bytes)?;
//! let w = model.tensor("t.f32")?;                          // a part of `bytes`
//! # #[cfg(target_endian = "little")]
//! assert_eq!(w.as_slice::<f32>()?.len(), 192);             // the same bytes, or an error that says why not
//! assert!(w.into_bytes().is_borrowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Ranges
//!
//! Anything that answers "give me this range" is a [`Source`]: a browser's file handle, an HTTP client, an
//! object store. A part of a tensor is a range of the file. If the tensor is compressed, only the blocks that
//! hold the part are decoded.
//!
//! ```
//! # let path = "../../testdata/apr2/dtypes.apr";
//! use std::io;
//!
//! use apr2::{Reader, Source};
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
//! #     apr2::modelfmt_core::source::FileSource::open(path)?.read_into(offset, out)
//! # }
//! # let len = std::fs::metadata(path)?.len();
//! # let remote = || Remote { url: path.to_owned(), len };
//! let model = Reader::from_source(remote())?; // header, metadata, index, footer
//! let row = model.read_range("t.f32", 256..512)?; // the second row of 64 f32, and no other byte of the file
//! assert_eq!(*row, model.tensor("t.f32")?.bytes()[256..512]);
//!
//! // All tensors into one buffer of your own, each at a multiple of 64.
//! let room = |nbytes: u64| nbytes.next_multiple_of(64) as usize;
//! let mut weights = vec![0; model.tensors().iter().map(|tensor| room(tensor.nbytes)).sum()];
//! let mut rest = &mut weights[..];
//! for (position, tensor) in model.tensors().iter().enumerate() {
//!     let (taken, after) = rest.split_at_mut(room(tensor.nbytes));
//!     model.read_into(position, 0, &mut taken[..tensor.nbytes as usize])?;
//!     rest = after;
//! }
//! # assert_eq!(weights[..768], *model.tensor("t.f32")?.bytes());
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
//! Opening checks the structure. [`Reader::verify`] also checks the CRC of all bytes, decodes every LZ4
//! block, and looks for nonzero padding and overlaps.
//!
//! ```
//! # let path = "../../testdata/apr2/dtypes.apr";
//! use apr2::{VerifyLevel, Reader};
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
//! Describe all tensors first. The [`Plan`] checks everything. Values are then pulled piece by piece,
//! compressed on all cores, and added to the CRC, so memory use does not depend on the model's size. Values
//! come from a list of byte slices, or from your own [`TensorData`]. The same input gives the same bytes,
//! except that LZ4 blocks depend on the byte order and word size of the machine.
//!
//! ```
//! # #[cfg(feature = "lz4")] {
//! use apr2::write::MemoryFile;
//! use apr2::{Compression, DType, Metadata, Plan, Reader, TensorSpec, Execution, WriteOptions};
//!
//! let metadata = Metadata::new("whisper", [("n_mels", 80)].into_iter().collect());
//! let specs = [TensorSpec::new("a", DType::F32, vec![256]), TensorSpec::new("b", DType::I8, vec![3])];
//! let values: [&[u8]; 2] = [&[0; 1024], &[1, 2, 3]];
//!
//! let plan = Plan::new(specs, &metadata, &WriteOptions::new().compression(Compression::Lz4))?;
//! // To a path, where the file appears when it is complete (`Overwrite` says whether it may replace another):
//! // plan.write_file("model.apr", Overwrite::Refuse, &values, &Execution::default())?;
//! let file = MemoryFile::new();
//! plan.write(&values, &file, &Execution::default())?;
//!
//! let model = Reader::from_source(file.into_bytes())?;
//! assert_eq!(model.tensor("b")?.to_vec::<i8>()?, [1, 2, 3]);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Sets
//!
//! A sharded model consists of a manifest and shards, which are APR2 files themselves. A [`SetPlan`] writes
//! them; a [`SetReader`] opens a shard when you ask for one of its tensors.
//!
//! ```
//! use apr2::write::MemoryFolder;
//! use apr2::{DType, Execution, Metadata, SetPlan, SetReader, TensorSpec, WriteOptions};
//!
//! let metadata = Metadata::new("whisper", Default::default());
//! let specs = ["a", "b"].map(|name| TensorSpec::new(name, DType::U8, vec![1000]));
//! let plan = SetPlan::new("model.apr", specs, &metadata, &WriteOptions::new().shard_size(1500))?;
//! let folder = MemoryFolder::default(); // or `plan.write_folder("models/", …)`
//! plan.write(&[[1u8; 1000], [2; 1000]], &folder, &Execution::default())?;
//!
//! let model = SetReader::from_files(folder.files(), "model.apr")?; // or `SetReader::open("models/model.apr")`
//! assert_eq!(model.index().shard(1).unwrap().path, "model-00002-of-00002.apr");
//! assert_eq!(model.tensor("b")?.bytes(), [2; 1000]); // opens the second shard only
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Untrusted files
//!
//! No file makes this crate panic, or allocate more than a small multiple of the bytes that exist. You can
//! lower [`Limits`] further. An error names the record, the byte and the rule that it breaks ([`Fault`]).
//!
//! # Signed and encrypted files
//!
//! The crate `modelfmt-apr2-seal` reads and writes encrypted and signed files, and all others. This crate
//! refuses encrypted files. It reads the values of signed files, and [`Reader::verify`] reports that the
//! signature was not checked.
//!
//! # Features
//!
//! - `lz4` (default): compressed tensors. Without it, compressed tensors are listed, and reading one is an error.
//! - `mmap` (default): `modelfmt_core::Mmap`, a source over a memory map; its constructor is `unsafe`.
//! - `parallel` (default): blocks and CRCs on more than one core. Results and bytes never depend on it.
//!
//! The crate builds for `wasm32-unknown-unknown`, without file access. Offsets are 64 bits wide there too.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod apr1;
pub mod author;
mod blocks;
mod claims;
#[cfg(feature = "lz4")]
mod compress;
mod edit;
mod error;
mod index;
mod layout;
mod metadata;
mod parser;
mod reader;
#[cfg(not(target_arch = "wasm32"))]
mod save;
mod set;
mod stored;
mod values;
mod verify;
mod wire;
mod writer;
mod written;

pub use error::{EditError, Error, Fault, Result, SealFault, WriteError};
pub use index::{Generation, Index, Sections};
pub use layout::{Alignment, Compression, Plan, WriteOptions};
pub use metadata::{MelFilterbank, Metadata, Quantization};
pub use reader::{AsyncReader, OpenOptions, Reader};
#[cfg(not(target_arch = "wasm32"))]
pub use save::save;
pub use set::{AsyncSetReader, SetIndex, SetPlan, SetReader, Shard, shard_crc};
pub use wire::{Flags, can_hold};

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
