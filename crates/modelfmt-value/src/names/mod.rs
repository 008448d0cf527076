//! A table of unique names, numbered in order and found by text.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod sorted;

use std::fmt;
use std::hash::BuildHasher;

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use sorted::Sorted;

/// Unique names, numbered from 0 in the order of insertion. They are kept in one string. A hash table finds
/// them; for very many names, it is replaced by the numbers sorted by the hashes of the names.
///
/// The hash is seeded, because names may be hostile. A table holds up to 4 GiB of text.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    text: String,
    /// The end of each name; a name begins where the previous one ends.
    ends: Vec<u32>,
    lookup: Lookup,
    /// Whether [`NameTable::compare`] looks for duplicates once there are very many names.
    compares_later: bool,
    hasher: RandomState,
}

/// The structure that finds names.
#[derive(Clone, Debug)]
enum Lookup {
    Table(HashTable<u32>),
    /// Nothing until the names are compared.
    Later,
    Sorted(Sorted),
}

impl Default for Lookup {
    fn default() -> Self {
        Self::Table(HashTable::default())
    }
}

/// The number of names from which comparing all together is faster than one by one, because their hash table
/// is larger than caches.
const MANY: usize = 1 << 18;

/// The error for a name that cannot be added.
#[derive(Clone, PartialEq, Eq)]
pub enum NameError {
    /// The name is already present.
    Duplicate(String),
    /// The names exceed the number or the amount of text that a table can hold.
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

/// The bytes of text to reserve for each name. Most names are longer, but this avoids most steps of growing.
const USUAL_LEN: usize = 8;

impl NameTable {
    /// Creates a table with capacity for `count` names. The caller must check `count` against the bytes that
    /// exist.
    #[must_use]
    pub fn with_capacity(count: usize) -> Self {
        Self { lookup: Lookup::Table(HashTable::with_capacity(count)), ..Self::with_room(count) }
    }

    /// Creates a table in which very many names are compared by [`NameTable::compare`] instead of when they
    /// are added. Until then, duplicates are not detected, and finding a name is slow.
    #[must_use]
    pub fn comparing_later(count: usize) -> Self {
        let table = match count {
            MANY.. => Self { lookup: Lookup::Later, ..Self::with_room(count) },
            _ => Self::with_capacity(count),
        };
        Self { compares_later: true, ..table }
    }

    fn with_room(count: usize) -> Self {
        let text = String::with_capacity(count.saturating_mul(USUAL_LEN));
        Self { text, ends: Vec::with_capacity(count), ..Self::default() }
    }

    /// Compares the names that were added since [`NameTable::comparing_later`].
    ///
    /// # Errors
    /// The number of the first name that is a duplicate.
    pub fn compare(&mut self) -> Result<(), usize> {
        self.compares_later = false;
        if !matches!(self.lookup, Lookup::Later) {
            return Ok(());
        }
        let (ends, text, hasher) = (&self.ends, &self.text, &self.hasher);
        let name = |number| name_of(ends, text, number);
        let count = u32::try_from(ends.len()).unwrap_or(u32::MAX); // adding has checked this
        let sorted = Sorted::new(count, |number| short_hash(hasher, name(number)));
        let repeated = sorted.first_repeated(|a, b| name(a) == name(b));
        self.lookup = Lookup::Sorted(sorted);
        repeated.map_or(Ok(()), |number| Err(number as usize))
    }

    /// Reserves memory for `count` more names. The caller must check `count` against the bytes that exist.
    pub fn reserve(&mut self, count: usize) {
        let (ends, text, hasher) = (&self.ends, &self.text, &self.hasher);
        if let Lookup::Table(table) = &mut self.lookup {
            table.reserve(count, |&other| hasher.hash_one(name_of(ends, text, other)));
        }
        self.ends.reserve(count);
        self.text.reserve(count.saturating_mul(USUAL_LEN));
    }

