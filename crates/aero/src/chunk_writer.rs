//! Writes files chunk by chunk, for callers that add chunks of their own: places, hashes and compresses
//! chunks, and writes the header and the TOC.

use modelfmt_core::{Part, author::align_up};
use modelfmt_write::Sink;

use crate::compress;
use crate::control::ControlHash;
use crate::error::{Fault, WriteError};
use crate::wire::{
    ChunkFlags, FourCC, Header, MAX_CHUNK_NAME, MAX_ENTRY_COUNT, MAX_METADATA_ULEN, MAX_STRING_TABLE,
    METADATA_ALIGNMENT, TocEntry, TocHeader, WEIGHT_ALIGNMENT,
};

/// A chunk to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewChunk {
    /// Its type.
    pub fourcc: FourCC,
    /// Its name.
    pub name: String,
    /// Its flags. With [`ChunkFlags::COMPRESSED_ZSTD`], its content is compressed.
    pub flags: ChunkFlags,
}

impl NewChunk {
    /// Creates a chunk without flags.
    pub fn new(fourcc: FourCC, name: impl Into<String>) -> Self {
        Self { fourcc, name: name.into(), flags: ChunkFlags::default() }
    }

    /// Sets the flags.
    #[must_use]
    pub const fn with_flags(mut self, flags: ChunkFlags) -> Self {
        self.flags = flags;
        self
    }

    fn unfit(&self, fault: impl Into<Fault>) -> WriteError {
        WriteError::Unsupported { part: Part::named("chunk", &self.name), fault: fault.into() }
    }
}

/// The offsets of the chunks of a file, assigned in the order in which the chunks are placed.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    uuid: [u8; 16],
    chunks: Vec<NewChunk>,
    entries: Vec<TocEntry>,
    placed: Vec<bool>,
    strings: Vec<u8>,
    /// The end of the last chunk that has been placed.
    end: u64,
}

impl Layout {
    /// Creates a layout for chunks in TOC order. A control hash (IHSH) comes first in the file.
    pub(crate) fn new(uuid: [u8; 16], chunks: Vec<NewChunk>) -> Result<Self, WriteError> {
        let unfit = |part, found, max| WriteError::Unsupported {
            part: Part::new(part),
            fault: Fault::TooMuch { found, max },
        };
        if chunks.len() as u64 > MAX_ENTRY_COUNT {
            return Err(unfit("number of chunks", chunks.len() as u64, MAX_ENTRY_COUNT));
        }
        let names = chunks.iter().fold(7u64, |sum, chunk| sum.saturating_add(chunk.name.len() as u64 + 1));
        if names > MAX_STRING_TABLE {
            return Err(unfit("string table", names, MAX_STRING_TABLE));
        }
        let (mut strings, mut entries) = (Vec::new(), Vec::with_capacity(chunks.len()));
        for chunk in &chunks {
            if chunk.name.contains('\0') {
                return Err(chunk.unfit(Fault::Nul));
            }
            let len = chunk.name.len() as u64;
            if len > MAX_CHUNK_NAME {
                return Err(chunk.unfit(Fault::TooMuch { found: len, max: MAX_CHUNK_NAME }));
            }
            if chunk.fourcc.is_misnamed(&chunk.name) {
                return Err(chunk.unfit(Fault::ControlName(chunk.fourcc)));
            }
            if chunk.flags.is_compressed() && chunk.fourcc.is_never_compressed() {
                return Err(chunk.unfit(Fault::Compressed(chunk.fourcc)));
            }
            // The whole table has at most 2^29 bytes.
            let (offset, len) = (u32::try_from(strings.len()), u32::try_from(chunk.name.len()));
            entries.push(TocEntry {
                fourcc: chunk.fourcc,
                flags: chunk.flags,
                offset: 0,
                length: 0,
                ulen: 0,
                name_off: offset.unwrap_or(u32::MAX),
                name_len: len.unwrap_or(u32::MAX),
                reserved0: 0,
                blake3: [0; 32],
            });
            strings.extend(chunk.name.as_bytes());
            strings.push(0);
        }
        strings.resize(strings.len().next_multiple_of(8), 0);
        require_unique(&chunks)?;
        let placed = vec![false; chunks.len()];
        let mut layout = Self { uuid, chunks, entries, placed, strings, end: 0 };
        layout.end = layout.payloads_start();
        if let Some(ihsh) = layout.ihsh() {
            let payload = ControlHash::encode(layout.payloads_start(), &[0; 32]);
            layout.place(ihsh, payload.len() as u64, payload.len() as u64)?;
        }
        Ok(layout)
    }

