//! Follows values through a template, to find names that the template puts together at run time.
//!
//! A subscript can get any attribute, by a text that no scan for names can see: `''['_'.center(2) ~ …]`.
//! There are too many ways to make a text to follow them all. So there are only three kinds of text:
//! literals, texts from the renderer, and texts that the template makes. A text of the third kind must not be
//! used in a subscript. Variables are tracked only by their names, wherever they are assigned. The passes
//! over the template are repeated until one of them learns nothing new.

mod calls;
mod expressions;

use std::collections::HashMap;
use std::iter::Peekable;

use super::Danger;
use super::lex::{Lexer, Token};
use super::value::Value;

/// The maximum depth of brackets that is followed.
const MAX_DEPTH: usize = 64;

/// The maximum number of passes. Real chat templates need three.
const MAX_PASSES: usize = 8;

/// The numbers that Jinja's `loop` object has.
const OF_LOOPS: [&str; 7] = ["depth", "depth0", "index", "index0", "length", "revindex", "revindex0"];

/// Words that end an expression, or join two expressions.
const KEYWORDS: [&str; 8] = ["and", "else", "if", "in", "is", "not", "or", "recursive"];

/// Returns the names that the template puts together and then uses.
pub(super) fn assembled_names(text: &str) -> Vec<Danger> {
    let mut known = Known::default();
    for _ in 0..MAX_PASSES {
        let mut flow = Flow::new(text, known.clone());
        flow.template();
        let (found, learned) = (flow.found, flow.learned);
        if learned == known {
            return found;
        }
        known = learned;
    }
    vec![Danger { at: 0, what: "its variables depend on each other too often to be followed".to_owned() }]
}

/// What is known about the names in a template, from all assignments so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    /// The values of variables by their names, of members of namespaces and dicts by a dot and their names,
    /// and of macro arguments by the name of the macro, an opening bracket, and their number or name.
    values: HashMap<String, Value>,
    /// Whether texts that are put together are added to lists or dicts.
    adds_assembled: bool,
}

/// A block whose text becomes the value of a variable.
struct Block {
    variable: String,
    value: Value,
}

struct Flow<'a> {
    tokens: Peekable<Lexer<'a>>,
    /// The offset of the last token that was taken.
    at: usize,
    depth: usize,
    /// What is known so far. Knowledge is only added.
    learned: Known,
    blocks: Vec<Block>,
    /// The name, if the last expression consists only of a name.
    bare: Option<String>,
    found: Vec<Danger>,
}

impl<'a> Flow<'a> {
    fn new(text: &'a str, known: Known) -> Self {
        Self {
            tokens: Lexer::new(text).peekable(),
            at: 0,
            depth: 0,
            learned: known,
            blocks: Vec::new(),
            bare: None,
            found: Vec::new(),
        }
    }

    fn peek(&mut self) -> &Token {
        self.tokens.peek().map_or(&Token::End, |(_, token)| token)
    }

    fn take(&mut self) -> Option<Token> {
        let (at, token) = self.tokens.next()?;
        self.at = at;
        Some(token)
    }

    /// Takes this mark if it is next. Returns whether it was.
    fn mark(&mut self, mark: char) -> bool {
        let is_next = *self.peek() == Token::Mark(mark);
        if is_next {
            self.take();
        }
        is_next
    }

