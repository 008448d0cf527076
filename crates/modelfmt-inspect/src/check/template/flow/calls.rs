//! Calls of functions, macros and methods; filters and tests.

use super::{Flow, KEYWORDS, MAX_DEPTH, keep};
use crate::check::template::lex::Token;
use crate::check::template::value::Value;

/// Filters whose first argument is the name of another filter.
const OF_FILTERS: [&str; 3] = ["map", "select", "reject"];

/// Filters whose first argument is the name of an attribute.
const OF_ATTRIBUTES: [&str; 4] = ["groupby", "rejectattr", "selectattr", "sum"];

/// Methods of texts, lists and loops. A call of one of them is not a call of a macro.
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

/// The arguments of a call.
#[derive(Default)]
pub(super) struct Arguments {
    pub(super) values: Vec<Value>,
    pub(super) named: Vec<(String, Value)>,
    /// Whether a list or a dict is spread over several arguments.
    is_spread: bool,
}

impl Arguments {
    /// Returns all arguments as one list.
    pub(super) fn items(&self) -> Value {
        Value::items(self.values.iter().chain(self.named.iter().map(|(_, value)| value)))
    }
}

impl Flow<'_> {
    /// Parses `(a, b, c=d, *e)`.
    pub(super) fn arguments(&mut self) -> Arguments {
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

    /// Returns the result of a call of the function with this name.
    pub(super) fn called(&mut self, name: &str) -> Value {
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
                self.record_arguments(name, arguments);
                Value::Assembled
            }
        }
    }

    /// Records the arguments of a call of a macro. Other functions have no parameters here.
    pub(super) fn record_arguments(&mut self, name: &str, arguments: Arguments) {
        let all = arguments.items();
        if all == Value::Assembled {
            self.bind("varargs", Value::Assembled);
            self.bind("kwargs", Value::Assembled);
            // The name may be an alias of a macro.
            if self.learned.values.contains_key(name) {
                self.called_with_assembled();
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

    /// Records that an unknown macro is called with a text that is put together.
    pub(super) fn called_with_assembled(&mut self) {
        self.bind("(", Value::Assembled);
    }

    pub(super) fn method(&mut self, of: Value, owner: Option<&str>, name: &str) -> Value {
        let arguments = self.arguments();
        let is_assembled = arguments.items() == Value::Assembled;
        match name {
            "append" | "extend" | "insert" | "update" | "setdefault" | "add" => {
                for (name, value) in &arguments.named {
                    self.bind_member(name, value.clone());
                }
                self.learned.adds_assembled |= is_assembled;
                if is_assembled && let Some(owner) = owner {
                    self.bind(owner, Value::Assembled);
                }
                return if name == "setdefault" { of.method(name, &arguments.values) } else { Value::Given };
            }
            "format" | "format_map" => self.used(&of, "a format"),
            _ if is_assembled && !OF_TEXTS.contains(&name) => self.called_with_assembled(),
            _ => {}
        }
        let by_key = match arguments.values.first() {
            Some(Value::Text(key)) if name == "get" => Some(self.member(of.clone(), key)),
            _ => None,
        };
        let value = of.method(name, &arguments.values);
        by_key.map_or(value.clone(), |by_key| value.or(by_key))
    }

    /// Parses `|a|b(c)` and `is d`.
    pub(super) fn filtered(&mut self, mut value: Value) -> Value {
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

    /// Parses a test and its argument, which may have no brackets.
    pub(super) fn test(&mut self) {
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

    pub(super) fn filter(&mut self, of: Value, name: &str, arguments: &Arguments) -> Value {
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
                self.add(format!("it looks up attributes by a computed name ({name}, attr)"));
                Value::Assembled
            }
            Some((Value::Text(filter), rest)) if name == "map" => match of {
                Value::Items => Value::items([Value::OneOf.filtered(filter, rest)].iter()),
                of => of.filtered(filter, rest),
            },
            Some((Value::Text(_), _)) => of.filtered(name, &[]),
            Some(_) => {
                self.add(format!("it applies a filter or a test by a computed name ({name})"));
                Value::Assembled
            }
            // `map` with only an attribute.
            None if name == "map" => match of {
                Value::Given | Value::Assembled => of,
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
