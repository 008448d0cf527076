//! The reader of files that have to be waited for: an object store, a web server, a browser's file handle.

use std::ops::Range;
use std::sync::Arc;

use tensor_core::{Bytes, TensorInfo, TensorView};

use crate::claims::{Claims, ObservedSource, Wanted};
use crate::error::Error;
use crate::execution::Execution;
use crate::fetch::Fetch;
use crate::file_index::FileIndex;
use crate::load::{Awaited, LoadOptions, Loaded, load_awaited};
use crate::options::OpenOptions;
use crate::parse::{parse_fetched, require_len};
use crate::plan::Pick;
use crate::reader::view_of_source;
use crate::report::{Report, VerifyLevel};
use crate::table::{Stored, TensorTable};
use crate::value::Object;

/// An open file over an asynchronous source. It has the methods of [`Reader`](crate::Reader) as `async` functions and runs
/// the same code; your executor drives it.
#[derive(Debug)]
pub struct AsyncReader<I, S> {
    index: Arc<I>,
    source: S,
}

impl<I: FileIndex, S: Fetch> AsyncReader<I, S> {
    /// Opens what a source holds with the default options; only the index is read.
    ///
    /// # Errors
    /// If it cannot be read, breaks a rule of the format, or exceeds a limit.
    pub async fn from_source(source: S) -> Result<Self, Error<I::Fault>> {
        Self::open_source(source, &OpenOptions::new(I::default_limits())).await
    }

    /// As [`from_source`](Self::from_source), with options of your own.
    ///
    /// # Errors
    /// As [`from_source`](Self::from_source).
    pub async fn open_source(source: S, options: &OpenOptions) -> Result<Self, Error<I::Fault>> {
        let index = parse_fetched(I::parser(source.size(), options), &source).await?;
        Ok(Self { index: Arc::new(index), source })
    }

    /// Opens a source with the index that an earlier reader made of the same bytes. Nothing is read.
    ///
    /// # Errors
    /// If the source is not as long as the file that the index was made of.
    pub fn with_index(index: Arc<I>, source: S) -> Result<Self, Error<I::Fault>> {
        require_len(source.size(), index.file_len())?;
        Ok(Self { index, source })
    }

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

    /// The tensors in the order of the file.
    #[must_use]
    pub fn tensors(&self) -> &TensorTable {
        self.index.tensors()
    }

