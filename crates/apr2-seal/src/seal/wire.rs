//! The records of the seal section. Each is decoded and encoded in one place.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use crate::error::SealFault;

/// The magic of the trailer.
const MAGIC_END: [u8; 8] = *b"SEALEND1";
/// The magic of the body.
const MAGIC: [u8; 8] = *b"APR2SEAL";
/// The length of the trailer, which is directly before the footer.
pub(crate) const TRAILER_LEN: u64 = 48;
/// The length of the trailer and of the APR2 footer that follows it.
pub(crate) const END_LEN: u64 = 64;
/// The length of the body without the extents and the sealed index.
pub(crate) const BODY_LEN: u64 = 96;
pub(crate) const EXTENT_LEN: u64 = 48;
pub(crate) const MAX_SIGNATURES: u32 = 64 << 10;
pub(crate) const MAX_KEYS: u32 = 1 << 20;
const MAX_TENSORS: u32 = 1 << 20;
const MAX_SEALED_INDEX: u64 = 1 << 31;
/// The flag in the body that says that names, shapes and metadata are encrypted.
pub(crate) const INDEX_SEALED: u32 = 1;

pub(crate) fn structure(text: impl Into<String>) -> SealFault {
    SealFault::Structure(text.into())
}

/// Decodes little-endian fields, one after another.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], SealFault> {
        let (first, rest) = self.0.split_first_chunk().ok_or_else(|| structure("a record is cut short"))?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, SealFault> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, SealFault> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, SealFault> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn bytes(&mut self, len: u64) -> Result<&'a [u8], SealFault> {
        let split = usize::try_from(len).ok().and_then(|len| self.0.split_at_checked(len));
        let (bytes, rest) = split.ok_or_else(|| structure("a record is longer than what it is in"))?;
        self.0 = rest;
        Ok(bytes)
    }
}

/// The places of the section's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) seal_offset: u64,
    pub(crate) body_size: u64,
    pub(crate) pages_size: u64,
    pub(crate) signatures_size: u32,
    pub(crate) keys_size: u32,
    pub(crate) prefix_crc32: u32,
}

impl Trailer {
    /// Decodes the trailer of a file of `file_len` bytes, and checks all its numbers against this length.
    pub(crate) fn decode(
        bytes: &[u8],
        file_len: u64,
        data_offset: u64,
        is_encrypted: bool,
    ) -> Result<Self, SealFault> {
        let mut c = Fields(bytes);
        if c.array()? != MAGIC_END {
            return Err(structure(
                "there is no seal section: the bytes before the footer are not its trailer",
            ));
        }
        let trailer = Self {
            seal_offset: c.u64()?,
            body_size: c.u64()?,
            pages_size: c.u64()?,
            signatures_size: c.u32()?,
            keys_size: c.u32()?,
            prefix_crc32: c.u32()?,
        };
        if c.u32()? != 0 {
            return Err(structure("the last word of the trailer is not zero"));
        }
        trailer.check(file_len, data_offset, is_encrypted).map(|()| trailer)
    }

    fn check(&self, file_len: u64, data_offset: u64, is_encrypted: bool) -> Result<(), SealFault> {
        let sizes =
            [self.body_size, self.pages_size, self.signatures_size.into(), self.keys_size.into(), END_LEN];
        let end = sizes.iter().try_fold(self.seal_offset, |sum, &size| sum.checked_add(size));
        if end != Some(file_len) {
            return Err(structure("the sizes in the trailer do not add up to the file's"));
        }
        if !self.seal_offset.is_multiple_of(64) || self.seal_offset < data_offset {
            return Err(structure("the seal section does not begin where it may"));
        }
        if self.body_size < BODY_LEN {
            return Err(structure("the body of the seal section is cut short"));
        }
        if (self.keys_size == 0) == is_encrypted {
            return Err(structure("a file has a section of keys exactly if it is encrypted"));
        }
        if self.signatures_size > MAX_SIGNATURES || self.keys_size > MAX_KEYS {
            return Err(SealFault::Limit("signatures or keys take more than 64 KiB or 1 MiB".to_owned()));
        }
        Ok(())
    }

