//! APR2 model files: read, written and verified. APR1 files are read through the same types.
//!
//! ```text
//! byte 0  ┌──────────────────────────────────────────────────────────────┐
//!         │ header, 32 bytes: magic APR2, version, flags, five offsets   │
//!     32  │ metadata: a JSON object                                      │
//!         │ tensor index: count, then name, dtype, dims, offset, sizes   │
//!         │ zeros up to a multiple of 64                                 │
//!  data   │ tensor 0, at a multiple of 64 (or 32): raw, or LZ4 blocks    │
//!         │ tensor 1 …                                                   │
//!         │ footer, 16 bytes: CRC-32 of all before it, 2RPA, file size   │
//!         └──────────────────────────────────────────────────────────────┘
//! ```
//!
//! # Reading
//!
//! Opening reads header, metadata, index and footer, and checks all that they claim; one tensor is one read. A file may be
//! sharded: then its manifest is opened, see [`shards`].
//!
//! ```
//! # let plan = apr2::Plan::new([apr2::TensorSpec::new("encoder.conv1.weight", apr2::DType::F32, vec![2, 2])],
//! #     &apr2::Metadata::new("tiny", Default::default()), &apr2::WriteOptions::new())?;
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.apr");
//! # plan.write_file(&path, Default::default(), &[[0u8; 16]], &Default::default())?;
//! let model = apr2::Reader::open(&path)?;
//! println!("{}", model.index().metadata().model_type()?);
//! for tensor in model.tensors() {
//!     println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
//! }
//! let weight = model.tensor("encoder.conv1.weight")?;
//! let weight: &[f32] = weight.as_slice()?;
//! assert_eq!(weight.len(), 4);
//!
//! let mut part = [0; 8]; // the second row; of a compressed tensor, only the blocks that hold it are decoded
//! model.read_into(0, 8, &mut part)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Without a copy
//!
//! Over bytes in memory or a map, raw tensors are views of the source. A map is a promise about what other processes do to
//! the file, so making one is `unsafe`: [`Mmap`].
//!
//! ```
//! # let plan = apr2::Plan::new([apr2::TensorSpec::new("w", apr2::DType::U8, vec![3])],
//! #     &apr2::Metadata::new("tiny", Default::default()), &apr2::WriteOptions::new())?;
//! # let file = apr2::write::MemoryFile::new();
//! # plan.write(&[[1u8, 2, 3]], &file, &apr2::Work::default())?;
//! # let bytes = file.into_bytes();
//! let model = apr2::Reader::from_source(&bytes[..])?;
//! let values: &[u8] = model.tensor_slice("w")?;
//! assert_eq!(values, [1, 2, 3]);
//! # Ok::<(), apr2::Error>(())
//! ```
//!
//! # From far away
//!
//! [`Source`] is all that a browser's file handle or an HTTP client has to implement. [`StreamingLoader`] loads metadata
//! alone, the index alone, one tensor, and [prefetches](prefetch()) several in few reads; [`IndexParser`] parses
//! without doing I/O, for asynchronous callers.
//!
//! # Writing
//!
//! A [`Plan`] is made from descriptions and metadata; then values are pulled in pieces, so memory does not grow with the
//! model. The CRC is computed in that same pass, and compression uses every core. The same input gives the same bytes.
//!
//! ```
//! # #[cfg(feature = "lz4")] {
//! use apr2::{Compression, DType, Metadata, Plan, TensorSpec, Work, WriteOptions, write::MemoryFile};
//!
//! let metadata = Metadata::new("whisper", [("n_mels", 80)].into_iter().collect());
//! let specs = [TensorSpec::new("a", DType::F32, vec![256]), TensorSpec::new("b", DType::I8, vec![3])];
//! let plan = Plan::new(specs, &metadata, &WriteOptions::new().compression(Compression::Lz4))?;
//! let values: [&[u8]; 2] = [&[0; 1024], &[1, 2, 3]];
//! let file = MemoryFile::new(); // or `plan.write_file("model.apr", …)`
//! plan.write(&values, &file, &Work::default())?;
//!
//! let model = apr2::Reader::from_source(file.into_bytes())?;
//! assert_eq!(model.tensor("b")?.bytes(), [1, 2, 3]);
//! # }
//! # Ok::<(), apr2::Error>(())
//! ```
//!
//! # Verifying
//!
//! ```
//! # use apr2::{Level, Metadata, Plan, WriteOptions, Work, write::MemoryFile};
//! # let plan = Plan::new([], &Metadata::new("tiny", Default::default()), &WriteOptions::new())?;
//! # let file = MemoryFile::new();
//! # plan.write(&[[0u8; 0]; 0], &file, &Work::default())?;
//! # let mut bytes = file.into_bytes();
//! # bytes[40] ^= 32;
//! let report = apr2::Reader::from_source(bytes)?.verify(Level::Full);
//! assert!(!report.is_ok());
//! for finding in &report.errors {
//!     println!("{finding}");
//! }
//! # Ok::<(), apr2::Error>(())
//! ```
//!
//! # Features
//!
//! - `lz4` (default): compressed tensors. Without it they are listed, and reading one is an error.
//! - `parallel` (default): blocks and CRCs on more than one core. Results never depend on it.
//! - `mmap` (default): [`Mmap`].
//!
//! Everything builds for `wasm32-unknown-unknown`, and offsets are 64 bits wide there too.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod apr1;
mod blocks;
#[cfg(feature = "lz4")]
mod compress;
mod crc;
mod error;
mod index;
mod layout;
mod metadata;
mod parser;
mod prefetch;
mod reader;
pub mod shards;
mod stream;
mod values;
mod verify;
mod wire;
mod writer;

pub use error::{Error, Fault, Result};
pub use index::{Generation, Index, Sections};
pub use layout::{Alignment, Compression, Plan, WriteOptions};
pub use metadata::{MelFilterbank, Metadata, Quantization};
pub use parser::IndexParser;
pub use prefetch::{Prefetched, prefetch};
pub use reader::{OpenOptions, Reader};
pub use shards::{Manifest, SetPlan, SetReader, Shard};
pub use stream::StreamingLoader;
pub use wire::{Flags, dtypes};

#[cfg(all(feature = "mmap", not(target_arch = "wasm32")))]
pub use tensor_core::Mmap;
#[cfg(not(target_arch = "wasm32"))]
pub use tensor_core::source::{FileSource, Folder};
pub use tensor_core::write::{self, TensorData, TensorSpec};
pub use tensor_core::{
    self, Bytes, Container, DType, Encoding, Level, Limits, Location, Report, Source, TensorInfo, TensorView,
    Work,
};

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