    /// Returns the end of the string table, rounded up to a multiple of 16.
    pub(crate) fn payloads_start(&self) -> u64 {
        let strings_end = self.strings_at() + self.strings.len() as u64;
        align_up(strings_end, METADATA_ALIGNMENT).unwrap_or(strings_end)
    }

    /// Returns the offset of the string table. The TOC takes a multiple of 8 bytes, so this is a multiple of
    /// 8, as the specification requires.
    fn strings_at(&self) -> u64 {
        Header::LEN + self.toc_len()
    }

    fn toc_len(&self) -> u64 {
        TocHeader::LEN + TocEntry::LEN * self.entries.len() as u64
    }

    fn ihsh(&self) -> Option<usize> {
        self.chunks.iter().position(|chunk| chunk.fourcc == FourCC::IHSH)
    }

    pub(crate) fn chunk(&self, number: usize) -> Result<&NewChunk, WriteError> {
        let part = Part::entry("chunk", number as u64);
        self.chunks.get(number).ok_or(WriteError::Unsupported { part, fault: Fault::NoChunk })
    }

    /// Leaves bytes free before the next chunk that is placed.
    pub(crate) const fn skip(&mut self, nbytes: u64) {
        self.end = self.end.saturating_add(nbytes);
    }

    /// Gives a chunk the next place in the file and returns its offset.
    pub(crate) fn place(&mut self, number: usize, length: u64, ulen: u64) -> Result<u64, WriteError> {
        let chunk = self.chunk(number)?;
        let weights =
            chunk.fourcc == FourCC::WTSH || chunk.flags.contains(ChunkFlags::CHUNK_IS_MMAP_CRITICAL);
        if chunk.fourcc != FourCC::WTSH && ulen > MAX_METADATA_ULEN {
            return Err(chunk.unfit(Fault::TooMuch { found: ulen, max: MAX_METADATA_ULEN }));
        }
        if self.placed.get(number) == Some(&true) {
            return Err(chunk.unfit(Fault::ChunkUse("it has its place already")));
        }
        let alignment = if weights { WEIGHT_ALIGNMENT } else { METADATA_ALIGNMENT };
        let placed = align_up(self.end, alignment).and_then(|at| Some((at, at.checked_add(length)?)));
        let Some((offset, end)) = placed.filter(|&(_, end)| i64::try_from(end).is_ok()) else {
            return Err(chunk.unfit(Fault::TooMuch { found: length, max: i64::MAX as u64 }));
        };
        self.end = end;
        if let (Some(entry), Some(placed)) = (self.entries.get_mut(number), self.placed.get_mut(number)) {
            (entry.offset, entry.length, entry.ulen, *placed) = (offset, length, ulen, true);
        }
        Ok(offset)
    }

    pub(crate) fn offset(&self, number: usize) -> u64 {
        self.entries.get(number).map_or(0, |entry| entry.offset)
    }

    /// Returns the length of the file if no other chunk is placed.
    pub(crate) const fn end(&self) -> u64 {
        self.end
    }

    fn seal(&mut self, number: usize, hash: [u8; 32]) {
        if let Some(entry) = self.entries.get_mut(number) {
            entry.blake3 = hash;
        }
    }

    /// Encodes the header, the TOC, the string table and the padding before the first payload.
    fn encode(&self, hashes: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let header = Header {
            toc_offset: Header::LEN,
            toc_length: self.toc_len(),
            strings_offset: self.strings_at(),
            strings_length: self.strings.len() as u64,
            uuid: self.uuid,
            reserved_zero: true,
        };
        header.encode(&mut out);
        // At most MAX_ENTRY_COUNT.
        TocHeader::encode(u32::try_from(self.entries.len()).unwrap_or(u32::MAX), &mut out);
        for entry in &self.entries {
            let blake3 = if hashes { entry.blake3 } else { [0; 32] };
            TocEntry { blake3, ..*entry }.encode(&mut out);
        }
        out.extend(&self.strings);
        out.resize(usize::try_from(self.payloads_start()).unwrap_or(out.len()), 0);
        out
    }
}

