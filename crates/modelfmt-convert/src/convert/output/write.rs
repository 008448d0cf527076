//! Calls the writer of the target's format.

use std::path::Path;

use modelfmt_core::{AnyError, Execution};
use modelfmt_write::{AnyWriteError, NewFiles, Sink, TensorData};

use crate::convert::ConversionPlan;
use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::Format;
use modelfmt_model::formats::entry::{Job, JobError, Write};
use modelfmt_model::formats::set_plan::SetPlan;
use modelfmt_rules::wording::Choice;

/// Writes a single-file model.
pub(crate) fn file(
    conversion: &ConversionPlan<'_>,
    data: &dyn TensorData,
    sink: &dyn Sink,
    work: &Execution<'_>,
) -> Result<(), JobError> {
    match writer(conversion.target) {
        Some(Write::File(write)) => write(&conversion.job(), data, sink, work),
        _ => Err(not_here(conversion.target)),
    }
}

/// Writes a model of several files. `name` is the name of the index.
pub(crate) fn set(
    conversion: &ConversionPlan<'_>,
    data: &dyn TensorData,
    name: &str,
    files: &impl NewFiles,
    work: &Execution<'_>,
) -> Result<(), JobError> {
    match writer(conversion.target) {
        Some(Write::Set(plan)) => {
            Ok(plan(&conversion.job(), name)?.write(data, files, work).map_err(JobError::Write)?)
        }
        _ => Err(not_here(conversion.target)),
    }
}

/// Plans a model of several files.
pub(crate) fn plan(conversion: &ConversionPlan<'_>, name: &str) -> Result<Box<dyn SetPlan>, JobError> {
    match writer(conversion.target) {
        Some(Write::Set(plan)) => plan(&conversion.job(), name),
        _ => Err(not_here(conversion.target)),
    }
}

/// Returns the name of the file that opens a set, made from the name that [`index_name`](super::index_name)
/// returned. For a split GGUF this is its first file.
pub(crate) fn first_file(job: &Job<'_>, target: Format, name: String) -> Result<String, JobError> {
    match target.fns().and_then(|fns| fns.first_file) {
        Some(first_file) => first_file(job, &name),
        None => Ok(name),
    }
}

/// Returns the error for a format that is only read.
pub(crate) fn never(format: Format, instead: Option<&str>) -> Error {
    let instead = instead.map_or_else(String::new, |text| format!("; {text}"));
    Error::usage(Choice::Target, format!("{format} can be read but not written{instead}"))
}

/// Adds the path of the target to an error of a writer.
pub(crate) fn failed(path: &Path, error: AnyWriteError) -> Error {
    match error {
        AnyWriteError::Write { path, source } => match source.kind() {
            std::io::ErrorKind::AlreadyExists => Error::Exists { path: path.into() },
            _ => Error::Write { path: path.into(), source },
        },
        AnyWriteError::Cancelled => Error::file(path.to_owned(), AnyError::Cancelled),
        error => Error::Refused { path: path.to_owned(), error },
    }
}

pub(crate) fn writer(target: Format) -> Option<&'static Write> {
    target.fns().map(|fns| &fns.write)
}

/// Returns the error for a format without a writer. It never occurs, because the conversion has refused such
/// formats before.
pub(crate) fn not_here(format: Format) -> JobError {
    let source = std::io::Error::new(std::io::ErrorKind::Unsupported, format!("{format} is not written"));
    JobError::Write(AnyWriteError::Write { path: "the output".to_owned(), source })
}
