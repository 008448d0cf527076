//! The error type of all format crates: which part of the file, where, and which rule it breaks.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io;

use tensor_core::{TensorError, TensorInfo};

use crate::value::NameError;

mod any;
mod slice;
mod write;
pub use any::{AnyFault, Fault};
pub use slice::SliceError;
pub use write::{AnyWriteError, BoxError, WriteError};

/// A part of a file, as it is named in errors: `tensor record 3 "w", numel`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The record, section or chunk, in the terms of the specification.
    pub what: &'static str,
    /// The number of the part, counted from 0, if there are several.
    pub entry: Option<u64>,
    /// The name or key of the part, once known.
    pub name: Option<Box<str>>,
    /// The field in the part.
    pub field: Option<&'static str>,
}

impl Part {
    /// Creates a part that occurs only once.
    #[must_use]
    pub const fn new(what: &'static str) -> Self {
        Self { what, entry: None, name: None, field: None }
    }

    /// Creates the `entry`-th of several parts, counted from 0.
    #[must_use]
    pub const fn entry(what: &'static str, entry: u64) -> Self {
        Self { what, entry: Some(entry), name: None, field: None }
    }

    /// Creates the part with this name.
    #[must_use]
    pub fn named(what: &'static str, name: &str) -> Self {
        Self { what, entry: None, name: Some(name.into()), field: None }
    }

    /// Sets the name of the part.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Narrows the part to a field.
    #[must_use]
    pub const fn with_field(mut self, field: &'static str) -> Self {
        self.field = Some(field);
        self
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        if let Some(entry) = self.entry {
            write!(f, " {entry}")?;
        }
        if let Some(name) = &self.name {
            // Names may be hostile. Debug escapes control characters, so a message stays on one line.
            write!(f, " {:?}", Shortened(name))?;
        }
        if let Some(field) = self.field {
            write!(f, ", {field}")?;
        }
        Ok(())
    }
}

/// A name from a file, quoted and shortened so that it fits a line of text.
pub struct Shortened<'a>(pub &'a str);

impl fmt::Debug for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX: usize = 120;
        match self.0.char_indices().nth(MAX) {
            Some((end, _)) => write!(f, "{:?}…", self.0.get(..end).unwrap_or_default()),
            None => write!(f, "{:?}", self.0),
        }
    }
}

