//! Reading an open model: one implementation for files and sets, blocking and asynchronous, plain and checked.
//!
//! ```text
//!  Reader<T>: blocking      AsyncReader<T>: async      load: many requests under way
//!        └───────────┬────────────┴───────────────────────────┘
//!              Opened: async functions over Fetch
//!        ┌───────────┴────────────┐
//!  OpenFile<I, S>           OpenSet<M, F>: an OpenFile for each of its files
//!        └───────────┬────────────┘
//!          FileIndex: what a format says of a file
//! ```
//!
//! A blocking source returns its bytes at once, so [`Reader`] polls each future once and gets its result.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod async_reader;
mod checked;
mod file;
mod key;
mod open;
mod reader;

use std::borrow::Cow;
use std::fmt::{Debug, Display};
use std::future::Future;
use std::ops::Range;

use tensor_core::{Bytes, TensorInfo, TensorView};

pub use self::async_reader::{AsyncChecked, AsyncReader};
pub(crate) use self::checked::CheckedRead;
pub use self::checked::Which;
pub use self::file::{OpenFile, view_of_source};
pub use self::key::TensorKey;
pub use self::reader::{Checked, Reader};
use crate::claims::{Claims, WantedRange};
use crate::error::{AnyError, CommonFault, Error, Fault};
use crate::execution::Execution;
use crate::plan::{Slice, TensorSlice};
use crate::report::{Report, VerifyLevel};
use crate::source::Source;
use crate::table::{Location, Stored};
use crate::value::{Object, Value};

/// Options for reading values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading<'a> {
    /// Whether the values are checked against the smallest digest in the file that covers them.
    pub is_checked: bool,
    /// The threads that decompress. If `None`, the number depends on the tensor's size.
    pub work: Option<&'a Execution<'a>>,
}

impl Reading<'_> {
    /// Values are not checked against a digest.
    pub const PLAIN: Self = Self { is_checked: false, work: None };

    /// Values are checked.
    pub const CHECKED: Self = Self { is_checked: true, work: None };
}

/// An open model, a file or a set of files, with `async` functions for everything that can be read from it.
/// [`Reader`] and [`AsyncReader`] drive it.
///
/// A tensor is identified by its position. The files of a set are numbered as in [`Claims::observe`]; a
/// single file is number 0.
pub trait Opened {
    /// The faults of the format, or of any format.
    type Fault: From<CommonFault> + Debug + Display + 'static;

    /// The format's own metadata type.
    type Metadata<'a>
    where
        Self: 'a;

    /// Returns the version that the file states.
    fn version_text(&self) -> Option<String>;

    /// Returns the number of tensors.
    fn tensor_count(&self) -> usize;

    /// Returns the position of the tensor with this name.
    fn find(&self, name: &str) -> Option<usize>;

    /// Returns the name of the file, or of the set's index, for errors.
    fn name(&self) -> Option<Cow<'_, str>>;

    /// Returns the paths of a set's files other than its index, as the index names them. Empty for a single
    /// file.
    fn file_paths(&self) -> Vec<String>;

    /// Returns the size in bytes of all files together. A file of a set that cannot be opened counts as 0,
    /// unless the index states its size.
    fn file_size(&self) -> impl Future<Output = u64>;

    /// Returns the tensor at a position. The file of a set is opened if the index does not describe the
    /// tensor.
    ///
    /// # Errors
    /// If there is no such tensor, or its file cannot be opened or does not have it.
    fn info(&self, position: usize) -> impl Future<Output = Result<TensorInfo<'_>, Error<Self::Fault>>>;

    /// Returns the place of a tensor's values.
    ///
    /// # Errors
    /// If there is no such tensor, or its file cannot be opened or does not have it.
    fn location(&self, position: usize) -> impl Future<Output = Result<Location, Error<Self::Fault>>>;

    /// Returns the place of a tensor's values, with the file as a number.
    ///
    /// # Errors
    /// If there is no such tensor, or its file cannot be opened or does not have it.
    fn stored(&self, position: usize) -> impl Future<Output = Result<Stored, Error<Self::Fault>>>;

    /// Returns the range of the file that must be read for a range of a tensor's values.
    ///
    /// # Errors
    /// If there is no such tensor or range, it has no data, its blocks cannot be found, or its file cannot be opened.
    fn stored_range(
        &self,
        position: usize,
        values: Range<u64>,
    ) -> impl Future<Output = Result<Range<u64>, Error<Self::Fault>>>;

