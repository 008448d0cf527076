//! The files of a set, which are opened by a relative path, never outside their folder.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{BoxSource, Source};
use crate::value::NameTable;

/// Opens the files of a set by their paths, relative to the set's folder: a folder, a map of buffers, a bucket.
pub trait Files {
    /// The type of an open file.
    type Source: Source;

    /// Opens the file at `path`, as the set's index names it.
    ///
    /// # Errors
    /// If there is no such file, it cannot be opened, or the path breaks [`check_relative`].
    fn open(&self, path: &str) -> io::Result<Self::Source>;
}

/// The type-erased files of a set, which can be shared. Use [`shared_files`] to create it.
pub type SharedFiles = Arc<dyn Files<Source = BoxSource> + Send + Sync>;

/// Erases the type of the files of a set.
pub fn shared_files<F>(files: F) -> SharedFiles
where
    F: Files + Send + Sync + 'static,
    F::Source: Send + Sync + 'static,
{
    struct Boxed<F>(F);
    impl<F: Files<Source: Send + Sync + 'static>> Files for Boxed<F> {
        type Source = BoxSource;
        fn open(&self, path: &str) -> io::Result<BoxSource> {
            Ok(Box::new(self.0.open(path)?))
        }
    }
    Arc::new(Boxed(files))
}

impl<F: Files> Files for &F {
    type Source = F::Source;
    fn open(&self, path: &str) -> io::Result<Self::Source> {
        (**self).open(path)
    }
}

impl<F: Files + ?Sized> Files for Arc<F> {
    type Source = F::Source;
    fn open(&self, path: &str) -> io::Result<Self::Source> {
        (**self).open(path)
    }
}

/// Files in memory, by path.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles(pub BTreeMap<String, Arc<[u8]>>);

impl Files for MemoryFiles {
    type Source = Arc<[u8]>;
    fn open(&self, path: &str) -> io::Result<Arc<[u8]>> {
        check_relative(path).map_err(|fault| io::Error::new(io::ErrorKind::InvalidInput, fault))?;
        self.0
            .get(path)
            .cloned()
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "there is no such file"))
    }
}

const EMPTY: &str = "the path is empty or has an empty component";
const ABSOLUTE: &str = "the path is absolute; files of a set must be in its folder";
const PARENT: &str = "the path has a component `..`; files of a set must be in its folder";
const CHARACTER: &str = "the path has a character that file systems read differently (a backslash, a colon or a control character)";
const TOO_LONG: &str = "the path is longer than 4,096 bytes";
/// The same path can be spelled in several ways.
const TWICE: &str = "the set lists this file twice";

/// Checks that a path of a set stays inside the set's folder on every system: relative, no `..`, no drive prefix, no
/// backslash, no control character.
///
/// # Errors
/// The rule that the path breaks, as a sentence.
pub fn check_relative(path: &str) -> Result<(), &'static str> {
    if path.starts_with(['/', '\\']) || path.get(1..2) == Some(":") {
        return Err(ABSOLUTE);
    }
    if path.len() > 4096 {
        return Err(TOO_LONG);
    }
    if path.chars().any(|c| c == '\\' || c == ':' || c.is_control()) {
        return Err(CHARACTER);
    }
    for component in path.split('/') {
        match component {
            "" => return Err(EMPTY),
            ".." => return Err(PARENT),
            _ => {}
        }
    }
    Ok(())
}

/// The paths of a set, each of which may be listed only once. Otherwise a small index could have one large
/// file opened and read again for each of the many spellings of its path.
#[derive(Clone, Debug, Default)]
pub struct SetPaths(NameTable);

impl SetPaths {
    /// Checks a path of the set, and that it differs from all earlier ones.
    ///
    /// # Errors
    /// If the path is absolute, leaves the folder, or is not portable; if the set has listed the file before.
    pub fn add(&mut self, path: &str) -> Result<(), &'static str> {
        check_relative(path)?;
        let is_here = |component: &&str| *component == ".";
        let plain = if path.split('/').any(|component| is_here(&component)) {
            let components: Vec<&str> = path.split('/').filter(|component| !is_here(component)).collect();
            Cow::Owned(components.join("/"))
        } else {
            Cow::Borrowed(path)
        };
        self.0.push(&plain).map(drop).map_err(|_| TWICE)
    }
}

/// Returns the folder that contains a file: `.` for a bare name.
#[must_use]
pub fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_listed_once_however_it_is_spelt() {
        let mut paths = SetPaths::default();
        for good in ["a", "sub/a", "./b", "sub/./b", "A"] {
            assert_eq!(paths.add(good), Ok(()), "{good}");
        }
        for twice in ["a", "./a", "././a", "sub/./a", "./sub/a", "b", "sub/b/."] {
            assert_eq!(paths.add(twice), Err(TWICE), "{twice}");
        }
        assert_eq!(paths.add("../a"), Err(PARENT));
    }

    #[test]
    fn paths_stay_inside() {
        for good in ["a", "a.aero", "sub/part-000.aero", "./a", "a..b", "...", "重み.aero"] {
            assert_eq!(check_relative(good), Ok(()), "{good}");
        }
        for (bad, fault) in [
            ("", EMPTY),
            ("a//b", EMPTY),
            ("a/", EMPTY),
            ("/etc/passwd", ABSOLUTE),
            ("\\\\host\\share", ABSOLUTE),
            ("C:/x", ABSOLUTE),
            ("..", PARENT),
            ("a/../../b", PARENT),
            ("a\\..\\b", CHARACTER),
            ("a\0b", CHARACTER),
            ("a/b:stream", CHARACTER),
        ] {
            assert_eq!(check_relative(bad), Err(fault), "{bad:?}");
        }
        assert_eq!(check_relative(&"x".repeat(5000)), Err(TOO_LONG));
    }

    #[test]
    fn memory_files_open_by_name() {
        let files = MemoryFiles([("a".to_owned(), Arc::from(&b"abc"[..]))].into());
        assert_eq!(files.open("a").unwrap().len(), 3);
        assert_eq!(files.open("b").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(files.open("../a").unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(shared_files(files).open("a").unwrap().len(), 3);
    }
}
