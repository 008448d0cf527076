//! Descriptions to a plan: every offset and length of the file, nothing written.

use std::borrow::Cow;

use modelfmt_core::write::{Segment, TensorSpec};
use modelfmt_core::{
    DType, Part, TensorInfo, TensorTable,
    author::{Extent, NewTensor, align_up},
};

use crate::error::{Fault, WriteError};
use crate::metadata::{MetaValue, Metadata};
use crate::wire::{self, ALIGNMENT, HEADER_LEN, Header, MetadataRecord, ValueType, text_fault};

/// How a file is written. Version 1 leaves nothing to choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {}

impl WriteOptions {
    /// The one way there is.
    #[must_use]
    pub const fn new() -> Self {
        Self {}
    }
}

/// A file that is to be written: checked, sorted and laid out.
///
/// [`Plan::write`] and [`Plan::write_file`] write it. The same content in any order gives the same bytes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Tensors as their descriptions were given, with their offsets in the file.
    pub(crate) table: TensorTable,
    /// Numbers of the descriptions, in file order.
    order: Vec<usize>,
    /// Everything before the first tensor's values: header, tables, metadata.
    pub(crate) head: Vec<u8>,
    /// Where values go, ascending.
    pub(crate) segments: Vec<Segment>,
    file_len: u64,
}

impl Plan {
    /// Lays a file out: size variables, metadata and tensors, each sorted by name.
    ///
    /// # Errors
    /// [`WriteError::Unsupported`], naming what OINF cannot hold: a name or a string with other characters than `A-Z a-z 0-9 . _ -`, a
    /// dtype that it lacks, a name that stands twice.
    pub fn new<'a>(
        specs: impl IntoIterator<Item = TensorSpec<'a>>,
        metadata: &Metadata<'_>,
        _options: &WriteOptions,
    ) -> Result<Self, WriteError> {
        let table = list(specs)?;
        // DECISIONS, OINF 1: our writer sorts by stored name (byte order).
        let mut order: Vec<(&str, usize)> = table.iter().map(|info| info.name).zip(0..).collect();
        order.sort_unstable();
        let order = order.into_iter().map(|(_, tensor)| tensor).collect();
        let sizevars = sorted("size variable", &metadata.sizevars)?;
        let values = Values::encode(sorted("metadata entry", &metadata.values)?)?;
        let mut plan = Self { table, order, head: Vec::new(), segments: Vec::new(), file_len: 0 };
        let header = plan.place(&sizevars, &values)?;
        plan.encode(&header, &sizevars, &values)?;
        Ok(plan)
    }

    /// The tensors, in the order of the file.
    pub fn tensors(&self) -> impl DoubleEndedIterator<Item = TensorInfo<'_>> + Clone {
        self.order.iter().filter_map(|&tensor| self.table.info(tensor))
    }

    /// The length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Where the values of a tensor will begin, by the number of its description; `None` without data.
    #[must_use]
    pub fn offset(&self, tensor: usize) -> Option<u64> {
        self.table.offset(tensor)
    }

    /// Fixes every offset.
    fn place(&mut self, sizevars: &[(&str, &u64)], values: &Values<'_>) -> Result<Header, WriteError> {
        // Sums of lengths of what is in memory: they stay far below 2^64.
        let table_lens: [u64; 3] = [
            sizevars.iter().map(|(name, _)| text_len(name) + 8).sum(),
            values.entries.iter().map(|entry| text_len(entry.key) + 24).sum(),
            self.tensors().map(|info| text_len(info.name) + 28 + 8 * info.shape.len() as u64).sum(),
        ];
        let mut at = HEADER_LEN;
        let mut tables = [0; 3];
        for (table, len) in tables.iter_mut().zip(table_lens) {
            *table = at;
            at = after(at, len)?;
        }
        let data = at;
        at = after(at, values.bytes.len() as u64)?;
        for &tensor in &self.order {
            let Some(info) = self.table.info(tensor).filter(|info| info.has_data) else { continue };
            let nbytes = info.nbytes;
            let extent = Extent::new(at, nbytes, u64::MAX).map_err(|_| too_long())?;
            self.segments.push(Segment { tensor, extent });
            self.table.set_offset(tensor, at);
            at = after(at, nbytes)?;
        }
        self.file_len = at;
        let counts = [
            count("size variables", sizevars.len())?,
            count("metadata entries", values.entries.len())?,
            count("tensors", self.order.len())?,
        ];
        Ok(Header { counts, tables, data, file_size: at })
    }

    /// Everything before the first tensor's values.
    fn encode(
        &mut self,
        header: &Header,
        sizevars: &[(&str, &u64)],
        values: &Values<'_>,
    ) -> Result<(), WriteError> {
        let mut out = Vec::new();
        header.encode(&mut out);
        for (name, value) in sizevars {
            text("size variable", name, &mut out)?;
            out.extend(value.to_le_bytes());
        }
        align(&mut out);
        for Entry { key, value_type, offset, nbytes } in &values.entries {
            text("metadata entry", key, &mut out)?;
            // `place` has seen that the file has room for it.
            MetadataRecord::encode_rest(*value_type, *nbytes, header.data.saturating_add(*offset), &mut out);
        }
        align(&mut out);
        for &tensor in &self.order {
            let Some(info) = self.table.info(tensor) else { continue };
            text("tensor", info.name, &mut out)?;
            let unfit = |fault| WriteError::Unsupported { part: Part::named("tensor", info.name), fault };
            let value_type = ValueType::of(info.dtype).ok_or_else(|| unfit(Fault::NoCode(info.dtype)))?;
            let data = self.table.offset(tensor).map(|offset| (offset, info.nbytes));
            wire::encode_tensor_rest(value_type, info.shape, data, &mut out).map_err(unfit)?;
        }
        align(&mut out);
        out.extend(&values.bytes);
        self.head = out;
        Ok(())
    }
}

