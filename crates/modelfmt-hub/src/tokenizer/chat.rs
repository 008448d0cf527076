//! Chat templates.

use modelfmt_value::{List, Value};

use super::error::fault;
use super::files::Files;
use super::special::SpecialTokenFiles;
use crate::{Key, MapError};

const FILE: &str = "chat_template.jinja";
const OLD_FILE: &str = "chat_template.json";
const KEY: &str = "tokenizer.chat_template";

/// Returns the keys of the folder's templates. `chat_template.jinja` takes precedence over
/// `tokenizer_config.json`, and that over `chat_template.json`.
pub(super) fn keys(
    files: &Files,
    special_files: &SpecialTokenFiles<'_>,
) -> Result<Vec<(String, Key)>, MapError> {
    if let Some(text) = files.text(FILE)? {
        return Ok(vec![(KEY.to_owned(), Key::Text(text.to_owned()))]);
    }
    let old = match files.object(OLD_FILE)? {
        Some(mut object) => object.remove("chat_template"),
        None => None,
    };
    match special_files.chat_template().or(old.as_ref()) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![(KEY.to_owned(), Key::Text(text.clone()))]),
        Some(Value::Array(list)) => named(list),
        Some(other) => {
            Err(fault("tokenizer_config.json", format!("`chat_template` is {}, not a text", other.kind())))
        }
    }
}

/// Reads templates with names. The one that is named `default` is the model's.
fn named(list: &List) -> Result<Vec<(String, Key)>, MapError> {
    let bad = |why: &str| fault("tokenizer_config.json", format!("`chat_template` {why}"));
    let (mut keys, mut names) = (Vec::new(), Vec::new());
    for template in list {
        let name = template.get("name").and_then(Value::as_str).unwrap_or_default();
        let text = template.get("template").and_then(Value::as_str);
        let text =
            text.filter(|_| !name.is_empty()).ok_or_else(|| bad("has one without a name or a text"))?;
        // gguf-py makes the same name.
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let key = if name == "default" { KEY.to_owned() } else { format!("{KEY}.{name}") };
        if keys.iter().any(|(own, _)| *own == key) {
            return Err(bad("has two with the same name"));
        }
        if name != "default" {
            names.push(name);
        }
        keys.push((key, Key::Text(text.to_owned())));
    }
    if !names.is_empty() {
        keys.push(("tokenizer.chat_templates".to_owned(), Key::Texts(names)));
    }
    Ok(keys)
}
