//! The blocking reader of files and sets.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::{Deref, Range};
#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::sync::Arc;

use tensor_core::{Bytes, TensorView};

use super::{OpenFile, Opened, OpenedNow, Reading, TensorKey, Which, position_of, slice, tensor};
use crate::error::{CommonFault, Error, Part};
use crate::execution::Execution;
use crate::fetch::{now, now_or_never};
use crate::file_index::FileIndex;
use crate::options::OpenOptions;
use crate::plan::{Slice, TensorSlice};
use crate::report::{Report, VerifyLevel};
use crate::settings::OpenSettings;
#[cfg(not(target_arch = "wasm32"))]
use crate::source::FileSource;
use crate::source::Source;
use crate::value::Object;

/// An open model that is read with blocking calls: a file ([`OpenFile`]) or a set of files
/// ([`OpenSet`](crate::OpenSet)), to which it dereferences. Each format crate has the aliases `Reader` and
/// `SetReader` for it.
///
/// With a source in memory (a slice, a buffer, a map), tensors are views of it without a copy; with any other
/// source, each tensor is one read. A key is a tensor's name or its position in the order of the file. A
/// reader is [`Send`] and [`Sync`] if its source is.
///
/// Reads do not check digests. For the same reads with checks against the digests in the file, use
/// [`checked`](Self::checked).
#[derive(Clone, Debug)]
pub struct Reader<T>(pub(crate) T);

impl<T> Deref for Reader<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: OpenedNow> Reader<T> {
    /// Wraps an opened file or set.
    pub const fn new(opened: T) -> Self {
        Self(opened)
    }

    /// Returns the tensor with its values: borrowed from a source in memory, otherwise read into an aligned
    /// buffer.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`] if the tensor is only declared; [`Error::Io`]; if it does not
    /// decompress; if the file of a set that has it cannot be opened.
    pub fn tensor(&self, key: impl TensorKey) -> Result<TensorView<'_>, Error<T::Fault>> {
        self.read(key, |position| tensor(&self.0, position, Reading::PLAIN))
    }

    /// Returns a range of the bytes of a tensor's values: borrowed from a source in memory, otherwise read
    /// without the rest of the tensor. If the tensor is compressed, only the blocks that hold the range are
    /// decoded.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`] if the tensor is only declared; if it cannot be read or
    /// decompressed; [`Error::OutOfRange`] if it has fewer bytes.
    pub fn read_range(&self, key: impl TensorKey, bytes: Range<u64>) -> Result<Bytes<'_>, Error<T::Fault>> {
        self.read(key, |position| self.0.values(position, Which::Range(bytes), Reading::PLAIN))
    }

    /// Returns a part of a tensor, by a slice of each dimension. If the values are contiguous, they are
    /// borrowed from a source in memory; otherwise they are read, with little of the rest of the tensor. If
    /// the tensor is compressed, only the blocks that hold some of the part are decoded.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`] if the tensor is only declared; if it cannot be read or
    /// decompressed; [`Error::Slice`] if the slice does not fit the tensor.
    pub fn slice(&self, key: impl TensorKey, part: &Slice) -> Result<TensorSlice<'_>, Error<T::Fault>> {
        self.read(key, |position| slice(&self.0, position, part, Reading::PLAIN))
    }

    /// Fills `out` with a tensor's values, from their byte `offset` on. If the tensor is compressed, only the
    /// blocks that hold them are decoded.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`] if the tensor is only declared; if it cannot be read or
    /// decompressed; [`Error::OutOfRange`] if it has fewer bytes.
    pub fn read_into(&self, key: impl TensorKey, offset: u64, out: &mut [u8]) -> Result<(), Error<T::Fault>> {
        self.read(key, |position| self.0.values_into(position, offset, out, None))
    }

    /// Returns the same reads with checks: each reads all bytes that the digest covers, and compares.
    pub const fn checked(&self) -> Checked<'_, T> {
        Checked(self)
    }

    /// Returns the file's metadata in the type of the format.
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    pub fn metadata(&self) -> Result<T::Metadata<'_>, Error<T::Fault>> {
        now(self.0.metadata()).map_err(|error| self.0.named(error))
    }

    /// Returns the metadata as one flat list of keys and plain values, which every format has.
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    pub fn flat_metadata(&self) -> Result<Object, Error<T::Fault>> {
        now(self.0.flat_metadata()).map_err(|error| self.0.named(error))
    }

    /// Checks the file by the rules of its format on up to 8 threads, and reports every finding. For a set, checks all files.
    pub fn verify(&self, level: VerifyLevel) -> Report {
        self.verify_with(level, &Execution::default())
    }

    /// Checks the file by the rules of its format on the number of threads in `work`, and reports every
    /// finding. The progress callback of `work` can stop it.
    pub fn verify_with(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        now_or_never(self.0.verify(level, work))
            .unwrap_or_else(|| Report::unreadable(level, "the source has to be waited for".to_owned()))
    }

    /// Finds a tensor and reads it.
    fn read<R, F: Future<Output = Result<R, Error<T::Fault>>>>(
        &self,
        key: impl TensorKey,
        read: impl FnOnce(usize) -> F,
    ) -> Result<R, Error<T::Fault>> {
        let found = position_of(&self.0, key).and_then(|position| {
            self.0.prepare(position);
            now(read(position))
        });
        found.map_err(|error| self.0.named(error))
    }
}

