//! The set readers, and the methods that only AEROSET has.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::OpenSet;
use modelfmt_core::source::Files;

use super::SetIndex;
use super::index::HEAD;
use crate::error::{Error, Result};
use crate::reader::Reader;

/// An open AEROSET: its [`SetIndex`], the file that lists all tensors, and the parts. [`open`](Self::open) also accepts the
/// folder of the set.
pub type SetReader<F> = modelfmt_core::Reader<OpenSet<SetIndex, F>>;

/// An open AEROSET whose files are asynchronous, such as in an object store.
pub type AsyncSetReader<F> = modelfmt_core::AsyncReader<OpenSet<SetIndex, F>>;

/// Methods that only AEROSET has: for the file that lists all tensors, and for the parts.
pub trait SetReaderExt {
    /// The source of a file's bytes.
    type Source;

    /// Returns the file that lists all tensors. It has the model's metadata and no values.
    ///
    /// # Errors
    /// If the file is missing or broken. This cannot happen if the set was opened by its path or files,
    /// because the file is already open then.
    fn global(&self) -> Result<&Reader<Self::Source>>;

    /// Returns a part, opening it if necessary. Parts are counted from 0 as in [`SetIndex::parts`].
    ///
    /// # Errors
    /// If there is no such part, it cannot be opened, or it breaks a rule.
    fn part(&self, number: usize) -> Result<&Reader<Self::Source>>;
}

impl<F: Files> SetReaderExt for SetReader<F> {
    type Source = F::Source;

    fn global(&self) -> Result<&Reader<F::Source>> {
        self.shard(HEAD)
    }

    fn part(&self, number: usize) -> Result<&Reader<F::Source>> {
        if number >= self.index().parts().len() {
            return Err(Error::NotFound { name: format!("part number {number}") });
        }
        self.shard(number.saturating_add(1))
    }
}
