//! Follows values through a template, to find names that are put together where it runs.
//!
//! A subscript can get any attribute, by a text that no scan for names can see: `''['_'.center(2) ~ …]`. There are more ways to make
//! a text than can be followed. So nothing is: a text is a literal, or it is given by the renderer, or the template made it, and
//! then it must not be a subscript. Variables are followed by their names alone, wherever they are assigned; passes over the
//! template are repeated until none finds out more.

use std::collections::HashMap;
use std::iter::Peekable;

use super::Danger;
use super::lex::{Lexer, Token};
use super::value::Value;

/// Deeper brackets are not followed.
const MAX_DEPTH: usize = 64;

/// Templates of models need three passes.
const MAX_PASSES: usize = 8;

/// Filters with the name of another as their first argument.
const OF_FILTERS: [&str; 3] = ["map", "select", "reject"];

/// Filters whose first argument is the name of an attribute.
const OF_ATTRIBUTES: [&str; 4] = ["groupby", "rejectattr", "selectattr", "sum"];

/// Methods of texts, lists and loops that are no macros.
const OF_TEXTS: [&str; 22] = [
    "center",
    "count",
    "cycle",
    "encode",
    "endswith",
    "find",
    "get",
    "index",
    "join",
    "ljust",
    "lstrip",
    "pop",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rjust",
    "rstrip",
    "split",
    "startswith",
    "strip",
    "zfill",
];

/// The numbers that a loop knows.
const OF_LOOPS: [&str; 7] = ["depth", "depth0", "index", "index0", "length", "revindex", "revindex0"];

/// Words that end an expression, or join two.
const KEYWORDS: [&str; 8] = ["and", "else", "if", "in", "is", "not", "or", "recursive"];

/// The names that the template puts together and then uses.
pub(super) fn made_names(text: &str) -> Vec<Danger> {
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

/// What is known of a template's names: what was learned of all its assignments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    /// Variables by their names, members of namespaces and dicts by theirs after a dot, and arguments by the name of the macro, a
    /// bracket, and their number or name.
    values: HashMap<String, Value>,
    /// Whether texts that are put together are added to lists or dicts.
    adds_made: bool,
}

/// A block whose text becomes the value of a variable.
struct Block {
    variable: String,
    value: Value,
}

struct Flow<'a> {
    tokens: Peekable<Lexer<'a>>,
    /// Where the token is that was taken last.
    at: usize,
    depth: usize,
    /// What is known so far; it is only added to.
    learned: Known,
    blocks: Vec<Block>,
    /// The name that the last expression consists of.
    bare: Option<String>,
    found: Vec<Danger>,
}

/// Arguments of a call.
#[derive(Default)]
struct Arguments {
    values: Vec<Value>,
    named: Vec<(String, Value)>,
    /// Whether a list or a dict stands for several.
    is_spread: bool,
}

impl Arguments {
    /// All of them, as one list.
    fn items(&self) -> Value {
        Value::items(self.values.iter().chain(self.named.iter().map(|(_, value)| value)))
    }
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

    /// Takes this mark, if it comes next.
    fn mark(&mut self, mark: char) -> bool {
        let is_next = *self.peek() == Token::Mark(mark);
        if is_next {
            self.take();
        }
        is_next
    }

