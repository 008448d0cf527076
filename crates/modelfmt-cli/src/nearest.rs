//! Finds the file that the user may have meant by a path that does not exist.

use std::path::{Path, PathBuf};

use modelfmt::modelfmt_core::source::folder_of;

/// Limits that keep the search fast.
const MAX_FILES: usize = 1000;
const MAX_LEN: usize = 256;
/// The minimum similarity, between 0 (nothing in common) and 1 (equal).
const ALIKE: f64 = 0.8;

/// Returns a file or folder in the same folder with a similar name, or the index of the set that was written
/// under this name.
pub(crate) fn nearest(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str().filter(|name| name.len() <= MAX_LEN)?;
    let index = path.with_file_name(format!("{name}.index.json"));
    if index.is_file() {
        return Some(index);
    }
    let entries = std::fs::read_dir(folder_of(path)).ok()?.flatten().take(MAX_FILES);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let likeness = |other: &str| strsim::normalized_damerau_levenshtein(name, other);
    let near = names
        .filter(|other| other.len() <= MAX_LEN && !is_another_part(name, other))
        .map(|other| (likeness(&other), other))
        .filter(|&(likeness, _)| likeness >= ALIKE);
    near.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, other)| path.with_file_name(other))
}

/// Checks whether two names differ only in their numbers, as the names of the parts of a set do. One part is
/// no substitute for another.
fn is_another_part(name: &str, other: &str) -> bool {
    let rest = |name: &str| name.chars().filter(|char| !char.is_ascii_digit()).collect::<String>();
    rest(name) == rest(other)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "this is test code")]

    use super::*;

    #[test]
    fn a_missing_file_is_taken_for_the_one_with_nearly_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["model.gguf", "part-00001-of-00002.gguf", "set.safetensors.index.json", "x"] {
            std::fs::write(at(name), "").unwrap();
        }
        for (name, found) in [
            ("modle.gguf", Some("model.gguf")),
            ("Model.gguf", Some("model.gguf")),
            ("set.safetensors", Some("set.safetensors.index.json")),
            ("part-00002-of-00002.gguf", None),
            ("other.gguf", None),
            ("y", None),
        ] {
            assert_eq!(nearest(&at(name)), found.map(at), "{name}");
        }
        assert_eq!(nearest(&at("no/model.gguf")), None);
        assert_eq!(nearest(Path::new("/")), None);
    }
}
