//! The records of a file. Each is decoded and encoded in one place. All numbers are little-endian.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::fmt;

use modelfmt_core::{CommonFault, DType, Part, author::Cursor, implied_nbytes};

use crate::error::{Fault, Result, malformed};

/// The magic that aprender writes from version 0.25 on.
pub(crate) const MAGIC: [u8; 4] = *b"APR\0";
/// The magic that aprender wrote from 0.20 to 0.24 (docs/formats/apr.md#magic).
pub(crate) const MAGIC_OLD: [u8; 4] = *b"APR2";
pub(crate) const HEADER_LEN: u64 = 64;
/// Sections and tensors begin at multiples of this; zeros fill the gaps.
pub(crate) const ALIGNMENT: u64 = 64;
pub(crate) const FOOTER_LEN: u64 = 4;
/// The length of an entry with an empty name and no dimensions.
pub(crate) const MIN_ENTRY_LEN: u64 = 20;
pub(crate) const MAX_RANK: u64 = 8;
/// The length to which aprender's writers truncate names (docs/formats/apr.md#names-and-ranks).
pub(crate) const MAX_NAME_LEN: usize = 256;

/// The first four bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Magic {
    /// `APR\0`, the current magic.
    Apr,
    /// `APR2`, written by aprender 0.20 to 0.24.
    Apr2,
}

impl Magic {
    /// Returns `APR` or `APR2`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Apr => "APR",
            Self::Apr2 => "APR2",
        }
    }

    const fn bytes(self) -> [u8; 4] {
        match self {
            Self::Apr => MAGIC,
            Self::Apr2 => MAGIC_OLD,
        }
    }
}

/// The flags of a file's header.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(u16);

impl Flags {
    /// The content is one LZ4 block, or was meant to be: current writers set the flag but compress nothing.
    pub const LZ4: Self = Self(1);
    /// The content is a zstd stream, or was meant to be.
    pub const ZSTD: Self = Self(1 << 1);
    /// The file is encrypted, in a way that the format does not specify.
    pub const ENCRYPTED: Self = Self(1 << 2);
    /// The file is signed, in a way that the format does not specify.
    pub const SIGNED: Self = Self(1 << 3);
    /// The file is a shard of a model with several files.
    pub const SHARDED: Self = Self(1 << 4);
    /// Some tensors are quantized. Not every writer sets the flag.
    pub const QUANTIZED: Self = Self(1 << 5);
    /// The file has a mel filterbank.
    pub const HAS_FILTERBANK: Self = Self(1 << 6);
    /// The file has a model card.
    pub const HAS_MODEL_CARD: Self = Self(1 << 7);
    /// The file is meant to be read in sequence.
    pub const STREAMING: Self = Self(1 << 8);
    /// The file has a vocabulary.
    pub const HAS_VOCAB: Self = Self(1 << 9);
    /// Values are row-major, as in every file that this crate reads.
    pub const LAYOUT_ROW_MAJOR: Self = Self(1 << 10);
    /// Values are column-major; such a file is refused (docs/formats/apr.md#layout-flags).
    pub const LAYOUT_COLUMN_MAJOR: Self = Self(1 << 11);

