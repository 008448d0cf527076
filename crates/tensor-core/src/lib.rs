//! Describes tensors and holds their values: dtypes ([`DType`]), shapes, aligned buffers ([`AlignedBuf`]) and
//! typed views of bytes ([`TensorView`]).
//!
//! This crate reads no files. An inference engine can use it to take tensors from any crate of modelfmt, or from its own
//! loader. It depends only on `bytemuck` and `half`, and has no `unsafe`.
//!
//! # Views
//!
//! A tensor is a description ([`TensorInfo`]) and its bytes, little-endian and row-major. You can always copy
//! and convert the values.
//!
//! ```
//! use tensor_core::{AlignedBuf, Bytes, DType, TensorInfo, TensorView};
//!
//! let bytes = AlignedBuf::copy_from_slice(&[0, 0, 128, 63, 0, 0, 0, 64])?; // 1.0 and 2.0
//! let tensor = TensorView::new(TensorInfo::new("w", DType::F32, &[2])?, Bytes::Owned(bytes))?;
//! assert_eq!(tensor.to_vec::<f32>()?, [1.0, 2.0]);
//! assert_eq!(tensor.to_f64()?, [1.0, 2.0]); // numbers of any type
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Without a copy
//!
//! [`TensorView::as_slice`] returns a typed slice of the bytes themselves, or an error if that is impossible:
//! the type is different, the bytes are not aligned, or the machine has another byte order.
//!
//! ```
//! use tensor_core::{AlignedBuf, Bytes, DType, TensorError, TensorInfo, TensorView};
//!
//! let file = AlignedBuf::copy_from_slice(&[0, 0, 0, 0, 128, 63, 0, 0, 0, 64])?;
//! let info = TensorInfo::new("w", DType::F32, &[2])?;
//! let tensor = TensorView::new(info, Bytes::Borrowed(&file[2..]))?; // at byte 2, but f32 needs a multiple of 4
//! # #[cfg(target_endian = "little")]
//! assert_eq!(tensor.as_slice::<f32>(), Err(TensorError::Unaligned { alignment: 4 }));
//! assert!(matches!(tensor.as_slice::<i32>(), Err(TensorError::DType { .. })));
//! assert_eq!(tensor.to_vec::<f32>()?, [1.0, 2.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Small numbers
//!
//! Floats of 8, 6 and 4 bits and integers of 4, 2 and 1 bits have no Rust type. [`TensorView::to_f32`]
//! returns their values, which f32 holds exactly, and [`SmallType`] turns codes into numbers and back.
//!
//! # Blocks
//!
//! ggml's block types (`q4_0`, `q6_k` and so on) are dtypes with a size here. The crate `ggml-quant` decodes their values.
//!
//! On big-endian machines everything works except zero-copy slices of elements wider than a byte, which are an error
//! ([`TensorError::Endianness`]); copying swaps bytes.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod buffer;
mod dtype;
mod error;
mod info;
mod sentence;
mod shape;
mod small;
mod view;

pub use buffer::{ALIGNMENT, AlignedBuf, Bytes};
pub use dtype::{Block, DType, Kind, UnknownDType};
pub use error::TensorError;
pub use half::{bf16, f16};
pub use info::{TensorInfo, implied_nbytes};
#[doc(hidden)]
pub use sentence::write_sentence;
pub use shape::{DisplayShape, element_count};
pub use small::SmallType;
pub use view::{Element, TensorView, View};

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
