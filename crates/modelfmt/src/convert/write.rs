//! Has the target's format write.

use modelfmt_core::value::Value;
use modelfmt_core::write::{NewFiles, Sink, TensorData};
use modelfmt_core::{AnyError, Execution};

use super::Conversion;
use super::fit::Unsupported;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::formats::{Write, entry};
use crate::model::Model;

/// Writes a model of one file.
pub(super) fn file(
    conversion: &Conversion<'_>,
    data: &dyn TensorData,
    sink: &dyn Sink,
    work: &Execution<'_>,
) -> Result<(), AnyError> {
    match writer(conversion.target) {
        Some(Write::File(write)) => write(conversion, data, sink, work),
        _ => Err(not_here(conversion.target)),
    }
}

/// Writes a model of several files, whose index has that name.
pub(super) fn set(
    conversion: &Conversion<'_>,
    data: &dyn TensorData,
    name: &str,
    files: &impl NewFiles,
    work: &Execution<'_>,
) -> Result<(), AnyError> {
    match writer(conversion.target) {
        Some(Write::Set(write)) => write(conversion, data, name, files, work),
        _ => Err(not_here(conversion.target)),
    }
}

fn writer(target: Format) -> Option<&'static Write> {
    entry(target).driver.as_ref().map(|driver| &driver.write)
}

/// The conversion has refused what is switched off or only read, so nobody sees this.
fn not_here(format: Format) -> AnyError {
    let source = std::io::Error::new(std::io::ErrorKind::Unsupported, format!("{format} is not written"));
    AnyError::Write { path: "the output".to_owned(), source }
}

/// What an AERO source has and no target can hold.
#[cfg(feature = "aero")]
pub(super) fn aero_losses(
    model: &Model,
    own: &mut Vec<Unsupported>,
    losses: &mut Vec<Unsupported>,
) -> Result<()> {
    crate::formats::aero_losses(model, own, losses)
}

#[cfg(not(feature = "aero"))]
#[allow(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
pub(super) const fn aero_losses(_: &Model, _: &mut Vec<Unsupported>, _: &mut Vec<Unsupported>) -> Result<()> {
    Ok(())
}

/// A metadata value in the form that OINF's own crate reads, or why there is none.
#[cfg(feature = "oinf")]
pub(super) fn oinf_value(key: &str, value: Value) -> Result<Value, String> {
    crate::formats::oinf_value(key, value)
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
