//! The journal of an edit of several files that belong together. It says what each of them becomes, so that the edit can be completed.
//!
//! ```text
//! magic "MFMTREDO", version 1 (u32), number of files (u32)
//! files: kind (u32: 0 changed in place, 1 replaced), length of the path, length of the journal (u32 each), the path, the journal
//! a check of everything before it (u64)
//! ```
//! All numbers are little-endian. Paths are relative to the folder of the index. The journal of a file is as [`Journal`] has it; that of
//! one that is replaced has only how the file begins before and after. It stands beside the index, and beside each other file that is
//! changed in place a mark says where:
//!
//! ```text
//! magic "MFMTMARK", version 1 (u32), how many folders above it the index is (u32), the name of the index
//! ```

use std::path::{Path, PathBuf};

use super::journal::{Journal, VERSION, checked, framed, take, take_u32, unframed};
use crate::source::check_relative;

pub(super) const MAGIC: &[u8; 8] = b"MFMTREDO";
const MARK: &[u8; 8] = b"MFMTMARK";
/// The longest mark.
pub(super) const MAX_MARK: u64 = 4096;

/// What becomes of several files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) members: Vec<Member>,
}

/// What becomes of one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Its path, relative to the folder of the index.
    pub(super) name: String,
    /// Whether a new file takes its place, which is there already under another name.
    pub(super) is_replaced: bool,
    pub(super) journal: Journal,
}

impl Group {
    /// The bytes of the journal; `None` if there are more than a journal has.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let mut out = framed(MAGIC, self.members.len())?;
        for Member { name, is_replaced, journal } in &self.members {
            let journal = journal.encode()?;
            out.extend(u32::from(*is_replaced).to_le_bytes());
            out.extend(u32::try_from(name.len()).ok()?.to_le_bytes());
            out.extend(u32::try_from(journal.len()).ok()?.to_le_bytes());
            out.extend(name.as_bytes());
            out.extend(journal);
        }
        checked(out)
    }

    /// What a journal says; `None` if it is not whole: then no file has been changed yet.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (count, mut rest) = unframed(MAGIC, bytes)?;
        let mut members = Vec::new(); // each takes bytes of the journal
        for _ in 0..count {
            let is_replaced = take_u32(&mut rest)? == 1;
            let (name, journal) = (take_u32(&mut rest)?, take_u32(&mut rest)?);
            let name = std::str::from_utf8(take(&mut rest, name)?).ok()?.to_owned();
            check_relative(&name).ok()?;
            let journal = Journal::decode(take(&mut rest, journal)?)?;
            if !is_replaced && !journal.is_whole() {
                return None;
            }
            members.push(Member { name, is_replaced, journal });
        }
        rest.is_empty().then_some(Self { members })
    }
}

/// The mark beside a file of a group, by its path relative to the folder of the index.
pub(super) fn mark(name: &str, index: &str) -> Vec<u8> {
    let folders = name.split('/').filter(|component| *component != ".").count().saturating_sub(1);
    let mut out = MARK.to_vec();
    out.extend(VERSION.to_le_bytes());
    out.extend(u32::try_from(folders).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(index.as_bytes());
    out
}

/// The index that a mark beside `path` leads to; `None` if it is no mark.
pub(super) fn marked(path: &Path, mark: &[u8]) -> Option<PathBuf> {
    let mut rest = mark.strip_prefix(MARK)?;
    if take_u32(&mut rest)? != VERSION {
        return None;
    }
    let folders = take_u32(&mut rest)?;
    let name = std::str::from_utf8(rest).ok().filter(|name| check_relative(name).is_ok())?;
    let mut folder = crate::source::folder_of(path).to_owned();
    for _ in 0..folders.min(64) {
        folder = match folder.parent() {
            Some(parent) if folder.file_name().is_some() => parent.to_owned(),
            _ => folder.join(".."),
        };
    }
    Some(folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::super::journal::Record;
    use super::*;

    fn group() -> Group {
        let record = Record { at: 8, before: b"ab".into(), after: b"cdef".into() };
        let journal = Journal { old_len: 10, new_len: 12, records: vec![record] };
        let member =
            |name: &str, is_replaced| Member { name: name.to_owned(), is_replaced, journal: journal.clone() };
        Group { members: vec![member("m.json", false), member("sub/part", true)] }
    }

    #[test]
    fn a_journal_reads_back_whole_or_not_at_all() {
        let bytes = group().encode().unwrap();
        assert_eq!(Group::decode(&bytes), Some(group()));
        for len in 0..bytes.len() {
            assert_eq!(Group::decode(&bytes[..len]), None);
            let mut changed = bytes.clone();
            changed[len] ^= 1;
            assert_eq!(Group::decode(&changed), None);
        }
        let mut outside = group();
        outside.members[1].name = "../part".to_owned();
        assert_eq!(Group::decode(&outside.encode().unwrap()), None);
    }

    #[test]
    fn a_mark_leads_to_the_index() {
        for (path, name, expected) in [
            ("a/b/x", "x", "a/b/m.json"),
            ("a/b/x", "b/x", "a/m.json"),
            ("b/x", "./b/x", "m.json"),
            ("x", "b/x", "./../m.json"),
        ] {
            let found = marked(Path::new(path), &mark(name, "m.json")).unwrap();
            assert_eq!(
                found.components().collect::<Vec<_>>(),
                Path::new(expected).components().collect::<Vec<_>>()
            );
        }
        assert_eq!(marked(Path::new("x"), b"MFMTUNDO"), None);
        assert_eq!(marked(Path::new("x"), &mark("x", "../m.json")), None);
    }
}