/// Refuses two chunks with the same type and name, which a reader could not tell apart.
fn require_unique(chunks: &[NewChunk]) -> Result<(), WriteError> {
    let mut names: Vec<&NewChunk> = chunks.iter().collect();
    names.sort_unstable_by_key(|chunk| (chunk.fourcc, &chunk.name));
    let duplicate =
        names.iter().zip(names.iter().skip(1)).find(|(a, b)| a.fourcc == b.fourcc && a.name == b.name);
    if let Some((chunk, _)) = duplicate {
        return Err(chunk.unfit(Fault::DuplicateChunk(chunk.fourcc)));
    }
    let mut indexes = chunks.iter().filter(|chunk| chunk.fourcc == FourCC::TIDX);
    match (indexes.next(), indexes.next()) {
        (_, Some(second)) => Err(second.unfit(Fault::SecondIndex)),
        _ => Ok(()),
    }
}

/// The stored bytes of a chunk, with its TOC fields about the content.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ulen: u64,
    pub(crate) hash: [u8; 32],
}

impl Stored {
    /// Hashes the content, and compresses it if the chunk's flags say so.
    pub(crate) fn new(chunk: &NewChunk, content: Vec<u8>, level: i32) -> Result<Self, WriteError> {
        let (ulen, hash) = (content.len() as u64, *blake3::hash(&content).as_bytes());
        if chunk.fourcc != FourCC::WTSH && ulen > MAX_METADATA_ULEN {
            return Err(chunk.unfit(Fault::TooMuch { found: ulen, max: MAX_METADATA_ULEN }));
        }
        if !chunk.flags.is_compressed() {
            return Ok(Self { bytes: content, ulen, hash });
        }
        let bytes = compress::compress(&content, level).map_err(|fault| chunk.unfit(fault))?;
        // A chunk that readers refuse by default is not written.
        let stored = bytes.len() as u64;
        if ulen > stored.saturating_mul(1024).saturating_add(1 << 20) {
            return Err(chunk.unfit(Fault::Expansion { stored, ulen }));
        }
        Ok(Self { bytes, ulen, hash })
    }
}

/// Writes an AERO file chunk by chunk. List all chunks first, because the table of contents comes before
/// them. Then [`put`](Self::put) the content of each, and call [`finish`](Self::finish).
///
/// [`Plan`](crate::Plan) writes whole models, and adds chunks of your own with
/// [`WriteOptions::chunk`](crate::WriteOptions::chunk). Use this type for files that are not models.
///
/// ```
/// use aero::{ChunkFlags, ChunkWriter, FourCC, NewChunk, Reader, ReaderExt as _};
/// use modelfmt_write::MemoryFile;
///
/// let chunks = vec![
///     NewChunk::new(FourCC::IHSH, "ihsh").with_flags(ChunkFlags::CHUNK_IS_OPTIONAL), // the writer fills it in
///     NewChunk::new(FourCC(*b"VOCB"), "vocabulary"),
/// ];
/// let file = MemoryFile::new();
/// let mut writer = ChunkWriter::new(&file, [7; 16], chunks)?;
/// writer.put(1, b"a b c".to_vec())?;
/// writer.finish()?;
///
/// let reader = Reader::from_source(file.into_bytes())?;
/// assert_eq!(&*reader.chunk(FourCC(*b"VOCB"), "vocabulary")?, b"a b c");
/// # assert!(reader.verify(aero::VerifyLevel::Full).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ChunkWriter<'s> {
    sink: &'s dyn Sink,
    layout: Layout,
    sealed: Vec<bool>,
    level: i32,
    /// The end of the last byte that has been written.
    written: u64,
}