    /// Takes this word if it is next. Returns whether it was.
    fn word(&mut self, word: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Name(name) if name == word);
        if is_next {
            self.take();
        }
        is_next
    }

    /// Takes a name if it is next.
    fn name(&mut self) -> Option<String> {
        match self.peek() {
            Token::Name(name) if !KEYWORDS.contains(&name.as_str()) => {
                let name = name.clone();
                self.take();
                Some(name)
            }
            _ => None,
        }
    }

    fn is_end(&mut self) -> bool {
        matches!(self.peek(), Token::End | Token::Begin | Token::Tag | Token::Outside(_))
    }

    fn add(&mut self, what: String) {
        if self.found.len() < super::MOST {
            self.found.push(Danger { at: self.at, what });
        }
    }

    /// Records that a text is used as a name.
    fn used(&mut self, value: &Value, by: &str) {
        if *value == Value::Assembled {
            self.add(format!("it uses a name that is put together at run time ({by})"));
        }
    }

    fn bind(&mut self, name: &str, value: Value) {
        let value = match self.learned.values.remove(name) {
            Some(known) => known.or(value),
            None => value,
        };
        self.learned.values.insert(name.to_owned(), value);
    }

    fn bind_member(&mut self, name: &str, value: Value) {
        self.bind(&format!(".{name}"), value);
    }

    fn variable(&self, name: &str) -> Value {
        let value = self.learned.values.get(name).cloned().unwrap_or(Value::Given);
        if value == Value::Items && self.learned.adds_assembled { Value::Assembled } else { value }
    }

    /// Returns the member of a value with this name.
    fn member(&self, of: Value, name: &str) -> Value {
        let known = self.learned.values.contains_key(&format!(".{name}"));
        let known = known.then(|| self.variable(&format!(".{name}")));
        match (of, known) {
            (Value::Given, None) if OF_LOOPS.contains(&name) => Value::Number,
            (Value::Namespace, Some(known)) => known,
            (of, Some(known)) => of.member().or(known),
            (of, None) => of.member(),
        }
    }

    /// Parses the whole template.
    fn template(&mut self) {
        while let Some(token) = self.take() {
            match token {
                Token::Outside(text) => {
                    // Only the innermost block: the blocks around it contain a tag, so their text is unknown
                    // already.
                    if let Some(block) = self.blocks.last_mut() {
                        block.value = block.value.joined(&Value::text(&text));
                    }
                }
                Token::Begin => {
                    self.block_is_assembled();
                    self.expressions();
                }
                Token::Tag => self.tag(),
                _ => {}
            }
        }
    }

    fn block_is_assembled(&mut self) {
        if let Some(block) = self.blocks.last_mut() {
            block.value = Value::Assembled;
        }
    }

    /// Parses a tag up to its end.
    fn tag(&mut self) {
        let name = match self.peek() {
            Token::Name(name) => name.clone(),
            _ => String::new(),
        };
        if name != "endset" {
            self.block_is_assembled();
        }
        match name.as_str() {
            "set" => self.set(),
            "for" => self.each(),
            "macro" => {
                self.take();
                let name = self.name().unwrap_or_default();
                self.parameters(&name);
            }
            "call" => {
                self.take();
                self.parameters("caller");
            }
            "endset" => {
                self.take();
                if let Some(block) = self.blocks.pop() {
                    self.bind(&block.variable, block.value);
                }
            }
            _ => {
                self.take();
            }
        }
        self.expressions();
    }

    /// Parses `{% set a = … %}`, `{% set a.b = … %}`, `{% set a, b = … %}`, `{% set a %}…{% endset %}`.
    fn set(&mut self) {
        self.take();
        let targets = self.targets();
        if self.mark('=') {
            let values = self.tuple();
            self.assign(&targets, values);
        } else {
            let value = if self.is_end() { Value::Text(String::new()) } else { Value::Assembled };
            let variable = targets.into_iter().next().unwrap_or_default();
            self.blocks.push(Block { variable, value });
        }
    }

    /// Parses `{% for a, b in … %}`.
    fn each(&mut self) {
        self.take();
        let targets = self.targets();
        if self.word("in") {
            // A condition belongs to the tag, not to the value. A recursive loop is also called with other
            // values.
            let value = self.either();
            let value = self.argument("loop", "0").map_or(value.clone(), |other| value.or(other)).member();
            for target in &targets {
                self.bind(target, value.clone());
            }
        }
    }

    /// Parses the names that get values. Names of members begin with a dot.
    fn targets(&mut self) -> Vec<String> {
        let mut targets = Vec::new();
        loop {
            while self.mark('(') || self.mark(',') || self.mark(')') {}
            let Some(mut name) = self.name() else { return targets };
            while self.mark('.') {
                name = format!(".{}", self.name().unwrap_or_default());
            }
            targets.push(name);
        }
    }

    /// Parses values separated by commas, up to the end of the tag.
    fn tuple(&mut self) -> Vec<Value> {
        let mut values = vec![self.expression()];
        while self.mark(',') && !self.is_end() {
            values.push(self.expression());
        }
        values
    }

    fn assign(&mut self, targets: &[String], mut values: Vec<Value>) {
        if targets.len() == values.len() {
            for (target, value) in targets.iter().zip(values) {
                self.bind(target, value);
            }
            return;
        }
        let value = match values.pop() {
            Some(value) if values.is_empty() => value,
            last => Value::items(values.iter().chain(&last)),
        };
        for target in targets {
            let value = if targets.len() > 1 { value.clone().member() } else { value.clone() };
            self.bind(target, value);
        }
    }

    /// Parses `(a, b=…)` after the name of a macro, or after `call`.
    fn parameters(&mut self, of: &str) {
        if !self.mark('(') {
            return;
        }
        let mut at = 0usize;
        while !self.mark(')') && !self.is_end() {
            let Some(name) = self.name() else {
                self.take();
                continue;
            };
            let mut value = Value::Given;
            if self.mark('=') {
                value = value.or(self.expression());
            }
            for argument in [&at.to_string(), &name, "*"] {
                value = self.argument(of, argument).map_or(value.clone(), |other| value.or(other));
            }
            if self.learned.values.contains_key("(") {
                value = Value::Assembled;
            }
            self.bind(&name, value);
            at = at.saturating_add(1);
        }
    }

    /// Returns a recorded argument of a macro.
    fn argument(&self, of: &str, argument: &str) -> Option<Value> {
        self.learned.values.get(&format!("{of}({argument}")).cloned()
    }

    /// Parses expressions up to the end of the code, and the assignments of `with`.
    fn expressions(&mut self) {
        while !self.is_end() {
            self.expression();
            let bare = self.bare.take();
            if self.mark('=')
                && let Some(name) = bare
            {
                let value = self.expression();
                self.bind(&name, value);
            }
        }
    }
}

/// Adds a value to the values of a list. For a long list, only records whether one of them was made by the
/// template.
fn keep(values: &mut Vec<Value>, value: Value) {
    const MOST: usize = 256;
    if values.len() < MOST {
        values.push(value);
    } else if value == Value::Assembled
        && let Some(last) = values.last_mut()
    {
        *last = value;
    }
}
