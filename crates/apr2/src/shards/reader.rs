//! An open sharded model: its shards are opened when one of their tensors is asked for.

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tensor_core::source::Files;
#[cfg(not(target_arch = "wasm32"))]
use tensor_core::source::{FileSource, Folder};
use tensor_core::value::{Object, Value};
use tensor_core::{
    AnyError, Bytes, Container, Level, Limits, Location, Part, Report, Source, TensorInfo, TensorView, Work,
};

use super::Manifest;
use crate::error::{Error, Fault, Result, malformed};
use crate::metadata::Metadata;
use crate::reader::{OpenOptions, Reader, details};

/// An open sharded model.
///
/// The manifest does not say dtypes and shapes: those of a tensor are known once its shard has been opened, which happens
/// when one of its tensors is asked for. [`open_all`](Self::open_all) opens every shard.
#[derive(Debug)]
pub struct SetReader<F: Files> {
    manifest: Arc<Manifest>,
    files: F,
    options: OpenOptions,
    shards: Vec<OnceLock<Reader<F::Source>>>,
}

#[cfg(not(target_arch = "wasm32"))]
impl SetReader<Folder> {
    /// Opens the model whose manifest stands at `path`; its shards stand in the same folder.
    ///
    /// # Errors
    /// If the manifest cannot be read or breaks a rule.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open_set(path)
    }
}

impl OpenOptions {
    /// Opens the sharded model whose manifest stands at `path`.
    ///
    /// # Errors
    /// As [`SetReader::open`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open_set(&self, path: impl AsRef<Path>) -> Result<SetReader<Folder>> {
        let path = path.as_ref();
        let failed = |source| Error::Open { path: path.display().to_string(), source };
        let source = FileSource::open(path).map_err(failed)?;
        self.open_set_source(&source, Folder::of(path))
    }

    /// Opens the sharded model whose manifest `source` holds, and whose shards `files` opens.
    ///
    /// # Errors
    /// As [`SetReader::from_files`].
    pub fn open_set_source<F: Files>(
        &self,
        source: &(impl Source + ?Sized),
        files: F,
    ) -> Result<SetReader<F>> {
        let len = source.len();
        Limits::check("the length of the manifest", len, self.limits_ref().index_len)?;
        let text = source.read(0..len).map_err(|source| Error::Io { at: 0, len, source })?;
        let manifest = Arc::new(Manifest::parse(&text, self.limits_ref())?);
        Ok(SetReader::with_manifest(manifest, files, self.clone()))
    }
}

impl<F: Files> SetReader<F> {
    /// Opens the model whose manifest is the file `manifest` of `files`.
    ///
    /// # Errors
    /// If the manifest cannot be read or breaks a rule.
    pub fn from_files(files: F, manifest: &str) -> Result<Self> {
        let failed = |source| Error::Open { path: manifest.to_owned(), source };
        let source = files.open(manifest).map_err(failed)?;
        OpenOptions::new().open_set_source(&source, files)
    }

    /// Opens a model whose manifest is known, without reading anything.
    #[must_use]
    pub fn with_manifest(manifest: Arc<Manifest>, files: F, options: OpenOptions) -> Self {
        let shards = manifest.shards().map(|_| OnceLock::new()).collect();
        Self { manifest, files, options, shards }
    }

    /// What the manifest says.
    #[must_use]
    pub const fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// The files.
    #[must_use]
    pub const fn files(&self) -> &F {
        &self.files
    }

    /// A shard, opened if it is not yet.
    ///
    /// # Errors
    /// If there is no such shard, it cannot be opened, has another size than the manifest says, or breaks a rule.
    pub fn shard(&self, number: usize) -> Result<&Reader<F::Source>> {
        let found = self.manifest.shard(number).zip(self.shards.get(number));
        let (shard, slot) =
            found.ok_or_else(|| Error::NotFound { name: format!("shard number {number}") })?;
        if let Some(reader) = slot.get() {
            return Ok(reader);
        }
        let failed = |source| Error::Open { path: shard.file.to_owned(), source };
        let source = self.files.open(shard.file).map_err(failed)?;
        let (found, stated) = (source.len(), shard.size);
        if found != stated {
            return Err(malformed(part(number, shard.file), 0, Fault::ShardSize { found, stated }));
        }
        let reader = self.options.open_source(source).map_err(|error| in_shard(number, shard.file, error))?;
        Ok(slot.get_or_init(|| reader))
    }

    /// Opens every shard and looks for every tensor.
    ///
    /// # Errors
    /// That of the first shard that cannot be opened, and the first tensor that its shard does not have.
    pub fn open_all(&self) -> Result<()> {
        (0..self.shards.len()).try_for_each(|number| self.shard(number).map(|_| ()))?;
        (0..self.manifest.len()).try_for_each(|position| self.known(position).map(|_| ()))
    }

    /// The model's metadata: that of its first shard, which is opened if it is not yet.
    ///
    /// # Errors
    /// As [`shard`](Self::shard).
    pub fn metadata(&self) -> Result<&Metadata> {
        Ok(self.shard(0)?.metadata())
    }

