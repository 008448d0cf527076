//! The front matter of a model card: the YAML at the head of a README.md that describes the model to the hub.
//!
//! Only the few forms of YAML that cards on the hub use for these keys are read: a plain or quoted text, and
//! a list of texts. Any other value is ignored.

use modelfmt_core::value::{Object, Value};

/// The keys that are read.
const KEYS: [&str; 5] = ["license", "license_name", "license_link", "base_model", "version"];

/// The maximum number of items in a list.
const MAX_ITEMS: usize = 1000;

/// Parses a model card, and returns these keys with their values: texts or lists of texts.
#[must_use]
pub fn parse(text: &str) -> Object {
    let mut found = Object::new();
    let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim_end);
    if lines.next() != Some("---") {
        return found;
    }
    let lines: Vec<&str> = lines.take_while(|line| !matches!(*line, "---" | "...")).collect();
    for (at, line) in lines.iter().enumerate() {
        let Some((key, value)) = line.split_once(':').filter(|(key, _)| KEYS.contains(key)) else { continue };
        let below = lines.get(at.saturating_add(1)..).unwrap_or_default();
        let value = match uncommented(value) {
            "" => block(below),
            flow if flow.starts_with('[') => items(flow),
            // The text may continue on the next line.
            one if below.first().is_none_or(|next| !next.starts_with([' ', '\t'])) => {
                scalar(one).map(Value::from)
            }
            _ => None,
        };
        if let Some(value) = value.filter(|_| !found.contains_key(key)) {
            found.insert(key, value);
        }
    }
    found
}

/// Removes the white space and the comment around a value.
fn uncommented(value: &str) -> &str {
    let value = value.trim();
    if value.starts_with(['"', '\'']) {
        return value;
    }
    value.split(" #").next().unwrap_or(value).trim()
}

/// Reads a plain or quoted text. `None` for anything that YAML reads differently.
fn scalar(text: &str) -> Option<String> {
    let quoted = |quote| text.strip_prefix(quote).and_then(|text: &str| text.strip_suffix(quote));
    if let Some(inner) = quoted('"').or_else(|| quoted('\'')) {
        return (!inner.contains(['"', '\'', '\\'])).then(|| inner.to_owned());
    }
    let is_plain = !text
        .starts_with(['&', '*', '!', '|', '>', '%', '@', '`', '{', '}', '[', ']', '"', '\'', '#', ','])
        && !text.contains(": ")
        && !text.ends_with(':');
    let is_null = matches!(text, "" | "~" | "null");
    (is_plain && !is_null).then(|| text.to_owned())
}

/// Reads a list on one line, `[a, b]`.
fn items(flow: &str) -> Option<Value> {
    let inner = flow.strip_prefix('[')?.strip_suffix(']')?;
    let items: Option<Vec<String>> =
        inner.split(',').map(|item| scalar(item.trim())).take(MAX_ITEMS).collect();
    Some(items?.into_iter().collect())
}

/// Reads a list whose items are lines that begin with `- `.
fn block(lines: &[&str]) -> Option<Value> {
    let items: Option<Vec<String>> = lines
        .iter()
        .map_while(|line| line.trim_start().strip_prefix("- "))
        .take(MAX_ITEMS)
        .map(|item| scalar(uncommented(item)))
        .collect();
    items.filter(|items| !items.is_empty()).map(|items| items.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use modelfmt_core::value::json;

    use super::*;

    #[test]
    fn texts_and_lists_are_read() {
        for (card, found) in [
            (
                "---\nlicense: apache-2.0\nbase_model: org/base # the one\n---\n# Title\nlicense: mit\n",
                r#"{"license":"apache-2.0","base_model":"org/base"}"#,
            ),
            (
                "---\r\nlicense: other\r\nlicense_name: \"mine\"\r\nlicense_link: 'https://example.org/x#y'\r\n---\r\n",
                r#"{"license":"other","license_name":"mine","license_link":"https://example.org/x#y"}"#,
            ),
            (
                "---\nbase_model:\n- a/b\n  - c/d\nlicense:\n  - mit\ntags: []\n---",
                r#"{"base_model":["a/b","c/d"],"license":["mit"]}"#,
            ),
            (
                "---\nbase_model: [a/b, 'c/d']\nlicense: mit\nlicense: second\n",
                r#"{"base_model":["a/b","c/d"],"license":"mit"}"#,
            ),
            // What is not read: no front matter, other forms, other levels.
            ("license: mit\n", "{}"),
            ("\n---\nlicense: mit\n---\n", "{}"),
            (
                "---\nlicense: |\n  long\nversion: &x 1\nbase_model: {a: b}\nlicense_name: a\n  b\nlicense_link:\n---\n",
                "{}",
            ),
            ("---\nmodel-index:\n  license: mit\nbase_model:\n- name: x\n---\n", "{}"),
        ] {
            assert_eq!(json::to_string(&Value::from(parse(card))).as_deref(), Ok(found), "{card}");
        }
    }
}
