//! Parses bytes into an [`Index`], without I/O.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::{
    Limits, Part,
    author::{Cursor, Extent, Parser, to_usize_saturating},
};

use crate::apr1;
use crate::error::{Error, Fault, Result, malformed};
use crate::index::{Generation, Head, Index, Sealing, Sections, Tensors};
use crate::metadata::Metadata;
use crate::wire::{self, FOOTER_LEN, Flags, Footer, HEADER_LEN, Header};

/// The number of bytes to request first. Most metadata and indexes fit, and a small file takes a single read.
const FIRST_READ: u64 = 32 << 10;
/// Sections that are less than this apart are read together.
const MERGE_GAP: u64 = 16 << 10;

/// Parses an [`Index`] from the byte ranges that it asks for; see [`Parser`].
///
/// It asks for the header, the footer, the metadata and the tensor index of an APR2 or APR1 file.
#[derive(Debug)]
pub struct IndexParser {
    file_len: u64,
    limits: Limits,
    state: State,
    metadata: Option<Metadata>,
    tensors: Option<Tensors>,
    /// The first bytes of the file, if they contain both sections and the footer has not been read yet.
    stash: Vec<u8>,
}

/// The parts that have been read so far.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing yet.
    Start,
    /// The header of an APR2 file.
    Header(Head),
    /// The header and the footer of an APR2 file.
    Footer(Head),
    /// The first eight bytes of an APR1 file, which determine the extent of its metadata.
    Apr1(Extent),
    /// Everything up to the metadata.
    Metadata(Head),
    /// Everything, including the index.
    Index(Head),
}

impl IndexParser {
    /// Creates a parser for a file of `file_len` bytes.
    #[must_use]
    pub fn new(file_len: u64, limits: Limits) -> Self {
        Self { file_len, limits, state: State::Start, metadata: None, tensors: None, stash: Vec::new() }
    }

    /// Takes steps as long as `bytes` contain what the next step needs. `bytes` begin at byte `start` of the
    /// file.
    fn advance(&mut self, bytes: &[u8], start: u64) -> Result<()> {
        let end = start.saturating_add(bytes.len() as u64);
        while let Some((least, _)) = self.wants() {
            if least.start < start || least.end > end {
                break;
            }
            let (skip, len) = (least.start.saturating_sub(start), least.end.saturating_sub(least.start));
            let exact = bytes
                .get(to_usize_saturating(skip)..)
                .and_then(|rest| rest.get(..to_usize_saturating(len)))
                .unwrap_or_default();
            self.step(exact, least.start)?;
        }
        Ok(())
    }

    /// Takes one step. `bytes` is exactly the first range that `wants` returned.
    fn step(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        self.state = match self.state {
            State::Start => self.start(bytes)?,
            State::Header(head) => {
                Footer::decode(&mut Cursor::new(bytes, at), self.file_len)?;
                State::Footer(head)
            }
            State::Footer(head) => {
                let sections = &head.sections;
                self.metadata =
                    Some(Metadata::parse(part(bytes, at, sections.metadata), HEADER_LEN, &self.limits)?);
                // The bytes that were read may also contain the index. `feed` then takes the next step with
                // them.
                State::Metadata(head)
            }
            State::Apr1(metadata) => {
                let text = part(bytes, at, metadata);
                self.metadata = Some(Metadata::parse(text, metadata.offset(), &self.limits)?);
                let counts = bytes.get(text.len()..).unwrap_or_default();
                State::Metadata(apr1::head(metadata, counts, self.file_len, &self.limits)?)
            }
            State::Metadata(head) => {
                self.tensors = Some(match head.generation {
                    Generation::Apr2 => Tensors::parse(bytes, &head.sections, Sealing::None, &self.limits)?,
                    Generation::Apr1 => apr1::tensors(bytes, &head, &self.limits)?,
                });
                State::Index(head)
            }
            State::Index(head) => State::Index(head),
        };
        Ok(())
    }

    fn start(&mut self, bytes: &[u8]) -> Result<State> {
        match magic(bytes, self.file_len)? {
            Generation::Apr1 => Ok(State::Apr1(apr1::metadata_extent(bytes, self.file_len, &self.limits)?)),
            Generation::Apr2 => {
                Ok(State::Header(head(bytes, self.file_len, &self.limits, Flags::not_encrypted)?))
            }
        }
    }

