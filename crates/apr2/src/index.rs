//! The content of a file: sections, tensors and metadata, checked and owned.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{
    Encoding, Limits, Location, Part, TensorTable,
    author::{Cursor, Extent, NewTensor, align_up},
};

use crate::blocks::BlockStarts;
use crate::error::{Error, Fault, Result, SealFault, malformed};
use crate::metadata::Metadata;
use crate::stored::Stored;
use crate::wire::{self, Entry, Flags};

/// The generation of the format that a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generation {
    /// APR1: JSON index, no alignment, no compression. It is read, never written.
    Apr1,
    /// APR2.
    Apr2,
}

/// The sections of a file, all inside it and in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sections {
    /// The JSON metadata.
    pub metadata: Extent,
    /// The tensor index.
    pub index: Extent,
    /// The tensors: everything from the start of the data section to the footer.
    pub data: Extent,
}

/// The content of a header, with the sections checked against the length of the file.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub(crate) generation: Generation,
    pub(crate) version: (u16, u16),
    /// The feature flags.
    pub flags: Flags,
    /// The sections.
    pub sections: Sections,
    /// The number of tensors, if the file states it outside its index, as APR1 does.
    pub(crate) tensor_count: Option<u32>,
}

/// The content of an APR2 or APR1 file. It is owned and can be shared by any number of readers.
///
/// Every offset, length, name and shape in it has been checked against the specification and the length of the file.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) generation: Generation,
    pub(crate) version: (u16, u16),
    pub(crate) flags: Flags,
    pub(crate) sections: Sections,
    pub(crate) file_len: u64,
    pub(crate) metadata: Metadata,
    pub(crate) tensors: Tensors,
}

impl Index {
    /// Returns whether the file is APR1 or APR2.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns the major and minor version; (1, 0) for APR1, which states none.
    #[must_use]
    pub const fn version(&self) -> (u16, u16) {
        self.version
    }

    /// Returns the feature flags. APR1 has none.
    #[must_use]
    pub const fn flags(&self) -> Flags {
        self.flags
    }

    /// Returns the alignment that the file promises for its tensors: 64, 32 or none.
    #[must_use]
    pub const fn alignment(&self) -> Option<u64> {
        self.flags.alignment()
    }

    /// Returns the sections of the file.
    #[must_use]
    pub const fn sections(&self) -> Sections {
        self.sections
    }

    /// Returns the length in bytes of the file that this index was made for.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Returns the metadata.
    #[must_use]
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the tensors, in file order.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors.table
    }

    /// Returns the location of the tensor at a position, from the start of the file.
    #[must_use]
    pub fn location(&self, position: usize) -> Option<Location> {
        self.tensors.location(position)
    }

    /// Returns the heap memory in bytes that the tensors take. Metadata is not counted.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.tensors.heap_size()
    }

    /// Returns the offset of the footer.
    pub(crate) fn footer_at(&self) -> u64 {
        match self.generation {
            Generation::Apr1 => self.sections.data.end(),
            Generation::Apr2 => self.file_len.saturating_sub(wire::FOOTER_LEN),
        }
    }

    /// Returns whether the file's tensors are stored encrypted.
    pub(crate) const fn is_encrypted(&self) -> bool {
        matches!(self.tensors.sealing, Sealing::Encrypted { .. })
    }
}

/// The tensor index: the tensors of a file and where they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tensors {
    table: TensorTable,
    /// The tensors that are compressed or have flags, by ascending position. Plain tensors take no memory
    /// here.
    special: Vec<Special>,
    /// The reserved word of the index header, which is checked by `verify`.
    pub(crate) reserved: u32,
    /// The known offsets of LZ4 blocks, collected while reading.
    pub(crate) starts: BlockStarts,
    /// How the stored bytes are sealed.
    pub(crate) sealing: Sealing,
}

/// How the stored bytes of the tensors of a file are sealed.
#[derive(Clone, Copy, Debug, Default)]
pub enum Sealing {
    /// The stored bytes are not sealed.
    #[default]
    None,
    /// The digests of the stored bytes are signed.
    Signed,
    /// The stored bytes are encrypted. The source returns the plaintext of a tensor at the tensor's offset.
    Encrypted {
        /// The number of plaintext bytes in a segment.
        segment: u64,
        /// The number of plaintext bytes in `size` stored bytes, for segments of `segment` bytes.
        plain_len: fn(size: u64, segment: u64) -> Result<u64, SealFault>,
    },
}

