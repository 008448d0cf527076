//! The methods that only readers of sets have: for opening, and for access to the files.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::sync::Arc;

use tensor_core::TensorInfo;

use super::{MapError, OpenSet, Shard, ShardMap};
#[cfg(not(target_arch = "wasm32"))]
use crate::error::Error;
use crate::fetch::{FetchFiles, now};
use crate::options::OpenOptions;
use crate::read::{AsyncReader, Opened, OpenedNow, Reader};
use crate::settings::OpenSettings;
#[cfg(not(target_arch = "wasm32"))]
use crate::source::{FileSource, Folder};
use crate::source::{Files, Source};
use crate::value::Value;

/// The options for opening the files of a set.
type Options<M> = OpenOptions<<M as ShardMap>::Index>;

#[cfg(not(target_arch = "wasm32"))]
impl<M: ShardMap> Reader<OpenSet<M, Folder>> {
    /// Opens the set whose index is at `path`; its files are in the same folder.
    ///
    /// # Errors
    /// If the index cannot be read or breaks a rule.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, MapError<M>> {
        Self::open_with(path, &Options::<M>::new())
    }

    /// Opens a set with the given options.
    ///
    /// # Errors
    /// If the index cannot be read, breaks a rule or exceeds a limit.
    pub fn open_with(path: impl AsRef<Path>, options: &Options<M>) -> Result<Self, MapError<M>> {
        let path = path.as_ref();
        let failed = |source| Error::Open { path: path.display().to_string(), source };
        let index = M::index_path(path).map_err(failed)?;
        let failed = |source| Error::Open { path: index.display().to_string(), source };
        let source = FileSource::open(&index).map_err(failed)?;
        Self::from_source(&source, Folder::containing(&index), options)
    }
}

/// An open set. Opening reads its index. A file is opened when one of its tensors is read or, if the index
/// has neither dtypes nor shapes, when a tensor is described.
impl<M: ShardMap, F: Files> Reader<OpenSet<M, F>> {
    /// Opens the set whose index is the file `index` of `files`; the other files are in the same folder.
    ///
    /// # Errors
    /// If the index cannot be read or breaks a rule.
    pub fn from_files(files: F, index: &str) -> Result<Self, MapError<M>> {
        Self::from_files_with(files, index, &Options::<M>::new())
    }

    /// Opens the set whose index is the file `index` of `files`, with the given options.
    ///
    /// # Errors
    /// If the index cannot be read, breaks a rule or exceeds a limit.
    pub fn from_files_with(files: F, index: &str, options: &Options<M>) -> Result<Self, MapError<M>> {
        now(OpenSet::from_files(files, index, options.settings())).map(Self)
    }

    /// Opens the set whose index is in `source`; `files` opens its files.
    ///
    /// # Errors
    /// If the index cannot be read, breaks a rule or exceeds a limit.
    pub fn from_source(
        source: &(impl Source + ?Sized),
        files: F,
        options: &Options<M>,
    ) -> Result<Self, MapError<M>> {
        Self::open_source(source, files, options.settings())
    }

    /// Opens the set whose index is in `source`, with the given settings.
    ///
    /// # Errors
    /// If the index cannot be read, breaks a rule or exceeds a limit.
    pub fn open_source(
        source: &(impl Source + ?Sized),
        files: F,
        settings: &OpenSettings,
    ) -> Result<Self, MapError<M>> {
        let name = source.name().map(std::borrow::Cow::into_owned).unwrap_or_default();
        // The files are in the folder of the index.
        let index = name.rsplit(['/', std::path::MAIN_SEPARATOR]).next().unwrap_or_default();
        now(OpenSet::of_index(source, index, files, settings)).map(Self)
    }

    /// Opens a set with the [`index`](OpenSet::index) of an earlier reader. Nothing is read.
    #[must_use]
    pub fn with_index(map: Arc<M>, files: F, options: &Options<M>) -> Self {
        Self(OpenSet::with_index(map, files, options.settings().clone()))
    }

