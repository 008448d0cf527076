//! Reads which files the index of a set names, in any format, without holding a tree of the index in memory.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use modelfmt_core::Limits;
use modelfmt_core::source::check_relative;

use modelfmt_model::formats::Walk;

/// Returns the files that the index at `path` names, relative to its folder; empty if the file is not an
/// index.
pub(super) fn files_of(path: &Path) -> BTreeSet<String> {
    read(path).unwrap_or_default()
}

fn read(path: &Path) -> io::Result<BTreeSet<String>> {
    let metadata = path.metadata()?;
    // No reader accepts a larger file as an index.
    if !metadata.is_file() || metadata.len() > Limits::default().index_len {
        return Ok(BTreeSet::new());
    }
    named_by(BufReader::new(File::open(path)?), metadata.len())
}

/// Returns the files that the text of an index names.
pub(super) fn named_by(mut text: impl BufRead, len: u64) -> io::Result<BTreeSet<String>> {
    let is_object = text.fill_buf()?.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if !is_object {
        return Ok(BTreeSet::new());
    }
    // Files that are named before a fault still count: the index may be damaged, but its set still exists.
    let (walk, _) = Walk::through(text.take(len));
    let named = walk.into_files().filter(|name| check_relative(name).is_ok());
    Ok(named
        .map(|name| name.split('/').filter(|&component| component != ".").collect::<Vec<_>>().join("/"))
        .collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "this is test code")]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_index_names_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        let listed = |text: &str| {
            std::fs::write(&path, text).unwrap();
            files_of(&path).into_iter().collect::<Vec<_>>()
        };
        let aeroset = r#" {"format": {"path": "no"}, "parts": [{"path": "./a", "shards": [0]}, {"path": "b"}], "global_tidx": {"path": "c"}}"#;
        assert_eq!(listed(aeroset), ["a", "b", "c"]);
        assert_eq!(
            listed(r#"{"shards": [{"file": "x", "size": 1}, null, 3], "tensor_shard_map": {"w": 0}}"#),
            ["x"]
        );
        assert_eq!(
            listed(r#"{"metadata": {"a": [1.5, true]}, "weight_map": {"w": "y", "v": "y", "u": "../z"}}"#),
            ["y"]
        );
        assert_eq!(listed(r#"{"weight_map": {"w": "y", "v": "#), ["y"], "broken further on");
        for none in ["", "[]", "null", "x", "{}", r#"{"parts": "a", "shards": 7, "path": "b"}"#] {
            assert!(listed(none).is_empty(), "{none}");
        }
        let deep = format!("{}{}", r#"{"parts": "#, "[".repeat(100_000));
        assert!(listed(&deep).is_empty());
        assert!(files_of(folder.path()).is_empty() && files_of(&folder.path().join("missing")).is_empty());
    }
}
