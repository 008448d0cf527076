//! The parts of a snapshot. Numbers are little-endian and not aligned.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{
    CommonFault, DType, Limits, Part,
    author::{Cursor, NameTable},
};

use crate::dtypes::{dtype_of, dtype_of_0_1};
use crate::error::{Error, Fault, Result};
use crate::v1::wire::MAX_DIM;
use crate::version::Version;

/// The offset of the checksum, and the start of the bytes that it covers.
pub(crate) const CHECKSUM_AT: u64 = 16;
pub(crate) const COVERED_FROM: usize = 20;
/// The offset of the first mark, which shows whether unreleased sources wrote the file
/// (docs/formats/mag.md#unreleased-sources).
const FIRST_MARK_AT: u64 = 32;
/// The largest number of strings in a pool, and of their bytes.
const MAX_STRINGS: u32 = 65_534;
const MAX_POOL_LEN: u32 = 128 << 20;
/// The largest number of dimensions of a tensor.
const MAX_RANK: u8 = 63;

fn malformed(part: Part, at: u64, fault: impl Into<Fault>) -> Error {
    Error::Malformed { part, at, fault: fault.into() }
}

/// The header: the first 32 bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: Version,
    pub(crate) checksum: u32,
    pub(crate) tensors: u32,
}

impl Header {
    /// Reads the header and checks the mark after it.
    pub(crate) fn decode(c: &mut Cursor<'_>) -> Result<Self> {
        let version = Version::decode(c)?;
        c.u64("time")?;
        let checksum = c.u32("checksum")?;
        for field in ["reserved", "number of metadata entries"] {
            let at = c.offset();
            let found = c.u32(field)?;
            if found != 0 {
                return Err(malformed(c.part(field), at, Fault::Reserved(found)));
            }
        }
        let tensors = c.u32("number of tensors")?;
        let found = four(c, "mark")?;
        match version {
            _ if found == *b"SRP!" => Ok(Self { version, checksum, tensors }),
            Version::V0_1 => Err(malformed(c.part("mark"), FIRST_MARK_AT, Fault::Unreleased)),
            _ => Err(malformed(c.part("mark"), FIRST_MARK_AT, Fault::Mark { expected: "SRP!", found })),
        }
    }
}

fn four(c: &mut Cursor<'_>, field: &'static str) -> Result<[u8; 4]> {
    Ok(c.u32(field)?.to_le_bytes())
}

/// Reads and checks the mark at the start of a part.
pub(crate) fn mark(c: &mut Cursor<'_>, part: &'static str, expected: &'static str) -> Result<()> {
    c.record(part, None);
    let at = c.offset();
    let found = four(c, "mark")?;
    if found != *expected.as_bytes() {
        return Err(malformed(c.part("mark"), at, Fault::Mark { expected, found }));
    }
    Ok(())
}

/// Reads the string pool, after its mark.
pub(crate) fn strings(c: &mut Cursor<'_>, limits: &Limits) -> Result<NameTable> {
    c.record("string pool", None);
    let at = c.offset();
    let count = c.u32("count")?;
    if count > MAX_STRINGS {
        return Err(malformed(c.part("count"), at, Fault::PoolCount(count)));
    }
    let offsets_at = c.offset();
    let offsets = c.bytes((u64::from(count) + 1).saturating_mul(4), "offsets")?.as_chunks().0;
    let offsets = || offsets.iter().map(|&bytes| u32::from_le_bytes(bytes));
    let ascends = offsets().zip(offsets().skip(1)).position(|(a, b)| a >= b);
    if let Some(position) = ascends
        .map(|first| first.saturating_add(1))
        .or_else(|| offsets().next().filter(|&n| n != 0).map(|_| 0))
    {
        return Err(malformed(
            c.part("offsets"),
            offsets_at.saturating_add((position as u64).saturating_mul(4)),
            Fault::PoolOffsets,
        ));
    }
    let len = offsets().next_back().unwrap_or_default();
    if len > MAX_POOL_LEN {
        let at = offsets_at.saturating_add(u64::from(count).saturating_mul(4));
        return Err(malformed(c.part("offsets"), at, Fault::PoolLength(len)));
    }
    let mut names = NameTable::with_capacity(usize::try_from(count).unwrap_or_default());
    let text_at = c.offset();
    let mut text = Cursor::new(c.bytes(u64::from(len), "strings")?, text_at);
    for (entry, (start, end)) in offsets().zip(offsets().skip(1)).enumerate() {
        text.record("string", Some(entry as u64));
        let (at, len) = (text.offset(), u64::from(end.saturating_sub(start)));
        Limits::check("the length of a tensor name", len, limits.name_len)?;
        let name = text.str(len, "text")?;
        if name.contains('\0') {
            return Err(malformed(text.part("text"), at, Fault::Nul));
        }
        names.push(name).map_err(|error| malformed(text.part("text"), at, CommonFault::from(error)))?;
    }
    Ok(names)
}