    /// Adds a name and returns its number.
    ///
    /// # Errors
    /// [`NameError`] if the name is already present, or the table is full.
    #[inline]
    pub fn push(&mut self, name: &str) -> Result<usize, NameError> {
        let number = u32::try_from(self.ends.len()).map_err(|_| NameError::TooMany)?;
        let end = self.text.len().saturating_add(name.len());
        let end = u32::try_from(end).map_err(|_| NameError::TooMany)?;
        match self.lookup {
            Lookup::Table(_) if self.compares_later && number as usize >= MANY => self.lookup = Lookup::Later,
            Lookup::Sorted(_) => self.lookup = Lookup::Table(self.table()),
            _ => {}
        }
        let (ends, text, hasher) = (&self.ends, &self.text, &self.hasher);
        if let Lookup::Table(table) = &mut self.lookup {
            let slot = table.entry(
                hasher.hash_one(name),
                |&other| name_of(ends, text, other) == name,
                |&other| hasher.hash_one(name_of(ends, text, other)),
            );
            match slot {
                Entry::Occupied(_) => return Err(NameError::Duplicate(name.to_owned())),
                Entry::Vacant(vacant) => vacant.insert(number),
            };
        }
        self.text.push_str(name);
        self.ends.push(end);
        Ok(number as usize)
    }

    /// Returns the number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the table has no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the name with this number.
    #[must_use]
    #[inline]
    pub fn name(&self, number: usize) -> Option<&str> {
        let number = u32::try_from(number).ok().filter(|&number| (number as usize) < self.ends.len())?;
        Some(name_of(&self.ends, &self.text, number))
    }

    /// Returns the number of a name.
    #[must_use]
    #[inline]
    pub fn find(&self, name: &str) -> Option<usize> {
        let same = |number: u32| name_of(&self.ends, &self.text, number) == name;
        let found = match &self.lookup {
            Lookup::Table(table) => table.find(self.hasher.hash_one(name), |&number| same(number)).copied(),
            Lookup::Sorted(sorted) => sorted.find(short_hash(&self.hasher, name), same),
            Lookup::Later => return self.iter().position(|other| other == name),
        };
        found.map(|number| number as usize)
    }

    /// Builds a hash table of all names, so that more can be added.
    #[cold]
    fn table(&self) -> HashTable<u32> {
        let hash = |&number: &u32| self.hasher.hash_one(name_of(&self.ends, &self.text, number));
        let mut table = HashTable::with_capacity(self.ends.len());
        for number in 0..u32::try_from(self.ends.len()).unwrap_or(u32::MAX) {
            table.insert_unique(hash(&number), number, hash);
        }
        table
    }

    /// Returns the names, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + DoubleEndedIterator + Clone {
        (0..self.len()).map(|number| self.name(number).unwrap_or_default())
    }

    /// Frees memory that was reserved and is not needed.
    pub fn shrink_to_fit(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// Returns the number of bytes of heap memory that the table takes.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.text
            .capacity()
            .saturating_add(self.ends.capacity().saturating_mul(size_of::<u32>()))
            .saturating_add(match &self.lookup {
                Lookup::Table(table) => table.allocation_size(),
                Lookup::Later => 0,
                Lookup::Sorted(sorted) => sorted.heap_size(),
            })
    }
}

/// Returns the upper half of a hash.
#[inline]
fn short_hash(hasher: &RandomState, name: &str) -> u32 {
    u32::try_from(hasher.hash_one(name) >> 32).unwrap_or_default()
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

    #[test]
    fn very_many_names_are_compared_together() {
        let name = |i: usize| format!("model.layers.{i}");
        let mut names = NameTable::comparing_later(MANY);
        let mut growing = NameTable::comparing_later(0);
        for i in 0..MANY {
            assert_eq!((names.push(&name(i)), growing.push(&name(i))), (Ok(i), Ok(i)));
        }
        // This table did not know its final number of names. It compares them one by one until there are very
        // many.
        assert!(growing.push(&name(4)).is_ok() && growing.push("b").is_ok() && growing.push("b").is_ok());
        assert_eq!(growing.compare(), Err(MANY));
        let mut twice = names.clone();
        assert_eq!((names.find(&name(7)), names.compare()), (Some(7), Ok(())));
        assert!((0..MANY).all(|i| names.find(&name(i)) == Some(i)) && names.find("model").is_none());
        // Names that are added afterwards are compared at once.
        assert_eq!(names.push("model"), Ok(MANY));
        assert_eq!(names.push(&name(5)), Err(NameError::Duplicate(name(5))));
        for i in [9, 3] {
            assert!(twice.push(&name(i)).is_ok());
        }
        assert_eq!(twice.compare(), Err(MANY));
        // If there are few names, they are compared as they are added.
        let mut few = NameTable::comparing_later(2);
        assert!(few.push("a").is_ok() && few.push("a").is_err());
    }
}
