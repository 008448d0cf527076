//! Splits a Jinja template into text, which is never run, and the tokens of its code.

/// A token of a template's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Text outside code.
    Outside(String),
    /// `{{`: the beginning of code.
    Begin,
    /// `{%`: the beginning of a tag.
    Tag,
    /// `}}` or `%}`: the end of code, or the end of the template.
    End,
    /// A name.
    Name(String),
    /// A string literal, with its escapes decoded.
    Text(String),
    /// An integer, or the digits on one side of a decimal point.
    Number,
    /// Any other character. `<` also means other comparisons, and `/` also means `//` and `**`.
    Mark(char),
}

/// Returns the tokens of a template one by one, each with its byte offset.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    is_code: bool,
    /// The number of open brackets. An expression does not end within them.
    open: usize,
}

impl<'a> Lexer<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, at: 0, is_code: false, open: 0 }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Returns the text before the next code, or the beginning of the code. Comments are skipped.
    fn outside(&mut self) -> Option<(usize, Token)> {
        let at = self.at;
        loop {
            let rest = self.rest();
            if rest.is_empty() || rest.starts_with("{#") || rest.starts_with("{{") || rest.starts_with("{%") {
                break;
            }
            self.at += match rest.find('{') {
                Some(0) => 1, // a lone bracket
                Some(next) => next,
                None => rest.len(),
            };
        }
        if at < self.at {
            return Some((at, Token::Outside(self.text.get(at..self.at).unwrap_or_default().to_owned())));
        }
        let rest = self.rest();
        if rest.starts_with("{#") {
            self.at += rest.find("#}").map_or(rest.len(), |end| end + 2);
            return Some((at, Token::Outside(String::new())));
        }
        if is_tag(rest, "raw") {
            self.raw();
            return Some((at, Token::Outside(self.text.get(at..self.at).unwrap_or_default().to_owned())));
        }
        let begin = rest.get(..2)?;
        self.at += begin.len();
        // The sign that keeps or removes spaces around the code.
        self.at += usize::from(self.rest().starts_with(['-', '+']));
        (self.is_code, self.open) = (true, 0);
        Some((at, if begin == "{%" { Token::Tag } else { Token::Begin }))
    }

    /// Skips to the end of raw text.
    fn raw(&mut self) {
        self.at += 2;
        while let Some(next) = self.rest().find("{%") {
            self.at += next;
            if is_tag(self.rest(), "endraw") {
                self.at += self.rest().find("%}").map_or(self.rest().len(), |end| end + 2);
                return;
            }
            self.at += 2;
        }
        self.at = self.text.len();
    }

    fn name(&mut self) -> Token {
        let rest = self.rest();
        let len = rest.find(|c: char| !is_of_name(c)).unwrap_or(rest.len());
        self.at += len;
        Token::Name(rest.get(..len).unwrap_or_default().to_owned())
    }

    fn number(&mut self) -> Token {
        let rest = self.rest();
        let len = rest.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(rest.len());
        self.at += len;
        Token::Number
    }

    /// Reads a string literal. Its quotation mark is next.
    fn text(&mut self, quote: char) -> Token {
        let mut decoded = String::new();
        let mut chars = self.rest().char_indices();
        chars.next();
        let end = loop {
            match chars.next() {
                None => break self.rest().len(),
                Some((at, c)) if c == quote => break at + c.len_utf8(),
                Some((_, '\\')) => match chars.next() {
                    None => break self.rest().len(),
                    Some((at, c)) => {
                        let (value, digits) =
                            escape(c, self.rest().get(at + c.len_utf8()..).unwrap_or_default());
                        decoded.extend(value);
                        // The digits of an escape are ASCII, so each character is one byte.
                        for _ in 0..digits {
                            chars.next();
                        }
                    }
                },
                Some((_, c)) => decoded.push(c),
            }
        };
        self.at += end;
        Token::Text(decoded)
    }
}

impl Iterator for Lexer<'_> {
    type Item = (usize, Token);

    fn next(&mut self) -> Option<(usize, Token)> {
        if !self.is_code {
            return self.outside();
        }
        self.at += self.rest().len() - self.rest().trim_start().len();
        let (at, rest) = (self.at, self.rest());
        let Some(first) = rest.chars().next() else {
            self.is_code = false;
            return Some((at, Token::End));
        };
        if self.open == 0 {
            let len = if rest.starts_with("-}}") || rest.starts_with("-%}") { 3 } else { 2 };
            if len == 3 || rest.starts_with("}}") || rest.starts_with("%}") {
                self.at += len;
                self.is_code = false;
                return Some((at, Token::End));
            }
        }
        let token = match first {
            '"' | '\'' => self.text(first),
            c if c.is_ascii_digit() => self.number(),
            c if is_of_name(c) => self.name(),
            c => {
                match c {
                    '(' | '[' | '{' => self.open += 1,
                    ')' | ']' | '}' => self.open = self.open.saturating_sub(1),
                    _ => {}
                }
                let (mark, len) = match rest.get(..2) {
                    Some("==" | "!=" | "<=" | ">=") => ('<', 2),
                    Some("//" | "**") => ('/', 2),
                    _ => (c, c.len_utf8()),
                };
                self.at += len;
                Token::Mark(mark)
            }
        };
        Some((at, token))
    }
}

pub(super) fn is_of_name(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Checks whether the text begins with a tag of this name: `{% raw %}`, `{%- raw %}`.
fn is_tag(rest: &str, name: &str) -> bool {
    let Some(inside) = rest.strip_prefix("{%") else { return false };
    let inside = inside.strip_prefix(['-', '+']).unwrap_or(inside).trim_start();
    inside.strip_prefix(name).is_some_and(|after| !after.starts_with(is_of_name))
}

/// Decodes Python's escape of `\` and this character. Returns the character, if the escape has one, and how
/// many of the digits that follow belong to it.
fn escape(c: char, rest: &str) -> (Option<char>, usize) {
    let code = |len: usize, radix: u32| {
        let digits = rest.get(..len).filter(|digits| digits.chars().all(|c| c.is_digit(radix)));
        (
            digits.and_then(|digits| char::from_u32(u32::from_str_radix(digits, radix).ok()?)),
            digits.map_or(0, str::len),
        )
    };
    match c {
        'x' => code(2, 16),
        'u' => code(4, 16),
        'U' => code(8, 16),
        '0'..='7' => {
            let more = rest.chars().take(2).take_while(|c| c.is_digit(8)).count();
            let digits = rest.chars().take(more).filter_map(|c| c.to_digit(8));
            let first = c.to_digit(8).unwrap_or_default();
            (char::from_u32(digits.fold(first, |code, digit| code * 8 + digit)), more)
        }
        'n' => (Some('\n'), 0),
        't' => (Some('\t'), 0),
        'r' => (Some('\r'), 0),
        '\n' => (None, 0),
        other => (Some(other), 0),
    }
}
