//! Values of metadata. Long values are cut.

use modelfmt_core::value::{Object, Value, json};

use super::grouped;
use super::html::Html;

/// The maximum number of characters of a value.
const LONGEST: usize = 600;
/// The maximum number of characters of a key.
const KEY: usize = 200;
/// The maximum number of rows of a table.
const ROWS: usize = 1000;

/// Writes a value: text without quotation marks, everything else as JSON.
pub(super) fn value(value: &Value, html: &mut Html) {
    match value {
        Value::String(text) => {
            html.code(text, LONGEST);
        }
        value => {
            let start = json::start(value, LONGEST + 1);
            let is_cut = start.chars().nth(LONGEST).is_some();
            let shown: String = start.chars().take(LONGEST).collect();
            html.markup("<code>").text(shown).markup(if is_cut { "…</code>" } else { "</code>" });
            let entries = match value {
                Value::Array(list) => Some(list.len()),
                Value::Object(object) => Some(object.len()),
                _ => None,
            };
            if let Some(entries) = entries.filter(|_| is_cut) {
                html.markup(" <small>(").text(grouped(entries as u64)).markup(" entries)</small>");
            }
        }
    }
}

/// Writes a key.
pub(super) fn key(key: &str, html: &mut Html) {
    html.code(key, KEY);
}

/// Writes the members of an object, without the members that are null.
pub(super) fn table(object: &Object, html: &mut Html) {
    html.markup("<table class=kv><tbody>\n");
    let mut members = object.iter().filter(|(_, value)| !value.is_null());
    for (name, member) in members.by_ref().take(ROWS) {
        html.markup("<tr><th scope=row>");
        key(name, html);
        html.markup("</th><td>");
        value(member, html);
        html.markup("</td></tr>\n");
    }
    html.markup("</tbody></table>\n");
    more(members.count(), "keys", html);
}

/// Says how many rows were left out.
pub(super) fn more(number: usize, what: &'static str, html: &mut Html) {
    if number > 0 {
        html.markup("<p class=note>… and ").text(grouped(number as u64)).markup(" more ").markup(what);
        html.markup(", not shown</p>\n");
    }
}