    /// Returns the range that the next step needs, and the end of a longer range that is worth reading with
    /// it.
    fn wants(&self) -> Option<(Range<u64>, u64)> {
        let alone = |range: Range<u64>| Some((range.clone(), range.end));
        match self.state {
            State::Start => {
                let least = HEADER_LEN.min(self.file_len);
                (least > 0).then_some((0..least, FIRST_READ.min(self.file_len)))
            }
            State::Header(_) => alone(self.file_len.saturating_sub(FOOTER_LEN)..self.file_len), // `head` has checked the length
            State::Footer(head) => {
                let Sections { metadata, index, .. } = head.sections;
                let near = index.offset().saturating_sub(metadata.end()) <= MERGE_GAP;
                Some((metadata.range(), if near { index.end() } else { metadata.end() }))
            }
            State::Apr1(metadata) => {
                alone(metadata.offset()..metadata.end().saturating_add(apr1::COUNTS_LEN))
            }
            State::Metadata(head) => alone(head.sections.index.range()),
            State::Index(_) => None,
        }
    }
}

impl IndexParser {
    /// Takes steps with the first bytes of the file, which were read before the footer.
    fn replay(&mut self) -> Result<()> {
        let stash = std::mem::take(&mut self.stash);
        self.advance(&stash, 0)
    }
}

impl Parser for IndexParser {
    type Index = Index;
    type Fault = Fault;

    fn need(&self) -> Option<Range<u64>> {
        let (least, better) = self.wants()?;
        Some(least.start..better)
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(Range { start, .. }) = self.need() else { return Ok(()) };
        self.advance(bytes, start)?;
        match self.state {
            State::Header(Head { sections, .. }) if start == 0 => {
                // The stash stays empty if the index does not end within these bytes.
                self.stash =
                    bytes.get(..to_usize_saturating(sections.index.end())).unwrap_or_default().to_vec();
            }
            State::Footer(_) if !self.stash.is_empty() => self.replay()?,
            _ => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<Index> {
        match (self.state, self.metadata, self.tensors) {
            (State::Index(head), Some(metadata), Some(tensors)) => Ok(Index {
                generation: head.generation,
                version: head.version,
                flags: head.flags,
                sections: head.sections,
                file_len: self.file_len,
                metadata,
                tensors,
            }),
            _ => Err(too_short(self.file_len)),
        }
    }
}

/// The parts at the front of an APR2 file. The caller has gathered them and decides whether to trust them.
#[derive(Clone, Copy, Debug)]
pub struct Front<'a> {
    /// The content of the header, or a replacement for it.
    pub head: Head,
    /// The text of the metadata.
    pub metadata: &'a [u8],
    /// The index section.
    pub index: &'a [u8],
    /// How the stored bytes of the tensors are sealed.
    pub sealing: Sealing,
    /// The length of the file.
    pub file_len: u64,
}

impl Front<'_> {
    /// Makes the index of the file, with the same checks as for any other file.
    ///
    /// # Errors
    /// If the metadata or the index breaks a rule.
    pub fn parse(&self, limits: &Limits) -> Result<Index> {
        let Head { generation, version, flags, sections, .. } = self.head;
        let metadata = Metadata::parse(self.metadata, HEADER_LEN, limits)?;
        let tensors = Tensors::parse(self.index, &sections, self.sealing, limits)?;
        Ok(Index { generation, version, flags, sections, file_len: self.file_len, metadata, tensors })
    }
}

/// Returns the bytes of `extent` from bytes that begin at `at` in the file, or nothing if they do not contain
/// the extent.
fn part(bytes: &[u8], at: u64, extent: Extent) -> &[u8] {
    let skip = extent.offset().checked_sub(at).map_or(usize::MAX, to_usize_saturating);
    bytes.get(skip..).and_then(|rest| rest.get(..to_usize_saturating(extent.len()))).unwrap_or_default()
}

