//! Reads and verifies [GGUF](https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) files of versions 2 and 3.
//!
//! ```text
//! byte 0   "GGUF", u32 version, u64 number of tensors, u64 number of metadata entries; all little-endian
//!     24   metadata: key, type, value — text and arrays with their lengths before them
//!          records: name, u32 rank, u64 dimensions (fastest first), u32 type, u64 offset from the start of the data
//!          zeros to a multiple of general.alignment (32 without it)
//!          the data: tensors, each at a multiple of the alignment
//! ```
//!
//! Shapes are given slowest dimension first, as everywhere in these crates: ggml's `[4096, 32]` is `[32, 4096]` here.
//! Quantized types are read as blocks and can be decoded ([`TensorView::to_f32`]); all types that ggml has are known.
//!
//! # Reading
//!
//! ```
//! use modelfmt_gguf::{DType, Reader};
//!
//! # let mut bytes = b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
//! # bytes.extend(b"\x0c\0\0\0\0\0\0\0general.name\x08\0\0\0\x04\0\0\0\0\0\0\0tiny");
//! # bytes.extend(b"\x01\0\0\0\0\0\0\0w\x02\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0");
//! # bytes.extend([0; 12]);
//! # bytes.resize(128, 0);
//! # bytes.extend([0, 0, 128, 63, 0, 0, 0, 64]);
//! let reader = Reader::from_source(&bytes[..])?; // Reader::open(path) for a file
//! assert_eq!(reader.index().metadata().get("general.name").and_then(|v| v.as_str()), Some("tiny"));
//!
//! let w = reader.tensor("w")?; // borrowed: `bytes` are in memory
//! assert_eq!((w.dtype(), w.shape()), (DType::F32, &[1, 2][..]));
//! assert_eq!(w.to_vec::<f32>()?, [1.0, 2.0]);
//!
//! let mut second = [0; 4];
//! reader.read_into(0, 4, &mut second)?; // a part of a tensor
//! assert_eq!(f32::from_le_bytes(second), 2.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Verifying
//!
//! The format has no checksum. What would make a tensor unreadable is refused when a file is opened; [`Reader::verify`] looks at
//! the rest: alignment, overlaps, padding, names, booleans.
//!
//! ```
//! # use modelfmt_gguf::{Level, Reader};
//! # let bytes = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
//! let report = Reader::from_source(&bytes[..])?.verify(Level::Full);
//! assert!(report.is_ok());
//! # Ok::<(), modelfmt_gguf::Error>(())
//! ```
//!
//! # Without I/O
//!
//! [`Index`] is what stands before the data: owned, checked, shareable. [`IndexParser`] makes one from ranges that somebody
//! else fetches, and [`Reader::with_index`] opens a source with one for free.
//!
//! # Features
//!
//! - `mmap` (default): [`tensor_core::Mmap`], to read from a memory map.
//! - `parallel` (default): verifying uses more than one thread.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
mod index;
mod metadata;
mod parser;
mod reader;
mod verify;
mod wire;

pub use error::{Error, Fault, Result};
pub use index::{Index, default_limits};
pub use metadata::{Array, MetaValue, Metadata};
pub use parser::IndexParser;
pub use reader::{OpenOptions, Reader};
pub use wire::ValueType;

pub use tensor_core::{
    self, Bytes, Container, DType, Level, Limits, Location, Parser, Part, Report, Source, TensorInfo,
    TensorView, Work, source, value,
};

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
