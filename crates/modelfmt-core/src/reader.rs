//! One reader for all formats whose files are an index and values: an index that is known, over a source of bytes.

use std::io;
use std::ops::Range;
#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::sync::Arc;

use tensor_core::{Bytes, TensorInfo, TensorView};

use crate::error::{CommonFault, Error, Part};
use crate::execution::Execution;
use crate::fetch::{now, now_or_never};
use crate::file_index::FileIndex;
use crate::options::OpenOptions;
use crate::parse::{parse_source, require_len};
use crate::report::{Report, VerifyLevel};
#[cfg(not(target_arch = "wasm32"))]
use crate::source::FileSource;
use crate::source::Source;
use crate::table::TensorTable;
use crate::value::Object;

/// An open file: its index and the source of its bytes. Each format crate has a type of its own over it, which
/// [`reader!`](crate::reader!) makes.
///
/// With a source in memory (a slice, a map), tensors are views of it without a copy; with any other, one tensor is one
/// read. A reader is as [`Send`] and [`Sync`] as its source.
#[derive(Debug)]
pub struct Reader<I, S> {
    pub(crate) index: Arc<I>,
    pub(crate) source: S,
}

impl<I, S> AsRef<Self> for Reader<I, S> {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl<I, S: Clone> Clone for Reader<I, S> {
    fn clone(&self) -> Self {
        Self { index: Arc::clone(&self.index), source: self.source.clone() }
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl<I: FileIndex> Reader<I, FileSource> {
    /// Opens the file at `path`, which is read at positions.
    ///
    /// # Errors
    /// [`Error::Open`]; as [`open_source`](Self::open_source).
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, Error<I::Fault>> {
        let failed = |source| Error::Open { path: path.display().to_string(), source };
        Self::open_source(FileSource::open(path).map_err(failed)?, options)
    }
}

impl<I, S> Reader<I, S> {
    /// What the file holds. Keep it to open the same file again without reading.
    #[must_use]
    pub const fn index(&self) -> &Arc<I> {
        &self.index
    }

    /// Where the bytes come from.
    #[must_use]
    pub const fn source(&self) -> &S {
        &self.source
    }

    /// The source, without the reader.
    #[must_use]
    pub fn into_source(self) -> S {
        self.source
    }
}

impl<I: FileIndex, S: Source> Reader<I, S> {
    /// Opens what a source holds with the default options.
    ///
    /// # Errors
    /// As [`open_source`](Self::open_source).
    pub fn from_source(source: S) -> Result<Self, Error<I::Fault>> {
        Self::open_source(source, &OpenOptions::new(I::default_limits()))
    }

    /// Opens what a source holds; only the index is read.
    ///
    /// # Errors
    /// If it cannot be read, breaks a rule of the format, or exceeds a limit.
    pub fn open_source(source: S, options: &OpenOptions) -> Result<Self, Error<I::Fault>> {
        match Self::read_index(&source, options) {
            Ok(index) => Ok(Self { index, source }),
            Err(error) => Err(error.in_source(source.name())),
        }
    }

    /// The index of what a source holds.
    ///
    /// # Errors
    /// As [`open_source`](Self::open_source).
    pub fn read_index(source: &S, options: &OpenOptions) -> Result<Arc<I>, Error<I::Fault>> {
        parse_source(I::parser(source.len(), options), source).map(Arc::new)
    }

    /// Opens a source with the index that an earlier reader made of the same bytes. Nothing is read.
    ///
    /// # Errors
    /// If the source is not as long as the file that the index was made of.
    pub fn with_index(index: Arc<I>, source: S) -> Result<Self, Error<I::Fault>> {
        match require_len(source.len(), index.file_len()) {
            Ok(()) => Ok(Self { index, source }),
            Err(error) => Err(Error::from(error).in_source(source.name())),
        }
    }

    /// The tensors in the order of the file.
    #[must_use]
    pub fn tensors(&self) -> &TensorTable {
        self.index.tensors()
    }

    /// The tensor of that name with its values: borrowed from a source in memory, else read into an aligned buffer.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`] if it is only declared; [`Error::Io`]; if it does not decompress.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>, Error<I::Fault>> {
        self.tensor_at(self.position(name).map_err(|error| self.named(error))?)
    }

    /// The tensor at a position with its values.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn tensor_at(&self, position: usize) -> Result<TensorView<'_>, Error<I::Fault>> {
        self.view(position, None)
    }

