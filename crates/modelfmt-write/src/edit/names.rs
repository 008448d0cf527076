//! The names of the files of an edit. Each but the journal has the edit's random number in it, so nobody can guess it, and an
//! edit touches only its own files.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::path::{Component, Path, PathBuf};

use crate::{middle_of, temporary_path};
use modelfmt_core::source::folder_of;

/// The suffix that turns the name of a file into the name of its journal.
pub const JOURNAL_SUFFIX: &str = ".modelfmt-undo";

/// The path of the journal of a file. If `path` is a link, the journal of an edit of this file alone is next to the file that it
/// leads to.
#[must_use]
pub fn journal_path(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(JOURNAL_SUFFIX);
    name.into()
}

/// The file that a path leads to. Its journal is found whatever path it is opened by, and a journal that somebody puts next to a
/// link must not change a file elsewhere.
pub(super) fn target_of(path: &Path) -> Cow<'_, Path> {
    let target = path.is_symlink().then(|| std::fs::canonicalize(path).ok()).flatten();
    target.map_or(Cow::Borrowed(path), Cow::Owned)
}

/// Whether a file of a set is a link, or in a folder that is one; `name` is its path relative to `folder`, the folder of the
/// index. Such a file is not changed in place together with others: otherwise a journal that an attacker has put next to the
/// index could change files anywhere.
#[must_use]
pub fn is_through_link(folder: &Path, name: &str) -> bool {
    is_link_within(folder, name, 0)
}

/// Whether a file of a set is in a folder that is a link.
pub(super) fn is_in_linked_folder(folder: &Path, name: &str) -> bool {
    is_link_within(folder, name, 1)
}

/// Whether the file or a folder on the way to it is a link; the last `without` components are not checked.
fn is_link_within(folder: &Path, name: &str, without: usize) -> bool {
    let inside = Path::new(name).components().filter(|part| matches!(part, Component::Normal(_))).count();
    folder.join(name).ancestors().take(inside).skip(without).any(Path::is_symlink)
}

/// The path of a file of an edit, from its name in the journal. The name of the file next to the journal is empty.
pub(super) fn path_of(home: &Path, name: &str) -> PathBuf {
    if name.is_empty() { home.to_owned() } else { folder_of(home).join(name) }
}

/// Whether two paths have the same name and the same folder.
pub(super) fn is_same_path(a: &Path, b: &Path) -> bool {
    a.file_name() == b.file_name() && folder_of(a) == folder_of(b)
}

/// The random number of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(pub(super) [u8; 16]);

impl Id {
    /// A random number that nobody can guess.
    pub(super) fn random() -> Self {
        // The keys of a `RandomState` come from the system's randomness.
        let random = RandomState::new();
        let halves = [random.hash_one(0u8), random.hash_one(1u8)].map(u64::to_le_bytes);
        let mut id = [0; 16];
        id.iter_mut().zip(halves.as_flattened()).for_each(|(to, from)| *to = *from);
        Self(id)
    }

    /// The path of a temporary file of this edit, next to a file.
    pub(super) fn path(self, beside: &Path, what: Temporary) -> PathBuf {
        temporary_path(beside, &format!("{self}.{}", what.name()))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The kinds of temporary files of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Temporary {
    /// The journal before it counts: nothing has been changed yet.
    Begun,
    /// The journal after it stops to count: everything has been changed.
    Done,
    /// A file that will take the place of another.
    Draft,
    /// A mark that is being written.
    Mark,
}

impl Temporary {
    const fn name(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Done => "done",
            Self::Draft => "draft",
            Self::Mark => "mark",
        }
    }

    /// Decodes the name of a journal of an edit of `home` that does not count (yet or any more).
    pub(super) fn journal_of(home: &Path, name: &str) -> Option<Self> {
        let (id, what) = middle_of(home, name)?.split_once('.')?;
        let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        [Self::Begun, Self::Done].into_iter().find(|known| is_id && known.name() == what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_an_edit_are_told_by_their_names() {
        let home = Path::new("a/m.gguf");
        assert_eq!(journal_path(home), Path::new("a/m.gguf.modelfmt-undo"));
        let id = Id::random();
        assert_ne!(id, Id::random());
        for what in [Temporary::Begun, Temporary::Done, Temporary::Draft, Temporary::Mark] {
            let path = id.path(home, what);
            let name = path.file_name().unwrap().to_str().unwrap();
            assert_eq!(folder_of(&path), Path::new("a"));
            let is_journal = matches!(what, Temporary::Begun | Temporary::Done);
            assert_eq!(Temporary::journal_of(home, name), is_journal.then_some(what));
            assert_eq!(Temporary::journal_of(Path::new("a/n.gguf"), name), None);
            assert_eq!(Temporary::journal_of(home, &name.replace(&id.to_string(), "00000000")), None);
        }
    }
}
