//! The reader of sets whose files never have to be waited for.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::ops::Range;
#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::sync::Arc;

use tensor_core::{Bytes, TensorInfo, TensorView};

use super::{MapError, OpenSet, ShardMap, default_options};
use crate::claims::{Claims, Wanted};
use crate::container::Container;
use crate::error::AnyError;
#[cfg(not(target_arch = "wasm32"))]
use crate::error::Error;
use crate::execution::Execution;
use crate::fetch::{now, now_or_never};
use crate::options::OpenOptions;
use crate::plan::{Slice, TensorSlice};
use crate::report::{Report, VerifyLevel};
#[cfg(not(target_arch = "wasm32"))]
use crate::source::{FileSource, Folder};
use crate::source::{Files, Source};
use crate::table::{Location, Stored};
use crate::value::{Object, Value};

/// An open sharded model. Each format crate has it under its own name, with its own index.
///
/// Opening reads the index of the set. A file is opened when one of its tensors is asked for. Where the index says neither
/// dtypes nor shapes, asking what a tensor is opens its file; [`open_all`](Self::open_all) opens them all.
#[derive(Debug)]
pub struct SetReader<M: ShardMap, F: Files>(pub(super) OpenSet<M, F>);

#[cfg(not(target_arch = "wasm32"))]
impl<M: ShardMap> SetReader<M, Folder> {
    /// Opens the set whose index is at `path`; its files are in the same folder.
    ///
    /// # Errors
    /// If the index cannot be read or breaks a rule.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, MapError<M>> {
        Self::open_with(path, &default_options::<M>())
    }

    /// As [`open`](Self::open), with options of your own.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, MapError<M>> {
        let path = path.as_ref();
        let failed = |source| Error::Open { path: path.display().to_string(), source };
        let index = M::index_path(path).map_err(failed)?;
        let failed = |source| Error::Open { path: index.display().to_string(), source };
        let source = FileSource::open(&index).map_err(failed)?;
        Self::from_source(&source, Folder::containing(&index), options)
    }
}

impl<M: ShardMap, F: Files> SetReader<M, F> {
    /// Opens the set whose index is the file `index` of `files`; the other files are in the same folder of them.
    ///
    /// # Errors
    /// If the index cannot be read or breaks a rule.
    pub fn from_files(files: F, index: &str) -> Result<Self, MapError<M>> {
        Self::from_files_with(files, index, &default_options::<M>())
    }

    /// As [`from_files`](Self::from_files), with options of your own.
    ///
    /// # Errors
    /// As [`from_files`](Self::from_files).
    pub fn from_files_with(files: F, index: &str, options: &OpenOptions) -> Result<Self, MapError<M>> {
        now(OpenSet::from_files(files, index, options)).map(Self)
    }

    /// Opens the set whose index is what `source` holds, and whose files `files` opens.
    ///
    /// # Errors
    /// As [`from_files`](Self::from_files).
    pub fn from_source(
        source: &(impl Source + ?Sized),
        files: F,
        options: &OpenOptions,
    ) -> Result<Self, MapError<M>> {
        let name = source.name().map(Cow::into_owned);
        let opened = async { OpenSet::from_source(source, name, files, options).await?.with_head().await };
        now(opened).map(Self)
    }

    /// Opens a set whose index is known; reads nothing.
    #[must_use]
    pub fn with_index(map: Arc<M>, files: F, options: OpenOptions) -> Self {
        Self(OpenSet::with_index(map, files, options))
    }

    /// What the index of the set says.
    #[must_use]
    pub const fn index(&self) -> &Arc<M> {
        self.0.index()
    }

    /// The files.
    #[must_use]
    pub const fn files(&self) -> &F {
        self.0.files()
    }

    /// A file of the set, opened if it is not yet; counted from 0. One that cannot be opened is tried once.
    ///
    /// # Errors
    /// If there is none of that number, it cannot be opened, has another size than the index says, or breaks a rule.
    pub fn shard(&self, number: usize) -> Result<&M::Reader<F::Source>, MapError<M>> {
        if number < self.0.shards().len() {
            // Threads that ask for the same file wait for the one that opens it.
            return self.0.shards().get(number, || now(self.0.open(number)));
        }
        now(self.0.shard(number))
    }

    /// Opens the file of the tensor at a position. An error is remembered, and returned when the tensor is read.
    pub(super) fn prepare(&self, position: usize) {
        if let Ok(number) = self.index().shard_of(position) {
            let _ = self.shard(number);
        }
    }

    /// Opens every file and looks for every tensor.
    ///
    /// # Errors
    /// The error of the first file that cannot be opened, and of the first tensor that its file does not have.
    pub fn open_all(&self) -> Result<(), MapError<M>> {
        now(self.0.open_all())
    }

