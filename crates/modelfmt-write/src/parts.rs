//! Files of a set that are written separately, by workers that share only the plan.

use std::io;
use std::ops::Range;

use super::set::NewSet;
use super::sink::{NewFiles, Output};
use modelfmt_core::WriteError;

/// A file of a set that can be written separately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPart {
    /// The path, relative to the folder of the set's index.
    pub path: String,
    /// The numbers of the tensors in the file, in the order of their descriptions.
    pub tensors: Range<usize>,
}

impl SetPart {
    /// Describes the file at `path`, which holds `count` tensors from number `first` on.
    #[must_use]
    pub fn new(path: impl Into<String>, first: usize, count: usize) -> Self {
        Self { path: path.into(), tensors: first..first.saturating_add(count) }
    }
}

/// The result of writing a file of a set separately, which the index needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenPart {
    /// The length of the file in bytes.
    pub nbytes: u64,
    /// The hashes of the file in the encoding of the format; empty if the index has none.
    pub digests: Vec<u8>,
}

/// Checks all names of a set that workers will write. If the set is replaced, removes the old index: until
/// the new index appears, the files do not form a set.
///
/// # Errors
/// [`WriteError::Write`] for the first file that cannot be created, or exists and may not be replaced.
pub fn begin_parts<N: NewFiles, F, S: AsRef<str>>(
    files: &N,
    index_name: &str,
    names: impl IntoIterator<Item = S>,
) -> Result<(), WriteError<F>> {
    let set = NewSet::begin(files, index_name, names)?;
    set.index().remove_old().map_err(failed(index_name))
}

/// Writes a file of a set, which appears when it is complete. Set `reads_back` if `write` reads back what it
/// has written.
///
/// # Errors
/// [`WriteError::Write`] if the file cannot be created, or exists and may not be replaced; the errors of
/// `write`.
pub fn write_part<N: NewFiles, F, T>(
    files: &N,
    path: &str,
    reads_back: bool,
    write: impl FnOnce(&N::Output) -> Result<T, WriteError<F>>,
) -> Result<T, WriteError<F>> {
    files.check(path).map_err(failed(path))?;
    let file = if reads_back { files.create_to_read_back(path) } else { files.create(path) };
    let file = file.map_err(failed(path))?;
    let done = write(&file)?;
    file.commit().map_err(failed(path))?;
    Ok(done)
}

/// Returns the error for a set that has no part with this number.
pub fn no_part<F>(index_name: &str, number: usize) -> WriteError<F> {
    unfit(index_name, format!("the set has no part {number}"))
}

/// Returns the error for parts that do not form a set of `count` files.
pub fn unfit_parts<F>(index_name: &str, count: usize) -> WriteError<F> {
    let text =
        format!("what is said of the parts fits no set of {count}; give what writing each of them returned");
    unfit(index_name, text)
}

fn unfit<F>(index_name: &str, text: String) -> WriteError<F> {
    WriteError::Write {
        path: index_name.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidInput, text),
    }
}

fn failed<F>(path: &str) -> impl FnOnce(io::Error) -> WriteError<F> {
    let path = path.to_owned();
    move |source| WriteError::Write { path, source }
}
