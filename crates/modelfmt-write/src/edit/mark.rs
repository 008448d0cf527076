//! The mark next to a file that is being changed in place together with others. The mark leads to their
//! journal.
//!
//! ```text
//! the head of a journal, of the kind "mark" and with the number of the edit
//! how many folders above it the index is (u32), the name of the index
//! ```

use std::io;
use std::path::{Path, PathBuf};

use super::conflict::or_conflict;
use super::disk::Disk;
use super::journal::{HEAD_LEN, Head, Kind};
use super::names::{Id, Temporary, journal_path};
use modelfmt_core::source::{check_relative, folder_of};

/// The maximum length of a mark in bytes.
pub(super) const MAX_MARK: u64 = 4096;

/// A mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) id: Id,
    /// How many folders the index is above the folder of the marked file.
    folders: u32,
    index: String,
}

impl Mark {
    /// Creates the mark for a file of an edit. `name` is its path relative to the folder of the index.
    ///
    /// # Errors
    /// If the index cannot be named in a mark.
    pub(super) fn new(id: Id, name: &str, index: &Path) -> io::Result<Self> {
        let folders = name.split('/').filter(|component| *component != ".").count().saturating_sub(1);
        let index = index.file_name().and_then(|name| name.to_str());
        let index = index.filter(|name| check_relative(name).is_ok()).ok_or_else(|| {
            let text =
                "the name of its index has characters that a mark beside the other files cannot have; rename it";
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        Ok(Self { id, folders: u32::try_from(folders).unwrap_or(u32::MAX), index: index.to_owned() })
    }

    fn encode(&self) -> Vec<u8> {
        let len = (HEAD_LEN + 4 + self.index.len()) as u64;
        let mut out = Head { kind: Kind::Mark, id: self.id, len }.encode();
        out.extend(self.folders.to_le_bytes());
        out.extend(self.index.as_bytes());
        out
    }

    /// Decodes a mark; `None` if the bytes are not a valid mark.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let head = Head::decode(bytes).filter(|head| head.kind == Kind::Mark)?;
        let rest = bytes.get(HEAD_LEN..)?;
        let (folders, index) = rest.split_first_chunk()?;
        let index = std::str::from_utf8(index).ok().filter(|name| check_relative(name).is_ok())?;
        let mark = Self { id: head.id, folders: u32::from_le_bytes(*folders), index: index.to_owned() };
        (head.len == bytes.len() as u64).then_some(mark)
    }

    /// Returns the path of the index that a mark next to `path` leads to.
    pub(super) fn index(&self, path: &Path) -> PathBuf {
        let mut folder = folder_of(path).to_owned();
        for _ in 0..self.folders.min(64) {
            folder = match folder.parent() {
                Some(parent) if folder.file_name().is_some() => parent.to_owned(),
                _ => folder.join(".."),
            };
        }
        folder.join(&self.index)
    }

    /// Writes the mark next to a file.
    pub(super) fn put<D: Disk>(&self, disk: &D, path: &Path) -> io::Result<()> {
        let draft = self.id.path(path, Temporary::Mark);
        let file = disk.create_draft(&draft)?;
        disk.write(&file, 0, &self.encode())?;
        disk.flush(&file)?;
        disk.keep_draft(&draft);
        disk.link(&draft, &journal_path(path)).map_err(|error| or_conflict(error, path))?;
        let _ = disk.remove(&draft);
        Ok(())
    }
}

/// Returns the mark next to a file, if there is one.
pub(super) fn mark_of<D: Disk>(disk: &D, path: &Path) -> Option<Mark> {
    Mark::decode(&disk.peek(&journal_path(path), MAX_MARK).ok()??)
}

/// Removes the mark of an edit, even an incomplete one.
pub(super) fn unmark<D: Disk>(disk: &D, path: &Path, id: Id) {
    let _ = disk.remove(&id.path(path, Temporary::Mark));
    if mark_of(disk, path).is_some_and(|mark| mark.id == id) {
        let _ = disk.remove(&journal_path(path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_leads_to_the_index() {
        for (path, name, expected) in [
            ("a/b/x", "x", "a/b/m.json"),
            ("a/b/x", "b/x", "a/m.json"),
            ("b/x", "./b/x", "m.json"),
            ("x", "b/x", "./../m.json"),
        ] {
            let mark = Mark::new(Id([7; 16]), name, Path::new("any/m.json")).unwrap();
            let read = Mark::decode(&mark.encode()).unwrap();
            assert_eq!(read, mark);
            let found = read.index(Path::new(path));
            assert_eq!(
                found.components().collect::<Vec<_>>(),
                Path::new(expected).components().collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn a_mark_is_whole_or_none() {
        let bytes = Mark::new(Id([7; 16]), "x", Path::new("m.json")).unwrap().encode();
        assert!((0..bytes.len()).all(|len| Mark::decode(&bytes[..len]).is_none()));
        assert_eq!(Mark::decode(&[&bytes[..], b"x"].concat()), None);
        let outside = Mark { index: "../m.json".to_owned(), ..Mark::decode(&bytes).unwrap() };
        assert_eq!(Mark::decode(&outside.encode()), None);
    }
}
