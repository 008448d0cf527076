//! Finds the folders and files of the workspace.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the folder with this name below `testdata/`.
#[must_use]
pub fn testdata(folder: &str) -> PathBuf {
    root().join("testdata").join(folder)
}

/// Lists the files of `testdata/<folder>` whose names end in `.extension`, sorted.
///
/// # Panics
/// If there are none, because a test over no files would prove nothing.
#[must_use]
pub fn golden_files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let dir = testdata(folder);
    let listed = fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut files: Vec<PathBuf> =
        listed.map(|entry| entry.expect("a folder that can be read").path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files.sort();
    assert!(!files.is_empty(), "no .{extension} in {}; run `cargo xtask fixtures`", dir.display());
    files
}

/// Lists all files below `testdata/`, sorted. The conformance suite is left out: it has its own tests, and
/// most of its files are invalid.
///
/// # Panics
/// If a folder cannot be listed.
#[must_use]
pub fn all_golden_files() -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![testdata("")], Vec::new());
    let suite = testdata("conformance");
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("a folder that can be read").path();
            match path.is_dir() {
                true if path == suite => {}
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    files
}
