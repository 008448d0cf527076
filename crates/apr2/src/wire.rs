//! The records of a file. Each is decoded and encoded in one place. All numbers are little-endian.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

use modelfmt_core::{DType, Part, author::Cursor};

use crate::error::{Fault, Result, malformed};

/// APR2 2.0, "Header": four ASCII bytes (docs/formats/apr2.md#magic).
pub(crate) const MAGIC: [u8; 4] = *b"APR2";
/// The magic of the previous generation.
pub(crate) const MAGIC_APR1: [u8; 4] = *b"APR1";
/// APR2 2.0, "Footer": the magic reversed.
pub(crate) const MAGIC_END: [u8; 4] = *b"2RPA";
/// APR2 2.0, "Header (32 bytes)".
pub const HEADER_LEN: u64 = 32;
/// APR2 2.0, "Footer (16 bytes)".
pub const FOOTER_LEN: u64 = 16;
/// APR2 2.0, "Index Header (8 bytes)".
pub(crate) const INDEX_HEADER_LEN: u64 = 8;
/// The data section begins at a multiple of 64, whatever the tensors' alignment (docs/formats/apr2.md#sections).
pub const DATA_ALIGNMENT: u64 = 64;
/// APR2 2.0, "Tensor Entry": the length of the shortest entry, with a name of one byte and one dimension.
pub(crate) const MIN_ENTRY_LEN: u64 = 2 + 1 + 2 + 8 + 28;
/// APR2 2.0, "Tensor Entry": the largest number of dimensions.
pub(crate) const MAX_RANK: u64 = 8;
/// Bit 0 of the per-tensor flags marks a compressed tensor (docs/formats/apr2.md#compression).
pub const TENSOR_COMPRESSED: u32 = 1;

/// The feature flags of a file's header (APR2 2.0, "Feature Flags").
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(u32);

impl Flags {
    /// Some tensors are compressed.
    pub const COMPRESSED: Self = Self(1);
    /// Every tensor begins at a multiple of 64.
    pub const ALIGNED_64: Self = Self(1 << 1);
    /// Every tensor begins at a multiple of 32.
    pub const ALIGNED_32: Self = Self(1 << 2);
    /// The file is a shard of a model with several files.
    pub const SHARDED: Self = Self(1 << 3);
    /// The file is encrypted (docs/formats/apr2.md#encrypted-and-signed).
    pub const ENCRYPTED: Self = Self(1 << 4);
    /// The file has a seal section, which may have signatures (docs/formats/apr2.md#encrypted-and-signed).
    pub const SIGNED: Self = Self(1 << 5);
    /// Some tensors have a block-quantized type.
    pub const QUANTIZED: Self = Self(1 << 6);
    /// Tensors are in the order of the index, so that one sequential pass reads the file.
    pub const STREAMING: Self = Self(1 << 7);

    const NAMES: [(Self, &'static str); 8] = [
        (Self::COMPRESSED, "COMPRESSED"),
        (Self::ALIGNED_64, "ALIGNED_64"),
        (Self::ALIGNED_32, "ALIGNED_32"),
        (Self::SHARDED, "SHARDED"),
        (Self::ENCRYPTED, "ENCRYPTED"),
        (Self::SIGNED, "SIGNED"),
        (Self::QUANTIZED, "QUANTIZED"),
        (Self::STREAMING, "STREAMING"),
    ];

    /// Returns the empty set of flags.
    #[must_use]
    pub const fn empty() -> Self {
        Self(0)
    }

    /// Returns all bits as they are in the file.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns whether all of these flags are set.
    #[must_use]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Adds the given flags if `on` is set.
    #[must_use]
    pub const fn with(self, flags: Self, on: bool) -> Self {
        if on { Self(self.0 | flags.0) } else { self }
    }

    /// Removes the given flags.
    #[must_use]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }

    /// Returns the alignment that the flags promise for every tensor: 64, 32 or none.
    #[must_use]
    pub const fn alignment(self) -> Option<u64> {
        if self.contains(Self::ALIGNED_64) {
            Some(64)
        } else if self.contains(Self::ALIGNED_32) {
            Some(32)
        } else {
            None
        }
    }

    /// Returns the names of the flags that are set, in the order of their bits and in the specification's
    /// spelling.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        Self::NAMES.into_iter().filter(move |&(flag, _)| self.contains(flag)).map(|(_, name)| name)
    }

