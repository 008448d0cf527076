//! The records of a file: the header, the TOC entries, and the dtype codes.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{CommonError, DType, Part, author::Cursor};

use crate::error::{Error, Fault, Result};
pub use crate::fourcc::FourCC;

/// The most TOC entries of a file (AERO 0.1, "Limits").
pub(crate) const MAX_ENTRY_COUNT: u64 = 1_000_000;
/// The most bytes of a string table (AERO 0.1, "Limits").
pub(crate) const MAX_STRING_TABLE: u64 = 1 << 29;
/// The longest chunk name in bytes that aerotensor reads. The specification has no such limit.
pub(crate) const MAX_CHUNK_NAME: u64 = 4_096;
/// The most bytes of a metadata chunk, uncompressed (AERO 0.1, "Limits").
pub(crate) const MAX_METADATA_ULEN: u64 = 1 << 31;

/// The alignment of metadata payloads that this crate writes.
pub(crate) const METADATA_ALIGNMENT: u64 = 16;
/// The alignment of shards that this crate writes, and of the tensors in them
/// (docs/formats/aero.md#alignment).
pub(crate) const WEIGHT_ALIGNMENT: u64 = 64;
/// The required alignment of a shard (AERO 0.1, "Design goals").
pub(crate) const SHARD_ALIGNMENT: u64 = 16;

/// A chunk's flags. Unknown bits are kept (docs/formats/aero.md#unknown-things).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChunkFlags(pub u32);

impl ChunkFlags {
    /// The payload is one zstd frame.
    pub const COMPRESSED_ZSTD: Self = Self(0x0001);
    /// The chunk should be mapped for speed.
    pub const CHUNK_IS_MMAP_CRITICAL: Self = Self(0x0002);
    /// The chunk holds an index structure.
    pub const CHUNK_IS_INDEX: Self = Self(0x0004);
    /// Readers may skip the chunk.
    pub const CHUNK_IS_OPTIONAL: Self = Self(0x0008);

    /// Returns whether all bits of `flags` are set.
    #[must_use]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns the union of both sets of flags.
    #[must_use]
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// Returns whether the payload is a zstd frame (docs/formats/aero.md#chunk-lengths).
    #[must_use]
    pub const fn is_compressed(self) -> bool {
        self.contains(Self::COMPRESSED_ZSTD)
    }

    /// Returns the names of the bits that are set, lowest first. An unknown bit has a name such as `0x10`.
    pub fn names(self) -> impl Iterator<Item = String> {
        (0..32).map(|bit| 1u32 << bit).filter(move |bit| self.0 & bit != 0).map(|bit| match Self(bit) {
            Self::COMPRESSED_ZSTD => "COMPRESSED_ZSTD".to_owned(),
            Self::CHUNK_IS_MMAP_CRITICAL => "CHUNK_IS_MMAP_CRITICAL".to_owned(),
            Self::CHUNK_IS_INDEX => "CHUNK_IS_INDEX".to_owned(),
            Self::CHUNK_IS_OPTIONAL => "CHUNK_IS_OPTIONAL".to_owned(),
            Self(unknown) => format!("{unknown:#x}"),
        })
    }
}

/// AERO 0.1, "File Header".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) toc_offset: u64,
    pub(crate) toc_length: u64,
    pub(crate) strings_offset: u64,
    pub(crate) strings_length: u64,
    pub(crate) uuid: [u8; 16],
    /// Whether the reserved bytes are zero.
    pub(crate) reserved_zero: bool,
}

impl Header {
    pub(crate) const LEN: u64 = 96;

    pub(crate) fn decode(c: &mut Cursor<'_>) -> Result<Self> {
        c.record("header", None);
        let magic = c.bytes(4, "magic")?.first_chunk().copied().unwrap_or_default();
        require(magic == *b"AERO", "magic", 0, || Fault::Magic(magic))?;
        let (major, minor) = (c.u16("version")?, c.u16("version")?);
        require((major, minor) == (0, 1), "version", 4, || Fault::Version { major, minor })?;
        let size = c.u32("header_size")?;
        require(u64::from(size) == Self::LEN, "header_size", 8, || Fault::HeaderSize(size))?;
        let (toc_offset, toc_length) = (c.u64("toc_offset")?, c.u64("toc_length")?);
        let (strings_offset, strings_length) = (c.u64("string_table_offset")?, c.u64("string_table_length")?);
        let flags = c.u64("file_flags")?;
        require(flags == 0, "file_flags", 44, || Fault::FileFlags(flags))?;
        let uuid = c.bytes(16, "uuid")?.first_chunk().copied().unwrap_or_default();
        let reserved_zero = c.bytes(28, "reserved")?.iter().all(|&byte| byte == 0);
        Ok(Self { toc_offset, toc_length, strings_offset, strings_length, uuid, reserved_zero })
    }

