//! Errors in writing, in one shape for all formats.

use std::io;

use super::{AnyFault, Fault, Part, Shortened};

/// The cause of a failure, of whatever type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a file of a format cannot be written; `F` is that format's `Fault`, the list of its rules.
///
/// `Display` has only the text of this error, `source()` has the cause.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum WriteError<F> {
    /// The format cannot hold the model that is written.
    #[error("{part}: {fault}")]
    Unsupported {
        /// What does not fit.
        part: Part,
        /// The rule that forbids it.
        fault: F,
    },
    /// The values of a tensor could not be read.
    #[error("cannot get the values of tensor {:?}", Shortened(name))]
    Data {
        /// The tensor.
        name: String,
        /// Why.
        source: BoxError,
    },
    /// The output could not be written.
    #[error("cannot write {path}")]
    Write {
        /// What was written to.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The caller's progress callback asked to stop.
    #[error("stopped on request")]
    Cancelled,
}

tensor_core::debug_as_sentence!([F: std::fmt::Display + std::fmt::Debug] WriteError<F>);

/// The error of a writer of any format.
pub type AnyWriteError = WriteError<AnyFault>;

/// The same error without the format's own type. There is no other conversion.
impl<F: Fault> From<WriteError<F>> for AnyWriteError {
    fn from(error: WriteError<F>) -> Self {
        match error {
            WriteError::Unsupported { part, fault } => {
                Self::Unsupported { part, fault: AnyFault::new(fault) }
            }
            WriteError::Data { name, source } => Self::Data { name, source },
            WriteError::Write { path, source } => Self::Write { path, source },
            WriteError::Cancelled => Self::Cancelled,
        }
    }
}

impl<F> WriteError<F> {
    /// The error for a part that the format cannot hold because of this rule.
    pub fn unsupported(part: Part, fault: impl Into<F>) -> Self {
        Self::Unsupported { part, fault: fault.into() }
    }
}
