//! Reads and writes the files that hold the weights of neural networks: AERO, MAG, OINF, APR, APR2,
//! safetensors and GGUF.
//!
//! A [`Model`] is an open file of any format, which is detected by its content. This crate also has the
//! functions of the program `modelfmt`: [`verify()`], [`Conversion`], [`edit()`], and those of the modules
//! [`mod@inspect`], [`show`], [`check`], [`extract`] and [`diff`].
//!
//! ```text
//!      path, bytes, or a Source of your own
//!                       │
//!                       ▼
//!             Format::detect  (by content)
//!                       │
//!  ┌──────┬──────┬──────┼──────┬──────┬─────────────┬─────┐
//!  ▼      ▼      ▼      ▼      ▼      ▼             ▼     │
//! aero   mag    oinf   apr2   apr   safetensors   gguf    │ each its own crate and feature
//!  └──────┴──────┴──────┼──────┴──────┴─────────────┴─────┘
//!                       ▼
//!    Model: tensors, values, metadata, verify
//!                       │
//!    inspect   show   extract   diff   convert ──▶ any format but APR1
//! ```
//!
//! If you need a feature of one format, use the format's own reader ([`Model::as_aero`] and its siblings, or [`Model::reader`]) and
//! its own crate, which is re-exported ([`aero`] and its siblings). If you need only one format, depend on its crate; the names are
//! the same.
//!
//! # Reading
//!
//! Opening reads and checks the whole index, but no values. Reading a tensor is one read of the file. Open a set of files by its
//! index.
//!
//! ```
//! # let path = "../../testdata/reference/one-shard.aero";
//! use modelfmt::Conversion;
//! use modelfmt::{Format, Model};
//!
//! let model = Model::open(path)?;             // "model.aero", or whatever it is
//! assert_eq!(model.format(), Format::Aero);
//! for tensor in &model {
//!     println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
//! }
//! let w = model.tensor("embed.weight")?;      // reads one range
//! let values: Vec<f32> = w.to_vec()?;         // always works
//! assert_eq!(values.len(), 128);
//! let decoded = modelfmt::to_f32(&model.tensor("blk.0.q4_0")?)?; // any type: converted, blocks decoded
//! assert_eq!(decoded.len(), 64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Without a copy
//!
//! If the source is in memory (a slice, a buffer, a map), tensors borrow from it. Mapping a file is `unsafe`,
//! because it relies on other processes not changing the file: `Mmap`.
//!
//! ```
//! # let path = "../../testdata/reference/one-shard.aero";
//! use modelfmt::{AlignedBuf, Model};
//!
//! let bytes = AlignedBuf::copy_from_slice(&std::fs::read(path)?)?; // or a map: `unsafe { Mmap::open(path)? }`
//! let model = Model::from_source("model.aero", bytes)?;
//! let w = model.tensor("embed.weight")?;                   // a part of `bytes`
//! # #[cfg(target_endian = "little")]
//! assert_eq!(w.as_slice::<f32>()?.len(), 128);             // the same bytes, or an error that says why not
//! assert!(w.into_bytes().is_borrowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Ranges
//!
//! Anything that can return a range of bytes is a [`Source`]: a browser's file handle, an HTTP client, an
//! object store. A part of a tensor is a range of the file. If the tensor is compressed, only the blocks that
//! contain the part are decoded.
//!
//! ```
//! # let path = "../../testdata/reference/one-shard.aero";
//! use std::io;
//!
//! use modelfmt::{Model, Source};
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
//! #     modelfmt::modelfmt_core::source::FileSource::open(path)?.read_into(offset, out)
//! # }
//! # let remote = Remote { url: path.to_owned(), len: std::fs::metadata(path)?.len() };
//! let model = Model::from_source("https://example.org/model.aero", remote)?; // reads the index
//! let row = model.read_range("embed.weight", 32..64)?;                       // the second row of 8 f32, and no other byte
//! assert_eq!(*row, model.tensor("embed.weight")?.bytes()[32..64]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! If your store is asynchronous, implement [`Fetch`](modelfmt_core::Fetch) and
//! [`FetchFiles`](modelfmt_core::FetchFiles) instead, and use [`AsyncModel`].
//!
//! # Verifying
//!
//! Opening fails if a tensor would be unreadable. Verification checks every checksum, every hash and every rule of the format;
//! [`verify()`] also reports on files that cannot be opened.
//!
//! ```
//! # let path = "../../testdata/reference/one-shard.aero";
//! use modelfmt::{VerifyLevel, Execution};
//!
//! let file = modelfmt::verify(path, VerifyLevel::Full, &Execution::default()); // on all cores; every finding, not only the first
//! for check in &file.report.checks {
//!     println!("{}: {} ({})", check.name, check.status.name(), check.detail);
//! }
//! file.report.into_result()?;                                       // an error if anything was found
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Writing
//!
//! A [`Conversion`] writes a model in another format and loses nothing silently; [`mod@convert`] says what
//! each format can hold. To write tensors that are in memory, call [`save()`]. If your values are not in
//! memory, or you need options of a format, use the `Plan` type of the format's crate.
//!
//! ```
//! use modelfmt::{Model, Object, View};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.apr");
//! let metadata = Object::from_iter([("license", "MIT")]);
//! let w = View::new(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?; // the dtype comes from the slice
//! modelfmt::save(&path, [("w", w)], &metadata)?;        // "model.apr", "model.aero", …: the extension chooses the format
//! assert_eq!(Model::open(&path)?.tensor("w")?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```
//! # let path = "../../testdata/reference/one-shard.aero";
//! use modelfmt::diff::diff;
//! use modelfmt::modelfmt_write::MemoryFile;
//! use modelfmt::{Conversion, Execution, Format, Model};
//!
//! let model = Model::open(path)?;
//! let file = MemoryFile::new(); // or Conversion::new(&model, "model.apr")… .write(): the file appears when it is complete
//! Conversion::to_format(&model, Format::Apr2)
//!     .rule("cast {double,int.*}=f32".parse()?) // APR2 has neither f64 nor u64; without a name only floats are cast
//!     .widen()
//!     .write_to_sink(&file)?;
//!
//! let apr2 = Model::from_source("model.apr", file.into_bytes())?;
//! assert_eq!(apr2.tensor("embed.weight")?.bytes(), model.tensor("embed.weight")?.bytes());
//! for changed in diff(&model, &apr2, &Execution::default())?.changed {
//!     println!("{}", changed.name);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Untrusted files
//!
//! No file makes this crate panic, or allocate more than a small multiple of the bytes that exist. You can
//! lower [`Limits`] further ([`OpenOptions::limits`]). Errors name the file, the record, the byte and the
//! rule.
//!
//! # Features
//!
//! All features are on by default, except `direct`, `bom`, `report`, `sign` and `seal`. A feature only adds
//! things: it never changes a result or a byte. Without features the crate builds for every target, including
//! `wasm32-unknown-unknown`.
//!
//! | feature | adds | pulls in |
//! | --- | --- | --- |
//! | `aero` | AERO, AEROSET | `modelfmt-aero`: blake3, rmp-serde, sha2, uuid; zstd, a C library (on wasm32 ruzstd, which reads only) |
//! | `mag` | MAG | `modelfmt-mag`: crc32c, crc32fast |
//! | `oinf` | OINF | `modelfmt-oinf` |
//! | `apr2` | APR2, alone and sharded; APR1 | `modelfmt-apr2`: crc32fast, lz4_flex |
//! | `apr` | APR as aprender writes it | `modelfmt-apr`: crc32fast, lz4_flex, ruzstd |
//! | `safetensors` | safetensors, alone and sharded | `modelfmt-safetensors` |
//! | `gguf` | GGUF | `modelfmt-gguf` |
//! | `pytorch` | checkpoints of PyTorch, read only | `modelfmt-pytorch`: crc32fast, miniz_oxide |
//! | `npy` | `.npy` and `.npz`, read only | `modelfmt-npy`: crc32fast, miniz_oxide |
//! | `all-formats` | the nine above | |
//! | `mmap` | [`Mmap`], a source over a memory map for [`Model::from_source`]; its constructor is `unsafe` | memmap2 |
//! | `parallel` | work on more than one core | nothing |
//! | `direct` | on Linux, [`Model::load`] can bypass the page cache, or let it drop what was read | rustix |
//! | `free-space` | on Unix, a conversion fails at once if the disk has no room for its output | rustix |
//! | `extract-npy` | [`extract::ExtractAs::Npy`], [`extract::ExtractAllAs::Npz`] | `modelfmt-npy` |
//! | `bom` | bills of materials ([`mod@bom`]) | sha2, spdx |
//! | `report` | pages of HTML ([`mod@report`]) | sha2, spdx |
//! | `sign` | signatures next to files and folders, and their keys | `modelfmt-keys`, `modelfmt-oms` |
//! | `seal` | signed and encrypted APR2 files | `modelfmt-apr2-seal`, `modelfmt-keys` |
//! | `aws-lc-rs` | encrypted files are read and written faster, in the same bytes; not on wasm32 | aws-lc-rs, which needs a C compiler |
//!
//! A disabled format is still detected ([`Error::NotEnabled`]). The format crates have their own features,
//! and this crate enables these: `zstd`, `set` and `uuid` of `modelfmt-aero`, `lz4` of `modelfmt-apr2`, `lz4`
//! and `zstd` of `modelfmt-apr`.
#![cfg_attr(docsrs, feature(doc_cfg))]

