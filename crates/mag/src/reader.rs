//! Opens MAG files and reads their tensors.

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::sync::Arc;

#[cfg(not(target_arch = "wasm32"))]
use tensor_core::source::FileSource;
use tensor_core::value::{Object, Value};
use tensor_core::{
    AnyError, Bytes, Container, Extent, Level, Limits, Location, Report, Source, TensorInfo, TensorView, Work,
};

use crate::error::{Error, Result};
use crate::index::{Index, IndexParser, Metadata};

/// How a file is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    limits: Limits,
    ignore_checksum: bool,
}

impl OpenOptions {
    /// The defaults: the limits of the specification, and the checksum must match.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Caps on what the file may make the reader do.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Opens a file even if it matches neither checksum, to look at what is left of it.
    #[must_use]
    pub const fn ignore_checksum(mut self, ignore: bool) -> Self {
        self.ignore_checksum = ignore;
        self
    }

    /// Opens a file by its path, with positioned reads.
    ///
    /// # Errors
    /// If it cannot be read, breaks a rule of MAG 1, or does not match its checksum.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Reader<FileSource>> {
        let open = |source| Error::Open { path: path.as_ref().display().to_string(), source };
        self.open_source(FileSource::open(path.as_ref()).map_err(open)?)
    }

    /// Opens any source of bytes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_source<S: Source>(&self, source: S) -> Result<Reader<S>> {
        let parser = IndexParser::new(source.len(), self.limits.clone(), !self.ignore_checksum);
        let index = tensor_core::drive(parser, &source)?;
        Ok(Reader { index: Arc::new(index), source })
    }
}

/// An open MAG file: its [`Index`] and the source of its bytes.
#[derive(Clone, Debug)]
pub struct Reader<S> {
    index: Arc<Index>,
    source: S,
}

#[cfg(not(target_arch = "wasm32"))]
impl Reader<FileSource> {
    /// Opens a file by its path, with positioned reads.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open(path)
    }
}

impl<S: Source> Reader<S> {
    /// Opens any source of bytes: a slice, a map, a buffer, or one of your own.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn from_source(source: S) -> Result<Self> {
        OpenOptions::new().open_source(source)
    }

    /// Puts a source under an index that was made of the same bytes before; reads nothing.
    ///
    /// # Errors
    /// If the source is not as long as the file that the index was made of.
    pub fn with_index(index: Arc<Index>, source: S) -> Result<Self> {
        tensor_core::require_len(source.len(), index.file_len())?;
        Ok(Self { index, source })
    }

    /// What the file holds.
    #[must_use]
    pub const fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// Where its bytes come from.
    pub const fn source(&self) -> &S {
        &self.source
    }

    /// The tensors in file order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = TensorInfo<'_>> + DoubleEndedIterator + Clone {
        self.index.tensors()
    }

    /// The metadata in file order.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        self.index.metadata()
    }

    /// The tensor of that name with its values: borrowed from a source in memory, else read.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Io`].
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        let position = self.index.find(name).ok_or_else(|| Error::NotFound { name: name.to_owned() })?;
        self.tensor_at(position)
    }

    /// The tensor at a position in file order with its values.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Io`].
    pub fn tensor_at(&self, position: usize) -> Result<TensorView<'_>> {
        let (info, extent) = self.at(position)?;
        let io = |source| Error::Io { at: extent.offset(), len: extent.len(), source };
        let bytes = self.source.read(extent.range()).map_err(io)?;
        TensorView::new(info, bytes).map_err(|e| io(std::io::Error::new(std::io::ErrorKind::InvalidData, e)))
    }

    /// Fills `out` with the values of the tensor at a position, from byte `offset` of them on.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::OutOfRange`], [`Error::Io`].
    pub fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let (info, extent) = self.at(position)?;
        let len = out.len() as u64;
        let part = extent.part(offset, len).map_err(|_| Error::OutOfRange {
            name: info.name.to_owned(),
            offset,
            len,
            nbytes: info.nbytes,
        })?;
        self.source.read_into(part.offset(), out).map_err(|source| Error::Io {
            at: part.offset(),
            len,
            source,
        })
    }

    fn at(&self, position: usize) -> Result<(TensorInfo<'_>, Extent)> {
        let found = self.index.info(position).zip(self.index.extent(position));
        found.ok_or_else(|| Error::NotFound { name: format!("number {position}") })
    }

    /// Checks the file and reports every finding.
    pub fn verify(&self, level: Level) -> Report {
        self.verify_with(level, &Work::default())
    }

    /// As [`verify`](Self::verify), with the work done as `work` says.
    pub fn verify_with(&self, level: Level, work: &Work<'_>) -> Report {
        let _ = work; // MAG has no checksum over the values
        crate::verify::verify(&self.index, level)
    }
}

impl<S: Source> Container for Reader<S> {
    fn version(&self) -> Option<String> {
        Some(crate::wire::VERSION.to_string())
    }

    fn file_size(&self) -> u64 {
        self.index.file_len()
    }

    fn tensor_count(&self) -> usize {
        self.index.tensors().len()
    }

    fn info(&self, tensor: usize) -> Option<TensorInfo<'_>> {
        self.index.info(tensor)
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.index.find(name)
    }

    fn location(&self, tensor: usize) -> Result<Location, AnyError> {
        self.index.location(tensor).ok_or_else(|| AnyError::NotFound { name: format!("number {tensor}") })
    }

    fn read(&self, tensor: usize) -> Result<Bytes<'_>, AnyError> {
        self.tensor_at(tensor).map(TensorView::into_bytes).map_err(Error::erase)
    }

    fn read_into(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), AnyError> {
        Self::read_into(self, tensor, offset, out).map_err(Error::erase)
    }

    fn metadata(&self) -> Result<Value, AnyError> {
        Ok(self.index.metadata().to_value())
    }

    fn details(&self) -> Result<Value, AnyError> {
        let checksum = self.index.checksum().map_or(Value::Null, |kind| kind.name().into());
        Ok(Value::Object(Object::from_iter([("checksum".to_owned(), checksum)])))
    }

    fn verify(&self, level: Level, work: &Work<'_>) -> Report {
        self.verify_with(level, work)
    }
}
