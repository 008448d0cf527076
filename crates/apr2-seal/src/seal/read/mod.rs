//! The stored bytes of a tensor as a source that checks and decrypts them. Values are read through it.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod local_file;

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use modelfmt_core::{AlignedBuf, Bytes, Execution, Fetch};

use crate::error::{Error, Result, SealFault, malformed};
use crate::seal::hash::{self, Hash};
use crate::seal::section::Section;
use crate::seal::sizes::{TAG, plain_len};
use crate::seal::wire::SealedExtent;

/// The most bytes that are decrypted at once.
const WINDOW: u64 = 32 << 20;
/// From this many bytes on, several threads are used.
const PARALLEL: u64 = 4 << 20;

use crate::seal::segments::Cipher;
/// A tensor of a sealed file as a source. Its plaintext begins at the offset of its stored bytes. Every byte
/// that it returns is checked.
pub(crate) struct Plain<'a, S> {
    source: &'a S,
    section: &'a Section,
    position: usize,
    cipher: Option<Cipher>,
    /// The offset of the tensor in the file.
    start: u64,
    /// The number of its stored bytes.
    size: u64,
    plain: u64,
    /// The plaintext that was decrypted last, for readers that continue in small steps.
    last: Mutex<Option<(u64, Arc<AlignedBuf>)>>,
}

impl<'a, S: Fetch> Plain<'a, S> {
    /// Creates the source of the tensor at a position. `identity` is the part of its index entry from its
    /// name to its last dimension.
    pub(crate) fn new(
        source: &'a S,
        section: &'a Section,
        position: usize,
        identity: &[u8],
    ) -> Result<Self, SealFault> {
        let extent = section.extent(position).ok_or(SealFault::Extent(position as u64))?;
        let size = extent.size;
        let plain = match section.segment() {
            Some(segment) => plain_len(size, segment)?,
            None => size,
        };
        let start = section.data_offset.saturating_add(extent.offset);
        let cipher = cipher(section, position, identity, plain)?;
        Ok(Self { source, section, position, cipher, start, size, plain, last: Mutex::default() })
    }

    /// Returns the offset and the length of the plaintext.
    pub(crate) const fn place(&self) -> (u64, u64) {
        (self.start, self.plain)
    }

    /// Checks the stored bytes of a tensor in memory: all of them, or the pages of a part.
    pub(crate) async fn check_in_memory(&self, range: Range<u64>) -> io::Result<()> {
        self.checked(range).await.map(|_| ())
    }

    /// Returns the stored bytes of at least `range`, checked if necessary, and the offset at which they
    /// begin.
    async fn checked(&self, range: Range<u64>) -> io::Result<(u64, Bytes<'a>)> {
        let at = |offset: u64| self.start.saturating_add(offset);
        if !self.section.binds_content || range.start >= range.end {
            return Ok((range.start, self.source.fetch(at(range.start)..at(range.end)).await?));
        }
        let page = self.section.body.page;
        let first = range.start.checked_div(page).unwrap_or_default();
        let end = range.end.div_ceil(page).saturating_mul(page).min(self.size);
        let nodes = match (first, end) {
            (0, end) if end == self.size => None, // the digest is enough
            _ => Some(self.table().await?),
        };
        let begin = first.saturating_mul(page);
        let bytes = self.source.fetch(at(begin)..at(end)).await?;
        self.check(first, &bytes, nodes.as_deref()).map_err(io::Error::other)?;
        Ok((begin, bytes))
    }

    /// Compares pages with their table or, if these are all pages, with the digest.
    fn check(&self, first: u64, bytes: &[u8], table: Option<&Vec<Hash>>) -> Result<(), SealFault> {
        let digest = self.section.extent(self.position).map(|extent| extent.digest);
        let page = self.section.body.page;
        if self.size <= page {
            let found = hash::hash(&[bytes]);
            return if Some(found) == digest { Ok(()) } else { Err(SealFault::Digest) };
        }
        let found = page_nodes(page, first, bytes);
        let is_good = match table {
            Some(table) => {
                let skip = usize::try_from(first).unwrap_or(usize::MAX);
                table.get(skip..).and_then(|rest| rest.get(..found.len())) == Some(&found)
            }
            None => hash::root(&found) == digest,
        };
        if is_good { Ok(()) } else { Err(SealFault::Digest) }
    }

