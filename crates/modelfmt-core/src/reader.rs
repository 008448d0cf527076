//! One reader for all formats whose files are an index and values: an index that is known, over a source of bytes.

use std::fmt;
use std::future::{Future, ready};
use std::io;
use std::marker::PhantomData;
#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::sync::Arc;

use crate::claims::{Claims, FileClaims, Watched};
use crate::container::Container;
use crate::error::{AnyError, CommonFault, Error, Part};
use crate::execution::Execution;
use crate::extent::Extent;
use crate::fetch::{Fetch, now, poll_once};
use crate::limits::Limits;
use crate::parse::{Parser, parse_source, require_len};
use crate::report::{Report, VerifyLevel};
#[cfg(not(target_arch = "wasm32"))]
use crate::source::FileSource;
use crate::source::Source;
use crate::table::{Location, TensorTable};
use crate::value::{Object, Value};
use tensor_core::Bytes;
use tensor_core::TensorInfo;
use tensor_core::TensorView;

/// What a format says of one of its files: everything but the values. [`Reader`] adds a source, and serves the rest.
///
/// The provided methods fit formats whose values stand in the file as they are.
pub trait FileIndex: Sized {
    /// The rules of the format.
    type Fault: From<CommonFault> + Clone + fmt::Display + fmt::Debug + Send + Sync + 'static;
    /// What makes the index of bytes.
    type Parser: Parser<Index = Self, Fault = Self::Fault>;

    /// The limits that apply unless others are given.
    #[must_use]
    fn default_limits() -> Limits {
        Limits::default()
    }

    /// A parser for a file of `file_len` bytes.
    fn parser(file_len: u64, options: &OpenOptions<Self>) -> Self::Parser;

    /// The length of the file that this is the index of.
    fn file_len(&self) -> u64;

    /// The tensors.
    fn tensors(&self) -> &TensorTable;

    /// Where the values of the tensor at a position lie.
    fn location(&self, position: usize) -> Option<Location> {
        self.tensors().location(position)
    }

    /// The values of the tensor at a position, decompressed on as many threads as `work` says (without it: as its size
    /// deserves); borrowed if the source is in memory and they stand in it as they are.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NoData`], [`Error::Io`]; if they do not decompress.
    fn read<'s, S: Fetch>(
        &self,
        source: &'s S,
        position: usize,
        work: Option<&Execution<'_>>,
    ) -> impl Future<Output = Result<Bytes<'s>, Error<Self::Fault>>> {
        let _ = work;
        async move {
            let (_, extent) = placed(self, position)?;
            let (at, len) = (extent.offset(), extent.len());
            source.fetch(extent.range()).await.map_err(|source| Error::Io { at, len, source })
        }
    }

    /// Fills `out` with the values of the tensor at a position from byte `offset` on.
    ///
    /// # Errors
    /// As [`read`](Self::read); [`Error::OutOfRange`] if the tensor has fewer bytes.
    fn read_into<S: Fetch>(
        &self,
        source: &S,
        position: usize,
        offset: u64,
        out: &mut [u8],
    ) -> impl Future<Output = Result<(), Error<Self::Fault>>> {
        async move {
            let (info, extent) = placed(self, position)?;
            let len = out.len() as u64;
            let part = extent.part(offset, len).map_err(|_| Error::out_of_range(&info, offset, len))?;
            let at = part.offset();
            source.fetch_into(at, out).await.map_err(|source| Error::Io { at, len, source })
        }
    }

    /// Adds what the file states of the bytes that are read for the tensors at these positions. Formats without digests of
    /// values add nothing.
    ///
    /// # Errors
    /// If what it states cannot be read.
    fn claims<S: Fetch>(
        index: &Arc<Self>,
        source: &S,
        positions: &[usize],
        claims: &mut FileClaims<'_>,
    ) -> impl Future<Output = Result<(), Error<Self::Fault>>> {
        let _ = (index, source, positions, claims);
        ready(Ok(()))
    }

    /// What [`Container::version`] says.
    fn version_text(&self) -> Option<String>;

    /// What [`Container::metadata`] says.
    ///
    /// # Errors
    /// If it has to be read first and cannot be, or does not decode.
    fn metadata_tree<S: Fetch>(&self, source: &S) -> impl Future<Output = Result<Value, Error<Self::Fault>>>;

    /// What [`Container::details`] says.
    fn details(&self) -> Object;

    /// Checks the file and reports every finding.
    fn verify<S: Fetch>(
        &self,
        source: &S,
        level: VerifyLevel,
        work: &Execution<'_>,
    ) -> impl Future<Output = Report>;
}

