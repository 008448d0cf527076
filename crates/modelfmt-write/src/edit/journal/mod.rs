//! The journal of an edit of one file or several: what every byte that changes was, and what it becomes.
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
//! All numbers are little-endian. Of a file that is replaced there is one record, with the first bytes of the new one.
//!
//! A journal is never held in memory: what is kept of it is where its bytes are. It can be as long as the files that it is about, and everything of it
//! is checked before bytes of it are used.
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
/// The length of what a journal and a mark begin with.
pub(super) const HEAD_LEN: usize = 40;
const MEMBER_LEN: usize = 28;
const RECORD_LEN: usize = 24;
const CHECK_LEN: u64 = 8;
/// The longest journal: metadata and names of files are shorter.
const MAX_LEN: u64 = 4 << 30;
/// How many records a journal has at most, and how many files.
const MAX_RECORDS: usize = 1 << 20;
/// So many bytes are read or written at a time.
pub(super) const PIECE: usize = 1 << 20;

/// What a journal and a mark begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Kind,
    pub(super) id: Id,
    /// The length of the whole file.
    pub(super) len: u64,
}

/// What stands beside a file.
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

    /// The head that these bytes begin with; `None` if they do not.
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

/// What an edit changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Journal {
    pub(super) id: Id,
    pub(super) members: Vec<Member>,
    /// The length of the journal.
    len: u64,
}

/// What becomes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Its path, relative to the folder of the journal; empty for the file beside which the journal stands.
    pub(super) name: String,
    /// Whether a new file takes its place, which is there already under another name.
    pub(super) is_replaced: bool,
    pub(super) old_len: u64,
    pub(super) new_len: u64,
    /// They ascend.
    pub(super) records: Vec<Record>,
}

/// Bytes that change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Where in the file.
    pub(super) at: u64,
    /// How many there are before; fewer than after where the file grows.
    pub(super) before: u64,
    /// How many there are after.
    pub(super) after: u64,
    /// Where in the journal those before are; those after follow.
    pub(super) place: u64,
}

/// The state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Before,
    After,
}

impl Record {
    /// Where in the journal its bytes in a state are, and how many.
    pub(super) const fn bytes(&self, state: State) -> (u64, u64) {
        match state {
            State::Before => (self.place, self.before),
            State::After => (self.place.saturating_add(self.before), self.after),
        }
    }

    /// Where in the file it ends.
    fn end(&self) -> u64 {
        self.at.saturating_add(self.before.max(self.after))
    }
}

impl Journal {
    /// The journal of these changes; `None` if it would be too long.
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

    /// Whether an edit that was interrupted is undone: that of one file alone, which has all of its bytes. An edit of several files is completed.
    pub(super) fn is_undone(&self) -> bool {
        matches!(&self.members[..], [member] if !member.is_replaced && member.name.is_empty())
    }
}

impl Member {
    /// Whether the records can be those of a file with these lengths, and have every byte by which these differ: nothing is cut off that they could not
    /// restore. An edit has no file of which nothing changes.
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

    /// The length in a state.
    pub(super) const fn len(&self, state: State) -> u64 {
        match state {
            State::Before => self.old_len,
            State::After => self.new_len,
        }
    }
}

#[cfg(test)]
mod tests;
