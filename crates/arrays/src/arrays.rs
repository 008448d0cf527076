//! The arrays of a file: the record that holds each array, and how to read its values.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::author::{Extent, NameTable, NewTensor};
use modelfmt_core::claims::WantedRange;
use modelfmt_core::{
    AlignedBuf, Bytes, CommonFault, DType, Encoding, Fetch, Limits, Location, Part, TensorInfo, TensorTable,
};

use crate::error::{ArrayFault, Error, Fault, common, malformed};
use crate::inflate::Inflaters;
use crate::record::{Method, Record};
use crate::strided::{self, Content};

/// An array in a record of a file.
#[derive(Clone, Copy, Debug)]
pub struct NewArray<'a> {
    /// The name, which must not be used yet.
    pub name: &'a str,
    /// The type of the elements, which must take whole bytes.
    pub dtype: DType,
    /// The dimensions.
    pub dims: &'a [u64],
    /// The number of elements that each dimension steps over, or `None` if the last dimension is fastest and
    /// there are no gaps.
    pub strides: Option<&'a [u64]>,
    /// The number of the record.
    pub record: usize,
    /// The offset of the first element in the record, in bytes.
    pub start: u64,
    /// Whether the numbers are big-endian.
    pub is_big_endian: bool,
}

/// Marks an array without strides, whose elements are in order.
const IN_ORDER: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Slot {
    start: u64,
    record: u32,
    /// The position of the array's strides in the list of all strides.
    strides: u32,
    is_big_endian: bool,
}

/// The arrays of a file and the records that hold them. The index of a format delegates its reads to this
/// type.
#[derive(Clone, Debug)]
pub struct Arrays {
    tensors: TensorTable,
    slots: Vec<Slot>,
    strides: Vec<u64>,
    records: Vec<Record>,
    names: NameTable,
    file_len: u64,
    limits: Limits,
    inflaters: Inflaters,
}

impl Arrays {
    /// Creates an empty list for a file of `file_len` bytes. The limits apply to what is added later.
    #[must_use]
    pub fn new(file_len: u64, limits: Limits) -> Self {
        Self {
            tensors: TensorTable::default(),
            slots: Vec::new(),
            strides: Vec::new(),
            records: Vec::new(),
            names: NameTable::default(),
            file_len,
            limits,
            inflaters: Inflaters::default(),
        }
    }

    /// Reserves memory for more arrays and records. The caller has checked both numbers against the bytes that exist.
    pub fn reserve(&mut self, arrays: usize, records: usize) {
        self.tensors.reserve(arrays);
        self.slots.reserve(arrays);
        self.records.reserve(records);
        self.names.reserve(records);
    }

    /// Returns the arrays in the order in which they were added.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Returns the records with their names, in the order in which they were added.
    pub fn records(&self) -> impl ExactSizeIterator<Item = (&str, &Record)> {
        self.records.iter().enumerate().map(|(n, record)| (self.names.name(n).unwrap_or_default(), record))
    }

    /// Returns the record with this number.
    #[must_use]
    pub fn record(&self, number: usize) -> Option<&Record> {
        self.records.get(number)
    }

    /// Returns the `Part` for errors about a record.
    #[must_use]
    pub fn record_part(&self, number: usize) -> Part {
        Part::named("record", self.names.name(number).unwrap_or_default())
    }

    /// Adds a record and returns its number.
    ///
    /// # Errors
    /// If the record is not inside the file, or its name is already present.
    pub fn add_record<F: ArrayFault>(&mut self, name: &str, record: Record) -> Result<usize, Error<F>> {
        let refuse = |fault| common(Part::named("record", name), record.at, fault);
        Extent::new(record.at, record.stored_len, self.file_len).map_err(refuse)?;
        let number = self.names.push(name).map_err(|fault| refuse(fault.into()))?;
        self.records.push(record);
        Ok(number)
    }