// What most programs need. The rest is in the modules, by subject.
#[doc(inline)]
pub use modelfmt_convert::convert::{self, Conversion};
#[doc(inline)]
pub use modelfmt_convert::prove;
#[cfg(not(target_arch = "wasm32"))]
#[doc(inline)]
pub use modelfmt_convert::{convert::save, extract};
#[cfg(all(feature = "mmap", not(target_arch = "wasm32")))]
#[cfg_attr(docsrs, doc(cfg(feature = "mmap")))]
pub use modelfmt_core::Mmap;
pub use modelfmt_core::value::{self, Object, Value};
pub use modelfmt_core::{
    AlignedBuf, Bytes, DType, Execution, Limits, Location, Source, TensorInfo, TensorView, VerifyLevel, View,
    bf16, f16,
};
#[cfg(not(target_arch = "wasm32"))]
#[doc(inline)]
pub use modelfmt_edit::edit::{self, edit};
#[cfg(feature = "seal")]
#[cfg_attr(docsrs, doc(cfg(feature = "seal")))]
#[doc(inline)]
pub use modelfmt_edit::seal;
#[cfg(feature = "bom")]
#[cfg_attr(docsrs, doc(cfg(feature = "bom")))]
#[doc(inline)]
pub use modelfmt_inspect::bom;
#[cfg(feature = "report")]
#[cfg_attr(docsrs, doc(cfg(feature = "report")))]
#[doc(inline)]
pub use modelfmt_inspect::report;
#[doc(inline)]
pub use modelfmt_inspect::{check, diff, inspect, show};
#[cfg(not(target_arch = "wasm32"))]
#[doc(inline)]
pub use modelfmt_model::outboard;
#[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
#[cfg_attr(docsrs, doc(cfg(feature = "policy")))]
#[doc(inline)]
pub use modelfmt_model::policy;
#[cfg(all(feature = "sign", not(target_arch = "wasm32")))]
#[cfg_attr(docsrs, doc(cfg(feature = "sign")))]
#[doc(inline)]
pub use modelfmt_model::signed;
#[cfg(not(target_arch = "wasm32"))]
#[doc(inline)]
pub use modelfmt_model::verify::verify;
#[doc(inline)]
pub use modelfmt_model::{
    AsyncCheckedModel, AsyncModel, Error, Format, Model, OpenOptions, Pin, Result, Target, folder, model,
    verify,
};
#[doc(inline)]
pub use modelfmt_rules::wording;