    /// The tensor of that name with its values: as [`Reader::tensor`](crate::Reader::tensor).
    ///
    /// # Errors
    /// As [`Reader::tensor`](crate::Reader::tensor).
    pub async fn tensor(&self, name: &str) -> Result<TensorView<'_>, Error<I::Fault>> {
        self.tensor_at(self.position(name)?).await
    }

    /// The tensor at a position with its values.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub async fn tensor_at(&self, position: usize) -> Result<TensorView<'_>, Error<I::Fault>> {
        let bytes = self.index.read(&self.source, position, None).await?;
        let info = self.info(position)?;
        let at = || self.index.location(position).and_then(|location| location.offset).unwrap_or(0);
        view_of_source(info, bytes, at)
    }

    /// Fills `out` with the values of the tensor at a position, from byte `offset` of them on: as
    /// [`Reader::read_into`](crate::Reader::read_into).
    ///
    /// # Errors
    /// As [`Reader::read_into`](crate::Reader::read_into).
    pub async fn read_into(
        &self,
        position: usize,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), Error<I::Fault>> {
        self.index.read_into(&self.source, position, offset, out).await
    }

    /// A range of the bytes of the tensor of that name: as [`Reader::read_range`](crate::Reader::read_range).
    ///
    /// # Errors
    /// As [`Reader::read_range`](crate::Reader::read_range).
    pub async fn read_range(&self, name: &str, range: Range<u64>) -> Result<Bytes<'_>, Error<I::Fault>> {
        self.read_range_at(self.position(name)?, range).await
    }

    /// A range of the bytes of the tensor at a position.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range).
    pub async fn read_range_at(
        &self,
        position: usize,
        range: Range<u64>,
    ) -> Result<Bytes<'_>, Error<I::Fault>> {
        self.index.read_range(&self.source, position, range).await
    }

    /// Fills buffers of your own with tensors or parts of them, in the order of `picks`, with several requests under way at once: as many as
    /// [`LoadOptions::in_flight`] allows. Each buffer is as long as the values. The future does no more than to ask and to copy, and with
    /// [`verify`](LoadOptions::verify) to hash, where it is polled; of `work`, it uses the progress.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor); [`Error::OutOfRange`] for a buffer of another length; if values are not what their file states. The
    /// buffers may hold some of the values then, checked or not.
    pub async fn load_into(
        &self,
        picks: &[Pick],
        buffers: &mut [&mut [u8]],
        options: &LoadOptions,
        work: &Execution<'_>,
    ) -> Result<Loaded, Error<I::Fault>> {
        load_awaited(self, picks, buffers, options, work).await
    }

    /// The file's metadata, as the format has it.
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    pub async fn metadata(&self) -> Result<I::Metadata<'_>, Error<I::Fault>> {
        self.index.metadata(&self.source).await
    }

    /// The metadata as one flat list of keys and plain values, whatever the format wraps it in.
    ///
    /// # Errors
    /// As [`metadata`](Self::metadata).
    pub async fn flat_metadata(&self) -> Result<Object, Error<I::Fault>> {
        self.index.flat_metadata(&self.source).await
    }

    /// Checks the file and reports every finding.
    pub async fn verify(&self, level: VerifyLevel) -> Report {
        self.verify_with(level, &Execution::sequential()).await
    }

    /// As [`verify`](Self::verify), with progress as `work` says.
    pub async fn verify_with(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        self.index.verify(&self.source, level, work).await
    }

    fn position(&self, name: &str) -> Result<usize, Error<I::Fault>> {
        self.tensors().find(name).ok_or_else(|| Error::NotFound { name: name.to_owned() })
    }

    fn info(&self, position: usize) -> Result<TensorInfo<'_>, Error<I::Fault>> {
        self.tensors().info(position).ok_or_else(|| Error::no_such_position(position))
    }
}

impl<I: FileIndex, S: Fetch> Awaited for AsyncReader<I, S> {
    type Fault = I::Fault;

    async fn about(&self, position: usize) -> Result<(TensorInfo<'_>, Stored), Error<I::Fault>> {
        let location = self.index.location(position).ok_or_else(|| Error::no_such_position(position))?;
        Ok((self.info(position)?, Stored::of(0, &location)))
    }

    async fn claims(&self, wanted: &[Wanted]) -> Result<Claims, Error<I::Fault>> {
        let mut claims = Claims::new();
        let mut of_file = claims.for_file();
        self.index.check_index(&self.source, &mut of_file).await?;
        I::claims(&self.index, &self.source, wanted, &mut of_file).await?;
        Ok(claims)
    }

    async fn values(
        &self,
        position: usize,
        at: u64,
        out: &mut [u8],
        claims: &Claims,
    ) -> Result<(), Error<I::Fault>> {
        self.index.read_into(&ObservedSource::new(&self.source, 0, claims), position, at, out).await
    }

    async fn bytes_into(&self, _: usize, at: u64, out: &mut [u8]) -> Result<(), Error<I::Fault>> {
        let len = out.len() as u64;
        self.source.fetch_into(at, out).await.map_err(|source| Error::Io { at, len, source })
    }

    async fn bytes(&self, _: usize, range: Range<u64>) -> Result<Bytes<'_>, Error<I::Fault>> {
        let (at, len) = (range.start, range.end.saturating_sub(range.start));
        self.source.fetch(range).await.map_err(|source| Error::Io { at, len, source })
    }
}
