//! The readers of sets: the shared ones, with what only AEROSET has.

use std::ops::Deref;
#[cfg(not(target_arch = "wasm32"))]
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt_core::source::Files;
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_core::source::Folder;
use modelfmt_core::value::Object;
use modelfmt_core::{Report, Source, TensorTable, TensorView, VerifyLevel, now};

use super::SetIndex;
use super::index::HEAD;
use crate::error::{Error, Result};
use crate::index::Index;
use crate::reader::{OpenOptions, Reader};

/// An open set whose files may have to be waited for.
pub type AsyncSetReader<F> = modelfmt_core::AsyncSetReader<SetIndex, F>;

/// An open set: the shared [`SetReader`](modelfmt_core::SetReader), to whose words it leads, with parts and metadata.
///
/// Opening reads the index of the set and the tensor index of `index.aero`; a part is opened when one of its tensors is
/// asked for.
#[derive(Debug)]
pub struct SetReader<F: Files> {
    set: modelfmt_core::SetReader<SetIndex, F>,
    tensors: Arc<Index>,
}

modelfmt_core::set_container!(SetReader<F>, set);

impl<F: Files> Deref for SetReader<F> {
    type Target = modelfmt_core::SetReader<SetIndex, F>;

    fn deref(&self) -> &Self::Target {
        &self.set
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl SetReader<Folder> {
    /// Opens the set whose index stands at `path`, or in the folder at `path`.
    ///
    /// # Errors
    /// If index or tensor index cannot be read or break a rule; for a folder also if it has not one file `*.aeroset.json`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &OpenOptions::new())
    }

    /// As [`open`](Self::open), with options of your own.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let path = path.as_ref();
        let failed = |source| Error::Open { path: path.display().to_string(), source };
        let index = index_path(path).map_err(failed)?;
        modelfmt_core::SetReader::open_with(index, &options.shared).and_then(Self::new)
    }
}

/// The one index of a folder, or the file itself.
#[cfg(not(target_arch = "wasm32"))]
fn index_path(path: &Path) -> std::io::Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let usual = path.join("model.aeroset.json");
    if usual.is_file() {
        return Ok(usual);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?.path();
        let name = entry.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".aeroset.json") {
            found.push(entry);
        }
    }
    match found.pop() {
        Some(one) if found.is_empty() => Ok(one),
        one => {
            let what = if one.is_some() { "more than one file" } else { "no file" };
            let text = format!("the folder has {what} named *.aeroset.json; give the index itself");
            Err(std::io::Error::new(std::io::ErrorKind::NotFound, text))
        }
    }
}

impl<F: Files> SetReader<F> {
    /// Opens the set whose index is the file `index` of `files`.
    ///
    /// # Errors
    /// If index or tensor index cannot be read or break a rule.
    pub fn from_files(files: F, index: &str) -> Result<Self> {
        modelfmt_core::SetReader::from_files(files, index).and_then(Self::new)
    }

    /// Opens the set whose index is what `source` holds, and whose files `files` opens.
    ///
    /// # Errors
    /// As [`from_files`](Self::from_files).
    pub fn from_source(source: &(impl Source + ?Sized), files: F, options: &OpenOptions) -> Result<Self> {
        modelfmt_core::SetReader::from_source(source, files, &options.shared).and_then(Self::new)
    }

    fn new(set: modelfmt_core::SetReader<SetIndex, F>) -> Result<Self> {
        let tensors = Arc::clone(set.shard(HEAD)?.index());
        Ok(Self { set, tensors })
    }

    /// What the index of the set says.
    #[must_use]
    pub const fn set(&self) -> &Arc<SetIndex> {
        self.set.index()
    }

    /// The file that lists all tensors, with the model's metadata; it has no values.
    ///
    /// # Errors
    /// None: it is open.
    pub fn global(&self) -> Result<&Reader<F::Source>> {
        self.set.shard(HEAD)
    }

    /// What the global tensor index says.
    #[must_use]
    pub const fn index(&self) -> &Arc<Index> {
        &self.tensors
    }

    /// A part, opened if it is not yet. One that cannot be opened is tried once.
    ///
    /// # Errors
    /// If there is no such part, or it cannot be opened or breaks a rule.
    pub fn part(&self, number: usize) -> Result<&Reader<F::Source>> {
        if number >= self.set().parts().len() {
            return Err(Error::NotFound { name: format!("part number {number}") });
        }
        self.set.shard(number + 1)
    }

    /// The tensors in the order of the global tensor index.
    #[must_use]
    pub fn tensors(&self) -> &TensorTable {
        self.tensors.tensors()
    }

    /// The tensor of that name with its values. No hash is looked at.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Io`], [`Error::Open`] for a part that is missing; if no part has its shard, or the
    /// part disagrees about it.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        self.set.tensor(name)
    }

    /// The tensor of that name with its values, checked by the `hash_b3` of the global tensor index and by the hashes that its
    /// part has.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor) and [`Reader::tensor_checked`].
    pub fn tensor_checked(&self, name: &str) -> Result<TensorView<'_>> {
        self.set.tensor_checked(name)
    }

    /// Fills `out` with the values of the tensor at a position, from byte `offset` of them on. No hash is looked at.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor); [`Error::OutOfRange`].
    pub fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        self.set.read_into(position, offset, out)
    }

    /// The model's metadata: the MJSN of `index.aero`.
    ///
    /// # Errors
    /// As [`Reader::json`].
    pub fn json(&self) -> Result<Option<Object>> {
        self.of_global(async |index, source| index.json(source).await)
    }

    /// The model's metadata: the JSON of `index.aero`; empty if it has none.
    ///
    /// # Errors
    /// As [`json`](Self::json).
    pub fn metadata(&self) -> Result<Object> {
        self.json().map(Option::unwrap_or_default)
    }

    fn of_global<T>(&self, read: impl AsyncFnOnce(&Index, &F::Source) -> Result<T>) -> Result<T> {
        let global = self.global()?;
        now(read(global.index(), global.source())).map_err(|error| error.in_file(&self.set().file_part(HEAD)))
    }

    /// Checks the index and every file, on all cores, and reports every finding.
    pub fn verify(&self, level: VerifyLevel) -> Report {
        self.set.verify(level)
    }
}
