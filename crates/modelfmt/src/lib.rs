//! One library for the files that hold the weights of neural networks.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod convert;
mod diff;
mod error;
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
    self, Bytes, Container, DType, Encoding, Level, Limits, Location, Report, Source, Status, TensorInfo, TensorView,
    Work,
};
pub use verify::{FileReport, verify};