/// The rules that all formats share. The `Fault` of each format includes them.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommonFault {
    /// A range is not within the file.
    #[error("covers {len} bytes from byte {offset}, but the file ends at byte {end}")]
    OutOfBounds {
        /// The offset of the range.
        offset: u64,
        /// The length of the range, as the file claims it.
        len: u64,
        /// The end of the bytes that exist.
        end: u64,
    },
    /// Text is not UTF-8.
    #[error("is not valid UTF-8")]
    Utf8,
    /// An earlier entry has the same name.
    #[error("the name {0:?} is used twice")]
    Duplicate(String),
    /// There is more text, or there are more entries, than an index can hold.
    #[error("there are more than 4 GiB of names, or more entries than an index holds")]
    TooManyNames,
    /// The product of the dimensions, or the number of bytes that it implies, exceeds what the format allows.
    #[error("the shape {0} has more elements than a file can hold")]
    TooManyElements(String),
    /// The number of elements is not a multiple of the block size of a block type.
    #[error("the shape {shape} does not divide into whole blocks of {dtype}")]
    PartialBlock {
        /// The block type.
        dtype: tensor_core::DType,
        /// The shape, as text.
        shape: String,
    },
    /// The length that the file states is not the one that dtype and shape imply.
    #[error("is {found} bytes long, but dtype and shape imply {expected}")]
    Nbytes {
        /// The length in the file.
        found: u64,
        /// The length that dtype and shape imply.
        expected: u64,
    },
    /// The JSON or MessagePack does not decode, or lacks what the format requires.
    #[error("{0}")]
    Metadata(String),
    /// An edit that keeps the values in place cannot change this.
    #[error("{0}, which cannot be edited; convert the model instead")]
    Unchangeable(&'static str),
    /// The tensor cannot be borrowed without a copy.
    #[error("{0}; read it with `tensor` instead")]
    NotBorrowed(&'static str),
    /// A file of a set has a different size than the index of the set states.
    #[error("the file has {found} bytes, but the index of the set says {stated}")]
    ShardSize {
        /// The size of the file.
        found: u64,
        /// The size that the index states.
        stated: u64,
    },
    /// A file of a set lacks a tensor that should be in it according to the index of the set.
    #[error("the index of the set says that it has tensor {0:?}, but it does not")]
    NotInShard(String),
    /// A file of a set breaks a rule of its own format.
    #[error("{part}: {fault}")]
    InFile {
        /// The part of the file.
        part: Box<Part>,
        /// The rule that is broken, as text.
        fault: String,
    },
}

tensor_core::debug_as_sentence!(CommonFault);

impl From<NameError> for CommonFault {
    fn from(error: NameError) -> Self {
        match error {
            NameError::Duplicate(name) => Self::Duplicate(name),
            NameError::TooMany => Self::TooManyNames,
        }
    }
}

/// Errors of the shared parts (cursor, extents, limits). The `?` operator converts them into the [`Error`] of
/// a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommonError {
    /// The bytes end too early: see [`Error::Truncated`].
    Truncated {
        /// The part that was being read.
        part: Part,
        /// The offset of the part.
        at: u64,
        /// The number of bytes that the part needs.
        need: u64,
        /// The number of bytes that exist.
        have: u64,
    },
    /// A part breaks a rule: see [`Error::Malformed`].
    Malformed {
        /// The part that is malformed.
        part: Part,
        /// The offset of the part.
        at: u64,
        /// The rule that it breaks.
        fault: CommonFault,
    },
    /// A number exceeds a limit: see [`Error::Limit`].
    Limit {
        /// The quantity that is too large.
        what: &'static str,
        /// The number in the file.
        found: u64,
        /// The limit.
        max: u64,
    },
}

impl From<TensorError> for CommonFault {
    fn from(error: TensorError) -> Self {
        match error {
            TensorError::PartialBlock { dtype, shape } => Self::PartialBlock { dtype, shape },
            TensorError::TooManyElements { shape } => Self::TooManyElements(shape),
            other => Self::Metadata(other.to_string()),
        }
    }
}

impl<F: From<CommonFault>> From<CommonError> for Error<F> {
    fn from(basic: CommonError) -> Self {
        match basic {
            CommonError::Truncated { part, at, need, have } => Self::Truncated { part, at, need, have },
            CommonError::Malformed { part, at, fault } => Self::Malformed { part, at, fault: fault.into() },
            CommonError::Limit { what, found, max } => Self::Limit { what, found, max },
        }
    }
}

