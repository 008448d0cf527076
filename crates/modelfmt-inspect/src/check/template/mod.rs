//! Whether a chat template could run code where it is rendered.
//!
//! Templates are programs in Jinja, run by whoever talks to the model. A renderer without a sandbox gives them all of Python: from
//! any value a chain of attributes such as `''.__class__.__mro__` leads to `os.system`. So the scan looks for the names such a chain
//! needs, for texts that the template puts together and uses as names, and for functions that no chat template calls. Text outside `{{ }}` and
//! `{% %}` is never run, and not looked at. The scan takes time in proportion to the template, and runs nothing.

mod flow;
mod lex;
#[cfg(test)]
mod tests;
mod value;

use lex::{Lexer, Token, is_of_name};

/// Something in a template that could run code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Danger {
    /// Where it is, in bytes from the beginning of the template.
    pub(super) at: usize,
    /// What it is, for people.
    pub(super) what: String,
}

/// No more are listed: one suffices to refuse a template.
const MOST: usize = 5;

/// Functions and objects that no chat template needs, and that lead out of it.
const FREE: [&str; 16] = [
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
const INNER: [&str; 16] = [
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

/// Blocks whose text becomes a value; `set` is one too where nothing is assigned in its tag.
const CAPTURING: [&str; 3] = ["call", "filter", "macro"];

/// What in the template could run code, in its order.
pub(super) fn dangers(text: &str) -> Vec<Danger> {
    let mut found = written_names(text);
    found.extend(flow::made_names(text));
    found.sort_by_key(|danger| danger.at);
    found.dedup();
    found.truncate(MOST);
    found
}

/// The names that are written as they are, in code, in its literals, or in the text of a block that becomes a value.
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
    /// How many blocks are open whose text becomes a value.
    capturing: usize,
    /// The tag is that of such a block, if nothing is assigned in it.
    is_set: bool,
}

impl Scan {
    fn add(&mut self, at: usize, what: String) {
        self.found.push(Danger { at, what });
    }

    fn token(&mut self, at: usize, token: &Token, before: &Token, next: Option<&Token>) {
        match token {
            Token::Outside(text) if self.capturing > 0 => {
                if let Some(word) = inner_word(text) {
                    self.add(at, format!("it makes the name {word:?} of the text of a block"));
                }
            }
            Token::End => self.capturing += usize::from(std::mem::take(&mut self.is_set)),
            Token::Text(text) => {
                if let Some(word) = inner_word(text) {
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
        if inner_word(name).is_some() {
            self.add(at, format!("it uses the name {name:?}"));
        } else if is_filter && name == "attr" {
            self.add(at, "it gets an attribute by a name that it makes (attr)".to_owned());
        } else if !is_attribute && !is_filter && !is_keyword && FREE.contains(&name) {
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

/// A word of a text that is a name of Python's inner parts: two underscores before or after it, or one of [`INNER`].
fn inner_word(text: &str) -> Option<&str> {
    let is_inner = |word: &&str| {
        let bare = word.trim_matches('_');
        let is_marked = word.starts_with("__") || word.ends_with("__");
        (is_marked && !bare.is_empty()) || INNER.contains(word)
    };
    text.split(|c: char| !is_of_name(c)).find(is_inner)
}