// Re-exported crates: the shared ones, and one for each format.
pub use ggml_quant::{self, to_f32};
pub use {modelfmt_core, modelfmt_write};

#[cfg(feature = "aero")]
#[doc(no_inline)]
pub use aero;
#[cfg(feature = "apr")]
#[doc(no_inline)]
pub use apr;
#[cfg(all(feature = "apr2", not(feature = "seal")))]
#[doc(no_inline)]
pub use apr2;
// `apr2_seal` has the same names, and adds signing and encryption.
#[cfg(feature = "seal")]
#[doc(no_inline)]
pub use apr2_seal as apr2;
#[cfg(feature = "mag")]
#[doc(no_inline)]
pub use mag;
#[cfg(feature = "gguf")]
#[doc(no_inline)]
pub use modelfmt_gguf as gguf;
#[cfg(any(feature = "seal", feature = "sign"))]
#[doc(no_inline)]
pub use modelfmt_keys as keys;
#[cfg(feature = "npy")]
#[doc(no_inline)]
pub use modelfmt_npy as npy;
#[cfg(feature = "sign")]
#[doc(no_inline)]
pub use modelfmt_oms as oms;
#[cfg(feature = "pytorch")]
#[doc(no_inline)]
pub use modelfmt_pytorch as pytorch;
#[cfg(feature = "safetensors")]
#[doc(no_inline)]
pub use modelfmt_safetensors as safetensors;
#[cfg(feature = "oinf")]
#[doc(no_inline)]
pub use oinf;

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The example of the repository's README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FrontPage;
