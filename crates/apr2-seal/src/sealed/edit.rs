//! Changes the signatures of a file, and who can open it, without changing its tensors.

use std::collections::{BTreeMap, HashMap};

use apr2::author::{self, FOOTER_LEN, Footer, HEADER_LEN};
use apr2::{Flags, Generation, Metadata};
use modelfmt_core::{
    CommonFault, Execution, Part, Source,
    author::{Crc, Cursor, align_up},
};
use modelfmt_write::edit::NewFile;

use crate::error::{EditError, Error, SealFault, malformed, unfit};
use crate::index::Index;
use crate::seal::write::{Body, Digester, SealedExtent, Trailer};
use crate::seal::{END_LEN, Hash, SealOptions, Section, SigningKey, statement, tail};

/// The number of bytes that are read at once.
const PIECE: u64 = 4 << 20;
/// The place of the flags in the header.
const FLAGS: std::ops::Range<usize> = 8..12;
/// The place of the revision in the body.
const REVISION: std::ops::Range<usize> = 32..40;

type Result<T> = std::result::Result<T, EditError>;

impl Index {
    /// Adds signatures by these keys to the existing ones, and returns the file's new content. A file that is
    /// not sealed gets a seal section, for which every tensor is hashed; otherwise no tensor is read.
    /// [Verify](crate::Reader::verify) the file first, because a signature vouches for its content.
    ///
    /// You can choose `revision` as long as nobody has signed. Signing an encrypted file without the flag for
    /// signatures changes what its key authenticates, so such a file must be open with a key. The manifest of
    /// a set states the length and content of each shard, and has to change with a shard: see
    /// [`SetIndex::sign_anew`](crate::SetIndex::sign_anew).
    ///
    /// # Errors
    /// If the file cannot be read, is an APR1 file, has a seal that cannot be read, has signatures of another
    /// revision, or is encrypted without the flag for signatures and not open, or with a hidden index; if the
    /// progress callback of `work` stops it.
    pub fn sign(
        &self,
        source: &(impl Source + Sync),
        keys: &[SigningKey],
        revision: Option<u64>,
        work: &Execution<'_>,
    ) -> Result<NewFile> {
        self.expect_sealable()?;
        let signers = keys.iter().cloned().fold(SealOptions::new(), SealOptions::sign);
        match self.seal.as_deref() {
            Some(section) => self.sign_again(source, section, &signers, revision),
            None => self.sign_plain(source, &signers.revision(revision.unwrap_or(0)), work),
        }
    }

    /// Changes who can open an encrypted file that is open, and returns the file's new content. Only the keys
    /// in the options open it. Its signatures stay valid. Anybody who kept the file's key, or a copy of the
    /// old file, can still read its content. The manifest of a set states the length of each shard, and has
    /// to change with a shard: see [`SetIndex::resized`](crate::SetIndex::resized).
    ///
    /// # Errors
    /// If the file cannot be read, is not encrypted, or is not open; if nobody could open it afterwards, or
    /// no reader accepts so many or so long keys; if the system has no randomness.
    pub fn rekey(&self, source: &impl Source, options: &SealOptions) -> Result<NewFile> {
        self.expect_sealable()?;
        let section = self.seal.as_deref().filter(|section| section.is_encrypted());
        let section = section.ok_or_else(|| refused(SealFault::Missing("the file is not encrypted")))?;
        let keys = section.keys.as_ref().ok_or_else(|| refused(SealFault::NoKey("no key was given")))?;
        if !options.encrypts() {
            return Err(refused(SealFault::Missing("nobody is named who can open the file")));
        }
        options.check().map_err(refused)?;
        let parts = Parts::read(source, section)?;
        let slots = options.slots(keys).map_err(refused)?;
        let keys = tail::keys(keys, &slots, &section.statement);
        let tail = tail::encode(&section.trailer, &parts.signatures, &keys, parts.prefix).map_err(refused)?;
        let mut file = NewFile::new();
        file.keep(0..section.trailer.signatures_at());
        file.push(tail);
        Ok(file)
    }

    /// Renames tensors (`names` maps positions to new names), replaces the metadata if given, and returns the
    /// new content of the file. This invalidates the signatures, so the seal section is removed. For
    /// everything else, see [`apr2::Index::edit`].
    ///
    /// # Errors
    /// If the format cannot hold the new metadata or names, or if the file is signed in a way that cannot be
    /// read.
    pub fn edit(
        &self,
        source: &impl Source,
        names: &BTreeMap<usize, String>,
        metadata: Option<&Metadata>,
    ) -> Result<NewFile> {
        author::edit(&self.plain, source, names, metadata, || self.unsigned(source))
    }

