//! Errors in writing, with one type for all formats.

use std::io;

use super::{AnyFault, Fault, Part, Shortened};

/// A boxed error of any type: the cause of a failure.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The error for a file of a format that cannot be written. `F` is the format's `Fault`, the list of its
/// rules.
///
/// `Display` has only the text of this error; `source()` returns the cause.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum WriteError<F> {
    /// The format cannot represent the model.
    #[error("{part}: {fault}")]
    Unsupported {
        /// The part that the format cannot represent.
        part: Part,
        /// The rule that forbids it.
        fault: F,
    },
    /// The values of a tensor cannot be read.
    #[error("cannot get the values of tensor {:?}", Shortened(name))]
    Data {
        /// The name of the tensor.
        name: String,
        /// The cause.
        source: BoxError,
    },
    /// The output cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The name of the output.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The caller's progress callback asked to stop.
    #[error("stopped on request")]
    Cancelled,
}

tensor_core::debug_as_sentence!([F: std::fmt::Display + std::fmt::Debug] WriteError<F>);

/// The error type for writers of any format.
pub type AnyWriteError = WriteError<AnyFault>;

/// Erases the fault type of the format. There is no other conversion.
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
    /// Creates the error for a part that the format cannot represent because of this rule.
    pub fn unsupported(part: Part, fault: impl Into<F>) -> Self {
        Self::Unsupported { part, fault: fault.into() }
    }
}
