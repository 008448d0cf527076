//! The identity of files, to detect that paths lead to the same file.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

#[cfg(unix)]
type Identity = modelfmt_core::source::FileId;
// On other systems, the standard library has only canonical paths, which do not detect hard links.
#[cfg(not(unix))]
type Identity = std::path::PathBuf;

/// Returns what identifies a file under all of its names: hard links, symbolic links, other spellings of its
/// path.
fn identity(path: &Path) -> Option<Identity> {
    #[cfg(unix)]
    {
        modelfmt_core::source::FileId::from_metadata(&fs::metadata(path).ok()?)
    }
    #[cfg(not(unix))]
    {
        fs::canonicalize(path).ok()
    }
}

/// The files that are being read while others are written. No output may replace them, under any name.
#[derive(Clone, Debug, Default)]
pub struct InputFiles(Arc<HashSet<Identity>>);

impl InputFiles {
    /// Finds the files that these paths lead to. Paths that lead to no file are ignored, because nothing can
    /// be lost there.
    pub fn new<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self(Arc::new(paths.into_iter().filter_map(|path| identity(path.as_ref())).collect()))
    }

    /// Returns whether there are no files.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a path leads to one of the files.
    #[must_use]
    pub fn contains(&self, path: impl AsRef<Path>) -> bool {
        !self.is_empty() && identity(path.as_ref()).is_some_and(|id| self.0.contains(&id))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_any_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a"), "x").unwrap();
        fs::write(path("b"), "x").unwrap();
        fs::hard_link(path("a"), path("hard")).unwrap();
        std::os::unix::fs::symlink("hard", path("soft")).unwrap();
        let inputs = InputFiles::new([path("soft"), path("missing")]);
        for name in ["a", "hard", "soft", "./a"] {
            assert!(inputs.contains(path(name)), "{name}");
        }
        for name in ["b", "missing", ""] {
            assert!(!inputs.contains(path(name)), "{name}");
        }
        assert!(!InputFiles::default().contains(path("a")));
    }
}