    /// Removes the signatures of a file: returns its content without the seal section. The values, and their places in the data
    /// section, stay as they are.
    ///
    /// # Errors
    /// If the file is signed in a way that cannot be read.
    pub fn without_signatures(&self, source: &impl Source) -> Result<NewFile> {
        author::without_signatures(&self.plain, source, || self.unsigned(source))
    }

    /// Returns the end of the last tensor.
    fn end_of_tensors(&self) -> u64 {
        let filled = author::all_stored(&self.plain).filter(|stored| stored.len > 0);
        filled.map(|stored| stored.end()).max().unwrap_or(self.sections().data.offset())
    }

    /// Returns the end of the tensors of a signed file, and the CRC of everything before it: the part that
    /// remains without the signatures.
    fn unsigned(&self, source: &impl Source) -> Result<(u64, u32)> {
        let section = match (&self.seal, &self.fault) {
            (Some(section), _) => section,
            (None, Some(fault)) => return Err(refused(fault.clone())),
            (None, None) => return Err(refused(SealFault::Missing("it says that it is signed, and is not"))),
        };
        let Parts { prefix, .. } = Parts::read(source, section)?;
        let end = self.end_of_tensors();
        let behind = crc_of(source, end..section.trailer.signatures_at())?;
        Ok((end, prefix.without(behind).value))
    }

    /// Refuses APR1, which is never written, and a broken seal section, which is not replaced.
    fn expect_sealable(&self) -> Result<()> {
        let unchangeable = |what| Err(unfit(Part::new("the file"), CommonFault::Unchangeable(what)).into());
        if self.generation() != Generation::Apr2 {
            return unchangeable("it is APR1, which is only read");
        }
        match &self.fault {
            Some(fault) => Err(refused(fault.clone())),
            None => Ok(()),
        }
    }

    fn sign_again(
        &self,
        source: &impl Source,
        section: &Section,
        signers: &SealOptions,
        revision: Option<u64>,
    ) -> Result<NewFile> {
        if section.body.is_index_sealed() && !section.flags.contains(Flags::SIGNED) {
            // The sealed index repeats the flags, and nothing is encrypted twice with one key.
            let why = "its hidden index says that nobody signs it, and cannot be changed; seal the model anew, with the keys that sign it";
            return Err(refused(SealFault::Missing(why)));
        }
        let trailer = section.trailer;
        let parts = Parts::read(source, section)?;
        let old_header = read(source, 0..HEADER_LEN)?;
        let old_body = read(source, trailer.seal_offset..trailer.pages_at())?;
        let flags = section.flags.with(Flags::SIGNED, true).bits().to_le_bytes();
        let header = with(&old_header, FLAGS, &flags);
        let revision = revision.unwrap_or(section.body.revision);
        let body = with(&old_body, REVISION, &revision.to_le_bytes());
        let statement = self.statement_of(source, &header, &body)?;
        let is_other = statement != section.statement;
        if is_other && !section.records.is_empty() {
            let what = "its signatures cover its revision";
            return Err(unfit(Part::new("the file"), CommonFault::Unchangeable(what)).into());
        }
        let mut keys = parts.keys;
        if is_other && section.is_encrypted() {
            let why = "it is encrypted, and a first signature changes what its key vouches for; give a key that opens it";
            let file_keys = section.keys.as_ref().ok_or_else(|| refused(SealFault::NoKey(why)))?;
            let slots = keys.len().saturating_sub(64);
            keys.truncate(slots);
            keys.extend(file_keys.mac("statement mac", &statement));
            let mac = file_keys.mac("keys mac", &keys);
            keys.extend(mac);
        }
        let signatures = co_signed(&parts.signatures, signers, &statement);
        // The CRC of everything before the signatures, with the changed header and body.
        let mut prefix = parts.prefix;
        let behind = prefix.len.saturating_sub(HEADER_LEN);
        prefix.value = Crc::of(&old_header).replaced(prefix.value, behind, Crc::of(&header));
        prefix.value = Crc::of(&old_body).replaced(prefix.value, trailer.pages_size, Crc::of(&body));
        let tail = tail::encode(&trailer, &signatures, &keys, prefix).map_err(refused)?;
        let mut file = NewFile::new();
        file.push(header);
        file.keep(HEADER_LEN..trailer.seal_offset);
        file.push(body);
        file.keep(trailer.pages_at()..trailer.signatures_at());
        file.push(tail);
        Ok(file)
    }