/// The reads of a [`Reader`], each checked by the smallest digest in the file that covers the values: the digest of the tensor,
/// its pages, a section or the whole file. Everything that the digest covers is read.
#[derive(Debug)]
pub struct Checked<'a, T>(&'a Reader<T>);

impl<T> Clone for Checked<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Checked<'_, T> {}

impl<'a, T: OpenedNow> Checked<'a, T> {
    /// Returns the tensor with its values: see [`Reader::tensor`].
    ///
    /// # Errors
    /// The errors of [`Reader::tensor`]; the format's own error if the bytes do not match the digest in the
    /// file; [`Error::NoHash`] if no digest covers them, or only one over so many more bytes that you should
    /// call [`verify`](Reader::verify) instead.
    pub fn tensor(self, key: impl TensorKey) -> Result<TensorView<'a>, Error<T::Fault>> {
        self.0.read(key, |position| tensor(&self.0.0, position, Reading::CHECKED))
    }

    /// Returns a range of the bytes of a tensor's values. If the file has digests of pages, only the pages
    /// that the range touches are read.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`] if the tensor is only declared; if it cannot be read or
    /// decompressed; [`Error::OutOfRange`] if it has fewer bytes.
    pub fn read_range(self, key: impl TensorKey, bytes: Range<u64>) -> Result<Bytes<'a>, Error<T::Fault>> {
        self.0.read(key, |position| self.0.0.values(position, Which::Range(bytes), Reading::CHECKED))
    }

    /// Returns a part of a tensor, by a slice of each dimension. If the file has digests of pages, only the
    /// pages that the slice touches are read.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`] if the tensor is only declared; if it cannot be read or
    /// decompressed; [`Error::Slice`] if the slice does not fit the tensor.
    pub fn slice(self, key: impl TensorKey, part: &Slice) -> Result<TensorSlice<'a>, Error<T::Fault>> {
        self.0.read(key, |position| slice(&self.0.0, position, part, Reading::CHECKED))
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl<I: FileIndex> Reader<OpenFile<I, FileSource>> {
    /// Opens the file at `path` with the default options. Only its index is read; tensors are read on demand.
    ///
    /// # Errors
    /// [`Error::Open`] if the file cannot be opened; if the file breaks a rule of the format, or exceeds a
    /// limit.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error<I::Fault>> {
        OpenOptions::new().open(path)
    }
}

impl<I: FileIndex, S: Source> Reader<OpenFile<I, S>> {
    /// Opens the file that `source` holds, with the default options: a slice, a buffer, a map, or your own
    /// source.
    ///
    /// # Errors
    /// If the source cannot be read, breaks a rule of the format, or exceeds a limit.
    pub fn from_source(source: S) -> Result<Self, Error<I::Fault>> {
        OpenOptions::new().open_source(source)
    }

    /// Opens the file in a source with the given settings.
    ///
    /// # Errors
    /// If the source cannot be read, breaks a rule of the format, or exceeds a limit.
    pub fn open_source(source: S, settings: &OpenSettings) -> Result<Self, Error<I::Fault>> {
        now(OpenFile::open(source, settings)).map(Self)
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

    /// Returns the bytes of a tensor, borrowed from a source in memory. Never makes a copy.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`] if the tensor is only declared; [`CommonFault::NotBorrowed`] if
    /// [`tensor`](Self::tensor) would make a copy.
    pub fn tensor_slice(&self, key: impl TensorKey) -> Result<&[u8], Error<I::Fault>> {
        self.read(key, |position| async move {
            let location = self.0.location(position).await?;
            let info = self.0.info(position).await?;
            let at = location.offset.ok_or_else(|| Error::NoData { name: info.name.to_owned() })?;
            let refused = |why| {
                let fault = CommonFault::NotBorrowed(why).into();
                Error::Malformed { part: Part::named("tensor", info.name), at, fault }
            };
            if location.encoding.is_compressed() {
                return Err(refused("the tensor is compressed"));
            }
            if self.0.source.as_slice().is_none() {
                return Err(refused("the source is not in memory"));
            }
            match self.0.index.read(&self.0.source, position, None).await? {
                Bytes::Borrowed(bytes) => Ok(bytes),
                Bytes::Owned(_) => Err(refused("the file stores the values in another form")),
            }
        })
    }
}
