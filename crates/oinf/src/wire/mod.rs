//! The records of a file. Each is decoded and encoded in one place. All numbers are little-endian.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{
    DType, Limits, Part,
    author::{Cursor, Extent},
};

use crate::error::{Error, Fault, Result};
pub use crate::value_type::ValueType;

/// OINF 1, "FileHeader": `magic[5] = "OINF\0"`.
pub(crate) const MAGIC: &[u8; 5] = b"OINF\0";
/// The versions of the format that this crate reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Version {
    /// Version 1, which the document describes.
    #[default]
    V1,
    /// Version 2: tensors may have a quant payload.
    V2,
}

impl Version {
    /// Returns the version number in the file.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    const fn of(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            _ => None,
        }
    }

    /// Returns the tensor flags that this version defines.
    const fn flags(self) -> u32 {
        match self {
            Self::V1 => HAS_DATA,
            Self::V2 => HAS_DATA | HAS_QUANT,
        }
    }

    /// Returns the length in bytes of a tensor record after its dimensions.
    pub(crate) const fn tensor_tail(self) -> u64 {
        match self {
            Self::V1 => 16,
            Self::V2 => 32,
        }
    }
}

/// 69 bytes of fields … (docs/formats/oinf.md#header-padding)
pub(crate) const HEADER_FIELDS: u64 = 69;
/// … then zeros to 72.
pub(crate) const HEADER_LEN: u64 = 72;
/// OINF 1, "High-Level Layout": section starts and payloads are aligned to 8 bytes.
pub(crate) const ALIGNMENT: u64 = 8;
/// OINF 1, "TensorIndexTable": bit 0 of the flags.
pub(crate) const HAS_DATA: u32 = 1;
/// Version 2: bit 1 of the flags.
pub(crate) const HAS_QUANT: u32 = 2;

/// OINF 1, "Strings": `[A-Za-z0-9._-]`.
pub(crate) const fn is_string_char(c: char) -> bool {
    matches!(c, 'A'..='Z' | 'a'..='z' | '0'..='9' | '.' | '_' | '-')
}

/// Returns the fault of an empty string, or of the first character that OINF does not allow (OINF 1,
/// "Strings").
pub(crate) fn text_fault(text: &str) -> Option<Fault> {
    if text.is_empty() {
        return Some(Fault::EmptyString);
    }
    let (position, found) = text.char_indices().find(|&(_, c)| !is_string_char(c))?;
    Some(Fault::Character { found: format!("{found:?}"), position })
}

/// Returns the number of zero bytes that pad `len` bytes to a multiple of 8.
pub(crate) const fn padding(len: u64) -> u64 {
    len.wrapping_neg() % ALIGNMENT // a power of two
}

impl TryFrom<u32> for ValueType {
    type Error = Fault;

    fn try_from(code: u32) -> Result<Self, Fault> {
        Self::from_code(code).ok_or(Fault::UnknownType(code))
    }
}

/// The file header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: Version,
    /// The numbers of size variables, metadata entries and tensors.
    pub(crate) counts: [u32; 3],
    /// The offsets of these tables.
    pub(crate) tables: [u64; 3],
    pub(crate) data: u64,
    pub(crate) file_size: u64,
}

impl Header {
    pub(crate) fn decode(c: &mut Cursor<'_>) -> Result<Self> {
        c.record("header", None);
        if c.bytes(5, "magic")? != MAGIC {
            return Err(malformed(Part::new("header").with_field("magic"), 0, Fault::Magic));
        }
        let number = c.u32("version")?;
        let Some(version) = Version::of(number) else {
            return Err(malformed(Part::new("header").with_field("version"), 5, Fault::Version(number)));
        };
        zero(c, "flags")?;
        let counts = [c.u32("n_sizevars")?, c.u32("n_metadata")?, c.u32("n_tensors")?];
        zero(c, "reserved")?;
        let tables = [c.u64("offset_sizevars")?, c.u64("offset_metadata")?, c.u64("offset_tensors")?];
        Ok(Self { version, counts, tables, data: c.u64("offset_data")?, file_size: c.u64("file_size")? })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        for word in [self.version.number(), 0].into_iter().chain(self.counts).chain([0]) {
            out.extend(word.to_le_bytes());
        }
        for offset in self.tables.into_iter().chain([self.data, self.file_size]) {
            out.extend(offset.to_le_bytes());
        }
        pad(out, HEADER_FIELDS);
    }
}

/// Reads a field that is zero in both versions.
fn zero(c: &mut Cursor<'_>, field: &'static str) -> Result<()> {
    let at = c.offset();
    match c.u32(field)? {
        0 => Ok(()),
        found => Err(malformed(c.part(field), at, Fault::NotZero(found.into()))),
    }
}

