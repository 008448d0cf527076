//! Size variables: names for dimensions, such as `D := 128`.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{CommonFault, author::NameTable};

/// The size variables of a file, in file order.
#[derive(Clone, Debug, Default)]
pub struct SizeVars {
    names: NameTable,
    values: Vec<u64>,
}

impl SizeVars {
    /// Creates a list with capacity for `count` variables. The caller has checked `count` against the bytes
    /// that exist.
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self { names: NameTable::with_capacity(count), values: Vec::with_capacity(count) }
    }

    pub(crate) fn push(&mut self, name: &str, value: u64) -> Result<(), CommonFault> {
        self.names.push(name)?;
        self.values.push(value);
        Ok(())
    }

    /// Returns the number of size variables.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether there are no size variables.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the value of the variable with this name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<u64> {
        self.values.get(self.names.find(name)?).copied()
    }

    /// Returns the names and values, in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, u64)> + Clone {
        self.names.iter().zip(self.values.iter().copied())
    }

    /// Returns the heap memory in bytes that the list takes.
    pub(crate) fn heap_size(&self) -> usize {
        self.names.heap_size().saturating_add(self.values.capacity().saturating_mul(size_of::<u64>()))
    }
}
