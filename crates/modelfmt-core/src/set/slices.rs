//! Parts of tensors by their positions in each dimension, for the readers of sets.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use tensor_core::Bytes;

use super::{AsyncSetReader, MapError, OpenSet, SetReader, ShardMap};
use crate::checked::Which;
use crate::error::Error;
use crate::fetch::{FetchFiles, now};
use crate::plan::{Slice, TensorSlice, gathered};
use crate::source::Files;

impl<M: ShardMap, F: FetchFiles> OpenSet<M, F> {
    /// A part of the tensor at a position.
    pub(super) async fn slice_at(
        &self,
        position: usize,
        slice: &Slice,
    ) -> Result<TensorSlice<'_>, MapError<M>> {
        let info = self.info(position).await?;
        let sliced = slice.of(&info).map_err(|fault| self.named(Error::slice(&info, fault)))?;
        let bytes = match sliced.runs.as_range() {
            Some(range) => self.read_range(position, range).await?,
            None => {
                let read = async |at: u64, out: &mut [u8]| self.read_into(position, at, out).await;
                let (at, len) = (sliced.runs.offset(), sliced.runs.nbytes());
                let failed = |source| self.named(Error::Io { at, len, source });
                Bytes::Owned(gathered(&sliced.runs, read, failed).await?)
            }
        };
        Ok(TensorSlice::new(&info, sliced.shape, bytes))
    }

    /// The same, checked.
    pub(super) async fn slice_at_checked(
        &self,
        position: usize,
        slice: &Slice,
    ) -> Result<TensorSlice<'_>, MapError<M>> {
        let read = async {
            let known = self.known(position).await?;
            let info = self.index().info(position).map_or_else(|| Self::info_of(&known, position), Ok)?;
            let sliced = slice.of(&info).map_err(|fault| Error::slice(&info, fault))?;
            let bytes = self.bytes_checked(&known, info, position, Which::runs(&sliced.runs)).await?;
            Ok(TensorSlice::new(&info, sliced.shape, bytes))
        };
        read.await.map_err(|error| self.named(error))
    }
}

impl<M: ShardMap, F: Files> SetReader<M, F> {
    /// A part of the tensor of that name: as [`Reader::slice`](crate::Reader::slice).
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor); [`Error::Slice`] if the slice does not fit the tensor.
    pub fn slice(&self, name: &str, slice: &Slice) -> Result<TensorSlice<'_>, MapError<M>> {
        self.slice_at(self.0.position(name)?, slice)
    }

    /// A part of the tensor at a position.
    ///
    /// # Errors
    /// As [`slice`](Self::slice).
    pub fn slice_at(&self, position: usize, slice: &Slice) -> Result<TensorSlice<'_>, MapError<M>> {
        self.prepare(position);
        now(self.0.slice_at(position, slice))
    }

    /// As [`slice`](Self::slice), checked: as [`Reader::slice_checked`](crate::Reader::slice_checked).
    ///
    /// # Errors
    /// As [`slice`](Self::slice) and [`tensor_checked`](Self::tensor_checked).
    pub fn slice_checked(&self, name: &str, slice: &Slice) -> Result<TensorSlice<'_>, MapError<M>> {
        self.slice_at_checked(self.0.position(name)?, slice)
    }

    /// A part of the tensor at a position, checked.
    ///
    /// # Errors
    /// As [`slice_checked`](Self::slice_checked).
    pub fn slice_at_checked(&self, position: usize, slice: &Slice) -> Result<TensorSlice<'_>, MapError<M>> {
        self.prepare(position);
        now(self.0.slice_at_checked(position, slice))
    }
}

impl<M: ShardMap, F: FetchFiles> AsyncSetReader<M, F> {
    /// A part of the tensor of that name: as [`SetReader::slice`].
    ///
    /// # Errors
    /// As [`SetReader::slice`].
    pub async fn slice(&self, name: &str, slice: &Slice) -> Result<TensorSlice<'_>, MapError<M>> {
        self.0.slice_at(self.0.position(name)?, slice).await
    }

    /// A part of the tensor at a position.
    ///
    /// # Errors
    /// As [`SetReader::slice`].
    pub async fn slice_at(&self, position: usize, slice: &Slice) -> Result<TensorSlice<'_>, MapError<M>> {
        self.0.slice_at(position, slice).await
    }

    /// As [`slice`](Self::slice), checked: as [`SetReader::slice_checked`].
    ///
    /// # Errors
    /// As [`SetReader::slice_checked`].
    pub async fn slice_checked(&self, name: &str, slice: &Slice) -> Result<TensorSlice<'_>, MapError<M>> {
        self.0.slice_at_checked(self.0.position(name)?, slice).await
    }

    /// A part of the tensor at a position, checked.
    ///
    /// # Errors
    /// As [`SetReader::slice_checked`].
    pub async fn slice_at_checked(
        &self,
        position: usize,
        slice: &Slice,
    ) -> Result<TensorSlice<'_>, MapError<M>> {
        self.0.slice_at_checked(position, slice).await
    }
}
