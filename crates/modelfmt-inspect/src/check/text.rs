//! Finds oddities in the texts of a model's metadata: templates that could run code, and invisible
//! characters.

use std::collections::BTreeSet;

use modelfmt_core::author::Shortened;
use modelfmt_core::value::{List, ParseOptions, Value, json};
use modelfmt_model::model::Model;

use super::report::TextFinding;
use super::template::dangers;

/// The length in bytes above which a template is unusual. The longest ones on Hugging Face have 30 KiB.
const LONG_TEMPLATE: usize = 100_000;
/// The length in bytes above which another text is unusual.
const LONG_TEXT: usize = 1 << 20;
/// The length above which a list of texts counts as a vocabulary or the like.
const LONG_LIST: usize = 256;
/// The maximum number of findings that are listed of each kind: those that could run code, and the others.
const MOST: usize = 100;
/// The key of a config under which Hugging Face names classes that are not part of transformers.
const AUTO_MAP: &str = "auto_map";
/// The maximum depth of JSON within JSON that is parsed: metadata may hold a tokenizer file that holds a
/// template.
const MAX_NESTED: u32 = 2;

/// The findings in the texts of a model.
#[derive(Default)]
pub(super) struct Texts {
    pub(super) findings: Vec<TextFinding>,
    /// The vocabularies and other long lists that were not searched.
    pub(super) not_searched: Vec<String>,
}

/// Searches the metadata of a model, and the templates in the files next to it.
pub(super) fn texts(model: &Model) -> Texts {
    let mut texts = of_metadata(model);
    search_hub_files(model, &mut texts);
    texts
}

/// Searches the metadata of a model.
pub(super) fn of_metadata(model: &Model) -> Texts {
    let mut texts = Texts::default();
    if let Ok(metadata) = model.metadata() {
        texts.look("", &metadata, 0);
    }
    texts
}

/// Files of a hub folder that hold templates, or name code.
#[cfg(not(target_arch = "wasm32"))]
const FILES: [&str; 6] = [
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "tokenizer_config.json",
];

#[cfg(not(target_arch = "wasm32"))]
fn search_hub_files(model: &Model, texts: &mut Texts) {
    const MAX_LEN: u64 = 32 << 20;
    for name in FILES {
        let read = modelfmt_metadata::config::file(model.sidecars(), name, MAX_LEN);
        match read.map(|bytes| bytes.map(String::from_utf8)) {
            Ok(None) => {}
            Ok(Some(Ok(text))) => texts.text(name, &text, 0),
            Ok(Some(Err(_))) => {
                texts.add(name, 0, "it is not looked into: it is not UTF-8".to_owned(), false);
            }
            Err(error) => {
                texts.add(name, 0, format!("it is not looked into: {error}"), false);
            }
        }
    }
}

#[cfg(target_arch = "wasm32")]
const fn search_hub_files(_: &Model, _: &mut Texts) {}

impl Texts {
    fn look(&mut self, name: &str, value: &Value, nested: u32) {
        match value {
            Value::String(text) => self.text(name, text, nested),
            Value::Array(list) => self.list(name, list, nested),
            Value::Object(object) => {
                for (key, value) in object.iter() {
                    let name = joined(name, key);
                    if key == AUTO_MAP {
                        self.code(&name, value);
                    }
                    self.look(&name, value, nested);
                }
            }
            _ => {}
        }
    }

    fn list(&mut self, name: &str, list: &List, nested: u32) {
        // A list of objects may be a list of templates.
        if list.len() > LONG_LIST && list.get(0).is_none_or(|first| first.as_object().is_none()) {
            if list.get(0).is_some_and(|first| first.as_str().is_some()) && self.not_searched.len() < MOST {
                self.not_searched.push(name.to_owned());
            }
            return;
        }
        for (at, value) in list.iter().enumerate() {
            self.look(&joined(name, &at.to_string()), &value, nested);
        }
    }

