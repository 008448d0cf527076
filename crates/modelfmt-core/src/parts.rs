//! The files of a set: each is tried once, and its failure remembered; paths that lead to one file share its index.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::error::Error;
use crate::source::{FileId, Source};

/// A file of a set, or why it cannot be opened.
type Slot<R, F> = OnceLock<Result<R, Error<F>>>;

/// The readers of a set's files, opened when they are asked for.
///
/// A small index can list many tensors for one damaged file, and many paths (links) to one large file: neither may take work or
/// memory for each.
#[derive(Debug)]
pub struct Parts<R, I, F> {
    slots: Vec<Slot<R, F>>,
    indexes: Mutex<BTreeMap<FileId, Arc<I>>>,
    /// By which of its numbers a file is known to those who do something once for each file.
    numbers: Mutex<BTreeMap<FileId, usize>>,
}

impl<R, I, F: Clone> Parts<R, I, F> {
    /// `count` files, none of them open.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let slots = (0..count).map(|_| OnceLock::new()).collect();
        Self { slots, indexes: Mutex::default(), numbers: Mutex::default() }
    }

    /// The number of files.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The reader of a file; `open` is called if it was not before.
    ///
    /// # Errors
    /// That of `open`, each time; [`Error::NotFound`] if there is no such file.
    pub fn get(&self, number: usize, open: impl FnOnce() -> Result<R, Error<F>>) -> Result<&R, Error<F>> {
        let slot = self.slots.get(number);
        let slot = slot.ok_or_else(|| Error::NotFound { name: format!("file number {number}") })?;
        slot.get_or_init(open).as_ref().map_err(Error::again)
    }

    /// One number for all paths that lead to one file: the number of the first of them that was asked about.
    pub fn one_number<S: Source + ?Sized>(&self, number: usize, source: &S) -> usize {
        let Some(id) = source.id() else { return number };
        *self.numbers.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_insert(number)
    }

    /// The index of what a source holds: one that is known from another path to the same file, else what `parse` makes of it.
    ///
    /// # Errors
    /// That of `parse`.
    pub fn index<S: Source>(
        &self,
        source: &S,
        parse: impl FnOnce(&S) -> Result<Arc<I>, Error<F>>,
    ) -> Result<Arc<I>, Error<F>> {
        let Some(id) = source.id() else { return parse(source) };
        if let Some(known) = self.indexes.lock().unwrap_or_else(PoisonError::into_inner).get(&id) {
            return Ok(Arc::clone(known));
        }
        let index = parse(source)?;
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(indexes.entry(id).or_insert(index)))
    }
}
