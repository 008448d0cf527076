//! The directory of an archive: its members, and the place of each member's header.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::author::{Cursor, NameTable};
use modelfmt_core::{CommonFault, Limits, Part};

use super::end::{self, End};
use crate::error::{ArrayFault, Error, Fault, common, malformed};
use crate::record::{Method, Record};

const ENTRY: &[u8] = b"PK\x01\x02";
const ENTRY_LEN: u64 = 46;
const HEADER: &[u8] = b"PK\x03\x04";
const HEADER_LEN: u64 = 30;
/// The extra field for numbers that do not fit in 32 bits (APPNOTE.TXT, 4.5.3).
const LONG: u16 = 1;
/// The flags for encryption. There are three kinds.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
/// The flag that says that the sizes and the CRC follow the content, and that the header before it has zeros
/// instead.
const DESCRIBED_BEHIND: u16 = 1 << 3;

/// A member of an archive, as the directory describes it.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The offset of the member's header.
    header_at: u64,
    /// The offset of the next header or of the directory.
    next: u64,
    stored_len: u64,
    len: u64,
    crc: u32,
    method: u16,
    flags: u16,
}

impl Member {
    /// Returns the size of the content in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Returns the number of bytes that the content takes in the file.
    #[must_use]
    pub const fn stored_len(&self) -> u64 {
        self.stored_len
    }

    /// Returns whether the content is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the offset of the member's header.
    #[must_use]
    pub const fn header_at(&self) -> u64 {
        self.header_at
    }

    /// Returns the offset of the next header or of the directory.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.next
    }
}

/// The members of an archive, in the order of its directory.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    names: NameTable,
    members: Vec<Member>,
}

impl Directory {
    /// Returns the number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the names of the members.
    #[must_use]
    pub const fn names(&self) -> &NameTable {
        &self.names
    }

    /// Returns the member with this number.
    #[must_use]
    pub fn member(&self, number: usize) -> Option<&Member> {
        self.members.get(number)
    }

    /// Returns the `Part` for errors about a member.
    #[must_use]
    pub fn part(&self, number: usize) -> Part {
        Part::named("record", self.names.name(number).unwrap_or_default())
    }

    /// Returns the range of the header and the name before a member. [`record`](Self::record) needs its
    /// bytes.
    #[must_use]
    pub fn header_range(&self, number: usize) -> Range<u64> {
        let name = self.names.name(number).unwrap_or_default();
        let at = self.members.get(number).map_or(0, |member| member.header_at);
        at..at.saturating_add(HEADER_LEN).saturating_add(name.len() as u64)
    }

    /// Locates the content of a member. `header` has the bytes of its [header](Self::header_range), and may
    /// have more bytes.
    ///
    /// # Errors
    /// If the header contradicts the directory, or the content reaches into the next member.
    pub fn record<F: ArrayFault>(&self, number: usize, header: &[u8]) -> Result<Record, Error<F>> {
        let no_member = || Error::NotFound { name: format!("record number {number}") };
        let member = self.members.get(number).ok_or_else(no_member)?;
        let name = self.names.name(number).unwrap_or_default();
        let at = member.header_at;
        let refuse = |fault| malformed(self.part(number), at, fault);
        let differs = |what| refuse(Fault::HeadersDiffer(what));
        let mut c = Cursor::new(header, at);
        c.record("header of a record", Some(number as u64));
        if c.bytes(4, "signature")? != HEADER {
            return Err(refuse(Fault::Signature));
        }
        c.u16("version")?;
        let (flags, method) = (c.u16("flags")?, c.u16("method")?);
        c.bytes(4, "time")?;
        let (crc, stored_len, len) = (c.u32("crc")?, c.u32("stored size")?, c.u32("size")?);
        let (name_len, extra_len) = (c.u16("length of the name")?, c.u16("length of the extra fields")?);
        // The bytes may end after the name, so a longer name is recognised by its length.
        let is_same_name = u64::from(name_len) == name.len() as u64
            && c.bytes(name_len.into(), "name").is_ok_and(|found| found == name.as_bytes());
        if !is_same_name {
            return Err(differs("name"));
        }
        if (flags ^ member.flags) & ENCRYPTED != 0 {
            return Err(refuse(Fault::Encrypted));
        }
        if method != member.method {
            return Err(differs("method"));
        }
        // A writer that learns the numbers later leaves zeros here. A 64-bit size is in an extra field and is
        // not compared, because the directory takes precedence.
        let is_behind = flags & DESCRIBED_BEHIND != 0;
        let is_same = |found: u32, stated: u64| {
            u64::from(found) == stated || found == u32::MAX || (is_behind && found == 0)
        };
        if crc != member.crc && !(is_behind && crc == 0) {
            return Err(differs("CRC-32"));
        }
        if !is_same(stored_len, member.stored_len) || !is_same(len, member.len) {
            return Err(differs("size"));
        }
        let before = HEADER_LEN.saturating_add(name_len.into()).saturating_add(extra_len.into());
        let content = at.saturating_add(before);
        let taken = before.saturating_add(member.stored_len);
        if at.saturating_add(taken) > member.next {
            return Err(refuse(Fault::Overlap { at, len: taken, next: member.next }));
        }
        let method = Method::of(method).ok_or_else(|| refuse(Fault::Method(method)))?;
        Ok(Record {
            at: content,
            stored_len: member.stored_len,
            len: member.len,
            method,
            crc: Some(member.crc),
        })
    }
}

