//! The keys of an object, kept in one string.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;
use std::hash::BuildHasher as _;

use foldhash::quality::RandomState;
use hashbrown::HashTable;

/// The maximum number of keys without an index. Up to it a key is found by comparing each, beyond it by a
/// hash table.
const UNINDEXED: usize = 16;

/// Unique keys. Each takes its own bytes and about 25 more. With a `String` for each, a short key would take
/// several times the bytes that it has in the file.
#[derive(Clone, Default)]
pub(super) struct Keys {
    text: String,
    /// The end of each key; a key begins where the previous one ends.
    ends: Vec<usize>,
    /// Present if and only if there are more than `UNINDEXED` keys, and not more than the index can number.
    index: Option<Box<Index>>,
}

/// A hash table of positions. It can number 2^32 keys. More keys are compared one by one, but their values
/// would need more than 128 GiB.
#[derive(Clone, Default)]
struct Index {
    positions: HashTable<u32>,
    seed: RandomState,
}

impl Keys {
    /// Returns the key at a position.
    pub(super) fn get(&self, at: usize) -> Option<&str> {
        key_at(&self.text, &self.ends, at)
    }

    /// Returns the keys, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len()).filter_map(|at| self.get(at))
    }

    /// Returns the position of a key.
    pub(super) fn position(&self, key: &str) -> Option<usize> {
        match self.index.as_deref() {
            Some(Index { positions, seed }) => {
                let found = positions.find(seed.hash_one(key), |&at| self.get(at as usize) == Some(key));
                found.map(|&at| at as usize)
            }
            None => self.iter().position(|present| present == key),
        }
    }

    /// Appends a key, which must not be present yet.
    pub(super) fn push(&mut self, key: &str) {
        // Grow by a quarter: doubling would temporarily need up to three times the final memory.
        if self.text.capacity().saturating_sub(self.text.len()) < key.len() {
            self.text.reserve_exact(key.len().max(self.text.len() / 4));
        }
        if self.ends.len() == self.ends.capacity() {
            self.ends.reserve_exact(2.max(self.ends.len() / 4));
        }
        self.text.push_str(key);
        self.ends.push(self.text.len());
        match self.index {
            Some(_) => self.add_to_index(self.ends.len().saturating_sub(1)),
            None if self.ends.len() == UNINDEXED + 1 => self.build_index(),
            None => {}
        }
    }

    /// Removes the key at a position; later keys move up.
    pub(super) fn remove(&mut self, at: usize) {
        let Some(key) = self.get(at) else { return };
        let len = key.len();
        if let Some(Index { positions, seed }) = self.index.as_deref_mut() {
            let key = key_at(&self.text, &self.ends, at).unwrap_or_default();
            if let Ok(found) = positions.find_entry(seed.hash_one(key), |&other| other as usize == at) {
                found.remove();
            }
            positions
                .iter_mut()
                .filter(|other| **other as usize > at)
                .for_each(|other| *other = other.saturating_sub(1));
        }
        let end = self.ends.remove(at);
        self.text.drain(end.saturating_sub(len)..end);
        self.ends.iter_mut().skip(at).for_each(|end| *end = end.saturating_sub(len));
        if self.ends.len() <= UNINDEXED {
            self.index = None;
        }
    }

    /// Frees memory that was reserved for growing.
    #[cfg(feature = "serde")]
    pub(super) fn shrink_to_fit(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// Reserves memory for `count` more keys.
    pub(super) fn reserve(&mut self, count: usize) {
        self.ends.reserve_exact(count);
    }

    fn build_index(&mut self) {
        self.index = Some(Box::default());
        (0..self.ends.len()).for_each(|at| self.add_to_index(at));
    }

    fn add_to_index(&mut self, at: usize) {
        let (text, ends) = (&self.text, &self.ends);
        let Some(Index { positions, seed }) = self.index.as_deref_mut() else { return };
        let hash = |at: usize| seed.hash_one(key_at(text, ends, at).unwrap_or_default());
        match u32::try_from(at) {
            Ok(number) => _ = positions.insert_unique(hash(at), number, |&other| hash(other as usize)),
            Err(_) => self.index = None,
        }
    }
}

fn key_at<'a>(text: &'a str, ends: &[usize], at: usize) -> Option<&'a str> {
    let begin = at.checked_sub(1).map_or(Some(0), |before| ends.get(before).copied())?;
    text.get(begin..*ends.get(at)?)
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