    /// Returns the flags with these bits.
    ///
    /// # Errors
    /// If a bit is not known.
    pub const fn from_file(bits: u32) -> Result<Self, Fault> {
        match bits & !0xff {
            0 => Ok(Self(bits)),
            unknown => Err(Fault::UnknownFlags(unknown)),
        }
    }

    /// Does the same as [`from_file`](Self::from_file) for a reader that cannot decrypt: ENCRYPTED gets a
    /// separate error (docs/formats/apr2.md#flags).
    pub(crate) fn not_encrypted(bits: u32) -> Result<Self, Fault> {
        Self::from_file(bits).and_then(|flags| match flags.contains(Self::ENCRYPTED) {
            true => Err(Fault::Encrypted),
            false => Ok(flags),
        })
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// APR2 2.0, "Header (32 bytes)".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The major version, always 2.
    pub version_major: u16,
    /// The minor version; 0 is the only one so far.
    pub version_minor: u16,
    /// The feature flags.
    pub flags: Flags,
    /// The offset of the metadata.
    pub metadata_offset: u32,
    /// The length of the metadata in bytes.
    pub metadata_size: u32,
    /// The offset of the tensor index.
    pub index_offset: u32,
    /// The length of the tensor index in bytes.
    pub index_size: u32,
    /// The offset of the data section.
    pub data_offset: u32,
}

impl Header {
    /// Decodes the fields after the magic. `known` accepts the flags that the caller supports.
    ///
    /// # Errors
    /// If the version is different, or a flag is not known.
    pub fn decode(c: &mut Cursor<'_>, known: fn(u32) -> Result<Flags, Fault>) -> Result<Self> {
        c.record("header", None);
        c.bytes(4, "magic")?;
        let at = c.offset();
        let version_major = c.u16("version_major")?;
        if version_major != 2 {
            return Err(malformed(c.part("version_major"), at, Fault::Version(version_major)));
        }
        let version_minor = c.u16("version_minor")?;
        let at = c.offset();
        let flags = known(c.u32("flags")?).map_err(|fault| malformed(c.part("flags"), at, fault))?;
        Ok(Self {
            version_major,
            version_minor,
            flags,
            metadata_offset: c.u32("metadata_offset")?,
            metadata_size: c.u32("metadata_size")?,
            index_offset: c.u32("index_offset")?,
            index_size: c.u32("index_size")?,
            data_offset: c.u32("data_offset")?,
        })
    }

    /// Encodes the header.
    #[must_use]
    pub fn encode(&self) -> [u8; 32] {
        let mut out = [0; 32];
        let words = [
            u32::from_le_bytes(MAGIC),
            u32::from(self.version_major) | u32::from(self.version_minor) << 16,
            self.flags.bits(),
            self.metadata_offset,
            self.metadata_size,
            self.index_offset,
            self.index_size,
            self.data_offset,
        ];
        for (field, word) in out.as_chunks_mut().0.iter_mut().zip(words) {
            *field = word.to_le_bytes();
        }
        out
    }
}

/// APR2 2.0, "Tensor Entry".
#[derive(Clone, Debug)]
pub struct Entry<'a, D> {
    /// The name of the tensor.
    pub name: &'a str,
    /// The dtype of the tensor.
    pub dtype: DType,
    /// The dimensions of the tensor.
    pub dims: D,
    /// The offset from the start of the data section.
    pub offset: u64,
    /// The stored size in bytes.
    pub size: u64,
    /// The uncompressed size in bytes, or 0 if the tensor is not compressed.
    pub raw_size: u64,
    /// The flags of the tensor. Bit 0 marks a compressed tensor.
    pub flags: u32,
}

