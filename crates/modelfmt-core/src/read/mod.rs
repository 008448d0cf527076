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
//! A blocking source returns its bytes at once, so [`Reader`] polls each future once and has its result.
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
use crate::claims::{Claims, Wanted};
use crate::error::{AnyError, CommonFault, Error, Fault};
use crate::execution::Execution;
use crate::plan::{Slice, TensorSlice};
use crate::report::{Report, VerifyLevel};
use crate::source::Source;
use crate::table::{Location, Stored};
use crate::value::{Object, Value};

/// How values are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading<'a> {
    /// Whether the values are checked against the smallest digest in the file that covers them.
    pub is_checked: bool,
    /// The threads that decompress; if `None`, as many as the tensor's size is worth.
    pub work: Option<&'a Execution<'a>>,
}

impl Reading<'_> {
    /// Values without a check of any digest.
    pub const PLAIN: Self = Self { is_checked: false, work: None };

    /// Checked values.
    pub const CHECKED: Self = Self { is_checked: true, work: None };
}

/// An open model, a file or a set of files, with everything that can be read of it, as `async` functions. [`Reader`] and
/// [`AsyncReader`] drive it.
///
/// A tensor is named by its position. The files of a set are numbered as in [`Claims::observe`]; a single file is number 0.
pub trait Opened {
    /// The faults of the format, or of any format.
    type Fault: From<CommonFault> + Debug + Display + 'static;

    /// The format's own metadata type.
    type Metadata<'a>
    where
        Self: 'a;

    /// The version that the file states.
    fn version_text(&self) -> Option<String>;

    /// The number of tensors.
    fn tensor_count(&self) -> usize;

    /// The position of the tensor with that name.
    fn find(&self, name: &str) -> Option<usize>;

    /// The name of the file, or of the set's index, in errors.
    fn name(&self) -> Option<Cow<'_, str>>;

    /// The paths of a set's files other than its index, as the index names them. Empty for a single file.
    fn file_paths(&self) -> Vec<String>;

    /// The size in bytes of all files together. A file of a set that cannot be opened counts as 0, unless the index states its
    /// size.
    fn file_size(&self) -> impl Future<Output = u64>;

    /// The tensor at a position. The file of a set is opened if the index does not say what the tensor is.
    ///
    /// # Errors
    /// If there is no such tensor, or its file cannot be opened or does not have it.
    fn info(&self, position: usize) -> impl Future<Output = Result<TensorInfo<'_>, Error<Self::Fault>>>;

    /// Where the values of a tensor lie.
    ///
    /// # Errors
    /// If there is no such tensor, or its file cannot be opened or does not have it.
    fn location(&self, position: usize) -> impl Future<Output = Result<Location, Error<Self::Fault>>>;

    /// Where the values of a tensor lie, with the file as a number.
    ///
    /// # Errors
    /// If there is no such tensor, or its file cannot be opened or does not have it.
    fn stored(&self, position: usize) -> impl Future<Output = Result<Stored, Error<Self::Fault>>>;

    /// The bytes of the file that have to be read for a range of a tensor's values.
    ///
    /// # Errors
    /// If there is no such tensor or range, it has no data, its blocks cannot be found, or its file cannot be opened.
    fn stored_range(
        &self,
        position: usize,
        values: Range<u64>,
    ) -> impl Future<Output = Result<Range<u64>, Error<Self::Fault>>>;

    /// The values of a tensor or a part of them: decompressed, little-endian and row-major; borrowed if they are in memory in this form.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`]; [`Error::OutOfRange`]; if they cannot be read or decompressed. A checked read also
    /// returns the format's own error if they do not match the digest in the file, and [`Error::NoHash`] if no digest covers
    /// them.
    fn values<'a>(
        &'a self,
        position: usize,
        which: Which<'_>,
        reading: Reading<'_>,
    ) -> impl Future<Output = Result<Bytes<'a>, Error<Self::Fault>>>;

    /// Fills `out` with the values of a tensor from byte `at` on. `claims` see all bytes that are read; ask them afterwards
    /// whether the bytes are right.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`]; [`Error::OutOfRange`]; if they cannot be read or decompressed.
    fn values_into(
        &self,
        position: usize,
        at: u64,
        out: &mut [u8],
        claims: Option<&Claims>,
    ) -> impl Future<Output = Result<(), Error<Self::Fault>>>;

    /// A range of a file, as it is.
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

    /// The digests in the files that cover these parts of tensors: for each, the smallest one.
    ///
    /// # Errors
    /// If the digests cannot be read or understood.
    fn claims(&self, wanted: &[Wanted]) -> impl Future<Output = Result<Claims, Error<Self::Fault>>>;

    /// The metadata, as the format has it.
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    fn metadata(&self) -> impl Future<Output = Result<Self::Metadata<'_>, Error<Self::Fault>>>;

    /// The metadata as the tree that `inspect --json` prints.
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    fn metadata_tree(&self) -> impl Future<Output = Result<Value, Error<Self::Fault>>>;

    /// The metadata as one flat list of keys and plain values.
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    fn flat_metadata(&self) -> impl Future<Output = Result<Object, Error<Self::Fault>>>;

    /// What only this format has, as `inspect --json` prints it.
    ///
    /// # Errors
    /// If a file cannot be opened.
    fn details(&self) -> impl Future<Output = Result<Object, Error<Self::Fault>>>;

    /// Oddities that opening tolerated; for a set, in the files that are open.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Checks everything and reports every finding.
    fn verify(&self, level: VerifyLevel, work: &Execution<'_>) -> impl Future<Output = Report>;

    /// The error with the name of the file, if that is known.
    fn named(&self, error: Error<Self::Fault>) -> Error<Self::Fault> {
        error.in_source(self.name())
    }
}

/// An open model that never waits: what [`Reader`] needs beyond [`Opened`].
pub trait OpenedNow: Opened<Fault: Fault> {
    /// Opens the file of a tensor. Threads that need the same file wait for the one that opens it. An error is remembered, and
    /// returned when the tensor is read.
    fn prepare(&self, position: usize);

    /// The tensor at a position. If the index does not say what the tensor is, its file is opened as by
    /// [`prepare`](Self::prepare).
    ///
    /// # Errors
    /// If there is no such tensor, or its file cannot be opened or does not have it.
    fn info_now(&self, position: usize) -> Result<TensorInfo<'_>, Error<Self::Fault>>;

    /// All bytes, if it is a single file and in memory.
    fn as_slice(&self) -> Option<&[u8]>;

    /// The source of a file's bytes.
    ///
    /// # Errors
    /// If there is no such file, or it cannot be opened.
    fn source_of(&self, file: usize) -> Result<&dyn Source, AnyError>;
}

/// The position of a tensor.
fn position_of<T: Opened>(opened: &T, key: impl TensorKey) -> Result<usize, Error<T::Fault>> {
    key.position(|name| opened.find(name)).map_err(|name| Error::NotFound { name: name.to_owned() })
}

/// A tensor with its values.
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

/// A part of a tensor, by a slice of each dimension.
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
