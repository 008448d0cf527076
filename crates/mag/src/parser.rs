//! Parses bytes into an [`Index`], without I/O: detects the version of a file and calls the parser of that
//! version.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

#[cfg(not(feature = "v0_3"))]
use modelfmt_core::Part;
use modelfmt_core::{Limits, author::Cursor};

#[cfg(not(feature = "v0_3"))]
use crate::error::Error;
use crate::error::{Fault, Result};
use crate::index::Index;
#[cfg(feature = "v0_3")]
use crate::v0_3;
use crate::version::Version;
use crate::{v0_1, v1};

/// Parses an [`Index`] from the byte ranges that it asks for; see [`Parser`](modelfmt_core::author::Parser).
#[derive(Debug)]
pub struct IndexParser {
    limits: Limits,
    require_checksum: bool,
    file_len: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The version is not known yet.
    Begin,
    V1(v1::Parser),
    V0_1(v0_1::Parser),
    #[cfg(feature = "v0_3")]
    V0_3(v0_3::Parser),
}

impl IndexParser {
    /// Creates a parser for a file of `file_len` bytes. Without `require_checksum`, a file whose checksum
    /// does not match is accepted.
    #[must_use]
    pub const fn new(file_len: u64, limits: Limits, require_checksum: bool) -> Self {
        Self { limits, require_checksum, file_len, state: State::Begin }
    }

    fn begin(&self, bytes: &[u8]) -> Result<State> {
        let (len, limits, require) = (self.file_len, self.limits.clone(), self.require_checksum);
        let version = Version::decode(&mut Cursor::new(bytes, 0))?;
        Ok(match version {
            Version::V1 => State::V1(v1::Parser::new(len, limits, require)),
            Version::V0_1 | Version::V0_2 => State::V0_1(v0_1::Parser::new(len, limits, require)),
            #[cfg(feature = "v0_3")]
            Version::V0_3 => State::V0_3(v0_3::Parser::new(len, limits)),
            #[cfg(not(feature = "v0_3"))]
            Version::V0_3 => {
                let part = Part::new("header").with_field("version");
                return Err(Error::Malformed { part, at: 4, fault: Fault::WithoutV0_3 });
            }
        })
    }
}

impl modelfmt_core::author::Parser for IndexParser {
    type Index = Index;
    type Fault = Fault;

    fn need(&self) -> Option<Range<u64>> {
        match &self.state {
            // There is nothing to read in an empty file; `finish` reports the error.
            State::Begin => Some(0..self.file_len.min(v1::WINDOW)).filter(|range| !range.is_empty()),
            State::V1(parser) => parser.need(),
            State::V0_1(parser) => parser.need(),
            #[cfg(feature = "v0_3")]
            State::V0_3(parser) => parser.need(),
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        if matches!(self.state, State::Begin) {
            self.state = self.begin(bytes)?;
        }
        match &mut self.state {
            State::Begin => Ok(()),
            State::V1(parser) => parser.feed(bytes),
            State::V0_1(parser) => parser.feed(bytes),
            #[cfg(feature = "v0_3")]
            State::V0_3(parser) => parser.feed(bytes),
        }
    }

    fn finish(self) -> Result<Index> {
        match self.state {
            State::Begin => v1::Parser::new(self.file_len, self.limits, self.require_checksum).finish(),
            State::V1(parser) => parser.finish(),
            State::V0_1(parser) => parser.finish(),
            #[cfg(feature = "v0_3")]
            State::V0_3(parser) => parser.finish(),
        }
    }
}