impl<'a> Entry<'a, ()> {
    /// Decodes the next entry. The cursor must already know the record's name, for errors.
    ///
    /// # Errors
    /// If the name is empty, the dtype is not known, or the number of dimensions is not allowed.
    #[inline]
    pub fn decode(
        c: &mut Cursor<'a>,
    ) -> Result<Entry<'a, impl ExactSizeIterator<Item = u64> + Clone + use<'a>>> {
        let at = c.offset();
        let name_len = c.u16("name_len")?;
        if name_len == 0 {
            return Err(malformed(c.part("name_len"), at, Fault::EmptyName));
        }
        let name = c.str(u64::from(name_len), "name")?;
        let at = c.offset();
        let code = c.u8("dtype")?;
        let Some(dtype) = dtype_of(code) else {
            return Err(malformed(c.part("dtype").with_name(name), at, Fault::UnknownDType(code)));
        };
        let at = c.offset();
        let rank = c.u8("n_dims")?;
        if rank == 0 || u64::from(rank) > MAX_RANK {
            return Err(malformed(c.part("n_dims").with_name(name), at, Fault::Rank(rank.into())));
        }
        Ok(Entry {
            name,
            dtype,
            dims: c.u64s(rank.into(), "dims")?,
            offset: c.u64("offset")?,
            size: c.u64("size")?,
            raw_size: c.u64("raw_size")?,
            flags: c.u32("flags")?,
        })
    }
}

/// Returns the identity of a tensor: the first bytes of its entry, from the length of the name to the last
/// dimension.
#[must_use]
pub fn identity(name: &str, dtype: DType, dims: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    Entry { name, dtype, dims, offset: 0, size: 0, raw_size: 0, flags: 0 }.encode(&mut out);
    out.truncate(out.len().saturating_sub(28)); // what says where it lies
    out
}

impl Entry<'_, &[u64]> {
    /// Returns the length of the encoded entry in bytes.
    pub(crate) fn encoded_len(&self) -> u64 {
        (self.name.len() as u64)
            .saturating_add(2)
            .saturating_add(2)
            .saturating_add((self.dims.len() as u64).saturating_mul(8))
            .saturating_add(28)
    }

    /// Appends the entry. The plan has already checked the name, the dtype and the dimensions.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(u16::try_from(self.name.len()).unwrap_or(u16::MAX).to_le_bytes());
        out.extend(self.name.as_bytes());
        out.push(code_of(self.dtype).unwrap_or(u8::MAX));
        out.push(u8::try_from(self.dims.len()).unwrap_or(u8::MAX));
        for dim in self.dims {
            out.extend(dim.to_le_bytes());
        }
        for field in [self.offset, self.size, self.raw_size] {
            out.extend(field.to_le_bytes());
        }
        out.extend(self.flags.to_le_bytes());
    }
}

/// APR2 2.0, "Footer (16 bytes)".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The CRC of everything before the footer.
    pub crc32: u32,
    /// The length of the file.
    pub file_size: u64,
}

impl Footer {
    /// Decodes the footer of a file of `file_len` bytes, and checks everything that needs no other part of
    /// the file (docs/formats/apr2.md#footer).
    ///
    /// # Errors
    /// If the bytes are not a footer, or state another file length.
    pub fn decode(c: &mut Cursor<'_>, file_len: u64) -> Result<Self> {
        c.record("footer", None);
        let crc32 = c.u32("crc32")?;
        let at = c.offset();
        let magic = c.u32("magic_end")?.to_le_bytes();
        if magic != MAGIC_END {
            return Err(malformed(c.part("magic_end"), at, Fault::FooterMagic(magic)));
        }
        let at = c.offset();
        let file_size = c.u64("file_size")?;
        if file_size != file_len {
            return Err(malformed(c.part("file_size"), at, Fault::FileSize(file_size)));
        }
        Ok(Self { crc32, file_size })
    }

    /// Encodes the footer.
    #[must_use]
    pub fn encode(&self) -> [u8; 16] {
        let mut out = [0; 16];
        let words = [u64::from(self.crc32) | u64::from(u32::from_le_bytes(MAGIC_END)) << 32, self.file_size];
        for (field, word) in out.as_chunks_mut().0.iter_mut().zip(words) {
            *field = word.to_le_bytes();
        }
        out
    }
}

/// APR2 2.0, "Data Type Enum".
const DTYPES: [(u8, DType, &str); 13] = [
    (0, DType::F32, "F32"),
    (1, DType::F16, "F16"),
    (2, DType::BF16, "BF16"),
    (3, DType::I8, "I8"),
    (4, DType::I16, "I16"),
    (5, DType::I32, "I32"),
    (6, DType::I64, "I64"),
    (7, DType::U8, "U8"),
    (16, DType::Q8_0, "Q8_0"),
    (17, DType::Q4_0, "Q4_0"),
    (18, DType::Q4_1, "Q4_1"),
    (19, DType::Q5_0, "Q5_0"),
    (20, DType::Q5_1, "Q5_1"),
];

