//! Whether a chat template could run code where it is rendered.
//!
//! Templates are programs in Jinja, run by whoever talks to the model. A renderer without a sandbox gives them all of Python: from
//! any value a chain of attributes such as `''.__class__.__mro__` leads to `os.system`. So the scan looks for the names such a chain
//! needs, also where they are put together from pieces, and for functions that no chat template calls. Text outside `{{ }}` and
//! `{% %}` is never run, and not looked at. The scan takes time in proportion to the template, and runs nothing.

mod lex;
#[cfg(test)]
mod tests;
mod value;

use std::collections::HashMap;

use lex::{Lexer, Token, is_of_name};
use value::Value;

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

/// Deeper brackets are not followed.
const MAX_DEPTH: usize = 64;

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

/// Filters and methods that give what else an attribute gives.
const BY_NAME: [&str; 7] = ["map", "select", "reject", "selectattr", "rejectattr", "groupby", "sort"];

/// Words of the language between expressions.
const KEYWORDS: [&str; 11] = ["and", "elif", "else", "for", "if", "in", "is", "not", "or", "set", "with"];

/// Blocks whose text becomes a value; `set` is one too where nothing is assigned in its tag.
const CAPTURING: [&str; 3] = ["call", "filter", "macro"];

/// What in the template could run code, in its order.
pub(super) fn dangers(text: &str) -> Vec<Danger> {
    let mut scan = Scan {
        found: Vec::new(),
        code: Frame::new(Kind::Code),
        frames: Vec::new(),
        deeper: 0,
        variables: HashMap::new(),
        assigned: None,
        capturing: 0,
        is_set: false,
    };
    let mut tokens = Lexer::new(text).peekable();
    let mut before = Token::End;
    while let Some((at, token)) = tokens.next() {
        let next = tokens.peek().map(|(_, next)| next);
        scan.token(at, &token, &before, next);
        before = token;
        if scan.found.len() >= MOST {
            break;
        }
    }
    scan.found
}

/// The state of a scan: the brackets that are open, each with the value that it holds so far.
struct Scan {
    found: Vec<Danger>,
    /// Outside all brackets.
    code: Frame,
    frames: Vec<Frame>,
    /// Brackets beyond [`MAX_DEPTH`].
    deeper: usize,
    /// Variables whose values are known.
    variables: HashMap<String, Value>,
    /// The variable that gets the value of this expression.
    assigned: Option<String>,
    /// How many blocks are open whose text becomes a value.
    capturing: usize,
    /// The tag is that of such a block, if nothing is assigned in it.
    is_set: bool,
}

/// What a bracket is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// Of the code itself: no bracket.
    Code,
    /// `(…)` around an expression or a tuple.
    Group,
    List,
    Dict,
    /// `x[…]`
    Index(Value),
    /// `x|name(…)`, `x.name(…)`, `name(…)`
    Call(Value, String),
}

struct Frame {
    kind: Kind,
    /// The members before the last comma.
    items: Vec<Value>,
    /// What stands before the operator.
    left: Option<(Value, char)>,
    /// What stands after it.
    current: Option<Value>,
    /// The numbers of an index, and whether a sign stands before the next.
    bounds: Vec<Option<i64>>,
    is_negative: bool,
}

impl Frame {
    const fn new(kind: Kind) -> Self {
        Self { kind, items: Vec::new(), left: None, current: None, bounds: Vec::new(), is_negative: false }
    }

    /// What has been put together since the last comma.
    fn folded(&mut self) -> Option<Value> {
        let current = self.current.take();
        match self.left.take() {
            Some((left, operator)) => Some(left.operated(operator, current.unwrap_or(Value::Unknown))),
            None => current,
        }
    }
}

impl Scan {
    fn add(&mut self, at: usize, what: String) {
        self.found.push(Danger { at, what });
    }

    fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().unwrap_or(&mut self.code)
    }

    fn token(&mut self, at: usize, token: &Token, before: &Token, next: Option<&Token>) {
        match token {
            Token::Outside(text) => {
                if self.capturing > 0
                    && let Some(word) = inner_word(text)
                {
                    self.add(at, format!("it makes the name {word:?} of the text of a block"));
                }
            }
            Token::Begin | Token::End => {
                while !self.frames.is_empty() {
                    self.deeper = 0;
                    self.close(at);
                }
                self.ends(at);
                (self.code, self.deeper) = (Frame::new(Kind::Code), 0);
                self.capturing += usize::from(std::mem::take(&mut self.is_set));
            }
            Token::Text(text) => self.text(at, text, before),
            Token::Number(number) => {
                let frame = self.frame();
                let number = if std::mem::take(&mut frame.is_negative) { -number } else { *number };
                if let Some(bound) = frame.bounds.last_mut() {
                    *bound = Some(number);
                }
                frame.current = Some(Value::Number(number));
            }
            Token::Name(name) => self.name(at, name, before, next),
            Token::Mark(mark) => self.mark(at, *mark, before, next),
        }
    }

    /// Looks at a text that has been put together.
    fn made(&mut self, at: usize, value: &Value) {
        if let Value::Text(text) = value
            && let Some(word) = inner_word(text)
        {
            self.add(at, format!("it makes the name {word:?}"));
        }
    }

    fn text(&mut self, at: usize, text: &str, before: &Token) {
        if let Some(word) = inner_word(text) {
            self.add(at, format!("it holds the name {word:?}"));
        }
        let value = Value::text(text.to_owned());
        let frame = self.frame();
        // Texts that stand side by side are one.
        frame.current = Some(match (before, frame.current.take()) {
            (Token::Text(_), Some(left)) => left.operated('~', value),
            _ => value,
        });
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
        if matches!(before, Token::Begin) {
            self.tag(name);
        }
        let is_called = matches!(next, Some(Token::Mark('(')));
        if !is_attribute && !is_filter && KEYWORDS.contains(&name) {
            self.ends(at);
            return;
        }
        let known = self.variables.get(name).cloned().unwrap_or(Value::Unknown);
        let frame = self.frame();
        match (is_attribute || is_filter, is_called) {
            (true, true) => {} // the bracket takes the name
            (true, false) if is_filter => {
                let value = frame.current.take().unwrap_or(Value::Unknown).called(name, &[]);
                self.made(at, &value);
                self.frame().current = Some(value);
            }
            (true, false) => frame.current = Some(Value::Unknown),
            (false, _) => frame.current = Some(known),
        }
    }

    /// The first word of a tag.
    fn tag(&mut self, name: &str) {
        match name {
            "set" => self.is_set = true,
            name if CAPTURING.contains(&name) => self.capturing += 1,
            "endset" | "endcall" | "endfilter" | "endmacro" => {
                self.capturing = self.capturing.saturating_sub(1);
            }
            _ => {}
        }
    }

    fn mark(&mut self, at: usize, mark: char, before: &Token, next: Option<&Token>) {
        match mark {
            '(' | '[' | '{' => self.open(mark, before),
            ')' | ']' | '}' => self.close(at),
            ',' => self.comma(at),
            '~' | '+' | '*' | '%' => {
                let frame = self.frame();
                // A sign, the second `*` of a power or of keywords, or the beginning of a tag's end.
                if let Some(left) = frame.folded() {
                    frame.left = Some((left, mark));
                }
                if mark == '%' {
                    self.character(at);
                }
            }
            '-' => {
                let frame = self.frame();
                frame.is_negative = true;
                frame.left = None;
                frame.current = None;
            }
            ':' if matches!(self.frame().kind, Kind::Index(_)) => self.frame().bounds.push(None),
            '.' | '|' if matches!(next, Some(Token::Name(_))) => {}
            '=' => {
                self.is_set = false;
                let name = match before {
                    Token::Name(name) if self.frames.is_empty() => Some(name.clone()),
                    _ => None,
                };
                self.ends(at);
                self.assigned = name;
            }
            _ => {
                self.ends(at);
            }
        }
    }

    /// A format with `%c` makes characters from numbers.
    fn character(&mut self, at: usize) {
        let is_format = |value: &Option<(Value, char)>| matches!(value, Some((Value::Text(text), '%')) if text.contains("%c"));
        if is_format(&self.frame().left) {
            self.add(at, "it makes characters from numbers (%c)".to_owned());
        }
    }

    fn open(&mut self, mark: char, before: &Token) {
        if self.frames.len() >= MAX_DEPTH {
            self.deeper += 1;
            return;
        }
        let frame = self.frame();
        let is_after_value = frame.current.is_some() && !matches!(before, Token::Mark(',' | '('));
        let kind = match (mark, before) {
            ('(', Token::Name(name)) if !KEYWORDS.contains(&name.as_str()) => {
                Kind::Call(frame.current.take().unwrap_or(Value::Unknown), name.clone())
            }
            ('(', _) => Kind::Group,
            ('[', _) if is_after_value => Kind::Index(frame.current.take().unwrap_or(Value::Unknown)),
            ('[', _) => Kind::List,
            _ => Kind::Dict,
        };
        let mut frame = Frame::new(kind);
        if matches!(frame.kind, Kind::Index(_)) {
            frame.bounds.push(None);
        }
        self.frames.push(frame);
    }

    fn comma(&mut self, at: usize) {
        if self.frames.is_empty() {
            return self.ends(at);
        }
        let Some(value) = self.frame().folded() else { return };
        self.made(at, &value);
        // Long lists are vocabularies, not names in pieces.
        const MOST_ITEMS: usize = 256;
        let frame = self.frame();
        if frame.items.len() < MOST_ITEMS {
            frame.items.push(value);
        }
    }

    fn close(&mut self, at: usize) {
        if self.deeper > 0 {
            self.deeper -= 1;
            return;
        }
        let Some(mut frame) = self.frames.pop() else { return };
        let last = frame.folded();
        if let Some(last) = &last {
            self.made(at, last);
        }
        let is_tuple = !frame.items.is_empty();
        frame.items.extend(last);
        let value = match frame.kind {
            Kind::Group if !is_tuple => frame.items.pop().unwrap_or(Value::Unknown),
            Kind::Group | Kind::List => Value::list(frame.items),
            Kind::Index(of) => of.sliced(&frame.bounds),
            Kind::Call(of, name) => self.called(at, of, &name, &frame.items),
            Kind::Dict | Kind::Code => Value::Unknown,
        };
        self.made(at, &value);
        self.frame().current = Some(value);
    }

    fn called(&mut self, at: usize, of: Value, name: &str, arguments: &[Value]) -> Value {
        if BY_NAME.contains(&name) && matches!(arguments.first(), Some(Value::Text(text)) if text == "attr") {
            self.add(at, format!("it gets attributes by a name that it makes ({name}, attr)"));
        }
        if name == "format"
            && let Value::Text(text) = &of
            && (text.contains("%c") || text.contains(":c}"))
        {
            self.add(at, "it makes characters from numbers (format)".to_owned());
        }
        of.called(name, arguments)
    }

    /// An expression ends.
    fn ends(&mut self, at: usize) {
        const MOST_VARIABLES: usize = 256;
        let Some(value) = self.frame().folded() else { return };
        self.made(at, &value);
        if self.frames.is_empty()
            && let Some(name) = self.assigned.take()
            && (self.variables.len() < MOST_VARIABLES || self.variables.contains_key(&name))
        {
            self.variables.insert(name, value);
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