/// The tensor at a position, and the bytes that it takes in a file where values stand as they are.
fn placed<I: FileIndex>(index: &I, position: usize) -> Result<(TensorInfo<'_>, Extent), Error<I::Fault>> {
    let info = index.tensors().info(position).ok_or_else(|| Error::no_such_position(position))?;
    let offset =
        index.tensors().offset(position).ok_or_else(|| Error::NoData { name: info.name.to_owned() })?;
    match Extent::new(offset, info.nbytes, index.file_len()) {
        Ok(extent) => Ok((info, extent)),
        Err(fault) => {
            Err(Error::Malformed { part: Part::named("tensor", info.name), at: offset, fault: fault.into() })
        }
    }
}

/// How a file is opened.
#[derive(Debug)]
pub struct OpenOptions<I> {
    limits: Limits,
    ignore_checksum: bool,
    set_files: u64,
    index: PhantomData<fn() -> I>,
}

impl<I> Clone for OpenOptions<I> {
    fn clone(&self) -> Self {
        let Self { ref limits, ignore_checksum, set_files, index } = *self;
        Self { limits: limits.clone(), ignore_checksum, set_files, index }
    }
}

impl<I: FileIndex> Default for OpenOptions<I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: FileIndex> OpenOptions<I> {
    /// The defaults: the limits of the format, and checksums that are looked at must match.
    #[must_use]
    pub fn new() -> Self {
        Self { limits: I::default_limits(), ignore_checksum: false, set_files: 0, index: PhantomData }
    }

    /// Caps on what the file may make the reader do.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Opens a file even if a checksum that its format has looked at on opening (MAG's) does not match, to see what is
    /// left of it. `verify` tells of it all the same.
    #[must_use]
    pub const fn ignore_checksum(mut self, ignore: bool) -> Self {
        self.ignore_checksum = ignore;
        self
    }

    /// The file is one of so many of a set, which share what a set may make the reader do.
    #[must_use]
    pub const fn one_in(mut self, files: u64) -> Self {
        self.set_files = files;
        self
    }

    /// How many files the set has of which one is opened; 0 for a file by itself.
    #[must_use]
    pub const fn set_files(&self) -> u64 {
        self.set_files
    }

    /// The caps.
    #[must_use]
    pub const fn limits_ref(&self) -> &Limits {
        &self.limits
    }

    /// Whether a checksum may be wrong.
    #[must_use]
    pub const fn ignores_checksum(&self) -> bool {
        self.ignore_checksum
    }

    /// Opens the file at `path`, which is read at positions.
    ///
    /// # Errors
    /// [`Error::Open`]; as [`open_source`](Self::open_source).
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Reader<I, FileSource>, Error<I::Fault>> {
        let path = path.as_ref();
        let failed = |source| Error::Open { path: path.display().to_string(), source };
        self.open_source(FileSource::open(path).map_err(failed)?)
    }

    /// Opens what a source holds; only the index is read.
    ///
    /// # Errors
    /// If it cannot be read, breaks a rule of the format, or exceeds a limit.
    pub fn open_source<S: Source>(&self, source: S) -> Result<Reader<I, S>, Error<I::Fault>> {
        match self.index_of(&source) {
            Ok(index) => Ok(Reader { index, source }),
            Err(error) => Err(error.in_source(source.name())),
        }
    }

    /// The index of what a source holds.
    ///
    /// # Errors
    /// As [`open_source`](Self::open_source).
    pub fn index_of<S: Source>(&self, source: &S) -> Result<Arc<I>, Error<I::Fault>> {
        parse_source(I::parser(source.len(), self), source).map(Arc::new)
    }
}

/// An open file: its index and the source of its bytes. Each format crate has it under its own name, with its own index.
///
/// With a source in memory (a slice, a map), tensors are views of it without a copy; with any other, one tensor is one
/// read. A reader is as [`Send`] and [`Sync`] as its source.
#[derive(Debug)]
pub struct Reader<I, S> {
    index: Arc<I>,
    source: S,
}

impl<I, S: Clone> Clone for Reader<I, S> {
    fn clone(&self) -> Self {
        Self { index: Arc::clone(&self.index), source: self.source.clone() }
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl<I: FileIndex> Reader<I, FileSource> {
    /// Opens the file at `path` with the default options; it is read at positions.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error<I::Fault>> {
        OpenOptions::new().open(path)
    }
}

impl<I: FileIndex, S: Source> Reader<I, S> {
    /// Opens what a source holds with the default options: a slice, a map, a buffer, or a source of your own.
    ///
    /// # Errors
    /// As [`OpenOptions::open_source`].
    pub fn from_source(source: S) -> Result<Self, Error<I::Fault>> {
        OpenOptions::new().open_source(source)
    }

