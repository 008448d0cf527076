//! Size variables and metadata as text, with explicit types.

use modelfmt_core::value::{List, Value, json};

use super::{Sections, output};
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;
use modelfmt_rules::wording::Printable;
use modelfmt_rules::wording::format_g::G6;

/// Writes size variables, which only OINF has, as `NAME := VALUE`.
pub(super) fn sizevars(model: &Model, sections: &mut Sections<'_>) -> Result<()> {
    let sizevars = model.sizevars();
    if sizevars.is_empty() {
        return Ok(());
    }
    let out = sections.next()?;
    for (name, value) in sizevars.iter() {
        writeln!(out, "{} := {}", Printable(name), scalar(value)).map_err(output)?;
    }
    Ok(())
}

/// Writes metadata as `key: type = value`.
pub(super) fn metadata(model: &Model, sections: &mut Sections<'_>) -> Result<()> {
    let metadata = model.metadata()?;
    let Some(Value::Object(entries)) = model.format().keys_of(&metadata) else { return Ok(()) };
    if entries.is_empty() {
        return Ok(());
    }
    let out = sections.next()?;
    for (key, value) in entries.iter() {
        let line = if model.format().properties().prescribed_output { typed(value) } else { plain(value) };
        writeln!(out, "{}: {line}", Printable(key)).map_err(output)?;
    }
    Ok(())
}

/// Returns the text for a value with one of OINF's own types, from the tree that its reader makes.
fn typed(value: &Value) -> String {
    let kind = value.get("type").and_then(Value::as_str).unwrap_or("?");
    let inner = value.get("value").unwrap_or(&Value::Null);
    match (kind, inner) {
        ("bitset", Value::Array(bits)) => {
            // LSB first within each byte (OINF 1, "Metadata Payloads"); the document shows four bytes.
            let first: Vec<bool> = bits.iter().take(32).map(|bit| bit.as_bool() == Some(true)).collect();
            let byte = |bits: &[bool]| {
                bits.iter().enumerate().fold(0u8, |byte, (i, &bit)| byte | (u8::from(bit) << i))
            };
            let bytes: Vec<String> = first.chunks(8).map(|bits| format!("{:02x}", byte(bits))).collect();
            format!("bitset[{}] = {}", bits.len(), bytes.join(" "))
        }
        ("ndarray", Value::Array(values)) => {
            let dtype = value.get("dtype").and_then(Value::as_str).unwrap_or("?");
            let shape: Vec<u64> = match value.get("shape") {
                Some(Value::Array(dims)) => dims.iter().filter_map(|dim| dim.as_u64()).collect(),
                _ => Vec::new(),
            };
            let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
            format!("{dtype}[{}] = {}", dims.join(", "), array(values, &shape))
        }
        _ => format!("{kind} = {}", scalar(inner)),
    }
}

fn array(values: &List, shape: &[u64]) -> String {
    let rank = shape.len();
    let first = match shape {
        [] | [_] => return row(values, 0, values.len()),
        [first, ..] => usize::try_from(*first).unwrap_or(usize::MAX),
    };
    let width = values.len().checked_div(first).unwrap_or(0).max(1);
    let rows = first.min(rank).min(5);
    let starts = (0..values.len()).step_by(width).take(rows);
    let lines: String = starts.map(|start| format!("{} ,\n", row(values, start, width))).collect();
    format!("{{\n{lines}{}}}", if first > rows { "...\n" } else { "" })
}

/// Returns `width` values beginning at `start`, or as many as there are. If there are more than ten, only the
/// first and the last five.
fn row(values: &List, start: usize, width: usize) -> String {
    let len = width.min(values.len().saturating_sub(start));
    let part = |from: usize, count: usize| {
        values.iter().skip(start + from).take(count).map(|value| scalar(&value)).collect::<Vec<_>>()
    };
    let words =
        if len > 10 { [part(0, 5), vec!["...".to_owned()], part(len - 5, 5)].concat() } else { part(0, len) };
    format!("{{ {} }}", words.join(", "))
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Float(value) => G6(*value).to_string(),
        // In the tree these floats are text, because JSON has no numbers for them.
        Value::String(text) if matches!(text.as_str(), "NaN" | "Infinity" | "-Infinity") => {
            text.replace("Infinity", "inf").to_lowercase()
        }
        Value::String(text) => format!("\"{}\"", Printable(text)),
        other => compact(other),
    }
}

/// Returns the text for a value of a format whose metadata is JSON or numbers.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("bool = {value}"),
        Value::Int(value) if value.is_negative() || value.as_i64().is_some() => format!("i64 = {value}"),
        Value::Int(value) => format!("u64 = {value}"),
        Value::Float(value) => format!("f64 = {}", G6(*value)),
        Value::String(text) => {
            let start: String = text.chars().take(MAX).collect();
            let end = if start.len() == text.len() { "\"" } else { "" };
            format!("str = {}", Printable(&format!("\"{start}{end}")).cut(MAX))
        }
        Value::Array(values) => format!("list[{}] = {}", values.len(), shortened(value)),
        Value::Object(object) => format!("map[{}] = {}", object.len(), shortened(value)),
        other => compact(other),
    }
}

fn compact(value: &Value) -> String {
    Printable(&json::to_string(value).unwrap_or_else(|_| "…".to_owned())).to_string()
}

/// The maximum number of characters of a value; longer values end in an ellipsis.
const MAX: usize = 160;

/// Returns the beginning of the text of a list or an object. The whole text can be many times as long as the
/// file.
fn shortened(value: &Value) -> String {
    Printable(&json::start(value, MAX + 1)).cut(MAX)
}
