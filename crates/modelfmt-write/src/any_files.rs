//! Type-erased outputs: new files of a set behind one type, so that a writer can be a value.

use std::io;

use super::sink::{NewFiles, Output, Sink};

/// An [`Output`] of any type.
pub trait AnyOutput: Sink {
    /// See [`Output::read_back`].
    ///
    /// # Errors
    /// If these bytes were not written, or cannot be read.
    fn read_back(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// See [`Output::finish`].
    ///
    /// # Errors
    /// If the system cannot write the rest.
    fn finish(&mut self) -> io::Result<()>;

    /// See [`Output::remove_old`].
    ///
    /// # Errors
    /// If the old file cannot be removed.
    fn remove_old(&self) -> io::Result<()>;

    /// See [`Output::commit`].
    ///
    /// # Errors
    /// If the file cannot take its place.
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

/// A file of [`AnyNewFiles`].
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

/// [`NewFiles`] of any type.
pub trait AnyNewFiles {
    /// See [`NewFiles::check`].
    ///
    /// # Errors
    /// If the file cannot be there.
    fn check_any(&self, path: &str) -> io::Result<()>;

    /// See [`NewFiles::create`].
    ///
    /// # Errors
    /// If the file cannot be created.
    fn create_any(&self, path: &str) -> io::Result<BoxOutput<'_>>;

    /// See [`NewFiles::create_to_read_back`].
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
