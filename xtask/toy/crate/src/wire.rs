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

/// A tensor's record. The dimensions stay as they are in the file until they are asked for.
pub(crate) struct Record<'a, D> {
    pub(crate) name: &'a str,
    pub(crate) dtype: DType,
    pub(crate) offset: u64,
    pub(crate) shape: D,
}

impl<'a> Record<'a, ()> {
    pub(crate) fn decode(
        c: &mut Cursor<'a>,
        entry: u64,
    ) -> Result<Record<'a, impl ExactSizeIterator<Item = u64> + use<'a>>> {
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