/// A string and its padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text<'a> {
    pub(crate) text: &'a str,
    /// The offset of the padding in the file.
    pub(crate) padding_at: u64,
    pub(crate) padding: &'a [u8],
}

impl<'a> Text<'a> {
    /// The length in bytes of the shortest string, with its length field and padding.
    const MIN_LEN: u64 = 8;

    /// Decodes a string of at most `max` bytes, and its padding.
    #[inline(always)] // called by the million; a result in memory stalls the caller
    pub(crate) fn decode(c: &mut Cursor<'a>, field: &'static str, max: u64) -> Result<Self> {
        let len = u64::from(c.u32(field)?);
        Limits::check("the length of a string", len, max)?;
        let at = c.offset();
        let text = c.bytes(len, field)?;
        // The padding counts from the string's own start, including its length field
        // (docs/formats/oinf.md#string-padding).
        let (padding_at, padding) = (c.offset(), c.bytes(padding(4 + len), field)?);
        match std::str::from_utf8(text) {
            Ok(text) if !text.is_empty() && has_string_bytes(text) => Ok(Self { text, padding_at, padding }),
            _ => Err(malformed(c.part(field), at, character(text))),
        }
    }
}

/// Returns whether all characters are allowed in strings. Checking every byte is faster than stopping at the
/// first bad one.
fn has_string_bytes(text: &str) -> bool {
    text.bytes().fold(true, |good, byte| good & is_string_byte(byte))
}

/// Does the same as [`is_string_char`] for a byte, without a branch, because it runs on millions of names.
fn is_string_byte(byte: u8) -> bool {
    let lower = byte | 0x20;
    let letter = lower.wrapping_sub(b'a') < 26;
    let digit = byte.wrapping_sub(b'0') < 10;
    letter | digit | (byte == b'.') | (byte == b'_') | (byte == b'-')
}

#[cold]
fn character(bytes: &[u8]) -> Fault {
    match bytes.iter().position(|&b| !is_string_char(char::from(b))) {
        Some(position) => {
            let found = bytes.get(position).map_or_else(String::new, |b| format!("the byte {b:#04x}"));
            Fault::Character { found, position }
        }
        None => Fault::EmptyString,
    }
}

/// Appends a string with its length and padding (OINF 1, "Strings").
pub(crate) fn encode_text(text: &str, out: &mut Vec<u8>) -> Result<(), Fault> {
    if let Some(fault) = text_fault(text) {
        return Err(fault);
    }
    let len = u32::try_from(text.len()).map_err(|_| Fault::TooLong)?;
    out.extend(len.to_le_bytes());
    out.extend(text.as_bytes());
    pad(out, 4 + u64::from(len));
    Ok(())
}

/// Appends the zeros that pad `len` bytes to a multiple of 8.
pub(crate) fn pad(out: &mut Vec<u8>, len: u64) {
    out.extend((0..padding(len)).map(|_| 0));
}

/// OINF 1, "SizeVarsTable".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeVarRecord<'a> {
    pub(crate) name: Text<'a>,
    pub(crate) value: u64,
}

impl<'a> SizeVarRecord<'a> {
    pub(crate) const MIN_LEN: u64 = Text::MIN_LEN + 8;

    pub(crate) fn decode(c: &mut Cursor<'a>, limits: &Limits) -> Result<Self> {
        Ok(Self { name: Text::decode(c, "name", limits.name_len)?, value: c.u64("value")? })
    }
}

/// OINF 1, "MetadataTable".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetadataRecord<'a> {
    pub(crate) key: Text<'a>,
    pub(crate) value_type: ValueType,
    pub(crate) nbytes: u64,
    pub(crate) offset: u64,
}

impl<'a> MetadataRecord<'a> {
    pub(crate) const MIN_LEN: u64 = Text::MIN_LEN + 24;

    pub(crate) fn decode(c: &mut Cursor<'a>, limits: &Limits) -> Result<Self> {
        let key = Text::decode(c, "key", limits.name_len)?;
        let at = c.offset();
        let (code, flags) = (c.u32("value_type")?, c.u32("value_flags")?);
        let (nbytes, offset) = (c.u64("value_nbytes")?, c.u64("value_offset")?);
        let fault = |field, at, fault| malformed(c.part(field).with_name(key.text), at, fault);
        let value_type = ValueType::try_from(code).map_err(|f| fault("value_type", at, f))?;
        if flags != 0 {
            return Err(fault("value_flags", at.saturating_add(4), Fault::NotZero(flags.into())));
        }
        Ok(Self { key, value_type, nbytes, offset })
    }

