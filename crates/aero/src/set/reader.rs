//! The readers of sets: the shared ones, with what only AEROSET has.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::source::Files;
use modelfmt_core::value::Object;

use super::SetIndex;
use super::index::HEAD;
use crate::error::{Error, Result};
use crate::reader::{OpenOptions, Reader};

modelfmt_core::set_reader! {
    "AEROSET", SetIndex, Reader, OpenOptions, Result, Object;

    /// An open AEROSET: its [`SetIndex`], the file that lists all tensors, and the parts. [`open`](Self::open) also takes the
    /// folder that they are in.
    pub struct SetReader<F>;

    /// An open AEROSET whose files arrive later, such as from an object store.
    pub struct AsyncSetReader<F>;
}

/// What only AEROSET has: a file that lists all tensors, and parts beside it.
impl<F: Files> SetReader<F> {
    /// The file that lists all tensors, with the model's metadata; it has no values.
    ///
    /// # Errors
    /// As [`shard`](Self::shard). A set that was opened by its path or files has it open already.
    pub fn global(&self) -> Result<&Reader<F::Source>> {
        self.shard(HEAD)
    }

    /// A part, counted from 0 as in [`SetIndex::parts`]; opened if it is not yet.
    ///
    /// # Errors
    /// If there is no such part, or it cannot be opened or breaks a rule.
    pub fn part(&self, number: usize) -> Result<&Reader<F::Source>> {
        if number >= self.index().parts().len() {
            return Err(Error::NotFound { name: format!("part number {number}") });
        }
        self.shard(number.saturating_add(1))
    }
}
