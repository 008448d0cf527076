//! What an edit changes in a file of any format.

use std::collections::{BTreeMap, HashMap, HashSet};

use modelfmt_core::value::{Object, Value, json};
use modelfmt_core::{AnyError, CommonFault, Fault, Part};
use modelfmt_write::AnyWriteError;
use modelfmt_write::edit::EditError;

/// A new value for a key.
#[derive(Clone, Debug, PartialEq)]
pub enum NewValue {
    /// Text that a user typed: JSON if it is valid JSON, else a string. In a format that holds only text it is always a string.
    Text(String),
    /// A value.
    Value(Value),
}

#[allow(dead_code, reason = "with no format switched on nothing is edited")]
impl NewValue {
    /// Returns the value, for a format that holds more than text.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Text(text) => json::parse(text.as_bytes()).unwrap_or_else(|_| text.as_str().into()),
            Self::Value(value) => value.clone(),
        }
    }

    /// Returns the value, for a format that holds only text.
    pub(crate) fn to_text(&self) -> Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Value(value) => value.clone(),
        }
    }
}

/// The changes of an edit to one file.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "without files to edit, or with no format switched on, not all of it is used")]
pub struct Change<'a> {
    /// Keys of the metadata and their new values, each once.
    set: Vec<(&'a str, &'a NewValue)>,
    /// The position of each key in `set`.
    places: HashMap<&'a str, usize>,
    /// Keys that are removed.
    unset: HashSet<&'a str>,
    /// New names of tensors, by position.
    pub(crate) names: &'a BTreeMap<usize, String>,
}

/// Why a file cannot be edited.
#[derive(Debug)]
pub enum EditFault {
    /// The file cannot be read.
    Read(AnyError),
    /// The result cannot be written in the format.
    Write(AnyWriteError),
    /// A key to remove does not exist; the list has the keys that do.
    NoKey(String, Vec<String>),
}

impl<F: Fault> From<modelfmt_core::Error<F>> for EditFault {
    fn from(error: modelfmt_core::Error<F>) -> Self {
        Self::Read(error.into())
    }
}

impl<F: Fault> From<EditError<F>> for EditFault {
    fn from(error: EditError<F>) -> Self {
        match error {
            EditError::Write(error) => Self::Write(error.into()),
            EditError::Read(error) => Self::Read(error.into()),
            other => Self::unfit("the file", "", other.to_string()),
        }
    }
}

#[allow(dead_code, reason = "with few formats switched on not all of it is used")]
impl EditFault {
    /// Returns the error for a file that is not open as one of its format.
    pub(crate) fn unopened() -> Self {
        Self::unfit("the file", "", "it is not open as a file of its format".to_owned())
    }

    /// Returns the error for a change that does not fit, with the reason.
    pub(crate) fn unfit(what: &'static str, name: &str, why: String) -> Self {
        let part = if name.is_empty() { Part::new(what) } else { Part::named(what, name) };
        let error: modelfmt_write::WriteError<CommonFault> =
            modelfmt_write::WriteError::Unsupported { part, fault: CommonFault::Metadata(why) };
        Self::Write(error.into())
    }
}

#[allow(dead_code, reason = "without files to edit, or with few formats switched on, not all of it is used")]
impl<'a> Change<'a> {
    /// Makes a change from keys with their new values, keys to remove, and new names by position. If a key
    /// has several new values, the last one counts.
    pub fn new(
        given: impl IntoIterator<Item = (&'a str, &'a NewValue)>,
        unset: impl IntoIterator<Item = &'a str>,
        names: &'a BTreeMap<usize, String>,
    ) -> Self {
        let (mut set, mut places) = (Vec::new(), HashMap::new());
        for (key, value) in given {
            let place = *places.entry(key).or_insert(set.len());
            match set.get_mut(place) {
                Some(known) => *known = (key, value),
                None => set.push((key, value)),
            }
        }
        Self { set, places, unset: unset.into_iter().collect(), names }
    }

    /// Checks whether the metadata changes.
    pub(crate) fn has_metadata(&self) -> bool {
        !self.set.is_empty() || !self.unset.is_empty()
    }

    /// Returns the new value of a key.
    pub(crate) fn given(&self, key: &str) -> Option<&'a NewValue> {
        self.places.get(key).and_then(|place| self.set.get(*place)).map(|(_, value)| *value)
    }

    /// Returns the keys with a new value that the file does not have yet, in the order in which they were
    /// given.
    pub(crate) fn added(&self, has: impl Fn(&str) -> bool) -> impl Iterator<Item = (&'a str, &'a NewValue)> {
        self.set.iter().copied().filter(move |(key, _)| !has(key))
    }

    /// Checks whether a key is removed.
    pub(crate) fn is_gone(&self, key: &str) -> bool {
        self.unset.contains(key) && !self.places.contains_key(key)
    }

    /// Fails if a key to remove does not exist.
    pub(crate) fn check_unset<'k>(
        &self,
        keys: impl Iterator<Item = &'k str> + Clone,
    ) -> Result<(), EditFault> {
        const MAX: usize = 1000; // the number of keys that are searched for a similar one
        let known: HashSet<&str> = keys.clone().collect();
        match self.unset.iter().find(|key| !known.contains(*key)) {
            Some(key) => {
                Err(EditFault::NoKey((*key).to_owned(), keys.take(MAX).map(str::to_owned).collect()))
            }
            None => Ok(()),
        }
    }

    /// Returns the metadata of a file after the change; `None` if it does not change. `value` converts new
    /// values.
    pub(crate) fn apply(
        &self,
        before: &Object,
        value: impl Fn(&NewValue) -> Value,
    ) -> Result<Option<Object>, EditFault> {
        if !self.has_metadata() {
            return Ok(None);
        }
        self.check_unset(before.keys())?;
        let mut after = before.clone();
        after.retain(|key, _| !self.is_gone(key));
        for (key, given) in &self.set {
            after.insert(*key, value(given));
        }
        Ok(Some(after))
    }
}
