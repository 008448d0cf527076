//! The interface that the readers of all formats share.

mod claims;
mod plan;
mod reader;

use std::ops::Range;

use crate::claims::{Claims, WantedRange};
use crate::error::AnyError;
use crate::execution::Execution;
use crate::fetch::now;
use crate::plan::{PlanOptions, Runs, Slice, TensorSlice, gather};
use crate::read::{Reading, Which, view_of_source};
use crate::report::{Report, VerifyLevel};
use crate::source::Source;
use crate::table::{Location, Stored};
use crate::value::{Object, Value};
use tensor_core::Bytes;
use tensor_core::{TensorInfo, TensorView};

pub(crate) use plan::wanted;

/// An open model file, or set of files, of any format. Object-safe. [`Reader`](crate::Reader) implements it
/// for all formats.
///
/// The position of a tensor counts from 0, in the order of the file. A position that does not exist is an
/// error, never a panic.
pub trait Container {
    /// Returns the version that the file states, such as `0.1`; `None` for formats without a version.
    fn version(&self) -> Option<String>;

    /// Returns the size in bytes; for a set, the size of all its files together.
    fn file_size(&self) -> u64;

    /// Returns the number of tensors.
    fn tensor_count(&self) -> usize;

    /// Returns the tensor at a position.
    fn info(&self, position: usize) -> Option<TensorInfo<'_>>;

    /// Returns the position of the tensor with this name.
    fn find(&self, name: &str) -> Option<usize>;

    /// Returns the place of a tensor's values. A set may have to open one of its files for this.
    ///
    /// # Errors
    /// If there is no such tensor, or the file that has it is missing or broken.
    fn location(&self, position: usize) -> Result<Location, AnyError>;

    /// Returns how a tensor is stored, and in which file of a set, as a number. A set may have to open that
    /// file for this.
    ///
    /// # Errors
    /// If there is no such tensor, or the file that has it is missing or broken.
    fn stored(&self, position: usize) -> Result<Stored, AnyError>;

    /// Returns the range of the file that must be read for a range of a tensor's values. For a tensor in LZ4
    /// blocks, the headers of earlier blocks may be read to find it.
    ///
    /// # Errors
    /// If there is no such tensor or range, it has no data, or its blocks cannot be found.
    fn stored_range(&self, position: usize, values: Range<u64>) -> Result<Range<u64>, AnyError>;

    /// Returns all bytes of the file, if it is a single file and in memory.
    fn as_slice(&self) -> Option<&[u8]> {
        None
    }

    /// Returns the paths of a set's files other than its index, as the index names them. Empty for a single
    /// file.
    fn file_paths(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the values of a tensor or a part of them: decompressed, little-endian and row-major. They are
    /// borrowed if they are in memory in this form.
    ///
    /// # Errors
    /// If there is no such tensor, it has no data or fewer bytes, or it cannot be read or decompressed. A
    /// checked read also fails if the bytes do not match the digest in the file, or with [`AnyError::NoHash`]
    /// if no digest in the file covers them.
    fn values(&self, position: usize, which: Which<'_>, reading: Reading<'_>) -> Result<Bytes<'_>, AnyError>;

    /// Fills `out` with a tensor's values from byte `at` on, decompressed. Pieces that begin at multiples of
    /// [`PIECE`](crate::execution::PIECE) never decompress a block twice. All bytes that are read are passed
    /// to `claims`, which come from [`claims`](Self::claims).
    ///
    /// # Errors
    /// If there is no such tensor, it has no data or fewer bytes, or it cannot be read or decompressed.
    /// [`Claims::failure`] and [`Claims::finish`] report whether a claim fails.
    fn values_into(
        &self,
        position: usize,
        at: u64,
        out: &mut [u8],
        claims: Option<&Claims>,
    ) -> Result<(), AnyError>;

    /// Returns all values of a tensor, unchecked.
    ///
    /// # Errors
    /// If there is no such tensor, it has no data, or it cannot be read or decompressed.
    fn read(&self, position: usize) -> Result<Bytes<'_>, AnyError> {
        self.values(position, Which::Whole, Reading::PLAIN)
    }

