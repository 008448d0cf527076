//! What an edit changes in the index of a set.

use std::collections::HashMap;

use modelfmt_core::value::{Object, Value, json};
use modelfmt_core::{CommonFault, Part};

use super::change::{Change, EditFault};

/// Changes the index of a set.
pub type EditIndex = fn(&mut Object, &IndexChange<'_>) -> Result<(), EditFault>;

/// What changes in the index of a set.
pub struct IndexChange<'a> {
    /// What changes in the model.
    pub change: &'a Change<'a>,
    /// New names by old ones.
    pub names: &'a HashMap<String, String>,
    /// The files that change, by their paths.
    pub files: &'a HashMap<String, IndexedFiles>,
    /// The metadata of the model before.
    pub before: &'a Object,
}

/// A file that changes.
#[derive(Clone, Debug, Default)]
pub struct IndexedFiles {
    /// Its length afterwards.
    pub nbytes: u64,
    /// Its digest before and after, once they are known.
    pub digests: Option<(String, String)>,
}

impl IndexChange<'_> {
    /// Gives the keys of an object the new names of tensors.
    pub(crate) fn rename(&self, object: &mut Object) {
        if !self.names.is_empty() {
            let name = |key: &str| self.names.get(key).cloned().unwrap_or_else(|| key.to_owned());
            *object = object.iter().map(|(key, value)| (name(key), value.clone())).collect();
        }
    }

    /// Puts length and digest of the file that an object is about into it, which has them under these keys.
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
        // One that was no digest is replaced: `verify` has found that.
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

/// The text of an index with what changes, laid out as it was: with a line for each entry, or in one.
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

/// The list of an index with what changes in each of its objects.
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

/// Refuses an index that is what it is for a reason.
pub(crate) fn unchangeable(what: &'static str) -> EditFault {
    let part = Part::new("index");
    let fault = CommonFault::Unchangeable(what);
    let error: modelfmt_write::WriteError<CommonFault> =
        modelfmt_write::WriteError::Unsupported { part, fault };
    EditFault::Write(error.into())
}