    /// The tensor at a position. Its file is opened for that if the index does not say what the tensor is.
    ///
    /// # Errors
    /// If there is none at that position, or its file cannot be opened or does not have it.
    pub fn info(&self, position: usize) -> Result<TensorInfo<'_>, MapError<M>> {
        match self.index().info(position) {
            Some(info) => Ok(info),
            None => {
                self.prepare(position);
                now(self.0.info(position))
            }
        }
    }

    /// The tensors in the order of the index, as [`info`](Self::info) gives them.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Result<TensorInfo<'_>, MapError<M>>> {
        (0..self.index().tensor_count()).map(|position| self.info(position))
    }

    /// The position of the tensor of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.index().find(name)
    }

    /// The tensor of that name with its values: as [`Reader::tensor`](crate::Reader::tensor).
    ///
    /// # Errors
    /// As [`tensor_at`](Self::tensor_at).
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>, MapError<M>> {
        self.tensor_at(self.0.position(name)?)
    }

    /// The tensor at a position with its values.
    ///
    /// # Errors
    /// As [`info`](Self::info), and as [`Reader::tensor`](crate::Reader::tensor).
    pub fn tensor_at(&self, position: usize) -> Result<TensorView<'_>, MapError<M>> {
        self.prepare(position);
        now(self.0.tensor_at(position))
    }

    /// The tensor of that name with its values, checked by what its file and the index of the set say about them: as
    /// [`Reader::tensor_checked`](crate::Reader::tensor_checked).
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor), and as [`Reader::tensor_checked`](crate::Reader::tensor_checked); if the file has another
    /// size than the index of the set says.
    pub fn tensor_checked(&self, name: &str) -> Result<TensorView<'_>, MapError<M>> {
        self.tensor_at_checked(self.0.position(name)?)
    }

    /// The tensor at a position with its values, checked.
    ///
    /// # Errors
    /// As [`tensor_checked`](Self::tensor_checked).
    pub fn tensor_at_checked(&self, position: usize) -> Result<TensorView<'_>, MapError<M>> {
        self.prepare(position);
        now(self.0.tensor_at_checked(position))
    }

    /// A range of the values of the tensor of that name, checked: as
    /// [`Reader::read_range_checked`](crate::Reader::read_range_checked).
    ///
    /// # Errors
    /// As [`tensor_checked`](Self::tensor_checked); [`Error::OutOfRange`] if the tensor has fewer bytes.
    pub fn read_range_checked(&self, name: &str, range: Range<u64>) -> Result<Bytes<'_>, MapError<M>> {
        self.read_range_at_checked(self.0.position(name)?, range)
    }

    /// A range of the values of the tensor at a position, checked.
    ///
    /// # Errors
    /// As [`read_range_checked`](Self::read_range_checked).
    pub fn read_range_at_checked(
        &self,
        position: usize,
        range: Range<u64>,
    ) -> Result<Bytes<'_>, MapError<M>> {
        self.prepare(position);
        now(self.0.read_range_checked(position, range))
    }

    /// A range of the bytes of the tensor of that name: as [`Reader::read_range`](crate::Reader::read_range).
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor); [`Error::OutOfRange`] if the tensor has fewer bytes.
    pub fn read_range(&self, name: &str, range: Range<u64>) -> Result<Bytes<'_>, MapError<M>> {
        self.read_range_at(self.0.position(name)?, range)
    }

    /// A range of the bytes of the tensor at a position.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range).
    pub fn read_range_at(&self, position: usize, range: Range<u64>) -> Result<Bytes<'_>, MapError<M>> {
        self.prepare(position);
        now(self.0.read_range(position, range))
    }

    /// Fills `out` with the values of the tensor at a position, starting at byte `offset` of the values.
    ///
    /// # Errors
    /// As [`info`](Self::info), and as [`Reader::read_into`](crate::Reader::read_into).
    pub fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<(), MapError<M>> {
        self.prepare(position);
        now(self.0.read_into(position, offset, out))
    }

    /// The model's metadata, as the format has it.
    ///
    /// # Errors
    /// If it is in a file that cannot be opened, or does not decode.
    pub fn metadata(&self) -> Result<M::Metadata<'_>, MapError<M>> {
        now(self.0.metadata())
    }

    /// The model's metadata as [`Container::metadata`] says it.
    ///
    /// # Errors
    /// As [`metadata`](Self::metadata).
    pub fn metadata_tree(&self) -> Result<Value, MapError<M>> {
        now(self.0.metadata_tree())
    }

    /// The model's metadata as one flat list of keys and plain values: as [`Container::flat_metadata`].
    ///
    /// # Errors
    /// As [`metadata`](Self::metadata).
    pub fn flat_metadata(&self) -> Result<Object, MapError<M>> {
        now(self.0.flat_metadata())
    }

    /// Checks the index and every file, on all cores, and reports every finding.
    pub fn verify(&self, level: VerifyLevel) -> Report {
        self.verify_with(level, &Execution::default())
    }

    /// As [`verify`](Self::verify), with the work done as `work` says.
    pub fn verify_with(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        now_or_never(self.0.verify(level, work))
            .unwrap_or_else(|| Report::unreadable(level, "the files have to be waited for".to_owned()))
    }
}