    /// Appends everything after the key, which the caller has written.
    pub(crate) fn encode_rest(value_type: ValueType, nbytes: u64, offset: u64, out: &mut Vec<u8>) {
        out.extend(value_type.code().to_le_bytes());
        out.extend(0u32.to_le_bytes());
        out.extend(nbytes.to_le_bytes());
        out.extend(offset.to_le_bytes());
    }
}

/// OINF 1, "TensorIndexTable".
#[derive(Clone, Debug)]
pub(crate) struct TensorRecord<'a, D> {
    pub(crate) name: Text<'a>,
    pub(crate) dtype: DType,
    pub(crate) dims: D,
    pub(crate) data: BlobRecord,
    pub(crate) quant: BlobRecord,
}

/// The location of a tensor's values or quant payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlobRecord {
    /// Whether the tensor's flag for it is set.
    pub(crate) is_there: bool,
    pub(crate) nbytes: u64,
    pub(crate) offset: u64,
    /// The offset of the `nbytes` field in the file. The `offset` field follows 8 bytes later.
    pub(crate) at: u64,
}

/// Returns the length in bytes of the shortest tensor record.
pub(crate) const fn tensor_min_len(version: Version) -> u64 {
    Text::MIN_LEN.saturating_add(12).saturating_add(version.tensor_tail())
}

/// Reads the next tensor record.
pub(crate) fn decode_tensor<'a>(
    c: &mut Cursor<'a>,
    limits: &Limits,
    version: Version,
) -> Result<TensorRecord<'a, impl ExactSizeIterator<Item = u64> + use<'a>>> {
    let name = Text::decode(c, "name", limits.name_len)?;
    let at = c.offset();
    let (code, ndim, flags) = (c.u32("dtype")?, u64::from(c.u32("ndim")?), c.u32("flags")?);
    Limits::check("the number of dimensions", ndim, limits.rank)?;
    let dims = c.u64s(ndim, "dims")?;
    let tail = c.offset();
    let (nbytes, offset) = (c.u64("data_nbytes")?, c.u64("data_offset")?);
    let data = BlobRecord { is_there: flags & HAS_DATA != 0, nbytes, offset, at: tail };
    let (nbytes, offset) = match version {
        Version::V1 => (0, 0),
        Version::V2 => (c.u64("quant_nbytes")?, c.u64("quant_offset")?),
    };
    let quant = BlobRecord { is_there: flags & HAS_QUANT != 0, nbytes, offset, at: tail.saturating_add(16) };
    let fault = |field, at, fault| malformed(c.part(field).with_name(name.text), at, fault);
    let dtype = element_type(code).map_err(|f| fault("dtype", at, f))?;
    let unknown = flags & !version.flags();
    if unknown != 0 {
        return Err(fault("flags", at.saturating_add(8), Fault::FlagBits(unknown)));
    }
    Ok(TensorRecord { name, dtype, dims, data, quant })
}

/// Appends everything after the name, which the caller has written.
pub(crate) fn encode_tensor_rest(
    version: Version,
    value_type: ValueType,
    shape: &[u64],
    [data, quant]: [Option<Extent>; 2],
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let ndim = u32::try_from(shape.len()).map_err(|_| Fault::TooLong)?;
    let flag = |blob: Option<Extent>, flag| if blob.is_some() { flag } else { 0 };
    for word in [value_type.code(), ndim, flag(data, HAS_DATA) | flag(quant, HAS_QUANT)] {
        out.extend(word.to_le_bytes());
    }
    // OINF 1, "TensorIndexTable": without HAS_DATA, data_offset and data_nbytes are 0.
    let place = |blob: Option<Extent>| blob.map_or([0, 0], |blob| [blob.len(), blob.offset()]);
    let quant = place(quant).into_iter().filter(|_| version >= Version::V2);
    for word in shape.iter().copied().chain(place(data)).chain(quant) {
        out.extend(word.to_le_bytes());
    }
    Ok(())
}

/// Returns the dtype of a tensor or array: value types 1 to 12 and 16 to 25.
pub(crate) fn element_type(code: u32) -> Result<DType, Fault> {
    let value_type = ValueType::try_from(code)?;
    value_type.dtype().ok_or(Fault::NotNumeric(value_type))
}

/// Returns an error about a part of a file.
#[cold]
pub(crate) fn malformed(part: Part, at: u64, fault: impl Into<Fault>) -> Error {
    Error::Malformed { part, at, fault: fault.into() }
}

#[cfg(test)]
mod tests;