    pub(crate) const fn pages_at(&self) -> u64 {
        self.seal_offset.saturating_add(self.body_size)
    }

    pub(crate) const fn signatures_at(&self) -> u64 {
        self.pages_at().saturating_add(self.pages_size)
    }

    pub(crate) const fn keys_at(&self) -> u64 {
        self.signatures_at().saturating_add(self.signatures_size as u64)
    }

    /// Returns the offset of the trailer itself.
    pub(crate) const fn end(&self) -> u64 {
        self.keys_at().saturating_add(self.keys_size as u64)
    }
}

/// The place of a tensor's stored bytes, and their digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SealedExtent {
    /// The offset from the start of the data section.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) digest: [u8; 32],
    /// The position of its first entry in the page table.
    pub(crate) first_page: u64,
}

/// The signed part of the seal section: what a signature covers in addition to the header, the metadata and
/// the index.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) flags: u32,
    pub(crate) uuid: [u8; 16],
    pub(crate) revision: u64,
    /// The length of a segment of plaintext; 0 if the file is not encrypted.
    pub(crate) segment: u64,
    /// The length of a page.
    pub(crate) page: u64,
    pub(crate) commitment: [u8; 32],
    pub(crate) extents: Vec<SealedExtent>,
    /// The offset of the sealed index in the body. The sealed index reaches to the end of the body.
    pub(crate) sealed_index_at: u64,
}

impl Body {
    pub(crate) const fn is_index_sealed(&self) -> bool {
        self.flags & INDEX_SEALED != 0
    }

    pub(crate) fn decode(
        bytes: &[u8],
        trailer: &Trailer,
        data_offset: u64,
        is_encrypted: bool,
    ) -> Result<Self, SealFault> {
        let mut c = Fields(bytes);
        if c.array()? != MAGIC {
            return Err(structure("the body of the seal section does not begin with APR2SEAL"));
        }
        let (major, _minor, flags) = (c.u16()?, c.u16()?, c.u32()?);
        if major != 1 || flags & !INDEX_SEALED != 0 {
            return Err(SealFault::Version(format!("version {major}, flags {flags:#x}")));
        }
        let (uuid, revision, count) = (c.array()?, c.u64()?, c.u32()?);
        let [segment_log2, page_log2, reserved @ ..] = c.array::<4>()?;
        if reserved != [0; 2] {
            return Err(SealFault::Version("reserved bytes are not zero".to_owned()));
        }
        let (sealed_index_size, seal_offset, commitment) = (c.u64()?, c.u64()?, c.array()?);
        let is_index_sealed = flags & INDEX_SEALED != 0;
        if count > MAX_TENSORS || sealed_index_size > MAX_SEALED_INDEX {
            return Err(SealFault::Limit(format!(
                "{count} tensors, a sealed index of {sealed_index_size} bytes"
            )));
        }
        let extents_len = EXTENT_LEN * u64::from(count);
        if BODY_LEN.saturating_add(extents_len).saturating_add(sealed_index_size) != trailer.body_size
            || bytes.len() as u64 != trailer.body_size
        {
            return Err(structure("the body is not as long as its tensors and its index need"));
        }
        if seal_offset != trailer.seal_offset {
            return Err(structure("the body says that it is elsewhere"));
        }
        let clear_is_empty = is_encrypted || (segment_log2 == 0 && commitment == [0; 32]);
        if is_index_sealed && !is_encrypted || (sealed_index_size > 0) != is_index_sealed || !clear_is_empty {
            return Err(structure("the body speaks of encryption, but the file is not encrypted so"));
        }
        let segment_fits = !is_encrypted || (12..=20).contains(&segment_log2);
        if !segment_fits || !(10..=24).contains(&page_log2) {
            return Err(SealFault::Limit(format!(
                "segments of 2^{segment_log2} bytes, pages of 2^{page_log2}"
            )));
        }
        let segment = if is_encrypted { 1u64 << segment_log2 } else { 0 };
        let page = 1u64 << page_log2;
        let extents = extents(c.bytes(extents_len)?, page, trailer, data_offset)?;
        let sealed_index_at = BODY_LEN.saturating_add(extents_len);
        let body = Self { flags, uuid, revision, segment, page, commitment, extents, sealed_index_at };
        if is_encrypted {
            body.check_encrypted()?;
        }
        Ok(body)
    }