    /// Returns a tensor with its values.
    ///
    /// # Errors
    /// If there is no such tensor, it has no data, or it cannot be read or decompressed.
    fn tensor(&self, position: usize, reading: Reading<'_>) -> Result<TensorView<'_>, AnyError> {
        let info = self.require_info(position)?;
        let bytes = self.values(position, Which::Whole, reading)?;
        view_of_source(info, bytes, || {
            self.stored(position).ok().and_then(|stored| stored.offset).unwrap_or(0)
        })
    }

    /// Returns a part of a tensor, by a slice of each dimension. If the part consists of several pieces,
    /// pieces that are close to each other are read together.
    ///
    /// # Errors
    /// If there is no such tensor, it has no data, or it cannot be read or decompressed; [`AnyError::Slice`]
    /// if the slice does not fit the tensor.
    fn slice(
        &self,
        position: usize,
        slice: &Slice,
        reading: Reading<'_>,
    ) -> Result<TensorSlice<'_>, AnyError> {
        let info = self.require_info(position)?;
        let sliced = slice.of(&info).map_err(|fault| AnyError::slice(&info, fault))?;
        let bytes = self.values(position, Which::runs(&sliced.runs), reading)?;
        Ok(TensorSlice::new(&info, sliced.shape, bytes))
    }

    /// Fills `out` with the bytes of a tensor's values at `runs`, run after run. `out` has exactly their
    /// length. With a [part](Runs::part) of a slice's runs, this reads [`slice`](Self::slice) piece by piece.
    ///
    /// # Errors
    /// If there is no such tensor, it has no data, or it cannot be read or decompressed.
    fn runs_into(&self, position: usize, runs: &Runs, out: &mut [u8]) -> Result<(), AnyError> {
        let read = async |at: u64, out: &mut [u8]| self.values_into(position, at, out, None);
        let (at, len) = (runs.offset(), runs.nbytes());
        now(gather(runs, PlanOptions::local(), out, read, |source| AnyError::Io { at, len, source }))
    }

    /// Returns the tensor at a position.
    ///
    /// # Errors
    /// If there is no such tensor, or its file cannot be opened or does not have it.
    fn require_info(&self, position: usize) -> Result<TensorInfo<'_>, AnyError> {
        match self.info(position) {
            Some(info) => Ok(info),
            None => Err(self.stored(position).err().unwrap_or_else(|| AnyError::no_such_position(position))),
        }
    }

    /// Fills `out` with raw bytes of a file, from byte `at` on. The files of a set are numbered as in
    /// [`Claims::observe`]; a single file is number 0.
    ///
    /// # Errors
    /// If there is no such file or range, or it cannot be read.
    fn read_file(&self, file: usize, at: u64, out: &mut [u8]) -> Result<(), AnyError>;

    /// Returns the source of a file's bytes. Files are numbered as in [`read_file`](Self::read_file).
    ///
    /// # Errors
    /// If there is no such file, or it cannot be opened.
    fn source_of(&self, file: usize) -> Result<&dyn Source, AnyError>;

    /// Returns the digests in the files that cover the values of these tensors: for each tensor, the smallest
    /// one. Empty for formats without digests of values.
    ///
    /// # Errors
    /// If the digests cannot be read or understood.
    fn claims(&self, tensors: &[usize]) -> Result<Claims, AnyError> {
        let wanted: Vec<WantedRange> = tensors.iter().copied().map(WantedRange::whole).collect();
        self.claims_of(&wanted)
    }

    /// Returns the digests in the files that cover these tensors or parts of them: for each, the smallest
    /// one.
    ///
    /// # Errors
    /// If the digests cannot be read or understood.
    fn claims_of(&self, wanted: &[WantedRange]) -> Result<Claims, AnyError>;

    /// Returns the format's own metadata, as the tree that `inspect --json` prints.
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    fn metadata(&self) -> Result<Value, AnyError>;

    /// Returns the metadata as one flat list of keys and plain values, however the format nests it. For
    /// example, a typed string of OINF becomes a plain string, and the keys of AERO's JSON are at the top
    /// level. Keys that are not metadata get a prefix (`sizevars.` for OINF's size variables, `manifest.` for
    /// AERO's manifest).
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    fn flat_metadata(&self) -> Result<Object, AnyError> {
        self.metadata().map(Value::into_object)
    }

    /// Returns the details that only this format has (chunks, size variables, checksum, flags, files), as
    /// `inspect --json` prints them.
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    fn details(&self) -> Result<Value, AnyError>;

    /// Returns irregularities that were tolerated on opening, such as unknown parts of a pickle, as text for
    /// the user. For a set, only those of open files.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Checks the file and reports every finding, not only the first.
    fn verify(&self, level: VerifyLevel, work: &Execution<'_>) -> Report;
}