    fn sign_plain(
        &self,
        source: &(impl Source + Sync),
        options: &SealOptions,
        work: &Execution<'_>,
    ) -> Result<NewFile> {
        let data = self.sections().data;
        let end = self.end_of_tensors();
        let seal_offset = align_up(end, 64).unwrap_or(u64::MAX);
        if data.end() < end || data.end() > seal_offset {
            let what = "its footer does not follow its last tensor";
            return Err(unfit(Part::new("the file"), CommonFault::Unchangeable(what)).into());
        }
        if self.tensors().len() as u64 > 1 << 20 {
            return Err(refused(SealFault::Limit("a sealed file has at most 2^20 tensors".to_owned())));
        }
        let old_header = read(source, 0..HEADER_LEN)?;
        let header = with(&old_header, FLAGS, &self.flags().with(Flags::SIGNED, true).bits().to_le_bytes());
        let (extents, pages) = self.digests(source, options.page, work)?;
        let body = Body {
            flags: 0,
            uuid: options.fresh_keys().map_err(refused)?.uuid,
            revision: options.revision,
            segment: 0,
            page: options.page,
            commitment: [0; 32],
            extents,
            sealed_index_at: 0,
        };
        let body = body.encode(seal_offset, &[]);
        let statement = self.statement_of(source, &header, &body)?;
        let footer = read(source, data.end()..self.file_len())?;
        let footer = Footer::decode(&mut Cursor::new(&footer, data.end()), self.file_len())?;
        let behind = data.end().saturating_sub(HEADER_LEN);
        let crc = Crc::of(&old_header).replaced(footer.crc32, behind, Crc::of(&header));
        let gap = vec![0; usize::try_from(seal_offset - data.end()).unwrap_or(0)]; // fewer than 64
        let mut prefix = Crc { value: crc, len: data.end() };
        for part in [&gap, &body, &pages] {
            prefix = prefix.then(Crc::of(part));
        }
        let trailer = Trailer {
            seal_offset,
            body_size: body.len() as u64,
            pages_size: pages.len() as u64,
            signatures_size: 0,
            keys_size: 0,
            prefix_crc32: 0,
        };
        let signatures = tail::signatures(&options.sign_statement(&statement));
        let tail = tail::encode(&trailer, &signatures, &[], prefix).map_err(refused)?;
        let mut file = NewFile::new();
        file.push(header);
        file.keep(HEADER_LEN..data.end());
        file.push([gap, body, pages, tail].concat());
        Ok(file)
    }

    fn statement_of(&self, source: &impl Source, header: &[u8], body: &[u8]) -> Result<Hash> {
        let metadata = read(source, self.sections().metadata.range())?;
        let index = read(source, self.sections().index.range())?;
        Ok(statement(header, &metadata, &index, body))
    }

    /// Computes the digests of all tensors, and the page tables. Tensors that share their bytes are hashed
    /// once.
    fn digests(
        &self,
        source: &(impl Source + Sync),
        page: u64,
        work: &Execution<'_>,
    ) -> Result<(Vec<SealedExtent>, Vec<u8>)> {
        let data = self.sections().data;
        let mut numbers: HashMap<(u64, u64), usize> = HashMap::new();
        let mut ranges = Vec::new();
        let mut total = 0u64;
        for stored in author::all_stored(&self.plain) {
            numbers.entry((stored.offset, stored.len)).or_insert_with(|| {
                total = total.saturating_add(stored.len);
                ranges.push((stored.offset, stored.len));
                ranges.len() - 1
            });
        }
        if total > data.len() {
            let what = "its tensors overlap in part";
            return Err(unfit(Part::new("the file"), CommonFault::Unchangeable(what)).into());
        }
        let one = |buffer: &mut Vec<u8>, number: u64| {
            let range = usize::try_from(number).ok().and_then(|number| ranges.get(number));
            let &(offset, len) = range.unwrap_or(&(0, 0));
            digest(source, (offset, len), page, buffer, work)
        };
        let found = work.map(ranges.len() as u64, Vec::new, one)?;
        let (mut extents, mut pages, mut first_page) =
            (Vec::with_capacity(self.tensors().len()), Vec::new(), 0);
        for stored in author::all_stored(&self.plain) {
            let number = numbers.get(&(stored.offset, stored.len));
            let Some((digest, nodes)) = number.and_then(|&number| found.get(number)) else { continue };
            let offset = stored.offset.saturating_sub(data.offset());
            extents.push(SealedExtent { offset, size: stored.len, digest: *digest, first_page });
            first_page += nodes.len() as u64;
            pages.extend(nodes.iter().flatten());
        }
        Ok((extents, pages))
    }
}

/// Computes the digest of the bytes at a place and, if there are several pages, the nodes over them.
fn digest(
    source: &impl Source,
    (offset, len): (u64, u64),
    page: u64,
    buffer: &mut Vec<u8>,
    work: &Execution<'_>,
) -> Result<(Hash, Vec<Hash>)> {
    let mut digester = Digester::new(len, page);
    let mut done = 0;
    while done < len {
        let size = PIECE.min(len - done);
        buffer.resize(usize::try_from(size).unwrap_or(0), 0);
        let at = offset.saturating_add(done);
        source.read_into(at, buffer).map_err(|error| EditError::io(&(at..at + size), error))?;
        digester.update(buffer);
        if work.advance(size).is_break() {
            return Err(Error::Cancelled.into());
        }
        done += size;
    }
    Ok(digester.finish())
}

