//! The files next to the weights of a hub folder: its configuration and its tokenizer.

#[cfg(not(target_arch = "wasm32"))]
use std::path::{Path, PathBuf};

use super::KeyResult;
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_core::value::{ParseOptions, json};
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_metadata::config;
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;

/// Returns the files of a hub folder that are next to these weights and belong to the model; empty if this is
/// not a hub folder.
#[must_use]
#[cfg(not(target_arch = "wasm32"))]
pub fn files_of_hub(model: &Model) -> Vec<PathBuf> {
    use crate::convert::ABOUT_WEIGHTS;
    use modelfmt_model::formats::capabilities::Metadata;

    let kind = model.format().capabilities().metadata;
    let is_weights = matches!(kind, Metadata::Strings | Metadata::Index | Metadata::ReadOnly);
    let Some(first) = model.input_paths().next().filter(|_| is_weights) else { return Vec::new() };
    let folder = modelfmt_core::source::folder_of(&first);
    let files: Vec<PathBuf> =
        ABOUT_WEIGHTS.iter().map(|name| folder.join(name)).filter(|path| path.is_file()).collect();
    // Without a configuration, the files next to the weights may belong to something else.
    let is_folder = files.iter().any(|file| file.ends_with(CONFIG));
    if is_folder { files } else { Vec::new() }
}

/// The file that identifies a hub folder.
#[cfg(not(target_arch = "wasm32"))]
const CONFIG: &str = "config.json";

/// Compares the files next to DERIVED with the files next to BASE, or with the files that a map has
/// `restored`. Files are equal byte for byte, or as JSON, where spaces and the order of keys do not matter.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn compare(
    base: &Model,
    restored: &[(String, Vec<u8>)],
    derived: &Model,
) -> Result<Vec<(String, KeyResult)>> {
    let mut found = Vec::new();
    let own = files_of_hub(derived);
    if own.is_empty() {
        return Ok(found);
    }
    for name in crate::convert::ABOUT_WEIGHTS {
        let is_there = own.iter().any(|file| file.ends_with(name));
        let made = restored.iter().find(|(restored, _)| restored == name).map(|(_, bytes)| bytes);
        let of_base = match made {
            Some(bytes) => Some(blake3::hash(bytes)),
            None => digest(base, name)?,
        };
        // If a policy, a pin or a signature does not cover a file, the file was not opened with the model.
        let of_derived = if is_there { digest(derived, name)? } else { None };
        let result = match (of_base, of_derived) {
            (Some(one), Some(other)) if one == other && made.is_some() => KeyResult::Mapped,
            (Some(one), Some(other)) if one == other => KeyResult::Same,
            (Some(_), Some(_)) if is_same_json(base, made, derived, name) => KeyResult::Same,
            (Some(_), Some(_)) => KeyResult::Changed,
            (Some(_), None) if is_there => KeyResult::Changed,
            (None, _) if is_there => KeyResult::Added,
            (Some(_), None) => KeyResult::Missing,
            (None, _) => continue,
        };
        found.push((name.to_owned(), result));
    }
    Ok(found)
}

/// Checks whether two files hold the same JSON.
#[cfg(not(target_arch = "wasm32"))]
fn is_same_json(base: &Model, made: Option<&Vec<u8>>, derived: &Model, name: &str) -> bool {
    const MAX_LEN: u64 = 64 << 20;
    if Path::new(name).extension().is_none_or(|ending| ending != "json") {
        return false;
    }
    let parsed = |bytes: &[u8]| {
        let options = ParseOptions::new().with_max_nodes(bytes.len() as u64);
        json::parse_with(bytes, options).ok()
    };
    let read = |model: &Model| parsed(&config::file(model.sidecars(), name, MAX_LEN).ok()??);
    let of_base = made.map_or_else(|| read(base), |bytes| parsed(bytes));
    of_base.is_some_and(|of_base| read(derived) == Some(of_base))
}

/// Returns the digest of a file next to a model; `None` if there is no such file, or it may not be read.
#[cfg(not(target_arch = "wasm32"))]
fn digest(model: &Model, name: &str) -> Result<Option<blake3::Hash>> {
    const PIECE: u64 = 1 << 20;
    let failed =
        |source| modelfmt_model::error::Error::Open { path: model.path().with_file_name(name), source };
    let Some(source) = model.sidecars().open(name).map_err(failed)? else { return Ok(None) };
    let (mut hasher, mut at) = (blake3::Hasher::new(), 0);
    while at < source.len() {
        let end = source.len().min(at.saturating_add(PIECE));
        hasher.update(&source.read(at..end).map_err(failed)?);
        at = end;
    }
    Ok(Some(hasher.finalize()))
}

/// Returns nothing: there are no files here.
#[cfg(target_arch = "wasm32")]
#[expect(clippy::unnecessary_wraps, reason = "as where there are files")]
pub(super) const fn compare(
    _: &Model,
    _: &[(String, Vec<u8>)],
    _: &Model,
) -> Result<Vec<(String, KeyResult)>> {
    Ok(Vec::new())
}
