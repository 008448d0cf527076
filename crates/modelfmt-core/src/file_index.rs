//! The trait of each format's index, which all readers use.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::future::{Future, ready};
use std::io;
use std::ops::Range;
use std::sync::Arc;

use tensor_core::{AlignedBuf, Bytes, TensorInfo};

use crate::claims::{FileClaims, WantedRange};
use crate::endian::{fetch_big_endian, fetch_big_endian_into};
use crate::error::{CommonFault, Error, Part};
use crate::execution::Execution;
use crate::extent::Extent;
use crate::fetch::Fetch;
use crate::limits::Limits;
use crate::parse::{Parser, parse_source};
use crate::report::{Report, VerifyLevel};
use crate::settings::OpenSettings;
use crate::table::{Encoding, Location, TensorTable};
use crate::value::{Object, Value};

/// The index of one file: everything that its format describes, except the values. [`Reader`](crate::Reader)
/// adds a source and implements all reads.
///
/// The provided methods are for formats that store values without encoding.
pub trait FileIndex: Sized {
    /// The faults of the format.
    type Fault: crate::error::Fault;
    /// The parser that builds the index from bytes.
    type Parser: Parser<Index = Self, Fault = Self::Fault>;
    /// The format's own metadata type, which its writer also takes.
    type Metadata<'a>
    where
        Self: 'a;

    /// Returns the default limits.
    #[must_use]
    fn default_limits() -> Limits {
        Limits::default()
    }

    /// Parses the index of a file in memory, with the default settings. For a file that is read in parts,
    /// open a reader.
    ///
    /// # Errors
    /// The first rule that the file breaks; [`Error::Limit`].
    fn parse_bytes(bytes: &[u8]) -> Result<Self, Error<Self::Fault>> {
        let settings = OpenSettings::new(Self::default_limits());
        parse_source(Self::parser(bytes.len() as u64, &settings), &bytes)
    }

    /// Creates a parser for a file of `file_len` bytes.
    fn parser(file_len: u64, settings: &OpenSettings) -> Self::Parser;

    /// Returns the length of the indexed file in bytes.
    fn file_len(&self) -> u64;

    /// Returns the table of tensors.
    fn tensors(&self) -> &TensorTable;

    /// Returns the place of the values of the tensor at a position.
    fn location(&self, position: usize) -> Option<Location> {
        let location = self.tensors().location(position)?;
        let encoding = if self.is_big_endian() { Encoding::BigEndian } else { location.encoding };
        Some(Location { encoding, ..location })
    }

    /// Returns whether the file stores values big-endian. Reads always return them little-endian.
    fn is_big_endian(&self) -> bool {
        false
    }

