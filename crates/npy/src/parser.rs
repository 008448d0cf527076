//! Parses bytes into an [`Index`], without I/O: a header, or the directory of an archive and the header of
//! each array in it.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_arrays::zip::{Directory, DirectoryParser};
use modelfmt_arrays::{Arrays, Fault as ArrayFault, Method, NewArray, Record, inflate_start};
use modelfmt_core::author::Parser;
use modelfmt_core::{CommonFault, Limits, Part};

use crate::error::{Error, Fault, Result};
use crate::index::Index;
use crate::wire::{self, Header, MAGIC};

/// The name of the array in a .npy file, which does not state a name.
pub const ARRAY: &str = "array";
/// The file extension of those members of an archive that are arrays.
const EXTENSION: &str = ".npy";
/// The number of bytes to request first. A usual header takes fewer.
const FIRST_READ: u64 = 1 << 10;
/// Headers within this many bytes are read together.
const WINDOW: u64 = 64 << 10;

/// Parses an [`Index`] from the byte ranges that it asks for; see [`Parser`].
#[derive(Debug)]
pub struct IndexParser {
    limits: Limits,
    file_len: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The first bytes of the file. This many of them are needed.
    Front(u64),
    Directory(DirectoryParser),
    Members(Box<Members>),
    Done(Box<Index>),
}

impl IndexParser {
    /// Creates a parser for a file of `file_len` bytes.
    #[must_use]
    pub const fn new(file_len: u64, limits: Limits) -> Self {
        Self { limits, file_len, state: State::Front(FIRST_READ) }
    }

    /// Returns the state after the first bytes of the file have been read.
    fn front(&self, bytes: &[u8]) -> Result<State> {
        let part = Part::new("header");
        let is_archive = matches!(bytes, [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..]);
        if is_archive {
            return Ok(State::Directory(DirectoryParser::new(self.file_len, self.limits.clone())));
        }
        let have = (bytes.len() as u64).min(self.file_len);
        match wire::header_len(bytes, 0, &part)? {
            Some(len) if len > have && have < self.file_len => {
                return Ok(State::Front(len.min(self.file_len)));
            }
            _ => {}
        }
        let header = wire::decode(bytes, 0, &part)?;
        let mut arrays = Arrays::new(self.file_len, self.limits.clone());
        let len = self.file_len.saturating_sub(header.len);
        let record = arrays.add_record::<Fault>(ARRAY, Record::plain(header.len, len))?;
        let major = header.major;
        let pushed = push(&mut arrays, ARRAY, &header, record, 0);
        match pushed.map_err(|error| of_the_file(error, header.len, self.file_len))? {
            None => {}
            Some(fault) => return Err(Error::Malformed { part: part.with_field("descr"), at: 0, fault }),
        }
        let index = Index {
            arrays,
            is_archive: false,
            version: Some(major),
            left_out: Vec::new(),
            objects: Vec::new(),
        };
        Ok(State::Done(Box::new(index)))
    }
}

/// Converts an error for a record that is the rest of the file: values beyond it are missing from the file.
fn of_the_file(error: Error, offset: u64, end: u64) -> Error {
    match error {
        Error::Malformed { part, at, fault: Fault::Array(ArrayFault::BeyondRecord { need, .. }) } => {
            let fault = CommonFault::OutOfBounds { offset, len: need, end };
            Error::Malformed { part, at, fault: fault.into() }
        }
        other => other,
    }
}

/// Adds the array of a header. Returns the reason if it has no counterpart as a tensor.
fn push(
    arrays: &mut Arrays,
    name: &str,
    header: &Header,
    record: usize,
    start: u64,
) -> Result<Option<Fault>> {
    let elements = match &header.kind {
        Ok(elements) => *elements,
        Err(fault) => return Ok(Some(fault.clone())),
    };
    let strides = header.is_fortran.then(|| fortran(&header.shape));
    arrays.push::<Fault>(NewArray {
        name,
        dtype: elements.dtype,
        dims: &header.shape,
        strides: strides.as_deref(),
        record,
        start,
        is_big_endian: elements.is_big_endian,
    })?;
    Ok(None)
}

/// Returns the strides of an array whose first dimension is fastest. They overflow only for arrays that no
/// file can hold.
fn fortran(shape: &[u64]) -> Vec<u64> {
    let mut next = 1_u64;
    let stride = |dim: &u64| {
        let stride = next;
        next = next.saturating_mul(*dim);
        stride
    };
    shape.iter().map(stride).collect()
}

/// The members of an archive whose headers are being read.
#[derive(Debug)]
struct Members {
    directory: Directory,
    index: Index,
    /// The arrays that have not been read yet, by their number in the directory. The next one is last.
    left: Vec<usize>,
    /// The number of bytes of the next array to request. It grows if the header did not fit.
    asked: u64,
}

