//! The reader of sets whose files have to be waited for: a bucket, a folder of a web server.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;
use std::sync::Arc;

use tensor_core::{Bytes, TensorInfo, TensorView};

use super::{MapError, OpenSet, ShardMap, default_options};
use crate::execution::Execution;
use crate::fetch::FetchFiles;
use crate::options::OpenOptions;
use crate::report::{Report, VerifyLevel};
use crate::value::{Object, Value};

/// An open sharded model over asynchronous files. It has the methods of [`SetReader`](super::SetReader) as `async`
/// functions and runs the same code; your executor drives it.
#[derive(Debug)]
pub struct AsyncSetReader<M: ShardMap, F: FetchFiles>(pub(super) OpenSet<M, F>);

impl<M: ShardMap, F: FetchFiles> AsyncSetReader<M, F> {
    /// Opens the set whose index is the file `index` of `files`; the other files are in the same folder of them.
    ///
    /// # Errors
    /// If the index cannot be read or breaks a rule.
    pub async fn from_files(files: F, index: &str) -> Result<Self, MapError<M>> {
        Self::from_files_with(files, index, &default_options::<M>()).await
    }

    /// As [`from_files`](Self::from_files), with options of your own.
    ///
    /// # Errors
    /// As [`from_files`](Self::from_files).
    pub async fn from_files_with(files: F, index: &str, options: &OpenOptions) -> Result<Self, MapError<M>> {
        OpenSet::from_files(files, index, options).await.map(Self)
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

    /// A file of the set, opened if it is not yet: as [`SetReader::shard`](super::SetReader::shard).
    ///
    /// # Errors
    /// As [`SetReader::shard`](super::SetReader::shard).
    pub async fn shard(&self, number: usize) -> Result<&M::Reader<F::File>, MapError<M>> {
        self.0.shard(number).await
    }

    /// Opens every file and looks for every tensor.
    ///
    /// # Errors
    /// As [`SetReader::open_all`](super::SetReader::open_all).
    pub async fn open_all(&self) -> Result<(), MapError<M>> {
        self.0.open_all().await
    }

    /// The number of tensors.
    #[must_use]
    pub fn tensor_count(&self) -> usize {
        self.index().tensor_count()
    }

    /// The tensor at a position. Its file is opened for that if the index does not say what the tensor is.
    ///
    /// # Errors
    /// As [`SetReader::info`](super::SetReader::info).
    pub async fn info(&self, position: usize) -> Result<TensorInfo<'_>, MapError<M>> {
        self.0.info(position).await
    }

    /// The tensors in the order of the index. All files are opened for that whose tensors the index does not describe.
    ///
    /// # Errors
    /// As [`info`](Self::info), of the first tensor that has an error.
    pub async fn tensors(&self) -> Result<Vec<TensorInfo<'_>>, MapError<M>> {
        let mut all = Vec::new();
        for position in 0..self.tensor_count() {
            all.push(self.info(position).await?);
        }
        Ok(all)
    }

    /// The position of the tensor of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.index().find(name)
    }

    /// The tensor of that name with its values.
    ///
    /// # Errors
    /// As [`SetReader::tensor`](super::SetReader::tensor).
    pub async fn tensor(&self, name: &str) -> Result<TensorView<'_>, MapError<M>> {
        self.tensor_at(self.0.position(name)?).await
    }

    /// The tensor at a position with its values.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub async fn tensor_at(&self, position: usize) -> Result<TensorView<'_>, MapError<M>> {
        self.0.tensor_at(position).await
    }

    /// The tensor of that name with its values, checked: as [`SetReader::tensor_checked`](super::SetReader::tensor_checked).
    ///
    /// # Errors
    /// As [`SetReader::tensor_checked`](super::SetReader::tensor_checked).
    pub async fn tensor_checked(&self, name: &str) -> Result<TensorView<'_>, MapError<M>> {
        self.tensor_at_checked(self.0.position(name)?).await
    }

    /// The tensor at a position with its values, checked.
    ///
    /// # Errors
    /// As [`tensor_checked`](Self::tensor_checked).
    pub async fn tensor_at_checked(&self, position: usize) -> Result<TensorView<'_>, MapError<M>> {
        self.0.tensor_at_checked(position).await
    }

    /// A range of the bytes of the tensor of that name: as [`SetReader::read_range`](super::SetReader::read_range).
    ///
    /// # Errors
    /// As [`SetReader::read_range`](super::SetReader::read_range).
    pub async fn read_range(&self, name: &str, range: Range<u64>) -> Result<Bytes<'_>, MapError<M>> {
        self.read_range_at(self.0.position(name)?, range).await
    }

    /// A range of the bytes of the tensor at a position.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range).
    pub async fn read_range_at(&self, position: usize, range: Range<u64>) -> Result<Bytes<'_>, MapError<M>> {
        self.0.read_range(position, range).await
    }

    /// A range of the values of the tensor of that name, checked.
    ///
    /// # Errors
    /// As [`SetReader::read_range_checked`](super::SetReader::read_range_checked).
    pub async fn read_range_checked(&self, name: &str, range: Range<u64>) -> Result<Bytes<'_>, MapError<M>> {
        self.read_range_at_checked(self.0.position(name)?, range).await
    }

    /// A range of the values of the tensor at a position, checked.
    ///
    /// # Errors
    /// As [`read_range_checked`](Self::read_range_checked).
    pub async fn read_range_at_checked(
        &self,
        position: usize,
        range: Range<u64>,
    ) -> Result<Bytes<'_>, MapError<M>> {
        self.0.read_range_checked(position, range).await
    }

    /// Fills `out` with the values of the tensor at a position, starting at byte `offset` of the values.
    ///
    /// # Errors
    /// As [`SetReader::read_into`](super::SetReader::read_into).
    pub async fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<(), MapError<M>> {
        self.0.read_into(position, offset, out).await
    }

    /// The model's metadata, as the format has it.
    ///
    /// # Errors
    /// As [`SetReader::metadata`](super::SetReader::metadata).
    pub async fn metadata(&self) -> Result<M::Metadata<'_>, MapError<M>> {
        self.0.metadata().await
    }

    /// The model's metadata as [`Container::metadata`](crate::Container::metadata) says it.
    ///
    /// # Errors
    /// As [`metadata`](Self::metadata).
    pub async fn metadata_tree(&self) -> Result<Value, MapError<M>> {
        self.0.metadata_tree().await
    }

    /// The model's metadata as one flat list of keys and plain values: as
    /// [`Container::flat_metadata`](crate::Container::flat_metadata).
    ///
    /// # Errors
    /// As [`metadata`](Self::metadata).
    pub async fn flat_metadata(&self) -> Result<Object, MapError<M>> {
        self.0.flat_metadata().await
    }

    /// Checks the index and every file, and reports every finding.
    pub async fn verify(&self, level: VerifyLevel) -> Report {
        self.verify_with(level, &Execution::sequential()).await
    }

    /// As [`verify`](Self::verify), with progress as `work` says.
    pub async fn verify_with(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        self.0.verify(level, work).await
    }
}