/// Returns the error for a file that is too short for its sections.
pub fn too_short(have: u64) -> Error {
    let need = HEADER_LEN + wire::INDEX_HEADER_LEN + FOOTER_LEN;
    Error::Truncated { part: Part::new("file"), at: 0, need, have }
}

/// Detects the generation from the first four bytes.
fn magic(bytes: &[u8], file_len: u64) -> Result<Generation> {
    let Some(&magic) = bytes.first_chunk() else { return Err(too_short(file_len)) };
    match magic {
        wire::MAGIC => Ok(Generation::Apr2),
        wire::MAGIC_APR1 => Ok(Generation::Apr1),
        other => Err(malformed(Part::new("header").with_field("magic"), 0, Fault::Magic(other))),
    }
}

/// Decodes the header of an APR2 file, which may be encrypted, from its first bytes. Returns `None` for APR1.
///
/// # Errors
/// If the file is of neither generation, or the header breaks a rule.
pub fn begin(bytes: &[u8], file_len: u64, limits: &Limits) -> Result<Option<Head>> {
    Ok(match magic(bytes, file_len)? {
        Generation::Apr1 => None,
        Generation::Apr2 => Some(head(bytes, file_len, limits, Flags::from_file)?),
    })
}

/// Decodes the header of an APR2 file and checks its sections. `known` accepts the flags that the caller
/// supports.
fn head(
    bytes: &[u8],
    file_len: u64,
    limits: &Limits,
    known: fn(u32) -> Result<Flags, Fault>,
) -> Result<Head> {
    let header = Header::decode(&mut Cursor::new(bytes, 0), known)?;
    let Some(end) = file_len.checked_sub(FOOTER_LEN).filter(|&end| end >= HEADER_LEN) else {
        return Err(too_short(file_len));
    };
    Ok(Head {
        generation: Generation::Apr2,
        version: (header.version_major, header.version_minor),
        flags: header.flags,
        sections: sections(&header, end, limits)?,
        tensor_count: None,
    })
}

/// Checks that the metadata at byte 32, the index, and the data at a multiple of 64 follow each other without
/// overlap (docs/formats/apr2.md#sections).
fn sections(header: &Header, end: u64, limits: &Limits) -> Result<Sections> {
    let at =
        |field, offset| move |fault: Fault| malformed(Part::new("header").with_field(field), offset, fault);
    let bounds = |field, offset, start: u32, len: u64| {
        Extent::new(start.into(), len, end).map_err(|fault| at(field, offset)(fault.into()))
    };
    let follows = |field, offset, found: u32, end: u64| {
        let found = u64::from(found);
        if found < end { Err(at(field, offset)(Fault::SectionOrder { found, end })) } else { Ok(()) }
    };
    if u64::from(header.metadata_offset) != HEADER_LEN {
        return Err(at("metadata_offset", 12)(Fault::MetadataOffset(header.metadata_offset.into())));
    }
    let metadata = bounds("metadata_size", 16, header.metadata_offset, header.metadata_size.into())?;
    follows("index_offset", 20, header.index_offset, metadata.end())?;
    let index = bounds("index_size", 24, header.index_offset, header.index_size.into())?;
    follows("data_offset", 28, header.data_offset, index.end())?;
    let data_offset = u64::from(header.data_offset);
    if !data_offset.is_multiple_of(wire::DATA_ALIGNMENT) {
        return Err(at("data_offset", 28)(Fault::DataAlignment(data_offset)));
    }
    let data = bounds("data_offset", 28, header.data_offset, end.saturating_sub(data_offset))?;
    Limits::check("the length of the metadata", metadata.len(), limits.metadata_len)?;
    Limits::check("the length of the index", index.len(), limits.index_len)?;
    // Neither section is empty in a valid file: JSON has at least two bytes, and the index has a header.
    if metadata.is_empty() {
        let fault = modelfmt_core::CommonFault::Metadata("expected a JSON object, found nothing".to_owned());
        return Err(malformed(Part::new("metadata"), metadata.offset(), fault));
    }
    if index.is_empty() {
        let (at, need) = (index.offset(), wire::INDEX_HEADER_LEN);
        return Err(Error::Truncated { part: Part::new("tensor index"), at, need, have: 0 });
    }
    Ok(Sections { metadata, index, data })
}