    /// Checks that the sizes of encrypted tensors are possible in segments, and that tensors do not overlap.
    fn check_encrypted(&self) -> Result<(), SealFault> {
        let mut order: Vec<(u64, u64)> =
            self.extents.iter().filter(|e| e.size > 0).map(|e| (e.offset, e.size)).collect();
        order.sort_unstable();
        let mut end = 0;
        for (offset, size) in order {
            if offset < end {
                return Err(structure("two encrypted tensors overlap"));
            }
            end = offset.saturating_add(size); // `extents` has seen that it ends within the file
            super::sizes::plain_len(size, self.segment)?;
        }
        Ok(())
    }

    pub(crate) fn encode(&self, seal_offset: u64, sealed_index: &[u8]) -> Vec<u8> {
        let log2 = |n: u64| if n == 0 { 0 } else { n.trailing_zeros().to_le_bytes()[0] };
        let mut out = Vec::new();
        out.extend(MAGIC);
        out.extend(1u16.to_le_bytes());
        out.extend(0u16.to_le_bytes());
        out.extend(self.flags.to_le_bytes());
        out.extend(self.uuid);
        out.extend(self.revision.to_le_bytes());
        out.extend(u32::try_from(self.extents.len()).unwrap_or(u32::MAX).to_le_bytes()); // at most 2^20
        out.extend([log2(self.segment), log2(self.page), 0, 0]);
        out.extend((sealed_index.len() as u64).to_le_bytes());
        out.extend(seal_offset.to_le_bytes());
        out.extend(self.commitment);
        for extent in &self.extents {
            out.extend(extent.offset.to_le_bytes());
            out.extend(extent.size.to_le_bytes());
            out.extend(extent.digest);
        }
        out.extend(sealed_index);
        out
    }
}

fn extents(
    bytes: &[u8],
    page: u64,
    trailer: &Trailer,
    data_offset: u64,
) -> Result<Vec<SealedExtent>, SealFault> {
    let room = trailer.seal_offset.saturating_sub(data_offset);
    let (mut next_page, mut end) = (0u64, 0);
    let mut extents = Vec::with_capacity(bytes.len() / 48);
    let mut c = Fields(bytes);
    while !c.0.is_empty() {
        let (offset, size, digest) = (c.u64()?, c.u64()?, c.array()?);
        let ends = offset.checked_add(size).filter(|&ends| size == 0 || ends <= room);
        let Some(ends) = ends else {
            return Err(structure("a tensor reaches into the seal section"));
        };
        if size > 0 {
            end = end.max(ends);
        }
        extents.push(SealedExtent { offset, size, digest, first_page: next_page });
        next_page = next_page.saturating_add(super::hash::pages_of(size, page));
    }
    if next_page.checked_mul(32) != Some(trailer.pages_size) {
        return Err(structure("the table of pages is not as long as the tensors need"));
    }
    if end.checked_next_multiple_of(64) != Some(room) {
        return Err(structure("the seal section does not follow the last tensor"));
    }
    Ok(extents)
}

/// Encodes the trailer.
pub(crate) fn encode_trailer(trailer: &Trailer) -> [u8; 48] {
    let mut out = [0; 48];
    let words = [
        u64::from_le_bytes(MAGIC_END),
        trailer.seal_offset,
        trailer.body_size,
        trailer.pages_size,
        u64::from(trailer.signatures_size) | u64::from(trailer.keys_size) << 32,
        u64::from(trailer.prefix_crc32),
    ];
    for (field, word) in out.as_chunks_mut().0.iter_mut().zip(words) {
        *field = word.to_le_bytes();
    }
    out
}
