//! The records of a file (MAG 1, "File Header", "Metadata Record", "Tensor Record"). Each is decoded and
//! encoded in one place. All numbers are little-endian.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{CommonError, CommonFault, DType, Part, author::Cursor};

use crate::error::{Error, Fault, Result};
use crate::metadata::Number;
use crate::preamble::MAGIC;
use crate::version::Version;

/// Buffers begin at multiples of 64 (docs/formats/mag.md#offsets).
pub(crate) const ALIGNMENT: u64 = 64;
/// The byte that writers put between buffers (docs/formats/mag.md#padding-in-version-1).
pub(crate) const FILL: u8 = 0xff;
/// MAG 1, "Limits": max key length.
pub(crate) const MAX_KEY_LEN: u64 = 65_535;
/// MAG 1, "Limits": max tensor rank.
pub(crate) const MAX_RANK: usize = 255;
/// MAG 1, "Limits": dimensions, elements and bytes.
pub(crate) const MAX_DIM: u64 = i64::MAX as u64;

/// MAG 1, "File Header".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) checksum: u32,
    pub(crate) num_tensors: u32,
    pub(crate) num_meta_kv: u32,
}

impl FileHeader {
    pub(crate) const LEN: usize = 24;
    /// The offset of the checksum field.
    pub(crate) const CHECKSUM_AT: usize = 8;
    /// magnetron's CRC-32C begins right after the checksum field.
    const AFTER_CHECKSUM: usize = 12;

    /// Returns the header's bytes before the checksum, and those after it.
    pub(crate) fn around_checksum(header: &[u8]) -> [&[u8]; 2] {
        let (before, after) = header.split_at(header.len().min(Self::AFTER_CHECKSUM));
        [before.get(..Self::CHECKSUM_AT).unwrap_or_default(), after]
    }

    pub(crate) fn decode(c: &mut Cursor<'_>) -> Result<Self> {
        let malformed =
            |field, at, fault| Error::Malformed { part: Part::new("header").with_field(field), at, fault };
        let version = Version::decode(c)?;
        if version != Version::V1 {
            return Err(malformed("version", 4, Fault::Version(version.number())));
        }
        let checksum = c.u32("checksum")?;
        let num_tensors = c.u32("num_tensors")?;
        let num_meta_kv = c.u32("num_meta_kv")?;
        let aux = c.u32("aux")?;
        if aux != 0 {
            return Err(malformed("aux", 20, Fault::Reserved(aux)));
        }
        Ok(Self { checksum, num_tensors, num_meta_kv })
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        for field in [Version::V1.number(), self.checksum, self.num_tensors, self.num_meta_kv, 0] {
            out.extend(field.to_le_bytes());
        }
    }
}

/// MAG 1, "Metadata Record".
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MetadataRecord<'a> {
    pub(crate) key: &'a str,
    pub(crate) value: Number,
}

impl<'a> MetadataRecord<'a> {
    /// The length of the shortest record, with a key of one byte.
    pub(crate) const MIN_LEN: u64 = 17;

    pub(crate) fn decode(c: &mut Cursor<'a>, entry: u64) -> Result<Self> {
        c.record("metadata record", Some(entry));
        let at = c.offset();
        let [kind, reserved @ ..] = c.u32("aux")?.to_le_bytes();
        let payload = c.u64("payload")?;
        let key = decode_key(c)?;
        let malformed = |fault| Error::Malformed {
            part: Part::entry("metadata record", entry).with_name(key).with_field("aux"),
            at,
            fault,
        };
        if reserved != [0; 3] {
            return Err(malformed(Fault::Reserved(aux_of(kind, reserved))));
        }
        let value = match kind {
            1 => Number::I64(payload.cast_signed()),
            2 => Number::F64(f64::from_bits(payload)),
            other => return Err(malformed(Fault::MetadataType(other))),
        };
        Ok(Self { key, value })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (kind, payload) = match self.value {
            Number::I64(value) => (1u32, value.cast_unsigned()),
            Number::F64(value) => (2, value.to_bits()),
        };
        out.extend(kind.to_le_bytes());
        out.extend(payload.to_le_bytes());
        encode_key(self.key, out);
    }
}

/// MAG 1, "Tensor Record". Dimensions are decoded on access.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TensorRecord<'a, D> {
    pub(crate) key: &'a str,
    pub(crate) dtype: DType,
    pub(crate) numel: u64,
    pub(crate) offset: u64,
    pub(crate) shape: D,
}

/// The offsets of fields in a tensor record, for errors.
pub(crate) struct TensorField;

impl TensorField {
    pub(crate) const DTYPE: u64 = 0;
    pub(crate) const RANK: u64 = 1;
    pub(crate) const NUMEL: u64 = 4;
    pub(crate) const OFFSET: u64 = 12;
    pub(crate) const SHAPE: u64 = 20;
}

/// The length of the shortest tensor record, with one dimension and a key of one byte.
pub(crate) const MIN_TENSOR_LEN: u64 = 33;

