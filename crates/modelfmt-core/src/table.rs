//! The table of tensors: names, dtypes and shapes in a few flat vectors, and a name table.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use tensor_core::{DType, TensorInfo, implied_nbytes};

use crate::error::CommonFault;
use crate::extent::Extent;
use crate::value::NameTable;

/// How the values of a tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// Without encoding.
    Raw,
    /// Without encoding, but with the most significant byte of each number first.
    BigEndian,
    /// In LZ4 blocks.
    Lz4,
    /// In a zstd stream.
    Zstd,
    /// In a deflate stream, as in zip archives.
    Deflate,
    /// Without encoding, but not contiguous in the order of the tensor: every read gathers them.
    Strided,
    /// Without encoding, but every read must be checked, which the format's own reader does.
    Checked,
    /// Encrypted, and perhaps compressed before that.
    Encrypted,
}

impl Encoding {
    /// Returns `raw` (checked or not), `big-endian`, `lz4`, `zstd`, `deflate`, `strided` or `encrypted`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw | Self::Checked => "raw",
            Self::BigEndian => "big-endian",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Deflate => "deflate",
            Self::Strided => "strided",
            Self::Encrypted => "encrypted",
        }
    }

    /// Returns whether the values must be decompressed, decrypted or gathered, so that no range of the file
    /// holds them directly.
    #[must_use]
    pub const fn is_compressed(self) -> bool {
        matches!(self, Self::Lz4 | Self::Zstd | Self::Deflate | Self::Strided | Self::Encrypted)
    }
}

/// The place of a tensor's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The path of the file in a set, as the index names it; `None` for a single file.
    pub file: Option<String>,
    /// The offset of the values in that file; `None` for a tensor without data.
    pub offset: Option<u64>,
    /// The number of bytes that the values take there.
    pub stored_nbytes: u64,
    /// The encoding of the values.
    pub encoding: Encoding,
}

/// The place of a tensor's values: a [`Location`] with a number instead of the name of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The number of the file, as in [`Container::read_file`](crate::Container::read_file).
    pub file: usize,
    /// The offset of the values in that file; `None` for a tensor without data.
    pub offset: Option<u64>,
    /// The number of bytes that the values take there.
    pub nbytes: u64,
    /// The encoding of the values.
    pub encoding: Encoding,
}

impl Stored {
    /// Converts a location in the file with this number.
    #[must_use]
    pub const fn of(file: usize, location: &Location) -> Self {
        let &Location { offset, stored_nbytes, encoding, .. } = location;
        Self { file, offset, nbytes: stored_nbytes, encoding }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    offset: u64,
    nbytes: u64,
    dims_start: u32,
    rank: u16,
    dtype: DType,
}

/// The place of a tensor of a set in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The file lists the tensor, at this position.
    Listed(usize),
    /// The file does not list the tensor. According to the index of the set, its values are these bytes of
    /// the file.
    Bytes(Extent),
}

/// The offset that marks tensors without data; no byte of a file can have it.
const NO_DATA: u64 = u64::MAX;

/// A tensor to add to a [`TensorTable`].
#[derive(Clone, Copy, Debug)]
pub struct NewTensor<'a> {
    /// The name, which must not be in the table yet.
    pub name: &'a str,
    /// The dtype of the elements.
    pub dtype: DType,
    /// The offset of the values; `None` for a tensor without data.
    pub offset: Option<u64>,
    /// The length in bytes of a [`DType::Packed`] tensor. For other dtypes it follows from dtype and shape.
    pub packed_nbytes: u64,
}

/// The tensors of a model in order, found by position or by name.
///
/// Names, dimensions and entries are in a few flat vectors. Each tensor takes about 32 bytes, its name, 8
/// bytes per dimension and 7 bytes of hash table.
#[derive(Clone, Debug, Default)]
pub struct TensorTable {
    entries: Vec<Entry>,
    names: NameTable,
    dims: Vec<u64>,
}

impl TensorTable {
    /// Creates an empty table with capacity for `tensors` tensors. The caller must check the number against
    /// the bytes that exist.
    #[must_use]
    pub fn with_capacity(tensors: usize) -> Self {
        let names = NameTable::with_capacity(tensors);
        // Most tensors have at least one dimension.
        Self { entries: Vec::with_capacity(tensors), names, dims: Vec::with_capacity(tensors) }
    }

    /// Creates a table in which very many names are compared together by [`TensorTable::compare_names`], and
    /// not one by one in [`TensorTable::push`]. Comparing ten million names takes a third of the time.
    #[must_use]
    pub fn comparing_later(tensors: usize) -> Self {
        let names = NameTable::comparing_later(tensors);
        Self { entries: Vec::with_capacity(tensors), names, dims: Vec::with_capacity(tensors) }
    }

    /// Compares the names of the tensors in a table that [compares later](TensorTable::comparing_later).
    ///
    /// # Errors
    /// [`CommonFault::Duplicate`], with the position and the name of the first tensor that has the name of an
    /// earlier one.
    pub fn compare_names(&mut self) -> Result<(), (usize, String, CommonFault)> {
        self.names.compare().map_err(|position| {
            let name = self.names.name(position).unwrap_or_default().to_owned();
            (position, name.clone(), CommonFault::Duplicate(name))
        })
    }

