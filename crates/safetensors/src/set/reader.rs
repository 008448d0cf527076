//! An open set: its files are opened when one of their tensors is asked for.

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tensor_core::source::Files;
#[cfg(not(target_arch = "wasm32"))]
use tensor_core::source::Folder;
use tensor_core::value::{Object, Value};
use tensor_core::{
    AnyError, Bytes, Container, Level, Limits, Location, Part, Report, Source, TensorInfo, TensorView, Work,
};

use super::SetIndex;
use crate::error::{Error, Fault, Result};
use crate::reader::{OpenOptions, Reader};

/// An open set of safetensors files.
///
/// The index does not say dtypes and shapes: those of a tensor are known once its file has been opened, which happens
/// when one of its tensors is asked for. [`open_all`](Self::open_all) does it for all files.
#[derive(Debug)]
pub struct SetReader<F: Files> {
    index: Arc<SetIndex>,
    files: F,
    options: OpenOptions,
    shards: Vec<OnceLock<Reader<F::Source>>>,
}

#[cfg(not(target_arch = "wasm32"))]
impl SetReader<Folder> {
    /// Opens the set whose index stands at `path`; its files stand in the same folder.
    ///
    /// # Errors
    /// If the index cannot be read or breaks a rule.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open_set(path)
    }
}

impl OpenOptions {
    /// Opens the set whose index stands at `path`.
    ///
    /// # Errors
    /// As [`SetReader::open`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open_set(&self, path: impl AsRef<Path>) -> Result<SetReader<Folder>> {
        let path = path.as_ref();
        let failed = |source| Error::Open { path: path.display().to_string(), source };
        let source = tensor_core::source::FileSource::open(path).map_err(failed)?;
        self.open_set_source(&source, Folder::of(path))
    }

    /// Opens the set whose index `source` holds, and whose files `files` opens.
    ///
    /// # Errors
    /// As [`SetReader::from_files`].
    pub fn open_set_source<F: Files>(
        &self,
        source: &(impl Source + ?Sized),
        files: F,
    ) -> Result<SetReader<F>> {
        let len = source.len();
        Limits::check("the length of the index", len, self.limits.index_len)?;
        let json = source.read(0..len).map_err(|source| Error::Io { at: 0, len, source })?;
        let index = Arc::new(SetIndex::parse(&json, &self.limits)?);
        Ok(SetReader::with_index(index, files, self.clone()))
    }
}

impl<F: Files> SetReader<F> {
    /// Opens the set whose index is the file `index` of `files`.
    ///
    /// # Errors
    /// If the index cannot be read or breaks a rule.
    pub fn from_files(files: F, index: &str) -> Result<Self> {
        let source = files.open(index).map_err(|source| Error::Open { path: index.to_owned(), source })?;
        OpenOptions::new().open_set_source(&source, files)
    }

    /// Opens a set whose index is known, without reading anything.
    #[must_use]
    pub fn with_index(index: Arc<SetIndex>, files: F, options: OpenOptions) -> Self {
        let shards = (0..index.file_count()).map(|_| OnceLock::new()).collect();
        Self { index, files, options, shards }
    }

    /// What the index says.
    #[must_use]
    pub const fn index(&self) -> &Arc<SetIndex> {
        &self.index
    }

    /// A file of the set, opened if it is not yet; files are numbered as [`SetIndex::file`] numbers them.
    ///
    /// # Errors
    /// If there is no such file, it cannot be opened, or it breaks a rule.
    pub fn shard(&self, number: usize) -> Result<&Reader<F::Source>> {
        let no_such_file = || Error::NotFound { name: format!("file number {number}") };
        let path = self.index.file(number).ok_or_else(no_such_file)?;
        let shard = self.shards.get(number).ok_or_else(no_such_file)?;
        if let Some(reader) = shard.get() {
            return Ok(reader);
        }
        let source = self.files.open(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
        let reader = self.options.open_source(source).map_err(|error| in_shard(number, path, error))?;
        Ok(shard.get_or_init(|| reader))
    }

    /// Opens every file, so that [`info`](Self::info) knows every tensor from then on.
    ///
    /// # Errors
    /// For the first file that cannot be opened, and the first tensor that its file does not have.
    pub fn open_all(&self) -> Result<()> {
        for position in 0..self.index.len() {
            self.known(position)?;
        }
        Ok(())
    }

    /// The tensor at a position; opens its file if that is not open yet.
    ///
    /// # Errors
    /// If there is none at that position, or its file cannot be opened or does not have it.
    pub fn info(&self, position: usize) -> Result<TensorInfo<'_>> {
        let (shard, there, _) = self.known(position)?;
        shard.index().info(there).ok_or_else(|| Error::NotFound { name: format!("number {position}") })
    }