/// The description of a tensor.
pub(crate) struct Descriptor<D> {
    pub(crate) dtype: DType,
    /// The position of the tensor's name in the string pool.
    pub(crate) name: u32,
    pub(crate) elements: u64,
    pub(crate) offset: u64,
    pub(crate) dims: D,
}

/// The offsets of fields in a descriptor, for errors.
pub(crate) struct Field;

impl Field {
    const DTYPE: u64 = 1;
    const ZEROS: u64 = 2;
    pub(crate) const NAME: u64 = 4;
    pub(crate) const ELEMENTS: u64 = 8;
    pub(crate) const OFFSET: u64 = 16;
    pub(crate) const DIMS: u64 = 24;
}

/// The length of the shortest descriptor, which describes a scalar.
pub(crate) const MIN_DESCRIPTOR_LEN: u64 = 24;

/// Skips a descriptor.
pub(crate) fn skip_descriptor(c: &mut Cursor<'_>, entry: u64) -> Result<()> {
    c.record("descriptor", Some(entry));
    let rank = c.u8("rank")?;
    c.bytes(MIN_DESCRIPTOR_LEN - 1, "fields")?;
    c.bytes(8 * u64::from(rank), "dims")?;
    Ok(())
}

/// Reads a descriptor.
pub(crate) fn descriptor<'a>(
    c: &mut Cursor<'a>,
    entry: u64,
    version: Version,
) -> Result<Descriptor<impl ExactSizeIterator<Item = u64> + Clone + use<'a>>> {
    c.record("descriptor", Some(entry));
    let at = c.offset();
    let (rank, code, zeros) = (c.u8("rank")?, c.u8("dtype")?, c.u16("zeros")?);
    let (name, elements, offset) = (c.u32("name")?, c.u64("elements")?, c.u64("offset")?);
    let dims = c.u64s(u64::from(rank), "dims")?;
    let fault = |field, within, fault: Fault| malformed(c.part(field), at.saturating_add(within), fault);
    if rank > MAX_RANK {
        return Err(fault("rank", 0, Fault::Rank64(rank)));
    }
    let dtype = if version == Version::V0_1 { dtype_of_0_1(code) } else { dtype_of(code.into()) };
    let Some(dtype) = dtype else {
        return Err(fault("dtype", Field::DTYPE, Fault::DType { code: code.into(), version }));
    };
    if zeros != 0 {
        return Err(fault("zeros", Field::ZEROS, Fault::Reserved(zeros.into())));
    }
    if elements == 0 {
        return Err(fault("elements", Field::ELEMENTS, Fault::NoElements));
    }
    if let Some(dim) = dims.clone().find(|&dim| dim > MAX_DIM) {
        return Err(fault("dims", Field::DIMS, Fault::Dimension(dim)));
    }
    Ok(Descriptor { dtype, name, elements, offset, dims })
}

/// Returns the error for a tensor that cannot be added to the table because its name is taken or its shape is
/// too large.
pub(crate) fn unlisted(part: Part, at: u64, fault: CommonFault) -> Error {
    match fault {
        CommonFault::Duplicate(_) => {
            malformed(part.with_field("name"), at.saturating_add(Field::NAME), fault)
        }
        _ => malformed(part.with_field("dims"), at.saturating_add(Field::DIMS), fault),
    }
}