    /// Reserves capacity for `tensors` more tensors. The caller must check the number against the bytes that
    /// exist.
    pub fn reserve(&mut self, tensors: usize) {
        self.entries.reserve(tensors);
        self.names.reserve(tensors);
        self.dims.reserve(tensors);
    }

    /// Adds a tensor with its dimensions and returns its number of bytes.
    ///
    /// # Errors
    /// [`CommonFault::Duplicate`], [`CommonFault::TooManyElements`], [`CommonFault::PartialBlock`] or
    /// [`CommonFault::TooManyNames`]; the table is then unchanged.
    #[inline]
    pub fn push(
        &mut self,
        tensor: NewTensor<'_>,
        dims: impl IntoIterator<Item = u64>,
    ) -> Result<u64, CommonFault> {
        self.push_with(tensor, dims, |shape| match tensor.dtype {
            DType::Packed => Ok(tensor.packed_nbytes),
            dtype => Ok(implied_nbytes(dtype, shape)?),
        })
    }

    /// Adds a tensor whose format computes the number of bytes from the shape with its own rule, `nbytes`.
    ///
    /// # Errors
    /// If the table already has the name, the shape is too large, or the table is full; the errors of
    /// `nbytes`.
    #[expect(
        clippy::inline_always,
        reason = "called for each tensor of an index; opening MAG was 0.75 times as fast without"
    )]
    #[inline(always)]
    pub fn push_with(
        &mut self,
        tensor: NewTensor<'_>,
        dims: impl IntoIterator<Item = u64>,
        nbytes: impl FnOnce(&[u64]) -> Result<u64, CommonFault>,
    ) -> Result<u64, CommonFault> {
        let dims_start = self.dims.len();
        self.dims.extend(dims);
        let pushed = nbytes(self.dims.get(dims_start..).unwrap_or_default())
            .and_then(|nbytes| self.push_entry(tensor, dims_start, nbytes));
        if pushed.is_err() {
            self.dims.truncate(dims_start);
        }
        pushed
    }

    /// Copies the table, with the names in `names` for their positions, and with offsets mapped by `offset`.
    ///
    /// # Errors
    /// [`CommonFault::Duplicate`] if a name would occur twice; [`CommonFault::TooManyNames`].
    pub fn renamed(
        &self,
        names: &std::collections::BTreeMap<usize, String>,
        offset: impl Fn(u64) -> u64,
    ) -> Result<Self, CommonFault> {
        let mut table = Self::with_capacity(self.len());
        for (position, info) in self.iter().enumerate() {
            let name = names.get(&position).map_or(info.name, String::as_str);
            let offset = self.offset(position).map(&offset);
            let tensor = NewTensor { name, dtype: info.dtype, offset, packed_nbytes: info.nbytes };
            table.push_with(tensor, info.shape.iter().copied(), |_| Ok(info.nbytes))?;
        }
        Ok(table)
    }

    #[expect(
        clippy::inline_always,
        reason = "as `push_with`; opening MAG took 4 million instructions more for 100,000 tensors without"
    )]
    #[inline(always)]
    fn push_entry(
        &mut self,
        tensor: NewTensor<'_>,
        dims_start: usize,
        nbytes: u64,
    ) -> Result<u64, CommonFault> {
        let shape = self.dims.get(dims_start..).unwrap_or_default();
        let entry = Entry {
            offset: tensor.offset.unwrap_or(NO_DATA),
            nbytes,
            dims_start: u32::try_from(dims_start).map_err(|_| CommonFault::TooManyNames)?,
            rank: u16::try_from(shape.len()).map_err(|_| CommonFault::TooManyNames)?,
            dtype: tensor.dtype,
        };
        self.names.push(tensor.name)?;
        self.entries.push(entry);
        Ok(nbytes)
    }

    /// Frees memory that was reserved and not used.
    pub fn shrink_to_fit(&mut self) {
        self.entries.shrink_to_fit();
        self.names.shrink_to_fit();
        self.dims.shrink_to_fit();
    }

    /// Returns the number of tensors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the table has no tensors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the position of the tensor with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.names.find(name)
    }

    /// Returns the tensor at a position.
    #[must_use]
    pub fn info(&self, position: usize) -> Option<TensorInfo<'_>> {
        let entry = self.entries.get(position)?;
        let dims_start = entry.dims_start as usize;
        let shape = self.dims.get(dims_start..dims_start.saturating_add(usize::from(entry.rank)))?;
        let has_data = entry.offset != NO_DATA;
        Some(TensorInfo::with_nbytes(self.names.name(position)?, entry.dtype, shape, entry.nbytes, has_data))
    }

    /// Returns the offset of the values of the tensor at a position; `None` if there is no such tensor, or it
    /// has no data.
    #[must_use]
    pub fn offset(&self, position: usize) -> Option<u64> {
        self.entries.get(position).map(|entry| entry.offset).filter(|&offset| offset != NO_DATA)
    }

    /// Returns the place of the values of the tensor at a position, in a file that stores values without
    /// encoding.
    #[must_use]
    pub fn location(&self, position: usize) -> Option<Location> {
        let entry = self.entries.get(position)?;
        let offset = Some(entry.offset).filter(|&offset| offset != NO_DATA);
        let stored_nbytes = offset.map_or(0, |_| entry.nbytes);
        Some(Location { file: None, offset, stored_nbytes, encoding: Encoding::Raw })
    }

    /// Returns the extent of the values of the tensor at a position, in a file of `file_len` bytes that
    /// stores values without encoding. `None` if there is no such tensor, it has no data, or its values would
    /// not be within the file.
    #[must_use]
    pub fn extent(&self, position: usize, file_len: u64) -> Option<Extent> {
        let entry = self.entries.get(position).filter(|entry| entry.offset != NO_DATA)?;
        Extent::new(entry.offset, entry.nbytes, file_len).ok()
    }

    /// Sets the offset of the values of the tensor at a position, for planners that compute the layout after
    /// listing.
    pub fn set_offset(&mut self, position: usize, offset: u64) {
        if let Some(entry) = self.entries.get_mut(position) {
            entry.offset = offset;
        }
    }

    /// Returns the tensor with this name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<TensorInfo<'_>> {
        self.info(self.find(name)?)
    }

    /// Returns the tensors in order.
    #[must_use]
    pub fn iter(&self) -> TableIter<'_> {
        TableIter { table: self, positions: 0..self.len() }
    }

    /// Returns the number of bytes of heap memory that the table takes.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.entries
            .capacity()
            .saturating_mul(size_of::<Entry>())
            .saturating_add(self.names.heap_size())
            .saturating_add(self.dims.capacity().saturating_mul(size_of::<u64>()))
    }
}