/// Parses the directory of an archive. While [`need`](Self::need) returns a range, pass its bytes to
/// [`feed`](Self::feed).
///
/// This parser is used inside a format's own parser, so its errors have the format's fault type.
#[derive(Debug)]
pub struct DirectoryParser {
    file_len: u64,
    limits: Limits,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Reads the records at the end of the file.
    End,
    /// Reads the directory.
    Entries(End),
    Done(Directory),
}

impl DirectoryParser {
    /// Creates a parser for a file of `file_len` bytes.
    #[must_use]
    pub const fn new(file_len: u64, limits: Limits) -> Self {
        Self { file_len, limits, state: State::End }
    }

    /// Returns the range of bytes that is needed next, or `None` when the directory is complete.
    #[must_use]
    pub fn need(&self) -> Option<Range<u64>> {
        match &self.state {
            State::End if self.file_len == 0 => None,
            State::End => Some(self.file_len.saturating_sub(end::MAX_LEN)..self.file_len),
            State::Entries(end) => Some(end.at..end.at.saturating_add(end.len)),
            State::Done(_) => None,
        }
    }

    /// Takes the bytes of the needed range, which may continue beyond its end.
    ///
    /// # Errors
    /// If the bytes break a rule of zip or exceed a limit.
    pub fn feed<F: ArrayFault>(&mut self, bytes: &[u8]) -> Result<(), Error<F>> {
        match &self.state {
            State::End => {
                let base = self.file_len.saturating_sub(end::MAX_LEN);
                let end = end::find(bytes, base)?;
                Limits::check("the length of the directory", end.len, self.limits.index_len)?;
                Limits::check("the number of records", end.count, self.limits.tensors)?;
                Limits::fits(Part::new("directory"), end.at, end.count, ENTRY_LEN, end.len)?;
                let inside = end.at.checked_sub(base).and_then(|at| usize::try_from(at).ok());
                self.state = match inside.and_then(|at| bytes.get(at..)) {
                    // The directory is usually in the bytes that were read for the end record.
                    Some(rest) => State::Done(self.entries(end, rest)?),
                    None if end.len == 0 => State::Done(self.entries(end, &[])?),
                    None => State::Entries(end),
                };
            }
            State::Entries(end) => self.state = State::Done(self.entries(*end, bytes)?),
            State::Done(_) => {}
        }
        Ok(())
    }

    /// Returns the directory. Call this when [`need`](Self::need) returns `None`.
    ///
    /// # Errors
    /// If the file is empty.
    pub fn finish<F: ArrayFault>(self) -> Result<Directory, Error<F>> {
        match self.state {
            State::Done(directory) => Ok(directory),
            _ => Err(malformed(Part::new("end record"), 0, Fault::NoEnd)),
        }
    }

    fn entries<F: ArrayFault>(&self, end: End, bytes: &[u8]) -> Result<Directory, Error<F>> {
        let len = usize::try_from(end.len).unwrap_or(usize::MAX);
        let mut c = Cursor::new(bytes.get(..len).unwrap_or(bytes), end.at);
        // The count has been checked: each entry has its own bytes.
        let count = usize::try_from(end.count).unwrap_or(usize::MAX);
        let mut found =
            Directory { names: NameTable::with_capacity(count), members: Vec::with_capacity(count) };
        for number in 0..end.count {
            let (name, member) = self.entry(&mut c, number)?;
            let fault = |fault| common(Part::entry("directory entry", number), c.offset(), fault);
            found.names.push(name).map_err(|duplicate| fault(duplicate.into()))?;
            found.members.push(member);
        }
        if c.remaining() > 0 {
            let fault = Fault::Count { count: end.count, left: c.remaining() as u64 };
            return Err(malformed(Part::new("directory"), end.at, fault));
        }
        disjoint(&mut found, end.at)?;
        Ok(found)
    }