/// Computes the CRC of a range, which may be long: a file may have a gap of any length before its seal
/// section.
fn crc_of(source: &impl Source, range: std::ops::Range<u64>) -> Result<Crc> {
    let (mut crc, mut buffer, mut at) = (Crc::default(), Vec::new(), range.start);
    while at < range.end {
        let size = PIECE.min(range.end - at);
        buffer.resize(usize::try_from(size).unwrap_or(0), 0);
        source.read_into(at, &mut buffer).map_err(|error| EditError::io(&(at..at + size), error))?;
        crc = crc.then(Crc::of(&buffer));
        at += size;
    }
    Ok(crc)
}

/// The parts at the end of a sealed file, after its pages.
struct Parts {
    signatures: Vec<u8>,
    keys: Vec<u8>,
    /// The CRC of everything before these parts.
    prefix: Crc,
}

impl Parts {
    fn read(source: &impl Source, section: &Section) -> Result<Self> {
        let trailer = section.trailer;
        let (at, end) = (trailer.signatures_at(), trailer.end());
        let mut signatures = read(source, at..end + END_LEN)?;
        let prefix = Crc { value: trailer.prefix_crc32, len: at };
        let footer =
            signatures.split_off(usize::try_from(end + END_LEN - FOOTER_LEN - at).unwrap_or(usize::MAX));
        let footer = Footer::decode(&mut Cursor::new(&footer, end), end + END_LEN)?;
        if prefix.then(Crc::of(&signatures)).value != footer.crc32 {
            let what = "the CRC in the trailer does not go with that in the footer".to_owned();
            return Err(malformed(Part::new("trailer"), end, SealFault::Crc(what)).into());
        }
        let mut keys = signatures.split_off(usize::try_from(trailer.signatures_size).unwrap_or(usize::MAX));
        keys.truncate(usize::try_from(trailer.keys_size).unwrap_or(usize::MAX));
        Ok(Self { signatures, keys, prefix })
    }
}

/// Returns the signature records of other signers, and new records for these signers. An existing record by
/// one of these signers is replaced, unless it is the same.
fn co_signed(records: &[u8], signers: &SealOptions, statement: &Hash) -> Vec<u8> {
    let new = signers.sign_statement(statement);
    let mut missing: Vec<Vec<u8>> = new.iter().map(|signed| tail::signatures(&[*signed])).collect();
    let mut out = Vec::new();
    let mut rest = records;
    while let Some((&head, content)) = rest.split_first_chunk::<8>() {
        let [.., a, b, c, d] = head;
        let len = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        let Some((content, after)) = content.split_at_checked(len) else { break }; // parsed when the file was opened
        rest = after;
        let record = [&head[..], content].concat();
        let before = missing.len();
        missing.retain(|own| *own != record);
        let is_known = head.starts_with(&1u16.to_le_bytes());
        let is_own = is_known && new.iter().any(|signed| content.starts_with(&signed.key_id));
        if missing.len() < before || !is_own {
            out.extend(record);
        }
    }
    out.extend(missing.concat());
    out
}

/// Returns a copy of the bytes with one range replaced.
fn with(old: &[u8], range: std::ops::Range<usize>, bytes: &[u8]) -> Vec<u8> {
    let mut new = old.to_vec();
    if let Some(part) = new.get_mut(range).filter(|part| part.len() == bytes.len()) {
        part.copy_from_slice(bytes);
    }
    new
}

fn read(source: &impl Source, range: std::ops::Range<u64>) -> Result<Vec<u8>> {
    let bytes = source.read(range.clone()).map_err(|error| EditError::io(&range, error))?;
    Ok(bytes.to_vec())
}

fn refused(fault: SealFault) -> EditError {
    unfit(Part::new("seal section"), fault).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A long file of zeros, which returns at most one piece at once.
    struct Zeros(u64);

    impl Source for Zeros {
        fn len(&self) -> u64 {
            self.0
        }

        fn read_into(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
            let len = out.len() as u64;
            assert!(len <= PIECE && offset + len <= self.0, "{len} bytes at once");
            out.fill(0);
            Ok(())
        }
    }

    #[test]
    fn a_long_gap_is_read_in_pieces() {
        let len = 3 * PIECE + 77;
        let crc = crc_of(&Zeros(len), 5..len).unwrap();
        assert_eq!(crc, Crc::of(&vec![0; usize::try_from(len - 5).unwrap()]));
        assert_eq!(crc_of(&Zeros(len), len..len).unwrap(), Crc::default());
    }
}
