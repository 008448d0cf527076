//! The changes of an edit to the index of a set.

use std::collections::HashMap;

use modelfmt_core::value::{Object, Value, json};
use modelfmt_core::{CommonFault, Part};

use super::change::{Change, EditFault};

/// A function that changes the index of a set.
pub type EditIndex = fn(&mut Object, &IndexChange<'_>) -> Result<(), EditFault>;

/// The changes to the index of a set.
pub struct IndexChange<'a> {
    /// The changes to the model.
    pub change: &'a Change<'a>,
    /// New names by old ones.
    pub names: &'a HashMap<String, String>,
    /// The files that change, by their paths.
    pub files: &'a HashMap<String, IndexedFiles>,
    /// The metadata of the model before the edit.
    pub before: &'a Object,
}

/// A file that changes.
#[derive(Clone, Debug, Default)]
pub struct IndexedFiles {
    /// Its new length in bytes.
    pub nbytes: u64,
    /// Its digest before and after the edit, once they are known.
    pub digests: Option<(String, String)>,
}

impl IndexChange<'_> {
    /// Replaces the keys of an object, names of tensors, by the new names.
    pub(crate) fn rename(&self, object: &mut Object) {
        if !self.names.is_empty() {
            let name = |key: &str| self.names.get(key).cloned().unwrap_or_else(|| key.to_owned());
            *object = object.iter().map(|(key, value)| (name(key), value.clone())).collect();
        }
    }

    /// Updates the length and digest in an object that describes a file. The array has the keys of path, length and digest.
    pub(crate) fn restate(
        &self,
        object: &mut Object,
        [path, nbytes, digest]: [&'static str; 3],
    ) -> Result<(), EditFault> {
        let own = object.get(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(listed) = self.files.get(&own) else { return Ok(()) };
        object.insert(nbytes, listed.nbytes);
        let stated = object.get(digest).and_then(Value::as_str).map(str::to_ascii_lowercase);
        let (Some(stated), Some((before, after))) = (stated, &listed.digests) else { return Ok(()) };
        // Text that is not a digest is replaced; `verify` reports it.
        if stated.len() == before.len() && stated != *before {
            let why = format!(
                "its {digest} is not the one that the index states: it is damaged; nothing was written"
            );
            return Err(EditFault::unfit("file of the set", &own, why));
        }
        object.insert(digest, after.as_str());
        Ok(())
    }
}

/// Edits the text of an index and keeps its layout: one line for each entry, or a single line.
pub fn edited(
    text: &[u8],
    edit: impl FnOnce(&mut Object) -> Result<(), EditFault>,
) -> Result<Vec<u8>, EditFault> {
    let unfit = |error: json::JsonError| EditFault::unfit("index", "", error.to_string());
    let before = json::parse_object(text).map_err(unfit)?;
    let mut after = before.clone();
    edit(&mut after)?;
    if after.iter().eq(before.iter()) {
        return Ok(text.to_vec());
    }
    let body = text.trim_ascii_end();
    let is_pretty = body.contains(&b'\n');
    let written = if is_pretty { json::to_string_pretty(&after) } else { json::to_string(&after) };
    let mut out = written.map_err(unfit)?.into_bytes();
    out.extend(text.get(body.len()..).unwrap_or_default());
    Ok(out)
}

/// Edits each object in a list of an index, and returns the new list.
pub(crate) fn each(
    list: Option<&Value>,
    mut edit: impl FnMut(&mut Object) -> Result<(), EditFault>,
) -> Result<Value, EditFault> {
    let entries = list.and_then(Value::as_array).into_iter().flat_map(|list| list.iter());
    let entry = |value: Value| match value {
        Value::Object(mut object) => edit(&mut object).map(|()| Value::Object(object)),
        other => Ok(other),
    };
    entries.map(entry).collect::<Result<Vec<Value>, _>>().map(|entries| entries.into_iter().collect())
}

/// Returns the error for an index that must not change, with the reason.
pub(crate) fn unchangeable(what: &'static str) -> EditFault {
    let part = Part::new("index");
    let fault = CommonFault::Unchangeable(what);
    let error: modelfmt_write::WriteError<CommonFault> =
        modelfmt_write::WriteError::Unsupported { part, fault };
    EditFault::Write(error.into())
}
