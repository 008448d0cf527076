//! Converts trees from and to JSON text.
//!
//! Text keeps the order of the tree, so the same tree always gives the same bytes. Numbers keep their type.
//! Integers are exact up to 128 bits; longer ones are refused. A float is written with the fewest digits that
//! give the same bits, and with a point or an exponent, so that it is read as a float again. NaN, infinities
//! and bytes are written as strings and read back as strings.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;
use std::io;

use serde::de::DeserializeSeed;

use self::sealed::Layout;
use super::de::{ExactSeed, KnownNumber, MemberSeed, TooDeep};
use super::ser::{Branch, Order};
use super::{MAX_DEPTH, Object, ParseOptions, Value};

/// Parses JSON text, with the default [`ParseOptions`].
///
/// # Errors
///
/// [`JsonError`] if `text` is not UTF-8, is not exactly one JSON value, or if [`ValueSeed`](super::ValueSeed)
/// refuses it.
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    parse_with(text, ParseOptions::default())
}

/// Parses JSON text with the given options.
///
/// # Errors
///
/// [`JsonError`] if the text is not JSON, has a duplicate key, or is nested deeper than the options allow.
pub fn parse_with(text: &[u8], options: ParseOptions) -> Result<Value, JsonError> {
    run(text, |known| ExactSeed { options, known })
}

/// Parses JSON text with a seed: [`CheckSeed`](super::CheckSeed) or one of your own.
///
/// # Errors
///
/// [`JsonError`] if the text is not JSON, or the seed refuses it.
pub fn parse_seed<'de, S: DeserializeSeed<'de>>(text: &'de [u8], seed: S) -> Result<S::Value, JsonError> {
    run(text, |_| seed)
}

/// Parses one member of an object like [`parse`], and skips the others. `None` if the object does not have
/// the key.
///
/// # Errors
///
/// [`JsonError`] if the text is not JSON, or its value is not an object.
pub fn parse_member(text: &[u8], key: &str) -> Result<Option<Value>, JsonError> {
    run(text, |known| MemberSeed { key, known })
}

/// Returns whether the text has an integer beyond 64 bits. [`parse`] keeps it; any other seed gets the
/// nearest float.
#[must_use]
pub fn has_large_integer(text: &[u8]) -> bool {
    std::str::from_utf8(text)
        .is_ok_and(|text| numbers::large_integers(text).is_ok_and(|found| !found.is_empty()))
}

fn run<'de, S: DeserializeSeed<'de>>(
    text: &'de [u8],
    seed: impl FnOnce(Vec<KnownNumber>) -> S,
) -> Result<S::Value, JsonError> {
    let text = std::str::from_utf8(text).map_err(|error| JsonError::not_utf8(text, error))?;
    let known = numbers::large_integers(text).map_err(|offset| JsonError::too_large(text, offset))?;
    finish(text, seed(known))
}

fn finish<'de, S: DeserializeSeed<'de>>(text: &'de str, seed: S) -> Result<S::Value, JsonError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    seed.deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| JsonError::at(text, &error))
}

/// Parses JSON text whose value is an object.
///
/// # Errors
///
/// [`JsonError`] if the text is not JSON, has a duplicate key, is nested too deep, or its value is not an
/// object.
pub fn parse_object(text: &[u8]) -> Result<Object, JsonError> {
    match parse(text)? {
        Value::Object(object) => Ok(object),
        other => Err(JsonError {
            message: format!("expected an object, found {}", other.kind()),
            position: Some(Position::of(text, first_byte(text))),
        }),
    }
}

/// Returns the JSON text of the tree, without insignificant white space.
///
/// # Errors
///
/// [`JsonError`] if the tree has more than [`MAX_DEPTH`] levels.
pub fn to_string(tree: &impl Tree) -> Result<String, JsonError> {
    tree.write(Layout::Compact)
}

/// Returns the JSON text of the tree with one line per member, indented by two spaces per level, and without
/// a newline at the end.
///
/// # Errors
///
/// [`JsonError`] if the tree has more than [`MAX_DEPTH`] levels.
pub fn to_string_pretty(tree: &impl Tree) -> Result<String, JsonError> {
    tree.write(Layout::Pretty)
}

/// Returns the JSON text of the tree, without insignificant white space, and with the keys of every object
/// sorted by their bytes.
///
/// # Errors
///
/// [`JsonError`] if the tree has more than [`MAX_DEPTH`] levels.
pub fn to_string_sorted(tree: &impl Tree) -> Result<String, JsonError> {
    tree.write(Layout::Sorted)
}