    /// Adds an array.
    ///
    /// # Errors
    /// If its name is already present, if it reaches beyond its record, or if its strides expand it beyond
    /// the limit `expansion`.
    pub fn push<F: ArrayFault>(&mut self, new: NewArray<'_>) -> Result<(), Error<F>> {
        let NewArray { name, dtype, dims, strides, record: number, start, is_big_endian } = new;
        let no_record = || Error::NotFound { name: format!("record number {number}") };
        let record = *self.records.get(number).ok_or_else(no_record)?;
        let part = || Part::named("tensor", name);
        let count = (self.tensors.len() as u64).saturating_add(1);
        Limits::check("the number of tensors", count, self.limits.tensors)?;
        Limits::check("the length of a name", name.len() as u64, self.limits.name_len)?;
        Limits::check("the rank of a tensor", dims.len() as u64, self.limits.rank)?;
        if let Some(strides) = strides.filter(|strides| strides.len() != dims.len()) {
            let fault = Fault::Strides { dims: dims.len(), strides: strides.len() };
            return Err(malformed(part(), record.at, fault));
        }
        let strides = strides.filter(|strides| !strided::is_contiguous(dims, strides));
        let elements = match strides {
            Some(strides) => strided::span(dims, strides),
            None => dims.iter().try_fold(1_u64, |product, &dim| product.checked_mul(dim)),
        };
        // An array without elements may have any start, as PyTorch writes for an empty slice.
        let start = if elements == Some(0) { start.min(record.len) } else { start };
        let size = dtype.size().map_or(1, u64::from);
        let need = elements.and_then(|elements| elements.checked_mul(size)?.checked_add(start));
        if need.is_none_or(|need| need > record.len) {
            let fault = Fault::BeyondRecord { need: need.unwrap_or(u64::MAX), have: record.len };
            return Err(malformed(part(), record.at, fault));
        }
        let offset = match record.method {
            Method::Stored => record.at.saturating_add(start),
            Method::Deflated => record.at,
        };
        let tensor = NewTensor { name, dtype, offset: Some(offset), packed_nbytes: 0 };
        let refuse = |fault| common(part(), offset, fault);
        if strides.is_some() {
            let most = record.len.saturating_mul(self.limits.expansion).saturating_add(1 << 20);
            let nbytes = dims.iter().try_fold(size, |product, &dim| product.checked_mul(dim));
            let what = "the size of a tensor whose strides repeat its elements";
            Limits::check(what, nbytes.unwrap_or(u64::MAX), most)?;
        }
        let many = || refuse(CommonFault::TooManyNames);
        let strides_at = match strides {
            Some(_) => {
                u32::try_from(self.strides.len()).ok().filter(|at| *at != IN_ORDER).ok_or_else(many)?
            }
            None => IN_ORDER,
        };
        let slot = Slot {
            start,
            record: u32::try_from(number).map_err(|_| many())?,
            strides: strides_at,
            is_big_endian: is_big_endian && number_size(dtype) > 1,
        };
        self.tensors.push(tensor, dims.iter().copied()).map_err(refuse)?;
        self.strides.extend(strides.unwrap_or_default());
        self.slots.push(slot);
        Ok(())
    }

    /// Releases reserved memory that is not needed.
    pub fn shrink_to_fit(&mut self) {
        self.tensors.shrink_to_fit();
        self.slots.shrink_to_fit();
        self.strides.shrink_to_fit();
        self.records.shrink_to_fit();
        self.names.shrink_to_fit();
    }

