//! The files of a dry run, which are checked but not written.

use std::io;

use modelfmt_write::{Discard, NewFiles};

/// Fails to create a file if the inner `NewFiles` would fail, and discards what is written.
pub(crate) struct DryRunFiles<N>(pub(crate) N);

impl<N: NewFiles> NewFiles for DryRunFiles<N> {
    type Output = Discard;

    fn check(&self, path: &str) -> io::Result<()> {
        self.0.check(path)
    }

    fn create(&self, path: &str) -> io::Result<Discard> {
        self.0.check(path)?;
        Ok(Discard::named(path))
    }
}
