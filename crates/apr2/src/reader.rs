//! An index with a source: tensors whole, in parts, or without a copy.

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::sync::Arc;

#[cfg(not(target_arch = "wasm32"))]
use tensor_core::source::FileSource;
use tensor_core::value::{Object, Value};
use tensor_core::{
    AnyError, Bytes, Container, Level, Limits, Location, Part, Report, Source, TensorInfo, TensorView, Work,
    drive,
};

use crate::access::Access;
use crate::blocks::BlockStarts;
use crate::error::{Error, Fault, Result, malformed};
use crate::index::{Generation, Index};
use crate::metadata::Metadata;
use crate::parser::IndexParser;

/// How a file is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    limits: Limits,
}

impl OpenOptions {
    /// The defaults.
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

    pub(crate) const fn limits_ref(&self) -> &Limits {
        &self.limits
    }

    /// Opens a file on disk, which is read at positions.
    ///
    /// # Errors
    /// If it cannot be opened or read, or breaks a rule of the format.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Reader<FileSource>> {
        let path = path.as_ref();
        let source = FileSource::open(path)
            .map_err(|source| Error::Open { path: path.display().to_string(), source })?;
        self.open_source(source)
    }

    /// Opens whatever has bytes. Header, metadata, index and footer are read, and nothing else.
    ///
    /// # Errors
    /// If it cannot be read, or breaks a rule of the format.
    pub fn open_source<S: Source>(&self, source: S) -> Result<Reader<S>> {
        let index = drive(IndexParser::new(source.len(), self.limits.clone()), &source)?;
        Ok(Reader { index: Arc::new(index), source, starts: BlockStarts::default() })
    }
}

/// An open APR2 or APR1 file.
///
/// A reader is an [`Index`] and a [`Source`]. With a source in memory (a slice, a map) raw tensors are views of it, without
/// a copy; with any other, one tensor is one read.
#[derive(Debug)]
pub struct Reader<S> {
    index: Arc<Index>,
    source: S,
    starts: BlockStarts,
}

#[cfg(not(target_arch = "wasm32"))]
impl Reader<FileSource> {
    /// Opens a file on disk, which is read at positions.
    ///
    /// # Errors
    /// If it cannot be opened or read, or breaks a rule of the format.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open(path)
    }
}

impl<S: Source> Reader<S> {
    /// Opens whatever has bytes, with the default options.
    ///
    /// # Errors
    /// If it cannot be read, or breaks a rule of the format.
    pub fn from_source(source: S) -> Result<Self> {
        OpenOptions::new().open_source(source)
    }

    /// Puts a known index on its file again, without reading anything.
    ///
    /// # Errors
    /// If the source has another length than the file that the index was made for.
    pub fn with_index(index: Arc<Index>, source: S) -> Result<Self> {
        let (found, expected) = (source.len(), index.file_len());
        if found != expected {
            return Err(malformed(Part::new("file"), 0, Fault::OtherLength { found, expected }));
        }
        Ok(Self { index, source, starts: BlockStarts::default() })
    }

    /// The index, which can be kept and shared.
    #[must_use]
    pub const fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// The source.
    #[must_use]
    pub const fn source(&self) -> &S {
        &self.source
    }

    /// The source, without the reader.
    #[must_use]
    pub fn into_source(self) -> S {
        self.source
    }

    /// The metadata.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        self.index.metadata()
    }

    /// The tensors in the order of the file.
    pub fn tensors(
        &self,
    ) -> impl ExactSizeIterator<Item = TensorInfo<'_>> + DoubleEndedIterator + Clone + use<'_, S> {
        self.index.tensors()
    }

    /// A tensor with its values: a view of the source where that is in memory and the tensor is raw, else read, and
    /// decompressed, into a buffer of its own.
    ///
    /// # Errors
    /// [`Error::NotFound`]; if it cannot be read; if its LZ4 blocks do not decode to what they must.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        self.tensor_at(self.position(name)?)
    }

    /// The tensor at a position; as [`tensor`](Self::tensor).
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn tensor_at(&self, position: usize) -> Result<TensorView<'_>> {
        self.access().tensor(position, None)
    }

    /// The tensor at a position, decompressed on as many threads as `work` allows.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn tensor_with(&self, position: usize, work: &Work<'_>) -> Result<TensorView<'_>> {
        self.access().tensor(position, Some(work))
    }

    /// The values of a raw tensor, borrowed from a source in memory: what a map is for.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Fault::NotBorrowed`] if the source is not in memory or the tensor is compressed, where
    /// [`tensor`](Self::tensor) makes a copy instead.
    pub fn tensor_slice(&self, name: &str) -> Result<&[u8]> {
        self.access().slice(self.position(name)?)
    }

    /// Fills `out` with the values of the tensor at a position from byte `offset` on. Of a compressed tensor only the blocks
    /// that hold them are decoded, and reading piece after piece is linear.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the tensor has fewer bytes; as [`tensor`](Self::tensor).
    pub fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        self.access().read_into(position, offset, out)
    }

    /// Checks the file, on all cores, and reports every finding.
    pub fn verify(&self, level: Level) -> Report {
        self.verify_with(level, &Work::default())
    }

    /// Checks the file and reports every finding.
    pub fn verify_with(&self, level: Level, work: &Work<'_>) -> Report {
        crate::verify::report(&self.index, &self.source, level, work)
    }

    pub(crate) fn position(&self, name: &str) -> Result<usize> {
        self.access().position(name)
    }

    fn access(&self) -> Access<'_, S> {
        Access { tensors: &self.index.tensors, source: &self.source, starts: &self.starts }
    }
}

impl<S: Source> Container for Reader<S> {
    fn version(&self) -> Option<String> {
        Some(match (self.index.generation(), self.index.version()) {
            (Generation::Apr1, _) => "1".to_owned(),
            (Generation::Apr2, (major, minor)) => format!("{major}.{minor}"),
        })
    }

    fn file_size(&self) -> u64 {
        self.source.len()
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
        self.index.location(tensor).ok_or_else(|| AnyError::NotFound { name: format!("number {tensor}") })
    }

    fn read(&self, tensor: usize) -> Result<Bytes<'_>, AnyError> {
        self.tensor_at(tensor).map(TensorView::into_bytes).map_err(Error::erase)
    }

    fn read_into(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), AnyError> {
        Reader::read_into(self, tensor, offset, out).map_err(Error::erase)
    }

    fn metadata(&self) -> Result<Value, AnyError> {
        Ok(self.index.metadata().object().clone().into())
    }

    fn details(&self) -> Result<Value, AnyError> {
        Ok(details(&self.index).into())
    }

    fn verify(&self, level: Level, work: &Work<'_>) -> Report {
        self.verify_with(level, work)
    }
}

/// What `inspect --json` prints as details: flags and alignment.
pub(crate) fn details(index: &Index) -> Object {
    let mut details = Object::new();
    details.insert("flags", index.flags().names().collect::<Value>());
    details.insert("alignment", index.alignment());
    details
}