    /// Returns the offset from which payloads can begin, if the control region of a file of this length is
    /// before that offset.
    pub(crate) fn payloads_start(&self, file_len: u64) -> Option<u64> {
        let end = self.strings_offset.checked_add(self.strings_length)?.checked_next_multiple_of(16)?;
        let toc_end = self.toc_offset.checked_add(self.toc_length)?;
        let end = end.min(file_len);
        (end >= toc_end && end >= Self::LEN).then_some(end)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(b"AERO");
        out.extend(0u16.to_le_bytes());
        out.extend(1u16.to_le_bytes());
        out.extend(96u32.to_le_bytes());
        for number in [self.toc_offset, self.toc_length, self.strings_offset, self.strings_length, 0] {
            out.extend(number.to_le_bytes());
        }
        out.extend(self.uuid);
        out.extend([0; 28]);
    }
}

fn require(good: bool, field: &'static str, at: u64, fault: impl FnOnce() -> Fault) -> Result<()> {
    if good {
        return Ok(());
    }
    Err(Error::Malformed { part: Part::new("header").with_field(field), at, fault: fault() })
}

/// AERO 0.1, "TOC Header".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TocHeader {
    pub(crate) entry_count: u32,
    /// Whether the reserved fields are zero.
    pub(crate) reserved_zero: bool,
}

impl TocHeader {
    pub(crate) const LEN: u64 = 16;

    pub(crate) fn decode(c: &mut Cursor<'_>) -> Result<Self, CommonError> {
        c.record("TOC header", None);
        let entry_count = c.u32("entry_count")?;
        let (reserved0, reserved1) = (c.u32("reserved0")?, c.u64("reserved1")?);
        Ok(Self { entry_count, reserved_zero: reserved0 == 0 && reserved1 == 0 })
    }

    pub(crate) fn encode(entry_count: u32, out: &mut Vec<u8>) {
        out.extend(entry_count.to_le_bytes());
        out.extend([0; 12]);
    }
}

/// AERO 0.1, "TOC Entry".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TocEntry {
    pub(crate) fourcc: FourCC,
    pub(crate) flags: ChunkFlags,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) ulen: u64,
    pub(crate) name_off: u32,
    pub(crate) name_len: u32,
    pub(crate) reserved0: u64,
    pub(crate) blake3: [u8; 32],
}

impl TocEntry {
    pub(crate) const LEN: u64 = 80;
    /// The offset of the hash in an entry. The hash takes the rest of the entry.
    pub(crate) const HASH_AT: u64 = 48;

