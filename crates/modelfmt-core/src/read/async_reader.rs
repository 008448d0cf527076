//! The asynchronous reader of files and sets, for an object store, a web server or a browser's file handle.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::{Deref, Range};
use std::sync::Arc;

use tensor_core::{Bytes, TensorView};

use super::{OpenFile, Opened, Reading, TensorKey, Which, position_of, slice, tensor};
use crate::error::Error;
use crate::execution::Execution;
use crate::fetch::Fetch;
use crate::file_index::FileIndex;
use crate::options::OpenOptions;
use crate::plan::{Slice, TensorSlice};
use crate::report::{Report, VerifyLevel};
use crate::settings::OpenSettings;
use crate::value::Object;

/// An open model over asynchronous sources: a file ([`OpenFile`]) or a set of files
/// ([`OpenSet`](crate::OpenSet)), to which it dereferences. It has the methods of [`Reader`](crate::Reader)
/// as `async` functions and runs the same code, driven by your executor. Each format crate has the aliases
/// `AsyncReader` and `AsyncSetReader` for it.
#[derive(Clone, Debug)]
pub struct AsyncReader<T>(pub(crate) T);

impl<T> Deref for AsyncReader<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Opened> AsyncReader<T> {
    /// Wraps an opened file or set.
    pub const fn new(opened: T) -> Self {
        Self(opened)
    }

    /// Returns the tensor with its values.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`] if the tensor is only declared; [`Error::Io`]; if it does not
    /// decompress; if the file of a set that has it cannot be opened.
    pub async fn tensor(&self, key: impl TensorKey) -> Result<TensorView<'_>, Error<T::Fault>> {
        let position = self.position(key)?;
        tensor(&self.0, position, Reading::PLAIN).await.map_err(|error| self.0.named(error))
    }

    /// Returns a range of the bytes of a tensor's values, without reading the rest.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`] if the tensor is only declared; if it cannot be read or
    /// decompressed; [`Error::OutOfRange`] if it has fewer bytes.
    pub async fn read_range(
        &self,
        key: impl TensorKey,
        bytes: Range<u64>,
    ) -> Result<Bytes<'_>, Error<T::Fault>> {
        let position = self.position(key)?;
        self.0
            .values(position, Which::Range(bytes), Reading::PLAIN)
            .await
            .map_err(|error| self.0.named(error))
    }

    /// Returns a part of a tensor, by a slice of each dimension. Little of the rest of the tensor is read.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`] if the tensor is only declared; if it cannot be read or
    /// decompressed; [`Error::Slice`] if the slice does not fit the tensor.
    pub async fn slice(&self, key: impl TensorKey, part: &Slice) -> Result<TensorSlice<'_>, Error<T::Fault>> {
        let position = self.position(key)?;
        slice(&self.0, position, part, Reading::PLAIN).await.map_err(|error| self.0.named(error))
    }

    /// Fills `out` with a tensor's values, from their byte `offset` on.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`] if the tensor is only declared; if it cannot be read or
    /// decompressed; [`Error::OutOfRange`] if it has fewer bytes.
    pub async fn read_into(
        &self,
        key: impl TensorKey,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), Error<T::Fault>> {
        let position = self.position(key)?;
        self.0.values_into(position, offset, out, None).await.map_err(|error| self.0.named(error))
    }

    /// Returns the same reads with checks: each reads all bytes that the digest covers, and compares.
    pub const fn checked(&self) -> AsyncChecked<'_, T> {
        AsyncChecked(self)
    }

    /// Returns the file's metadata in the type of the format.
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    pub async fn metadata(&self) -> Result<T::Metadata<'_>, Error<T::Fault>> {
        self.0.metadata().await.map_err(|error| self.0.named(error))
    }

    /// Returns the metadata as one flat list of keys and plain values, which every format has.
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    pub async fn flat_metadata(&self) -> Result<Object, Error<T::Fault>> {
        self.0.flat_metadata().await.map_err(|error| self.0.named(error))
    }

    /// Checks the file by the rules of its format and reports every finding. For a set, checks all files.
    pub async fn verify(&self, level: VerifyLevel) -> Report {
        self.verify_with(level, &Execution::sequential()).await
    }

    /// Checks the file by the rules of its format and reports every finding. The progress callback of `work`
    /// can stop it.
    pub async fn verify_with(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        self.0.verify(level, work).await
    }

    fn position(&self, key: impl TensorKey) -> Result<usize, Error<T::Fault>> {
        position_of(&self.0, key).map_err(|error| self.0.named(error))
    }
}

