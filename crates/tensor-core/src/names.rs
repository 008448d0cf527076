//! Names of a file, numbered in their order and found by text.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::error::Fault;

/// Unique names, numbered from 0 in the order they came, in one string and a hash table of numbers.
///
/// The hash is seeded, since names are hostile. Holds up to 4 GiB of text.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    text: String,
    spans: Vec<Span>,
    lookup: HashTable<u32>,
    hasher: RandomState,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    len: u32,
}

impl NameTable {
    /// A table with room for `count` names, which the caller has bounded by bytes that exist.
    #[must_use]
    pub fn with_capacity(count: usize) -> Self {
        let lookup = HashTable::with_capacity(count);
        Self { spans: Vec::with_capacity(count), lookup, ..Self::default() }
    }

    /// Adds a name and returns its number.
    ///
    /// # Errors
    /// [`Fault::Duplicate`] if it is there already, [`Fault::TooManyNames`] if it does not fit.
    #[inline]
    pub fn push(&mut self, name: &str) -> Result<usize, Fault> {
        let number = u32::try_from(self.spans.len()).map_err(|_| Fault::TooManyNames)?;
        let start = u32::try_from(self.text.len()).map_err(|_| Fault::TooManyNames)?;
        let len = u32::try_from(name.len()).map_err(|_| Fault::TooManyNames)?;
        let (spans, text, hasher) = (&self.spans, &self.text, &self.hasher);
        let slot = self.lookup.entry(
            hasher.hash_one(name),
            |&other| name_of(spans, text, other) == name,
            |&other| hasher.hash_one(name_of(spans, text, other)),
        );
        match slot {
            Entry::Occupied(_) => return Err(Fault::Duplicate(name.to_owned())),
            Entry::Vacant(vacant) => vacant.insert(number),
        };
        self.text.push_str(name);
        self.spans.push(Span { start, len });
        Ok(number as usize)
    }

    /// The number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The name of a number.
    #[must_use]
    #[inline]
    pub fn name(&self, number: usize) -> Option<&str> {
        let span = self.spans.get(number)?;
        self.text.get(span.start as usize..)?.get(..span.len as usize)
    }

    /// The number of a name.
    #[must_use]
    #[inline]
    pub fn find(&self, name: &str) -> Option<usize> {
        let same = |&other: &u32| name_of(&self.spans, &self.text, other) == name;
        self.lookup.find(self.hasher.hash_one(name), same).map(|&number| number as usize)
    }

    /// The names in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + DoubleEndedIterator + Clone {
        (0..self.len()).map(|number| self.name(number).unwrap_or_default())
    }

    /// Gives back memory that was reserved and not used.
    pub fn shrink_to_fit(&mut self) {
        self.text.shrink_to_fit();
        self.spans.shrink_to_fit();
    }

    /// Bytes of heap that the table holds.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.text.capacity() + self.spans.capacity() * size_of::<Span>() + self.lookup.allocation_size()
    }
}

#[inline]
fn name_of<'a>(spans: &[Span], text: &'a str, number: u32) -> &'a str {
    let name = |span: &Span| text.get(span.start as usize..)?.get(..span.len as usize);
    spans.get(number as usize).and_then(name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_found_and_unique() {
        let mut names = NameTable::with_capacity(2);
        assert_eq!((names.push("a"), names.push("重み"), names.push("")), (Ok(0), Ok(1), Ok(2)));
        assert_eq!(names.push("重み"), Err(Fault::Duplicate("重み".to_owned())));
        assert_eq!(
            (names.find("重み"), names.find("b"), names.name(1), names.name(3)),
            (Some(1), None, Some("重み"), None)
        );
        assert!(names.iter().eq(["a", "重み", ""]));
    }
}
