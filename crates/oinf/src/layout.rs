//! Plans a file from the descriptions of its tensors: every offset and length. Checks everything and writes
//! nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use modelfmt_core::{
    DType, Part, TensorInfo, TensorTable,
    author::{Extent, NewTensor, align_up},
};
use modelfmt_write::{Segment, TensorSpec};

use crate::error::{Fault, WriteError};
use crate::metadata::{MetaValue, Metadata};
use crate::quant::Quant;
use crate::wire::{self, ALIGNMENT, HEADER_LEN, Header, MetadataRecord, ValueType, Version, text_fault};

/// Options for writing a file.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct WriteOptions {
    version: Version,
    extended_types: bool,
    order_as_given: bool,
    quants: BTreeMap<String, Quant>,
}

impl WriteOptions {
    /// Creates the default options: version 1, with the types in its document.
    #[must_use]
    pub const fn new() -> Self {
        Self { version: Version::V1, extended_types: false, order_as_given: false, quants: BTreeMap::new() }
    }

    /// Sets the version to write.
    #[must_use]
    pub fn version(self, version: Version) -> Self {
        Self { version, ..self }
    }

    /// Sets whether version 1 may use the value types 16 to 25. Its document lacks them, but the published
    /// package reads them. Version 2 always has them (docs/formats/oinf.md#types-16-to-25).
    #[must_use]
    pub fn extended_types(self, extended_types: bool) -> Self {
        Self { extended_types, ..self }
    }

    /// Sets whether the file keeps the tensors in the order of their descriptions. By default they are sorted
    /// by name, as the published package sorts them by the field names of its dataclass.
    #[must_use]
    pub fn order_as_given(self, order_as_given: bool) -> Self {
        Self { order_as_given, ..self }
    }

    /// For version 2: sets the scales and zero points of the tensor with this name.
    #[must_use]
    pub fn quant(mut self, name: impl Into<String>, quant: Quant) -> Self {
        self.quants.insert(name.into(), quant);
        self
    }

    /// Returns the value type of a dtype, if these options allow it in the file.
    fn value_type(&self, dtype: DType) -> Result<ValueType, Fault> {
        let value_type = ValueType::from_dtype(dtype).ok_or(Fault::NoCode(dtype))?;
        self.check_type(value_type)?;
        Ok(value_type)
    }

    fn check_type(&self, value_type: ValueType) -> Result<(), Fault> {
        if value_type.is_extended() && self.version == Version::V1 && !self.extended_types {
            return Err(Fault::Extended(value_type));
        }
        Ok(())
    }
}

/// A file to write: checked, sorted and laid out.
///
/// Write it with [`Plan::write`] or [`Plan::write_file`]. The same content in any order gives the same bytes,
/// unless [`WriteOptions::order_as_given`] keeps the order of the tensors.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The tensors in the order of their descriptions, with their offsets in the file.
    pub(crate) table: TensorTable,
    /// The tensors in file order, each as the position of its description.
    order: Vec<usize>,
    /// Everything before the first tensor's values: header, tables, metadata.
    pub(crate) head: Vec<u8>,
    /// The places of the values and quant payloads, in ascending order. The numbers of quant payloads follow
    /// those of the tensors.
    pub(crate) segments: Vec<Segment>,
    /// The quant payloads, sorted by the position of their tensor.
    pub(crate) quants: Vec<QuantPayload>,
    file_len: u64,
}

