//! What every format's reader can do, whatever the format.

use std::ops::Range;

use crate::claims::{Claims, Wanted};
use crate::error::AnyError;
use crate::execution::Execution;
use crate::fetch::now;
use crate::plan::{PlanOptions, Runs, Slice, TensorSlice, gather, gathered};
use crate::report::{Report, VerifyLevel};
use crate::source::Source;
use crate::table::{Location, Stored};
use crate::value::{Object, Value};
use tensor_core::Bytes;
use tensor_core::{TensorInfo, TensorView};

/// An open model file, or set of files, of any format. Object-safe; each format's `Reader` implements it.
///
/// A tensor's position counts from 0, in the order of the file. Asking for a position that does not exist is an error, never
/// a panic.
pub trait Container {
    /// The version that the file states, such as `0.1`; `None` for formats without.
    fn version(&self) -> Option<String>;

    /// The size in bytes; for a set, the size of all its files together.
    fn file_size(&self) -> u64;

    /// The number of tensors.
    fn tensor_count(&self) -> usize;

    /// The tensor at a position.
    fn info(&self, position: usize) -> Option<TensorInfo<'_>>;

    /// The position of the tensor of that name.
    fn find(&self, name: &str) -> Option<usize>;

    /// Where a tensor's values are. A set may have to open one of its files to know.
    ///
    /// # Errors
    /// If there is no such tensor, or the file that has it is missing or broken.
    fn location(&self, position: usize) -> Result<Location, AnyError>;

    /// As [`location`](Self::location), with the file as a number.
    ///
    /// # Errors
    /// As [`location`](Self::location).
    fn stored(&self, position: usize) -> Result<Stored, AnyError>;

    /// The bytes of the file that have to be read for a range of a tensor's values. For a tensor in LZ4 blocks, the headers of
    /// earlier blocks may be read to find them.
    ///
    /// # Errors
    /// If there is no such tensor or range, it has no data, or its blocks cannot be found.
    fn stored_range(&self, position: usize, values: Range<u64>) -> Result<Range<u64>, AnyError>;

    /// All bytes of the file, if it is one file and in memory.
    fn as_slice(&self) -> Option<&[u8]> {
        None
    }

    /// The files of a set beside its index, as the index names them; none of a single file.
    fn file_paths(&self) -> Vec<String> {
        Vec::new()
    }

    /// A tensor with its values: decompressed, little-endian and row-major; borrowed if they are in memory in this form.
    ///
    /// # Errors
    /// If there is no such tensor, it has no data, or it cannot be read or decompressed.
    fn tensor_at(&self, position: usize) -> Result<TensorView<'_>, AnyError>;

    /// As [`tensor_at`](Self::tensor_at), checked by the smallest digest that the file has of the values.
    ///
    /// # Errors
    /// As [`tensor_at`](Self::tensor_at); if the bytes are not what the file says; [`AnyError::NoHash`] if it has no
    /// digest of them.
    fn tensor_at_checked(&self, position: usize) -> Result<TensorView<'_>, AnyError>;