    /// The position of the tensor of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.index.find(name)
    }

    /// The tensor of that name with its values.
    ///
    /// # Errors
    /// As [`tensor_at`](Self::tensor_at).
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        match self.find(name) {
            Some(position) => self.tensor_at(position),
            None => Err(Error::NotFound { name: name.to_owned() }),
        }
    }

    /// The tensor at a position with its values: without a copy where its file is in memory.
    ///
    /// # Errors
    /// As [`info`](Self::info), and if it cannot be read.
    pub fn tensor_at(&self, position: usize) -> Result<TensorView<'_>> {
        let (shard, there, file) = self.known(position)?;
        shard.tensor_at(there).map_err(|error| in_shard(file, self.path(file), error))
    }

    /// Fills `out` with a tensor's values from byte `offset` on.
    ///
    /// # Errors
    /// As [`tensor_at`](Self::tensor_at); also if the tensor has fewer bytes.
    pub fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let (shard, there, file) = self.known(position)?;
        shard.read_into(there, offset, out).map_err(|error| in_shard(file, self.path(file), error))
    }

    /// The index's own `metadata`. That of a file is its reader's: `set.shard(0)?.metadata()`.
    #[must_use]
    pub fn metadata(&self) -> &Object {
        self.index.metadata()
    }

    /// Checks index and files and reports every finding.
    #[must_use]
    pub fn verify(&self, level: Level) -> Report {
        crate::verify::set(self, level)
    }

    /// As [`verify`](Self::verify); the work decides on threads and progress.
    #[must_use]
    pub fn verify_with(&self, level: Level, work: &Work<'_>) -> Report {
        let _ = work; // no byte of the data is covered by any rule
        self.verify(level)
    }

    fn path(&self, file: usize) -> &str {
        self.index.file(file).unwrap_or_default()
    }

    /// The reader that has the tensor at a position, its position there, and the number of the file.
    fn known(&self, position: usize) -> Result<(&Reader<F::Source>, usize, usize)> {
        let name = self.index.name(position);
        let (name, file) = name
            .zip(self.index.home(position))
            .ok_or_else(|| Error::NotFound { name: format!("number {position}") })?;
        let shard = self.shard(file)?;
        let there = shard.index().find(name).ok_or_else(|| Error::Malformed {
            part: Part::entry("tensor", position as u64).with_name(name),
            at: 0,
            fault: Fault::NotInShard(self.path(file).to_owned()),
        })?;
        Ok((shard, there, file))
    }
}

/// The error of one file of a set, with its name.
fn in_shard(number: usize, path: &str, error: Error) -> Error {
    let shard = Part::entry("file", number as u64).with_name(path);
    let within = |part: Part, at, fault: Fault| {
        let fault = Fault::InShard { part: Box::new(part), fault: Box::new(fault) };
        Error::Malformed { part: shard.clone(), at, fault }
    };
    match error {
        Error::Malformed { part, at, fault } => within(part, at, fault),
        Error::Truncated { part, at, need, have } => {
            let end = at.saturating_add(have);
            within(part, at, tensor_core::Fault::OutOfBounds { offset: at, len: need, end }.into())
        }
        Error::Io { at, len, source } => {
            let source = std::io::Error::new(source.kind(), format!("{path}: {source}"));
            Error::Io { at, len, source }
        }
        other => other,
    }
}

impl<F: Files> Container for SetReader<F> {
    fn version(&self) -> Option<String> {
        None
    }

    /// Opens every file; one that cannot be opened counts nothing.
    fn file_size(&self) -> u64 {
        let files = (0..self.index.file_count()).filter_map(|number| self.shard(number).ok());
        files.map(|shard| shard.index().file_len()).fold(self.index.text_len(), u64::saturating_add)
    }

    fn tensor_count(&self) -> usize {
        self.index.len()
    }

    /// Opens the tensor's file; `None` also if that cannot be done ([`SetReader::open_all`] says why).
    fn info(&self, tensor: usize) -> Option<TensorInfo<'_>> {
        Self::info(self, tensor).ok()
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.index.find(name)
    }

    fn location(&self, tensor: usize) -> Result<Location, AnyError> {
        let (shard, there, file) = self.known(tensor).map_err(Error::erase)?;
        let location = shard.index().location(there);
        let location = location.ok_or_else(|| AnyError::NotFound { name: format!("number {tensor}") })?;
        Ok(Location { file: self.index.file(file).map(str::to_owned), ..location })
    }

    fn read(&self, tensor: usize) -> Result<Bytes<'_>, AnyError> {
        self.tensor_at(tensor).map(TensorView::into_bytes).map_err(Error::erase)
    }

    fn read_into(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), AnyError> {
        Self::read_into(self, tensor, offset, out).map_err(Error::erase)
    }

    fn metadata(&self) -> Result<Value, AnyError> {
        Ok(Value::Object(self.index.metadata().clone()))
    }

    /// `files`: path and size of each; the size is null for one that cannot be opened.
    fn details(&self) -> Result<Value, AnyError> {
        let files = (0..self.index.file_count()).map(|number| {
            let mut file = Object::new();
            file.insert("path", self.path(number));
            file.insert("size", self.shard(number).ok().map(|shard| shard.index().file_len()));
            Value::Object(file)
        });
        let mut details = Object::new();
        details.insert("files", files.collect::<Vec<Value>>());
        Ok(Value::Object(details))
    }

    fn verify(&self, level: Level, work: &Work<'_>) -> Report {
        self.verify_with(level, work)
    }
}