    /// Returns the values of a tensor or a part of them: decompressed, little-endian and row-major. They are
    /// borrowed if they are in memory in this form.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`]; [`Error::OutOfRange`]; if the values cannot be read or
    /// decompressed. A checked read also returns the format's own error if they do not match the digest in
    /// the file, and [`Error::NoHash`] if no digest covers them.
    fn values<'a>(
        &'a self,
        position: usize,
        which: Which<'_>,
        reading: Reading<'_>,
    ) -> impl Future<Output = Result<Bytes<'a>, Error<Self::Fault>>>;

    /// Fills `out` with the values of a tensor from byte `at` on. All bytes that are read are passed to
    /// `claims`, which then show whether the bytes are right.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`]; [`Error::OutOfRange`]; if the values cannot be read or
    /// decompressed.
    fn values_into(
        &self,
        position: usize,
        at: u64,
        out: &mut [u8],
        claims: Option<&Claims>,
    ) -> impl Future<Output = Result<(), Error<Self::Fault>>>;

    /// Returns a range of the raw bytes of a file.
    ///
    /// # Errors
    /// If there is no such file or range, or it cannot be read.
    fn bytes(
        &self,
        file: usize,
        range: Range<u64>,
    ) -> impl Future<Output = Result<Bytes<'_>, Error<Self::Fault>>>;

    /// Fills `out` with the bytes of a file from byte `at` on.
    ///
    /// # Errors
    /// If there is no such file or range, or it cannot be read.
    fn bytes_into(
        &self,
        file: usize,
        at: u64,
        out: &mut [u8],
    ) -> impl Future<Output = Result<(), Error<Self::Fault>>>;

    /// Returns the digests in the files that cover these parts of tensors: for each, the smallest one.
    ///
    /// # Errors
    /// If the digests cannot be read or understood.
    fn claims(&self, wanted: &[WantedRange]) -> impl Future<Output = Result<Claims, Error<Self::Fault>>>;

    /// Returns the metadata in the type of the format.
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    fn metadata(&self) -> impl Future<Output = Result<Self::Metadata<'_>, Error<Self::Fault>>>;

    /// Returns the metadata as the tree that `inspect --json` prints.
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    fn metadata_tree(&self) -> impl Future<Output = Result<Value, Error<Self::Fault>>>;

    /// Returns the metadata as one flat list of keys and plain values.
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    fn flat_metadata(&self) -> impl Future<Output = Result<Object, Error<Self::Fault>>>;

    /// Returns the details that only this format has, as `inspect --json` prints them.
    ///
    /// # Errors
    /// If a file cannot be opened.
    fn details(&self) -> impl Future<Output = Result<Object, Error<Self::Fault>>>;

    /// Returns irregularities that were tolerated on opening; for a set, only those of open files.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Checks everything and reports every finding.
    fn verify(&self, level: VerifyLevel, work: &Execution<'_>) -> impl Future<Output = Report>;

    /// Adds the name of the file to an error, if it is known.
    fn named(&self, error: Error<Self::Fault>) -> Error<Self::Fault> {
        error.in_source(self.name())
    }
}

/// An open model that never waits: [`Reader`] needs this in addition to [`Opened`].
pub trait OpenedNow: Opened<Fault: Fault> {
    /// Opens the file of a tensor. Threads that need the same file wait for the one that opens it. An error
    /// is remembered, and returned when the tensor is read.
    fn prepare(&self, position: usize);

    /// Returns the tensor at a position. If the index does not describe the tensor, its file is opened, as in
    /// [`prepare`](Self::prepare).
    ///
    /// # Errors
    /// If there is no such tensor, or its file cannot be opened or does not have it.
    fn info_now(&self, position: usize) -> Result<TensorInfo<'_>, Error<Self::Fault>>;

    /// Returns all bytes, if the model is a single file in memory.
    fn as_slice(&self) -> Option<&[u8]>;

    /// Returns the source of a file's bytes.
    ///
    /// # Errors
    /// If there is no such file, or it cannot be opened.
    fn source_of(&self, file: usize) -> Result<&dyn Source, AnyError>;
}

/// Returns the position of a tensor.
fn position_of<T: Opened>(opened: &T, key: impl TensorKey) -> Result<usize, Error<T::Fault>> {
    key.position(|name| opened.find(name)).map_err(|name| Error::NotFound { name: name.to_owned() })
}

/// Returns a tensor with its values.
async fn tensor<'a, T: Opened>(
    opened: &'a T,
    position: usize,
    reading: Reading<'_>,
) -> Result<TensorView<'a>, Error<T::Fault>> {
    let info = opened.info(position).await?;
    let bytes = opened.values(position, Which::Whole, reading).await?;
    match view_of_source(info, bytes, || 0) {
        Err(Error::Io { len, source, .. }) => {
            let at = opened.location(position).await.ok().and_then(|location| location.offset).unwrap_or(0);
            Err(Error::Io { at, len, source })
        }
        view => view,
    }
}

/// Returns a part of a tensor, by a slice of each dimension.
async fn slice<'a, T: Opened>(
    opened: &'a T,
    position: usize,
    slice: &Slice,
    reading: Reading<'_>,
) -> Result<TensorSlice<'a>, Error<T::Fault>> {
    let info = opened.info(position).await?;
    let sliced = slice.of(&info).map_err(|fault| Error::slice(&info, fault))?;
    let bytes = opened.values(position, Which::runs(&sliced.runs), reading).await?;
    Ok(TensorSlice::new(&info, sliced.shape, bytes))
}
