//! The journal of an edit of one or several files: the old and the new value of every byte that changes.
//!
//! ```text
//! magic "MFMTEDIT", version 1 (u32), kind (u32: 1 journal, 2 mark)
//! number of the edit (16 bytes), length of all of it (u64), and for a journal:
//! number of files (u32)
//! files: kind (u32: 0 changed in place, 1 replaced), length of the path (u32), the path, relative to the folder of the journal; that of
//!     the file beside which the journal stands is empty
//!     length before, length after (u64 each), number of records (u32)
//!     records: offset, length before, length after (u64 each), the bytes before, the bytes after
//! a check of everything before it (u64)
//! ```
//! All numbers are little-endian. A file that is replaced has one record, with the first bytes of the old
//! file and of the new one.
//!
//! Only the structure of a journal is held in memory, not its bytes: it can be as long as the files that it
//! describes. All of its content is checked before the bytes are used.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod check;
mod content;
mod read;
mod write;

use super::names::Id;

pub(super) use content::{is_between, is_made, make};
pub(super) use read::{Read, read};
pub(super) use write::{Content, write};

const MAGIC: &[u8; 8] = b"MFMTEDIT";
const VERSION: u32 = 1;
/// The length of the head of a journal or mark.
pub(super) const HEAD_LEN: usize = 40;
const MEMBER_LEN: usize = 28;
const RECORD_LEN: usize = 24;
const CHECK_LEN: u64 = 8;
/// The maximum length of a journal. Metadata and file names are shorter than this.
const MAX_LEN: u64 = 4 << 30;
/// The maximum number of records, and of files, in a journal.
const MAX_RECORDS: usize = 1 << 20;
/// The number of bytes that are read or written at a time.
pub(super) const PIECE: usize = 1 << 20;

/// The head of a journal or mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Kind,
    pub(super) id: Id,
    /// The length of the whole file.
    pub(super) len: u64,
}

/// The kind of a file that an edit keeps next to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Journal,
    Mark,
}

impl Head {
    pub(super) fn encode(self) -> Vec<u8> {
        let kind: u32 = match self.kind {
            Kind::Journal => 1,
            Kind::Mark => 2,
        };
        let mut out = MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        out.extend(kind.to_le_bytes());
        out.extend(self.id.0);
        out.extend(self.len.to_le_bytes());
        out
    }

    /// Decodes the head at the beginning of `bytes`; `None` if there is none.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
        let (kind, rest) = rest.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let (len, _) = rest.split_first_chunk()?;
        let kind = match u32::from_le_bytes(*kind) {
            1 => Kind::Journal,
            2 => Kind::Mark,
            _ => return None,
        };
        let head = Self { kind, id: Id(*id), len: u64::from_le_bytes(*len) };
        (u32::from_le_bytes(*version) == VERSION).then_some(head)
    }
}

/// The decoded journal of an edit, without the bytes themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Journal {
    pub(super) id: Id,
    pub(super) members: Vec<Member>,
    /// The length of the journal.
    len: u64,
}

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// The path, relative to the folder of the journal; empty for the file next to the journal.
    pub(super) name: String,
    /// Whether a new file replaces this one. The new file already exists under another name.
    pub(super) is_replaced: bool,
    pub(super) old_len: u64,
    pub(super) new_len: u64,
    /// The changed bytes, in ascending order.
    pub(super) records: Vec<Record>,
}

/// A range of bytes that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The offset in the file.
    pub(super) at: u64,
    /// The number of old bytes; smaller than `after` where the file grows.
    pub(super) before: u64,
    /// The number of new bytes.
    pub(super) after: u64,
    /// The offset of the old bytes in the journal; the new ones follow them.
    pub(super) place: u64,
}

/// The two states of a file: before the edit and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Before,
    After,
}

impl Record {
    /// Returns the offset in the journal and the number of the bytes for a state.
    pub(super) const fn bytes(&self, state: State) -> (u64, u64) {
        match state {
            State::Before => (self.place, self.before),
            State::After => (self.place.saturating_add(self.before), self.after),
        }
    }

    /// Returns the offset in the file at which the record ends.
    fn end(&self) -> u64 {
        self.at.saturating_add(self.before.max(self.after))
    }
}

impl Journal {
    /// Creates the journal of these changes and computes the places of all bytes; `None` if it would be too
    /// long.
    pub(super) fn new(id: Id, mut members: Vec<Member>) -> Option<Self> {
        let mut at = (HEAD_LEN as u64).saturating_add(4);
        for member in &mut members {
            at = at.saturating_add((MEMBER_LEN.saturating_add(member.name.len())) as u64);
            for record in &mut member.records {
                record.place = at.saturating_add(RECORD_LEN as u64);
                at = record.place.saturating_add(record.before).saturating_add(record.after);
            }
        }
        let records: usize = members.iter().map(|member| member.records.len()).sum();
        let len = at.saturating_add(CHECK_LEN);
        let is_short = len <= MAX_LEN && records.max(members.len()) <= MAX_RECORDS;
        is_short.then_some(Self { id, members, len })
    }

    /// Returns whether an interrupted edit is undone: an edit of a single file in place, whose journal has
    /// all old bytes. An edit of several files is completed instead.
    pub(super) fn is_undone(&self) -> bool {
        matches!(&self.members[..], [member] if !member.is_replaced && member.name.is_empty())
    }
}

impl Member {
    /// Returns whether the records fit a file with these lengths, and cover every byte that is cut off or
    /// added, so that all bytes can be restored. A file without any change is not allowed.
    fn is_possible(&self) -> bool {
        if self.records.is_empty() && !(self.is_replaced && self.new_len == 0) {
            return false;
        }
        let (shorter, longer) = (self.old_len.min(self.new_len), self.old_len.max(self.new_len));
        let mut end = 0;
        let mut reached = shorter;
        for record in &self.records {
            let fits = |len: u64, of: u64| record.at.checked_add(len).is_some_and(|end| end <= of);
            let is_in_file = fits(record.before, self.old_len) && fits(record.after, longer);
            if record.at < end || record.end() == record.at || !is_in_file {
                return false;
            }
            end = record.end();
            if record.at <= reached {
                reached = reached.max(end);
            }
        }
        self.is_replaced || reached >= longer
    }

    /// Returns the length of the file in a state.
    pub(super) const fn len(&self, state: State) -> u64 {
        match state {
            State::Before => self.old_len,
            State::After => self.new_len,
        }
    }
}

#[cfg(test)]
mod tests;