    /// Returns everything about the array at a position.
    fn array(&self, position: usize) -> Option<Array<'_>> {
        let info = self.tensors.info(position)?;
        let slot = self.slots.get(position)?;
        let at = slot.strides as usize;
        let strides = match slot.strides {
            IN_ORDER => None,
            _ => Some(self.strides.get(at..at.saturating_add(info.shape.len()))?),
        };
        let number = slot.record as usize;
        let record = self.records.get(number)?;
        Some(Array {
            size: info.dtype.size().map_or(1, u64::from).max(1),
            info,
            strides,
            record,
            number,
            slot: *slot,
        })
    }

    /// Returns the location of the values of the array at a position.
    #[must_use]
    pub fn location(&self, position: usize) -> Option<Location> {
        let array = self.array(position)?;
        let encoding = match (array.record.method, array.strides) {
            (Method::Deflated, _) => Encoding::Deflate,
            (Method::Stored, Some(_)) => Encoding::Strided,
            (Method::Stored, None) if array.slot.is_big_endian => Encoding::BigEndian,
            (Method::Stored, None) => Encoding::Raw,
        };
        let range = array.stored();
        let stored_nbytes = range.end.saturating_sub(range.start);
        Some(Location { file: None, offset: Some(range.start), stored_nbytes, encoding })
    }

    /// Reads the values of the array at a position, like [`FileIndex::read`](modelfmt_core::author::FileIndex::read).
    ///
    /// # Errors
    /// The errors of [`FileIndex::read`](modelfmt_core::author::FileIndex::read).
    pub async fn read<'s, S: Fetch, F: ArrayFault>(
        &self,
        source: &'s S,
        position: usize,
    ) -> Result<Bytes<'s>, Error<F>> {
        let array = self.array(position).ok_or_else(|| Error::no_such_position(position))?;
        let range = array.stored();
        let (at, len) = (range.start, array.info.nbytes);
        let failed = |source| Error::Io { at, len, source };
        if array.is_as_it_is() {
            return source.fetch(range).await.map_err(failed);
        }
        let size = usize::try_from(len).map_err(|_| failed(std::io::ErrorKind::OutOfMemory.into()))?;
        let mut out = AlignedBuf::zeroed(size).map_err(failed)?;
        self.fill(source, &array, 0, &mut out).await?;
        Ok(Bytes::Owned(out))
    }

    /// Fills `out` with the values of the array at a position, from byte `offset` on.
    ///
    /// # Errors
    /// The errors of [`FileIndex::read_into`](modelfmt_core::author::FileIndex::read_into).
    pub async fn read_into<S: Fetch, F: ArrayFault>(
        &self,
        source: &S,
        position: usize,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), Error<F>> {
        let array = self.array(position).ok_or_else(|| Error::no_such_position(position))?;
        let len = out.len() as u64;
        let part = Extent::new(offset, len, array.info.nbytes)
            .map_err(|_| Error::out_of_range(&array.info, offset, len))?;
        if array.is_as_it_is() {
            let at = array.stored().start.saturating_add(part.offset());
            return source.fetch_into(at, out).await.map_err(|source| Error::Io { at, len, source });
        }
        // Only whole elements are read, but the range may begin and end inside an element.
        let size = array.size;
        let ahead = part.offset().checked_rem(size).unwrap_or(0);
        if ahead == 0 && len.checked_rem(size) == Some(0) {
            return self.fill(source, &array, part.offset().checked_div(size).unwrap_or(0), out).await;
        }
        let first = part.offset().checked_div(size).unwrap_or(0);
        let count = part.end().div_ceil(size).saturating_sub(first);
        let failed = |source| Error::Io { at: array.record.at, len, source };
        let whole = usize::try_from(count.saturating_mul(size));
        let whole = whole.map_err(|_| failed(std::io::ErrorKind::OutOfMemory.into()))?;
        let mut elements = AlignedBuf::zeroed(whole).map_err(failed)?;
        self.fill(source, &array, first, &mut elements).await?;
        let ahead = usize::try_from(ahead).unwrap_or(usize::MAX);
        if let Some(wanted) = elements.get(ahead..ahead.saturating_add(out.len())) {
            out.copy_from_slice(wanted);
        }
        Ok(())
    }

    /// Fills `out` with whole elements, from element `first` on.
    async fn fill<S: Fetch, F: ArrayFault>(
        &self,
        source: &S,
        array: &Array<'_>,
        first: u64,
        out: &mut [u8],
    ) -> Result<(), Error<F>> {
        let Array { info, record, slot, size, .. } = array;
        let part = || self.record_part(array.number);
        match (array.strides, record.method) {
            (None, Method::Stored) => {
                let at = record.at.saturating_add(slot.start).saturating_add(first.saturating_mul(*size));
                let len = out.len() as u64;
                source.fetch_into(at, out).await.map_err(|source| Error::Io { at, len, source })?;
            }
            (None, Method::Deflated) => {
                let offset = slot.start.saturating_add(first.saturating_mul(*size));
                self.inflaters.read_into(source, record, part, offset, out).await?;
            }
            (Some(strides), Method::Stored) => {
                let content = Content::File(source, record.at);
                strided::gather(&content, slot.start, (info.shape, strides), *size, first, out).await?;
            }
            (Some(strides), Method::Deflated) => {
                let whole = self.inflaters.whole(source, record, part).await?;
                let content = Content::<S>::Memory(&whole);
                strided::gather(&content, slot.start, (info.shape, strides), *size, first, out).await?;
            }
        }
        if slot.is_big_endian {
            out.chunks_exact_mut(number_size(info.dtype)).for_each(<[u8]>::reverse);
        }
        Ok(())
    }

    /// Returns the number of each record with wanted arrays, and how many of its bytes are read for these
    /// arrays.
    pub(crate) fn wanted(&self, wanted: &[WantedRange]) -> Vec<(usize, u64)> {
        let mut read: Vec<(usize, u64)> = Vec::new();
        for WantedRange { position, range } in wanted {
            let Some(array) = self.array(*position) else { continue };
            let all = array.stored();
            let all = all.end.saturating_sub(all.start);
            let taken = match range {
                Some(range) if array.is_as_it_is() => range.end.saturating_sub(range.start).min(all),
                _ => all,
            };
            read.push((array.number, taken));
        }
        read.sort_unstable_by_key(|(number, _)| *number);
        read.dedup_by(|next, first| {
            let is_same = next.0 == first.0;
            if is_same {
                first.1 = first.1.saturating_add(next.1);
            }
            is_same
        });
        read
    }
}

/// An array, and everything that its slot refers to.
struct Array<'a> {
    info: TensorInfo<'a>,
    strides: Option<&'a [u64]>,
    record: &'a Record,
    number: usize,
    slot: Slot,
    /// The size of an element in bytes.
    size: u64,
}

impl Array<'_> {
    /// Returns whether the file stores the values in the form in which they are returned.
    fn is_as_it_is(&self) -> bool {
        self.strides.is_none() && self.record.method == Method::Stored && !self.slot.is_big_endian
    }

    /// Returns the range of the file that is read for all values.
    fn stored(&self) -> Range<u64> {
        if self.info.nbytes == 0 {
            return self.record.at..self.record.at;
        }
        if self.record.method == Method::Deflated {
            return self.record.range();
        }
        let at = self.record.at.saturating_add(self.slot.start);
        let nbytes = match self.strides {
            Some(strides) => strided::span(self.info.shape, strides).unwrap_or(0).saturating_mul(self.size),
            None => self.info.nbytes,
        };
        at..at.saturating_add(nbytes)
    }
}

/// Returns the size in bytes of the numbers in an element whose bytes are swapped. A complex number consists
/// of two numbers.
fn number_size(dtype: DType) -> usize {
    match dtype {
        DType::C64 => 4,
        _ => dtype.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(1).max(1),
    }
}
