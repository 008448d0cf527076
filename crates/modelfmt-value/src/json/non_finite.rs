//! NaN and the infinities in JSON text, as Python's `json` module reads and writes them: the bare words
//! `NaN`, `Infinity` and `-Infinity`.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;

use super::super::de::TooDeep;
use super::super::de::{ExactSeed, KnownNumber};
use super::super::ser::{Branch, Order};
use super::super::{MAX_DEPTH, Object, ParseOptions, Value};
use super::numbers::{Word, end_of_string, known_numbers};
use super::{JsonError, finish};

const WORDS: [(&str, f64); 3] =
    [("NaN", f64::NAN), ("Infinity", f64::INFINITY), ("-Infinity", f64::NEG_INFINITY)];

/// Replaces each bare word by a zero and spaces, so that any JSON parser accepts the text. The length does
/// not change. Returns the text itself if it has no bare words.
#[must_use]
pub fn without_bare_words(text: &str) -> Cow<'_, str> {
    replace(text).0
}

/// Parses JSON text in which floats may be bare words.
///
/// # Errors
///
/// [`JsonError`] if the text is not JSON apart from these words, has a duplicate key, or is nested too deep.
pub fn parse_with_bare_words(text: &[u8]) -> Result<Value, JsonError> {
    let text = std::str::from_utf8(text).map_err(|error| JsonError::not_utf8(text, error))?;
    let (plain, words) = replace(text);
    let known: Vec<KnownNumber> =
        known_numbers(&plain, &words).map_err(|offset| JsonError::too_large(text, offset))?;
    finish(&plain, ExactSeed { options: ParseOptions::default(), known })
}

/// Returns the JSON text of the object, without insignificant white space, and with bare words for NaN and
/// the infinities. Keys keep their order.
///
/// # Errors
///
/// [`JsonError`] if the object is nested too deep.
pub fn to_string_with_bare_words(object: &Object) -> Result<String, JsonError> {
    let mut out = String::new();
    push_object(object, 0, &mut out)?;
    Ok(out)
}

fn push_object(object: &Object, depth: u32, out: &mut String) -> Result<(), JsonError> {
    let depth = deeper(depth)?;
    out.push('{');
    for (number, (key, value)) in object.iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        out.push_str(&written(key)?);
        out.push(':');
        push_value(value, depth, out)?;
    }
    out.push('}');
    Ok(())
}

fn push_value(value: &Value, depth: u32, out: &mut String) -> Result<(), JsonError> {
    match value {
        Value::Float(x) if !x.is_finite() => {
            let word = WORDS.iter().find(|(_, float)| float == x).map_or("NaN", |(word, _)| *word);
            out.push_str(word);
        }
        Value::Array(items) => {
            let depth = deeper(depth)?;
            out.push('[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                push_value(&item, depth, out)?;
            }
            out.push(']');
        }
        Value::Object(object) => push_object(object, depth, out)?,
        leaf => {
            out.push_str(&written(&Branch { node: leaf, order: Order::Kept, depth })?);
        }
    }
    Ok(())
}

fn written(leaf: &(impl serde::Serialize + ?Sized)) -> Result<String, JsonError> {
    serde_json::to_string(leaf).map_err(|error| JsonError::unwritable(&error))
}

fn deeper(depth: u32) -> Result<u32, JsonError> {
    if depth >= MAX_DEPTH {
        return Err(JsonError { message: TooDeep(MAX_DEPTH).to_string(), position: None });
    }
    Ok(depth.saturating_add(1))
}

/// Replaces each bare word by a zero. Returns the text and the list of the words.
fn replace(text: &str) -> (Cow<'_, str>, Vec<Word>) {
    let (bytes, mut words) = (text.as_bytes(), Vec::new());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = end_of_string(bytes, at);
                continue;
            }
            b'-' | b'N' | b'I' if let Some((word, float)) = word_at(bytes, at) => {
                words.push((at, float));
                at = at.saturating_add(word.len());
                continue;
            }
            _ => at = at.saturating_add(1),
        }
    }
    if words.is_empty() {
        return (Cow::Borrowed(text), words);
    }
    let (mut plain, mut copied) = (String::with_capacity(text.len()), 0);
    for &(at, _) in &words {
        let Some((word, _)) = word_at(bytes, at) else { continue };
        plain.push_str(text.get(copied..at).unwrap_or_default());
        plain.push('0');
        plain.extend(std::iter::repeat_n(' ', word.len().saturating_sub(1)));
        copied = at.saturating_add(word.len());
    }
    plain.push_str(text.get(copied..).unwrap_or_default());
    (Cow::Owned(plain), words)
}

/// Returns the bare word that begins at `at`, if it is not part of a longer word.
fn word_at(text: &[u8], at: usize) -> Option<(&'static str, f64)> {
    let is_joined = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'_'))
    };
    if is_joined(at.checked_sub(1).and_then(|before| text.get(before))) {
        return None;
    }
    let rest = text.get(at..)?;
    let found =
        |(word, _): &&(&str, f64)| rest.starts_with(word.as_bytes()) && !is_joined(rest.get(word.len()));
    WORDS.iter().find(found).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<Value> {
        parse_with_bare_words(text.as_bytes()).ok()
    }

    #[test]
    fn bare_words_are_floats_wherever_a_value_may_stand() {
        let text = r#"{"a":NaN,"b":[-Infinity,Infinity,1,-0.0,99999999999999999999],"NaN":"Infinity \" NaN","d":{"x": -Infinity }}"#;
        let tree = parsed(text).unwrap();
        let floats = [f64::NEG_INFINITY.into(), f64::INFINITY.into(), Value::from(1), Value::from(-0.0)];
        let large = Value::from(99_999_999_999_999_999_999i128);
        assert!(tree.get("a").unwrap().as_f64().unwrap().is_nan());
        assert_eq!(tree.get("b"), Some(&floats.into_iter().chain([large]).collect()));
        assert_eq!(tree.get("NaN"), Some(&Value::from("Infinity \" NaN")));
        assert_eq!(tree.path(["d", "x"]), Some(&Value::from(f64::NEG_INFINITY)));
        let written = to_string_with_bare_words(tree.as_object().unwrap()).unwrap();
        assert_eq!(written, text.replace(" -Infinity ", "-Infinity"));
        let plain = without_bare_words(text);
        assert_eq!(plain.len(), text.len());
        assert!(super::super::parse(plain.as_bytes()).is_ok());
        assert!(matches!(without_bare_words("[1]"), Cow::Borrowed("[1]")));
    }

    #[test]
    fn what_python_does_not_read_is_refused() {
        for text in [
            "nan",
            "+Infinity",
            "--Infinity",
            "1NaN",
            "NaN1",
            "-NaN",
            "Inf",
            "{NaN:1}",
            "[NaN NaN]",
            "Infinity.0",
            "NaNN",
        ] {
            assert!(parsed(text).is_none(), "{text}");
        }
    }

    #[test]
    fn trees_that_are_too_deep_are_not_written() {
        let nested = |levels: usize| {
            let inner = (0..levels).fold(Value::Null, |inner, _| Value::from(vec![inner]));
            to_string_with_bare_words(&Object::from_iter([("k", inner)]))
        };
        assert!(nested(126).is_ok() && nested(127).is_err());
    }
}