    /// Puts a source under the index that was made of the same bytes before; reads nothing.
    ///
    /// # Errors
    /// If the source is not as long as the file that the index was made of.
    pub fn with_index(index: Arc<I>, source: S) -> Result<Self, Error<I::Fault>> {
        match require_len(source.len(), index.file_len()) {
            Ok(()) => Ok(Self { index, source }),
            Err(error) => Err(Error::from(error).in_source(source.name())),
        }
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
        self.view(position, None).map_err(|error| self.named(error))
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
        self.view(position, Some(work)).map_err(|error| self.named(error))
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
            Bytes::Owned(_) => Err(refused("the source is not in memory")),
        }
    }

    /// Fills `out` with the values of the tensor at a position, from byte `offset` of them on. Of a compressed tensor only
    /// the blocks that hold them are decoded.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor); [`Error::OutOfRange`] if the tensor has fewer bytes.
    pub fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<(), Error<I::Fault>> {
        now(self.index.read_into(&self.source, position, offset, out)).map_err(|error| self.named(error))
    }

    /// Checks the file, on all cores, and reports every finding.
    pub fn verify(&self, level: VerifyLevel) -> Report {
        self.verify_with(level, &Execution::default())
    }

    /// As [`verify`](Self::verify), with the work done as `work` says.
    pub fn verify_with(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        poll_once(self.index.verify(&self.source, level, work))
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

    fn view(&self, position: usize, work: Option<&Execution<'_>>) -> Result<TensorView<'_>, Error<I::Fault>> {
        let bytes = now(self.index.read(&self.source, position, work))?;
        let info = self.tensors().info(position).ok_or_else(|| Error::no_such_position(position))?;
        let at = || self.index.location(position).and_then(|location| location.offset).unwrap_or(0);
        view_of_source(info, bytes, at)
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

impl<I: FileIndex, S: Source> Container for Reader<I, S> {
    fn version(&self) -> Option<String> {
        self.index.version_text()
    }

    fn file_size(&self) -> u64 {
        self.index.file_len()
    }

    fn tensor_count(&self) -> usize {
        self.tensors().len()
    }

    fn info(&self, tensor: usize) -> Option<TensorInfo<'_>> {
        self.tensors().info(tensor)
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.tensors().find(name)
    }

    fn location(&self, tensor: usize) -> Result<Location, AnyError> {
        self.index.location(tensor).ok_or_else(|| self.named(Error::no_such_position(tensor)))
    }

    fn read(&self, tensor: usize) -> Result<Bytes<'_>, AnyError> {
        now(self.index.read(&self.source, tensor, None)).map_err(|error| self.named(error.erase()))
    }

    fn read_into(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), AnyError> {
        Self::read_into(self, tensor, offset, out).map_err(Error::erase)
    }

    fn read_into_checked(
        &self,
        tensor: usize,
        offset: u64,
        out: &mut [u8],
        claims: &Claims,
    ) -> Result<(), AnyError> {
        let source = Watched::new(&self.source, 0, claims);
        now(self.index.read_into(&source, tensor, offset, out)).map_err(|error| self.named(error.erase()))
    }

    fn read_file(&self, file: usize, at: u64, out: &mut [u8]) -> Result<(), AnyError> {
        let len = out.len() as u64;
        let read = match file {
            0 => self.source.read_into(at, out).map_err(|source| Error::Io { at, len, source }),
            other => Err(Error::NotFound { name: format!("file number {other}") }),
        };
        read.map_err(|error| self.named(error))
    }

    fn claims(&self, tensors: &[usize]) -> Result<Claims, AnyError> {
        let mut claims = Claims::new();
        let found = now(I::claims(&self.index, &self.source, tensors, &mut claims.of_file()));
        found.map_err(|error| self.named(error.erase()))?;
        Ok(claims)
    }

    fn metadata(&self) -> Result<Value, AnyError> {
        now(self.index.metadata_tree(&self.source)).map_err(|error| self.named(error.erase()))
    }

    fn details(&self) -> Result<Value, AnyError> {
        Ok(self.index.details().into())
    }

    fn verify(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        self.verify_with(level, work)
    }
}