/// Whether OINF has a value type for a dtype.
#[must_use]
pub fn can_hold(dtype: DType) -> bool {
    ValueType::of(dtype).is_some()
}

/// Lists the tensors as they are described.
fn list<'a>(specs: impl IntoIterator<Item = TensorSpec<'a>>) -> Result<TensorTable, WriteError> {
    let mut table = TensorTable::default();
    for spec in specs {
        let unfit = |fault| WriteError::Unsupported { part: Part::named("tensor", &spec.name), fault };
        if let Some(fault) = text_fault(&spec.name) {
            return Err(unfit(fault));
        }
        if ValueType::of(spec.dtype).is_none() {
            return Err(unfit(Fault::NoCode(spec.dtype)));
        }
        let offset = spec.has_data.then_some(0); // fixed by `place`
        let tensor = NewTensor { name: &spec.name, dtype: spec.dtype, offset, packed_nbytes: 0 };
        table.push(tensor, spec.shape.iter().copied()).map_err(|fault| unfit(fault.into()))?;
    }
    Ok(table)
}

/// Names with what they stand for, sorted; each once.
fn sorted<'m, T>(
    what: &'static str,
    items: &'m [(Cow<'_, str>, T)],
) -> Result<Vec<(&'m str, &'m T)>, WriteError> {
    let mut sorted: Vec<(&str, &T)> = items.iter().map(|(name, item)| (&**name, item)).collect();
    sorted.sort_unstable_by_key(|&(name, _)| name);
    let unfit = |name, fault| Err(WriteError::Unsupported { part: Part::named(what, name), fault });
    for pair in sorted.windows(2) {
        if let [(a, _), (b, _)] = pair
            && a == b
        {
            return unfit(a, modelfmt_core::CommonFault::Duplicate((*a).to_owned()).into());
        }
    }
    match sorted.iter().find_map(|&(name, _)| Some((name, text_fault(name)?))) {
        Some((name, fault)) => unfit(name, fault),
        None => Ok(sorted),
    }
}

/// Metadata as it will stand in the file.
struct Values<'m> {
    entries: Vec<Entry<'m>>,
    /// The payloads, each padded to a multiple of 8.
    bytes: Vec<u8>,
}

struct Entry<'m> {
    key: &'m str,
    value_type: ValueType,
    /// From the start of the data section.
    offset: u64,
    nbytes: u64,
}

impl<'m> Values<'m> {
    fn encode(sorted: Vec<(&'m str, &MetaValue<'_>)>) -> Result<Self, WriteError> {
        let (mut entries, mut bytes) = (Vec::with_capacity(sorted.len()), Vec::new());
        for (key, value) in sorted {
            let offset = bytes.len() as u64;
            let encoded = value.encode(&mut bytes);
            encoded.map_err(|fault| WriteError::Unsupported {
                part: Part::named("metadata value", key),
                fault,
            })?;
            // DECISIONS, OINF 1: a scalar's value_nbytes is without the padding, that of others with theirs.
            let nbytes = bytes.len() as u64 - offset;
            entries.push(Entry { key, value_type: value.value_type(), offset, nbytes });
            align(&mut bytes);
        }
        Ok(Self { entries, bytes })
    }
}

/// Bytes that a string takes.
fn text_len(text: &str) -> u64 {
    let len = 4 + text.len() as u64;
    len + wire::padding(len)
}

fn text(what: &'static str, text: &str, out: &mut Vec<u8>) -> Result<(), WriteError> {
    wire::encode_text(text, out)
        .map_err(|fault| WriteError::Unsupported { part: Part::named(what, text), fault })
}

/// Zeros up to the next multiple of 8, where the vector begins at one.
fn align(out: &mut Vec<u8>) {
    wire::pad(out, out.len() as u64);
}

/// Where the next part begins after `len` bytes at `at`.
fn after(at: u64, len: u64) -> Result<u64, WriteError> {
    at.checked_add(len).and_then(|end| align_up(end, ALIGNMENT)).ok_or_else(too_long)
}

fn count(what: &'static str, count: usize) -> Result<u32, WriteError> {
    let fault = Fault::TooMany(count as u64);
    u32::try_from(count).map_err(|_| WriteError::Unsupported { part: Part::new(what), fault })
}

fn too_long() -> WriteError {
    WriteError::Unsupported { part: Part::new("file"), fault: Fault::TooLong }
}
