//! The names of the files of an edit. All but the journal contain the edit's random number, so nobody can
//! guess them, and an edit touches only its own files.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::fs::Metadata;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::{middle_of, temporary_path};
use modelfmt_core::source::folder_of;

/// The suffix that turns the name of a file into the name of its journal.
pub const JOURNAL_SUFFIX: &str = ".modelfmt-undo";

/// Returns the path of the journal of a file. If `path` is a link, an edit of this file alone has its journal
/// next to the file that the link leads to.
#[must_use]
pub fn journal_path(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(JOURNAL_SUFFIX);
    name.into()
}

/// Returns the file that a path leads to. The journal is found whatever path the file is opened by, and a
/// journal next to a link, which anybody may have put there, cannot change a file elsewhere.
pub(super) fn target_of(path: &Path) -> Cow<'_, Path> {
    let target = path.is_symlink().then(|| std::fs::canonicalize(path).ok()).flatten();
    target.map_or(Cow::Borrowed(path), Cow::Owned)
}

/// Returns whether a file of a set is a link, or in a folder that is a link. `name` is its path relative to
/// `folder`, the folder of the index. Such a file is not changed in place together with others: otherwise a
/// journal that an attacker has put next to the index could change files anywhere.
#[must_use]
pub fn is_through_link(folder: &Path, name: &str) -> bool {
    is_link_within(folder, name, 0)
}

/// Returns whether a file of a set is in a folder that is a link.
pub(super) fn is_in_linked_folder(folder: &Path, name: &str) -> bool {
    is_link_within(folder, name, 1)
}

/// Returns whether the file or a folder in its path is a link. The last `without` components are not checked.
fn is_link_within(folder: &Path, name: &str, without: usize) -> bool {
    let inside = Path::new(name).components().filter(|part| matches!(part, Component::Normal(_))).count();
    folder.join(name).ancestors().take(inside).skip(without).any(Path::is_symlink)
}

/// Fails for a file that has other names (hard links). The journal is found beside one of them only, so through
/// the others a half-changed file could be read.
#[cfg(unix)]
pub(super) fn expect_one_name(metadata: &Metadata) -> io::Result<()> {
    if std::os::unix::fs::MetadataExt::nlink(metadata) <= 1 {
        return Ok(());
    }
    let text = "it has other names (hard links), at which nobody would notice that it is half changed; change a copy of it";
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps, reason = "as on Unix")]
pub(super) const fn expect_one_name(_: &Metadata) -> io::Result<()> {
    Ok(())
}

/// Returns the path of a file of an edit from its name in the journal. The name of the file next to the
/// journal is empty.
pub(super) fn path_of(home: &Path, name: &str) -> PathBuf {
    if name.is_empty() { home.to_owned() } else { folder_of(home).join(name) }
}

/// Returns whether two paths have the same name and the same folder.
pub(super) fn is_same_path(a: &Path, b: &Path) -> bool {
    a.file_name() == b.file_name() && folder_of(a) == folder_of(b)
}

/// The random number of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(pub(super) [u8; 16]);

impl Id {
    /// Creates a random number that nobody can guess.
    pub(super) fn random() -> Self {
        // The keys of a `RandomState` come from the system's random source.
        let random = RandomState::new();
        let halves = [random.hash_one(0u8), random.hash_one(1u8)].map(u64::to_le_bytes);
        let mut id = [0; 16];
        id.iter_mut().zip(halves.as_flattened()).for_each(|(to, from)| *to = *from);
        Self(id)
    }

    /// Returns the path of a temporary file of this edit, next to `beside`.
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
    /// The journal before it takes effect: nothing has been changed yet.
    PendingJournal,
    /// The journal when it is no longer in effect: everything has been changed.
    FinishedJournal,
    /// A file that will replace another.
    Draft,
    /// A mark that is being written.
    Mark,
}

impl Temporary {
    const fn name(self) -> &'static str {
        match self {
            Self::PendingJournal => "begun",
            Self::FinishedJournal => "done",
            Self::Draft => "draft",
            Self::Mark => "mark",
        }
    }

    /// Decodes the name of a journal of an edit of `home` that is not in effect, because it has not begun or
    /// is done.
    pub(super) fn journal_of(home: &Path, name: &str) -> Option<Self> {
        let (id, what) = middle_of(home, name)?.split_once('.')?;
        let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        [Self::PendingJournal, Self::FinishedJournal].into_iter().find(|known| is_id && known.name() == what)
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
        for what in [Temporary::PendingJournal, Temporary::FinishedJournal, Temporary::Draft, Temporary::Mark]
        {
            let path = id.path(home, what);
            let name = path.file_name().unwrap().to_str().unwrap();
            assert_eq!(folder_of(&path), Path::new("a"));
            let is_journal = matches!(what, Temporary::PendingJournal | Temporary::FinishedJournal);
            assert_eq!(Temporary::journal_of(home, name), is_journal.then_some(what));
            assert_eq!(Temporary::journal_of(Path::new("a/n.gguf"), name), None);
            assert_eq!(Temporary::journal_of(home, &name.replace(&id.to_string(), "00000000")), None);
        }
    }
}
