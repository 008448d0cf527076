//! Version 0.3.0: parses the header and the manifest into an [`Index`].
//!
//! ```text
//! ┌──────────────────────────────┐ 0
//! │ header (44 bytes)            │ magic, version, aux, where manifest and values are
//! ├──────────────────────────────┤ 44
//! │ manifest                     │ JSON: metadata, and dtype, shape and place of each tensor
//! ├──────────────────────────────┤ zeros to a multiple of 4,096
//! │ values of tensor 0           │
//! ├──────────────────────────────┤ zeros to a multiple of 4,096
//! │ …                            │
//! └──────────────────────────────┘
//! ```
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod encode;
mod json;
pub(crate) mod wire;

pub(crate) use encode::encode;

use std::ops::Range;

use modelfmt_core::{Limits, Part, author::Cursor};

use crate::error::{Error, Result};
use crate::index::Index;
use crate::metadata::Numbers;
use crate::v1::WINDOW;
use crate::version::Version;
use wire::{HEADER_LEN, Header};

/// Parses an [`Index`] from the byte ranges that it asks for.
#[derive(Debug)]
pub(crate) struct Parser {
    limits: Limits,
    file_len: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Begin,
    /// The manifest continues after the bytes that came with the header.
    Manifest(Header),
    Done(Box<Index>),
}

impl Parser {
    pub(crate) const fn new(file_len: u64, limits: Limits) -> Self {
        Self { limits, file_len, state: State::Begin }
    }

    /// Returns the range of bytes that is needed next; see [`modelfmt_core::author::Parser`].
    pub(crate) fn need(&self) -> Option<Range<u64>> {
        match &self.state {
            State::Begin => Some(0..self.file_len.min(WINDOW)).filter(|range| !range.is_empty()),
            State::Manifest(header) => Some(header.manifest.range()),
            State::Done(_) => None,
        }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        self.state = match self.state {
            State::Begin => {
                let header = Header::decode(&mut Cursor::new(bytes, 0), self.file_len, &self.limits)?;
                match usize::try_from(header.manifest.offset()).ok().and_then(|at| bytes.get(at..)) {
                    Some(rest) if rest.len() as u64 >= header.manifest.len() => self.index(header, rest)?,
                    _ if header.manifest.is_empty() => self.index(header, &[])?,
                    _ => State::Manifest(header),
                }
            }
            State::Manifest(header) => self.index(header, bytes)?,
            State::Done(_) => return Ok(()),
        };
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Index> {
        match self.state {
            State::Done(index) => Ok(*index),
            State::Begin | State::Manifest(_) => {
                let part = Part::new("header");
                Err(Error::Truncated { part, at: 0, need: HEADER_LEN, have: self.file_len })
            }
        }
    }

    /// Makes the index from the header and the bytes from the manifest on.
    fn index(&self, header: Header, rest: &[u8]) -> Result<State> {
        let Header { is_big_endian, manifest: place, values } = header;
        let mut c = Cursor::new(rest, place.offset());
        c.record("manifest", None);
        let text = c.bytes(place.len(), "JSON")?;
        let (tensors, manifest) = json::parse(text, place.offset(), values, &self.limits)?;
        Ok(State::Done(Box::new(Index {
            version: Version::V0_3,
            tensors,
            numbers: Numbers::default(),
            manifest: Some(Box::new(manifest)),
            checksum: None,
            checksum_fault: None,
            index_end: place.end(),
            data: values,
            is_big_endian,
            file_len: self.file_len,
        })))
    }
}
