//! The records as they stand on disk.

use modelfmt_core::author::Cursor;
use modelfmt_core::{DType, Part};

use crate::error::{Error, Fault, Result};

/// Magic and count.
pub(crate) const HEADER_LEN: u64 = 8;
/// A scalar without a name.
pub(crate) const MIN_RECORD_LEN: u64 = 12;

/// The number of records.
pub(crate) fn decode_header(c: &mut Cursor<'_>) -> Result<u64> {
    c.record("header", None);
    if c.bytes(4, "magic")? != b"TOY!" {
        return Err(Error::Malformed { part: c.part("magic"), at: 0, fault: Fault::Magic });
    }
    Ok(c.u32("count")?.into())
}

/// A file begins with this, and with how many records there are.
pub(crate) fn encode_header(count: usize) -> Vec<u8> {
    let count = u32::try_from(count).unwrap_or(u32::MAX); // as many as were read
    [*b"TOY!", count.to_le_bytes()].concat()
}

/// A tensor's record. The dimensions of one that is read stay as they are in the file until they are asked for.
pub(crate) struct Record<N, D> {
    pub(crate) name: N,
    pub(crate) dtype: DType,
    pub(crate) offset: u64,
    pub(crate) shape: D,
}

impl<'a> Record<&'a str, ()> {
    pub(crate) fn decode(
        c: &mut Cursor<'a>,
        entry: u64,
    ) -> Result<Record<&'a str, impl ExactSizeIterator<Item = u64> + use<'a>>> {
        c.record("record", Some(entry));
        let at = c.offset();
        let (code, rank, len) = (c.u8("dtype")?, c.u8("rank")?, c.u16("length of the name")?);
        let offset = c.u64("offset")?;
        let shape = c.u64s(rank.into(), "shape")?;
        let name = c.str(len.into(), "name")?;
        let dtype = match code {
            0 => DType::F32,
            1 => DType::U8,
            other => {
                let part = Part::entry("record", entry).with_name(name).with_field("dtype");
                return Err(Error::Malformed { part, at, fault: Fault::DTypeCode(other) });
            }
        };
        Ok(Record { name, dtype, offset, shape })
    }
}

impl Record<String, Vec<u64>> {
    /// The bytes that it takes.
    pub(crate) fn len(&self) -> u64 {
        MIN_RECORD_LEN.saturating_add(8 * self.shape.len() as u64).saturating_add(self.name.len() as u64)
    }

    /// Appends it. The length of its name has been checked; shapes are as long as a file has them.
    pub(crate) fn encode(&self, name_len: u16, out: &mut Vec<u8>) {
        let code = if self.dtype == DType::F32 { 0 } else { 1 };
        out.extend([code, u8::try_from(self.shape.len()).unwrap_or(u8::MAX)]);
        out.extend(name_len.to_le_bytes());
        out.extend(self.offset.to_le_bytes());
        self.shape.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
        out.extend(self.name.as_bytes());
    }
}
