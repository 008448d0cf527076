//! The files of a set. Each is opened once, and a failure is remembered. Several paths to one file share its
//! index.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::error::Error;
use crate::source::FileId;

/// A file of a set, or the error of opening it.
type Slot<R, F> = OnceLock<Result<R, Error<F>>>;

/// The readers of a set's files, which are opened on demand.
///
/// A small index can list many tensors in one damaged file, or many paths (links) to one large file. Neither
/// may cause the same work or memory use more than once.
pub(crate) struct Parts<R, I, F> {
    slots: Vec<Slot<R, F>>,
    indexes: Mutex<BTreeMap<FileId, Arc<I>>>,
    /// The number of each file identity, for work that is done once per file.
    numbers: Mutex<BTreeMap<FileId, usize>>,
}

impl<R, I, F> fmt::Debug for Parts<R, I, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parts({})", self.slots.len())
    }
}

impl<R, I, F: Clone> Parts<R, I, F> {
    /// Creates the slots for `count` files, none of them open.
    pub(crate) fn new(count: usize) -> Self {
        let slots = (0..count).map(|_| OnceLock::new()).collect();
        Self { slots, indexes: Mutex::default(), numbers: Mutex::default() }
    }

    /// Returns the number of files.
    pub(crate) const fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the reader of a file. Calls `open` if the file is not open yet.
    ///
    /// # Errors
    /// The error of `open`, on every call; [`Error::NotFound`] if there is no such file.
    pub(crate) fn get(
        &self,
        number: usize,
        open: impl FnOnce() -> Result<R, Error<F>>,
    ) -> Result<&R, Error<F>> {
        self.slot(number)?.get_or_init(open).as_ref().map_err(Error::duplicate)
    }

    /// Returns the reader of a file, if the file is already open.
    ///
    /// # Errors
    /// The error of opening the file; [`Error::NotFound`] if there is no such file.
    pub(crate) fn known(&self, number: usize) -> Result<Option<&R>, Error<F>> {
        match self.slot(number)?.get() {
            Some(opened) => opened.as_ref().map(Some).map_err(Error::duplicate),
            None => Ok(None),
        }
    }

    fn slot(&self, number: usize) -> Result<&Slot<R, F>, Error<F>> {
        let slot = self.slots.get(number);
        slot.ok_or_else(|| Error::NotFound { name: format!("file number {number}") })
    }

    /// Returns one number for all paths that lead to one file: the first number that was queried.
    pub(crate) fn one_number(&self, number: usize, id: Option<FileId>) -> usize {
        let Some(id) = id else { return number };
        *self.numbers.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_insert(number)
    }

    /// Returns the index of a file that was opened by another path.
    pub(crate) fn index(&self, id: Option<FileId>) -> Option<Arc<I>> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner).get(&id?).map(Arc::clone)
    }

    /// Keeps the index of a file for other paths to it. Returns the index that is kept.
    pub(crate) fn keep_index(&self, id: Option<FileId>, index: Arc<I>) -> Arc<I> {
        let Some(id) = id else { return index };
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(indexes.entry(id).or_insert(index))
    }
}
