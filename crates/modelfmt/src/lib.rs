//! One library for the files that hold the weights of neural networks: AERO, MAG, OINF, APR2, safetensors and GGUF.
//!
//! A [`Model`] is an open file of any format, told by its content. Opening reads the index and checks all of it; a tensor
//! reads one range. What the program `modelfmt` does is here: [`Model::inspect`], [`show()`], [`verify()`], [`convert()`],
//! [`extract()`], [`diff()`].
//!
//! ```
//! use modelfmt::{ConvertOptions, Format, Level, Model, Work, convert_to_sink};
//! use modelfmt::tensor_core::write::MemoryFile;
//!
//! # let header = br#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  "#;
//! # let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
//! # bytes.extend(header);
//! # bytes.extend([1.0f32, 2.0].map(f32::to_le_bytes).concat());
//! let model = Model::from_source("tiny.safetensors", bytes)?; // or Model::open("model.safetensors")?
//! for tensor in model.tensors() {
//!     println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
//! }
//! assert_eq!(model.tensor("w")?.to_vec::<f32>()?, [1.0, 2.0]); // as_slice is zero-copy, or says why not
//! model.verify(Level::Full).into_result()?;
//!
//! let file = MemoryFile::new(); // or convert(&model, Format::Aero, "tiny.aero", …): the file appears when complete
//! convert_to_sink(&model, Format::Aero, &file, &ConvertOptions::default(), &Work::default())?;
//! let aero = Model::from_source("tiny.aero", file.into_bytes())?;
//! assert!(modelfmt::diff(&model, &aero, &Work::default())?.changed.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What is peculiar to a format is reached through its own reader: [`Model::as_aero`] and its siblings. Who needs one
//! format depends on its crate alone.
//!
//! # Features
//!
//! All are on by default, and they only add.
//!
//! - `all-formats`, or of it `aero`, `mag`, `oinf`, `apr2`, `safetensors`, `gguf`. A format that is switched off is
//!   still told ([`Error::NotEnabled`]).
//! - `mmap`: [`tensor_core::Mmap`], for [`Model::from_source`]; an explicit `unsafe` constructor.
//! - `parallel`: work is done on more than one core; results never depend on it.
//! - `npy`: [`ExtractAs::Npy`].
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod convert;
mod diff;
mod error;
#[cfg(not(target_arch = "wasm32"))]
mod extract;
mod format;
mod inspect;
mod model;
mod open;
mod printable;
mod show;
mod values;
mod verify;

#[cfg(not(target_arch = "wasm32"))]
pub use convert::convert;
pub use convert::{Conversion, ConvertOptions, Converted, convert_to_sink};
pub use diff::{Changed, Diff, MetadataDiff, Renamed, ValueDiff, diff};
pub use error::{Error, Result};
#[cfg(not(target_arch = "wasm32"))]
pub use extract::{ExtractAs, extract};
pub use format::{Format, PROBE, UnknownFormat};
pub use globset;
pub use inspect::{InspectOptions, InspectedTensor, Inspection};
pub use model::{Model, OpenOptions};
pub use printable::Printable;
pub use show::{show, show_tensors, stats};
pub use tensor_core::value::{Object, Value, json};
pub use tensor_core::write::Overwrite;
pub use tensor_core::{
    self, Bytes, Container, DType, Encoding, Level, Limits, Location, Report, Source, Status, TensorInfo,
    TensorView, Work,
};
pub use verify::FileReport;
#[cfg(not(target_arch = "wasm32"))]
pub use verify::verify;

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
