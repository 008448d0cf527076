//! Bytes to an [`Index`], without I/O.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::{
    Limits, Part,
    author::{Cursor, Extent, Parser},
};

use crate::error::{Error, Fault, Result, malformed};
use crate::index::{Head, Index, Tensors};
use crate::metadata::Metadata;
use crate::payload::Image;
use crate::wire::{Flags, HEADER_LEN, Header};

/// What is asked for first: most metadata and indexes fit, and a small file is read at once.
const FIRST: u64 = 32 << 10;
/// Sections that are nearer to each other than this are asked for together.
const NEAR: u64 = 16 << 10;

/// Parses header, metadata and index of an APR file; see [`Parser`].
#[derive(Debug)]
pub struct IndexParser {
    file_len: u64,
    limits: Limits,
    require_checksum: bool,
    /// The header's bytes, once they are there.
    header: Vec<u8>,
    state: State,
}

/// What has been read.
#[derive(Debug)]
enum State {
    /// Nothing.
    Start,
    /// The header.
    Head(Header, Head),
    /// Metadata.
    Metadata(Header, Head, Metadata),
    /// The header, and that the content does not parse as it is, while a flag says that it is compressed.
    Compressed(Header),
    /// All.
    Done(Box<Index>),
}

impl IndexParser {
    /// A parser for a file of that length. Without `require_checksum` a header that does not match its own checksum is read
    /// anyway.
    #[must_use]
    pub const fn new(file_len: u64, limits: Limits, require_checksum: bool) -> Self {
        Self { file_len, limits, require_checksum, header: Vec::new(), state: State::Start }
    }

    /// Steps on for as long as the bytes, which begin at byte `start` of the file, hold what the next step wants.
    fn advance(&mut self, bytes: &[u8], start: u64) -> Result<()> {
        let end = start.saturating_add(bytes.len() as u64);
        while let Some((least, _)) = self.wants() {
            if least.start < start || least.end > end {
                break;
            }
            let (skip, len) =
                (cut(least.start.saturating_sub(start)), cut(least.end.saturating_sub(least.start)));
            let exact = bytes.get(skip..).and_then(|rest| rest.get(..len)).unwrap_or_default();
            self.step(exact, least.start)?;
        }
        Ok(())
    }

    /// Takes exactly the bytes of what `wants` calls the least.
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
        self.state = next.or_else(|error| otherwise(header, self.file_len, error))?;
        Ok(())
    }

    fn metadata(&self, header: Header, head: Head, bytes: &[u8]) -> Result<State> {
        let metadata = Metadata::parse(bytes, head.metadata.offset(), &self.limits)?;
        if head.index.is_empty() {
            // There is nothing to ask for.
            return index((header, head, self.file_len), metadata, &[], &self.limits, None);
        }
        Ok(State::Metadata(header, head, metadata))
    }

    /// The index of what the content expands to.
    fn expand(&self, header: Header, content: &[u8]) -> Result<State> {
        let image = Image::expand(&self.header, content, header.flags, &self.limits)?;
        let bytes = image.bytes();
        let part = |extent: Extent| {
            bytes
                .get(cut(extent.offset())..)
                .and_then(|rest| rest.get(..cut(extent.len())))
                .unwrap_or_default()
        };
        let head = Head::new(&header, bytes.len() as u64, &self.limits)?;
        let metadata = Metadata::parse(part(head.metadata), head.metadata.offset(), &self.limits)?;
        let entries = part(head.index);
        let tensors = Tensors::parse(entries, &header, &head, &self.limits)?;
        Ok(State::Done(Box::new(Index::new((header, head, self.file_len), metadata, tensors, Some(image))?)))
    }

    /// The least that the next step has to see, and the end of what is better read together with it.
    fn wants(&self) -> Option<(Range<u64>, u64)> {
        let alone = |range: Range<u64>| Some((range.clone(), range.end));
        match &self.state {
            State::Start => {
                let least = HEADER_LEN.min(self.file_len);
                (least > 0).then_some((0..least, FIRST.min(self.file_len)))
            }
            State::Head(_, Head { metadata, index, .. }) => {
                let near = index.offset().saturating_sub(metadata.end()) <= NEAR;
                Some((metadata.range(), if near { index.end() } else { metadata.end() }))
            }
            State::Metadata(_, head, _) => alone(head.index.range()),
            State::Compressed(_) => alone(HEADER_LEN..self.file_len),
            State::Done(_) => None,
        }
    }
}

/// The state after an index that has been read.
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

/// What to do where content does not parse as it is: it may be compressed, if a flag says so
/// (docs/formats/apr.md#compressed-content).
fn otherwise(header: Header, file_len: u64, error: Error) -> Result<State> {
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

/// A length that is cut to what this machine can address; slicing finds out.
fn cut(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
