//! Opens files.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;

use super::{AsyncReader, OpenFile, Reader};
use crate::error::Error;
use crate::fetch::Fetch;
use crate::file_index::FileIndex;
use crate::options::OpenOptions;
#[cfg(not(target_arch = "wasm32"))]
use crate::source::FileSource;
use crate::source::Source;

impl<I: FileIndex> OpenOptions<I> {
    /// Opens the file at `path`. Only its index is read now; tensors are read on demand.
    ///
    /// # Errors
    /// [`Error::Open`] if the file cannot be opened; the errors of [`open_source`](Self::open_source).
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Reader<OpenFile<I, FileSource>>, Error<I::Fault>> {
        let path = path.as_ref();
        let failed = |source| Error::Open { path: path.display().to_string(), source };
        self.open_source(FileSource::open(path).map_err(failed)?)
    }

    /// Opens the file that `source` holds: a slice, a buffer, a map, or your own source. Only its index is
    /// read.
    ///
    /// # Errors
    /// If the source cannot be read, breaks a rule of the format, or exceeds a limit.
    pub fn open_source<S: Source>(&self, source: S) -> Result<Reader<OpenFile<I, S>>, Error<I::Fault>> {
        Reader::<OpenFile<I, S>>::open_source(source, self.settings())
    }

    /// Opens the file that an asynchronous source holds. Only its index is read.
    ///
    /// # Errors
    /// If the source cannot be read, breaks a rule of the format, or exceeds a limit.
    pub async fn open_async<S: Fetch>(
        &self,
        source: S,
    ) -> Result<AsyncReader<OpenFile<I, S>>, Error<I::Fault>> {
        AsyncReader::open_source(source, self.settings()).await
    }
}