    /// Returns the page table of a tensor that has several pages. It is read from the file and checked
    /// against the digest.
    async fn table(&self) -> io::Result<Arc<Vec<Hash>>> {
        let known =
            self.section.tables.lock().unwrap_or_else(PoisonError::into_inner).get(&self.position).cloned();
        if let Some(table) = known {
            return Ok(table);
        }
        let table = Arc::new(read_table(self.source, self.section, self.position).await?);
        let mut tables = self.section.tables.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(tables.entry(self.position).or_insert(table)))
    }

    /// Returns the range of stored bytes for a range of the plaintext.
    fn stored(&self, plain: &Range<u64>) -> Range<u64> {
        let Some(segment) = self.section.segment() else { return plain.clone() };
        let at = |number: u64| number.saturating_mul(segment.saturating_add(TAG)).min(self.size);
        at(plain.start.checked_div(segment).unwrap_or_default())..at(plain.end.div_ceil(segment))
    }

    /// Returns the plaintext that was decrypted last if it contains this range.
    fn remembered(&self, range: &Range<u64>) -> Option<(u64, Arc<AlignedBuf>)> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, bytes) = last.as_ref()?;
        (*at <= range.start && range.end <= at.saturating_add(bytes.len() as u64))
            .then(|| (*at, Arc::clone(bytes)))
    }

    /// Fills `out` with the plaintext from `at` on, which must be within the tensor.
    async fn fill(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let range = at..at.saturating_add(out.len() as u64);
        if let Some((begin, bytes)) = self.remembered(&range) {
            return copy(&bytes, begin, &range, out);
        }
        let (stored_at, bytes) = self.checked(self.stored(&range)).await?;
        let Some(segment) = self.section.segment() else { return copy(&bytes, stored_at, &range, out) };
        // Pages may begin inside a segment, but only whole segments can be decrypted.
        let sealed = segment.saturating_add(TAG);
        let first = stored_at.div_ceil(sealed);
        let begin = first.saturating_mul(segment);
        let skip =
            usize::try_from(first.saturating_mul(sealed).saturating_sub(stored_at)).unwrap_or(usize::MAX);
        let whole = bytes.get(skip..).unwrap_or_default();
        let reaches_end = stored_at.saturating_add(bytes.len() as u64) == self.size;
        let count = (whole.len() as u64).checked_div(sealed).unwrap_or_default();
        let end = if reaches_end { self.plain } else { first.saturating_add(count).saturating_mul(segment) };
        let to_usize = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let whole = if reaches_end {
            whole
        } else {
            whole.get(..to_usize(count.saturating_mul(sealed))).unwrap_or_default()
        };
        if begin == range.start && end == range.end {
            return self.decrypt(first, whole, out);
        }
        let mut text = AlignedBuf::zeroed(to_usize(end.saturating_sub(begin)))?;
        self.decrypt(first, whole, &mut text)?;
        let text = Arc::new(text);
        copy(&text, begin, &range, out)?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((begin, text));
        Ok(())
    }

    fn decrypt(&self, first: u64, stored: &[u8], out: &mut [u8]) -> io::Result<()> {
        let segment = self.section.segment().unwrap_or(1);
        let Some(cipher) = &self.cipher else { return Err(io::Error::other(locked())) };
        let threads = threads(out.len() as u64);
        let group = if threads > 1 {
            (PARALLEL / 4).checked_div(segment).unwrap_or_default().max(1)
        } else {
            u64::MAX
        };
        let to_usize = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let pieces = stored.chunks(to_usize(group.saturating_mul(segment.saturating_add(TAG))));
        let jobs: Vec<_> =
            pieces.zip(out.chunks_mut(to_usize(group.saturating_mul(segment)))).map(Mutex::new).collect();
        let one = |(): &mut (), number: u64| -> Result<(), SealFault> {
            let Some(job) = usize::try_from(number).ok().and_then(|n| jobs.get(n)) else { return Ok(()) };
            let mut job = job.lock().unwrap_or_else(PoisonError::into_inner);
            let (stored, ref mut out) = *job;
            cipher.open(first.saturating_add(number.saturating_mul(group)), stored, out)
        };
        let work = Execution { threads, progress: None };
        work.map(jobs.len() as u64, || (), one).map(|_| ()).map_err(io::Error::other)
    }
}