    const NAMES: [(Self, &'static str); 12] = [
        (Self::LZ4, "LZ4"),
        (Self::ZSTD, "ZSTD"),
        (Self::ENCRYPTED, "ENCRYPTED"),
        (Self::SIGNED, "SIGNED"),
        (Self::SHARDED, "SHARDED"),
        (Self::QUANTIZED, "QUANTIZED"),
        (Self::HAS_FILTERBANK, "HAS_FILTERBANK"),
        (Self::HAS_MODEL_CARD, "HAS_MODEL_CARD"),
        (Self::STREAMING, "STREAMING"),
        (Self::HAS_VOCAB, "HAS_VOCAB"),
        (Self::LAYOUT_ROW_MAJOR, "LAYOUT_ROW_MAJOR"),
        (Self::LAYOUT_COLUMN_MAJOR, "LAYOUT_COLUMN_MAJOR"),
    ];

    /// The flags that describe the content rather than its storage. The caller of a writer may set them.
    pub(crate) const OF_CONTENT: Self = Self(
        Self::SHARDED.0
            | Self::QUANTIZED.0
            | Self::HAS_FILTERBANK.0
            | Self::HAS_MODEL_CARD.0
            | Self::STREAMING.0
            | Self::HAS_VOCAB.0,
    );

    /// Returns the empty set of flags.
    #[must_use]
    pub const fn empty() -> Self {
        Self(0)
    }

    /// Returns all bits as they are in the file.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns whether all of these flags are set.
    #[must_use]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns the union of both sets of flags.
    #[must_use]
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// Returns the flags that are in both sets.
    #[must_use]
    pub(crate) const fn of(self, flags: Self) -> Self {
        Self(self.0 & flags.0)
    }

    /// Returns the names of the flags that are set, in the order of their bits. A bit without a name has a
    /// name such as `0x1000`.
    pub fn names(self) -> impl Iterator<Item = Cow<'static, str>> + Clone {
        (0..u16::BITS).map(|bit| Self(1 << bit)).filter(move |&flag| self.contains(flag)).map(|flag| {
            let known = Self::NAMES.into_iter().find(|&(known, _)| known == flag);
            known.map_or_else(|| format!("{:#x}", flag.0).into(), |(_, name)| name.into())
        })
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// The header: the first 64 bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) magic: Magic,
    pub(crate) version: (u8, u8),
    pub(crate) flags: Flags,
    pub(crate) tensor_count: u32,
    pub(crate) metadata_size: u32,
    pub(crate) index_offset: u64,
    pub(crate) data_offset: u64,
    /// The checksum that the file states. `encode` ignores it and computes the right one.
    pub(crate) crc: u32,
    pub(crate) reserved: [u8; 20],
}

impl Header {
    /// The offset of the checksum in the header.
    pub(crate) const CRC_AT: usize = 40;
    const AFTER_CRC: usize = 44;