/// The error for a file of a format that cannot be read. `F` is the format's `Fault`, the list of its rules.
/// Errors in writing are a [`WriteError`].
///
/// An error describes what is wrong and where in the file. If the source has a [name](crate::Source::name),
/// the reader wraps the error in [`InFile`](Self::InFile), which names the file. To match on the error
/// itself, use [`inner`](Self::inner), which skips this wrapper. `Display` has only the text of this error,
/// `source()` returns the cause, and `Debug` prints both on one line.
#[non_exhaustive]
pub enum Error<F> {
    /// The source cannot be read.
    Io {
        /// The offset of the range.
        at: u64,
        /// Its length in bytes.
        len: u64,
        /// The cause.
        source: io::Error,
    },
    /// A file cannot be opened, or a file of a set is missing.
    Open {
        /// The file, as it was named.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The bytes end before the part ends.
    Truncated {
        /// The part that was being read.
        part: Part,
        /// The offset of the part.
        at: u64,
        /// The number of bytes that the part needs.
        need: u64,
        /// The number of bytes that exist.
        have: u64,
    },
    /// A part breaks a rule of its format.
    Malformed {
        /// The part that is malformed.
        part: Part,
        /// The offset of the part.
        at: u64,
        /// The rule that it breaks.
        fault: F,
    },
    /// A number in the file exceeds [`Limits`](crate::Limits). The file may still be valid.
    Limit {
        /// The quantity that is too large.
        what: &'static str,
        /// The number in the file.
        found: u64,
        /// The limit.
        max: u64,
    },
    /// There is no tensor with this name.
    NotFound {
        /// The name that was asked for.
        name: String,
    },
    /// The tensor is declared without data.
    NoData {
        /// The name of the tensor.
        name: String,
    },
    /// A checked read was requested, but no digest in the file covers the tensor. The file may still be
    /// valid.
    NoHash {
        /// The name of the tensor.
        name: String,
    },
    /// A byte range is outside of its tensor.
    OutOfRange {
        /// The name of the tensor.
        name: String,
        /// The start of the range, from the start of the tensor.
        offset: u64,
        /// Its length in bytes.
        len: u64,
        /// The tensor's length in bytes.
        nbytes: u64,
    },
    /// A slice does not fit its tensor.
    Slice {
        /// The name of the tensor.
        name: String,
        /// The reason.
        fault: SliceError,
    },
    /// The file was changed or replaced after it was opened, so bytes read from it may belong to two
    /// versions.
    Changed,
    /// The caller's progress callback asked to stop.
    Cancelled,
    /// Any of the other errors, with the file in which it occurred. It is displayed as the path, then the
    /// error.
    InFile {
        /// The file, as it was named.
        path: Box<str>,
        /// The error in that file.
        error: Box<Self>,
    },
}

tensor_core::debug_as_sentence!([F: fmt::Display + fmt::Debug] Error<F>);

impl<F: fmt::Display> fmt::Display for Error<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { at, len, .. } => write!(f, "cannot read {len} bytes at byte {at}"),
            Self::Open { path, .. } => write!(f, "cannot open {path:?}"),
            Self::Truncated { part, at, need, have } => write!(
                f,
                "{part} at byte {at} needs {need} bytes, but {have} are left: the file is cut short or not of this format"
            ),
            Self::Malformed { part, at, fault } => write!(f, "{part} at byte {at}: {fault}"),
            Self::Limit { what, found, max } => {
                write!(f, "{what} is {found}, the limit is {max}: raise it in Limits if the file is trusted")
            }
            Self::NotFound { name } => write!(f, "no tensor is named {:?}", Shortened(name)),
            Self::NoData { name } => write!(f, "tensor {:?} is declared without data", Shortened(name)),
            Self::NoHash { name } => {
                write!(
                    f,
                    "tensor {:?} cannot be verified: the file has no hash of its bytes",
                    Shortened(name)
                )
            }
            Self::OutOfRange { name, offset, len, nbytes } => {
                let name = Shortened(name);
                write!(f, "bytes {offset}..{offset}+{len} are outside tensor {name:?} of {nbytes} bytes")
            }
            Self::Slice { name, fault } => write!(f, "tensor {:?}: {fault}", Shortened(name)),
            Self::Changed => {
                f.write_str("the file was changed while it was read; open it again when nothing writes to it")
            }
            Self::Cancelled => f.write_str("stopped on request"),
            Self::InFile { path, error } => {
                for c in path.chars() {
                    // A message stays on one line, whatever the name of the file.
                    if c.is_control() { write!(f, "{}", c.escape_default())? } else { f.write_char(c)? }
                }
                write!(f, ": {error}")
            }
        }
    }
}

impl<F: fmt::Display + fmt::Debug> std::error::Error for Error<F> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } | Self::Open { source, .. } => Some(source),
            Self::InFile { error, .. } => error.source(),
            _ => None,
        }
    }
}

