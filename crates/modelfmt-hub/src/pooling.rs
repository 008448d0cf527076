//! Pooling: how the embeddings of tokens become the embedding of a text.

use modelfmt_value::{Value, json};

use crate::{Key, MapError};

/// The file of a folder that states the pooling, as the library sentence-transformers writes it.
pub const POOLING: &str = "1_Pooling/config.json";

/// The value of llama.cpp's key for each flag of that file.
const KINDS: [(&str, u32); 3] =
    [("pooling_mode_mean_tokens", 1), ("pooling_mode_cls_token", 2), ("pooling_mode_lasttoken", 3)];
/// The text that newer versions of the library write instead of flags, and its values.
const MODE: &str = "pooling_mode";
const MODES: [(&str, u32); 3] = [("mean", 1), ("cls", 2), ("lasttoken", 3)];
/// The prefix of the names of all flags.
const FLAGS: &str = "pooling_mode_";

/// Returns the value of `pooling_type` for the text of [`POOLING`]; `None` if llama.cpp does not pool in that
/// way.
///
/// # Errors
/// If the text is not a JSON object.
pub fn pooling(text: &[u8]) -> Result<Option<Key>, MapError> {
    let object = json::parse_object(text).map_err(|error| MapError::Config(format!("{POOLING}: {error}")))?;
    let is_set = |(name, value): &(&str, &Value)| name.starts_with(FLAGS) && value.as_bool() == Some(true);
    let mut flags = object.iter().filter(is_set).map(|(name, _)| name).peekable();
    if let (None, Some(mode)) = (flags.peek(), object.get(MODE).and_then(Value::as_str)) {
        return Ok(MODES.iter().find(|(name, _)| *name == mode).map(|(_, kind)| Key::U32(*kind)));
    }
    let (Some(flag), None) = (flags.next(), flags.next()) else { return Ok(None) };
    Ok(KINDS.iter().find(|(name, _)| *name == flag).map(|(_, kind)| Key::U32(*kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_flag_is_set() {
        for (text, kind) in [
            (r#"{"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false}"#, Some(1)),
            (r#"{"pooling_mode_cls_token": true}"#, Some(2)),
            (r#"{"pooling_mode_lasttoken": true, "include_prompt": true}"#, Some(3)),
            (r#"{"pooling_mode_max_tokens": true}"#, None),
            (r#"{"pooling_mode": "lasttoken"}"#, Some(3)),
            (r#"{"pooling_mode": "max"}"#, None),
            (r#"{"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true}"#, None),
            ("{}", None),
        ] {
            assert_eq!(pooling(text.as_bytes()).unwrap(), kind.map(Key::U32), "{text}");
        }
        assert!(pooling(b"[").unwrap_err().to_string().contains(POOLING));
    }
}