impl Sealing {
    /// Returns the number of bytes that remain of `size` stored bytes after decryption.
    fn plain_len(self, size: u64) -> Result<u64, Fault> {
        match self {
            Self::Encrypted { segment, plain_len } => Ok(plain_len(size, segment)?),
            Self::None | Self::Signed => Ok(size),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Special {
    position: u32,
    flags: u32,
    stored: u64,
    compressed: bool,
}

impl Tensors {
    /// Returns the table of names, dtypes and shapes, in file order.
    #[must_use]
    pub(crate) const fn table(&self) -> &TensorTable {
        &self.table
    }

    /// Returns the location of the tensor at a position, from the start of the file.
    #[must_use]
    pub(crate) fn location(&self, position: usize) -> Option<Location> {
        let stored = self.stored(position)?;
        let encoding = match self.sealing {
            Sealing::Encrypted { .. } => Encoding::Encrypted,
            _ if stored.compressed => Encoding::Lz4,
            Sealing::Signed => Encoding::Checked,
            Sealing::None => Encoding::Raw,
        };
        Some(Location { file: None, offset: Some(stored.offset), stored_nbytes: stored.len, encoding })
    }

    /// Returns the heap memory in bytes that the tensors take.
    #[must_use]
    pub(crate) fn heap_size(&self) -> usize {
        self.table.heap_size().saturating_add(self.special.capacity().saturating_mul(size_of::<Special>()))
    }

    pub(crate) fn stored(&self, position: usize) -> Option<Stored> {
        let offset = self.table.offset(position)?;
        let nbytes = self.table.info(position)?.nbytes;
        let found = self.special.binary_search_by_key(&position, |special| special.position as usize);
        let special = found.ok().and_then(|at| self.special.get(at));
        Some(match special {
            Some(&Special { flags, stored, compressed, .. }) => {
                Stored { offset, len: stored, nbytes, compressed, flags }
            }
            None => Stored { offset, len: nbytes, nbytes, compressed: false, flags: 0 },
        })
    }

    /// Returns how the tensor is stored after decryption.
    pub(crate) fn plain(&self, position: usize) -> Option<Stored> {
        let stored = self.stored(position)?;
        Some(Stored { len: self.sealing.plain_len(stored.len).ok()?, ..stored }) // checked when it was listed
    }

    /// Returns how every tensor is stored, in order. This is cheaper than one call per tensor.
    pub(crate) fn all_stored(&self) -> impl Iterator<Item = Stored> {
        let mut special = self.special.iter().peekable();
        self.table.iter().enumerate().map(move |(position, info)| {
            let offset = self.table.offset(position).unwrap_or(0); // every tensor here has one
            match special.next_if(|s| s.position as usize == position) {
                Some(&Special { flags, stored, compressed, .. }) => {
                    Stored { offset, len: stored, nbytes: info.nbytes, compressed, flags }
                }
                None => Stored { offset, len: info.nbytes, nbytes: info.nbytes, compressed: false, flags: 0 },
            }
        })
    }

    /// Returns whether any tensor is compressed.
    pub(crate) fn any_compressed(&self) -> bool {
        self.special.iter().any(|special| special.compressed)
    }

    /// Parses the index section of an APR2 file.
    pub(crate) fn parse(
        bytes: &[u8],
        sections: &Sections,
        sealing: Sealing,
        limits: &Limits,
    ) -> Result<Self> {
        let mut c = Cursor::new(bytes, sections.index.offset());
        c.record("tensor index", None);
        let count = u64::from(c.u32("tensor_count")?);
        let reserved = c.u32("reserved")?;
        Limits::check("the number of tensors", count, limits.tensors)?;
        let entries = Part::new("tensor entries");
        let count = Limits::fits(entries, c.offset(), count, wire::MIN_ENTRY_LEN, c.remaining() as u64)?;
        let table = TensorTable::comparing_later(count);
        let mut tensors = Self { table, ..Self::default() };
        tensors.reserved = reserved;
        tensors.sealing = sealing;
        for number in 0..count {
            c.record("tensor entry", Some(number as u64));
            let at = c.offset();
            let entry = Entry::decode(&mut c)?;
            let claim = Claim {
                name: entry.name,
                dtype: entry.dtype,
                offset: entry.offset,
                size: entry.size,
                raw_size: entry.raw_size,
                flags: entry.flags,
            };
            tensors.push(claim, entry.dims, at, sections.data, limits)?;
        }
        if c.remaining() > 0 {
            let part = Part::new("tensor index");
            return Err(malformed(part, c.offset(), Fault::TrailingIndex(c.remaining() as u64)));
        }
        tensors.table.compare_names().map_err(|(position, name, fault)| {
            malformed(wire::entry_part(position, &name), sections.index.offset(), fault)
        })?;
        tensors.table.shrink_to_fit();
        tensors.special.shrink_to_fit();
        Ok(tensors)
    }

    /// Creates a list with capacity for `count` tensors. The caller has checked `count` against the bytes
    /// that exist.
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self { table: TensorTable::with_capacity(count), ..Self::default() }
    }

    /// Adds a tensor after checking its entry, which is at byte `at`.
    #[inline]
    pub(crate) fn push(
        &mut self,
        claim: Claim<'_>,
        dims: impl ExactSizeIterator<Item = u64>,
        at: u64,
        data: Extent,
        limits: &Limits,
    ) -> Result<()> {
        Limits::check("the length of a name", claim.name.len() as u64, limits.name_len)?;
        Limits::check("the number of dimensions", dims.len() as u64, limits.rank)?;
        let position = self.table.len();
        // An offset beyond u64 is replaced by one that is out of bounds, so that the check of the claim reports it.
        let offset = data.offset().checked_add(claim.offset).unwrap_or(u64::MAX - 1);
        let tensor =
            NewTensor { name: claim.name, dtype: claim.dtype, offset: Some(offset), packed_nbytes: 0 };
        let nbytes = self.table.push(tensor, dims).map_err(|fault| claim.fault(position, at, None, fault))?;
        claim
            .check(nbytes, data, self.sealing)
            .map_err(|(field, fault)| claim.fault(position, at, Some(field), fault))?;
        if claim.raw_size != 0 || claim.flags != 0 || claim.size != nbytes {
            self.special.push(Special {
                position: u32::try_from(position).unwrap_or(u32::MAX), // the table holds no more
                flags: claim.flags,
                stored: claim.size,
                compressed: claim.raw_size != 0,
            });
        }
        Ok(())
    }
}

/// The fields of a tensor's entry, except for its shape.
#[derive(Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) name: &'a str,
    pub(crate) dtype: modelfmt_core::DType,
    /// The offset from the start of the data section.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) raw_size: u64,
    pub(crate) flags: u32,
}

impl Claim<'_> {
    /// Checks the sizes against the dtype and the shape, and the range against the data section.
    #[inline]
    fn check(&self, nbytes: u64, data: Extent, sealing: Sealing) -> Result<(), (&'static str, Fault)> {
        let implied = |found| Fault::from(modelfmt_core::CommonFault::Nbytes { found, expected: nbytes });
        let size = sealing.plain_len(self.size).map_err(|fault| ("size", fault))?;
        match self.raw_size {
            0 if size != nbytes => return Err(("size", implied(size))),
            0 => {}
            raw if raw != nbytes => return Err(("raw_size", implied(raw))),
            // One byte of LZ4 expands to at most 255 bytes, so this can be checked before anything is allocated
            // (docs/formats/apr2.md#sizes).
            raw if raw / 255 > size => {
                return Err(("raw_size", Fault::Expansion { stored: size, raw }));
            }
            _ => {}
        }
        // The offset of an empty tensor is the next aligned one, so it may be beyond the last byte of the data
        // (docs/formats/apr2.md#sizes).
        let end = if self.size == 0 { align_up(data.len(), 64).unwrap_or(data.len()) } else { data.len() };
        match Extent::new(self.offset, self.size, end) {
            Ok(_) => Ok(()),
            Err(_) => {
                let (offset, len) = (data.offset().saturating_add(self.offset), self.size);
                Err((
                    "offset",
                    modelfmt_core::CommonFault::OutOfBounds { offset, len, end: data.end() }.into(),
                ))
            }
        }
    }

    #[cold]
    fn fault(&self, number: usize, at: u64, field: Option<&'static str>, fault: impl Into<Fault>) -> Error {
        let part = wire::entry_part(number, self.name);
        malformed(Part { field, ..part }, at, fault)
    }
}