impl std::fmt::Debug for ChunkWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkWriter").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl<'s> ChunkWriter<'s> {
    /// Starts a file with these chunks, in TOC order. [`finish`](Self::finish) fills in a chunk of type IHSH.
    ///
    /// # Errors
    /// [`WriteError::Unsupported`] if there are more chunks or longer names than AERO allows, if two chunks
    /// have the same type and name, or if a chunk of a type that is never compressed is compressed.
    pub fn new(sink: &'s dyn Sink, uuid: [u8; 16], chunks: Vec<NewChunk>) -> Result<Self, WriteError> {
        Ok(Self::resume(sink, Layout::new(uuid, chunks)?, DEFAULT_LEVEL))
    }

    pub(crate) fn resume(sink: &'s dyn Sink, layout: Layout, level: i32) -> Self {
        let sealed = vec![false; layout.chunks.len()];
        Self { sink, layout, sealed, level, written: 0 }
    }

    /// Sets the zstd level for the chunks that follow; 3 by default.
    #[must_use]
    pub const fn level(mut self, level: i32) -> Self {
        self.level = level;
        self
    }

    /// Hashes the content of a chunk, compresses it if the chunk's flags say so, and writes it at the next
    /// free place. Chunks are counted from 0.
    ///
    /// # Errors
    /// [`WriteError::Unsupported`] if the content is too long or cannot be compressed by this build, or if
    /// the chunk was placed before; [`WriteError::Write`].
    pub fn put(&mut self, chunk: usize, content: impl Into<Vec<u8>>) -> Result<(), WriteError> {
        let stored = Stored::new(self.layout.chunk(chunk)?, content.into(), self.level)?;
        self.layout.place(chunk, stored.bytes.len() as u64, stored.ulen)?;
        self.put_placed(chunk, &stored)
    }

    /// Reserves the next place in the file for an uncompressed chunk of `len` bytes and returns its offset: a
    /// multiple of 64 for shards and for chunks that should be mapped, otherwise of 16. Write the bytes to
    /// the sink, then call [`seal`](Self::seal).
    ///
    /// # Errors
    /// [`WriteError::Unsupported`] if the chunk is compressed, too long, or was placed before.
    pub fn place(&mut self, chunk: usize, len: u64) -> Result<u64, WriteError> {
        let new = self.layout.chunk(chunk)?;
        if new.flags.is_compressed() {
            return Err(new.unfit(Fault::ChunkUse("the place of a compressed chunk cannot be reserved")));
        }
        self.layout.place(chunk, len, len)
    }

    /// Sets the hash of a chunk whose place was reserved. Call this after writing its bytes.
    ///
    /// # Errors
    /// [`WriteError::Unsupported`] if the chunk has no place yet.
    pub fn seal(&mut self, chunk: usize, blake3: [u8; 32]) -> Result<(), WriteError> {
        if self.layout.placed.get(chunk) != Some(&true) {
            return Err(self.layout.chunk(chunk)?.unfit(Fault::ChunkUse("it has no place yet")));
        }
        if let Some(entry) = self.layout.entries.get(chunk).filter(|entry| entry.length > 0) {
            self.written = self.written.max(entry.offset.saturating_add(entry.length));
        }
        self.layout.seal(chunk, blake3);
        if let Some(sealed) = self.sealed.get_mut(chunk) {
            *sealed = true;
        }
        Ok(())
    }

    /// Writes the bytes of a chunk that has been placed.
    pub(crate) fn put_placed(&mut self, chunk: usize, stored: &Stored) -> Result<(), WriteError> {
        self.write(self.layout.offset(chunk), &stored.bytes)?;
        self.seal(chunk, stored.hash)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        let failed = |source| WriteError::Write { path: self.sink.name(), source };
        self.sink.write_at(offset, bytes).map_err(failed)
    }

    /// Writes the control hash, if there is one, the names, the TOC and the header. Returns the length of the
    /// file.
    ///
    /// # Errors
    /// [`WriteError::Unsupported`] if a chunk has no content yet; [`WriteError::Write`].
    pub fn finish(mut self) -> Result<u64, WriteError> {
        if let Some(ihsh) = self.layout.ihsh() {
            let digest = blake3::hash(&self.layout.encode(false));
            let payload = ControlHash::encode(self.layout.payloads_start(), digest.as_bytes());
            let hash = *blake3::hash(&payload).as_bytes();
            self.put_placed(ihsh, &Stored { ulen: payload.len() as u64, bytes: payload, hash })?;
        }
        if let Some(open) = self.sealed.iter().position(|sealed| !sealed) {
            return Err(self.layout.chunk(open)?.unfit(Fault::ChunkUse("it has no content yet")));
        }
        let control = self.layout.encode(true);
        self.write(0, &control)?;
        // An empty chunk at the end may begin after the last byte that was written.
        let end = self.layout.end();
        if end > self.written.max(control.len() as u64) {
            self.write(end.saturating_sub(1), &[0])?;
        }
        Ok(end)
    }
}

/// The default zstd level.
pub(crate) const DEFAULT_LEVEL: i32 = 3;