    /// Returns the values of the tensor at a position, decompressed on the number of threads in `work`.
    /// Without `work`, the tensor's size determines the number. The values are borrowed if the source is in
    /// memory and holds them in this form.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NoData`], [`Error::Io`]; if the values do not decompress.
    fn read<'s, S: Fetch>(
        &self,
        source: &'s S,
        position: usize,
        work: Option<&Execution<'_>>,
    ) -> impl Future<Output = Result<Bytes<'s>, Error<Self::Fault>>> {
        let _ = work;
        async move {
            let (info, extent) = placed(self, position)?;
            let (at, len) = (extent.offset(), extent.len());
            let fetched = match self.is_big_endian() {
                true => fetch_big_endian(source, info.dtype, extent).await,
                false => source.fetch(extent.range()).await,
            };
            fetched.map_err(|source| Error::Io { at, len, source })
        }
    }

    /// Fills `out` with the values of the tensor at a position from byte `offset` on.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NoData`], [`Error::Io`]; [`Error::OutOfRange`] if the tensor has fewer
    /// bytes; if the values do not decompress.
    fn read_into<S: Fetch>(
        &self,
        source: &S,
        position: usize,
        offset: u64,
        out: &mut [u8],
    ) -> impl Future<Output = Result<(), Error<Self::Fault>>> {
        async move {
            let (info, extent) = placed(self, position)?;
            let len = out.len() as u64;
            let part = extent.part(offset, len).map_err(|_| Error::out_of_range(&info, offset, len))?;
            let at = part.offset();
            let done = match self.is_big_endian() {
                true => fetch_big_endian_into(source, info.dtype, extent, offset, out).await,
                false => source.fetch_into(at, out).await,
            };
            done.map_err(|source| Error::Io { at, len, source })
        }
    }

    /// Returns a range of the bytes of the tensor at a position. Borrowed if the source is in memory and
    /// holds the values in this form.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NoData`], [`Error::Io`]; [`Error::OutOfRange`] if the tensor has fewer
    /// bytes; if the values do not decompress.
    fn read_range<'s, S: Fetch>(
        &self,
        source: &'s S,
        position: usize,
        range: Range<u64>,
    ) -> impl Future<Output = Result<Bytes<'s>, Error<Self::Fault>>> {
        async move {
            let info = self.tensors().info(position).ok_or_else(|| Error::no_such_position(position))?;
            let part = part_of(&info, &range)?;
            let location = self.location(position).ok_or_else(|| Error::no_such_position(position))?;
            let Some(offset) = location.offset else {
                self.read_into(source, position, part.offset(), &mut []).await?; // fails with the reason
                return Err(Error::NoData { name: info.name.to_owned() });
            };
            let at = offset.saturating_add(part.offset());
            let failed = |source| Error::Io { at, len: part.len(), source };
            if location.encoding == Encoding::Raw {
                let within = Extent::new(at, part.len(), self.file_len());
                let within = within.map_err(|fault| placed_badly(&info, at, fault))?;
                return source.fetch(within.range()).await.map_err(failed);
            }
            let size = usize::try_from(part.len()).map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?;
            let mut out = AlignedBuf::zeroed(size).map_err(failed)?;
            self.read_into(source, position, part.offset(), &mut out).await?;
            Ok(Bytes::Owned(out))
        }
    }

    /// Returns the range of the file that is read for all values of the tensor at a position. It is empty if
    /// they were read on opening. `None` if there is no such tensor, or it has no data.
    fn stored_extent(&self, position: usize) -> Option<Range<u64>> {
        let location = self.location(position)?;
        let offset = location.offset?;
        Some(offset..offset.saturating_add(location.stored_nbytes))
    }

    /// Returns the range of the file that is read for a range of the values of the tensor at a position. For
    /// a compressed tensor this is the whole stored tensor, unless the format can find the blocks.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`]; [`Error::OutOfRange`] if the tensor has fewer bytes; if the blocks cannot be
    /// found.
    fn stored_range<S: Fetch>(
        &self,
        source: &S,
        position: usize,
        values: Range<u64>,
    ) -> impl Future<Output = Result<Range<u64>, Error<Self::Fault>>> {
        let _ = source;
        ready(stored_range(self, position, &values))
    }

    /// Adds the digests in the file that cover the bytes that are read for these tensors. Formats without digests of values add
    /// nothing.
    ///
    /// # Errors
    /// If the digests cannot be read.
    fn claims<S: Fetch>(
        index: &Arc<Self>,
        source: &S,
        wanted: &[WantedRange],
        claims: &mut FileClaims<'_>,
    ) -> impl Future<Output = Result<(), Error<Self::Fault>>> {
        let _ = (index, source, wanted, claims);
        ready(Ok(()))
    }

    /// Returns whether every read checks its values against the digests in the file before it returns a byte.
    /// Then no claim is needed.
    fn checks_reads(&self) -> bool {
        false
    }

    /// Checks the digests of the index itself. This is done once for a job that reads many tensors. A note in
    /// `claims` says what is not checked.
    ///
    /// # Errors
    /// If the index is damaged.
    fn check_index<S: Fetch>(
        &self,
        source: &S,
        claims: &mut FileClaims<'_>,
    ) -> impl Future<Output = Result<(), Error<Self::Fault>>> {
        let _ = (source, claims);
        ready(Ok(()))
    }

    /// Returns the version: see [`Container::version`](crate::Container::version).
    fn version_text(&self) -> Option<String>;

    /// Returns the file's metadata in the type of the format.
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    fn metadata<'a, S: Fetch>(
        &'a self,
        source: &S,
    ) -> impl Future<Output = Result<Self::Metadata<'a>, Error<Self::Fault>>>;

    /// Returns the metadata as a tree: see [`Container::metadata`](crate::Container::metadata).
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    fn metadata_tree<S: Fetch>(&self, source: &S) -> impl Future<Output = Result<Value, Error<Self::Fault>>>;

    /// Returns the metadata as a flat list: see
    /// [`Container::flat_metadata`](crate::Container::flat_metadata).
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    fn flat_metadata<S: Fetch>(
        &self,
        source: &S,
    ) -> impl Future<Output = Result<Object, Error<Self::Fault>>> {
        async move { self.metadata_tree(source).await.map(Value::into_object) }
    }

    /// Returns the details that only this format has: see [`Container::details`](crate::Container::details).
    fn details(&self) -> Object;

    /// Returns irregularities that were tolerated on opening: see
    /// [`Container::warnings`](crate::Container::warnings).
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Checks the file and reports every finding.
    fn verify<S: Fetch>(
        &self,
        source: &S,
        level: VerifyLevel,
        work: &Execution<'_>,
    ) -> impl Future<Output = Report>;
}

/// Returns the tensor at a position, and its extent in a file that stores values without encoding.
fn placed<I: FileIndex>(index: &I, position: usize) -> Result<(TensorInfo<'_>, Extent), Error<I::Fault>> {
    let info = index.tensors().info(position).ok_or_else(|| Error::no_such_position(position))?;
    let offset =
        index.tensors().offset(position).ok_or_else(|| Error::NoData { name: info.name.to_owned() })?;
    match Extent::new(offset, info.nbytes, index.file_len()) {
        Ok(extent) => Ok((info, extent)),
        Err(fault) => Err(placed_badly(&info, offset, fault)),
    }
}

fn stored_range<I: FileIndex>(
    index: &I,
    position: usize,
    values: &Range<u64>,
) -> Result<Range<u64>, Error<I::Fault>> {
    let info = index.tensors().info(position).ok_or_else(|| Error::no_such_position(position))?;
    let part = part_of(&info, values)?;
    let location = index.location(position).ok_or_else(|| Error::no_such_position(position))?;
    let stored = index.stored_extent(position).ok_or_else(|| Error::NoData { name: info.name.to_owned() })?;
    if location.encoding.is_compressed() {
        return Ok(stored);
    }
    let at = stored.start.saturating_add(part.offset());
    let within = Extent::new(at, part.len(), stored.end);
    within.map(Extent::range).map_err(|fault| placed_badly(&info, at, fault))
}

/// Returns a range of a tensor's bytes as an extent, if the tensor has these bytes.
fn part_of<F>(info: &TensorInfo<'_>, range: &Range<u64>) -> Result<Extent, Error<F>> {
    let len = range.end.checked_sub(range.start).unwrap_or(u64::MAX); // an inverted range is invalid
    Extent::new(range.start, len, info.nbytes).map_err(|_| Error::out_of_range(info, range.start, len))
}

fn placed_badly<F: From<CommonFault>>(info: &TensorInfo<'_>, at: u64, fault: CommonFault) -> Error<F> {
    Error::Malformed { part: Part::named("tensor", info.name), at, fault: fault.into() }
}