/// Returns the first `max` characters of the text that [`to_string`] returns, without building the rest. If
/// the tree is nested too deep, the text ends at that point.
#[must_use]
pub fn start(value: &Value, max: usize) -> String {
    let mut start = Start { bytes: Vec::new(), room: max.saturating_mul(4) };
    let _ = serde_json::to_writer(&mut start, &Branch { node: value, order: Order::Kept, depth: 0 });
    let valid = start.bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    valid.chars().take(max).collect()
}

/// A writer that accepts a limited number of bytes and fails after that.
struct Start {
    bytes: Vec<u8>,
    room: usize,
}

impl io::Write for Start {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.get(..self.room).unwrap_or(bytes);
        self.bytes.extend_from_slice(taken);
        self.room = self.room.saturating_sub(taken.len());
        Ok(taken.len()) // zero makes the caller fail
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A value that can be written as JSON: a [`Value`] or an [`Object`].
pub trait Tree: sealed::Tree {}

impl Tree for Value {}
impl Tree for Object {}

mod non_finite;
mod numbers;

pub use non_finite::{parse_with_bare_words, to_string_with_bare_words, without_bare_words};

mod sealed {
    /// The layout of the text.
    #[derive(Clone, Copy)]
    pub enum Layout {
        Compact,
        Pretty,
        Sorted,
    }

    pub trait Tree {
        /// Returns the JSON text of the tree.
        fn write(&self, layout: Layout) -> Result<String, super::JsonError>;
    }
}

macro_rules! tree {
    ($($type:ty),*) => {
        $(impl sealed::Tree for $type {
            fn write(&self, layout: Layout) -> Result<String, JsonError> {
                let branch = |order| Branch { node: self, order, depth: 0 };
                match layout {
                    Layout::Compact => serde_json::to_string(&branch(Order::Kept)),
                    Layout::Pretty => serde_json::to_string_pretty(&branch(Order::Kept)),
                    Layout::Sorted => serde_json::to_string(&branch(Order::Sorted)),
                }
                .map_err(|error| JsonError::unwritable(&error))
            }
        })*
    };
}

tree!(Value, Object);

/// The error for text that cannot be parsed, or a tree that cannot be written.
#[derive(Clone, PartialEq, Eq)]
pub struct JsonError {
    message: String,
    position: Option<Position>,
}

tensor_core::debug_as_sentence!(JsonError);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    line: usize,
    column: usize,
    offset: usize,
}

impl Position {
    /// Returns the position of byte `offset` of `text`.
    fn of(text: &[u8], offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let column = before.iter().rev().take_while(|&&b| b != b'\n').count().saturating_add(1);
        let line = before.iter().filter(|&&b| b == b'\n').count().saturating_add(1);
        Self { line, column, offset }
    }
}

impl JsonError {
    /// Returns the message, without the position.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the offset in the text at which parsing stopped; it may be the length of the text.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        self.position.map(|position| position.offset)
    }

    /// Returns the line and column at which parsing stopped, both counted from 1. Columns count bytes.
    #[must_use]
    pub fn line_and_column(&self) -> Option<(usize, usize)> {
        self.position.map(|position| (position.line, position.column))
    }

    fn not_utf8(text: &[u8], error: std::str::Utf8Error) -> Self {
        let position = Position::of(text, error.valid_up_to());
        Self { message: "not UTF-8".to_owned(), position: Some(position) }
    }

    fn too_large(text: &str, offset: usize) -> Self {
        let message = "an integer of more than 128 bits; write it as text, or as a float".to_owned();
        Self { message, position: Some(Position::of(text.as_bytes(), offset)) }
    }

    fn unwritable(error: &serde_json::Error) -> Self {
        Self { message: error.to_string(), position: None }
    }

    fn at(text: &str, error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let message = error.to_string();
        let place = format!(" at line {line} column {column}");
        let message = match message.strip_suffix(&place).unwrap_or(&message) {
            // serde_json has the same depth limit and checks it first.
            "recursion limit exceeded" => TooDeep(MAX_DEPTH).to_string(),
            other => other.to_owned(),
        };
        Self { message, position: position(text, line, column) }
    }
}

impl std::error::Error for JsonError {}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, position } = self;
        match position {
            Some(Position { line, column, .. }) => write!(f, "{message} (line {line}, column {column})"),
            None => f.write_str(message),
        }
    }
}

/// Returns the position at which serde_json stopped. Its lines count from 1; its column is the number of
/// bytes read of the line.
fn position(text: &str, line: usize, column: usize) -> Option<Position> {
    let earlier_lines = line.checked_sub(1)?;
    let starts = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at.saturating_add(1));
    let start = std::iter::once(0).chain(starts).nth(earlier_lines)?;
    let before = column.saturating_sub(1);
    Some(Position { line, column: before.saturating_add(1), offset: start.saturating_add(before) })
}

fn first_byte(text: &[u8]) -> usize {
    text.iter().take_while(|b| b.is_ascii_whitespace()).count()
}

#[cfg(test)]
mod tests;