    fn text(&mut self, name: &str, text: &str, nested: u32) {
        if nested < MAX_NESTED && is_json(text) {
            // Allow as many values as the text can have, because vocabularies are lists and objects of texts.
            let options = ParseOptions::new().with_max_nodes(text.len() as u64);
            if let Ok(value) = json::parse_with(text.as_bytes(), options) {
                return self.look(name, &value, nested + 1);
            }
            // Other parsers may accept the text although it has a NaN, a duplicate key, or an extra comma.
            // Search its strings, and then the whole text, because it may be a template.
            for literal in literals(text) {
                self.text(name, &literal, nested + 1);
            }
        }
        let is_template = text.contains("{{") || text.contains("{%");
        if is_template {
            for danger in dangers(text) {
                let what = format!("a renderer could run code of this template: {}", danger.what);
                self.add(name, danger.at, what, true);
            }
        }
        if let Some((at, hidden)) = text.char_indices().find(|&(_, c)| is_hidden(c)) {
            let count = text.chars().filter(|&c| is_hidden(c)).count();
            let several = if count > 1 { format!(", {count} of them") } else { String::new() };
            let what = format!("it holds characters that nobody sees (U+{:04X}{several})", u32::from(hidden));
            self.add(name, at, what, false);
        }
        if text.len() > if is_template { LONG_TEMPLATE } else { LONG_TEXT } {
            self.add(name, 0, format!("it is unusually long ({} bytes)", text.len()), false);
        }
    }

    /// Names the Python files that transformers runs for the classes of an `auto_map`. It runs them only if
    /// the user tells it to trust them, so this is not a fault.
    fn code(&mut self, name: &str, classes: &Value) {
        const NAMED: usize = 4;
        let mut files = BTreeSet::new();
        files_of(classes, &mut files);
        if files.is_empty() {
            return;
        }
        let named = files.iter().take(NAMED).map(|file| format!("{:?}", Shortened(file)));
        let named = named.collect::<Vec<_>>().join(", ");
        let more = files.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let what = format!(
            "with trust_remote_code=True, transformers runs code that comes with the model, which is not searched: {named}{more}"
        );
        self.add(name, 0, what, false);
    }

    fn add(&mut self, name: &str, at: usize, what: String, runs_code: bool) {
        if self.findings.iter().filter(|finding| finding.runs_code == runs_code).count() < MOST {
            self.findings.push(TextFinding { name: name.to_owned(), at: at as u64, what, runs_code });
        }
    }
}

/// Collects the Python files of classes such as `modeling_foo.FooModel`, or
/// `OWNER/REPO--modeling_foo.FooModel`, which is in another repository of Hugging Face. A tokenizer has a
/// list of two classes.
fn files_of(classes: &Value, files: &mut BTreeSet<String>) {
    match classes {
        Value::String(class) => {
            let (repo, class) = class.split_once("--").map_or(("", &**class), |(repo, class)| (repo, class));
            let Some((module, _)) = class.rsplit_once('.') else { return };
            let of = if repo.is_empty() { String::new() } else { format!(" of {repo}") };
            files.insert(format!("{}.py{of}", module.replace('.', "/")));
        }
        Value::Array(list) => list.iter().for_each(|class| files_of(&class, files)),
        Value::Object(object) => object.iter().for_each(|(_, class)| files_of(class, files)),
        _ => {}
    }
}

fn joined(name: &str, key: &str) -> String {
    if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") }
}

/// Checks whether a text may be a JSON object or array and not a template, which would begin with two braces.
fn is_json(text: &str) -> bool {
    let inside = text.trim_start();
    let first =
        inside.strip_prefix('{').map(str::trim_start).is_some_and(|rest| rest.starts_with(['"', '}']));
    first || inside.starts_with('[')
}

/// Returns the strings of a text that is nearly JSON, decoded, if they may hold a template or invisible
/// characters.
fn literals(text: &str) -> impl Iterator<Item = String> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let literal = rest.get(rest.find('"')?..)?;
            let mut chars = literal.char_indices().skip(1);
            let mut end = literal.len();
            while let Some((at, c)) = chars.next() {
                if c == '\\' {
                    chars.next();
                } else if c == '"' {
                    end = at + 1;
                    break;
                }
            }
            let (literal, after) = literal.split_at(end);
            rest = after;
            // Some parsers accept a line feed or another control character.
            let escaped: String = literal.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            match json::parse(escaped.as_bytes()) {
                Ok(Value::String(decoded)) if !decoded.is_ascii() || decoded.contains('{') => {
                    return Some(decoded.to_string());
                }
                Ok(_) => {}
                Err(_) => return Some(literal.to_owned()),
            }
        }
    })
}

/// Checks whether a character is invisible, or changes the direction of the text that follows.
const fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}')
}
