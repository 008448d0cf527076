//! Prints metadata and details as tables.

use std::io::Write;

use comfy_table::{ContentArrangement, Table, presets};
use modelfmt::value::{List, json};
use modelfmt::wording::Printable;
use modelfmt::{Model, Value};

use super::{LONGEST, TABLE_ROWS};
use crate::failure::{Failure, Result};
use crate::json::EscapedJson;
use crate::units::count;
use crate::width;

/// Writes the top level of a tree, with a line for each key. A value that is too long for one line gets
/// several lines, and is cut if these are not enough.
pub(super) fn tree(title: &str, tree: &Value, out: &mut dyn Write) -> Result {
    let Value::Object(entries) = tree else { return Ok(()) };
    if entries.iter().all(|(_, value)| value.is_null()) {
        return Ok(());
    }
    writeln!(out, "\n{}", super::title(title))?;
    let longest = entries.iter().map(|(key, _)| name(key).chars().count()).max().unwrap_or(0);
    let mut rows = entries.iter().filter(|(_, value)| !value.is_null()).peekable();
    while rows.peek().is_some() {
        let mut table = table();
        for (key, value) in rows.by_ref().take(TABLE_ROWS) {
            table.add_row([format!("  {}", name(key)), branch(value, value_width(longest))]);
        }
        writeln!(out, "{}", table.trim_fmt())?;
    }
    Ok(())
}

/// Prints one value in full: text line by line, without characters that would disturb a terminal, and anything else as JSON.
pub(super) fn value(model: &Model, key: &str, as_json: bool) -> Result {
    let metadata = model.metadata()?;
    let Some(value) = find(&metadata, key) else {
        let path = model.path().display().to_string();
        let why = format!("{path}: its metadata has no key {key:?}; without --get, inspect lists them");
        return Err(Failure::Input(why));
    };
    super::super::print(|out| match value {
        Value::String(text) if !as_json => {
            for line in text.lines() {
                writeln!(out, "{}", Printable(line))?;
            }
            Ok(())
        }
        value => {
            serde_json::to_writer(EscapedJson(&mut *out), value).map_err(std::io::Error::from)?;
            Ok(writeln!(out)?)
        }
    })
}

/// Finds the value of a key. If there is no such key, its parts between dots name values within values.
fn find<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    let own = value.get(key);
    own.or_else(|| key.match_indices('.').find_map(|(at, _)| find(value.get(&key[..at])?, &key[at + 1..])))
}

/// Formats a value at top level: a table if it is a long object or a long list of objects, otherwise one
/// line.
fn branch(value: &Value, width: usize) -> String {
    const MOST_ROWS: usize = 32;
    const MOST_COLUMNS: usize = 12;
    const LINE: usize = 80;
    let is_long = || json::start(value, LINE + 1).chars().count() > LINE;
    let mut table = table();
    let rows = match value {
        Value::Object(entries) if is_long() => {
            let longest = entries.iter().map(|(key, _)| name(key).chars().count()).max().unwrap_or(0);
            let width = width.saturating_sub(longest).max(LINE / 4);
            for (key, value) in entries.iter().take(MOST_ROWS) {
                table.add_row([name(key), leaf(value, width)]);
            }
            entries.len()
        }
        Value::Array(records) if is_long() && records.iter().all(|record| record.as_object().is_some()) => {
            let total = records.len();
            let records: Vec<_> = records.iter().take(MOST_ROWS).collect();
            let records: Vec<_> = records.iter().filter_map(Value::as_object).collect();
            let keys = || {
                records.iter().take(1).flat_map(|record| record.iter()).map(|(key, _)| key).take(MOST_COLUMNS)
            };
            table.add_row(keys().map(|key| Printable(key).cut(CELL)));
            for record in records.iter().take(MOST_ROWS) {
                table.add_row(keys().map(|key| record.get(key).map_or_else(String::new, cell)));
            }
            total
        }
        other => return leaf(other, width),
    };
    let mut text = table
        .trim_fmt()
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n");
    if let Some(more) = rows.checked_sub(MOST_ROWS).filter(|&more| more > 0) {
        text.push_str(&format!("\n… and {} more; --json has them", count(more as u64)));
    }
    // If the table is too wide, one line shows its beginning.
    let is_narrow = width::width().is_some() && text.lines().any(|line| line.chars().count() > width);
    if is_narrow { leaf(value, width) } else { text }
}

/// The maximum number of characters of a cell in a table of objects.
const CELL: usize = 32;

/// Formats a value for such a cell. A list of words is written without brackets and quotes.
fn cell(value: &Value) -> String {
    let words = value.as_array().and_then(List::texts);
    let start = |words: Vec<&str>| words.get(..words.len().min(CELL + 2)).unwrap_or_default().join(" ");
    words.map_or_else(|| leaf(value, CELL), |words| Printable(&start(words)).cut(CELL))
}

/// A list with more items than this ends in their number if its line is cut.
const FEW: usize = 8;

/// Formats a value on one line.
fn leaf(value: &Value, width: usize) -> String {
    match value {
        Value::String(text) => Printable(text).cut(width),
        Value::Array(items) if items.len() > FEW && json::start(value, width + 1).chars().count() > width => {
            let number = format!(" ({} in all)", count(items.len() as u64));
            Printable(&json::start(value, width + 1)).cut(width.saturating_sub(number.len())) + &number
        }
        other => Printable(&json::start(other, width + 1)).cut(width),
    }
}

/// Returns the number of characters for values next to keys of up to `key` characters: the rest of the line,
/// if its width is known.
fn value_width(key: usize) -> usize {
    const LEAST: usize = 20;
    const MOST: usize = 200;
    const INDENT_AND_GAP: usize = 6;
    width::width().map_or(MOST, |width| width.saturating_sub(key + INDENT_AND_GAP).max(LEAST))
}

/// Formats a name for a line of output: escaped, cut if it is very long, and in quotation marks if it is
/// empty.
pub(super) fn name(name: &str) -> String {
    if name.is_empty() { "\"\"".to_owned() } else { Printable(name).cut(LONGEST) }
}

fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    // Names are never folded, so that they can be copied.
    table.set_content_arrangement(ContentArrangement::Disabled);
    table
}
