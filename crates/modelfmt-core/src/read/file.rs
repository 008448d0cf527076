//! One open file: its index, and the source of its bytes.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use tensor_core::{Bytes, TensorInfo, TensorView};

use super::{CheckedRead, Opened, OpenedNow, Reading, Which};
use crate::claims::{Claims, ObservedSource, WantedRange};
use crate::error::{AnyError, Error};
use crate::execution::Execution;
use crate::fetch::Fetch;
use crate::file_index::FileIndex;
use crate::parse::{parse_fetched, require_len};
use crate::plan::gathered;
use crate::report::{Report, VerifyLevel};
use crate::settings::OpenSettings;
use crate::source::Source;
use crate::table::{Location, Place, Stored, TensorTable};
use crate::value::{Object, Value};

/// An open file: its index and the source of its bytes.
#[derive(Debug)]
pub struct OpenFile<I, S> {
    pub(crate) index: Arc<I>,
    pub(crate) source: S,
}

impl<I, S: Clone> Clone for OpenFile<I, S> {
    fn clone(&self) -> Self {
        Self { index: Arc::clone(&self.index), source: self.source.clone() }
    }
}

impl<I, S> OpenFile<I, S> {
    /// Returns the index of the file. Keep it to open the same file again without reading.
    #[must_use]
    pub const fn index(&self) -> &Arc<I> {
        &self.index
    }

    /// Returns the source of the bytes.
    #[must_use]
    pub const fn source(&self) -> &S {
        &self.source
    }
}

impl<I: FileIndex, S: Fetch> OpenFile<I, S> {
    /// Opens the file in a source; only the index is read.
    ///
    /// # Errors
    /// If the source cannot be read, breaks a rule of the format, or exceeds a limit.
    pub async fn open(source: S, settings: &OpenSettings) -> Result<Self, Error<I::Fault>> {
        match parse_fetched(I::parser(source.size(), settings), &source).await {
            Ok(index) => Ok(Self { index: Arc::new(index), source }),
            Err(error) => Err(error.in_source(source.label())),
        }
    }

    /// Opens a source with the index that an earlier reader built from the same bytes. Nothing is read.
    ///
    /// # Errors
    /// If the source is not as long as the file that the index was built from.
    pub fn with_index(index: Arc<I>, source: S) -> Result<Self, Error<I::Fault>> {
        match require_len(source.size(), index.file_len()) {
            Ok(()) => Ok(Self { index, source }),
            Err(error) => Err(Error::from(error).in_source(source.label())),
        }
    }

    /// Returns the tensors in the order of the file.
    #[must_use]
    pub fn tensors(&self) -> &TensorTable {
        self.index.tensors()
    }

    fn info_at(&self, position: usize) -> Result<TensorInfo<'_>, Error<I::Fault>> {
        self.tensors().info(position).ok_or_else(|| Error::no_such_position(position))
    }

    fn location_at(&self, position: usize) -> Result<Location, Error<I::Fault>> {
        self.index.location(position).ok_or_else(|| Error::no_such_position(position))
    }

    fn expect_one_file<F>(file: usize) -> Result<(), Error<F>> {
        if file == 0 { Ok(()) } else { Err(Error::NotFound { name: format!("file number {file}") }) }
    }

    /// Returns values, checked against the digests in the file.
    async fn checked<'a>(&'a self, position: usize, which: Which<'_>) -> Result<Bytes<'a>, Error<I::Fault>> {
        let (index, source, info) = (&self.index, &self.source, self.info_at(position)?);
        which.check(&info)?;
        let mut claims = Claims::new();
        I::claims(index, source, &which.wanted(position), &mut claims.for_file()).await?;
        let place = Place::Listed(position);
        CheckedRead { index: &**index, source, info, place, file: 0, claims: &claims }.bytes(which).await
    }
}

impl<I: FileIndex, S: Fetch> Opened for OpenFile<I, S> {
    type Fault = I::Fault;
    type Metadata<'a>
        = I::Metadata<'a>
    where
        Self: 'a;

    fn version_text(&self) -> Option<String> {
        self.index.version_text()
    }

    fn tensor_count(&self) -> usize {
        self.tensors().len()
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.tensors().find(name)
    }