impl<'a> TensorRecord<'a, ()> {
    #[inline]
    pub(crate) fn decode(
        c: &mut Cursor<'a>,
        entry: u64,
    ) -> Result<TensorRecord<'a, impl ExactSizeIterator<Item = u64> + Clone + use<'a>>> {
        c.record("tensor record", Some(entry));
        let at = c.offset();
        let [code, rank, reserved @ ..] = c.u32("aux")?.to_le_bytes();
        let (numel, offset) = (c.u64("numel")?, c.u64("offset")?);
        // Version 1 is always little-endian, so the cursor's byte order does not matter here.
        let shape = c.bytes(8 * u64::from(rank), "shape")?;
        let shape = shape.as_chunks().0.iter().map(|&dim| u64::from_le_bytes(dim));
        let key = decode_key(c)?;
        let malformed = |field, within, fault| Error::Malformed {
            part: Part::entry("tensor record", entry).with_name(key).with_field(field),
            at: at.saturating_add(within),
            fault,
        };
        if reserved != [0; 2] {
            let aux = aux_of(code, [rank, reserved[0], reserved[1]]);
            return Err(malformed("aux", 0, Fault::Reserved(aux)));
        }
        let Some(dtype) = dtype_of(code) else {
            return Err(malformed("dtype", TensorField::DTYPE, Fault::DTypeCode(code)));
        };
        if rank == 0 {
            return Err(malformed("rank", TensorField::RANK, Fault::Rank0));
        }
        // MAG 1, "Limits": max tensor shape dimension.
        if let Some(dim) = shape.clone().find(|&dim| dim > MAX_DIM) {
            return Err(malformed("shape", TensorField::SHAPE, Fault::Dimension(dim)));
        }
        Ok(TensorRecord { key, dtype, numel, offset, shape })
    }
}

impl<D: ExactSizeIterator<Item = u64>> TensorRecord<'_, D> {
    /// Appends the record. The caller has checked that there are 1 to 255 dimensions and that the dtype has a code.
    pub(crate) fn encode(self, code: u8, out: &mut Vec<u8>) {
        let rank = u8::try_from(self.shape.len()).unwrap_or(u8::MAX);
        out.extend([code, rank, 0, 0]);
        out.extend(self.numel.to_le_bytes());
        out.extend(self.offset.to_le_bytes());
        self.shape.for_each(|dim| out.extend(dim.to_le_bytes()));
        encode_key(self.key, out);
    }
}

const fn aux_of(low: u8, [a, b, c]: [u8; 3]) -> u32 {
    u32::from_le_bytes([low, a, b, c])
}

#[inline]
fn decode_key<'a>(c: &mut Cursor<'a>) -> Result<&'a str> {
    let at = c.offset();
    let len = u64::from(c.u32("key_length")?);
    let malformed = |c: &Cursor<'_>, fault| Error::Malformed { part: c.part("key_length"), at, fault };
    if len == 0 {
        return Err(malformed(c, Fault::EmptyKey));
    }
    if len > MAX_KEY_LEN {
        return Err(malformed(c, Fault::KeyLength(len)));
    }
    Ok(c.str(len, "key")?)
}

fn encode_key(key: &str, out: &mut Vec<u8>) {
    // The plan has already refused keys longer than 65,535 bytes.
    out.extend(u32::try_from(key.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(key.as_bytes());
}

/// Returns the dtype of a code. magnetron 0.1.2 has codes 0 to 3, and later sources with format version 1
/// have codes 4 to 10 (docs/formats/mag.md#dtype-codes).
const fn dtype_of(code: u8) -> Option<DType> {
    Some(match code {
        0 => DType::F32,
        1 => DType::F16,
        2 => DType::Bool,
        3 | 8 => DType::I32,
        4 => DType::I8,
        5 => DType::U16,
        6 => DType::I16,
        7 => DType::U32,
        9 => DType::U64,
        10 => DType::I64,
        _ => return None,
    })
}

/// Returns the code that is written for a dtype, or `None` if it has none.
pub(crate) const fn code_of(dtype: DType) -> Option<u8> {
    Some(match dtype {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::Bool => 2,
        DType::I32 => 3,
        DType::I8 => 4,
        DType::U16 => 5,
        DType::I16 => 6,
        DType::U32 => 7,
        DType::U64 => 9,
        DType::I64 => 10,
        _ => return None,
    })
}

/// Converts a fault that all formats share into an error about a field.
pub(crate) fn common(part: Part, at: u64, fault: CommonFault) -> Error {
    CommonError::Malformed { part, at, fault }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back() {
        let mut out = Vec::new();
        let header = FileHeader { checksum: 7, num_tensors: 1, num_meta_kv: 2 };
        header.encode(&mut out);
        assert_eq!(out.len(), FileHeader::LEN);
        for value in [Number::I64(i64::MIN), Number::F64(-0.0)] {
            MetadataRecord { key: "é", value }.encode(&mut out);
        }
        let shape = [2, 3].into_iter();
        TensorRecord { key: "w", dtype: DType::U64, numel: 6, offset: 64, shape }.encode(9, &mut out);
        let mut c = Cursor::new(&out, 0);
        assert_eq!(FileHeader::decode(&mut c).unwrap(), header);
        assert_eq!(MetadataRecord::decode(&mut c, 0).unwrap().value, Number::I64(i64::MIN));
        assert_eq!(MetadataRecord::decode(&mut c, 1).unwrap().key, "é");
        let tensor = TensorRecord::decode(&mut c, 0).unwrap();
        assert_eq!((tensor.key, tensor.dtype, tensor.numel, tensor.offset), ("w", DType::U64, 6, 64));
        assert!(tensor.shape.eq([2, 3]));
        assert_eq!(c.remaining(), 0);
    }

    #[test]
    fn codes_are_those_of_the_decision() {
        for code in 0..=10 {
            let dtype = dtype_of(code).unwrap();
            assert_eq!(code_of(dtype), Some(if code == 8 { 3 } else { code }));
        }
        assert_eq!((dtype_of(11), code_of(DType::BF16)), (None, None));
    }
}