/// Returns whether APR2 has a code for a dtype.
#[must_use]
pub fn can_hold(dtype: DType) -> bool {
    code_of(dtype).is_some()
}

/// Returns the dtypes that APR2 can hold, in the order of their codes.
#[cfg(test)]
fn dtypes() -> impl ExactSizeIterator<Item = DType> + Clone {
    DTYPES.iter().map(|&(_, dtype, _)| dtype)
}

#[inline]
fn dtype_of(code: u8) -> Option<DType> {
    DTYPES.iter().find(|&&(number, ..)| number == code).map(|&(_, dtype, _)| dtype)
}

/// Returns the code of a dtype, if it has one.
pub(crate) fn code_of(dtype: DType) -> Option<u8> {
    DTYPES.iter().find(|&&(_, known, _)| known == dtype).map(|&(code, ..)| code)
}

/// Returns the dtype with this name in the specification's spelling, which APR1's JSON index uses.
pub(crate) fn dtype_named(name: &str) -> Option<DType> {
    DTYPES.iter().find(|&&(.., known)| known == name).map(|&(_, dtype, _)| dtype)
}

/// Returns the `Part` for errors about a tensor entry.
pub fn entry_part(number: usize, name: &str) -> Part {
    Part::entry("tensor entry", number as u64).with_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = Header {
            version_major: 2,
            version_minor: 7,
            flags: Flags::QUANTIZED.with(Flags::ALIGNED_64, true),
            metadata_offset: 32,
            metadata_size: 5,
            index_offset: 37,
            index_size: 8,
            data_offset: 64,
        };
        let bytes = header.encode();
        assert_eq!(bytes[..12], *b"APR2\x02\0\x07\0\x42\0\0\0");
        assert_eq!(Header::decode(&mut Cursor::new(&bytes, 0), Flags::from_file).unwrap(), header);
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        for dtype in dtypes() {
            let dims = [2, 1 << 40];
            let entry = Entry {
                name: "重み",
                dtype,
                dims: &dims[..],
                offset: 64,
                size: 9,
                raw_size: 1 << 63,
                flags: 1,
            };
            let mut bytes = Vec::new();
            entry.encode(&mut bytes);
            assert_eq!(bytes.len() as u64, entry.encoded_len());
            let mut c = Cursor::new(&bytes, 0);
            let read = Entry::decode(&mut c).unwrap();
            assert_eq!((read.name, read.dtype, c.remaining()), (entry.name, dtype, 0));
            assert!(read.dims.eq(dims));
            assert_eq!((read.offset, read.size, read.raw_size, read.flags), (64, 9, 1 << 63, 1));
        }
    }

    #[test]
    fn a_footer_is_read_as_it_was_written() {
        let footer = Footer { crc32: 0x0102_0304, file_size: 1 << 40 };
        let bytes = footer.encode();
        assert_eq!(bytes[..8], *b"\x04\x03\x02\x012RPA");
        assert_eq!(Footer::decode(&mut Cursor::new(&bytes, 0), 1 << 40).unwrap(), footer);
        assert!(Footer::decode(&mut Cursor::new(&bytes, 0), 5).is_err());
    }

    #[test]
    fn flags_have_the_names_of_the_specification() {
        let flags = Flags(0b1000_0010);
        assert!(flags.names().eq(["ALIGNED_64", "STREAMING"]));
        assert_eq!(
            (flags.alignment(), Flags::ALIGNED_32.alignment(), Flags(1).alignment()),
            (Some(64), Some(32), None)
        );
        assert_eq!(Flags::from_file(0x1002), Err(Fault::UnknownFlags(0x1000)));
        assert_eq!(Flags::from_file(0x10), Ok(Flags::ENCRYPTED));
        assert_eq!(Flags::not_encrypted(0x10), Err(Fault::Encrypted));
        assert_eq!(Flags::not_encrypted(0x20), Ok(Flags::SIGNED));
    }
}
