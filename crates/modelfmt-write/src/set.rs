//! Writes the files of a set one after another, and lets them appear in the right order.

use std::io;

use super::sink::{NewFiles, Output, Sink};
use modelfmt_core::WriteError;

/// A set that is being written: its files, one after another, and its index. No file appears before
/// [`commit`](Self::commit). Dropping the set leaves nothing behind.
///
/// A file that is [`done`](Self::done) is closed, so a set may have more files than a process may have open.
#[derive(Debug)]
pub struct NewSet<'a, N: NewFiles> {
    files: &'a N,
    index_name: &'a str,
    index: N::Output,
    done: Vec<(String, N::Output)>,
}

impl<'a, N: NewFiles> NewSet<'a, N> {
    /// Checks all names, of the set's files and of its index, before any work is done.
    ///
    /// # Errors
    /// [`WriteError::Write`] for the first file that cannot be created, or exists and may not be replaced.
    pub fn begin<F, S: AsRef<str>>(
        files: &'a N,
        index_name: &'a str,
        names: impl IntoIterator<Item = S>,
    ) -> Result<Self, WriteError<F>> {
        check(files, index_name)?;
        names.into_iter().try_for_each(|name| check(files, name.as_ref()))?;
        // The index is created first. Its lock keeps other writers away while the other files are closed.
        let index = files.create(index_name).map_err(failed(index_name))?;
        Ok(Self { files, index_name, index, done: Vec::new() })
    }

    /// Returns the index, for a format that writes its index piece by piece like the other files.
    #[must_use]
    pub const fn index(&self) -> &N::Output {
        &self.index
    }

    /// Begins a file of the set.
    ///
    /// # Errors
    /// [`WriteError::Write`] if the file cannot be created.
    pub fn create<F>(&self, name: &str) -> Result<N::Output, WriteError<F>> {
        self.files.create(name).map_err(failed(name))
    }

    /// Begins a file of the set that will be read back before it is complete.
    ///
    /// # Errors
    /// [`WriteError::Write`] if the file cannot be created.
    pub fn create_to_read_back<F>(&self, name: &str) -> Result<N::Output, WriteError<F>> {
        self.files.create_to_read_back(name).map_err(failed(name))
    }

    /// Closes a complete file and adds it to the set.
    ///
    /// # Errors
    /// [`WriteError::Write`] if the bytes cannot be flushed.
    pub fn done<F>(&mut self, name: &str, mut file: N::Output) -> Result<(), WriteError<F>> {
        file.finish().map_err(failed(name))?;
        self.done.push((name.to_owned(), file));
        Ok(())
    }

    /// Writes the index and lets the files appear, the index last, so a set that has an index is complete. If
    /// a set is replaced, its old index is removed before any of its files. A killed writer then leaves no
    /// index, instead of an old index with some new files.
    ///
    /// # Errors
    /// [`WriteError::Write`] if a file has appeared since and may not be replaced; then no file appears. Also
    /// if a file cannot appear for another reason; then the files after it do not appear either.
    pub fn commit<F>(self, text: &[u8]) -> Result<(), WriteError<F>> {
        let Self { files, index_name, mut index, done } = self;
        index.write_at(0, text).map_err(failed(index_name))?;
        index.finish().map_err(failed(index_name))?;
        #[cfg(not(target_arch = "wasm32"))]
        let _appearing = super::unfinished::commit_guard();
        check(files, index_name)?;
        done.iter().try_for_each(|(name, _)| check(files, name))?;
        index.remove_old().map_err(failed(index_name))?;
        for (name, file) in done {
            file.commit().map_err(failed(&name))?;
        }
        index.commit().map_err(failed(index_name))
    }
}

fn check<N: NewFiles, F>(files: &N, name: &str) -> Result<(), WriteError<F>> {
    files.check(name).map_err(failed(name))
}

fn failed<F>(name: &str) -> impl FnOnce(io::Error) -> WriteError<F> {
    let path = name.to_owned();
    move |source| WriteError::Write { path, source }
}