impl<'a> IntoIterator for &'a TensorTable {
    type Item = TensorInfo<'a>;
    type IntoIter = TableIter<'a>;

    fn into_iter(self) -> TableIter<'a> {
        self.iter()
    }
}

/// An iterator over the tensors of a [`TensorTable`], in order.
#[derive(Clone, Debug)]
pub struct TableIter<'a> {
    table: &'a TensorTable,
    positions: Range<usize>,
}

impl<'a> Iterator for TableIter<'a> {
    type Item = TensorInfo<'a>;

    fn next(&mut self) -> Option<TensorInfo<'a>> {
        self.table.info(self.positions.next()?)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.positions.size_hint()
    }

    fn nth(&mut self, n: usize) -> Option<TensorInfo<'a>> {
        self.table.info(self.positions.nth(n)?)
    }
}

impl DoubleEndedIterator for TableIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.table.info(self.positions.next_back()?)
    }
}

impl ExactSizeIterator for TableIter<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(name: &str, dtype: DType) -> NewTensor<'_> {
        NewTensor { name, dtype, offset: Some(64), packed_nbytes: 7 }
    }

    #[test]
    fn tensors_are_found_by_name_and_position() {
        let mut table = TensorTable::with_capacity(2);
        assert_eq!(table.push(tensor("a", DType::F32), [2, 3]), Ok(24));
        assert_eq!(table.push(NewTensor { offset: None, ..tensor("b", DType::I16) }, []), Ok(2));
        assert_eq!(table.push(tensor("c", DType::Packed), [9]), Ok(7));
        assert_eq!((table.find("b"), table.find("z"), table.len()), (Some(1), None, 3));
        let a = table.info(0).unwrap();
        assert_eq!((a.name, a.shape, a.nbytes, a.has_data, a.elements()), ("a", &[2, 3][..], 24, true, 6));
        assert!(!table.info(1).unwrap().has_data);
        assert_eq!((table.offset(0), table.offset(1), table.offset(9)), (Some(64), None, None));
        assert!(table.iter().map(|t| t.name).eq(["a", "b", "c"]));
    }

    #[test]
    fn what_cannot_be_is_refused_and_leaves_no_trace() {
        let mut table = TensorTable::default();
        table.push(tensor("a", DType::F32), [2]).unwrap();
        assert_eq!(table.push(tensor("a", DType::F32), [2]), Err(CommonFault::Duplicate("a".to_owned())));
        let huge = table.push(tensor("b", DType::F32), [1 << 62, 2]);
        assert_eq!(huge, Err(CommonFault::TooManyElements("[4611686018427387904, 2]".to_owned())));
        assert!(matches!(table.push(tensor("b", DType::Q8_0), [33]), Err(CommonFault::PartialBlock { .. })));
        assert_eq!(table.push(tensor("b", DType::U8), [5]), Ok(5));
        assert_eq!(table.info(1).unwrap().shape, [5]);
    }

    #[test]
    fn a_million_tensors_stay_below_100_mib() {
        let mut table = TensorTable::with_capacity(1_000_000);
        for i in 0..1_000_000 {
            table.push(tensor(&format!("model.layers.{i:07}"), DType::F32), [4, 4]).unwrap();
        }
        table.shrink_to_fit();
        assert!(table.heap_size() < 100 << 20, "{}", table.heap_size());
    }
}
