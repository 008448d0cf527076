//! An index over a source: tensors are read when they are asked for.

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::sync::Arc;

#[cfg(not(target_arch = "wasm32"))]
use tensor_core::source::FileSource;
use tensor_core::value::{Object, Value};
use tensor_core::{
    AnyError, Bytes, Container, Extent, Level, Limits, Location, Report, Source, TensorInfo, TensorView,
    Work, drive, require_len,
};

use crate::error::{Error, Result};
use crate::index::{Index, default_limits};
use crate::metadata::Metadata;
use crate::parser::IndexParser;
use crate::verify;

/// How a file is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    pub(crate) limits: Limits,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// With the [default limits](default_limits).
    #[must_use]
    pub fn new() -> Self {
        Self { limits: default_limits() }
    }

    /// With these limits. `index_len` caps all that stands before the data, `metadata_len` the values in it.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Opens the file at `path`.
    ///
    /// # Errors
    /// As [`Reader::open`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Reader<FileSource>> {
        let path = path.as_ref();
        let source = FileSource::open(path)
            .map_err(|source| Error::Open { path: path.display().to_string(), source })?;
        self.open_source(source)
    }

    /// Opens what `source` holds.
    ///
    /// # Errors
    /// As [`Reader::from_source`].
    pub fn open_source<S: Source>(&self, source: S) -> Result<Reader<S>> {
        let index = drive(IndexParser::new(source.len(), self.limits.clone()), &source)?;
        Ok(Reader { index: Arc::new(index), source })
    }
}

/// An open GGUF file.
#[derive(Clone, Debug)]
pub struct Reader<S> {
    index: Arc<Index>,
    source: S,
}

#[cfg(not(target_arch = "wasm32"))]
impl Reader<FileSource> {
    /// Opens the file at `path`: what stands before the data is read, tensors when they are asked for.
    ///
    /// # Errors
    /// If the file cannot be opened or breaks a rule of the format.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open(path)
    }
}

impl<S: Source> Reader<S> {
    /// Opens what `source` holds: a slice, a map, whatever answers for ranges.
    ///
    /// # Errors
    /// If it cannot be read or breaks a rule of the format.
    pub fn from_source(source: S) -> Result<Self> {
        OpenOptions::new().open_source(source)
    }

    /// Opens a source whose index is known, without reading anything.
    ///
    /// # Errors
    /// [`Error::Truncated`] if the source has not the length that the index was made for.
    pub fn with_index(index: Arc<Index>, source: S) -> Result<Self> {
        require_len(source.len(), index.file_len())?;
        Ok(Self { index, source })
    }

    /// What the file holds.
    #[must_use]
    pub const fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// Where its bytes come from.
    #[must_use]
    pub const fn source(&self) -> &S {
        &self.source
    }

    /// The tensors, in the file's order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = TensorInfo<'_>> + DoubleEndedIterator + Clone {
        self.index.tensors()
    }

    /// The metadata.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        self.index.metadata()
    }

    /// The tensor of that name with its values: without a copy where the source is in memory.
    ///
    /// # Errors
    /// If there is none of that name, or it cannot be read.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        match self.index.find(name) {
            Some(position) => self.tensor_at(position),
            None => Err(Error::NotFound { name: name.to_owned() }),
        }
    }

    /// The tensor at a position with its values.
    ///
    /// # Errors
    /// If there is none at that position, or it cannot be read.
    pub fn tensor_at(&self, position: usize) -> Result<TensorView<'_>> {
        let (info, extent) = self.known(position)?;
        let bytes = self.bytes(extent)?;
        let at = extent.offset();
        TensorView::new(info, bytes).map_err(|error| Error::Io {
            at,
            len: extent.len(),
            source: std::io::Error::new(std::io::ErrorKind::UnexpectedEof, error),
        })
    }

    /// Fills `out` with a tensor's values from byte `offset` on.
    ///
    /// # Errors
    /// If there is no such tensor, it has fewer bytes, or they cannot be read.
    pub fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let (info, extent) = self.known(position)?;
        let len = out.len() as u64;
        let part = extent.part(offset, len).map_err(|_| Error::OutOfRange {
            name: info.name.to_owned(),
            offset,
            len,
            nbytes: info.nbytes,
        })?;
        let at = part.offset();
        self.source.read_into(at, out).map_err(|source| Error::Io { at, len, source })
    }

    /// Checks the file at a level and reports every finding.
    #[must_use]
    pub fn verify(&self, level: Level) -> Report {
        self.verify_with(level, &Work::default())
    }

    /// As [`verify`](Self::verify); the work decides on threads and progress.
    #[must_use]
    pub fn verify_with(&self, level: Level, work: &Work<'_>) -> Report {
        verify::verify(&self.index, &self.source, level, work)
    }

    fn known(&self, position: usize) -> Result<(TensorInfo<'_>, Extent)> {
        let known = self.index.info(position).zip(self.index.extent(position));
        known.ok_or_else(|| Error::NotFound { name: format!("number {position}") })
    }

    fn bytes(&self, extent: Extent) -> Result<Bytes<'_>> {
        let (at, len) = (extent.offset(), extent.len());
        self.source.read(extent.range()).map_err(|source| Error::Io { at, len, source })
    }
}

impl<S: Source> Container for Reader<S> {
    fn version(&self) -> Option<String> {
        Some(self.index.version().to_string())
    }

    fn file_size(&self) -> u64 {
        self.index.file_len()
    }

    fn tensor_count(&self) -> usize {
        self.index.len()
    }

    fn info(&self, tensor: usize) -> Option<TensorInfo<'_>> {
        self.index.info(tensor)
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.index.find(name)
    }

    fn location(&self, tensor: usize) -> Result<Location, AnyError> {
        let location = self.index.location(tensor);
        location.ok_or_else(|| AnyError::NotFound { name: format!("number {tensor}") })
    }

    fn read(&self, tensor: usize) -> Result<Bytes<'_>, AnyError> {
        self.known(tensor).and_then(|(_, extent)| self.bytes(extent)).map_err(Error::erase)
    }

    fn read_into(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), AnyError> {
        Self::read_into(self, tensor, offset, out).map_err(Error::erase)
    }

    /// Key to value, verbatim. See [`Metadata::to_object`] for what it takes.
    fn metadata(&self) -> Result<Value, AnyError> {
        Ok(Value::Object(self.index.metadata().to_object()))
    }

    /// `alignment`, in bytes.
    fn details(&self) -> Result<Value, AnyError> {
        let mut details = Object::new();
        details.insert("alignment", self.index.alignment());
        Ok(Value::Object(details))
    }

    fn verify(&self, level: Level, work: &Work<'_>) -> Report {
        self.verify_with(level, work)
    }
}