impl<M: ShardMap, F: Files> Container for SetReader<M, F> {
    fn version(&self) -> Option<String> {
        self.index().version_text()
    }

    /// As the index states the sizes of the files; where it does not, each is opened, and counts nothing if it cannot be.
    fn file_size(&self) -> u64 {
        now_or_never(self.0.file_size()).unwrap_or_else(|| self.index().text_len())
    }

    fn tensor_count(&self) -> usize {
        self.index().tensor_count()
    }

    /// May open the tensor's file; `None` also if that cannot be done ([`SetReader::open_all`] says why).
    fn info(&self, tensor: usize) -> Option<TensorInfo<'_>> {
        Self::info(self, tensor).ok()
    }

    fn find(&self, name: &str) -> Option<usize> {
        Self::find(self, name)
    }

    fn file_paths(&self) -> Vec<String> {
        (0..self.index().shard_count())
            .filter_map(|number| self.index().path(number))
            .map(str::to_owned)
            .collect()
    }

    fn location(&self, tensor: usize) -> Result<Location, AnyError> {
        self.prepare(tensor);
        now(self.0.location(tensor)).map_err(AnyError::from)
    }

    fn stored(&self, tensor: usize) -> Result<Stored, AnyError> {
        self.prepare(tensor);
        now(self.0.stored(tensor)).map_err(AnyError::from)
    }

    fn stored_range(&self, tensor: usize, values: Range<u64>) -> Result<Range<u64>, AnyError> {
        self.prepare(tensor);
        now(self.0.stored_range(tensor, values)).map_err(AnyError::from)
    }

    fn tensor_at(&self, tensor: usize) -> Result<TensorView<'_>, AnyError> {
        Self::tensor_at(self, tensor).map_err(AnyError::from)
    }

    fn tensor_at_checked(&self, tensor: usize) -> Result<TensorView<'_>, AnyError> {
        Self::tensor_at_checked(self, tensor).map_err(AnyError::from)
    }

    fn read_range_at(&self, tensor: usize, range: Range<u64>) -> Result<Bytes<'_>, AnyError> {
        Self::read_range_at(self, tensor, range).map_err(AnyError::from)
    }

    fn read_range_at_checked(&self, tensor: usize, range: Range<u64>) -> Result<Bytes<'_>, AnyError> {
        Self::read_range_at_checked(self, tensor, range).map_err(AnyError::from)
    }

    fn slice_at_checked(&self, position: usize, slice: &Slice) -> Result<TensorSlice<'_>, AnyError> {
        Self::slice_at_checked(self, position, slice).map_err(AnyError::from)
    }

    fn read_into(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), AnyError> {
        Self::read_into(self, tensor, offset, out).map_err(AnyError::from)
    }

    fn read_into_checked(
        &self,
        tensor: usize,
        offset: u64,
        out: &mut [u8],
        claims: &Claims,
    ) -> Result<(), AnyError> {
        self.prepare(tensor);
        now(self.0.read_into_watched(tensor, offset, out, claims)).map_err(AnyError::from)
    }

    fn read_file(&self, file: usize, at: u64, out: &mut [u8]) -> Result<(), AnyError> {
        now(self.0.read_file(file, at, out)).map_err(AnyError::from)
    }

    fn source_of(&self, file: usize) -> Result<&dyn Source, AnyError> {
        Ok(self.shard(file).map_err(AnyError::from)?.as_ref().source())
    }

    fn claims_of(&self, wanted: &[Wanted]) -> Result<Claims, AnyError> {
        now(self.0.claims(wanted)).map_err(AnyError::from)
    }

    fn metadata(&self) -> Result<Value, AnyError> {
        self.metadata_tree().map_err(AnyError::from)
    }

    fn flat_metadata(&self) -> Result<Object, AnyError> {
        Self::flat_metadata(self).map_err(AnyError::from)
    }

    /// The format's own, and `files`: path and size of each; the size is null for one that cannot be opened.
    fn details(&self) -> Result<Value, AnyError> {
        now(self.0.details()).map(Value::Object).map_err(AnyError::from)
    }

    fn verify(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        self.verify_with(level, work)
    }
}