    /// A tensor's values, as [`tensor_at`](Self::tensor_at) gives them.
    ///
    /// # Errors
    /// As [`tensor_at`](Self::tensor_at).
    fn read(&self, position: usize) -> Result<Bytes<'_>, AnyError> {
        self.tensor_at(position).map(TensorView::into_bytes)
    }

    /// A range of the bytes of a tensor's values, without the rest of them; borrowed if they are in memory in this form.
    ///
    /// # Errors
    /// As [`tensor_at`](Self::tensor_at); [`AnyError::OutOfRange`] if the tensor has fewer bytes.
    fn read_range_at(&self, position: usize, range: Range<u64>) -> Result<Bytes<'_>, AnyError>;

    /// A part of a tensor, by a slice of each dimension. If the part is in several pieces, pieces that are close to each other
    /// are read together.
    ///
    /// # Errors
    /// As [`read_range_at`](Self::read_range_at); [`AnyError::Slice`] if the slice does not fit the tensor.
    fn slice_at(&self, position: usize, slice: &Slice) -> Result<TensorSlice<'_>, AnyError> {
        let Some(info) = self.info(position) else {
            self.location(position)?;
            return Err(AnyError::no_such_position(position));
        };
        let sliced = slice.of(&info).map_err(|fault| AnyError::slice(&info, fault))?;
        let bytes = match sliced.runs.as_range() {
            Some(range) => self.read_range_at(position, range)?,
            None => {
                let read = async |at: u64, out: &mut [u8]| self.read_into(position, at, out);
                let (at, len) = (sliced.runs.offset(), sliced.runs.nbytes());
                let failed = |source| AnyError::Io { at, len, source };
                Bytes::Owned(now(gathered(&sliced.runs, read, failed))?)
            }
        };
        Ok(TensorSlice::new(&info, sliced.shape, bytes))
    }

    /// Fills `out`, which is as long as they are, with these bytes of a tensor's values, run after run: a
    /// [part](Runs::part) of what [`slice_at`](Self::slice_at) gives as a whole.
    ///
    /// # Errors
    /// As [`read_into`](Self::read_into).
    fn read_runs_at(&self, position: usize, runs: &Runs, out: &mut [u8]) -> Result<(), AnyError> {
        let read = async |at: u64, out: &mut [u8]| self.read_into(position, at, out);
        let (at, len) = (runs.offset(), runs.nbytes());
        now(gather(runs, PlanOptions::local(), out, read, |source| AnyError::Io { at, len, source }))
    }

    /// As [`read_range_at`](Self::read_range_at), checked. If the file has digests of pages, only the pages of the range are read.
    ///
    /// # Errors
    /// As [`tensor_at_checked`](Self::tensor_at_checked) and [`read_range_at`](Self::read_range_at).
    fn read_range_at_checked(&self, position: usize, range: Range<u64>) -> Result<Bytes<'_>, AnyError>;

    /// As [`slice_at`](Self::slice_at), checked; where the file has digests of pages, by those of what the slice touches.
    ///
    /// # Errors
    /// As [`tensor_at_checked`](Self::tensor_at_checked) and [`slice_at`](Self::slice_at).
    fn slice_at_checked(&self, position: usize, slice: &Slice) -> Result<TensorSlice<'_>, AnyError>;

    /// Fills `out` with a tensor's values from byte `offset` on, decompressed. Pieces that begin at multiples of
    /// [`PIECE`](crate::execution::PIECE) never decompress a block twice.
    ///
    /// # Errors
    /// As [`read`](Self::read); also if the tensor has fewer bytes.
    fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<(), AnyError>;

    /// As [`read_into`](Self::read_into), and shows all that is read to `claims`, which come from [`claims`](Self::claims).
    ///
    /// # Errors
    /// As [`read_into`](Self::read_into). [`Claims::failure`] and [`Claims::finish`] say whether a claim fails.
    fn read_into_checked(
        &self,
        position: usize,
        offset: u64,
        out: &mut [u8],
        claims: &Claims,
    ) -> Result<(), AnyError>;

    /// Fills `out` with bytes of a file as they are, from byte `at` on; the files of a set are numbered as in
    /// [`Claims::observe`], and a single file is number 0.
    ///
    /// # Errors
    /// If there is no such file or range, or it cannot be read.
    fn read_file(&self, file: usize, at: u64, out: &mut [u8]) -> Result<(), AnyError>;

    /// Where the bytes of a file come from; files are numbered as in [`read_file`](Self::read_file).
    ///
    /// # Errors
    /// If there is no such file, or it cannot be opened.
    fn source_of(&self, file: usize) -> Result<&dyn Source, AnyError>;

    /// What the files claim about the bytes that are read for these tensors: for each, the smallest digest that covers it, and
    /// nothing for formats without digests of values.
    ///
    /// # Errors
    /// If the digests cannot be read or understood.
    fn claims(&self, tensors: &[usize]) -> Result<Claims, AnyError> {
        let wanted: Vec<Wanted> = tensors.iter().copied().map(Wanted::whole).collect();
        self.claims_of(&wanted)
    }

    /// As [`claims`](Self::claims), for parts of tensors too.
    ///
    /// # Errors
    /// As [`claims`](Self::claims).
    fn claims_of(&self, wanted: &[Wanted]) -> Result<Claims, AnyError>;

    /// The format's own metadata, as the tree that `inspect --json` prints.
    ///
    /// # Errors
    /// If it cannot be read or does not decode.
    fn metadata(&self) -> Result<Value, AnyError>;

    /// The metadata as one flat list of keys and plain values, whatever the format wraps it in: a string of OINF is a string, and
    /// the keys of AERO's JSON are at top level. What the format has besides its metadata gets a prefix (OINF's size variables
    /// `sizevars.`, AERO's manifest `manifest.`).
    ///
    /// # Errors
    /// As [`metadata`](Self::metadata).
    fn flat_metadata(&self) -> Result<Object, AnyError> {
        self.metadata().map(Value::into_object)
    }

    /// What only this format has (chunks, size variables, checksum, flags, files), as `inspect --json` prints it.
    ///
    /// # Errors
    /// As [`metadata`](Self::metadata).
    fn details(&self) -> Result<Value, AnyError>;

    /// Checks the file and reports every finding, not only the first.
    fn verify(&self, level: VerifyLevel, work: &Execution<'_>) -> Report;
}

