//! One file for each format that is written: how its crate is told what to write.

#[cfg(feature = "aero")]
mod aero;
#[cfg(feature = "apr2")]
mod apr2;
#[cfg(feature = "mag")]
mod mag;
#[cfg(feature = "oinf")]
mod oinf;
#[cfg(feature = "safetensors")]
mod safetensors;

use modelfmt_core::value::Value;
use modelfmt_core::write::{NewFiles, Sink, TensorData};
use modelfmt_core::{AnyError, Work};

use super::Conversion;
use super::fit::Misfit;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::model::Model;

/// Writes a model of one file.
pub(super) fn write_file(
    conversion: &Conversion<'_>,
    data: &dyn TensorData,
    sink: &dyn Sink,
    work: &Work<'_>,
) -> Result<(), AnyError> {
    match conversion.target {
        #[cfg(feature = "aero")]
        Format::Aero => aero::write(conversion, data, sink, work),
        #[cfg(feature = "mag")]
        Format::Mag => mag::write(conversion, data, sink, work),
        #[cfg(feature = "oinf")]
        Format::Oinf => oinf::write(conversion, data, sink, work),
        #[cfg(feature = "safetensors")]
        Format::Safetensors => safetensors::write(conversion, data, sink, work),
        #[cfg(feature = "apr2")]
        Format::Apr2 => apr2::write(conversion, data, sink, work),
        other => {
            let _ = (conversion, data, sink, work);
            Err(not_here(other))
        }
    }
}

/// Writes a model of several files, whose index has that name.
pub(super) fn write_set(
    conversion: &Conversion<'_>,
    data: &dyn TensorData,
    name: &str,
    files: &impl NewFiles,
    work: &Work<'_>,
) -> Result<(), AnyError> {
    match conversion.target {
        #[cfg(feature = "aero")]
        Format::AeroSet => aero::write_set(conversion, data, name, files, work),
        #[cfg(feature = "safetensors")]
        Format::SafetensorsSharded => safetensors::write_set(conversion, data, name, files, work),
        #[cfg(feature = "apr2")]
        Format::Apr2Sharded => apr2::write_set(conversion, data, name, files, work),
        other => {
            let _ = (conversion, data, name, files, work);
            Err(not_here(other))
        }
    }
}

/// The conversion has refused what is switched off or only read, so nobody sees this.
fn not_here(format: Format) -> AnyError {
    let source = std::io::Error::new(std::io::ErrorKind::Unsupported, format!("{format} is not written"));
    AnyError::Write { path: "the output".to_owned(), source }
}

/// What an AERO source has and no target can hold.
#[cfg(feature = "aero")]
pub(super) fn aero_losses(model: &Model, own: &mut Vec<Misfit>, losses: &mut Vec<Misfit>) -> Result<()> {
    aero::losses(model, own, losses)
}

#[cfg(not(feature = "aero"))]
#[allow(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
pub(super) const fn aero_losses(_: &Model, _: &mut Vec<Misfit>, _: &mut Vec<Misfit>) -> Result<()> {
    Ok(())
}

/// A metadata value in the form that OINF's own crate reads, or why there is none.
#[cfg(feature = "oinf")]
pub(super) fn oinf_value(key: &str, value: Value) -> Result<Value, String> {
    oinf::value(key, value)
}

#[cfg(not(feature = "oinf"))]
pub(super) fn oinf_value(_: &str, _: Value) -> Result<Value, String> {
    Err("the feature `oinf` is switched off".to_owned())
}

/// Names the source or the target in an error of a writer.
pub(super) fn failed(conversion: &Conversion<'_>, path: &std::path::Path, error: AnyError) -> Error {
    match error {
        AnyError::Data { name, source } => match source.downcast::<Error>() {
            Ok(reading) => *reading,
            Err(source) => Error::Values { path: conversion.model.path().to_owned(), tensor: name, source },
        },
        // The check of the values that a file of a set waits for.
        AnyError::Write { path, source } if source.get_ref().is_some_and(|inner| inner.is::<Error>()) => {
            let path = path.into();
            match source.downcast::<Error>() {
                Ok(error) => error,
                Err(source) => Error::Write { path, source },
            }
        }
        AnyError::Write { path, source } if source.kind() == std::io::ErrorKind::AlreadyExists => {
            Error::Exists { path: path.into() }
        }
        AnyError::Write { path, source } => Error::Write { path: path.into(), source },
        error => Error::file(path.to_owned(), error),
    }
}
