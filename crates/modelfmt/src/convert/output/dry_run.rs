//! Files that are written to nowhere.

use std::io;

use modelfmt_core::write::{NewFiles, Output, Sink};

/// Refuses the files that others would refuse, and keeps nothing of those that it makes.
pub(crate) struct Rehearsed<N>(pub(crate) N);

impl<N: NewFiles> NewFiles for Rehearsed<N> {
    type Output = Nowhere;

    fn check(&self, path: &str) -> io::Result<()> {
        self.0.check(path)
    }

    fn create(&self, path: &str) -> io::Result<Nowhere> {
        self.0.check(path)?;
        Ok(Nowhere)
    }
}

/// A file of which nothing is kept.
pub(crate) struct Nowhere;

impl Sink for Nowhere {
    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

impl Output for Nowhere {
    /// A hash that needs the bytes again is another than that of the file would be. As it is not kept either, only its length counts.
    fn read_back(&self, _: u64, out: &mut [u8]) -> io::Result<()> {
        out.fill(0);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn remove_old(&self) -> io::Result<()> {
        Ok(())
    }

    fn commit(self) -> io::Result<()> {
        Ok(())
    }
}