impl Plan {
    /// Lays out a file: size variables, metadata and tensors, each sorted by name unless the options say
    /// otherwise.
    ///
    /// # Errors
    /// [`WriteError::Unsupported`] with the part that OINF cannot hold: a name or a string with other
    /// characters than `A-Z a-z 0-9 . _ -`, a dtype that OINF lacks, a name that occurs twice, a quant
    /// payload that does not fit its tensor.
    pub fn new<'a>(
        specs: impl IntoIterator<Item = TensorSpec<'a>>,
        metadata: &Metadata<'_>,
        options: &WriteOptions,
    ) -> Result<Self, WriteError> {
        let table = list(specs, options)?;
        let quants = quants(&table, options)?;
        // This crate sorts by stored name, in byte order (docs/formats/oinf.md#order-of-tables).
        let mut order: Vec<(&str, usize)> = table.iter().map(|info| info.name).zip(0..).collect();
        if !options.order_as_given {
            order.sort_unstable();
        }
        let order = order.into_iter().map(|(_, tensor)| tensor).collect();
        let sizevars = sorted("size variable", &metadata.sizevars)?;
        let values = Values::encode(sorted("metadata entry", &metadata.values)?, options)?;
        let (head, segments) = (Vec::new(), Vec::new());
        let mut plan = Self { table, order, head, segments, quants, file_len: 0 };
        let header = plan.place(options.version, &sizevars, &values)?;
        plan.encode(&header, &sizevars, &values)?;
        Ok(plan)
    }

    /// Returns the tensors, in file order.
    pub fn tensors(&self) -> impl DoubleEndedIterator<Item = TensorInfo<'_>> + Clone {
        self.order.iter().filter_map(|&tensor| self.table.info(tensor))
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Returns the offset of a tensor's values, by the position of its description, or `None` for a tensor
    /// without data.
    #[must_use]
    pub fn offset(&self, tensor: usize) -> Option<u64> {
        self.table.offset(tensor)
    }

    /// Fixes every offset.
    fn place(
        &mut self,
        version: Version,
        sizevars: &[(&str, &u64)],
        values: &Values<'_>,
    ) -> Result<Header, WriteError> {
        let fields = 12 + version.tensor_tail();
        // These are lengths of data in memory, so their sums stay far below 2^64.
        let table_lens: [u64; 3] = [
            sizevars.iter().map(|(name, _)| text_len(name) + 8).sum(),
            values.entries.iter().map(|entry| text_len(entry.key) + 24).sum(),
            self.tensors().map(|info| text_len(info.name) + fields + 8 * info.shape.len() as u64).sum(),
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
            if let Some(nbytes) = self.table.info(tensor).filter(|info| info.has_data).map(|info| info.nbytes)
            {
                let extent = Extent::new(at, nbytes, u64::MAX).map_err(|_| too_long())?;
                self.segments.push(Segment { tensor, extent });
                self.table.set_offset(tensor, at);
                at = after(at, nbytes)?;
            }
            // In version 2, a tensor's quant payload follows its values, and the bytes are in the order of
            // their offsets (docs/formats/oinf.md#payloads-in-another-place).
            let Ok(number) = self.quants.binary_search_by_key(&tensor, |quant| quant.tensor) else {
                continue;
            };
            let Some(quant) = self.quants.get_mut(number) else { continue };
            quant.extent = Extent::new(at, quant.bytes.len() as u64, u64::MAX).map_err(|_| too_long())?;
            self.segments.push(Segment { tensor: self.table.len() + number, extent: quant.extent });
            at = after(at, quant.extent.len())?;
        }
        self.file_len = at;
        let counts = [
            count("size variables", sizevars.len())?,
            count("metadata entries", values.entries.len())?,
            count("tensors", self.order.len())?,
        ];
        Ok(Header { version, counts, tables, data, file_size: at })
    }

    /// Encodes everything before the first tensor's values.
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
            // `place` has checked that this offset does not overflow.
            MetadataRecord::encode_rest(*value_type, *nbytes, header.data.saturating_add(*offset), &mut out);
        }
        align(&mut out);
        for &tensor in &self.order {
            let Some(info) = self.table.info(tensor) else { continue };
            text("tensor", info.name, &mut out)?;
            let unfit = |fault| WriteError::Unsupported { part: Part::named("tensor", info.name), fault };
            let value_type =
                ValueType::from_dtype(info.dtype).ok_or_else(|| unfit(Fault::NoCode(info.dtype)))?;
            let quant = self.quants.binary_search_by_key(&tensor, |quant| quant.tensor).ok();
            let quant = quant.and_then(|number| self.quants.get(number)).map(|quant| quant.extent);
            let blobs = [self.table.extent(tensor, self.file_len), quant];
            wire::encode_tensor_rest(header.version, value_type, info.shape, blobs, &mut out)
                .map_err(unfit)?;
        }
        align(&mut out);
        out.extend(&values.bytes);
        self.head = out;
        Ok(())
    }
}

/// A quant payload to write.
#[derive(Clone, Debug)]
pub(crate) struct QuantPayload {
    /// The position of the tensor's description.
    tensor: usize,
    extent: Extent,
    pub(crate) bytes: Vec<u8>,
}

/// Encodes the quant payloads of the tensors, sorted by the position of the tensor.
fn quants(table: &TensorTable, options: &WriteOptions) -> Result<Vec<QuantPayload>, WriteError> {
    let mut quants = Vec::with_capacity(options.quants.len());
    for (name, quant) in &options.quants {
        let unfit = |fault| WriteError::Unsupported { part: Part::named("tensor", name), fault };
        if options.version < Version::V2 {
            return Err(unfit(Fault::NoQuants));
        }
        let tensor = table.find(name).ok_or_else(|| unfit(Fault::QuantOfNothing))?;
        let shape = table.info(tensor).map_or(&[][..], |info| info.shape);
        if let Some(fault) = quant.fault(shape) {
            return Err(unfit(fault));
        }
        let extent = Extent::new(0, 0, 0).map_err(|fault| unfit(fault.into()))?; // fixed by `place`
        quants.push(QuantPayload { tensor, extent, bytes: quant.encode() });
    }
    quants.sort_unstable_by_key(|quant| quant.tensor);
    Ok(quants)
}