impl<F> Error<F> {
    /// Converts the error to another type of fault.
    fn map_fault<G>(self, map: fn(F) -> G) -> Error<G> {
        match self {
            Self::Io { at, len, source } => Error::Io { at, len, source },
            Self::Open { path, source } => Error::Open { path, source },
            Self::Truncated { part, at, need, have } => Error::Truncated { part, at, need, have },
            Self::Malformed { part, at, fault } => Error::Malformed { part, at, fault: map(fault) },
            Self::Limit { what, found, max } => Error::Limit { what, found, max },
            Self::NotFound { name } => Error::NotFound { name },
            Self::NoData { name } => Error::NoData { name },
            Self::NoHash { name } => Error::NoHash { name },
            Self::OutOfRange { name, offset, len, nbytes } => Error::OutOfRange { name, offset, len, nbytes },
            Self::Slice { name, fault } => Error::Slice { name, fault },
            Self::Changed => Error::Changed,
            Self::Cancelled => Error::Cancelled,
            Self::InFile { path, error } => Error::InFile { path, error: Box::new(error.map_fault(map)) },
        }
    }
}

/// Erases the fault type of the format; [`Container`](crate::Container) returns such errors. There is no
/// other conversion.
impl<F: Fault> From<Error<F>> for AnyError {
    fn from(error: Error<F>) -> Self {
        error.map_fault(AnyFault::new)
    }
}

impl AnyError {
    /// Returns whether the error is that the end of the file is missing.
    #[must_use]
    pub fn is_end_missing(&self) -> bool {
        match self.inner() {
            Self::Truncated { .. } => true,
            Self::Malformed { fault, .. } => fault.is_end_missing(),
            _ => false,
        }
    }

    /// Converts the error to the fault type of a format: see [`AnyFault::typed`].
    pub(crate) fn typed<F: From<CommonFault> + 'static>(self) -> Error<F> {
        self.map_fault(AnyFault::typed)
    }
}

impl<F: From<CommonFault> + fmt::Display> Error<F> {
    /// Converts the error of a file of a set to an error of the set. `file` names that file.
    #[must_use]
    pub fn in_file(self, file: &Part) -> Self {
        let within = |part, at, fault: String| {
            let fault = CommonFault::InFile { part: Box::new(part), fault }.into();
            Self::Malformed { part: file.clone(), at, fault }
        };
        match self.into_inner() {
            Self::Malformed { part, at, fault } => within(part, at, fault.to_string()),
            Self::Truncated { part, at, need, have } => {
                let end = at.saturating_add(have);
                within(part, at, CommonFault::OutOfBounds { offset: at, len: need, end }.to_string())
            }
            Self::Io { at, len, source } => {
                let path = file.name.as_deref().unwrap_or_default();
                Self::Io { at, len, source: io::Error::new(source.kind(), format!("{path}: {source}")) }
            }
            limit @ Self::Limit { .. } => limit.in_source(file.name.as_deref().map(Cow::Borrowed)),
            other => other,
        }
    }
}

impl<F: Clone> Error<F> {
    /// Copies the error, for an operation that is tried once and whose error is returned several times.
    /// Causes become text.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        let io = |error: &io::Error| match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(error.kind(), error.to_string()),
        };
        match self {
            Self::Io { at, len, source } => Self::Io { at: *at, len: *len, source: io(source) },
            Self::Open { path, source } => Self::Open { path: path.clone(), source: io(source) },
            Self::Truncated { part, at, need, have } => {
                Self::Truncated { part: part.clone(), at: *at, need: *need, have: *have }
            }
            Self::Malformed { part, at, fault } => {
                Self::Malformed { part: part.clone(), at: *at, fault: fault.clone() }
            }
            Self::Limit { what, found, max } => Self::Limit { what, found: *found, max: *max },
            Self::NotFound { name } => Self::NotFound { name: name.clone() },
            Self::NoData { name } => Self::NoData { name: name.clone() },
            Self::NoHash { name } => Self::NoHash { name: name.clone() },
            Self::OutOfRange { name, offset, len, nbytes } => {
                Self::OutOfRange { name: name.clone(), offset: *offset, len: *len, nbytes: *nbytes }
            }
            Self::Slice { name, fault } => Self::Slice { name: name.clone(), fault: fault.clone() },
            Self::Changed => Self::Changed,
            Self::Cancelled => Self::Cancelled,
            Self::InFile { path, error } => {
                Self::InFile { path: path.clone(), error: Box::new(error.duplicate()) }
            }
        }
    }
}