    /// Returns a file of the set, counted from 0. Opens it if necessary; opening is tried only once.
    ///
    /// # Errors
    /// If there is no such file, it cannot be opened, its size is not the one that the index states, or it
    /// breaks a rule.
    pub fn shard(&self, number: usize) -> Result<&Shard<M, F::Source>, MapError<M>> {
        self.0.shard_now(number)
    }

    /// Opens every file and looks up every tensor.
    ///
    /// # Errors
    /// For the first file that cannot be opened, and the first tensor that its file does not have.
    pub fn open_all(&self) -> Result<(), MapError<M>> {
        now(self.0.open_all())
    }

    /// Returns the tensor at a position, without its values. Its file is opened if the index does not
    /// describe the tensor.
    ///
    /// # Errors
    /// If there is no such tensor, or its file cannot be opened or does not have it.
    pub fn info(&self, position: usize) -> Result<TensorInfo<'_>, MapError<M>> {
        self.0.info_now(position).map_err(|error| self.0.named(error))
    }

    /// Returns the tensors in the order of the index: see [`info`](Self::info).
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Result<TensorInfo<'_>, MapError<M>>> {
        (0..self.0.index().tensor_count()).map(|position| self.info(position))
    }

    /// Returns the position of the tensor with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.0.index().find(name)
    }

    /// Returns the model's metadata: see [`Container::metadata`](crate::Container::metadata).
    ///
    /// # Errors
    /// If the metadata is in a file that cannot be opened, or does not decode.
    pub fn metadata_tree(&self) -> Result<Value, MapError<M>> {
        now(self.0.metadata_tree()).map_err(|error| self.0.named(error))
    }
}

/// An open set over asynchronous files.
impl<M: ShardMap, F: FetchFiles> AsyncReader<OpenSet<M, F>> {
    /// Opens the set whose index is the file `index` of `files`; the other files are in the same folder.
    ///
    /// # Errors
    /// If the index cannot be read or breaks a rule.
    pub async fn from_files(files: F, index: &str) -> Result<Self, MapError<M>> {
        Self::from_files_with(files, index, &Options::<M>::new()).await
    }

    /// Opens the set whose index is the file `index` of `files`, with the given options.
    ///
    /// # Errors
    /// If the index cannot be read, breaks a rule or exceeds a limit.
    pub async fn from_files_with(files: F, index: &str, options: &Options<M>) -> Result<Self, MapError<M>> {
        OpenSet::from_files(files, index, options.settings()).await.map(Self)
    }

    /// Opens a set with the [`index`](OpenSet::index) of an earlier reader. Nothing is read.
    #[must_use]
    pub fn with_index(map: Arc<M>, files: F, options: &Options<M>) -> Self {
        Self(OpenSet::with_index(map, files, options.settings().clone()))
    }

    /// Opens every file and looks up every tensor.
    ///
    /// # Errors
    /// For the first file that cannot be opened, and the first tensor that its file does not have.
    pub async fn open_all(&self) -> Result<(), MapError<M>> {
        self.0.open_all().await
    }

    /// Returns the tensor at a position, without its values. Its file is opened if the index does not
    /// describe the tensor.
    ///
    /// # Errors
    /// If there is no such tensor, or its file cannot be opened or does not have it.
    pub async fn info(&self, position: usize) -> Result<TensorInfo<'_>, MapError<M>> {
        Opened::info(&self.0, position).await.map_err(|error| self.0.named(error))
    }

    /// Returns the tensors in the order of the index. Opens the files of all tensors that the index does not
    /// describe.
    ///
    /// # Errors
    /// For the first tensor whose file is missing, is broken, or does not have it.
    pub async fn tensors(&self) -> Result<Vec<TensorInfo<'_>>, MapError<M>> {
        let mut all = Vec::new();
        for position in 0..self.0.index().tensor_count() {
            all.push(self.info(position).await?);
        }
        Ok(all)
    }

    /// Returns the position of the tensor with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.0.index().find(name)
    }
}