/// Returns whether a version of OINF has a value type for a dtype, according to its document. With
/// [`WriteOptions::extended_types`], version 1 has more types.
#[must_use]
pub fn can_hold(version: Version, dtype: DType) -> bool {
    WriteOptions::new().version(version).value_type(dtype).is_ok()
}

/// Lists the tensors in the order of their descriptions.
fn list<'a>(
    specs: impl IntoIterator<Item = TensorSpec<'a>>,
    options: &WriteOptions,
) -> Result<TensorTable, WriteError> {
    let mut table = TensorTable::default();
    for spec in specs {
        let unfit = |fault| WriteError::Unsupported { part: Part::named("tensor", &spec.name), fault };
        if let Some(fault) = text_fault(&spec.name) {
            return Err(unfit(fault));
        }
        options.value_type(spec.dtype).map_err(unfit)?;
        let offset = spec.has_data.then_some(0); // fixed by `place`
        let tensor = NewTensor { name: &spec.name, dtype: spec.dtype, offset, packed_nbytes: 0 };
        table.push(tensor, spec.shape.iter().copied()).map_err(|fault| unfit(fault.into()))?;
    }
    Ok(table)
}

/// Sorts values by name. Fails if a name occurs twice.
pub(crate) fn sorted<'m, T>(
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

/// The metadata in the form in which the file stores it.
pub(crate) struct Values<'m> {
    pub(crate) entries: Vec<Entry<'m>>,
    /// The payloads, each padded to a multiple of 8.
    pub(crate) bytes: Vec<u8>,
}

pub(crate) struct Entry<'m> {
    pub(crate) key: &'m str,
    pub(crate) value_type: ValueType,
    /// The offset from the start of the data section.
    pub(crate) offset: u64,
    pub(crate) nbytes: u64,
}

impl<'m> Values<'m> {
    pub(crate) fn encode(
        sorted: Vec<(&'m str, &MetaValue<'_>)>,
        options: &WriteOptions,
    ) -> Result<Self, WriteError> {
        let (mut entries, mut bytes) = (Vec::with_capacity(sorted.len()), Vec::new());
        for (key, value) in sorted {
            let offset = bytes.len() as u64;
            let encoded = value.types().try_for_each(|value_type| options.check_type(value_type));
            let encoded = encoded.and_then(|()| value.encode(&mut bytes));
            encoded.map_err(|fault| WriteError::Unsupported {
                part: Part::named("metadata value", key),
                fault,
            })?;
            // A scalar's value_nbytes excludes the padding; for all other types it includes the padding
            // (docs/formats/oinf.md#value_nbytes).
            let nbytes = bytes.len() as u64 - offset;
            entries.push(Entry { key, value_type: value.value_type(), offset, nbytes });
            align(&mut bytes);
        }
        Ok(Self { entries, bytes })
    }
}

/// Returns the number of bytes that a string takes, including its length field and padding.
pub(crate) fn text_len(text: &str) -> u64 {
    let len = 4 + text.len() as u64;
    len + wire::padding(len)
}

pub(crate) fn text(what: &'static str, text: &str, out: &mut Vec<u8>) -> Result<(), WriteError> {
    wire::encode_text(text, out)
        .map_err(|fault| WriteError::Unsupported { part: Part::named(what, text), fault })
}

/// Appends zeros up to the next multiple of 8. The vector must start at a multiple of 8 in the file.
pub(crate) fn align(out: &mut Vec<u8>) {
    wire::pad(out, out.len() as u64);
}

/// Returns the offset of the part after `len` bytes at `at`, aligned to 8.
pub(crate) fn after(at: u64, len: u64) -> Result<u64, WriteError> {
    at.checked_add(len).and_then(|end| align_up(end, ALIGNMENT)).ok_or_else(too_long)
}

pub(crate) fn count(what: &'static str, count: usize) -> Result<u32, WriteError> {
    let fault = Fault::TooMany(count as u64);
    u32::try_from(count).map_err(|_| WriteError::Unsupported { part: Part::new(what), fault })
}

fn too_long() -> WriteError {
    WriteError::Unsupported { part: Part::new("file"), fault: Fault::TooLong }
}
