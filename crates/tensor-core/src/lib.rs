//! The vocabulary that the modelfmt format crates share: what a tensor is ([`DType`], [`TensorInfo`], [`TensorView`]),
//! where bytes come from ([`Source`], [`Files`](source::Files)) and go to ([`mod@write`]), how an untrusted file is taken
//! apart ([`Cursor`], [`Extent`], [`Limits`], [`Parser`]) and read ([`Reader`], [`SetReader`]), and what can be said of one ([`Error`], [`Report`]).
//!
//! Depend on a format crate instead if you want to read files; they re-export what of this you need.
//!
//! # Example
//!
//! A view is a typed slice without a copy, or says why it cannot be one:
//!
//! ```
//! use tensor_core::{AlignedBuf, Bytes, DType, TensorInfo, TensorView};
//!
//! let bytes = AlignedBuf::copy_of(&[0, 0, 128, 63, 0, 0, 0, 64])?; // 1.0 and 2.0, little-endian
//! let tensor = TensorView::new(TensorInfo::new("w", DType::F32, &[2])?, Bytes::Owned(bytes))?;
//! assert_eq!(tensor.as_slice::<f32>()?, [1.0, 2.0]);
//! assert!(tensor.as_slice::<i32>().is_err());
//! assert_eq!(tensor.to_f64()?, [1.0, 2.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Platforms
//!
//! Everything builds for `wasm32-unknown-unknown`, where files and maps are left out and offsets stay 64 bits wide. On
//! big-endian machines everything works but zero-copy slices of elements wider than a byte, which are an error
//! ([`ViewError::Endianness`]); copying and decoding swap bytes.
//!
//! # Features
//!
//! - `mmap` (default): [`Mmap`], an explicit `unsafe` constructor with its contract.
//! - `parallel` (default): [`Work`] uses more than one thread. Results never depend on it.
//! - `json`: [`value::json`], metadata from and to JSON text.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod buffer;
mod container;
mod cursor;
mod dtype;
mod error;
mod extent;
mod format_g;
mod limits;
mod names;
mod parse;
pub mod quant;
mod reader;
mod report;
mod set;
mod shape;
pub mod source;
pub mod stats;
mod table;
pub mod value;
mod view;
mod work;
pub mod write;

pub use buffer::{ALIGNMENT, AlignedBuf, Bytes};
pub use container::Container;
pub use cursor::Cursor;
pub use dtype::{Block, DType, Kind, UnknownDType};
pub use error::{AnyError, AnyFault, Basic, Error, Fault, Part, Shortened};
pub use extent::{Extent, Overlap, align_up, overlaps};
pub use format_g::{G6, format_g6};
pub use half::{bf16, f16};
pub use limits::Limits;
pub use names::NameTable;
pub use parse::{Parser, drive, require_len};
pub use reader::{FileIndex, OpenOptions, Reader};
pub use report::{Check, Level, Report, Status, VerifyError};
pub use set::{MapError, SetReader, ShardMap};
pub use shape::{DisplayShape, element_count};
#[cfg(all(feature = "mmap", not(target_arch = "wasm32")))]
pub use source::Mmap;
pub use source::Source;
pub use table::{Encoding, Location, NewTensor, TableIter, TensorInfo, TensorTable};
pub use view::{Element, TensorView, ViewError};
pub use work::{PIECE, Progress, ScanError, Work};

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