impl<F> Error<F> {
    /// Returns the error without the file in which it occurred.
    #[must_use]
    pub fn inner(&self) -> &Self {
        match self {
            Self::InFile { error, .. } => error.inner(),
            other => other,
        }
    }

    /// Converts to the error without the file in which it occurred.
    #[must_use]
    pub fn into_inner(self) -> Self {
        match self {
            Self::InFile { error, .. } => error.into_inner(),
            other => other,
        }
    }

    /// Returns the file in which the error occurred, if it is known.
    #[must_use]
    pub const fn path(&self) -> Option<&str> {
        match self {
            Self::InFile { path, .. } => Some(path),
            Self::Open { path, .. } => Some(path.as_str()),
            _ => None,
        }
    }

    /// Adds the name of the file to the error. Does not change an error that already names the same file, nor
    /// [`Cancelled`](Self::Cancelled).
    #[must_use]
    pub fn in_source(self, name: Option<Cow<'_, str>>) -> Self {
        match (self, name) {
            (Self::Cancelled, _) => Self::Cancelled,
            (error, Some(path)) if error.path() != Some(&*path) => {
                Self::InFile { path: path.into(), error: Box::new(error) }
            }
            (error, _) => error,
        }
    }

    /// Removes this file name from the error, for a message that names the file itself.
    #[must_use]
    pub fn without_file(self, name: &str) -> Self {
        match self {
            Self::InFile { path, error } if &*path == name => *error,
            other => other,
        }
    }

    /// Returns the error for a position without a tensor.
    #[must_use]
    pub fn no_such_position(position: usize) -> Self {
        Self::NotFound { name: format!("number {position}") }
    }

    /// Returns the error for a range that reaches beyond the values of a tensor.
    #[cold]
    #[must_use]
    pub fn out_of_range(tensor: &TensorInfo<'_>, offset: u64, len: u64) -> Self {
        Self::OutOfRange { name: tensor.name.to_owned(), offset, len, nbytes: tensor.nbytes }
    }

    /// Returns the error for a slice that does not fit a tensor.
    #[cold]
    #[must_use]
    pub fn slice(tensor: &TensorInfo<'_>, fault: SliceError) -> Self {
        Self::Slice { name: tensor.name.to_owned(), fault }
    }

    /// Returns whether the cause is the environment (an I/O error) and not the content of the file.
    #[must_use]
    pub fn is_io(&self) -> bool {
        matches!(self.inner(), Self::Io { .. } | Self::Open { .. } | Self::Changed)
    }
}

/// The error type for any format.
pub type AnyError = Error<AnyFault>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_where_and_why() {
        let part = Part::entry("tensor record", 3).with_name("w\u{1b}[0m").with_field("numel");
        let error: Error<CommonFault> = Error::Malformed { part, at: 40, fault: CommonFault::Utf8 };
        let text = "tensor record 3 \"w\\u{1b}[0m\", numel at byte 40: is not valid UTF-8";
        assert_eq!(error.to_string(), text);
        assert_eq!(AnyError::from(error).to_string(), text);
    }

    #[test]
    fn long_names_are_cut() {
        let text = Part::named("tensor", &"é".repeat(5000)).to_string();
        assert!(text.chars().count() < 140, "{text}");
    }
}