    fn entry<'b, F: ArrayFault>(
        &self,
        c: &mut Cursor<'b>,
        number: u64,
    ) -> Result<(&'b str, Member), Error<F>> {
        c.record("directory entry", Some(number));
        let at = c.offset();
        if c.bytes(4, "signature")? != ENTRY {
            return Err(malformed(c.part("signature"), at, Fault::Signature));
        }
        c.bytes(4, "versions")?;
        let (flags, method) = (c.u16("flags")?, c.u16("method")?);
        c.bytes(4, "time")?;
        let crc = c.u32("crc")?;
        let (stored_len, len) = (c.u32("stored size")?, c.u32("size")?);
        let (name_len, extra_len) = (c.u16("length of the name")?, c.u16("length of the extra fields")?);
        let comment_len = c.u16("length of the comment")?;
        let disk = c.u16("disk")?;
        c.bytes(6, "attributes")?;
        let header_at = c.u32("offset")?;
        let name = c.str(name_len.into(), "name")?;
        let extra = c.bytes(extra_len.into(), "extra fields")?;
        c.bytes(comment_len.into(), "comment")?;
        let refuse = |fault| malformed(Part::entry("directory entry", number).with_name(name), at, fault);
        Limits::check("the length of a name", name.len() as u64, self.limits.name_len)?;
        if name.contains('\0') {
            return Err(refuse(Fault::Nul));
        }
        if flags & ENCRYPTED != 0 {
            return Err(refuse(Fault::Encrypted));
        }
        if disk != 0 && disk != u16::MAX {
            return Err(refuse(Fault::SeveralFiles));
        }
        let mut long = Cursor::new(long_field(extra).map_err(&refuse)?, at);
        let mut wide = |short: u32| match short {
            u32::MAX => long.u64("64-bit field").map_err(|_| refuse(Fault::NoLong)),
            short => Ok(short.into()),
        };
        // The field has only those numbers that do not fit in 32 bits, in this order (APPNOTE.TXT, 4.5.3).
        let (len, stored_len, header_at) = (wide(len)?, wide(stored_len)?, wide(header_at)?);
        if method == Method::STORED && len != stored_len {
            return Err(refuse(Fault::StoredSizes { len, stored: stored_len }));
        }
        if method == Method::DEFLATED && len > Method::most_of(stored_len) {
            return Err(refuse(Fault::Expansion { len, stored: stored_len }));
        }
        Ok((name, Member { header_at, next: 0, stored_len, len, crc, method, flags }))
    }
}

/// Returns the content of the 64-bit extra field, or nothing if there is none.
fn long_field(extra: &[u8]) -> Result<&[u8], Fault> {
    let mut c = Cursor::new(extra, 0);
    let mut found: &[u8] = &[];
    // There may be up to 3 bytes of padding at the end.
    while c.remaining() >= 4 {
        let id = c.u16("id").map_err(|_| Fault::Extra)?;
        let len = c.u16("length").map_err(|_| Fault::Extra)?;
        let field = c.bytes(len.into(), "field").map_err(|_| Fault::Extra)?;
        if id == LONG {
            if !found.is_empty() {
                return Err(Fault::Extra);
            }
            found = field;
        }
    }
    Ok(found)
}

/// Records for each member where the next one begins, and refuses members that reach into it. `end` is the
/// offset of the directory.
fn disjoint<F: ArrayFault>(directory: &mut Directory, end: u64) -> Result<(), Error<F>> {
    let mut order: Vec<usize> = (0..directory.members.len()).collect();
    let at =
        |directory: &Directory, number: usize| directory.members.get(number).map_or(end, |m| m.header_at);
    order.sort_by_key(|&number| at(directory, number));
    let nexts = order.iter().skip(1).map(|&number| at(directory, number)).chain([end]);
    let nexts: Vec<u64> = nexts.collect();
    for (&number, next) in order.iter().zip(nexts) {
        let name_len = directory.names.name(number).map_or(0, str::len) as u64;
        let Some(member) = directory.members.get_mut(number) else { continue };
        member.next = next;
        let len = HEADER_LEN.saturating_add(name_len).saturating_add(member.stored_len);
        let at = member.header_at;
        if at.checked_add(len).is_none_or(|reach| reach > next) {
            let part = directory.part(number);
            return Err(if at.saturating_add(HEADER_LEN) > end {
                common(part, at, CommonFault::OutOfBounds { offset: at, len, end })
            } else {
                malformed(part, at, Fault::Overlap { at, len, next })
            });
        }
    }
    Ok(())
}
