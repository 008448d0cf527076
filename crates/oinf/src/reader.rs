//! An index and a source: tensors with their values.

use std::sync::Arc;

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;

#[cfg(not(target_arch = "wasm32"))]
use tensor_core::source::FileSource;
use tensor_core::value::{Object, Value};
use tensor_core::{
    AnyError, Bytes, Container, Extent, Level, Limits, Location, Report, Source, TensorInfo, TensorView,
    Work, drive,
};

use crate::error::{Error, Fault, Result};
use crate::index::{Index, IndexParser};
use crate::metadata::MetaValue;
use crate::sizevars::SizeVars;

/// How a file is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    limits: Limits,
}

impl OpenOptions {
    /// The defaults: the limits that [`Limits`] names.
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

    /// Opens the file at `path` for positioned reads.
    ///
    /// # Errors
    /// [`Error::Open`] if it cannot be opened, else as [`open_source`](Self::open_source).
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Reader<FileSource>> {
        let path = path.as_ref();
        let source = FileSource::open(path)
            .map_err(|source| Error::Open { path: path.display().to_string(), source })?;
        self.open_source(source)
    }

    /// Reads header, tables and metadata from a source: three reads for most files.
    ///
    /// # Errors
    /// If the source cannot be read, is not an OINF 1 file, breaks a rule that makes it unreadable or ambiguous, or
    /// exceeds a limit.
    pub fn open_source<S: Source>(&self, source: S) -> Result<Reader<S>> {
        let index = drive(IndexParser::new(source.len(), &self.limits), &source)?;
        Ok(Reader { index: Arc::new(index), source, limits: self.limits.clone() })
    }
}

/// An open OINF file.
#[derive(Clone, Debug)]
pub struct Reader<S> {
    index: Arc<Index>,
    source: S,
    /// Those it was opened with, for `verify`.
    pub(crate) limits: Limits,
}

#[cfg(not(target_arch = "wasm32"))]
impl Reader<FileSource> {
    /// Opens the file at `path` for positioned reads.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open(path)
    }
}

impl<S: Source> Reader<S> {
    /// Opens what a source holds: a slice, a map, a browser's file.
    ///
    /// # Errors
    /// As [`OpenOptions::open_source`].
    pub fn from_source(source: S) -> Result<Self> {
        OpenOptions::new().open_source(source)
    }

    /// A reader with an index that is known already; nothing is read.
    ///
    /// # Errors
    /// [`Fault::FileSize`] if the source is not as long as the file that the index was made of.
    pub fn with_index(index: Arc<Index>, source: S) -> Result<Self> {
        let (stated, actual) = (index.file_len(), source.len());
        if stated != actual {
            let part = tensor_core::Part::new("header").with_field("file_size");
            return Err(Error::Malformed { part, at: 61, fault: Fault::FileSize { stated, actual } });
        }
        Ok(Self { index, source, limits: Limits::default() })
    }

    /// What the file contains. Keep it to open the same file again without reading.
    #[must_use]
    pub const fn index(&self) -> &Arc<Index> {
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

    /// The size variables, in file order.
    #[must_use]
    pub fn sizevars(&self) -> &SizeVars {
        self.index.sizevars()
    }

    /// Keys and values of the metadata, in file order.
    pub fn metadata(&self) -> impl ExactSizeIterator<Item = (&str, MetaValue<'_>)> {
        self.index.metadata()
    }

    /// The tensors, in file order.
    pub fn tensors(
        &self,
    ) -> impl ExactSizeIterator<Item = TensorInfo<'_>> + DoubleEndedIterator + Clone + use<'_, S> {
        self.index.tensors()
    }

    /// The tensor of that name with its values: borrowed where they are in memory, else read into an aligned buffer.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NoData`] for a tensor that is only declared, [`Error::Io`].
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        let position = self.index.find(name);
        self.tensor_at(position.ok_or_else(|| Error::NotFound { name: name.to_owned() })?)
    }

    /// The tensor at a position with its values.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn tensor_at(&self, position: usize) -> Result<TensorView<'_>> {
        let (info, extent) = self.placed(position)?;
        let (at, len) = (extent.offset(), extent.len());
        let bytes = self.source.read(extent.range()).map_err(|source| Error::Io { at, len, source })?;
        // A source that gives fewer bytes than were asked for breaks its contract.
        TensorView::new(info, bytes).map_err(|_| Error::Io {
            at,
            len,
            source: std::io::ErrorKind::UnexpectedEof.into(),
        })
    }

    /// Fills `out` with a tensor's values from byte `offset` on.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor), and [`Error::OutOfRange`] if the tensor has fewer bytes.
    pub fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let (info, extent) = self.placed(position)?;
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

    /// The tensor at a position and where its values lie.
    fn placed(&self, position: usize) -> Result<(TensorInfo<'_>, Extent)> {
        let missing = || Error::NotFound { name: format!("number {position}") };
        let info = self.index.info(position).ok_or_else(missing)?;
        let extent = self.index.extent(position);
        Ok((info, extent.ok_or_else(|| Error::NoData { name: info.name.to_owned() })?))
    }

    /// Checks the file and reports every finding.
    pub fn verify(&self, level: Level) -> Report {
        self.verify_with(level, &Work::default())
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
        self.index.tensors.len()
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
        Ok(self.index.metadata().map(|(key, value)| (key, value.to_value())).collect::<Object>().into())
    }

    fn details(&self) -> Result<Value, AnyError> {
        let sizevars: Object = self.index.sizevars().iter().collect();
        Ok(Object::from_iter([("sizevars", sizevars)]).into())
    }

    fn verify(&self, level: Level, work: &Work<'_>) -> Report {
        self.verify_with(level, work)
    }
}
