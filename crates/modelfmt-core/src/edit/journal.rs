//! The journal of an edit in place: the old bytes and where they were, so that they can be restored.
//!
//! ```text
//! magic "MFMTUNDO", version 1 (u32), number of records (u32)
//! length of the file before, length after (u64 each)
//! records: offset (u64), length before, length after (u32 each), the bytes before, the bytes after
//! a check of everything before it (u64)
//! ```
//! All numbers are little-endian. The bytes after are there to tell whether a file is still the one that was being changed.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The suffix that turns the name of a file into the name of its journal.
pub const JOURNAL_SUFFIX: &str = ".modelfmt-undo";

/// The path of the journal of a file. If `path` is a link, the journal of an edit of this file alone is beside the file that it
/// leads to.
#[must_use]
pub fn journal_path(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(JOURNAL_SUFFIX);
    name.into()
}

/// The file that a path leads to: whoever opens it by another path has to see the journal too. And a journal that somebody puts beside a link
/// must not change a file elsewhere.
pub(super) fn target_of(path: &Path) -> Cow<'_, Path> {
    let target = path.is_symlink().then(|| std::fs::canonicalize(path).ok()).flatten();
    target.map_or(Cow::Borrowed(path), Cow::Owned)
}

const MAGIC: &[u8; 8] = b"MFMTUNDO";
pub(super) const VERSION: u32 = 1;
/// The longest journal that is read: metadata and names of a file are shorter.
pub(super) const MAX_LEN: u64 = 4 << 30;

/// What an edit changes in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Journal {
    pub(super) old_len: u64,
    pub(super) new_len: u64,
    pub(super) records: Vec<Record>,
}

/// Bytes that change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) at: u64,
    /// Fewer than after where the file grows.
    pub(super) before: Vec<u8>,
    pub(super) after: Vec<u8>,
}

impl Journal {
    /// The bytes of the journal; `None` if there are more than a journal has.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let mut out = framed(MAGIC, self.records.len())?;
        out.extend(self.old_len.to_le_bytes());
        out.extend(self.new_len.to_le_bytes());
        for Record { at, before, after } in &self.records {
            out.extend(at.to_le_bytes());
            for bytes in [before, after] {
                out.extend(u32::try_from(bytes.len()).ok()?.to_le_bytes());
            }
            out.extend(before);
            out.extend(after);
        }
        checked(out)
    }

    /// Decodes a journal; `None` if it is not complete: then nothing of the file has been changed yet.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (count, mut rest) = unframed(MAGIC, bytes)?;
        let (old_len, new_len) = (take_u64(&mut rest)?, take_u64(&mut rest)?);
        let mut records = Vec::new(); // each takes bytes of the journal
        for _ in 0..count {
            let at = take_u64(&mut rest)?;
            let (before, after) = (take_u32(&mut rest)?, take_u32(&mut rest)?);
            let (before, after) = (take(&mut rest, before)?.to_vec(), take(&mut rest, after)?.to_vec());
            let end = at.checked_add(before.len() as u64)?;
            if end > old_len || at.checked_add(after.len() as u64)? > new_len.max(old_len) {
                return None;
            }
            records.push(Record { at, before, after });
        }
        rest.is_empty().then_some(Self { old_len, new_len, records })
    }

    /// Whether it has every byte by which the old and the new file differ in length. Nothing is cut off that it could not restore.
    pub(super) fn is_whole(&self) -> bool {
        let (shorter, longer) = (self.old_len.min(self.new_len), self.old_len.max(self.new_len));
        let reached = self.records.iter().fold(shorter, |reached, Record { at, before, after }| {
            let end = at.saturating_add(before.len().max(after.len()) as u64);
            if *at <= reached { reached.max(end) } else { reached }
        });
        reached >= longer
    }

    /// Whether a file of this length can be one that was being changed.
    pub(super) fn can_have(&self, len: u64) -> bool {
        (self.old_len.min(self.new_len)..=self.old_len.max(self.new_len)).contains(&len)
    }
}

/// The beginning of a journal of so many parts.
pub(super) fn framed(magic: &[u8; 8], count: usize) -> Option<Vec<u8>> {
    let mut out = magic.to_vec();
    out.extend(VERSION.to_le_bytes());
    out.extend(u32::try_from(count).ok()?.to_le_bytes());
    Some(out)
}

/// A journal with the check at its end; `None` if it is longer than a journal may be.
pub(super) fn checked(mut out: Vec<u8>) -> Option<Vec<u8>> {
    let check = check(&out);
    out.extend(check.to_le_bytes());
    (out.len() as u64 <= MAX_LEN).then_some(out)
}

/// The number of parts of a journal, and the bytes between that and the check; `None` if it is not whole.
pub(super) fn unframed<'a>(magic: &[u8; 8], bytes: &'a [u8]) -> Option<(u32, &'a [u8])> {
    let (body, stated) = bytes.split_last_chunk::<8>()?;
    if check(body) != u64::from_le_bytes(*stated) {
        return None;
    }
    let mut rest = body.strip_prefix(magic)?;
    let version = take_u32(&mut rest)?;
    let count = take_u32(&mut rest)?;
    (version == VERSION).then_some((count, rest))
}

/// FNV-1a over words of eight bytes: it detects a journal that was cut short or not flushed completely.
fn check(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    let words = words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    words.chain([bytes.len() as u64]).fold(0xcbf2_9ce4_8422_2325, step)
}

pub(super) fn take<'a>(rest: &mut &'a [u8], len: u32) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = after;
    Some(taken)
}

pub(super) fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u32::from_le_bytes(*taken))
}

fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u64::from_le_bytes(*taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        let record =
            |at, before: &[u8], after: &[u8]| Record { at, before: before.into(), after: after.into() };
        let records = vec![record(0, b"abc", b"xyz"), record(9, b"d", b"efgh")];
        Journal { old_len: 10, new_len: 13, records }
    }

    #[test]
    fn a_journal_reads_back() {
        let bytes = journal().encode().unwrap();
        assert_eq!(Journal::decode(&bytes), Some(journal()));
        assert_eq!(journal_path(Path::new("a/m.gguf")), Path::new("a/m.gguf.modelfmt-undo"));
    }

    #[test]
    fn a_journal_that_is_not_whole_says_nothing() {
        let bytes = journal().encode().unwrap();
        for len in 0..bytes.len() {
            assert_eq!(Journal::decode(&bytes[..len]), None);
            let mut changed = bytes.clone();
            changed[len] ^= 1;
            assert_eq!(Journal::decode(&changed), None);
            let mut zeros = bytes.clone();
            zeros[len..].fill(0);
            assert!(len >= bytes.len() - 1 || Journal::decode(&zeros).is_none());
        }
        assert_eq!(Journal::decode(&[bytes, vec![0]].concat()), None);
    }

    #[test]
    fn records_lie_in_the_file() {
        let mut outside = journal();
        outside.records[1].at = u64::MAX;
        assert_eq!(Journal::decode(&outside.encode().unwrap()), None);
        outside.records[1].at = 10;
        assert_eq!(Journal::decode(&outside.encode().unwrap()), None);
    }
}