    pub(crate) fn decode(c: &mut Cursor<'_>, entry: u64) -> Result<Self, CommonError> {
        c.record("TOC entry", Some(entry));
        Ok(Self {
            fourcc: FourCC(c.u32("fourcc")?.to_le_bytes()),
            flags: ChunkFlags(c.u32("chunk_flags")?),
            offset: c.u64("chunk_offset")?,
            length: c.u64("chunk_length")?,
            ulen: c.u64("chunk_ulen")?,
            name_off: c.u32("name_off")?,
            name_len: c.u32("name_len")?,
            reserved0: c.u64("reserved0")?,
            blake3: c.bytes(32, "blake3_256")?.first_chunk().copied().unwrap_or_default(),
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.fourcc.0);
        out.extend(self.flags.0.to_le_bytes());
        for number in [self.offset, self.length, self.ulen] {
            out.extend(number.to_le_bytes());
        }
        out.extend(self.name_off.to_le_bytes());
        out.extend(self.name_len.to_le_bytes());
        out.extend(self.reserved0.to_le_bytes());
        out.extend(self.blake3);
    }
}

/// The code of data that a codec has packed (AERO 0.1, "DType Enum").
pub(crate) const PACKED: u64 = 0x8000;

/// The dtypes in the order of their codes, from 0 on (AERO 0.1, "DType Enum").
const CODES: [DType; 13] = [
    DType::F16,
    DType::F32,
    DType::BF16,
    DType::F64,
    DType::I8,
    DType::U8,
    DType::I16,
    DType::U16,
    DType::I32,
    DType::U32,
    DType::I64,
    DType::U64,
    DType::Bool,
];

/// Returns the dtype of a code; [`DType::Packed`] for 0x8000.
#[inline]
pub(crate) fn dtype_of(code: u64) -> Option<DType> {
    if code == PACKED {
        return Some(DType::Packed);
    }
    CODES.get(usize::try_from(code).ok()?).copied()
}

/// Returns the code of a dtype. ggml's block types have the code of packed data.
#[must_use]
pub(crate) fn code_of(dtype: DType) -> Option<u64> {
    if dtype == DType::Packed || (dtype.is_quantized() && dtype.ggml_type().is_some()) {
        return Some(PACKED);
    }
    CODES.iter().position(|&d| d == dtype).map(|code| code as u64)
}

/// Returns whether AERO can hold a dtype: it can hold the dtypes that have codes, and ggml's block types as
/// packed tensors (docs/formats/aero.md#packed-tensors).
#[must_use]
pub fn can_hold(dtype: DType) -> bool {
    code_of(dtype).is_some()
}

/// Returns the name of the chunk of a shard.
pub(crate) fn shard_name(shard: u64) -> String {
    format!("weights.shard{shard}")
}

/// Returns the shard that a chunk of this name holds. Only the canonical form of the number is accepted.
pub(crate) fn shard_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("weights.shard")?;
    let canonical = digits == "0" || !digits.starts_with(['0', '+']);
    digits.parse().ok().filter(|_| canonical)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back() {
        let header = Header {
            toc_offset: 96,
            toc_length: 96,
            strings_offset: 192,
            strings_length: 8,
            uuid: [7; 16],
            reserved_zero: true,
        };
        let entry = TocEntry {
            fourcc: FourCC::TIDX,
            flags: ChunkFlags(0x15),
            offset: 1,
            length: 2,
            ulen: 3,
            name_off: 4,
            name_len: 5,
            reserved0: 6,
            blake3: [9; 32],
        };
        let mut out = Vec::new();
        header.encode(&mut out);
        assert_eq!(out.len() as u64, Header::LEN);
        TocHeader::encode(1, &mut out);
        entry.encode(&mut out);
        assert_eq!(out.len() as u64, Header::LEN + TocHeader::LEN + TocEntry::LEN);
        let mut c = Cursor::new(&out, 0);
        assert_eq!(Header::decode(&mut c).unwrap(), header);
        assert_eq!(TocHeader::decode(&mut c), Ok(TocHeader { entry_count: 1, reserved_zero: true }));
        assert_eq!(TocEntry::decode(&mut c, 0), Ok(entry));
    }

    #[test]
    fn codes_are_those_of_the_document() {
        assert_eq!(
            (dtype_of(0), dtype_of(1), dtype_of(12)),
            (Some(DType::F16), Some(DType::F32), Some(DType::Bool))
        );
        assert_eq!((dtype_of(13), dtype_of(0x8000), dtype_of(u64::MAX)), (None, Some(DType::Packed), None));
        for code in 0..13 {
            assert_eq!(code_of(dtype_of(code).unwrap()), Some(code));
        }
        assert_eq!((code_of(DType::Q4_0), code_of(DType::F8E4M3)), (Some(PACKED), None));
    }

    #[test]
    fn flags_and_tags_print() {
        let names: Vec<_> = ChunkFlags(0x15).names().collect();
        assert_eq!(names, ["COMPRESSED_ZSTD", "CHUNK_IS_INDEX", "0x10"]);
        assert_eq!(FourCC(*b"A\x00\"z").to_string(), "A\\x00\\\"z");
    }

    #[test]
    fn shards_have_one_name() {
        assert_eq!((shard_of("weights.shard0"), shard_of("weights.shard12")), (Some(0), Some(12)));
        for other in ["weights.shard", "weights.shard01", "weights.shard+1", "weights.shard1.phsh", "w"] {
            assert_eq!(shard_of(other), None, "{other}");
        }
    }
}