    /// The tensor at a position with its values, decompressed on as many threads as `work` allows.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn tensor_with(
        &self,
        position: usize,
        work: &Execution<'_>,
    ) -> Result<TensorView<'_>, Error<I::Fault>> {
        self.view(position, Some(work))
    }

    /// The bytes of a tensor, borrowed from a source in memory: what a map is for. Never a copy.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor); [`CommonFault::NotBorrowed`] where [`tensor`](Self::tensor) would make a copy.
    pub fn tensor_slice(&self, name: &str) -> Result<&[u8], Error<I::Fault>> {
        self.borrowed(name).map_err(|error| self.named(error))
    }

    fn borrowed(&self, name: &str) -> Result<&[u8], Error<I::Fault>> {
        let position = self.position(name)?;
        let location = self.index.location(position).ok_or_else(|| Error::no_such_position(position))?;
        let at = location.offset.ok_or_else(|| Error::NoData { name: name.to_owned() })?;
        let refused = |why| {
            let fault = CommonFault::NotBorrowed(why).into();
            Error::Malformed { part: Part::named("tensor", name), at, fault }
        };
        if location.encoding.is_compressed() {
            return Err(refused("the tensor is compressed"));
        }
        if self.source.as_slice().is_none() {
            return Err(refused("the source is not in memory"));
        }
        match now(self.index.read(&self.source, position, None))? {
            Bytes::Borrowed(bytes) => Ok(bytes),
            Bytes::Owned(_) => Err(refused("the file stores the values in another form")),
        }
    }

    /// Fills `out` with the values of the tensor at a position, starting at byte `offset` of the values. If the tensor is compressed, only the blocks
    /// that hold them are decoded.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor); [`Error::OutOfRange`] if the tensor has fewer bytes.
    pub fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<(), Error<I::Fault>> {
        now(self.index.read_into(&self.source, position, offset, out)).map_err(|error| self.named(error))
    }

    /// A range of the bytes of the tensor of that name: borrowed from a source in memory, else read without the rest of the tensor. If the tensor is
    /// compressed, only the blocks that hold the range are decoded.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor); [`Error::OutOfRange`] if the tensor has fewer bytes.
    pub fn read_range(&self, name: &str, range: Range<u64>) -> Result<Bytes<'_>, Error<I::Fault>> {
        self.read_range_at(self.position(name).map_err(|error| self.named(error))?, range)
    }

    /// A range of the bytes of the tensor at a position.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range).
    pub fn read_range_at(&self, position: usize, range: Range<u64>) -> Result<Bytes<'_>, Error<I::Fault>> {
        now(self.index.read_range(&self.source, position, range)).map_err(|error| self.named(error))
    }

    /// The file's metadata, as the format has it.
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    pub fn metadata(&self) -> Result<I::Metadata<'_>, Error<I::Fault>> {
        now(self.index.metadata(&self.source)).map_err(|error| self.named(error))
    }

    /// The metadata as one flat list of keys and plain values, whatever the format wraps it in.
    ///
    /// # Errors
    /// As [`metadata`](Self::metadata).
    pub fn flat_metadata(&self) -> Result<Object, Error<I::Fault>> {
        now(self.index.flat_metadata(&self.source)).map_err(|error| self.named(error))
    }

    /// Checks the file, on all cores, and reports every finding.
    pub fn verify(&self, level: VerifyLevel) -> Report {
        self.verify_with(level, &Execution::default())
    }

    /// As [`verify`](Self::verify), with the work done as `work` says.
    pub fn verify_with(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        now_or_never(self.index.verify(&self.source, level, work))
            .unwrap_or_else(|| Report::unreadable(level, "the source has to be waited for".to_owned()))
    }

    /// An error with the name of the file, if the source has one: for what a format's own reader does beyond this one.
    #[must_use]
    pub fn named<F>(&self, error: Error<F>) -> Error<F> {
        error.in_source(self.source.name())
    }

    fn position(&self, name: &str) -> Result<usize, Error<I::Fault>> {
        self.tensors().find(name).ok_or_else(|| Error::NotFound { name: name.to_owned() })
    }

    /// A tensor with its values: what every way to read one comes down to.
    pub(crate) fn view(
        &self,
        position: usize,
        work: Option<&Execution<'_>>,
    ) -> Result<TensorView<'_>, Error<I::Fault>> {
        let bytes = now(self.index.read(&self.source, position, work)).map_err(|error| self.named(error))?;
        let Some(info) = self.tensors().info(position) else {
            return Err(self.named(Error::no_such_position(position)));
        };
        let at = || self.index.location(position).and_then(|location| location.offset).unwrap_or(0);
        view_of_source(info, bytes, at).map_err(|error| self.named(error))
    }
}

/// A view of the bytes that a source gave from byte `at` on. A source that gives another number of bytes breaks its contract.
///
/// # Errors
/// [`Error::Io`].
pub fn view_of_source<'a, F>(
    info: TensorInfo<'a>,
    bytes: Bytes<'a>,
    at: impl FnOnce() -> u64,
) -> Result<TensorView<'a>, Error<F>> {
    let len = bytes.len() as u64;
    TensorView::new(info, bytes).map_err(|error| Error::Io {
        at: at(),
        len,
        source: io::Error::new(io::ErrorKind::UnexpectedEof, error),
    })
}
