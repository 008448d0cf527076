//! Reads and verifies PyTorch checkpoints (`.pt`, `.pth`, `.bin`, `.ckpt`) by ranges, without running any
//! code in them.
//!
//! A checkpoint is a pickle, and loading a pickle calls any functions that it names. This crate interprets
//! the opcodes but makes no calls: it finds the storages that hold the tensors, and reads these from the
//! file.
//!
//! ```text
//! since PyTorch 1.6: a zip archive          before
//! ┌────────────────────────────┐            ┌────────────────────────────┐
//! │ PREFIX/data.pkl            │ the object │ pickles: magic, version,   │
//! │ PREFIX/byteorder, version  │            │ system, object, keys       │
//! │ PREFIX/data/0, 1, …        │ storages   ├────────────────────────────┤
//! ├────────────────────────────┤            │ count, storage             │
//! │ directory                  │ CRC-32s    │ …                          │
//! └────────────────────────────┘            └────────────────────────────┘
//! ```
//!
//! # Reading
//!
//! Nested dictionaries become names with dots, the elements of lists are named by their positions, and a lone
//! tensor is called `tensor`. Numbers and texts next to tensors are metadata. Views are made contiguous.
//!
//! ```no_run
//! use modelfmt_pytorch::Reader;
//!
//! let model = Reader::open("pytorch_model.bin")?;      // reads the pickle but no storage
//! for tensor in model.tensors() {
//!     println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
//! }
//! for global in model.index().globals().iter().filter(|global| !global.is_known) {
//!     println!("torch.load would import {}.{}", global.module, global.name);
//! }
//! let w = model.tensor("model.embed_tokens.weight")?;  // reads one range
//! println!("{:?}", w.to_f32()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Unknown globals
//!
//! The classes and functions that a pickle names are compared, by full module and name, with a list of those
//! that only build plain values and tensors. Any other is an error if a tensor depends on it, and otherwise a
//! [warning](Index::warnings). Nothing is ever called.
//!
//! # Verifying
//!
//! An archive has a CRC-32 of each record. [`Reader::verify`](modelfmt_core::Reader::verify) checks them, and
//! so do reads through [`Reader::checked`](modelfmt_core::Reader::checked). The older form has no checksum.
//!
//! # Untrusted files
//!
//! No file makes this crate panic, recurse, or allocate more than a small multiple of the bytes that exist.
//! You can lower [`Limits`] further. An error names the record, the byte and the rule that it breaks
//! ([`Fault`]).
//!
//! # Features
//!
//! - `mmap` (default): `modelfmt_core::Mmap`, a source over a memory map; its constructor is `unsafe`.
//! - `parallel` (default): verifying on more than one core. Results never depend on it.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod checkpoint;
mod claims;
mod error;
mod index;
mod parser;
mod pickle;
mod reader;
mod set;
mod tensor;
mod verify;

pub use checkpoint::{Named, TENSOR, named_in};
pub use error::{Error, Fault, Result};
pub use index::{Form, Index};
pub use parser::{IndexParser, Root};
pub use reader::{AsyncReader, OpenOptions, Reader};
pub use set::{AsyncSetReader, SetIndex, SetReader};

pub use modelfmt_arrays as arrays;

// The parts of modelfmt-core that every format crate re-exports.
#[cfg(all(feature = "mmap", not(target_arch = "wasm32")))]
pub use modelfmt_core::Mmap;
pub use modelfmt_core::{
    self, AlignedBuf, Bytes, Container, DType, Encoding, Execution, Limits, Location, Part, Report, Source,
    Status, TensorInfo, TensorTable, TensorView, VerifyLevel, source, value,
};

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
