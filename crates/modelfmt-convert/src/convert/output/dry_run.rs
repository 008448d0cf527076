//! The files of a dry run, which are checked and not written.

use std::io;

use modelfmt_write::{Discard, NewFiles};

/// Refuses the files that others would refuse, and keeps nothing of those that it makes.
pub(crate) struct Rehearsed<N>(pub(crate) N);

impl<N: NewFiles> NewFiles for Rehearsed<N> {
    type Output = Discard;

    fn check(&self, path: &str) -> io::Result<()> {
        self.0.check(path)
    }

    fn create(&self, path: &str) -> io::Result<Discard> {
        self.0.check(path)?;
        Ok(Discard::named(path))
    }
}
