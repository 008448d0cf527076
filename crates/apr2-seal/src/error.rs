//! Errors about APR2 files and their seals, and how they are made.

use modelfmt_core::Part;

pub(crate) use apr2::{EditError, Error, Fault, Result, SealFault, WriteError};

/// Returns the error for a part of a file that breaks a rule.
pub(crate) fn malformed(part: Part, at: u64, fault: impl Into<Fault>) -> Error {
    Error::Malformed { part, at, fault: fault.into() }
}

/// Returns the error for something that cannot be written.
pub(crate) fn unfit(part: Part, fault: impl Into<Fault>) -> WriteError {
    WriteError::unsupported(part, fault)
}
