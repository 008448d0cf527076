//! Checks the file that is about to be written by reading it like any other file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use modelfmt_core::AnyError;
use modelfmt_core::source::FileSource;
use modelfmt_write::edit::{NewFile, Preview};

use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::entry::AnyReader;
use modelfmt_model::model::Model;

/// Opens the file as it would be after the edit.
pub(super) fn preview(path: &Path, old: Arc<FileSource>, new: &NewFile) -> Result<Model> {
    let source = Preview::new(new.clone(), old);
    modelfmt_model::OpenOptions::new().open_source(&path.to_string_lossy(), Box::new(source), None)
}

/// Opens the file as it would be after the edit, and fails if a tensor would change: each must have its (new)
/// name, and the same dtype, shape and bytes.
pub(super) fn same_values(
    model: &Model,
    (path, old): (&Path, Arc<FileSource>),
    new: &NewFile,
    names: &BTreeMap<usize, String>,
) -> Result<Model> {
    let not_editable = |why: String| Error::NotEditable { path: path.to_owned(), why };
    let after = preview(path, old, new)
        .map_err(|error| not_editable(format!("after the edit it could not be read: {error}")))?;
    if after.format() != model.format() {
        return Err(not_editable(OTHERS.to_owned()));
    }
    is_same(model.opened(), after.opened(), new, names).map_err(not_editable)?;
    Ok(after)
}

const OTHERS: &str = "after the edit it would not have the same tensors";

/// Checks that the file would have the same tensors.
pub(super) fn is_same(
    before: &dyn AnyReader,
    after: &dyn AnyReader,
    new: &NewFile,
    names: &BTreeMap<usize, String>,
) -> std::result::Result<(), String> {
    if after.tensor_count() != before.tensor_count() {
        return Err(OTHERS.to_owned());
    }
    for position in 0..before.tensor_count() {
        let Some(info) = before.info(position) else { continue };
        let name = names.get(&position).map_or(info.name, String::as_str);
        let is_same = (|| {
            let found = after.find(name)?;
            let other = after.info(found)?;
            let same = (info.dtype, info.shape, info.has_data) == (other.dtype, other.shape, other.has_data);
            let (old, moved) = match (before.location(position), after.location(found)) {
                (Ok(old), Ok(moved)) => (old, moved),
                // The index file of a set has no values.
                (Err(_), Err(_)) => return Some(same),
                _ => return None,
            };
            let is_kept = match (old.offset, moved.offset) {
                (Some(old), Some(at)) => info.nbytes == 0 || new.origin(at) == Some(old),
                (old, at) => old == at,
            };
            // The encodings `checked` and `raw` count as the same: an edit may remove the signatures.
            let is_stored =
                (old.stored_nbytes, old.encoding.name()) == (moved.stored_nbytes, moved.encoding.name());
            Some(is_kept && same && is_stored)
        })();
        if is_same != Some(true) {
            let why = AnyError::NotFound { name: name.to_owned() };
            return Err(format!(
                "the edit would change a tensor ({why}); metadata that define what values mean cannot be edited"
            ));
        }
    }
    Ok(())
}
