//! Type-erased outputs, so that a writer needs no type parameter for the new files of a set.

use std::io;

use super::sink::{NewFiles, Output, Sink};

/// An [`Output`] as a trait object.
pub trait AnyOutput: Sink {
    /// Reads back bytes that have been written; see [`Output::read_back`].
    ///
    /// # Errors
    /// If the bytes were not written, or cannot be read.
    fn read_back(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Flushes the bytes to the disk; see [`Output::finish`].
    ///
    /// # Errors
    /// If the remaining bytes cannot be written.
    fn finish(&mut self) -> io::Result<()>;

    /// Removes the file that will be replaced; see [`Output::remove_old`].
    ///
    /// # Errors
    /// If the old file cannot be removed.
    fn remove_old(&self) -> io::Result<()>;

    /// Lets the file appear; see [`Output::commit`].
    ///
    /// # Errors
    /// If the file cannot appear under its name.
    fn commit(self: Box<Self>) -> io::Result<()>;
}

impl<O: Output> AnyOutput for O {
    fn read_back(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        Output::read_back(self, offset, out)
    }
    fn finish(&mut self) -> io::Result<()> {
        Output::finish(self)
    }
    fn remove_old(&self) -> io::Result<()> {
        Output::remove_old(self)
    }
    fn commit(self: Box<Self>) -> io::Result<()> {
        Output::commit(*self)
    }
}

/// A new file of [`AnyNewFiles`].
pub struct BoxOutput<'a>(Box<dyn AnyOutput + 'a>);

impl std::fmt::Debug for BoxOutput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BoxOutput({})", self.0.name())
    }
}

impl Sink for BoxOutput<'_> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }
    fn name(&self) -> String {
        self.0.name()
    }
}

impl Output for BoxOutput<'_> {
    fn read_back(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_back(offset, out)
    }
    fn finish(&mut self) -> io::Result<()> {
        self.0.finish()
    }
    fn remove_old(&self) -> io::Result<()> {
        self.0.remove_old()
    }
    fn commit(self) -> io::Result<()> {
        self.0.commit()
    }
}

/// [`NewFiles`] as a trait object.
pub trait AnyNewFiles {
    /// Checks whether a file could be created; see [`NewFiles::check`].
    ///
    /// # Errors
    /// If the file may not be created.
    fn check_any(&self, path: &str) -> io::Result<()>;

    /// Begins a new file; see [`NewFiles::create`].
    ///
    /// # Errors
    /// If the file cannot be created.
    fn create_any(&self, path: &str) -> io::Result<BoxOutput<'_>>;

    /// Begins a new file that is read back; see [`NewFiles::create_to_read_back`].
    ///
    /// # Errors
    /// If the file cannot be created.
    fn create_any_to_read_back(&self, path: &str) -> io::Result<BoxOutput<'_>>;
}

impl<N: NewFiles> AnyNewFiles for N {
    fn check_any(&self, path: &str) -> io::Result<()> {
        self.check(path)
    }
    fn create_any(&self, path: &str) -> io::Result<BoxOutput<'_>> {
        Ok(BoxOutput(Box::new(self.create(path)?)))
    }
    fn create_any_to_read_back(&self, path: &str) -> io::Result<BoxOutput<'_>> {
        Ok(BoxOutput(Box::new(self.create_to_read_back(path)?)))
    }
}

impl<'a> NewFiles for &'a dyn AnyNewFiles {
    type Output = BoxOutput<'a>;
    fn check(&self, path: &str) -> io::Result<()> {
        (**self).check_any(path)
    }
    fn create(&self, path: &str) -> io::Result<Self::Output> {
        (**self).create_any(path)
    }
    fn create_to_read_back(&self, path: &str) -> io::Result<Self::Output> {
        (**self).create_any_to_read_back(path)
    }
}