    fn name(&self) -> Option<Cow<'_, str>> {
        self.source.label()
    }

    fn file_paths(&self) -> Vec<String> {
        Vec::new()
    }

    async fn file_size(&self) -> u64 {
        self.index.file_len()
    }

    async fn info(&self, position: usize) -> Result<TensorInfo<'_>, Error<I::Fault>> {
        self.info_at(position)
    }

    async fn location(&self, position: usize) -> Result<Location, Error<I::Fault>> {
        self.location_at(position)
    }

    async fn stored(&self, position: usize) -> Result<Stored, Error<I::Fault>> {
        Ok(Stored::of(0, &self.location_at(position)?))
    }

    async fn stored_range(&self, position: usize, values: Range<u64>) -> Result<Range<u64>, Error<I::Fault>> {
        self.index.stored_range(&self.source, position, values).await
    }

    async fn values<'a>(
        &'a self,
        position: usize,
        which: Which<'_>,
        reading: Reading<'_>,
    ) -> Result<Bytes<'a>, Error<I::Fault>> {
        let (index, source) = (&self.index, &self.source);
        match which {
            _ if reading.is_checked => self.checked(position, which).await,
            Which::Whole => index.read(source, position, reading.work).await,
            Which::Range(range) => index.read_range(source, position, range).await,
            Which::Runs(runs) => {
                let (at, len) = (runs.offset(), runs.nbytes());
                let read = async |at: u64, out: &mut [u8]| index.read_into(source, position, at, out).await;
                gathered(runs, read, |source| Error::Io { at, len, source }).await.map(Bytes::Owned)
            }
        }
    }

    async fn values_into(
        &self,
        position: usize,
        at: u64,
        out: &mut [u8],
        claims: Option<&Claims>,
    ) -> Result<(), Error<I::Fault>> {
        match claims {
            None => self.index.read_into(&self.source, position, at, out).await,
            Some(claims) => {
                let source = ObservedSource::new(&self.source, 0, claims);
                self.index.read_into(&source, position, at, out).await
            }
        }
    }

    async fn bytes(&self, file: usize, range: Range<u64>) -> Result<Bytes<'_>, Error<I::Fault>> {
        Self::expect_one_file(file)?;
        let (at, len) = (range.start, range.end.saturating_sub(range.start));
        self.source.fetch(range).await.map_err(|source| Error::Io { at, len, source })
    }

    async fn bytes_into(&self, file: usize, at: u64, out: &mut [u8]) -> Result<(), Error<I::Fault>> {
        Self::expect_one_file(file)?;
        let len = out.len() as u64;
        self.source.fetch_into(at, out).await.map_err(|source| Error::Io { at, len, source })
    }

    async fn claims(&self, wanted: &[WantedRange]) -> Result<Claims, Error<I::Fault>> {
        let mut claims = Claims::new();
        let mut of_file = claims.for_file();
        self.index.check_index(&self.source, &mut of_file).await?;
        I::claims(&self.index, &self.source, wanted, &mut of_file).await?;
        Ok(claims)
    }

    async fn metadata(&self) -> Result<I::Metadata<'_>, Error<I::Fault>> {
        self.index.metadata(&self.source).await
    }

    async fn metadata_tree(&self) -> Result<Value, Error<I::Fault>> {
        self.index.metadata_tree(&self.source).await
    }

    async fn flat_metadata(&self) -> Result<Object, Error<I::Fault>> {
        self.index.flat_metadata(&self.source).await
    }

    async fn details(&self) -> Result<Object, Error<I::Fault>> {
        Ok(self.index.details())
    }

    fn warnings(&self) -> Vec<String> {
        self.index.warnings()
    }

    async fn verify(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        self.index.verify(&self.source, level, work).await
    }
}

impl<I: FileIndex, S: Source> OpenedNow for OpenFile<I, S> {
    fn prepare(&self, _: usize) {}

    fn info_now(&self, position: usize) -> Result<TensorInfo<'_>, Error<I::Fault>> {
        self.info_at(position)
    }

    fn as_slice(&self) -> Option<&[u8]> {
        self.source.as_slice()
    }

    fn source_of(&self, file: usize) -> Result<&dyn Source, AnyError> {
        Self::expect_one_file(file).map_err(|error: AnyError| error.in_source(self.source.name()))?;
        Ok(&self.source)
    }
}

/// Returns a view of the bytes that a source returned for the range at byte `at`. A source that returns a
/// different number of bytes breaks its contract.
///
/// # Errors
/// [`Error::Io`].
pub fn view_of_source<'a, F>(
    info: TensorInfo<'a>,
    bytes: Bytes<'a>,
    at: impl FnOnce() -> u64,
) -> Result<TensorView<'a>, Error<F>> {
    let len = bytes.len() as u64;
    let wrong = |error| io::Error::new(io::ErrorKind::UnexpectedEof, error);
    TensorView::new(info, bytes).map_err(|error| Error::Io { at: at(), len, source: wrong(error) })
}