/// The reads of an [`AsyncReader`], each checked by the smallest digest in the file that covers the values.
/// It corresponds to [`Checked`](crate::Checked).
#[derive(Debug)]
pub struct AsyncChecked<'a, T>(&'a AsyncReader<T>);

impl<T> Clone for AsyncChecked<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for AsyncChecked<'_, T> {}

impl<'a, T: Opened> AsyncChecked<'a, T> {
    /// Returns the tensor with its values.
    ///
    /// # Errors
    /// The errors of [`AsyncReader::tensor`]; the format's own error if the bytes do not match the digest in
    /// the file; [`Error::NoHash`] if no digest covers them, or only one over so many more bytes that you
    /// should call [`verify`](AsyncReader::verify) instead.
    pub async fn tensor(self, key: impl TensorKey) -> Result<TensorView<'a>, Error<T::Fault>> {
        let position = self.0.position(key)?;
        tensor(&self.0.0, position, Reading::CHECKED).await.map_err(|error| self.0.0.named(error))
    }

    /// Returns a range of the bytes of a tensor's values. If the file has digests of pages, only the pages
    /// that the range touches are read.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`] if the tensor is only declared; if it cannot be read or
    /// decompressed; [`Error::OutOfRange`] if it has fewer bytes.
    pub async fn read_range(
        self,
        key: impl TensorKey,
        bytes: Range<u64>,
    ) -> Result<Bytes<'a>, Error<T::Fault>> {
        let position = self.0.position(key)?;
        self.0
            .0
            .values(position, Which::Range(bytes), Reading::CHECKED)
            .await
            .map_err(|error| self.0.0.named(error))
    }

    /// Returns a part of a tensor, by a slice of each dimension. If the file has digests of pages, only the
    /// pages that the slice touches are read.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`] if the tensor is only declared; if it cannot be read or
    /// decompressed; [`Error::Slice`] if the slice does not fit the tensor.
    pub async fn slice(self, key: impl TensorKey, part: &Slice) -> Result<TensorSlice<'a>, Error<T::Fault>> {
        let position = self.0.position(key)?;
        slice(&self.0.0, position, part, Reading::CHECKED).await.map_err(|error| self.0.0.named(error))
    }
}

impl<I: FileIndex, S: Fetch> AsyncReader<OpenFile<I, S>> {
    /// Opens the file in a source with the default options; only the index is read.
    ///
    /// # Errors
    /// If the source cannot be read, breaks a rule of the format, or exceeds a limit.
    pub async fn from_source(source: S) -> Result<Self, Error<I::Fault>> {
        OpenOptions::new().open_async(source).await
    }

    /// Opens the file in a source with the given settings.
    ///
    /// # Errors
    /// If the source cannot be read, breaks a rule of the format, or exceeds a limit.
    pub async fn open_source(source: S, settings: &OpenSettings) -> Result<Self, Error<I::Fault>> {
        OpenFile::open(source, settings).await.map(Self)
    }

    /// Opens a source with the index that an earlier reader built from the same bytes. Nothing is read.
    ///
    /// # Errors
    /// If the source is not as long as the file that the index was built from.
    pub fn with_index(index: Arc<I>, source: S) -> Result<Self, Error<I::Fault>> {
        OpenFile::with_index(index, source).map(Self)
    }

    /// Consumes the reader and returns its source.
    #[must_use]
    pub fn into_source(self) -> S {
        self.0.source
    }
}
