//! What a scan knows of a value: whether it can be a text that the template puts together.

use super::inner_word;

/// Longer texts are not followed: a name that opens a door has 20 characters.
const MAX_LEN: usize = 256;

/// What is known of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A number, a truth value, nothing, or a range of numbers.
    Number,
    /// Exactly this text.
    Text(String),
    /// What the renderer gives: messages, tools, their members.
    Given,
    /// One of the template's literals, or a character of one, or what the renderer gives.
    OneOf,
    /// A list or a dict of such values.
    Items,
    /// What `namespace()` makes: its members are known by their names.
    Namespace,
    /// A text that is put together in a way that is not followed, or something that holds one.
    Made,
}

impl Value {
    pub(super) fn text(text: &str) -> Self {
        if text.len() > MAX_LEN { Self::OneOf } else { Self::Text(text.to_owned()) }
    }

    /// A list, a tuple or a dict of these values.
    pub(super) fn items<'v>(mut values: impl Iterator<Item = &'v Self>) -> Self {
        if values.any(|value| *value == Self::Made) { Self::Made } else { Self::Items }
    }

    /// Either of two.
    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Made, _) | (_, Self::Made) => Self::Made,
            (left, right) if left == right => left,
            (Self::Items, _) | (_, Self::Items) => Self::Items,
            (Self::Given, Self::Number | Self::Namespace) | (Self::Number | Self::Namespace, Self::Given) => {
                Self::Given
            }
            _ => Self::OneOf,
        }
    }

    /// `left ~ right`
    pub(super) fn joined(&self, right: &Self) -> Self {
        match (self, right) {
            (Self::Text(left), Self::Text(right)) if left.len() + right.len() <= MAX_LEN => {
                Self::Text(format!("{left}{right}"))
            }
            _ => Self::Made,
        }
    }

    /// `left + right`
    pub(super) fn plus(&self, right: &Self) -> Self {
        match (self, right) {
            (Self::Made, _) | (_, Self::Made) => Self::Made,
            (Self::Items, _) | (_, Self::Items) => Self::Items,
            // Nothing but a number can be added to a number.
            (Self::Number, _) | (_, Self::Number) => Self::Number,
            _ => self.joined(right),
        }
    }

    /// `left * right`, `left % right`
    pub(super) fn times(&self, right: &Self) -> Self {
        match (self, right) {
            (Self::Number, Self::Number) => Self::Number,
            (Self::Items, Self::Number) | (Self::Number, Self::Items) => Self::Items,
            _ => Self::Made,
        }
    }

    /// One of what a loop goes over, or that stands at an index.
    pub(super) fn member(self) -> Self {
        match self {
            Self::Text(_) | Self::Items => Self::OneOf,
            Self::Namespace => Self::Given,
            other => other,
        }
    }

    /// A part of a text or of a list.
    pub(super) fn part(self) -> Self {
        match self {
            Self::Text(_) | Self::OneOf => Self::Made,
            other => other,
        }
    }

    /// The word of Python's inner parts in a text.
    pub(super) fn inner_word(&self) -> Option<&str> {
        match self {
            Self::Text(text) => inner_word(text),
            _ => None,
        }
    }

    /// What a method of Python makes of the value.
    pub(super) fn method(self, name: &str, arguments: &[Self]) -> Self {
        match name {
            "get" | "pop" | "setdefault" => arguments.iter().skip(1).cloned().fold(self.member(), Self::or),
            "items" | "keys" | "values" | "copy" => match self {
                Self::Made | Self::Items => self,
                _ => Self::Given,
            },
            "index" | "find" | "rfind" | "count" | "startswith" | "endswith" => Self::Number,
            _ if name.starts_with("is") => Self::Number,
            "strip" | "split" if arguments.is_empty() => self.trimmed(),
            "split" | "splitlines" => match (&self, arguments) {
                // The pieces are looked at by themselves.
                (Self::Text(text), [Self::Text(between)]) if !between.is_empty() => {
                    let is_inner = text.split(between.as_str()).any(|piece| inner_word(piece).is_some());
                    if is_inner { Self::Made } else { Self::Items }
                }
                _ => self.of_given(),
            },
            "strip" | "lstrip" | "rstrip" | "rsplit" | "partition" | "rpartition" | "lower" | "upper"
            | "title" | "capitalize" | "removeprefix" | "removesuffix" => self.of_given(),
            _ => Self::Made,
        }
    }

    /// What a filter makes of the value.
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
                other => other.of_given(),
            },
            "trim" | "lower" | "upper" | "capitalize" | "title" | "e" | "escape" => self.of_given(),
            _ => Self::Made,
        }
    }

    /// Without the spaces around it: a text has no other words.
    fn trimmed(self) -> Self {
        match self {
            Self::Text(text) => Self::Text(text.trim().to_owned()),
            other => other,
        }
    }

    /// What an operation makes that changes texts: what the renderer gives is not the template's.
    fn of_given(self) -> Self {
        if self == Self::Given { Self::Given } else { Self::Made }
    }
}
