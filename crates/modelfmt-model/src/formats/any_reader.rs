//! The input and the result of opening a model.

use std::any::Any;
use std::io;

use modelfmt_core::author::{FileIndex, OpenSettings};
use modelfmt_core::source::{BoxSource, SharedFiles};
use modelfmt_core::{AnyError, Container};

use super::Format;
use crate::open::OpenOptions;

/// The reader of a file or set of any format.
pub trait AnyReader: Container + Any + Send + Sync {}

impl<R: Container + Any + Send + Sync> AnyReader for R {}

/// Returns the reader as type `R`, if it has that type.
pub fn reader_of<'o, R: Any>(opened: impl Into<Option<&'o dyn AnyReader>>) -> Option<&'o R> {
    (opened.into()? as &dyn Any).downcast_ref()
}

/// A file to open.
#[allow(dead_code, reason = "with no format switched on nothing is opened")]
pub struct ToOpen<'a> {
    /// The bytes of the file.
    pub source: BoxSource,
    /// The name of the file, without the folder.
    pub name: String,
    /// The files beside it, for a set.
    pub files: SharedFiles,
    /// The caller's options.
    pub options: &'a OpenOptions,
}

/// Returns the error for a format that this build does not read.
#[allow(dead_code, reason = "with all formats switched on there is none")]
pub(crate) fn not_enabled(format: Format, name: &str) -> AnyError {
    let source = io::Error::new(io::ErrorKind::Unsupported, format!("this build does not read {format}"));
    AnyError::Open { path: name.to_owned(), source }
}

/// Returns the options for a format's own reader. The limits are the defaults of the format unless the caller
/// has set others.
pub(crate) fn own_options<I: FileIndex>(options: &OpenOptions) -> modelfmt_core::OpenOptions<I> {
    let limits = options.limits.clone().unwrap_or_else(I::default_limits);
    let own = OpenSettings::new(limits).ignore_checksum(options.ignore_checksum);
    // Only PyTorch's reader supports a root; a model of another format is refused with one.
    #[cfg(feature = "pytorch")]
    if let Some(root) = &options.root {
        return own.with_extension(std::sync::Arc::new(modelfmt_pytorch::Root(root.clone()))).into();
    }
    #[cfg(feature = "seal")]
    if let Some(access) = options.demanded() {
        return own.with_extension(access).into();
    }
    own.into()
}
