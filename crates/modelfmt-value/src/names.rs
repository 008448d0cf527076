//! The names of a file, numbered in order and found by text.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;
use std::hash::BuildHasher;

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Unique names, numbered from 0 in the order of insertion. They are kept in one string, with a hash table of numbers.
///
/// The hash is seeded, because names may be hostile. A table holds up to 4 GiB of text.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    text: String,
    /// The end of each name; it begins where the previous one ends.
    ends: Vec<u32>,
    lookup: HashTable<u32>,
    hasher: RandomState,
}

/// Why a name cannot be added.
#[derive(Clone, PartialEq, Eq)]
pub enum NameError {
    /// The name is already present.
    Duplicate(String),
    /// There would be more names, or more text, than a table can hold.
    TooMany,
}

tensor_core::debug_as_sentence!(NameError);

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate(name) => write!(f, "the name {name:?} is there twice"),
            Self::TooMany => f.write_str("there are more names than fit into 4 GiB"),
        }
    }
}

impl std::error::Error for NameError {}

/// How many bytes of text to reserve for each name. Most names are longer, but this avoids most steps of growing.
const USUAL_LEN: usize = 8;

impl NameTable {
    /// A table with capacity for `count` names. The caller has checked `count` against the bytes that exist.
    #[must_use]
    pub fn with_capacity(count: usize) -> Self {
        let text = String::with_capacity(count.saturating_mul(USUAL_LEN));
        let lookup = HashTable::with_capacity(count);
        Self { text, ends: Vec::with_capacity(count), lookup, ..Self::default() }
    }

    /// Reserves memory for `count` more names. The caller has checked `count` against the bytes that exist.
    pub fn reserve(&mut self, count: usize) {
        let (ends, text, hasher) = (&self.ends, &self.text, &self.hasher);
        self.lookup.reserve(count, |&other| hasher.hash_one(name_of(ends, text, other)));
        self.ends.reserve(count);
        self.text.reserve(count.saturating_mul(USUAL_LEN));
    }

    /// Adds a name and returns its number.
    ///
    /// # Errors
    /// If the name is already present, or the table is full.
    #[inline]
    pub fn push(&mut self, name: &str) -> Result<usize, NameError> {
        let number = u32::try_from(self.ends.len()).map_err(|_| NameError::TooMany)?;
        let end = self.text.len().saturating_add(name.len());
        let end = u32::try_from(end).map_err(|_| NameError::TooMany)?;
        let (ends, text, hasher) = (&self.ends, &self.text, &self.hasher);
        let slot = self.lookup.entry(
            hasher.hash_one(name),
            |&other| name_of(ends, text, other) == name,
            |&other| hasher.hash_one(name_of(ends, text, other)),
        );
        match slot {
            Entry::Occupied(_) => return Err(NameError::Duplicate(name.to_owned())),
            Entry::Vacant(vacant) => vacant.insert(number),
        };
        self.text.push_str(name);
        self.ends.push(end);
        Ok(number as usize)
    }

    /// The number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the table has no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The name with this number.
    #[must_use]
    #[inline]
    pub fn name(&self, number: usize) -> Option<&str> {
        let number = u32::try_from(number).ok().filter(|&number| (number as usize) < self.ends.len())?;
        Some(name_of(&self.ends, &self.text, number))
    }

    /// The number of a name.
    #[must_use]
    #[inline]
    pub fn find(&self, name: &str) -> Option<usize> {
        let same = |&other: &u32| name_of(&self.ends, &self.text, other) == name;
        self.lookup.find(self.hasher.hash_one(name), same).map(|&number| number as usize)
    }

    /// The names, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + DoubleEndedIterator + Clone {
        (0..self.len()).map(|number| self.name(number).unwrap_or_default())
    }

    /// Frees memory that was reserved and is not needed.
    pub fn shrink_to_fit(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// Bytes of heap memory that the table takes.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.text
            .capacity()
            .saturating_add(self.ends.capacity().saturating_mul(size_of::<u32>()))
            .saturating_add(self.lookup.allocation_size())
    }
}

#[inline]
fn name_of<'a>(ends: &[u32], text: &'a str, number: u32) -> &'a str {
    let number = number as usize;
    let start = number.checked_sub(1).and_then(|before| ends.get(before)).map_or(0, |&start| start);
    let name = ends.get(number).and_then(|&end| text.get(start as usize..end as usize));
    name.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_found_and_unique() {
        let mut names = NameTable::with_capacity(2);
        assert_eq!((names.push("a"), names.push("重み"), names.push("")), (Ok(0), Ok(1), Ok(2)));
        assert_eq!(names.push("重み"), Err(NameError::Duplicate("重み".to_owned())));
        assert_eq!(
            (names.find("重み"), names.find("b"), names.name(1), names.name(3)),
            (Some(1), None, Some("重み"), None)
        );
        assert!(names.iter().eq(["a", "重み", ""]));
    }
}
