//! Metadata of version 1: numbers by key.

use std::fmt;

use modelfmt_core::author::NameTable;
use modelfmt_core::value::{Object, Value};

use crate::error::Fault;
use crate::v1::wire::Number;

/// Metadata of version 1: keys and numbers in file order. Also what a writer takes.
#[derive(Clone, Default)]
pub struct Metadata {
    keys: NameTable,
    values: Vec<Number>,
}

impl Metadata {
    /// No metadata.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// If the key is there already.
    pub fn push(&mut self, key: &str, value: Number) -> Result<(), Fault> {
        self.keys.push(key)?;
        self.values.push(value);
        Ok(())
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Number> {
        self.values.get(self.keys.find(key)?).copied()
    }

    /// The entries in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, Number)> + Clone {
        self.keys.iter().zip(self.values.iter().copied())
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Bytes of heap that the entries take.
    pub(crate) fn heap_size(&self) -> usize {
        self.keys.heap_size() + self.values.capacity() * size_of::<Number>()
    }

    /// Room for so many entries.
    pub(crate) fn with_capacity(entries: usize) -> Self {
        Self { keys: NameTable::with_capacity(entries), values: Vec::with_capacity(entries) }
    }

    /// Gives back memory that was reserved and not used.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.keys.shrink_to_fit();
    }

    /// As the tree that `inspect --json` prints: key → number.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let pair = |(key, value): (&str, Number)| (key.to_owned(), Value::from(value));
        Value::Object(self.iter().map(pair).collect::<Object>())
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Two are equal if they have the same entries in the same order.
impl PartialEq for Metadata {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        match number {
            Number::I64(value) => Self::from(value),
            Number::F64(value) => Self::from(value),
        }
    }
}
