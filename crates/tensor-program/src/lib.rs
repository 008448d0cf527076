//! Describes as data how one tensor is computed from others.
//!
//! A [`Program`] is a tree of steps over numbered input tensors. Steps that move elements
//! ([`permuted`](Program::permuted), [`transposed`](Program::transposed), [`reshaped`](Program::reshaped),
//! [`sliced`](Program::sliced), [`concatenated`](Program::concatenated), [`stacked`](Program::stacked)) keep
//! them bit for bit, whatever the dtype. Steps that change the dtype ([`cast`](Program::cast),
//! [`dequantized`](Program::dequantized), [`quantized`](Program::quantized)) round each number once. Steps
//! that compute ([`plus`](Program::plus), [`times`](Program::times), [`sum`](Program::sum),
//! [`scaled`](Program::scaled), [`minus`](Program::minus), [`divided`](Program::divided),
//! [`low_rank`](Program::low_rank)) take `f32`. Numbers of a few bits are unpacked from bytes
//! ([`unpacked`](Program::unpacked)) and may be indices into a table ([`looked_up`](Program::looked_up)).
//! Dtypes and shapes are checked when a step is added.
//!
//! [`read`](Program::read) computes any range of the values and reads only the ranges of the inputs that it
//! needs. [`undone`](Program::undone) returns the programs that compute the inputs from the result. A program
//! prints its steps; [`steps`](Program::steps) lists them with the names of inputs.
//!
//! ```
//! use tensor_program::{DType, Program};
//!
//! // The rows of two heads of four, whose halves are interleaved.
//! let heads = Program::input(0, DType::BF16, &[8, 16]).reshaped(&[2, 2, 2, 16])?.permuted(&[0, 2, 1, 3])?.reshaped(&[8, 16])?;
//! assert_eq!(heads.to_string(), "reshape [2, 2, 2, 16], permute 0 2 1 3, reshape [8, 16]");
//! let back = heads.undone(Program::input(0, DType::BF16, &[8, 16]))?;
//! assert_eq!(back[0].1.to_string(), "reshape [2, 2, 2, 16], permute 0 2 1 3, reshape [8, 16]");
//! # Ok::<(), tensor_program::ProgramError>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

mod affine;
pub mod blocks;
mod cast;
mod compose;
mod error;
mod gather;
mod low_rank;
mod moves_first;
mod number;
mod packing;
mod print;
mod program;
mod read;
mod scaling;
#[cfg(test)]
mod tests;
mod types;
mod undo;
mod unpack;

pub use affine::Affine;
pub use cast::Lost;
pub use error::{ProgramError, ReadError, ValueError};
pub use packing::Packing;
pub use program::Program;
pub use read::Inputs;
pub use scaling::Scaling;
pub use tensor_core::DType;
pub use types::{holds_every_value, is_castable, is_number};

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
