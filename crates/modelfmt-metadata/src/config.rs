//! The `config.json` beside many models. It is read for names and for the block sizes of scales, if the
//! source itself does not state them (docs/formats/conversion.md#names-that-formats-ask-for).

use modelfmt_core::Source as _;
use modelfmt_core::value::{ParseOptions, Value, json};

use super::names::ModelNames;
use modelfmt_model::model::Model;
use modelfmt_model::sidecars::Sidecars;

/// The name of the file.
const NAME: &str = "config.json";

/// Reads the model's name and architecture from the file. If the file is missing, or says neither, both are `None`. If it cannot be
/// read, that is a note and never an error.
pub(crate) fn names(model: &Model, notes: &mut Vec<String>) -> ModelNames {
    match read(model, notes) {
        Some(config) => ModelNames { name: name(&config), architecture: architecture(&config) },
        None => ModelNames { name: None, architecture: None },
    }
}

/// Returns the name of the model in the file, if there is one.
#[must_use]
pub fn model_name(model: &Model) -> Option<String> {
    names(model, &mut Vec::new()).name
}

/// Checks whether the file exists but is ignored, because the requested pin or signature does not cover it or
/// a policy refuses it.
pub fn is_ignored(model: &Model) -> bool {
    model.sidecars().ignores(NAME)
}

/// Reads the file, if it exists, is valid and is not ignored. If it cannot be read, adds a note.
pub fn read(model: &Model, notes: &mut Vec<String>) -> Option<Value> {
    match text(model.sidecars()) {
        Ok(text) => {
            const MAX_NODES: u64 = 1 << 16;
            let parsed = json::parse_with(&text?, ParseOptions::new().with_max_nodes(MAX_NODES));
            let bad = |error| notes.push(ignored(model, &format!("it is not good JSON: {error}")));
            parsed.map_err(bad).ok()
        }
        Err(why) => {
            notes.push(ignored(model, &why));
            None
        }
    }
}

fn ignored(model: &Model, why: &str) -> String {
    format!("{} is ignored: {why}", model.path().with_file_name(NAME).display())
}

/// Reads the bytes of the file, if it exists.
fn text(beside: &Sidecars) -> Result<Option<Vec<u8>>, String> {
    const MAX_LEN: u64 = 1 << 20;
    file(beside, NAME, MAX_LEN)
}

/// Reads the bytes of a file beside a model, if it exists and may be read.
///
/// # Errors
/// The reason why it cannot be read: it is longer than `max_len`, or the system reports an error.
pub fn file(beside: &Sidecars, name: &str, max_len: u64) -> Result<Option<Vec<u8>>, String> {
    let Some(source) = beside.open(name).map_err(|error| error.to_string())? else { return Ok(None) };
    if source.len() > max_len {
        return Err(format!("it is longer than {} MiB", max_len >> 20));
    }
    let text = source.read(0..source.len()).map_err(|error| error.to_string())?;
    Ok(Some(text.to_vec()))
}

/// Returns the name in `_name_or_path`: the name of a model, or the last part of the path from which it was
/// loaded.
fn name(config: &Value) -> Option<String> {
    let text = config.get("_name_or_path")?.as_str()?;
    let is_path = text.starts_with(['/', '.', '~']) || text.contains('\\');
    let last = text.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next();
    let name = if is_path { last.filter(|last| !matches!(*last, "." | ".." | "~")) } else { Some(text) };
    name.and_then(proper)
}

fn architecture(config: &Value) -> Option<String> {
    let model_type = config.get("model_type").and_then(Value::as_str).and_then(proper);
    let first = || config.get("architectures")?.as_array()?.get(0)?.as_str().and_then(proper);
    model_type.or_else(first)
}

/// Returns the text, if it can be a name.
fn proper(text: &str) -> Option<String> {
    const MAX_LEN: usize = 256;
    (!text.is_empty() && text.len() <= MAX_LEN && !text.chars().any(char::is_control))
        .then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_and_paths_cut() {
        for (text, model, kind) in [
            (
                r#"{"_name_or_path": "org/tiny", "model_type": "bert", "architectures": ["BertModel"]}"#,
                "org/tiny",
                "bert",
            ),
            (r#"{"_name_or_path": "/home/me/tiny/", "architectures": ["BertModel"]}"#, "tiny", "BertModel"),
            (r#"{"_name_or_path": "./", "model_type": 5, "architectures": []}"#, "", ""),
            (r#"{"_name_or_path": "C:\\models\\tiny", "model_type": "a\nb"}"#, "tiny", ""),
            (r#"{"_name_or_path": ""}"#, "", ""),
            ("[1]", "", ""),
        ] {
            let config = json::parse(text.as_bytes()).unwrap();
            let found = (name(&config).unwrap_or_default(), architecture(&config).unwrap_or_default());
            assert_eq!(found, (model.to_owned(), kind.to_owned()), "{text}");
        }
    }
}