    /// Decodes the header and checks everything that needs no other part of the file. The checksum is checked
    /// only if `check_crc` is set.
    pub(crate) fn decode(c: &mut Cursor<'_>, check_crc: bool) -> Result<Self> {
        c.record("header", None);
        let bytes = c.clone().bytes(HEADER_LEN, "header")?;
        let magic = match c.u32("magic")?.to_le_bytes() {
            MAGIC => Magic::Apr,
            MAGIC_OLD => Magic::Apr2,
            other => return Err(malformed(c.part("magic"), 0, Fault::Magic(other))),
        };
        let version = (c.u8("version")?, c.u8("version")?);
        let flags = Flags(c.u16("flags")?);
        let tensor_count = c.u32("tensor_count")?;
        let metadata_offset = c.u64("metadata_offset")?;
        if metadata_offset != HEADER_LEN {
            return Err(malformed(c.part("metadata_offset"), 12, Fault::PrivateLayout(metadata_offset)));
        }
        if version.0 != 2 {
            return Err(malformed(c.part("version"), 4, Fault::Version(version.0)));
        }
        let (metadata_size, index_offset) = (c.u32("metadata_size")?, c.u64("index_offset")?);
        let (data_offset, crc) = (c.u64("data_offset")?, c.u32("crc32")?);
        let found = header_crc(bytes);
        if check_crc && found != crc {
            let fault = Fault::HeaderCrc { found, stated: crc };
            return Err(malformed(c.part("crc32"), Self::CRC_AT as u64, fault));
        }
        if flags.contains(Flags::LAYOUT_COLUMN_MAJOR) {
            return Err(malformed(c.part("flags"), 6, Fault::ColumnMajor));
        }
        let reserved = c.bytes(20, "reserved")?.try_into().unwrap_or([0; 20]);
        Ok(Self {
            magic,
            version,
            flags,
            tensor_count,
            metadata_size,
            index_offset,
            data_offset,
            crc,
            reserved,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.magic.bytes().to_vec();
        out.extend([self.version.0, self.version.1]);
        out.extend(self.flags.bits().to_le_bytes());
        out.extend(self.tensor_count.to_le_bytes());
        out.extend(HEADER_LEN.to_le_bytes());
        out.extend(self.metadata_size.to_le_bytes());
        out.extend(self.index_offset.to_le_bytes());
        out.extend(self.data_offset.to_le_bytes());
        out.extend([0; 4]);
        out.extend(self.reserved);
        let crc = header_crc(&out);
        out.splice(Self::CRC_AT..Self::AFTER_CRC, crc.to_le_bytes());
        out
    }
}

/// Computes the checksum of a header: the CRC of its bytes without the checksum itself.
pub(crate) fn header_crc(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(bytes.get(..Header::CRC_AT).unwrap_or_default());
    hasher.update(bytes.get(Header::AFTER_CRC..).unwrap_or_default());
    hasher.finalize()
}

/// An entry of the tensor index.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'a, D> {
    pub(crate) name: &'a str,
    pub(crate) dtype: DType,
    pub(crate) dims: D,
    /// The offset from the start of the data section.
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl<'a> Entry<'a, ()> {
    /// Decodes the next entry. The cursor must already know the record's name, for errors.
    #[inline]
    pub(crate) fn decode(
        c: &mut Cursor<'a>,
    ) -> Result<Entry<'a, impl ExactSizeIterator<Item = u64> + Clone + use<'a>>> {
        let name_len = c.u16("name_len")?;
        let name = c.str(u64::from(name_len), "name")?;
        let at = c.offset();
        let code = c.u8("dtype")?;
        let Some(dtype) = dtype_of(code) else {
            return Err(malformed(c.part("dtype").with_name(name), at, Fault::UnknownDType(code)));
        };
        let at = c.offset();
        let rank = c.u8("rank")?;
        if u64::from(rank) > MAX_RANK {
            return Err(malformed(c.part("rank").with_name(name), at, Fault::Rank(rank.into())));
        }
        Ok(Entry {
            name,
            dtype,
            dims: c.u64s(rank.into(), "dims")?,
            offset: c.u64("offset")?,
            size: c.u64("size")?,
        })
    }
}

impl Entry<'_, &[u64]> {
    /// Returns the length of the encoded entry in bytes.
    pub(crate) fn encoded_len(&self) -> u64 {
        MIN_ENTRY_LEN
            .saturating_add(self.name.len() as u64)
            .saturating_add((self.dims.len() as u64).saturating_mul(8))
    }

    /// Appends the entry. The plan has already checked the name, the dtype and the dimensions.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(u16::try_from(self.name.len()).unwrap_or(u16::MAX).to_le_bytes());
        out.extend(self.name.as_bytes());
        out.push(code_of(self.dtype).unwrap_or(u8::MAX));
        out.push(u8::try_from(self.dims.len()).unwrap_or(u8::MAX));
        for dim in self.dims {
            out.extend(dim.to_le_bytes());
        }
        out.extend(self.offset.to_le_bytes());
        out.extend(self.size.to_le_bytes());
    }
}

/// The codes that are written now.
const DTYPES: [(u8, DType); 12] = [
    (0, DType::F32),
    (1, DType::F16),
    (3, DType::F64),
    (4, DType::I32),
    (5, DType::I64),
    (6, DType::I8),
    (7, DType::U8),
    (12, DType::Q4K),
    (14, DType::Q6K),
    (30, DType::BF16),
    (128, DType::AprQ4),
    (129, DType::AprQ8),
];

/// The codes that aprender wrote up to 0.27.0 (docs/formats/apr.md#dtypes).
const OLD_DTYPES: [(u8, DType); 3] = [(2, DType::BF16), (8, DType::AprQ4), (9, DType::AprQ8)];

/// Returns the dtypes that APR can hold, in the order of their codes.
pub fn dtypes() -> impl ExactSizeIterator<Item = DType> + Clone {
    DTYPES.iter().map(|&(_, dtype)| dtype)
}

#[inline]
fn dtype_of(code: u8) -> Option<DType> {
    let mut all = DTYPES.iter().chain(&OLD_DTYPES);
    all.find(|&&(number, _)| number == code).map(|&(_, dtype)| dtype)
}

/// Returns the code of a dtype, if it has one.
pub(crate) fn code_of(dtype: DType) -> Option<u8> {
    DTYPES.iter().find(|&&(_, known)| known == dtype).map(|&(code, _)| code)
}

/// Returns the number of bytes that a tensor takes. It follows from the dtype and the shape, except that each
/// row of a q4_k matrix is padded to whole blocks (docs/formats/apr.md#rows-of-q4_k).
pub(crate) fn nbytes(dtype: DType, dims: &[u64]) -> Result<u64, CommonFault> {
    let (DType::Q4K, &[rows, columns], Some(block)) = (dtype, dims, dtype.block()) else {
        return Ok(implied_nbytes(dtype, dims)?);
    };
    let blocks = columns.div_ceil(u64::from(block.elements)).checked_mul(rows);
    let nbytes = blocks.and_then(|blocks| blocks.checked_mul(u64::from(block.nbytes)));
    nbytes
        .filter(|&nbytes| i64::try_from(nbytes).is_ok())
        .ok_or_else(|| CommonFault::TooManyElements(modelfmt_core::DisplayShape(dims).to_string()))
}

/// Returns the `Part` for errors about a tensor's index entry.
pub(crate) fn entry_part(number: usize, name: &str) -> Part {
    Part::entry("tensor entry", number as u64).with_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let mut header = Header {
            magic: Magic::Apr,
            version: (2, 0),
            flags: Flags::LAYOUT_ROW_MAJOR.with(Flags(1 << 15)),
            tensor_count: 7,
            metadata_size: 5,
            index_offset: 128,
            data_offset: 1 << 40,
            crc: 0,
            reserved: [3; 20],
        };
        for magic in [Magic::Apr, Magic::Apr2] {
            header.magic = magic;
            let bytes = header.encode();
            assert_eq!(bytes.len() as u64, HEADER_LEN);
            header.crc = header_crc(&bytes);
            assert_eq!(Header::decode(&mut Cursor::new(&bytes, 0), true).unwrap(), header);
        }
        assert!(header.flags.names().eq(["LAYOUT_ROW_MAJOR", "0x8000"]));
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        for dtype in dtypes() {
            let dims = [2, 1 << 40];
            let entry = Entry { name: "重み", dtype, dims: &dims[..], offset: 64, size: 1 << 63 };
            let mut bytes = Vec::new();
            entry.encode(&mut bytes);
            assert_eq!(bytes.len() as u64, entry.encoded_len());
            let mut c = Cursor::new(&bytes, 0);
            let read = Entry::decode(&mut c).unwrap();
            assert_eq!((read.name, read.dtype, c.remaining()), (entry.name, dtype, 0));
            assert!(read.dims.eq(dims));
            assert_eq!((read.offset, read.size), (64, 1 << 63));
        }
    }

    #[test]
    fn rows_of_q4_k_are_whole_blocks() {
        let size = |dims: &[u64]| nbytes(DType::Q4K, dims);
        assert_eq!(size(&[32, 44]), Ok(4608));
        assert_eq!((size(&[2, 257]), size(&[0, 9]), size(&[512])), (Ok(576), Ok(0), Ok(288)));
        assert!(matches!(size(&[9]), Err(CommonFault::PartialBlock { .. })));
        assert!(matches!(size(&[2, 2, 9]), Err(CommonFault::PartialBlock { .. })));
        assert!(matches!(size(&[1 << 60, 1 << 60]), Err(CommonFault::TooManyElements(_))));
        assert!(matches!(nbytes(DType::Q6K, &[32, 44]), Err(CommonFault::PartialBlock { .. })));
    }
}