    /// The tensor at a position of the manifest; opens its shard if that is not open yet.
    ///
    /// # Errors
    /// If there is none at that position, or its shard cannot be opened or does not have it.
    pub fn info(&self, position: usize) -> Result<TensorInfo<'_>> {
        let (shard, there, _) = self.known(position)?;
        shard.index().info(there).ok_or_else(|| Error::NotFound { name: format!("number {position}") })
    }

    /// The tensors in the order of the manifest; opens their shards.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Result<TensorInfo<'_>>> {
        (0..self.manifest.len()).map(|position| self.info(position))
    }

    /// The position of the tensor of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.manifest.find(name)
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

    /// The tensor at a position with its values: as [`Reader::tensor`].
    ///
    /// # Errors
    /// As [`info`](Self::info), and as [`Reader::tensor`].
    pub fn tensor_at(&self, position: usize) -> Result<TensorView<'_>> {
        let (shard, there, number) = self.known(position)?;
        shard.tensor_at(there).map_err(|error| in_shard(number, self.path(number), error))
    }

    /// Fills `out` with a tensor's values from byte `offset` on.
    ///
    /// # Errors
    /// As [`info`](Self::info), and as [`Reader::read_into`].
    pub fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let (shard, there, number) = self.known(position)?;
        shard.read_into(there, offset, out).map_err(|error| in_shard(number, self.path(number), error))
    }

    /// Checks manifest and shards, on all cores, and reports every finding.
    pub fn verify(&self, level: Level) -> Report {
        self.verify_with(level, &Work::default())
    }

    /// Checks manifest and shards and reports every finding.
    pub fn verify_with(&self, level: Level, work: &Work<'_>) -> Report {
        super::verify::report(self, level, work)
    }

    fn path(&self, number: usize) -> &str {
        self.manifest.shard(number).map_or("", |shard| shard.file)
    }

    /// The reader that has the tensor at a position, its position there, and the number of the shard.
    fn known(&self, position: usize) -> Result<(&Reader<F::Source>, usize, usize)> {
        let found = self.manifest.name(position).zip(self.manifest.home(position));
        let (name, number) = found.ok_or_else(|| Error::NotFound { name: format!("number {position}") })?;
        let shard = self.shard(number)?;
        let there = shard.index().find(name).ok_or_else(|| {
            malformed(part(number, self.path(number)), 0, Fault::NotInShard(name.to_owned()))
        })?;
        Ok((shard, there, number))
    }
}

fn part(number: usize, file: &str) -> Part {
    Part::entry("shard", number as u64).with_name(file)
}

/// The error of one shard, with its name.
fn in_shard(number: usize, file: &str, error: Error) -> Error {
    let within = |inner: Part, at, fault: Fault| {
        malformed(part(number, file), at, Fault::InShard { part: Box::new(inner), fault: Box::new(fault) })
    };
    match error {
        Error::Malformed { part, at, fault } => within(part, at, fault),
        Error::Truncated { part, at, need, have } => {
            let end = at.saturating_add(have);
            within(part, at, tensor_core::Fault::OutOfBounds { offset: at, len: need, end }.into())
        }
        Error::Io { at, len, source } => {
            let source = std::io::Error::new(source.kind(), format!("{file}: {source}"));
            Error::Io { at, len, source }
        }
        other => other,
    }
}

impl<F: Files> Container for SetReader<F> {
    /// Major and minor of the manifest's `apr_version`.
    fn version(&self) -> Option<String> {
        let version = self.manifest.apr_version()?;
        let end = version.match_indices('.').nth(1).map_or(version.len(), |(at, _)| at);
        version.get(..end).map(str::to_owned)
    }

    /// As the manifest states the sizes of the shards.
    fn file_size(&self) -> u64 {
        self.manifest.shards().map(|shard| shard.size).fold(self.manifest.text_len(), u64::saturating_add)
    }

    fn tensor_count(&self) -> usize {
        self.manifest.len()
    }

    /// Opens the tensor's shard; `None` also if that cannot be done ([`SetReader::open_all`] says why).
    fn info(&self, tensor: usize) -> Option<TensorInfo<'_>> {
        Self::info(self, tensor).ok()
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.manifest.find(name)
    }

    fn location(&self, tensor: usize) -> Result<Location, AnyError> {
        let (shard, there, number) = self.known(tensor).map_err(Error::erase)?;
        let location = shard.index().location(there);
        let location = location.ok_or_else(|| AnyError::NotFound { name: format!("number {tensor}") })?;
        Ok(Location { file: Some(self.path(number).to_owned()), ..location })
    }

    fn read(&self, tensor: usize) -> Result<Bytes<'_>, AnyError> {
        self.tensor_at(tensor).map(TensorView::into_bytes).map_err(Error::erase)
    }

    fn read_into(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), AnyError> {
        Self::read_into(self, tensor, offset, out).map_err(Error::erase)
    }

    fn metadata(&self) -> Result<Value, AnyError> {
        Ok(Self::metadata(self).map_err(Error::erase)?.object().clone().into())
    }

    /// Flags and alignment of the first shard, and `files`: path and size of each as the manifest states them.
    fn details(&self) -> Result<Value, AnyError> {
        let mut details = details(self.shard(0).map_err(Error::erase)?.index());
        let files = self.manifest.shards().map(|shard| {
            Object::from_iter([("path", Value::from(shard.file)), ("size", Value::from(shard.size))])
        });
        details.insert("files", files.collect::<Value>());
        Ok(details.into())
    }

    fn verify(&self, level: Level, work: &Work<'_>) -> Report {
        self.verify_with(level, work)
    }
}
