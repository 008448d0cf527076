//! Parses bytes into an [`Index`], without I/O: detects the form of a file, and then reads that form.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod archive;
mod stream;

use std::ops::Range;

use modelfmt_arrays::zip::DirectoryParser;
use modelfmt_arrays::{Arrays, NewArray};
use modelfmt_core::author::Parser;
use modelfmt_core::{Limits, Part};

use self::archive::Archive;
use self::stream::Stream;
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Fault, Result};
use crate::index::{Form, Index};
use crate::pickle::Stop;

/// The part of a checkpoint that is the model, as an
/// [extension](modelfmt_core::author::OpenSettings::with_extension) of the options. It is a name with dots
/// between levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(pub String);

/// The number of bytes that determine the form.
const SNIFF_LEN: u64 = 4;

/// The settings for all forms.
#[derive(Clone, Debug)]
struct Context {
    limits: Limits,
    file_len: u64,
    root: Option<String>,
}

/// Parses an [`Index`] from the byte ranges that it asks for; see [`Parser`].
#[derive(Debug)]
pub struct IndexParser {
    context: Context,
    state: State,
}

#[derive(Debug)]
enum State {
    Front,
    Directory(DirectoryParser),
    Archive(Box<Archive>),
    Stream(Box<Stream>),
}

impl IndexParser {
    /// Creates a parser for a file of `file_len` bytes. With a `root`, only that part of the checkpoint is
    /// the model.
    #[must_use]
    pub const fn new(file_len: u64, limits: Limits, root: Option<String>) -> Self {
        Self { context: Context { limits, file_len, root }, state: State::Front }
    }
}

impl Parser for IndexParser {
    type Index = Index;
    type Fault = Fault;

    fn need(&self) -> Option<Range<u64>> {
        match &self.state {
            State::Front if self.context.file_len == 0 => None,
            State::Front => Some(0..self.context.file_len.min(SNIFF_LEN)),
            State::Directory(parser) => parser.need(),
            State::Archive(archive) => archive.need(),
            State::Stream(stream) => stream.need(),
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let context = &self.context;
        match &mut self.state {
            State::Front if bytes.starts_with(b"PK") => {
                let parser = DirectoryParser::new(context.file_len, context.limits.clone());
                self.state = State::Directory(parser);
            }
            State::Front => self.state = State::Stream(Box::new(Stream::new(context.clone()))),
            State::Directory(parser) => {
                parser.feed::<Fault>(bytes)?;
                if parser.need().is_none()
                    && let State::Directory(parser) = std::mem::replace(&mut self.state, State::Front)
                {
                    let archive = Archive::new(parser.finish::<Fault>()?, context.clone())?;
                    self.state = State::Archive(Box::new(archive));
                }
            }
            State::Archive(archive) => archive.feed(bytes)?,
            State::Stream(stream) => stream.feed(bytes)?,
        }
        Ok(())
    }

    fn finish(self) -> Result<Index> {
        match self.state {
            State::Archive(archive) => archive.finish(),
            State::Stream(stream) => stream.finish(),
            State::Front | State::Directory(_) => {
                let part = Part::new("file");
                Err(Error::Truncated { part, at: 0, need: SNIFF_LEN, have: self.context.file_len })
            }
        }
    }
}

/// Returns the error for a pickle whose bytes are all available.
fn stopped(part: &Part, base: u64, stop: Stop) -> Error {
    let at = base.saturating_add(stop.at as u64);
    Error::Malformed { part: part.clone(), at, fault: stop.fault }
}

/// Makes the index from the checkpoint once all storages have records. `record_of` returns the number of each
/// record.
fn assembled(
    mut arrays: Arrays,
    found: Checkpoint,
    (form, protocol, version): (Form, u8, Option<String>),
    record_of: impl Fn(usize) -> Option<usize>,
    is_big_endian: bool,
) -> Result<Index> {
    arrays.reserve(found.tensors.len(), 0);
    for (name, tensor) in found.names.iter().zip(&found.tensors) {
        let lost = || {
            let key = found.keys.name(tensor.storage).unwrap_or_default().to_owned();
            Error::Malformed { part: Part::named("tensor", name), at: 0, fault: Fault::NoStorage(key) }
        };
        let (dims, strides) = tensor.dims.of(&found.dims);
        arrays.push::<Fault>(NewArray {
            name,
            dtype: tensor.dtype,
            dims,
            strides: Some(strides),
            record: record_of(tensor.storage).ok_or_else(lost)?,
            start: tensor.start,
            is_big_endian,
        })?;
    }
    arrays.shrink_to_fit();
    let Checkpoint { metadata, globals, warnings, notes, .. } = found;
    Ok(Index { arrays, form, protocol, version, metadata, globals, warnings, notes })
}
