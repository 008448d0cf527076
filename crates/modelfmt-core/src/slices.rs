//! Parts of tensors by their positions in each dimension, for the readers of one file.

use tensor_core::Bytes;

use crate::async_reader::AsyncReader;
use crate::checked::slice_of_file;
use crate::error::Error;
use crate::fetch::{Fetch, now};
use crate::file_index::FileIndex;
use crate::plan::{Slice, TensorSlice, gathered};
use crate::reader::Reader;
use crate::source::Source;

impl<I: FileIndex, S: Source> Reader<I, S> {
    /// A part of the tensor of that name: borrowed from a source in memory if its values are contiguous, else read, with little of the rest of the
    /// tensor. If the tensor is compressed, only the blocks that hold some of it are decoded.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor); [`Error::Slice`] if the slice does not fit the tensor.
    pub fn slice(&self, name: &str, slice: &Slice) -> Result<TensorSlice<'_>, Error<I::Fault>> {
        match self.tensors().find(name) {
            Some(position) => self.slice_at(position, slice),
            None => Err(self.named(Error::NotFound { name: name.to_owned() })),
        }
    }

    /// A part of the tensor at a position.
    ///
    /// # Errors
    /// As [`slice`](Self::slice).
    pub fn slice_at(&self, position: usize, slice: &Slice) -> Result<TensorSlice<'_>, Error<I::Fault>> {
        now(of_file(&**self.index(), self.source(), position, slice)).map_err(|error| self.named(error))
    }

    /// As [`slice`](Self::slice), checked: where the file has digests of pages, by those of the pages that the slice touches.
    ///
    /// # Errors
    /// As [`slice`](Self::slice) and [`tensor_checked`](Self::tensor_checked).
    pub fn slice_checked(&self, name: &str, slice: &Slice) -> Result<TensorSlice<'_>, Error<I::Fault>> {
        match self.tensors().find(name) {
            Some(position) => self.slice_at_checked(position, slice),
            None => Err(self.named(Error::NotFound { name: name.to_owned() })),
        }
    }

    /// A part of the tensor at a position, checked.
    ///
    /// # Errors
    /// As [`slice_checked`](Self::slice_checked).
    pub fn slice_at_checked(
        &self,
        position: usize,
        slice: &Slice,
    ) -> Result<TensorSlice<'_>, Error<I::Fault>> {
        now(slice_of_file(self.index(), self.source(), position, slice)).map_err(|error| self.named(error))
    }
}

impl<I: FileIndex, S: Fetch> AsyncReader<I, S> {
    /// A part of the tensor of that name: as [`Reader::slice`].
    ///
    /// # Errors
    /// As [`Reader::slice`].
    pub async fn slice(&self, name: &str, slice: &Slice) -> Result<TensorSlice<'_>, Error<I::Fault>> {
        match self.tensors().find(name) {
            Some(position) => self.slice_at(position, slice).await,
            None => Err(Error::NotFound { name: name.to_owned() }),
        }
    }

    /// A part of the tensor at a position.
    ///
    /// # Errors
    /// As [`Reader::slice`].
    pub async fn slice_at(&self, position: usize, slice: &Slice) -> Result<TensorSlice<'_>, Error<I::Fault>> {
        of_file(&**self.index(), self.source(), position, slice).await
    }

    /// As [`slice`](Self::slice), checked: as [`Reader::slice_checked`].
    ///
    /// # Errors
    /// As [`Reader::slice_checked`].
    pub async fn slice_checked(&self, name: &str, slice: &Slice) -> Result<TensorSlice<'_>, Error<I::Fault>> {
        match self.tensors().find(name) {
            Some(position) => self.slice_at_checked(position, slice).await,
            None => Err(Error::NotFound { name: name.to_owned() }),
        }
    }

    /// A part of the tensor at a position, checked.
    ///
    /// # Errors
    /// As [`Reader::slice_checked`].
    pub async fn slice_at_checked(
        &self,
        position: usize,
        slice: &Slice,
    ) -> Result<TensorSlice<'_>, Error<I::Fault>> {
        slice_of_file(self.index(), self.source(), position, slice).await
    }
}

async fn of_file<'s, I: FileIndex, S: Fetch>(
    index: &'s I,
    source: &'s S,
    position: usize,
    slice: &Slice,
) -> Result<TensorSlice<'s>, Error<I::Fault>> {
    let info = index.tensors().info(position).ok_or_else(|| Error::no_such_position(position))?;
    let sliced = slice.of(&info).map_err(|fault| Error::slice(&info, fault))?;
    let bytes = match sliced.runs.as_range() {
        Some(range) => index.read_range(source, position, range).await?,
        None => {
            let read = async |at: u64, out: &mut [u8]| index.read_into(source, position, at, out).await;
            let (at, len) = (sliced.runs.offset(), sliced.runs.nbytes());
            Bytes::Owned(gathered(&sliced.runs, read, |source| Error::Io { at, len, source }).await?)
        }
    };
    Ok(TensorSlice::new(&info, sliced.shape, bytes))
}
