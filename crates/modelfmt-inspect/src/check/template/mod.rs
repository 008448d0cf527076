//! Checks whether a chat template could run code when it is rendered.
//!
//! Templates are programs in Jinja. Whoever talks to the model runs them. Without a sandbox, a renderer gives
//! them access to all of Python: from any value, a chain of attributes such as `''.__class__.__mro__` leads
//! to `os.system`. The scan therefore looks for the names that such a chain needs, for texts that the
//! template puts together and uses as names, and for functions that no chat template calls. Text outside `{{
//! }}` and `{% %}` is never run, and is not scanned. The scan takes time in proportion to the template, and
//! runs nothing.

mod flow;
mod lex;
#[cfg(test)]
mod tests;
mod value;

use lex::{Lexer, Token, is_of_name};

/// Something in a template that could run code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Danger {
    /// Its offset in bytes from the beginning of the template.
    pub(super) at: usize,
    /// A description for people.
    pub(super) what: String,
}

/// The maximum number of findings. One is enough to refuse a template.
const MOST: usize = 5;

/// Functions and objects that no chat template needs, and that give access to things outside the template.
const ESCAPES: [&str; 16] = [
    "os",
    "sys",
    "eval",
    "exec",
    "import",
    "include",
    "extends",
    "subprocess",
    "builtins",
    "config",
    "open",
    "lipsum",
    "cycler",
    "joiner",
    "self",
    "request",
];

/// Attributes of Python's functions, frames and generators that lead to its modules.
const INTERNALS: [&str; 16] = [
    "gi_frame",
    "gi_code",
    "gi_yieldfrom",
    "cr_frame",
    "cr_code",
    "ag_frame",
    "ag_code",
    "f_back",
    "f_builtins",
    "f_code",
    "f_globals",
    "f_locals",
    "func_code",
    "func_globals",
    "tb_frame",
    "mro",
];

/// Blocks whose text becomes a value. `set` is also such a block if its tag assigns nothing.
const CAPTURING: [&str; 3] = ["call", "filter", "macro"];

/// Finds what could run code in the template, in order of occurrence.
pub(super) fn dangers(text: &str) -> Vec<Danger> {
    let mut found = written_names(text);
    found.extend(flow::assembled_names(text));
    found.sort_by_key(|danger| danger.at);
    found.dedup();
    found.truncate(MOST);
    found
}

/// Finds names that are written out: in code, in literals, or in the text of a block that becomes a value.
fn written_names(text: &str) -> Vec<Danger> {
    let mut scan = Scan::default();
    let mut tokens = Lexer::new(text).peekable();
    let mut before = Token::End;
    while let Some((at, token)) = tokens.next() {
        scan.token(at, &token, &before, tokens.peek().map(|(_, next)| next));
        before = token;
        if scan.found.len() >= MOST {
            break;
        }
    }
    scan.found
}

#[derive(Default)]
struct Scan {
    found: Vec<Danger>,
    /// The number of open blocks whose text becomes a value.
    capturing: usize,
    /// Whether the current tag opens such a block, unless it turns out to assign something.
    is_set: bool,
}

impl Scan {
    fn add(&mut self, at: usize, what: String) {
        self.found.push(Danger { at, what });
    }

    fn token(&mut self, at: usize, token: &Token, before: &Token, next: Option<&Token>) {
        match token {
            Token::Outside(text) if self.capturing > 0 => {
                if let Some(word) = internal_word(text) {
                    self.add(at, format!("it makes the name {word:?} of the text of a block"));
                }
            }
            Token::End => self.capturing += usize::from(std::mem::take(&mut self.is_set)),
            Token::Text(text) => {
                if let Some(word) = internal_word(text) {
                    self.add(at, format!("it holds the name {word:?}"));
                }
            }
            Token::Name(name) => self.name(at, name, before, next),
            Token::Mark('=') => self.is_set = false,
            _ => {}
        }
    }

    fn name(&mut self, at: usize, name: &str, before: &Token, next: Option<&Token>) {
        let is_attribute = matches!(before, Token::Mark('.'));
        let is_filter = matches!(before, Token::Mark('|'));
        let is_keyword = matches!(next, Some(Token::Mark('='))) && !matches!(before, Token::Name(_));
        if internal_word(name).is_some() {
            self.add(at, format!("it uses the name {name:?}"));
        } else if is_filter && name == "attr" {
            self.add(at, "it looks up an attribute by a computed name (attr)".to_owned());
        } else if !is_attribute && !is_filter && !is_keyword && ESCAPES.contains(&name) {
            self.add(at, format!("it uses {name:?}, which leads out of a template"));
        }
        if matches!(before, Token::Tag) {
            match name {
                "set" => self.is_set = true,
                name if CAPTURING.contains(&name) => self.capturing += 1,
                "endset" | "endcall" | "endfilter" | "endmacro" => {
                    self.capturing = self.capturing.saturating_sub(1);
                }
                _ => {}
            }
        }
    }
}

/// Finds a word that names a Python internal: it has two underscores before or after it, or is one of
/// [`INTERNALS`].
fn internal_word(text: &str) -> Option<&str> {
    let is_internal = |word: &&str| {
        let bare = word.trim_matches('_');
        let is_marked = word.starts_with("__") || word.ends_with("__");
        (is_marked && !bare.is_empty()) || INTERNALS.contains(word)
    };
    text.split(|c: char| !is_of_name(c)).find(is_internal)
}
