//! The files of a split GGUF. A split has no index; its files are found by their names.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use modelfmt_gguf::SplitName;

/// Returns the names of the files of the split whose first file is at this path; empty if the path does not
/// have the name of a first file.
pub(super) fn files_of(first: &Path) -> BTreeSet<String> {
    let name = first.file_name().and_then(|name| name.to_str());
    match name.and_then(SplitName::parse) {
        Some(own) if own.number == 1 => files(first, |file| file.stem == own.stem && file.count == own.count),
        _ => BTreeSet::new(),
    }
}

/// Returns the names of the files of all splits with the same stem as the set that will be written to this
/// path, whatever their number of files.
pub(super) fn files_of_stem(first: &Path) -> BTreeSet<String> {
    match first.file_name().and_then(|name| name.to_str()) {
        Some(name) => files(first, |file| file.stem == stem(name)),
        None => BTreeSet::new(),
    }
}

/// Returns the stem of the name of a set: `m` for `m-00001-of-00003.gguf` and for `m.gguf`.
fn stem(name: &str) -> &str {
    let split = SplitName::parse(name).map(|name| name.stem);
    split.unwrap_or_else(|| name.strip_suffix(".gguf").unwrap_or(name))
}

/// Returns the names of the GGUF files in the same folder that match.
fn files(beside: &Path, is_asked: impl Fn(&SplitName<'_>) -> bool) -> BTreeSet<String> {
    let entries = fs::read_dir(modelfmt_core::source::folder_of(beside)).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let is_of_split = SplitName::parse(&name).is_some_and(|file| is_asked(&file));
        (is_of_split && is_gguf(&entry.path())).then_some(name)
    });
    files.collect()
}

/// Returns the first file of the split that a path belongs to, if it exists and the path is another file of
/// the split.
pub(super) fn first_of(path: &Path) -> Option<PathBuf> {
    let name = SplitName::parse(path.file_name()?.to_str()?).filter(|name| name.number > 1)?;
    let first = path.with_file_name(name.sibling(0));
    is_gguf(&first).then_some(first)
}

/// Checks whether a file has the name of a part of a split with the stem of `first`.
pub(super) fn is_part_of(first: &str, file: &str) -> bool {
    SplitName::parse(file).is_some_and(|file| file.stem == stem(first))
}

fn is_gguf(path: &Path) -> bool {
    let mut magic = [0; 4];
    // A pipe is not opened, because that would wait for a writer.
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    is_file && File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"GGUF"
}
