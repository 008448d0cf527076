//! What a scan knows about a value: whether it can be a text that the template puts together.

use super::internal_word;

/// The maximum length of a text that is followed. A dangerous name has 20 characters.
const MAX_LEN: usize = 256;

/// What is known about a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A number, a boolean, none, or a range of numbers.
    Number,
    /// Exactly this text.
    Text(String),
    /// A value from the renderer: messages, tools, their members.
    Given,
    /// One of the template's literals, or a character of one, or a value from the renderer.
    OneOf,
    /// A list or a dict of such values.
    Items,
    /// The result of `namespace()`. Its members are known by their names.
    Namespace,
    /// A text that is put together in a way that is not followed, or something that contains such a text.
    Assembled,
}

impl Value {
    pub(super) fn text(text: &str) -> Self {
        if text.len() > MAX_LEN { Self::OneOf } else { Self::Text(text.to_owned()) }
    }

    /// Returns a list, a tuple or a dict of these values.
    pub(super) fn items<'v>(mut values: impl Iterator<Item = &'v Self>) -> Self {
        if values.any(|value| *value == Self::Assembled) { Self::Assembled } else { Self::Items }
    }

    /// Returns a value that is one of the two.
    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Assembled, _) | (_, Self::Assembled) => Self::Assembled,
            (left, right) if left == right => left,
            (Self::Items, _) | (_, Self::Items) => Self::Items,
            (Self::Given, Self::Number | Self::Namespace) | (Self::Number | Self::Namespace, Self::Given) => {
                Self::Given
            }
            _ => Self::OneOf,
        }
    }

    /// Returns `left ~ right`.
    pub(super) fn joined(&self, right: &Self) -> Self {
        match (self, right) {
            (Self::Text(left), Self::Text(right)) if left.len() + right.len() <= MAX_LEN => {
                Self::Text(format!("{left}{right}"))
            }
            _ => Self::Assembled,
        }
    }

    /// Returns `left + right`.
    pub(super) fn plus(&self, right: &Self) -> Self {
        match (self, right) {
            (Self::Assembled, _) | (_, Self::Assembled) => Self::Assembled,
            (Self::Items, _) | (_, Self::Items) => Self::Items,
            // Nothing but a number can be added to a number.
            (Self::Number, _) | (_, Self::Number) => Self::Number,
            _ => self.joined(right),
        }
    }

    /// Returns `left * right` or `left % right`.
    pub(super) fn times(&self, right: &Self) -> Self {
        match (self, right) {
            (Self::Number, Self::Number) => Self::Number,
            (Self::Items, Self::Number) | (Self::Number, Self::Items) => Self::Items,
            _ => Self::Assembled,
        }
    }

    /// Returns an element of a value, as in a loop or at an index.
    pub(super) fn member(self) -> Self {
        match self {
            Self::Text(_) | Self::Items => Self::OneOf,
            Self::Namespace => Self::Given,
            other => other,
        }
    }

    /// Returns a part of a text or of a list.
    pub(super) fn part(self) -> Self {
        match self {
            Self::Text(_) | Self::OneOf => Self::Assembled,
            other => other,
        }
    }

    /// Finds a word in a text that names a Python internal.
    pub(super) fn internal_word(&self) -> Option<&str> {
        match self {
            Self::Text(text) => internal_word(text),
            _ => None,
        }
    }

    /// Returns the result of a Python method of the value.
    pub(super) fn method(self, name: &str, arguments: &[Self]) -> Self {
        match name {
            "get" | "pop" | "setdefault" => arguments.iter().skip(1).cloned().fold(self.member(), Self::or),
            "items" | "keys" | "values" | "copy" => match self {
                Self::Assembled | Self::Items => self,
                _ => Self::Given,
            },
            "index" | "find" | "rfind" | "count" | "startswith" | "endswith" => Self::Number,
            _ if name.starts_with("is") => Self::Number,
            "strip" | "split" if arguments.is_empty() => self.trimmed(),
            "split" | "splitlines" => match (&self, arguments) {
                // Each piece is checked by itself.
                (Self::Text(text), [Self::Text(between)]) if !between.is_empty() => {
                    let is_internal =
                        text.split(between.as_str()).any(|piece| internal_word(piece).is_some());
                    if is_internal { Self::Assembled } else { Self::Items }
                }
                _ => self.changed_text(),
            },
            "strip" | "lstrip" | "rstrip" | "rsplit" | "partition" | "rpartition" | "lower" | "upper"
            | "title" | "capitalize" | "removeprefix" | "removesuffix" => self.changed_text(),
            _ => Self::Assembled,
        }
    }

    /// Returns the result of a filter of the value.
    pub(super) fn filtered(self, name: &str, arguments: &[Self]) -> Self {
        match name {
            "length" | "count" | "int" | "float" | "round" | "abs" | "wordcount" => Self::Number,
            "default" | "d" => arguments.first().cloned().map_or(Self::Given, |other| self.or(other)),
            "first" | "last" | "random" | "min" | "max" => self.member(),
            "list" if self == Self::Number => Self::Items,
            "list" => match self {
                Self::Text(_) | Self::OneOf => Self::Items,
                other => other,
            },
            "string" | "safe" | "tojson" if matches!(self, Self::Number) => self,
            "string" | "safe" => self,
            "trim" if arguments.is_empty() => self.trimmed(),
            "select" | "reject" | "selectattr" | "rejectattr" | "items" | "dictsort" | "batch" | "slice"
            | "groupby" | "sort" | "unique" | "reverse" | "sum" => match self {
                Self::Items | Self::Namespace | Self::Number => Self::Items,
                other => other.changed_text(),
            },
            "trim" | "lower" | "upper" | "capitalize" | "title" | "e" | "escape" => self.changed_text(),
            _ => Self::Assembled,
        }
    }

    /// Removes the spaces around a text. This adds no new words to it.
    fn trimmed(self) -> Self {
        match self {
            Self::Text(text) => Self::Text(text.trim().to_owned()),
            other => other,
        }
    }

    /// Returns the result of an operation that changes a text. A text from the renderer is still not made by
    /// the template.
    fn changed_text(self) -> Self {
        if self == Self::Given { Self::Given } else { Self::Assembled }
    }
}