impl<S: Fetch> Fetch for Plain<'_, S> {
    fn size(&self) -> u64 {
        self.start.saturating_add(self.plain)
    }

    async fn fetch(&self, range: Range<u64>) -> io::Result<Bytes<'_>> {
        let len =
            usize::try_from(range.end.saturating_sub(range.start)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        if range.start < self.start || range.end > self.size() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut out = AlignedBuf::zeroed(len)?;
        self.fetch_into(range.start, &mut out).await?;
        Ok(Bytes::Owned(out))
    }

    async fn fetch_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let at = offset.checked_sub(self.start).ok_or(io::ErrorKind::UnexpectedEof)?;
        let end = at.checked_add(out.len() as u64).filter(|&end| end <= self.plain);
        end.ok_or(io::ErrorKind::UnexpectedEof)?;
        if self.section.is_locked() {
            return Err(io::Error::other(locked()));
        }
        if let Some(filled) = self.fill_from_local_file(at, out) {
            return filled;
        }
        let (mut at, mut rest) = (at, out);
        while !rest.is_empty() {
            // Reads up to the end of a window, so that the next read begins with a segment and a page.
            let len =
                usize::try_from(WINDOW.saturating_sub(at % WINDOW)).unwrap_or(usize::MAX).min(rest.len());
            let (here, after) = rest.split_at_mut(len);
            self.fill(at, here).await?;
            (at, rest) = (at.saturating_add(here.len() as u64), after);
        }
        Ok(())
    }
}

/// Reads the page table of a tensor that has several pages, and checks it against the tensor's digest.
pub(crate) async fn read_table(
    source: &impl Fetch,
    section: &Section,
    position: usize,
) -> io::Result<Vec<Hash>> {
    let extent = section.extent(position).ok_or(io::ErrorKind::InvalidInput)?;
    let (at, len) = table_place(section, extent);
    let bytes = source.fetch(at..at.saturating_add(len)).await?;
    let table = bytes.as_chunks::<32>().0.to_vec();
    if hash::root(&table) != Some(extent.digest) {
        return Err(io::Error::other(SealFault::Pages));
    }
    Ok(table)
}

/// Returns the offset of a tensor's page table in the file, and its length.
pub(crate) fn table_place(section: &Section, extent: &SealedExtent) -> (u64, u64) {
    let at = section.trailer.pages_at().saturating_add(extent.first_page.saturating_mul(32)); // the section has checked where the table ends
    (at, hash::pages_of(extent.size, section.body.page).saturating_mul(32))
}

fn page_nodes(page: u64, first: u64, bytes: &[u8]) -> Vec<Hash> {
    let len = usize::try_from(page).unwrap_or(usize::MAX).max(1);
    let pages: Vec<&[u8]> = bytes.chunks(len).collect();
    let one = |(): &mut (), number: u64| -> Result<Hash, std::convert::Infallible> {
        let bytes =
            usize::try_from(number).ok().and_then(|number| pages.get(number)).copied().unwrap_or_default();
        Ok(hash::page_node(page, first.saturating_add(number), bytes))
    };
    let work = Execution { threads: threads(bytes.len() as u64), progress: None };
    work.map(pages.len() as u64, || (), one).unwrap_or_default()
}

fn threads(nbytes: u64) -> usize {
    if nbytes >= PARALLEL { Execution::default().threads } else { 1 }
}

fn copy(bytes: &[u8], at: u64, range: &Range<u64>, out: &mut [u8]) -> io::Result<()> {
    let skip = range.start.checked_sub(at).and_then(|skip| usize::try_from(skip).ok());
    let part = skip.and_then(|skip| bytes.get(skip..)).and_then(|rest| rest.get(..out.len()));
    out.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
    Ok(())
}

pub(crate) const fn locked() -> SealFault {
    SealFault::NoKey("the tensor is encrypted, and no key was given that opens the file")
}

fn cipher(
    section: &Section,
    position: usize,
    identity: &[u8],
    plain: u64,
) -> Result<Option<Cipher>, SealFault> {
    let Some((keys, segment)) = section.keys.as_ref().zip(section.segment()) else { return Ok(None) };
    let ordinal =
        u32::try_from(position).map_err(|_| SealFault::Limit("there are too many tensors".to_owned()))?;
    Ok(Some(Cipher::of_tensor(keys, ordinal, identity, segment, plain)))
}

/// Converts the error of a read. If a check of the seal failed, keeps its fault.
pub(crate) fn sealed(error: Error, position: usize, name: &str) -> Error {
    match error {
        Error::Io { at, len, source } => match source.downcast::<SealFault>() {
            Ok(fault) => malformed(apr2::author::entry_part(position, name), at, fault),
            Err(source) => Error::Io { at, len, source },
        },
        other => other,
    }
}
