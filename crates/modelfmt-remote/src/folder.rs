//! The files in the same folder as a file, for asynchronous readers of sets.

use std::io;

use modelfmt_core::FetchFiles;
use modelfmt_core::source::check_relative;

use crate::object::Object;
use crate::store::Store;
use crate::url::Location;

/// The files in the same folder as a file, such as the files of a set next to its index. They are requested
/// without the query string of the URL of that file.
#[derive(Clone, Debug)]
pub struct SiblingFiles {
    store: Store,
    place: Location,
}

impl SiblingFiles {
    /// Returns the files in the same folder as `place`.
    #[must_use]
    pub const fn new(store: Store, place: Location) -> Self {
        Self { store, place }
    }
}

impl FetchFiles for SiblingFiles {
    type File = Object;

    async fn fetch_file(&self, path: &str) -> io::Result<Object> {
        check_relative(path).map_err(|fault| io::Error::new(io::ErrorKind::InvalidInput, fault))?;
        Ok(self.store.open(&self.place.sibling(path)).await?)
    }
}
