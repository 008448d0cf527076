//! The metadata of version 1: numbers by key.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::sync::OnceLock;

use modelfmt_core::CommonFault;
use modelfmt_core::Part;
use modelfmt_core::author::NameTable;
use modelfmt_core::value::{Object, Value};

use crate::error::{Fault, WriteError};

/// Metadata of version 1: keys and numbers in file order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    keys: NameTable,
    values: Vec<Number>,
    object: OnceLock<Object>,
}

/// The value of a metadata entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    /// A signed integer, type 1.
    I64(i64),
    /// A float, type 2.
    F64(f64),
}

impl Numbers {
    /// Converts metadata to be written. Refuses values that are not 64-bit numbers.
    pub(crate) fn of(metadata: &Object) -> Result<Self, WriteError> {
        let mut numbers = Self::with_capacity(metadata.len());
        for (key, value) in metadata {
            let unfit = |fault| WriteError::Unsupported { part: Part::named("metadata key", key), fault };
            let number = match value {
                Value::Int(n) => n.as_i64().map(Number::I64),
                Value::Float(x) => Some(Number::F64(*x)),
                _ => None,
            };
            numbers.push(key, number.ok_or_else(|| unfit(Fault::NoNumber(value.kind())))?).map_err(unfit)?;
        }
        Ok(numbers)
    }

    /// Adds an entry. Refuses a key that is already present.
    pub(crate) fn push(&mut self, key: &str, value: Number) -> Result<(), Fault> {
        self.keys.push(key).map_err(CommonFault::from)?;
        self.values.push(value);
        Ok(())
    }

    /// Returns the entries in file order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&str, Number)> + Clone {
        self.keys.iter().zip(self.values.iter().copied())
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns the heap memory in bytes that the entries take.
    pub(crate) fn heap_size(&self) -> usize {
        self.keys.heap_size().saturating_add(self.values.capacity().saturating_mul(size_of::<Number>()))
    }

    /// Creates an empty list with capacity for `entries` entries.
    pub(crate) fn with_capacity(entries: usize) -> Self {
        Self {
            keys: NameTable::with_capacity(entries),
            values: Vec::with_capacity(entries),
            object: OnceLock::new(),
        }
    }

    /// Releases reserved memory that is not needed.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.keys.shrink_to_fit();
    }

    /// Returns the entries as an object. It is made on first use, because it takes several times the memory.
    pub(crate) fn as_object(&self) -> &Object {
        self.object.get_or_init(|| self.iter().collect())
    }

    /// Returns a new object with the entries. This list does not keep a copy of it.
    pub(crate) fn to_object(&self) -> Object {
        self.object.get().cloned().unwrap_or_else(|| self.iter().collect())
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
