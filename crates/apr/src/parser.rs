//! Parses bytes into an [`Index`], without I/O.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::{
    Limits, Part,
    author::{Cursor, Extent, Parser, to_usize_saturating},
};

use crate::error::{Error, Fault, Result, malformed};
use crate::index::{Head, Index, Tensors};
use crate::metadata::Metadata;
use crate::payload::Image;
use crate::wire::{Flags, HEADER_LEN, Header};

/// The number of bytes to request first. Most metadata and indexes fit, and a small file takes a single read.
const FIRST_READ: u64 = 32 << 10;
/// Sections that are less than this apart are read together.
const MERGE_GAP: u64 = 16 << 10;

/// Parses an [`Index`] from the byte ranges that it asks for; see [`Parser`].
///
/// It asks for the header, the metadata and the tensor index.
#[derive(Debug)]
pub struct IndexParser {
    file_len: u64,
    limits: Limits,
    require_checksum: bool,
    /// The header's bytes, once they have been read.
    header: Vec<u8>,
    state: State,
}

/// The parts that have been read so far.
#[derive(Debug)]
enum State {
    /// Nothing yet.
    Start,
    /// The header.
    Head(Header, Head),
    /// The header and the metadata.
    Metadata(Header, Head, Metadata),
    /// The header of a file that has a flag for compression, and whose content does not parse as
    /// uncompressed.
    Compressed(Header),
    /// Everything.
    Done(Box<Index>),
}

impl IndexParser {
    /// Creates a parser for a file of `file_len` bytes. Without `require_checksum`, a header that does not
    /// match its checksum is accepted.
    #[must_use]
    pub const fn new(file_len: u64, limits: Limits, require_checksum: bool) -> Self {
        Self { file_len, limits, require_checksum, header: Vec::new(), state: State::Start }
    }

    /// Takes steps as long as `bytes` contain what the next step needs. `bytes` begin at byte `start` of the
    /// file.
    fn advance(&mut self, bytes: &[u8], start: u64) -> Result<()> {
        let end = start.saturating_add(bytes.len() as u64);
        while let Some((least, _)) = self.wants() {
            if least.start < start || least.end > end {
                break;
            }
            let (skip, len) = (
                to_usize_saturating(least.start.saturating_sub(start)),
                to_usize_saturating(least.end.saturating_sub(least.start)),
            );
            let exact = bytes.get(skip..).and_then(|rest| rest.get(..len)).unwrap_or_default();
            self.step(exact, least.start)?;
        }
        Ok(())
    }

    /// Takes one step. `bytes` is exactly the first range that `wants` returned.
    fn step(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        let state = std::mem::replace(&mut self.state, State::Start);
        let (header, next) = match state {
            State::Start => {
                let header = Header::decode(&mut Cursor::new(bytes, at), self.require_checksum)?;
                self.header = bytes.to_vec();
                let head = Head::new(&header, self.file_len, &self.limits);
                (header, head.map(|head| State::Head(header, head)))
            }
            State::Head(header, head) => (header, self.metadata(header, head, bytes)),
            State::Metadata(header, head, metadata) => {
                let parts = (header, head, self.file_len);
                (header, index(parts, metadata, bytes, &self.limits, None))
            }
            State::Compressed(header) => {
                self.state = self.expand(header, bytes)?;
                return Ok(());
            }
            done @ State::Done(_) => {
                self.state = done;
                return Ok(());
            }
        };
        self.state = next.or_else(|error| try_compressed(header, self.file_len, error))?;
        Ok(())
    }

    fn metadata(&self, header: Header, head: Head, bytes: &[u8]) -> Result<State> {
        let metadata = Metadata::parse(bytes, head.metadata.offset(), &self.limits)?;
        if head.index.is_empty() {
            // The index is empty, so no bytes have to be read.
            return index((header, head, self.file_len), metadata, &[], &self.limits, None);
        }
        Ok(State::Metadata(header, head, metadata))
    }

    /// Parses the index of the decompressed content.
    fn expand(&self, header: Header, content: &[u8]) -> Result<State> {
        let image = Image::expand(&self.header, content, header.flags, &self.limits)?;
        let bytes = image.bytes();
        let part = |extent: Extent| {
            bytes
                .get(to_usize_saturating(extent.offset())..)
                .and_then(|rest| rest.get(..to_usize_saturating(extent.len())))
                .unwrap_or_default()
        };
        let head = Head::new(&header, bytes.len() as u64, &self.limits)?;
        let metadata = Metadata::parse(part(head.metadata), head.metadata.offset(), &self.limits)?;
        let entries = part(head.index);
        let tensors = Tensors::parse(entries, &header, &head, &self.limits)?;
        Ok(State::Done(Box::new(Index::new((header, head, self.file_len), metadata, tensors, Some(image))?)))
    }

    /// Returns the range that the next step needs, and the end of a longer range that is worth reading with
    /// it.
    fn wants(&self) -> Option<(Range<u64>, u64)> {
        let alone = |range: Range<u64>| Some((range.clone(), range.end));
        match &self.state {
            State::Start => {
                let least = HEADER_LEN.min(self.file_len);
                (least > 0).then_some((0..least, FIRST_READ.min(self.file_len)))
            }
            State::Head(_, Head { metadata, index, .. }) => {
                let near = index.offset().saturating_sub(metadata.end()) <= MERGE_GAP;
                Some((metadata.range(), if near { index.end() } else { metadata.end() }))
            }
            State::Metadata(_, head, _) => alone(head.index.range()),
            State::Compressed(_) => alone(HEADER_LEN..self.file_len),
            State::Done(_) => None,
        }
    }
}

/// Returns the state after the tensor index has been read.
fn index(
    parts: (Header, Head, u64),
    metadata: Metadata,
    bytes: &[u8],
    limits: &Limits,
    image: Option<Image>,
) -> Result<State> {
    let tensors = Tensors::parse(bytes, &parts.0, &parts.1, limits)?;
    Ok(State::Done(Box::new(Index::new(parts, metadata, tensors, image)?)))
}

/// Returns the next state when the content does not parse: it may be compressed if a flag says so
/// (docs/formats/apr.md#compressed-content).
fn try_compressed(header: Header, file_len: u64, error: Error) -> Result<State> {
    let is_of_file = matches!(error, Error::Malformed { .. } | Error::Truncated { .. });
    let is_compressed = header.flags.contains(Flags::LZ4) || header.flags.contains(Flags::ZSTD);
    if is_of_file && is_compressed && file_len > HEADER_LEN {
        Ok(State::Compressed(header))
    } else if is_of_file && header.flags.contains(Flags::ENCRYPTED) {
        Err(malformed(Part::new("header").with_field("flags"), 6, Fault::Encrypted))
    } else {
        Err(error)
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
        self.advance(bytes, start)
    }

    fn finish(self) -> Result<Index> {
        match self.state {
            State::Done(index) => Ok(*index),
            _ => Err(Error::Truncated {
                part: Part::new("header"),
                at: 0,
                need: HEADER_LEN,
                have: self.file_len.min(HEADER_LEN),
            }),
        }
    }
}
