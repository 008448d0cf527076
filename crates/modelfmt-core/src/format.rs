//! The readers of format crates: types of their own over the shared ones, with methods that say what they do.

use std::ops::Range;

use tensor_core::{Bytes, TensorInfo, TensorView};

use crate::claims::{Claims, ObservedSource, Wanted};
use crate::container::Container;
use crate::error::{AnyError, Error};
use crate::execution::Execution;
use crate::fetch::now;
use crate::file_index::FileIndex;
use crate::plan::{Slice, TensorSlice};
use crate::reader::Reader;
use crate::report::{Report, VerifyLevel};
use crate::source::Source;
use crate::table::{Location, Stored};
use crate::value::{Object, Value};

/// The reader of a format: a type over the shared [`Reader`]. [`reader!`](crate::reader!) makes one. Each is a [`Container`].
pub trait FormatReader: Sized {
    /// The index of the format's files.
    type Index: FileIndex;
    /// Where the bytes come from.
    type Source: Source;

    /// The format's reader over the shared one.
    fn from_shared(shared: Reader<Self::Index, Self::Source>) -> Self;

    /// The shared reader.
    fn shared(&self) -> &Reader<Self::Index, Self::Source>;
}

impl<I: FileIndex, S: Source> FormatReader for Reader<I, S> {
    type Index = I;
    type Source = S;

    fn from_shared(shared: Self) -> Self {
        shared
    }

    fn shared(&self) -> &Self {
        self
    }
}

impl<R: FormatReader> Container for R {
    fn version(&self) -> Option<String> {
        self.shared().index().version_text()
    }

    fn file_size(&self) -> u64 {
        self.shared().index().file_len()
    }

    fn tensor_count(&self) -> usize {
        self.shared().tensors().len()
    }

    fn info(&self, tensor: usize) -> Option<TensorInfo<'_>> {
        self.shared().tensors().info(tensor)
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.shared().tensors().find(name)
    }

    fn location(&self, tensor: usize) -> Result<Location, AnyError> {
        let reader = self.shared();
        reader.index().location(tensor).ok_or_else(|| reader.named(Error::no_such_position(tensor)))
    }

    fn stored(&self, tensor: usize) -> Result<Stored, AnyError> {
        let reader = self.shared();
        let location = reader.index().location(tensor);
        let location = location.ok_or_else(|| reader.named(AnyError::no_such_position(tensor)))?;
        Ok(Stored::of(0, &location))
    }

    fn stored_range(&self, tensor: usize, values: Range<u64>) -> Result<Range<u64>, AnyError> {
        let reader = self.shared();
        now(reader.index().stored_range(reader.source(), tensor, values))
            .map_err(|error| reader.named(AnyError::from(error)))
    }

    fn as_slice(&self) -> Option<&[u8]> {
        self.shared().source().as_slice()
    }

    fn tensor_at(&self, tensor: usize) -> Result<TensorView<'_>, AnyError> {
        self.shared().view(tensor, None).map_err(AnyError::from)
    }

    fn tensor_at_checked(&self, tensor: usize) -> Result<TensorView<'_>, AnyError> {
        self.shared().tensor_at_checked(tensor).map_err(AnyError::from)
    }

    fn read_range_at(&self, tensor: usize, range: Range<u64>) -> Result<Bytes<'_>, AnyError> {
        self.shared().read_range_at(tensor, range).map_err(AnyError::from)
    }

    fn read_range_at_checked(&self, tensor: usize, range: Range<u64>) -> Result<Bytes<'_>, AnyError> {
        self.shared().read_range_at_checked(tensor, range).map_err(AnyError::from)
    }

    fn slice_at_checked(&self, position: usize, slice: &Slice) -> Result<TensorSlice<'_>, AnyError> {
        self.shared().slice_at_checked(position, slice).map_err(AnyError::from)
    }

    fn read_into(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), AnyError> {
        self.shared().read_into(tensor, offset, out).map_err(AnyError::from)
    }

    fn read_into_checked(
        &self,
        tensor: usize,
        offset: u64,
        out: &mut [u8],
        claims: &Claims,
    ) -> Result<(), AnyError> {
        let reader = self.shared();
        let source = ObservedSource::new(reader.source(), 0, claims);
        now(reader.index().read_into(&source, tensor, offset, out))
            .map_err(|error| reader.named(AnyError::from(error)))
    }

    fn read_file(&self, file: usize, at: u64, out: &mut [u8]) -> Result<(), AnyError> {
        let reader = self.shared();
        let len = out.len() as u64;
        let read = match file {
            0 => reader.source().read_into(at, out).map_err(|source| Error::Io { at, len, source }),
            other => Err(Error::NotFound { name: format!("file number {other}") }),
        };
        read.map_err(|error| reader.named(error))
    }

    fn source_of(&self, file: usize) -> Result<&dyn Source, AnyError> {
        let reader = self.shared();
        match file {
            0 => Ok(reader.source()),
            other => Err(reader.named(Error::NotFound { name: format!("file number {other}") })),
        }
    }

    fn claims_of(&self, wanted: &[Wanted]) -> Result<Claims, AnyError> {
        let reader = self.shared();
        let mut claims = Claims::new();
        let mut of_file = claims.for_file();
        let found = async {
            reader.index().check_index(reader.source(), &mut of_file).await?;
            R::Index::claims(reader.index(), reader.source(), wanted, &mut of_file).await
        };
        now(found).map_err(|error| reader.named(AnyError::from(error)))?;
        Ok(claims)
    }

    fn metadata(&self) -> Result<Value, AnyError> {
        let reader = self.shared();
        now(reader.index().metadata_tree(reader.source()))
            .map_err(|error| reader.named(AnyError::from(error)))
    }

    fn flat_metadata(&self) -> Result<Object, AnyError> {
        self.shared().flat_metadata().map_err(AnyError::from)
    }

    fn details(&self) -> Result<Value, AnyError> {
        Ok(self.shared().index().details().into())
    }

    fn verify(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        self.shared().verify_with(level, work)
    }
}