impl Members {
    fn new(directory: Directory, file_len: u64, limits: &Limits) -> Self {
        let is_array =
            |number: &usize| directory.names().name(*number).is_some_and(|name| name.ends_with(EXTENSION));
        let (left, others): (Vec<usize>, Vec<usize>) = (0..directory.len()).rev().partition(is_array);
        // A folder has no content, so leaving it out loses nothing.
        let is_file = |number: &&usize| directory.member(**number).is_some_and(|member| !member.is_empty());
        let left_out = |number: &usize| {
            format!(
                "{}: is no array (its name does not end in {EXTENSION}), left out",
                directory.part(*number)
            )
        };
        let left_out = others.iter().rev().filter(is_file).map(left_out).collect();
        let arrays = Arrays::new(file_len, limits.clone());
        let index = Index { arrays, is_archive: true, version: None, left_out, objects: Vec::new() };
        Self { directory, index, left, asked: FIRST_READ }
    }

    /// Returns the range of the next member's headers, and of the headers that follow closely.
    fn need(&self) -> Option<Range<u64>> {
        let mut left = self.left.iter().rev();
        let of = |number: usize| {
            let header = self.directory.header_range(number);
            let next = self.directory.member(number).map_or(header.end, |member| member.next());
            header.start..header.end.saturating_add(self.asked).min(next)
        };
        let mut range = of(*left.next()?);
        if self.asked == FIRST_READ {
            for number in left {
                let next = of(*number);
                if next.start < range.end || next.end.saturating_sub(range.start) > WINDOW {
                    break;
                }
                range.end = next.end;
            }
        }
        Some(range)
    }

    /// Takes the bytes of the needed range, which may continue beyond its end.
    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(range) = self.need() else { return Ok(()) };
        // Ignores bytes beyond the range, so that for every source damage there is found when they are read.
        let end = range.end.min(range.start.saturating_add(bytes.len() as u64));
        while let Some(&number) = self.left.last() {
            let header = self.directory.header_range(number);
            if header.start < range.start || header.end > end {
                return Ok(()); // it is asked for next
            }
            let within = |at: u64| usize::try_from(at.saturating_sub(range.start)).unwrap_or(usize::MAX);
            let record = self
                .directory
                .record::<Fault>(number, bytes.get(within(header.start)..).unwrap_or_default())?;
            let have = record.at..record.range().end.min(end);
            let content = bytes.get(within(have.start)..within(have.end)).unwrap_or_default();
            let is_all = have.end == record.range().end;
            if !self.member(number, record, content, is_all)? {
                // The header is longer than the requested bytes.
                self.asked = self.asked.saturating_mul(4);
                return Ok(());
            }
            self.asked = FIRST_READ;
            self.left.pop();
        }
        Ok(())
    }

    /// Takes the available content of a member. Returns whether it is enough.
    fn member(&mut self, number: usize, record: Record, content: &[u8], is_all: bool) -> Result<bool> {
        let member = self.directory.names().name(number).unwrap_or_default();
        let part = self.directory.part(number);
        let inflated;
        let bytes = match record.method {
            Method::Stored => content,
            Method::Deflated => {
                const MAX_INFLATED: usize = 128 << 10;
                let damaged = |fault: modelfmt_arrays::Fault| Error::Malformed {
                    part: part.clone(),
                    at: record.at,
                    fault: fault.into(),
                };
                inflated = inflate_start(content, MAX_INFLATED).map_err(damaged)?.0;
                &inflated
            }
        };
        let have = bytes.len() as u64;
        let need = wire::header_len(bytes, record.at, &part)?;
        if !is_all && need.is_none_or(|need| need > have) {
            return Ok(false);
        }
        let header = wire::decode(bytes, record.at, &part)?;
        let arrays = &mut self.index.arrays;
        let added = arrays.add_record::<Fault>(member, record)?;
        let name = member.strip_suffix(EXTENSION).unwrap_or(member);
        if let Some(fault) = push(arrays, name, &header, added, header.len)? {
            self.index.left_out.push(format!("{part}: {fault}; left out"));
            if fault == Fault::Objects {
                self.index.objects.push(part.to_string());
            }
        }
        Ok(true)
    }
}

impl Parser for IndexParser {
    type Index = Index;
    type Fault = Fault;

    fn need(&self) -> Option<Range<u64>> {
        match &self.state {
            State::Front(_) if self.file_len == 0 => None,
            State::Front(asked) => Some(0..self.file_len.min(*asked)),
            State::Directory(parser) => parser.need(),
            State::Members(members) => members.need(),
            State::Done(_) => None,
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.state {
            State::Front(_) => self.state = self.front(bytes)?,
            State::Directory(parser) => {
                parser.feed::<Fault>(bytes)?;
                if parser.need().is_none() {
                    let State::Directory(parser) = std::mem::replace(&mut self.state, State::Front(0)) else {
                        return Ok(()); // it is one
                    };
                    let directory = parser.finish::<Fault>()?;
                    self.state =
                        State::Members(Box::new(Members::new(directory, self.file_len, &self.limits)));
                }
            }
            State::Members(members) => members.feed(bytes)?,
            State::Done(_) => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<Index> {
        let mut index = match self.state {
            State::Done(index) => *index,
            State::Members(members) if members.left.is_empty() => members.index,
            _ => {
                let part = Part::new("header").with_field("magic");
                let need = MAGIC.len() as u64;
                return Err(Error::Truncated { part, at: 0, need, have: self.file_len });
            }
        };
        index.arrays.shrink_to_fit();
        Ok(index)
    }
}