/// Makes the `SetReader` of a format crate, a type with the shared one in a field, a [`Container`] through it.
#[doc(hidden)]
#[macro_export]
macro_rules! set_container {
    ($Reader:ident<$F:ident>, $field:ident) => {
        impl<$F: $crate::source::Files> $crate::Container for $Reader<$F> {
            fn version(&self) -> Option<String> {
                $crate::Container::version(&self.$field)
            }
            fn file_size(&self) -> u64 {
                $crate::Container::file_size(&self.$field)
            }
            fn tensor_count(&self) -> usize {
                $crate::Container::tensor_count(&self.$field)
            }
            fn info(&self, position: usize) -> Option<$crate::TensorInfo<'_>> {
                $crate::Container::info(&self.$field, position)
            }
            fn find(&self, name: &str) -> Option<usize> {
                $crate::Container::find(&self.$field, name)
            }
            fn file_paths(&self) -> Vec<String> {
                $crate::Container::file_paths(&self.$field)
            }
            fn location(&self, position: usize) -> Result<$crate::Location, $crate::AnyError> {
                $crate::Container::location(&self.$field, position)
            }
            fn stored(&self, position: usize) -> Result<$crate::Stored, $crate::AnyError> {
                $crate::Container::stored(&self.$field, position)
            }
            fn stored_range(
                &self,
                position: usize,
                values: ::std::ops::Range<u64>,
            ) -> Result<::std::ops::Range<u64>, $crate::AnyError> {
                $crate::Container::stored_range(&self.$field, position, values)
            }
            fn tensor_at(&self, position: usize) -> Result<$crate::TensorView<'_>, $crate::AnyError> {
                $crate::Container::tensor_at(&self.$field, position)
            }
            fn tensor_at_checked(&self, position: usize) -> Result<$crate::TensorView<'_>, $crate::AnyError> {
                $crate::Container::tensor_at_checked(&self.$field, position)
            }
            fn read_range_at(
                &self,
                position: usize,
                range: ::std::ops::Range<u64>,
            ) -> Result<$crate::Bytes<'_>, $crate::AnyError> {
                $crate::Container::read_range_at(&self.$field, position, range)
            }
            fn read_range_at_checked(
                &self,
                position: usize,
                range: ::std::ops::Range<u64>,
            ) -> Result<$crate::Bytes<'_>, $crate::AnyError> {
                $crate::Container::read_range_at_checked(&self.$field, position, range)
            }
            fn slice_at_checked(
                &self,
                position: usize,
                slice: &$crate::plan::Slice,
            ) -> Result<$crate::plan::TensorSlice<'_>, $crate::AnyError> {
                $crate::Container::slice_at_checked(&self.$field, position, slice)
            }
            fn read_into(
                &self,
                position: usize,
                offset: u64,
                out: &mut [u8],
            ) -> Result<(), $crate::AnyError> {
                $crate::Container::read_into(&self.$field, position, offset, out)
            }
            fn read_into_checked(
                &self,
                position: usize,
                offset: u64,
                out: &mut [u8],
                claims: &$crate::claims::Claims,
            ) -> Result<(), $crate::AnyError> {
                $crate::Container::read_into_checked(&self.$field, position, offset, out, claims)
            }
            fn read_file(&self, file: usize, at: u64, out: &mut [u8]) -> Result<(), $crate::AnyError> {
                $crate::Container::read_file(&self.$field, file, at, out)
            }
            fn source_of(&self, file: usize) -> Result<&dyn $crate::Source, $crate::AnyError> {
                $crate::Container::source_of(&self.$field, file)
            }
            fn claims_of(
                &self,
                wanted: &[$crate::claims::Wanted],
            ) -> Result<$crate::claims::Claims, $crate::AnyError> {
                $crate::Container::claims_of(&self.$field, wanted)
            }
            fn metadata(&self) -> Result<$crate::value::Value, $crate::AnyError> {
                $crate::Container::metadata(&self.$field)
            }
            fn flat_metadata(&self) -> Result<$crate::value::Object, $crate::AnyError> {
                $crate::Container::flat_metadata(&self.$field)
            }
            fn details(&self) -> Result<$crate::value::Value, $crate::AnyError> {
                $crate::Container::details(&self.$field)
            }
            fn verify(&self, level: $crate::VerifyLevel, work: &$crate::Execution<'_>) -> $crate::Report {
                $crate::Container::verify(&self.$field, level, work)
            }
        }
    };
}
