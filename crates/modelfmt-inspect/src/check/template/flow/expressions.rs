//! The values of expressions: operators, literals, and access to parts of values.

use super::{Flow, MAX_DEPTH, keep};
use crate::check::template::lex::Token;
use crate::check::template::value::Value;

impl Flow<'_> {
    /// Parses `a if b else c`.
    pub(super) fn expression(&mut self) -> Value {
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

    /// Skips an expression that is nested too deeply to be followed: everything up to the end of the code.
    pub(super) fn skipped(&mut self) -> Value {
        while !self.is_end() {
            self.take();
        }
        self.add("its brackets are too deep to be followed".to_owned());
        Value::Assembled
    }

    /// Parses `a or b`, `a and b`.
    pub(super) fn either(&mut self) -> Value {
        let mut value = self.comparison();
        while self.word("or") || self.word("and") {
            value = value.or(self.comparison());
            self.bare = None;
        }
        value
    }

    /// Parses `not a`, `a == b`, `a in b`, `a is b`.
    pub(super) fn comparison(&mut self) -> Value {
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

    /// Parses `a + b`, `a - b`.
    pub(super) fn sum(&mut self) -> Value {
        let mut value = self.text();
        loop {
            if self.mark('+') {
                let right = self.text();
                let sum = value.plus(&right);
                self.check_assembled(&[value, right], &sum);
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

    /// Parses `a ~ b`.
    pub(super) fn text(&mut self) -> Value {
        let mut value = self.product();
        while self.mark('~') {
            let right = self.product();
            let joined = value.joined(&right);
            self.check_assembled(&[value, right], &joined);
            value = joined;
            self.bare = None;
        }
        value
    }

    /// Parses `a * b`, `a / b`, `a % b`.
    pub(super) fn product(&mut self) -> Value {
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

    /// Checks a text that is put together from literals in the same way as a literal.
    pub(super) fn check_assembled(&mut self, of: &[Value], value: &Value) {
        let is_known = of.iter().any(|piece| piece.internal_word().is_some());
        if let Some(word) = value.internal_word().filter(|_| !is_known) {
            let what = format!("it makes the name {word:?}");
            self.add(what);
        }
    }

    /// Parses `-a`, and what follows a value: access to its parts, and filters.
    pub(super) fn signed(&mut self, has_filters: bool) -> Value {
        let mut is_signed = false;
        while self.mark('-') || self.mark('+') {
            is_signed = true;
        }
        let value = self.primary();
        let value = self.accessed(value);
        let value = if is_signed { Value::Number } else { value };
        if has_filters { self.filtered(value) } else { value }
    }

    /// Parses a literal, a name, or an expression in brackets.
    pub(super) fn primary(&mut self) -> Value {
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

    /// Joins adjacent literals to one literal.
    pub(super) fn literal(&mut self, text: &str) -> Value {
        let mut value = Value::text(text);
        while let Token::Text(next) = self.peek() {
            let next = Value::text(next);
            self.take();
            let joined = value.joined(&next);
            self.check_assembled(&[value, next], &joined);
            value = joined;
        }
        value
    }

    /// Parses values separated by commas up to a bracket. Also returns whether there was a comma.
    pub(super) fn members(&mut self, end: char) -> (Vec<Value>, bool) {
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

    pub(super) fn dict(&mut self) -> Value {
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

    /// Parses access to members, slices and calls of a value.
    pub(super) fn accessed(&mut self, mut value: Value) -> Value {
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
                if self.arguments().items() == Value::Assembled {
                    self.called_with_assembled();
                }
                value = Value::Assembled;
            } else {
                return value;
            }
            self.bare = None;
        }
    }

    /// Skips the digits after the decimal point of a number, or the index in `a.0`.
    pub(super) fn take_number(&mut self) {
        if *self.peek() == Token::Number {
            self.take();
        }
    }

    pub(super) fn subscript(&mut self, of: Value) -> Value {
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
}