    /// Takes this word, if it comes next.
    fn word(&mut self, word: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Name(name) if name == word);
        if is_next {
            self.take();
        }
        is_next
    }

    /// Takes a name, if one comes next.
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

    /// A text becomes a name.
    fn used(&mut self, value: &Value, by: &str) {
        if *value == Value::Made {
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
        if value == Value::Items && self.learned.adds_made { Value::Made } else { value }
    }

    /// The member of a value by its name.
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

    /// The whole template.
    fn template(&mut self) {
        while let Some(token) = self.take() {
            match token {
                Token::Outside(text) => {
                    // Those around it hold a tag.
                    if let Some(block) = self.blocks.last_mut() {
                        block.value = block.value.joined(&Value::text(&text));
                    }
                }
                Token::Begin => {
                    self.block_is_made();
                    self.expressions();
                }
                Token::Tag => self.tag(),
                _ => {}
            }
        }
    }

    fn block_is_made(&mut self) {
        if let Some(block) = self.blocks.last_mut() {
            block.value = Value::Made;
        }
    }

    /// A tag up to its end.
    fn tag(&mut self) {
        let name = match self.peek() {
            Token::Name(name) => name.clone(),
            _ => String::new(),
        };
        if name != "endset" {
            self.block_is_made();
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

    /// `{% set a = … %}`, `{% set a.b = … %}`, `{% set a, b = … %}`, `{% set a %}…{% endset %}`
    fn set(&mut self) {
        self.take();
        let targets = self.targets();
        if self.mark('=') {
            let values = self.tuple();
            self.assign(&targets, values);
        } else {
            let value = if self.is_end() { Value::Text(String::new()) } else { Value::Made };
            let variable = targets.into_iter().next().unwrap_or_default();
            self.blocks.push(Block { variable, value });
        }
    }

    /// `{% for a, b in … %}`
    fn each(&mut self) {
        self.take();
        let targets = self.targets();
        if self.word("in") {
            // A condition belongs to the tag, not to the value. A recursive loop is called with other values.
            let value = self.either();
            let value = self.argument("loop", "0").map_or(value.clone(), |other| value.or(other)).member();
            for target in &targets {
                self.bind(target, value.clone());
            }
        }
    }

    /// Names that get values, members after a dot.
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

    /// Values between commas, up to the end of the tag.
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

    /// `(a, b=…)` of a macro or of what calls one.
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
                value = Value::Made;
            }
            self.bind(&name, value);
            at = at.saturating_add(1);
        }
    }

    /// What a macro is called with.
    fn argument(&self, of: &str, argument: &str) -> Option<Value> {
        self.learned.values.get(&format!("{of}({argument}")).cloned()
    }

    /// Expressions up to the end of the code, and assignments of `with`.
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

    /// `a if b else c`
    fn expression(&mut self) -> Value {
        if self.depth >= MAX_DEPTH {
            return self.skipped();
        }
        self.depth += 1;
        let mut value = self.either();
        while self.word("if") {
            self.bare = None;
            self.either();
            if self.word("else") {
                value = value.or(self.either());
            }
        }
        self.depth -= 1;
        value
    }

    /// What is too deep to be followed: everything up to the end of the code.
    fn skipped(&mut self) -> Value {
        while !self.is_end() {
            self.take();
        }
        self.add("its brackets are too deep to be followed".to_owned());
        Value::Made
    }

    /// `a or b`, `a and b`
    fn either(&mut self) -> Value {
        let mut value = self.comparison();
        while self.word("or") || self.word("and") {
            value = value.or(self.comparison());
            self.bare = None;
        }
        value
    }

    /// `not a`, `a == b`, `a in b`, `a is b`
    fn comparison(&mut self) -> Value {
        let mut is_number = false;
        while self.word("not") {
            is_number = true;
        }
        let value = self.sum();
        loop {
            if self.mark('<') || self.mark('>') || self.word("in") {
                self.sum();
            } else if self.word("not") {
                self.word("in");
                self.sum();
            } else {
                break;
            }
            (is_number, self.bare) = (true, None);
        }
        if is_number { Value::Number } else { value }
    }

    /// `a + b`, `a - b`
    fn sum(&mut self) -> Value {
        let mut value = self.text();
        loop {
            if self.mark('+') {
                let right = self.text();
                let sum = value.plus(&right);
                self.made(&[value, right], &sum);
                value = sum;
            } else if self.mark('-') {
                self.text();
                value = Value::Number;
            } else {
                return value;
            }
            self.bare = None;
        }
    }

    /// `a ~ b`
    fn text(&mut self) -> Value {
        let mut value = self.product();
        while self.mark('~') {
            let right = self.product();
            let joined = value.joined(&right);
            self.made(&[value, right], &joined);
            value = joined;
            self.bare = None;
        }
        value
    }

    /// `a * b`, `a / b`, `a % b`
    fn product(&mut self) -> Value {
        let mut value = self.signed(true);
        loop {
            if self.mark('*') || self.mark('%') {
                let right = self.signed(true);
                value = value.times(&right);
            } else if self.mark('/') {
                self.signed(true);
                value = Value::Number;
            } else {
                return value;
            }
            self.bare = None;
        }
    }

    /// A text that is put together of literals is looked at as a literal is.
    fn made(&mut self, of: &[Value], value: &Value) {
        let is_known = of.iter().any(|piece| piece.inner_word().is_some());
        if let Some(word) = value.inner_word().filter(|_| !is_known) {
            let what = format!("it makes the name {word:?}");
            self.add(what);
        }
    }

    /// `-a`, and what stands after a value.
    fn signed(&mut self, has_filters: bool) -> Value {
        let mut is_signed = false;
        while self.mark('-') || self.mark('+') {
            is_signed = true;
        }
        let value = self.primary();
        let value = self.accessed(value);
        let value = if is_signed { Value::Number } else { value };
        if has_filters { self.filtered(value) } else { value }
    }

    /// A literal, a name, or what stands in brackets.
    fn primary(&mut self) -> Value {
        self.bare = None;
        if self.is_end() {
            return Value::Given;
        }
        match self.take() {
            Some(Token::Text(text)) => self.literal(&text),
            Some(Token::Number) => Value::Number,
            Some(Token::Name(name)) => match name.as_str() {
                "true" | "false" | "none" | "True" | "False" | "None" => Value::Number,
                _ if *self.peek() == Token::Mark('(') => self.called(&name),
                _ => {
                    let value = self.variable(&name);
                    self.bare = Some(name);
                    value
                }
            },
            Some(Token::Mark('(')) => {
                let (values, has_comma) = self.members(')');
                match <[Value; 1]>::try_from(values) {
                    Ok([value]) if !has_comma => value,
                    Ok(values) => Value::items(values.iter()),
                    Err(values) => Value::items(values.iter()),
                }
            }
            Some(Token::Mark('[')) => Value::items(self.members(']').0.iter()),
            Some(Token::Mark('{')) => self.dict(),
            _ => Value::Given,
        }
    }

    /// Literals that stand side by side are one.
    fn literal(&mut self, text: &str) -> Value {
        let mut value = Value::text(text);
        while let Token::Text(next) = self.peek() {
            let next = Value::text(next);
            self.take();
            let joined = value.joined(&next);
            self.made(&[value, next], &joined);
            value = joined;
        }
        value
    }

    /// Values between commas up to a bracket, and whether there was a comma.
    fn members(&mut self, end: char) -> (Vec<Value>, bool) {
        let (mut values, mut has_comma) = (Vec::new(), false);
        while !self.mark(end) && !self.is_end() {
            if self.mark(',') {
                has_comma = true;
            } else {
                let value = self.expression();
                keep(&mut values, value);
            }
        }
        self.bare = None;
        (values, has_comma)
    }

    fn dict(&mut self) -> Value {
        let mut values = Vec::new();
        while !self.mark('}') && !self.is_end() {
            let key = self.expression();
            if self.mark(':') {
                let value = self.expression();
                if let Value::Text(key) = &key {
                    self.bind_member(key, value.clone());
                }
                keep(&mut values, value);
            }
            keep(&mut values, key);
            self.mark(',');
        }
        self.bare = None;
        Value::items(values.iter())
    }

    /// Members, slices and calls of a value.
    fn accessed(&mut self, mut value: Value) -> Value {
        let owner = self.bare.clone();
        loop {
            if self.mark('.') {
                let Some(name) = self.name() else {
                    self.take_number();
                    value = value.member();
                    continue;
                };
                value = if *self.peek() == Token::Mark('(') {
                    self.method(value, owner.as_deref(), &name)
                } else {
                    self.member(value, &name)
                };
            } else if self.mark('[') {
                value = self.subscript(value);
            } else if *self.peek() == Token::Mark('(') {
                if self.arguments().items() == Value::Made {
                    self.called_with_made();
                }
                value = Value::Made;
            } else {
                return value;
            }
            self.bare = None;
        }
    }

    /// The digits after the point of a number, or the index in `a.0`.
    fn take_number(&mut self) {
        if *self.peek() == Token::Number {
            self.take();
        }
    }

    fn subscript(&mut self, of: Value) -> Value {
        let mut is_slice = false;
        let mut index = Value::Number;
        while !self.mark(']') && !self.is_end() {
            if self.mark(':') {
                is_slice = true;
            } else if !self.mark(',') {
                index = self.expression();
                self.used(&index, "in a subscript");
            }
        }
        match index {
            _ if is_slice => of.part(),
            Value::Text(name) => self.member(of, &name),
            _ => of.member(),
        }
    }

    /// `(a, b, c=d, *e)`
    fn arguments(&mut self) -> Arguments {
        let mut arguments = Arguments::default();
        self.mark('(');
        while !self.mark(')') && !self.is_end() {
            if self.mark(',') {
                continue;
            }
            if self.mark('*') || self.mark('/') {
                arguments.is_spread = true;
                continue;
            }
            let value = self.expression();
            match self.bare.take() {
                Some(name) if self.mark('=') => {
                    let value = self.expression();
                    arguments.named.push((name, value));
                }
                _ => keep(&mut arguments.values, value),
            }
        }
        self.bare = None;
        arguments
    }

    /// A function by its name.
    fn called(&mut self, name: &str) -> Value {
        let arguments = self.arguments();
        if matches!(name, "namespace" | "dict") {
            for (name, value) in &arguments.named {
                self.bind_member(name, value.clone());
            }
        }
        match name {
            "namespace" if arguments.values.is_empty() && !arguments.is_spread => Value::Namespace,
            "namespace" | "dict" => arguments.items(),
            "range" => Value::Number,
            _ => {
                self.passed(name, arguments);
                Value::Made
            }
        }
    }

    /// Keeps what a macro is called with. Other functions have no parameters here.
    fn passed(&mut self, name: &str, arguments: Arguments) {
        let all = arguments.items();
        if all == Value::Made {
            self.bind("varargs", Value::Made);
            self.bind("kwargs", Value::Made);
            // The name may be another one of a macro.
            if self.learned.values.contains_key(name) {
                self.called_with_made();
            }
        }
        if arguments.is_spread {
            self.bind(&format!("{name}(*"), all);
        }
        for (at, value) in arguments.values.into_iter().enumerate() {
            self.bind(&format!("{name}({at}"), value);
        }
        for (keyword, value) in arguments.named {
            self.bind_member(&keyword, value.clone());
            self.bind(&format!("{name}({keyword}"), value);
        }
    }

    /// Some macro is called with a text that is put together, and it is not known which.
    fn called_with_made(&mut self) {
        self.bind("(", Value::Made);
    }

    fn method(&mut self, of: Value, owner: Option<&str>, name: &str) -> Value {
        let arguments = self.arguments();
        let is_made = arguments.items() == Value::Made;
        match name {
            "append" | "extend" | "insert" | "update" | "setdefault" | "add" => {
                for (name, value) in &arguments.named {
                    self.bind_member(name, value.clone());
                }
                self.learned.adds_made |= is_made;
                if is_made && let Some(owner) = owner {
                    self.bind(owner, Value::Made);
                }
                return if name == "setdefault" { of.method(name, &arguments.values) } else { Value::Given };
            }
            "format" | "format_map" => self.used(&of, "a format"),
            _ if is_made && !OF_TEXTS.contains(&name) => self.called_with_made(),
            _ => {}
        }
        let by_key = match arguments.values.first() {
            Some(Value::Text(key)) if name == "get" => Some(self.member(of.clone(), key)),
            _ => None,
        };
        let value = of.method(name, &arguments.values);
        by_key.map_or(value.clone(), |by_key| value.or(by_key))
    }

    /// `|a|b(c)`, `is d`
    fn filtered(&mut self, mut value: Value) -> Value {
        loop {
            if self.mark('|') {
                let mut name = self.name().unwrap_or_default();
                while self.mark('.') {
                    name = self.name().unwrap_or_default();
                }
                let has_arguments = *self.peek() == Token::Mark('(');
                let arguments = if has_arguments { self.arguments() } else { Arguments::default() };
                value = self.filter(value, &name, &arguments);
            } else if self.word("is") {
                self.test();
                value = Value::Number;
            } else if matches!(self.peek(), Token::Mark('.' | '[' | '(')) {
                value = self.accessed(value);
            } else {
                return value;
            }
            self.bare = None;
        }
    }

    /// A test and its argument, which may have no brackets.
    fn test(&mut self) {
        self.word("not");
        if self.name().is_none() {
            // `is in …`
            self.word("in");
        }
        if *self.peek() == Token::Mark('(') {
            self.arguments();
            return;
        }
        let is_value = match self.peek() {
            Token::Text(_) | Token::Number | Token::Mark('[' | '{') => true,
            Token::Name(name) => !KEYWORDS.contains(&name.as_str()),
            _ => false,
        };
        if is_value && self.depth < MAX_DEPTH {
            self.depth += 1;
            self.signed(false);
            self.depth -= 1;
        }
    }

    fn filter(&mut self, of: Value, name: &str, arguments: &Arguments) -> Value {
        for (keyword, value) in &arguments.named {
            if keyword == "attribute" {
                self.used(value, name);
            }
        }
        let of_others = usize::from(matches!(name, "join" | "max" | "min" | "sort" | "unique"));
        let is_first = OF_ATTRIBUTES.contains(&name);
        for (at, value) in arguments.values.iter().enumerate() {
            if (is_first && at == 0) || (of_others > 0 && at >= of_others) {
                self.used(value, name);
            }
        }
        let by_name = match arguments.values.split_first() {
            Some((first, rest)) if OF_FILTERS.contains(&name) => Some((first, rest)),
            _ => None,
        };
        match by_name {
            Some((Value::Text(filter), _)) if filter == "attr" => {
                self.add(format!("it gets attributes by a name that it makes ({name}, attr)"));
                Value::Made
            }
            Some((Value::Text(filter), rest)) if name == "map" => match of {
                Value::Items => Value::items([Value::OneOf.filtered(filter, rest)].iter()),
                of => of.filtered(filter, rest),
            },
            Some((Value::Text(_), _)) => of.filtered(name, &[]),
            Some(_) => {
                self.add(format!("it applies a filter or a test by a name that it makes ({name})"));
                Value::Made
            }
            // Only by an attribute.
            None if name == "map" => match of {
                Value::Given | Value::Made => of,
                _ => Value::Items,
            },
            None => {
                let defaults = arguments.named.iter().map(|(_, value)| value.clone());
                let all: Vec<Value> = arguments.values.iter().cloned().chain(defaults).collect();
                of.filtered(name, &all)
            }
        }
    }
}

/// Keeps a value among those of a list: of a long one, only whether something in it was made.
fn keep(values: &mut Vec<Value>, value: Value) {
    const MOST: usize = 256;
    if values.len() < MOST {
        values.push(value);
    } else if value == Value::Made
        && let Some(last) = values.last_mut()
    {
        *last = value;
    }
}
